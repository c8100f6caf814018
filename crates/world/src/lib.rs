//! A world: servers and clients with their network, files and clock, in one thread and in virtual time, by one seed.
//!
//! Servers are the product's, without sockets and files; the network, the files and the clients are the world's. Whatever
//! happens next is decided by the seed, so a seed shows a fault again.
#![forbid(unsafe_code)]

mod agenda;
mod audit;
mod backups;
mod client;
mod clocks;
mod disk;
mod extras;
mod histories;
mod kept;
mod lines;
mod machine;
mod members;
mod network;
mod orders;
mod outside;
mod rest;
mod session;
mod task;
#[cfg(test)]
mod tests;
mod weather;
mod work;
pub mod worlds;

use agenda::{Agenda, Happening, Side};
use backups::Backups;
use client::{Client, Shared, Ticket};
use disk::Store;
use extras::{Extra, ROOT};
use histories::Histories;
use lines::Line;
use machine::{Input, Machine};
use members::Members;
use network::Network;
use outside::Said;
use session::{Answered, Identity, Seen, Session};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use task::{Desk, Outcome, Task};
use weather::Weather;
use weir_fairshare::Nanos;
use weir_testing::{claims, key};
use weir_wire::{Claims, ClientId};
use work::{Troubles, Work};

/// The longest pause between two faults.
const FAULT_PAUSE: Nanos = Nanos::from_millis(100);
/// The longest time for which a server is down, or its network held up: mostly, and seldom, when clients and peers lose patience.
const OUTAGE: Nanos = Nanos::from_millis(200);
const LONG_OUTAGE: Nanos = Nanos::from_millis(7_000);
/// A machine that lost its power takes this time to start at least: longer than the second that numbers of inodes begin with.
const BOOT: Nanos = Nanos::from_millis(1_000);
/// After the last fault each call is answered within this time: the grace period of a start, and some silences and tries.
const ANSWER_MAX: Nanos = Nanos::from_millis(60_000);
/// The longest time until a client that stopped is followed by another.
const FOLLOWED: Nanos = Nanos::from_millis(2_000);
/// Clients that stop in a world.
const STOPS_MAX: usize = 2;
/// Nothing fails any more from this moment on, and the traces of the last fault are gone.
const SETTLED: Nanos = Nanos::from_millis(50_000);
/// The store is checked before anything is removed.
const CHECK: Nanos = Nanos::from_millis(49_000);
/// A world ends before this moment.
const END_MAX: Nanos = Nanos::from_millis(600_000);
/// A task that stands still for longer may lose what it has to another one.
const LEFT_MIN: Nanos = Nanos::from_millis(2_600);
/// Connections of a client that is cut off over which bytes still arrive, in hundredths.
const LATE: u64 = 30;
/// The time in which a start has been there for so long that others got the locks of the start before.
const MISSED_START: Nanos = Nanos::from_millis(11_000);
/// Slots of a client for each server: more than its tasks have calls at a time.
const SLOTS: u16 = 24;
const CONFIGURATION: &str = "version = 1
namespace_memory = \"1GiB\"
[layout]
stripe_size = \"4KiB\"
";

/// The user of a session.
#[derive(Clone, Copy)]
enum User {
    /// A call of a client.
    Client(usize),
    /// The questions of a client whether a server lives.
    Prober,
    Line(usize),
}

/// A task at work.
struct Worker {
    client: usize,
    desk: Rc<RefCell<Desk>>,
    work: Option<Work>,
}

/// The size of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Servers of the store.
    pub servers: usize,
    /// Clients, each with several tasks.
    pub clients: usize,
    /// The time in which faults happen.
    pub faults_milliseconds: u64,
    /// Changes of the servers and targets while the clients work.
    pub changes: u64,
    /// Whether the metadata is brought back from a backup.
    pub restores: bool,
}

