//! The rates of small networks by hand, and those of random networks against a plain computation of all of them.

use super::*;
use proptest::prelude::*;

const EXACT: f64 = 1e-9;
const SLACK: f64 = 1e-5;
const TOLERANCE: f64 = 1e-6;

fn solved(network: &mut Network) {
    network.solve(&mut Vec::new());
}

fn uses(of: &[(u32, f64)]) -> Vec<Use> {
    of.iter().map(|&(resource, coefficient)| Use::new(resource, coefficient)).collect()
}

/// Two links and three flows: one goes over both links. The flow on the small link leaves the rest of the large one to its
/// neighbour.
#[test]
fn three_flows_over_two_links_have_the_rates_of_the_textbook() {
    let mut network = Network::new(EXACT);
    let (small, large) = (network.add_resource(10.0), network.add_resource(40.0));
    let both = network.add_variable(uses(&[(small, 1.0), (large, 1.0)]), 1.0, f64::INFINITY);
    let on_small = network.add_variable(uses(&[(small, 1.0)]), 1.0, f64::INFINITY);
    let on_large = network.add_variable(uses(&[(large, 1.0)]), 1.0, f64::INFINITY);
    solved(&mut network);
    assert_eq!([both, on_small, on_large].map(|flow| network.rate(flow)), [5.0, 5.0, 35.0]);
    assert_eq!(
        [both, on_small, on_large].map(|flow| network.holder(flow)),
        [Some(small), Some(small), Some(large)]
    );
    network.remove_variable(on_small);
    solved(&mut network);
    assert_eq!([both, on_large].map(|flow| network.rate(flow)), [10.0, 30.0]);
    network.set_variable(both, 1.0, 1.0 / 7.0);
    network.set_capacity(small, 20.0);
    solved(&mut network);
    near(network.rate(both), 5.0);
    near(network.rate(on_large), 35.0);
    let bounded = network.add_variable(uses(&[(large, 2.0)]), 1.0, 3.0);
    solved(&mut network);
    assert_eq!((network.rate(bounded), network.holder(bounded)), (3.0, None));
    near(network.rate(on_large), 34.0 * 7.0 / 8.0);
}

/// Rounding leaves a little of the load where many flows come and go, and a server that died went on at this rate.
#[test]
fn nothing_moves_over_a_resource_that_stands_still() {
    let mut network = Network::new(SLACK);
    let (link, other) = (network.add_resource(1e9), network.add_resource(0.7e9));
    let coefficients = (1..40).map(|number| 1.0 / f64::from(number));
    let over = |coefficient| uses(&[(link, coefficient), (other, 0.3)]);
    let flows: Vec<u32> =
        coefficients.map(|one| network.add_variable(over(one), 1.0 / (1.0 + one), f64::INFINITY)).collect();
    solved(&mut network);
    assert!(flows.iter().all(|&flow| network.rate(flow) > 0.0));
    network.set_capacity(link, 0.0);
    solved(&mut network);
    assert!(flows.iter().all(|&flow| network.rate(flow) == 0.0));
    assert_eq!(network.load(link), 0.0);
    let late = network.add_variable(over(0.1), 1.0, 5.0);
    solved(&mut network);
    assert_eq!(network.rate(late), 0.0);
    network.set_capacity(link, 1e9);
    solved(&mut network);
    assert!(network.rate(late) > 0.0 && flows.iter().all(|&flow| network.rate(flow) > 0.0));
}

#[track_caller]
fn near(rate: f64, expected: f64) {
    assert!((rate - expected).abs() <= TOLERANCE * expected.max(1e-3), "{rate} is not {expected}");
}

/// Changes of a network.
#[derive(Clone, Debug)]
enum Change {
    Add(Vec<(u32, f64)>, f64, Option<f64>),
    Remove(usize),
    Capacity(u32, f64),
    Variable(usize, f64, f64),
}

const RESOURCES: u32 = 7;

