//! The connections to one server: lanes of slots, each with at most one outstanding request.
//!
//! A slot is leased by `try_lock` alone, so no thread ever waits inside a lock. A signal handler that interrupts a call
//! finds the slot taken and uses another slot, and so does a child forked in the midst of a call.

use crate::descriptors::OwnSocket;
use crate::transport::{timespec, Connection};
use rustix::thread::futex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;
use weir_placement::ServerId;
use weir_session::{Held, Standing};
use weir_wire::{limits, Extent, ServerAddress, SessionBinding, HEADER_BYTES};

/// The use of a connection. Payloads above [`limits::INLINE_PAYLOAD_BYTES`] must not delay small requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Requests with payloads up to [`limits::INLINE_PAYLOAD_BYTES`] both ways.
    Small,
    /// Larger payloads.
    Bulk,
    /// Requests that wait for other clients: locks, append turns, invalidations.
    Waiting,
    /// Questions whether the server lives.
    Probe,
}

/// Small requests at once of one process to one server: one for each thread of a usual program.
const SMALL_SLOTS: usize = 16;
/// Large transfers at once of one process to one server. More transfers only share the same bandwidth.
const BULK_SLOTS: usize = 8;
/// The factor by which a mount has more slots for requests and transfers. A mount acts for all programs of its host, and
/// programs that a policy holds back must leave room for the others.
const MOUNT_SLOTS_FACTOR: usize = 16;
/// Waiting locks at once of one process or mount at one server. Further lock calls poll.
const WAITING_SLOTS: usize = 256;
/// More slots than any lane has.
const LANE_SLOTS_MAX: usize = 4096;
/// Bytes received at once before the length of a reply is known. A reply that carries a page fits.
pub(crate) const RECEIVE_BYTES: usize = 8 * 1024;
/// Longest sleep of a thread that waits for a slot, in case a wake-up is lost.
const LEASE_TICK: Duration = Duration::from_millis(50);

/// Looks at a busy record before a caller goes on without the record. The holder needs well under a microsecond, unless
/// the holder is the very thread that a signal handler interrupted.
const LOOKS: u32 = 2_000;

impl Lane {
    /// The lane for requests whose larger payload has `bytes`.
    pub(crate) fn of_payload(bytes: usize) -> Lane {
        if bytes <= limits::INLINE_PAYLOAD_BYTES {
            Lane::Small
        } else {
            Lane::Bulk
        }
    }
}

/// Addresses of one server that others told since cluster.json changed last. More of them are told only where servers
/// contradict each other.
const TOLD_MAX: usize = 64;

/// The addresses that a server has had, the last one at the end: its number may go to another host, or its port to another
/// program. Addresses are only added, so no call takes a lock to find one.
#[derive(Debug)]
struct Whereabouts {
    address: ServerAddress,
    next: OnceLock<Box<Whereabouts>>,
}

/// A server and the connections to it.
#[derive(Debug)]
pub(crate) struct Link {
    /// The server's number, its address at the beginning, and those of later readings of cluster.json.
    filed: Whereabouts,
    /// The addresses that other servers told.
    told: OnceLock<Box<Whereabouts>>,
    /// Whether the last one that was told is the one to dial.
    goes_by_word: AtomicBool,
    /// Whether this client is a mount.
    is_mount: bool,
    lanes: [OnceLock<LaneSlots>; 4],
    /// The connection of the program that this process executed before, until the first one of this program.
    kept: Mutex<Option<OwnSocket>>,
    /// What the client knows of the server.
    pub(crate) standing: Standing,
    /// Handles and locks that this client holds at the server.
    pub(crate) held: Mutex<Held>,
    /// Whether releases are owed to the server.
    pub(crate) owes: AtomicBool,
    /// Whether locks at the server were lost ([`Held`]).
    pub(crate) has_lost: AtomicBool,
}

