//! Servers on small file systems that are really full: calls answer ENOSPC and nothing else, names can be removed and files be
//! cut to make room, and a server starts.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testing::{dir, wait_until, Cluster, File, Line, READ_WRITE};
use weir_wire::{
    At, AttributeChange, Errno, Fence, Ino, NodeKind, OpenFlags, Publication, RenameMode, Reply, Request,
    Sequence, XattrMode,
};

const ENOSPC: Errno = Errno(28);
const KEPT: usize = 24;
const KEPT_BYTES: usize = 64 << 10;

/// A file system of its own below a fresh directory; none where this machine lets nobody mount.
struct Disk {
    folder: PathBuf,
    root: PathBuf,
}

impl Disk {
    fn new(kind: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().expect("a fresh directory").keep();
        let root = folder.join("disk");
        fs::create_dir(&root).expect("a directory");
        let disk = Disk { folder, root };
        let made = match kind {
            "tmpfs" => run("mount", &["-t", "tmpfs", "-o", "size=24m", "tmpfs", text(&disk.root)]),
            _ => {
                let image = disk.folder.join("image");
                fs::File::create(&image).and_then(|file| file.set_len(32 << 20)).expect("an image");
                // Without blocks that only root may use: the server of the test is root.
                run("mkfs.ext4", &["-q", "-F", "-m", "0", text(&image)])
                    && run("mount", &["-o", "loop", text(&image), text(&disk.root)])
            }
        };
        if !made {
            println!("skipped: {kind} cannot be mounted here");
        }
        made.then_some(disk)
    }

