//! A target in a real directory.

use super::Folder;
use std::fs::{self, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_core::storage::{
    Aside, Cut, Directory, Known, StaleEpoch, Target, TargetFailure, TargetOutput, TargetWork,
};
use weir_placement::{ServerId, TargetId};
use weir_wire::{Capability, Description, Extent, Fence, HandleId, Ino, Request, Rights, Seek, SiteKey};

const OPEN_MAX: usize = 4;
const TARGET: TargetId = TargetId { server: ServerId(0), index: 0 };
const FILE: Ino = Ino(0x1_0000_0000_0007);

/// A target whose work is carried out at once.
struct Driven(Directory);

fn opened(path: &Path, capacity_bytes: Option<u64>, open_max: usize) -> io::Result<Driven> {
    Directory::open(Arc::new(Folder::made(path)?), None, capacity_bytes, open_max).map(Driven)
}

impl Driven {
    fn run(&mut self, object: Ino, work: TargetWork) -> Result<TargetOutput, TargetFailure> {
        match self.0.carry_out(object, work)? {
            TargetOutput::NoRoom(_) => Err(TargetFailure::Full),
            output => Ok(output),
        }
    }

    fn write(&mut self, ino: Ino, epoch: u64, extents: &[Extent], bytes: &[u8]) -> Result<(), TargetFailure> {
        let (capability, target, fence, extents) = (capability(ino), TARGET, Fence::NONE, extents.to_vec());
        let request = Request::Write { capability, target, epoch, fence, extents, publication: None };
        self.run(ino, TargetWork::Request(request, bytes.to_vec(), None)).map(drop)
    }

    fn read(&mut self, ino: Ino, epoch: u64, extents: &[Extent]) -> Result<Vec<u8>, TargetFailure> {
        let (capability, target, fence, extents) = (capability(ino), TARGET, Fence::NONE, extents.to_vec());
        let request = Request::Read { capability, target, epoch, fence, extents };
        match self.run(ino, TargetWork::Request(request, Vec::new(), None))? {
            TargetOutput::Bytes(bytes) => Ok(bytes),
            _ => panic!("a read has no bytes"),
        }
    }

    fn reserve(&mut self, ino: Ino, offset: u64, length: u64, punch: bool) -> Result<(), TargetFailure> {
        let (capability, target, fence, epoch) = (capability(ino), TARGET, Fence::NONE, 0);
        let request = Request::Reserve { capability, target, epoch, fence, offset, length, punch };
        self.run(ino, TargetWork::Request(request, Vec::new(), None)).map(drop)
    }

    fn seek(&mut self, ino: Ino, offset: u64, seek: Seek) -> Result<Option<u64>, TargetFailure> {
        let (capability, target, epoch) = (capability(ino), TARGET, 0);
        let request = Request::ObjectSeek { capability, target, epoch, offset, seek };
        match self.run(ino, TargetWork::Request(request, Vec::new(), None))? {
            TargetOutput::Position(position) => Ok(position),
            _ => panic!("a seek has no position"),
        }
    }

    fn truncate(&mut self, ino: Ino, length: u64, epoch: u64) -> Result<(), TargetFailure> {
        self.run(ino, TargetWork::Cut { length, epoch, is_lasting: false }).map(drop)
    }

    /// Sets the whole object aside.
    fn set_aside(&mut self, ino: Ino, epoch: u64) -> Result<Aside, TargetFailure> {
        match self.run(ino, TargetWork::CutUndoably { length: 0, epoch })? {
            TargetOutput::Cut(Cut::SetAside(aside)) => Ok(aside),
            _ => panic!("the object is set aside"),
        }
    }
}

impl Deref for Driven {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.0
    }
}

impl DerefMut for Driven {
    fn deref_mut(&mut self) -> &mut Directory {
        &mut self.0
    }
}

fn capability(ino: Ino) -> Capability {
    let of = Description { ino, handle: HandleId(1), uid: 0 };
    SiteKey::new([1; 32]).capability(of, Rights { read: true, write: true }, 0)
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
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(100, 3), range(9000, 2)], b"abcde").unwrap();
    dir.truncate(FILE, 9001, 1).unwrap();
    dir.run(FILE, TargetWork::Sync).unwrap();
    let used = dir.used_bytes();
    drop(dir);
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    assert_eq!(dir.used_bytes(), used);
    assert_eq!(dir.read(FILE, 1, &[range(99, 5), range(9000, 3)]).unwrap(), b"\0abc\0d\0\0");
    assert_eq!(dir.read(FILE, 0, &[range(0, 1)]), Err(StaleEpoch(1).into()));
    dir.run(FILE, TargetWork::Remove).unwrap();
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
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 2)], b"ab").unwrap();
    dir.truncate(FILE, 1, 1).unwrap();
    assert_eq!(dir.read(FILE, 1, &[range(0, 2)]).unwrap(), b"a\0");
}

