//! A client of a world: whatever its tasks share at the servers, as the threads of a process do in the product's library.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use weir_wire::{
    Capability, ClientId, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, Reply, Request,
    RequestId,
};

/// A call of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub(super) worker: usize,
    pub(super) number: u64,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldLock {
    pub(super) ino: Ino,
    pub(super) handle: HandleId,
    pub(super) owner: LockOwner,
    pub(super) kind: LockKind,
    pub(super) lock: LockType,
    pub(super) range: LockRange,
}

/// One thing that a client claims at a server which has released its holdings.
pub(super) enum Claim {
    Handles(Vec<Capability>),
    Lock(HeldLock, Fence),
    /// The last one: the client has claimed everything.
    End,
}

/// A client, shared by its tasks and its sessions.
pub(super) type Shared = Rc<RefCell<Client>>;

/// The holdings of a client, and the numbers of its requests.
pub(super) struct Client {
    pub(super) id: ClientId,
    handles: BTreeMap<(Ino, HandleId), Capability>,
    /// Each owner has one lock on a file at most.
    locks: Vec<HeldLock>,
    /// Descriptions through which locks were taken that are lost. Homes give their numbers by themselves.
    lost: BTreeSet<(Ino, HandleId)>,
    fences: BTreeMap<usize, Fence>,
    /// The starts of the servers that have welcomed the client.
    met: BTreeMap<usize, u64>,
    /// Connections to each server that broke.
    breaks: BTreeMap<usize, u64>,
    waiting: BTreeMap<Ticket, (usize, RequestId)>,
    last_request: u64,
    /// The servers at which connections claim at the moment, each with their number.
    claiming: BTreeMap<usize, usize>,
}

impl HeldLock {
    /// The request of a lock call; `reclaim` is the fence under which the lock was held.
    pub(super) fn request(&self, wait: bool, reclaim: Option<Fence>) -> Request {
        let HeldLock { ino, handle, owner, kind, lock, range } = *self;
        Request::Lock { ino, handle, owner, pid: 1, kind, lock, range, wait, reclaim }
    }

    fn is_of_owner(&self, other: &HeldLock) -> bool {
        let is_its = match self.kind {
            LockKind::Posix => self.owner == other.owner,
            LockKind::Description | LockKind::Flock => self.handle == other.handle,
        };
        self.ino == other.ino && self.kind == other.kind && is_its
    }
}

impl Claim {
    pub(super) fn request(&self) -> Request {
        match self {
            Claim::Handles(handles) => Request::Reclaim { handles: handles.clone() },
            Claim::Lock(lock, fence) => lock.request(false, Some(*fence)),
            Claim::End => Request::Reclaim { handles: Vec::new() },
        }
    }
}

