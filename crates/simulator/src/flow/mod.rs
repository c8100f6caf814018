//! The flow model: a read or write is a flow, and flows share each bottleneck max-min fairly.
//!
//! **A flow.** A step whose requests are not all under way at once takes its targets in the order of the file: the slowest holds
//! up the others. It is one flow, which uses each of its targets by the part of its bytes there. A step with all of its requests
//! under way is a flow for each target. A flow goes through the client's link, a router of each stage, the server's
//! link and processor, and the target, of which each byte takes its time at the rate and its part of the
//! requests' fixed time. Flows of a job that are alike are one variable of the [`network`] with a count.
//!
//! **Its bound.** With `depth` requests under way a flow moves at most so many in the time that a request takes on its way and
//! back where nothing else is under way. A flow that this does not bound ends later than its last byte leaves its
//! busiest hop, by the time of the other hops.
//!
//! **Its weight** is its window: the bytes of its requests under way. So a link, or a target under `fifo`, serves requests in the
//! order of their arrival. Under any other policy [`shares`] divides a target's device time among its jobs as
//! `weir_fairshare` does, with portions from [`weir_fairshare::divide`] once in each `lambda` in which jobs met. A metadata
//! service is a device, too, with operations as its bytes.
//!
//! **Schedulers.** All schedulers of a policy have the same rates: `statistical-token`, `gift` and `tbf` differ from `virtual-time` in
//! how soon and how evenly they give these, which the request model shows. Reservations and limits of `virtual-time`
//! hold: a reservation raises a share, a limit bounds it even where the target then idles.
//!
//! **Its turn.** A transfer whose requests are all under way waits in the [`queues`] for those of its job before it, as requests do at a
//! target; under `fifo` a single request waits for those of all jobs.
//!
//! **Left out**: single requests of different jobs, so queues of less than a phase, and the time until a scheduler is fair; lost and
//! late exchanges; learned speeds, backlogs and late first bytes in the placement of files, which knows room, death and placed bytes.

mod classes;
mod completions;
mod limits;
mod network;
mod queues;
mod routes;
mod shares;

use self::classes::{Classes, Part, Place, Start};
use self::completions::Completions;
use self::limits::Limits;
use self::network::{Network, Use};
use self::queues::{Queues, ROOM_MIN};
use self::routes::Routes;
use self::shares::{JobUse, Shares};
use crate::core::events::Events;
use crate::core::files;
use crate::core::time::{nanos, nanos_above};
use crate::core::world::{Model, Operations, Transfer, World};
use crate::scenario::{Fault, FaultKind};
use weir_fairshare::Nanos;

/// Part of a resource, or of a rate, that the rates may be amiss by: far below the difference between a flow and its requests.
const SLACK: f64 = 1e-5;

