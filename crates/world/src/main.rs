//! `weir-world`: worlds by their seeds, and the rules that they miss.
#![forbid(unsafe_code)]

use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_core::mutants::Mutant;
use weir_world::worlds::{search, shape, shrunk, world, Search};
use weir_world::Shape;

const USAGE: &str = "usage: weir-world [--seed N] [--seeds N] [--seconds S]
       weir-world --replay N [--clients N] [--faults MILLISECONDS]
       weir-world --mutants [--mutant NAME] [--seed N] [--seeds N]

Runs worlds of servers and clients in which machines, disks and networks fail, each by its seed. The last line is JSON.
  --seed N     the first seed, else 1
  --seeds N    the number of worlds
  --seconds S  begins no world after so many seconds
  --replay N   runs the world of one seed, as large as it was or smaller
  --mutants    takes each rule out in turn, and says which seed misses it
  --mutant R   takes out the rule R alone
  --log FILE   has the servers write their log there, and panics their words
";
/// Worlds within which a rule that was taken out is to be missed.
const MUTANT_SEEDS: u64 = 2_000;

struct Arguments {
    first: u64,
    seeds: Option<u64>,
    time_max: Duration,
    mutants: bool,
    mutant: Option<String>,
    replay: Option<u64>,
    clients: Option<usize>,
    faults: Option<u64>,
}

fn main() -> ExitCode {
    match parse() {
        Ok(None) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Some(Arguments { replay: Some(seed), clients, faults, .. })) => replay(seed, clients, faults),
        Ok(Some(arguments)) if arguments.mutants => look_for_mutants(&arguments),
        Ok(Some(arguments)) => look_for_faults(&arguments),
        Err(error) => {
            eprintln!("error: {error}; hint: weir-world --help");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<Option<Arguments>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut arguments = Arguments {
        first: 1,
        seeds: None,
        time_max: Duration::MAX,
        mutants: false,
        mutant: None,
        replay: None,
        clients: None,
        faults: None,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => arguments.first = parser.value()?.parse()?,
            Long("seeds") => arguments.seeds = Some(parser.value()?.parse()?),
            Long("seconds") => arguments.time_max = Duration::from_secs(parser.value()?.parse()?),
            Long("replay") => arguments.replay = Some(parser.value()?.parse()?),
            Long("clients") => arguments.clients = Some(parser.value()?.parse()?),
            Long("faults") => arguments.faults = Some(parser.value()?.parse()?),
            Long("mutants") => arguments.mutants = true,
            Long("mutant") => arguments.mutant = Some(parser.value()?.parse()?),
            Long("log") => {
                let file = PathBuf::from(parser.value()?);
                weir_log::begin(Some(&file)).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(arguments))
}

/// Runs the world of one seed with so many clients and so long a time of faults.
fn replay(seed: u64, clients: Option<usize>, faults: Option<u64>) -> ExitCode {
    let whole = shape(seed);
    let faults_milliseconds = faults.unwrap_or(whole.faults_milliseconds);
    let shape = Shape { clients: clients.unwrap_or(whole.clients), faults_milliseconds, ..whole };
    match world(seed, shape) {
        Ok(figures) => {
            println!("seed {seed} shows no fault in {} steps", figures.steps);
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("seed {seed}: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn look_for_faults(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let findings = search(Search {
        first: arguments.first,
        seeds: arguments.seeds.unwrap_or(u64::MAX - arguments.first),
        time_max: arguments.time_max,
        mutant: None,
        is_for_one: false,
    });
    for (seed, fault) in &findings.faults {
        println!("weir-world --replay {seed}: {fault}");
        if let Some((shape, fault)) = shrunk(*seed) {
            println!("  and --clients {} --faults {}: {fault}", shape.clients, shape.faults_milliseconds);
        }
    }
    let virtual_hours = findings.virtual_time.0 as f64 / 3.6e12;
    let figures = json!({
        "seeds": findings.seeds,
        "violations": findings.faults.len(),
        "virtual_hours_per_minute": virtual_hours / (began.elapsed().as_secs_f64() / 60.0),
        "replays": findings.replays,
        "replays_identical": findings.replays_apart == 0,
    });
    println!("{figures}");
    match findings.faults.is_empty() && findings.replays_apart == 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn look_for_mutants(arguments: &Arguments) -> ExitCode {
    let mut found = 0;
    let wanted = arguments.mutant.as_ref();
    let is_wanted = |mutant: &Mutant| wanted.is_none_or(|name| *name == format!("{mutant:?}"));
    let mutants: Vec<Mutant> = Mutant::ALL.iter().copied().filter(is_wanted).collect();
    for &mutant in &mutants {
        let findings = search(Search {
            first: arguments.first,
            seeds: arguments.seeds.unwrap_or(MUTANT_SEEDS),
            time_max: arguments.time_max,
            mutant: Some(mutant),
            is_for_one: true,
        });
        match findings.faults.first() {
            Some((seed, fault)) => {
                found += 1;
                println!("{mutant:?}: found at seed {seed}: {fault}");
            }
            None => println!("{mutant:?}: not found in {} worlds", findings.seeds),
        }
    }
    println!("{}", json!({ "mutants": mutants.len(), "mutants_found": found }));
    match found == mutants.len() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
