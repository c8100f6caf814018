//! The greeting on a new connection: both sides prove themselves, and the client claims what the server has released.

use crate::{lock_request, ClientError, HeldLock, Standing};
use rustix::io::Errno as System;
use std::ops::Deref;
use weir_placement::ServerId;
use weir_wire::{
    Capability, ChannelBinding, ClientId, Credential, Errno, Fence, Nonce, Reply, Request, SessionBinding,
};

/// Handles in one `Reclaim`: at 52 bytes each, the longest form, they fit a body.
const HANDLES_PER_RECLAIM: usize = 256;

/// The client that greets, and the connection that it has.
#[derive(Debug)]
pub struct Guest<C> {
    /// The client.
    pub client: ClientId,
    /// The credential that it proves.
    pub credential: C,
    /// The slot of the connection.
    pub slot: u16,
    /// Whether the client's host has a mount.
    pub has_mount: bool,
    /// The client's part of the proof, drawn for this connection.
    pub nonce: Nonce,
    /// The channel to which the proof is bound.
    pub binding: ChannelBinding,
}

/// A greeting in progress.
#[derive(Debug)]
pub struct Greeting<C> {
    guest: Guest<C>,
    server: ServerId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Hello,
    Prove { session: SessionBinding, boot: u64 },
    Claim { session: SessionBinding, boot: u64, claims: Claims },
}

/// The claims that are left, from the last of each kind on.
#[derive(Debug, Default)]
struct Claims {
    handles: Vec<Capability>,
    locks: Vec<HeldLock>,
    /// The fence under which the locks are claimed.
    fence: Fence,
    asked: Option<Asked>,
}

/// The claim whose answer is awaited.
#[derive(Debug)]
enum Asked {
    Handles,
    Lock(HeldLock),
    End,
}

/// The next step of a greeting.
// One value on the stack of one handshake.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum Greeted {
    /// The server is asked, and [`Greeting::take`] is given its reply.
    Ask(Request),
    /// This start of the server has not what the client held. The start is noted, and then [`Greeting::claim`] is told what is held: a
    /// reply of an earlier start that is taken in between would give something that nobody claims.
    Claim(u64),
    /// A lock is lost. It is noted before [`Greeting::go_on`], and so before any fence that is told later.
    Lost(HeldLock),
    /// The connection is ready, over this session with this start of the server. A fence that was told holds from now on.
    Ready(SessionBinding, u64, Option<Fence>),
    /// Another server listens at the address, which may be an old one.
    Another(ClientError),
    /// The server refuses the credential, which may have been renewed in its file.
    Unproved(ClientError),
    /// No attempt will succeed.
    Failed(ClientError),
}

impl<C: Deref<Target = Credential>> Greeting<C> {
    /// Begins to greet a server.
    pub fn new(guest: Guest<C>, server: ServerId, standing: &Standing) -> (Greeting<C>, Greeted) {
        let hello = Request::Hello {
            client: guest.client,
            slot: guest.slot,
            claims: guest.credential.claims.clone(),
            nonce: guest.nonce,
            has_mount: guest.has_mount,
            is_new: !standing.has_met(),
        };
        (Greeting { guest, server, stage: Stage::Hello }, Greeted::Ask(hello))
    }

    /// Takes the reply to what was asked last.
    pub fn take(&mut self, reply: Reply) -> Greeted {
        let Greeting { guest, server, stage } = self;
        match (stage, reply) {
            (Stage::Hello, Reply::Challenge { server: other, boot, nonce }) if other == *server => {
                let session = SessionBinding::new(*server, boot, (&guest.nonce, &nonce), &guest.binding);
                let proof = guest.credential.prove(&session);
                self.stage = Stage::Prove { session, boot };
                Greeted::Ask(Request::Prove { proof })
            }
            (Stage::Hello, Reply::Challenge { .. }) => {
                Greeted::Another(self.unexpected("Hello (another server answered)"))
            }
            (Stage::Hello, Reply::Failed(errno)) => Greeted::Failed(self.refused(errno)),
            (Stage::Hello, _) => Greeted::Failed(self.unexpected("Hello")),
            (Stage::Prove { session, boot }, Reply::Welcome { proof, is_known }) => {
                if !guest.credential.server_is_genuine(session, &proof) {
                    return Greeted::Failed(ClientError::NotGenuine(*server));
                }
                // The welcome is no sign of life for waiting calls: a server may take connections and answer nothing more.
                if is_known {
                    return Greeted::Ready(*session, *boot, None);
                }
                let boot = *boot;
                self.stage = Stage::Claim { session: *session, boot, claims: Claims::default() };
                Greeted::Claim(boot)
            }
            (Stage::Prove { .. }, Reply::Failed(errno)) => Greeted::Unproved(self.refused(errno)),
            (Stage::Prove { .. }, _) => Greeted::Failed(self.unexpected("Prove")),
            (Stage::Claim { session, boot, claims }, reply) => match (claims.asked.take(), reply) {
                // Another client may have had the lock meanwhile, as after a restart of an NFS server.
                (Some(Asked::Lock(lock)), reply) if !matches!(reply, Reply::Held { .. }) => {
                    Greeted::Lost(lock)
                }
                (Some(Asked::End), Reply::Held { fence }) => Greeted::Ready(*session, *boot, Some(fence)),
                (Some(Asked::End), _) => Greeted::Ready(*session, *boot, None),
                // A description that the server no longer knows answers ESTALE at its next use.
                _ => self.go_on(),
            },
        }
    }

    /// Claims the client's handles and locks, with the fence that the client knows. Nothing is claimed where the record stays
    /// busy, as in the midst of a call that a signal interrupted: the next connection claims again.
    pub fn claim(&mut self, held: Option<(Vec<Capability>, Vec<HeldLock>)>, standing: &Standing) -> Greeted {
        match (&mut self.stage, held) {
            (Stage::Claim { claims, .. }, Some((handles, mut locks))) => {
                // Locks are claimed in the order in which they were taken.
                locks.reverse();
                *claims = Claims { handles, locks, fence: standing.fence(), asked: None };
                self.go_on()
            }
            (Stage::Claim { session, boot, .. }, None) => Greeted::Ready(*session, *boot, None),
            _ => Greeted::Failed(self.unexpected("Reclaim")),
        }
    }

    /// Goes on with the next claim.
    pub fn go_on(&mut self) -> Greeted {
        let Stage::Claim { claims, .. } = &mut self.stage else {
            return Greeted::Failed(self.unexpected("Reclaim"));
        };
        let (asked, request) = if !claims.handles.is_empty() {
            let rest = claims.handles.len().saturating_sub(HANDLES_PER_RECLAIM);
            (Asked::Handles, Request::Reclaim { handles: claims.handles.split_off(rest) })
        } else if let Some(lock) = claims.locks.pop() {
            (Asked::Lock(lock), lock_request(&lock, false, Some(claims.fence)))
        } else {
            (Asked::End, Request::Reclaim { handles: Vec::new() })
        };
        claims.asked = Some(asked);
        Greeted::Ask(request)
    }

    fn refused(&self, errno: Errno) -> ClientError {
        if i32::from(errno.0) != System::ACCESS.raw_os_error() {
            return ClientError::Failed(errno);
        }
        let reason = "the credential is forged, altered or expired".to_owned();
        ClientError::Refused { server: self.server, reason }
    }

    fn unexpected(&self, request: &'static str) -> ClientError {
        ClientError::UnexpectedReply { server: self.server, request }
    }
}
