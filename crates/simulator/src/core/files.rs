//! The files of a run: their layouts, the bytes that they hold, and the room that these take on targets.

use super::extents::Extents;
use super::machines::Machines;
use super::placers::Placers;
use super::shared::EXCHANGES_BEFORE_MAX;
use super::time::nanos;
use crate::check::Settings;
use crate::scenario::Scenario;
use weir_fairshare::Nanos;
use weir_placement::online::Refusal;
use weir_placement::{Component, Layout, LayoutSpecification, Stripes, TargetId, END_OF_FILE};

/// A write goes around full targets so many times at most; every detour leaves out one target more.
const DETOURS_MAX: usize = 16;
/// The number of files that name their targets: no home chooses these.
const NAMED: u64 = u64::MAX;

/// All files of a run.
#[derive(Debug)]
pub(crate) struct Files {
    placers: Placers,
    /// The home of each file, where the workload names one.
    named_homes: Vec<Option<u32>>,
    files: Vec<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    /// Absent before it is made, and after it is removed or refused.
    layout: Option<Box<Layout>>,
    created: Nanos,
    /// Its number among the files of its home.
    number: u64,
    held: Extents,
    /// Bytes that it holds on targets, by their numbers.
    room: Vec<(u32, u64)>,
}

/// The part of a read or write that is on one target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// The target's number through all servers.
    pub(crate) target: u32,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Requests that it takes.
    pub(crate) requests: u64,
}

impl Files {
    /// Places the files that are there before the run.
    pub(crate) fn new(scenario: &Scenario, settings: &Settings, machines: &mut Machines) -> Files {
        let placers = Placers::new(machines, settings, nanos(scenario.lambda_seconds), scenario.seed);
        let table = &scenario.workload.files;
        let mut files = Files {
            placers,
            named_homes: table.iter().map(|file| file.home).collect(),
            files: table.iter().map(|_| FileState::default()).collect(),
        };
        let there: Vec<u32> = (0..).zip(table).filter(|(_, file)| file.bytes > 0).map(|(n, _)| n).collect();
        let turns = there.chunks(there.len().div_ceil(EXCHANGES_BEFORE_MAX).max(1));
        for (turn, coming) in turns.clone().zip((1..=turns.len()).rev()) {
            files.placers.await_exchanges_before(coming);
            for &file in turn {
                if files.make(file, (machines, settings, Nanos::ZERO)).is_ok() {
                    files.claim(file, (0, table[file as usize].bytes), (machines, settings, Nanos::ZERO));
                }
            }
        }
        files.placers.await_exchanges_before(0);
        files
    }

    /// The placers of the homes, for a model whose exchanges inform them.
    pub(crate) fn placers(&mut self) -> &mut Placers {
        &mut self.placers
    }

    /// From now on exchanges of the model inform the placers.
    pub(crate) fn informed_by_model(&mut self, machines: &Machines) {
        let placed = (0..).zip(&self.files).filter(|(_, state)| state.number != NAMED);
        let there = placed.filter_map(|(file, state)| Some((self.home(file), state.layout.as_deref()?)));
        let there: Vec<(u32, &Layout)> = there.collect();
        self.placers.informed_by_model(machines, &there);
    }

    /// First bytes of a file came.
    pub(crate) fn written(&mut self, file: u32, now: Nanos) {
        let home = self.home(file);
        self.placers.written(home, self.files[file as usize].number, now);
    }

    /// The home server of a file.
    pub(crate) fn home(&self, file: u32) -> u32 {
        self.named_homes[file as usize].unwrap_or_else(|| self.placers.usual(file))
    }

    /// The layout of a file that was made.
    pub(crate) fn layout(&self, file: u32) -> Option<&Layout> {
        self.files[file as usize].layout.as_deref()
    }

    /// Places a new file.
    pub(crate) fn make(
        &mut self,
        file: u32,
        (machines, settings, now): (&Machines, &Settings, Nanos),
    ) -> Result<&Layout, Refusal> {
        let home = self.home(file);
        let asked = specification(settings, file);
        let named = asked.and_then(|asked| named_layout(asked, settings.defaults.stripe_bytes));
        let (number, layout) = match named {
            Some(layout) => (NAMED, layout),
            None => self.placers.place(home, asked, (machines, now))?,
        };
        let state = &mut self.files[file as usize];
        (state.created, state.number, state.held) = (now, number, Extents::default());
        Ok(state.layout.insert(Box::new(layout)))
    }

    /// A file is gone, and its room is free.
    pub(crate) fn remove(&mut self, file: u32, machines: &mut Machines, now: Nanos) {
        let home = self.home(file);
        let state = std::mem::take(&mut self.files[file as usize]);
        if let Some(layout) = state.layout.as_ref().filter(|_| state.number != NAMED) {
            self.placers.removed((home, layout, state.created), (machines, now));
        }
        for (target, bytes) in state.room {
            machines.targets[target as usize].workload_bytes -= bytes;
        }
    }

