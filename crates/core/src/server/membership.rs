//! Changes of the store's servers, targets and settings: what they need and what follows from them is carried out.

use super::Server;
use crate::config::Place;
use crate::config::{TakenPort, TargetConfig};
use crate::control::lease_terms::{LeaseTold, LeaseWanted};
use crate::control::question::{NotChanged, Quotas};
use crate::durability::Deferred;
use crate::errands::Errand;
use crate::error::ServerError;
use crate::home::Joined;
use crate::membership::{Asker, Effect, Facts, OpeningTicket, Wanted};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::notices::notice;
use crate::work::Work;
use std::io;
use weir_placement::{AllocatorName, ServerId, TargetId};
use weir_wire::StoreSettings;

impl Server {
    /// Changes what the servers of the store agree on; the asker is answered at the end.
    pub(super) fn change(&mut self, wanted: Wanted, asker: Asker) {
        self.membership.ask(wanted, asker);
        self.begin_changes();
    }

    /// Follows later decisions that another server tells.
    pub(super) fn follow_settings(&mut self, told: &StoreSettings) {
        self.membership.hear(told);
        self.begin_changes();
    }

    /// Settings were brought to stable storage, or could not be.
    pub(super) fn settings_kept(&mut self, result: io::Result<()>) {
        let effects = self.membership.kept(result);
        self.put_in_force(effects);
        self.begin_changes();
    }

    /// The target that joins by a change was opened, or cannot be opened.
    pub(super) fn target_opened(&mut self, opened: Result<Joined, NotChanged>) {
        let effects = self.membership.opened(opened, self.clock.wall_milliseconds());
        self.put_in_force(effects);
        self.begin_changes();
    }

    /// Begins changes until one is under way.
    fn begin_changes(&mut self) {
        while self.membership.is_to_begin() {
            self.report_targets();
            self.report_leaving();
            let Server { membership, exchange, targets, requests, .. } = self;
            let is_in_use = |index: usize| {
                targets[index].is_in_use() || requests.iter().any(|request| request.device() == Some(index))
            };
            let facts = Facts {
                milliseconds: self.clock.wall_milliseconds(),
                reports: exchange.believed(self.clock.now()).collect(),
                is_durable: self.durability.is_durable(),
                is_in_use: &is_in_use,
            };
            let effects = membership.begin(&facts);
            self.put_in_force(effects);
        }
    }

