//! The steps of a change: it is checked, kept on stable storage, and put in force.

use super::checks::Joins;
use super::queue::{Asker, Change, Stage, Wanted};
use super::{Effect, Facts, Membership, SettingsTicket};
use crate::config::{sharing_names, TargetConfig};
use crate::control::question::NotChanged;
use crate::home::Joined;
use crate::notices::{notice, warning};
use std::io;
use weir_placement::TargetId;
use weir_wire::{Decided, ServerRecord, StoreSettings, TargetState};

/// The first outside work of a change.
enum First {
    Nothing,
    Keep(StoreSettings),
    Open { target: TargetId, config: Box<TargetConfig>, is_new: bool },
}

impl Membership {
    /// Queues a change, which [`Membership::begin`] takes up.
    pub(crate) fn ask(&mut self, wanted: Wanted, asker: Asker) {
        if let Err((asker, refusal)) = self.changes.ask(wanted, asker) {
            asker.answer(Err(refusal), self.leased.decided());
        }
    }

    /// Hears the settings that another server tells with its report. Later decisions are followed as a change; while such a change
    /// waits nothing more is taken, because each report tells the settings again.
    pub(crate) fn hear(&mut self, told: &StoreSettings) {
        let is_told = |wanted: &Wanted| matches!(wanted, Wanted::Told(_));
        if !self.changes.has(is_told) && self.agreement.with_later(told).is_some() {
            self.changes.add_own(Wanted::Told(Box::new(told.clone())));
        }
    }

    /// Whether a change waits, and none is under way.
    pub(crate) fn is_to_begin(&self) -> bool {
        self.changes.is_to_begin()
    }

    /// Takes up the first change that waits: it is refused, has nothing to do, or begins.
    pub(crate) fn begin(&mut self, facts: &Facts) -> Vec<Effect> {
        let Some(change) = self.changes.take_first() else { return Vec::new() };
        match self.first(&change.wanted, facts) {
            Ok(First::Keep(settings)) => vec![Effect::Keep(self.keep(change, settings, None))],
            Ok(First::Open { target, config, is_new }) => {
                self.changes.begin(change, Stage::Opening);
                vec![Effect::Open { target, config, is_new }]
            }
            Ok(First::Nothing) => {
                change.asker.answer(Ok(()), self.leased.decided());
                Vec::new()
            }
            Err(refusal) => {
                change.asker.answer(Err(refusal), self.leased.decided());
                Vec::new()
            }
        }
    }

    /// The first outside work of a change. A repeated change has none.
    ///
    /// # Errors
    /// The refusal of the change.
    fn first(&self, wanted: &Wanted, facts: &Facts) -> Result<First, NotChanged> {
        let at = facts.milliseconds;
        let settings = match wanted {
            Wanted::Sharing(policy, algorithm) => {
                let sharing = self.leased.decided().with(policy.clone(), *algorithm)?;
                Some(self.agreement.with_sharing(sharing_names(&sharing), at))
            }
            Wanted::Allocator(name) => Some(self.agreement.with_allocator(name.to_string(), at)),
            Wanted::Quota(owner, limits) => {
                let settings = self.agreement.with_quota(*owner, *limits, at);
                Some(settings.map_err(NotChanged::Quota)?)
            }
            Wanted::Server(server, config) => self.check_server(*server, config, facts)?.then(|| {
                let state = Decided::default();
                let description = config.description();
                self.agreement.with_server(&ServerRecord { server: *server, description, state })
            }),
            Wanted::ServerState(server, state) => {
                let left = self.check_server_state(*server, *state, facts)?;
                left.map(|left| self.agreement.with_own(self.own().description(), *state, &left, at))
            }
            Wanted::Target(target, config) => match self.check_target(*target, config, facts)? {
                Joins::New => {
                    let (target, config) = (*target, config.clone());
                    return Ok(First::Open { target, config, is_new: true });
                }
                Joins::ByFile => {
                    let of = (*target, config.description());
                    Some(self.agreement.with_targets(&[of], TargetState::Open, at))
                }
                Joins::Did => None,
            },
            Wanted::TargetState(target, state) => {
                let changed = self.check_target_state(*target, *state, facts)?;
                changed.map(|of| self.agreement.with_targets(&[of], *state, at))
            }
            Wanted::Told(told) => self.agreement.with_later(told),
            Wanted::Lost(target, config) => {
                return Ok(First::Open { target: *target, config: config.clone(), is_new: false });
            }
            Wanted::OwnPlace => Some(self.with_own_place(at)),
        };
        Ok(settings.map_or(First::Nothing, First::Keep))
    }

