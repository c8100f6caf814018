//! On which target the next stripe costs least, kept from file to file while the loads of a view change.

use super::tree::Tree;
use super::view::{Change, Seen};
use super::{AllocationError, View};

/// Number in place of a position, for targets that take no stripes.
const NONE: u32 = u32::MAX;

/// The used targets of a view for stripes of one size: chooses as a fresh [`super::levels::Frontier`] does, in time that
/// grows with the logarithm of their number.
///
/// A position is a used target; those of one server, a group, are side by side. In every group all but the cheapest
/// positions cost infinitely much in the tree: it is not their turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Standings {
    /// Bytes of a stripe.
    step: f64,
    seen: Option<Seen>,
    positions: Vec<Position>,
    /// The cost of a stripe at each position alone; infinite where none fits or the position is taken.
    key: Vec<f64>,
    /// Number of the position of each index into the view.
    position_of: Vec<u32>,
    groups: Vec<Group>,
    /// Number of the group of each server of the view.
    group_of_server: Vec<u32>,
    /// Groups that are not in the tree as they are.
    unsettled: Vec<u32>,
    /// Indices into the view of targets that stripes were taken of since it was looked at.
    taken: Vec<u32>,
    /// The costs, by place in the order in which equals take turns.
    tree: Tree,
    /// Index into the view of each place in that order.
    target_at: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    group: u32,
    /// In the order in which equals take turns.
    place: u32,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    end: u32,
    /// Index into the view's servers.
    server: u32,
    load: f64,
    /// One over its speed; 0 where its load costs nothing.
    slope: f64,
    is_unsettled: bool,
}

impl Standings {
    /// For stripes of `step` bytes.
    pub(super) fn new(step: f64) -> Standings {
        Standings { step, ..Standings::default() }
    }

    /// Bytes of a stripe.
    pub(super) fn step(&self) -> f64 {
        self.step
    }

    /// Number of targets that stripes may be placed on.
    pub(super) fn used(&self) -> usize {
        self.positions.len()
    }

    /// Adopts the changes of `view`, or all of it.
    pub(super) fn follow(&mut self, view: &View) {
        match self.seen.as_ref().and_then(|seen| view.changes_since(seen)) {
            Some(changes) => self.update(view, changes),
            None => self.build(view),
        }
        view.mark(&mut self.seen);
    }

    /// Appends the targets of a file of so many stripes, each the cheapest at its turn.
    ///
    /// Equals take turns from place `rotation` on. A taken stripe counts as placed once the view has it.
    ///
    /// # Errors
    /// Where not all fit; `targets` are left as they were.
    pub(super) fn take(
        &mut self,
        stripes: u16,
        rotation: u32,
        targets: &mut Vec<u32>,
    ) -> Result<(), AllocationError> {
        let before = targets.len();
        let turn = rotation.checked_rem(self.target_at.len() as u32).unwrap_or(0);
        for placed in 0..stripes {
            let Some(place) = self.tree.least_from(turn as usize) else {
                targets.truncate(before);
                let (missing, stripes) = (u64::from(stripes - placed), u64::from(stripes));
                return Err(AllocationError::DoesNotFit { missing, stripes });
            };
            let target = self.target_at[place];
            targets.push(target);
            self.taken.push(target);
            let position = self.position_of[target as usize] as usize;
            let group = self.positions[position].group as usize;
            self.groups[group].load += self.step;
            self.key[position] = f64::INFINITY;
            self.settle(position);
        }
        Ok(())
    }

    fn build(&mut self, view: &View) {
        let total = view.targets().len();
        self.positions.clear();
        self.key.clear();
        self.groups.clear();
        self.unsettled.clear();
        self.taken.clear();
        refill(&mut self.position_of, total);
        refill(&mut self.target_at, total);
        refill(&mut self.group_of_server, view.servers().len());
        for &index in view.by_server() {
            let target = index as usize;
            if !view.is_used(target) {
                continue;
            }
            let server = view.server_of(target);
            let number = self.positions.len() as u32;
            if self.group_of_server[server] == NONE {
                self.group_of_server[server] = self.groups.len() as u32;
                let state = &view.servers()[server];
                let (load, slope) = (state.load_bytes, 1.0 / state.speed);
                let (server, is_unsettled) = (server as u32, false);
                self.groups.push(Group { first: number, end: number, server, load, slope, is_unsettled });
            }
            let group = self.groups.len() - 1;
            self.groups[group].end += 1;
            self.position_of[target] = number;
            self.target_at[view.rank(target) as usize] = index;
            self.positions.push(Position { group: group as u32, place: view.rank(target) });
            self.key.push(self.open_key(view, target));
        }
        let mut tree = std::mem::take(&mut self.tree);
        let places = self.groups.iter().flat_map(|group| self.costs(group));
        tree.fill(total, places);
        self.tree = tree;
    }

