//! `weir-move`: moves objects of files from full targets to empty ones, as the job of its credential.
//!
//! `weir rebalance` starts it. The targets' fills come on standard input, and each event goes out as a JSON object on a
//! line. The program ends after the file in hand on SIGINT, SIGTERM and at the end of standard input, and in the midst
//! of the file at the second signal. Every file is whole in any case.
#![forbid(unsafe_code)]

mod arguments;
mod carry;
mod error;
mod events;
mod find;
mod pace;
mod stop;

use arguments::Action;
use error::MoverError;
use events::Event;
use std::collections::HashSet;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use weir_client::{Settings, Store};
use weir_placement::rebalance::{givers, plan, TargetFill};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            // Words that cannot be written are lost; the exit code reports the failure all the same.
            let _ = std::io::stderr().write_all(format!("error: {error}\n").as_bytes());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<ExitCode, MoverError> {
    let arguments = match arguments::parse(std::env::args_os().skip(1))? {
        Action::Print(text) => {
            print!("{text}");
            return Ok(ExitCode::SUCCESS);
        }
        Action::Move(arguments) => *arguments,
    };
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| MoverError::Input(error.to_string()))?;
    let targets = read_fills(&line)?;
    drop(input);
    let stop = stop::Stop::listen()?;

    let store = Store::new(Settings::explicit(arguments.cluster.clone(), arguments.credential.clone(), None));
    store.cluster().map_err(MoverError::Store)?;
    let givers = givers(&targets, &arguments.goal);
    let search = find::files(&store, &arguments.paths, &givers, &arguments.silent, &stop)?;
    let objects: Vec<_> = search.found.iter().map(|file| file.objects.clone()).collect();
    let plan = plan(&targets, &objects, &arguments.goal);
    events::tell(&Event::Planned {
        objects: plan.moves.len(),
        files: plan.moves.iter().map(|one| one.file).collect::<HashSet<_>>().len(),
        bytes: plan.moves.iter().map(|one| one.bytes).sum(),
        stuck: plan.stuck,
    });
    carry::out(&store, &arguments, &search, &plan, &stop)
}

/// The fills of the targets: one line of JSON.
fn read_fills(line: &str) -> Result<Vec<TargetFill>, MoverError> {
    #[derive(serde::Deserialize)]
    struct Fill {
        target: String,
        capacity_bytes: u64,
        used_bytes: u64,
        class: String,
    }
    let fills: Vec<Fill> =
        serde_json::from_str(line).map_err(|error| MoverError::Input(error.to_string()))?;
    let parsed = fills.into_iter().map(|fill| {
        let target = fill.target.parse().map_err(|error| MoverError::Input(format!("{error}")))?;
        let Fill { capacity_bytes, used_bytes, class, .. } = fill;
        Ok(TargetFill { target, capacity_bytes, used_bytes, class })
    });
    parsed.collect()
}
