//! Weighted max-min fair rates of variables that share resources, kept up to date as variables come, go and change.
//!
//! A variable is a set of alike flows, each of which moves at the variable's rate. Each unit that a flow moves takes a
//! *coefficient* of the capacity of each resource on its way. Rates are max-min fair by weight: each variable is at its
//! greatest rate, or is *held* by a resource that is used up and on which no variable has a greater rate for its weight.
//! These rates are unique (Bertsekas and Gallager, "Data Networks", section 6.5.2).
//!
//! A change begins at a region: the resources that it touches, and the variables that these hold. Other variables on
//! these resources stay as they are. The region is filled anew, by progressive filling. Then the border is checked: a resource
//! outside that would be overused, or that has capacity left although it holds variables, joins the region with the
//! variables that it holds; so does the holder of a variable whose rate is above the new level of a resource inside. The
//! region grows until nothing is amiss, and then each variable has its holder, as if all had been filled anew. What is amiss
//! by less than the network's slack is left: else one completion would change all rates of a network whose resources
//! are all used up, most of them by parts that nobody can see.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Part of a level below which two levels of one filling are the same.
const ROUNDING: f64 = 1e-12;
/// Changes of a resource's load after which it is summed up anew, so that rounding errors do not add up.
const CHANGES_MAX: u32 = 4096;
/// A variable that nothing holds yet.
const NEW: u32 = u32::MAX;
/// A variable that is at its greatest rate.
const AT_MOST: u32 = u32::MAX - 1;

/// Resources and the variables that share them.
#[derive(Debug)]
pub(crate) struct Network {
    /// Part of a capacity, or of a level, below which a difference at a border is none.
    slack: f64,
    resources: Vec<Resource>,
    variables: Vec<Variable>,
    vacant: Vec<u32>,
    /// Resources and variables at which the next region begins.
    changed_resources: Vec<u32>,
    changed_variables: Vec<u32>,
    region: Region,
}

#[derive(Debug)]
struct Resource {
    capacity: f64,
    load: f64,
    /// The rate for its weight of the variables that it holds; infinite where it holds none.
    level: f64,
    /// Variables that it holds.
    held: u32,
    members: Vec<Member>,
    changes: u32,
    /// Number of the last region that it was in.
    region: u64,
    /// In that region: capacity that is left, and the weight of variables that are not filled yet, times coefficients.
    room: f64,
    weight: f64,
    unfilled: u32,
    level_next: f64,
    /// Number of the last border that it was on, and the change of its load.
    border: u64,
    change: f64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    variable: u32,
    /// The place of the resource among the variable's uses.
    place: u32,
}

#[derive(Debug, Default)]
struct Variable {
    uses: Vec<Use>,
    /// The weight of each flow.
    weight: f64,
    /// Its flows.
    count: f64,
    rate_max: f64,
    rate: f64,
    holder: u32,
    region: u64,
    rate_next: f64,
    holder_next: u32,
    is_filled: bool,
}

/// The use of a resource by the flows of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) resource: u32,
    /// Capacity that each unit takes.
    pub(crate) coefficient: f64,
    /// The place of the variable among the resource's members.
    member: u32,
}

/// The part of a network that is filled anew.
#[derive(Debug, Default)]
struct Region {
    number: u64,
    border_number: u64,
    resources: Vec<u32>,
    variables: Vec<u32>,
    border: Vec<u32>,
    heap: BinaryHeap<Level>,
}

/// The level at which a resource is used up, or a variable is at its greatest rate. The lowest comes first.
#[derive(Clone, Copy, Debug)]
struct Level {
    level: f64,
    of: u32,
    is_variable: bool,
}

impl Use {
    pub(crate) fn new(resource: u32, coefficient: f64) -> Use {
        Use { resource, coefficient, member: 0 }
    }
}

impl Network {
    /// A network without resources, whose rates are exact but for `slack` at each resource.
    pub(crate) fn new(slack: f64) -> Network {
        Network {
            slack,
            resources: Vec::new(),
            variables: Vec::new(),
            vacant: Vec::new(),
            changed_resources: Vec::new(),
            changed_variables: Vec::new(),
            region: Region::default(),
        }
    }

