//! Targets that join and leave the store while it runs.
//!
//! The server of a target decides, keeps the decision on stable storage, and tells the other servers with its reports. A
//! target that retires gets no new files from a home once the home has kept the decision, too. It leaves when every home
//! reports that it has no object there, by records that no power loss takes back.

use super::Server;
use crate::config::Place;
use crate::config::TakenPort;
use crate::config::{BackendKind, ServerConfig, Taken, TargetConfig};
use crate::control::question::NotChanged;
use crate::durability::Deferred;
use crate::error::ServerError;
use crate::notices::{notice, warning};
use crate::storage::{Known, Target};
use std::collections::HashMap;
use weir_placement::{ServerId, TargetId};
use weir_wire::{
    limits, Decided, LeavingReport, Room, ServerAddress, ServerRecord, ServerReport, TargetRecord,
    TargetRoom, TargetState,
};

/// Fill up to which the other targets take the bytes of one that retires, in hundredths: the rest is for files that grow.
const FILL_MAX_PERCENT: u64 = 95;

/// The knowledge of this home about its objects on targets that retire.
#[derive(Default)]
pub(crate) struct Leaving {
    /// The last record of the journal when no object was left.
    emptied: HashMap<TargetId, u64>,
}

impl Server {
    /// Opens one more target here. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn add_target(&mut self, target: TargetId, config: TargetConfig) -> Result<(), NotChanged> {
        if self.is_there_already(target, &config)? {
            return Ok(());
        }
        let opened = self.open_target(target, &config)?;
        self.decide_target(target, config.description(), TargetState::Open)?;
        self.take_in(target, config, opened);
        notice!("target {target} joined");
        self.tell_of_targets();
        Ok(())
    }

    /// Whether the target was added before; whether it may be added otherwise.
    fn is_there_already(&self, target: TargetId, config: &TargetConfig) -> Result<bool, NotChanged> {
        let own = &self.site.config.servers[usize::from(self.site.id.0)];
        if target.server != self.site.id || target.slot() > 0 {
            return Err(NotChanged::Unknown(target));
        }
        let (number, next) = (target.number(), own.targets.len());
        if let Some(known) = own.targets.get(number) {
            let is_same = known.description() == config.description() && known.state != TargetState::Retired;
            return match is_same {
                true => Ok(true),
                false => Err(NotChanged::refused(
                    format!("the number {target} was given to another target"),
                    format!("the next one is {}.{next}", self.site.id),
                )),
            };
        }
        if number != next {
            let hint = format!("the next one is {}.{next}", self.site.id);
            return Err(NotChanged::refused(format!("{target} is not the next target of its server"), hint));
        }
        if config.state.is_closed() {
            return Err(NotChanged::refused("a new target is open".into(), "leave `state` away".into()));
        }
        if own.state.is_closed() {
            let what = format!("server {} takes no new files", self.site.id);
            return Err(NotChanged::refused(what, "add the target to another server".into()));
        }
        if self.durability.is_durable() && config.backend == BackendKind::Ram {
            let what = "a ram target keeps nothing over a restart, and this store keeps its files";
            return Err(NotChanged::refused(what.into(), "add a target of backend dir".into()));
        }
        let mut grown = own.clone();
        grown.targets.push(config.clone());
        let hint = || "see docs/reference/configuration.md".to_string();
        grown.check().map_err(|what| NotChanged::refused(what, hint()))?;
        self.check_folder(config)?;
        Ok(false)
    }

    fn open_target(&mut self, target: TargetId, config: &TargetConfig) -> Result<Target, NotChanged> {
        let refused = |error: String| NotChanged::refused(error, "see the server's log".into());
        let opened = self.home.open_target(&self.site.config, (target.number(), config));
        let opened = opened.map_err(|error| refused(error.to_string()))?;
        if let Some(dir) = opened.directory() {
            let settled = dir.settle(|_| Known::Elsewhere);
            settled.map_err(|error| refused(format!("the folder of {target} cannot be used: {error}")))?;
        }
        Ok(opened)
    }

    /// A target of its own folder gets an empty one: another target may have the files in any other.
    fn check_folder(&self, config: &TargetConfig) -> Result<(), NotChanged> {
        let Some(path) = config.path.as_deref() else { return Ok(()) };
        let checked = match path.is_absolute() {
            true => self.home.check_new(path),
            false => Err("is not a whole path".into()),
        };
        checked.map_err(|what| {
            let hint = "name an empty folder, or one that is to be made, by its whole path";
            NotChanged::refused(format!("{} {what}", path.display()), hint.into())
        })
    }

    /// Serves an opened target from now on.
    fn take_in(&mut self, target: TargetId, config: TargetConfig, opened: Target) {
        self.devices.add(config.speed.as_ref(), self.site.boot);
        self.accounts.add_target();
        let metadata = self.devices.metadata();
        for request in self.requests.iter_mut() {
            request.renumber_metadata(metadata);
        }
        if self.home.is_apart(&opened) {
            self.durability.note_apart(target.number());
        }
        self.targets.push(opened);
        self.site.config.servers[usize::from(self.site.id.0)].targets.push(config);
        self.namespace.add_target(target);
    }

    /// Changes the state of a target here. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn set_target_state(
        &mut self,
        target: TargetId,
        wanted: TargetState,
    ) -> Result<(), NotChanged> {
        let known = self.site.config.target(target).filter(|_| target.server == self.site.id);
        let config = known.filter(|_| target.slot() == 0).ok_or(NotChanged::Unknown(target))?;
        let (present, description) = (config.state, config.description());
        if present == wanted {
            return Ok(());
        }
        match wanted {
            _ if present == TargetState::Retired => {
                let hint = "its number is not given again: add another target";
                return Err(NotChanged::refused(format!("target {target} has retired"), hint.into()));
            }
            TargetState::Open => {}
            TargetState::Retiring => self.check_others(target)?,
            TargetState::Retired => self.check_emptied(target, present)?,
        }
        self.decide_target(target, description, wanted)?;
        self.put_targets_in_force();
        self.tell_of_targets();
        Ok(())
    }

    fn decide_target(
        &mut self,
        target: TargetId,
        description: String,
        state: TargetState,
    ) -> Result<(), NotChanged> {
        let milliseconds = self.clock.wall_milliseconds();
        let agreement = self.peers.agreement();
        Ok(agreement.decide_target((target, description), state, milliseconds)?)
    }

    /// Checks that the other targets can take the bytes of one that is to retire.
    fn check_others(&mut self, target: TargetId) -> Result<(), NotChanged> {
        self.report_targets();
        let config = &self.site.config;
        let backend = config.target(target).map(|config| config.backend);
        let all = config.targets().into_iter().filter(|&other| other != target);
        let open: Vec<TargetId> = all
            .filter(|&other| config.target(other).is_some_and(|config| !config.state.is_closed()))
            .collect();
        if open.is_empty() {
            let what = format!("target {target} is the last one that takes files");
            return Err(NotChanged::refused(what, "add another target first (`weir target add`)".into()));
        }
        let is_alike = |other: &TargetId| config.target(*other).map(|config| config.backend) == backend;
        let heirs: Vec<TargetId> = open.into_iter().filter(is_alike).collect();
        let kind = self.targets[target.number()].backend();
        let hint = format!("add a {kind} target first (`weir target add`)");
        if heirs.is_empty() {
            let what = format!("target {target} is the last {kind} target that takes files");
            return Err(NotChanged::refused(what, hint));
        }
        self.check_room((&format!("target {target}"), &[target]), (kind, &heirs), hint + ", or remove files")
    }

    /// Checks that some targets have room for the bytes of others, which leave; reports of targets are up to date here.
    pub(super) fn check_room(
        &self,
        (name, leaving): (&str, &[TargetId]),
        (kind, heirs): (&str, &[TargetId]),
        hint: String,
    ) -> Result<(), NotChanged> {
        let reports = self.exchange.believed(self.clock.now());
        let rooms: HashMap<TargetId, TargetRoom> =
            reports.flat_map(|report| &report.targets).map(|report| (report.target, report.room)).collect();
        let fillable = heirs.iter().filter_map(|heir| {
            let room = rooms.get(heir)?;
            Some(TargetRoom { capacity_bytes: room.capacity_bytes / 100 * FILL_MAX_PERCENT, ..*room })
        });
        let room_bytes = Room::of(fillable).free_bytes;
        let used_bytes: u64 =
            leaving.iter().map(|target| rooms.get(target).map_or(0, |room| room.used_bytes)).sum();
        if used_bytes <= room_bytes {
            return Ok(());
        }
        let what = format!(
            "{name} holds {used_bytes} bytes, and the other {kind} targets have room for {room_bytes} up to \
             {FILL_MAX_PERCENT} % of their capacity"
        );
        Err(NotChanged::refused(what, hint))
    }

    /// Checks that no home has an object on a target, and nothing here uses its memory.
    fn check_emptied(&mut self, target: TargetId, present: TargetState) -> Result<(), NotChanged> {
        if present == TargetState::Open {
            let hint = "let it retire first (`weir target retire`)";
            return Err(NotChanged::refused(format!("target {target} takes files"), hint.into()));
        }
        self.report_leaving();
        let reports = self.exchange.believed(self.clock.now());
        for server in (0..self.site.config.servers.len() as u16).map(ServerId) {
            let report = reports.clone().find(|report| report.server == server);
            match report.map(|report| objects_left(report, target)) {
                Some(Some(0)) => {}
                Some(Some(objects)) => {
                    return Err(NotChanged::NotYet(format!(
                        "server {server} has {objects} objects on {target}"
                    )))
                }
                Some(None) => {
                    return Err(NotChanged::NotYet(format!(
                        "server {server} does not know yet that {target} retires"
                    )))
                }
                None => return Err(NotChanged::NotYet(format!("server {server} does not report"))),
            }
        }
        let is_used = self.targets[target.number()].is_in_use()
            || self.requests.iter().any(|request| request.device() == Some(target.number()));
        match is_used {
            true => Err(NotChanged::NotYet(format!("requests for {target} are under way"))),
            false => Ok(()),
        }
    }

    /// Takes in a server that joins the store, and runs. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn add_server(&mut self, server: ServerId, config: &ServerConfig) -> Result<(), NotChanged> {
        let (number, next) = (usize::from(server.0), self.site.config.servers.len());
        if let Some(known) = self.site.config.servers.get(number) {
            return match known.listen == config.listen && known.control == config.control {
                true => Ok(()),
                false => Err(NotChanged::refused(
                    format!("the number {server} was given to another server"),
                    format!("the next one is {next}"),
                )),
            };
        }
        let refused = |what: &str, hint: &str| Err(NotChanged::refused(what.into(), hint.into()));
        if number != next || number >= limits::SERVERS {
            return refused("it is not the next server of the store", &format!("the next one is {next}"));
        }
        if config.state.is_closed() || config.targets.iter().any(|target| target.state.is_closed()) {
            return refused("a new server and its targets are open", "leave `state` away");
        }
        if self.durability.is_durable()
            && config.targets.iter().any(|target| target.backend == BackendKind::Ram)
        {
            let what = "a ram target keeps nothing over a restart, and this store keeps its files";
            return refused(what, "give the server targets of backend dir");
        }
        let record = ServerRecord { server, description: config.description(), state: Decided::default() };
        self.peers.agreement().admit_server(&record)?;
        self.put_targets_in_force();
        self.tell_of_targets();
        Ok(())
    }

    /// Opens the lines to the other servers.
    ///
    /// # Errors
    /// As [`Lines::open`](crate::peers::line::Lines::open).
    pub fn meet_peers(&mut self) -> Result<(), ServerError> {
        let (own, count) = (self.site.id, self.site.config.servers.len() as u16);
        let mut others = (0..count).map(ServerId).filter(|&server| server != own);
        others.try_for_each(|server| self.meet(server))?;
        self.resume_effects();
        Ok(())
    }

    /// Takes the addresses at which this server listens, and decides them for the others where they may know it elsewhere: its
    /// number came here from another host, or a port was taken.
    ///
    /// # Errors
    /// The decision cannot be kept; the system refuses a thread.
    pub fn settle_at(&mut self, place: Place, taken_ports: Vec<TakenPort>) -> Result<(), ServerError> {
        self.taken_ports = taken_ports;
        for taken in &self.taken_ports {
            warning!("{taken}");
        }
        let lost = |source| ServerError::Loop { what: "start a thread for cluster.json", source };
        self.home.publish(self.site.id, place.clone()).map_err(lost)?;
        self.is_settled = true;
        let (known, own) = (self.known_place(), self.own_config());
        // A server whose configuration leaves a port open is found by the file that it writes, unless it has been displaced.
        let filed = Some(own.place()).filter(|_| !own.is_anywhere());
        if known.or(filed).is_none_or(|known| known == place) {
            return Ok(());
        }
        let number = usize::from(self.site.id.0);
        self.site.config.servers[number].put_at(place);
        self.decide_own_place()
    }

    /// The place of this server in its last decision; none where it was left open.
    fn known_place(&mut self) -> Option<Place> {
        let known = self.peers.agreement().settings().server(self.site.id)?;
        let known = ServerConfig::described(&known.description).ok()?;
        (!known.is_anywhere()).then(|| known.place())
    }

    /// Decides that this server is where its configuration says.
    fn decide_own_place(&mut self) -> Result<(), ServerError> {
        let own = self.own_config();
        let (state, description) = (own.state, own.description());
        let milliseconds = self.clock.wall_milliseconds();
        let decided = self.peers.agreement().decide_server(description, state, &[], milliseconds);
        decided.map_err(|source| ServerError::Io {
            what: "keep the address of the server in",
            path: self.home.path().to_path_buf(),
            source,
        })
    }

    pub(super) fn own_config(&self) -> &ServerConfig {
        &self.site.config.servers[usize::from(self.site.id.0)]
    }

    fn put_server_in_force(&mut self, record: &ServerRecord) {
        let server = record.server;
        let before = self.site.config.servers.get(usize::from(server.0)).map(|config| config.state);
        let own = self.own_config().clone();
        match self.site.config.take_server(record) {
            Ok(Taken::Known) => {}
            Ok(Taken::Moved) if server == self.site.id => {
                // It is where it is. Others tell a decision of this server that was lost here, or it has not listened yet.
                let is_anywhere = own.is_anywhere();
                self.site.config.servers[usize::from(server.0)].put_at(own.place());
                if self.is_settled && !is_anywhere {
                    if let Err(error) = self.decide_own_place() {
                        notice!("{error}");
                    }
                }
            }
            Ok(Taken::New) => {
                if let Err(error) = self.meet(server) {
                    notice!("server {server}, which joined, cannot be asked: {error}");
                }
                let targets = self.site.config.targets().into_iter().filter(|target| target.server == server);
                targets.for_each(|target| self.namespace.add_target(target));
                notice!("server {server} joined");
            }
            Ok(Taken::Moved) => {
                let config = &self.site.config.servers[usize::from(server.0)];
                let (tcp, control) = (config.listen.clone(), config.control.clone());
                notice!("server {server} is at {tcp} now");
                if self.is_settled {
                    // Without a thread for it the list stays old: clients ask the servers, too.
                    let _ = self.home.publish(server, Place { tcp: tcp.clone(), control: control.clone() });
                }
                self.peers.redirect(server, ServerAddress { server, tcp, unix: None, owner: 0, control });
            }
            Err(error) => return notice!("{error}"),
        }
        let state = record.state.value;
        if before.is_some_and(|before| before != state) {
            notice!("server {server} is {state:?}");
        }
    }

    /// Has new trees have their homes on the servers that take them.
    fn spread_trees(&mut self) {
        let servers = (0..).map(ServerId).zip(&self.site.config.servers);
        let open = servers.filter(|(_, config)| !config.state.is_closed()).map(|(server, _)| server);
        let open = open.collect();
        self.namespace.spread_over(open);
    }

    /// Brings the servers, the targets here and the placer to what was agreed.
    pub(super) fn put_targets_in_force(&mut self) {
        for record in self.peers.agreement().settings().servers.clone() {
            self.put_server_in_force(&record);
        }
        self.spread_trees();
        for record in self.peers.agreement().settings().targets.clone() {
            self.put_target_in_force(&record);
        }
    }

    fn put_target_in_force(&mut self, record: &TargetRecord) {
        let (target, state) = (record.target, record.state.value);
        let is_own = target.server == self.site.id;
        if is_own && target.number() == self.targets.len() {
            // Another server knows of a decision of this one that was lost here.
            let config = TargetConfig::described(&record.description);
            let config = config.map(|config| TargetConfig { state, ..config });
            match config.map(|config| (self.open_target(target, &config), config)) {
                Ok((Ok(opened), config)) => self.take_in(target, config, opened),
                Ok((Err(error), _)) => return notice!("target {target} cannot be opened: {error}"),
                Err(error) => return notice!("target {target} is of another version: {error}"),
            }
        }
        let before = self.site.config.target(target).map(|config| config.state);
        match self.site.config.take_record(record) {
            Ok(true) => self.namespace.add_target(target),
            Ok(false) => {}
            Err(error) => return notice!("{error}"),
        }
        if self.namespace.placer().is_kept(target) == state.is_closed() {
            self.namespace.placer_mut().close(target, state.is_closed());
        }
        if before != Some(state) {
            notice!("target {target} is {state:?}");
        }
        if is_own && state == TargetState::Retired {
            self.targets[target.number()].retire();
        }
    }

    /// Sets the part of this server's report about its objects on targets that retire.
    pub(super) fn report_leaving(&mut self) {
        let settings = self.peers.agreement().settings();
        let leaving = settings.targets.iter().filter(|record| record.state.value == TargetState::Retiring);
        let leaving: Vec<TargetId> = leaving.map(|record| record.target).collect();
        self.leaving.emptied.retain(|target, _| leaving.contains(target));
        let report = |target| LeavingReport { target, objects: self.objects_leaving(target) };
        self.exchange.own_mut().leaving = leaving.into_iter().map(report).collect();
    }

    /// Objects of files of this home on a target that retires. None is left once no power loss can take the records of it.
    fn objects_leaving(&mut self, target: TargetId) -> u64 {
        let objects = self.namespace.objects_on(target);
        if objects > 0 {
            self.leaving.emptied.remove(&target);
            return objects;
        }
        let Some((appended, durable)) = self.durability.progress() else { return 0 };
        let emptied = *self.leaving.emptied.entry(target).or_insert(appended);
        if emptied > durable {
            self.defer(Deferred::Look, true);
        }
        u64::from(emptied > durable)
    }

    /// Tells the other servers at once.
    pub(super) fn tell_of_targets(&mut self) {
        let now = self.clock.now();
        self.report_targets();
        self.report_leaving();
        self.renew_report();
        self.refresh_placement();
        self.tell_peers(now + self.exchange.lambda());
    }
}

fn objects_left(report: &ServerReport, target: TargetId) -> Option<u64> {
    report.leaving.iter().find(|leaving| leaving.target == target).map(|leaving| leaving.objects)
}
