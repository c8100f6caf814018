//! Capabilities of files whose home is another server: which of them are known to hold, and which must be asked about.
//!
//! A target cannot see a description end. It takes a capability that its home made a moment ago, and asks the home about an
//! older one; what the home said holds as long again. First bytes of an object are told to the home, which says whether the
//! file is still there, so that nothing a late writer leaves behind stays.

use crate::links::LinkKey;
use crate::namespace::{errno, Caller, PeerFailure};
use crate::peers::Answer;
use crate::requests::metadata::Asked;
use crate::server::Server;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{limits, Capability, Errno, HandleId, Ino, PeerReply, PeerRequest, Request, RequestId};

/// For how long a capability holds, from its making or from the home's word.
const FRESH: Nanos = Nanos::from_millis(limits::CAPABILITY_FRESH_SECONDS * 1000);
/// A word this old is asked for again while it still holds, so that who goes on reading never waits.
const RENEWED: Nanos = Nanos::from_millis(limits::CAPABILITY_FRESH_SECONDS * 500);
/// How long a home may take to answer: above it the request fails as it does when the home is lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// Descriptions whose home's word is remembered, in a few megabytes. At the limit all are asked about again.
const CONFIRMED: usize = 65_536;
/// Files remembered as removed: a capability of one would else be fresh. What is forgotten early is found by the word of the
/// home about its first bytes.
const REMOVED: usize = 65_536;
/// Files whose homes know that they have objects here. At the limit all are told again.
const TOLD: usize = 1 << 20;
/// Files whose objects are still to be told of to one home that does not answer. What is beyond stays without its word.
const UNTOLD: usize = 1 << 20;

/// One description at its home.
type Named = (ServerId, HandleId);

/// What a capability is worth here.
pub(crate) enum Standing {
    Holds,
    Refused(Errno),
    /// Its home has to be asked first.
    Unknown,
}

/// A request that waits for the word of a home.
struct Waiting {
    token: usize,
    link: LinkKey,
    request: RequestId,
}

/// What is known of capabilities and objects of files with other homes.
#[derive(Default)]
pub(crate) struct Confirmations {
    confirmed: HashMap<Named, Nanos>,
    removed: HashMap<Ino, Nanos>,
    removals: VecDeque<Ino>,
    waiting: HashMap<Named, Vec<Waiting>>,
    /// Capabilities to ask about, each once, and the homes that are being asked.
    to_ask: HashMap<ServerId, VecDeque<Capability>>,
    queued: HashSet<Named>,
    asking: HashSet<ServerId>,
    /// Files whose objects here their homes know of, those they are to be told of, and the homes that are being told.
    told: HashSet<Ino>,
    to_tell: HashMap<ServerId, Vec<Ino>>,
    telling: HashSet<ServerId>,
}

fn named(capability: &Capability) -> Named {
    (capability.ino.home(), capability.handle)
}

/// The capability with which a request reaches for bytes, or for news of them.
pub(crate) fn object_capability(request: &Request) -> Option<&Capability> {
    match request {
        Request::Read { capability, .. }
        | Request::Write { capability, .. }
        | Request::Append { capability }
        | Request::Reserve { capability, .. }
        | Request::ObjectSeek { capability, .. }
        | Request::SyncObject { capability, .. }
        | Request::ObjectChanges { capability, .. }
        | Request::Watch { capability } => Some(capability),
        _ => None,
    }
}

impl Confirmations {
    /// Notes that another server had the object of a file removed.
    pub(crate) fn removed(&mut self, ino: Ino, now: Nanos) {
        self.told.remove(&ino);
        if self.removed.insert(ino, now).is_none() {
            self.removals.push_back(ino);
        }
        while self.removals.len() > REMOVED {
            if let Some(oldest) = self.removals.pop_front() {
                self.removed.remove(&oldest);
            }
        }
    }

    /// Forgets what no capability is fresh enough for.
    pub(crate) fn expire(&mut self, now: Nanos) {
        while let Some(oldest) = self.removals.front() {
            if self.removed.get(oldest).is_some_and(|&since| now.saturating_since(since) <= FRESH) {
                break;
            }
            self.removed.remove(oldest);
            self.removals.pop_front();
        }
    }

    fn age(&self, capability: &Capability, now: Nanos) -> Option<Nanos> {
        self.confirmed.get(&named(capability)).map(|&since| now.saturating_since(since))
    }

    fn note(&mut self, capability: &Capability, now: Nanos) {
        if self.confirmed.len() >= CONFIRMED {
            self.confirmed.clear();
        }
        self.confirmed.insert(named(capability), now);
    }

    fn queue(&mut self, capability: &Capability) {
        if self.queued.insert(named(capability)) {
            self.to_ask.entry(capability.ino.home()).or_default().push_back(*capability);
        }
    }
}

