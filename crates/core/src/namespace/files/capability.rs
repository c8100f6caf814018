//! Capabilities of descriptions and of moves, and their worth.

use super::Files;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::decision::Caller;
use crate::namespace::errno::{EACCES, ESTALE};
use crate::namespace::intents::IntentId;
use weir_wire::{Capability, ClientId, Description, Errno, HandleId, Ino, Moment, Rights};

/// The bit that marks the handle in the capability of a move. Starts are counted in seconds, so no description has the bit.
const MOVE: u64 = 1 << 63;

/// The handle in the capability of a mover.
pub(super) fn move_handle(id: IntentId) -> HandleId {
    HandleId(id.0 | MOVE)
}

/// Whether a handle is that of a move.
pub(crate) fn is_of_move(handle: HandleId) -> bool {
    handle.0 & MOVE != 0
}

/// Unix time in whole seconds.
pub(crate) fn seconds(now: Moment) -> u64 {
    u64::try_from(now.seconds).unwrap_or(0)
}

impl Files {
    /// The rights of the description `handle` of `ino`, if `client` holds it.
    pub(crate) fn held(&self, client: ClientId, ino: Ino, handle: HandleId) -> Option<Rights> {
        self.open.held(client, ino, handle).map(|description| description.rights)
    }

    /// Whether a capability of a file of this server is the caller's, and its description open.
    ///
    /// # Errors
    /// EACCES if the capability is forged or another user's, ESTALE if its description is closed.
    pub(crate) fn check_capability(&self, caller: &Caller<'_>, capability: &Capability) -> Result<(), Errno> {
        if !self.key.admits(capability) || !caller.may_use(capability) {
            return Err(EACCES);
        }
        self.is_live(capability).then_some(()).ok_or(ESTALE)
    }

    /// Whether the description of a capability that this server made is open, or its move under way. During the grace period a
    /// description of an earlier start counts as open: its holder may not have come back yet. A program that has the description
    /// from another holder, such as a mount, cannot take it back itself.
    pub(crate) fn is_live(&self, capability: &Capability) -> bool {
        let Capability { ino, handle, .. } = *capability;
        if is_of_move(handle) {
            return self.moves.get(ino).is_some_and(|record| move_handle(record.id) == handle);
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ClosedStillOpen) {
            return self.has(ino);
        }
        let is_awaited = self.in_grace && self.open.is_earlier(handle) && self.has(ino);
        handle != HandleId::NONE && (self.open.has(capability) || is_awaited)
    }

    /// Whether a description ends when `client` closes it.
    pub(crate) fn ends_with(&self, client: ClientId, ino: Ino, handle: HandleId) -> bool {
        self.open.held(client, ino, handle).is_some() && self.open.ends_with(handle, client)
    }

    /// Answers for each of these capabilities, in the same order, whether it belongs to an open description of a file here.
    pub(crate) fn hold(&self, capabilities: &[Capability]) -> Vec<bool> {
        capabilities.iter().map(|one| self.key.admits(one) && self.is_live(one)).collect()
    }

    /// The capability of a description, for user `uid`.
    pub(crate) fn capability(
        &self,
        (ino, handle): (Ino, HandleId),
        rights: Rights,
        uid: u32,
        now: Moment,
    ) -> Capability {
        self.key.capability(Description { ino, handle, uid }, rights, seconds(now))
    }
}