/// The flows of a run.
#[derive(Debug)]
pub(crate) struct Flows {
    network: Network,
    routes: Routes,
    shares: Shares,
    classes: Classes,
    queues: Queues,
    completions: Completions,
    /// For each stream, its flows that are under way, and the time from the end of the last to that of the step.
    steps: Vec<StepState>,
    /// Streams whose flows are at their end, and whose steps are not yet.
    endings: Events<u32>,
    limits: Limits,
    /// Devices whose flows or speed changed: targets, and behind them the metadata services of servers.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    /// Variables on devices whose shares were found anew: each gets its weight once, after all of its devices have theirs.
    unweighed: Vec<u32>,
    is_unweighed: Vec<bool>,
    /// Targets whose jobs may be owed other parts of their time.
    unowed: Vec<u32>,
    is_unowed: Vec<bool>,
    /// Whether a device had several jobs when its shares were found.
    was_shared: Vec<bool>,
    targets: u32,
    division_at: Option<Nanos>,
    lambda: Nanos,
    /// Operations on a metadata service that takes no time, while its server is dead.
    waiting: Vec<Vec<Operations>>,
    /// Scratch of a recomputation.
    rates_before: Vec<(u32, f64)>,
    /// Devices to which flows came or which they left, at which others wait and may have no reason to any more.
    room_at: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StepState {
    flows: u32,
    rest: Nanos,
}

impl Flows {
    pub(crate) fn new(world: &World<'_>) -> Flows {
        let mut network = Network::new(SLACK);
        let topology = &world.scenario.topology;
        let routes = Routes::new(topology, &mut network);
        let (targets, servers) = (world.machines.targets.len(), topology.servers.len());
        let settings = world.settings;
        let shares = Shares::new(&settings.sharing, &settings.jobs, (targets, servers));
        Flows {
            network,
            routes,
            classes: Classes::default(),
            queues: Queues::new(targets + servers, !shares.divides()),
            shares,
            completions: Completions::default(),
            steps: vec![StepState::default(); world.streams.count()],
            endings: Events::new(),
            limits: Limits::new(&settings.holders),
            changed: Vec::new(),
            is_changed: vec![false; targets + servers],
            unweighed: Vec::new(),
            is_unweighed: Vec::new(),
            unowed: Vec::new(),
            is_unowed: vec![false; targets],
            was_shared: vec![false; targets + servers],
            targets: targets as u32,
            division_at: None,
            lambda: nanos(world.scenario.lambda_seconds),
            waiting: vec![Vec::new(); servers],
            rates_before: Vec::new(),
            room_at: Vec::new(),
        }
    }

    fn change(&mut self, device: u32) {
        if !std::mem::replace(&mut self.is_changed[device as usize], true) {
            self.changed.push(device);
        }
    }

    /// Asks for a division of the store at the next exchange.
    fn ask_division(&mut self, now: Nanos) {
        if self.shares.divides() && self.division_at.is_none() {
            self.division_at = Some(Nanos((now.0 / self.lambda.0 + 1) * self.lambda.0));
        }
    }

    /// The resource of a target or metadata service.
    fn resource(&self, device: u32) -> Option<u32> {
        match device.checked_sub(self.targets) {
            None => Some(self.routes.target(device)),
            Some(server) => self.routes.metadata(server).map(|(resource, _)| resource),
        }
    }

    fn start(&mut self, mut start: Start, world: &mut World<'_>) {
        let job = &world.settings.jobs[start.job as usize];
        self.limits.add_to(&mut start, job, &mut self.network);
        self.steps[start.stream as usize].flows += 1;
        for place in 0..start.parts.len() {
            let device = start.parts[place].device;
            self.shares.come(device, start.job, world.now);
            self.shares.queue(device, start.queue(place));
            self.change(device);
        }
        // What a job spends on one target follows from its use of the others.
        if self.shares.targets_of(start.job) > 1 {
            self.ask_division(world.now);
        }
        if !start.is_whole {
            return self.enter(start, None, world);
        }
        let place = self.queues.place(&start);
        match self.queues.come(place, start) {
            Some(start) => self.enter(start, Some(place), world),
            None => self.weigh_queue(place),
        }
    }

    /// A flow comes into the network.
    fn enter(&mut self, start: Start, place: Option<Place>, world: &mut World<'_>) {
        let units = start.units as f64;
        let variable = self.classes.add(start, place, &mut self.network, world);
        if let Some(place) = place {
            self.queues.enter(place, variable, units);
            self.weigh_queue(place);
        }
        self.retime(variable, world);
    }

    /// Gives the flows of a queue that are in the network their windows, by which they are weighed.
    fn weigh_queue(&mut self, place: Place) {
        let Flows { queues, classes, unweighed, is_unweighed, .. } = self;
        queues.windows(place, |variable, window| {
            classes.class_mut(variable).window = window;
            await_weight(unweighed, is_unweighed, variable);
        });
    }

