//! The names of a store in memory on their way to another host, with the server that has them.
//!
//! A server that is to leave its host keeps its names in files, too, from the moment on at which it is asked to: as a journal, in
//! a folder of its own. The server on the other host reads the files and removes them before it serves the first request. From
//! then on the names are in memory alone, and a crash loses them as before.

use super::Server;
use crate::control::question::NotChanged;
use crate::notices::{notice, warning};
use std::path::PathBuf;
use weir_placement::ServerId;

impl Server {
    /// Keeps the names of this server in files from now on. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn keep_names(&mut self, server: ServerId) -> Result<(), NotChanged> {
        self.check_is_own(server)?;
        if self.durability.is_durable() {
            return Ok(());
        }
        let folder = self.leaving_names();
        self.durability.keep_names(&folder, &mut self.namespace).map_err(|error| {
            let what = format!("server {server} cannot write its names: {error}");
            NotChanged::refused(what, "make room in the server's folder".into())
        })?;
        notice!("the names go to another host; until then they are in {}, too", folder.display());
        Ok(())
    }

    /// The folder of names that go to another host.
    fn leaving_names(&self) -> PathBuf {
        self.site.folder.join("names")
    }

    /// The folder of names that came from another host.
    pub(super) fn arrived_names(&self) -> PathBuf {
        self.site.folder.join("arrived")
    }

    /// Removes the names that came here, which are read, and those that did not leave.
    pub(crate) fn forget_written_names(&self) {
        for folder in
            [self.arrived_names(), self.leaving_names()].into_iter().filter(|folder| folder.exists())
        {
            if let Err(error) = std::fs::remove_dir_all(&folder) {
                warning!("{} cannot be removed: {error}; remove it before the next start", folder.display());
            }
        }
    }
}
