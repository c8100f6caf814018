//! The files of a target, as targets see them: a folder with one level of folders inside, behind one small trait.

use crate::journal::StorageFile;
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of a folder or file, on the device that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The device.
    pub device: u64,
    /// The number there.
    pub inode: u64,
}

/// A file in a folder, as a list of the folder's files shows it.
pub struct Entry {
    /// The name in the folder.
    pub name: OsString,
    /// Its sizes.
    pub sizes: Sizes,
    /// Whether others have rights to the file.
    pub is_open_to_others: bool,
}

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// To read and sync the file that is there.
    Read,
    /// To change the file that is there.
    Change,
    /// As [`Opening::Change`], of a file that is made where there is none.
    Make,
    /// As [`Opening::Make`], of a file that is empty from then on.
    Empty,
}

/// The sizes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The length.
    pub length_bytes: u64,
    /// The bytes of the blocks that the file has.
    pub occupied_bytes: u64,
    /// The size of a block.
    pub block_bytes: u64,
}

/// The folder of a target. Written bytes survive a power loss after a sync of their file, and changes of names in their order, each
/// after [`TargetFolder::sync`] of the folder that has the name.
pub trait TargetFolder: Debug + Send + Sync {
    /// The path, for messages.
    fn path(&self) -> &Path;

    /// The folder's own number.
    fn node(&self) -> Node;

    /// Checks that the folder still lies at its path.
    ///
    /// # Errors
    /// It does not: nothing, or something else, lies there.
    fn check_place(&self) -> io::Result<()>;

    /// Opens the file of a name itself: a link in its place is refused.
    ///
    /// # Errors
    /// As `openat(2)`.
    fn open(&self, name: &Path, opening: Opening) -> io::Result<Box<dyn TargetFile>>;

    /// Renames a file, replacing the one that has the name.
    ///
    /// # Errors
    /// As `renameat(2)`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; answers whether there was one.
    ///
    /// # Errors
    /// As `unlinkat(2)`.
    fn remove(&self, name: &Path) -> io::Result<bool>;

    /// The number of the file that has a name; none where there is no file.
    fn node_of(&self, name: &Path) -> Option<Node>;

    /// Makes a folder in this one that only this user may look into, or closes the one that is there to others.
    ///
    /// # Errors
    /// It is no folder of this user, or the file system's errors.
    fn make_inner(&self, name: &Path) -> io::Result<()>;

    /// Makes the names in a folder inside this one durable; the empty name is this one.
    ///
    /// # Errors
    /// The file system's errors.
    fn sync(&self, name: &Path) -> io::Result<()>;

    /// The files in a folder inside this one. Files that come and go meanwhile may be missing.
    ///
    /// # Errors
    /// The file system's errors; `NotFound` where there is no such folder.
    fn entries(&self, name: &Path) -> io::Result<Vec<Entry>>;

    /// Makes the folder's own name durable, and those of the folders above that were made for it.
    fn sync_way(&self);

    /// A number of the machine and of its last start; 0 where it has none. No power loss took a byte that was written since that start.
    fn boot(&self) -> u128;

    /// The room that the file system has left for this user.
    ///
    /// # Errors
    /// The file system's errors.
    fn free_bytes(&self) -> io::Result<u64>;

    /// The inodes that the file system has left; none where it has no number of them.
    fn free_files(&self) -> Option<u64>;
}

/// An open file of a [`TargetFolder`]; clones share the descriptor.
pub type File = Arc<dyn TargetFile>;

/// The calls of an open file.
pub trait TargetFile: StorageFile {
    /// The file's number.
    fn node(&self) -> io::Result<Node>;

    /// The file's sizes.
    fn sizes(&self) -> io::Result<Sizes>;

    /// Gives a range blocks, and the file a length that covers the range.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Takes the blocks of a range away, which reads as zeros from then on; the length stays.
    fn punch(&self, offset: u64, length: u64) -> io::Result<()>;

    /// The next byte of data (or of a hole) at or after `offset`; none where there is none.
    fn seek(&self, offset: u64, data: bool) -> io::Result<Option<u64>>;

    /// Makes the bytes and everything else of the file durable.
    fn sync_whole(&self) -> io::Result<()>;

    /// Takes the rights of others to the file away.
    fn close_to_others(&self) -> io::Result<()>;
}
