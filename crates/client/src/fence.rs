//! Locks that this client lost while it did not reach their server: neither a request that was sent under them nor a later
//! one through their description may change bytes that others have locked since.

use crate::message::Message;
use crate::pool::{look, Link};
use crate::session::Environment;
use crate::{ClientError, Result};
use std::sync::atomic::Ordering;
use weir_session::HeldLock;
use weir_wire::{Capability, Fence};

impl Link {
    /// Notes that the server gave a lock up. Answers `false` where the record stays busy.
    pub(crate) fn lose(&self, lock: &HeldLock) -> bool {
        let Some(mut held) = look(&self.held) else { return false };
        held.lose(lock);
        self.has_lost.store(true, Ordering::SeqCst);
        true
    }

    /// Whether a lock that was taken through this description is lost. A record that stays busy answers for the worst.
    fn has_lost(&self, capability: &Capability) -> bool {
        if !self.has_lost.load(Ordering::SeqCst) {
            return false;
        }
        let Some(held) = look(&self.held) else { return true };
        // While the record is held, no other thread notes a loss.
        self.has_lost.store(held.has_lost_any(), Ordering::SeqCst);
        held.has_lost(capability.handle)
    }
}

/// The fence that a request shows.
///
/// # Errors
/// [`ClientError::LockLost`] for a request about bytes through a description whose lock is lost.
pub(crate) fn shown(environment: Environment<'_>, message: Message<'_>) -> Result<Fence> {
    let Some(capability) = message.changes_or_reads() else { return Ok(Fence::NONE) };
    let link = environment.link(capability.ino.home())?;
    // The fence comes first: a connection that finds locks lost notes them before it takes over a fence.
    let fence = link.standing.fence();
    if link.has_lost(&capability) {
        return Err(ClientError::LockLost(link.server()));
    }
    Ok(fence)
}
