//! The cluster that an allocator sees: targets and servers, their speeds, loads and room.

use super::AllocationError;
use crate::{ServerId, TargetId};
use std::collections::HashMap;
use std::sync::Arc;

/// So many changes are kept at least, and as many as there are targets.
const CHANGES_MIN: usize = 16;

/// A target, as an allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetState {
    /// The target.
    pub target: TargetId,
    /// The speed it really achieves, relative to the others or in bytes per second; 0 or less: not used.
    pub speed: f64,
    /// Bytes of work it has before anything is placed.
    pub load_bytes: f64,
    /// Bytes that still fit.
    pub free_bytes: u64,
}

/// A server, as an allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerState {
    /// The server.
    pub server: ServerId,
    /// Its speed, in the unit of its targets' speeds; infinite: never the narrow place; 0 or less: not used.
    pub speed: f64,
    /// Bytes of work it has before anything is placed.
    pub load_bytes: f64,
}

/// The targets and servers that stripes can be placed on.
#[derive(Clone, Debug)]
pub struct View {
    targets: Vec<TargetState>,
    servers: Vec<ServerState>,
    server_of: Vec<u32>,
    by_server: Vec<u32>,
    rank: Vec<u32>,
    changes: Changes,
}

/// The latest changes of a view, for allocators that keep conclusions from it. A clone of a view begins a record of its
/// own, because the changes of one copy do not concern the other.
#[derive(Debug, Default)]
struct Changes {
    /// The view to which the changes belong.
    of: Arc<()>,
    /// The number of changes before those of `latest`.
    earlier: u64,
    latest: Vec<Change>,
}

/// A load or room that changed, by index into the view.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// A change of a target.
    Target(u32),
    /// A change of a server.
    Server(u32),
}

/// Up to where the changes of a view were looked at.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Kept, so that no other view can get the same address.
    of: Arc<()>,
    count: u64,
}

impl Clone for Changes {
    fn clone(&self) -> Changes {
        Changes::default()
    }
}

impl View {
    /// A view of `targets`. A server that `servers` does not name is never the narrow place.
    ///
    /// # Errors
    /// A target or server that occurs twice, and a speed or load that is not a number or negative.
    pub fn new(targets: Vec<TargetState>, servers: &[ServerState]) -> Result<View, AllocationError> {
        let mut number_of = HashMap::new();
        for (number, state) in servers.iter().enumerate() {
            check_server(state.server, state.speed, state.load_bytes)?;
            if number_of.insert(state.server, number as u32).is_some() {
                return Err(AllocationError::Twice(format!("server {}", state.server)));
            }
        }
        let mut servers = servers.to_vec();
        let mut server_of = Vec::with_capacity(targets.len());
        for state in &targets {
            check_target(state.target, state.speed, state.load_bytes)?;
            let server = state.target.server;
            server_of.push(*number_of.entry(server).or_insert_with(|| {
                servers.push(ServerState { server, speed: f64::INFINITY, load_bytes: 0.0 });
                servers.len() as u32 - 1
            }));
        }
        let mut by_server: Vec<u32> = (0..targets.len() as u32).collect();
        by_server.sort_unstable_by_key(|&index| targets[index as usize].target);
        let same = |pair: &&[u32]| targets[pair[0] as usize].target == targets[pair[1] as usize].target;
        if let Some(pair) = by_server.windows(2).find(same) {
            return Err(AllocationError::Twice(format!("target {}", targets[pair[0] as usize].target)));
        }
        let rank = ranks(&places(&targets, &by_server), |place| (place.number, place.server));
        Ok(View { targets, servers, server_of, by_server, rank, changes: Changes::default() })
    }

    /// Has equals take turns by sections, one for each server, in place of one target of each server in turn.
    ///
    /// A section has the first target of its server, the second of a later server, the third of one yet later, and so on. To its
    /// server each section looks as every other does to its own. So homes that know the same, begin at their own
    /// sections and have placed as many stripes are at different targets.
    pub(crate) fn take_turns_by_sections(&mut self) {
        let places = places(&self.targets, &self.by_server);
        let servers = places.last().map_or(1, |last| last.server + 1);
        let most = places.iter().map(|place| place.number + 1).max().unwrap_or(1);
        // Targets that follow each other are on different servers, as long as there are others.
        let stride = servers.div_ceil(most);
        let section = |place: &Place| (place.server + servers - place.number * stride % servers) % servers;
        self.rank = ranks(&places, |place| (section(place), place.number));
        self.changes = Changes::default();
    }

    /// The targets, in the order in which they were given.
    pub fn targets(&self) -> &[TargetState] {
        &self.targets
    }

    /// The servers: those given first, in their order.
    pub fn servers(&self) -> &[ServerState] {
        &self.servers
    }

    /// Index into [`View::servers`] of the server of a target's index.
    pub fn server_of(&self, target: usize) -> usize {
        self.server_of[target] as usize
    }

    /// Whether stripes may be placed on the target of this index.
    pub fn is_used(&self, target: usize) -> bool {
        self.targets[target].speed > 0.0 && self.servers[self.server_of(target)].speed > 0.0
    }

    /// Number of targets that stripes may be placed on.
    pub fn used(&self) -> usize {
        (0..self.targets.len()).filter(|&target| self.is_used(target)).count()
    }

