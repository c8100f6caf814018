//! The files of a server's own state in a directory.

use crate::machine_time::machine_start;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_core::journal::{File, JournalError, Storage, StorageFile};

const LOCK_FILE: &str = "lock";

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
        Ok(Arc::new(LocalFile(OpenOptions::new().read(true).write(true).open(self.path(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        Ok(Arc::new(LocalFile(options.open(self.path(name))?)))
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

/// A file of a local file system.
#[derive(Debug)]
pub(crate) struct LocalFile(pub(crate) fs::File);

impl StorageFile for LocalFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, offset)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_server_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = DirectoryStorage::open(directory.path()).expect("it opens");
        let refused = DirectoryStorage::open(directory.path()).expect_err("it is refused").to_string();
        assert!(refused.contains(&format!("in use by process {}", std::process::id())), "{refused}");
        drop(first);
        DirectoryStorage::open(directory.path()).expect("the lock went with its holder");
    }
}
