//! Whether the folder of a target is still the one that was opened, and whether its device works.
//!
//! A folder that is gone holds no objects, and an absent object reads as zeros. So a target whose folder is gone answers nothing but EIO,
//! until the folder is back. An absent object is believed only right after a look at the folder.

use super::names::lock;
use crate::clock::Time;
use crate::notices::{notice, warning};
use crate::storage::files::TargetFolder;
use crate::storage::stamp::{self, Stamp};
use crate::storage::TargetFailure;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weir_fairshare::Nanos;

/// The time for which a failure of the device is shown as the state of the target: long enough for a person or a scraper to see it.
const FAILURE_SHOWN: Nanos = Nanos::from_millis(300_000);

/// The state of a target's folder and device.
pub(super) struct Presence {
    folder: Arc<dyn TargetFolder>,
    stamp: Option<Arc<Stamp>>,
    time: Arc<dyn Time>,
    is_gone: AtomicBool,
    /// Why the folder is gone; none while it is there.
    gone: Mutex<Option<String>>,
    /// The last failure of the device, and its moment.
    failed: Mutex<Option<(Errno, Nanos)>>,
    failures: AtomicU64,
}

impl Presence {
    pub(super) fn new(
        folder: Arc<dyn TargetFolder>,
        stamp: Option<Arc<Stamp>>,
        time: Arc<dyn Time>,
    ) -> Presence {
        Presence {
            folder,
            stamp,
            time,
            is_gone: AtomicBool::new(false),
            gone: Mutex::default(),
            failed: Mutex::default(),
            failures: AtomicU64::new(0),
        }
    }

    /// Refuses while the folder is known to be gone.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.is_gone.load(Ordering::SeqCst) {
            true => Err(Errno::IO.into()),
            false => Ok(()),
        }
    }

    /// Looks whether the folder is there. The log tells when that changes.
    ///
    /// # Errors
    /// EIO where it is gone.
    pub(super) fn look(&self) -> io::Result<()> {
        let found = self.folder.check_place().and_then(|()| self.check_stamp());
        let mut gone = lock(&self.gone);
        let path = self.folder.path().display();
        match (&found, gone.is_some()) {
            (Err(error), false) => warning!(
                "target {path}: {error}; it answers EIO until the folder is back: mount its disk, or bring the folder back"
            ),
            (Ok(()), true) => notice!("target {path} is back, and is served again"),
            _ => {}
        }
        *gone = found.as_ref().err().map(|error| format!("{path}: {error}"));
        self.is_gone.store(gone.is_some(), Ordering::SeqCst);
        found.map_err(|_| Errno::IO.into())
    }

    /// Checks that the stamp is still in the folder: whoever removed it removed the objects as well.
    fn check_stamp(&self) -> io::Result<()> {
        let Some(stamp) = &self.stamp else { return Ok(()) };
        match self.folder.node_of(Path::new(stamp::NAME)) == Some(stamp.node()) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "its files are gone")),
        }
    }

    /// Writes a later mark of the journal into the stamp of a folder that is there.
    pub(super) fn keep_mark(&self, durable: u64) {
        if let Some(stamp) = self.stamp.as_ref().filter(|_| self.check().is_ok()) {
            // A mark that is not written leaves an older one, which is true as well.
            let _ = stamp.write_mark(durable);
        }
    }

    /// Notes a failure of the device. Clients see EIO, whatever the file system below answers: its other numbers have meanings in calls on
    /// files that they do not have here.
    pub(super) fn note(&self, failure: TargetFailure) -> TargetFailure {
        let TargetFailure::Device(raw) = failure else { return failure };
        let errno = Errno::from_raw_os_error(raw);
        if !is_of_a_device(errno) {
            return failure;
        }
        let failure = TargetFailure::Device(Errno::IO.raw_os_error());
        if self.check().is_err() || self.look().is_err() {
            // The folder is gone, which says nothing about a device.
            return failure;
        }
        let now = self.time.elapsed();
        let before = lock(&self.failed).replace((errno, now));
        self.failures.fetch_add(1, Ordering::Relaxed);
        // Each request of a broken device fails: the log has one line in a while.
        if before.is_none_or(|(_, at)| now.saturating_since(at) > FAILURE_SHOWN) {
            warning!(
                "target {}: its device failed: {errno}; see the kernel's log",
                self.folder.path().display()
            );
        }
        failure
    }

    /// The trouble of the target in words; none where it works.
    pub(super) fn trouble(&self) -> Option<String> {
        if let Some(gone) = &*lock(&self.gone) {
            return Some(gone.clone());
        }
        let (errno, at) = (*lock(&self.failed))?;
        let ago = self.time.elapsed().saturating_since(at);
        if ago > FAILURE_SHOWN {
            return None;
        }
        let path = self.folder.path().display();
        Some(format!("{path}: its device failed {} s ago: {errno}", ago.0 / 1_000_000_000))
    }

    /// The failures of the device since the target was opened.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Whether an error number tells of a device or folder, and not of a request or of this process.
fn is_of_a_device(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::INVAL
            | Errno::FBIG
            | Errno::OPNOTSUPP
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::INTR
            | Errno::AGAIN
    )
}
