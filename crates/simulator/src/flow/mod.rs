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
//! **Left out**: single requests, so queues of less than a phase, and the time until a scheduler is fair; lost and late exchanges;
//! learned speeds, backlogs and late first bytes in the placement of files, which knows room, death and placed bytes.

mod completions;
mod network;
mod routes;
mod shares;

use self::completions::Completions;
use self::network::{Network, Use};
use self::routes::Routes;
use self::shares::{holds, JobUse, Shares};
use crate::core::accounts::Period;
use crate::core::events::Events;
use crate::core::files::Part;
use crate::core::time::{nanos, nanos_above, seconds};
use crate::core::world::{Model, Operations, Transfer, World};
use crate::scenario::{Fault, FaultKind};
use std::collections::{BTreeMap, HashMap};
use weir_fairshare::{Direction, Holder, Nanos};

/// The flows of a run.
#[derive(Debug)]
pub(crate) struct Flows {
    network: Network,
    routes: Routes,
    shares: Shares,
    /// By the number of the network's variable.
    classes: Vec<Class>,
    completions: Completions,
    /// Classes of flows with one target.
    alike: HashMap<Key, u32>,
    /// For each stream, its flows that are under way, and the time from the end of the last to that of the step.
    steps: Vec<StepState>,
    /// Streams whose flows are at their end, and whose steps are not yet.
    endings: Events<u32>,
    limits: Limits,
    /// Devices whose flows or speed changed: targets, and behind them the metadata services of servers.
    changed: Vec<u32>,
    is_changed: Vec<bool>,
    targets: u32,
    division_at: Option<Nanos>,
    lambda: Nanos,
    /// Operations on a metadata service that takes no time, while its server is dead.
    waiting: Vec<Vec<Operations>>,
    /// Scratch of a recomputation.
    rates_before: Vec<(u32, f64)>,
}

/// Flows that share one rate.
#[derive(Debug, Default)]
struct Class {
    job: u32,
    key: Option<Key>,
    direction: Option<Direction>,
    parts: Vec<ClassPart>,
    /// Units of the requests that a flow has under way.
    window: f64,
    /// These requests.
    under_way: f64,
    /// The device that gives the flows their weight: that with the longest queue.
    lead: u32,
    /// Units that a flow has moved since the class was made, as of `updated`.
    progress: f64,
    updated: Nanos,
    /// The part of the progress that is in the accounts, as of its moment.
    counted: f64,
    counted_at: Nanos,
    /// Its flows, the one that ends first last.
    members: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
struct ClassPart {
    device: u32,
    server: u32,
    fraction: f64,
    device_seconds: f64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Progress of the class at its end.
    end: f64,
    stream: u32,
    units: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct StepState {
    flows: u32,
    rest: Nanos,
}

/// Flows with the same key have the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    job: u32,
    node: u32,
    device: u32,
    direction: Option<Direction>,
    window: u64,
    rate_max: u64,
    device_seconds: u64,
}

/// Limits of holders, as a resource for each holder and device that a job of the holder used.
#[derive(Debug, Default)]
struct Limits {
    holders: Vec<(Holder, f64)>,
    /// By device and holder: the resource, and its part of the device.
    resources: BTreeMap<(u32, u32), (u32, f64)>,
}

/// A flow that begins.
struct Start {
    job: u32,
    stream: u32,
    node: u32,
    direction: Option<Direction>,
    parts: Vec<ClassPart>,
    uses: Vec<Use>,
    units: u64,
    window: f64,
    under_way: f64,
    rate_max: f64,
}

impl Flows {
    pub(crate) fn new(world: &World<'_>) -> Flows {
        let mut network = Network::default();
        let topology = &world.scenario.topology;
        let routes = Routes::new(topology, &mut network);
        let (targets, servers) = (world.machines.targets.len(), topology.servers.len());
        let settings = world.settings;
        let limit = |&(holder, _, limit): &(Holder, Option<f64>, Option<f64>)| Some((holder, limit?));
        Flows {
            network,
            routes,
            shares: Shares::new(&settings.sharing, &settings.jobs, &settings.holders, (targets, servers)),
            classes: Vec::new(),
            completions: Completions::default(),
            alike: HashMap::new(),
            steps: vec![StepState::default(); world.streams.count()],
            endings: Events::new(),
            limits: Limits {
                holders: settings.holders.iter().filter_map(limit).collect(),
                resources: BTreeMap::new(),
            },
            changed: Vec::new(),
            is_changed: vec![false; targets + servers],
            targets: targets as u32,
            division_at: None,
            lambda: nanos(world.scenario.lambda_seconds),
            waiting: vec![Vec::new(); servers],
            rates_before: Vec::new(),
        }
    }