fn changes() -> impl Strategy<Value = Change> {
    let of_use = (0..RESOURCES, prop_oneof![Just(1.0), 0.01f64..5.0]);
    let of_uses = proptest::collection::vec(of_use, 1..4).prop_map(|mut uses| {
        uses.sort_by_key(|&(resource, _)| resource);
        uses.dedup_by_key(|&mut (resource, _)| resource);
        uses
    });
    let weight = prop_oneof![Just(1.0), 0.1f64..10.0];
    let rate_max = proptest::option::weighted(0.3, 0.1f64..20.0);
    prop_oneof![
        4 => (of_uses, weight.clone(), rate_max).prop_map(|(uses, weight, most)| Change::Add(uses, weight, most)),
        2 => any::<usize>().prop_map(Change::Remove),
        1 => (0..RESOURCES, prop_oneof![Just(0.0), Just(10.0), 0.5f64..50.0]).prop_map(|(of, to)| Change::Capacity(of, to)),
        1 => (any::<usize>(), 1u32..5, weight).prop_map(|(of, count, weight)| Change::Variable(of, f64::from(count), weight)),
    ]
}

/// A variable as a test knows it.
#[derive(Clone, Debug)]
struct Plain {
    number: u32,
    uses: Vec<(u32, f64)>,
    weight: f64,
    count: f64,
    rate_max: f64,
}

/// The rates of all variables: in each round the level rises for all that are left until a resource is used up, or one is at its
/// greatest rate.
fn plain_rates(capacities: &[f64], variables: &[Plain]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; variables.len()];
    while rates.contains(&None) {
        let level_of = |resource: usize| {
            let (mut room, mut weight) = (capacities[resource], 0.0);
            for (variable, rate) in variables.iter().zip(&rates) {
                for &(_, coefficient) in variable.uses.iter().filter(|&&(of, _)| of as usize == resource) {
                    match rate {
                        Some(rate) => room -= variable.count * coefficient * rate,
                        None => weight += variable.count * coefficient * variable.weight,
                    }
                }
            }
            if weight > 0.0 {
                room.max(0.0) / weight
            } else {
                f64::INFINITY
            }
        };
        let levels: Vec<f64> = (0..capacities.len()).map(level_of).collect();
        let left = || variables.iter().zip(&rates).filter(|(_, rate)| rate.is_none()).map(|(one, _)| one);
        let bounds = left().map(|one| one.rate_max / one.weight);
        let least = levels.iter().copied().chain(bounds).fold(f64::INFINITY, f64::min);
        for (variable, rate) in variables.iter().zip(&mut rates).filter(|(_, rate)| rate.is_none()) {
            let is_held = |&(resource, _): &(u32, f64)| levels[resource as usize] <= least * (1.0 + 1e-12);
            if variable.uses.iter().any(is_held) || variable.rate_max / variable.weight <= least {
                *rate = Some((least * variable.weight).min(variable.rate_max));
            }
        }
    }
    rates.into_iter().flatten().collect()
}

fn change(network: &mut Network, capacities: &mut [f64], variables: &mut Vec<Plain>, one: Change) {
    match one {
        Change::Add(of, weight, rate_max) => {
            let rate_max = rate_max.unwrap_or(f64::INFINITY);
            let number = network.add_variable(uses(&of), weight, rate_max);
            variables.push(Plain { number, uses: of, weight, count: 1.0, rate_max });
        }
        Change::Remove(of) if !variables.is_empty() => {
            let gone = variables.swap_remove(of % variables.len());
            network.remove_variable(gone.number);
        }
        Change::Capacity(of, to) => {
            capacities[of as usize] = to;
            network.set_capacity(of, to);
        }
        Change::Variable(of, count, weight) if !variables.is_empty() => {
            let place = of % variables.len();
            let variable = &mut variables[place];
            (variable.count, variable.weight) = (count, weight);
            network.set_variable(variable.number, count, weight);
        }
        Change::Remove(_) | Change::Variable(..) => {}
    }
}