#[derive(Debug)]
struct LaneSlots {
    slots: Box<[Slot]>,
    /// The number of slots given back so far: a futex for threads that wait for a slot.
    released: AtomicU32,
    waiters: AtomicU32,
}

#[derive(Debug)]
struct Slot {
    /// Its number among all slots for the server.
    number: u16,
    state: Mutex<SlotState>,
    /// A lower bound on the id of the request in flight, 0 without one.
    outstanding: AtomicU64,
    /// The number of the connection's descriptor, -1 without one.
    descriptor: AtomicI32,
}

/// A connection and its buffers, which live as long as the slot.
#[derive(Debug, Default)]
pub(crate) struct SlotState {
    pub(crate) live: Option<Live>,
    pub(crate) send: Vec<u8>,
    pub(crate) receive: Vec<u8>,
    pub(crate) extents: Vec<Extent>,
}

/// An authenticated connection.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) connection: Box<dyn Connection>,
    /// The session that the proofs of the connection are made for.
    pub(crate) session: SessionBinding,
    /// The identities registered on the connection: number to generation.
    pub(crate) identities: HashMap<u32, u32>,
    /// The number of the credential's reading with which the connection was proved.
    pub(crate) reading: usize,
    /// The start of the server that made the connection.
    pub(crate) boot: u64,
}

/// A slot that belongs to one caller until the lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease<'s> {
    guard: Option<MutexGuard<'s, SlotState>>,
    slot: &'s Slot,
    lane: &'s LaneSlots,
}

impl Whereabouts {
    fn at(address: ServerAddress) -> Whereabouts {
        Whereabouts { address, next: OnceLock::new() }
    }

    fn iter(&self) -> impl Iterator<Item = &Whereabouts> {
        std::iter::successors(Some(self), |known| known.next.get().map(|next| &**next))
    }

    fn last(&self) -> &Whereabouts {
        self.iter().last().unwrap_or(self)
    }
}

impl Link {
    pub(crate) fn new(address: ServerAddress, is_mount: bool) -> Link {
        Link {
            filed: Whereabouts::at(address),
            told: OnceLock::new(),
            goes_by_word: AtomicBool::new(false),
            is_mount,
            lanes: [const { OnceLock::new() }; 4],
            kept: Mutex::new(None),
            standing: Standing::default(),
            held: Mutex::new(Held::default()),
            owes: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
        }
    }

    /// The number of the server.
    pub(crate) fn server(&self) -> ServerId {
        self.filed.address.server
    }

    /// The address of the server, as far as is known.
    pub(crate) fn address(&self) -> &ServerAddress {
        match self.told.get().filter(|_| self.goes_by_word.load(Ordering::SeqCst)) {
            Some(told) => &told.last().address,
            None => &self.filed.last().address,
        }
    }

    /// Takes over the address that cluster.json names now, where it names another one than before.
    pub(crate) fn note_filed(&self, address: &ServerAddress) {
        let last = self.filed.last();
        if last.address != *address {
            // Where another thread was faster, its reading counts, and the next look finds a later one.
            let _ = last.next.set(Box::new(Whereabouts::at(address.clone())));
            self.goes_by_word.store(false, Ordering::SeqCst);
        }
    }

    /// Takes over the ports that another server of the store names. A socket on this host is known by cluster.json alone.
    pub(crate) fn note_told(&self, told: &ServerAddress) {
        let filed = &self.filed.last().address;
        let address = ServerAddress { tcp: told.tcp.clone(), control: told.control.clone(), ..filed.clone() };
        match self.told.get() {
            Some(known) if known.last().address == address => return,
            None if *filed == address => return,
            Some(known) if known.iter().count() >= TOLD_MAX => return,
            Some(known) => _ = known.last().next.set(Box::new(Whereabouts::at(address))),
            None => _ = self.told.set(Box::new(Whereabouts::at(address))),
        }
        self.goes_by_word.store(true, Ordering::SeqCst);
    }

