//! A server of a world, from one start to the next.

use super::agenda::{Agenda, Happening};
use super::clocks::Clocks;
use super::disk::{Backup, Disk};
use super::network::ServerEnd;
use super::outside::{MemoryHome, Outbox, Said};
use super::task::Outcome;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use weir_core::clock::Time;
use weir_core::config::{ClusterConfig, Place};
use weir_core::control::question::Question;
use weir_core::descriptors::Budget;
use weir_core::errands::Workers;
use weir_core::events::{Event, Worked};
use weir_core::identity::Consent;
use weir_core::links::admission::Origin;
use weir_core::server::{Outside, Server};
use weir_core::work::Work;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_testing::key;
use weir_wire::ServerAddress;

/// The longest time from an input to the turn that takes it: several inputs meet in one turn.
const TURN_PAUSE: Nanos = Nanos::from_micros(50);
/// The longest time after which a piece of blocking work is carried out: mostly, and while the disks are slow.
const WORK: Nanos = Nanos::from_millis(5);
const SLOW_WORK: Nanos = Nanos::from_millis(500);
/// The longest time from the end of blocking work to the moment at which the server hears of it: a kill may come between them.
const WORK_TOLD: Nanos = Nanos::from_millis(1);
/// The most changes that a killed process still makes of a piece of work.
const LAST_CHANGES: u64 = 6;
/// Connections and callers: more than a world has.
const BUDGET: Budget = Budget { links: 512, strangers: 256, callers: 4, objects: 16 };

/// Something that waits for a server's next turn.
pub(super) enum Input {
    Accept(ServerEnd),
    Ready { link: usize, is_readable: bool, has_ended: bool },
    Event(Event),
}

/// The blocking work that a server has handed out since it was last carried out.
#[derive(Clone, Default)]
struct HandedOut(Rc<RefCell<Vec<(u64, Work)>>>);

impl Workers for HandedOut {
    fn submit(&mut self, number: u64, work: Work) {
        self.0.borrow_mut().push((number, work));
    }

    fn go_on(&mut self) {}
}

/// One server, and everything of it that outlives its process.
pub(super) struct Machine {
    number: usize,
    agenda: Agenda,
    clocks: Arc<Clocks>,
    server: Option<Server>,
    /// The number of the start.
    life: u64,
    /// The configuration of the start.
    config: Option<ClusterConfig>,
    disk: Disk,
    work: HandedOut,
    /// Work that is carried out later, by its number.
    under_way: BTreeMap<u64, Work>,
    /// The disks are slow until then.
    slow_until: Nanos,
    outbox: Outbox,
    inbox: Vec<Input>,
    turn_at: Option<Nanos>,
}