    /// Takes room for a write of `[begin, end)`; a file whose targets are full goes on elsewhere, as the product's. False
    /// where no room is left: then nothing was taken.
    pub(crate) fn claim(
        &mut self,
        file: u32,
        (begin, end): (u64, u64),
        (machines, settings, now): (&mut Machines, &Settings, Nanos),
    ) -> bool {
        let mut full: Vec<TargetId> = Vec::new();
        for _ in 0..DETOURS_MAX {
            let state = &self.files[file as usize];
            let Some(layout) = state.layout.as_deref() else { return false };
            let mut needed: Vec<(u32, u64)> = Vec::new();
            for (from, until) in state.held.holes(begin, end) {
                let parts = parts(layout, (from, until - from), 0, machines);
                needed.extend(parts.iter().map(|part| (part.target, part.bytes)));
            }
            let short = needed
                .iter()
                .filter(|&&(target, bytes)| machines.targets[target as usize].free_bytes() < bytes);
            let before = full.len();
            full.extend(short.map(|&(target, _)| machines.name(target)));
            if full.len() == before {
                self.take(file, (begin, end), &needed, machines);
                return true;
            }
            full.sort_unstable();
            full.dedup();
            let (home, held_end) = (self.home(file), state.held.end());
            let asked = specification(settings, file);
            let present = (layout, asked, held_end);
            match self.placers.place_behind(home, present, &full, (machines, now)) {
                Ok(layout) => self.files[file as usize].layout = Some(Box::new(layout)),
                Err(_) => return false,
            }
        }
        false
    }

    fn take(&mut self, file: u32, (begin, end): (u64, u64), needed: &[(u32, u64)], machines: &mut Machines) {
        let state = &mut self.files[file as usize];
        state.held.fill(begin, end);
        for &(target, bytes) in needed {
            machines.targets[target as usize].workload_bytes += bytes;
            match state.room.binary_search_by_key(&target, |&(known, _)| known) {
                Ok(place) => state.room[place].1 += bytes,
                Err(place) => state.room.insert(place, (target, bytes)),
            }
        }
    }
}

fn specification(settings: &Settings, file: u32) -> Option<&LayoutSpecification> {
    settings.specification_of_file[file as usize].map(|place| &settings.specifications[place as usize])
}

/// The layout of a request that leaves nothing to choose.
fn named_layout(asked: &LayoutSpecification, stripe_bytes: u64) -> Option<Layout> {
    let component = |component: &weir_placement::ComponentSpecification| match &component.stripes {
        Stripes::Targets(targets) => Some(Component {
            end: component.end.unwrap_or(END_OF_FILE),
            stripe_bytes: component.stripe_bytes.unwrap_or(stripe_bytes),
            targets: targets.clone(),
        }),
        Stripes::Default | Stripes::All | Stripes::Count(_) => None,
    };
    let components: Option<Vec<Component>> = asked.components.iter().map(component).collect();
    Layout::new(components?).ok()
}

/// The parts of `length` bytes from `offset` on, one for each target, in the order of the layout's targets; requests have
/// `request_bytes`, or 0: a stripe.
pub(crate) fn parts(
    layout: &Layout,
    (offset, length): (u64, u64),
    request_bytes: u64,
    machines: &Machines,
) -> Vec<Part> {
    let end = offset + length;
    let mut parts: Vec<Part> = Vec::new();
    let mut begin = offset;
    while begin < end {
        let (start, component) = layout.component_at(begin);
        let until = end.min(component.end);
        let request = if request_bytes == 0 { component.stripe_bytes } else { request_bytes };
        // The targets of one component differ.
        let count_before = parts.len();
        for stripe in stripes_touched(component, (begin - start, until - start)) {
            let bytes = component.share(stripe, until - start) - component.share(stripe, begin - start);
            if bytes == 0 {
                continue;
            }
            let requests = match component.targets.len() {
                1 => bytes.div_ceil(request),
                // Requests end at stripes.
                _ => (bytes as f64 / (component.stripe_bytes as f64)
                    * component.stripe_bytes.div_ceil(request) as f64)
                    .ceil() as u64,
            };
            let target = machines.number(component.targets[stripe]);
            match parts[..count_before].iter_mut().find(|part| part.target == target) {
                Some(part) => (part.bytes, part.requests) = (part.bytes + bytes, part.requests + requests),
                None => parts.push(Part { target, bytes, requests }),
            }
        }
        begin = until;
    }
    parts
}

/// The stripes of a component that hold some of its bytes `[from, until)`, ascending.
fn stripes_touched(component: &Component, (from, until): (u64, u64)) -> impl Iterator<Item = usize> {
    let count = component.targets.len() as u64;
    let (first, last) = (from / component.stripe_bytes, (until - 1) / component.stripe_bytes);
    let (head, tail) = match (first % count, last % count) {
        _ if last - first + 1 >= count => (0, 0..count),
        (one, other) if one <= other => (0, one..other + 1),
        (one, other) => (other + 1, one..count),
    };
    (0..head).chain(tail).map(|stripe| stripe as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_placement::ServerId;

    proptest! {
        #[test]
        fn touched_stripes_are_those_with_bytes(count in 1..9_u16, from in 0..60_u64, bytes in 1..60_u64) {
            let targets = (0..count).map(|server| TargetId { server: ServerId(server), index: 0 }).collect();
            let component = Component { end: END_OF_FILE, stripe_bytes: 4, targets };
            let until = from + bytes;
            let holds = |&stripe: &usize| component.share(stripe, until) > component.share(stripe, from);
            let holding: Vec<usize> = (0..usize::from(count)).filter(holds).collect();
            prop_assert_eq!(stripes_touched(&component, (from, until)).collect::<Vec<_>>(), holding);
        }
    }
}