    /// Has the other address be dialled next after one led to no server: cluster.json may be old, and so may the word of a server.
    pub(crate) fn turn_to_other_address(&self) {
        if self.told.get().is_some() {
            self.goes_by_word.fetch_xor(true, Ordering::SeqCst);
        }
    }

    /// Closes a connection that broke or was refused. The server may release what this client holds.
    pub(crate) fn break_off(&self, lease: &mut Lease<'_>) {
        if lease.live().is_some() {
            self.standing.note_break();
            lease.disconnect();
        }
    }

    /// A free slot, if there is one. Connected slots come first.
    pub(crate) fn try_lease(&self, lane: Lane) -> Option<Lease<'_>> {
        self.lane(lane).try_lease()
    }

    /// A free slot, which the call waits for. `give_up` is asked at every look whether to stop waiting.
    pub(crate) fn lease<E>(&self, lane: Lane, give_up: impl Fn() -> Result<(), E>) -> Result<Lease<'_>, E> {
        let lane = self.lane(lane);
        loop {
            if let Some(lease) = lane.try_lease() {
                return Ok(lease);
            }
            give_up()?;
            if let Some(lease) = lane.wait() {
                return Ok(lease);
            }
        }
    }

    /// Whether any slot has a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.slots().any(|slot| slot.descriptor.load(Ordering::Relaxed) >= 0)
    }

    /// The lowest request id that may be in flight, at most `next`.
    pub(crate) fn lowest_outstanding(&self, next: u64) -> u64 {
        self.slots()
            .map(|slot| slot.outstanding.load(Ordering::SeqCst))
            .filter(|id| *id != 0)
            .fold(next, u64::min)
    }

    /// Keeps the connection of the program before: the server takes the client for connected meanwhile.
    pub(crate) fn keep(&self, socket: OwnSocket) {
        if let Some(mut kept) = look(&self.kept) {
            *kept = Some(socket);
        }
    }

    /// The descriptor of the connection of the program before, -1 without one.
    pub(crate) fn kept_number(&self) -> i32 {
        look(&self.kept).and_then(|kept| kept.as_ref().map(OwnSocket::number)).unwrap_or(-1)
    }

    /// Closes the connection of the program before.
    pub(crate) fn close_kept(&self) {
        drop(look(&self.kept).and_then(|mut kept| kept.take()));
    }

    /// Drops every connection, as the child of a fork must. `close` gets the descriptors of slots that a thread of the parent
    /// was using.
    pub(crate) fn abandon(&self, close: &mut impl FnMut(i32)) {
        self.close_kept();
        for slot in self.slots() {
            if let Ok(mut state) = slot.state.try_lock() {
                state.live = None;
                slot.descriptor.store(-1, Ordering::Relaxed);
                continue;
            }
            let descriptor = slot.descriptor.swap(-1, Ordering::Relaxed);
            if descriptor >= 0 {
                crate::descriptors::forget(descriptor);
                close(descriptor);
            }
        }
    }

    fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.lanes.iter().filter_map(OnceLock::get).flat_map(|lane| lane.slots.iter())
    }

    fn lane(&self, lane: Lane) -> &LaneSlots {
        let factor = if self.is_mount { MOUNT_SLOTS_FACTOR } else { 1 };
        let (index, slots) = match lane {
            Lane::Small => (0, SMALL_SLOTS * factor),
            Lane::Bulk => (1, BULK_SLOTS * factor),
            Lane::Waiting => (2, WAITING_SLOTS),
            Lane::Probe => (3, 1),
        };
        if let Some(made) = self.lanes[index].get() {
            return made;
        }
        // The slots are made outside of the cell, so that a signal handler hardly ever meets a cell that is being filled.
        let fresh = LaneSlots::new(index, slots);
        self.lanes[index].get_or_init(|| fresh)
    }
}

