//! The targets of the store as a home server sees them: rebuilt once an exchange, kept up to date by every file made.

use super::unheard::{level, Unheard};
use crate::{busy_factors, queue_excess, ServerId, ServerState, TargetId, TargetState, View};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;

/// Half-life of a placed byte, in seconds: files that are made within some minutes are used together.
const HALF_LIFE_SECONDS: f64 = 180.0;
/// Age, in half-lives, past which nothing is left of a placed byte.
const HALF_LIVES_MAX: f64 = 20.0;
/// A target with less room than this part of its capacity, or than one stripe of the store's default size, is full.
const FULL_PART: u64 = 128;
/// A target with less than this part of the mean free space gets less in proportion.
const ROOM_USUAL: f64 = 0.8;
/// Least part that remains of the speed of a target with hardly any room.
const ROOM_PART_MIN: f64 = 0.01;
/// A shorter queue says nothing of a target: servers of a busy machine wait as long for a processor, and their requests
/// wait with them.
const QUEUE_SECONDS_MIN: f64 = 0.1;
/// A target on which first bytes are late counts as one with so many more stripes of the store's default size.
const LATE_STRIPES: f64 = 64.0;

/// Loads that differ by less than this part of a stripe of the store's default size are equal. Placed bytes fade by whole
/// seconds of a file's age, and what rounding leaves of removed files would send all homes to the same target.
const LOAD_GRAIN: f64 = 1.0 / 16.0;

/// The state of a target's server, by how long ago it reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It reports.
    Alive,
    /// It was silent for so long that only files whose layouts name the target are put there. It may only be held up.
    Late,
    /// It was silent for longer, or was never heard of.
    Dead,
}

/// The latest report of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Capacity.
    pub capacity_bytes: u64,
    /// Bytes that still fit.
    pub free_bytes: u64,
    /// The speed of the target beside the store's usual target.
    pub speed: f64,
    /// Whether the target achieves under half of its expected speed.
    pub is_slow: bool,
    /// The state of its server.
    pub presence: Presence,
    /// Time that its queue takes, in seconds.
    pub backlog_seconds: f64,
    /// Bytes it usually does in a second.
    pub bytes_per_second: f64,
    /// The bytes that other servers placed there lately.
    pub placed_bytes: f64,
    /// The use of its server's machine, from 0 to 1; absent where it is not known.
    pub busy: Option<f64>,
}

impl Figures {
    /// Figures of a target without a report: as good as any.
    pub const UNKNOWN: Figures = Figures {
        capacity_bytes: u64::MAX,
        free_bytes: u64::MAX,
        speed: 1.0,
        is_slow: false,
        presence: Presence::Alive,
        backlog_seconds: 0.0,
        bytes_per_second: 0.0,
        placed_bytes: 0.0,
        busy: None,
    };
}

/// The reason why a target gets no stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Full,
    Late,
    Dead,
    /// It is about to retire, or has.
    Closed,
}

/// The targets, by server and number.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) targets: Vec<TargetId>,
    /// Index of the first target of each server, by its number.
    first: Vec<u32>,
    /// All targets, a target of each server in turn.
    by_turn: Vec<u32>,
    pub(crate) figures: Vec<Figures>,
    /// The bytes that this server placed there lately.
    placed: Vec<f64>,
    /// Bytes by which a target that came back or joined counts as loaded, so that it is owed nothing.
    forgiven: Vec<f64>,
    /// The part of its speed that its server's machine leaves it.
    left: Vec<f64>,
    /// The part of each target's queue that stands out, in seconds.
    waits_seconds: Vec<f64>,
    /// Files whose first bytes are late, by target.
    late: Vec<u32>,
    /// Speed and load of each target as of the last exchange. Those that are not to be used have no speed.
    heard: Vec<(f64, f64)>,
    /// Speed of each server of the view.
    server_speeds: Vec<f64>,
    /// Sum of the speeds of `heard`.
    speeds: f64,
    /// The bytes that this server placed on each target since.
    since: Vec<f64>,
    /// The bytes of `heard` on each target that went since, with files of this server.
    gone: Vec<f64>,
    unheard: Unheard,
    /// For the allocator.
    view: RefCell<View>,
    /// The filling of the view; none while the view does not have the figures of the last exchange.
    filling: Cell<Option<Filling>>,
    /// The targets that take stripes; slow targets are missing where the allocator avoids them.
    pub(crate) open: Vec<u32>,
    /// Slow targets that would take stripes, the fastest first.
    pub(crate) slow: Vec<u32>,
    pub(crate) full: Vec<u32>,
    pub(crate) dead: Vec<u32>,
    pub(crate) mean_load_bytes: f64,
    is_open: Vec<bool>,
    /// Targets that get no stripes whatever their figures, because they retire.
    is_closed: Vec<bool>,
    is_balanced: bool,
    full_bytes: u64,
    seconds: f64,
}

