//! Writes to a file of which a mount holds pages: they wait for what was stored there, or are refused to who can write
//! through a mount.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_testing::{key, ram, random_client, Choices, Cluster, File, Line, Transport, READ_WRITE};
use weir_wire::{At, AttributeChange, FileChange, Reply, Request, Sequence};

const MIB: usize = 1 << 20;
/// Changes of a file with leases.
const ROUNDS: usize = 40;
/// The round from which on one mount confirms nothing.
const SILENT_FROM: usize = 20;
/// How long a mount takes to confirm, so that a reply which does not wait comes before.
const CONFIRMED_AFTER: Duration = Duration::from_millis(20);
/// A reply waits no longer for a mount.
const LATE: Duration = Duration::from_secs(2);

fn root() -> weir_wire::Credential {
    key().mint(weir_testing::claims(0))
}

/// A mount that holds pages of `file`.
fn holder(cluster: &Cluster) -> (Line, File) {
    let mut mount = cluster.root(0);
    let mut file = mount.open("file", READ_WRITE).expect("opened");
    mount.write(&mut file, 0, &vec![b'.'; 3 * MIB]).expect("written");
    assert_eq!(mount.reply(&Request::Watch { capability: file.capability }), Reply::Done);
    (mount, file)
}

/// Asks until the mount is told to drop the file's pages, and confirms what it is told of the size. The next question confirms the drop.
fn told(mount: &mut Line, mut done: Sequence, file: &File) -> Sequence {
    loop {
        mount.send(&Request::Invalidations { done }, &[]);
        match mount.receive().1 {
            Reply::Invalidate { sequence, files, .. } => {
                assert_eq!(files.iter().map(|change| change.ino).collect::<Vec<_>>(), [file.ino]);
                if files[0].pages {
                    return sequence;
                }
                done = sequence;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_write_is_not_covered_by_a_page_that_is_written_back_later() {
    // One write that comes with its header, and one with a payload that waits in the socket.
    for length in [3, MIB - 10] {
        let cluster = Cluster::start(&ram(1, "64MiB"));
        let (mut mount, mut file) = holder(&cluster);
        let mut writer = cluster.line(0, Transport::Unix, &root());
        let open = writer.open("file", READ_WRITE).expect("opened");
        let (request, _) = Line::write_requests(&open, 10, length).remove(0);
        std::thread::scope(|scope| {
            // A payload that the server leaves in the socket keeps its sender waiting.
            let written = scope.spawn(|| writer.call(&request, &vec![b'w'; length]).0);
            let before = told(&mut mount, Sequence(0), &file);
            let mut page = mount.read(&file, 0, 4096).expect("read");
            assert!(!page.contains(&b'w'), "the write of {length} bytes waits for the page");
            page[5] = b's';
            mount.write(&mut file, 0, &page).expect("written back");
            let after = told(&mut mount, before, &file);
            assert!(after > before, "pages that were read meanwhile go too");
            mount.send(&Request::Invalidations { done: after }, &[]);
            assert!(matches!(written.join(), Ok(Reply::Written { .. })));
        });
        // The question that is still open is answered when the next change comes.
        assert_eq!(writer.read(&open, 0, 13).expect("read"), b".....s....www");
    }
}

#[test]
fn who_can_write_through_a_mount_is_refused_beside_pages() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let (mut mount, file) = holder(&cluster);
    let connection = cluster.connection(0, Transport::Unix);
    let Ok(mut writer) = Line::prove_with(connection, &root(), (random_client(), 0), true) else {
        panic!("the server did not welcome the client")
    };
    let mut open = writer.open("file", READ_WRITE).expect("opened");
    assert_eq!(writer.write(&mut open, 0, b"xyz"), Err(Reply::PagesHeld));
    assert_eq!(
        writer.write(&mut open, 0, &vec![b'x'; MIB]),
        Err(Reply::PagesHeld),
        "its payload is read off"
    );
    let append = Request::Append { capability: open.capability };
    assert_eq!(writer.call(&append, b"xyz").0, Reply::PagesHeld);
    let size_bytes = Some(1);
    let change = AttributeChange { size_bytes, capability: Some(open.capability), ..Default::default() };
    let cut = Request::Change { at: At::inode(open.ino), follow: false, change };
    assert_eq!(writer.reply(&cut), Reply::PagesHeld);
    let kept = writer.read(&open, 0, 3 * MIB).expect("read");
    assert!(kept.iter().all(|&byte| byte == b'.'));
    assert_eq!(writer.attributes("file").expect("there").size_bytes, 3 * MIB as u64);

    assert_eq!(mount.reply(&Request::Unwatch { ino: file.ino }), Reply::Done);
    writer.write(&mut open, 0, b"xyz").expect("nobody holds pages any more");
    assert!(matches!(writer.call(&append, b"xyz").0, Reply::Appended { .. } | Reply::AppendElsewhere));
}

/// The confirmations of a mount since the last look.
type Confirmed = Arc<Mutex<Vec<FileChange>>>;

/// Confirms all that a mount is told, a moment later each time, until the server ends.
fn confirm_all(mut mount: Line, confirmed: &Confirmed) {
    let mut done = Sequence(0);
    loop {
        mount.send(&Request::Invalidations { done }, &[]);
        let Some((_, reply, _)) = mount.try_receive() else { return };
        let Reply::Invalidate { sequence, files, .. } = reply else { panic!("{reply:?}") };
        std::thread::sleep(CONFIRMED_AFTER);
        confirmed.lock().expect("whole").extend(files);
        done = sequence;
    }
}

/// A mount with leases on `file`, which confirms what it is told.
fn confirming(cluster: &Cluster, (pages, size): (bool, bool)) -> Confirmed {
    let mut mount = cluster.root(0);
    let open = mount.open("file", READ_WRITE).expect("opened");
    if pages {
        assert_eq!(mount.reply(&Request::Watch { capability: open.capability }), Reply::Done);
    }
    if !size {
        // It is told the size of a file that it had open before the server knew it for a mount.
        let told = mount.reply(&Request::Invalidations { done: Sequence(0) });
        assert!(matches!(told, Reply::Invalidate { .. }), "{told:?}");
        let left = Request::Follow { ino: open.ino, handle: open.handle, is_followed: false };
        assert_eq!(mount.reply(&left), Reply::Done);
    }
    let confirmed = Confirmed::default();
    let shared = Arc::clone(&confirmed);
    std::thread::spawn(move || confirm_all(mount, &shared));
    confirmed
}

/// Changes bytes of the file, or its size, in a random way.
fn change(writer: &mut Line, file: &mut File, choices: &mut Choices) {
    let size_bytes = file.size_bytes;
    let (inside, length) = (choices.below(size_bytes), 1 + choices.below(9000));
    match choices.below(5) {
        0 => writer.write(file, inside, b"x").expect("overwritten"),
        1 => writer.write(file, inside, &vec![b'w'; length as usize]).expect("written"),
        2 => match writer.call(&Request::Append { capability: file.capability }, &[b'a'; 100]).0 {
            Reply::Appended { size_bytes, .. } => file.size_bytes = size_bytes,
            other => panic!("{other:?}"),
        },
        3 => writer.truncate(file, inside.max(1)),
        _ => writer.truncate(file, size_bytes + length),
    }
}

#[test]
fn no_reply_leaves_before_everyone_with_a_conflicting_lease_has_confirmed_or_is_late() {
    let mut choices = Choices::new();
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut writer = cluster.root(0);
    let mut file = writer.open("file", READ_WRITE).expect("opened");
    writer.write(&mut file, 0, &[b'.'; 5000]).expect("written");
    let leases = [(true, false), (false, true), (true, true)];
    let mounts = leases.map(|of| (of, confirming(&cluster, of)));
    let mut silent = cluster.root(0);
    for round in 0..ROUNDS {
        if round == SILENT_FROM {
            let open = silent.open("file", READ_WRITE).expect("opened");
            assert_eq!(silent.reply(&Request::Watch { capability: open.capability }), Reply::Done);
        }
        mounts.iter().for_each(|(_, confirmed)| confirmed.lock().expect("whole").clear());
        let (size_bytes, begun) = (file.size_bytes, Instant::now());
        change(&mut writer, &mut file, &mut choices);
        if begun.elapsed() >= LATE {
            // A mount on a busy machine may be late, too.
            continue;
        }
        assert_ne!(round, SILENT_FROM, "a mount that confirms nothing is waited for once");
        let grown_to = (file.size_bytes > size_bytes).then_some(file.size_bytes);
        for ((pages, size), confirmed) in &mounts {
            let confirmed = confirmed.lock().expect("whole");
            let has_dropped = confirmed.iter().any(|change| change.pages);
            let knows = confirmed.iter().any(|change| change.grown_to == grown_to);
            assert!(!pages || has_dropped, "round {round}, pages: {confirmed:?}");
            assert!(!size || grown_to.is_none() || knows, "round {round}, {grown_to:?}: {confirmed:?}");
        }
    }
}
