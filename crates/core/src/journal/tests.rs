//! The journal, and its messages about faults.

use super::format::FILE_HEADER_BYTES;
use super::*;
use proptest::prelude::*;

const SCHEMA: u32 = 3;

type Record = (u64, String);
type Group = Vec<Record>;
/// The journal, the numbers of its groups, and the findings at its opening.
type Opened = Result<(Journal<Record>, Vec<u64>, Recovered), JournalError>;

fn group(number: u64) -> Group {
    (0..=number % 3).map(|part| (number, format!("part {part} of group {number}"))).collect()
}

/// Opens the journal and reads it as numbers of groups, in order.
fn open_in(storage: Arc<dyn Storage>) -> Opened {
    let mut found: Group = Vec::new();
    let (journal, recovered) = Journal::open(storage, SCHEMA, |record| found.push(record))?;
    let mut numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    let expected: Group = numbers.iter().flat_map(|number| group(*number)).collect();
    assert_eq!(found, expected, "every group is whole");
    Ok((journal, numbers, recovered))
}

/// Opens the journal as [`open_in`] does, for an owner that accepts losses.
fn open_accepting(storage: Arc<dyn Storage>) -> Opened {
    let mut found: Group = Vec::new();
    let apply = |record| found.push(record);
    let (journal, recovered) = Journal::open_accepting(storage, SCHEMA, (Losses::Accepted, 0), apply)?;
    let mut numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    Ok((journal, numbers, recovered))
}

/// Opens the journal in memory as [`open_in`] does.
fn open(storage: MemoryStorage) -> Opened {
    open_in(Arc::new(storage))
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
    let logs: Vec<&String> = names.iter().filter(|name| name.starts_with("log-")).collect();
    assert_eq!(logs.len(), 1, "{names:?}");
    logs[0].clone()
}

fn length(storage: &MemoryStorage, name: &str) -> u64 {
    storage.open(name).and_then(|file| file.length()).expect("a file")
}

fn message<T>(result: Result<T, JournalError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn appended_groups_come_back_in_order() {
    let storage = MemoryStorage::new();
    for start in 0..4 {
        let (mut journal, found, recovered) = open(storage.clone()).expect("it opens");
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
            let names: Vec<String> = journal.storage.names().expect("names");
            assert_eq!(names.len(), 3, "the mark, the snapshot and the new log: {names:?}");
        }
    }
}

