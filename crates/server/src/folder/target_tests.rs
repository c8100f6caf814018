//! A target in a real directory.

use super::Folder;
use crate::machine_time::MachineTime;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_core::storage::{Cut, Dir, Known, StaleEpoch, TargetFailure};
use weir_wire::{Extent, Ino};

const OPEN_MAX: usize = 4;
const FILE: Ino = Ino(0x1_0000_0000_0007);

fn opened(path: &Path, capacity_bytes: Option<u64>, open_max: usize) -> io::Result<Dir> {
    Dir::open(Arc::new(Folder::made(path)?), None, capacity_bytes, open_max, Arc::new(MachineTime::start()))
}

/// The path of a file of an object: its bytes, and with a suffix another one.
fn at(folder: &Path, ino: Ino, suffix: &str) -> PathBuf {
    folder.join(format!("{:02x}/{:016x}{suffix}", ino.0 % 256, ino.0))
}

fn range(offset: u64, length: u32) -> Extent {
    Extent { offset, length }
}

#[test]
fn bytes_and_epochs_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(100, 3), range(9000, 2)], b"abcde").unwrap();
    dir.truncate(FILE, 9001, 1).unwrap();
    dir.sync(FILE).unwrap();
    let used = dir.used_bytes();
    drop(dir);
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    assert_eq!(dir.used_bytes(), used);
    assert_eq!(dir.read(FILE, 1, &[range(99, 5), range(9000, 3)]).unwrap(), b"\0abc\0d\0\0");
    assert_eq!(dir.read(FILE, 0, &[range(0, 1)]), Err(StaleEpoch(1).into()));
    dir.remove(FILE).unwrap();
    assert_eq!(dir.used_bytes(), 0);
    assert_eq!(dir.read(FILE, 0, &[range(0, 2)]).unwrap(), [0, 0]);
}

/// A server that was killed between the two steps of a cut once counted the file of the first for ever.
#[test]
fn a_cut_that_was_killed_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap());
    let temporary = at(folder.path(), FILE, ".epoch-new");
    fs::write(&temporary, "7").unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    assert_eq!(dir.used_bytes(), 0);
    assert!(!temporary.exists());
}

/// An epoch that a power loss left empty once kept the server from starting.
#[test]
fn an_epoch_that_is_empty_is_none() {
    let folder = tempfile::tempdir().unwrap();
    drop(opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap());
    fs::write(at(folder.path(), FILE, ".epoch"), "").unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 2)], b"ab").unwrap();
    dir.truncate(FILE, 1, 1).unwrap();
    assert_eq!(dir.read(FILE, 1, &[range(0, 2)]).unwrap(), b"a\0");
}

#[test]
fn a_full_target_still_takes_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(8192), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 8192)], &[1; 8192]).unwrap();
    assert_eq!(dir.write(FILE, 0, &[range(8192, 1)], &[1]), Err(TargetFailure::Full));
    dir.write(FILE, 0, &[range(10, 100)], &[2; 100]).unwrap();
    assert_eq!(dir.reserve(FILE, 0, 0, 1 << 20, false), Err(TargetFailure::Full));
    dir.reserve(FILE, 0, 0, 4096, true).unwrap();
    assert_eq!(dir.seek(FILE, 0, 0, true).unwrap(), Some(4096));
    assert_eq!(dir.seek(FILE, 0, 0, false).unwrap(), Some(0));
}

/// The home hears of successful calls only, so nobody removed the file that a refused call had made.
#[test]
fn a_refused_call_makes_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(4096), OPEN_MAX).unwrap();
    assert_eq!(dir.write(FILE, 0, &[range(0, 8192)], &[1; 8192]), Err(TargetFailure::Full));
    assert_eq!(dir.reserve(FILE, 0, 0, 8192, false), Err(TargetFailure::Full));
    dir.reserve(FILE, 0, 0, 8192, true).unwrap();
    assert!(!at(folder.path(), FILE, "").exists());
    // The file system refuses a range without bytes, once the object is there.
    dir.reserve(FILE, 0, 0, 0, false).unwrap_err();
    dir.remove_unwritten(FILE).unwrap();
    assert!(!at(folder.path(), FILE, "").exists());
    dir.write(FILE, 0, &[range(0, 3)], b"abc").unwrap();
    dir.reserve(FILE, 0, 0, 0, false).unwrap_err();
    dir.remove_unwritten(FILE).unwrap();
    assert_eq!(dir.read(FILE, 0, &[range(0, 3)]).unwrap(), b"abc");
}