impl Client {
    pub(super) fn new(id: ClientId) -> Shared {
        Rc::new(RefCell::new(Client {
            id,
            handles: BTreeMap::new(),
            locks: Vec::new(),
            lost: BTreeSet::new(),
            fences: BTreeMap::new(),
            met: BTreeMap::new(),
            breaks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            last_request: 0,
            claiming: BTreeMap::new(),
        }))
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

    pub(super) fn has_met(&self, server: usize) -> bool {
        self.met.contains_key(&server)
    }

    /// A server has welcomed the client, which has claimed what it held.
    pub(super) fn meets(&mut self, server: usize, boot: u64) {
        self.met.insert(server, boot);
    }

    /// The start of a server that welcomed the client last.
    pub(super) fn boot(&self, server: usize) -> Option<u64> {
        self.met.get(&server).copied()
    }

    pub(super) fn broke(&mut self, server: usize) {
        *self.breaks.entry(server).or_default() += 1;
    }

    /// The number of connections to a server that broke: while it stays, the server has no cause to release anything.
    pub(super) fn breaks(&self, server: usize) -> u64 {
        self.breaks.get(&server).copied().unwrap_or(0)
    }

    pub(super) fn opened(&mut self, ino: Ino, handle: HandleId, capability: Capability) {
        self.handles.insert((ino, handle), capability);
    }

    pub(super) fn closed(&mut self, ino: Ino, handle: HandleId) {
        self.handles.remove(&(ino, handle));
        self.lost.remove(&(ino, handle));
        let is_its = |lock: &HeldLock| (lock.ino, lock.handle) == (ino, handle);
        self.locks.retain(|lock| lock.kind == LockKind::Posix || !is_its(lock));
    }

    /// A connection begins to claim, or ends.
    pub(super) fn claims_begin(&mut self, server: usize) {
        *self.claiming.entry(server).or_default() += 1;
    }

    pub(super) fn claims_end(&mut self, server: usize) {
        *self.claiming.entry(server).or_default() -= 1;
    }

    /// Whether a claim is under way, which brings back whatever it names.
    pub(super) fn is_claiming(&self, server: usize) -> bool {
        self.claiming.get(&server).is_some_and(|count| *count > 0)
    }

    /// Everything that is claimed at a server, in its order.
    pub(super) fn claims(&self, server: usize) -> VecDeque<Claim> {
        let is_here = |ino: Ino| usize::from(ino.home().0) == server;
        let handles: Vec<Capability> =
            self.handles.values().filter(|capability| is_here(capability.ino)).copied().collect();
        let mut claims = VecDeque::new();
        if !handles.is_empty() {
            claims.push_back(Claim::Handles(handles));
        }
        let fence = self.fence(server);
        let locks = self.locks.iter().filter(|lock| is_here(lock.ino));
        claims.extend(locks.map(|lock| Claim::Lock(*lock, fence)));
        claims.push_back(Claim::End);
        claims
    }

    /// A server answered a claim.
    pub(super) fn claimed(&mut self, server: usize, claim: &Claim, reply: &Reply) {
        match (claim, reply) {
            (Claim::End, Reply::Held { fence }) => self.renew_fence(server, *fence),
            (Claim::Handles(_) | Claim::End, _) | (Claim::Lock(..), Reply::Held { .. }) => {}
            // One that was given back meanwhile, after another connection had claimed it, is not lost.
            (Claim::Lock(lock, _), _) if !self.locks.contains(lock) => {}
            (Claim::Lock(lock, _), _) => {
                self.locks.retain(|known| known != lock);
                self.lost.insert((lock.ino, lock.handle));
            }
        }
    }

    /// The fence that a server told last.
    pub(super) fn fence(&self, server: usize) -> Fence {
        self.fences.get(&server).copied().unwrap_or(Fence::NONE)
    }

    /// Takes over the fence of a server that knows what the client holds, if the client uses locks.
    pub(super) fn renew_fence(&mut self, server: usize, told: Fence) {
        let known = self.fence(server);
        let is_earlier = known.start() == told.start() && told < known;
        if known != Fence::NONE && !is_earlier {
            self.fences.insert(server, told);
        }
    }

    /// A lock call was granted: the lock replaces the owner's own on the file.
    pub(super) fn locked(&mut self, granted: HeldLock, fence: Fence) {
        let server = usize::from(granted.ino.home().0);
        let known = self.fence(server);
        self.fences.insert(server, known.max(fence));
        self.lost.remove(&(granted.ino, granted.handle));
        self.locks.retain(|lock| !lock.is_of_owner(&granted));
        if granted.lock != LockType::Unlock {
            self.locks.push(granted);
        }
    }

    /// An owner gives its locks on a file back.
    pub(super) fn released(&mut self, lock: &HeldLock) {
        self.locks.retain(|known| !known.is_of_owner(lock));
    }

    /// Whether a lock that was taken through this description is lost.
    pub(super) fn has_lost(&self, description: Capability) -> bool {
        self.lost.contains(&(description.ino, description.handle))
    }
}
