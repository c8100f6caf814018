//! The agenda of a world: everything that is to happen, in the order of virtual time, and the choices of its seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use weir_core::clock::Time;
use weir_core::events::Event;
use weir_fairshare::Nanos;
use weir_placement::SplitMix64;

/// Unix time at which a world begins: any moment after the first one of which the numbers of inodes tell.
const BEGIN_SECONDS: u64 = 1_800_000_000;

/// Bytes are late that take longer.
const LATE: Nanos = Nanos::from_millis(300);

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Something that happens.
pub(super) enum Happening {
    /// A connection reaches a server.
    Accept { server: usize, connection: usize },
    /// A piece of bytes reaches an end of a connection.
    Arrive { connection: usize, towards: Side },
    /// A link of a server has something to read, has room, or has ended.
    Ready { server: usize, life: u64, link: usize, is_readable: bool, has_ended: bool },
    /// A server has a turn.
    Turn { server: usize, life: u64 },
    /// Blocking work of a server is carried out.
    Work { server: usize, life: u64, number: u64 },
    /// Work outside of a server ended.
    Event { server: usize, life: u64, event: Box<Event> },
    /// A session looks at its connection and its deadline.
    Look { session: usize },
    /// A task has waited long enough.
    GoOn { worker: usize },
    /// The metadata of a server is backed up.
    BackUp { server: usize },
    /// The metadata of all servers is brought back from the backup.
    Restore,
    /// A client comes after one that stopped.
    Follow,
    /// An administrator comes after one that stopped.
    Administer,
    /// Something fails.
    Fault,
    /// A server is killed, and starts at once.
    Restart { server: usize },
    /// The servers are looked at while they work.
    Audit,
    /// Nothing is under way, and the store is checked.
    Check,
    /// A server starts.
    Start { server: usize },
    /// The disks of a server work again.
    Mend { server: usize },
}

/// Virtual time, for servers.
#[derive(Default)]
struct VirtualTime(AtomicU64);

struct State {
    happenings: BTreeMap<(Nanos, u64), Happening>,
    order: u64,
    choices: SplitMix64,
    /// The moment until which the last bytes from or to a server are under way that are late.
    late: BTreeMap<usize, Nanos>,
    /// Bytes from and to a server arrive no earlier.
    held_up: BTreeMap<usize, Nanos>,
    /// A number of everything that happened, in its order.
    trace: u64,
    steps: u64,
}

/// The agenda; clones share it.
#[derive(Clone)]
pub(super) struct Agenda {
    state: Rc<RefCell<State>>,
    time: Arc<VirtualTime>,
    /// Whether the world is told on stderr, as `WEIR_WORLD_TOLD` asks.
    is_told: bool,
}

impl Time for VirtualTime {
    fn elapsed(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }

    fn unix(&self) -> Duration {
        Duration::from_secs(BEGIN_SECONDS) + Duration::from(self.elapsed())
    }
}

impl Agenda {
    pub(super) fn new(seed: u64) -> Agenda {
        let state = State {
            happenings: BTreeMap::new(),
            order: 0,
            choices: SplitMix64(seed),
            late: BTreeMap::new(),
            held_up: BTreeMap::new(),
            trace: seed,
            steps: 0,
        };
        let is_told = std::env::var_os("WEIR_WORLD_TOLD").is_some();
        Agenda { state: Rc::new(RefCell::new(state)), time: Arc::default(), is_told }
    }

    /// Tells something that happens to whoever looks for the cause of a fault.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{} us: {}", self.now().0 / 1_000, what());
        }
    }

    /// The time of the world, for a server.
    pub(super) fn time(&self) -> Arc<dyn Time> {
        Arc::<VirtualTime>::clone(&self.time)
    }

    pub(super) fn now(&self) -> Nanos {
        self.time.elapsed()
    }

    /// Any number below `bound`.
    pub(super) fn below(&self, bound: u64) -> u64 {
        self.state.borrow_mut().choices.draw() % bound.max(1)
    }

    /// Whether something with this chance happens, in hundredths.
    pub(super) fn by_chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A moment after now, at most `longest` later.
    pub(super) fn within(&self, longest: Nanos) -> Nanos {
        self.now() + Nanos(1 + self.below(longest.0))
    }

    /// The moment at which bytes from or to a server arrive that are sent now: mostly soon, seldom late.
    pub(super) fn later(&self, server: usize) -> Nanos {
        let longest = if self.by_chance(3) { Nanos::from_millis(100) } else { Nanos::from_millis(2) };
        let at = self.within(longest);
        let held_up = self.state.borrow().held_up.get(&server).copied();
        let at = held_up.map_or(at, |until| at.max(until));
        if at > self.now() + LATE {
            let mut state = self.state.borrow_mut();
            let late = state.late.entry(server).or_default();
            *late = at.max(*late);
        }
        at
    }

    /// Whether bytes from or to a server were late, or are, at a moment or later.
    pub(super) fn is_late_since(&self, server: usize, moment: Nanos) -> bool {
        self.state.borrow().late.get(&server).is_some_and(|late| *late >= moment)
    }

    /// The bytes from and to a server are held up until a moment.
    pub(super) fn hold_up(&self, server: usize, until: Nanos) {
        self.state.borrow_mut().held_up.insert(server, until);
    }

    /// The length of the next piece of so many bytes: often all of them.
    pub(super) fn piece(&self, bytes: usize) -> usize {
        match self.below(4) {
            0 => 1 + self.below(bytes as u64) as usize,
            _ => bytes,
        }
        .min(bytes)
    }

    pub(super) fn add(&self, at: Nanos, happening: Happening) {
        let mut state = self.state.borrow_mut();
        state.order += 1;
        let key = (at.max(self.now()), state.order);
        state.happenings.insert(key, happening);
    }

    /// Goes on to the next thing that happens.
    pub(super) fn next(&self) -> Option<Happening> {
        let ((at, order), happening) = self.state.borrow_mut().happenings.pop_first()?;
        self.time.0.store(at.0, Ordering::Relaxed);
        self.note(at.0 ^ order.rotate_left(32));
        Some(happening)
    }

    /// Takes something into the trace.
    pub(super) fn note(&self, what: u64) {
        let mut state = self.state.borrow_mut();
        state.trace = SplitMix64(state.trace ^ what).draw();
        state.steps += 1;
    }

    /// A number of everything that happened so far, and the number of steps.
    pub(super) fn trace(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.trace, state.steps)
    }
}
