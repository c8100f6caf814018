//! The command line.

use crate::error::MoverError;
use lexopt::prelude::*;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use weir_placement::rebalance::Goal;
use weir_placement::{ServerId, TargetId};

const HELP: &str = "\
Moves objects of files from full targets of a Weir store to empty ones.

usage: weir-move --cluster CLUSTER.json --credential FILE [options] [PATH...]

PATHs are of the store; everything below them is looked at. `weir rebalance` starts this program, with the fills of the
targets on standard input.

  --cluster FILE     where the servers are (cluster.json)
  --credential FILE  who moves, and as which job
  --rate BYTES       bytes a second at most
  --until FRACTION   how far above the mean a target may be filled (default 0.05)
  --from TARGET,...  only these give
  --to TARGET,...    only these receive
  --drain TARGET,... everything leaves these
  --silent SERVER,... these do not answer: their files stay where they are
  --gather           everything goes to those that receive
  --dry-run          only tell what would be moved
  --help             this text
  --version          the version
";

/// Default tolerance: how far a target may be filled above the mean.
const TOLERANCE: f64 = 0.05;

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Action {
    /// A text for stdout.
    Print(String),
    /// To move.
    Move(Box<Arguments>),
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) cluster: PathBuf,
    pub(crate) credential: PathBuf,
    /// Bytes a second; none without a limit.
    pub(crate) rate: Option<u64>,
    pub(crate) goal: Goal,
    pub(crate) dry_run: bool,
    /// Servers that do not answer.
    pub(crate) silent: HashSet<ServerId>,
    /// Paths of the store.
    pub(crate) paths: Vec<Vec<u8>>,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// [`MoverError::Usage`] naming the argument that is missing, unknown or wrong.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Action, MoverError> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let wrong = |error: lexopt::Error| MoverError::Usage(format!("{error}."));
    let (mut cluster, mut credential, mut rate, mut dry_run) = (None, None, None, false);
    let (mut paths, mut silent) = (Vec::new(), HashSet::new());
    let mut goal = Goal {
        tolerance: TOLERANCE,
        drained: Vec::new(),
        givers: Vec::new(),
        receivers: Vec::new(),
        gather: false,
    };
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Action::Print(HELP.into())),
            Long("version") => {
                return Ok(Action::Print(format!("weir-move {}\n", env!("CARGO_PKG_VERSION"))))
            }
            Long("cluster") => cluster = Some(PathBuf::from(parser.value().map_err(wrong)?)),
            Long("credential") => credential = Some(PathBuf::from(parser.value().map_err(wrong)?)),
            Long("rate") => rate = Some(bytes(&text(parser.value().map_err(wrong)?)?)?),
            Long("until") => goal.tolerance = fraction(&text(parser.value().map_err(wrong)?)?)?,
            Long("from") => goal.givers = targets(&text(parser.value().map_err(wrong)?)?)?,
            Long("to") => goal.receivers = targets(&text(parser.value().map_err(wrong)?)?)?,
            Long("drain") => goal.drained = targets(&text(parser.value().map_err(wrong)?)?)?,
            Long("silent") => silent = servers(&text(parser.value().map_err(wrong)?)?)?,
            Long("gather") => goal.gather = true,
            Long("dry-run") => dry_run = true,
            Value(path) => paths.push(path.into_vec()),
            other => return Err(wrong(other.unexpected())),
        }
    }
    let missing = |name: &str| MoverError::Usage(format!("{name} is missing."));
    if goal.gather && goal.receivers.is_empty() {
        return Err(MoverError::Usage("--gather needs --to.".into()));
    }
    if paths.is_empty() {
        paths.push(b"/".to_vec());
    }
    Ok(Action::Move(Box::new(Arguments {
        cluster: cluster.ok_or_else(|| missing("--cluster"))?,
        credential: credential.ok_or_else(|| missing("--credential"))?,
        rate,
        goal,
        dry_run,
        silent,
        paths,
    })))
}

fn text(value: OsString) -> Result<String, MoverError> {
    value.into_string().map_err(|value| MoverError::Usage(format!("{} is no text.", value.to_string_lossy())))
}

fn bytes(text: &str) -> Result<u64, MoverError> {
    weir_device::parse_rate(text).map_err(|error| MoverError::Usage(format!("{error}.")))
}

fn fraction(text: &str) -> Result<f64, MoverError> {
    let fraction = text.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| MoverError::Usage(format!("{text} is no fraction from 0 to 1.")))
}

fn servers(text: &str) -> Result<HashSet<ServerId>, MoverError> {
    let parsed = text.split(',').map(|number| number.parse().map(ServerId));
    let wrong = |_| MoverError::Usage(format!("{text} are no numbers of servers."));
    parsed.collect::<Result<_, std::num::ParseIntError>>().map_err(wrong)
}

fn targets(text: &str) -> Result<Vec<TargetId>, MoverError> {
    let parsed: Result<_, _> = text.split(',').map(str::parse).collect();
    parsed.map_err(|error: weir_placement::TargetNameError| MoverError::Usage(format!("{error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Action, MoverError> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn arguments_come_in_any_order() {
        let action =
            parsed("/a --rate 100MB/s --cluster c --drain 0.3,1.0 --until 0.1 --silent 4,2 --credential k b");
        let Ok(Action::Move(arguments)) = action else { panic!("{action:?}") };
        assert_eq!(arguments.paths, [b"/a".to_vec(), b"b".to_vec()]);
        assert_eq!(arguments.silent, [ServerId(2), ServerId(4)].into());
        assert_eq!((arguments.rate, arguments.goal.tolerance), (Some(100_000_000), 0.1));
        assert_eq!(arguments.goal.drained, ["0.3".parse().unwrap(), "1.0".parse().unwrap()]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, named) in [
            ("--credential k", "--cluster"),
            ("--cluster c --credential k --fast", "--fast"),
            ("--cluster c --credential k --rate 0", "rate"),
            ("--cluster c --credential k --until 2", "fraction"),
            ("--cluster c --credential k --drain 3", "SERVER.INDEX"),
            ("--cluster c --credential k --silent 3.1", "numbers of servers"),
            ("--cluster c --credential k --gather", "--to"),
        ] {
            let error = parsed(line).expect_err("wrong");
            assert!(error.to_string().contains(named), "{line}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