impl Machine {
    pub(super) fn new(number: usize, agenda: &Agenda) -> Machine {
        Machine {
            number,
            agenda: agenda.clone(),
            clocks: Clocks::new(agenda),
            server: None,
            life: 0,
            config: None,
            disk: Disk::new(agenda),
            work: HandedOut::default(),
            under_way: BTreeMap::new(),
            slow_until: Nanos::ZERO,
            outbox: Outbox::default(),
            inbox: Vec::new(),
            turn_at: None,
        }
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// The start that takes connections; none while the server is down.
    pub(super) fn accepts(&self) -> Option<u64> {
        self.server.is_some().then_some(self.life)
    }

    /// Starts the server.
    ///
    /// # Errors
    /// It does not start from the files that its last process left.
    pub(super) fn start(&mut self, config: &ClusterConfig) -> Outcome<()> {
        self.life += 1;
        self.agenda.tell(|| format!("server {} starts", self.number));
        self.config = Some(config.clone());
        self.disk.mend();
        self.outbox = Outbox::default();
        self.work = HandedOut::default();
        let id = ServerId(self.number as u16);
        let time: Arc<dyn Time> = Arc::<Clocks>::clone(&self.clocks);
        let outside = Outside {
            home: Box::new(MemoryHome { server: id, disk: self.disk.clone() }),
            host: Box::new(self.agenda.clone()),
            lines: Box::new(self.outbox.clone()),
            time,
            workers: Box::new(self.work.clone()),
        };
        let started = Server::open(config.clone(), id, key(), outside, BUDGET, Consent::default());
        let mut server = started.map_err(|error| format!("server {id} does not start: {error}"))?;
        let place = config.servers[self.number].place();
        let Place { tcp, control } = place.clone();
        let met = server.settle_at(place, Vec::new()).and_then(|()| {
            server.announce(ServerAddress { server: id, tcp, unix: None, owner: 0, control });
            server.meet_peers()
        });
        met.map_err(|error| format!("server {id} does not settle: {error}"))?;
        self.server = Some(server);
        self.disk.journal_synced();
        self.collect_work();
        self.plan(self.agenda.now());
        Ok(())
    }

    /// The configuration as the server knows it.
    ///
    /// # Errors
    /// The server does not run.
    pub(super) fn known(&self) -> Outcome<&ClusterConfig> {
        let server = self.server.as_ref().ok_or_else(|| format!("server {} does not run", self.number))?;
        Ok(server.members())
    }

    /// Ends the process in the midst of everything. Its files stay.
    pub(super) fn kill(&mut self) {
        self.inbox.clear();
        self.agenda.tell(|| format!("server {} is killed", self.number));
        self.turn_at = None;
        for (_, work) in std::mem::take(&mut self.under_way) {
            if self.agenda.by_chance(50) {
                self.disk.kill_after(Some(self.agenda.below(LAST_CHANGES)));
                // Nobody hears of the end.
                let _ = work.carry_out();
                self.disk.kill_after(None);
            }
        }
        if let Some(server) = self.server.take() {
            self.disk.keep(server.into_targets());
        }
    }

    /// Ends the process once its work is done.
    pub(super) fn end(&mut self) {
        for (_, work) in std::mem::take(&mut self.under_way) {
            let _ = work.carry_out();
        }
        self.kill();
    }

    /// The machine loses its power.
    pub(super) fn lose_power(&mut self) {
        self.kill();
        self.disk = self.disk.after_power_loss(&self.agenda);
    }

    /// The metadata of the server becomes that of a backup.
    ///
    /// # Errors
    /// The file system's errors.
    pub(super) fn restore(&mut self, backup: &Backup) -> Outcome<()> {
        self.disk = self.disk.restored(backup).map_err(|error| format!("a restore: {error}"))?;
        Ok(())
    }

    pub(super) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The disks are slow for a while.
    pub(super) fn slow_down(&mut self, until: Nanos) {
        self.slow_until = until;
    }

    /// Something waits for the next turn, if the server of that start lives.
    pub(super) fn put(&mut self, life: u64, input: Input) {
        if self.server.is_none() || life != self.life {
            return;
        }
        self.inbox.push(input);
        self.plan(self.agenda.within(TURN_PAUSE));
    }

    /// Has a turn no later than at a moment.
    fn plan(&mut self, at: Nanos) {
        if self.turn_at.is_none_or(|planned| planned > at) {
            self.turn_at = Some(at);
            self.agenda.add(at, Happening::Turn { server: self.number, life: self.life });
        }
    }

    /// A turn of the server, if it is the planned one.
    pub(super) fn turn(&mut self, life: u64) {
        let now = self.agenda.now();
        if life != self.life || self.turn_at != Some(now) {
            return;
        }
        self.turn_at = None;
        let Some(server) = &mut self.server else { return };
        server.begin_turn();
        for input in std::mem::take(&mut self.inbox) {
            match input {
                Input::Accept(end) => server.accept(Box::new(end), Origin::User(0)),
                Input::Ready { link, is_readable, has_ended } => {
                    server.link_ready(link, is_readable, has_ended);
                }
                Input::Event(event) => server.handle_event(event),
            }
        }
        server.end_turn();
        let wait = server.next_deadline().saturating_since(server.now());
        let next = if server.has_work() { Nanos(1_000) } else { wait.max(Nanos(1_000)) };
        self.collect_work();
        self.plan(now + next);
    }

    /// Asks a question of the control API, which is answered at once.
    ///
    /// # Errors
    /// The server is down, or has no answer.
    pub(super) fn ask<T>(&mut self, question: impl FnOnce(SyncSender<T>) -> Question) -> Outcome<T> {
        let Some(server) = &mut self.server else { return Err(format!("server {} is down", self.number)) };
        let (sender, receiver) = sync_channel(1);
        server.begin_turn();
        server.handle_event(Event::Control(question(sender)));
        server.end_turn();
        self.collect_work();
        receiver.try_recv().map_err(|error| format!("server {}: {error}", self.number))
    }

    /// Whatever the server keeps for its clients, with the most that may be; nothing while the server is down.
    pub(super) fn held(&self) -> impl Iterator<Item = (&'static str, u64, u64)> + '_ {
        self.server.iter().flat_map(Server::held_for_clients)
    }

    /// The memory that the server keeps for its clients, with the most that may be.
    pub(super) fn memory(&self) -> impl Iterator<Item = (&'static str, u64, u64)> + '_ {
        self.server.iter().flat_map(Server::memory_for_clients)
    }

    /// Takes the work that the turn handed out. It is carried out later, in any order.
    fn collect_work(&mut self) {
        for (number, work) in std::mem::take(&mut *self.work.0.borrow_mut()) {
            let longest = if self.agenda.now() < self.slow_until { SLOW_WORK } else { WORK };
            let (server, life) = (self.number, self.life);
            self.agenda.add(self.agenda.within(longest), Happening::Work { server, life, number });
            self.under_way.insert(number, work);
        }
    }

    /// Carries out a piece of work, of which the server learns a little later.
    pub(super) fn carry_out(&mut self, life: u64, number: u64) {
        if life != self.life {
            return;
        }
        let Some(work) = self.under_way.remove(&number) else { return };
        let syncs_journal = matches!(work, Work::Sync(..) | Work::Snapshot(_));
        let output = work.carry_out();
        if syncs_journal {
            self.disk.journal_synced();
        }
        let event = Event::Worked(Worked { number, output, service: Nanos::ZERO });
        let told = Happening::Event { server: self.number, life, event: Box::new(event) };
        self.agenda.add(self.agenda.within(WORK_TOLD), told);
    }

    /// The words of the server about its lines.
    pub(super) fn said(&self) -> Vec<Said> {
        self.outbox.take()
    }
}