impl Cluster {
    /// `targets` of a store whose default stripe has `stripe_bytes`.
    pub(crate) fn new(targets: &[TargetId], stripe_bytes: u64) -> Cluster {
        let mut targets = targets.to_vec();
        targets.sort_unstable();
        targets.dedup();
        let mut speeds: BTreeMap<ServerId, f64> = BTreeMap::new();
        for target in &targets {
            *speeds.entry(target.server).or_default() += 1.0;
        }
        let servers: Vec<ServerState> = speeds
            .into_iter()
            .map(|(server, speed)| ServerState { server, speed, load_bytes: 0.0 })
            .collect();
        let state =
            |&target: &TargetId| TargetState { target, speed: 1.0, load_bytes: 0.0, free_bytes: u64::MAX };
        let mut view = View::new(targets.iter().map(state).collect(), &servers)
            .unwrap_or_else(|error| unreachable!("each target and server is named once: {error}"));
        view.take_turns_by_sections();
        let highest = targets.last().map_or(0, |last| last.server.0);
        let first = |server| targets.partition_point(|target| target.server.0 < server) as u32;
        let mut by_turn: Vec<u32> = (0..targets.len() as u32).collect();
        by_turn.sort_by_key(|&index| targets[index as usize].index);
        let mut cluster = Cluster {
            first: (0..=highest).map(first).collect(),
            by_turn,
            figures: vec![Figures::UNKNOWN; targets.len()],
            placed: vec![0.0; targets.len()],
            forgiven: vec![0.0; targets.len()],
            left: vec![1.0; targets.len()],
            waits_seconds: vec![0.0; targets.len()],
            late: vec![0; targets.len()],
            open: Vec::new(),
            slow: Vec::new(),
            full: Vec::new(),
            dead: Vec::new(),
            heard: Vec::new(),
            server_speeds: Vec::new(),
            speeds: 0.0,
            since: vec![0.0; targets.len()],
            gone: vec![0.0; targets.len()],
            unheard: Unheard::default(),
            view: RefCell::new(view),
            filling: Cell::new(None),
            is_open: vec![true; targets.len()],
            is_closed: vec![false; targets.len()],
            is_balanced: true,
            mean_load_bytes: 0.0,
            full_bytes: stripe_bytes,
            seconds: 0.0,
            targets,
        };
        cluster.sort_targets(true);
        cluster
    }

    /// Takes another target in. It is owed nothing: else all new files would go there at once.
    pub(crate) fn add(&mut self, target: TargetId) {
        if self.targets.contains(&target) {
            return;
        }
        let mut targets = self.targets.clone();
        targets.push(target);
        let mut grown = Cluster::new(&targets, self.full_bytes);
        let mean = self.mean_counted(|_| true);
        for index in 0..grown.targets.len() {
            match self.find(grown.targets[index]) {
                Some(old) => {
                    grown.figures[index] = self.figures[old];
                    grown.placed[index] = self.placed[old];
                    grown.forgiven[index] = self.forgiven[old];
                    grown.left[index] = self.left[old];
                    grown.is_closed[index] = self.is_closed[old];
                    grown.is_open[index] = self.is_open[old];
                }
                None => grown.forgiven[index] = mean,
            }
        }
        grown.unheard = self.unheard.clone();
        grown.seconds = self.seconds;
        grown.sort_targets(self.is_balanced);
        *self = grown;
    }

