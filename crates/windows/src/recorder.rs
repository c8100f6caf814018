//! The counting side: what a process does with each operation that ends.

use crate::error::WindowsError;
use crate::file;
use crate::format::{Device, Operation, AT_MAGIC, AT_SALT, AT_WINDOW, LINES, MAGIC, WINDOWS, WORDS};
use crate::job::Job;
use crate::mapping::Mapping;
use crate::table::Table;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A process's way to the windows of its user.
#[derive(Debug)]
pub struct Recorder {
    mapping: Mapping,
    /// The key under which this process wrote the head of each line.
    introduced: Box<[AtomicU64]>,
    window_nanoseconds: u64,
    salt: u64,
}

impl Recorder {
    /// Maps the file in `folder` for windows of a length; both are made where they are not there.
    ///
    /// # Errors
    /// A folder or file that belongs to another user or that others may use, one of another form, and failures of the system.
    pub fn open(folder: &Path, window: Duration) -> Result<Recorder, WindowsError> {
        let window_nanoseconds = file::checked(window)?;
        let opened = file::open(folder, window)?;
        let mapping = Mapping::of_file(&opened.descriptor).map_err(|source| opened.failed("map", source))?;
        let words = mapping.words();
        // Processes that come at once write the same words, or keep the words of the first.
        let settle = |at: usize, wanted: u64| {
            words[at].compare_exchange(0, wanted, Relaxed, Relaxed).map_or_else(|held| held, |_| wanted)
        };
        let salt = settle(AT_SALT, file::random().map_err(|source| opened.failed("fill", source))?);
        if settle(AT_WINDOW, window_nanoseconds) != window_nanoseconds {
            return Err(opened.unfit("it has windows of another length"));
        }
        if settle(AT_MAGIC, MAGIC) != MAGIC {
            return Err(opened.unfit("it is of another version"));
        }
        Ok(Recorder::over(mapping, window_nanoseconds, salt))
    }

    /// A recorder whose windows are of this process alone. A child of `fork` finds them empty.
    ///
    /// # Errors
    /// A length of windows outside of its limits, and failures of the system.
    pub(crate) fn of_process(window: Duration) -> Result<Recorder, WindowsError> {
        let window_nanoseconds = file::checked(window)?;
        let mapping = Mapping::of_process(WORDS).map_err(WindowsError::Memory)?;
        // No other program names a job here, so keys need no secret.
        Ok(Recorder::over(mapping, window_nanoseconds, 0))
    }

    fn over(mapping: Mapping, window_nanoseconds: u64, salt: u64) -> Recorder {
        let introduced = (0..LINES).map(|_| AtomicU64::new(0)).collect();
        Recorder { mapping, introduced, window_nanoseconds, salt }
    }

    /// A job of a user on a store. A name that is too long is cut.
    pub fn job(&self, store: u64, uid: u32, name: &str) -> Job {
        Job::new(self.salt, store, uid, name)
    }

    /// Counts an operation of a job on a device that ended at a Unix time and took so long, both in nanoseconds.
    ///
    /// It makes no system call and takes no lock.
    #[inline]
    pub fn count(&self, job: &Job, device: Device, operation: Operation, ended: u64, took: u64) {
        let window = ended / self.window_nanoseconds;
        if let Some(line) = self.line(job, device, window) {
            self.table().count(line, window, operation, took);
        }
    }

    /// Counts an operation, as [`Recorder::count`] does, unless its window is older than the ring of its line: it is left out then.
    #[inline]
    pub(crate) fn count_in_ring(
        &self,
        job: &Job,
        device: Device,
        operation: Operation,
        ended: u64,
        took: u64,
    ) {
        let (table, window) = (self.table(), ended / self.window_nanoseconds);
        let Some(line) = self.line(job, device, window) else { return };
        if window + WINDOWS as u64 <= table.last(line) {
            return table.leave_out();
        }
        table.count(line, window, operation, took);
    }

    /// The line of a job and a device. Where there is none, the operation is left out.
    #[inline]
    fn line(&self, job: &Job, device: Device, window: u64) -> Option<usize> {
        let (table, key) = (self.table(), job.key(device));
        let Some((line, is_claimed)) = table.line(key, window) else {
            table.leave_out();
            return None;
        };
        if is_claimed || self.introduced[line].load(Relaxed) != key {
            self.introduce(table, line, key, job, device);
        }
        Some(line)
    }

    /// Length of a window, in nanoseconds.
    pub(crate) fn window_nanoseconds(&self) -> u64 {
        self.window_nanoseconds
    }

    /// The number from which keys are made.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// The table.
    pub(crate) fn table(&self) -> Table<'_> {
        Table::new(self.mapping.words())
    }

    #[cold]
    fn introduce(&self, table: Table<'_>, line: usize, key: u64, job: &Job, device: Device) {
        if table.has(line, key) {
            table.introduce(line, &job.head(device));
            self.introduced[line].store(key, Relaxed);
        }
    }
}
