//! The settings of a client: the place of the store and the caller's credential.

use crate::{ClientError, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use weir_windows::Tally;
use weir_wire::{parse_heartbeat, parse_silence, TransportChoice};

/// The place of the store, and the caller's credential.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of `cluster.json`.
    pub cluster: PathBuf,
    /// Path of the credential file.
    pub credential: PathBuf,
    /// The way to the servers.
    pub transport: TransportChoice,
    /// The time for which a server may be silent before it counts as lost.
    pub silence: Duration,
    /// The interval in which a mount tells the servers that it lives.
    pub heartbeat: Duration,
    /// Mount point or prefix of the store on this host. Absolute symbolic links below it lead back into the store.
    pub root: Option<PathBuf>,
    /// Whether the caller can write through a mount instead. The servers then refuse writes beside pages that a mount holds,
    /// with [`crate::ClientError::PagesHeld`].
    pub has_mount: bool,
    /// Folder of the windows in which this user's processes count their operations. Without one they are not counted.
    pub windows: Option<PathBuf>,
    /// Windows of this process alone, in which it counts its operations, too, for its trace.
    pub tally: Option<&'static Tally>,
}

impl Settings {
    /// The bound on a server's silence where none is set.
    pub const SILENCE_DEFAULT: Duration = Duration::from_secs(10);

    /// The interval of heartbeats where none is set: several before the kernel gives a silent connection up.
    pub const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(2);

    /// Settings with the default transport and bound.
    pub fn explicit(
        cluster: impl Into<PathBuf>,
        credential: impl Into<PathBuf>,
        root: Option<PathBuf>,
    ) -> Settings {
        Settings {
            cluster: cluster.into(),
            credential: credential.into(),
            transport: TransportChoice::Automatic,
            silence: Settings::SILENCE_DEFAULT,
            heartbeat: Settings::HEARTBEAT_DEFAULT,
            root,
            has_mount: false,
            windows: None,
            tally: None,
        }
    }

    /// Settings from `WEIR_CLUSTER`, `WEIR_CREDENTIAL`, `WEIR_MOUNT` or `WEIR_PREFIX`, `WEIR_TRANSPORT`,
    /// `WEIR_TIMEOUT_SECONDS`, `WEIR_HEARTBEAT_SECONDS` and `WEIR_WINDOWS`. No file is opened.
    ///
    /// # Errors
    /// [`crate::ClientError::Settings`] for a missing or unreadable variable.
    pub fn from_environment() -> Result<Settings> {
        Settings::from_variables(|name| std::env::var_os(name))
    }

    /// The settings of [`Settings::from_environment`], whose variables `variable` looks up.
    ///
    /// # Errors
    /// The errors of [`Settings::from_environment`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Settings> {
        let path = |name: &str, hint: &'static str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
                .ok_or_else(|| ClientError::Settings { what: format!("{name} is not set"), hint })
        };
        let cluster = path("WEIR_CLUSTER", "start the program with `weir run`")?;
        let credential = path("WEIR_CREDENTIAL", "start the program with `weir run`")?;
        let root = variable("WEIR_MOUNT")
            .filter(|value| !value.is_empty())
            .or_else(|| variable("WEIR_PREFIX"))
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let mut settings = Settings::explicit(cluster, credential, root);
        if let Some(transport) = read("WEIR_TRANSPORT", &variable, str::parse)? {
            settings.transport = transport;
        }
        if let Some(silence) = read("WEIR_TIMEOUT_SECONDS", &variable, parse_silence)? {
            settings.silence = silence;
        }
        if let Some(heartbeat) = read("WEIR_HEARTBEAT_SECONDS", &variable, parse_heartbeat)? {
            settings.heartbeat = heartbeat;
        }
        // Without windows a program runs as well, so a value that names no folder is no error.
        settings.windows = variable("WEIR_WINDOWS").map(PathBuf::from).filter(|folder| folder.is_absolute());
        Ok(settings)
    }
}

/// Reads a variable that need not be set; an empty one is not set.
fn read<T>(
    name: &str,
    variable: impl Fn(&str) -> Option<OsString>,
    parse: impl Fn(&str) -> std::result::Result<T, &'static str>,
) -> Result<Option<T>> {
    let Some(value) = variable(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    // A value that is no text is as wrong as an empty one.
    let parsed = parse(value.to_str().unwrap_or_default());
    parsed.map(Some).map_err(|hint| ClientError::Settings { what: format!("{name} is {value:?}"), hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn every_variable_is_read() {
        let read = settings(&[
            ("WEIR_CLUSTER", "/c"),
            ("WEIR_CREDENTIAL", "/k"),
            ("WEIR_MOUNT", ""),
            ("WEIR_PREFIX", "/weir"),
            ("WEIR_TRANSPORT", "tcp"),
            ("WEIR_TIMEOUT_SECONDS", "0.5"),
            ("WEIR_HEARTBEAT_SECONDS", "0.25"),
            ("WEIR_WINDOWS", "/dev/shm/weir-0"),
        ])
        .expect("complete");
        assert_eq!(read.windows, Some(PathBuf::from("/dev/shm/weir-0")));
        assert_eq!(read.cluster, PathBuf::from("/c"));
        assert_eq!(read.root, Some(PathBuf::from("/weir")));
        assert_eq!(read.transport, TransportChoice::Tcp);
        assert_eq!(read.silence, Duration::from_millis(500));
        assert_eq!(read.heartbeat, Duration::from_millis(250));
    }

    #[test]
    fn nothing_is_counted_where_no_folder_is_named() {
        for value in ["off", ""] {
            let read =
                settings(&[("WEIR_CLUSTER", "/c"), ("WEIR_CREDENTIAL", "/k"), ("WEIR_WINDOWS", value)]);
            assert_eq!(read.expect("complete").windows, None);
        }
    }

    #[test]
    fn bad_values_are_named() {
        let complete = [("WEIR_CLUSTER", "/c"), ("WEIR_CREDENTIAL", "/k")];
        for (name, value) in [
            ("WEIR_TRANSPORT", "rdma"),
            ("WEIR_TIMEOUT_SECONDS", "-1"),
            ("WEIR_TIMEOUT_SECONDS", "NaN"),
            ("WEIR_HEARTBEAT_SECONDS", "61"),
        ] {
            let variables = [complete[0], complete[1], (name, value)];
            let message = settings(&variables).expect_err("bad").to_string();
            assert!(message.contains(name), "{message}");
        }
        assert!(settings(&complete[..1]).expect_err("missing").to_string().contains("WEIR_CREDENTIAL"));
    }
}