/// A file system may give a part of the blocks that it then refuses: they went uncounted.
#[test]
fn a_failed_reservation_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
    fs::write(at(folder.path(), FILE, ""), [7; 40_000]).unwrap();
    dir.reserve(FILE, 0, 0, 0, false).unwrap_err();
    assert_eq!(dir.used_bytes(), fs::metadata(at(folder.path(), FILE, "")).unwrap().blocks() * 512);
}

/// A removal that failed half-way once forgot the epoch in memory, so the removal's repetition left the file of the epoch.
#[test]
fn a_removal_that_failed_is_repeated_whole() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.truncate(FILE, 0, 1).unwrap();
    let epoch = at(folder.path(), FILE, ".epoch");
    fs::remove_file(&epoch).unwrap();
    fs::create_dir(&epoch).unwrap();
    dir.remove(FILE).unwrap_err();
    fs::remove_dir(&epoch).unwrap();
    fs::write(&epoch, "1").unwrap();
    dir.remove(FILE).unwrap();
    assert!(!epoch.exists());
}

/// A cut that could not record its epoch left the object aside. The repetition did not find the object there, so its bytes
/// stayed until the next start, and a write in between could take their place.
#[test]
fn a_cut_that_failed_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
    let temporary = at(folder.path(), FILE, ".epoch-new");
    fs::create_dir(&temporary).unwrap();
    dir.cut_undoably(FILE, 0, 1).unwrap_err();
    assert_eq!(dir.read(FILE, 0, &[range(0, 10)]).unwrap(), [1; 10]);
    fs::remove_dir(&temporary).unwrap();
    let Ok(Cut::SetAside(aside)) = dir.cut_undoably(FILE, 0, 1) else { panic!("the object is set aside") };
    dir.discard(aside).unwrap();
    assert_eq!(dir.used_bytes(), 0);
}

/// A file that was only grown has no object. Bytes written after a cut of it showed in the hole once the cut was undone.
#[test]
fn a_hole_is_a_hole_again_when_its_cut_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    assert!(matches!(dir.cut_undoably(FILE, 0, 1), Ok(Cut::SetAside(_))));
    dir.write(FILE, 1, &[range(0, 10)], &[1; 10]).unwrap();
    drop(dir);
    let dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.settle(|_| Known::File { decided: 0 }).unwrap();
    assert_eq!(dir.read(FILE, 0, &[range(0, 10)]).unwrap(), [0; 10]);
    assert_eq!(dir.used_bytes(), 0);
}

/// A file system gives blocks when it writes back. They went unseen into the sum, which fell below zero when the object
/// was discarded: the target was full for ever.
#[test]
fn blocks_that_come_after_the_last_write_do_not_change_the_sum() {
    let folder = tempfile::tempdir().unwrap();
    let dir = opened(folder.path(), Some(1 << 20), 1).unwrap();
    let grow = |ino| {
        File::options().write(true).open(at(folder.path(), ino, "")).unwrap().set_len(0).map(|()| {
            fs::write(at(folder.path(), ino, ""), [7; 40_000]).unwrap();
        })
    };
    let other = Ino(FILE.0 + 1);
    dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
    grow(FILE).unwrap();
    dir.write(other, 0, &[range(0, 10)], &[1; 10]).unwrap();
    grow(other).unwrap();
    let used = dir.used_bytes();
    assert_eq!(dir.read(FILE, 0, &[range(0, 1)]).unwrap(), [7]);
    assert_eq!(dir.used_bytes(), used);
    let Ok(Cut::SetAside(aside)) = dir.cut_undoably(FILE, 0, 1) else { panic!("the object is set aside") };
    dir.write(FILE, 1, &[range(0, 10)], &[1; 10]).unwrap();
    dir.discard(aside).unwrap();
    assert_eq!(dir.used_bytes(), used);
    grow(FILE).unwrap();
    dir.remove(FILE).unwrap();
    dir.remove(other).unwrap();
    assert_eq!(dir.used_bytes(), 0);
    assert!(dir.room().free_bytes() > 0);
}
