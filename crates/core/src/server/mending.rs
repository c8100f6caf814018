//! Repairs: one fault of the tree, by one group of the journal.

use super::Server;
use crate::control::question::NotMended;
use crate::namespace::Order;
use crate::notices::notice;
use weir_wire::Ino;

impl Server {
    /// Carries out an order of a check, which was given by a holder of the site key; answers the inode that it is about.
    ///
    /// # Errors
    /// The fault is not there, or the journal takes no changes.
    pub(super) fn mend(&mut self, order: &Order) -> Result<Ino, NotMended> {
        let (decision, ino) = self.namespace.mend(order, self.clock.moment()).map_err(NotMended::Refused)?;
        self.commit_and_wake(&decision).map_err(NotMended::Journal)?;
        notice!("repair: {}", serde_json::to_string(order).unwrap_or_default());
        Ok(ino)
    }
}