#[test]
fn a_start_without_changes_leaves_no_files_behind() {
    let storage = MemoryStorage::new();
    for _ in 0..5 {
        drop(open(storage.clone()).expect("it opens"));
    }
    assert_eq!(storage.names().expect("names").len(), 2, "the mark and one log");
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
fn damage_is_refused_and_what_follows_can_be_given_up() {
    let storage = MemoryStorage::new();
    let (mut journal, _, _) = open(storage.clone()).expect("it opens");
    let mut ends = Vec::new();
    for number in 1..=6 {
        journal.append(&group(number)).expect("there is room");
        ends.push(journal.log_bytes());
    }
    let name = journal.current.name.to_string();
    let log = storage.describe(&name);
    drop(journal);
    drop(open(storage.clone()).map(|(mut journal, ..)| journal.append(&group(7))));
    storage.damage(&name, |bytes| bytes[ends[2] as usize + 30] ^= 0x10).expect("a log");

    let refused = message(open(storage.clone()));
    assert!(refused.contains(&format!("at byte {} of {log}", ends[2])), "{refused}");
    assert!(refused.contains("give up 4 groups of changes from number 4 on"), "{refused}");
    assert!(refused.contains("of which 3 were on stable storage"), "{refused}");
    let accepted = open_accepting(Arc::new(storage.clone()));
    let (journal, found, recovered) = accepted.expect("the loss is accepted");
    assert_eq!((found, recovered.accepted_loss), (vec![1, 2, 3], true));
    assert!(recovered.notices[0].contains("4 groups of changes from number 4 on"), "{:?}", recovered.notices);
    drop(journal);
    let (mut journal, found, recovered) = open(storage).expect("it was given up for good");
    assert_eq!((found, recovered.notices), (vec![1, 2, 3], vec![]));
    assert_eq!(journal.append(&group(4)).expect("there is room"), Sequence(4));
}

/// A log that was cut lost changes that fsync had promised, in 19 of 24 cuts, and the notice called them "not durable".
#[test]
fn a_log_that_lost_durable_changes_is_refused_wherever_it_is_cut() {
    const DURABLE: u64 = 7;
    let storage = filled(9, DURABLE);
    let name = only_log(&storage);
    let durable_bytes = length(&filled(DURABLE, 0), &name);
    let mut refusals = 0;
    for cut in 0..=length(&storage, &name) {
        for lost_power in [false, true] {
            let end = storage.operations();
            let left = if lost_power {
                storage.after_power_loss(end, |units| units)
            } else {
                storage.after_kill(end)
            };
            left.damage(&name, |bytes| bytes.truncate(cut as usize)).expect("a file");
            let opened = open(left.clone());
            if cut >= durable_bytes {
                let (_, found, recovered) = opened.expect("nothing that was promised is missing");
                assert!(found.len() as u64 >= DURABLE);
                let notices = recovered.notices;
                assert!(notices
                    .iter()
                    .all(|one| one.contains("nothing that was on stable storage is missing")));
                continue;
            }
            refusals += 1;
            let refused = message(opened);
            assert!(
                refused.contains("restore the") && refused.contains("--accept-journal-loss"),
                "{refused}"
            );
            assert!(message(open(left.clone())).contains("on stable storage"), "a refusal changes nothing");
            let (mut journal, found, recovered) =
                open_accepting(Arc::new(left.clone())).expect("the loss is accepted");
            let lost = DURABLE - found.len() as u64;
            assert!(recovered.accepted_loss && lost > 0);
            let told = format!("{lost} groups of changes");
            assert!(
                recovered.notices.iter().any(|one| one.contains(&told)),
                "{told}: {:?}",
                recovered.notices
            );
            let next = found.len() as u64 + 1;
            journal.append(&group(next)).expect("there is room");
            drop(journal);
            assert_eq!(open(left).expect("it goes on").1, (1..=next).collect::<Vec<u64>>());
        }
    }
    assert_eq!(refusals, 2 * durable_bytes);
}

/// All files but the mark are gone, as after somebody put another directory in the place of the journal's.
#[test]
fn a_journal_without_its_logs_is_refused() {
    let storage = filled(3, 3);
    storage.remove(&only_log(&storage)).expect("a log");
    let refused = message(open(storage.clone()));
    assert!(refused.contains("3 groups of changes, from number 1 to 3"), "{refused}");
    assert_eq!(open_accepting(Arc::new(storage)).expect("the loss is accepted").1, Vec::<u64>::new());
}

/// An empty folder in place of the journal has no mark either: others know what it had.
#[test]
fn a_journal_without_its_mark_is_refused_by_what_others_know() {
    let refused = |witnessed| {
        let opened = Journal::open_accepting(
            Arc::new(MemoryStorage::new()),
            SCHEMA,
            (Losses::Refused, witnessed),
            |_: Record| {},
        );
        opened.err().map(|error| error.to_string())
    };
    assert_eq!(refused(0), None);
    let words = refused(712).expect("the journal lost all of it");
    assert!(words.contains("712 groups of changes, from number 1 to 712"), "{words}");
}

/// A power loss spoils at most the mark that was being written: the mark before that one is in the other slot.
#[test]
fn a_torn_mark_leaves_the_one_before_it() {
    let storage = MemoryStorage::new();
    let (mut journal, ..) = open(storage.clone()).expect("it opens");
    for number in 1..=5 {
        journal.append(&group(number)).expect("there is room");
        journal.sync().expect("it syncs");
    }
    drop(journal);
    for slot in [0, 4096] {
        let left = storage.after_kill(storage.operations());
        left.damage("durable", |bytes| bytes[slot + 20] ^= 0x80).expect("the mark");
        left.damage(&only_log(&left), |bytes| bytes.truncate(FILE_HEADER_BYTES)).expect("a log");
        let refused = message(open(left));
        assert!(
            refused.contains("4 were on") || refused.contains("to 4") || refused.contains("to 5"),
            "{refused}"
        );
    }
}

/// A power loss may take an earlier page and leave a later one: the hole is no damage, unless the earlier page was durable.
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
    assert!(journal.sync_begin().is_none() && !journal.wants_snapshot(0));
    assert_eq!(journal.append(&[]).expect("a read changes nothing"), Sequence(1));
    assert_eq!(open(storage).expect("it opens").1, [1]);
}

/// Once a sync had failed, the server answered EIO for ever. A renewal writes the state in memory anew.
#[test]
fn a_stopped_journal_begins_anew_once_the_device_works() {
    let storage = MemoryStorage::new();
    let (mut journal, ..) = open(storage.clone()).expect("it opens");
    assert!(journal.renewal_begin().expect("nothing to do").is_none(), "nothing failed");
    for number in 1..=3 {
        journal.append(&group(number)).expect("there is room");
    }
    storage.fail_sync(true);
    assert!(journal.sync().is_err() && journal.is_stopped());
    let renew = |journal: &mut Journal<Record>| {
        let mut writer = journal.renewal_begin().expect("there is room").expect("it is stopped");
        for record in (1..=3).flat_map(group) {
            writer.push(&record).expect("there is room");
        }
        let result = journal.renewal_seal(writer).run();
        journal.renewal_complete(result)
    };
    for _ in 0..3 {
        assert!(renew(&mut journal).is_err() && journal.is_stopped(), "the device still fails");
        assert!(matches!(journal.append(&group(4)), Err(JournalError::Stopped)));
        let left = storage.after_kill(storage.operations());
        left.fail_sync(false);
        assert_eq!(open(left).expect("the old files are in force").1, [1, 2, 3]);
    }
    storage.fail_sync(false);
    renew(&mut journal).expect("the device works");
    assert_eq!((journal.is_stopped(), journal.durable()), (false, Sequence(3)));
    assert_eq!(journal.append(&group(4)).expect("it goes on"), Sequence(4));
    journal.sync().expect("it syncs");
    // Bytes of the old logs that the failed sync may have lost do not matter any more.
    let left = storage.after_power_loss(storage.operations(), |_| 0);
    assert_eq!(open(left).expect("it opens").1, [1, 2, 3, 4]);
    let names = storage.names().expect("names");
    assert_eq!(names.len(), 3, "the mark, the snapshot and one log: {names:?}");
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
    let refused =
        Journal::<u8>::open(Arc::new(storage), SCHEMA + 1, |_| {}).expect_err("it is refused").to_string();
    assert!(refused.contains("format 1.3") && refused.contains("reads 1.4"), "{refused}");
}