    /// Sets the moment at which the first flow of a class ends.
    fn retime(&mut self, variable: u32, world: &World<'_>) {
        let rate = self.network.rate(variable);
        let left = self.classes.class(variable).left().filter(|_| rate > 0.0);
        let end = left.map(|left| world.now + nanos_above(left / rate));
        // The end of the clock is no moment: what would end there does not end.
        self.completions.set(variable, end.filter(|&end| end < Nanos(u64::MAX)));
    }

    /// Ends the flows of a class that are at their ends.
    fn complete(&mut self, variable: u32, world: &mut World<'_>) {
        let ended = self.classes.take_ended(variable, &mut self.network, world);
        self.retime(variable, world);
        let class = self.classes.class(variable);
        for part in &class.parts {
            for member in &ended {
                let window = class.window_of(member);
                self.shares.queue(part.device, -window * part.fraction * part.device_seconds);
                self.shares.leave(part.device, class.job, world.now, &mut world.accounts);
            }
            if !std::mem::replace(&mut self.is_changed[part.device as usize], true) {
                self.changed.push(part.device);
            }
        }
        let place = class.place;
        if self.shares.targets_of(class.job) > 0 {
            self.ask_division(world.now);
        }
        if let Some(place) = place {
            match self.queues.leave(place) {
                Some((next, place)) => self.enter(next, Some(place), world),
                None => self.weigh_queue(place),
            }
        }
        world.events_taken += ended.len() as u64;
        for member in ended {
            self.end_flow(member.stream, world);
        }
    }

    /// A flow of a stream ended; after the last one the step ends, too.
    fn end_flow(&mut self, stream: u32, world: &mut World<'_>) {
        let step = &mut self.steps[stream as usize];
        step.flows -= 1;
        if step.flows == 0 {
            match std::mem::take(&mut step.rest) {
                Nanos::ZERO => world.finish(stream),
                rest => self.endings.push(world.now + rest, stream),
            }
        }
    }

    /// Finds capacity and shares of a device anew.
    fn refresh(&mut self, device: u32, world: &mut World<'_>) {
        let Some(resource) = self.resource(device) else { return };
        let capacity = self.capacity(device, resource, world);
        if capacity != self.network.capacity(resource) {
            let on: Vec<u32> = self.network.on(resource).map(|(variable, _)| variable).collect();
            on.into_iter().for_each(|variable| self.classes.count(variable, &self.network, world));
            self.network.set_capacity(resource, capacity);
            self.limits.set_capacity(device, capacity, &mut self.network);
        }
        let is_shared = self.shares.is_shared(device);
        let was_shared = std::mem::replace(&mut self.was_shared[device as usize], is_shared);
        if is_shared {
            self.weigh(device, resource);
            self.await_owed(device);
        } else {
            self.shares.weigh_alone(device, world.now, &mut world.accounts);
        }
        if (is_shared || was_shared) && self.shares.divides() {
            self.await_weights(device, resource, world.now);
        }
    }

    /// Finds the shares of the jobs of a device.
    fn weigh(&mut self, device: u32, resource: u32) {
        let Flows { network, shares, classes, .. } = self;
        let window = |(variable, coefficient): (u32, f64)| {
            let class = classes.class(variable);
            (class.job, network.count(variable) * class.window * coefficient)
        };
        shares.weigh(device, network.on(resource).map(window));
    }

    /// Notes that the jobs of a target may be owed other parts of its time.
    fn await_owed(&mut self, device: u32) {
        let is_owing = device < self.targets && self.shares.is_shared(device) && self.shares.divides();
        if is_owing && !std::mem::replace(&mut self.is_unowed[device as usize], true) {
            self.unowed.push(device);
        }
    }

    /// Notes that the flows of a device need other weights, and the store another division.
    fn await_weights(&mut self, device: u32, resource: u32, now: Nanos) {
        if self.shares.is_shared(device) && device < self.targets {
            self.ask_division(now);
        }
        for (variable, _) in self.network.on(resource) {
            await_weight(&mut self.unweighed, &mut self.is_unweighed, variable);
        }
    }

