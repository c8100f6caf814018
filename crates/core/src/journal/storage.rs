//! The files of a server's own state: one small trait.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A flat directory of files. Written bytes survive a killed process at once, and a power loss after [`StorageFile::sync`]. A
/// made, changed or removed name survives a power loss after [`Storage::sync_directory`].
pub trait Storage: Debug + Send + Sync {
    /// Names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file. Each call gives a descriptor of its own, which learns of write errors on its own.
    fn open(&self, name: &str) -> io::Result<File>;
    /// Makes a file, or empties an existing one.
    fn create(&self, name: &str) -> io::Result<File>;
    /// Renames a file, replacing `to`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Replaces a file as a whole, durably.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = format!("{name}.new");
        let file = self.create(&unfinished)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        self.rename(&unfinished, name)?;
        self.sync_directory()
    }
    /// A number for the time since the machine started. No power loss took a byte that was written within that time.
    fn boot(&self) -> u128;
    /// A random number for the checksums of a file, so that nobody's data can pass for a record.
    fn salt(&self) -> io::Result<u32>;
    /// The name of the file for a message.
    fn describe(&self, name: &str) -> String;
}

/// An open file of a [`Storage`]; clones share the descriptor.
pub type File = Arc<dyn StorageFile>;

/// The calls of an open file.
pub trait StorageFile: Debug + Send + Sync {
    /// Reads at `offset`; 0 bytes at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; answers the number of written bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// Fills `buffer` from `offset`, or as much of it as the file has; answers the number of bytes.
    fn fill_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
    /// Reads the file from its beginning on, up to `bytes_max`.
    fn read_whole(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.length()?).unwrap_or(usize::MAX).min(bytes_max);
        let mut bytes = vec![0; length];
        let filled = self.fill_at(&mut bytes, 0)?;
        bytes.truncate(filled);
        Ok(bytes)
    }
    /// The length of the file in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file to `length` bytes.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}
