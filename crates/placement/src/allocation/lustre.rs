//! Lustre's own choice of OSTs, as its manual ("Managing Free Space") and the paper (section 2.1) describe it.
//!
//! While free space is within 17 % (the paper's equation 1), targets are taken in turn from a list that alternates
//! between servers. Beyond that they are drawn at random, weighted by free space less a penalty for recent stripes on
//! the target and its server. Nothing looks at I/O load, at speed or at the future writes of earlier files: free space
//! is the view's. Time plays no part, although Lustre also forgets the penalties of targets that were idle for long.

use super::random::uniform;
use super::{check_demands, Allocation, AllocationError, Allocator, AllocatorName, Demand, View};

/// Part of the most free space by which targets may differ and still be taken in turn (`qos_threshold_rr`).
const WINDOW: f64 = 0.17;

/// Part of the weight that is free space, and not where stripes went lately (`qos_prio_free`).
const PRIORITY_OF_FREE_SPACE: f64 = 0.90;

/// Files after which the turn begins anew at a random place: a number for each target, and at least so many in all.
const FILES_PER_TARGET: i64 = 30;
const FILES_LEAST: i64 = 2000;

/// Round robin over alternating servers, or weighted random on free space where that is uneven; keeps its place and its
/// penalties from call to call.
#[derive(Clone, Debug, Default)]
pub struct LustreStandard {
    turn: Turn,
    penalties: Vec<f64>,
    server_penalties: Vec<f64>,
}

/// The state of a round robin.
#[derive(Clone, Debug, Default)]
struct Turn {
    start: usize,
    /// Added to `start`: shifts the pattern where files would meet the same first target again.
    offset: usize,
    files_until_anew: i64,
}

impl Allocator for LustreStandard {
    fn name(&self) -> &str {
        AllocatorName::LustreStandard.text()
    }

