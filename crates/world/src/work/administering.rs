//! The administrator of a store: servers and targets join and retire, and objects move, by the questions and in the order of the commands
//! `weir server`, `weir target` and `weir rebalance`. A command that was ended is repeated.

use super::super::members::{self, Change, Members, Order};
use super::super::task::{Outcome, Task};
use super::moving;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{sync_channel, SyncSender, TryRecvError};
use weir_core::config::{BackendKind, TargetConfig};
use weir_core::control::question::{NotChanged, Question};
use weir_fairshare::Nanos;
use weir_placement::rebalance::{Goal, TargetFill};
use weir_placement::{ServerId, TargetId};
use weir_wire::TargetState;

/// The longest pause before a change.
const PAUSE: Nanos = Nanos::from_millis(1_500);
/// The pause between two looks for an answer, and before a question is repeated.
const LOOK: Nanos = Nanos::from_millis(5);
const AGAIN: Nanos = Nanos::from_millis(100);
/// A question is given up after this time, as by the commands.
const PATIENCE: Nanos = Nanos::from_millis(5_000);
/// All changes are made by then: nothing has failed for half a minute.
const DONE: Nanos = Nanos::from_millis(45_000);
/// Targets of a server that joins, at most.
const TARGETS_MAX: u64 = 2;
/// The fill above the mean, in parts of a target, up to which a rebalancing lets objects be.
const TOLERANCE: f64 = 0.1;

/// An administrator at work.
struct Administering {
    task: Task,
    members: Rc<RefCell<Members>>,
}

/// The answer of a server to a change.
enum Decided {
    Yes,
    /// Not yet, or it is not known: the question is repeated.
    Again,
    Refused(String),
}

/// Makes the changes that are left.
///
/// # Errors
/// A change that the servers should have made.
pub(crate) async fn administer(task: Task, members: Rc<RefCell<Members>>) -> Outcome<()> {
    let administering = Administering { task, members };
    loop {
        administering.task.wait_until(administering.task.agenda.within(PAUSE)).await;
        let under_way = administering.members.borrow().under_way;
        let Some(change) = under_way.or_else(|| administering.choose()) else { return Ok(()) };
        administering.members.borrow_mut().begin(change);
        administering.task.agenda.tell(|| format!("{change:?} begins"));
        administering.make(change).await.map_err(|fault| format!("{change:?}: {fault}"))?;
        administering.task.agenda.tell(|| format!("{change:?} is made"));
        administering.members.borrow_mut().end();
    }
}

fn is_open(state: TargetState) -> bool {
    state == TargetState::Open
}

impl Administering {
    /// Any change that the members take; none when enough were made.
    fn choose(&self) -> Option<Change> {
        let members = self.members.borrow();
        if members.left == 0 {
            return None;
        }
        let agenda = &self.task.agenda;
        let config = members.config();
        let open_servers =
            (0..).map(ServerId).zip(&config.servers).filter(|(_, server)| is_open(server.state));
        let servers: Vec<ServerId> = open_servers.map(|(server, _)| server).collect();
        let targets: Vec<TargetId> = members
            .targets()
            .into_iter()
            .filter(|(_, of)| is_open(of.state))
            .map(|(target, _)| target)
            .collect();
        let server = *servers.get(agenda.below(servers.len() as u64) as usize)?;
        let target = *targets.get(agenda.below(targets.len() as u64) as usize)?;
        let next = config.servers[usize::from(server.0)].targets.len() as u16;
        Some(match agenda.below(9) {
            0 | 1 if config.servers.len() < members.servers_max => Change::Server(config.servers.len()),
            2 => Change::TargetRetires(target),
            3 => Change::TargetStays(target),
            4 => Change::ServerRetires(server),
            5 => Change::ServerMoves(server),
            6 => Change::Rebalance,
            7 => Change::Upgrade,
            _ => Change::Target(TargetId { server, index: next }),
        })
    }

