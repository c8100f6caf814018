//! The journal in a real directory, and what it says when something is wrong.

use super::*;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

const SCHEMA: u32 = 3;
/// Set in the environment of the child that is killed.
const CHILD: &str = "WEIR_TEST_JOURNAL_CHILD";

type Record = (u64, String);
type Group = Vec<Record>;
/// The journal, the numbers of the groups in it, and what was found.
type Opened<S> = Result<(Journal<Record, S>, Vec<u64>, Recovered), JournalError>;

fn group(number: u64) -> Group {
    (0..=number % 3).map(|part| (number, format!("part {part} of group {number}"))).collect()
}

/// Opens the journal and reads it as numbers of groups, in order.
fn open<S: Storage>(storage: S) -> Opened<S> {
    let mut found: Group = Vec::new();
    let (journal, recovered) = Journal::open(storage, SCHEMA, |record| found.push(record))?;
    let mut numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    let expected: Group = numbers.iter().flat_map(|number| group(*number)).collect();
    assert_eq!(found, expected, "every group is whole");
    Ok((journal, numbers, recovered))
}

fn open_directory(path: &Path) -> Opened<DirectoryStorage> {
    open(DirectoryStorage::open(path)?)
}

/// A storage whose journal holds the groups 1 to `count`, the first `durable` of them durable.
fn filled(count: u64, durable: u64) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage.clone()).expect("an empty journal opens");
    for number in 1..=count {
        journal.append(&group(number)).expect("there is room");
        if number == durable {
            journal.sync().expect("the storage syncs");
        }
    }
    storage
}

fn only_log(storage: &MemoryStorage) -> String {
    let names = storage.names().expect("names");
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

fn length(storage: &MemoryStorage, name: &str) -> u64 {
    storage.open(name).and_then(|file| file.length()).expect("a file")
}

fn message<T>(result: Result<T, JournalError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn what_was_appended_comes_back_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state/journal");
    for start in 0..4 {
        let (mut journal, found, recovered) = open_directory(&path).expect("it opens");
        assert_eq!(found, (1..=start * 10).collect::<Vec<u64>>());
        let groups = if start == 3 { 0 } else { start * 10 };
        assert_eq!(
            (recovered.groups, recovered.notices),
            (groups, vec![]),
            "the snapshot holds the first 30"
        );
        for number in start * 10 + 1..=start * 10 + 10 {
            assert_eq!(journal.append(&group(number)).expect("there is room"), Sequence(number));
        }
        assert_eq!(journal.append(&[]).expect("nothing is always possible"), Sequence(start * 10 + 10));
        if start == 2 {
            let state: Group = (1..=30).flat_map(group).collect();
            journal.snapshot(&state).expect("there is room");
            let names: Vec<String> = DirectoryStorage::names(&journal.storage).expect("names");
            assert_eq!(names.len(), 3, "the lock, the snapshot and the new log: {names:?}");
        }
    }
}

#[test]
fn a_start_without_changes_leaves_no_files_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..5 {
        drop(open_directory(directory.path()).expect("it opens"));
    }
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 2, "the lock and one log");
}

#[test]
fn a_second_server_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open_directory(directory.path()).expect("it opens");
    let refused = message(open_directory(directory.path()));
    assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
    drop(first);
    open_directory(directory.path()).expect("the lock went with its holder");
}

#[test]
fn a_record_that_was_cut_short_is_dropped_with_a_notice() {
    let storage = filled(5, 0);
    let name = only_log(&storage);
    let whole = length(&storage, &name);
    let four = length(&filled(4, 0), &name);
    for cut in four + 1..whole {
        let left = storage.after_kill(storage.operations());
        left.damage(&name, |bytes| bytes.truncate(cut as usize)).expect("a file");
        let (_, found, recovered) = open(left.clone()).expect("it opens");
        assert_eq!(found, [1, 2, 3, 4]);
        assert!(recovered.notices[0].contains(&format!("at byte {four}")), "{:?}", recovered.notices);
        let (_, found, recovered) = open(left).expect("it opens");
        assert_eq!((found, recovered.notices), (vec![1, 2, 3, 4], vec![]), "the cut lasts");
    }
}

#[test]
fn damage_is_refused_and_the_hint_gives_up_what_follows() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut journal, _, _) = open_directory(directory.path()).expect("it opens");
    let mut ends = Vec::new();
    for number in 1..=6 {
        journal.append(&group(number)).expect("there is room");
        ends.push(journal.log_bytes());
    }
    let log = journal.storage.describe(&journal.current.name.to_string());
    drop(journal);
    drop(open_directory(directory.path()).map(|(mut journal, ..)| journal.append(&group(7))));
    let mut bytes = std::fs::read(&log).expect("a log");
    bytes[ends[2] as usize + 30] ^= 0x10;
    std::fs::write(&log, bytes).expect("a log");

    let refused = message(open_directory(directory.path()));
    assert!(refused.contains(&format!("at byte {} of {log}", ends[2])), "{refused}");
    let commands: Vec<&str> = refused.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 2, "cut this log and remove the next: {refused}");
    for command in commands {
        assert!(Command::new("sh").args(["-c", command]).status().expect("sh").success(), "{command}");
    }
    let (mut journal, found, _) = open_directory(directory.path()).expect("the hint helps");
    assert_eq!(found, [1, 2, 3]);
    assert_eq!(journal.append(&group(4)).expect("there is room"), Sequence(4));
}

