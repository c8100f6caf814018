//! The request model: requests travel hop by hop, are scheduled by the devices of their servers, and servers exchange
//! reports.

use super::divisions::Divisions;
use super::network::{Ends, Network, Span};
use super::observation::Observation;
use super::owed::Owed;
use super::server::{Server, Site};
use super::slab::{Request, Requests, Stage};
use super::station::Next;
use crate::core::accounts::Period;
use crate::core::events::Events;
use crate::core::reports::Told;
use crate::core::time::{nanos, seconds};
use crate::core::world::{Model, Operations, Transfer, World};
use crate::scenario::{Fault, FaultKind};
use weir_fairshare::{Direction, Nanos};
use weir_placement::SplitMix64;

/// Requests of one step under way at once, where a step names no number: more would only wait in longer queues. A client of the
/// product has some dozens of credits.
const DEPTH_MAX: u32 = 1_024;
/// Events taken before the world looks whether its observer is due.
const BATCH_EVENTS: u32 = 4_096;

/// Something that happens to the model.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The head of a request's payload is at its next hop.
    Hop(u32),
    /// All of a request is at its server.
    Arrive(u32),
    /// The answer to a request is at its client.
    Answer(u32),
    /// A device ends the request in service.
    Finish(At),
    /// A device may serve a withheld request.
    Release(At),
    /// An interval between exchanges ends at a server.
    Exchange(At),
    /// A report arrives.
    Mail(u32),
    /// The debts of the policy are accounted.
    Owe,
    /// A sample of a window ends.
    Sample,
}

/// A device of a server, at one of the server's starts.
#[derive(Clone, Copy, Debug)]
struct At {
    server: u16,
    device: u16,
    boot: u16,
}

/// A report on its way.
struct Mail {
    report: Told,
    to: u16,
    is_answer: bool,
}

/// The step of a stream that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    file: u32,
    /// The rest of the work lies between `next` and `end`: bytes of the file, or operations.
    next: u64,
    end: u64,
    request_bytes: u64,
    depth: u32,
    under_way: u32,
    job: u32,
    node: u32,
    /// The server of operations; none for bytes.
    operations_at: Option<u16>,
    /// Bytes are written, or operations change something.
    is_write: bool,
    /// Whether first bytes of the file may be awaited.
    is_first: bool,
}

/// The state of the model.
pub(super) struct Requesting<'a> {
    site: Site<'a>,
    divisions: Divisions<'a>,
    network: Network,
    servers: Vec<Server>,
    is_alive: Vec<bool>,
    /// Requests that wait for a dead server, by server.
    stuck: Vec<Vec<u32>>,
    requests: Requests,
    progress: Vec<Progress>,
    events: Events<Event>,
    /// Events, other than exchanges and accounts, that are to come.
    pending: u64,
    /// Whether the world had an event to come.
    world_waits: bool,
    mail: Vec<Option<Mail>>,
    mail_free: Vec<u32>,
    random: SplitMix64,
    owed: Owed,
    observation: Option<Observation>,
    end: Nanos,
    /// Requests that devices began to serve.
    scheduled: u64,
}

