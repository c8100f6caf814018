//! Agreed settings are put in force: what differs from the present becomes effects.

use super::queue::Wanted;
use super::{Effect, Membership};
use crate::config::{sharing_names, Taken, TargetConfig};
use crate::notices::{notice, warning};
use weir_fairshare::{Algorithm, Policy};
use weir_placement::{AllocatorName, ServerId};
use weir_wire::{ServerAddress, ServerRecord, SharingNames, StoreSettings, TargetRecord, TargetState};

impl Membership {
    /// Puts the agreed settings into force where they differ from those that are.
    pub(crate) fn put_in_force(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.put_choices_in_force(&mut effects);
        self.put_members_in_force(&mut effects);
        effects
    }

    /// Puts the sharing, the allocator and the limits into force.
    pub(super) fn put_choices_in_force(&mut self, effects: &mut Vec<Effect>) {
        let StoreSettings { sharing, allocator, quotas, .. } = self.agreement.settings().clone();
        effects.push(Effect::Limit(quotas));
        if sharing.value != sharing_names(self.leased.decided()) {
            let SharingNames { policy, scheduler } = sharing.value;
            let parsed = policy.parse::<Policy>().ok().zip(scheduler.parse::<Algorithm>().ok());
            match parsed.map(|(policy, algorithm)| self.leased.decided().with(policy, Some(algorithm))) {
                Some(Ok(wanted)) => effects.extend(self.leased.decide(wanted)),
                Some(Err(error)) => {
                    warning!("policy {policy} by {scheduler}, decided elsewhere, is not possible: {error}")
                }
                None => warning!("policy {policy} by {scheduler}, decided elsewhere, is of another version"),
            }
        }
        match allocator.value.parse::<AllocatorName>() {
            Ok(name) => effects.push(Effect::Allocate(name)),
            Err(error) => warning!("allocator {}, decided elsewhere: {error}", allocator.value),
        }
    }

    /// Brings the servers and the targets to what was agreed.
    pub(super) fn put_members_in_force(&mut self, effects: &mut Vec<Effect>) {
        let StoreSettings { servers, targets, .. } = self.agreement.settings().clone();
        servers.iter().for_each(|record| self.put_server_in_force(record, effects));
        let servers = (0..).map(ServerId).zip(&self.config.servers);
        let open = servers.filter(|(_, config)| !config.state.is_closed()).map(|(server, _)| server);
        effects.push(Effect::Spread(open.collect()));
        targets.iter().for_each(|record| self.put_target_in_force(record, effects));
    }

    fn put_server_in_force(&mut self, record: &ServerRecord, effects: &mut Vec<Effect>) {
        let (server, number) = (record.server, usize::from(record.server.0));
        let before = self.config.servers.get(number).map(|config| config.state);
        let (own, is_anywhere) = (self.own().place(), self.own().is_anywhere());
        match self.config.take_server(record) {
            Ok(Taken::Known) => {}
            Ok(Taken::Moved) if server == self.own => {
                // It is where it is. Others tell a decision of this server that was lost here, or it has not listened yet.
                self.config.servers[number].put_at(own);
                let is_decided = self.changes.has(|wanted| matches!(wanted, Wanted::OwnPlace));
                if self.is_settled && !is_anywhere && !is_decided {
                    self.changes.add_own(Wanted::OwnPlace);
                }
            }
            Ok(Taken::New) => {
                effects.push(Effect::Meet(server));
                let targets = self.config.targets().into_iter().filter(|target| target.server == server);
                effects.extend(targets.map(Effect::AddTarget));
                notice!("server {server} joined");
            }
            Ok(Taken::Moved) => {
                let place = self.config.servers[number].place();
                notice!("server {server} is at {} now", place.tcp);
                let (tcp, control) = (place.tcp.clone(), place.control.clone());
                if self.is_settled {
                    effects.push(Effect::Publish(server, place));
                }
                effects.push(Effect::Redirect(ServerAddress { server, tcp, unix: None, owner: 0, control }));
            }
            Err(error) => return notice!("{error}"),
        }
        let state = record.state.value;
        if before.is_some_and(|before| before != state) {
            notice!("server {server} is {state:?}");
        }
    }

    fn put_target_in_force(&mut self, record: &TargetRecord, effects: &mut Vec<Effect>) {
        let (target, state) = (record.target, record.state.value);
        let is_own = target.server == self.own;
        if is_own && target.number() == self.own().targets.len() {
            return self.open_lost(record);
        }
        let before = self.config.target(target).map(|config| config.state);
        match self.config.take_record(record) {
            Ok(true) => effects.push(Effect::AddTarget(target)),
            Ok(false) => {}
            Err(error) => return notice!("{error}"),
        }
        effects.push(Effect::Close(target, state.is_closed()));
        if before != Some(state) {
            notice!("target {target} is {state:?}");
        }
        if is_own && state == TargetState::Retired {
            effects.push(Effect::Retire(target.number()));
        }
    }

    /// Another server knows of a target that joined here, by a decision that was lost.
    fn open_lost(&mut self, record: &TargetRecord) {
        if self.changes.has(|wanted| matches!(wanted, Wanted::Lost(..))) {
            return;
        }
        match TargetConfig::described(&record.description) {
            Ok(config) => {
                let config = TargetConfig { state: record.state.value, ..config };
                self.changes.add_own(Wanted::Lost(record.target, Box::new(config)));
            }
            Err(error) => notice!("target {} is of another version: {error}", record.target),
        }
    }
}
