//! The lock table of a server: `fcntl` locks of processes and of open descriptions, and `flock`, on its files.
//!
//! Process and description locks stand in each other's way, `flock` stands apart, as on Linux. A request that
//! conflicts with no *held* lock is granted at once, also past waiting ones: programs rely on readers joining readers.
//! Waiting requests are granted in the order of their arrival. Nothing here does I/O or knows the time.

mod file;
mod runs;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use file::{Changed, FileLocks, Waiting};
use runs::{overlap, Mode, WHOLE};
use std::collections::{BTreeMap, HashMap, HashSet};
use weir_wire::{ClientId, Errno, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, RequestId};

/// Requests that may wait on one file and class: a job of 16,384 processes can queue for one shared file, and a
/// release looks at each of them once (some 0.3 ms). One more is answered ENOLCK.
pub const WAITING_PER_FILE: usize = 16_384;
/// Ranges that may be held on one file and class, among which a conflict is looked for. One more is answered ENOLCK.
pub const RANGES_PER_FILE: usize = 65_536;
/// Memory that the locks on all files may take, as [`LockTable::bytes`] counts it. A user may hold as much as is left free,
/// on the files that the user was the first to lock: one alone has half (some 80,000 files with one lock each), and one
/// that comes new always finds room. One more lock is answered ENOLCK.
pub const BYTES_MAX: usize = 256 << 20;
/// Memory of a request that waits, beside the request itself: its places in four maps, and the least node of a tree. It
/// is held for as long as the request is in hand.
pub const WAITING_BYTES: usize = 2048;
/// Owners that one search for a deadlock visits (Linux follows 10): it bounds the time of a request in the event loop.
/// A longer cycle is not found, and its members wait as they would without the search.
pub const DEADLOCK_SEARCH_OWNERS: usize = 1024;

const EBADF: Errno = Errno(9);
const EAGAIN: Errno = Errno(11);
const EINVAL: Errno = Errno(22);
const EDEADLK: Errno = Errno(35);
const ENOLCK: Errno = Errno(37);
const ESTALE: Errno = Errno(116);

/// A lock call: the fields of [`weir_wire::Request::Lock`] and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The client that asks.
    pub client: ClientId,
    /// Its user.
    pub uid: u32,
    /// Its request; with the client it names the request in [`Answer`] and [`LockTable::cancel`].
    pub request: RequestId,
    /// The file.
    pub ino: Ino,
    /// The open description; it owns description locks and flocks, whichever client asks.
    pub handle: HandleId,
    /// The process; it owns POSIX locks.
    pub owner: LockOwner,
    /// Process number told to others.
    pub pid: u32,
    /// Which call.
    pub kind: LockKind,
    /// The lock.
    pub lock: LockType,
    /// Range; a flock always means the whole file.
    pub range: LockRange,
    /// Whether to wait for it.
    pub wait: bool,
    /// The fence under which it was held before a restart or a lost connection.
    pub reclaim: Option<Fence>,
}

/// The result of a lock call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Granted,
    /// It waits: an [`Answer`] will follow, or the caller ends the wait.
    Waiting,
    /// It was refused.
    Failed(Errno),
}

/// The end of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The client that asked.
    pub client: ClientId,
    /// Its request.
    pub request: RequestId,
    /// Granted, or why not.
    pub result: Result<(), Errno>,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Owner {
    Process(ClientId, LockOwner),
    Description(HandleId),
}

/// Locks of two classes never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Range,
    Flock,
}

/// The place of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    ino: Ino,
    class: Class,
    arrival: u64,
}

/// The answer of the held locks to a request.
#[derive(Clone, Copy, Debug, Default)]
struct Decision {
    /// Granted or refused; none when it has to wait.
    result: Option<Result<(), Errno>>,
    /// The owner holds some byte less strongly than before, so that others may be next.
    weakened: bool,
}

