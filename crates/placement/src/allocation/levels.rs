//! Loads of targets and servers while stripes are placed, and the cheapest position for the next stripe.

use super::View;

/// The used targets of a view, those of one server side by side. Loads and room are in bytes or in stripes.
///
/// The cost of a position is `load^2 / speed`, and so is that of a group (a server): `amount` more costs
/// `(2 load + amount) / speed` for each byte or stripe of it, at both.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    /// Index into the view of each position.
    pub(super) index: Vec<u32>,
    /// The load of each position.
    pub(super) load: Vec<f64>,
    /// The speed of each position; positive.
    pub(super) speed: Vec<f64>,
    /// The amount that still fits.
    pub(super) room: Vec<f64>,
    /// The order of equals.
    pub(super) rank: Vec<u32>,
    /// The servers whose load counts. One group of everything where none does.
    pub(super) groups: Vec<Group>,
}

/// Neighbouring positions whose sum costs, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) load: f64,
    /// One over its speed; 0 where its load costs nothing.
    pub(super) slope: f64,
}

impl Group {
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.first as usize..self.end as usize
    }

    /// The cost of `amount` more, for each byte or stripe of it.
    pub(super) fn marginal(&self, amount: f64) -> f64 {
        (2.0 * self.load + amount) * self.slope
    }
}

impl Levels {
    /// Take the used targets over from `view`, in units of `unit_bytes`.
    ///
    /// Equals are tried in the order that alternates servers, from place `rotation` on.
    pub(super) fn load_from(&mut self, view: &View, unit_bytes: u64, rotation: u32) {
        let unit = unit_bytes as f64;
        let total = view.targets().len() as u32;
        let shift = if total == 0 { 0 } else { total - rotation % total };
        self.clear();
        let mut current = None;
        for &index in view.by_server() {
            let target = index as usize;
            if !view.is_used(target) {
                continue;
            }
            let state = &view.targets()[target];
            let server = view.server_of(target);
            if current != Some(server) {
                current = Some(server);
                let state = &view.servers()[server];
                let first = self.index.len() as u32;
                let group =
                    Group { first, end: first, load: state.load_bytes / unit, slope: 1.0 / state.speed };
                self.groups.push(group);
            }
            self.index.push(index);
            self.load.push(state.load_bytes / unit);
            self.speed.push(state.speed);
            self.room.push(state.free_bytes as f64 / unit);
            self.rank.push((view.rank(target) + shift) % total);
            if let Some(group) = self.groups.last_mut() {
                group.end += 1;
            }
        }
        if self.groups.iter().all(|group| group.slope == 0.0) {
            self.groups.clear();
            self.groups.push(Group { first: 0, end: self.index.len() as u32, load: 0.0, slope: 0.0 });
        }
    }

    /// Number of positions.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    fn clear(&mut self) {
        self.index.clear();
        self.load.clear();
        self.speed.clear();
        self.room.clear();
        self.rank.clear();
        self.groups.clear();
    }

    /// The cost of `amount` more at a position alone, for each byte or stripe of it.
    pub(super) fn marginal(&self, position: usize, amount: f64) -> f64 {
        (2.0 * self.load[position] + amount) / self.speed[position]
    }
}

/// The positions of some levels, cheapest first: a heap of groups, and in each a heap of positions.
#[derive(Clone, Debug, Default)]
pub(super) struct Frontier {
    /// Positions, a heap within the range of each group.
    heap: Vec<u32>,
    /// The index of each position in `heap`.
    place: Vec<u32>,
    /// The cost of `step` more at each position alone; infinite where a step does not fit or the position is held.
    key: Vec<f64>,
    group_of: Vec<u32>,
    groups: Vec<u32>,
    group_place: Vec<u32>,
    /// The cost of `step` more in each group at its cheapest position.
    group_key: Vec<f64>,
    /// The size of the next stripe.
    step: f64,
    /// The least room that a position needs.
    least: f64,
}

impl Frontier {
    /// Orders all positions of `levels` that have room for `least`, for stripes of about `step`.
    pub(super) fn build(&mut self, levels: &Levels, step: f64, least: f64) {
        let length = levels.len() as u32;
        self.step = step;
        self.least = least;
        self.heap.clear();
        self.heap.extend(0..length);
        self.place.clear();
        self.place.extend(0..length);
        self.key.clear();
        let mut keys = std::mem::take(&mut self.key);
        keys.extend((0..levels.len()).map(|position| self.open_key(levels, position)));
        self.key = keys;
        self.group_of.clear();
        self.group_of.resize(levels.len(), 0);
        for (number, group) in levels.groups.iter().enumerate() {
            self.group_of[group.range()].fill(number as u32);
            let size = group.range().len();
            for start in (0..size / 2).rev() {
                self.sink(levels, group, start);
            }
        }
        let count = levels.groups.len() as u32;
        self.groups.clear();
        self.groups.extend(0..count);
        self.group_place.clear();
        self.group_place.extend(0..count);
        let mut keys = std::mem::take(&mut self.group_key);
        keys.clear();
        keys.extend(levels.groups.iter().map(|group| self.key_of_group(group)));
        self.group_key = keys;
        for start in (0..levels.groups.len() / 2).rev() {
            self.sink_group(levels, start);
        }
    }