impl<'a> Requesting<'a> {
    /// All machines idle; each server's first exchange comes within an interval, at a moment of its own.
    pub(super) fn new(site: Site<'a>, world: &mut World<'a>) -> Requesting<'a> {
        let topology = &site.scenario.topology;
        let count = topology.servers.len();
        let servers: Vec<Server> =
            (0..count as u16).map(|server| Server::start(&site, server, 0, Nanos::ZERO)).collect();
        let mut random = SplitMix64(site.scenario.seed);
        let mut events = Events::new();
        for server in 0..count as u16 {
            let phase = Nanos(random.draw() % site.lambda.0.max(1));
            events.push(phase, Event::Exchange(At { server, device: 0, boot: 0 }));
        }
        let owed = Owed::new(&servers);
        events.push(owed.interval(), Event::Owe);
        let observation = Observation::new(&site, &servers);
        if let Some(observation) = &observation {
            events.push(observation.next_sample(), Event::Sample);
        }
        world.files.informed_by_model(&world.machines);
        Requesting {
            divisions: Divisions::new(&site.settings.sharing),
            network: Network::new(topology),
            is_alive: vec![true; count],
            stuck: vec![Vec::new(); count],
            requests: Requests::default(),
            progress: vec![Progress::default(); world.streams.count()],
            pending: 0,
            world_waits: true,
            mail: Vec::new(),
            mail_free: Vec::new(),
            end: site.scenario.until_seconds.map_or(Nanos(u64::MAX), nanos),
            scheduled: 0,
            servers,
            random,
            events,
            owed,
            observation,
            site,
        }
    }

    /// Asks for an event of the work itself.
    #[inline]
    fn work(&mut self, at: Nanos, event: Event) {
        self.pending += 1;
        self.events.push(at, event);
    }

    /// Sends as many requests of a stream's step as may be under way. A step without any left has ended.
    fn go_on(&mut self, stream: u32, world: &mut World<'_>) {
        let Progress { depth, .. } = self.progress[stream as usize];
        while self.progress[stream as usize].under_way < depth {
            let Some(request) = self.next_request(stream, world) else { break };
            self.progress[stream as usize].under_way += 1;
            let place = self.requests.insert(request);
            self.send(place, world);
        }
        if self.progress[stream as usize].under_way == 0 {
            world.finish(stream);
        }
    }

    /// The next request of a stream's step, if one is left.
    #[inline]
    fn next_request(&mut self, stream: u32, world: &World<'_>) -> Option<Request> {
        let progress = &mut self.progress[stream as usize];
        if progress.next == progress.end {
            return None;
        }
        let mut request = Request {
            stream,
            job: progress.job,
            ends: Ends { node: progress.node, server: 0 },
            device: 0,
            stage: Stage::Travelling,
            hop: 0,
            is_operation: true,
            direction: if progress.is_write { Direction::Write } else { Direction::Read },
            bytes: 0,
            span: Span::default(),
            arrived: Nanos::ZERO,
        };
        if let Some(server) = progress.operations_at {
            progress.next += 1;
            request.ends.server = server;
            request.device = self.servers[usize::from(server)].metadata() as u16;
            return Some(request);
        }
        let layout = world.files.layout(progress.file)?;
        let piece = layout.pieces(progress.next, progress.end - progress.next).next()?;
        let bytes = match progress.request_bytes {
            0 => {
                let (start, component) = layout.component_at(progress.next);
                component.stripe_bytes - (progress.next - start) % component.stripe_bytes
            }
            bytes => bytes,
        };
        let target = layout.targets()[piece.object];
        request.ends.server = target.server.0;
        request.device = target.index;
        request.is_operation = false;
        request.bytes = bytes.min(piece.length);
        progress.next += request.bytes;
        Some(request)
    }

    /// A client sends a request.
    #[inline]
    fn send(&mut self, place: u32, world: &mut World<'_>) {
        let now = world.now;
        let Request { is_operation, direction, ends, .. } = self.requests[place];
        self.requests[place].stage = Stage::Travelling;
        if is_operation || direction == Direction::Read {
            return self.work(now + self.network.latency(ends.server), Event::Arrive(place));
        }
        (self.requests[place].hop, self.requests[place].span) = (0, Span { head: now, tail: now });
        self.hop(place, world);
    }

    /// Payload passes its next hop.
    #[inline]
    fn hop(&mut self, place: u32, world: &mut World<'_>) {
        let Request { direction, hop, ends, bytes, span, .. } = self.requests[place];
        let passed = self.network.pass(direction, hop, ends, bytes, span);
        let request = &mut self.requests[place];
        (request.hop, request.span) = (hop + 1, passed);
        let hops = self.network.hops();
        let is_servers = hop == if direction == Direction::Write { hops - 1 } else { 0 };
        if is_servers && world.accounts.has_series() {
            let period = Period { from: span.head, to: passed.tail };
            world.accounts.passes(ends.server.into(), direction, bytes as f64, period);
        }
        match (hop + 1 == hops, direction) {
            (false, _) => self.work(passed.head, Event::Hop(place)),
            (true, Direction::Write) => self.work(passed.tail, Event::Arrive(place)),
            (true, Direction::Read) => self.work(passed.tail, Event::Answer(place)),
        }
    }

    /// A request is at its server, and queues for its device.
    #[inline]
    fn arrive(&mut self, place: u32, world: &mut World<'_>) {
        let Request { ends, device, job, .. } = self.requests[place];
        let server = usize::from(ends.server);
        if !self.is_alive[server] {
            self.requests[place].stage = Stage::Stuck;
            return self.stuck[server].push(place);
        }
        let request = &mut self.requests[place];
        (request.stage, request.arrived) = (Stage::Device, world.now);
        let asked = self.requests.asked(place);
        let attributes = self.site.settings.jobs[job as usize];
        let station = &mut self.servers[server].stations[usize::from(device)];
        if let Some(observation) = &mut self.observation {
            let in_progress = station.device.in_progress();
            observation.arrives((ends.server, device), job, in_progress, world.now);
        }
        station.enqueue(attributes, place.into(), asked);
        self.serve(ends.server, device, world);
    }

    /// Lets a device begin its next request, if it can.
    #[inline]
    fn serve(&mut self, server: u16, device: u16, world: &World<'_>) {
        let owner = &mut self.servers[usize::from(server)];
        let is_target = usize::from(device) < owner.metadata();
        let pace = match is_target {
            true => world.machines.targets[world.machines.at(server.into(), device.into()) as usize].pace(),
            false => 1.0,
        };
        let at = At { server, device, boot: owner.boot() as u16 };
        let requests = &self.requests;
        let next =
            owner.stations[usize::from(device)].serve(world.now, pace, |token| requests.asked(token as u32));
        match next {
            Some(Next::Finish { token, at: finish }) => {
                self.scheduled += 1;
                if let Some(observation) = &mut self.observation {
                    observation.begins((server, device), self.requests[token as u32].job);
                }
                self.work(finish, Event::Finish(at));
            }
            Some(Next::Release(release)) => self.work(release, Event::Release(at)),
            None => {}
        }
    }

    /// A device has ended its request, which is answered.
    #[inline]
    fn finish(&mut self, at: At, world: &mut World<'_>) {
        let At { server, device, boot } = at;
        let owner = &mut self.servers[usize::from(server)];
        if owner.boot() as u16 != boot {
            return;
        }
        let station = &mut owner.stations[usize::from(device)];
        let in_progress = station.device.in_progress();
        let Some((token, charge)) = station.finish(world.now) else { return };
        let place = token as u32;
        let Request { job, direction, bytes, is_operation, .. } = self.requests[place];
        let request = &mut self.requests[place];
        request.stage = Stage::Travelling;
        if let Some(observation) = &mut self.observation {
            observation.ends((server, device), (request, charge), in_progress, world.now);
        }
        if !is_operation {
            let target = world.machines.at(server.into(), device.into());
            let period = Period { from: Nanos(world.now.0 - charge.0), to: world.now };
            world.accounts.moves(job, (target, server.into()), direction, bytes);
            world.accounts.uses(job, target, seconds(charge), period);
        }
        if !is_operation && direction == Direction::Read {
            (request.hop, request.span) = (0, Span { head: world.now, tail: world.now });
            self.hop(place, world);
        } else {
            self.work(world.now + self.network.latency(server), Event::Answer(place));
        }
        self.serve(server, device, world);
    }

    /// An answer is at its client, which goes on.
    #[inline]
    fn answer(&mut self, place: u32, world: &mut World<'_>) {
        let stream = self.requests.remove(place).stream;
        let progress = &mut self.progress[stream as usize];
        progress.under_way -= 1;
        if std::mem::take(&mut progress.is_first) {
            world.files.written(progress.file, world.now);
        }
        self.go_on(stream, world);
    }

    /// An interval ends at a server, which reports to its peers.
    fn exchange(&mut self, at: At, world: &mut World<'_>) {
        let server = &mut self.servers[usize::from(at.server)];
        if server.boot() as u16 != at.boot {
            return;
        }
        let placer = world.files.placers().placer(at.server.into());
        server.close_interval(&self.site, &world.machines, (placer, &mut self.divisions), world.now);
        self.events.push(server.exchange().next(), Event::Exchange(at));
        self.tell_peers(at.server, world);
    }

    fn tell_peers(&mut self, from: u16, world: &World<'_>) {
        let exchange = self.servers[usize::from(from)].exchange();
        let report = exchange.own().clone();
        for to in exchange.tell() {
            self.post(Mail { report: report.clone(), to: to.0, is_answer: false }, world);
        }
    }

    /// Sends a report, which may be lost or late.
    fn post(&mut self, mail: Mail, world: &World<'_>) {
        let from = mail.report.server;
        let is_cut = |server: u16| world.machines.servers[usize::from(server)].is_parted;
        if is_cut(from) || is_cut(mail.to) || self.draw() < self.site.scenario.exchange_loss {
            return;
        }
        let late = -(1.0 - self.draw()).ln() * self.site.scenario.exchange_delay_seconds;
        let at = world.now + self.network.between(from, mail.to) + nanos(late);
        let place = self.mail_free.pop().unwrap_or_else(|| {
            self.mail.push(None);
            self.mail.len() as u32 - 1
        });
        self.mail[place as usize] = Some(mail);
        self.events.push(at, Event::Mail(place));
    }

    /// A uniform number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.random.fraction()
    }

    /// A report arrives; it is answered with the last one of the server that it came to.
    fn deliver(&mut self, place: u32, world: &World<'_>) {
        let Some(Mail { report, to, is_answer }) = self.mail[place as usize].take() else { return };
        self.mail_free.push(place);
        let server = usize::from(to);
        if !self.is_alive[server] || world.machines.servers[server].is_parted {
            return;
        }
        let from = report.server;
        self.servers[server].hear((report, is_answer), &mut self.divisions, world.now);
        if !is_answer && self.is_alive[usize::from(from)] {
            let own = self.servers[server].exchange().own().clone();
            self.post(Mail { report: own, to: from, is_answer: true }, world);
        }
    }

    /// A server ends: its requests wait for its return.
    fn die(&mut self, server: u16) {
        if !std::mem::replace(&mut self.is_alive[usize::from(server)], false) {
            return;
        }
        self.servers[usize::from(server)].end();
        if let Some(observation) = &mut self.observation {
            observation.forget(server);
        }
        let stuck = self.requests.stick(server);
        self.stuck[usize::from(server)].extend(stuck);
    }

    /// A server starts anew, with empty devices: clients send their requests again.
    fn return_server(&mut self, server: u16, world: &mut World<'_>) {
        let index = usize::from(server);
        if std::mem::replace(&mut self.is_alive[index], true) {
            return;
        }
        let boot = self.servers[index].boot();
        self.servers[index] = Server::start(&self.site, server, boot, world.now);
        world.files.placers().forget(server.into());
        self.owed.forget(server);
        self.events.push(world.now, Event::Exchange(At { server, device: 0, boot: boot as u16 }));
        for place in std::mem::take(&mut self.stuck[index]) {
            self.send(place, world);
        }
    }

    #[inline]
    fn take(&mut self, event: Event, world: &mut World<'_>) {
        world.events_taken += 1;
        if !matches!(event, Event::Exchange(_) | Event::Mail(_) | Event::Owe | Event::Sample) {
            self.pending -= 1;
        }
        match event {
            Event::Hop(place) => self.hop(place, world),
            Event::Arrive(place) => self.arrive(place, world),
            Event::Answer(place) => self.answer(place, world),
            Event::Finish(at) => self.finish(at, world),
            Event::Release(at) => {
                let server = &mut self.servers[usize::from(at.server)];
                if server.boot() as u16 == at.boot {
                    server.stations[usize::from(at.device)].released(world.now);
                    self.serve(at.server, at.device, world);
                }
            }
            Event::Exchange(at) => self.exchange(at, world),
            Event::Mail(place) => self.deliver(place, world),
            Event::Owe => {
                self.owed.account((&self.servers, &self.is_alive), world, false);
                self.events.push(world.now + self.owed.interval(), Event::Owe);
            }
            Event::Sample => {
                let Some(observation) = &mut self.observation else { return };
                observation.sample(&self.servers);
                self.events.push(observation.next_sample(), Event::Sample);
            }
        }
    }

    fn begin(&mut self, stream: u32, progress: Progress, world: &mut World<'_>) {
        self.progress[stream as usize] = progress;
        self.go_on(stream, world);
    }
}