    /// Sets the weight of a variable by the share of its job on the device with the longest queue.
    fn reweigh(&mut self, variable: u32) {
        let class = self.classes.class_mut(variable);
        if class.parts.len() > 1 {
            let queue = |part: &Part| self.shares.window(part.device);
            let longest = |one: u32, part: &Part| {
                if queue(part) > self.shares.window(one) {
                    part.device
                } else {
                    one
                }
            };
            class.lead = class.parts.iter().fold(class.parts[0].device, longest);
        }
        let weight = class.window * self.shares.factor(class.lead, class.job);
        self.network.set_variable(variable, self.network.count(variable), weight);
    }

    /// The part of its time that a device has for flows, and of its rate at which it works.
    fn capacity(&self, device: u32, resource: u32, world: &World<'_>) -> f64 {
        if device >= self.targets {
            return self.network.capacity(resource);
        }
        let machine = &world.machines.targets[device as usize];
        let index = device - world.machines.servers[machine.server as usize].first;
        let target = &world.scenario.topology.servers[machine.server as usize].targets[index as usize];
        if target.seek_penalty == 0.0 {
            return machine.pace();
        }
        let streams = self.network.on(resource).map(|(variable, _)| {
            self.network.count(variable) * self.classes.class(variable).presence(device)
        });
        let further = (streams.sum::<f64>() + f64::from(self.queues.waiting(device)) - 1.0).max(0.0);
        machine.pace() * (1.0 / (1.0 + target.seek_penalty * further)).max(target.seek_floor)
    }

    /// Finds capacities and weights after the changes at this moment.
    fn find_weights(&mut self, world: &mut World<'_>) {
        let mut place = 0;
        while let Some(&device) = self.changed.get(place) {
            self.is_changed[device as usize] = false;
            self.refresh(device, world);
            place += 1;
        }
        self.room_at.extend(self.changed.drain(..).filter(|&device| self.queues.waiting(device) > 0));
        while let Some(variable) = self.unweighed.pop() {
            self.is_unweighed[variable as usize] = false;
            self.reweigh(variable);
        }
    }

    /// Finds the rates by these.
    fn find_rates(&mut self, world: &mut World<'_>) {
        let mut rates_before = std::mem::take(&mut self.rates_before);
        self.network.solve(&mut rates_before);
        for (variable, before) in rates_before.drain(..) {
            self.classes.move_on(variable, before, &self.network, world);
            self.retime(variable, world);
            for place in 0..self.classes.class(variable).parts.len() {
                self.await_owed(self.classes.class(variable).parts[place].device);
            }
        }
        self.rates_before = rates_before;
    }

    /// Finds what is owed by the rates.
    fn find_owed(&mut self, world: &mut World<'_>) {
        let mut uses = Vec::new();
        while let Some(target) = self.unowed.pop() {
            self.is_unowed[target as usize] = false;
            if self.shares.is_shared(target) {
                uses.clear();
                self.add_uses(target, |_| true, &mut uses);
                self.shares.owe(&uses, world.now, &mut world.accounts);
            }
        }
    }

    /// Lets flows in that wait at devices with room; false where there are none.
    fn let_in(&mut self, world: &mut World<'_>) -> bool {
        let mut devices = std::mem::take(&mut self.room_at);
        devices.sort_unstable();
        devices.dedup();
        let mut entered = Vec::new();
        for device in devices.drain(..) {
            if self.resource(device).is_none_or(|resource| self.network.room(resource) <= ROOM_MIN) {
                continue;
            }
            if let Some((start, place)) = self.queues.early(device, &self.network) {
                self.enter(start, Some(place), world);
                entered.push(device);
            }
        }
        // There may be room for one more.
        self.room_at = entered;
        !self.room_at.is_empty()
    }