    fn allocate(
        &mut self,
        view: &View,
        demands: &[Demand],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Allocation, AllocationError> {
        check_demands(view, demands)?;
        let usable: Vec<u32> = (0..view.targets().len())
            .filter(|&target| view.is_used(target))
            .map(|target| target as u32)
            .collect();
        let mut targets = Vec::new();
        if is_balanced(view, &usable) {
            let list = alternating(view);
            for demand in demands {
                self.turn.take(&list, usize::from(demand.stripes), random, &mut targets);
            }
        } else {
            self.penalties.resize(view.targets().len(), 0.0);
            self.server_penalties.resize(view.servers().len(), 0.0);
            let shares = Shares::new(view, &usable);
            for demand in demands {
                self.draw(view, &shares, &usable, usize::from(demand.stripes), random, &mut targets);
            }
        }
        Ok(Allocation::new(view, demands, targets))
    }
}

/// The paper's equation 1.
fn is_balanced(view: &View, usable: &[u32]) -> bool {
    let free = |&target: &u32| view.targets()[target as usize].free_bytes;
    let most = usable.iter().map(free).max().unwrap_or(0);
    let least = usable.iter().map(free).min().unwrap_or(0);
    (most - least) as f64 <= WINDOW * most as f64
}

/// The used targets so that servers alternate: the targets of each server, of the largest server first, are set at equal
/// distances over the list, each at the next place that is free.
fn alternating(view: &View) -> Vec<u32> {
    let mut servers: Vec<Vec<u32>> = vec![Vec::new(); view.servers().len()];
    for &target in view.by_server() {
        if view.is_used(target as usize) {
            servers[view.server_of(target as usize)].push(target);
        }
    }
    servers.sort_by_key(|targets| std::cmp::Reverse(targets.len()));
    let total: usize = servers.iter().map(Vec::len).sum();
    let mut list = vec![None; total];
    for targets in servers {
        for (number, &target) in targets.iter().enumerate() {
            let mut place = number * total / targets.len();
            while list[place].is_some() {
                place = (place + 1) % total;
            }
            list[place] = Some(target);
        }
    }
    list.into_iter().flatten().collect()
}

impl Turn {
    /// Append the next `stripes` targets of `list`.
    fn take(
        &mut self,
        list: &[u32],
        stripes: usize,
        random: &mut dyn FnMut() -> u64,
        targets: &mut Vec<u32>,
    ) {
        let count = list.len();
        self.files_until_anew -= 1;
        if self.files_until_anew <= 0 {
            self.start = uniform(random, count as u64) as usize;
            self.files_until_anew = FILES_PER_TARGET * count as i64 + FILES_LEAST;
        } else if stripes >= count || self.start > count {
            self.start %= count;
            if stripes > 1 && count % stripes != 1 {
                self.offset += 1;
            }
        }
        for _ in 0..stripes {
            targets.push(list[(self.start + self.offset) % count]);
            self.start += 1;
        }
    }
}

/// The part that one stripe takes from the weight of its target and of its server, for each round of all targets.
struct Shares {
    of_target: Vec<f64>,
    of_server: Vec<f64>,
    targets: f64,
    servers: f64,
}

impl Shares {
    /// Half the part of the free space that is not weighed as such, spread over the other targets, or servers, in use.
    ///
    /// Where there is one server only, its targets carry the server's part.
    fn new(view: &View, usable: &[u32]) -> Shares {
        let mut free_of_server = vec![0.0; view.servers().len()];
        let mut targets_of_server = vec![0.0; view.servers().len()];
        for &target in usable {
            let server = view.server_of(target as usize);
            free_of_server[server] += view.targets()[target as usize].free_bytes as f64;
            targets_of_server[server] += 1.0;
        }
        let targets = usable.len() as f64;
        let servers = targets_of_server.iter().filter(|&&count| count > 0.0).count() as f64;
        let part = (1.0 - PRIORITY_OF_FREE_SPACE) / 2.0;
        let doubled = if servers > 1.0 { part } else { 2.0 * part };
        let each = doubled / f64::max(targets - 1.0, 1.0);
        let of_target = view.targets().iter().map(|state| each * state.free_bytes as f64).collect();
        let each = part / f64::max(servers - 1.0, 1.0);
        let of_server = free_of_server.iter().zip(&targets_of_server);
        let of_server = of_server.map(|(free, count)| each * free / f64::max(*count, 1.0)).collect();
        Shares { of_target, of_server, targets, servers }
    }
}

impl LustreStandard {
    /// Append `stripes` distinct targets, drawn by weight.
    fn draw(
        &mut self,
        view: &View,
        shares: &Shares,
        usable: &[u32],
        stripes: usize,
        random: &mut dyn FnMut() -> u64,
        targets: &mut Vec<u32>,
    ) {
        let start = targets.len();
        while targets.len() < start + stripes {
            let drawn = &targets[start..];
            let weight = |target: u32| {
                let free = view.targets()[target as usize].free_bytes as f64;
                let penalty =
                    self.penalties[target as usize] + self.server_penalties[view.server_of(target as usize)];
                if drawn.contains(&target) {
                    0.0
                } else {
                    (free - penalty).max(0.0)
                }
            };
            let weights: Vec<f64> = usable.iter().map(|&target| weight(target)).collect();
            let total: f64 = weights.iter().sum();
            let target = if total > 0.0 {
                // 53 random bits: a uniform number below 1 that a float holds exactly.
                let mut at = (random() >> 11) as f64 / (1_u64 << 53) as f64 * total;
                let found = weights.iter().position(|&weight| {
                    at -= weight;
                    at < 0.0 && weight > 0.0
                });
                usable[found.or_else(|| weights.iter().rposition(|&weight| weight > 0.0)).unwrap_or(0)]
            } else {
                // Penalties outweigh all that is left: any that was not drawn yet.
                let left: Vec<u32> =
                    usable.iter().copied().filter(|target| !drawn.contains(target)).collect();
                left[uniform(random, left.len() as u64) as usize]
            };
            targets.push(target);
            self.penalize(view, shares, target as usize);
        }
    }

    /// A target that was given a stripe and its server weigh less, until others were given as many.
    fn penalize(&mut self, view: &View, shares: &Shares, target: usize) {
        let server = view.server_of(target);
        // The old penalty is halved, or that of a target that is chosen often would grow without end.
        self.penalties[target] = self.penalties[target] / 2.0 + shares.of_target[target] * shares.targets;
        self.server_penalties[server] =
            self.server_penalties[server] / 2.0 + shares.of_server[server] * shares.servers;
        for (penalty, share) in self.server_penalties.iter_mut().zip(&shares.of_server) {
            *penalty = (*penalty - share).max(0.0);
        }
        for (penalty, share) in self.penalties.iter_mut().zip(&shares.of_target) {
            *penalty = (*penalty - share).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ServerId, TargetId, TargetState};

    /// A view of servers with so many targets each; the first server is A. All targets have this much free.
    fn view(servers: &[u16], free: impl Fn(usize) -> u64) -> View {
        let mut targets = Vec::new();
        for (server, &count) in servers.iter().enumerate() {
            for index in 0..count {
                let target = TargetId { server: ServerId(server as u16), index };
                let free_bytes = free(targets.len());
                targets.push(TargetState { target, speed: 1.0, load_bytes: 0.0, free_bytes });
            }
        }
        View::new(targets, &[]).unwrap()
    }

    fn numbers(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ (state >> 29)
        }
    }