    /// Gives a target no stripes from now on, or gives it stripes again.
    pub(crate) fn close(&mut self, target: TargetId, is_closed: bool) {
        if let Some(index) = self.find(target) {
            self.is_closed[index] = is_closed;
            self.sort_targets(self.is_balanced);
        }
    }

    /// Targets that are not about to retire.
    pub(crate) fn count(&self) -> usize {
        self.is_closed.iter().filter(|is_closed| !**is_closed).count()
    }

    /// Adopts the figures of every target at `seconds` since the server started; none leaves them as before.
    pub(crate) fn refresh(
        &mut self,
        seconds: f64,
        is_balanced: bool,
        heard: impl Fn(TargetId) -> Option<Figures>,
    ) {
        let left = part_left(seconds - self.seconds);
        self.seconds = seconds;
        for (index, &target) in self.targets.iter().enumerate() {
            self.placed[index] *= left;
            self.forgiven[index] *= left;
            self.figures[index] = heard(target).unwrap_or(self.figures[index]);
        }
        self.limit_forgiven();
        let placed = (self.placed_by_all(), left);
        self.unheard.hear(seconds, placed, self.grain_bytes());
        self.sort_targets(is_balanced);
    }

    /// An exchange at `seconds` tells the same as the one before.
    pub(crate) fn hear_nothing(&mut self, seconds: f64) {
        self.unheard.hear_nothing(seconds);
    }

