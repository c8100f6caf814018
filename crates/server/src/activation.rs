//! Listening sockets that the system passes at the start (sd_listen_fds(3)): nobody can take a port that systemd holds.

use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;
use std::net::TcpListener;
use weir_core::error::ServerError;

/// Names of the sockets, as `FileDescriptorName` of their units gives them.
pub(crate) const DATA: &str = "data";
/// As [`DATA`], for the control API.
pub(crate) const CONTROL: &str = "control";

/// The sockets that were passed.
#[derive(Default)]
pub(crate) struct Passed {
    pub(crate) data: Option<TcpListener>,
    pub(crate) control: Option<TcpListener>,
}

impl Passed {
    /// Takes the sockets that were passed to this process; those of another process stay where they are. The process has no other
    /// thread yet.
    ///
    /// # Errors
    /// [`ServerError::Passed`] of a socket that has another name, or is no listener over TCP.
    pub(crate) fn take() -> Result<Passed, ServerError> {
        let own = std::process::id().to_string();
        if std::env::var("LISTEN_PID").is_ok_and(|process| process == own) {
            let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
            return sort(ListenFd::from_env(), &names).map_err(ServerError::Passed);
        }
        Ok(Passed::default())
    }
}

/// Gives each socket to the purpose that its name tells.
///
/// # Errors
/// The fault, in words.
fn sort(mut sockets: ListenFd, names: &str) -> Result<Passed, String> {
    let mut passed = Passed::default();
    let mut names = names.split(':');
    for index in 0..sockets.len() {
        let name = names.next().unwrap_or_default();
        let place = match name {
            DATA => &mut passed.data,
            CONTROL => &mut passed.control,
            _ => return Err(format!("socket {index} is named \"{name}\"")),
        };
        let wrong = |what: String| format!("socket {index}, {name}: {what}");
        let listener = sockets.take_tcp_listener(index).map_err(|error| wrong(error.to_string()))?;
        let listener = listener.ok_or_else(|| wrong("it was taken before".into()))?;
        // The file is systemd's, too, and an earlier server may have changed its mode.
        listener.set_nonblocking(false).map_err(|error| wrong(error.to_string()))?;
        match socket_acceptconn(&listener) {
            Ok(true) => {}
            Ok(false) => return Err(wrong("it does not listen".into())),
            Err(errno) => return Err(wrong(errno.to_string())),
        }
        if place.replace(listener).is_some() {
            return Err(wrong("another socket has this name".into()));
        }
    }
    Ok(passed)
}
