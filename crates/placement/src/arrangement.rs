//! The order in which files use their shared targets, so that processes that write the files side by side meet late or
//! never.
//!
//! An allocator fixes the amount of each target. Processes that write their files from the first byte to the last are
//! at one stripe at a time, and wait for each other where two of them are at one target. Targets of stripes of equal
//! content are exchanged, which leaves every target's load as it is. Targets of a component's stripes where one holds
//! less, as its last may, are exchanged within limits. This goes on as long as sharers come further apart. It is a
//! local search: an edge colouring that keeps sharers as far apart as can be is NP-hard.

/// Times that all stripes are looked at, at most; three are enough where hundreds of files share tens of targets.
const PASSES_MAX: usize = 8;
/// Pairs of stripes that are compared at most: a fraction of a second, whatever the number of files.
const COMPARISONS_MAX: u64 = 50_000_000;
/// Files on each side of one's own whose stripes at the same place may be exchanged for one's own.
const NEIGHBOURS: usize = 32;
/// Weight of a byte that two write at once, beside a byte that one writes directly after the other.
const AT_ONCE: f64 = 4.0;

/// One stripe, and when its bytes are written: its writer has written `begin` bytes before it, `end` with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Bytes that its writer writes before its first one.
    pub begin: u64,
    /// Bytes written when its last one is.
    pub end: u64,
    /// The bytes of the stretch: fewer than `end - begin` where other writers take turns with it.
    pub bytes: u64,
}

/// The stripes of one component of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Number of the file.
    pub file: u32,
    /// Number of the component in it.
    pub component: u32,
    /// In stripe order.
    pub stripes: Vec<Stripe>,
}

/// Exchange targets of stripes so that those of different files on one target are far apart in time.
///
/// `targets` has one for each stripe, of all `stretches` one after the other; they are indices into `limits_bytes`, which
/// no target comes to exceed that did not. Targets stay distinct within a stretch.
///
/// # Panics
/// When `targets` are not as many as the stripes, or one has no limit.
pub fn arrange(stretches: &[Stretch], limits_bytes: &[u64], targets: &mut [u32]) {
    let mut search = Search::new(stretches, limits_bytes, targets);
    for _ in 0..PASSES_MAX {
        if !search.pass() {
            break;
        }
    }
    targets.copy_from_slice(&search.targets);
}

struct Search<'a> {
    stretches: &'a [Stretch],
    /// The stretch of each stripe.
    owners: Vec<u32>,
    starts: Vec<usize>,
    targets: Vec<u32>,
    /// The stripes of each target.
    on: Vec<Vec<u32>>,
    /// Bytes that each target may still gain.
    rooms: Vec<u64>,
    /// Stretches of the same component of all files, by component.
    peers: Vec<Vec<u32>>,
    /// The place of each stretch among its peers.
    turns: Vec<usize>,
    usual_bytes: f64,
    comparisons: u64,
}

