//! Whether the folder of a target is still the one that was opened, and whether its device works.
//!
//! A folder that is gone holds no objects, and an absent object reads as zeros. So a target whose folder is gone answers nothing but EIO,
//! until the folder is back.

use crate::notices::{notice, warning};
use crate::storage::TargetFailure;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use weir_fairshare::Nanos;

/// The time for which a failure of the device is shown as the state of the target: long enough for a person or a scraper to see it.
const FAILURE_SHOWN: Nanos = Nanos::from_millis(300_000);

/// The outcome of a look at a target's folder.
#[derive(Clone, Debug)]
pub struct Look {
    /// Why the folder is gone, where it is.
    pub(super) found: Result<(), String>,
    /// The room that the file system has left; none where it does not say.
    pub(in crate::storage) free_bytes: Option<u64>,
}

/// The state of a target's folder and device.
pub(in crate::storage) struct Presence {
    path: PathBuf,
    /// Why the folder is gone; none while it is there.
    gone: Option<String>,
    /// The last failure of the device, and its moment.
    failed: Option<(Errno, Nanos)>,
    failures: u64,
}

impl Look {
    /// A folder that is there, and its room.
    pub fn there(free_bytes: Option<u64>) -> Look {
        Look { found: Ok(()), free_bytes }
    }

    /// Whether the folder is there.
    pub fn is_there(&self) -> bool {
        self.found.is_ok()
    }
}

impl Presence {
    pub(in crate::storage) fn new(path: &Path) -> Presence {
        Presence { path: path.to_path_buf(), gone: None, failed: None, failures: 0 }
    }

    pub(in crate::storage) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// Takes up a look. The log tells when its outcome changes.
    pub(in crate::storage) fn saw(&mut self, look: &Look) {
        match (&look.found, self.is_gone()) {
            (Err(words), false) => warning!(
                "target {words}; it answers EIO until the folder is back: mount its disk, or bring the folder back"
            ),
            (Ok(()), true) => notice!("target {} is back, and is served again", self.path.display()),
            _ => {}
        }
        self.gone = look.found.as_ref().err().cloned();
    }

    /// Notes a failure of the device. Clients see EIO, whatever the file system below answers: its other numbers have meanings in calls on
    /// files that they do not have here.
    pub(in crate::storage) fn note(&mut self, failure: TargetFailure, now: Nanos) -> TargetFailure {
        let TargetFailure::Device(raw) = failure else { return failure };
        if !is_of_a_device(failure) {
            return failure;
        }
        // A folder that is gone says nothing about a device.
        if !self.is_gone() {
            let errno = Errno::from_raw_os_error(raw);
            let before = self.failed.replace((errno, now));
            self.failures += 1;
            // Each request of a broken device fails: the log has one line in a while.
            if before.is_none_or(|(_, at)| now.saturating_since(at) > FAILURE_SHOWN) {
                let path = self.path.display();
                warning!("target {path}: its device failed: {errno}; see the kernel's log");
            }
        }
        TargetFailure::Device(Errno::IO.raw_os_error())
    }

    /// The trouble of the target in words; none where it works.
    pub(in crate::storage) fn trouble(&self, now: Nanos) -> Option<String> {
        if self.gone.is_some() {
            return self.gone.clone();
        }
        let (errno, at) = self.failed?;
        let ago = now.saturating_since(at);
        let path = self.path.display();
        (ago <= FAILURE_SHOWN)
            .then(|| format!("{path}: its device failed {} s ago: {errno}", ago.0 / 1_000_000_000))
    }

    /// The failures of the device since the target was opened.
    pub(in crate::storage) fn failures(&self) -> u64 {
        self.failures
    }
}

/// Whether the cause of a failure is a device or folder, and not a request or this process.
pub(super) fn is_of_a_device(failure: TargetFailure) -> bool {
    let TargetFailure::Device(raw) = failure else { return false };
    !matches!(
        Errno::from_raw_os_error(raw),
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