/// The locks on the files of one server.
#[derive(Debug, Default)]
pub struct LockTable {
    files: HashMap<Ino, [FileLocks; 2]>,
    waiting: BTreeMap<(ClientId, RequestId), Place>,
    /// Waits of processes, for the search for deadlocks.
    waits_of: HashMap<Owner, Vec<Place>>,
    /// The number of processes of a client that hold locks on a file.
    holders: BTreeMap<(ClientId, Ino), u32>,
    arrivals: u64,
    ranges: usize,
    bytes: usize,
    /// The user that is charged for the locks on a file, and the bytes that each user is charged for.
    payers: HashMap<Ino, u32>,
    charged: HashMap<u32, usize>,
    /// The start before this one, while clients claim the locks that they held then.
    grace: Option<u32>,
    fence: Fence,
    /// Clients lost locks under this fence: the next lock that is granted begins another.
    has_lost: bool,
}

impl LockRequest {
    fn who(&self) -> Owner {
        Owner::of(self.kind, self.client, self.handle, self.owner)
    }

    fn answer(&self, result: Result<(), Errno>) -> Answer {
        Answer { client: self.client, request: self.request, result }
    }
}

impl Owner {
    fn of(kind: LockKind, client: ClientId, handle: HandleId, owner: LockOwner) -> Owner {
        match kind {
            LockKind::Posix => Owner::Process(client, owner),
            LockKind::Description | LockKind::Flock => Owner::Description(handle),
        }
    }

    fn is_process(self) -> bool {
        matches!(self, Owner::Process(..))
    }
}

impl Class {
    const BOTH: [Class; 2] = [Class::Range, Class::Flock];

    fn of(kind: LockKind) -> Class {
        match kind {
            LockKind::Posix | LockKind::Description => Class::Range,
            LockKind::Flock => Class::Flock,
        }
    }
}

impl LockTable {
    /// An empty table, whose fences begin with `first`.
    pub fn new(first: Fence) -> LockTable {
        LockTable { fence: first, ..LockTable::default() }
    }

    /// The fence that holders are told: no lock that was lost under an earlier one came into other hands under that.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Sets, changes or releases a lock. The answers belong to other requests that waited and are now granted.
    ///
    /// A resend of a request that waits goes on waiting in its place. Errors in the outcome: EAGAIN (somebody holds it and
    /// `wait` is not set), EDEADLK, ENOLCK (a limit, or a `reclaim` that cannot be granted), EINVAL (the range ends before it
    /// begins).
    pub fn acquire(&mut self, asked: &LockRequest) -> (Outcome, Vec<Answer>) {
        let mut answers = Vec::new();
        if asked.range.first > asked.range.last {
            return (Outcome::Failed(EINVAL), answers);
        }
        if self.waiting.contains_key(&(asked.client, asked.request)) {
            return (Outcome::Waiting, answers);
        }
        let mut asked = asked.clone();
        if asked.kind == LockKind::Flock {
            asked.range = WHOLE;
        }
        let outcome = match Mode::of(asked.lock) {
            None => self.unlock(&asked, &mut answers),
            Some(mode) if asked.reclaim.is_some() => self.reclaim(&Waiting { asked: asked.clone(), mode }),
            Some(mode) => self.lock(Waiting { asked: asked.clone(), mode }, &mut answers),
        };
        self.forget_if_idle(asked.ino);
        (outcome, answers)
    }

    /// The first lock in the way of `lock` on `range` (`F_GETLK`): type, range and process, `u32::MAX` where an open
    /// description holds it. [`LockType::Unlock`] asks for the first lock of the owner itself, as `F_OFD_GETLK` does since
    /// Linux 6.6. During the grace period locks not yet claimed again are unknown.
    ///
    /// # Errors
    /// EINVAL for a range that ends before it begins.
    pub fn test(&self, asked: &LockRequest) -> Result<Option<(LockType, LockRange, u32)>, Errno> {
        if asked.range.first > asked.range.last {
            return Err(EINVAL);
        }
        let range = if asked.kind == LockKind::Flock { WHOLE } else { asked.range };
        let locks = self.locks(asked.ino, Class::of(asked.kind));
        Ok(locks.and_then(|locks| match Mode::of(asked.lock) {
            Some(mode) => locks.conflict(asked.who(), range, mode),
            None => locks.own(asked.who(), range),
        }))
    }