    /// A new resource.
    pub(crate) fn add_resource(&mut self, capacity: f64) -> u32 {
        self.resources.push(Resource {
            capacity,
            load: 0.0,
            level: f64::INFINITY,
            held: 0,
            members: Vec::new(),
            changes: 0,
            region: 0,
            room: 0.0,
            weight: 0.0,
            unfilled: 0,
            level_next: f64::INFINITY,
            border: 0,
            change: 0.0,
        });
        self.resources.len() as u32 - 1
    }

    pub(crate) fn capacity(&self, resource: u32) -> f64 {
        self.resources[resource as usize].capacity
    }

    /// The part of its capacity that a resource has left.
    pub(crate) fn room(&self, resource: u32) -> f64 {
        let Resource { capacity, load, .. } = self.resources[resource as usize];
        if capacity > 0.0 {
            1.0 - load / capacity
        } else {
            0.0
        }
    }

    /// The capacity that is used.
    #[cfg(test)]
    pub(crate) fn load(&self, resource: u32) -> f64 {
        self.resources[resource as usize].load
    }

    pub(crate) fn set_capacity(&mut self, resource: u32, capacity: f64) {
        let state = &mut self.resources[resource as usize];
        if state.capacity != capacity {
            state.capacity = capacity;
            self.changed_resources.push(resource);
        }
    }

