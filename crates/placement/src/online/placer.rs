//! The choice of targets for files that are made, and the memory of choices.

use super::awaited::{Awaited, Turn};
use super::cluster::{loads, set_loads, Cluster, Figures, Loads, Unfit};
use super::company::Company;
use super::own::{AllocatorMaker, By, Own};
use super::record::{self, LeftOut, Record};
use super::refusal::Refusal;
use crate::{
    limits, Allocator, AllocatorName, Balanced, Component, ComponentSpecification, Demand, Layout,
    LayoutDefaults, LayoutSpecification, LustreStandard, Random, ServerId, SplitMix64, Stripes, TargetId,
    View, END_OF_FILE,
};
use avoidance::NewFile;
use std::borrow::Cow;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name in records and metrics of a choice that the client made.
const EXPLICIT: &str = "explicit";
/// Placed bytes below this are not worth a report.
const REPORTED_BYTES_MIN: f64 = 1.0;
/// A slow target that got nothing for so long gets one stripe, so that it is found well again: from each home server.
const PROBE_SECONDS: f64 = 60.0;

/// The targets of the store, as this server hands them out.
///
/// A placed file counts once [`Placer::placed`] is called; a choice that is not used leaves only the allocator's turn
/// changed.
#[derive(Clone, Debug)]
pub struct Placer {
    seat: Seat,
    defaults: LayoutDefaults,
    /// The request for files without one.
    usual: LayoutSpecification,
    by: By,
    cluster: Cluster,
    awaited: Awaited,
    /// Slow targets that are due for a stripe, and when each had the last one.
    probes: Vec<u32>,
    probed: BTreeMap<u32, f64>,
    seconds: f64,
    /// Unix time of the last file made.
    wall_seconds: i64,
    seed: u64,
    tally: RefCell<Tally>,
    /// Stripes given to each target, by its index, since the server started.
    given: Vec<u64>,
}

/// A new file's layout, and why it is as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The layout.
    pub layout: Layout,
    /// The reasons.
    pub record: Record,
}

/// Counts of placed and refused files since the server started.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Stripes by allocator.
    pub stripes: BTreeMap<Cow<'static, str>, u64>,
    /// Files that were not made, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Stripes by target.
    pub targets: BTreeMap<TargetId, u64>,
}

/// The server that a placer places files of, with the turn and the dice of its allocator.
#[derive(Clone, Debug)]
pub struct Seat {
    server: ServerId,
    chooser: RefCell<Chooser>,
    company: Company,
}

/// The allocator and its state from file to file.
#[derive(Clone, Debug)]
struct Chooser {
    allocator: Chosen,
    random: SplitMix64,
    /// The exchange after which it chose last. It begins its turn anew after another one, and before its first choice.
    heard_seconds: f64,
    /// Targets of the component at hand, by index.
    chosen: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Chosen {
    Balanced(Box<Balanced>),
    Lustre(Box<LustreStandard>),
    Random(Random),
    Own(Own),
}

impl Chooser {
    fn of(by: &By, seed: u64) -> Chooser {
        let allocator = match (&by.own, by.name) {
            (Some(maker), _) => Chosen::Own(Own::new(Arc::clone(maker), seed)),
            (None, AllocatorName::Balanced) => Chosen::Balanced(Box::default()),
            (None, AllocatorName::LustreStandard) => Chosen::Lustre(Box::default()),
            (None, AllocatorName::Random) => Chosen::Random(Random::default()),
        };
        Chooser { allocator, random: SplitMix64(seed), heard_seconds: f64::NEG_INFINITY, chosen: Vec::new() }
    }

