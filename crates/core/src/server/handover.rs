//! The names of a store in memory on their way to another host, with the server that has them.
//!
//! A server that is to leave its host keeps its names in files, too, from the moment on at which it is asked to: as a journal, in
//! a folder of its own. The server on the other host reads the files and removes them before it serves the first request. From
//! then on the names are in memory alone, and a crash loses them as before.

use super::Server;
use crate::control::question::NotChanged;
use crate::notices::notice;
use weir_placement::ServerId;

impl Server {
    /// Keeps the names of this server in files from now on. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn keep_names(&mut self, server: ServerId) -> Result<(), NotChanged> {
        self.membership.check_is_own(server)?;
        if self.durability.is_durable() {
            return Ok(());
        }
        let Server { durability, home, namespace, .. } = self;
        durability.keep_names(|| home.leaving_names(), namespace).map_err(|error| {
            let what = format!("server {server} cannot write its names: {error}");
            NotChanged::refused(what, "make room in the server's folder".into())
        })?;
        let folder = self.home.path().display();
        notice!("the names go to another host; until then they are in {folder}/names, too");
        Ok(())
    }
}