    /// Carries out the effects of a change, in their order.
    pub(super) fn put_in_force(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Open { target, config, is_new } => {
                    let place = self.home.joining(self.membership.config(), (target.number(), &config));
                    let ticket = OpeningTicket::new(target, config, is_new, place);
                    self.errands.submit(Errand::Opening, Work::Open(ticket));
                }
                Effect::Keep(ticket) => self.errands.submit(Errand::Settings, Work::Settings(ticket)),
                Effect::TakeIn(target, config, opened) => self.take_in(target, &config, *opened),
                Effect::Retire(index) => self.targets[index].retire(),
                Effect::AddTarget(target) => self.namespace.files_mut().places_mut().placer_mut().add(target),
                #[cfg(any(test, feature = "world"))]
                Effect::Close(..) if mutants::is(Mutant::RetiringPlaced) => {}
                Effect::Close(target, is_closed) => {
                    if self.namespace.files().places().placer().is_kept(target) == is_closed {
                        self.namespace.files_mut().places_mut().placer_mut().close(target, is_closed);
                    }
                }
                Effect::Meet(server) => {
                    if let Err(error) = self.meet(server) {
                        notice!("server {server}, which joined, cannot be asked: {error}");
                    }
                }
                Effect::Redirect(address) => self.peers.redirect(address.server, address),
                // Without a thread for it the list stays old: clients ask the servers, too.
                Effect::Publish(server, place) => _ = self.home.publish(server, place),
                Effect::Spread(servers) => self.namespace.names_mut().spread_over(servers),
                Effect::Share(sharing) => {
                    self.links.visits().set_policy(sharing.policy());
                    self.requests.devices_mut().set_sharing(sharing);
                }
                Effect::Avoid(avoided) => self.namespace.files_mut().places_mut().avoid(avoided),
                Effect::Allocate(name) => self.choose_by(name),
                Effect::Limit(quotas) => self.namespace.files_mut().quotas_mut().set(&quotas),
                Effect::Tell => self.tell_of_targets(),
            }
        }
    }

    /// Serves an opened target from now on.
    fn take_in(&mut self, target: TargetId, config: &TargetConfig, joined: Joined) {
        self.requests.add_device(config.speed.as_ref(), self.site.boot);
        self.accounts.add_target();
        if joined.is_apart {
            self.durability.note_apart(target.number());
        }
        if let Err(error) = self.home.watch_joined(target.number(), &joined.target) {
            notice!("target {target} is not looked after: {error}");
        }
        self.targets.push(joined.target);
        self.namespace.files_mut().places_mut().placer_mut().add(target);
    }

    fn choose_by(&mut self, name: AllocatorName) {
        let placer = self.namespace.files_mut().places_mut().placer_mut();
        let before = placer.allocator();
        if before != name {
            notice!("allocator {before} -> {name}");
            placer.set_allocator(name);
        }
    }

    /// Puts a lease into force, or ends the present one.
    ///
    /// # Errors
    /// The fault of the lease, in a sentence; nothing changes then.
    pub(super) fn set_lease(&mut self, wanted: LeaseWanted) -> Result<LeaseTold, String> {
        let now = self.clock.now();
        let effects = self.membership.set_lease(wanted, self.namespace.files().places().placer(), now)?;
        self.put_in_force(effects);
        Ok(self.membership.lease_told(now))
    }

    /// The use of every owner here, and the limits, for the control API.
    pub(super) fn quotas(&mut self) -> Quotas {
        Quotas {
            lines: self.namespace.files().quota_lines(),
            table: self.membership.settings().quotas.clone(),
        }
    }

    /// Opens the lines to the other servers.
    ///
    /// # Errors
    /// As [`Lines::open`](crate::peers::line::Lines::open).
    pub fn meet_peers(&mut self) -> Result<(), ServerError> {
        let others: Vec<ServerId> = self.membership.others().collect();
        others.into_iter().try_for_each(|server| self.meet(server))?;
        self.resume_effects();
        Ok(())
    }

    /// Takes the addresses at which this server listens, and decides them for the others where they may know it elsewhere: its
    /// number came here from another host, or a port was taken. It is a step of the start, and blocks.
    ///
    /// # Errors
    /// The decision cannot be kept; the system refuses a thread.
    pub fn settle_at(&mut self, place: Place, taken_ports: Vec<TakenPort>) -> Result<(), ServerError> {
        let decision = self.membership.settle_at(place.clone(), taken_ports, self.clock.wall_milliseconds());
        let lost = |source| ServerError::Loop { what: "start a thread for cluster.json", source };
        self.home.publish(self.site.id, place).map_err(lost)?;
        if let Some(ticket) = decision {
            ticket.run().map_err(|source| ServerError::Io {
                what: "keep the address of the server in",
                path: self.home.path().to_path_buf(),
                source,
            })?;
            self.settings_kept(Ok(()));
        }
        Ok(())
    }

    /// Sets the part of this server's report about its objects on targets that retire.
    pub(super) fn report_leaving(&mut self) {
        let objects_on = |target| self.namespace.objects_on(target);
        let (leaving, is_sync_wanted) =
            self.membership.report_leaving(objects_on, self.durability.progress());
        self.exchange.own_mut().leaving = leaving;
        if is_sync_wanted {
            self.defer(Deferred::Look, true);
        }
    }

    /// Tells the other servers at once.
    fn tell_of_targets(&mut self) {
        let now = self.clock.now();
        self.report_targets();
        self.report_leaving();
        self.renew_report();
        self.refresh_placement();
        self.tell_peers(now + self.exchange.lambda());
    }
}
