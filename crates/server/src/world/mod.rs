//! A world: servers and clients with their network, files and clock, in one thread and in virtual time, by one seed.
//!
//! Servers are the product's, without sockets and files; the network, the files and the clients are the world's. Whatever
//! happens next is decided by the seed, so a seed shows a fault again.

mod agenda;
mod client;
mod lines;
mod machine;
pub(crate) mod mutants;
mod network;
mod outside;
mod register;
mod session;
#[cfg(test)]
mod tests;

use crate::config::ClusterConfig;
use agenda::{Agenda, Happening};
use client::{Client, Desk, Outcome};
use lines::Line;
use machine::{Input, Machine};
use network::{Network, Side};
use outside::Said;
use register::History;
use session::{Answered, Holdings, Identity, Session};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use weir_fairshare::Nanos;
use weir_testing::{claims, key};
use weir_wire::{ClientId, RequestId};

/// The time in which faults happen.
const FAULTS: Nanos = Nanos::from_millis(5_000);
/// The longest pause between two faults.
const FAULT_PAUSE: Nanos = Nanos::from_millis(100);
/// The longest time for which a server is down, or its network held up: mostly, and seldom, when clients and peers lose patience.
const OUTAGE: Nanos = Nanos::from_millis(200);
const LONG_OUTAGE: Nanos = Nanos::from_millis(7_000);
/// After the last fault each call is answered within this time: the grace period of a start, and some silences and tries.
const ANSWER_MAX: Nanos = Nanos::from_millis(60_000);
/// Nothing fails any more from this moment on, and the traces of the last fault are gone.
const SETTLED: Nanos = Nanos::from_millis(50_000);
/// Operations of one client.
const OPERATIONS: u64 = 60;
const CONFIGURATION: &str = "version = 1
namespace_memory = \"1GiB\"
[layout]
stripe_size = \"4KiB\"
";

/// The user of a session.
#[derive(Clone, Copy)]
enum User {
    Client(usize),
    Line(usize),
}

/// A client that works.
struct Worker {
    sessions: Vec<usize>,
    desk: Rc<RefCell<Desk>>,
    work: Option<Pin<Box<dyn Future<Output = Outcome<()>>>>>,
    began: Nanos,
    next: u64,
}

/// A world.
struct World {
    agenda: Agenda,
    network: Network,
    config: ClusterConfig,
    machines: Vec<Machine>,
    sessions: Vec<(Session, User)>,
    lines: Vec<Line>,
    workers: Vec<Worker>,
    history: Rc<RefCell<History>>,
    last_fault: Nanos,
}

/// The figures of a world that found no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    trace: u64,
    steps: u64,
    virtual_time: Nanos,
}

/// Runs the world of a seed to its end.
///
/// # Errors
/// The fault that it found.
fn run(seed: u64, servers: usize, clients: usize) -> Outcome<Figures> {
    let mut world = World::new(seed, servers, clients);
    (0..servers).try_for_each(|server| world.start(server))?;
    (0..clients).try_for_each(|client| world.go_on(client))?;
    world.agenda.add(FAULT_PAUSE, Happening::Fault);
    while world.workers.iter().any(|worker| worker.work.is_some()) {
        let Some(happening) = world.agenda.next() else { return Err("nothing happens any more".into()) };
        world.take(happening)?;
        world.check_patience()?;
    }
    if let Some(fault) = world.history.borrow().fault() {
        return Err(fault);
    }
    let (trace, steps) = world.agenda.trace();
    Ok(Figures { trace, steps, virtual_time: world.agenda.now() })
}

impl World {
    fn new(seed: u64, servers: usize, clients: usize) -> World {
        let agenda = Agenda::new(seed);
        let network = Network::new(agenda.clone());
        let text = format!("{CONFIGURATION}{}", weir_testing::ram(servers, "64MiB"));
        let mut world = World {
            network,
            config: toml::from_str(&text).expect("a configuration"),
            machines: (0..servers).map(|number| Machine::new(number, &agenda)).collect(),
            sessions: Vec::new(),
            lines: Vec::new(),
            workers: Vec::new(),
            history: Rc::default(),
            last_fault: Nanos::ZERO,
            agenda,
        };
        (0..clients).for_each(|number| world.add_client(number));
        world
    }

