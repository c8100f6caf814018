//! The work of hosts for an administrator, whose questions reach the servers' control API, and the check that all servers agree.

use super::agenda::Happening;
use super::machine::Machine;
use super::members::Order;
use super::task::Outcome;
use super::{work, World};
use std::rc::Rc;
use weir_core::config::{ClusterConfig, ServerConfig};
use weir_core::control::question::{Part, Question};
use weir_core::events::Event;
use weir_placement::TargetId;
use weir_wire::TargetState;

/// The members by a configuration, in words that are the same where the members are.
fn described(config: &ClusterConfig) -> Vec<String> {
    let server = |server: &ServerConfig| {
        let states = server.targets.iter().map(|target| target.state);
        format!("{:?} at {} with {:?}", server.state, server.listen, states.collect::<Vec<_>>())
    };
    config.servers.iter().map(server).collect()
}

impl World {
    /// One of the configurations by which a server may start: mostly the last one.
    pub(super) fn file_of(&self, server: usize) -> ClusterConfig {
        let mut members = self.members.borrow_mut();
        let before = members.files_before_last(server);
        if before > 0 && !self.agenda.by_chance(70) {
            return members.start_by_earlier(server, self.agenda.below(before as u64) as usize);
        }
        members.leave_files_behind(server);
        members.config().clone()
    }

    /// Begins an administrator, who takes up the changes that are left.
    pub(super) fn add_administrator(&mut self) {
        let (number, client) = self.add_slots();
        self.members.borrow_mut().administrator = Some(number);
        let members = Rc::clone(&self.members);
        self.add_task(number, &client, |task| work::administer(task, &members));
    }

    /// Whether a client that stopped was the administrator. Another one repeats the command.
    pub(super) fn has_stopped_administrator(&mut self, stopped: usize) -> bool {
        let mut members = self.members.borrow_mut();
        members.administrator.take_if(|administrator| *administrator == stopped).is_some()
    }

    /// Carries out what an administrator has done.
    pub(super) fn carry_out(&mut self, orders: Vec<Order>) -> Outcome<()> {
        for order in orders {
            match order {
                Order::Ask(server, question) => {
                    let life = self.machines[server].life();
                    let asked = Happening::Event { server, life, event: Box::new(Event::Control(question)) };
                    self.agenda.add(self.agenda.later(server), asked);
                }
                Order::Start => self.start_joining()?,
                Order::Move(server) => {
                    self.members.borrow_mut().leave_files_behind(server);
                    self.restart(server);
                }
                Order::Restart(server) => self.restart(server),
            }
        }
        Ok(())
    }

    /// Starts the server that the configuration has beyond those that were started.
    fn start_joining(&mut self) -> Outcome<()> {
        let number = self.machines.len();
        if number == self.members.borrow().config().servers.len() {
            return Ok(());
        }
        self.machines.push(Machine::new(number, &self.agenda));
        self.members.borrow_mut().add_started();
        for client in 0..self.slots.len() {
            self.add_slots_at(client, number);
        }
        self.start(number)
    }

    /// Checks that all changes were made, that all servers know the members, and that no file has an object on a target that has left.
    ///
    /// # Errors
    /// A finding.
    pub(super) fn check_members(&mut self) -> Outcome<()> {
        let members = self.members.borrow();
        if let Some(change) = members.under_way {
            return Err(format!("{change:?} is not made"));
        }
        let config = members.config().clone();
        drop(members);
        for (server, machine) in self.machines.iter().enumerate() {
            let (known, agreed) = (described(machine.known()?), described(&config));
            if known != agreed {
                return Err(format!("server {server} knows the members {known:?}, and they are {agreed:?}"));
            }
        }
        let has_left = |name: &str| {
            let target: Option<TargetId> = name.parse().ok();
            let of = target.and_then(|target| config.target(target.device()));
            of.is_none_or(|of| of.state == TargetState::Retired)
        };
        for (server, machine) in self.machines.iter_mut().enumerate() {
            let inos =
                machine.ask(|answer| Question::Files(Part::of_path("0/1", "").expect("a part"), answer))?;
            for entry in machine.ask(|answer| Question::FileEntries(inos, answer))? {
                let entry = serde_json::to_value(&entry).map_err(|error| error.to_string())?;
                let targets = entry["objects"].as_array().into_iter().flatten();
                let left = targets.filter_map(|object| object["target"].as_str()).find(|name| has_left(name));
                if let Some(target) = left {
                    return Err(format!(
                        "a file of server {server} has an object on {target}, which has left: {entry}"
                    ));
                }
            }
        }
        Ok(())
    }
}
