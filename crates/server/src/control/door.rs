//! The ways to the control API: sealed, by a client that proved a credential to the server and was proved the server, or plain,
//! where neither knows the other.

use crate::control::callers::Caller;
use crate::control::hosts::Hosts;
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use weir_channel::{SealedStream, MAGIC};
use weir_placement::ServerId;
use weir_wire::{Claims, Role, SiteKey};

/// The rights that a caller has proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// It proved nothing.
    Nobody,
    /// It has a credential of this user.
    User(u32),
    /// It has the site key.
    Administrator,
    /// Its credential is outside of its time.
    Expired,
}

/// The user of a credential that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proved {
    pub(crate) uid: u32,
    pub(crate) user: String,
}

/// The door of one server.
pub(crate) struct Door {
    here: ServerId,
    key: SiteKey,
    hosts: Hosts,
}

/// A caller's connection, whose every wait ends.
pub(crate) struct Line<'a> {
    caller: &'a Caller,
    until: Cell<Instant>,
}

/// A connection whose way is known.
pub(crate) struct Entered<'a> {
    pub(crate) bearer: Bearer,
    /// The user of the credential; none for a plain one.
    pub(crate) proved: Option<Proved>,
    /// Bytes of a plain request that came already.
    pub(crate) early: Vec<u8>,
    way: Way<'a>,
}

enum Way<'a> {
    Plain(&'a Line<'a>),
    Sealed(Box<SealedStream<&'a Line<'a>>>),
}

impl Bearer {
    fn of(claims: &Claims, now_seconds: u64) -> Bearer {
        if !(claims.issued_seconds..=claims.expires_seconds).contains(&now_seconds) {
            return Bearer::Expired;
        }
        match claims.role {
            Role::Administrator => Bearer::Administrator,
            Role::User | Role::Mount | Role::Server => Bearer::User(claims.uid),
        }
    }
}

impl Door {
    pub(crate) fn new(here: ServerId, key: SiteKey, hosts: Hosts) -> Door {
        Door { here, key, hosts }
    }

    /// Tells the way by the first bytes, and ends the handshake of a sealed one. Its claims are proved once a first byte was read.
    ///
    /// # Errors
    /// The errors of the connection; the client does not prove its claims, or means another server.
    pub(crate) fn enter<'a>(&self, line: &'a Line<'a>, now_seconds: u64) -> io::Result<Entered<'a>> {
        let mut early = vec![0; MAGIC.len()];
        let mut have = 0;
        while have < MAGIC.len() && early[..have] == MAGIC[..have] {
            match (&mut &*line).read(&mut early[have..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => have += count,
            }
        }
        early.truncate(have);
        if early != MAGIC {
            return Ok(Entered { bearer: Bearer::Nobody, proved: None, early, way: Way::Plain(line) });
        }
        let (stream, claims) = SealedStream::accept(line, early, self.here, &self.key)?;
        let bearer = Bearer::of(&claims, now_seconds);
        let proved = Some(Proved { uid: claims.uid, user: claims.user });
        Ok(Entered { bearer, proved, early: Vec::new(), way: Way::Sealed(Box::new(stream)) })
    }

    /// Whether a request with this `Host` is meant for this server. One that was proved is.
    pub(crate) fn is_meant(&self, host: Option<&str>, entered: &Entered<'_>, line: &Line<'_>) -> bool {
        matches!(entered.way, Way::Sealed(_))
            || line.caller.stream().local_addr().is_ok_and(|here| self.hosts.admits(host, here))
    }
}

impl<'a> Line<'a> {
    /// A connection whose waits end in `wait`, together.
    pub(crate) fn new(caller: &'a Caller, wait: Duration) -> Line<'a> {
        Line { caller, until: Cell::new(Instant::now() + wait) }
    }

    /// The waits from now on end in `wait`, together.
    pub(crate) fn ends_in(&self, wait: Duration) {
        self.until.set(Instant::now() + wait);
    }

    /// Time that is left; a timeout of zero would mean none.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.get().saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Read for &Line<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.caller.stream();
        loop {
            stream.set_read_timeout(Some(self.left()?))?;
            match stream.read(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}

impl Write for &Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.caller.stream();
        loop {
            stream.set_write_timeout(Some(self.left()?))?;
            match stream.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => {
                    self.caller.is_waited_for();
                    return outcome;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Entered<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(line) => line.read(bytes),
            Way::Sealed(stream) => stream.read(bytes),
        }
    }
}

impl Write for Entered<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(line) => line.write(bytes),
            Way::Sealed(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_its_rights_within_its_time_alone() {
        let claims =
            |role| Claims { role, issued_seconds: 10, expires_seconds: 20, ..weir_testing::claims(7) };
        for (role, rights) in [
            (Role::User, Bearer::User(7)),
            (Role::Mount, Bearer::User(7)),
            (Role::Server, Bearer::User(7)),
            (Role::Administrator, Bearer::Administrator),
        ] {
            for (now_seconds, expected) in
                [(9, Bearer::Expired), (10, rights), (20, rights), (21, Bearer::Expired)]
            {
                assert_eq!(Bearer::of(&claims(role), now_seconds), expected, "{role:?} at {now_seconds}");
            }
        }
    }
}
