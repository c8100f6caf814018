//! A folder that is opened once: its files are reached from its descriptor, never by its path again.
//!
//! While a server runs, another folder may come to lie at the path: its disk is unmounted, or something is mounted over it. Nothing is
//! read there or written there. [`Folder::check_place`] notices it.

use crate::privacy;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open folder of this user.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    handle: File,
    node: Node,
}

/// The number of a folder or file, on the device that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) device: u64,
    inode: u64,
}

/// A file in a folder, as a list of the folder's files shows it.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) length_bytes: u64,
    pub(crate) occupied_bytes: u64,
    /// Whether others have rights to the file.
    pub(crate) is_open_to_others: bool,
}

impl Node {
    pub(crate) fn of(file: &File) -> io::Result<Node> {
        file.metadata().map(|found| Node { device: found.dev(), inode: found.ino() })
    }
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
        let node = Node::of(&handle)?;
        Ok(Folder { path: path.to_path_buf(), handle, node })
    }

    /// Takes the rights of others to the folder away.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn close_to_others(&self) -> io::Result<()> {
        privacy::close_to_others(&self.handle)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn node(&self) -> Node {
        self.node
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

    /// Checks that the folder still lies at its path.
    ///
    /// # Errors
    /// It does not: nothing, or something else, lies there.
    pub(crate) fn check_place(&self) -> io::Result<()> {
        let there = privacy::open_folder(&self.path).and_then(|there| Node::of(&there));
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

    /// Opens the file of a name itself: a link in its place is refused.
    ///
    /// # Errors
    /// As `openat(2)`.
    pub(crate) fn open(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?))
    }

    /// Renames a file, replacing the one that has the name.
    ///
    /// # Errors
    /// As `renameat(2)`.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    /// Removes a file; answers whether there was one.
    ///
    /// # Errors
    /// As `unlinkat(2)`.
    pub(crate) fn remove(&self, name: &Path) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The number of the file that has a name; none where there is no file.
    pub(crate) fn node_of(&self, name: &Path) -> Option<Node> {
        let found = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(Node { device: found.st_dev, inode: found.st_ino })
    }

    /// Makes a folder in this one that only this user may look into, or closes the one that is there to others.
    ///
    /// # Errors
    /// It is no folder of this user, or the file system's errors.
    pub(crate) fn make_inner(&self, name: &Path) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = self.open_inner(name)?;
        privacy::check_owner(&found)?;
        privacy::close_to_others(&found)
    }

    /// Makes the names in a folder inside this one durable; the empty name is this one.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn sync(&self, name: &Path) -> io::Result<()> {
        match name.as_os_str().is_empty() {
            true => self.handle.sync_all(),
            false => self.open_inner(name)?.sync_all(),
        }
    }

    /// Makes the folder's own name durable, and those of the folders above that were made for it.
    pub(crate) fn sync_way(&self) {
        // A folder above that this user may only pass through was there before.
        let above = self.path.ancestors().skip(1).filter_map(|above| File::open(above).ok());
        above.for_each(|above| _ = above.sync_all());
    }

    /// The files in a folder inside this one. Files that come and go meanwhile may be missing.
    ///
    /// # Errors
    /// The file system's errors; `NotFound` where there is no such folder.
    pub(crate) fn entries(&self, name: &Path) -> io::Result<Vec<Entry>> {
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
                    length_bytes: found.st_size.max(0).cast_unsigned(),
                    occupied_bytes: found.st_blocks.max(0).cast_unsigned() * 512,
                    is_open_to_others: found.st_mode & 0o077 != 0,
                }),
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(entries)
    }

    /// The room that the file system has left for this user.
    ///
    /// # Errors
    /// The file system's errors.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let statistics = rustix::fs::fstatvfs(&self.handle)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    /// The inodes that the file system has left; none where it has no number of them.
    pub(crate) fn free_files(&self) -> Option<u64> {
        let statistics = rustix::fs::fstatvfs(&self.handle).ok()?;
        (statistics.f_files > 0).then_some(statistics.f_favail)
    }

    fn open_inner(&self, name: &Path) -> io::Result<File> {
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)
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
        folder.open(Path::new("file"), OFlags::WRONLY | OFlags::CREATE).unwrap();
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