    fn place(
        lustre: &mut LustreStandard,
        view: &View,
        files: usize,
        stripes: u16,
        seed: u64,
    ) -> Vec<Vec<u32>> {
        let demands = vec![Demand { stripes, stripe_bytes: 1, program: 0 }; files];
        let allocation = lustre.allocate(view, &demands, &mut numbers(seed)).unwrap();
        allocation.iter().map(<[u32]>::to_vec).collect()
    }

    #[test]
    fn servers_alternate_as_in_the_manual() {
        let documented: [(&[u16], &str); 7] = [
            (&[3], "AAA"),
            (&[3, 3], "ABABAB"),
            (&[3, 4], "BBABABA"),
            (&[3, 5], "BBABBABA"),
            (&[3, 5, 1], "BBABABABC"),
            (&[3, 5, 2], "BABABCBABC"),
            (&[4, 6, 2], "BABABCBABABC"),
        ];
        for (servers, letters) in documented {
            let view = view(servers, |_| 1);
            let letter = |&target: &u32| char::from(b'A' + view.server_of(target as usize) as u8);
            assert_eq!(alternating(&view).iter().map(letter).collect::<String>(), letters);
        }
    }

    #[test]
    fn even_space_is_taken_in_turn_and_the_place_is_kept() {
        let view = view(&[5; 7], |target| 1000 - 4 * target as u64);
        let mut lustre = LustreStandard::default();
        let mut targets = Vec::new();
        for seed in 0..5 {
            targets.extend(place(&mut lustre, &view, 14, 4, seed).concat());
        }
        let list = alternating(&view);
        let start = list.iter().position(|&target| target == targets[0]).unwrap();
        let mut counts = vec![0; 35];
        for (number, &target) in targets.iter().enumerate() {
            counts[target as usize] += 1;
            if number < 35 {
                assert_eq!(target, list[(start + number) % 35]);
            }
        }
        // Shifting the pattern costs a stripe here and there.
        assert!(counts.iter().all(|count| (7..=9).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_first_target_changes_where_files_fit_the_list_exactly() {
        // 8 targets and 4 stripes: without the shift every file would start on one of two targets.
        let view = view(&[4, 4], |_| 1);
        let files = place(&mut LustreStandard::default(), &view, 64, 4, 3);
        let firsts: std::collections::BTreeSet<u32> = files.iter().map(|targets| targets[0]).collect();
        assert_eq!(firsts.len(), 8);
    }

    #[test]
    fn uneven_space_is_drawn_by_weight_beyond_the_window() {
        assert!(is_balanced(&view(&[2], |target| [100, 83][target]), &[0, 1]));
        assert!(!is_balanced(&view(&[2], |target| [100, 82][target]), &[0, 1]));
        let view = view(&[4, 4], |target| if target < 4 { 1 << 40 } else { 1 << 39 });
        for seed in [1, 2, 3] {
            let files = place(&mut LustreStandard::default(), &view, 30_000, 1, seed);
            let emptier = files.iter().filter(|targets| targets[0] < 4).count() as f64 / 30_000.0;
            assert!((emptier - 2.0 / 3.0).abs() < 0.03, "seed {seed}: {emptier}");
        }
    }

    #[test]
    fn what_was_given_stripes_weighs_less_until_others_were() {
        let view = view(&[2, 2], |target| [1 << 40, 1 << 40, 1 << 40, 1 << 39][target]);
        let usable = [0, 1, 2, 3];
        let shares = Shares::new(&view, &usable);
        let mut lustre =
            LustreStandard { penalties: vec![0.0; 4], server_penalties: vec![0.0; 2], ..Default::default() };
        lustre.penalize(&view, &shares, 0);
        let first = (lustre.penalties[0], lustre.server_penalties[0]);
        assert!(first.0 > 0.0 && first.1 > 0.0);
        assert_eq!((lustre.penalties[2], lustre.server_penalties[1]), (0.0, 0.0));
        lustre.penalize(&view, &shares, 2);
        assert!(lustre.penalties[0] < first.0 && lustre.server_penalties[0] < first.1);
        for _ in 0..9 {
            lustre.penalize(&view, &shares, 2);
        }
        assert_eq!((lustre.penalties[0], lustre.server_penalties[0]), (0.0, 0.0));
    }

    #[test]
    fn load_and_speed_are_not_looked_at() {
        let idle = view(&[4, 4], |target| 1 << (30 + target));
        let mut loaded = idle.clone();
        for target in 0..8 {
            loaded
                .update_target(target, 0.1 + target as f64, 1e12 * target as f64, 1 << (30 + target))
                .unwrap();
        }
        let files = |view| place(&mut LustreStandard::default(), view, 100, 3, 5);
        assert_eq!(files(&idle), files(&loaded));
    }
}
