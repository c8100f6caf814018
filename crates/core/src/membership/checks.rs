//! Checks of changes: whether servers and targets may join, retire, and leave.

use super::{Facts, Membership};
use crate::config::{BackendKind, ServerConfig, TargetConfig};
use crate::control::question::NotChanged;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::HashMap;
use weir_placement::{ServerId, TargetId};
use weir_wire::{limits, Room, ServerReport, TargetRoom, TargetState};

/// Fill up to which the other targets take the bytes of one that retires, in hundredths: the rest is for files that grow.
const FILL_MAX_PERCENT: u64 = 95;

/// How a target joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joins {
    /// It was recorded before.
    Did,
    /// This server started by a file that has the target already, and no server has a record of it. Another file may not have it, and
    /// the other servers do not know it.
    ByFile,
    /// It is to be opened.
    New,
}

/// A target here, with its configuration as other servers are told it.
pub(super) type Described = (TargetId, String);

impl Membership {
    /// How a target is to join.
    ///
    /// # Errors
    /// It may not join.
    pub(super) fn check_target(
        &self,
        target: TargetId,
        config: &TargetConfig,
        facts: &Facts,
    ) -> Result<Joins, NotChanged> {
        let own = self.own();
        if target.server != self.own || target.slot() > 0 {
            return Err(NotChanged::Unknown(target));
        }
        let (number, next) = (target.number(), own.targets.len());
        if let Some(known) = own.targets.get(number) {
            let is_same = known.description() == config.description() && known.state != TargetState::Retired;
            return match is_same {
                true if is_recorded(self.settings().target(target)) => Ok(Joins::Did),
                true => Ok(Joins::ByFile),
                false => Err(NotChanged::refused(
                    format!("the number {target} was given to another target"),
                    format!("the next one is {}.{next}", self.own),
                )),
            };
        }
        if number != next {
            let hint = format!("the next one is {}.{next}", self.own);
            return Err(NotChanged::refused(format!("{target} is not the next target of its server"), hint));
        }
        if config.state.is_closed() {
            return Err(NotChanged::refused("a new target is open".into(), "leave `state` away".into()));
        }
        if own.state.is_closed() {
            let what = format!("server {} takes no new files", self.own);
            return Err(NotChanged::refused(what, "add the target to another server".into()));
        }
        if facts.is_durable && config.backend == BackendKind::Ram {
            let what = "a ram target keeps nothing over a restart, and this store keeps its files";
            return Err(NotChanged::refused(what.into(), "add a target of backend dir".into()));
        }
        let mut grown = own.clone();
        grown.targets.push(config.clone());
        let hint = || "see docs/reference/configuration.md".to_string();
        grown.check().map_err(|what| NotChanged::refused(what, hint()))?;
        Ok(Joins::New)
    }

    /// The target here whose state is to be another one; none where it is in that state.
    ///
    /// # Errors
    /// It may not be in that state, or not yet.
    pub(super) fn check_target_state(
        &self,
        target: TargetId,
        wanted: TargetState,
        facts: &Facts,
    ) -> Result<Option<Described>, NotChanged> {
        let known = self.config.target(target).filter(|_| target.server == self.own);
        let config = known.filter(|_| target.slot() == 0).ok_or(NotChanged::Unknown(target))?;
        match wanted {
            _ if config.state == wanted => return Ok(None),
            _ if config.state == TargetState::Retired => {
                let hint = "its number is not given again: add another target";
                return Err(NotChanged::refused(format!("target {target} has retired"), hint.into()));
            }
            TargetState::Open => {}
            TargetState::Retiring => self.check_others(target, config.backend, facts)?,
            TargetState::Retired => self.check_emptied(target, config.state, facts)?,
        }
        Ok(Some((target, config.description())))
    }

