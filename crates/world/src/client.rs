//! A client of a world: whatever its tasks share at the servers, as the threads of a process do in the product's library.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use weir_fairshare::Nanos;
use weir_session::{Held, HeldLock, Standing};
use weir_wire::{Capability, ClientId, Fence, HandleId, Ino, LockOwner, RequestId};

/// Servers release what a client holds that has had no connection for 2 s. A client may see a little less of that time.
const RELEASED_AFTER: Nanos = Nanos::from_millis(1_900);

/// A call of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) worker: usize,
    pub(super) number: u64,
}

/// A client, shared by its tasks and its sessions.
pub(super) type Shared = Rc<RefCell<Client>>;

/// The part of a client at one server.
#[derive(Default)]
struct AtServer {
    standing: Rc<Standing>,
    held: Held,
    /// Connections to the server that hold.
    connections: usize,
    /// The moment at which the last one ended.
    gone_since: Nanos,
    /// The times for which the client had no connection for so long that the server may have released what it held.
    absences: u64,
}

/// The holdings of a client, and the numbers of its requests.
pub(super) struct Client {
    pub(super) id: ClientId,
    servers: BTreeMap<usize, AtServer>,
    waiting: BTreeMap<Ticket, (usize, RequestId)>,
    last_request: u64,
}

fn home(ino: Ino) -> usize {
    usize::from(ino.home().0)
}

impl Client {
    pub(super) fn new(id: ClientId) -> Shared {
        let (servers, waiting) = (BTreeMap::new(), BTreeMap::new());
        Rc::new(RefCell::new(Client { id, servers, waiting, last_request: 0 }))
    }

    fn at(&mut self, server: usize) -> &mut AtServer {
        self.servers.entry(server).or_default()
    }

    /// The knowledge of the client about a server.
    pub(super) fn standing(&mut self, server: usize) -> Rc<Standing> {
        Rc::clone(&self.at(server).standing)
    }

    /// Takes the number of a request that is about to be sent.
    pub(super) fn take_request(&mut self, ticket: Ticket, server: usize) -> RequestId {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.waiting.insert(ticket, (server, request));
        request
    }

    /// The number of a call that was sent and waits.
    pub(super) fn request_of(&self, ticket: Ticket) -> Option<RequestId> {
        self.waiting.get(&ticket).map(|(_, request)| *request)
    }

    /// A call waits no more.
    pub(super) fn is_answered(&mut self, ticket: Ticket) {
        self.waiting.remove(&ticket);
    }

    /// The lowest request to a server that the client still waits for.
    pub(super) fn lowest_waiting(&self, server: usize) -> RequestId {
        let waiting = self.waiting.values().filter(|(at, _)| *at == server).map(|(_, request)| *request);
        waiting.min().unwrap_or(RequestId(self.last_request + 1))
    }

    /// A connection to a server is ready.
    pub(super) fn connected(&mut self, server: usize, now: Nanos) {
        let at = self.at(server);
        if at.connections == 0 && now.saturating_since(at.gone_since) > RELEASED_AFTER {
            at.absences += 1;
        }
        at.connections += 1;
    }

    /// A connection to a server that was ready has ended.
    pub(super) fn disconnected(&mut self, server: usize, now: Nanos) {
        let at = self.at(server);
        at.connections -= 1;
        at.gone_since = now;
        at.standing.note_break();
    }

    /// The times for which the client was away for so long that a server may have released what it held.
    pub(super) fn absences(&mut self, server: usize) -> u64 {
        self.at(server).absences
    }

    /// A number that changes with each connection to a server that broke, and with each start of the server: while it stays, the server has no
    /// cause to release anything.
    pub(super) fn memory(&mut self, server: usize) -> u64 {
        self.at(server).standing.memory()
    }

    /// The start of a server that welcomed the client last.
    pub(super) fn boot(&mut self, server: usize) -> u64 {
        self.at(server).standing.boot.load(Ordering::SeqCst)
    }

    pub(super) fn opened(&mut self, handle: HandleId, capability: Capability) {
        self.at(home(capability.ino)).held.handles.insert(handle, capability);
    }

    pub(super) fn closed(&mut self, ino: Ino, handle: HandleId) {
        self.at(home(ino)).held.close(handle);
    }

    /// The descriptions and locks that are claimed at a server, the descriptions in the order of their numbers.
    pub(super) fn holdings(&mut self, server: usize) -> (Vec<Capability>, Vec<HeldLock>) {
        let held = &self.at(server).held;
        let mut handles: Vec<Capability> = held.handles.values().copied().collect();
        handles.sort_unstable_by_key(|capability| capability.handle);
        (handles, held.locks.clone())
    }

    /// A server gave a lock up.
    pub(super) fn lose(&mut self, server: usize, lock: &HeldLock) {
        self.at(server).held.lose(lock);
    }

    /// A lock call was granted.
    pub(super) fn locked(&mut self, granted: HeldLock, fence: Fence) {
        let at = self.at(home(granted.ino));
        at.standing.note_fence(fence);
        at.held.apply(granted);
    }

    /// An owner gives its locks on a file back.
    pub(super) fn released(&mut self, ino: Ino, owner: LockOwner) {
        self.at(home(ino)).held.release_posix(ino, owner);
    }

    /// Whether a lock that was taken through this description is lost.
    pub(super) fn has_lost(&self, description: Capability) -> bool {
        let at = self.servers.get(&home(description.ino));
        at.is_some_and(|at| at.held.has_lost(description.handle))
    }
}
