//! The use of a user that has limits: whatever the store counts is what the user has, and no server forgets the limits.

use std::collections::BTreeSet;
use weir_fairshare::Nanos;
use weir_wire::{QuotaLimits, QuotaOwner, QuotaUse};

/// The user that has limits. Its group has the same number.
pub(crate) const LIMITED: u32 = 1000;
pub(crate) const LIMITED_OWNER: QuotaOwner = QuotaOwner::User(LIMITED);
/// Its limits: some files of some stripes.
pub(crate) const LIMITS: QuotaLimits = QuotaLimits { bytes: Some(40 << 10), inodes: Some(6) };

/// After a start a server counts removed files for a while that a client may still have open, and asks others for their sums.
const UNSURE: Nanos = Nanos::from_millis(15_000);

/// The use and the limits of a user.
#[derive(Default)]
pub(crate) struct Uses {
    /// The use, while none of the user's calls is under way.
    at_rest: Option<QuotaUse>,
    /// Servers on which the limits were in force once.
    limited: BTreeSet<usize>,
    /// The last start that followed another one.
    started: Option<Nanos>,
}

impl Uses {
    /// The user has so much from now on; none while a call of it is under way.
    pub(crate) fn note(&mut self, now: Option<QuotaUse>) {
        self.at_rest = now;
    }

    /// A server started that had run before.
    pub(crate) fn note_start(&mut self, now: Nanos) {
        self.started = Some(now);
    }

    /// Whether a server may refuse what fits, as it started not long ago.
    pub(crate) fn are_unsure(&self, now: Nanos) -> bool {
        self.started.is_some_and(|started| now < started + UNSURE)
    }

    /// The servers on which the limits are in force.
    pub(crate) fn limited(&self) -> usize {
        self.limited.len()
    }

    /// Whether the limits are to be set on a server, as nobody knows yet that it keeps them.
    pub(crate) fn is_limited(&self, server: usize) -> bool {
        self.limited.contains(&server)
    }

    /// A server has these limits.
    ///
    /// # Errors
    /// It had others before.
    pub(crate) fn told(
        &mut self,
        server: usize,
        limits: Option<QuotaLimits>,
        wanted: QuotaLimits,
    ) -> Result<(), String> {
        match limits {
            Some(limits) if limits == wanted => _ = self.limited.insert(server),
            other if self.limited.contains(&server) => {
                return Err(format!("server {server} has the limits {other:?}, and had {wanted:?}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// The servers count so much together.
    ///
    /// # Errors
    /// More than the limits, or, where `is_settled`, another use than the user has.
    pub(crate) fn counted(
        &self,
        found: QuotaUse,
        limits: QuotaLimits,
        is_settled: bool,
    ) -> Result<(), String> {
        let is_beyond = |found: u64, most: Option<u64>| most.is_some_and(|most| found > most);
        if is_beyond(found.bytes, limits.bytes) || is_beyond(found.inodes, limits.inodes) {
            return Err(format!("a user has {found:?}, and may have {limits:?}"));
        }
        match self.at_rest {
            Some(known) if is_settled && known != found => {
                Err(format!("the servers count {found:?} for a user, and it has {known:?}"))
            }
            _ => Ok(()),
        }
    }
}