    /// Checks that the other targets can take the bytes of one that is to retire.
    fn check_others(&self, target: TargetId, backend: BackendKind, facts: &Facts) -> Result<(), NotChanged> {
        let is_open =
            |other: &TargetId| self.config.target(*other).is_some_and(|config| !config.state.is_closed());
        let all = self.config.targets().into_iter().filter(|&other| other != target);
        let open: Vec<TargetId> = all.filter(is_open).collect();
        if open.is_empty() {
            let what = format!("target {target} is the last one that takes files");
            return Err(NotChanged::refused(what, "add another target first (`weir target add`)".into()));
        }
        let heirs = self.alike(&open, backend);
        let kind = backend.name();
        let hint = format!("add a {kind} target first (`weir target add`)");
        if heirs.is_empty() {
            let what = format!("target {target} is the last {kind} target that takes files");
            return Err(NotChanged::refused(what, hint));
        }
        check_room(
            (&format!("target {target}"), &[target]),
            (kind, &heirs),
            facts,
            hint + ", or remove files",
        )
    }

    /// The targets of one backend.
    fn alike(&self, targets: &[TargetId], backend: BackendKind) -> Vec<TargetId> {
        let is_alike =
            |target: &&TargetId| self.config.target(**target).is_some_and(|of| of.backend == backend);
        targets.iter().filter(is_alike).copied().collect()
    }

    /// Checks that no home has an object on a target, and nothing here uses its memory.
    fn check_emptied(&self, target: TargetId, present: TargetState, facts: &Facts) -> Result<(), NotChanged> {
        if present == TargetState::Open {
            let hint = "let it retire first (`weir target retire`)";
            return Err(NotChanged::refused(format!("target {target} takes files"), hint.into()));
        }
        let not_yet = |what: String| Err(NotChanged::NotYet(what));
        for server in (0..self.config.servers.len() as u16).map(ServerId) {
            let report = facts.reports.iter().find(|report| report.server == server);
            match report.map(|report| objects_left(report, target)) {
                Some(Some(0)) => {}
                Some(Some(objects)) => {
                    return not_yet(format!("server {server} has {objects} objects on {target}"))
                }
                Some(None) => {
                    return not_yet(format!("server {server} does not know yet that {target} retires"))
                }
                None => return not_yet(format!("server {server} does not report")),
            }
        }
        match (facts.is_in_use)(target.number()) {
            true => not_yet(format!("requests for {target} are under way")),
            false => Ok(()),
        }
    }