    /// Sorts the targets by their figures into those that take stripes and slow, full and dead ones. A balanced allocator gives slow
    /// targets no stripes.
    pub(crate) fn sort_targets(&mut self, is_balanced: bool) {
        self.is_balanced = is_balanced;
        let mut returned = Vec::new();
        for index in 0..self.targets.len() {
            let was_open = self.is_open[index];
            self.is_open[index] =
                self.unfit(index).is_none() && !(is_balanced && self.figures[index].is_slow);
            if self.is_open[index] && !was_open {
                returned.push(index);
            }
        }
        let (mut slow, mut full, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        self.open.clear();
        for index in 0..self.targets.len() {
            let class = match self.unfit(index) {
                Some(Unfit::Full) => &mut full,
                Some(Unfit::Late | Unfit::Dead) => &mut dead,
                Some(Unfit::Closed) => continue,
                None if self.is_open[index] => &mut self.open,
                None => &mut slow,
            };
            class.push(index as u32);
        }
        let speed = |index: u32| self.figures[index as usize].speed;
        slow.sort_by(|&one, &other| speed(other).total_cmp(&speed(one)));
        (self.slow, self.full, self.dead) = (slow, full, dead);
        let before = self.placed_by_all();
        self.settle_busy();
        self.settle_returned(&returned);
        self.unheard.settle(self.placed_by_all() - before);
        self.take_figures();
    }

    fn placed_by_all(&self) -> f64 {
        (0..self.placed.len()).map(|index| self.counted(index) + self.figures[index].placed_bytes).sum()
    }

    /// The bytes of this server that count on the target of this index.
    fn counted(&self, index: usize) -> f64 {
        self.placed[index] + self.forgiven[index]
    }

    /// The mean of [`Cluster::counted`] over open targets; 0 where there are none.
    fn mean_counted(&self, which: impl Fn(usize) -> bool) -> f64 {
        let open = self.open.iter().map(|&index| index as usize).filter(|&index| which(index));
        let counted: Vec<f64> = open.map(|index| self.counted(index)).collect();
        counted.iter().sum::<f64>() / counted.len().max(1) as f64
    }

    /// Where files of the other targets went, less is needed for a target to be owed nothing.
    fn limit_forgiven(&mut self) {
        let mean = self.mean_counted(|index| self.forgiven[index] == 0.0);
        for (forgiven, placed) in self.forgiven.iter_mut().zip(&self.placed) {
            *forgiven = forgiven.min((mean - placed).max(0.0));
        }
    }

    /// A target that comes back is owed nothing: else all new files would go there at once.
    fn settle_returned(&mut self, returned: &[usize]) {
        let mean = self.mean_counted(|index| !returned.contains(&index));
        for &index in returned {
            self.forgiven[index] = self.forgiven[index].max(mean - self.placed[index]);
        }
    }

    /// Takes over the part that each machine leaves. Placed bytes count by the time that they take there. So a target
    /// that has more left again is owed nothing either, and a target that has less is not shunned for the bytes that it
    /// has.
    fn settle_busy(&mut self) {
        let view = self.view.get_mut();
        let mut busy = vec![None; view.servers().len()];
        for (index, figures) in self.figures.iter().enumerate() {
            busy[view.server_of(index)] = figures.busy;
        }
        let factors = busy_factors(&busy);
        for (index, left) in self.left.iter_mut().enumerate() {
            let before = std::mem::replace(left, factors[view.server_of(index)]);
            if *left != before {
                self.placed[index] *= *left / before;
                self.forgiven[index] *= *left / before;
            }
        }
    }

    /// A stripe of `bytes` was placed on the target of this index.
    pub(crate) fn place(&mut self, index: usize, bytes: f64) {
        self.placed[index] += bytes;
        // Lustre's allocator knows nothing of future writes.
        if self.is_balanced {
            self.since[index] += bytes;
            self.view.get_mut().place(index, bytes as u64);
        }
    }

    /// First bytes are late on the target of this index.
    pub(crate) fn hold(&mut self, index: usize) {
        self.late[index] += 1;
        if self.late[index] == 1 {
            add_target_load(self.view.get_mut(), index, LATE_STRIPES * self.full_bytes as f64);
        }
    }

    /// Bytes that were late on the target of this index came, or are not waited for any more.
    pub(crate) fn release(&mut self, index: usize) {
        self.late[index] = self.late[index].saturating_sub(1);
        if self.late[index] == 0 {
            add_target_load(self.view.get_mut(), index, -LATE_STRIPES * self.full_bytes as f64);
        }
    }

    /// No bytes are late any more.
    pub(crate) fn release_all(&mut self) {
        self.late.fill(0);
    }

    /// A file with a stripe of `bytes` on a target, made `age_seconds` ago, is gone. Answers how many of these bytes counted.
    pub(crate) fn remove(&mut self, index: usize, bytes: f64, age_seconds: f64) -> f64 {
        if age_seconds >= HALF_LIVES_MAX * HALF_LIFE_SECONDS {
            return 0.0;
        }
        let gone = self.placed[index].min(bytes * part_left(age_seconds));
        self.placed[index] -= gone;
        if self.is_balanced {
            self.unload(index, gone);
        }
        gone
    }

    /// Takes `bytes` off the load of the target of this index and of its server: those placed since the last exchange, and the
    /// rest off the figures of that exchange.
    fn unload(&mut self, index: usize, bytes: f64) {
        let of_since = self.since[index].min(bytes);
        self.since[index] -= of_since;
        self.gone[index] += bytes - of_since;
        let server = self.view.get_mut().server_of(index);
        match self.filling.get() {
            // The level that is filled up to is a lower one now.
            Some(filling) if filling.expected > 0.0 => self.filling.set(None),
            Some(filling) => {
                let view = &mut self.view.borrow_mut();
                self.fill_target(view, index, filling);
                self.fill_server(view, server, filling);
            }
            None => {}
        }
    }

    /// The reason why the target of this index gets no stripes, if there is one.
    pub(crate) fn unfit(&self, index: usize) -> Option<Unfit> {
        let figures = &self.figures[index];
        let is_full = figures.free_bytes < self.full_bytes.min(figures.capacity_bytes / FULL_PART);
        match figures.presence {
            _ if self.is_closed[index] => Some(Unfit::Closed),
            Presence::Dead => Some(Unfit::Dead),
            _ if is_full => Some(Unfit::Full),
            Presence::Late => Some(Unfit::Late),
            Presence::Alive => None,
        }
    }

    pub(crate) fn find(&self, target: TargetId) -> Option<usize> {
        // Every object of a file on a target is load there.
        let target =
            if target.slot() > 0 && self.by_name(target).is_none() { target.device() } else { target };
        self.by_name(target)
    }

    fn by_name(&self, target: TargetId) -> Option<usize> {
        // Servers number their targets from 0 on.
        let index = *self.first.get(usize::from(target.server.0))? as usize + usize::from(target.index);
        let is_found = self.targets.get(index) == Some(&target);
        is_found.then_some(index).or_else(|| self.targets.binary_search(&target).ok())
    }

    /// Index of the first target of a server: the number of targets of the servers before.
    pub(crate) fn first_of(&self, server: ServerId) -> usize {
        self.first.get(usize::from(server.0)).map_or(self.targets.len(), |&first| first as usize)
    }

    /// The turn at which a server begins: that of its first target.
    pub(crate) fn first_turn_of(&self, server: ServerId) -> u32 {
        let first = self.first_of(server);
        if first < self.targets.len() {
            self.view.borrow().rank(first)
        } else {
            u32::from(server.0)
        }
    }

    /// The targets of a server that take stripes, but for those whose queue is far above the others'.
    pub(crate) fn home(&self, server: ServerId) -> impl Iterator<Item = u32> + '_ {
        self.of_server(server).map(|index| index as u32).filter(move |&index| self.is_home(server, index))
    }

