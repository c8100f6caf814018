//! The folders of a server, which a monitor looks after while the server runs.

use super::Server;
use crate::error::ServerError;
use crate::identity::Monitor;
use crate::storage::Target;
use std::sync::Arc;

impl Server {
    /// Has the folders looked after that outlive the server.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn watch_places(&mut self) -> Result<(), ServerError> {
        if let Some(identity) = &mut self.identity {
            let targets = self.targets.iter().filter_map(Target::directory).map(Arc::downgrade);
            self.monitor = Some(Monitor::start(identity, targets.collect())?);
        }
        Ok(())
    }

    /// Tells the monitor what is on stable storage, and takes its word about the journal's folder.
    pub(super) fn heed_monitor(&mut self) {
        let Some(monitor) = &self.monitor else { return };
        if let Some((_, durable)) = self.durability.progress() {
            monitor.note_durable(durable);
        }
        let gone = monitor.journal_gone();
        self.durability.note_gone(gone, self.clock.now());
    }

    /// A clean stop leaves nothing unsynced, and the mark of it in every stamp.
    pub(crate) fn close_journal(&mut self) {
        self.durability.close();
        // The thread lets go of the stamps first.
        self.monitor = None;
        if let (Some(identity), Some((_, durable))) = (&self.identity, self.durability.progress()) {
            identity.close(durable);
        }
    }
}
