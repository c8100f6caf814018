//! Links: accepted connections, the clients behind them, and the memory that is held for them.
//!
//! A link is [accepted](Links::accept), proved (`server/handshake.rs`), [read](Links::next_frame) and [sent to](Links::send) in
//! its visits, and [removed](Links::remove).

pub mod admission;
pub(crate) mod claims;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod executed;
pub(crate) mod link;
pub(crate) mod memory;
pub mod socket;
pub(crate) mod stream;
pub(crate) mod visits;

use crate::descriptors::Budget;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::storage::Target;
use admission::{Admission, Origin};
use clients::Clients;
use connection::{Frame, Received, Tail};
use executed::Executed;
use link::{InSlot, Link, LinkKey};
use memory::{Memory, SMALL_BYTES};
use slab::Slab;
use std::collections::{HashMap, VecDeque};
use stream::Stream;
use visits::Visits;
use weir_fairshare::{Nanos, Policy};
use weir_placement::ServerId;
use weir_wire::{limits, ClientId, JobId, Reply, RequestId, HEADER_BYTES};

/// Links that are tried whenever memory is freed: one would take it, and one may be of a job that has no room yet.
const HELD_BACK_READ: usize = 2;
/// How often all of them are looked at.
const HELD_BACK_RETRY: Nanos = Nanos::from_millis(25);
/// Longest frame of a connection that is not proved: a body, and nothing behind it.
const STRANGER_FRAME_BYTES: usize = HEADER_BYTES + limits::BODY_BYTES;

/// The links of one server.
pub(crate) struct Links {
    links: Slab<Link>,
    serial: u64,
    /// Links with output to send.
    dirty: Vec<usize>,
    /// Links that may have something to read.
    ready: Vec<usize>,
    /// Links that wait for memory, the longest waiting first.
    held_back: VecDeque<usize>,
    /// The moment at which all links that wait for memory are looked at again.
    next_retry: Nanos,
    visits: Visits,
    memory: Memory,
    admission: Admission,
    clients: Clients,
    /// The links in the slots of clients, and those of other servers.
    in_slots: HashMap<InSlot, LinkKey>,
    executed: Executed,
    /// Credentials that were refused.
    refusals: u64,
    /// Connections that were ended for bytes that are no frame.
    malformed: u64,
}

/// The result of reading a link once.
pub(crate) enum Reading {
    /// A frame; `is_admitted` says whether there is memory for a large request.
    Frame { frame: Frame, is_admitted: bool },
    /// Nothing more for now.
    Blocked,
    /// The next frame waits for memory.
    HeldBack,
    /// The link is to be closed.
    Closed,
    /// The link is to be closed for this reason, which the other side is told.
    Refused(String),
    /// The other side has not sealed its channel with the key of a credential.
    Unproved(String),
}

impl Links {
    /// No links yet.
    pub(crate) fn new(budget: &Budget, policy: &Policy) -> Links {
        Links {
            links: Slab::new(),
            serial: 0,
            dirty: Vec::new(),
            ready: Vec::new(),
            held_back: VecDeque::new(),
            next_retry: Nanos::ZERO,
            visits: Visits::new(policy),
            memory: Memory::default(),
            admission: Admission::new(budget),
            clients: Clients::default(),
            in_slots: HashMap::new(),
            executed: Executed::default(),
            refusals: 0,
            malformed: 0,
        }
    }

    /// Takes a connection. Answers its place, and the link that has to go for it where there are too many.
    pub(crate) fn accept(&mut self, stream: Stream, origin: Origin, now: Nanos) -> (usize, Option<LinkKey>) {
        self.serial += 1;
        let index = self.links.insert(Link::new(stream, self.serial));
        let turned_away = self.admission.enter(LinkKey { index, serial: self.serial }, origin, now);
        (index, turned_away)
    }

