//! The client of a store in a Python process, on which `weir.store.connect` and `weir://` stand.
//!
//! Each call gives the interpreter's lock up while it waits for servers, so threads go on beside each other. A path is one of
//! the store, and leads from its root.

mod attributes;
mod calls;
mod failure;
mod file;
mod forks;
mod memory;

use attributes::{moment, row, Row};
use calls::{copy, listed, opened, opened_to_read, read_fully, write_fully, Entry, CALLER};
use failure::{failed, failed_on_two};
pub(crate) use file::StoreFile;
use forks::Forks;
use memory::Memory;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use weir_client::wire::{AttributeChange, NodeKind, RenameMode, XattrMode};
use weir_client::{Place, Result, Settings, Store};

/// The client of a store. Nothing is opened before its first call, and threads may call it at once.
#[pyclass(frozen, weakref, module = "weir._core")]
pub(crate) struct StoreClient {
    store: Store,
    forks: Forks,
}

#[pymethods]
impl StoreClient {
    /// Name a store by the variables of a program that uses it (WEIR_CLUSTER, WEIR_CREDENTIAL and others).
    ///
    /// Raises ValueError for a variable that is missing or cannot be used.
    #[new]
    fn new(variables: HashMap<String, OsString>) -> PyResult<StoreClient> {
        let settings = Settings::from_variables(|name| variables.get(name).cloned());
        let settings = settings.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(StoreClient { store: Store::new(settings), forks: Forks::default() })
    }

    /// Give the child of a fork its own connections. The child calls this before all else.
    fn after_fork_in_child(&self) {
        self.forks.count_one();
        self.store.after_fork_in_child(|descriptor| {
            // A descriptor that is gone is as good as closed.
            let _ = nix::unistd::close(descriptor);
        });
    }

    /// The counts of the calls of this client, by their names.
    fn counters(&self) -> PyResult<HashMap<String, u64>> {
        let counters = serde_json::to_value(self.store.counters().snapshot());
        counters.and_then(serde_json::from_value).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Open a regular file with flags of `os`, such as `os.O_RDONLY`. Raises OSError.
    fn open(&self, py: Python<'_>, path: PathBuf, flags: i32, permissions: u16) -> PyResult<StoreFile> {
        let opened = self.call(py, &path, |store, place| opened(store, place, flags, permissions))?;
        Ok(StoreFile::new(opened, self.store.clone(), path, self.forks.clone()))
    }

    /// The bytes of a file from `start` to before `end`, which count from the file's end where they are negative. Raises OSError.
    #[pyo3(signature = (path, start=0, end=None))]
    fn read_file<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        start: i64,
        end: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (file, size) = self.call(py, &path, opened_to_read)?;
        let at = |place: i64| if place < 0 { (size + place).max(0) } else { place.min(size) };
        let (start, end) = (at(start), end.map_or(size, at));
        let mut count = 0;
        let bytes = PyBytes::new_with(py, (end - start).max(0) as usize, |room| {
            count = self.call(py, &path, |_, _| read_fully(&file, room, start as u64))?;
            Ok(())
        });
        self.call(py, &path, |_, _| file.close(&CALLER))?;
        let bytes = bytes?;
        Ok(if count < bytes.as_bytes().len() { PyBytes::new(py, &bytes.as_bytes()[..count]) } else { bytes })
    }

