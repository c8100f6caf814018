//! An open file of the store in a Python process.

use super::attributes::{row, Row};
use super::calls::{read_fully, CALLER};
use super::failure::failed;
use super::forks::Forks;
use super::memory::Memory;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use weir_client::{ClientError, File, Result, Store};

/// An open file. Threads may use it at once; the child of a fork has the same open description.
#[pyclass(frozen, module = "weir._core")]
pub(crate) struct StoreFile {
    file: File,
    store: Store,
    path: PathBuf,
    forks: Forks,
    /// The number of forks after which this process's client held the description.
    held_since: AtomicU32,
    is_closed: AtomicBool,
}

#[pymethods]
impl StoreFile {
    /// At most `size` bytes at `offset`; fewer only at the end of the file. Raises OSError.
    fn read_at<'py>(&self, py: Python<'py>, size: usize, offset: u64) -> PyResult<Bound<'py, PyBytes>> {
        let mut count = 0;
        let bytes = PyBytes::new_with(py, size, |room| {
            count = self.call(py, |file| read_fully(file, room, offset))?;
            Ok(())
        })?;
        Ok(if count < size { PyBytes::new(py, &bytes.as_bytes()[..count]) } else { bytes })
    }

    /// Fill a buffer from `offset` on, and return the number of bytes, 0 at the end of the file. Raises OSError.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        let room = memory.bytes_mut();
        self.call(py, |file| file.read_at(&CALLER, &mut [IoSliceMut::new(room)], offset))
    }

    /// Write bytes at `offset`, and return their number: all, or those before a failure. Raises OSError.
    fn write_at(&self, py: Python<'_>, data: &Bound<'_, PyAny>, offset: u64) -> PyResult<usize> {
        let memory = Memory::readable(data)?;
        let bytes = memory.bytes();
        self.call(py, |file| file.write_at(&CALLER, &[IoSlice::new(bytes)], offset))
    }

    /// Append bytes in one piece, and return the offset at which they stand, and their number. Raises OSError.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<(u64, usize)> {
        let memory = Memory::readable(data)?;
        let bytes = memory.bytes();
        self.call(py, |file| file.append(&CALLER, &[IoSlice::new(bytes)]))
    }

    /// The size in bytes, which the home server is asked for. Raises OSError.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |file| file.size(&CALLER))
    }

    /// The attributes, as those of `StoreClient.attributes`. Raises OSError.
    fn attributes(&self, py: Python<'_>) -> PyResult<Row> {
        self.call(py, |file| file.attributes(&CALLER).map(|found| row(&found)))
    }

    /// Set the size. Raises OSError.
    fn truncate(&self, py: Python<'_>, size_bytes: u64) -> PyResult<()> {
        self.call(py, |file| file.truncate(&CALLER, size_bytes))
    }

    /// Make bytes and size durable, and the modification time unless `data_only`. Raises OSError.
    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.call(py, |file| file.sync(&CALLER, data_only))
    }

    /// End the description of this process; a second call changes nothing. Raises OSError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // What this process never used it does not hold.
        let is_held = self.held_since.load(Ordering::Acquire) == self.forks.count();
        if self.is_closed.swap(true, Ordering::AcqRel) || !is_held {
            return Ok(());
        }
        py.detach(|| self.file.close(&CALLER)).map_err(|error| failed(py, &error, &self.path))
    }
}

impl StoreFile {
    /// The file that a client has just opened.
    pub(crate) fn new(file: File, store: Store, path: PathBuf, forks: Forks) -> StoreFile {
        let held_since = AtomicU32::new(forks.count());
        StoreFile { file, store, path, forks, held_since, is_closed: AtomicBool::new(false) }
    }

    fn call<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&File) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| self.held().and_then(work)).map_err(|error| failed(py, &error, &self.path))
    }

    /// The file, whose description this process's client holds, also after a fork.
    fn held(&self) -> Result<&File> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(ClientError::number(libc::EBADF));
        }
        let forks = self.forks.count();
        if self.held_since.load(Ordering::Acquire) != forks {
            self.store.adopt(self.file.capability())?;
            self.held_since.store(forks, Ordering::Release);
        }
        Ok(&self.file)
    }
}
