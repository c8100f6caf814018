//! The memory that the server keeps for users between requests: one account with a bound.
//!
//! Nobody gives this memory back but by removing, so a change that would go beyond the bound
//! is refused, and one that keeps no more than before never is.
//!
//! A user may have as much as is left free (as in `links/memory.rs`): one user alone has half of the bound, and a new user always
//! finds room. The administrator may have all of it.

use crate::namespace::errno::{EDQUOT, ENOSPC};
use weir_wire::Errno;

/// The user without limits.
pub(crate) const ROOT: u32 = 0;

/// The kept memory of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptMemory {
    /// Bytes of everything that is kept.
    pub(crate) bytes: u64,
    /// The bound.
    pub(crate) bytes_max: u64,
}

impl KeptMemory {
    /// Whether the server may keep so much more for a user, who has `of_user` bytes.
    ///
    /// # Errors
    /// EDQUOT beyond the part of the memory that one user may have; ENOSPC beyond the bound.
    pub(crate) fn admit(self, actor: u32, of_user: u64, growth_bytes: u64) -> Result<(), Errno> {
        let left = self.bytes_max.checked_sub(self.bytes + growth_bytes).ok_or(ENOSPC)?;
        if actor == ROOT || of_user + growth_bytes <= left {
            Ok(())
        } else {
            Err(EDQUOT)
        }
    }
}