    /// Write a whole file, which flags of `os` make or replace. Raises OSError; a part of the bytes may then be there.
    fn write_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        data: &Bound<'_, PyAny>,
        flags: i32,
        permissions: u16,
    ) -> PyResult<()> {
        let memory = Memory::readable(data)?;
        let bytes = memory.bytes();
        self.call(py, &path, |store, place| {
            let file = opened(store, place, flags, permissions)?;
            let written = write_fully(&file, bytes);
            file.close(&CALLER).and(written)
        })
    }

    /// Copy the bytes of a file, without their way through Python, and return their number. Raises OSError.
    fn copy_file(&self, py: Python<'_>, source: PathBuf, target: PathBuf, permissions: u16) -> PyResult<u64> {
        let (from, to) = (source.as_os_str().as_bytes(), target.as_os_str().as_bytes());
        let copied = py.detach(|| copy(&self.store, Place::root(from), Place::root(to), permissions));
        copied.map_err(|error| failed_on_two(py, &error, &source, &target))
    }

    /// The attributes of a node: mode, inode, links, uid, gid, size and allocated bytes, and the nanoseconds since 1970 of the
    /// last access, modification and change, and of the creation. Raises OSError.
    fn attributes(&self, py: Python<'_>, path: PathBuf, follow: bool) -> PyResult<Row> {
        self.call(py, &path, |store, place| store.attributes(&CALLER, place, follow).map(|found| row(&found)))
    }

    /// The entries of a directory without `.` and `..`: name, type as in `st_mode`, and attributes where the directory's
    /// server holds them. Raises OSError.
    fn list(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<Entry>> {
        self.call(py, &path, listed)
    }

    /// Make a directory. Raises OSError.
    fn make_directory(&self, py: Python<'_>, path: PathBuf, permissions: u16) -> PyResult<()> {
        self.call(py, &path, |store, place| {
            store.make(&CALLER, place, NodeKind::Directory, permissions).map(|_| ())
        })
    }

    /// Make a symbolic link. Raises OSError.
    fn make_link(&self, py: Python<'_>, target: PathBuf, path: PathBuf) -> PyResult<()> {
        let target = target.as_os_str().as_bytes();
        self.call(py, &path, |store, place| store.symlink(&CALLER, place, target).map(|_| ()))
    }

    /// The target of a symbolic link. Raises OSError.
    fn link_target(&self, py: Python<'_>, path: PathBuf) -> PyResult<OsString> {
        self.call(py, &path, |store, place| store.read_link(&CALLER, place).map(OsString::from_vec))
    }

    /// Remove the name of a directory, or of another node. Raises OSError.
    fn remove(&self, py: Python<'_>, path: PathBuf, directory: bool) -> PyResult<()> {
        self.call(py, &path, |store, place| store.unlink(&CALLER, place, directory))
    }

    /// Move a name, in place of another node or only where there is none. Raises OSError.
    fn move_name(&self, py: Python<'_>, source: PathBuf, target: PathBuf, replace: bool) -> PyResult<()> {
        let (from, to) = (source.as_os_str().as_bytes(), target.as_os_str().as_bytes());
        let mode = if replace { RenameMode::Replace } else { RenameMode::NoReplace };
        let moved = py.detach(|| self.store.rename(&CALLER, Place::root(from), Place::root(to), mode));
        moved.map_err(|error| failed_on_two(py, &error, &source, &target))
    }

    /// Change attributes; those that are None stay. Times are nanoseconds since 1970. Raises OSError.
    #[pyo3(signature = (path, *, permissions=None, size_bytes=None, accessed=None, modified=None))]
    fn change(
        &self,
        py: Python<'_>,
        path: PathBuf,
        permissions: Option<u16>,
        size_bytes: Option<u64>,
        accessed: Option<i128>,
        modified: Option<i128>,
    ) -> PyResult<()> {
        let change = AttributeChange {
            permissions,
            size_bytes,
            accessed: accessed.map(|time| Some(moment(time))),
            modified: modified.map(|time| Some(moment(time))),
            ..AttributeChange::default()
        };
        self.call(py, &path, |store, place| store.change(&CALLER, place, true, change).map(|_| ()))
    }

    /// The value of an extended attribute. Raises OSError.
    fn xattr(&self, py: Python<'_>, path: PathBuf, name: OsString) -> PyResult<Py<PyBytes>> {
        let value =
            self.call(py, &path, |store, place| store.xattr(&CALLER, place, true, name.as_bytes()))?;
        Ok(PyBytes::new(py, &value).unbind())
    }

    /// Set an extended attribute. Raises OSError.
    fn set_xattr(&self, py: Python<'_>, path: PathBuf, name: OsString, value: &[u8]) -> PyResult<()> {
        self.call(py, &path, |store, place| {
            store.set_xattr(&CALLER, place, true, name.as_bytes(), value, XattrMode::Set)
        })
    }

    /// The names of the extended attributes. Raises OSError.
    fn xattr_names(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<OsString>> {
        let names = self.call(py, &path, |store, place| store.xattr_names(&CALLER, place, true))?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
    }

    /// Remove an extended attribute. Raises OSError.
    fn remove_xattr(&self, py: Python<'_>, path: PathBuf, name: OsString) -> PyResult<()> {
        self.call(py, &path, |store, place| store.remove_xattr(&CALLER, place, true, name.as_bytes()))
    }

    /// The bytes that the store can hold, and those that it can still take. Raises OSError.
    fn room(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let room = self.call(py, Path::new("/"), |store, _| store.statistics(&CALLER))?.room;
        Ok((room.capacity_bytes, room.free_bytes))
    }
}

impl StoreClient {
    /// Makes a call of the store on a path, without the interpreter's lock.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        path: &Path,
        work: impl FnOnce(&Store, Place<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        let bytes = path.as_os_str().as_bytes();
        py.detach(|| work(&self.store, Place::root(bytes))).map_err(|error| failed(py, &error, path))
    }
}