impl Server {
    /// What the capability of a request for bytes is worth.
    pub(crate) fn standing(&mut self, caller: &Caller<'_>, capability: &Capability) -> Standing {
        if capability.ino.home() == self.id {
            return match self.namespace.check_capability(caller, capability) {
                Ok(()) => Standing::Holds,
                Err(errno) => Standing::Refused(errno),
            };
        }
        if !self.key.admits(capability) || !caller.may_use(capability) {
            return Standing::Refused(errno::EACCES);
        }
        let now = self.now();
        if capability.handle == HandleId::NONE || self.confirmations.removed.contains_key(&capability.ino) {
            return Standing::Refused(errno::ESTALE);
        }
        if self.moment().seconds as u64 <= capability.issued_seconds + limits::CAPABILITY_FRESH_SECONDS {
            return Standing::Holds;
        }
        match self.confirmations.age(capability, now) {
            Some(age) if age <= RENEWED => Standing::Holds,
            Some(age) if age <= FRESH => {
                self.confirmations.queue(capability);
                self.ask_homes(capability.ino.home());
                Standing::Holds
            }
            _ => Standing::Unknown,
        }
    }

    /// Holds a request until the home of its file has said whether the capability holds.
    pub(crate) fn confirm_first(&mut self, token: usize, capability: &Capability) {
        let Some(pending) = self.pending.get(token) else { return };
        let waiting = Waiting { token, link: pending.link, request: pending.header.request };
        self.confirmations.waiting.entry(named(capability)).or_default().push(waiting);
        self.confirmations.queue(capability);
        self.ask_homes(capability.ino.home());
    }

    /// Asks a home about what is queued for it, one question at a time.
    fn ask_homes(&mut self, home: ServerId) {
        let Some(queue) = self.confirmations.to_ask.get_mut(&home).filter(|queue| !queue.is_empty()) else {
            return;
        };
        if !self.confirmations.asking.insert(home) {
            return;
        }
        let count = queue.len().min(limits::CONFIRMATIONS);
        let capabilities: Vec<Capability> = queue.drain(..count).collect();
        let request = PeerRequest::Confirm { capabilities: capabilities.clone() };
        self.ask_peer(home, request, Vec::new(), PATIENCE, Asked::Confirm(home, capabilities));
    }

    /// A home answered about capabilities, or did not.
    pub(crate) fn confirmed(&mut self, home: ServerId, capabilities: &[Capability], answer: &Answer) {
        self.confirmations.asking.remove(&home);
        let now = self.now();
        for (number, capability) in capabilities.iter().enumerate() {
            let name = named(capability);
            self.confirmations.queued.remove(&name);
            let word = match answer {
                Ok((PeerReply::Confirmed { holds }, _)) if holds.get(number) == Some(&true) => Ok(()),
                Ok(_) | Err(PeerFailure::Refused(_)) => Err(errno::ESTALE),
                // No description ends while its home is away.
                Err(PeerFailure::Unreachable) if self.confirmations.confirmed.contains_key(&name) => Ok(()),
                Err(PeerFailure::Unreachable) => Err(errno::EIO),
            };
            match word {
                Ok(()) => self.confirmations.note(capability, now),
                Err(_) => _ = self.confirmations.confirmed.remove(&name),
            }
            for waiting in self.confirmations.waiting.remove(&name).unwrap_or_default() {
                let pending = self.pending.get(waiting.token);
                let is_it = |pending: &crate::requests::service::Pending| {
                    pending.link == waiting.link && pending.header.request == waiting.request
                };
                match word {
                    _ if !pending.is_some_and(is_it) => {}
                    Ok(()) => self.route(waiting.token),
                    Err(errno) => self.pending_failed(waiting.token, errno),
                }
            }
        }
        self.ask_homes(home);
    }

    /// Bytes of a file with another home were written here: its home is told, once.
    pub(crate) fn wrote_elsewhere(&mut self, ino: Ino) {
        let confirmations = &mut self.confirmations;
        if confirmations.told.contains(&ino) {
            return;
        }
        if confirmations.told.len() >= TOLD {
            confirmations.told.clear();
        }
        let untold = confirmations.to_tell.entry(ino.home()).or_default();
        if untold.len() < UNTOLD {
            confirmations.told.insert(ino);
            untold.push(ino);
        }
    }

    /// Tells homes of the objects that were made here since the last time.
    pub(crate) fn tell_homes(&mut self) {
        let homes: Vec<ServerId> = self.confirmations.to_tell.keys().copied().collect();
        for home in homes {
            self.tell_home(home);
        }
    }

    fn tell_home(&mut self, home: ServerId) {
        let Some(untold) = self.confirmations.to_tell.get_mut(&home) else { return };
        if untold.is_empty() || !self.confirmations.telling.insert(home) {
            return;
        }
        let inos = untold.split_off(untold.len().saturating_sub(limits::OBJECTS_MADE));
        let request = PeerRequest::ObjectsMade { inos: inos.clone() };
        self.ask_peer(home, request, Vec::new(), PATIENCE, Asked::ObjectsMade(home, inos));
    }

    /// A home said which files are there, or did not: then it is told again later.
    pub(crate) fn told(&mut self, home: ServerId, inos: Vec<Ino>, answer: &Answer) {
        self.confirmations.telling.remove(&home);
        match answer {
            Ok((PeerReply::Confirmed { holds }, _)) if holds.len() == inos.len() => {
                for (ino, _) in inos.into_iter().zip(holds).filter(|(_, is_there)| !**is_there) {
                    self.confirmations.told.remove(&ino);
                    self.remove_strays(ino);
                }
                self.tell_home(home);
            }
            _ => self.confirmations.to_tell.entry(home).or_default().extend(inos),
        }
    }
}