    /// The cheapest position, if any has room.
    pub(super) fn best(&self, levels: &Levels) -> Option<usize> {
        let group = *self.groups.first()? as usize;
        let position = *self.heap.get(levels.groups[group].first as usize)? as usize;
        self.key[position].is_finite().then_some(position)
    }

    /// Put `step` on the cheapest position, which stays open.
    pub(super) fn add(&mut self, levels: &mut Levels) -> Option<usize> {
        let position = self.best(levels)?;
        self.put(levels, position, self.step);
        self.key[position] = self.open_key(levels, position);
        self.settle(levels, position);
        Some(position)
    }

    /// Put `amount` on the cheapest position that has room for it and hold it until it is released.
    ///
    /// Every position that was looked at, the answer included, is appended to `held`.
    pub(super) fn hold(&mut self, levels: &mut Levels, amount: f64, held: &mut Vec<u32>) -> Option<usize> {
        loop {
            let position = self.best(levels)?;
            let fits = levels.room[position] >= amount;
            if fits {
                self.put(levels, position, amount);
            }
            held.push(position as u32);
            self.key[position] = f64::INFINITY;
            self.settle(levels, position);
            if fits {
                return Some(position);
            }
        }
    }

    /// Open a held position again.
    pub(super) fn release(&mut self, levels: &Levels, position: usize) {
        self.key[position] = self.open_key(levels, position);
        self.settle(levels, position);
    }

    fn put(&self, levels: &mut Levels, position: usize, amount: f64) {
        levels.load[position] += amount;
        levels.room[position] -= amount;
        levels.groups[self.group_of[position] as usize].load += amount;
    }

    /// Move a position whose key changed, and its group, to where they belong.
    fn settle(&mut self, levels: &Levels, position: usize) {
        let number = self.group_of[position] as usize;
        let group = &levels.groups[number];
        let within = self.place[position] as usize - group.range().start;
        let within = self.rise(levels, group, within);
        self.sink(levels, group, within);
        self.group_key[number] = self.key_of_group(group);
        let at = self.group_place[number] as usize;
        let at = self.rise_group(levels, at);
        self.sink_group(levels, at);
    }

    fn key_of_group(&self, group: &Group) -> f64 {
        let top = self.heap.get(group.range().start).map_or(f64::INFINITY, |&top| self.key[top as usize]);
        top + group.marginal(self.step)
    }

    fn is_before(&self, levels: &Levels, one: u32, other: u32) -> bool {
        let (one, other) = (one as usize, other as usize);
        let (own, its) = (self.key[one], self.key[other]);
        own < its || (own == its && levels.rank[one] < levels.rank[other])
    }

    fn is_group_before(&self, levels: &Levels, one: u32, other: u32) -> bool {
        let (own, its) = (self.group_key[one as usize], self.group_key[other as usize]);
        let rank = |number: u32| {
            let top = self.heap[levels.groups[number as usize].range().start];
            levels.rank[top as usize]
        };
        own < its || (own == its && rank(one) < rank(other))
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.place[self.heap[one] as usize] = one as u32;
        self.place[self.heap[other] as usize] = other as u32;
    }

    fn swap_groups(&mut self, one: usize, other: usize) {
        self.groups.swap(one, other);
        self.group_place[self.groups[one] as usize] = one as u32;
        self.group_place[self.groups[other] as usize] = other as u32;
    }

    fn sink(&mut self, levels: &Levels, group: &Group, mut within: usize) {
        let start = group.range().start;
        let size = group.range().len();
        loop {
            let mut child = 2 * within + 1;
            if child >= size {
                return;
            }
            let right = child + 1;
            if right < size && self.is_before(levels, self.heap[start + right], self.heap[start + child]) {
                child = right;
            }
            if !self.is_before(levels, self.heap[start + child], self.heap[start + within]) {
                return;
            }
            self.swap(start + child, start + within);
            within = child;
        }
    }

    fn rise(&mut self, levels: &Levels, group: &Group, mut within: usize) -> usize {
        let start = group.range().start;
        while within > 0 {
            let parent = (within - 1) / 2;
            if !self.is_before(levels, self.heap[start + within], self.heap[start + parent]) {
                break;
            }
            self.swap(start + within, start + parent);
            within = parent;
        }
        within
    }

    fn sink_group(&mut self, levels: &Levels, mut at: usize) {
        let size = self.groups.len();
        loop {
            let mut child = 2 * at + 1;
            if child >= size {
                return;
            }
            let right = child + 1;
            if right < size && self.is_group_before(levels, self.groups[right], self.groups[child]) {
                child = right;
            }
            if !self.is_group_before(levels, self.groups[child], self.groups[at]) {
                return;
            }
            self.swap_groups(child, at);
            at = child;
        }
    }

    fn rise_group(&mut self, levels: &Levels, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.is_group_before(levels, self.groups[at], self.groups[parent]) {
                break;
            }
            self.swap_groups(at, parent);
            at = parent;
        }
        at
    }

    fn open_key(&self, levels: &Levels, position: usize) -> f64 {
        let fits = levels.room[position] >= self.least;
        if fits {
            levels.marginal(position, self.step)
        } else {
            f64::INFINITY
        }
    }
}
