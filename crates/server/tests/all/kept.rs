//! What a user makes a server keep between requests ends at a bound, whatever the journal holds: the server lives on, others are
//! answered, removals always go on, and a start finds less to read afterwards.

use std::fs;
use weir_testing::{claims, dir, key, wait_until, Cluster, Line, Transport, READ_WRITE};
use weir_wire::{At, Errno, Ino, Reply, Request, XattrMode};

const EDQUOT: Errno = Errno(122);
const ENOSPC: Errno = Errno(28);
const USER: u32 = 1000;
const OTHER: u32 = 1001;
const VALUE_BYTES: usize = 60_000;
const VALUES_PER_FILE: usize = 4;
/// A snapshot of a small store, the log behind it, and a log that is being written: the journal of an empty store is no longer.
const EMPTY_JOURNAL_BYTES: u64 = 40 << 20;

fn of_user(cluster: &Cluster, uid: u32) -> Line {
    cluster.line(0, Transport::Unix, &key().mint(claims(uid)))
}

fn set(line: &mut Line, path: &str, name: &str) -> Result<(), Errno> {
    let (at, name) = (At::new(Ino::ROOT, path), name.as_bytes().to_vec());
    let request = Request::XattrSet { at, follow: false, name, mode: XattrMode::Set };
    match line.call(&request, &[7; VALUE_BYTES]).0 {
        Reply::Done => Ok(()),
        Reply::Failed(errno) => Err(errno),
        other => panic!("{other:?}"),
    }
}

/// Makes files of a name with as many large attributes as they take; answers the error at the end, and the number of files.
fn flood(line: &mut Line, prefix: &str) -> (Errno, usize) {
    for number in 0.. {
        let path = format!("{prefix}-{number}");
        match line.open(&path, READ_WRITE) {
            Ok(file) => line.close(&file),
            Err(errno) => return (errno, number),
        }
        for value in 0..VALUES_PER_FILE {
            if let Err(errno) = set(line, &path, &format!("user.{value}")) {
                return (errno, number + 1);
            }
        }
    }
    unreachable!()
}

fn remove(line: &mut Line, prefix: &str, count: usize) {
    for number in 0..count {
        assert_eq!(line.unlink(&format!("{prefix}-{number}"), false), Reply::Done);
    }
}

fn journal_bytes(cluster: &Cluster) -> u64 {
    let folder = cluster.home_of(0).join("journal");
    let files = fs::read_dir(folder).expect("a journal").filter_map(|entry| entry.ok()?.metadata().ok());
    files.map(|file| file.len()).sum()
}

fn bounded(memory: &str) -> String {
    format!("namespace_memory = \"{memory}\"\n{}", dir(1))
}

/// A flood of extended attributes once made a server end, and after all of it was removed it did not start.
#[test]
fn a_flood_of_attributes_ends_at_the_bound_over_restarts_and_leaves_nothing_behind() {
    let mut cluster = Cluster::start(&bounded("96MiB"));
    let mut user = of_user(&cluster, USER);
    let (errno, files) = flood(&mut user, "flood");
    assert_eq!(errno, EDQUOT);
    let (kept, most) = (cluster.figure(0, "kept_bytes"), cluster.figure(0, "kept_bytes_max"));
    assert!(most / 3 < kept && kept < most * 2 / 3, "{kept} of {most}");
    let mut other = of_user(&cluster, OTHER);
    let made = other.open("of-another", READ_WRITE).expect("room is left for others");
    other.close(&made);
    assert!(set(&mut other, "of-another", "user.own").is_ok());

    cluster.kill_server(0);
    cluster.start_server(0);
    let mut user = of_user(&cluster, USER);
    assert_eq!(
        set(&mut user, "flood-0", "user.more"),
        Err(ENOSPC),
        "an inode takes no more than four values"
    );
    let refused = user.open("flood-more", READ_WRITE).and_then(|_| set(&mut user, "flood-more", "user.more"));
    assert_eq!(refused, Err(EDQUOT));

    // A start that finds more than it may keep takes no more, and gives everything back.
    let path = cluster.folder().join("cluster.toml");
    let text = fs::read_to_string(&path).expect("a configuration").replace("96MiB", "4MiB");
    fs::write(&path, text).expect("written");
    cluster.kill_server(0);
    cluster.start_server(0);
    let mut other = of_user(&cluster, OTHER);
    assert_eq!(other.open("more-of-another", READ_WRITE).err(), Some(ENOSPC));
    assert!(other.attributes("of-another").is_ok());
    let mut user = of_user(&cluster, USER);
    remove(&mut user, "flood", files);
    wait_until("the memory is given back", || cluster.figure(0, "kept_bytes") < 4 << 20);
    wait_until("the journal is written anew", || journal_bytes(&cluster) < EMPTY_JOURNAL_BYTES);
    let made = other.open("more-of-another", READ_WRITE).expect("there is room again");
    other.close(&made);
}

/// Under a limit of its memory a server aborted. It takes its bound from the limit.
#[test]
fn a_server_under_a_limit_of_memory_outlives_users_and_administrators_who_flood_it() {
    const LIMIT_KIB: u64 = 3 << 19;
    let mut cluster = Cluster::start_within(&dir(1), &format!("-v {LIMIT_KIB}"));
    assert!(cluster.figure(0, "kept_bytes_max") < LIMIT_KIB << 8);
    assert_eq!(flood(&mut of_user(&cluster, USER), "user").0, EDQUOT);
    assert_eq!(flood(&mut of_user(&cluster, OTHER), "other").0, EDQUOT);
    let mut root = cluster.root(0);
    let (errno, files) = flood(&mut root, "root");
    assert_eq!(errno, ENOSPC);
    cluster.assert_running(0);
    assert!(of_user(&cluster, OTHER).attributes("user-0").is_ok());
    remove(&mut root, "root", files);
    cluster.kill_server(0);
    cluster.start_server(0);
    assert!(of_user(&cluster, OTHER).attributes("user-0").is_ok());
}

/// One attribute that was set over and over held everybody else's calls up for seconds, while the whole namespace was written.
#[test]
fn one_attribute_that_is_set_over_and_over_keeps_nobody_from_being_answered() {
    const SETS: usize = 3000;
    let cluster = Cluster::start(&dir(1));
    let mut user = of_user(&cluster, USER);
    let (file, mut other) = (user.open("file", READ_WRITE).expect("opened"), of_user(&cluster, OTHER));
    user.close(&file);
    let mut answered = 0;
    std::thread::scope(|scope| {
        let setting =
            scope.spawn(|| (0..SETS).for_each(|_| set(&mut user, "file", "user.one").expect("set")));
        while !setting.is_finished() {
            assert!(other.attributes("file").is_ok());
            answered += 1;
        }
    });
    // Each set goes to the device; a look at a file waits for none of them.
    assert!(answered > SETS / 100, "{answered} looks beside {SETS} sets");
    wait_until("the journal is written anew", || journal_bytes(&cluster) < EMPTY_JOURNAL_BYTES);
}