    /// Adopts new figures of the target of this index.
    ///
    /// # Errors
    /// A speed or load that is not a number or negative.
    pub fn update_target(
        &mut self,
        target: usize,
        speed: f64,
        load_bytes: f64,
        free_bytes: u64,
    ) -> Result<(), AllocationError> {
        let state = &mut self.targets[target];
        check_target(state.target, speed, load_bytes)?;
        let is_as_fast = state.speed == speed;
        if is_as_fast && (state.load_bytes, state.free_bytes) == (load_bytes, free_bytes) {
            return Ok(());
        }
        (state.speed, state.load_bytes, state.free_bytes) = (speed, load_bytes, free_bytes);
        self.note(is_as_fast, Change::Target(target as u32));
        Ok(())
    }

    /// Adopts new figures of the server of this index into [`View::servers`].
    ///
    /// # Errors
    /// A speed or load that is not a number or negative.
    pub fn update_server(
        &mut self,
        server: usize,
        speed: f64,
        load_bytes: f64,
    ) -> Result<(), AllocationError> {
        let state = &mut self.servers[server];
        check_server(state.server, speed, load_bytes)?;
        let is_as_fast = state.speed == speed;
        if is_as_fast && state.load_bytes == load_bytes {
            return Ok(());
        }
        (state.speed, state.load_bytes) = (speed, load_bytes);
        self.note(is_as_fast, Change::Server(server as u32));
        Ok(())
    }

    /// Count a stripe of `bytes` as work of the target of this index and of its server, and as space taken.
    pub fn place(&mut self, target: usize, bytes: u64) {
        let state = &mut self.targets[target];
        state.load_bytes += bytes as f64;
        state.free_bytes = state.free_bytes.saturating_sub(bytes);
        let server = self.server_of(target);
        self.servers[server].load_bytes += bytes as f64;
        self.note(true, Change::Target(target as u32));
    }

    /// The changes since `seen`, in order; none where there were too many, where a speed changed, or where `seen` is of
    /// another view.
    pub(super) fn changes_since(&self, seen: &Seen) -> Option<&[Change]> {
        let Changes { of, earlier, latest } = &self.changes;
        let is_known = Arc::ptr_eq(of, &seen.of);
        is_known.then(|| latest.get(usize::try_from(seen.count.checked_sub(*earlier)?).ok()?..)).flatten()
    }

    /// Everything up to now was looked at.
    pub(super) fn mark(&self, seen: &mut Option<Seen>) {
        let count = self.changes.earlier + self.changes.latest.len() as u64;
        match seen {
            Some(seen) if Arc::ptr_eq(&seen.of, &self.changes.of) => seen.count = count,
            _ => *seen = Some(Seen { of: Arc::clone(&self.changes.of), count }),
        }
    }

    fn note(&mut self, is_as_fast: bool, change: Change) {
        let Changes { earlier, latest, .. } = &mut self.changes;
        if !is_as_fast {
            *earlier += latest.len() as u64 + 1;
            return latest.clear();
        }
        // An allocator that has not looked at the older half builds its conclusions anew, which costs little more.
        let half = self.targets.len().max(CHANGES_MIN);
        if latest.len() == 2 * half {
            *earlier += half as u64;
            latest.drain(..half);
        }
        latest.push(change);
    }

    /// The targets' indices, those of one server side by side.
    pub(super) fn by_server(&self) -> &[u32] {
        &self.by_server
    }

    /// Place of a target in the order in which equals take turns.
    pub(crate) fn rank(&self, target: usize) -> u32 {
        self.rank[target]
    }
}

fn check_target(target: TargetId, speed: f64, load_bytes: f64) -> Result<(), AllocationError> {
    let is_right = speed.is_finite() && load_bytes >= 0.0 && load_bytes.is_finite();
    let wrong = || AllocationError::NotANumber { what: format!("target {target}"), speed, load_bytes };
    is_right.then_some(()).ok_or_else(wrong)
}

fn check_server(server: ServerId, speed: f64, load_bytes: f64) -> Result<(), AllocationError> {
    let is_right = !speed.is_nan() && load_bytes >= 0.0 && load_bytes.is_finite();
    let wrong = || AllocationError::NotANumber { what: format!("server {server}"), speed, load_bytes };
    is_right.then_some(()).ok_or_else(wrong)
}

/// The place of a target in its store.
#[derive(Clone, Copy)]
struct Place {
    /// Index into the view.
    index: u32,
    /// Number of its server, in the order of the servers.
    server: usize,
    /// Its number among the targets of its server.
    number: usize,
}

/// The places of the targets `by_server`.
fn places(targets: &[TargetState], by_server: &[u32]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(targets.len());
    for &index in by_server {
        let server = |index: u32| targets[index as usize].target.server;
        let place = match places.last() {
            Some(last) if server(last.index) == server(index) => {
                Place { index, number: last.number + 1, ..*last }
            }
            Some(last) => Place { index, server: last.server + 1, number: 0 },
            None => Place { index, server: 0, number: 0 },
        };
        places.push(place);
    }
    places
}

/// The rank of each index in the order of `key`.
fn ranks<Key: Ord>(places: &[Place], key: impl Fn(&Place) -> Key) -> Vec<u32> {
    let mut order = places.to_vec();
    order.sort_by_key(key);
    let mut ranks = vec![0; places.len()];
    for (rank, place) in order.into_iter().enumerate() {
        ranks[place.index as usize] = rank as u32;
    }
    ranks
}
