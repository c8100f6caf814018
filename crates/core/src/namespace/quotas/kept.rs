//! The memory that the server keeps for users between requests: one account with a bound.
//!
//! Nobody gives this memory back but by removing, so a change that would go beyond the bound
//! is refused, and one that keeps no more than before never is.
//!
//! A user may have as much as is left free (as in `links/memory.rs`): one user alone has half of the bound, and a new user always
//! finds room. The administrator may have all of it.

use super::estimates::{
    DESCRIPTION_BYTES, INODE_BYTES, NAME_BYTES, RELEASED_BYTES, REPLY_BYTES, SESSION_BYTES,
};
use crate::namespace::core::Namespace;
use crate::namespace::errno::{EDQUOT, ENOSPC};
use weir_wire::{Errno, RoomReport};

/// The user without limits.
pub(crate) const ROOT: u32 = 0;
/// Descriptions that a user may hold however much is kept: with fewer nobody could walk through a tree to remove it.
const DESCRIPTIONS_ALWAYS: usize = 1024;

/// The kept memory of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptMemory {
    /// Bytes of everything that is kept.
    pub(crate) bytes: u64,
    /// The bound.
    pub(crate) bytes_max: u64,
}

impl Namespace {
    /// The memory that is kept, and its bound.
    pub(crate) fn kept_memory(&self) -> KeptMemory {
        let replies = (self.state.replies.len() + self.recent.len()) as u64 * REPLY_BYTES;
        let released = self.state.released.len() as u64 * RELEASED_BYTES;
        let bytes = self.state.inodes.usage().kept_bytes()
            + self.open.len() as u64 * DESCRIPTION_BYTES
            + self.sessions as u64 * SESSION_BYTES
            + replies
            + released;
        KeptMemory { bytes, bytes_max: self.settings.kept_bytes_max }
    }

    /// The numbers of existing inodes, and of those without much more than a name for which there is memory beside other inodes. The
    /// caller fills in the rest of the reply.
    pub fn statistics(&self) -> RoomReport {
        let inodes = self.state.inodes.len() as u64;
        let left = self.settings.kept_bytes_max.saturating_sub(self.state.inodes.usage().kept_bytes());
        let inodes_free = left / (INODE_BYTES + NAME_BYTES);
        RoomReport { inodes, inodes_free, targets: Vec::new() }
    }

    /// Notes the number of clients that the server knows.
    pub(crate) fn note_sessions(&mut self, sessions: usize) {
        self.sessions = sessions;
    }

    /// Whether the server keeps more than its bound, as after a start with a lower one.
    pub(crate) fn is_over_bound(&self) -> bool {
        let KeptMemory { bytes, bytes_max } = self.kept_memory();
        bytes > bytes_max
    }

    /// Bytes of the namespace, which a snapshot of it does not exceed.
    pub(crate) fn journaled_bytes(&self) -> u64 {
        let replies = self.state.replies.len() as u64 * REPLY_BYTES;
        self.state.inodes.usage().kept_bytes() + replies + self.state.released.len() as u64 * RELEASED_BYTES
    }

    /// Whether a user may hold one more description.
    pub(crate) fn may_hold(&self, uid: u32) -> bool {
        self.open.held_by_user(uid) < DESCRIPTIONS_ALWAYS
            || self.check_kept(uid, uid, DESCRIPTION_BYTES).is_ok()
    }

    /// Whether the server may keep so much more for a user.
    ///
    /// # Errors
    /// EDQUOT beyond the part of the memory that one user may have; ENOSPC beyond the bound.
    pub(crate) fn check_kept(&self, actor: u32, uid: u32, growth_bytes: u64) -> Result<(), Errno> {
        if growth_bytes == 0 {
            return Ok(());
        }
        let KeptMemory { bytes, bytes_max } = self.kept_memory();
        let left = bytes_max.checked_sub(bytes + growth_bytes).ok_or(ENOSPC)?;
        let of_user =
            self.state.inodes.usage().kept_by(uid) + self.open.held_by_user(uid) as u64 * DESCRIPTION_BYTES;
        if actor == ROOT || of_user + growth_bytes <= left {
            Ok(())
        } else {
            Err(EDQUOT)
        }
    }
}