    /// Takes all that is left, to the last byte.
    fn fill(&self) {
        let path = self.root.join("filler");
        let mut file = fs::File::options().create(true).append(true).open(path).expect("a file");
        let mut step = 1 << 20;
        while step > 0 {
            // Bytes that were written in part count, too.
            if file.write_all(&vec![1; step]).is_err() || file.sync_data().is_err() {
                step /= 2;
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.root.join("filler")).expect("a file");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["-l", text(&self.root)]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    Command::new(program).args(arguments).env("PATH", path).status().is_ok_and(|status| status.success())
}

fn at(name: &str) -> At {
    At::new(Ino::ROOT, name)
}

fn content(number: usize) -> Vec<u8> {
    (0..KEPT_BYTES).map(|index| (index * 31 + number * 7) as u8 | 1).collect()
}

/// Every request that takes room, by name; each is a call of its own.
fn calls(round: usize, file: &File) -> Vec<(&'static str, Request, Vec<u8>)> {
    let name = |what: &str| at(&format!("{what}-{round}"));
    let capability = file.capability;
    let target = file.layout.targets()[0];
    let publication = Publication { end: 1 << 40, written_bytes: 1, epoch: file.epoch, reserved_end: 0 };
    let node = |kind| Request::Make {
        at: name(&format!("{kind:?}").replace(['(', ')'], "")),
        kind,
        permissions: 0o755,
    };
    let change = |change| Request::Change { at: at("kept-0"), follow: true, change };
    let rename = |mode, to: &str| Request::Rename { from: at("kept-1"), to: at(to), mode };
    let long = "x".repeat(200);
    let make = OpenFlags { exclusive: true, ..READ_WRITE };
    let unnamed = OpenFlags { unnamed: true, create: false, ..READ_WRITE };
    let open = |at, flags| Request::Open { at, flags, permissions: 0o644, layout: None };
    let (epoch, extent) = (file.epoch, |length| vec![weir_wire::Extent { offset: 1 << 30, length }]);
    let fence = Fence::NONE;
    let write = |length, publication| Request::Write {
        capability,
        target,
        epoch,
        fence,
        extents: extent(length),
        publication,
    };
    let reserve =
        Request::Reserve { capability, target, epoch, fence, offset: 0, length: 1 << 30, punch: false };
    let xattr = |name: &str| Request::XattrSet {
        at: at("kept-2"),
        follow: true,
        name: name.into(),
        mode: XattrMode::Set,
    };
    let time = Some(Some(weir_wire::Moment { seconds: round as i64, nanoseconds: 0 }));
    vec![
        ("open", open(name(&long), make), vec![]),
        ("open without a name", open(At::inode(Ino::ROOT), unnamed), vec![]),
        ("mkdir", node(NodeKind::Directory), vec![]),
        ("mknod", node(NodeKind::Regular), vec![]),
        ("mkfifo", node(NodeKind::Fifo), vec![]),
        ("socket", node(NodeKind::Socket), vec![]),
        ("device", node(NodeKind::BlockDevice(5)), vec![]),
        ("symlink", Request::Symlink { at: name("symlink"), target: vec![b't'; 4000] }, vec![]),
        ("link", Request::Link { from: at("kept-0"), follow: true, to: name("link") }, vec![]),
        ("rename", rename(RenameMode::NoReplace, &format!("renamed-{round}-{long}")), vec![]),
        ("exchange", rename(RenameMode::Exchange, "kept-2"), vec![]),
        ("setxattr", xattr("user.small"), vec![1; 50]),
        ("setxattr, large", xattr("user.large"), vec![2; 60_000]),
        (
            "setxattr of a layout",
            Request::XattrSet {
                at: at("directory"),
                follow: true,
                name: b"weir.layout".to_vec(),
                mode: XattrMode::Set,
            },
            b"-c 1".to_vec(),
        ),
        (
            "chmod",
            change(AttributeChange { permissions: Some(0o600 + round as u16 % 8), ..Default::default() }),
            vec![],
        ),
        ("chown", change(AttributeChange { uid: Some(round as u32), ..Default::default() }), vec![]),
        ("utimens", change(AttributeChange { modified: time, ..Default::default() }), vec![]),
        (
            "truncate, longer",
            change(AttributeChange { size_bytes: Some((1 << 30) + round as u64), ..Default::default() }),
            vec![],
        ),
        ("write, small", write(4_000, None), vec![1; 4_000]),
        ("write, large", write(1 << 20, None), vec![1; 1 << 20]),
        ("write, published", write(5_000, Some(publication)), vec![1; 5_000]),
        (
            "publish",
            Request::Publish { capability, publication: Publication { end: 1 << 41, ..publication } },
            vec![],
        ),
        ("fallocate", reserve, vec![]),
        ("detour", Request::Detour { capability, layout_epoch: 9, full: vec![target] }, vec![]),
        ("fsync", Request::SyncMetadata { at: At::inode(file.ino) }, vec![]),
        ("fsync of bytes", Request::SyncObject { capability, target }, vec![]),
        ("append", Request::Append { capability }, vec![3; 2_000]),
        ("end of a turn", Request::AppendEnd { capability, turn: Sequence(0), publication: None }, vec![]),
        ("stat", Request::Attributes { at: at("kept-3"), follow: true }, vec![]),
        ("statfs", Request::Statistics, vec![]),
    ]
}

/// Makes names until the journal has no room left in its last block either.
fn exhaust(line: &mut Line, prefix: &str) {
    for number in 0..20_000 {
        let make =
            Request::Make { at: at(&format!("{prefix}-{number}")), kind: NodeKind::Fifo, permissions: 0o600 };
        match line.reply(&make) {
            Reply::Attributes(_) => {}
            Reply::Failed(ENOSPC) => return,
            other => panic!("a full disk answers {other:?}"),
        }
    }
    panic!("the disk is not full");
}

fn each_call_is_done_or_answers_enospc(line: &mut Line, file: &File) {
    let mut refused = Vec::new();
    for round in 0..3 {
        for (name, request, payload) in calls(round, file) {
            match line.call(&request, &payload).0 {
                Reply::Failed(ENOSPC) => refused.push(name),
                Reply::Failed(errno) if errno != Errno(5) => {
                    // Requests of this test that are wrong on purpose: a turn that nobody has, a name that an earlier round took.
                    assert!([1, 2, 17, 9].contains(&errno.0), "{name}: {errno:?}");
                }
                Reply::Failed(errno) => panic!("{name} answers {errno:?}"),
                _ => {}
            }
        }
    }
    refused.sort_unstable();
    refused.dedup();
    println!("{} calls answered ENOSPC: {refused:?}", refused.len());
    for name in ["open", "mkdir", "setxattr, large", "write, large", "publish", "symlink"] {
        assert!(refused.contains(&name), "{name} found room on a full disk");
    }
}

fn keep(line: &mut Line) -> File {
    assert!(matches!(line.make_directory("directory"), Reply::Attributes(_)));
    for number in 0..KEPT {
        let mut file = line.open(&format!("kept-{number}"), READ_WRITE).expect("opened");
        line.write(&mut file, 0, &content(number)).expect("written");
        line.close(&file);
    }
    let mut file = line.open("grown", READ_WRITE).expect("opened");
    line.write(&mut file, 0, &content(99)).expect("written");
    file
}

fn check_kept(line: &mut Line) {
    for number in 0..KEPT {
        // Two calls of the table change names.
        let Ok(file) = line.open(&format!("kept-{number}"), OpenFlags { create: false, ..READ_WRITE }) else {
            assert!(number <= 2, "kept-{number} is gone");
            continue;
        };
        let found = line.read(&file, 0, KEPT_BYTES).expect("read");
        assert!(found == content(number) || number <= 2, "kept-{number}");
        line.close(&file);
    }
}

fn on_a_full_disk(kind: &str) {
    let Some(disk) = Disk::new(kind) else { return };
    let mut cluster = Cluster::start_below(&disk.root, &dir(1).replace("1GiB", "12MiB"));
    let mut line = cluster.root(0);
    let file = keep(&mut line);
    disk.fill();
    exhaust(&mut line, "first");
    each_call_is_done_or_answers_enospc(&mut line, &file);
    check_kept(&mut line);
    cluster.assert_running(0);

    // It starts on the full disk, killed or not, as often as need be, and is as full then.
    for start in 0..3 {
        cluster.kill_server(0);
        disk.fill();
        cluster.start_server(0);
        line = cluster.root(0);
        exhaust(&mut line, &format!("start-{start}"));
    }
    check_kept(&mut line);

    // Room is made by removing and cutting, all of it journaled.
    let shorter = AttributeChange { size_bytes: Some(10), ..Default::default() };
    let cut = Request::Change { at: at("kept-3"), follow: true, change: shorter };
    disk.fill();
    match line.reply(&cut) {
        Reply::Attributes(attributes) => assert_eq!(attributes.size_bytes, 10),
        other => panic!("a file on a full disk cannot be cut: {other:?}"),
    }
    assert_eq!(line.unlink("directory", true), Reply::Done);
    for number in 4..KEPT {
        disk.fill();
        assert_eq!(line.unlink(&format!("kept-{number}"), false), Reply::Done, "kept-{number}");
    }
    wait_until("it says that it is full", || cluster.status(0)["full"] == true);
    cluster.kill_server(0);
    disk.fill();
    cluster.start_server(0);
    line = cluster.root(0);
    assert_eq!(line.attributes("kept-3").expect("there").size_bytes, 10);
    for number in 4..KEPT {
        assert_eq!(line.attributes(&format!("kept-{number}")), Err(Errno(2)), "kept-{number} is back");
    }
    disk.free();
    wait_until("there is room again", || match line.open("after", READ_WRITE) {
        Ok(_) => true,
        Err(errno) => {
            assert_eq!(errno, ENOSPC);
            false
        }
    });
    wait_until("it says that it is not", || cluster.status(0)["full"] == false);
    let mut after = line.open("after", READ_WRITE).expect("opened");
    line.write(&mut after, 0, &content(5)).expect("written");
    assert_eq!(line.read(&after, 0, KEPT_BYTES).expect("read"), content(5));
    assert_eq!(cluster.log(0).matches("panicked").count(), 0, "{}", cluster.log(0));
}

#[test]
fn calls_on_a_full_tmpfs_answer_enospc_and_the_server_starts_there() {
    on_a_full_disk("tmpfs");
}

#[test]
fn calls_on_a_full_ext4_answer_enospc_and_the_server_starts_there() {
    on_a_full_disk("ext4");
}