    /// Ends the wait of a request, which the caller answers with EINTR; false when it does not wait (any more).
    pub fn cancel(&mut self, client: ClientId, request: RequestId) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::CancelledStillWait) {
            return false;
        }
        let Some(place) = self.waiting.get(&(client, request)).copied() else { return false };
        let _ = self.take_waiting(place);
        self.forget_if_idle(place.ino);
        true
    }

    /// A process closed a descriptor of the file: its POSIX locks there go.
    pub fn release_owner(&mut self, ino: Ino, client: ClientId, owner: LockOwner) -> Vec<Answer> {
        let mut answers = Vec::new();
        if self.release(ino, Class::Range, Owner::Process(client, owner)) {
            self.settle(ino, Class::Range, WHOLE, &mut answers);
        }
        self.forget_if_idle(ino);
        answers
    }

    /// An open description was closed: its flock and description locks go, and requests that wait for it are answered EBADF.
    pub fn close(&mut self, ino: Ino, handle: HandleId) -> Vec<Answer> {
        self.end_description(ino, handle, false)
    }

    /// An open description ended with the session of its last client: its locks are lost, and go as in [`LockTable::close`].
    pub fn lose(&mut self, ino: Ino, handle: HandleId) -> Vec<Answer> {
        self.end_description(ino, handle, true)
    }

    fn end_description(&mut self, ino: Ino, handle: HandleId, is_loss: bool) -> Vec<Answer> {
        let (mut answers, owner) = (Vec::new(), Owner::Description(handle));
        for class in Class::BOTH {
            let places = self.places(ino, class, |waiting| waiting.asked.who() == owner);
            answers.extend(places.into_iter().filter_map(|place| self.fail_waiting(place, EBADF)));
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::CloseKeepsLocks) {
                continue;
            }
            if self.release(ino, class, owner) {
                self.has_lost |= is_loss;
                self.settle(ino, class, WHOLE, &mut answers);
            }
        }
        self.forget_if_idle(ino);
        answers
    }

    /// A client's session ended: its POSIX locks are lost, and everything it waits for goes without an answer. Its descriptions may
    /// be shared with other clients: the namespace, which knows them, calls [`LockTable::lose`].
    pub fn drop_client(&mut self, client: ClientId) -> Vec<Answer> {
        let mut answers = Vec::new();
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::LocksKept) {
            return answers;
        }
        let requests = (client, RequestId(0))..=(client, RequestId(u64::MAX));
        let places: Vec<Place> = self.waiting.range(requests).map(|(_, place)| *place).collect();
        for place in places {
            let _ = self.take_waiting(place);
            self.forget_if_idle(place.ino);
        }
        let held = (client, Ino(0))..=(client, Ino(u64::MAX));
        let files: Vec<Ino> = self.holders.range(held).map(|((_, ino), _)| *ino).collect();
        self.has_lost |= !files.is_empty();
        let (first, last) =
            (Owner::Process(client, LockOwner(0)), Owner::Process(client, LockOwner(u64::MAX)));
        for ino in files {
            let owners = self.locks(ino, Class::Range).map(|locks| locks.owners_between(first, last));
            // All of them go before anything is granted: else a request that waits for one would pass one that waits for two.
            for owner in owners.unwrap_or_default() {
                self.release(ino, Class::Range, owner);
            }
            self.settle(ino, Class::Range, WHOLE, &mut answers);
            self.forget_if_idle(ino);
        }
        answers
    }

    /// The inode is gone, with all its locks; requests that wait for it are answered ESTALE.
    pub fn remove(&mut self, ino: Ino) -> Vec<Answer> {
        let mut answers = Vec::new();
        for class in Class::BOTH {
            let places = self.places(ino, class, |_| true);
            answers.extend(places.into_iter().filter_map(|place| self.fail_waiting(place, ESTALE)));
        }
        if let Some(files) = self.files.remove(&ino) {
            let runs = files.iter().map(FileLocks::runs).sum::<usize>();
            let bytes = files.iter().map(FileLocks::bytes).sum::<usize>();
            self.recount(ino, None, (runs, bytes), (0, 0));
            self.payers.remove(&ino);
            let [ranges, _] = files;
            let (first, last) = (
                Owner::Process(ClientId(0), LockOwner(0)),
                Owner::Process(ClientId(u64::MAX), LockOwner(u64::MAX)),
            );
            for owner in ranges.owners_between(first, last) {
                self.count_holder(owner, ino, Changed { vanished: true, ..Changed::default() });
            }
        }
        answers
    }

    /// The server restarted: until [`LockTable::end_grace`] only locks that were held under the start before are granted, to
    /// those who held them; releases work, and every other request waits.
    pub fn begin_grace(&mut self, last_start: u32) {
        self.grace = Some(last_start);
    }

    /// Whether the grace period lasts.
    pub fn in_grace(&self) -> bool {
        self.grace.is_some()
    }

    /// Every client had its time to claim its locks again: requests that waited are decided in the order of their arrival.
    pub fn end_grace(&mut self) -> Vec<Answer> {
        self.grace = None;
        let mut answers = Vec::new();
        let mut places: Vec<Place> = self.waiting.values().copied().collect();
        places.sort_by_key(|place| place.arrival);
        for place in places {
            // An earlier decision may have granted it already.
            let Some(waiting) = self.take_waiting(place) else { continue };
            let decision = self.decide(&waiting);
            match decision.result {
                Some(result) => answers.push(waiting.asked.answer(result)),
                None => self.put_waiting(place, waiting),
            }
            if decision.weakened {
                self.settle(place.ino, place.class, WHOLE, &mut answers);
            }
            self.forget_if_idle(place.ino);
        }
        answers
    }

    /// Number of ranges held on all files.
    pub fn held_ranges(&self) -> usize {
        self.ranges
    }

    /// Memory that the held locks take at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of requests that wait.
    pub fn waiting_requests(&self) -> usize {
        self.waiting.len()
    }

    fn unlock(&mut self, asked: &LockRequest, answers: &mut Vec<Answer>) -> Outcome {
        let (owner, class) = (asked.who(), Class::of(asked.kind));
        let Some(locks) = self.locks(asked.ino, class) else { return Outcome::Granted };
        if locks.is_split_by(owner, asked.range) && self.is_full(asked, 1) {
            return Outcome::Failed(ENOLCK);
        }
        if self.set(asked, None).weakened {
            self.settle(asked.ino, class, asked.range, answers);
        }
        Outcome::Granted
    }

    fn lock(&mut self, wanted: Waiting, answers: &mut Vec<Answer>) -> Outcome {
        let (ino, class) = (wanted.asked.ino, Class::of(wanted.asked.kind));
        let range = wanted.asked.range;
        let decision = if self.in_grace() { Decision::default() } else { self.decide(&wanted) };
        let outcome = match decision.result {
            Some(Ok(())) => Outcome::Granted,
            Some(Err(errno)) => Outcome::Failed(errno),
            None if self.locks(ino, class).is_some_and(|locks| locks.waiting.len() >= WAITING_PER_FILE) => {
                Outcome::Failed(ENOLCK)
            }
            None => {
                self.arrivals += 1;
                self.put_waiting(Place { ino, class, arrival: self.arrivals }, wanted);
                Outcome::Waiting
            }
        };
        if decision.weakened {
            self.settle(ino, class, range, answers);
        }
        outcome
    }

    /// Grants or refuses a request by the locks that are held now.
    fn decide(&mut self, wanted: &Waiting) -> Decision {
        let asked = &wanted.asked;
        let (owner, class) = (asked.who(), Class::of(asked.kind));
        let mut weakened = false;
        if class == Class::Flock {
            let held = self.locks(asked.ino, class).and_then(|locks| locks.mode_of(owner));
            if held.is_some_and(|held| held != wanted.mode) {
                // flock(2): a conversion first gives up the lock, and has lost it when the new one is not granted.
                weakened = self.set(asked, None).weakened;
            }
        }
        let locks = self.locks(asked.ino, class);
        let result = if !locks.is_some_and(|locks| locks.is_blocked(owner, asked.range, wanted.mode)) {
            let granted = self.grant(wanted);
            weakened |= granted == Ok(true);
            Some(granted.map(|_| ()))
        } else if !asked.wait {
            Some(Err(EAGAIN))
        } else {
            self.would_deadlock(wanted).then_some(Err(EDEADLK))
        };
        Decision { result, weakened }
    }

    /// Gives the lock, which nobody blocks; tells whether the owner holds some byte less strongly than before.
    fn grant(&mut self, wanted: &Waiting) -> Result<bool, Errno> {
        // At most two more: a range in another mode is cut in two, with the new one between.
        if self.is_full(&wanted.asked, 2) {
            return Err(ENOLCK);
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::FenceKept) {
            self.has_lost = false;
        }
        if std::mem::take(&mut self.has_lost) {
            self.fence = self.fence.next();
        }
        Ok(self.set(&wanted.asked, Some(wanted.mode)).weakened)
    }

    fn reclaim(&mut self, wanted: &Waiting) -> Outcome {
        let asked = &wanted.asked;
        let (owner, class) = (asked.who(), Class::of(asked.kind));
        let locks = self.locks(asked.ino, class);
        if locks.is_some_and(|locks| locks.holds(owner, asked.range, wanted.mode)) {
            return Outcome::Granted;
        }
        // A client that missed a whole start knows nothing of those that had the lock then.
        let is_known = asked.reclaim.is_some_and(|held| self.grace == Some(held.start()));
        #[cfg(any(test, feature = "world"))]
        let is_known = is_known || mutants::is(Mutant::ClaimsOfAnyStart);
        if !is_known || locks.is_some_and(|locks| locks.is_blocked(owner, asked.range, wanted.mode)) {
            return Outcome::Failed(ENOLCK);
        }
        self.grant(wanted).map_or_else(Outcome::Failed, |_| Outcome::Granted)
    }

    /// Grants, in the order of arrival, the requests that the weakening of `dirty` made possible.
    fn settle(&mut self, ino: Ino, class: Class, mut dirty: LockRange, answers: &mut Vec<Answer>) {
        if self.in_grace() {
            return;
        }
        let mut from = 0;
        while let Some(locks) = self.locks(ino, class) {
            let grantable = locks.waiting.range(from..).find(|(_, waiting)| {
                let asked = &waiting.asked;
                overlap(asked.range, dirty) && !locks.is_blocked(asked.who(), asked.range, waiting.mode)
            });
            let Some(arrival) = grantable.map(|(arrival, _)| *arrival) else { return };
            let Some(waiting) = self.take_waiting(Place { ino, class, arrival }) else { return };
            let granted = self.grant(&waiting);
            answers.push(waiting.asked.answer(granted.map(|_| ())));
            from = arrival + 1;
            if granted == Ok(true) {
                // A downgrade of the owner's own lock: an earlier request may now be next.
                from = 0;
                dirty.first = dirty.first.min(waiting.asked.range.first);
                dirty.last = dirty.last.max(waiting.asked.range.last);
            }
        }
    }

    /// Whether waiting for `wanted` closes a circle of processes that wait for each other, over all files.
    ///
    /// As on Linux, description locks take no part (nobody knows which process would release them), and a process with one
    /// waiting thread counts as waiting.
    fn would_deadlock(&self, wanted: &Waiting) -> bool {
        let owner = wanted.asked.who();
        if !owner.is_process() {
            return false;
        }
        let mut visited = HashSet::new();
        let mut pending = Vec::new();
        self.extend_with_waiting_blockers(wanted, owner, &mut pending);
        while let Some(blocker) = pending.pop() {
            if blocker == owner {
                return true;
            }
            if visited.len() >= DEADLOCK_SEARCH_OWNERS {
                return false;
            }
            if !visited.insert(blocker) {
                continue;
            }
            for place in self.waits_of.get(&blocker).into_iter().flatten() {
                let locks = self.locks(place.ino, place.class);
                if let Some(waiting) = locks.and_then(|locks| locks.waiting.get(&place.arrival)) {
                    self.extend_with_waiting_blockers(waiting, owner, &mut pending);
                }
            }
        }
        false
    }

    fn extend_with_waiting_blockers(&self, waiting: &Waiting, sought: Owner, pending: &mut Vec<Owner>) {
        let asked = &waiting.asked;
        if let Some(locks) = self.locks(asked.ino, Class::of(asked.kind)) {
            let blockers = locks.blockers(asked.who(), asked.range, waiting.mode);
            pending
                .extend(blockers.filter(|blocker| *blocker == sought || self.waits_of.contains_key(blocker)));
        }
    }

    /// Takes everything from the owner; tells whether it held anything.
    fn release(&mut self, ino: Ino, class: Class, owner: Owner) -> bool {
        let Some(locks) = self.locks_mut(ino, class) else { return false };
        let before = (locks.runs(), locks.bytes());
        let changed = locks.set(owner, 0, WHOLE, None);
        let after = (locks.runs(), locks.bytes());
        self.recount(ino, None, before, after);
        self.count_holder(owner, ino, changed);
        changed.weakened
    }

    fn set(&mut self, asked: &LockRequest, mode: Option<Mode>) -> Changed {
        let (owner, class) = (asked.who(), Class::of(asked.kind));
        let locks = &mut self.files.entry(asked.ino).or_default()[class as usize];
        let before = (locks.runs(), locks.bytes());
        let changed = locks.set(owner, asked.pid, asked.range, mode);
        let after = (locks.runs(), locks.bytes());
        self.recount(asked.ino, Some(asked.uid), before, after);
        self.count_holder(owner, asked.ino, changed);
        changed
    }

    /// The locks on a file changed from so many ranges and bytes; `uid` pays for them where nobody does yet.
    fn recount(&mut self, ino: Ino, uid: Option<u32>, before: (usize, usize), after: (usize, usize)) {
        self.ranges = self.ranges + after.0 - before.0;
        self.bytes = self.bytes + after.1 - before.1;
        let payer = match uid {
            Some(uid) if after.1 > 0 => Some(*self.payers.entry(ino).or_insert(uid)),
            _ => self.payers.get(&ino).copied(),
        };
        let Some(payer) = payer.filter(|_| before.1 != after.1) else { return };
        let charged = self.charged.entry(payer).or_default();
        *charged = *charged + after.1 - before.1;
        if *charged == 0 {
            self.charged.remove(&payer);
        }
    }

    fn count_holder(&mut self, owner: Owner, ino: Ino, changed: Changed) {
        let Owner::Process(client, _) = owner else { return };
        if changed.appeared {
            *self.holders.entry((client, ino)).or_default() += 1;
        }
        if changed.vanished {
            let left = self.holders.get_mut(&(client, ino)).map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                self.holders.remove(&(client, ino));
            }
        }
    }

    fn is_full(&self, asked: &LockRequest, more: usize) -> bool {
        let runs = self.locks(asked.ino, Class::of(asked.kind)).map_or(0, FileLocks::runs);
        let payer = self.payers.get(&asked.ino).unwrap_or(&asked.uid);
        let charged = self.charged.get(payer).copied().unwrap_or(0);
        let bytes = FileLocks::bytes_of(1, more);
        runs + more > RANGES_PER_FILE || charged + bytes > BYTES_MAX.saturating_sub(self.bytes)
    }

    fn put_waiting(&mut self, place: Place, waiting: Waiting) {
        let asked = &waiting.asked;
        self.waiting.insert((asked.client, asked.request), place);
        if asked.wait && asked.who().is_process() {
            self.waits_of.entry(asked.who()).or_default().push(place);
        }
        let locks = &mut self.files.entry(place.ino).or_default()[place.class as usize];
        locks.waiting.insert(place.arrival, waiting);
    }

    fn take_waiting(&mut self, place: Place) -> Option<Waiting> {
        let waiting = self.locks_mut(place.ino, place.class)?.waiting.remove(&place.arrival)?;
        let owner = waiting.asked.who();
        self.waiting.remove(&(waiting.asked.client, waiting.asked.request));
        if let Some(places) = self.waits_of.get_mut(&owner) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.waits_of.remove(&owner);
            }
        }
        Some(waiting)
    }

    fn fail_waiting(&mut self, place: Place, errno: Errno) -> Option<Answer> {
        self.take_waiting(place).map(|waiting| waiting.asked.answer(Err(errno)))
    }

    fn places(&self, ino: Ino, class: Class, is_meant: impl Fn(&Waiting) -> bool) -> Vec<Place> {
        let waiting = self.locks(ino, class).into_iter().flat_map(|locks| locks.waiting.iter());
        waiting
            .filter(|(_, waiting)| is_meant(waiting))
            .map(|(arrival, _)| Place { ino, class, arrival: *arrival })
            .collect()
    }

    fn locks(&self, ino: Ino, class: Class) -> Option<&FileLocks> {
        self.files.get(&ino).map(|files| &files[class as usize])
    }

    fn locks_mut(&mut self, ino: Ino, class: Class) -> Option<&mut FileLocks> {
        self.files.get_mut(&ino).map(|files| &mut files[class as usize])
    }

    fn forget_if_idle(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|files| files.iter().all(FileLocks::is_idle)) {
            self.files.remove(&ino);
            self.payers.remove(&ino);
        }
    }
}
