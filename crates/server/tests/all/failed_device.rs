//! The device below a journal fails and works again: reads go on, changes are refused, everybody is told, and the server goes on
//! by itself.
//!
//! The device is real: a file system in a sparse file on a full file system, so that the kernel cannot write to it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_testing::{get, wait_until, Cluster, READ_WRITE};
use weir_wire::{At, Errno, Ino, OpenFlags, Reply, Request};

const EIO: Errno = Errno(5);
const ENOSPC: Errno = Errno(28);
const EROFS: Errno = Errno(30);
/// Bytes of the file system that gets full, and of the sparse file in it: more than fits, so that writes to it fail.
const ROOM: &str = "size=24m";
const IMAGE_BYTES: u64 = 96 << 20;
/// More changes than the blocks hold that the journal's log has got so far.
const CHANGES: usize = 2_000;
/// More time than a server leaves to a client without connections; on a busy machine the file may go later, and by the usual way.
const RELEASE: Duration = Duration::from_secs(5);

/// A file system in a file of a file system that can be made full.
struct Device {
    folder: tempfile::TempDir,
    loop_device: String,
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_string()
}

impl Device {
    /// None where this machine lets nobody mount, as in a container with a root that may not.
    fn new() -> Option<Device> {
        let folder = tempfile::tempdir().expect("a directory");
        let (below, above) = (folder.path().join("below"), folder.path().join("above"));
        fs::create_dir(&below).expect("a directory");
        fs::create_dir(&above).expect("a directory");
        let tmpfs = ["-t", "tmpfs", "-o", ROOM, "tmpfs", below.to_str().expect("text")];
        if !Command::new("mount").args(tmpfs).status().is_ok_and(|status| status.success()) {
            return None;
        }
        let image = below.join("image");
        fs::File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).expect("a sparse file");
        let image = image.to_str().expect("text");
        // Without a journal of its own the file system takes writes again as soon as the device does.
        run("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=1", image]);
        let loop_device = run("losetup", &["--find", "--show", image]);
        run("mount", &["-o", "errors=continue", &loop_device, above.to_str().expect("text")]);
        Some(Device { folder, loop_device })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("above")
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("below/filler")
    }

    /// No block can be written from now on that was not written before.
    fn fail(&self) {
        let mut filler = fs::File::create(self.filler()).expect("a file");
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    fn work(&self) {
        fs::remove_file(self.filler()).expect("a file");
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Whatever of it is there still; a failure here would hide why the test failed.
        let below = self.folder.path().join("below");
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
        let _ = Command::new("losetup").args(["--detach", &self.loop_device]).status();
        let _ = Command::new("umount").arg("--lazy").arg(below).status();
    }
}

fn start(device: &Device, targets: &Path) -> Cluster {
    let target = |number| {
        format!("backend = \"dir\"\ncapacity = \"64MiB\"\npath = \"{}/{number}\"", targets.display())
    };
    let toml = format!("[[server]]\n[[server.target]]\n{}\n[[server.target]]\n{}\n", target(0), target(1));
    Cluster::start_below(&device.path(), &toml)
}

/// A journal with one failed sync once answered EIO for ever, to reads as well, until the server was started again.
#[test]
fn a_server_outlives_a_failure_of_its_journals_device() {
    let Some(device) = Device::new() else {
        println!("skipped: no device can be made that fails where nothing can be mounted");
        return;
    };
    let targets = tempfile::tempdir().expect("a directory");
    let mut cluster = start(&device, targets.path());
    let mut line = cluster.root(0);
    let mut file = line.open("file", READ_WRITE).expect("opened");
    line.write(&mut file, 0, b"written before").expect("written");
    let mut leaver = cluster.root(0);
    leaver.open("left", READ_WRITE).expect("opened");
    assert_eq!(leaver.unlink("left", false), Reply::Done);
    let sync = Request::SyncMetadata { at: At::inode(Ino::ROOT) };
    assert_eq!(line.reply(&sync), Reply::Done);

    device.fail();
    let mut made = 0;
    let mut failed = None;
    while failed.is_none() && made < CHANGES {
        for _ in 0..50 {
            let reply = line.make_directory(&format!("made-{made:040}"));
            if !matches!(reply, Reply::Attributes(_)) {
                break;
            }
            made += 1;
        }
        failed = match line.reply(&sync) {
            Reply::Done => None,
            reply => Some(reply),
        };
    }
    // The kernel's name for the error depends on the device: this one is a file for which there is no room.
    let is_told = matches!(failed, Some(Reply::Failed(EIO | ENOSPC)));
    assert!(is_told, "after {made} changes: {failed:?}");

    // Reads go on, of names and of bytes; changes are refused, and fsync promises nothing.
    assert_eq!(line.read(&file, 0, 14).expect("read"), b"written before");
    let reading = OpenFlags { read: true, ..OpenFlags::default() };
    let again = line.open("file", reading).expect("opened to read");
    assert_eq!(again.size_bytes, 14);
    assert!(line.attributes("made-0000000000000000000000000000000000000000").is_ok());
    assert_eq!(line.make_directory("refused"), Reply::Failed(EROFS));
    assert_eq!(
        line.reply(&Request::Unlink { at: At::new(Ino::ROOT, "file"), directory: false }),
        Reply::Failed(EROFS)
    );
    assert_eq!(line.reply(&sync), Reply::Failed(EIO));
    let status = cluster.status(0);
    assert_eq!(status["journal"]["state"], "stopped", "{status}");
    assert!(status["journal"]["error"].as_str().is_some_and(|error| error.contains("cannot")), "{status}");
    let metrics = get(&cluster.address(0).control, "/metrics").body;
    assert!(metrics.contains("weir_journal_stopped 1"), "{metrics}");

    // A program ends that has a file open without a name: the end of the file cannot be recorded now.
    let inodes = |cluster: &Cluster| cluster.status(0)["inodes"].as_u64().expect("a number");
    let with_leftover = inodes(&cluster);
    drop(leaver);
    std::thread::sleep(RELEASE);
    assert_eq!(inodes(&cluster), with_leftover);

    device.work();
    wait_until("the journal has begun anew", || cluster.status(0)["journal"]["state"] == "works");
    wait_until("the file without a name is gone", || inodes(&cluster) == with_leftover - 1);
    assert!(matches!(line.make_directory("accepted"), Reply::Attributes(_)));
    assert_eq!(line.reply(&sync), Reply::Done);
    assert_eq!(line.unlink("file", false), Reply::Done);
    assert_eq!(line.reply(&sync), Reply::Done);
    drop(line);
    cluster.kill_server(0);
    cluster.start_server(0);
    let mut line = cluster.root(0);
    for number in 0..made {
        assert!(line.attributes(&format!("made-{number:040}")).is_ok(), "{number} of {made} is gone");
    }
    assert!(line.attributes("accepted").is_ok() && line.attributes("file") == Err(Errno(2)));
}
