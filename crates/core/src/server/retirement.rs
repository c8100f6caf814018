//! A server that retires: its targets are emptied, and no new tree has its home on it. The trees that are there stay, under the
//! server's number, which another host may take over.
//!
//! One decision closes the server and all of its targets: a command that is ended leaves no half of it.

use super::Server;
use crate::config::TargetConfig;
use crate::control::question::NotChanged;
use weir_placement::{ServerId, TargetId};
use weir_wire::TargetState;

impl Server {
    /// Changes the state of this server, and with it that of its targets. A repeated request changes nothing.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing changes then.
    pub(super) fn set_server_state(
        &mut self,
        server: ServerId,
        wanted: TargetState,
    ) -> Result<(), NotChanged> {
        self.check_is_own(server)?;
        let present = self.own_config().state;
        let left = match wanted {
            _ if present == wanted => return Ok(()),
            _ if present == TargetState::Retired => {
                let hint = "add another server (`weir server add`)";
                return Err(NotChanged::refused(format!("server {server} has retired"), hint.into()));
            }
            TargetState::Open => self.targets_that_are(TargetState::Retiring),
            TargetState::Retiring => {
                self.check_other_servers()?;
                self.targets_that_are(TargetState::Open)
            }
            TargetState::Retired => {
                self.check_no_target(present)?;
                Vec::new()
            }
        };
        let description = self.own_config().description();
        let milliseconds = self.clock.wall_milliseconds();
        self.peers.agreement().decide_server(description, wanted, &left, milliseconds)?;
        self.put_targets_in_force();
        self.tell_of_targets();
        Ok(())
    }

    /// Checks that a request about one server came to that server.
    pub(super) fn check_is_own(&self, server: ServerId) -> Result<(), NotChanged> {
        if server == self.site.id {
            return Ok(());
        }
        let what = format!("server {server} is another one than {}", self.site.id);
        Err(NotChanged::refused(what, "ask the server itself".into()))
    }

    fn targets_that_are(&self, state: TargetState) -> Vec<(TargetId, String)> {
        let own = self.own_config().targets.iter().enumerate();
        let chosen = own.filter(|(_, config)| config.state == state);
        chosen.map(|(index, config)| (self.site.target(index), config.description())).collect()
    }

    /// Checks that other servers take files, and that their targets have room for the bytes here.
    fn check_other_servers(&mut self) -> Result<(), NotChanged> {
        self.report_targets();
        let (id, config) = (self.site.id, &self.site.config);
        let takes = |config: &TargetConfig| !config.state.is_closed();
        let is_open = |target: &TargetId| {
            let server = &config.servers[usize::from(target.server.0)];
            !server.state.is_closed() && config.target(*target).is_some_and(takes)
        };
        let open: Vec<TargetId> =
            config.targets().into_iter().filter(|target| target.server != id && is_open(target)).collect();
        if open.is_empty() {
            let what = format!("server {id} is the last one that takes files");
            return Err(NotChanged::refused(what, "add another server first (`weir server add`)".into()));
        }
        for (index, target) in self.targets.iter().enumerate() {
            let backend = self.own_config().targets[index].backend;
            let is_alike =
                |known: &TargetConfig| known.backend == backend && known.state != TargetState::Retired;
            let alike = self.own_config().targets.iter().enumerate().filter(|(_, known)| is_alike(known));
            let leaving: Vec<TargetId> = alike.map(|(index, _)| self.site.target(index)).collect();
            let is_heir =
                |heir: &&TargetId| config.target(**heir).is_some_and(|heir| heir.backend == backend);
            let heirs: Vec<TargetId> = open.iter().filter(is_heir).copied().collect();
            let kind = target.backend();
            let hint = format!("add a {kind} target to another server first (`weir target add`)");
            if leaving.is_empty() {
                continue;
            }
            if heirs.is_empty() {
                let what = format!("no other server has a {kind} target that takes files");
                return Err(NotChanged::refused(what, hint));
            }
            self.check_room((&format!("server {id}"), &leaving), (kind, &heirs), hint + ", or remove files")?;
        }
        Ok(())
    }

    /// Checks that every target here has retired.
    fn check_no_target(&self, present: TargetState) -> Result<(), NotChanged> {
        let id = self.site.id;
        if present == TargetState::Open {
            let hint = "let it retire first (`weir server retire`)";
            return Err(NotChanged::refused(format!("server {id} takes files"), hint.into()));
        }
        match self.own_config().targets.iter().position(|target| target.state != TargetState::Retired) {
            Some(index) => Err(NotChanged::NotYet(format!("target {} is there", self.site.target(index)))),
            None => Ok(()),
        }
    }
}
