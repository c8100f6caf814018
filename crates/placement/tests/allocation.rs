//! Allocators against brute force, and the guarantees of allocators.

use proptest::prelude::*;
use weir_placement::{
    Allocation, AllocationError, Allocator, AllocatorName, Balanced, Demand, ServerId, ServerState, TargetId,
    TargetState, View,
};

fn target(server: u16, index: u16, speed: f64, load_bytes: f64, free_bytes: u64) -> TargetState {
    TargetState { target: TargetId { server: ServerId(server), index }, speed, load_bytes, free_bytes }
}

fn no_randomness() -> u64 {
    unreachable!("`balanced` draws nothing")
}

fn balanced(view: &View, demands: &[Demand]) -> Result<Allocation, AllocationError> {
    Balanced::default().allocate(view, demands, &mut no_randomness)
}

/// The least cost of any placement, by trying all; none where there is none.
struct BruteForce<'a> {
    view: &'a View,
    demands: &'a [Demand],
    loads: Vec<f64>,
    server_loads: Vec<f64>,
    free: Vec<u64>,
    best: Option<f64>,
}

impl BruteForce<'_> {
    fn least_cost(view: &View, demands: &[Demand]) -> Option<f64> {
        let mut search = BruteForce {
            view,
            demands,
            loads: view.targets().iter().map(|state| state.load_bytes).collect(),
            server_loads: view.servers().iter().map(|state| state.load_bytes).collect(),
            free: view.targets().iter().map(|state| state.free_bytes).collect(),
            best: None,
        };
        search.place(0, 0, 0);
        search.best
    }

    /// Tries every set of targets, from `target` on, for the rest of a demand of which `placed` stripes are placed.
    fn place(&mut self, demand: usize, placed: u16, target: usize) {
        let Some(&Demand { stripes, stripe_bytes, .. }) = self.demands.get(demand) else {
            let cost = self.cost();
            self.best = Some(self.best.map_or(cost, |best| best.min(cost)));
            return;
        };
        if placed == stripes {
            return self.place(demand + 1, 0, 0);
        }
        for target in target..self.loads.len() {
            if !self.view.is_used(target) || self.free[target] < stripe_bytes {
                continue;
            }
            let server = self.view.server_of(target);
            self.loads[target] += stripe_bytes as f64;
            self.server_loads[server] += stripe_bytes as f64;
            self.free[target] -= stripe_bytes;
            self.place(demand, placed + 1, target + 1);
            self.loads[target] -= stripe_bytes as f64;
            self.server_loads[server] -= stripe_bytes as f64;
            self.free[target] += stripe_bytes;
        }
    }

    fn cost(&self) -> f64 {
        let view = self.view;
        let used = (0..self.loads.len()).filter(|&target| view.is_used(target));
        let targets: f64 = used.map(|target| self.loads[target].powi(2) / view.targets()[target].speed).sum();
        let servers = view.servers().iter().zip(&self.server_loads).filter(|(state, _)| state.speed > 0.0);
        targets + servers.map(|(state, load)| load * load / state.speed).sum::<f64>()
    }
}

/// Distinct used targets within each demand, and no more on a target than fits.
fn check_kept(view: &View, demands: &[Demand], allocation: &Allocation) {
    let mut taken = vec![0; view.targets().len()];
    for (demand, targets) in demands.iter().zip(allocation.iter()) {
        assert_eq!(targets.len(), usize::from(demand.stripes));
        let mut distinct = targets.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), targets.len(), "{targets:?} are not distinct");
        for &target in targets {
            assert!(view.is_used(target as usize));
            taken[target as usize] += demand.stripe_bytes.max(1);
        }
    }
    for (state, &taken) in view.targets().iter().zip(&taken) {
        assert!(taken <= state.free_bytes, "{taken} bytes on a target with {}", state.free_bytes);
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-9)
}

const AMPLE: u64 = 1 << 40;