    /// Whether the target of this index is among [`Cluster::home`] of the server.
    pub(crate) fn is_home(&self, server: ServerId, index: u32) -> bool {
        let index = index as usize;
        self.targets[index].server == server && self.is_open[index] && !self.is_busy(index)
    }

    /// The other targets that take stripes, a target of each server in turn.
    pub(crate) fn others(&self, server: ServerId) -> impl Iterator<Item = u32> + '_ {
        let is_other = move |&index: &u32| self.is_open[index as usize] && !self.is_home(server, index);
        self.by_turn.iter().copied().filter(is_other)
    }

    /// The bytes of this server that count on each target: those that it placed there lately, and those that are forgiven.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (TargetId, f64)> + '_ {
        self.targets.iter().enumerate().map(|(index, &target)| (target, self.counted(index)))
    }

    /// Whether the queue of the target of this index is far above the others'.
    fn is_busy(&self, index: usize) -> bool {
        self.waits_seconds[index] > 0.0
    }

    /// The speed of the target of this index beside the store's usual one, on its machine as it is.
    pub(crate) fn speed(&self, index: usize) -> f64 {
        self.figures[index].speed * self.left[index]
    }

    /// The queues of open targets; queues of the others are no measure for these.
    fn compare_queues(&mut self) {
        let backlog = |&index: &u32| self.figures[index as usize].backlog_seconds;
        let backlogs: Vec<f64> = self.open.iter().map(backlog).collect();
        let excess = queue_excess(&backlogs, QUEUE_SECONDS_MIN);
        self.waits_seconds.fill(0.0);
        for (&index, excess) in self.open.iter().zip(excess) {
            self.waits_seconds[index as usize] = excess;
        }
    }

    /// The speed and the load of each target and server follow from the figures that were heard.
    fn take_figures(&mut self) {
        self.compare_queues();
        let free = |index: usize| {
            let Figures { free_bytes, capacity_bytes, .. } = self.figures[index];
            free_bytes as f64 / capacity_bytes.max(1) as f64
        };
        let mean_free =
            self.open.iter().map(|&index| free(index as usize)).sum::<f64>() / self.open.len().max(1) as f64;
        let state = |index: usize| {
            let figures = &self.figures[index];
            let waits = self.waits_seconds[index] * figures.bytes_per_second;
            let load = self.counted(index) + figures.placed_bytes + waits;
            let room = (free(index) / (ROOM_USUAL * mean_free)).clamp(ROOM_PART_MIN, 1.0);
            let room = if room.is_nan() { 1.0 } else { room };
            let speed = self.speed(index).max(f64::MIN_POSITIVE) * room;
            (if self.is_open[index] { speed } else { 0.0 }, load)
        };
        self.heard = (0..self.targets.len()).map(state).collect();
        self.speeds = self.heard.iter().map(|(speed, _)| speed).sum();
        let view = self.view.get_mut();
        self.server_speeds = vec![0.0; view.servers().len()];
        let mut sum = 0.0;
        for (index, &(speed, load)) in self.heard.iter().enumerate().filter(|(_, (speed, _))| *speed > 0.0) {
            self.server_speeds[view.server_of(index)] += speed;
            sum += load;
        }
        self.mean_load_bytes = sum / self.open.len().max(1) as f64;
        self.since.fill(0.0);
        self.gone.fill(0.0);
        self.filling.set(None);
    }

    /// The exchanges that were heard of.
    pub(crate) fn unheard(&self) -> &Unheard {
        &self.unheard
    }

    /// The view for the files of `home`, which expects the others to have placed so many bytes by now.
    pub(crate) fn view(&self, home: ServerId, expected_bytes: f64) -> RefMut<'_, View> {
        let mut view = self.view.borrow_mut();
        // Lustre's allocator knows nothing of the other servers' files.
        let is_expected = self.is_balanced && expected_bytes > self.grain_bytes();
        let expected = if is_expected { expected_bytes / self.part_of_others(home) } else { 0.0 };
        match self.filling.get().filter(|filling| filling.expected == expected) {
            Some(filling) if filling.home == home => {}
            Some(before) => {
                let filling = Filling { home, ..before };
                self.filling.set(Some(filling));
                [before.home, home].into_iter().for_each(|home| self.fill_home(&mut view, home, filling));
            }
            None => {
                let of_targets = level(&self.left_of_targets(), expected);
                let of_servers = level(&self.left_of_servers(&view), expected);
                let filling = Filling { home, expected, of_targets, of_servers };
                self.filling.set(Some(filling));
                (0..self.heard.len()).for_each(|index| self.fill_target(&mut view, index, filling));
                (0..self.server_speeds.len()).for_each(|server| self.fill_server(&mut view, server, filling));
            }
        }
        view
    }

    /// The part of the speed of all targets that those of other servers have; 1 where it is 0.
    fn part_of_others(&self, home: ServerId) -> f64 {
        let speed = |index: usize| self.heard[index].0;
        let own: f64 = self.of_server(home).map(speed).sum();
        let others = 1.0 - own / self.speeds;
        if others > 0.0 {
            others
        } else {
            1.0
        }
    }

    /// Indices of the targets of a server.
    fn of_server(&self, server: ServerId) -> impl Iterator<Item = usize> + '_ {
        (self.first_of(server)..self.targets.len())
            .take_while(move |&index| self.targets[index].server == server)
    }

    /// The moment of the last exchange.
    pub(crate) fn heard_seconds(&self) -> f64 {
        self.seconds
    }

    /// Does both of the next for a server and its targets.
    fn fill_home(&self, view: &mut View, home: ServerId, filling: Filling) {
        self.of_server(home).for_each(|index| self.fill_target(view, index, filling));
        if let Some(first) = self.of_server(home).next() {
            self.fill_server(view, view.server_of(first), filling);
        }
    }

    /// Gives a target of the view the figures of the last exchange, the expected bytes of other servers, and those placed here
    /// since.
    fn fill_target(&self, view: &mut View, index: usize, filling: Filling) {
        let (speed, _) = self.heard[index];
        // The size of a new file is not known: any target that is not full has room.
        let free = if self.is_balanced { u64::MAX } else { self.figures[index].free_bytes };
        let late = if self.late[index] > 0 { LATE_STRIPES * self.full_bytes as f64 } else { 0.0 };
        let level = filling.of(self.targets[index].server, filling.of_targets);
        let load = filled(self.left_of(index), level, speed) + late + self.since[index];
        let _ = view.update_target(index, speed, load, free);
    }

    /// The same for a server of the view.
    fn fill_server(&self, view: &mut View, server: usize, filling: Filling) {
        let speed = self.server_speeds[server];
        let id = view.servers()[server].server;
        let since: f64 = self.of_server(id).map(|index| self.since[index]).sum();
        let level = filling.of(id, filling.of_servers);
        let _ = view.update_server(server, speed, filled(self.left_of_server(id), level, speed) + since);
    }

    /// The load of a server: that of its targets in use.
    fn left_of_server(&self, server: ServerId) -> f64 {
        let used = self.of_server(server).filter(|&index| self.heard[index].0 > 0.0);
        used.map(|index| self.left_of(index)).sum()
    }

    /// Speed and load of each target, without what went since the last exchange.
    fn left_of_targets(&self) -> Vec<(f64, f64)> {
        (0..self.heard.len()).map(|index| (self.heard[index].0, self.left_of(index))).collect()
    }

    /// The same of each server of the view.
    fn left_of_servers(&self, view: &View) -> Vec<(f64, f64)> {
        let speeds = self.server_speeds.iter().zip(view.servers());
        speeds.map(|(&speed, state)| (speed, self.left_of_server(state.server))).collect()
    }

    fn grain_bytes(&self) -> f64 {
        (LOAD_GRAIN * self.full_bytes as f64).max(1.0)
    }

    /// The load of a target by the last exchange, without that of files that went since, in whole grains.
    fn left_of(&self, index: usize) -> f64 {
        let grain_bytes = self.grain_bytes();
        ((self.heard[index].1 - self.gone[index]) / grain_bytes).round() * grain_bytes
    }
}