    /// Whether it is to be recorded that a server that runs joins: false where it was before.
    ///
    /// # Errors
    /// It may not join.
    pub(super) fn check_server(
        &self,
        server: ServerId,
        config: &ServerConfig,
        facts: &Facts,
    ) -> Result<bool, NotChanged> {
        let (number, next) = (usize::from(server.0), self.config.servers.len());
        if let Some(known) = self.config.servers.get(number) {
            return match known.listen == config.listen && known.control == config.control {
                true => Ok(!is_recorded(self.settings().server(server))),
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
        if facts.is_durable && config.targets.iter().any(|target| target.backend == BackendKind::Ram) {
            let what = "a ram target keeps nothing over a restart, and this store keeps its files";
            return refused(what, "give the server targets of backend dir");
        }
        Ok(true)
    }

    /// The targets here that follow this server into another state, for one decision about all of them: a command that is ended
    /// leaves no half of it. None where the server is in that state.
    ///
    /// A server that retires has its targets emptied, and no new tree has its home on it. The trees that are there stay, under the
    /// server's number, which another host may take over.
    ///
    /// # Errors
    /// The server may not be in that state, or not yet.
    pub(super) fn check_server_state(
        &self,
        server: ServerId,
        wanted: TargetState,
        facts: &Facts,
    ) -> Result<Option<Vec<Described>>, NotChanged> {
        self.check_is_own(server)?;
        let present = self.own().state;
        Ok(Some(match wanted {
            _ if present == wanted => return Ok(None),
            _ if present == TargetState::Retired => {
                let hint = "add another server (`weir server add`)";
                return Err(NotChanged::refused(format!("server {server} has retired"), hint.into()));
            }
            TargetState::Open => self.targets_that_are(TargetState::Retiring),
            TargetState::Retiring => {
                self.check_other_servers(facts)?;
                self.targets_that_are(TargetState::Open)
            }
            TargetState::Retired => {
                self.check_no_target(present)?;
                Vec::new()
            }
        }))
    }

    /// Checks that a request about one server came to that server.
    pub(crate) fn check_is_own(&self, server: ServerId) -> Result<(), NotChanged> {
        if server == self.own {
            return Ok(());
        }
        let what = format!("server {server} is another one than {}", self.own);
        Err(NotChanged::refused(what, "ask the server itself".into()))
    }

    fn targets_that_are(&self, state: TargetState) -> Vec<Described> {
        let own = self.own().targets.iter().enumerate();
        let chosen = own.filter(|(_, config)| config.state == state);
        chosen.map(|(index, config)| (self.own_target(index), config.description())).collect()
    }

    /// Checks that other servers take files, and that their targets have room for the bytes here.
    fn check_other_servers(&self, facts: &Facts) -> Result<(), NotChanged> {
        let (id, config) = (self.own, &self.config);
        let is_open = |target: &TargetId| {
            let server = &config.servers[usize::from(target.server.0)];
            !server.state.is_closed() && config.target(*target).is_some_and(|of| !of.state.is_closed())
        };
        let open: Vec<TargetId> =
            config.targets().into_iter().filter(|target| target.server != id && is_open(target)).collect();
        if open.is_empty() {
            let what = format!("server {id} is the last one that takes files");
            return Err(NotChanged::refused(what, "add another server first (`weir server add`)".into()));
        }
        for backend in [BackendKind::Dir, BackendKind::Ram] {
            let is_alike =
                |known: &TargetConfig| known.backend == backend && known.state != TargetState::Retired;
            let alike = self.own().targets.iter().enumerate().filter(|(_, known)| is_alike(known));
            let leaving: Vec<TargetId> = alike.map(|(index, _)| self.own_target(index)).collect();
            let heirs = self.alike(&open, backend);
            let kind = backend.name();
            let hint = format!("add a {kind} target to another server first (`weir target add`)");
            if leaving.is_empty() {
                continue;
            }
            if heirs.is_empty() {
                let what = format!("no other server has a {kind} target that takes files");
                return Err(NotChanged::refused(what, hint));
            }
            let name = format!("server {id}");
            check_room((&name, &leaving), (kind, &heirs), facts, hint + ", or remove files")?;
        }
        Ok(())
    }

    /// Checks that every target here has retired.
    fn check_no_target(&self, present: TargetState) -> Result<(), NotChanged> {
        let id = self.own;
        if present == TargetState::Open {
            let hint = "let it retire first (`weir server retire`)";
            return Err(NotChanged::refused(format!("server {id} takes files"), hint.into()));
        }
        match self.own().targets.iter().position(|target| target.state != TargetState::Retired) {
            Some(index) => Err(NotChanged::NotYet(format!("target {} is there", self.own_target(index)))),
            None => Ok(()),
        }
    }
}

/// Whether a member that a file has needs no record any more.
fn is_recorded<R>(record: Option<&R>) -> bool {
    #[cfg(any(test, feature = "world"))]
    if mutants::is(Mutant::FileMemberUnrecorded) {
        return true;
    }
    record.is_some()
}

/// Checks that some targets have room for the bytes of others, which leave.
fn check_room(
    (name, leaving): (&str, &[TargetId]),
    (kind, heirs): (&str, &[TargetId]),
    facts: &Facts,
    hint: String,
) -> Result<(), NotChanged> {
    let reports = facts.reports.iter().flat_map(|report| &report.targets);
    let rooms: HashMap<TargetId, TargetRoom> = reports.map(|report| (report.target, report.room)).collect();
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

fn objects_left(report: &ServerReport, target: TargetId) -> Option<u64> {
    report.leaving.iter().find(|leaving| leaving.target == target).map(|leaving| leaving.objects)
}