    async fn make(&self, change: Change) -> Outcome<()> {
        match change {
            Change::Server(number) => self.add_server(number).await,
            Change::Target(target) => self.add_target(target).await,
            Change::TargetRetires(target) => match self.set_target(target, TargetState::Retiring).await? {
                true => self.empty(&[target]).await,
                false => Ok(()),
            },
            Change::TargetStays(target) => {
                if self.set_target(target, TargetState::Retiring).await? {
                    self.task.wait_until(self.task.agenda.within(PAUSE)).await;
                    self.decide_target(target, TargetState::Open).await?;
                }
                Ok(())
            }
            Change::ServerRetires(server) => self.retire(server, false).await,
            Change::ServerMoves(server) => self.retire(server, true).await,
            Change::Upgrade => self.upgrade().await,
            Change::Rebalance => {
                let goal = Goal {
                    tolerance: TOLERANCE,
                    drained: Vec::new(),
                    givers: Vec::new(),
                    receivers: Vec::new(),
                    gather: false,
                };
                self.pass(&goal).await;
                Ok(())
            }
        }
    }

    async fn add_server(&self, number: usize) -> Outcome<()> {
        let is_written = self.members.borrow().config().servers.len() > number;
        if !is_written {
            let targets = 1 + self.task.agenda.below(TARGETS_MAX) as usize;
            let joins = members::new_server(number, targets);
            self.members.borrow_mut().write(|file| file.servers.push(joins));
        }
        self.task.desk.borrow_mut().orders.push(Order::Start);
        let config = self.members.borrow().config().servers[number].clone();
        for server in 0..number {
            let add = |answer| Question::AddServer(ServerId(number as u16), Box::new(config.clone()), answer);
            self.decided(server, add).await?;
        }
        Ok(())
    }

    async fn upgrade(&self) -> Outcome<()> {
        let servers = self.members.borrow().config().servers.len();
        for server in 0..servers {
            self.task.desk.borrow_mut().orders.push(Order::Restart(server));
            for asked in 0..servers {
                while self.answer(asked, Question::Lease).await.is_none() {
                    self.wait().await?;
                }
            }
        }
        Ok(())
    }

    async fn add_target(&self, target: TargetId) -> Outcome<()> {
        let server = usize::from(target.server.0);
        let is_written = self.members.borrow().config().target(target).is_some();
        if !is_written {
            self.members.borrow_mut().write(|file| file.servers[server].targets.push(members::new_target()));
        }
        let add = |answer| Question::AddTarget(target, Box::new(members::new_target()), answer);
        self.decided(server, add).await
    }

    /// Has a target in another state, unless its server refuses that.
    async fn set_target(&self, target: TargetId, state: TargetState) -> Outcome<bool> {
        let set = |answer| Question::SetTargetState(target, state, answer);
        let is_set = self.asked(usize::from(target.server.0), set).await?.is_ok();
        if is_set {
            self.members.borrow_mut().write_target(target, state);
        }
        Ok(is_set)
    }

    /// Has a target in another state.
    async fn decide_target(&self, target: TargetId, state: TargetState) -> Outcome<()> {
        match self.set_target(target, state).await? {
            true => Ok(()),
            false => Err(format!("{target} is not {state:?}")),
        }
    }

    /// Empties targets that retire, and lets them go.
    async fn empty(&self, targets: &[TargetId]) -> Outcome<()> {
        let drained = targets.to_vec();
        let (givers, receivers) = (Vec::new(), Vec::new());
        let goal = Goal { tolerance: TOLERANCE, drained, givers, receivers, gather: false };
        for &target in targets {
            loop {
                self.pass(&goal).await;
                let retired = |answer| Question::SetTargetState(target, TargetState::Retired, answer);
                match self.ask_once(usize::from(target.server.0), retired).await {
                    Decided::Yes => break,
                    Decided::Again => self.wait().await?,
                    Decided::Refused(what) => return Err(what),
                }
            }
            self.members.borrow_mut().write_target(target, TargetState::Retired);
        }
        Ok(())
    }