/// The bytes that other servers are expected to have placed since the last exchange, and the load over speed up to which these bytes
/// fill targets and servers: all but those of the home that the view is for, because every home begins at its own.
#[derive(Clone, Copy, Debug)]
struct Filling {
    home: ServerId,
    expected: f64,
    of_targets: f64,
    of_servers: f64,
}

impl Filling {
    /// The part of a `level` that counts for a server and its targets.
    fn of(&self, server: ServerId, level: f64) -> f64 {
        if server == self.home {
            0.0
        } else {
            level
        }
    }
}

/// A load filled up to a level of load over speed, in whole bytes: the order in which stripes are added to these does not matter.
fn filled(load: f64, level: f64, speed: f64) -> f64 {
    load.max((level * speed).floor()).max(0.0)
}

/// The part of a placed byte that counts after so many seconds.
pub(crate) fn part_left(seconds: f64) -> f64 {
    0.5f64.powf(seconds.max(0.0) / HALF_LIFE_SECONDS)
}

/// The work of a target and of its server, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loads {
    pub(crate) target: f64,
    pub(crate) server: f64,
}

/// The work of the target of this index and of its server.
pub(crate) fn loads(view: &View, index: usize) -> Loads {
    let server = &view.servers()[view.server_of(index)];
    Loads { target: view.targets()[index].load_bytes, server: server.load_bytes }
}

/// Gives the target of this index and its server other work.
pub(crate) fn set_loads(view: &mut View, index: usize, loads: Loads) {
    let TargetState { speed, free_bytes, .. } = view.targets()[index];
    let _ = view.update_target(index, speed, loads.target, free_bytes);
    let number = view.server_of(index);
    let _ = view.update_server(number, view.servers()[number].speed, loads.server);
}

/// Adds load to a target and not to its server.
fn add_target_load(view: &mut View, index: usize, bytes: f64) {
    let Loads { target, server } = loads(view, index);
    set_loads(view, index, Loads { target: (target + bytes).max(0.0), server });
}
