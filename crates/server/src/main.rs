//! `weir-server`: one server of a store.

use std::path::PathBuf;
use std::process::ExitCode;
use weir_core::config::ClusterConfig;
use weir_core::identity::Consent;
use weir_core::journal::Losses;
use weir_placement::ServerId;
use weir_server::{inventory, run};

const USAGE: &str =
    "usage: weir-server --config CLUSTER.toml --home DIR --server N [--log FILE] [--first-run] [--accept-journal-loss]
       weir-server --config CLUSTER.toml --home DIR --server N --inventory [--accept-journal-loss]
       weir-server --config CLUSTER.toml --check [--home DIR --server N [--first-run] [--accept-journal-loss]]
       weir-server --version

Runs one server of a store in the foreground until SIGTERM; `weir up` starts all of them.
  --config FILE  the store's configuration
  --home DIR     folder of the store's state: site.key, servers/N
  --server N     number of this server in the configuration
  --log FILE     file of the log, which begins anew at 1 MiB; else standard error, or the journal of systemd
  --first-run    the server is new: stamp its home, its journal and its targets where nothing lies there; a server
                 that has run before starts as ever
  --accept-journal-loss
                 start also where the journal lost changes that were on stable storage; says what is lost
  --inventory    only print the files and objects of a server that is not running, as JSON; changes nothing
  --check        only check the configuration and print it as JSON; with a home and a server also look whether the
                 server's folders are the right ones
  --version      only print the version
";

enum Task {
    Help,
    Version,
    Check { config: PathBuf, of: Option<(PathBuf, u16)>, consent: Consent },
    Inventory { config: PathBuf, home: PathBuf, server: u16, losses: Losses },
    Run { config: PathBuf, home: PathBuf, server: u16, log: Option<PathBuf>, consent: Consent },
}

fn main() -> ExitCode {
    let task = match parse() {
        Ok(task) => task,
        Err(error) => {
            complain(&format!("{error}; hint: weir-server --help"));
            return ExitCode::from(2);
        }
    };
    match task {
        Task::Help => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Task::Version => {
            println!("weir-server {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Task::Check { config, of, consent } => check(&config, of, consent),
        Task::Inventory { config, home, server, losses } => take_inventory(&config, &home, server, losses),
        Task::Run { config, home, server, log, consent } => match weir_log::begin(log.as_deref()) {
            Ok(()) => start(&config, &home, server, consent),
            Err(error) => {
                complain(&format!("cannot write the log {}: {error}", log.unwrap_or_default().display()));
                ExitCode::FAILURE
            }
        },
    }
}

fn parse() -> Result<Task, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut config, mut home, mut server, mut log) = (None, None, None, None);
    let (mut only_check, mut only_look) = (false, false);
    let mut consent = Consent::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => config = Some(PathBuf::from(parser.value()?)),
            Long("home") => home = Some(PathBuf::from(parser.value()?)),
            Long("server") => server = Some(parser.value()?.parse()?),
            Long("log") => log = Some(PathBuf::from(parser.value()?)),
            Long("accept-journal-loss") => consent.losses = Losses::Accepted,
            Long("first-run") => consent.is_first_run = true,
            Long("check") => only_check = true,
            Long("inventory") => only_look = true,
            Long("help") | Short('h') => return Ok(Task::Help),
            Long("version") => return Ok(Task::Version),
            other => return Err(other.unexpected()),
        }
    }
    let config = config.ok_or("--config is missing")?;
    if only_check {
        let of = home.zip(server);
        return Ok(Task::Check { config, of, consent });
    }
    let home = home.ok_or("--home is missing")?;
    let server = server.ok_or("--server is missing")?;
    Ok(match only_look {
        true => Task::Inventory { config, home, server, losses: consent.losses },
        false => Task::Run { config, home, server, log, consent },
    })
}

fn check(path: &std::path::Path, of: Option<(PathBuf, u16)>, consent: Consent) -> ExitCode {
    let config = match weir_server::config::read(path) {
        Ok(config) => config,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(2);
        }
    };
    if let Some((home, server)) = of {
        let Some(config) = read(path, server) else { return ExitCode::from(2) };
        if let Err(error) = weir_server::check(config, ServerId(server), &home, consent) {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    }
    println!("{}", serde_json::to_string(&config).unwrap_or_default());
    ExitCode::SUCCESS
}

fn start(config: &std::path::Path, home: &std::path::Path, server: u16, consent: Consent) -> ExitCode {
    // Nothing that a server makes is for other users, but the socket, which it opens to them.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let Some(config) = read(config, server) else { return ExitCode::from(2) };
    match run(config, ServerId(server), home, consent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints the inventory of a server that is not running.
fn take_inventory(config: &std::path::Path, home: &std::path::Path, server: u16, losses: Losses) -> ExitCode {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let Some(config) = read(config, server) else { return ExitCode::from(2) };
    let taken = match inventory::take(&config, ServerId(server), home, losses) {
        Ok(taken) => taken,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let printed = serde_json::to_writer(&mut out, &taken).map_err(std::io::Error::from);
    match printed.and_then(|()| std::io::Write::flush(&mut out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("the inventory cannot be printed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The configuration, if it is right and has this server.
fn read(config: &std::path::Path, server: u16) -> Option<ClusterConfig> {
    match weir_server::config::read(config) {
        Ok(config) if usize::from(server) < config.servers.len() => return Some(config),
        Ok(config) => complain(&format!(
            "--server {server}: the configuration has servers 0 to {}",
            config.servers.len() - 1
        )),
        Err(error) => complain(&error.to_string()),
    }
    None
}

fn complain(words: &str) {
    weir_log::complain("weir-server", format_args!("{words}"));
}
