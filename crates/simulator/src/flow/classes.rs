//! Classes of alike flows: their progress, their ends, and what they put into the accounts.

use super::network::{Network, Use};
use crate::core::accounts::Period;
use crate::core::time::seconds;
use crate::core::world::World;
use std::collections::HashMap;
use weir_fairshare::{Direction, Nanos};

/// The classes, by the numbers of their variables in the network.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    classes: Vec<Class>,
    /// Classes of flows with one device.
    alike: HashMap<Key, u32>,
}

/// Flows that share one rate.
#[derive(Debug, Default)]
pub(crate) struct Class {
    pub(crate) job: u32,
    key: Option<Key>,
    /// The place of its only flow in a queue.
    pub(crate) place: Option<Place>,
    /// Absent for metadata operations.
    pub(crate) direction: Option<Direction>,
    pub(crate) parts: Vec<Part>,
    /// Units of the requests that a flow has under way, and of those that wait behind it.
    pub(crate) window: f64,
    /// These requests.
    under_way: f64,
    /// The device that gives the flows their weight: that with the longest queue.
    pub(crate) lead: u32,
    /// Units that a flow has moved since the class was made, as of `updated`.
    progress: f64,
    updated: Nanos,
    /// The part of the progress that is in the accounts, as of its moment.
    counted: f64,
    counted_at: Nanos,
    /// Its flows, the one that ends first last.
    members: Vec<Member>,
}

/// The part of a flow on one device: a target, or a metadata service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) device: u32,
    pub(crate) resource: u32,
    pub(crate) server: u32,
    /// The device's part of the flow's units.
    pub(crate) fraction: f64,
    /// The device time of each unit.
    pub(crate) device_seconds: f64,
    pub(crate) units: u64,
}

/// The place of a flow in a queue at a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) device: u32,
    /// The job whose queue it is, or a number for that of all jobs.
    pub(crate) of: u32,
    pub(crate) arrival: u64,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Progress of the class at its end.
    end: f64,
    pub(crate) stream: u32,
    units: u64,
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

/// A flow that begins.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) job: u32,
    pub(crate) stream: u32,
    pub(crate) node: u32,
    pub(crate) direction: Option<Direction>,
    /// At least one.
    pub(crate) parts: Vec<Part>,
    pub(crate) uses: Vec<Use>,
    /// Bytes, or operations.
    pub(crate) units: u64,
    /// Units under way.
    pub(crate) window: f64,
    /// Requests under way.
    pub(crate) under_way: f64,
    /// Whether these are all of its requests.
    pub(crate) is_whole: bool,
    pub(crate) rate_max: f64,
}

impl Classes {
    pub(crate) fn class(&self, variable: u32) -> &Class {
        &self.classes[variable as usize]
    }

    pub(crate) fn class_mut(&mut self, variable: u32) -> &mut Class {
        &mut self.classes[variable as usize]
    }

    /// Adds a flow to the class of its like, or to a new one, and answers the variable. One with a place in a queue is alone in its
    /// class.
    pub(crate) fn add(
        &mut self,
        start: Start,
        place: Option<Place>,
        network: &mut Network,
        world: &mut World<'_>,
    ) -> u32 {
        let key = if place.is_none() { start.key() } else { None };
        let known = key.and_then(|key| self.alike.get(&key).copied());
        let (stream, units) = (start.stream, start.units);
        let variable = match known {
            Some(variable) => {
                self.count(variable, network, world);
                let count = self.classes[variable as usize].members.len() + 1;
                network.set_variable(variable, count as f64, network.weight(variable));
                variable
            }
            None => self.make(start, (key, place), network, world.now),
        };
        let class = &mut self.classes[variable as usize];
        let member = Member { end: class.progress + units as f64, stream, units };
        let index = class.members.partition_point(|other| other.end > member.end);
        class.members.insert(index, member);
        variable
    }