impl Search<'_> {
    fn new<'a>(stretches: &'a [Stretch], limits_bytes: &[u64], targets: &[u32]) -> Search<'a> {
        let mut starts = vec![0];
        let mut owners = Vec::with_capacity(targets.len());
        let mut peers: Vec<Vec<u32>> = Vec::new();
        let mut turns = Vec::with_capacity(stretches.len());
        for (number, stretch) in stretches.iter().enumerate() {
            owners.extend(std::iter::repeat_n(number as u32, stretch.stripes.len()));
            starts.push(owners.len());
            let component = stretch.component as usize;
            peers.resize_with(peers.len().max(component + 1), Vec::new);
            turns.push(peers[component].len());
            peers[component].push(number as u32);
        }
        assert_eq!(targets.len(), owners.len(), "one target a stripe");
        let mut on = vec![Vec::new(); limits_bytes.len()];
        let mut rooms = limits_bytes.to_vec();
        let stripes = stretches.iter().flat_map(|stretch| &stretch.stripes);
        for (number, (stripe, &target)) in stripes.zip(targets).enumerate() {
            on[target as usize].push(number as u32);
            rooms[target as usize] = rooms[target as usize].saturating_sub(stripe.bytes);
        }
        let spans =
            stretches.iter().flat_map(|stretch| &stretch.stripes).map(|stripe| stripe.end - stripe.begin);
        let usual_bytes = (spans.sum::<u64>() as f64 / owners.len().max(1) as f64).max(1.0);
        let targets = targets.to_vec();
        Search { stretches, owners, starts, targets, on, rooms, peers, turns, usual_bytes, comparisons: 0 }
    }

    /// Looks at every stripe that meets others, the worst first; whether anything was exchanged.
    fn pass(&mut self) -> bool {
        let costs = (0..self.owners.len()).map(|stripe| self.cost(stripe, self.targets[stripe], stripe));
        let mut order: Vec<(f64, usize)> = Vec::with_capacity(costs.len());
        order.extend(costs.zip(0..).filter(|&(cost, _)| cost > 0.0));
        self.comparisons += self.on.iter().map(|stripes| (stripes.len() * stripes.len()) as u64).sum::<u64>();
        order.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut has_changed = false;
        for (_, stripe) in order {
            if self.comparisons > COMPARISONS_MAX {
                return false;
            }
            has_changed |= self.improve(stripe);
        }
        has_changed
    }

    /// Makes the best exchange of a stripe, if there is one.
    fn improve(&mut self, stripe: usize) -> bool {
        let own = self.owners[stripe] as usize;
        let place = stripe - self.starts[own];
        let before = self.cost(stripe, self.targets[stripe], stripe);
        if before == 0.0 {
            return false;
        }
        let siblings = self.starts[own]..self.starts[own + 1];
        let peers = &self.peers[self.stretches[own].component as usize];
        let turn = self.turns[own];
        let near = turn.saturating_sub(NEIGHBOURS)..(turn + NEIGHBOURS + 1).min(peers.len());
        let others = peers[near]
            .iter()
            .map(|&peer| peer as usize)
            .filter(|&peer| peer != own && place < self.starts[peer + 1] - self.starts[peer]);
        let candidates: Vec<usize> = siblings.chain(others.map(|peer| self.starts[peer] + place)).collect();
        let mut best = (-f64::EPSILON * before, None);
        for other in candidates {
            if !self.may_exchange(stripe, other) {
                continue;
            }
            let (here, there) = (self.targets[stripe], self.targets[other]);
            self.comparisons += 2 * (self.on[here as usize].len() + self.on[there as usize].len()) as u64;
            let gain = self.cost(stripe, there, other) + self.cost(other, here, stripe)
                - self.cost(other, there, other)
                - before;
            if gain < best.0 {
                best = (gain, Some(other));
            }
        }
        if let (_, Some(other)) = best {
            self.exchange(stripe, other);
        }
        best.1.is_some()
    }

    /// Whether loads stay within limits when two stripes change places, and targets distinct.
    fn may_exchange(&self, one: usize, other: usize) -> bool {
        let (here, there) = (self.targets[one], self.targets[other]);
        let has = |stripe: usize, target: u32| {
            let owner = self.owners[stripe] as usize;
            self.targets[self.starts[owner]..self.starts[owner + 1]].contains(&target)
        };
        let (bytes, others) = (self.stripe(one).bytes, self.stripe(other).bytes);
        match self.owners[one] == self.owners[other] {
            true => {
                here != there
                    && bytes.saturating_sub(others) <= self.rooms[there as usize]
                    && others.saturating_sub(bytes) <= self.rooms[here as usize]
            }
            false => here != there && bytes == others && !has(one, there) && !has(other, here),
        }
    }

    fn exchange(&mut self, one: usize, other: usize) {
        let (here, there) = (self.targets[one], self.targets[other]);
        let (bytes, others) = (self.stripe(one).bytes, self.stripe(other).bytes);
        for (stripe, from, to) in [(one, here, there), (other, there, here)] {
            self.on[from as usize].retain(|&kept| kept != stripe as u32);
            self.on[to as usize].push(stripe as u32);
            self.targets[stripe] = to;
        }
        self.rooms[here as usize] = self.rooms[here as usize] + bytes - others;
        self.rooms[there as usize] = self.rooms[there as usize] + others - bytes;
    }

    /// The time for which a stripe and stripes of other files on `target`, without `left_out`, keep each other waiting,
    /// in bytes of a kind.
    fn cost(&self, stripe: usize, target: u32, left_out: usize) -> f64 {
        let others = self.on[target as usize].iter().map(|&other| other as usize);
        others
            .filter(|&other| other != stripe && other != left_out)
            .map(|other| self.between(stripe, other))
            .sum()
    }

    fn between(&self, one: usize, other: usize) -> f64 {
        let file = |stripe: usize| self.stretches[self.owners[stripe] as usize].file;
        if file(one) == file(other) {
            return 0.0;
        }
        let (one, other) = (self.stripe(one), self.stripe(other));
        let (begin, end) = (one.begin.max(other.begin), one.end.min(other.end));
        let gap = begin.saturating_sub(end) as f64 / self.usual_bytes;
        let shortest = (one.end - one.begin).min(other.end - other.begin).max(1);
        let at_once = end.saturating_sub(begin) as f64 / shortest as f64;
        one.bytes.min(other.bytes) as f64 * (1.0 / ((1.0 + gap) * (1.0 + gap)) + AT_ONCE * at_once)
    }

    fn stripe(&self, number: usize) -> Stripe {
        let owner = self.owners[number] as usize;
        self.stretches[owner].stripes[number - self.starts[owner]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Files of `count` stripes of `bytes` one after the other.
    fn files(number: u32, count: u64, bytes: u64) -> Vec<Stretch> {
        let stripe = |place| Stripe { begin: place * bytes, end: (place + 1) * bytes, bytes };
        let stripes: Vec<Stripe> = (0..count).map(stripe).collect();
        (0..number).map(|file| Stretch { file, component: 0, stripes: stripes.clone() }).collect()
    }

    #[test]
    fn those_that_share_all_targets_are_never_at_one_at_once() {
        let mut targets: Vec<u32> = (0..6).flat_map(|_| 0..6).collect();
        arrange(&files(6, 6, 10), &[60; 6], &mut targets);
        for place in 0..6 {
            let mut at: Vec<u32> = targets.iter().skip(place).step_by(6).copied().collect();
            at.sort_unstable();
            assert_eq!(at, [0, 1, 2, 3, 4, 5], "stripe {place} of each");
        }
    }

    #[test]
    fn two_that_share_two_targets_meet_as_late_as_can_be() {
        let mut targets = vec![0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 8, 9];
        arrange(&files(2, 6, 10), &[20; 10], &mut targets);
        for target in [0, 1] {
            let places: Vec<usize> =
                (0..12).filter(|&place| targets[place] == target).map(|place| place % 6).collect();
            assert!(places[0].abs_diff(places[1]) >= 4, "target {target} is at {places:?}");
        }
    }

    #[test]
    fn first_stripes_go_to_other_targets_where_a_file_has_no_other_place_for_them() {
        let stripe = |begin| Stripe { begin, end: begin + 10, bytes: 10 };
        let one = |file, begin| Stretch { file, component: 0, stripes: vec![stripe(begin)] };
        let mut targets = vec![0, 0, 1, 1];
        arrange(&[one(0, 0), one(1, 0), one(2, 100), one(3, 100)], &[20; 2], &mut targets);
        assert_ne!(targets[0], targets[1]);
        assert_ne!(targets[2], targets[3]);
    }

    proptest! {
        #[test]
        fn loads_stay_within_limits_and_targets_are_distinct(
            files in prop::collection::vec((0_u32..6, 0_u32..3, 0_u64..40, 1_u64..20, 1_u32..8, 0_u32..8, 0_u64..20), 0..12),
            room in 0_u64..30,
        ) {
            let stretch = |&(file, component, begin, bytes, count, _, less): &(u32, u32, u64, u64, u32, u32, u64)| {
                let stripe = |place: u32| {
                    let begin = begin + u64::from(place) * bytes;
                    let bytes = if place + 1 == count { bytes.saturating_sub(less) } else { bytes };
                    Stripe { begin, end: begin + bytes, bytes }
                };
                Stretch { file, component, stripes: (0..count).map(stripe).collect() }
            };
            let stretches: Vec<Stretch> = files.iter().map(stretch).collect();
            let before: Vec<u32> = files
                .iter()
                .flat_map(|&(_, _, _, _, count, first, _)| (0..count).map(move |place| (first + place) % 8))
                .collect();
            let loads = |targets: &[u32]| {
                let mut loads = [0; 8];
                for (target, stripe) in targets.iter().zip(stretches.iter().flat_map(|stretch| &stretch.stripes)) {
                    loads[*target as usize] += stripe.bytes;
                }
                loads
            };
            let limits = loads(&before).map(|bytes| bytes + room);
            let mut after = before.clone();
            arrange(&stretches, &limits, &mut after);
            for (target, (load, limit)) in loads(&after).into_iter().zip(limits).enumerate() {
                prop_assert!(load <= limit, "target {} got {} where {} is the limit", target, load, limit);
            }
            let mut start = 0;
            for stretch in &stretches {
                let own: BTreeSet<u32> = after[start..start + stretch.stripes.len()].iter().copied().collect();
                prop_assert_eq!(own.len(), stretch.stripes.len());
                start += own.len();
            }
        }
    }
}
