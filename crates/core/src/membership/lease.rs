//! The sharing of device time that is in force: the decided one, or a lease in its place for a few seconds, during which new files
//! avoid some targets.
//!
//! A lease that is not renewed ends by itself, and no start of a server keeps one. So a program that intervenes in the
//! sharing and is killed leaves nothing behind. Servers tell each other nothing of leases: their holder asks each server.

use super::Effect;
use crate::control::lease_terms::{LeaseTold, LeaseWanted};
use crate::notices::notice;
use weir_fairshare::{Nanos, Sharing};
use weir_placement::online::Placer;

/// The sharing that was decided, the lease beside it, and the sharing that both make.
pub(super) struct Leased {
    decided: Sharing,
    lease: Option<Lease>,
    in_force: Sharing,
}

struct Lease {
    wanted: LeaseWanted,
    until: Nanos,
}

impl Leased {
    /// The decided sharing is in force.
    pub(super) fn new(decided: Sharing) -> Leased {
        Leased { in_force: decided.clone(), decided, lease: None }
    }

    /// The sharing that is in force without a lease.
    pub(super) fn decided(&self) -> &Sharing {
        &self.decided
    }

    /// Puts a lease into force in place of the present one; a lease of no time ends that one. `placer` knows the store's targets.
    ///
    /// # Errors
    /// The fault of the lease, in a sentence; nothing changes then.
    pub(super) fn set(
        &mut self,
        mut wanted: LeaseWanted,
        placer: &Placer,
        now: Nanos,
    ) -> Result<Vec<Effect>, String> {
        if wanted.is_end() {
            return Ok(self.end("was given back"));
        }
        wanted.sharing(&self.decided)?;
        wanted.keep_targets(|target| placer.has(target));
        wanted.check_avoided(|targets| placer.has_another(targets))?;
        if self.lease.is_none() {
            notice!("a lease of the sharing began");
        }
        let until = now + wanted.length();
        self.lease = Some(Lease { wanted, until });
        Ok(self.share())
    }

    /// The lease for the control API.
    pub(super) fn told(&self, now: Nanos) -> LeaseTold {
        let lease = self.lease.as_ref();
        let left = lease.map_or(Nanos::ZERO, |lease| lease.until.saturating_since(now));
        LeaseTold::new(&self.in_force, lease.map(|lease| &lease.wanted), left)
    }

    /// Ends a lease that was not renewed.
    pub(super) fn end_if_due(&mut self, now: Nanos) -> Vec<Effect> {
        match &self.lease {
            Some(lease) if now >= lease.until => self.end("was not renewed"),
            _ => Vec::new(),
        }
    }

    fn end(&mut self, reason: &str) -> Vec<Effect> {
        if self.lease.take().is_none() {
            return Vec::new();
        }
        notice!("the lease of the sharing {reason}");
        self.share()
    }

    /// Puts another decided sharing into force.
    pub(super) fn decide(&mut self, now: Sharing) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.decided, now);
        let effects = self.share();
        notice!(
            "policy {} by {} -> {} by {}",
            before.policy(),
            before.algorithm(),
            self.decided.policy(),
            self.decided.algorithm()
        );
        effects
    }

    /// Shares by the lease, or by the decided sharing where there is none. A lease that a later decision contradicts
    /// ends. A renewal without a change leaves the schedulers as they are.
    fn share(&mut self) -> Vec<Effect> {
        let leased = self.lease.as_ref().map(|lease| lease.wanted.sharing(&self.decided));
        let sharing = leased.unwrap_or_else(|| Ok(self.decided.clone())).unwrap_or_else(|error| {
            notice!("the lease of the sharing ended, because the decided one contradicts it: {error}");
            self.lease = None;
            self.decided.clone()
        });
        let mut effects = Vec::new();
        if sharing != self.in_force {
            self.in_force = sharing.clone();
            effects.push(Effect::Share(sharing));
        }
        let avoided = self.lease.as_ref().map(|lease| lease.wanted.avoided()).unwrap_or_default();
        effects.push(Effect::Avoid(avoided));
        effects
    }
}