    fn change(&mut self, device: u32) {
        if !std::mem::replace(&mut self.is_changed[device as usize], true) {
            self.changed.push(device);
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
        self.limits.add_to(&mut start, &mut self.network, world);
        self.steps[start.stream as usize].flows += 1;
        let key = match start.parts[..] {
            [part] => Some(Key {
                job: start.job,
                node: start.node,
                device: part.device,
                direction: start.direction,
                window: start.window.to_bits(),
                rate_max: start.rate_max.to_bits(),
                device_seconds: part.device_seconds.to_bits(),
            }),
            _ => None,
        };
        for part in &start.parts {
            self.shares.come(part.device, start.job, world.now);
            if !std::mem::replace(&mut self.is_changed[part.device as usize], true) {
                self.changed.push(part.device);
            }
        }
        let known = key.and_then(|key| self.alike.get(&key).copied());
        let variable = known.unwrap_or_else(|| self.new_class(&mut start, key, world.now));
        if known.is_some() {
            self.count_class(variable, world);
            let count = self.classes[variable as usize].members.len() + 1;
            let weight = self.network.weight(variable);
            self.network.set_variable(variable, count as f64, weight);
        }
        let class = &mut self.classes[variable as usize];
        let member =
            Member { end: class.progress + start.units as f64, stream: start.stream, units: start.units };
        let place = class.members.partition_point(|other| other.end > member.end);
        class.members.insert(place, member);
        if known.is_some() {
            self.retime(variable, world);
        }
    }

    fn new_class(&mut self, start: &mut Start, key: Option<Key>, now: Nanos) -> u32 {
        let uses = std::mem::take(&mut start.uses);
        let variable = self.network.add_variable(uses, start.window, start.rate_max);
        if self.classes.len() <= variable as usize {
            self.classes.resize_with(variable as usize + 1, Class::default);
        }
        let parts = std::mem::take(&mut start.parts);
        self.classes[variable as usize] = Class {
            job: start.job,
            key,
            direction: start.direction,
            lead: parts[0].device,
            parts,
            window: start.window,
            under_way: start.under_way,
            progress: 0.0,
            updated: now,
            counted: 0.0,
            counted_at: now,
            members: Vec::new(),
        };
        if let Some(key) = key {
            self.alike.insert(key, variable);
        }
        variable
    }

    /// Brings the progress of a class up to now, during which its rate was `rate`.
    fn move_on(&mut self, variable: u32, rate: f64, world: &mut World<'_>) {
        let now = world.now;
        let class = &mut self.classes[variable as usize];
        let (before, since) = (class.progress, class.updated);
        class.progress += rate * seconds(now.saturating_since(since));
        class.updated = now;
        if world.accounts.has_series() && world.accounts.interval(since) != world.accounts.interval(now) {
            // The rate was another before: each part of the progress is spread over its own time.
            let after = std::mem::replace(&mut class.progress, before);
            self.count_to(variable, since, world);
            self.classes[variable as usize].progress = after;
            self.count_to(variable, now, world);
        }
    }

    /// Brings a class up to now, with its accounts: before the number of its flows, or the speed of its targets, is another.
    fn count_class(&mut self, variable: u32, world: &mut World<'_>) {
        self.move_on(variable, self.network.rate(variable), world);
        self.count_to(variable, world.now, world);
    }

    /// Puts the progress since the last time, until `to`, into the accounts.
    fn count_to(&mut self, variable: u32, to: Nanos, world: &mut World<'_>) {
        let class = &mut self.classes[variable as usize];
        let moved = (class.progress - class.counted) * class.members.len() as f64;
        let period = Period { from: class.counted_at, to };
        (class.counted, class.counted_at) = (class.progress, to);
        let (Some(direction), true) = (class.direction, moved > 0.0) else { return };
        for part in &class.parts {
            let capacity = self.network.capacity(self.routes.target(part.device));
            let device_seconds = moved * part.fraction * part.device_seconds / capacity;
            if device_seconds.is_finite() {
                world.accounts.uses(class.job, part.device, device_seconds, period);
            }
            if world.accounts.has_series() {
                world.accounts.passes(part.server, direction, moved * part.fraction, period);
            }
        }
    }

    /// Sets the moment at which the first flow of a class ends.
    fn retime(&mut self, variable: u32, world: &World<'_>) {
        let class = &self.classes[variable as usize];
        let rate = self.network.rate(variable);
        let at = class.members.last().filter(|_| rate > 0.0).map(|first| {
            let left = (first.end - class.progress).max(0.0);
            world.now + nanos_above(left / rate)
        });
        self.completions.set(variable, at);
    }

    /// Ends the flows of a class that are at their ends.
    fn complete(&mut self, variable: u32, world: &mut World<'_>) {
        self.count_class(variable, world);
        let reached = {
            let class = &self.classes[variable as usize];
            // The clock counts in nanoseconds: what moves in one of them is as good as moved.
            let reached = class.progress + self.network.rate(variable) * 1e-9;
            class.members.last().map_or(reached, |first| reached.max(first.end))
        };
        loop {
            let class = &mut self.classes[variable as usize];
            let Some(member) = class.members.last().copied().filter(|member| member.end <= reached) else {
                break;
            };
            class.members.pop();
            world.events_taken += 1;
            self.leave(variable, member, world);
        }
        let left = self.classes[variable as usize].members.len();
        if left == 0 {
            self.completions.set(variable, None);
            self.network.remove_variable(variable);
            if let Some(key) = self.classes[variable as usize].key {
                self.alike.remove(&key);
            }
        } else {
            let weight = self.network.weight(variable);
            self.network.set_variable(variable, left as f64, weight);
            self.retime(variable, world);
        }
    }

    /// A flow ended.
    fn leave(&mut self, variable: u32, member: Member, world: &mut World<'_>) {
        let Flows { classes, shares, is_changed, changed, .. } = self;
        let class = &classes[variable as usize];
        for part in &class.parts {
            if let Some(direction) = class.direction {
                let bytes = if class.parts.len() == 1 { member.units } else { part.bytes };
                world.accounts.moves(class.job, (part.device, part.server), direction, bytes);
            }
            shares.leave(part.device, class.job, world.now, &mut world.accounts);
            if !std::mem::replace(&mut is_changed[part.device as usize], true) {
                changed.push(part.device);
            }
        }
        let step = &mut self.steps[member.stream as usize];
        step.flows -= 1;
        if step.flows == 0 {
            match std::mem::take(&mut step.rest) {
                Nanos::ZERO => world.finish(member.stream),
                rest => self.endings.push(world.now + rest, member.stream),
            }
        }
    }

    /// Finds capacity, shares and weights of a device anew.
    fn refresh(&mut self, device: u32, world: &mut World<'_>) {
        let Some(resource) = self.resource(device) else { return };
        let capacity = self.capacity(device, resource, world);
        if capacity != self.network.capacity(resource) {
            let on: Vec<u32> = self.network.on(resource).map(|(variable, _)| variable).collect();
            on.into_iter().for_each(|variable| self.count_class(variable, world));
            self.network.set_capacity(resource, capacity);
            self.limits.set_capacity(device, capacity, &mut self.network);
        }
        let Flows { network, shares, classes, .. } = self;
        let window = |(variable, coefficient): (u32, f64)| {
            let class = &classes[variable as usize];
            (class.job, network.count(variable) * class.window * coefficient)
        };
        shares.weigh(device, network.on(resource).map(window), world.now, &mut world.accounts);
        if !self.shares.divides() {
            return;
        }
        if self.shares.is_shared(device) && device < self.targets && self.division_at.is_none() {
            self.division_at = Some(Nanos((world.now.0 / self.lambda.0 + 1) * self.lambda.0));
        }
        let on: Vec<u32> = self.network.on(resource).map(|(variable, _)| variable).collect();
        for variable in on {
            let class = &mut self.classes[variable as usize];
            if class.parts.len() > 1 {
                let shares = &self.shares;
                let queue = |device: u32| shares.window(device);
                let longest = |one: u32, part: &ClassPart| {
                    if queue(part.device) > queue(one) {
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
            let class = &self.classes[variable as usize];
            let part = class.parts.iter().find(|part| part.device == device);
            let here = part.map_or(0.0, |part| part.fraction) * class.under_way;
            self.network.count(variable) * here.min(1.0)
        });
        let further = (streams.sum::<f64>() - 1.0).max(0.0);
        machine.pace() * (1.0 / (1.0 + target.seek_penalty * further)).max(target.seek_floor)
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
            let resource = self.routes.target(target);
            for job in self.shares.jobs_on(target).filter(|&job| is_concerned[job as usize]) {
                uses.push(self.use_of(job, target, resource));
            }
        }
        uses.sort_by_key(|one| (one.job, one.target));
        // A job with one target spends all of its weight there.
        if uses.windows(2).any(|pair| pair[0].job == pair[1].job) {
            for target in self.shares.divide(&uses) {
                self.change(target);
            }
        }
    }

    fn use_of(&self, job: u32, target: u32, resource: u32) -> JobUse {
        let mut one = JobUse { job, target, used: 0.0, is_short: false };
        let capacity = self.network.capacity(resource);
        for (variable, coefficient) in self.network.on(resource) {
            if self.classes[variable as usize].job == job {
                let rate = self.network.rate(variable) * self.network.count(variable);
                one.used += if capacity > 0.0 { rate * coefficient / capacity } else { 0.0 };
                one.is_short |= self.network.holder(variable) == Some(resource);
            }
        }
        one
    }
}

impl Model for Flows {
    fn operate(&mut self, operations: Operations, world: &mut World<'_>) {
        let Operations { stream, job, node, server, count, depth } = operations;
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
        let part = ClassPart { device, server, fraction: 1.0, device_seconds, bytes: count };
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
        let mut place = 0;
        while let Some(&device) = self.changed.get(place) {
            self.is_changed[device as usize] = false;
            self.refresh(device, world);
            place += 1;
        }
        self.changed.clear();
        let mut rates_before = std::mem::take(&mut self.rates_before);
        self.network.solve(&mut rates_before);
        for (variable, before) in rates_before.drain(..) {
            self.move_on(variable, before, world);
            self.retime(variable, world);
        }
        self.rates_before = rates_before;
    }

    fn close(&mut self, world: &mut World<'_>) {
        for variable in 0..self.classes.len() as u32 {
            if self.classes[variable as usize].members.is_empty() {
                continue;
            }
            self.count_class(variable, world);
            let class = &self.classes[variable as usize];
            let Some(direction) = class.direction else { continue };
            for member in &class.members {
                let moved = (member.units as f64 - (member.end - class.progress)).max(0.0);
                for part in &class.parts {
                    let bytes = (moved * part.fraction) as u64;
                    world.accounts.moves(class.job, (part.device, part.server), direction, bytes);
                }
            }
        }
        self.shares.close(world.now, &mut world.accounts);
    }
}

impl Flows {
    /// Begins the flow of some parts of a transfer, with a bounded number of requests under way or with all of them.
    fn start_transfer(
        &mut self,
        transfer: &Transfer,
        parts: &[Part],
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
        let part = |part: &Part| ClassPart {
            device: part.target,
            server: world.machines.targets[part.target as usize].server,
            fraction: part.bytes as f64 / bytes as f64,
            device_seconds: self.routes.device_seconds(transfer.direction, part),
            bytes: part.bytes,
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
            rate_max,
        };
        self.start(start, world);
    }
}

impl Limits {
    /// A flow of a job with a limit uses the limit's time of each of its devices as the devices' own.
    fn add_to(&mut self, start: &mut Start, network: &mut Network, world: &World<'_>) {
        let job = &world.settings.jobs[start.job as usize];
        for (number, &(holder, limit)) in self.holders.iter().enumerate() {
            if !holds(holder, job) {
                continue;
            }
            for part in &start.parts {
                // A job's limit is that of each job of the name.
                let of = match holder {
                    Holder::Job(_) => (self.holders.len() as u32) + start.job,
                    Holder::Group(_) | Holder::User(_) => number as u32,
                };
                let new = || (network.add_resource(limit), limit);
                let (resource, _) = *self.resources.entry((part.device, of)).or_insert_with(new);
                start.uses.push(Use::new(resource, part.fraction * part.device_seconds));
            }
        }
    }

    /// A device works at another part of its rate: so do the limits on it.
    fn set_capacity(&self, device: u32, capacity: f64, network: &mut Network) {
        let of_device = self.resources.range((device, 0)..(device + 1, 0));
        for &(resource, limit) in of_device.map(|(_, limited)| limited) {
            network.set_capacity(resource, limit * capacity);
        }
    }
}
