//! The home of a new tree: the server that its name hashes to, unless that server's metadata service is clearly busier than
//! another's.
//!
//! A tree stays with its home, so busy trees that meet by chance are slow for as long as they live. The demand of a server is
//! what the last exchange told. A tree that was given out since brings creates that nobody has seen yet: it counts with the
//! demand that is expected of a tree, and less with each exchange, in which its creates show.

use crate::ring::Ring;
use crate::ServerId;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Part of a metadata service's time that a new tree is expected to want: eight trees keep a server busy, as the eight processes
/// of a node do that make files in trees of their own.
const TREE_DEMAND: f64 = 0.125;
/// The part of what is expected of trees that counts after another exchange: with one each 100 ms half of it after 1.4 s, as
/// programs make all their trees before they fill them.
const LEFT_UNSEEN: f64 = 0.95;
/// The lead in demand up to which the hash decides: names then find the same home on every server.
const LEAD_MAX: f64 = TREE_DEMAND;

/// The servers that may be homes of new trees, and their demand.
#[derive(Clone, Debug)]
pub struct Homes {
    servers: Vec<ServerId>,
    ring: Ring,
    /// Part of its time for which each server's metadata service was wanted; above 1 where requests wait.
    wanted: BTreeMap<ServerId, f64>,
    /// The demand that is expected of trees given out since.
    expected: RefCell<BTreeMap<ServerId, f64>>,
}

impl Homes {
    /// These servers, all idle.
    pub fn new(servers: Vec<ServerId>) -> Homes {
        let ring = Ring::new(servers.iter().copied());
        Homes { servers, ring, wanted: BTreeMap::new(), expected: RefCell::default() }
    }

    /// Has new trees have their homes on these servers from now on.
    pub fn spread_over(&mut self, servers: Vec<ServerId>) {
        if self.servers != servers {
            self.ring = Ring::new(servers.iter().copied());
            self.servers = servers;
        }
    }

    /// Adopts the demands of the last exchange; a server that is not named is idle as far as anybody knows.
    pub fn heard(&mut self, wanted: impl IntoIterator<Item = (ServerId, f64)>) {
        self.wanted = wanted.into_iter().filter(|(_, part)| part.is_finite()).collect();
        let expected = self.expected.get_mut();
        expected.retain(|_, demand| {
            *demand *= LEFT_UNSEEN;
            *demand > TREE_DEMAND / 16.0
        });
    }

    /// The home of a new tree of this name in a directory; none where there is no server.
    pub fn give_out(&self, directory: u64, name: &[u8]) -> Option<ServerId> {
        let hashed = self.ring.server(directory, name)?;
        let mut expected = self.expected.borrow_mut();
        let demand = |server: &ServerId| {
            self.wanted.get(server).unwrap_or(&0.0) + expected.get(server).unwrap_or(&0.0)
        };
        let first = self.servers.iter().position(|&server| server == hashed).unwrap_or(0);
        let in_turn = self.servers[first..].iter().chain(&self.servers[..first]);
        let least = *in_turn.min_by(|one, other| demand(one).total_cmp(&demand(other)))?;
        let home = if demand(&hashed) - demand(&least) > LEAD_MAX { least } else { hashed };
        *expected.entry(home).or_default() += TREE_DEMAND;
        Some(home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(homes: &Homes, trees: usize) -> Vec<usize> {
        let mut counts = vec![0; homes.servers.len()];
        for number in 0..trees {
            let home = homes.give_out(1, format!("tree-{number}").as_bytes()).unwrap();
            counts[usize::from(home.0)] += 1;
        }
        counts
    }

    fn four() -> Homes {
        Homes::new((0..4).map(ServerId).collect())
    }

    #[test]
    fn trees_that_are_made_at_once_are_spread_evenly() {
        let ring = Ring::new((0..4).map(ServerId));
        let mut hashed = [0; 4];
        (0..32).for_each(|number| {
            hashed[usize::from(ring.server(1, format!("tree-{number}").as_bytes()).unwrap().0)] += 1;
        });
        let counts = counts(&four(), 32);
        assert!(counts.iter().all(|&count| (7..=9).contains(&count)), "{counts:?}");
        assert!(hashed.iter().any(|&count| !(7..=9).contains(&count)), "{hashed:?} would do as well");
    }

    #[test]
    fn a_busy_server_gets_no_tree_while_others_are_idle() {
        let mut homes = four();
        homes.heard([(ServerId(2), 3.0)]);
        assert_eq!(counts(&homes, 32)[2], 0);
    }

    #[test]
    fn the_hash_decides_among_idle_servers() {
        let mut homes = four();
        let ring = Ring::new((0..4).map(ServerId));
        for number in 0..100 {
            let name = format!("run-{number}");
            assert_eq!(homes.give_out(7, name.as_bytes()), ring.server(7, name.as_bytes()), "{name}");
            // The tree's creates would have shown by now, and did not come.
            (0..64).for_each(|_| homes.heard([]));
        }
    }

    #[test]
    fn a_senseless_demand_counts_for_nothing() {
        let mut homes = four();
        homes.heard([(ServerId(0), f64::NAN), (ServerId(1), f64::INFINITY)]);
        let counts = counts(&homes, 32);
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }

    #[test]
    fn without_servers_there_is_no_home() {
        assert_eq!(Homes::new(Vec::new()).give_out(1, b"name"), None);
    }
}