/// No resource is used beyond its capacity, and each variable is at its greatest rate, or on a resource that is used up and on which none
/// has more for its weight.
fn check_max_min(
    network: &Network,
    capacities: &[f64],
    variables: &[Plain],
    tolerance: f64,
) -> Result<(), TestCaseError> {
    let mut loads = vec![0.0; capacities.len()];
    let mut greatest = vec![0.0f64; capacities.len()];
    for variable in variables {
        let rate = network.rate(variable.number);
        prop_assert!(rate >= 0.0 && rate <= variable.rate_max * (1.0 + tolerance));
        for &(resource, coefficient) in &variable.uses {
            prop_assert!(
                capacities[resource as usize] > 0.0 || rate == 0.0,
                "{rate} over a resource without any"
            );
            loads[resource as usize] += variable.count * coefficient * rate;
            greatest[resource as usize] = greatest[resource as usize].max(rate / variable.weight);
        }
    }
    for (resource, (load, capacity)) in loads.iter().zip(capacities).enumerate() {
        prop_assert!(
            *load <= capacity * (1.0 + tolerance) + 1e-9,
            "resource {} has {} of {}",
            resource,
            load,
            capacity
        );
        prop_assert!((load - network.load(resource as u32)).abs() <= tolerance * capacity + 1e-9);
    }
    for variable in variables {
        let rate = network.rate(variable.number);
        let is_held = |&(resource, _): &(u32, f64)| {
            let resource = resource as usize;
            loads[resource] >= capacities[resource] * (1.0 - tolerance) - 1e-9
                && rate / variable.weight >= greatest[resource] * (1.0 - tolerance)
        };
        let is_at_most = rate >= variable.rate_max * (1.0 - tolerance);
        prop_assert!(
            is_at_most || variable.uses.iter().any(is_held),
            "nothing holds {:?} at {}",
            variable,
            rate
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rates_are_max_min_fair_after_each_change_and_those_of_a_plain_computation(
        batches in proptest::collection::vec(proptest::collection::vec(changes(), 1..4), 1..30),
    ) {
        let mut network = Network::new(EXACT);
        let mut capacities = vec![10.0; RESOURCES as usize];
        capacities.iter().for_each(|&capacity| _ = network.add_resource(capacity));
        let mut variables = Vec::new();
        let mut known = std::collections::BTreeMap::new();
        for batch in batches {
            for one in batch {
                change(&mut network, &mut capacities, &mut variables, one);
            }
            let mut changed = Vec::new();
            network.solve(&mut changed);
            check_max_min(&network, &capacities, &variables, TOLERANCE)?;
            for (variable, rate) in variables.iter().zip(plain_rates(&capacities, &variables)) {
                let found = network.rate(variable.number);
                prop_assert!((found - rate).abs() <= TOLERANCE * rate + 1e-9, "{} is not {}: {:?}", found, rate, variable);
                let is_told = changed.iter().any(|&(number, _)| number == variable.number);
                prop_assert!(is_told || known.get(&variable.number) == Some(&found) || found == 0.0);
            }
            known = variables.iter().map(|one| (one.number, network.rate(one.number))).collect();
        }
    }

    /// With the slack of the product, after many changes: what was left each time has not added up.
    #[test]
    fn slack_does_not_add_up(changes in proptest::collection::vec(changes(), 1..120)) {
        let mut network = Network::new(crate::flow::SLACK);
        let mut capacities = vec![10.0; RESOURCES as usize];
        capacities.iter().for_each(|&capacity| _ = network.add_resource(capacity));
        let mut variables = Vec::new();
        for one in changes {
            change(&mut network, &mut capacities, &mut variables, one);
            solved(&mut network);
        }
        check_max_min(&network, &capacities, &variables, 2.0 * crate::flow::SLACK)?;
    }
}
