//! Worlds one after another, on all processors: the search for a seed that shows a fault.

use crate::{run, Figures, Shape};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use weir_core::mutants::{self, Mutant};
use weir_fairshare::Nanos;

/// Servers and clients of the worlds, which take turns by the seed.
const SHAPES: [(usize, usize); 3] = [(2, 3), (1, 3), (1, 1)];
/// The time in which faults happen.
const FAULTS_MILLISECONDS: u64 = 5_000;
/// The servers and targets of each world whose seed this divides change so many times.
const CHANGED: u64 = 5;
const CHANGES: u64 = 3;
/// The metadata is brought back from a backup in each world whose seed leaves 6 by this: its targets are directories.
const RESTORED: u64 = 20;
/// Each world whose seed this divides is run twice, and has to go the same way.
const REPLAYED: u64 = 16;

/// The worlds of a search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first seed; the others follow it.
    pub first: u64,
    /// The number of seeds.
    pub seeds: u64,
    /// No world begins later than this long after the beginning.
    pub time_max: Duration,
    /// The rule that is taken out of all servers.
    pub mutant: Option<Mutant>,
    /// Whether the first fault ends the search.
    pub is_for_one: bool,
}

/// The outcome of a search.
#[derive(Debug, Default)]
pub struct Findings {
    /// Worlds that ran.
    pub seeds: u64,
    /// Worlds that ran twice.
    pub replays: u64,
    /// The worlds among them that went another way the second time.
    pub replays_apart: u64,
    /// The time that passed in all worlds.
    pub virtual_time: Nanos,
    /// The seeds that showed a fault, with its words.
    pub faults: Vec<(u64, String)>,
}

/// The size of the world of a seed.
pub fn shape(seed: u64) -> Shape {
    let (servers, clients) = SHAPES[(seed % SHAPES.len() as u64) as usize];
    let changes = if seed.is_multiple_of(CHANGED) { CHANGES } else { 0 };
    let restores = seed % RESTORED == 6;
    Shape { servers, clients, faults_milliseconds: FAULTS_MILLISECONDS, changes, restores }
}

/// The smallest world of a seed that shows a fault, as far as fewer clients and a shorter time of faults still show one. A smaller
/// world takes another way, so its fault may be another one.
pub fn shrunk(seed: u64) -> Option<(Shape, String)> {
    let mut smallest = shape(seed);
    let mut fault = world(seed, smallest).err()?;
    loop {
        let Shape { clients, faults_milliseconds, .. } = smallest;
        let fewer = (clients > 1).then_some(Shape { clients: clients - 1, ..smallest });
        let parts = [2, 4, 8, 16].map(|part| faults_milliseconds - faults_milliseconds / part);
        let shorter = parts.map(|faults_milliseconds| Shape { faults_milliseconds, ..smallest });
        let tried = fewer.into_iter().chain(shorter).filter(|tried| *tried != smallest);
        match tried.into_iter().find_map(|shape| Some((shape, world(seed, shape).err()?))) {
            Some(found) => (smallest, fault) = found,
            None => return Some((smallest, fault)),
        }
    }
}

/// The world of a seed. A panic of a server or of a client is a fault as well.
///
/// # Errors
/// The fault in words.
pub fn world(seed: u64, shape: Shape) -> Result<Figures, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| run(seed, shape)));
    ran.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("a panic: {}", words.unwrap_or_default()))
    })
}

/// Runs the worlds of a search on all processors.
pub fn search(search: Search) -> Findings {
    let (next, findings) = (AtomicU64::new(search.first), Mutex::<Findings>::default());
    let began = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                mutants::set(search.mutant);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed - search.first >= search.seeds || began.elapsed() >= search.time_max {
                        return;
                    }
                    let once = world(seed, shape(seed));
                    let again = (seed % REPLAYED == 0).then(|| world(seed, shape(seed)));
                    let mut findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
                    findings.note(seed, once, again);
                    if search.is_for_one && !findings.faults.is_empty() {
                        next.store(search.first + search.seeds, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut findings = findings.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.faults.sort_unstable();
    findings
}

impl Findings {
    fn note(&mut self, seed: u64, once: Result<Figures, String>, again: Option<Result<Figures, String>>) {
        self.seeds += 1;
        if let Some(again) = again {
            self.replays += 1;
            self.replays_apart += u64::from(once != again);
        }
        match once {
            Ok(figures) => self.virtual_time = self.virtual_time + figures.virtual_time,
            Err(fault) => self.faults.push((seed, fault)),
        }
    }
}