#[test]
fn a_full_target_still_takes_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(8192), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 8192)], &[1; 8192]).unwrap();
    assert_eq!(dir.write(FILE, 0, &[range(8192, 1)], &[1]), Err(TargetFailure::Full));
    dir.write(FILE, 0, &[range(10, 100)], &[2; 100]).unwrap();
    assert_eq!(dir.reserve(FILE, 0, 1 << 20, false), Err(TargetFailure::Full));
    dir.reserve(FILE, 0, 4096, true).unwrap();
    assert_eq!(dir.seek(FILE, 0, Seek::Data).unwrap(), Some(4096));
    assert_eq!(dir.seek(FILE, 0, Seek::Hole).unwrap(), Some(0));
}

/// The home hears of successful calls only, so nobody removed the file that a refused call had made.
#[test]
fn a_refused_call_makes_no_object() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(4096), OPEN_MAX).unwrap();
    assert_eq!(dir.write(FILE, 0, &[range(0, 8192)], &[1; 8192]), Err(TargetFailure::Full));
    assert_eq!(dir.reserve(FILE, 0, 8192, false), Err(TargetFailure::Full));
    dir.reserve(FILE, 0, 8192, true).unwrap();
    assert!(!at(folder.path(), FILE, "").exists());
    // The file system refuses a range without bytes, once the object is there.
    dir.reserve(FILE, 0, 0, false).unwrap_err();
    dir.run(FILE, TargetWork::RemoveUnwritten).unwrap();
    assert!(!at(folder.path(), FILE, "").exists());
    dir.write(FILE, 0, &[range(0, 3)], b"abc").unwrap();
    dir.reserve(FILE, 0, 0, false).unwrap_err();
    dir.run(FILE, TargetWork::RemoveUnwritten).unwrap();
    assert_eq!(dir.read(FILE, 0, &[range(0, 3)]).unwrap(), b"abc");
}

/// A file system may give a part of the blocks that it then refuses: they went uncounted.
#[test]
fn a_failed_reservation_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
    fs::write(at(folder.path(), FILE, ""), [7; 40_000]).unwrap();
    dir.reserve(FILE, 0, 0, false).unwrap_err();
    assert_eq!(dir.used_bytes(), fs::metadata(at(folder.path(), FILE, "")).unwrap().blocks() * 512);
}

/// A removal that failed half-way once forgot the epoch in memory, so the removal's repetition left the file of the epoch.
#[test]
fn a_removal_that_failed_is_repeated_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.truncate(FILE, 0, 1).unwrap();
    let epoch = at(folder.path(), FILE, ".epoch");
    fs::remove_file(&epoch).unwrap();
    fs::create_dir(&epoch).unwrap();
    assert!(dir.run(FILE, TargetWork::Remove).is_err());
    fs::remove_dir(&epoch).unwrap();
    fs::write(&epoch, "1").unwrap();
    dir.run(FILE, TargetWork::Remove).unwrap();
    assert!(!epoch.exists());
}

/// A cut that could not record its epoch left the object aside. The repetition did not find the object there, so its bytes
/// stayed until the next start, and a write in between could take their place.
#[test]
fn a_cut_that_failed_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.write(FILE, 0, &[range(0, 10)], &[1; 10]).unwrap();
    let temporary = at(folder.path(), FILE, ".epoch-new");
    fs::create_dir(&temporary).unwrap();
    assert!(dir.set_aside(FILE, 1).is_err());
    assert_eq!(dir.read(FILE, 0, &[range(0, 10)]).unwrap(), [1; 10]);
    fs::remove_dir(&temporary).unwrap();
    let aside = dir.set_aside(FILE, 1).unwrap();
    dir.run(FILE, TargetWork::Discard(aside)).unwrap();
    assert_eq!(dir.used_bytes(), 0);
}

/// A file that was only grown has no object. Bytes written after a cut of it showed in the hole once the cut was undone.
#[test]
fn a_hole_is_a_hole_again_when_its_cut_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.set_aside(FILE, 1).unwrap();
    dir.write(FILE, 1, &[range(0, 10)], &[1; 10]).unwrap();
    drop(dir);
    let mut dir = opened(folder.path(), Some(1 << 20), OPEN_MAX).unwrap();
    dir.settle(|_| Known::File { decided: 0 }).unwrap();
    assert_eq!(dir.read(FILE, 0, &[range(0, 10)]).unwrap(), [0; 10]);
    assert_eq!(dir.used_bytes(), 0);
}

/// A file system gives blocks when it writes back. They went unseen into the sum, which fell below zero when the object
/// was discarded: the target was full for ever.
#[test]
fn blocks_that_come_after_the_last_write_do_not_change_the_sum() {
    let folder = tempfile::tempdir().unwrap();
    let mut dir = opened(folder.path(), Some(1 << 20), 1).unwrap();
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
    let aside = dir.set_aside(FILE, 1).unwrap();
    dir.write(FILE, 1, &[range(0, 10)], &[1; 10]).unwrap();
    dir.run(FILE, TargetWork::Discard(aside)).unwrap();
    assert_eq!(dir.used_bytes(), used);
    grow(FILE).unwrap();
    dir.run(FILE, TargetWork::Remove).unwrap();
    dir.run(other, TargetWork::Remove).unwrap();
    assert_eq!(dir.used_bytes(), 0);
    assert!(Target::in_directory(dir.0).room().free_bytes() > 0);
}