/// The record behind `mutex`, or nothing where the record stays busy. The look never waits for a lock that may stay taken
/// for ever.
pub(crate) fn look<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for round in 0..LOOKS {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if round % 64 == 63 => std::thread::yield_now(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// Notes in the record of a server that releases are owed to it.
pub(crate) fn owe(link: &Link, note: impl FnOnce(&mut Held)) {
    if let Some(mut held) = look(&link.held) {
        note(&mut held);
        link.owes.store(true, Ordering::SeqCst);
    }
}

impl LaneSlots {
    fn new(lane: usize, count: usize) -> LaneSlots {
        debug_assert!(count <= LANE_SLOTS_MAX);
        let slot = |index: usize| Slot {
            number: (lane * LANE_SLOTS_MAX + index) as u16,
            state: Mutex::new(SlotState::default()),
            outstanding: AtomicU64::new(0),
            descriptor: AtomicI32::new(-1),
        };
        LaneSlots {
            slots: (0..count).map(slot).collect(),
            released: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
        }
    }

    fn try_lease(&self) -> Option<Lease<'_>> {
        let free = |slot| Slot::try_lease(slot, self);
        let connected = self.slots.iter().filter(|slot| slot.descriptor.load(Ordering::Relaxed) >= 0);
        connected.clone().find_map(free).or_else(|| self.slots.iter().find_map(free))
    }

    /// Waits until a slot is given back, or a tick. Answers a slot that became free before the sleep.
    fn wait(&self) -> Option<Lease<'_>> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let seen = self.released.load(Ordering::SeqCst);
        let lease = self.try_lease();
        if lease.is_none() {
            // The thread may wake late or by an interruption: the caller looks again in any case.
            let _ = futex::wait(&self.released, futex::Flags::PRIVATE, seen, Some(&timespec(LEASE_TICK)));
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        lease
    }

    fn give_back(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&self.released, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Slot {
    fn try_lease<'s>(slot: &'s Slot, lane: &'s LaneSlots) -> Option<Lease<'s>> {
        let mut guard = match slot.state.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poisoned)) => {
                // A panic left the connection in the midst of a frame.
                slot.state.clear_poison();
                let mut guard = poisoned.into_inner();
                guard.live = None;
                slot.descriptor.store(-1, Ordering::Relaxed);
                guard
            }
        };
        if guard.receive.is_empty() {
            guard.receive.resize(RECEIVE_BYTES, 0);
            guard.send.reserve(HEADER_BYTES + 256);
            guard.extents.reserve(1);
        }
        Some(Lease { guard: Some(guard), slot, lane })
    }
}

impl Lease<'_> {
    /// The connection and its buffers.
    pub(crate) fn state(&mut self) -> &mut SlotState {
        // The guard is there until `drop` takes it.
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("a lease holds its guard until it is dropped"),
        }
    }

    /// The connection, for `poll`.
    pub(crate) fn live(&self) -> Option<&Live> {
        self.guard.as_ref().and_then(|guard| guard.live.as_ref())
    }

    /// The number of the slot among all slots for the server.
    pub(crate) fn slot_number(&self) -> u16 {
        self.slot.number
    }

    /// Records a new connection.
    pub(crate) fn set_live(&mut self, live: Live) {
        self.slot.descriptor.store(live.connection.descriptor_number(), Ordering::Relaxed);
        self.state().live = Some(live);
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self) {
        self.slot.descriptor.store(-1, Ordering::Relaxed);
        self.state().live = None;
    }

    /// Takes the next request id of `next`. [`Link::lowest_outstanding`] never passes the id meanwhile.
    pub(crate) fn take_request_id(&self, next: &AtomicU64) -> u64 {
        self.slot.outstanding.store(next.load(Ordering::SeqCst), Ordering::SeqCst);
        next.fetch_add(1, Ordering::SeqCst)
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.slot.outstanding.store(0, Ordering::SeqCst);
        drop(self.guard.take());
        self.lane.give_back();
    }
}