    /// Exchanges the turns and the dice, and not the allocators' conclusions about a view.
    fn swap_turns(&mut self, other: &mut Chooser) {
        std::mem::swap(&mut self.random, &mut other.random);
        std::mem::swap(&mut self.heard_seconds, &mut other.heard_seconds);
        match (&mut self.allocator, &mut other.allocator) {
            (Chosen::Balanced(one), Chosen::Balanced(other)) => one.swap_turns(other),
            (one, other) => std::mem::swap(one, other),
        }
    }
}

impl Seat {
    fn new(server: ServerId, by: &By, seed: u64) -> Seat {
        Seat { server, chooser: RefCell::new(Chooser::of(by, seed)), company: Company::default() }
    }
}

impl Placer {
    /// For the files of `server`; every target is as good as any until [`Placer::refresh`].
    pub fn new(server: ServerId, targets: &[TargetId], defaults: LayoutDefaults) -> Placer {
        let seed = u64::from(server.0);
        let cluster = Cluster::new(targets, defaults.stripe_bytes);
        let by = By::named(AllocatorName::default());
        let mut placer = Placer {
            seat: Seat::new(server, &by, seed),
            defaults,
            usual: LayoutSpecification::striped(None, Stripes::Default),
            by,
            cluster,
            awaited: Awaited::default(),
            probes: Vec::new(),
            probed: BTreeMap::new(),
            seconds: 0.0,
            wall_seconds: 0,
            seed,
            tally: RefCell::default(),
            given: Vec::new(),
        };
        placer.given = vec![0; placer.cluster.targets.len()];
        placer
    }

    /// Begins the dice of the allocator anew. Without a call they follow from the server's number.
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.seat = self.new_seat(self.seat.server, seed);
    }

    /// A seat for files of `server`, by the allocator in use, with dice that begin at `seed`.
    pub fn new_seat(&self, server: ServerId, seed: u64) -> Seat {
        Seat::new(server, &self.by, seed)
    }

    /// Places files of another server from now on, whose seat is `seat`; afterwards `seat` is that of the server before. The
    /// figures and the placed bytes stay: both servers know the same of the store.
    pub fn change_seat(&mut self, seat: &mut Seat) {
        std::mem::swap(&mut self.seat.server, &mut seat.server);
        std::mem::swap(&mut self.seat.company, &mut seat.company);
        self.seat.company.hear(self.cluster.unheard());
        self.seat.chooser.get_mut().swap_turns(seat.chooser.get_mut());
    }

    /// The allocator in use, or in whose place one's own is.
    pub fn allocator(&self) -> AllocatorName {
        self.by.name
    }

    /// Chooses by another allocator from now on.
    pub fn set_allocator(&mut self, name: AllocatorName) {
        if name != self.by.name || self.by.own.is_some() {
            self.choose_by(By::named(name));
        }
    }

    /// Chooses by allocators of one's own from now on.
    pub fn set_own_allocator(&mut self, maker: Arc<dyn AllocatorMaker>) {
        self.choose_by(By { own: Some(maker), ..self.by });
    }

    fn choose_by(&mut self, by: By) {
        self.by = by;
        self.set_seed(self.seed.wrapping_add(1));
        self.awaited = Awaited::default();
        self.cluster.release_all();
        self.cluster.sort_targets(self.by.is_balanced());
        self.find_probes();
    }

    /// Adopts the figures of every target, at `seconds` since the server started; none leaves them as before.
    pub fn refresh(&mut self, seconds: f64, heard: impl Fn(TargetId) -> Option<Figures>) {
        self.seconds = seconds;
        self.cluster.refresh(seconds, self.by.is_balanced(), heard);
        self.seat.company.hear(self.cluster.unheard());
        self.find_probes();
    }

    /// An exchange at `seconds` told what the one before did. It is cheaper than a [`Placer::refresh`] with the same figures.
    pub fn hear_nothing(&mut self, seconds: f64) {
        self.cluster.hear_nothing(seconds);
        self.seat.company.hear(self.cluster.unheard());
    }

