//! The files of a server's own state: one small trait, and the directory that implements the trait.

use super::error::JournalError;
use crate::machine_time::machine_start;
use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOCK_FILE: &str = "lock";

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

/// A directory of a local file system.
#[derive(Debug)]
pub struct DirectoryStorage {
    path: PathBuf,
    /// None where the directory is found by its path each time.
    handle: Option<fs::File>,
    boot: u128,
    /// Holds the lock.
    _lock: Option<fs::File>,
}

impl DirectoryStorage {
    /// The directory at a path, whether it is there or not, for whoever is alone in it by another lock.
    pub fn at(path: &Path) -> Arc<dyn Storage> {
        Arc::new(DirectoryStorage { path: path.to_owned(), handle: None, boot: machine_start(), _lock: None })
    }

    /// Opens the directory, making a missing one, and locks it against a second server.
    ///
    /// # Errors
    /// [`JournalError::InUse`] if another process has the directory; [`JournalError::Io`].
    pub fn open(path: &Path) -> Result<Arc<dyn Storage>, JournalError> {
        let named = || path.display().to_string();
        if !path.is_dir() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(JournalError::io("make", named()))?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let synced = fs::File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(JournalError::io("sync", parent.display().to_string()))?;
            }
        }
        let handle = Some(fs::File::open(path).map_err(JournalError::io("open", named()))?);
        let lock = Some(lock(path)?);
        Ok(Arc::new(DirectoryStorage { path: path.to_owned(), handle, boot: machine_start(), _lock: lock }))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The number of this boot, as Linux tells it. Without that number every start counts as a new boot.
/// The wait for a holder that is about to let go of the lock: a server that is ending, or a process between fork and exec,
/// which holds every file of its parent until then.
const LOCK_WAIT: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

fn lock(directory: &Path) -> Result<fs::File, JournalError> {
    let path = directory.join(LOCK_FILE);
    let named = || path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&path).map_err(JournalError::io("open", named()))?;
    let deadline = Instant::now() + LOCK_WAIT;
    let locked = loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LOCK_PAUSE),
            tried => break tried,
        }
    };
    match locked {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let holder = std::fs::read_to_string(&path).unwrap_or_default();
            let holder = if holder.trim().is_empty() { "(unknown)" } else { holder.trim() }.to_owned();
            return Err(JournalError::InUse { directory: directory.display().to_string(), holder });
        }
        Err(errno) => return Err(JournalError::io("lock", named())(errno.into())),
    }
    let text = format!("{}\n", std::process::id());
    // The write is in place, so that a full disk does not take the block. The text is only for a reader of the file.
    let written =
        FileExt::write_all_at(&file, text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
    match written {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
        written => written.map_err(JournalError::io("write", named()))?,
    }
    Ok(file)
}

impl Storage for DirectoryStorage {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // The journal's names are text.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(self.path(name))?))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Arc::new(options.open(self.path(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        match &self.handle {
            Some(handle) => handle.sync_all(),
            None => fs::File::open(&self.path)?.sync_all(),
        }
    }

    fn boot(&self) -> u128 {
        self.boot
    }

    fn salt(&self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        if filled < bytes.len() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(u32::from_le_bytes(bytes))
    }

    fn describe(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

impl StorageFile for fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