/// A world.
struct World {
    shape: Shape,
    agenda: Agenda,
    network: Network,
    members: Rc<RefCell<Members>>,
    machines: Vec<Machine>,
    sessions: Vec<(Session, User)>,
    lines: Vec<Line>,
    /// Each client with its slots, by server.
    slots: Vec<(Shared, Vec<Vec<usize>>)>,
    workers: Vec<Worker>,
    histories: Rc<RefCell<Histories>>,
    store: Store,
    weather: Weather,
    extra: Extra,
    /// Clients that do not stop.
    steady: usize,
    /// The claims of each client.
    claims: Vec<Claims>,
    troubles: Rc<RefCell<Troubles>>,
    backups: Backups,
    last_fault: Nanos,
    stops: usize,
    /// Clients that are still to come.
    to_follow: usize,
}

/// The figures of a world that found no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// A number of everything that happened, in its order.
    pub trace: u64,
    /// The things that happened.
    pub steps: u64,
    /// The time that passed in the world.
    pub virtual_time: Nanos,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The fault that it found.
pub fn run(seed: u64, shape: Shape) -> Outcome<Figures> {
    let mut world = World::new(seed, shape);
    (0..shape.servers).try_for_each(|server| world.start(server))?;
    (0..world.workers.len()).try_for_each(|worker| world.go_on(worker))?;
    world.agenda.add(FAULT_PAUSE, Happening::Fault);
    world.agenda.add(CHECK, Happening::Check);
    world.agenda.add(audit::PAUSE, Happening::Audit);
    world.go_on_to_the_end()?;
    if let Some(fault) = world.histories.borrow().fault() {
        return Err(fault);
    }
    world.remove_all()?;
    rest::check_empty(&mut world.machines, &world.backups.orphans)?;
    if world.shape.changes == 0 && !world.shape.restores {
        audit::check_unused(&mut world.machines)?;
    }
    let (trace, steps) = world.agenda.trace();
    Ok(Figures { trace, steps, virtual_time: world.agenda.now() })
}

impl World {
    fn new(seed: u64, shape: Shape) -> World {
        let Shape { servers, clients, .. } = shape;
        let (agenda, store, extra) = (Agenda::new(seed), Store::of(seed), Extra::of(seed, shape));
        let troubles = Troubles::new(servers + members::JOINING_MAX, clients, extra.directories());
        let network = Network::new(agenda.clone());
        let text = format!("{CONFIGURATION}{}", store.configuration(servers));
        let mut world = World {
            shape,
            network,
            members: Rc::new(RefCell::new(Members::new(toml::from_str(&text).expect("a configuration")))),
            machines: (0..servers).map(|number| Machine::new(number, &agenda)).collect(),
            sessions: Vec::new(),
            lines: Vec::new(),
            slots: Vec::new(),
            workers: Vec::new(),
            histories: Rc::default(),
            weather: Weather::new(&agenda, if store == Store::Failing { 9 } else { 6 }),
            store,
            troubles: Rc::new(RefCell::new(troubles)),
            backups: Backups::default(),
            extra,
            steady: 0,
            claims: Vec::new(),
            last_fault: Nanos::ZERO,
            stops: 0,
            to_follow: 0,
            agenda,
        };
        world.add_extra();
        (0..clients).for_each(|_| world.add_client());
        if shape.restores {
            world.plan_backup();
        }
        if shape.changes > 0 {
            world.members.borrow_mut().left = shape.changes;
            world.add_administrator();
        }
        world
    }

    /// Adds a client with a task of each kind. Where disks lose power or a backup is brought back its one task knows what may be left.
    fn add_client(&mut self) {
        let (number, client) = self.add_slots();
        if self.is_kept() {
            let troubles = Rc::clone(&self.troubles);
            return self.add_task(number, &client, |task| work::keep(task, &troubles));
        }
        for kind in 0..work::KINDS {
            self.add_task(number, &client, |task| work::begin(task, kind));
        }
    }

    /// Whether each client has one task that knows what may be left of a directory.
    fn is_kept(&self) -> bool {
        self.store == Store::Failing || self.shape.restores
    }