    /// The bytes that this server placed on each target lately.
    pub fn placed_lately(&self) -> impl Iterator<Item = (TargetId, f64)> + '_ {
        self.cluster.placed()
    }

    /// The part of [`Placer::placed_lately`] that is worth a report to the other servers, as reports have it.
    pub fn reported(&self) -> impl Iterator<Item = (TargetId, f32)> + '_ {
        let worth = self.placed_lately().filter(|(_, bytes)| *bytes >= REPORTED_BYTES_MIN);
        worth.map(|(target, bytes)| (target, bytes as f32))
    }

    /// Counts since the server started.
    pub fn tally(&self) -> Tally {
        let given = self.cluster.targets.iter().copied().zip(self.given.iter().copied());
        Tally { targets: given.filter(|(_, count)| *count > 0).collect(), ..self.tally.borrow().clone() }
    }

    /// The layout of a new file; `sequence` is the number of its inode.
    ///
    /// # Errors
    /// The reason why it gets no targets.
    pub fn place(
        &self,
        sequence: u64,
        specification: Option<&LayoutSpecification>,
    ) -> Result<Placed, Refusal> {
        self.place_file(&self.new_file(sequence, &[]), specification)
    }

    fn place_file(
        &self,
        file: &NewFile<'_>,
        specification: Option<&LayoutSpecification>,
    ) -> Result<Placed, Refusal> {
        let placed = self.choose_layout(file, specification);
        let mut tally = self.tally.borrow_mut();
        match &placed {
            Ok(Placed { layout, record }) => {
                let stripes = layout.stripes() as u64;
                match tally.stripes.get_mut(&record.by) {
                    Some(count) => *count += stripes,
                    None => _ = tally.stripes.insert(record.by.clone(), stripes),
                }
            }
            Err(refusal) => *tally.refused.entry(refusal.name()).or_default() += 1,
        }
        placed
    }

    /// A file that was refused is to be tried again: the refusal does not count.
    pub fn retract(&self, refusal: Refusal) {
        if let Some(count) = self.tally.borrow_mut().refused.get_mut(refusal.name()) {
            *count = count.saturating_sub(1);
        }
    }

    /// A file of this layout was made at `unix_seconds`.
    pub fn placed(&mut self, layout: &Layout, unix_seconds: i64) {
        self.wall_seconds = unix_seconds;
        let (cluster, seconds) = (&mut self.cluster, self.seconds);
        let (given, probes, probed) = (&mut self.given, &mut self.probes, &mut self.probed);
        let mut all_bytes = 0.0;
        each_stripe(layout, |target, bytes| {
            let Some(index) = cluster.find(target) else { return };
            cluster.place(index, bytes);
            all_bytes += bytes;
            given[index] += 1;
            if probes.contains(&(index as u32)) {
                probed.insert(index as u32, seconds);
                probes.retain(|&slow| slow != index as u32);
            }
        });
        self.seat.company.placed(all_bytes);
    }

    /// A new file of this layout is likely to be written soon. `file` is its number, above those of files before;
    /// `unix_seconds` are exact.
    pub fn awaits(&mut self, file: u64, layout: &Layout, unix_seconds: f64) {
        if !self.by.is_balanced() {
            return;
        }
        let first = layout.components().first().map_or(&[][..], |component| &component.targets);
        let indices = first.iter().filter_map(|&target| self.cluster.find(target).map(|index| index as u32));
        self.awaited.made(file, indices, unix_seconds);
        let Turn { late, forgiven } = self.awaited.turn(unix_seconds);
        late.into_iter().for_each(|index| self.cluster.hold(index as usize));
        forgiven.into_iter().for_each(|index| self.cluster.release(index as usize));
    }

    /// Bytes of a file came.
    pub fn written(&mut self, file: u64, unix_seconds: f64) {
        for index in self.awaited.written(file, unix_seconds) {
            self.cluster.release(index as usize);
        }
    }

    /// A file of this layout, made at `created_unix_seconds`, is gone.
    pub fn removed(&mut self, layout: &Layout, created_unix_seconds: i64) {
        self.removed_at_age(layout, (self.wall_seconds - created_unix_seconds) as f64);
    }

    /// A file of this layout, made `age_seconds` ago, is gone.
    pub fn removed_at_age(&mut self, layout: &Layout, age_seconds: f64) {
        let cluster = &mut self.cluster;
        let mut gone_bytes = 0.0;
        each_stripe(layout, |target, bytes| {
            if let Some(index) = cluster.find(target) {
                gone_bytes += cluster.remove(index, bytes, age_seconds);
            }
        });
        self.seat.company.removed(gone_bytes, age_seconds);
    }

    fn find_probes(&mut self) {
        let (slow, seconds) = (&self.cluster.slow, self.seconds);
        self.probed.retain(|index, _| slow.contains(index));
        for &index in slow {
            self.probed.entry(index).or_insert(seconds);
        }
        let is_due = |at: &f64| seconds - at >= PROBE_SECONDS;
        self.probes = self.probed.iter().filter(|(_, at)| is_due(at)).map(|(&index, _)| index).collect();
    }

    fn choose_layout(
        &self,
        file: &NewFile<'_>,
        asked: Option<&LayoutSpecification>,
    ) -> Result<Placed, Refusal> {
        // Where targets retired, a directory's files get as many stripes as are left.
        if let Some(asked) = asked {
            check_within(asked, self.cluster.targets.len())?;
        }
        let asked = asked.unwrap_or(&self.usual);
        let mut components = Vec::with_capacity(asked.components.len());
        let mut before = Vec::new();
        let hidden = self.hide(&file.avoided);
        let chosen = self.choose_components(file, asked, (&mut components, &mut before));
        let mut view = self.view();
        before.into_iter().rev().for_each(|(index, loads)| set_loads(&mut view, index, loads));
        drop(view);
        self.show(hidden);
        chosen?;
        let layout = Layout::new(components).map_err(|_| Refusal::Layout)?;
        let is_explicit =
            |component: &ComponentSpecification| matches!(component.stripes, Stripes::Targets(_));
        let is_named = asked.components.iter().all(is_explicit);
        let mut record = self.record(&layout, is_named);
        self.note_avoided(file, &layout, is_named, &mut record);
        Ok(Placed { layout, record })
    }

    /// Whether the store can have files of this layout, when all its targets are there.
    ///
    /// # Errors
    /// [`Refusal::Layout`], or [`Refusal::Unknown`] where the layout names a target that the store has not.
    pub fn check(&self, asked: &LayoutSpecification) -> Result<(), Refusal> {
        check_within(asked, self.cluster.count())?;
        let lists = asked.components.iter().filter_map(|component| match &component.stripes {
            Stripes::Targets(named) => Some(named),
            Stripes::Default | Stripes::All | Stripes::Count(_) => None,
        });
        match lists.map(|named| self.named(named)).find(|found| matches!(found, Err(Refusal::Unknown))) {
            Some(_) => Err(Refusal::Unknown),
            None => Ok(()),
        }
    }

    /// Appends the components one after the other; the next finds the stripes of those before as work. Appends to `before`
    /// the targets that got such work, with the loads that they had.
    fn choose_components(
        &self,
        file: &NewFile<'_>,
        asked: &LayoutSpecification,
        (components, before): (&mut Vec<Component>, &mut Vec<(usize, Loads)>),
    ) -> Result<(), Refusal> {
        let (mut left, mut begin) = (limits::STRIPES, 0);
        for component in &asked.components {
            let end = component.end.unwrap_or(END_OF_FILE);
            let stripe_bytes = component.stripe_bytes.unwrap_or(self.defaults.stripe_bytes);
            let all = self.cluster.count();
            let count = component.stripes.count(self.defaults.stripe_count, all);
            let targets = match &component.stripes {
                Stripes::Targets(named) => self.named(named)?,
                Stripes::Count(_) => self.choose(file, count, weight(begin, end, stripe_bytes, count))?,
                // A file that asks for no number of stripes is well served without the slow targets.
                Stripes::Default | Stripes::All => {
                    let count = count.min(file.usual_stripes_max()).min(left);
                    self.choose(file, count, weight(begin, end, stripe_bytes, count))?
                }
            };
            left = left.checked_sub(targets.len()).ok_or(Refusal::Layout)?;
            components.push(Component { end, stripe_bytes, targets });
            if asked.components.len() > 1 {
                self.count_component(components.last(), begin, before);
            }
            begin = end;
        }
        Ok(())
    }

    /// `count` targets, or as many as there are: for stripes of `bytes`.
    fn choose(&self, file: &NewFile<'_>, count: usize, bytes: f64) -> Result<Vec<TargetId>, Refusal> {
        let Cluster { open, slow, targets, .. } = &self.cluster;
        if open.is_empty() && slow.is_empty() {
            return Err(self.why_none());
        }
        let among_open = count.min(file.open);
        let Chooser { allocator, random, chosen, heard_seconds } = &mut *self.seat.chooser.borrow_mut();
        if std::mem::replace(heard_seconds, self.cluster.heard_seconds()) != self.cluster.heard_seconds() {
            if let Chosen::Balanced(balanced) = allocator {
                balanced.begin_at(self.cluster.first_turn_of(self.seat.server));
            }
        }
        chosen.clear();
        let is_forced = among_open == file.open && self.by.is_balanced();
        if is_forced || !self.allocate(allocator, random, (file, among_open, bytes), chosen) {
            chosen.clear();
            self.take_turns(file, among_open, chosen);
        }
        chosen.extend(slow.iter().filter(|&&index| file.takes(index)).take(count - chosen.len()));
        chosen.extend(file.avoided.iter().take(count - chosen.len()));
        let due = self.probes.iter().find(|&&index| file.takes(index));
        if let (Some(&slow), Some(last)) = (due, chosen.last_mut()) {
            if count <= among_open {
                *last = slow;
            }
        }
        Ok(chosen.iter().map(|&index| targets[index as usize]).collect())
    }

    /// Asks the allocator for so many open targets for stripes of so many bytes; false where it has no answer.
    fn allocate(
        &self,
        allocator: &mut Chosen,
        random: &mut SplitMix64,
        (file, count, bytes): (&NewFile<'_>, usize, f64),
        chosen: &mut Vec<u32>,
    ) -> bool {
        let view = self.view();
        let demand = Demand { stripes: count as u16, stripe_bytes: bytes as u64, program: 0 };
        let mut random = || random.draw();
        let allocation = match allocator {
            Chosen::Balanced(balanced) => {
                let is_placed = balanced.place_one(&view, demand, chosen).is_ok();
                if let [only] = &mut chosen[..] {
                    *only = self.or_home(&view, *only, (file, bytes));
                }
                return is_placed;
            }
            Chosen::Lustre(lustre) => lustre.allocate(&view, &[demand], &mut random),
            Chosen::Random(uniform) => uniform.allocate(&view, &[demand], &mut random),
            Chosen::Own(own) => own.allocate(&view, demand, &mut random),
        };
        allocation.map(|allocation| chosen.extend_from_slice(allocation.targets())).is_ok()
    }

    fn view(&self) -> RefMut<'_, View> {
        self.cluster.view(self.seat.server, self.seat.company.expected())
    }

    /// A target of this server that is as good as the one chosen for a stripe of `bytes`, if there is one.
    fn or_home(&self, view: &View, chosen: u32, (file, bytes): (&NewFile<'_>, f64)) -> u32 {
        if self.cluster.is_home(self.seat.server, chosen) {
            return chosen;
        }
        let cost = |index: u32| {
            let target = &view.targets()[index as usize];
            let server = &view.servers()[view.server_of(index as usize)];
            let after = |load: f64, speed: f64| (2.0 * load + bytes) / speed;
            (after(target.load_bytes, target.speed), after(server.load_bytes, server.speed))
        };
        let least = cost(chosen);
        let is_as_good = |&index: &u32| {
            let (target, server) = cost(index);
            file.takes(index) && target <= least.0 && server <= least.1
        };
        self.cluster.home(self.seat.server).find(is_as_good).unwrap_or(chosen)
    }

    /// The first on this server, so that a small file is written in one round trip; the rest in turn by the number of the
    /// file.
    fn take_turns(&self, file: &NewFile<'_>, count: usize, chosen: &mut Vec<u32>) {
        let takes = |&index: &u32| file.takes(index);
        let home: Vec<u32> = self.cluster.home(self.seat.server).filter(takes).collect();
        let others: Vec<u32> = self.cluster.others(self.seat.server).filter(takes).collect();
        let first = home.len().min(1);
        let home = turned(&home, file.sequence);
        let taken = others.len().min(count.saturating_sub(first));
        // A file that takes all others begins far from the files before it, and those of another home far from these:
        // clients that use several files from their begins on would follow each other from target to target.
        let step = if taken == others.len() { far_step(taken) } else { taken };
        let turn = u64::from(self.cluster.first_turn_of(self.seat.server));
        let others = turned(&others, turn.wrapping_add(file.sequence.wrapping_mul(step as u64)));
        chosen.extend(home.clone().take(first).chain(others).chain(home.skip(first)).take(count));
    }

    /// The targets that a client names, if each can take a stripe.
    fn named(&self, named: &[TargetId]) -> Result<Vec<TargetId>, Refusal> {
        for &target in named {
            match self.cluster.find(target).map(|index| self.cluster.unfit(index)) {
                Some(None | Some(Unfit::Late)) => {}
                Some(Some(Unfit::Full)) => return Err(Refusal::Full),
                Some(Some(Unfit::Dead)) => return Err(Refusal::Dead),
                None | Some(Some(Unfit::Closed)) => return Err(Refusal::Unknown),
            }
        }
        Ok(named.to_vec())
    }

    fn why_none(&self) -> Refusal {
        let is_full = |index| self.cluster.unfit(index) == Some(Unfit::Full);
        let all = self.cluster.targets.len();
        if all == 0 || (0..all).any(is_full) {
            Refusal::Full
        } else {
            Refusal::Dead
        }
    }

    fn count_component(&self, component: Option<&Component>, begin: u64, before: &mut Vec<(usize, Loads)>) {
        let Some(component) = component else { return };
        let mut view = self.view();
        let bytes = weight(begin, component.end, component.stripe_bytes, component.targets.len());
        for index in component.targets.iter().filter_map(|&target| self.cluster.find(target)) {
            let loads = loads(&view, index);
            before.push((index, loads));
            set_loads(&mut view, index, Loads { target: loads.target + bytes, server: loads.server + bytes });
        }
    }

    /// Targets that take stripes, and the bytes that fit there.
    pub(crate) fn usable(&self) -> Vec<(TargetId, u64)> {
        let Cluster { open, slow, targets, figures, .. } = &self.cluster;
        let server = self.seat.server;
        let others = open.iter().filter(|&&index| !self.cluster.is_home(server, index));
        let all = self.cluster.home(server).chain(others.chain(slow).copied());
        all.map(|index| (targets[index as usize], figures[index as usize].free_bytes)).collect()
    }

    /// The number of stripes that the rule asks for.
    pub(crate) fn stripes_of(&self, rule: &Stripes) -> usize {
        rule.count(self.defaults.stripe_count, self.cluster.count())
    }

    pub(crate) fn record(&self, layout: &Layout, is_explicit: bool) -> Record {
        let cluster = &self.cluster;
        let by = if is_explicit { Cow::Borrowed(EXPLICIT) } else { self.by.text() };
        let left_out = |indices: &[u32]| {
            LeftOut::of(indices.iter().map(|&index| cluster.targets[index as usize]), indices.len())
        };
        let mut record = Record {
            by,
            considered: cluster.open.len() as u16,
            full: left_out(&cluster.full),
            dead: left_out(&cluster.dead),
            slow: left_out(&cluster.slow),
            mean_load_bytes: cluster.mean_load_bytes as f32,
            chosen: Vec::with_capacity(layout.stripes().min(record::STRIPES_MAX)),
            ..Record::default()
        };
        let view = self.view();
        for target in
            layout.components().iter().flat_map(|component| &component.targets).take(record::STRIPES_MAX)
        {
            if let Some(index) = cluster.find(*target) {
                record.choose(*target, view.targets()[index].load_bytes, cluster.speed(index));
            }
        }
        record
    }
}

