//! The command line.

use crate::error::MountError;
use std::ffi::OsString;
use std::path::PathBuf;

const HELP: &str = "\
Shows a Weir store as a file system.

usage: weir-mount --cluster CLUSTER.json --credential FILE [--log FILE] [--source NAME] MOUNTPOINT

Stays in the foreground, writes `ready` to stdout once mounted, and ends on SIGTERM, SIGINT or when it is unmounted.
As root it mounts for all users where the credential allows to act for them; as a user it mounts through fusermount3.

  --cluster FILE     where the servers are (cluster.json)
  --credential FILE  who mounts
  --log FILE         file of the log, which begins anew at 1 MiB; else standard error, or the journal of systemd
  --source NAME      what mount(8) and df(1) list as the source, instead of weir
  --help             this text
  --version          the version

WEIR_TRANSPORT (unix or tcp), WEIR_TIMEOUT_SECONDS (bound on a server's silence) and WEIR_HEARTBEAT_SECONDS (interval of
its own signs of life, 2) are honoured.
";

/// The source that mount(8) lists where no other is named.
const SOURCE: &str = "weir";

/// The request of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A text for stdout.
    Print(String),
    /// To mount.
    Mount(Arguments),
}

/// The settings of a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) cluster: PathBuf,
    pub(crate) credential: PathBuf,
    pub(crate) log: Option<PathBuf>,
    pub(crate) source: String,
    pub(crate) mount_point: PathBuf,
}

/// Reads the arguments after the program's name.
///
/// # Errors
/// [`MountError::Usage`] naming the argument that is missing or unknown.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Action, MountError> {
    let mut arguments = arguments.into_iter();
    let (mut cluster, mut credential, mut log, mut mount_point) = (None, None, None, None);
    let mut source = None;
    while let Some(argument) = arguments.next() {
        let slot = match argument.to_str() {
            Some("--help" | "-h") => return Ok(Action::Print(HELP.into())),
            Some("--version") => {
                return Ok(Action::Print(format!("weir-mount {}\n", env!("CARGO_PKG_VERSION"))))
            }
            Some("--cluster") => &mut cluster,
            Some("--credential") => &mut credential,
            Some("--log") => &mut log,
            Some("--source") => &mut source,
            Some(option) if option.starts_with('-') => {
                return Err(MountError::Usage(format!("unknown option {option}.")))
            }
            _ if mount_point.is_none() => {
                mount_point = Some(PathBuf::from(argument));
                continue;
            }
            _ => return Err(MountError::Usage("more than one mount point.".into())),
        };
        let value = arguments.next();
        *slot =
            Some(value.map(PathBuf::from).ok_or_else(|| {
                MountError::Usage(format!("{} needs a value.", argument.to_string_lossy()))
            })?);
    }
    let missing = |name: &str| MountError::Usage(format!("{name} is missing."));
    Ok(Action::Mount(Arguments {
        cluster: cluster.ok_or_else(|| missing("--cluster"))?,
        credential: credential.ok_or_else(|| missing("--credential"))?,
        log,
        source: source.map_or_else(|| Ok(SOURCE.into()), source_name)?,
        mount_point: mount_point.ok_or_else(|| missing("the mount point"))?,
    }))
}

/// A name that is one word of the table of mounts, and one option of fusermount3.
fn source_name(given: PathBuf) -> Result<String, MountError> {
    let is_plain = |name: &String| {
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || ",\\".contains(c))
    };
    given.into_os_string().into_string().ok().filter(is_plain).ok_or_else(|| {
        MountError::Usage("--source takes a name without blanks, commas and backslashes.".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Action, MountError> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_come_in_any_order() {
        let expected = Arguments {
            cluster: "c".into(),
            credential: "k".into(),
            log: None,
            source: "weir".into(),
            mount_point: "/m".into(),
        };
        let action = parsed(&["/m", "--credential", "k", "--cluster", "c"]).expect("complete");
        assert_eq!(action, Action::Mount(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (arguments, named) in [
            (&["--cluster"][..], "--cluster"),
            (&["--fast", "/m"][..], "--fast"),
            (&["--cluster", "c", "/m"][..], "--credential"),
            (&["--cluster", "c", "--credential", "k"][..], "mount point"),
            (&["a", "b"][..], "more than one"),
            (&["--cluster", "c", "--credential", "k", "--source", "a,suid", "/m"][..], "--source"),
        ] {
            let error = parsed(arguments).expect_err("incomplete");
            assert!(error.to_string().contains(named), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