    fn add_task(&mut self, number: usize, client: &Shared, begin: impl FnOnce(Task) -> Work) {
        let desk = Rc::<RefCell<Desk>>::default();
        let task = Task {
            client: Rc::clone(client),
            number: self.workers.len(),
            desk: Rc::clone(&desk),
            agenda: self.agenda.clone(),
            histories: Rc::clone(&self.histories),
        };
        self.workers.push(Worker { client: number, desk, work: Some(begin(task)) });
    }

    /// One more client removes whatever is left.
    fn remove_all(&mut self) -> Outcome<()> {
        let (number, client) = self.add_slots();
        self.add_task(number, &client, |task| Box::pin(work::remove_all(task)));
        self.go_on(self.workers.len() - 1)?;
        self.go_on_to_the_end()
    }

    /// Lets everything happen until all tasks have ended.
    fn go_on_to_the_end(&mut self) -> Outcome<()> {
        while self.to_follow > 0 || self.workers.iter().any(|worker| worker.work.is_some()) {
            let Some(happening) = self.agenda.next() else { return Err("nothing happens any more".into()) };
            self.take(happening)?;
            self.check_patience()?;
        }
        Ok(())
    }

    /// Adds the slots of one more client of root at all servers. Returns its number as well.
    fn add_slots(&mut self) -> (usize, Shared) {
        self.add_slots_of(&claims(ROOT))
    }

    /// Adds those of a client with these claims.
    fn add_slots_of(&mut self, claims: &Claims) -> (usize, Shared) {
        let number = self.slots.len();
        let client = Client::new(ClientId(1 + number as u64));
        self.claims.push(claims.clone());
        self.slots.push((Rc::clone(&client), Vec::new()));
        (0..self.machines.len()).for_each(|server| self.add_slots_at(number, server));
        (number, client)
    }

    /// Adds the slots of a client at a server.
    fn add_slots_at(&mut self, number: usize, server: usize) {
        let client = Rc::clone(&self.slots[number].0);
        let claims = self.claims[number].clone();
        let credential = || Rc::new(key().mint(claims.clone()));
        let identity = |slot| Identity { credential: credential(), client: Rc::clone(&client), slot };
        let user = |slot| if slot == SLOTS { User::Prober } else { User::Client(number) };
        let slots = (0..=SLOTS).map(|slot| self.add_session(server, identity(slot), user(slot))).collect();
        self.slots[number].1.push(slots);
    }

    fn add_session(&mut self, server: usize, identity: Identity, user: User) -> usize {
        let number = self.sessions.len();
        let session = Session::new(number, server, identity, (&self.network, &self.agenda));
        self.sessions.push((session, user));
        number
    }

    /// Takes what happens next.
    fn take(&mut self, happening: Happening) -> Outcome<()> {
        match happening {
            Happening::Accept { server, connection } => match self.machines[server].accepts() {
                Some(life) => match self.network.accept(connection, life) {
                    Some(end) => self.machines[server].put(life, Input::Accept(end)),
                    None => self.network.cut(connection),
                },
                None => self.network.cut(connection),
            },
            Happening::Arrive { connection, towards } => {
                self.network.arrive(connection, towards);
                if towards == Side::Client {
                    return self.look(self.network.session(connection));
                }
            }
            Happening::Ready { server, life, link, is_readable, has_ended } => {
                self.machines[server].put(life, Input::Ready { link, is_readable, has_ended });
            }
            Happening::Work { server, life, number } => self.machines[server].carry_out(life, number),
            Happening::Event { server, life, event } => self.machines[server].put(life, Input::Event(*event)),
            Happening::Turn { server, life } => {
                self.machines[server].turn(life);
                self.take_words(server);
            }
            Happening::Look { session } => return self.look(session),
            Happening::GoOn { worker } => return self.go_on(worker),
            Happening::BackUp { server } => self.back_up(server),
            Happening::Restore => return self.restore(),
            Happening::Follow => {
                self.to_follow -= 1;
                let first = self.workers.len();
                self.add_client();
                return (first..self.workers.len()).try_for_each(|worker| self.go_on(worker));
            }
            Happening::Administer => {
                self.add_administrator();
                return self.go_on(self.workers.len() - 1);
            }
            Happening::Fault => self.fail(),
            Happening::Restart { server } => self.restart(server),
            Happening::Check => return self.check(),
            Happening::Audit => return self.audit(),
            Happening::Start { server } => return self.start(server),
            Happening::Mend { server } => self.machines[server].disk().mend(),
        }
        Ok(())
    }