    /// The settings with this server where its configuration says.
    pub(super) fn with_own_place(&self, milliseconds: u64) -> StoreSettings {
        let own = self.own();
        self.agreement.with_own(own.description(), own.state, &[], milliseconds)
    }

    /// Begins to keep settings.
    pub(super) fn keep(
        &mut self,
        change: Change,
        settings: StoreSettings,
        opened: Option<Box<Joined>>,
    ) -> SettingsTicket {
        let ticket = self.agreement.ticket(&settings);
        self.changes.begin(change, Stage::Keeping(Box::new(settings), opened));
        ticket
    }

    /// The target of the change under way was opened, or cannot be opened. `milliseconds` are those of Unix time.
    pub(crate) fn opened(&mut self, opened: Result<Joined, NotChanged>, milliseconds: u64) -> Vec<Effect> {
        let Some((change, Stage::Opening)) = self.changes.end() else {
            return Vec::new();
        };
        match (&change.wanted, opened) {
            (Wanted::Target(target, config), Ok(opened)) => {
                let of = (*target, config.description());
                let settings = self.agreement.with_targets(&[of], TargetState::Open, milliseconds);
                vec![Effect::Keep(self.keep(change, settings, Some(Box::new(opened))))]
            }
            (Wanted::Lost(target, config), Ok(opened)) => {
                let mut effects = vec![self.take_in(*target, config.clone(), Box::new(opened))];
                self.put_members_in_force(&mut effects);
                effects
            }
            (Wanted::Lost(target, _), Err(error)) => {
                notice!("target {target} cannot be opened: {error}");
                Vec::new()
            }
            (_, opened) => {
                change.asker.answer(opened.map(|_| ()), self.leased.decided());
                Vec::new()
            }
        }
    }

    /// The settings of the change under way are on stable storage, or cannot be brought there: then nothing was decided, and what
    /// another server told is followed all the same.
    pub(crate) fn kept(&mut self, result: io::Result<()>) -> Vec<Effect> {
        let Some((change, Stage::Keeping(settings, opened))) = self.changes.end() else {
            return Vec::new();
        };
        let Change { wanted, asker } = change;
        match (&wanted, result) {
            (_, Ok(())) => {}
            (Wanted::Told(_), Err(error)) => {
                let file = self.agreement.describe();
                warning!("{file} cannot be written ({error}); a restart may forget the settings");
            }
            (Wanted::OwnPlace, Err(error)) => {
                let file = self.agreement.describe();
                notice!("cannot keep the address of the server in {file}: {error}");
                return Vec::new();
            }
            (_, Err(error)) => {
                asker.answer(Err(NotChanged::Storage(error)), self.leased.decided());
                return Vec::new();
            }
        }
        self.agreement.put_in_force(*settings);
        let mut effects = Vec::new();
        match wanted {
            Wanted::Sharing(..) | Wanted::Allocator(_) | Wanted::Quota(..) => {
                self.put_choices_in_force(&mut effects)
            }
            Wanted::Target(target, config) => {
                effects.extend(opened.map(|opened| self.take_in(target, config, opened)));
                notice!("target {target} joined");
                effects.push(Effect::Tell);
            }
            Wanted::Server(..) | Wanted::ServerState(..) | Wanted::TargetState(..) => {
                self.put_members_in_force(&mut effects);
                effects.push(Effect::Tell);
            }
            Wanted::Told(_) => effects.extend(self.put_in_force()),
            Wanted::Lost(..) | Wanted::OwnPlace => {}
        }
        asker.answer(Ok(()), self.leased.decided());
        effects
    }

    /// An opened target is one of this server.
    fn take_in(&mut self, target: TargetId, config: Box<TargetConfig>, opened: Box<Joined>) -> Effect {
        self.config.servers[usize::from(self.own.0)].targets.push((*config).clone());
        Effect::TakeIn(target, config, opened)
    }
}