    /// Lets a server retire, unless it refuses that.
    async fn retire(&self, server: ServerId, moves: bool) -> Outcome<()> {
        let number = usize::from(server.0);
        let is_begun = !is_open(self.members.borrow().config().servers[number].state);
        if !is_begun {
            let retire = |answer| Question::SetServerState(server, TargetState::Retiring, answer);
            if self.asked(number, retire).await?.is_err() {
                return Ok(());
            }
            self.members.borrow_mut().write_retirement(server);
        }
        let left = self.members.borrow().targets().into_iter().filter(|(target, _)| target.server == server);
        let left: Vec<TargetId> = left.map(|(target, _)| target).collect();
        self.empty(&left).await?;
        if moves {
            self.members.borrow_mut().write_move(server);
            self.task.desk.borrow_mut().orders.push(Order::Move(number));
        }
        self.decided(number, |answer| Question::SetServerState(server, TargetState::Retired, answer)).await?;
        self.members.borrow_mut().write(|file| file.servers[number].state = TargetState::Retired);
        Ok(())
    }

    /// Moves objects towards a goal, from targets that are as full as it may be.
    async fn pass(&self, goal: &Goal) {
        let targets = self.members.borrow().targets();
        let is_of_goal = |(target, config): &(TargetId, TargetConfig)| {
            is_open(config.state) || goal.drained.contains(target)
        };
        let fills = targets.into_iter().filter(is_of_goal).map(|(target, config)| {
            let capacity_bytes = config.capacity.unwrap_or(0);
            let used_bytes = self.task.agenda.below(capacity_bytes / 2);
            let class = if config.backend == BackendKind::Ram { "ram" } else { "dir" };
            TargetFill { target, capacity_bytes, used_bytes, class: class.into() }
        });
        let fills: Vec<TargetFill> = fills.collect();
        moving::pass(&self.task, &fills, goal).await;
    }

    /// Has a server decide, however often it is to be asked.
    async fn decided(
        &self,
        server: usize,
        question: impl Fn(SyncSender<Result<(), NotChanged>>) -> Question,
    ) -> Outcome<()> {
        self.asked(server, question).await?
    }

    /// Asks a server until it decides, or refuses.
    async fn asked(
        &self,
        server: usize,
        question: impl Fn(SyncSender<Result<(), NotChanged>>) -> Question,
    ) -> Outcome<Result<(), String>> {
        loop {
            match self.ask_once(server, &question).await {
                Decided::Yes => return Ok(Ok(())),
                Decided::Again => self.wait().await?,
                Decided::Refused(what) => return Ok(Err(what)),
            }
        }
    }

    async fn wait(&self) -> Outcome<()> {
        self.task.wait_until(self.task.now() + AGAIN).await;
        match self.task.now() > DONE {
            true => Err("the servers do not make it".into()),
            false => Ok(()),
        }
    }

    async fn ask_once(
        &self,
        server: usize,
        question: impl Fn(SyncSender<Result<(), NotChanged>>) -> Question,
    ) -> Decided {
        let answer = self.answer(server, question).await;
        self.task.agenda.tell(|| format!("server {server} decides: {answer:?}"));
        match answer {
            Some(Ok(())) => Decided::Yes,
            None | Some(Err(NotChanged::NotYet(_) | NotChanged::Storage(_))) => Decided::Again,
            Some(Err(refusal)) => Decided::Refused(refusal.to_string()),
        }
    }

    /// The answer of a server; none where it ended before it answered, or is silent.
    async fn answer<T>(&self, server: usize, question: impl FnOnce(SyncSender<T>) -> Question) -> Option<T> {
        let (sender, receiver) = sync_channel(1);
        self.task.desk.borrow_mut().orders.push(Order::Ask(server, question(sender)));
        let until = self.task.now() + PATIENCE;
        while self.task.now() < until {
            self.task.wait_until(self.task.now() + LOOK).await;
            match receiver.try_recv() {
                Ok(answer) => return Some(answer),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        None
    }
}
