//! The sharing of device time that is in force: the decided one, or a lease in its place for a few seconds, during which new files
//! avoid some targets.
//!
//! A lease that is not renewed ends by itself, and no start of a server keeps one. So a program that intervenes in the
//! sharing and is killed leaves nothing behind. Servers tell each other nothing of leases: their holder asks each server.

use super::Server;
use crate::control::lease_terms::{LeaseTold, LeaseWanted};
use crate::notices::notice;
use weir_fairshare::{Nanos, Sharing};

/// The sharing that was decided, and the lease beside it.
pub(super) struct Leased {
    decided: Sharing,
    lease: Option<Lease>,
}

struct Lease {
    wanted: LeaseWanted,
    until: Nanos,
}

impl Leased {
    pub(super) fn new(decided: Sharing) -> Leased {
        Leased { decided, lease: None }
    }

    /// The sharing that is in force without a lease.
    pub(super) fn decided(&self) -> &Sharing {
        &self.decided
    }

    /// Takes another decision; answers the one before.
    pub(super) fn decide(&mut self, sharing: Sharing) -> Sharing {
        std::mem::replace(&mut self.decided, sharing)
    }
}

impl Server {
    /// Puts a lease into force in place of the present one; a lease of no time ends that one.
    ///
    /// # Errors
    /// The fault of the lease, in a sentence; nothing changes then.
    pub(super) fn set_lease(&mut self, mut wanted: LeaseWanted) -> Result<LeaseTold, String> {
        if wanted.is_end() {
            self.end_lease("was given back");
        } else {
            wanted.sharing(self.leased.decided())?;
            let placer = self.namespace.placer();
            wanted.keep_targets(|target| placer.has(target));
            wanted.check_avoided(|targets| placer.has_another(targets))?;
            let until = self.clock.now() + wanted.length();
            if self.leased.lease.is_none() {
                notice!("a lease of the sharing began");
            }
            self.leased.lease = Some(Lease { wanted, until });
            self.share_by_lease();
        }
        Ok(self.lease_told())
    }

    /// The lease for the control API.
    pub(super) fn lease_told(&mut self) -> LeaseTold {
        let now = self.clock.now();
        let lease = self.leased.lease.as_ref();
        let left = lease.map_or(Nanos::ZERO, |lease| lease.until.saturating_since(now));
        LeaseTold::new(self.devices.sharing(), lease.map(|lease| &lease.wanted), left)
    }

    /// Ends a lease that was not renewed.
    pub(super) fn end_lease_if_due(&mut self) {
        let now = self.clock.now();
        if self.leased.lease.as_ref().is_some_and(|lease| now >= lease.until) {
            self.end_lease("was not renewed");
        }
    }

    fn end_lease(&mut self, reason: &str) {
        if self.leased.lease.take().is_some() {
            notice!("the lease of the sharing {reason}");
            self.share_by_lease();
        }
    }

    /// Puts another decided sharing into force.
    pub(super) fn put_in_force(&mut self, now: Sharing) {
        let before = self.leased.decide(now.clone());
        self.share_by_lease();
        notice!(
            "policy {} by {} -> {} by {}",
            before.policy(),
            before.algorithm(),
            now.policy(),
            now.algorithm()
        );
    }

    /// Shares by the lease, or by the decided sharing where there is none. A lease that a later decision contradicts
    /// ends. A renewal without a change leaves the schedulers as they are.
    fn share_by_lease(&mut self) {
        let decided = self.leased.decided();
        let lease = self.leased.lease.as_ref();
        let sharing = match lease.map(|lease| lease.wanted.sharing(decided)) {
            Some(Ok(sharing)) => sharing,
            None => decided.clone(),
            Some(Err(error)) => {
                let decided = decided.clone();
                notice!("the lease of the sharing ended, because the decided one contradicts it: {error}");
                self.leased.lease = None;
                decided
            }
        };
        if sharing != *self.devices.sharing() {
            self.links.visits().set_policy(sharing.policy());
            self.devices.set_sharing(sharing);
        }
        let lease = self.leased.lease.as_ref();
        let avoided = lease.map(|lease| lease.wanted.avoided()).unwrap_or_default();
        self.namespace.avoid(avoided);
    }
}