    /// Has the loop told of a link.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn enlist(&mut self, index: usize) -> std::io::Result<()> {
        match self.links.get_mut(index) {
            Some(link) => link.connection().enlist(index),
            None => Ok(()),
        }
    }

    /// Takes a link out, which is closed when the answer is dropped.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Link> {
        let link = self.links.try_remove(index)?;
        if let Some(slot) = link.executed {
            self.executed.disconnect(slot);
        }
        match link.session().map(|session| (session.in_slot(), session.user, session.job())) {
            Some((slot, user, job)) => {
                // A later link may have the slot by now.
                if self.in_slots.get(&slot).is_some_and(|has| has.serial == link.serial()) {
                    self.in_slots.remove(&slot);
                }
                self.admission.forget_proved(user);
                self.memory.release(job, link.memory().buffers());
                self.read_held_back();
            }
            None => self.admission.forget_stranger(link.serial()),
        }
        Some(link)
    }

    /// Gives a proved link the slot that its client told, or the one of another server. Answers the place of the link that had it: that link is over.
    pub(crate) fn take_slot(&mut self, index: usize) -> Option<usize> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::SlotShared) {
            return None;
        }
        let link = self.links.get(index)?;
        let session = link.session()?;
        let key = LinkKey { index, serial: link.serial() };
        self.in_slots.insert(session.in_slot(), key).map(|former| former.index)
    }

    /// A client that is not known claims on a new link what it held before.
    pub(crate) fn begin_claims(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.is_claiming = true;
        }
    }

    /// A client has claimed everything.
    pub(crate) fn end_claims(&mut self, key: LinkKey, client: ClientId) {
        self.clients.claimed(client);
        if let Some(link) = self.of(key) {
            link.is_claiming = false;
        }
    }

    /// Whether a client claims on a link what it has claimed on another one since: it may have given back some of that by now.
    pub(crate) fn claims_late(&mut self, key: LinkKey, client: ClientId) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::LateClaimsCount) {
            return false;
        }
        self.clients.is_known(client) && self.of(key).is_some_and(|link| link.is_claiming)
    }

    /// The link in a place.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Link> {
        self.links.get_mut(index)
    }

    /// The link of this name, if it is still there.
    pub(crate) fn of(&mut self, key: LinkKey) -> Option<&mut Link> {
        self.links.get_mut(key.index).filter(|link| link.serial() == key.serial)
    }

    /// The number of links.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// The other server at the far end of a link; none where it is a client.
    pub(crate) fn peer_of(&self, key: LinkKey) -> Option<ServerId> {
        let link = self.links.get(key.index).filter(|link| link.serial() == key.serial)?;
        link.session()?.peer
    }

    /// Reads one frame of a link.
    pub(crate) fn next_frame(&mut self, index: usize) -> Reading {
        let is_admitted = self.admits(index);
        let Some(link) = self.links.get_mut(index) else { return Reading::Blocked };
        if link.is_closing() || link.receiving().is_some() {
            return Reading::Blocked;
        }
        if link.has_enough() {
            // Nobody would take the answers of a client that is gone, and nothing else is read until it has some.
            if link.connection().has_ended() {
                return Reading::Closed;
            }
            link.is_full = true;
            return Reading::Blocked;
        }
        let is_proved = link.session().is_some();
        let bytes_max = match (is_proved, is_admitted) {
            (true, true) => usize::MAX,
            (false, _) => STRANGER_FRAME_BYTES,
            (true, false) if link.in_hand() == 0 => SMALL_BYTES,
            (true, false) => return self.hold_back(index),
        };
        match link.connection().next_frame(bytes_max) {
            Received::Frame(frame) => Reading::Frame { frame, is_admitted },
            Received::Large if is_proved => self.hold_back(index),
            Received::Large => Reading::Refused("a connection begins with Hello and Prove".into()),
            Received::Blocked => {
                self.count_buffers(index);
                Reading::Blocked
            }
            Received::Closed => Reading::Closed,
            Received::Unproved(reason) => Reading::Unproved(reason),
            Received::Malformed(error) => {
                self.malformed += 1;
                Reading::Refused(error.to_string())
            }
        }
    }

    /// A link waits for memory, and is not read before there is some; without its client the link is to be closed.
    pub(crate) fn hold_back(&mut self, index: usize) -> Reading {
        let Some(link) = self.links.get_mut(index) else { return Reading::Blocked };
        if link.connection().has_ended() {
            return Reading::Closed;
        }
        if !std::mem::replace(&mut link.is_held_back, true) {
            self.held_back.push_back(index);
        }
        self.count_buffers(index);
        Reading::HeldBack
    }

    /// Sends replies of a link, as far as its socket and `bytes_max` allow; the tails of sent replies go to `sent`. Answers
    /// whether the link stays open.
    pub(crate) fn send(
        &mut self,
        index: usize,
        targets: &[Target],
        bytes_max: usize,
        sent: &mut Vec<Tail>,
    ) -> bool {
        let Some(link) = self.links.get_mut(index) else { return true };
        let outcome = link.connection().flush(targets, bytes_max, sent);
        let is_finished = link.is_closing() && !link.connection().has_output();
        let watched = link.connection().watch_for_room();
        self.count_buffers(index);
        let Some(link) = self.links.get_mut(index) else { return true };
        let (Ok(has_more), Ok(()), false) = (outcome, watched, is_finished) else { return false };
        let has_room = link.is_full && !link.has_enough();
        if has_room {
            link.is_full = false;
        }
        if has_more {
            self.dirty.push(index);
        }
        if has_room {
            self.make_ready(index);
        }
        true
    }

    /// A link may have something to read: it is looked at when its visit comes.
    pub(crate) fn make_ready(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            if !std::mem::replace(&mut link.is_ready, true) {
                self.ready.push(index);
            }
        }
    }

    /// A link may have replies to send.
    pub(crate) fn make_dirty(&mut self, index: usize) {
        self.dirty.push(index);
    }

    /// Whether a link may have something to read or to send.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.ready.is_empty() || !self.visits.is_calm()
    }

    /// The links that may have something to read.
    pub(crate) fn take_ready(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.ready)
    }

    /// The links that may have replies to send, each once.
    pub(crate) fn take_dirty(&mut self) -> Vec<usize> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for &index in &dirty {
            if let Some(link) = self.links.get_mut(index) {
                link.is_dirty = true;
            }
        }
        dirty
    }

    /// The visits of links.
    pub(crate) fn visits(&mut self) -> &mut Visits {
        &mut self.visits
    }

    /// A link waits for its visit. Answers whether it is visited at once instead: another server is no job, and its
    /// requests are never queued.
    pub(crate) fn queue_visit(&mut self, index: usize, now: Nanos) -> bool {
        let Some(link) = self.links.get_mut(index) else { return false };
        if std::mem::replace(&mut link.is_queued, true) {
            return false;
        }
        let attributes = match link.session() {
            Some(session) if session.is_peer() => return true,
            Some(session) => Some(session.attributes()),
            None => None,
        };
        self.visits.queue(index, attributes, now);
        false
    }

    /// The visit of a link begins.
    pub(crate) fn begin_visit(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.is_queued = false;
        }
    }

    /// Whether a link is to be read, which it is no longer afterwards.
    pub(crate) fn take_to_read(&mut self, index: usize) -> Option<&mut Link> {
        let link = self.links.get_mut(index).filter(|link| link.is_ready)?;
        link.is_ready = false;
        Some(link)
    }

    /// Whether replies of a link are to be sent, which they are no longer afterwards.
    pub(crate) fn take_to_send(&mut self, index: usize) -> bool {
        let link = self.links.get_mut(index).filter(|link| link.is_dirty);
        link.is_some_and(|link| std::mem::replace(&mut link.is_dirty, false))
    }

    /// Says why, and closes a link when that is sent.
    pub(crate) fn refuse(&mut self, index: usize, reason: &str) {
        if let Some(link) = self.links.get_mut(index) {
            link.connection().refuse(reason);
            link.close_when_sent();
            self.dirty.push(index);
        }
    }

    /// Answers a request outside any queue.
    pub(crate) fn answer(&mut self, index: usize, request: RequestId, reply: &Reply) {
        if let Some(link) = self.links.get_mut(index) {
            link.connection().reply(request, reply, &[], None);
            self.dirty.push(index);
        }
    }

    /// Whether a link may have one more request.
    fn admits(&self, index: usize) -> bool {
        let Some(link) = self.links.get(index) else { return false };
        // A connection that is not proved has one small frame at a time, which the number of connections bounds.
        link.session().is_none_or(|session| self.memory.admits(session.job(), link.memory().bytes()))
    }

    /// Counts memory of a request of a link.
    pub(crate) fn hold_memory(&mut self, index: usize, job: JobId, bytes: usize) {
        self.memory.hold(job, bytes);
        if let Some(link) = self.links.get_mut(index) {
            link.memory.hold(bytes);
        }
    }

    /// A request has ended, and its memory is free.
    pub(crate) fn release_memory(&mut self, key: LinkKey, job: JobId, bytes: usize) {
        self.memory.release(job, bytes);
        if let Some(link) = self.of(key) {
            link.memory.release(bytes);
        }
        self.read_held_back();
    }

    /// Counts anew the memory of a link's buffers.
    pub(crate) fn count_buffers(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        let Some(job) = link.session().map(link::Session::job) else { return };
        let bytes = link.connection().buffered();
        let before = link.memory.set_buffers(bytes);
        if bytes > before {
            self.memory.hold(job, bytes - before);
        } else if bytes < before {
            self.memory.release(job, before - bytes);
            self.read_held_back();
        }
    }

    /// Memory was freed: as many of the links that wait for it go on as may find some.
    fn read_held_back(&mut self) {
        for _ in 0..HELD_BACK_READ.min(self.held_back.len()) {
            let Some(index) = self.held_back.pop_front() else { return };
            if let Some(link) = self.links.get_mut(index) {
                link.is_held_back = false;
                self.make_ready(index);
            }
        }
    }

    /// Links that wait for memory and may have some go on.
    pub(crate) fn retry_held_back(&mut self, now: Nanos) {
        if self.held_back.is_empty() || now < self.next_retry {
            return;
        }
        self.next_retry = now + HELD_BACK_RETRY;
        for index in std::mem::take(&mut self.held_back) {
            if !self.links.contains(index) {
                continue;
            }
            if !self.admits(index) {
                self.held_back.push_back(index);
                continue;
            }
            self.links[index].is_held_back = false;
            self.make_ready(index);
        }
    }

    /// Whether links wait for memory.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// Links that keep memory from others of their jobs and do nothing with it; `is_starved` says whether a request waits for
    /// payload.
    pub(crate) fn idle_holders(&mut self, now: Nanos, is_starved: impl Fn(usize) -> bool) -> Vec<usize> {
        let is_short = self.is_short_of_memory();
        let mut idle = Vec::new();
        for (index, link) in &mut self.links {
            let awaits_payload = is_short && link.receiving().is_some_and(&is_starved);
            let moved = link.connection().moved();
            let is_kept = link.memory.is_kept(moved, now, is_short, awaits_payload);
            let job = link.session().map(link::Session::job).filter(|_| is_kept);
            if job.is_some_and(|job| !self.memory.admits(job, 0)) {
                idle.push(index);
            }
        }
        idle
    }

    /// Bytes of memory held for clients.
    pub(crate) fn held_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The connections that there are, and may be.
    pub(crate) fn admission(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// The clients.
    pub(crate) fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// Changes that were carried out, of which the clients may not know.
    pub(crate) fn executed(&mut self) -> &mut Executed {
        &mut self.executed
    }

    /// A credential was refused.
    pub(crate) fn count_refusal(&mut self) {
        self.refusals += 1;
    }

    /// A connection is ended for bytes that are no frame.
    pub(crate) fn count_malformed(&mut self) {
        self.malformed += 1;
    }

    /// Credentials that were refused, and connections that were ended for bytes that are no frame.
    pub(crate) fn refused(&self) -> (u64, u64) {
        (self.refusals, self.malformed)
    }
}