    fn update(&mut self, view: &View, changes: &[Change]) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.drain(..).for_each(|target| self.reopen(view, target));
        self.taken = taken;
        for &change in changes {
            match change {
                Change::Target(target) => self.reopen(view, target),
                Change::Server(server) => self.unsettle(self.group_of_server[server as usize]),
            }
        }
        while let Some(group) = self.unsettled.pop() {
            let group = &mut self.groups[group as usize];
            group.is_unsettled = false;
            group.load = view.servers()[group.server as usize].load_bytes;
            let first = group.first as usize;
            self.settle(first);
        }
    }

    /// Adopts the state of a target in the view.
    fn reopen(&mut self, view: &View, target: u32) {
        let target = target as usize;
        // The bytes of an unused target are work of its server all the same.
        self.unsettle(self.group_of_server[view.server_of(target)]);
        let position = self.position_of[target];
        if position != NONE {
            self.key[position as usize] = self.open_key(view, target);
            if self.groups.len() == 1 {
                self.settle(position as usize);
            }
        }
    }

    fn unsettle(&mut self, number: u32) {
        if let Some(group) = self.groups.get_mut(number as usize).filter(|group| !group.is_unsettled) {
            group.is_unsettled = true;
            self.unsettled.push(number);
        }
    }

    /// Enters the present cost of a changed position's group into the tree.
    fn settle(&mut self, position: usize) {
        let Position { group, place } = self.positions[position];
        if self.groups.len() == 1 {
            self.tree.set(place as usize, self.key[position]);
            return;
        }
        let group = self.groups[group as usize];
        let mut tree = std::mem::take(&mut self.tree);
        self.costs(&group).for_each(|(place, cost)| tree.set(place, cost));
        self.tree = tree;
    }

    /// Places of a group, and the cost that the tree has for each.
    fn costs(&self, group: &Group) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = group.first as usize..group.end as usize;
        let least = self.key[range.clone()].iter().copied().fold(f64::INFINITY, f64::min);
        let cost = least + (2.0 * group.load + self.step) * group.slope;
        // One group needs no comparison with others: the cost of a position is its cost there.
        let is_one = self.groups.len() == 1;
        range.map(move |position| {
            let key = self.key[position];
            let cost = if is_one {
                key
            } else if key == least {
                cost
            } else {
                f64::INFINITY
            };
            (self.positions[position].place as usize, cost)
        })
    }

    fn open_key(&self, view: &View, target: usize) -> f64 {
        let state = &view.targets()[target];
        if state.free_bytes as f64 >= self.step {
            (2.0 * state.load_bytes + self.step) / state.speed
        } else {
            f64::INFINITY
        }
    }
}

fn refill(numbers: &mut Vec<u32>, length: usize) {
    numbers.clear();
    numbers.resize(length, NONE);
}

#[cfg(test)]
mod tests {
    use super::super::levels::{Frontier, Levels};
    use super::super::{ServerState, TargetState};
    use super::*;
    use crate::{ServerId, TargetId};
    use proptest::prelude::*;

    const STEP: u64 = 10;

    /// A change of a view between two files, in numbers that are taken modulo the size of the view.
    #[derive(Clone, Debug)]
    enum Event {
        Place(usize, u64),
        Load(usize, f64),
        Room(usize, u64),
        Speed(usize, f64),
        ServerLoad(usize, f64),
        ServerSpeed(usize, f64),
        Everything(f64),
    }

