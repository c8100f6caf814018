//! The handover of this process's client to the program that takes the process's place at an `exec`.
//!
//! The program goes on as the same client: with its descriptions, its locks of all kinds and its numbers of requests. Between
//! the two nobody calls the servers, so the exec leaves one connection to each server open. The server counts the client as
//! connected until the process closes that connection.

use crate::descriptors::OwnSocket;
use crate::pool::{look, Lane, Link};
use crate::session::Session;
use crate::{ClientError, Result, Store};
use serde::{Deserialize, Serialize};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use weir_placement::ServerId;
use weir_session::Held;
use weir_wire::{Capability, ClientId, HandleId, Ino, LockKind, LockOwner};

/// A client on its way over an `exec`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handover {
    client: ClientId,
    /// The user of the credential: servers take nobody else for the client.
    uid: u32,
    /// The store, by the number that windows have of it.
    store: u64,
    next_request: u64,
    servers: Vec<AtServer>,
}

/// The client's part at one server.
#[derive(Debug, Serialize, Deserialize)]
struct AtServer {
    server: ServerId,
    boot: u64,
    fence: u64,
    held: Held,
    /// The descriptor of a connection, -1 without one.
    connection: RawFd,
}

/// A lock of a client.
#[derive(Clone, Copy, Debug)]
pub struct HandedLock {
    /// The locked file.
    pub ino: Ino,
    /// The description through which it was taken.
    pub handle: HandleId,
    /// Its kind.
    pub kind: LockKind,
    /// Its owner.
    pub owner: LockOwner,
}

impl Handover {
    /// The connections that the exec is to leave open: one to each server at which the client holds something.
    pub fn connections(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.servers.iter().map(|part| part.connection).filter(|number| *number >= 0)
    }

    /// The descriptions that the client holds.
    pub fn descriptions(&self) -> impl Iterator<Item = Capability> + '_ {
        self.servers.iter().flat_map(|part| part.held.handles.values().copied())
    }

    /// The locks that the client holds.
    pub fn locks(&self) -> impl Iterator<Item = HandedLock> + '_ {
        let all = self.servers.iter().flat_map(|part| &part.held.locks);
        all.map(|lock| HandedLock { ino: lock.ino, handle: lock.handle, kind: lock.kind, owner: lock.owner })
    }
}

impl Store {
    /// The client as it is now, for the next program of this process. `None` where the client holds nothing.
    pub fn hand_over(&self) -> Option<Handover> {
        let session = self.session_in_use()?;
        let servers: Vec<AtServer> = session.links.iter().filter_map(at_server).collect();
        (!servers.is_empty()).then(|| Handover {
            client: session.client,
            uid: session.credential().0.claims.uid,
            store: session.store(),
            next_request: session.next_request.load(Ordering::SeqCst),
            servers,
        })
    }

    /// Goes on as the client of the program before. `open` opens a connection that the program before left.
    ///
    /// # Errors
    /// `EPERM` where the settings of this program name another store or user, `EBUSY` where this process is a client already.
    pub fn take_over(&self, handover: Handover, open: impl Fn(RawFd) -> Option<OwnedFd>) -> Result<()> {
        let session = Session::resumed(self.settings(), handover.client, handover.next_request)?;
        if session.credential().0.claims.uid != handover.uid || session.store() != handover.store {
            return Err(ClientError::number(libc::EPERM));
        }
        for part in handover.servers {
            // Nothing is held at a server that has left the store.
            let Some(link) = session.links.find(part.server) else { continue };
            link.standing.boot.store(part.boot, Ordering::SeqCst);
            link.standing.fence.store(part.fence, Ordering::SeqCst);
            link.has_lost.store(part.held.has_lost_any(), Ordering::SeqCst);
            link.owes.store(part.held.owes_any(), Ordering::SeqCst);
            if let Some(mut held) = look(&link.held) {
                *held = part.held;
            }
            if let Some(socket) = open(part.connection).and_then(|socket| OwnSocket::new(socket).ok()) {
                link.keep(socket);
            }
        }
        self.begin_with(session)
    }
}

fn at_server(link: &Link) -> Option<AtServer> {
    let held = look(&link.held)?.clone();
    if held.is_empty() {
        return None;
    }
    let mut lease = link.try_lease(Lane::Small);
    let live = lease.as_mut().and_then(|lease| lease.live());
    Some(AtServer {
        server: link.server(),
        boot: link.standing.boot.load(Ordering::SeqCst),
        fence: link.standing.fence.load(Ordering::SeqCst),
        held,
        connection: live.map_or_else(|| link.kept_number(), |live| live.connection.descriptor_number()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{decode_body, encode_body, Request};

    #[test]
    fn a_handover_survives_its_encoding() {
        let mut held = Held::default();
        held.owe(Request::Close { ino: Ino(7), handle: HandleId(9) });
        let part = AtServer { server: ServerId(3), boot: 5, fence: 6, held, connection: 15_001 };
        let whole = Handover { client: ClientId(1), uid: 2, store: 3, next_request: 4, servers: vec![part] };
        let mut bytes = Vec::new();
        encode_body(&whole, &mut bytes);
        let read: Handover = decode_body(&bytes, "handover").expect("own encoding");
        assert_eq!((read.client, read.uid, read.store, read.next_request), (ClientId(1), 2, 3, 4));
        assert_eq!(read.connections().collect::<Vec<_>>(), [15_001]);
        assert!(read.servers[0].held.owes_any());
        for length in 0..bytes.len() {
            assert!(decode_body::<Handover>(&bytes[..length], "handover").is_err());
        }
    }
}