/// A power loss may take an earlier page and leave a later one: that is no damage, unless the earlier one was durable.
#[test]
fn a_hole_after_a_power_loss_is_damage_only_where_it_was_durable() {
    for (durable, is_damage) in [(0, false), (2, false), (3, true), (5, true)] {
        let storage = filled(6, durable);
        let name = only_log(&storage);
        let (two, three) = (length(&filled(2, 0), &name) as usize, length(&filled(3, 0), &name) as usize);
        let left = storage.after_power_loss(storage.operations(), |units| units);
        left.damage(&name, |bytes| bytes[two..three].fill(0)).expect("a file");
        match open(left) {
            Ok((_, found, recovered)) => {
                assert!(!is_damage, "group 3 was durable");
                assert_eq!((found, recovered.notices.len()), (vec![1, 2], 1));
            }
            Err(error) => assert!(is_damage && error.to_string().contains("damaged"), "{error}"),
        }
    }
}

#[test]
fn a_full_device_fails_the_operation_and_nothing_else() {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage.clone()).expect("it opens");
    journal.append(&group(1)).expect("there is room");
    let frame = 24 + postcard::to_stdvec(&group(2)).expect("it encodes").len() - 1;
    for room in 0..frame {
        storage.limit(Some(storage.used_bytes() + room));
        let refused = message(journal.append(&group(2)));
        assert!(
            refused.starts_with("cannot append to memory/log-") && refused.contains("free space"),
            "{refused}"
        );
        let left = storage.after_kill(storage.operations());
        left.limit(None);
        assert_eq!(open(left).expect("it opens").1, [1]);
    }
    storage.limit(None);
    assert_eq!(journal.append(&group(2)).expect("there is room again"), Sequence(2));
    assert_eq!(open(storage).expect("it opens").1, [1, 2]);
}

#[test]
fn a_failed_snapshot_leaves_the_old_files_in_force() {
    let storage = filled(20, 20);
    let (mut journal, _, _) = open(storage.clone()).expect("it opens");
    storage.limit(Some(storage.used_bytes() + 150));
    let state: Group = (1..=20).flat_map(group).collect();
    let refused = message(journal.snapshot(&state));
    assert!(refused.contains("free space"), "{refused}");
    storage.limit(None);
    assert!(
        !storage.names().expect("names").iter().any(|name| name.contains("snapshot")),
        "its space is given back"
    );
    journal.append(&group(21)).expect("there is room");
    journal.snapshot((1..=21).flat_map(group).collect::<Group>().iter()).expect("there is room");
    assert_eq!(open(storage).expect("it opens").1, (1..=21).collect::<Vec<u64>>());
}

/// Linux tells of a failed write once and then forgets the bytes: a second fsync that succeeds proves nothing.
#[test]
fn a_failed_sync_stops_the_journal() {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage.clone()).expect("it opens");
    journal.append(&group(1)).expect("there is room");
    storage.fail_sync(true);
    assert!(message(journal.sync()).contains("sync"));
    storage.fail_sync(false);
    assert_eq!(journal.durable(), Sequence(0));
    assert!(matches!(journal.append(&group(2)), Err(JournalError::Stopped)));
    assert!(matches!(journal.sync(), Err(JournalError::Stopped)));
    assert!(journal.sync_begin().is_none() && !journal.wants_snapshot());
    assert_eq!(open(storage).expect("it opens").1, [1]);
}

#[test]
fn appends_during_a_sync_share_the_next_one() {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage).expect("it opens");
    assert!(journal.sync_begin().is_none(), "nothing to sync");
    journal.append(&group(1)).expect("there is room");
    let ticket = journal.sync_begin().expect("there is something to sync");
    journal.append(&group(2)).expect("there is room");
    assert!(journal.sync_begin().is_none(), "one at a time");
    assert_eq!(ticket.through(), Sequence(1));
    let result = ticket.run();
    journal.sync_complete(ticket, result).expect("it synced");
    assert_eq!((journal.durable(), journal.appended()), (Sequence(1), Sequence(2)));
    assert_eq!(journal.sync_begin().expect("the second append").through(), Sequence(2));
}

