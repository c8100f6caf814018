//! Admission of connections: strangers, which have not proved who they are, are few, short-lived and the first to go;
//! of the other connections no user may have more than are left free.

use super::link::LinkKey;
use crate::descriptors::Budget;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use weir_fairshare::Nanos;

/// How long a connection may take to prove who it is, where there is room for it.
const HANDSHAKE_WAIT: Nanos = Nanos::from_millis(10_000);

/// The origin of a connection, as its kernel tells it: the origin of most strangers loses one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A user of this host.
    User(u32),
    /// A host.
    Host(IpAddr),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::User(uid) => write!(formatter, "uid {uid}"),
            Origin::Host(address) => write!(formatter, "{address}"),
        }
    }
}

/// The connections that there are, and may be.
pub(crate) struct Admission {
    links_max: usize,
    strangers_max: usize,
    /// By serial number, the oldest first.
    strangers: BTreeMap<u64, Stranger>,
    by_origin: HashMap<Origin, usize>,
    proved: usize,
    by_user: HashMap<u32, usize>,
}

struct Stranger {
    index: usize,
    origin: Origin,
    since: Nanos,
}

impl Admission {
    pub(crate) fn new(budget: &Budget) -> Admission {
        Admission {
            links_max: budget.links,
            strangers_max: budget.strangers,
            strangers: BTreeMap::new(),
            by_origin: HashMap::new(),
            proved: 0,
            by_user: HashMap::new(),
        }
    }

    /// A connection came. Answers the one that has to go for it, if there are too many.
    pub(crate) fn enter(&mut self, key: LinkKey, origin: Origin, now: Nanos) -> Option<LinkKey> {
        self.strangers.insert(key.serial, Stranger { index: key.index, origin, since: now });
        *self.by_origin.entry(origin).or_default() += 1;
        (self.strangers.len() > self.strangers_max).then(|| self.first_to_go()).flatten()
    }

    /// The oldest stranger of the origin that has most strangers: an origin that comes in numbers turns away its own.
    pub(crate) fn first_to_go(&self) -> Option<LinkKey> {
        let most = self.by_origin.values().copied().max()?;
        let is_most = |stranger: &Stranger| self.by_origin.get(&stranger.origin) == Some(&most);
        let (&serial, stranger) = self.strangers.iter().find(|(_, stranger)| is_most(stranger))?;
        Some(LinkKey { index: stranger.index, serial })
    }

    /// A connection was proved, of `user` where it is that of an ordinary job; false where it may not stay.
    ///
    /// A user may have as many as are left free, as of the memory for payloads: so a newcomer finds room. Mounts
    /// and servers act for many users, and hold the site's trust.
    pub(crate) fn prove(&mut self, serial: u64, user: Option<u32>) -> bool {
        self.forget_stranger(serial);
        let own = user.and_then(|user| self.by_user.get(&user)).copied().unwrap_or(0);
        let left = self.links_max.saturating_sub(self.proved);
        if left == 0 || user.is_some() && own >= left {
            return false;
        }
        self.proved += 1;
        if let Some(user) = user {
            *self.by_user.entry(user).or_default() += 1;
        }
        true
    }

    /// A connection ended that was not proved.
    pub(crate) fn forget_stranger(&mut self, serial: u64) {
        let Some(stranger) = self.strangers.remove(&serial) else { return };
        if let Some(count) = self.by_origin.get_mut(&stranger.origin) {
            *count -= 1;
            if *count == 0 {
                self.by_origin.remove(&stranger.origin);
            }
        }
    }

    /// A proved connection ended.
    pub(crate) fn forget_proved(&mut self, user: Option<u32>) {
        self.proved -= 1;
        let Some(user) = user else { return };
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// Strangers that have been there for too long.
    pub(crate) fn overdue(&self, now: Nanos) -> Vec<LinkKey> {
        let old = self
            .strangers
            .iter()
            .take_while(|(_, stranger)| now.saturating_since(stranger.since) > HANDSHAKE_WAIT);
        old.map(|(&serial, stranger)| LinkKey { index: stranger.index, serial }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(links: usize, strangers: usize) -> Admission {
        Admission::new(&Budget { links, strangers, callers: 4, objects: 4 })
    }

    fn key(number: u64) -> LinkKey {
        LinkKey { index: number as usize, serial: number }
    }

    #[test]
    fn who_comes_in_numbers_turns_away_its_own() {
        let mut admission = admission(1_000, 8);
        let (flood, honest) = (Origin::User(1), Origin::User(2));
        let mut open = Vec::new();
        for number in 0..1_000 {
            let origin = if number % 10 == 9 { honest } else { flood };
            let gone = admission.enter(key(number), origin, Nanos::ZERO);
            open.push((number, origin));
            if let Some(gone) = gone {
                let at = open.iter().position(|&(number, _)| number == gone.serial).expect("it was there");
                assert_eq!(open.remove(at).1, flood, "the honest one stays");
                admission.forget_stranger(gone.serial);
            }
            assert!(open.len() <= 8);
            if origin == honest {
                assert!(admission.prove(number, Some(2)));
                open.retain(|&(other, _)| other != number);
            }
        }
        assert_eq!(admission.by_user.get(&2), Some(&100));
    }

    #[test]
    fn one_user_leaves_room_for_the_next() {
        let mut admission = admission(100, 8);
        let mut fill = |user| (0..).take_while(|&number| admission.prove(number, Some(user))).count();
        assert_eq!((fill(1), fill(2)), (50, 25));
        assert!(admission.prove(0, Some(3)) && admission.prove(0, None));
        for _ in 0..50 {
            admission.forget_proved(Some(1));
        }
        admission.forget_proved(None);
        assert_eq!(admission.by_user.len(), 2);
        assert!(admission.prove(0, Some(2)));
    }

    #[test]
    fn a_stranger_is_given_its_time_and_no_more() {
        let mut admission = admission(100, 8);
        admission.enter(key(1), Origin::User(1), Nanos::ZERO);
        admission.enter(key(2), Origin::User(1), Nanos::from_millis(5_000));
        assert!(admission.overdue(HANDSHAKE_WAIT).is_empty());
        assert_eq!(admission.overdue(Nanos::from_millis(10_001)), [key(1)]);
        assert!(admission.prove(1, None));
        assert_eq!(admission.overdue(Nanos::from_millis(20_000)), [key(2)]);
    }
}