    fn make(
        &mut self,
        start: Start,
        (key, place): (Option<Key>, Option<Place>),
        network: &mut Network,
        now: Nanos,
    ) -> u32 {
        let variable = network.add_variable(start.uses, start.window, start.rate_max);
        if self.classes.len() <= variable as usize {
            self.classes.resize_with(variable as usize + 1, Class::default);
        }
        self.classes[variable as usize] = Class {
            job: start.job,
            key,
            place,
            direction: start.direction,
            lead: start.parts[0].device,
            parts: start.parts,
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

    /// Brings the progress of a class up to now, since when its rate was `rate`.
    pub(crate) fn move_on(&mut self, variable: u32, rate: f64, network: &Network, world: &mut World<'_>) {
        let now = world.now;
        let class = &mut self.classes[variable as usize];
        let (before, since) = (class.progress, class.updated);
        let after = before + rate * seconds(now.saturating_since(since));
        class.updated = now;
        let accounts = &world.accounts;
        if accounts.has_series() && accounts.interval(since) != accounts.interval(now) {
            // The rate was another before: each part of the progress is spread over its own time.
            class.count_to(since, network, world);
            class.progress = after;
            class.count_to(now, network, world);
        }
        class.progress = after;
    }

    /// Brings a class up to now, with its accounts: before the number of its flows, or the speed of its devices, is another.
    pub(crate) fn count(&mut self, variable: u32, network: &Network, world: &mut World<'_>) {
        self.move_on(variable, network.rate(variable), network, world);
        self.classes[variable as usize].count_to(world.now, network, world);
    }

    /// Takes out the flows of a class that are at their ends.
    pub(crate) fn take_ended(
        &mut self,
        variable: u32,
        network: &mut Network,
        world: &mut World<'_>,
    ) -> Vec<Member> {
        self.count(variable, network, world);
        let class = &mut self.classes[variable as usize];
        // The clock counts in nanoseconds: units that move in one of these are as good as moved.
        let reached = class.progress + network.rate(variable) * 1e-9;
        let reached = class.members.last().map_or(reached, |first| reached.max(first.end));
        let left = class.members.partition_point(|member| member.end > reached);
        let mut ended = class.members.split_off(left);
        ended.reverse();
        for member in &ended {
            class.moved(member, member.units, world);
        }
        if left > 0 {
            network.set_variable(variable, left as f64, network.weight(variable));
        } else {
            network.remove_variable(variable);
            if let Some(key) = class.key {
                self.alike.remove(&key);
            }
        }
        ended
    }

    /// The run ends: flows under way have moved a part of their units.
    pub(crate) fn close(&mut self, network: &Network, world: &mut World<'_>) {
        for variable in 0..self.classes.len() as u32 {
            if self.classes[variable as usize].members.is_empty() {
                continue;
            }
            self.count(variable, network, world);
            let class = &self.classes[variable as usize];
            for member in &class.members {
                let moved = member.units as f64 - (member.end - class.progress);
                class.moved(member, moved.max(0.0) as u64, world);
            }
        }
    }
}

impl Class {
    /// Units that are left of the flow that ends first.
    pub(crate) fn left(&self) -> Option<f64> {
        self.members.last().map(|first| (first.end - self.progress).max(0.0))
    }

    /// Units that a flow of it had under way.
    pub(crate) fn window_of(&self, member: &Member) -> f64 {
        match self.place {
            Some(_) => member.units as f64,
            None => self.window,
        }
    }

    /// The part of the time in which a flow has a request on a device, where nothing else is there.
    pub(crate) fn presence(&self, device: u32) -> f64 {
        let part = self.parts.iter().find(|part| part.device == device);
        part.map_or(0.0, |part| (part.fraction * self.under_way).min(1.0))
    }

    /// Puts the progress since the last time, until `to`, into the accounts.
    fn count_to(&mut self, to: Nanos, network: &Network, world: &mut World<'_>) {
        let moved = (self.progress - self.counted) * self.members.len() as f64;
        let period = Period { from: self.counted_at, to };
        (self.counted, self.counted_at) = (self.progress, to);
        let (Some(direction), true) = (self.direction, moved > 0.0) else { return };
        for part in &self.parts {
            let capacity = network.capacity(part.resource);
            if capacity > 0.0 {
                let device_seconds = moved * part.fraction * part.device_seconds / capacity;
                world.accounts.uses(self.job, part.device, device_seconds, period);
                // Where other jobs are on the device, the shares account the difference.
                world.accounts.owes(self.job, device_seconds);
            }
            if world.accounts.has_series() {
                world.accounts.passes(part.server, direction, moved * part.fraction, period);
            }
        }
    }

    /// A flow has moved `units` of its own.
    fn moved(&self, member: &Member, units: u64, world: &mut World<'_>) {
        let Some(direction) = self.direction else { return };
        for part in &self.parts {
            let bytes = match (self.parts.len(), units == member.units) {
                (1, _) => units,
                (_, true) => part.units,
                (_, false) => (units as f64 * part.fraction) as u64,
            };
            world.accounts.moves(self.job, (part.device, part.server), direction, bytes);
        }
    }
}

impl Start {
    /// The window of the flow on one of its devices, in the device's time.
    pub(crate) fn queue(&self, place: usize) -> f64 {
        let part = &self.parts[place];
        self.window * part.fraction * part.device_seconds
    }

    /// The key of flows like this one, where it has one device.
    fn key(&self) -> Option<Key> {
        let [part] = self.parts[..] else { return None };
        Some(Key {
            job: self.job,
            node: self.node,
            device: part.device,
            direction: self.direction,
            window: self.window.to_bits(),
            rate_max: self.rate_max.to_bits(),
            device_seconds: part.device_seconds.to_bits(),
        })
    }
}