#[test]
fn a_clean_stop_syncs_also_beside_a_ticket() {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage.clone()).expect("it opens");
    journal.append(&group(1)).expect("there is room");
    let ticket = journal.sync_begin().expect("there is something to sync");
    journal.append(&group(2)).expect("there is room");
    journal.sync().expect("it syncs");
    assert_eq!(journal.durable(), Sequence(2));
    assert!(journal.sync_begin().is_none(), "the ticket is still out");
    drop(ticket);
    assert_eq!(open(storage.after_power_loss(storage.operations(), |_| 0)).expect("it opens").1, [1, 2]);
}

#[test]
fn records_of_another_version_are_named() {
    let storage = filled(1, 1);
    let refused = Journal::<u8, _>::open(storage, SCHEMA + 1, |_| {}).expect_err("it is refused").to_string();
    assert!(refused.contains("format 1.3") && refused.contains("reads 1.4"), "{refused}");
}

#[test]
fn a_group_above_the_limit_is_refused() {
    let storage = MemoryStorage::new();
    let (mut journal, _) = Journal::open(storage.clone(), SCHEMA, |_: Vec<u8>| {}).expect("it opens");
    let refused = message(journal.append(&[vec![1; GROUP_BYTES / 2], vec![2; GROUP_BYTES / 2]]));
    assert!(refused.contains("limit"), "{refused}");
    journal.append(&[vec![1; GROUP_BYTES - 16]]).expect("the largest group");
    let mut found = Vec::new();
    Journal::open(storage, SCHEMA, |record: Vec<u8>| found.push(record.len())).expect("it opens");
    assert_eq!(found, [GROUP_BYTES - 16]);
}

#[test]
fn a_long_log_is_worth_a_snapshot_and_then_short() {
    let storage = MemoryStorage::new();
    let (mut journal, _) = Journal::open(storage.clone(), SCHEMA, |_: Vec<u8>| {}).expect("it opens");
    let record = vec![7; 1024 * 1024];
    while !journal.wants_snapshot() {
        assert!(journal.log_bytes() <= LOG_BYTES);
        journal.append(std::slice::from_ref(&record)).expect("there is room");
    }
    journal.snapshot([&record]).expect("there is room");
    assert!(journal.log_bytes() < 100 && !journal.wants_snapshot());
    let mut count = 0;
    let (_, recovered) = Journal::open(storage, SCHEMA, |_: Vec<u8>| count += 1).expect("it opens");
    assert_eq!((count, recovered.snapshot_records, recovered.groups), (1, 1, 0));
}

/// The child of the next test: appends and says so, until it is killed.
#[test]
fn append_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let (mut journal, found, _) = open_directory(Path::new(&path)).expect("it opens");
    for number in found.len() as u64 + 1.. {
        journal.append(&group(number)).expect("there is room");
        println!("appended {number}");
        if number % 50 == 0 {
            let state: Group = (1..=number).flat_map(group).collect();
            journal.snapshot(&state).expect("there is room");
        }
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged = 0;
    for lines in [3, 57, 130, 211] {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--nocapture", "journal::tests::append_until_killed"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let said = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("appended ")?.parse().ok());
        acknowledged = said.take(lines).last().unwrap_or(acknowledged);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let (_, found, _) = open_directory(directory.path()).expect("it opens");
        assert!(found.len() as u64 >= acknowledged && acknowledged > 0, "{} of {acknowledged}", found.len());
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<u64>>());
    }
}

proptest! {
    /// One changed byte, in any file, is refused or costs the last group at most, whatever it hits.
    #[test]
    fn a_changed_byte_never_goes_unseen(file: prop::sample::Index, at: prop::sample::Index, flip in 1..=255u8, snapshot: bool) {
        let storage = filled(8, 4);
        let (mut journal, _, _) = open(storage.clone()).expect("it opens");
        if snapshot {
            journal.snapshot((1..=8).flat_map(group).collect::<Group>().iter()).expect("there is room");
        }
        for number in 9..=12 {
            journal.append(&group(number)).expect("there is room");
        }
        let names = storage.names().expect("names");
        let name: &String = file.get(&names);
        let at = at.index(length(&storage, name) as usize);
        storage.damage(name, |bytes| bytes[at] ^= flip).expect("a file");
        if let Ok((_, found, _)) = open(storage) {
            prop_assert_eq!(&found, &(1..=found.len() as u64).collect::<Vec<u64>>());
            prop_assert!(found.len() >= 11 || found.len() == 8, "{:?}", found);
        }
    }

    /// Bytes that never were a journal are refused or mean nothing; they crash nothing.
    #[test]
    fn any_bytes_are_read_without_harm(log in proptest::collection::vec(any::<u8>(), 0..400), keep in 0..100usize) {
        let storage = filled(3, 3);
        let name = only_log(&storage);
        storage.damage(&name, |bytes| {
            bytes.truncate(keep);
            bytes.extend(log);
        }).expect("a file");
        let _ = open(storage);
    }
}