    /// Starts a server.
    fn start(&mut self, server: usize) -> Outcome<()> {
        let file = self.file_of(server);
        self.machines[server].start(&file)?;
        let mut histories = self.histories.borrow_mut();
        histories.holders.starts(server);
        if histories.holders.starts_of(server) > 1 {
            histories.uses.note_start(self.agenda.now());
        }
        if self.extra == Extra::Quotas {
            audit::limit(&mut self.machines[server], server, &histories.uses);
        }
        drop(histories);
        self.network.starts(server, self.machines[server].life());
        self.take_words(server);
        Ok(())
    }

    /// Takes what a server said about its lines.
    fn take_words(&mut self, server: usize) {
        let life = self.machines[server].life();
        for said in self.machines[server].said() {
            match said {
                Said::Open(to, access) => {
                    let line = self.lines.len();
                    let client = Client::new(access.client);
                    let identity = Identity { credential: Rc::new(access.credential), client, slot: 0 };
                    let session = self.add_session(usize::from(to.0), identity, User::Line(line));
                    self.lines.push(Line::new((server, life), to, session));
                }
                Said::Ask(to, ask) => {
                    let is_its = |line: &&mut Line| line.is_of(server, life, to);
                    let Some(line) = self.lines.iter_mut().find(is_its) else { continue };
                    line.ask(ask, &self.agenda);
                    let session = line.session();
                    line.go_on(&mut self.sessions[session].0, &self.agenda);
                }
            }
        }
    }

    /// The lines of a server end with its process.
    fn end_lines(&mut self, server: usize) {
        let life = self.machines[server].life();
        for line in self.lines.iter_mut().filter(|line| line.is_from(server, life)) {
            line.end_all(&mut self.sessions[line.session()].0);
        }
    }

    /// A session looks at its connection.
    fn look(&mut self, number: usize) -> Outcome<()> {
        let (session, user) = &mut self.sessions[number];
        let (seen, server) = (session.look(), session.server());
        if let Some((life, fence)) = seen.told {
            self.histories.borrow_mut().starts.told(server, life, fence)?;
        }
        match (*user, seen) {
            (User::Client(client), Seen { answer, silence, .. }) => {
                if let Some(limit) = silence {
                    let prober = self.slots[client].1[server][usize::from(SLOTS)];
                    self.sessions[prober].0.probe(limit);
                }
                if let Some((ticket, answered)) = answer {
                    return self.answer(ticket, answered);
                }
            }
            (User::Prober, _) => {}
            (User::Line(line), Seen { answer, .. }) => {
                self.lines[line].look(session, answer.map(|(_, answered)| answered), &self.agenda);
            }
        }
        Ok(())
    }

    /// A task has the answer to a call.
    fn answer(&mut self, ticket: Ticket, answered: Answered) -> Outcome<()> {
        self.agenda.note(answered.1.len() as u64);
        self.agenda
            .tell(|| format!("task {} is answered ({}): {:?}", ticket.worker, ticket.number, answered.0));
        let mut desk = self.workers[ticket.worker].desk.borrow_mut();
        let Some(began) = desk.waiting.remove(&ticket.number) else { return Ok(()) };
        if self.store != Store::Failing {
            self.histories.borrow_mut().versions.told(&answered.0, began, self.agenda.now())?;
        }
        if self.extra == Extra::Clocks {
            self.check_stamp(&answered.0, began)?;
        }
        desk.answers.insert(ticket.number, answered);
        drop(desk);
        self.go_on(ticket.worker)
    }

