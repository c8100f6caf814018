//! The folders of a server while it runs.

use super::Server;
use crate::storage::Target;

impl Server {
    /// Tells the home what is on stable storage, and takes its word about the folders.
    pub(super) fn heed_home(&mut self) {
        let looks = self.home.look(self.durability.progress().map(|(_, durable)| durable));
        self.durability.note_gone(looks.journal_gone, self.clock.now());
        for (index, look) in &looks.targets {
            if let Some(directory) = self.targets.get_mut(*index).and_then(Target::directory_mut) {
                directory.saw(look);
            }
        }
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