    /// Divides the store among the jobs that share targets.
    fn divide(&mut self, world: &World<'_>) {
        self.division_at = None;
        let mut is_concerned = vec![false; world.settings.jobs.len()];
        for target in (0..self.targets).filter(|&target| self.shares.is_shared(target)) {
            self.shares.jobs_on(target).for_each(|job| is_concerned[job as usize] = true);
        }
        let mut uses: Vec<JobUse> = Vec::new();
        for target in 0..self.targets {
            self.add_uses(target, |job| is_concerned[job as usize], &mut uses);
        }
        uses.sort_by_key(|one| (one.job, one.target));
        // A job with one target spends all of its weight there, and again all where it had several.
        if self.shares.is_divided() || uses.windows(2).any(|pair| pair[0].job == pair[1].job) {
            for target in self.shares.divide(&uses) {
                self.change(target);
            }
        }
    }

    /// Appends the uses of a target by the concerned jobs, sorted by job.
    fn add_uses(&self, target: u32, is_concerned: impl Fn(u32) -> bool, uses: &mut Vec<JobUse>) {
        let first = uses.len();
        let concerned = self.shares.jobs_on(target).filter(|&job| is_concerned(job));
        uses.extend(concerned.map(|job| JobUse { job, target, used: 0.0, is_short: false }));
        let here = &mut uses[first..];
        if here.is_empty() {
            return;
        }
        let resource = self.routes.target(target);
        let capacity = self.network.capacity(resource);
        for (variable, coefficient) in self.network.on(resource) {
            let job = self.classes.class(variable).job;
            let Ok(place) = here.binary_search_by_key(&job, |one| one.job) else { continue };
            let rate = self.network.rate(variable) * self.network.count(variable);
            here[place].used += if capacity > 0.0 { rate * coefficient / capacity } else { 0.0 };
            here[place].is_short |= self.network.holder(variable) == Some(resource);
        }
    }

    /// Begins the flow of some parts of a transfer, with a bounded number of requests under way or with all of them.
    fn start_transfer(
        &mut self,
        transfer: &Transfer,
        parts: &[files::Part],
        depth: Option<u32>,
        world: &mut World<'_>,
    ) {
        let route = self.routes.route(transfer.node, transfer.direction, parts, &world.machines);
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        let requests: u64 = parts.iter().map(|part| part.requests).sum();
        let request_bytes = bytes as f64 / requests as f64;
        let under_way = depth.map_or(requests as f64, f64::from);
        let is_bound = depth.is_some() && under_way * route.busiest_seconds < route.request_seconds;
        let rate_max = match is_bound {
            true => under_way * request_bytes / route.request_seconds,
            false => f64::INFINITY,
        };
        if !is_bound {
            let rest = nanos((route.request_seconds - route.busiest_seconds).max(0.0));
            let step = &mut self.steps[transfer.stream as usize];
            step.rest = step.rest.max(rest);
        }
        let part = |part: &files::Part| Part {
            device: part.target,
            resource: self.routes.target(part.target),
            server: world.machines.targets[part.target as usize].server,
            fraction: part.bytes as f64 / bytes as f64,
            device_seconds: self.routes.device_seconds(transfer.direction, part),
            units: part.bytes,
        };
        let start = Start {
            job: transfer.job,
            stream: transfer.stream,
            node: transfer.node,
            direction: Some(transfer.direction),
            parts: parts.iter().map(part).collect(),
            uses: route.uses,
            units: bytes,
            window: under_way * request_bytes,
            under_way,
            is_whole: depth.is_none(),
            rate_max,
        };
        self.start(start, world);
    }
}

impl Model for Flows {
    fn operate(&mut self, operations: Operations, world: &mut World<'_>) {
        let Operations { stream, job, node, server, count, depth, .. } = operations;
        let round_trip = self.routes.round_trip_seconds(server);
        let depth = if depth == 0 { count } else { u64::from(depth).min(count) };
        let Some((resource, device_seconds)) = self.routes.metadata(server) else {
            if world.machines.servers[server as usize].is_alive {
                let span = round_trip * count.div_ceil(depth) as f64;
                self.endings.push(world.now + nanos(span), stream);
            } else {
                self.waiting[server as usize].push(operations);
            }
            return;
        };
        let is_bound = depth < count && depth as f64 * device_seconds < round_trip + device_seconds;
        let rate_max = if is_bound { depth as f64 / (round_trip + device_seconds) } else { f64::INFINITY };
        self.steps[stream as usize].rest = if is_bound { Nanos::ZERO } else { nanos(round_trip) };
        let device = self.targets + server;
        let part = Part { device, resource, server, fraction: 1.0, device_seconds, units: count };
        let start = Start {
            job,
            stream,
            node,
            direction: None,
            parts: vec![part],
            uses: vec![Use::new(resource, device_seconds)],
            units: count,
            window: depth as f64,
            under_way: depth as f64,
            // Operations of thousands of streams that begin together end together: by turns each would be a moment of its own, and so
            // would all that follows.
            is_whole: false,
            rate_max,
        };
        self.start(start, world);
    }