    /// A task goes on until it waits for an answer, or has ended.
    fn go_on(&mut self, number: usize) -> Outcome<()> {
        let worker = &mut self.workers[number];
        let Some(work) = &mut worker.work else { return Ok(()) };
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            worker.work = None;
            return outcome.map_err(|fault| format!("task {number}: {fault}"));
        }
        let client = worker.client;
        let (calls, orders) = worker.desk.borrow_mut().take();
        for (ticket, server, request, payload) in calls {
            let slot = self.free_slot(client, server);
            self.agenda
                .tell(|| format!("task {number} asks server {server} ({}): {request:?}", ticket.number));
            self.sessions[slot].0.begin(ticket, request, payload);
        }
        self.carry_out(orders)
    }

    /// A slot without a call: mostly one with a connection.
    fn free_slot(&self, client: usize, server: usize) -> usize {
        let session = |slot: &usize| &self.sessions[*slot].0;
        let slots = &self.slots[client].1[server][..usize::from(SLOTS)];
        let free: Vec<usize> = slots.iter().copied().filter(|slot| session(slot).is_free()).collect();
        let ready: Vec<usize> = free.iter().copied().filter(|slot| session(slot).is_ready()).collect();
        let among = if ready.is_empty() || self.agenda.by_chance(10) { &free } else { &ready };
        among[self.agenda.below(among.len() as u64) as usize]
    }

    /// Whether each call is answered in time, once nothing fails any more.
    fn check_patience(&self) -> Outcome<()> {
        let now = self.agenda.now();
        if now.saturating_since(self.last_fault) <= ANSWER_MAX {
            return Ok(());
        }
        let is_late = |worker: &Worker| {
            let desk = worker.desk.borrow();
            let began = desk.waiting.values().next();
            began.is_some_and(|began| now.saturating_since((*began).max(self.last_fault)) > ANSWER_MAX)
        };
        match self.workers.iter().position(is_late) {
            Some(worker) => Err(format!("a call of task {worker} is not answered in time")),
            None if now > END_MAX => Err("the world does not end".into()),
            None => Ok(()),
        }
    }

    /// A client ends without a word, in the midst of everything. Another one comes later.
    fn stop(&mut self, client: usize) {
        self.stops += 1;
        self.end_client(client);
        if self.has_stopped_administrator(client) {
            return self.agenda.add(self.agenda.within(FOLLOWED), Happening::Administer);
        }
        self.to_follow += 1;
        self.agenda.add(self.agenda.within(FOLLOWED), Happening::Follow);
    }

    /// The processes of a client are gone.
    fn end_client(&mut self, client: usize) {
        for (number, worker) in
            self.workers.iter_mut().enumerate().filter(|(_, worker)| worker.client == client)
        {
            worker.work = None;
            worker.desk.borrow_mut().end();
            self.histories.borrow_mut().holders.released(number);
        }
        self.network.leave_late(ClientId(1 + client as u64), self.agenda.within(LONG_OUTAGE));
        for &slot in self.slots[client].1.iter().flatten() {
            self.sessions[slot].0.give_up();
        }
    }

    /// Something may fail at a moment of the weather, until nothing fails any more.
    fn fail(&mut self) {
        if self.agenda.now() >= Nanos::from_millis(self.shape.faults_milliseconds) {
            return;
        }
        if let Some(kind) = self.weather.fault(&self.agenda) {
            self.strike(kind);
        }
        self.cut_off_holder();
        self.agenda.add(self.agenda.within(FAULT_PAUSE), Happening::Fault);
    }

    /// Something fails: a server is killed or loses power, its disks are slow, full or fail a call, a connection breaks, or the network of
    /// a server stands still for a while.
    fn strike(&mut self, kind: u64) {
        let server = self.agenda.below(self.machines.len() as u64) as usize;
        let longest = if self.agenda.by_chance(5) { LONG_OUTAGE } else { OUTAGE };
        let until = self.agenda.within(longest);
        if !self.is_kept() && self.stops < STOPS_MAX && self.agenda.by_chance(3) {
            let stopping = self.steady + self.agenda.below((self.slots.len() - self.steady) as u64) as usize;
            self.stop(stopping);
        }
        self.agenda.tell(|| format!("fault {kind} of server {server} until {} ms", until.0 / 1_000_000));
        match kind {
            0 if self.machines[server].accepts().is_some() => self.kill(server, until),
            1 => self.agenda.hold_up(server, until),
            2 => {
                let client = ClientId(1 + self.agenda.below(self.slots.len() as u64));
                (0..self.machines.len())
                    .for_each(|server| self.network.isolate((client, server), LATE, until));
            }
            5 => self.machines[server].slow_down(until),
            6 | 7 => self.lose_power(server, until),
            8 if self.troubles.borrow().are_ready() => {
                self.machines[server].disk().fail(&self.agenda);
                self.troubles.borrow_mut().fail(until);
                self.agenda.add(until, Happening::Mend { server });
            }
            kind => {
                let open = self.network.open();
                let broken = self.agenda.below(open.len() as u64) as usize;
                match open.get(broken) {
                    Some(&connection) if kind == 3 => self.network.half_cut(connection, until),
                    Some(&connection) => self.network.cut(connection),
                    None => {}
                }
            }
        }
        if self.extra == Extra::Clocks && self.agenda.by_chance(20) {
            self.machines[server].clocks().jump(&self.agenda);
        }
        self.last_fault = self.last_fault.max(until);
    }

    /// A client does not reach the server of which one of its tasks has a lock or a turn, for as long as the task stands still, or a little
    /// more or less. Meanwhile the server may start anew, also twice, with time between the starts in which others get locks.
    fn cut_off_holder(&mut self) {
        let now = self.agenda.now();
        let standing = self.histories.borrow().pauses.beyond(now + LEFT_MIN).next();
        let Some((worker, pause)) = standing else { return };
        self.histories.borrow_mut().pauses.end(worker);
        if self.agenda.by_chance(20) {
            return;
        }
        let left = pause.until.saturating_since(now);
        let back = match self.agenda.by_chance(50) {
            true => self.agenda.within(OUTAGE) + left,
            false => Nanos(pause.until.0 - self.agenda.below(left.0 / 10)),
        };
        let client = ClientId(1 + self.workers[worker].client as u64);
        self.network.isolate((client, pause.home), 0, back);
        self.agenda.tell(|| format!("task {worker} does not reach server {} until {back:?}", pause.home));
        if left > MISSED_START && self.agenda.by_chance(80) {
            self.agenda.add(self.agenda.within(OUTAGE), Happening::Restart { server: pause.home });
        }
        if self.agenda.by_chance(50) {
            let at = Nanos(back.0 - self.agenda.below(OUTAGE.0));
            self.agenda.add(at, Happening::Restart { server: pause.home });
        }
        self.last_fault = self.last_fault.max(back + OUTAGE);
    }

    /// A server is killed if it runs, and starts soon.
    fn restart(&mut self, server: usize) {
        if self.machines[server].accepts().is_some() {
            self.kill(server, self.agenda.within(OUTAGE));
        }
    }

    /// A server is killed, and starts at a moment.
    fn kill(&mut self, server: usize, until: Nanos) {
        self.machines[server].kill();
        self.end_lines(server);
        self.agenda.add(until, Happening::Start { server });
    }

    /// A server loses its power, once all directories of clients were made for good.
    fn lose_power(&mut self, server: usize, until: Nanos) {
        if self.machines[server].accepts().is_none() || !self.troubles.borrow().are_ready() {
            return;
        }
        self.machines[server].lose_power();
        self.troubles.borrow_mut().lose(server);
        self.end_lines(server);
        self.agenda.add(until + BOOT, Happening::Start { server });
    }
}