/// Targets of up to three servers; speeds and loads from few values, so that ties occur, or from many.
fn views(capacities: bool, speeds: bool, servers: bool) -> impl Strategy<Value = View> {
    let speed = if speeds {
        prop_oneof![Just(1.0), Just(0.1), Just(2.0), 0.05..3.0, Just(0.0)].boxed()
    } else {
        Just(1.0).boxed()
    };
    let load = prop_oneof![Just(0.0), Just(10.0), Just(25.0), 0.0..60.0];
    let room = if capacities { (0_u64..45).boxed() } else { Just(AMPLE).boxed() };
    let targets = prop::collection::vec((0_u16..3, speed, load.clone(), room), 1..=5);
    let server_speed = if servers {
        prop_oneof![Just(1.0), Just(3.0), 0.2..5.0, Just(f64::INFINITY)].boxed()
    } else {
        Just(f64::INFINITY).boxed()
    };
    let servers = prop::collection::vec((server_speed, load), 3);
    (targets, servers).prop_map(|(targets, servers)| {
        let targets = targets.into_iter().enumerate();
        let targets = targets
            .map(|(index, (server, speed, load, room))| target(server, index as u16, speed, load, room));
        let servers = servers.into_iter().enumerate();
        let servers = servers.map(|(server, (speed, load_bytes))| ServerState {
            server: ServerId(server as u16),
            speed,
            load_bytes,
        });
        View::new(targets.collect(), &servers.collect::<Vec<_>>()).unwrap()
    })
}

fn demands(is_one_count: bool, stripe_bytes: BoxedStrategy<u64>) -> impl Strategy<Value = Vec<Demand>> {
    let counts = prop::collection::vec(1_u16..=4, 1..=5);
    (counts, prop::collection::vec(stripe_bytes, 5)).prop_map(move |(counts, bytes)| {
        let first = counts[0];
        let stripes = |count| if is_one_count { first } else { count };
        let demand = |(count, stripe_bytes)| Demand { stripes: stripes(count), stripe_bytes, program: 0 };
        counts.into_iter().zip(bytes).map(demand).collect()
    })
}