    fn add_client(&mut self, number: usize) {
        let (desk, holdings) = (Rc::<RefCell<Desk>>::default(), Holdings::default());
        let sessions = (0..self.machines.len())
            .map(|server| {
                let identity = Identity {
                    credential: key().mint(claims(0)),
                    client: ClientId(1 + number as u64),
                    slot: 0,
                    holdings: Rc::clone(&holdings),
                };
                self.add_session(server, identity, User::Client(number))
            })
            .collect();
        let client = Client::new(number, (&desk, &holdings), &self.history, &self.agenda);
        let work = Some(Box::pin(client.work(OPERATIONS)) as Pin<Box<dyn Future<Output = Outcome<()>>>>);
        self.workers.push(Worker { sessions, desk, work, began: Nanos::ZERO, next: 1 });
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
                Some(life) => {
                    if let Some(end) = self.network.accept(connection, life) {
                        self.machines[server].put(life, Input::Accept(end));
                    }
                }
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
            Happening::Event { server, life, event } => self.machines[server].put(life, Input::Event(event)),
            Happening::Turn { server, life } => {
                self.machines[server].turn(life);
                self.take_words(server);
            }
            Happening::Look { session } => return self.look(session),
            Happening::GoOn { client } => return self.go_on(client),
            Happening::Fault => return self.fail(),
            Happening::Start { server } => return self.start(server),
        }
        Ok(())
    }

    /// Starts a server.
    fn start(&mut self, server: usize) -> Outcome<()> {
        self.machines[server].start(&self.config)?;
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
                    let identity = Identity {
                        credential: access.credential,
                        client: access.client,
                        slot: 0,
                        holdings: Holdings::default(),
                    };
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
        let answered = session.look();
        match *user {
            User::Client(client) => match answered {
                Some(answered) => self.answer(client, answered),
                None => Ok(()),
            },
            User::Line(line) => {
                self.lines[line].look(session, answered, &self.agenda);
                Ok(())
            }
        }
    }

    /// A client has the answer to its call.
    fn answer(&mut self, client: usize, answered: Answered) -> Outcome<()> {
        let worker = &mut self.workers[client];
        self.agenda.note(answered.1.len() as u64);
        worker.desk.borrow_mut().answer = Some(answered);
        self.go_on(client)
    }

    /// A client goes on until it waits for an answer, or has ended.
    fn go_on(&mut self, client: usize) -> Outcome<()> {
        let worker = &mut self.workers[client];
        let Some(work) = &mut worker.work else { return Ok(()) };
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            worker.work = None;
            return outcome;
        }
        let call = worker.desk.borrow_mut().call.take();
        if let Some((server, request, payload)) = call {
            worker.began = self.agenda.now();
            worker.next += 1;
            let session = worker.sessions[server];
            self.sessions[session].0.begin(RequestId(worker.next), &request, &payload);
        }
        Ok(())
    }

    /// Whether each call is answered in time, once nothing fails any more.
    fn check_patience(&self) -> Outcome<()> {
        let now = self.agenda.now();
        let waits = |worker: &&Worker| worker.work.is_some();
        let is_late = |worker: &Worker| now.saturating_since(worker.began.max(self.last_fault)) > ANSWER_MAX;
        match self.workers.iter().filter(waits).position(is_late) {
            Some(client) => Err(format!("a call of client {client} is not answered in time")),
            None => Ok(()),
        }
    }

    /// Something fails: a server is killed, a connection breaks, or the network of a server stands still for a while.
    fn fail(&mut self) -> Outcome<()> {
        let now = self.agenda.now();
        if now >= FAULTS {
            return Ok(());
        }
        let server = self.agenda.below(self.machines.len() as u64) as usize;
        let longest = if self.agenda.by_chance(5) { LONG_OUTAGE } else { OUTAGE };
        let until = self.agenda.within(longest);
        match self.agenda.below(4) {
            0 if self.machines[server].accepts().is_some() => {
                self.machines[server].kill();
                self.end_lines(server);
                self.agenda.add(until, Happening::Start { server });
            }
            1 => self.agenda.hold_up(server, until),
            kind => {
                let open = self.network.open();
                let broken = self.agenda.below(open.len() as u64) as usize;
                match open.get(broken) {
                    Some(&connection) if kind == 2 => self.network.half_cut(connection, until),
                    Some(&connection) => self.network.cut(connection),
                    None => {}
                }
            }
        }
        self.last_fault = until;
        self.agenda.add(self.agenda.within(FAULT_PAUSE), Happening::Fault);
        Ok(())
    }
}
