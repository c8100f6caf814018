//! Settings of the whole store: decided by the control API here or on another server, and put into force.

use super::Server;
use crate::config::sharing_names;
use crate::control::question::{NotDecided, Quotas};
use crate::notices::{notice, warning};
use weir_fairshare::{Algorithm, Policy, Sharing};
use weir_placement::AllocatorName;
use weir_wire::{QuotaLimits, QuotaOwner, SharingNames, StoreSettings};

impl Server {
    /// Decides the policy, and the scheduler where one is named, for the whole store.
    ///
    /// # Errors
    /// [`NotDecided`]; nothing changes then.
    pub(super) fn decide_policy(
        &mut self,
        policy: Policy,
        algorithm: Option<Algorithm>,
    ) -> Result<Sharing, NotDecided> {
        let wanted = self.leased.decided().with(policy, algorithm)?;
        let milliseconds = self.clock.wall_milliseconds();
        let agreement = self.peers.agreement();
        agreement.decide_sharing(sharing_names(&wanted), milliseconds)?;
        self.put_in_force(wanted.clone());
        Ok(wanted)
    }

    /// Decides the allocator for the whole store.
    ///
    /// # Errors
    /// [`NotDecided::Storage`]; nothing changes then.
    pub(super) fn decide_allocator(&mut self, name: AllocatorName) -> Result<(), NotDecided> {
        let milliseconds = self.clock.wall_milliseconds();
        self.peers.agreement().decide_allocator(name.to_string(), milliseconds)?;
        self.choose_by(name);
        Ok(())
    }

    /// Decides the limits of a user or a group for the whole store.
    ///
    /// # Errors
    /// [`NotDecided`]; nothing changes then.
    pub(super) fn decide_quota(
        &mut self,
        owner: QuotaOwner,
        limits: Option<QuotaLimits>,
    ) -> Result<(), NotDecided> {
        let milliseconds = self.clock.wall_milliseconds();
        self.peers.agreement().decide_quota(owner, limits, milliseconds)?;
        self.put_quotas_in_force();
        Ok(())
    }

    /// The use of every owner here, and the limits, for the control API.
    pub(super) fn quotas(&mut self) -> Quotas {
        let table = self.peers.agreement().settings().quotas.clone();
        Quotas { lines: self.namespace.quota_lines(), table }
    }

    fn put_quotas_in_force(&mut self) {
        self.namespace.set_quotas(&self.peers.agreement().settings().quotas);
    }

    /// Follows later decisions that another server tells.
    pub(super) fn follow_settings(&mut self, told: &StoreSettings) {
        if self.peers.agreement().follow(told) {
            self.put_settings_in_force();
        }
    }

    /// Puts the agreed settings into force where they differ from those that are.
    pub(super) fn put_settings_in_force(&mut self) {
        self.put_quotas_in_force();
        let StoreSettings { sharing, allocator, .. } = self.peers.agreement().settings().clone();
        if sharing.value != sharing_names(self.leased.decided()) {
            let SharingNames { policy, scheduler } = sharing.value;
            let parsed = policy.parse::<Policy>().ok().zip(scheduler.parse::<Algorithm>().ok());
            match parsed.map(|(policy, algorithm)| self.leased.decided().with(policy, Some(algorithm))) {
                Some(Ok(wanted)) => self.put_in_force(wanted),
                Some(Err(error)) => {
                    warning!("policy {policy} by {scheduler}, decided elsewhere, is not possible: {error}")
                }
                None => warning!("policy {policy} by {scheduler}, decided elsewhere, is of another version"),
            }
        }
        match allocator.value.parse::<AllocatorName>() {
            Ok(name) => self.choose_by(name),
            Err(error) => warning!("allocator {}, decided elsewhere: {error}", allocator.value),
        }
        self.put_targets_in_force();
    }

    fn choose_by(&mut self, name: AllocatorName) {
        let placer = self.namespace.placer_mut();
        let before = placer.allocator();
        if before != name {
            notice!("allocator {before} -> {name}");
            placer.set_allocator(name);
        }
    }
}
