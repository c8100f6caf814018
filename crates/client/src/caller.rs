//! The callers of a store: the bearer of its credential, and the users for whom a mount acts.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use weir_windows::Job;
use weir_wire::{limits, AccountNames, Credential, Identity};

/// The user for whom a call is made: the bearer of the store's credential, or a user for whom a mount acts.
///
/// A caller is cheap to clone. A connection learns of a caller when it first sends a request of this caller.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub(crate) registered: Option<Arc<Registered>>,
}

/// An identity with the number under which connections know it.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) number: u32,
    /// A count that distinguishes the identities which had the number one after the other.
    pub(crate) generation: u32,
    pub(crate) who: Identity,
    pub(crate) names: AccountNames,
    pub(crate) job: Option<Credential>,
    /// The job under which the caller's operations are counted, once one was.
    pub(crate) counted: OnceLock<Job>,
}

impl Caller {
    /// The bearer of the store's own credential.
    pub const fn own() -> Caller {
        Caller { registered: None }
    }

    /// The caller's number in headers; 0 for the bearer.
    pub(crate) fn number(&self) -> u32 {
        self.registered.as_ref().map_or(0, |who| who.number)
    }
}

/// The callers of a mount and their numbers. When the numbers run out, the number given out first is given again.
/// Connections then register the number's new owner, and register the former owner again at its next call.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<(u32, u32, Vec<u32>), Vec<Arc<Registered>>>,
    order: VecDeque<Arc<Registered>>,
    generation: u32,
}

impl Callers {
    /// The caller of this identity and job.
    pub(crate) fn find(&self, who: Identity, names: AccountNames, job: Option<Credential>) -> Caller {
        // Only a mount has callers, and a mount calls from its own threads, never from a signal handler.
        let mut table = self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let key = (who.uid, who.gid, who.groups.clone());
        let same = |known: &&Arc<Registered>| known.job == job && known.names == names;
        if let Some(found) = table.known.get(&key).and_then(|same_user| same_user.iter().find(same)) {
            return Caller { registered: Some(found.clone()) };
        }
        let number = if table.order.len() + 1 < limits::IDENTITIES_PER_CONNECTION {
            table.order.len() as u32 + 1
        } else {
            table.forget_oldest()
        };
        table.generation = table.generation.wrapping_add(1);
        let counted = OnceLock::new();
        let made = Arc::new(Registered { number, generation: table.generation, who, names, job, counted });
        table.known.entry(key).or_default().push(made.clone());
        table.order.push_back(made.clone());
        Caller { registered: Some(made) }
    }
}

impl Table {
    fn forget_oldest(&mut self) -> u32 {
        let Some(oldest) = self.order.pop_front() else { return 1 };
        let key = (oldest.who.uid, oldest.who.gid, oldest.who.groups.clone());
        if let Some(same_user) = self.known.get_mut(&key) {
            same_user.retain(|known| !Arc::ptr_eq(known, &oldest));
            if same_user.is_empty() {
                self.known.remove(&key);
            }
        }
        oldest.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32) -> Identity {
        Identity { uid, gid: 1, groups: vec![2] }
    }

    fn names() -> AccountNames {
        AccountNames { user: "user".into(), group: "group".into() }
    }

    #[test]
    fn a_caller_keeps_its_number_until_the_numbers_run_out() {
        let callers = Callers::default();
        let first = callers.find(who(0), names(), None);
        assert_eq!(callers.find(who(0), names(), None).number(), first.number());
        let last = limits::IDENTITIES_PER_CONNECTION as u32;
        for uid in 1..last - 1 {
            assert_eq!(callers.find(who(uid), names(), None).number(), uid + 1);
        }
        let reused = callers.find(who(last), names(), None);
        assert_eq!(reused.number(), first.number());
        let (reused, first) = (reused.registered.expect("registered"), first.registered.expect("registered"));
        assert_ne!(reused.generation, first.generation);
    }
}