impl Model for Requesting<'_> {
    fn operate(&mut self, operations: Operations, world: &mut World<'_>) {
        let Operations { stream, job, node, server, count, direction, depth } = operations;
        let progress = Progress {
            end: count,
            depth: depth_of(depth),
            job,
            node,
            operations_at: Some(server as u16),
            is_write: direction == Direction::Write,
            ..Progress::default()
        };
        self.begin(stream, progress, world);
    }

    fn transfer(&mut self, transfer: Transfer, world: &mut World<'_>) {
        let Transfer { stream, job, node, direction, depth, .. } = transfer;
        let Some(step) = world.streams.step(stream) else { return };
        let is_write = direction == Direction::Write;
        let progress = Progress {
            file: step.file,
            next: step.offset,
            end: step.offset + step.bytes,
            request_bytes: step.request_bytes,
            depth: depth_of(depth),
            job,
            node,
            operations_at: None,
            is_write,
            is_first: is_write,
            under_way: 0,
        };
        self.begin(stream, progress, world);
    }

    fn fault(&mut self, fault: &Fault, world: &mut World<'_>) {
        let server = fault.server as u16;
        // What is owed until now goes by the servers that were there.
        self.owed.account((&self.servers, &self.is_alive), world, true);
        match fault.kind {
            FaultKind::Dies => self.die(server),
            FaultKind::Returns => self.return_server(server, world),
            // Speed and fill are looked at when a target begins a request, partitions when a report is sent or arrives.
            FaultKind::Speed(_) | FaultKind::Fill(_) | FaultKind::Parted | FaultKind::Joined => {}
        }
    }

    /// Exchanges go on for ever: they alone are no reason to go on.
    fn next(&self) -> Option<Nanos> {
        self.events.next().filter(|_| self.pending > 0 || self.world_waits)
    }

    fn advance(&mut self, world: &mut World<'_>) {
        let until = world.next().unwrap_or(Nanos(u64::MAX)).min(self.end);
        for _ in 0..BATCH_EVENTS {
            let Some(at) = self.events.next().filter(|at| *at <= world.now || *at < until) else { return };
            world.now = at;
            let Some(event) = self.events.due(at) else { return };
            self.take(event, world);
            if world.has_finished() || (self.pending == 0 && !self.world_waits) {
                return;
            }
        }
    }

    fn settle(&mut self, world: &mut World<'_>) {
        self.world_waits = world.next().is_some();
    }

    fn close(&mut self, world: &mut World<'_>) {
        self.owed.account((&self.servers, &self.is_alive), world, true);
        if let Some(observation) = self.observation.take() {
            world.windows = observation.close(&self.servers, world.now);
        }
    }
}

fn depth_of(depth: u32) -> u32 {
    if depth == 0 {
        DEPTH_MAX
    } else {
        depth.min(DEPTH_MAX)
    }
}
