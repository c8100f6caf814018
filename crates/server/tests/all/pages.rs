//! Writes to a file of which a mount holds pages: they wait for what was stored there, or are refused to who can write
//! through a mount.

use weir_testing::{key, ram, random_client, Cluster, File, Line, Transport, READ_WRITE};
use weir_wire::{At, AttributeChange, Reply, Request, Sequence};

const MIB: usize = 1 << 20;

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