#[test]
fn a_group_above_the_limit_is_refused() {
    let storage = MemoryStorage::new();
    let (mut journal, _) =
        Journal::open(Arc::new(storage.clone()), SCHEMA, |_: Vec<u8>| {}).expect("it opens");
    let refused = message(journal.append(&[vec![1; GROUP_BYTES / 2], vec![2; GROUP_BYTES / 2]]));
    assert!(refused.contains("limit"), "{refused}");
    journal.append(&[vec![1; GROUP_BYTES - 16]]).expect("the largest group");
    let mut found = Vec::new();
    Journal::open(Arc::new(storage), SCHEMA, |record: Vec<u8>| found.push(record.len())).expect("it opens");
    assert_eq!(found, [GROUP_BYTES - 16]);
}

#[test]
fn a_long_log_is_worth_a_snapshot_and_then_short() {
    let storage = MemoryStorage::new();
    let (mut journal, _) =
        Journal::open(Arc::new(storage.clone()), SCHEMA, |_: Vec<u8>| {}).expect("it opens");
    let record = vec![7; 1024 * 1024];
    let state_bytes = record.len() as u64;
    while !journal.wants_snapshot(state_bytes) {
        assert!(journal.log_bytes() <= LOG_BYTES);
        journal.append(std::slice::from_ref(&record)).expect("there is room");
    }
    journal.snapshot([&record]).expect("there is room");
    assert!(journal.log_bytes() < 100 && !journal.wants_snapshot(state_bytes));
    let mut count = 0;
    let (_, recovered) = Journal::open(Arc::new(storage), SCHEMA, |_: Vec<u8>| count += 1).expect("it opens");
    assert_eq!((count, recovered.snapshot_records, recovered.groups), (1, 1, 0));
}

/// A user once made 745 MiB of names and removed them again; the snapshot that had all of them stayed, and the next start read it.
#[test]
fn a_snapshot_of_things_that_are_gone_is_replaced_once() {
    const RECORDS: u64 = 40;
    let storage = MemoryStorage::new();
    let (mut journal, _) = Journal::open(Arc::new(storage), SCHEMA, |_: Vec<u8>| {}).expect("it opens");
    let record = vec![7; 1024 * 1024];
    let state_bytes = RECORDS * record.len() as u64;
    journal.snapshot(std::iter::repeat_n(&record, RECORDS as usize)).expect("there is room");
    let removal = vec![0; 1024];
    for _ in 0..8 {
        assert!(!journal.wants_snapshot(state_bytes), "the state is as large as its snapshot");
        journal.append(std::slice::from_ref(&removal)).expect("there is room");
    }
    assert!(journal.wants_snapshot(0));
    journal.snapshot([&removal]).expect("there is room");
    assert!(!journal.wants_snapshot(0), "nothing is left to be gained");
}

#[test]
fn bytes_count_as_unsynced_until_a_sync_that_began_later_is_complete() {
    let (mut journal, _, _) = open(MemoryStorage::new()).expect("it opens");
    journal.append(&group(1)).expect("there is room");
    let first = journal.unsynced_bytes();
    let ticket = journal.sync_begin().expect("there is something to sync");
    journal.append(&group(2)).expect("there is room");
    let both = journal.unsynced_bytes();
    assert!(0 < first && first < both);
    let result = ticket.run();
    journal.sync_complete(ticket, result).expect("synced");
    assert_eq!(journal.unsynced_bytes(), both - first);
    let writer = journal.snapshot_begin().expect("begun").expect("none runs");
    assert!(journal.unsynced_bytes() > 0, "the old log is not synced");
    let done = journal.snapshot_seal(writer).run();
    journal.snapshot_complete(done).expect("in force");
    assert_eq!(journal.unsynced_bytes(), 0);
}

proptest! {
    /// The journal refuses one changed byte in any file, or loses the last group at most.
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

    /// The journal refuses bytes that never were a journal, or finds nothing in them; they crash nothing.
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
