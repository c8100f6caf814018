//! The names of a store in memory on their way to another host, with the server that has them.
//!
//! A server that is to leave its host keeps its names in files, too, from the moment on at which it is asked to: as a journal, in
//! a folder of its own. The server on the other host reads the files and removes them before it serves the first request. From
//! then on the names are in memory alone, and a crash loses them as before.

use super::Server;
use crate::control::question::NotChanged;
use crate::durability::{Asker, NamesTicket};
use crate::errands::Errand;
use crate::journal::JournalError;
use crate::notices::notice;
use crate::work::Work;
use weir_placement::ServerId;

impl Server {
    /// Keeps the names of this server in files from now on; the asker is answered when all of them are there. A repeated request
    /// changes nothing.
    pub(super) fn keep_names(&mut self, server: ServerId, asker: Asker) {
        // The asker may have given up.
        if let Err(refusal) = self.membership.check_is_own(server) {
            let _ = asker.try_send(Err(refusal));
            return;
        }
        if self.durability.keeps_names() {
            let _ = asker.try_send(Ok(()));
            return;
        }
        match self.durability.keep_names(asker) {
            Ok(true) => {
                let ticket = NamesTicket::new(self.home.leaving_names());
                self.errands.submit(Errand::Names, Work::Names(ticket));
            }
            Ok(false) => {}
            Err(asker) => {
                let what = format!("server {} writes its names on a slow disk", self.site.id);
                let _ = asker.try_send(Err(NotChanged::NotYet(what)));
            }
        }
    }

    /// Answers those who asked for the names, once all of them are in files or cannot be.
    pub(super) fn tell_of_names(&mut self) {
        let Some((askers, end)) = self.durability.take_departed() else { return };
        if end.is_ok() {
            let folder = self.home.path().display();
            notice!("the names go to another host; until then they are in {folder}/names, too");
        }
        for asker in askers {
            let refused = |error: &JournalError| {
                let what = format!("server {} cannot write its names: {error}", self.site.id);
                NotChanged::refused(what, "make room in the server's folder".into())
            };
            let _ = asker.try_send(end.as_ref().copied().map_err(refused));
        }
    }
}
