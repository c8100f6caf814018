//! The home of a new tree: the server that its name hashes to, unless that server's metadata service is clearly busier than
//! another's.
//!
//! A tree stays with its home, so busy trees that meet by chance are slow for as long as they live. The demand of a server is
//! what the last exchange told. A tree that was given out since brings creates that nobody has seen yet: it counts with the
//! demand of the creates that its maker foresees, else with the demand that is expected of a tree, and less with each exchange,
//! in which its creates show. A tree whose creates are foreseen goes to the least demanded server: its name decides only
//! among equals.
//!
//! Makers may lie. A tree counts at most as a whole server, and only the lead of a server over others counts and is forgotten,
//! so a lie about a tree moves no more than the demand of a server, for the few seconds in which its creates do not come.

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
/// Creates that are worth [`TREE_DEMAND`]. It counts for 20 exchanges (`1 / (1 - LEFT_UNSEEN)`), or a quarter of a second of a
/// service that takes a quarter of a millisecond for a create.
const TREE_CREATES: f64 = 1024.0;
/// The greatest demand of a tree: no home has more than its whole time to give.
const DEMAND_MAX: f64 = 1.0;
/// The lead in demand up to which the hash decides about a tree of unknown demand: names then find the same home on every server.
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
        // What all servers are expected to get alike decides nothing, and would send all trees to a server that joins.
        let of_all = self.servers.iter().map(|server| *expected.get(server).unwrap_or(&0.0));
        let least = of_all.fold(f64::INFINITY, f64::min);
        expected.retain(|_, demand| {
            *demand = (*demand - least) * LEFT_UNSEEN;
            *demand > TREE_DEMAND / 16.0
        });
    }

    /// The home of a new tree of this name in a directory, below which `foreseen` creates are expected; none where there is no
    /// server.
    pub fn give_out(&self, directory: u64, name: &[u8], foreseen: Option<u32>) -> Option<ServerId> {
        let (added, lead_max) = match foreseen {
            Some(creates) => (demand_of(creates), 0.0),
            None => (TREE_DEMAND, LEAD_MAX),
        };
        let hashed = self.ring.server(directory, name)?;
        let mut expected = self.expected.borrow_mut();
        let demand = |server: &ServerId| {
            self.wanted.get(server).unwrap_or(&0.0) + expected.get(server).unwrap_or(&0.0)
        };
        let first = self.servers.iter().position(|&server| server == hashed).unwrap_or(0);
        let in_turn = self.servers[first..].iter().chain(&self.servers[..first]);
        let least = *in_turn.min_by(|one, other| demand(one).total_cmp(&demand(other)))?;
        let home = if demand(&hashed) - demand(&least) > lead_max { least } else { hashed };
        *expected.entry(home).or_default() += added;
        Some(home)
    }
}

/// The demand of a tree with so many foreseen creates.
fn demand_of(creates: u32) -> f64 {
    (TREE_DEMAND * f64::from(creates) / TREE_CREATES).min(DEMAND_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(homes: &Homes, trees: usize) -> Vec<usize> {
        let mut counts = vec![0; homes.servers.len()];
        for number in 0..trees {
            let home = homes.give_out(1, format!("tree-{number}").as_bytes(), None).unwrap();
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
            assert_eq!(homes.give_out(7, name.as_bytes(), None), ring.server(7, name.as_bytes()), "{name}");
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

    /// The creates of each server, of trees that were given out by the creates that are foreseen for each.
    fn creates(homes: &Homes, trees: &[u32]) -> Vec<u32> {
        let mut sums = vec![0; homes.servers.len()];
        for (number, &creates) in trees.iter().enumerate() {
            let home = homes.give_out(1, format!("tree-{number}").as_bytes(), Some(creates)).unwrap();
            sums[usize::from(home.0)] += creates;
        }
        sums
    }

    /// The lead of the most demanded server over the least.
    fn lead(homes: &Homes) -> f64 {
        let expected = homes.expected.borrow();
        let of_all = homes.servers.iter().map(|server| *expected.get(server).unwrap_or(&0.0));
        of_all.clone().fold(0.0, f64::max) - of_all.fold(f64::INFINITY, f64::min)
    }

    /// Whether the hash decides about trees of unknown demand. The homes are those of a copy, which forgets these trees.
    fn hash_decides(homes: &Homes) -> bool {
        (0..50).all(|number| {
            let name = format!("run-{number}");
            homes.clone().give_out(7, name.as_bytes(), None) == homes.ring.server(7, name.as_bytes())
        })
    }

    proptest! {
        #[test]
        fn foreseen_creates_are_spread_within_one_large_tree(
            large in prop::collection::vec(1024_u32..=8192, 1..6), small in prop::collection::vec(0_u32..64, 0..60),
            seed in any::<prop::sample::Index>(),
        ) {
            let most = *large.iter().max().unwrap();
            let mut trees = [large, small].concat();
            let at = seed.index(trees.len());
            trees.rotate_left(at);
            let sums = creates(&four(), &trees);
            prop_assert!(sums.iter().max().unwrap() - sums.iter().min().unwrap() <= most, "{sums:?} of {trees:?}");
        }

        #[test]
        fn a_lie_moves_no_more_than_the_demand_of_a_server_and_is_forgotten(
            lies in prop::collection::vec(prop::option::of(prop_oneof![Just(u32::MAX), any::<u32>(), 0_u32..9000]), 1..300),
        ) {
            let mut homes = four();
            for (number, lie) in lies.into_iter().enumerate() {
                homes.give_out(1, format!("lie-{number}").as_bytes(), lie);
                prop_assert!(lead(&homes) <= DEMAND_MAX + 1e-9, "{homes:?}");
            }
            // 1.0 fades to LEAD_MAX in 41 exchanges: in four seconds, with one each 100 ms.
            (0..41).for_each(|_| homes.heard([]));
            prop_assert!(hash_decides(&homes), "{homes:?}");
        }
    }

    #[test]
    fn a_few_large_trees_among_many_small_ones_have_homes_of_their_own() {
        let trees: Vec<u32> = (0..44).map(|number| if number % 11 == 5 { 4096 } else { 3 }).collect();
        let sums = creates(&four(), &trees);
        assert!(sums.iter().all(|sum| (4096..4096 + 120).contains(sum)), "{sums:?}");
        // Trees of which nothing is known are equal, so the large ones meet.
        let homes = four();
        let mut met = [0; 4];
        for (number, creates) in trees.into_iter().enumerate() {
            let home = homes.give_out(1, format!("tree-{number}").as_bytes(), None).unwrap();
            met[usize::from(home.0)] += creates;
        }
        assert!(met.iter().any(|&creates| creates > 8192), "{met:?} would do as well");
    }

    #[test]
    fn a_flood_of_foreseen_trees_sends_none_of_the_next_ones_to_a_server_that_joins() {
        let mut homes = four();
        creates(&homes, &[8192; 4000]);
        homes.heard([]);
        homes.spread_over((0..5).map(ServerId).collect());
        let joined = (0..100).filter(|number| {
            let name = format!("next-{number}");
            homes.clone().give_out(1, name.as_bytes(), None) == Some(ServerId(4))
        });
        let count = joined.count();
        assert!((1..50).contains(&count), "{count} of 100");
    }

    #[test]
    fn without_servers_there_is_no_home() {
        assert_eq!(Homes::new(Vec::new()).give_out(1, b"name", None), None);
    }
}
