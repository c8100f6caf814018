use crate::worlds::{search, shape, world, Search};
use std::time::Duration;
use weir_core::mutants::Mutant;

/// Worlds begin for so long, unless `WEIR_WORLD_SECONDS` says otherwise.
const SECONDS: u64 = 60;
/// The most worlds, unless `WEIR_WORLD_SEEDS` says otherwise: none of these is known to show a fault. `make world` looks further.
const WORLD_SEEDS: u64 = 2_000;
/// The cheapest of the mutants is found within this many seeds; `make world-mutants` looks for all.
const MUTANT_SEEDS: u64 = 200;

/// The servers write their log beside the program of the tests: nobody reads hundreds of lines about faults that are meant.
fn log_to_file() {
    let program = std::env::current_exe().expect("a program");
    weir_log::begin(Some(&program.with_extension("log"))).expect("a log");
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Worlds from `WEIR_SEED` on, or from the first.
fn from_first(seeds: u64, mutant: Option<Mutant>) -> Search {
    log_to_file();
    let time_max = Duration::from_secs(number("WEIR_WORLD_SECONDS", SECONDS));
    Search { first: number("WEIR_SEED", 1), seeds, time_max, mutant, is_for_one: mutant.is_some() }
}

#[test]
fn no_world_shows_a_fault_and_each_goes_the_same_way_again() {
    let findings = search(from_first(number("WEIR_WORLD_SEEDS", WORLD_SEEDS), None));
    let faults: Vec<String> =
        findings.faults.iter().map(|(seed, fault)| format!("weir-world --replay {seed}: {fault}")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(findings.replays_apart, 0);
    assert!(findings.seeds > 0 && findings.replays > 0, "{findings:?}");
    println!("{} worlds", findings.seeds);
}

#[test]
fn a_rule_that_is_taken_out_is_missed() {
    let findings = search(from_first(MUTANT_SEEDS, Some(Mutant::RepliesForgotten)));
    assert!(!findings.faults.is_empty(), "it is not missed in {} worlds", findings.seeds);
}

#[test]
fn a_world_takes_a_thousand_steps_and_more() {
    log_to_file();
    for seed in [1, 2, 3] {
        assert!(world(seed, shape(seed)).is_ok_and(|figures| figures.steps > 1_000), "seed {seed}");
    }
}