    fn event() -> impl Strategy<Value = Event> {
        let (number, load) = (0_usize..60, prop_oneof![Just(0.0), Just(10.0), Just(25.0), 0.0..60.0]);
        let speed = prop_oneof![Just(0.0), Just(1.0), Just(2.0), 0.1..3.0];
        prop_oneof![
            6 => (number.clone(), prop_oneof![Just(STEP), 0..30_u64]).prop_map(|(n, bytes)| Event::Place(n, bytes)),
            3 => (number.clone(), load.clone()).prop_map(|(n, load)| Event::Load(n, load)),
            1 => (number.clone(), 0..30_u64).prop_map(|(n, room)| Event::Room(n, room)),
            1 => (number.clone(), speed.clone()).prop_map(|(n, speed)| Event::Speed(n, speed)),
            2 => (number.clone(), load.clone()).prop_map(|(n, load)| Event::ServerLoad(n, load)),
            1 => (number, prop_oneof![Just(f64::INFINITY), speed]).prop_map(|(n, speed)| Event::ServerSpeed(n, speed)),
            1 => load.prop_map(Event::Everything),
        ]
    }

    fn happen(view: &mut View, event: &Event) {
        let (targets, servers) = (view.targets().len(), view.servers().len());
        let update = |view: &mut View, number: usize, change: &dyn Fn(&mut TargetState)| {
            let mut state = view.targets()[number % targets];
            change(&mut state);
            view.update_target(number % targets, state.speed, state.load_bytes, state.free_bytes).unwrap();
        };
        match *event {
            Event::Place(number, bytes) => view.place(number % targets, bytes),
            Event::Load(number, load) => update(view, number, &|state| state.load_bytes = load),
            Event::Room(number, room) => update(view, number, &|state| state.free_bytes = room),
            Event::Speed(number, speed) => update(view, number, &|state| state.speed = speed),
            Event::ServerLoad(number, load) => {
                let speed = view.servers()[number % servers].speed;
                view.update_server(number % servers, speed, load).unwrap();
            }
            Event::ServerSpeed(number, speed) => {
                let load = view.servers()[number % servers].load_bytes;
                view.update_server(number % servers, speed, load).unwrap();
            }
            Event::Everything(load) => {
                (0..targets).for_each(|target| update(view, target, &|state| state.load_bytes = load));
            }
        }
    }

    fn fresh(view: &View, stripes: u16, rotation: u32) -> Option<Vec<u32>> {
        let (mut levels, mut frontier, mut held) = (Levels::default(), Frontier::default(), Vec::new());
        levels.load_from(view, 1, rotation);
        frontier.build(&levels, STEP as f64, STEP as f64);
        let mut next = || frontier.hold(&mut levels, STEP as f64, &mut held);
        let positions: Option<Vec<usize>> = (0..stripes).map(|_| next()).collect();
        Some(positions?.into_iter().map(|position| levels.index[position]).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn kept_standings_choose_as_a_fresh_frontier(
            layout in prop::collection::vec((0_u16..5, 0_u64..200), 1..25),
            speeds in prop::collection::vec(prop_oneof![Just(1.0), Just(5.0), Just(f64::INFINITY)], 0..5),
            steps in prop::collection::vec((prop::collection::vec(event(), 0..12), 1_u16..6, any::<u32>(), any::<bool>()), 1..30),
        ) {
            let state = |(index, &(server, room)): (usize, &(u16, u64))| TargetState {
                target: TargetId { server: ServerId(server), index: index as u16 },
                speed: 1.0,
                load_bytes: 0.0,
                free_bytes: room,
            };
            let servers = speeds.iter().enumerate();
            let servers = servers.map(|(server, &speed)| ServerState { server: ServerId(server as u16), speed, load_bytes: 0.0 });
            let mut view = View::new(layout.iter().enumerate().map(state).collect(), &servers.collect::<Vec<_>>()).unwrap();
            let mut standings = Standings::new(STEP as f64);
            for (events, stripes, rotation, is_placed) in steps {
                events.iter().for_each(|event| happen(&mut view, event));
                standings.follow(&view);
                prop_assert_eq!(standings.used(), view.used());
                let mut targets = Vec::new();
                 let taken = standings.take(stripes, rotation, &mut targets);
                prop_assert_eq!(taken.ok().map(|()| targets.clone()), fresh(&view, stripes, rotation));
                if is_placed {
                    targets.iter().for_each(|&target| view.place(target as usize, STEP));
                }
            }
        }
    }
}
