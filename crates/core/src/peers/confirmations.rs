//! Capabilities of files with another home: some are known to hold, and the home must be asked about the others.
//!
//! A target cannot see a description end. It takes a capability that its home made a moment ago, and asks the home about an
//! older one; the home's word holds as long again. A start forgets which files were removed meanwhile, so the first request with a
//! capability from before the start asks the home, too.
//!
//! A client that uses locks shows the fence of the home. A target takes the fence that it heard from the home last, and asks
//! the home about any other one: so the first read of a lock's next holder shuts out everything that was sent under the lock
//! before.

use super::line::Answer;
use crate::links::link::LinkKey;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, PeerFailure};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::ServerId;
use weir_wire::{limits, Capability, Errno, Fence, HandleId, Ino, PeerReply, Reply, RequestId};

/// For how long a capability holds, from its making or from the home's word.
const FRESH: Nanos = Nanos::from_millis(limits::CAPABILITY_FRESH_SECONDS * 1000);
/// A word this old is asked for again while it still holds, so that a reader that goes on never waits.
const RENEWED: Nanos = Nanos::from_millis(limits::CAPABILITY_FRESH_SECONDS * 500);
/// How long a home may take to answer: above it the request fails as it does when the home is lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Words of homes about descriptions that are remembered, in a few megabytes. At the limit all are asked for again.
const CONFIRMED: usize = 65_536;
/// Files remembered as removed: a capability of one would else be fresh. A file that is forgotten early is found by the word of the
/// home about its first bytes.
const REMOVED: usize = 65_536;

/// One description at its home.
type Named = (ServerId, HandleId);

/// The worth of a capability here.
pub(crate) enum Standing {
    /// It gives the rights that it names.
    Holds,
    /// The request is refused with this error number.
    Refused(Errno),
    /// Its home has to be asked first.
    Unknown,
}

/// A request that waits for the word of a home. Its number may be another request's when the word comes.
pub(crate) struct Waiting {
    pub(crate) number: usize,
    pub(crate) link: LinkKey,
    pub(crate) request: RequestId,
    pub(crate) fence: Fence,
}

/// The words of other homes about capabilities of their files, and the news for them of objects here.
#[derive(Default)]
pub(crate) struct Confirmations {
    /// Unix time of the start. The removals before are forgotten, so a capability that is not younger says nothing by its age.
    started_seconds: u64,
    confirmed: HashMap<Named, Nanos>,
    /// The fence that each home told last.
    fences: HashMap<ServerId, Fence>,
    removed: HashMap<Ino, Nanos>,
    removals: VecDeque<Ino>,
    waiting: HashMap<Named, Vec<Waiting>>,
    /// Capabilities to ask about, each once, and the homes that are being asked.
    to_ask: HashMap<ServerId, VecDeque<Capability>>,
    queued: HashSet<Named>,
    asking: HashSet<ServerId>,
}

fn named(capability: &Capability) -> Named {
    (capability.ino.home(), capability.handle)
}

impl Confirmations {
    /// Begins at a start, which was at this Unix time.
    pub(crate) fn new(started_seconds: u64) -> Confirmations {
        Confirmations { started_seconds, ..Confirmations::default() }
    }

    /// Notes that the home of a file had its object removed.
    pub(crate) fn removed(&mut self, ino: Ino, now: Nanos) {
        if self.removed.insert(ino, now).is_none() {
            self.removals.push_back(ino);
        }
        while self.removals.len() > REMOVED {
            if let Some(oldest) = self.removals.pop_front() {
                self.removed.remove(&oldest);
            }
        }
    }

    /// Forgets removals and words that no capability is fresh enough for.
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

