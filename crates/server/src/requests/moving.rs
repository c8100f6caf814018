//! What the one who moves an object asks of its targets beside its bytes.

use crate::namespace::errno;
use crate::server::Server;
use weir_placement::TargetId;
use weir_wire::{Capability, Reply};

impl Server {
    /// What changed of an object since the last round, for a capability that holds.
    pub(crate) fn object_changes(
        &mut self,
        capability: &Capability,
        target: TargetId,
        tracking: u64,
        round: u32,
    ) -> Reply {
        if target.server != self.id {
            return Reply::Failed(errno::EINVAL);
        }
        if !capability.rights.write {
            return Reply::Failed(errno::EBADF);
        }
        let changes = match self.targets.get_mut(usize::from(target.index)) {
            Some(target) => target.changes(capability.ino, tracking, round),
            None => return Reply::Failed(errno::EINVAL),
        };
        changes.map_or(Reply::Failed(errno::ESTALE), Reply::Changes)
    }
}