/// With one stripe size `balanced` reaches the cost that brute force finds, and refuses demands that brute force cannot
/// place.
fn is_exact(view: &View, demands: &[Demand]) {
    let least = BruteForce::least_cost(view, demands);
    match (balanced(view, demands), least) {
        (Ok(allocation), Some(least)) => {
            check_kept(view, demands, &allocation);
            assert!(close(allocation.cost, least), "cost {} where {least} is possible", allocation.cost);
            assert_eq!(allocation.bound, Some(allocation.cost));
        }
        (Err(_), None) => {}
        (answer, least) => panic!("brute force: {least:?}, balanced: {answer:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn one_count_is_exact(
        view in any::<(bool, bool, bool)>().prop_flat_map(|(a, b, c)| views(a, b, c)),
        demands in demands(true, Just(10).boxed()),
    ) {
        is_exact(&view, &demands);
    }

    #[test]
    fn mixed_counts_with_room_are_exact(
        view in any::<(bool, bool)>().prop_flat_map(|(speeds, servers)| views(false, speeds, servers)),
        demands in demands(false, Just(10).boxed()),
    ) {
        is_exact(&view, &demands);
    }

    #[test]
    fn mixed_counts_with_binding_capacities_are_exact(
        view in any::<(bool, bool)>().prop_flat_map(|(speeds, servers)| views(true, speeds, servers)),
        demands in demands(false, Just(10).boxed()),
    ) {
        is_exact(&view, &demands);
    }

    #[test]
    fn unequal_stripes_stay_within_the_bound_told(
        view in any::<(bool, bool, bool)>().prop_flat_map(|(a, b, c)| views(a, b, c)),
        demands in demands(false, (0_u64..30).boxed()),
    ) {
        let Ok(allocation) = balanced(&view, &demands) else { return Ok(()) };
        check_kept(&view, &demands, &allocation);
        let demands: Vec<_> =
            demands.iter().map(|demand| Demand { stripe_bytes: demand.stripe_bytes.max(1), ..*demand }).collect();
        let least = BruteForce::least_cost(&view, &demands).expect("balanced found a placement");
        let bound = allocation.bound.unwrap();
        prop_assert!(bound <= least * (1.0 + 1e-9), "bound {bound} above the least cost {least}");
        prop_assert!(allocation.cost >= least * (1.0 - 1e-9));
    }

    #[test]
    fn every_allocator_keeps_the_laws_of_placement(
        view in views(false, true, true), demands in demands(false, (0_u64..30).boxed()), seed in any::<u64>(),
    ) {
        for name in AllocatorName::NAMES {
            let mut allocator = name.parse::<AllocatorName>().unwrap().build();
            prop_assert_eq!(allocator.name().to_string(), name);
            let mut state = seed;
            let mut random = || { state = state.wrapping_mul(6364136223846793005).wrapping_add(1); state };
            let most = demands.iter().map(|demand| usize::from(demand.stripes)).max().unwrap();
            match allocator.allocate(&view, &demands, &mut random) {
                Ok(allocation) => check_kept(&view, &demands, &allocation),
                Err(AllocationError::NoTarget { .. }) => prop_assert_eq!(view.used(), 0),
                Err(AllocationError::TooManyStripes { used, .. }) => prop_assert!(used < most),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn one_file_alone_is_exact(
        view in any::<(bool, bool, bool)>().prop_flat_map(|(a, b, c)| views(a, b, c)), stripes in 1_u16..=5,
        before in 0_u16..9,
    ) {
        let demand = Demand { stripes, stripe_bytes: 10, program: 0 };
        let least = BruteForce::least_cost(&view, &[demand]);
        let mut balanced = Balanced::default();
        // Demands of before only change the turn among equals.
        let _ = balanced.place_one(&view, Demand { stripes: before.max(1), stripe_bytes: 1, program: 0 }, &mut Vec::new());
        let mut targets = Vec::new();
        match (balanced.place_one(&view, demand, &mut targets), least) {
            (Ok(()), Some(least)) => {
                let mut after = view.clone();
                targets.iter().for_each(|&target| after.place(target as usize, 10));
                let cost = BruteForce::least_cost(&after, &[]).unwrap();
                prop_assert!(close(cost, least), "cost {cost} where {least} is possible");
            }
            (Err(_), None) => prop_assert!(targets.is_empty()),
            (answer, least) => panic!("brute force: {least:?}, balanced: {answer:?}"),
        }
    }

    #[test]
    fn what_is_kept_from_file_to_file_changes_no_choice(
        view in any::<(bool, bool, bool)>().prop_flat_map(|(a, b, c)| views(a, b, c)),
        files in prop::collection::vec((1_u16..=4, 1_u64..7, 0_usize..5, 0_usize..8, 0.0..40.0), 1..40),
    ) {
        let (mut view, mut kept) = (view, Balanced::default());
        for (stripes, stripe_bytes, number, event, load) in files {
            let number = number % view.targets().len();
            let (TargetState { speed, free_bytes, .. }, server) = (view.targets()[number], view.server_of(number));
            let server_speed = view.servers()[server].speed;
            match event {
                0 => view.update_target(number, speed, load, free_bytes).unwrap(),
                1 => view.update_target(number, speed, load, free_bytes / 2).unwrap(),
                2 => view.update_target(number, load / 20.0, load, free_bytes).unwrap(),
                3 => view.update_server(server, server_speed, load).unwrap(),
                4 => view.update_server(server, load / 20.0, load).unwrap(),
                _ => view.place(number, load as u64),
            }
            // Nothing is known of the clone of a view.
            let (mut fresh, mut fresh_targets) = (kept.clone(), Vec::new());
            let expected = fresh.place_one(&view.clone(), Demand { stripes, stripe_bytes, program: 0 }, &mut fresh_targets);
            let mut targets = Vec::new();
            let placed = kept.place_one(&view, Demand { stripes, stripe_bytes, program: 0 }, &mut targets);
            prop_assert_eq!(placed, expected);
            prop_assert_eq!(&targets, &fresh_targets);
            if event % 2 == 0 {
                targets.iter().for_each(|&target| view.place(target as usize, stripe_bytes));
            }
        }
    }
}

/// A store of equal servers with equal targets.
fn store(servers: u16, targets: u16) -> View {
    let all =
        (0..servers).flat_map(|server| (0..targets).map(move |index| target(server, index, 1.0, 0.0, AMPLE)));
    View::new(all.collect(), &[]).unwrap()
}

#[test]
fn files_made_one_by_one_take_turns_on_an_idle_store() {
    let view = store(7, 5);
    let mut balanced = Balanced::default();
    let mut counts = vec![0; 35];
    for _ in 0..35 {
        let mut targets = Vec::new();
        balanced
            .place_one(&view, Demand { stripes: 3, stripe_bytes: 1 << 20, program: 0 }, &mut targets)
            .unwrap();
        let servers: std::collections::BTreeSet<_> =
            targets.iter().map(|&target| view.server_of(target as usize)).collect();
        assert_eq!(servers.len(), 3, "{targets:?}");
        targets.iter().for_each(|&target| counts[target as usize] += 1);
    }
    assert_eq!(counts, [3; 35]);
}

#[test]
fn a_slow_target_gets_its_part_and_a_dead_or_full_one_nothing() {
    let mut view = store(4, 6);
    view.update_target(3, 0.1, 0.0, AMPLE).unwrap();
    view.update_target(4, 0.0, 0.0, AMPLE).unwrap();
    view.update_target(5, 1.0, 0.0, 9).unwrap();
    let demands = vec![Demand { stripes: 2, stripe_bytes: 10, program: 0 }; 211];
    let allocation = balanced(&view, &demands).unwrap();
    let stripes: Vec<f64> = allocation.loads_bytes.iter().map(|load| load / 10.0).collect();
    assert_eq!((stripes[3], stripes[4], stripes[5]), (2.0, 0.0, 0.0));
    assert!(
        stripes.iter().enumerate().all(|(target, &count)| (3..6).contains(&target) || count == 20.0),
        "{stripes:?}"
    );
}

#[test]
fn no_target_of_many_loaded_ones_is_left_far_above_the_rest() {
    // 1,000 requests of 8 stripes over 3,600 targets with up to 10 stripes of load: the paper's graph puts 1,000
    // stripes on each of 8 targets.
    let mut number = 1_u64;
    let targets = (0..3600).map(|index| {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        target(index / 8, index % 8, 1.0, ((number >> 33) % 11) as f64, AMPLE)
    });
    let view = View::new(targets.collect(), &[]).unwrap();
    let allocation =
        balanced(&view, &vec![Demand { stripes: 8, stripe_bytes: 1, program: 0 }; 1000]).unwrap();
    assert!(allocation.loads_bytes.iter().all(|&load| load <= 11.0));
    assert_eq!(allocation.ratio(), Some(1.0));
}

#[test]
fn exchanges_even_out_what_heaviest_first_leaves() {
    // Sixteen files of 8 units in the paper's first progressive layout, in sixteenths of a unit: the loads of 35 targets
    // are multiples of 1/4, so none can be below 3.75, and heaviest first leaves one at 4.
    let mut view = store(7, 5);
    let servers: Vec<ServerState> =
        (0..7).map(|server| ServerState { server: ServerId(server), speed: 5.0, load_bytes: 0.0 }).collect();
    view = View::new(view.targets().to_vec(), &servers).unwrap();
    let file =
        [(1, 8), (3, 8), (8, 12)].map(|(stripes, stripe_bytes)| Demand { stripes, stripe_bytes, program: 0 });
    let demands: Vec<Demand> = (0..16).flat_map(|_| file).collect();
    let allocation = balanced(&view, &demands).unwrap();
    check_kept(&view, &demands, &allocation);
    let most = allocation.loads_bytes.iter().copied().fold(0.0, f64::max);
    assert_eq!(most, 60.0, "{:?}", allocation.loads_bytes);
}

#[test]
fn each_program_is_evened_out_by_itself_too() {
    // Eight files of 8 units of one program and of 7/4 of the other, in the paper's second progressive layout, in 96ths.
    let view = store(7, 5);
    let demand = |program, stripes, stripe_bytes| Demand { stripes, stripe_bytes, program };
    let files = |program| match program {
        0 => vec![demand(0, 1, 12), demand(0, 12, 15), demand(0, 32, 18)],
        _ => vec![demand(1, 1, 12), demand(1, 12, 13)],
    };
    let demands: Vec<Demand> = (0..8).flat_map(|_| [files(0), files(1)].concat()).collect();
    let own_excess = |demands: &[Demand]| {
        let allocation = balanced(&view, demands).unwrap();
        check_kept(&view, demands, &allocation);
        let mut loads = vec![0.0; 35];
        let first = demands.iter().zip(allocation.iter()).enumerate().filter(|(number, _)| number % 5 < 3);
        for (_, (demand, targets)) in first {
            targets.iter().for_each(|&target| loads[target as usize] += demand.stripe_bytes as f64);
        }
        let most =
            |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max) * 35.0 / loads.iter().sum::<f64>();
        (most(&allocation.loads_bytes), most(&loads))
    };
    let (all, own) = own_excess(&demands);
    let as_one: Vec<Demand> = demands.iter().map(|&demand| Demand { program: 0, ..demand }).collect();
    let (all_as_one, own_as_one) = own_excess(&as_one);
    assert!(all < 1.02 && all_as_one < 1.02, "{all} and {all_as_one}");
    assert!(own < own_as_one, "{own} where {own_as_one} is without");
}

#[test]
fn errors_say_what_does_not_fit() {
    let view = View::new(vec![target(0, 0, 1.0, 0.0, 19), target(0, 1, 1.0, 0.0, 50)], &[]).unwrap();
    let ask = |demands: &[(u16, u64)]| {
        let demand = |&(stripes, stripe_bytes)| Demand { stripes, stripe_bytes, program: 0 };
        balanced(&view, &demands.iter().map(demand).collect::<Vec<_>>()).map(|_| ())
    };
    assert_eq!(ask(&[(2, 10); 3]), Err(AllocationError::DoesNotFit { missing: 2, stripes: 6 }));
    assert_eq!(
        ask(&[(2, 10), (1, 30), (1, 25)]),
        Err(AllocationError::DoesNotFit { missing: 1, stripes: 4 })
    );
    assert_eq!(
        ask(&[(1, 10), (3, 1)]),
        Err(AllocationError::TooManyStripes { demand: 1, stripes: 3, used: 2 })
    );
    assert_eq!(ask(&[(0, 10)]), Err(AllocationError::NoStripes { demand: 0 }));
    assert_eq!(ask(&[]), Ok(()));
    let twice = View::new(vec![target(2, 1, 1.0, 0.0, 1); 2], &[]).unwrap_err();
    assert_eq!(twice.to_string(), "target 2.1 occurs twice in the view; name each once");
    let wrong = View::new(vec![target(2, 1, f64::NAN, 0.0, 1)], &[]).unwrap_err();
    assert!(wrong.to_string().starts_with("target 2.1 has speed NaN"));
    let unknown = "best".parse::<AllocatorName>().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown allocator `best`: expected one of balanced, lustre-standard, random"
    );
}

#[test]
fn many_sizes_are_placed_within_capacities() {
    // More sizes than are placed size by size.
    let view =
        View::new((0..9).map(|index| target(index / 3, index, 1.0, 0.0, 10_000)).collect(), &[]).unwrap();
    let demands: Vec<Demand> = (0..150)
        .map(|size| Demand { stripes: 1 + size % 9, stripe_bytes: 1 + u64::from(size), program: 0 })
        .collect();
    let allocation = balanced(&view, &demands).unwrap();
    check_kept(&view, &demands, &allocation);
    let fullest = allocation.loads_bytes.iter().copied().fold(0.0, f64::max);
    let mean = allocation.loads_bytes.iter().sum::<f64>() / 9.0;
    assert!(fullest <= 1.01 * mean, "{fullest} of {mean}");
    assert!(allocation.ratio().unwrap() < 1.001);
}