    /// Whether a request for a file may go on by its fence, as far as the home's last word goes.
    pub(crate) fn admits(&self, ino: Ino, fence: Fence) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::FencesIgnored) {
            return true;
        }
        fence == Fence::NONE || self.fences.get(&ino.home()) == Some(&fence)
    }

    /// The worth of a capability that its token proves to be of another home's making, in a request with this fence; `now` is
    /// the server's time and `seconds` Unix time. Where the answer is old, the home is to be asked again.
    pub(crate) fn standing(
        &mut self,
        capability: &Capability,
        fence: Fence,
        now: Nanos,
        seconds: u64,
    ) -> Standing {
        if capability.handle == HandleId::NONE || self.removed.contains_key(&capability.ino) {
            return Standing::Refused(errno::ESTALE);
        }
        if !self.admits(capability.ino, fence) {
            return Standing::Unknown;
        }
        if self.is_fresh(capability, seconds) {
            return Standing::Holds;
        }
        match self.age(capability, now) {
            Some(age) if age <= RENEWED => Standing::Holds,
            Some(age) if age <= FRESH => {
                self.queue(capability);
                Standing::Holds
            }
            _ => Standing::Unknown,
        }
    }

    /// Whether the home made a capability a moment ago, and in this start: else its file may have gone, and the object here with it.
    fn is_fresh(&self, capability: &Capability, seconds: u64) -> bool {
        let started_seconds = self.started_seconds;
        #[cfg(any(test, feature = "world"))]
        let started_seconds = if mutants::is(Mutant::FreshBeforeStart) { 0 } else { started_seconds };
        let issued_seconds = capability.issued_seconds;
        issued_seconds > started_seconds && seconds <= issued_seconds + limits::CAPABILITY_FRESH_SECONDS
    }

    /// Holds a request until the home of its file has said whether the capability holds.
    pub(crate) fn wait(&mut self, capability: &Capability, waiting: Waiting) {
        self.waiting.entry(named(capability)).or_default().push(waiting);
        self.queue(capability);
    }

    /// The next question to a home, if there is one and none is under way.
    pub(crate) fn take_question(&mut self, home: ServerId) -> Option<Vec<Capability>> {
        let queue = self.to_ask.get_mut(&home).filter(|queue| !queue.is_empty())?;
        if !self.asking.insert(home) {
            return None;
        }
        let count = queue.len().min(limits::CONFIRMATIONS);
        Some(queue.drain(..count).collect())
    }

    /// A home answered about capabilities, or did not. Answers the requests that waited, each with the reply that refuses it.
    pub(crate) fn answered(
        &mut self,
        home: ServerId,
        capabilities: &[Capability],
        answer: &Answer,
        now: Nanos,
    ) -> Vec<(Waiting, Result<(), Reply>)> {
        self.asking.remove(&home);
        if let Ok((PeerReply::Confirmed { fence, .. }, _)) = answer {
            self.fences.insert(home, *fence);
        }
        let mut released = Vec::new();
        for (number, capability) in capabilities.iter().enumerate() {
            let name = named(capability);
            self.queued.remove(&name);
            let word = match answer {
                Ok((PeerReply::Confirmed { holds, .. }, _)) if holds.get(number) == Some(&true) => Ok(()),
                Ok(_) | Err(PeerFailure::Refused(_)) => Err(errno::ESTALE),
                // No description ends while its home is away.
                Err(PeerFailure::Unreachable) if self.confirmed.contains_key(&name) => Ok(()),
                Err(PeerFailure::Unreachable) => Err(errno::EIO),
            };
            match word {
                Ok(()) => self.note(capability, now),
                Err(_) => _ = self.confirmed.remove(&name),
            }
            for waiting in self.waiting.remove(&name).unwrap_or_default() {
                let word = match word {
                    Err(errno) => Err(Reply::Failed(errno)),
                    Ok(()) if self.admits(capability.ino, waiting.fence) => Ok(()),
                    Ok(()) if answer.is_ok() => Err(Reply::StaleFence),
                    Ok(()) => Err(Reply::Failed(errno::EIO)),
                };
                released.push((waiting, word));
            }
        }
        released
    }

    fn queue(&mut self, capability: &Capability) {
        if self.queued.insert(named(capability)) {
            self.to_ask.entry(capability.ino.home()).or_default().push_back(*capability);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Description, Rights, SiteKey};

    #[test]
    fn the_home_is_asked_about_a_capability_from_before_the_start_that_forgot_removals() {
        let key = SiteKey::new([7; 32]);
        let of = Description { ino: Ino((1 << 48) + 5), handle: HandleId(9), uid: 0 };
        let rights = Rights { read: true, write: false };
        let mut here = Confirmations::new(1_000);
        let mut holds = |issued_seconds: u64| {
            let capability = key.capability(of, rights, issued_seconds);
            matches!(here.standing(&capability, Fence::NONE, Nanos::ZERO, 1_010), Standing::Holds)
        };
        assert_eq!([990, 1_000, 1_001, 1_010].map(&mut holds), [false, false, true, true]);
        let old = key.capability(of, rights, 990);
        let answer = Ok((PeerReply::Confirmed { holds: vec![true], fence: Fence(1) }, Vec::new()));
        here.answered(of.ino.home(), &[old], &answer, Nanos::ZERO);
        assert!(matches!(here.standing(&old, Fence::NONE, Nanos::ZERO, 1_010), Standing::Holds));
        here.removed(of.ino, Nanos::ZERO);
        let young = key.capability(of, rights, 1_010);
        assert!(matches!(here.standing(&young, Fence::NONE, Nanos::ZERO, 1_010), Standing::Refused(_)));
    }
}