    fn transfer(&mut self, transfer: Transfer, world: &mut World<'_>) {
        let requests: u64 = transfer.parts.iter().map(|part| part.requests).sum();
        let is_all = transfer.depth == 0 || u64::from(transfer.depth) >= requests;
        if is_all {
            for part in &transfer.parts {
                self.start_transfer(&transfer, std::slice::from_ref(part), None, world);
            }
        } else {
            self.start_transfer(&transfer, &transfer.parts, Some(transfer.depth), world);
        }
    }

    fn fault(&mut self, fault: &Fault, world: &mut World<'_>) {
        let server = fault.server;
        match fault.kind {
            FaultKind::Speed(_) | FaultKind::Fill(_) => {
                self.change(world.machines.servers[server as usize].first + fault.target);
            }
            FaultKind::Dies => {
                for resource in self.routes.of_server(server) {
                    self.network.set_capacity(resource, 0.0);
                }
            }
            FaultKind::Returns => {
                for resource in self.routes.of_server(server) {
                    self.network.set_capacity(resource, self.routes.alive_capacity(server, resource));
                }
                for operations in std::mem::take(&mut self.waiting[server as usize]) {
                    self.operate(operations, world);
                }
            }
            FaultKind::Parted | FaultKind::Joined => {}
        }
    }

    fn next(&self) -> Option<Nanos> {
        let completion = self.completions.first().map(|(at, _)| at);
        [completion, self.endings.next(), self.division_at].into_iter().flatten().min()
    }

    fn advance(&mut self, world: &mut World<'_>) {
        while let Some((_, variable)) = self.completions.first().filter(|&(at, _)| at <= world.now) {
            self.complete(variable, world);
        }
        while let Some(stream) = self.endings.due(world.now) {
            world.events_taken += 1;
            world.finish(stream);
        }
        if self.division_at.is_some_and(|at| at <= world.now) {
            self.divide(world);
        }
    }

    fn settle(&mut self, world: &mut World<'_>) {
        loop {
            self.find_weights(world);
            self.find_rates(world);
            if !self.let_in(world) {
                break;
            }
        }
        self.find_owed(world);
    }

    fn close(&mut self, world: &mut World<'_>) {
        self.classes.close(&self.network, world);
        self.shares.close(world.now, &mut world.accounts);
    }
}

/// Notes that a variable needs another weight.
fn await_weight(unweighed: &mut Vec<u32>, is_unweighed: &mut Vec<bool>, variable: u32) {
    let number = variable as usize;
    if is_unweighed.len() <= number {
        is_unweighed.resize(number + 1, false);
    }
    if !std::mem::replace(&mut is_unweighed[number], true) {
        unweighed.push(variable);
    }
}