    /// A new variable of one flow. It uses each resource once, and at least one, or has a finite `rate_max`.
    pub(crate) fn add_variable(&mut self, uses: Vec<Use>, weight: f64, rate_max: f64) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.variables.push(Variable::default());
            self.variables.len() as u32 - 1
        });
        let variable = &mut self.variables[number as usize];
        variable.uses = uses;
        (variable.weight, variable.count, variable.rate_max) = (weight, 1.0, rate_max);
        (variable.rate, variable.holder) = (0.0, NEW);
        for (place, one) in variable.uses.iter_mut().enumerate() {
            let members = &mut self.resources[one.resource as usize].members;
            one.member = members.len() as u32;
            members.push(Member { variable: number, place: place as u32 });
        }
        self.changed_variables.push(number);
        number
    }

    /// A variable is gone; its number may be given to another.
    pub(crate) fn remove_variable(&mut self, number: u32) {
        let variable = std::mem::take(&mut self.variables[number as usize]);
        for one in &variable.uses {
            let resource = &mut self.resources[one.resource as usize];
            resource.load -= variable.count * one.coefficient * variable.rate;
            resource.members.swap_remove(one.member as usize);
            if let Some(&Member { variable, place }) = resource.members.get(one.member as usize) {
                self.variables[variable as usize].uses[place as usize].member = one.member;
            }
            let resource = &mut self.resources[one.resource as usize];
            if resource.members.is_empty() {
                resource.load = 0.0;
            }
            if variable.holder == one.resource {
                resource.held -= 1;
            }
            match resource.held {
                0 => resource.level = f64::INFINITY,
                _ => self.changed_resources.push(one.resource),
            }
        }
        self.variables[number as usize].holder = NEW;
        self.changed_variables.retain(|&changed| changed != number);
        self.vacant.push(number);
    }

    /// Another number of flows, or another weight of each.
    pub(crate) fn set_variable(&mut self, number: u32, count: f64, weight: f64) {
        let variable = &mut self.variables[number as usize];
        if variable.count == count && variable.weight == weight {
            return;
        }
        let more = (count - variable.count) * variable.rate;
        (variable.count, variable.weight) = (count, weight);
        for one in &variable.uses {
            self.resources[one.resource as usize].load += more * one.coefficient;
        }
        if variable.holder != NEW {
            self.changed_variables.push(number);
        }
    }

    pub(crate) fn rate(&self, variable: u32) -> f64 {
        self.variables[variable as usize].rate
    }

    pub(crate) fn weight(&self, variable: u32) -> f64 {
        self.variables[variable as usize].weight
    }

    pub(crate) fn count(&self, variable: u32) -> f64 {
        self.variables[variable as usize].count
    }

    /// The resource that holds a variable.
    pub(crate) fn holder(&self, variable: u32) -> Option<u32> {
        let holder = self.variables[variable as usize].holder;
        (holder < AT_MOST).then_some(holder)
    }

    /// The variables on a resource.
    pub(crate) fn on(&self, resource: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.resources[resource as usize].members.iter().map(|member| {
            let one = &self.variables[member.variable as usize].uses[member.place as usize];
            (member.variable, one.coefficient)
        })
    }

    /// Finds the rates after the changes since the last time. Appends the variables whose rate is another now, and the
    /// rate before.
    pub(crate) fn solve(&mut self, changed: &mut Vec<(u32, f64)>) {
        if self.changed_resources.is_empty() && self.changed_variables.is_empty() {
            return;
        }
        self.begin_region();
        loop {
            self.fill();
            if !self.grow() {
                break;
            }
        }
        self.adopt(changed);
    }

    fn begin_region(&mut self) {
        self.region.number += 1;
        self.region.resources.clear();
        self.region.variables.clear();
        for resource in std::mem::take(&mut self.changed_resources) {
            self.join(resource);
        }
        for variable in std::mem::take(&mut self.changed_variables) {
            self.release(variable);
            for place in 0..self.variables[variable as usize].uses.len() {
                let resource = self.variables[variable as usize].uses[place].resource;
                self.join(resource);
            }
        }
    }

    /// A resource joins the region with the variables that it holds.
    fn join(&mut self, resource: u32) -> bool {
        let state = &mut self.resources[resource as usize];
        if state.region == self.region.number {
            return false;
        }
        state.region = self.region.number;
        self.region.resources.push(resource);
        if state.held > 0 {
            for place in 0..state.members.len() {
                let variable = self.resources[resource as usize].members[place].variable;
                if self.variables[variable as usize].holder == resource {
                    self.release(variable);
                }
            }
        }
        true
    }

    /// A variable joins the region, and so does its holder.
    fn release(&mut self, variable: u32) -> bool {
        let state = &mut self.variables[variable as usize];
        if state.region == self.region.number {
            return false;
        }
        state.region = self.region.number;
        self.region.variables.push(variable);
        let holder = state.holder;
        if holder < AT_MOST {
            self.join(holder);
        }
        true
    }

    /// Fills the region: all its variables rise together, each by its weight, until a resource is used up.
    fn fill(&mut self) {
        let Network { resources, variables, region, .. } = self;
        for &resource in &region.resources {
            let state = &mut resources[resource as usize];
            (state.room, state.weight, state.unfilled) = (state.capacity - state.load, 0.0, 0);
            // Nothing moves on a resource that stands still, not even by what rounding leaves of its room.
            state.level_next = if state.capacity > 0.0 { f64::INFINITY } else { 0.0 };
        }
        region.heap.clear();
        for &number in &region.variables {
            let variable = &mut variables[number as usize];
            variable.is_filled = false;
            for one in &variable.uses {
                let state = &mut resources[one.resource as usize];
                if state.region == region.number {
                    let share = variable.count * one.coefficient;
                    state.room += share * variable.rate;
                    state.weight += share * variable.weight;
                    state.unfilled += 1;
                }
            }
            if variable.rate_max.is_finite() {
                let level = variable.rate_max / variable.weight;
                region.heap.push(Level { level, of: number, is_variable: true });
            }
        }
        for &resource in &region.resources {
            let state = &resources[resource as usize];
            if state.unfilled > 0 {
                region.heap.push(Level { level: state.present_level(), of: resource, is_variable: false });
            }
        }
        while let Some(Level { level, of, is_variable }) = region.heap.pop() {
            if is_variable {
                let variable = &mut variables[of as usize];
                if !variable.is_filled {
                    variable.fill(variable.rate_max, AT_MOST, resources, region.number);
                }
                continue;
            }
            let state = &mut resources[of as usize];
            if state.unfilled == 0 {
                continue;
            }
            let present = state.present_level();
            if present > level * (1.0 + ROUNDING) {
                region.heap.push(Level { level: present, of, is_variable });
                continue;
            }
            state.level_next = present;
            for place in 0..resources[of as usize].members.len() {
                let member = resources[of as usize].members[place].variable;
                let variable = &mut variables[member as usize];
                if variable.region == region.number && !variable.is_filled {
                    let rate = (present * variable.weight).min(variable.rate_max);
                    variable.fill(rate, of, resources, region.number);
                }
            }
        }
    }

    /// Looks for what is amiss at the border of the filled region, and takes it in; false where nothing is.
    fn grow(&mut self) -> bool {
        let mut has_grown = false;
        let slack = self.slack;
        self.note_border();
        for place in 0..self.region.border.len() {
            let resource = self.region.border[place];
            let state = &self.resources[resource as usize];
            let load = state.load + state.change;
            let is_over = load > state.capacity * (1.0 + slack);
            let has_room = state.held > 0 && load < state.capacity * (1.0 - slack);
            if is_over || has_room {
                has_grown |= self.join(resource);
            }
        }
        for place in 0..self.region.variables.len() {
            let variable = &self.variables[self.region.variables[place] as usize];
            let level = variable.rate_next / variable.weight;
            for place_of_use in 0..variable.uses.len() {
                let variable = &self.variables[self.region.variables[place] as usize];
                let resource = variable.uses[place_of_use].resource;
                let state = &self.resources[resource as usize];
                if state.region != self.region.number && level > state.level * (1.0 + slack) {
                    has_grown |= self.join(resource);
                }
            }
        }
        for place in 0..self.region.resources.len() {
            let resource = self.region.resources[place];
            let state = &self.resources[resource as usize];
            let is_over = state.room < -slack * state.capacity;
            if !is_over && state.level_next == f64::INFINITY {
                continue;
            }
            for member in 0..self.resources[resource as usize].members.len() {
                let state = &self.resources[resource as usize];
                let number = state.members[member].variable;
                let variable = &self.variables[number as usize];
                if variable.region != self.region.number
                    && (is_over || variable.rate > variable.weight * state.level_next * (1.0 + slack))
                {
                    has_grown |= self.release(number);
                }
            }
        }
        has_grown
    }

    /// Sums up how the loads of resources outside the region change.
    fn note_border(&mut self) {
        let Network { resources, variables, region, .. } = self;
        region.border_number += 1;
        region.border.clear();
        for &number in &region.variables {
            let variable = &variables[number as usize];
            let change = variable.count * (variable.rate_next - variable.rate);
            for one in &variable.uses {
                let state = &mut resources[one.resource as usize];
                if state.region == region.number {
                    continue;
                }
                if state.border != region.border_number {
                    (state.border, state.change) = (region.border_number, 0.0);
                    region.border.push(one.resource);
                }
                state.change += change * one.coefficient;
            }
        }
    }

    /// The rates of the region become those of the network.
    fn adopt(&mut self, changed: &mut Vec<(u32, f64)>) {
        let Network { resources, variables, region, .. } = self;
        for &number in &region.variables {
            let variable = &mut variables[number as usize];
            if variable.holder < AT_MOST {
                resources[variable.holder as usize].held -= 1;
            }
            variable.holder = variable.holder_next;
            if variable.holder < AT_MOST {
                resources[variable.holder as usize].held += 1;
            }
            if variable.rate_next != variable.rate {
                changed.push((number, variable.rate));
                let change = variable.count * (variable.rate_next - variable.rate);
                for one in &variable.uses {
                    let state = &mut resources[one.resource as usize];
                    state.load += change * one.coefficient;
                    state.changes += 1;
                }
                variable.rate = variable.rate_next;
            }
        }
        for &resource in &region.resources {
            let state = &mut resources[resource as usize];
            state.level = if state.held > 0 { state.level_next } else { f64::INFINITY };
            if state.changes > CHANGES_MAX || state.capacity == 0.0 {
                let share = |member: &Member| {
                    let variable = &variables[member.variable as usize];
                    variable.count * variable.rate * variable.uses[member.place as usize].coefficient
                };
                (state.load, state.changes) = (state.members.iter().map(share).sum(), 0);
            }
        }
    }
}

impl Resource {
    /// The level at which its unfilled variables would use it up.
    fn present_level(&self) -> f64 {
        if self.weight > 0.0 && self.capacity > 0.0 {
            self.room.max(0.0) / self.weight
        } else {
            0.0
        }
    }
}

impl Variable {
    /// The variable has its rate; what it takes is missing for those that are not filled yet.
    fn fill(&mut self, rate: f64, holder: u32, resources: &mut [Resource], region: u64) {
        (self.rate_next, self.holder_next, self.is_filled) = (rate, holder, true);
        for one in &self.uses {
            let state = &mut resources[one.resource as usize];
            if state.region == region {
                let share = self.count * one.coefficient;
                state.room -= share * rate;
                state.weight -= share * self.weight;
                state.unfilled -= 1;
            }
        }
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Level) -> Ordering {
        let by_level = other.level.total_cmp(&self.level);
        by_level.then_with(|| (other.is_variable, other.of).cmp(&(self.is_variable, self.of)))
    }
}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Level) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Level) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

#[cfg(test)]
mod tests;
