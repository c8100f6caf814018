//! A folder that is opened once: its files are reached from its descriptor, never by its path again.
//!
//! While a server runs, another folder may come to lie at the path: its disk is unmounted, or something is mounted over it. Nothing is
//! read there or written there. [`Folder::check_place`] notices it.

#[cfg(test)]
mod reserve_tests;
#[cfg(test)]
mod target_tests;

use crate::journal::LocalFile;
use crate::machine_time::machine_start;
use crate::privacy;
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_core::storage::{Entry, Node, Opening, Sizes, TargetFile, TargetFolder};

/// An open folder of this user.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
    node: Node,
}

fn node_of(file: &File) -> io::Result<Node> {
    file.metadata().map(|found| Node { device: found.dev(), inode: found.ino() })
}

impl Folder {
    /// Opens the folder at a path, which is made where it is missing, and closed to others.
    ///
    /// # Errors
    /// It is a link or no folder of this user, or the file system's errors.
    pub(crate) fn made(path: &Path) -> io::Result<Folder> {
        privacy::private_folder(path)?;
        Folder::found(path)
    }

    /// Opens the folder at a path as it is.
    ///
    /// # Errors
    /// As [`Folder::made`], and `NotFound`.
    pub(crate) fn found(path: &Path) -> io::Result<Folder> {
        let handle = privacy::open_folder(path)?;
        privacy::check_owner(&handle)?;
        let node = node_of(&handle)?;
        Ok(Folder { path: path.to_path_buf(), handle, node })
    }

    /// Takes the rights of others to the folder away.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn close_to_others(&self) -> io::Result<()> {
        privacy::close_to_others(&self.handle)
    }

    /// Locks the folder until it is dropped. Two targets in one folder would write into each other's objects, which have the same names.
    ///
    /// # Errors
    /// It is another target's, or the file system's errors.
    pub(crate) fn claim(&self) -> io::Result<()> {
        match rustix::fs::flock(&self.handle, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let words = "another target has this directory; hint: give each target a `path` of its own";
                Err(Error::new(ErrorKind::ResourceBusy, words))
            }
            outcome => Ok(outcome?),
        }
    }

    fn open_inner(&self, name: &Path) -> io::Result<File> {
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        self.opened(name, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn opened(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?))
    }
}

impl TargetFolder for Folder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn node(&self) -> Node {
        self.node
    }

    fn check_place(&self) -> io::Result<()> {
        let there = privacy::open_folder(&self.path).and_then(|there| node_of(&there));
        match there {
            Ok(node) if node == self.node => Ok(()),
            Ok(_) => {
                let words = "another folder lies there now: its disk was unmounted, or it was replaced";
                Err(Error::new(ErrorKind::NotFound, words))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::NotFound, "it is gone: it was moved or removed"))
            }
            Err(error) => Err(error),
        }
    }

    fn open(&self, name: &Path, opening: Opening) -> io::Result<Box<dyn TargetFile>> {
        let flags = match opening {
            Opening::Read => OFlags::RDONLY,
            Opening::Change => OFlags::RDWR,
            Opening::Make => OFlags::RDWR | OFlags::CREATE,
            Opening::Empty => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
        };
        Ok(Box::new(LocalFile(self.opened(name, flags)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    fn remove(&self, name: &Path) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn node_of(&self, name: &Path) -> Option<Node> {
        let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Node { device: found.st_dev, inode: found.st_ino })
    }

    fn make_inner(&self, name: &Path) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = self.open_inner(name)?;
        privacy::check_owner(&found)?;
        privacy::close_to_others(&found)
    }

    fn sync(&self, name: &Path) -> io::Result<()> {
        match name.as_os_str().is_empty() {
            true => self.handle.sync_all(),
            false => self.open_inner(name)?.sync_all(),
        }
    }

    fn entries(&self, name: &Path) -> io::Result<Vec<Entry>> {
        let inner = self.open_inner(name)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&inner)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match rustix::fs::statat(&inner, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => entries.push(Entry {
                    name: name.to_owned(),
                    sizes: Sizes {
                        length_bytes: found.st_size.max(0).cast_unsigned(),
                        occupied_bytes: found.st_blocks.max(0).cast_unsigned() * 512,
                        block_bytes: found.st_blksize.max(1).cast_unsigned(),
                    },
                    is_open_to_others: found.st_mode & 0o077 != 0,
                }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(entries)
    }

    fn sync_way(&self) {
        // A folder above that this user may only pass through was there before.
        let above = self.path.ancestors().skip(1).filter_map(|above| File::open(above).ok());
        above.for_each(|above| _ = above.sync_all());
    }

    fn boot(&self) -> u128 {
        machine_start()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let statistics = rustix::fs::fstatvfs(&self.handle)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    fn free_files(&self) -> Option<u64> {
        let statistics = rustix::fs::fstatvfs(&self.handle).ok()?;
        (statistics.f_files > 0).then_some(statistics.f_favail)
    }
}

impl TargetFile for LocalFile {
    fn node(&self) -> io::Result<Node> {
        node_of(&self.0)
    }

    fn sizes(&self) -> io::Result<Sizes> {
        self.0.metadata().map(|found| Sizes {
            length_bytes: found.len(),
            occupied_bytes: found.blocks() * 512,
            block_bytes: found.blksize().max(1),
        })
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::empty(), offset, length)?)
    }

    fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.0, flags, offset, length)?)
    }

    fn seek(&self, offset: u64, data: bool) -> io::Result<Option<u64>> {
        let from = if data { SeekFrom::Data(offset) } else { SeekFrom::Hole(offset) };
        match rustix::fs::seek(&self.0, from) {
            Ok(position) => Ok(Some(position)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_whole(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn close_to_others(&self) -> io::Result<()> {
        privacy::close_to_others(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder that was renamed, and one in whose place another came, are noticed; files stay with the folder that was opened.
    #[test]
    fn a_folder_is_the_opened_one_whatever_lies_at_its_path() {
        let parent = tempfile::tempdir().unwrap();
        let (path, aside) = (parent.path().join("folder"), parent.path().join("aside"));
        let folder = Folder::made(&path).unwrap();
        folder.check_place().unwrap();
        fs::rename(&path, &aside).unwrap();
        assert!(folder.check_place().unwrap_err().to_string().contains("moved or removed"));
        fs::create_dir(&path).unwrap();
        assert!(folder.check_place().unwrap_err().to_string().contains("another folder"));
        folder.open(Path::new("file"), Opening::Make).unwrap();
        assert!(aside.join("file").exists() && !path.join("file").exists());
        fs::remove_dir(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        folder.check_place().unwrap();
    }

    #[test]
    fn a_folder_is_claimed_once() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (Folder::made(parent.path()).unwrap(), Folder::found(parent.path()).unwrap());
        one.claim().unwrap();
        assert!(other.claim().unwrap_err().to_string().contains("another target has this directory"));
        drop(one);
        other.claim().unwrap();
    }
}
