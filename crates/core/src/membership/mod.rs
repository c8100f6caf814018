//! The membership of a server: the servers and targets of its store, the settings on which the servers agreed, and the sharing that
//! follows from them.
//!
//! [`Membership`] owns all of it. It knows no device, file, line or name: what it decides comes back as [`Effect`]s, which its owner
//! carries out in their order. One change is made at a time, by these steps:
//!
//! 1. [`Membership::ask`] and [`Membership::hear`] queue a change.
//! 2. [`Membership::begin`] takes up the first one, and checks it by the [`Facts`] of that moment.
//! 3. [`Membership::opened`] follows [`Effect::Open`], where a target joins.
//! 4. [`Membership::kept`] follows [`Effect::Keep`]. The change is in force then, and its asker is answered.
//!
//! The server of a target decides about it, keeps the decision on stable storage, and tells the other servers with its reports. A
//! target that retires gets no new files from a home once the home has kept the decision, too. It leaves when every home
//! reports that it has no object there, by records that no power loss takes back.

mod agreement;
mod change;
mod checks;
mod force;
mod joining;
mod lease;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use agreement::SettingsTicket;
pub(crate) use joining::OpeningTicket;
pub(crate) use queue::{Asker, Wanted};

use crate::config::{ClusterConfig, Place, ServerConfig, TakenPort, TargetConfig};
use crate::control::lease_terms::{LeaseTold, LeaseWanted};
use crate::home::Joined;
use crate::notices::warning;
use agreement::Agreement;
use lease::Leased;
use queue::{Change, Queue};
use std::collections::HashMap;
use std::sync::Arc;
use weir_fairshare::{Nanos, Sharing};
use weir_placement::online::Placer;
use weir_placement::{AllocatorName, ServerId, TargetId};
use weir_wire::{JobId, LeavingReport, QuotaTable, ServerAddress, ServerReport, StoreSettings, TargetState};

/// The servers and targets of a store, and everything on which its servers agreed, as one server knows them.
pub(crate) struct Membership {
    own: ServerId,
    /// The configuration, with the servers and targets as they are now.
    config: ClusterConfig,
    agreement: Agreement,
    leased: Leased,
    changes: Queue,
    /// The last record of the journal when no object of this home was left on a target that retires.
    emptied: HashMap<TargetId, u64>,
    /// The ports that other programs had when this server started.
    taken_ports: Vec<TakenPort>,
    /// The server listens, and has told where.
    is_settled: bool,
}

/// The state of the server around a change that begins.
pub(crate) struct Facts<'a> {
    /// Milliseconds of Unix time.
    pub(crate) milliseconds: u64,
    /// The believed reports of all servers; this server's own has its targets as they are now.
    pub(crate) reports: Vec<&'a ServerReport>,
    /// The store keeps its files over restarts.
    pub(crate) is_durable: bool,
    /// Whether requests or replies use a target here, by its number.
    pub(crate) is_in_use: &'a dyn Fn(usize) -> bool,
}

/// One consequence of a change, which the owner of a [`Membership`] carries out.
pub(crate) enum Effect {
    /// A target here is opened; [`Membership::opened`] takes it. A folder of its own is to be empty, where `is_new`.
    Open {
        /// Its name.
        target: TargetId,
        /// Its configuration.
        config: Box<TargetConfig>,
        /// It joins the store. Otherwise other servers know that it joined before, and its folder may have objects.
        is_new: bool,
    },
    /// Settings are brought to stable storage; [`Membership::kept`] takes the result.
    Keep(SettingsTicket),
    /// An opened target here is served from now on.
    TakeIn(TargetId, Box<TargetConfig>, Box<Joined>),
    /// A target here has retired, by its number.
    Retire(usize),
    /// New files may be placed on a target of another server.
    AddTarget(TargetId),
    /// A target takes no new files, or takes them again.
    Close(TargetId, bool),
    /// Another server joined: this one asks it from now on.
    Meet(ServerId),
    /// Another server is at another address.
    Redirect(ServerAddress),
    /// The list of the host names the place of a server.
    Publish(ServerId, Place),
    /// New trees have their homes on these servers.
    Spread(Vec<ServerId>),
    /// Device time is shared otherwise.
    Share(Sharing),
    /// New files of jobs avoid these targets, and those of no other jobs.
    Avoid(HashMap<JobId, Vec<TargetId>>),
    /// Targets of new files are chosen otherwise.
    Allocate(AllocatorName),
    /// Users and groups have these limits.
    Limit(QuotaTable),
    /// The other servers are told at once.
    Tell,
}