fn check_within(asked: &LayoutSpecification, targets: usize) -> Result<(), Refusal> {
    let is_possible = asked.is_within_limits() && asked.check_stripes(targets).is_ok();
    is_possible.then_some(()).ok_or(Refusal::Layout)
}

/// Calls `each` with the target and weight in bytes of every stripe of a layout: the load that a new file adds there.
pub fn each_stripe(layout: &Layout, mut each: impl FnMut(TargetId, f64)) {
    let mut begin = 0;
    for component in layout.components() {
        let bytes = weight(begin, component.end, component.stripe_bytes, component.targets.len());
        component.targets.iter().for_each(|&target| each(target, bytes));
        begin = component.end;
    }
}

/// The weight of a stripe while the file's size is unknown: the bytes of one stripe, or of the share that its component
/// can give a target.
fn weight(begin: u64, end: u64, stripe_bytes: u64, count: usize) -> f64 {
    stripe_bytes.min((end - begin).div_ceil(count.max(1) as u64)) as f64
}

/// A step by which all of `count` places are visited, each far from those before it: near the golden section of the circle, as
/// in Fibonacci hashing (Knuth, volume 3, section 6.4).
fn far_step(count: usize) -> usize {
    let common = |mut one: usize, mut other: usize| {
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one
    };
    let golden = (count as f64 * 0.618_034).round() as usize;
    (1..=golden).rev().find(|&step| common(count, step) == 1).unwrap_or(1)
}

/// `indices`, beginning with number `start` modulo their count.
fn turned(indices: &[u32], start: u64) -> impl Iterator<Item = u32> + Clone + '_ {
    let start = start.checked_rem(indices.len() as u64).unwrap_or(0) as usize;
    indices[start..].iter().chain(&indices[..start]).copied()
}

mod avoidance;
mod membership;
#[cfg(test)]
mod tests;
