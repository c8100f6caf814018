//! The folders of a server while it runs.

use super::Server;

impl Server {
    /// Tells the home what is on stable storage, and takes its word about the journal's folder.
    pub(super) fn heed_home(&mut self) {
        let gone = self.home.look(self.durability.progress().map(|(_, durable)| durable));
        self.durability.note_gone(gone, self.clock.now());
    }

    /// A clean stop leaves nothing unsynced, and the mark of it in every stamp.
    pub fn close_journal(&mut self) {
        self.durability.close();
        self.home.close(self.durability.progress().map(|(_, durable)| durable));
    }

    /// Removes the names that came here, which are read, and those that did not leave.
    pub fn forget_written_names(&self) {
        self.home.forget_names();
    }
}