impl Membership {
    /// The membership of server `own` by its configuration, which takes over what the servers agreed on since; `storage` has the
    /// server's own files.
    ///
    /// # Errors
    /// The configuration's fault, in a sentence.
    pub(crate) fn open(
        own: ServerId,
        mut config: ClusterConfig,
        storage: Arc<dyn crate::journal::Storage>,
    ) -> Result<Membership, String> {
        let sharing = config.sharing()?;
        let agreement = Agreement::open(storage, own.0, config.settings(&sharing));
        let filed = config.servers[usize::from(own.0)].place();
        config.take_records(agreement.settings())?;
        // A server is where its file says, wherever it was before.
        config.servers[usize::from(own.0)].put_at(filed);
        Ok(Membership {
            own,
            config,
            agreement,
            leased: Leased::new(sharing),
            changes: Queue::default(),
            emptied: HashMap::new(),
            taken_ports: Vec::new(),
            is_settled: false,
        })
    }

    /// The configuration, with the servers and targets as they are now.
    pub(crate) fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The part of the configuration that is about this server.
    pub(crate) fn own(&self) -> &ServerConfig {
        &self.config.servers[usize::from(self.own.0)]
    }

    fn own_target(&self, index: usize) -> TargetId {
        TargetId { server: self.own, index: index as u16 }
    }

    /// The agreed settings in force.
    pub(crate) fn settings(&self) -> &StoreSettings {
        self.agreement.settings()
    }

    /// The sharing that was decided, whatever lease is in force.
    pub(crate) fn decided_sharing(&self) -> &Sharing {
        self.leased.decided()
    }

    /// The ports that other programs had when this server started.
    pub(crate) fn taken_ports(&self) -> &[TakenPort] {
        &self.taken_ports
    }

    /// The other servers.
    pub(crate) fn others(&self) -> impl Iterator<Item = ServerId> {
        let own = self.own;
        (0..self.config.servers.len() as u16).map(ServerId).filter(move |&server| server != own)
    }

    /// Puts a lease into force in place of the present one; a lease of no time ends that one. `placer` knows the store's targets.
    ///
    /// # Errors
    /// The fault of the lease, in a sentence; nothing changes then.
    pub(crate) fn set_lease(
        &mut self,
        wanted: LeaseWanted,
        placer: &Placer,
        now: Nanos,
    ) -> Result<Vec<Effect>, String> {
        self.leased.set(wanted, placer, now)
    }

    /// The lease for the control API.
    pub(crate) fn lease_told(&self, now: Nanos) -> LeaseTold {
        self.leased.told(now)
    }

    /// Ends a lease that was not renewed.
    pub(crate) fn end_lease_if_due(&mut self, now: Nanos) -> Vec<Effect> {
        self.leased.end_if_due(now)
    }

    /// Takes the addresses at which this server listens. Where the others may know it elsewhere, because its number came here from
    /// another host or a port was taken, it answers a ticket: [`Membership::kept`] follows, as for a change.
    pub(crate) fn settle_at(
        &mut self,
        place: Place,
        taken_ports: Vec<TakenPort>,
        milliseconds: u64,
    ) -> Option<SettingsTicket> {
        self.taken_ports = taken_ports;
        for taken in &self.taken_ports {
            warning!("{taken}");
        }
        self.is_settled = true;
        let known = self.settings().server(self.own);
        let known = known.and_then(|known| ServerConfig::described(&known.description).ok());
        let known = known.filter(|known| !known.is_anywhere()).map(|known| known.place());
        // A server whose configuration leaves a port open is found by the file that it writes, unless it has been displaced.
        let filed = Some(self.own().place()).filter(|_| !self.own().is_anywhere());
        if known.or(filed).is_none_or(|known| known == place) {
            return None;
        }
        self.config.servers[usize::from(self.own.0)].put_at(place);
        let wanted = self.with_own_place(milliseconds);
        Some(self.keep(Change::own_place(), wanted, None))
    }

    /// This home's objects on targets that retire, for its report; `objects_on` counts them, and `progress` has the numbers of the
    /// journal's last record and of the last one on stable storage. None is left once no power loss can take the records of it:
    /// the second value says whether a sync is wanted for that.
    pub(crate) fn report_leaving(
        &mut self,
        objects_on: impl Fn(TargetId) -> u64,
        progress: Option<(u64, u64)>,
    ) -> (Vec<LeavingReport>, bool) {
        let records = &self.agreement.settings().targets;
        let leaving = records.iter().filter(|record| record.state.value == TargetState::Retiring);
        let leaving: Vec<TargetId> = leaving.map(|record| record.target).collect();
        self.emptied.retain(|target, _| leaving.contains(target));
        let mut is_sync_wanted = false;
        let mut left = |target| {
            let objects = objects_on(target);
            if objects > 0 {
                self.emptied.remove(&target);
                return objects;
            }
            let Some((appended, durable)) = progress else { return 0 };
            let is_early = *self.emptied.entry(target).or_insert(appended) > durable;
            is_sync_wanted |= is_early;
            u64::from(is_early)
        };
        let report = |target| LeavingReport { target, objects: left(target) };
        (leaving.into_iter().map(report).collect(), is_sync_wanted)
    }
}
