//! The files of a journal: one small trait, and the directory that implements the trait.

use super::error::JournalError;
use crate::clock::machine_start;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOCK_FILE: &str = "lock";

/// A flat directory of files. Written bytes survive a killed process at once, and a power loss after [`StorageFile::sync`]. A
/// made, changed or removed name survives a power loss after [`Storage::sync_directory`].
pub trait Storage: Clone + Send + Sync + 'static {
    /// An open file.
    type File: StorageFile;

    /// Names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file. Each call gives a descriptor of its own, which learns of write errors on its own.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Makes a file, or empties an existing one.
    fn create(&self, name: &str) -> io::Result<Self::File>;
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

/// One file of a [`Storage`]; clones share the descriptor.
pub trait StorageFile: Clone + Send + Sync + 'static {
    /// Reads at `offset`; 0 bytes at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; answers the number of written bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// The length of the file in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file to `length` bytes.
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of a local file system, locked against a second server while any clone lives.
#[derive(Clone, Debug)]
pub struct DirectoryStorage(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    handle: File,
    boot: u128,
    /// Holds the lock.
    _lock: File,
}

impl DirectoryStorage {
    /// Opens the directory, making a missing one, and locks it.
    ///
    /// # Errors
    /// [`JournalError::InUse`] if another process has the directory; [`JournalError::Io`].
    pub fn open(path: &Path) -> Result<DirectoryStorage, JournalError> {
        let named = || path.display().to_string();
        if !path.is_dir() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(JournalError::io("make", named()))?;
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                let synced = File::open(parent).and_then(|parent| parent.sync_all());
                synced.map_err(JournalError::io("sync", parent.display().to_string()))?;
            }
        }
        let handle = File::open(path).map_err(JournalError::io("open", named()))?;
        let lock = lock(path)?;
        Ok(DirectoryStorage(Arc::new(Directory {
            path: path.to_owned(),
            handle,
            boot: machine_start(),
            _lock: lock,
        })))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path.join(name)
    }
}

/// The number of this boot, as Linux tells it. Without that number every start counts as a new boot.
/// The wait for a holder that is about to let go of the lock: a server that is ending, or a process between fork and exec,
/// which holds every file of its parent until then.
const LOCK_WAIT: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

fn lock(directory: &Path) -> Result<File, JournalError> {
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
    let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
    match written {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
        written => written.map_err(JournalError::io("write", named()))?,
    }
    Ok(file)
}

impl Storage for DirectoryStorage {
    type File = Arc<File>;

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0.path)? {
            // The journal's names are text.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<File>> {
        OpenOptions::new().read(true).write(true).open(self.path(name)).map(Arc::new)
    }

    fn create(&self, name: &str) -> io::Result<Arc<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        options.open(self.path(name)).map(Arc::new)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.handle.sync_all()
    }

    fn boot(&self) -> u128 {
        self.0.boot
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

impl StorageFile for Arc<File> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&**self, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&**self, bytes, offset)
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
