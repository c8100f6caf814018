//! New connections: dialling, the mutual proof, and the claim of handles and locks that this client held.

use crate::call::{Approach, Failed};
use crate::held::{lock_request, look};
use crate::pool::{Lane, Lease, Link, Live};
use crate::session::Environment;
use crate::transfer::{converse, Fault};
use crate::transport::Connection;
use crate::{Caller, ClientError, Counters, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_wire::{
    Capability, Credential, DelegatedJob, Errno, IdentityId, Nonce, Reply, Request, SessionBinding,
};

/// Servers that are asked for the address of another one.
const ASKED_MAX: usize = 3;
/// Longest wait for the answer of each.
const ASKED_LIMIT: Duration = Duration::from_millis(500);
/// Handles in one `Reclaim`: at 52 bytes each, the longest form, they fit a body.
const HANDLES_PER_RECLAIM: usize = 256;

/// The reason why there is no connection.
pub(crate) enum Unreached {
    /// No attempt will succeed.
    Final(ClientError),
    /// No attempt has reached the server so far. The last attempt waited for this time.
    Yet(Duration),
}

/// Gives the lease a connection that knows `caller`, within the attempts of `approach`.
pub(crate) fn prepare(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    caller: &Caller,
    mut approach: Approach,
) -> std::result::Result<(), Unreached> {
    let is_known = match (&lease.state().live, &caller.registered) {
        (None, _) => false,
        (Some(_), None) => return Ok(()),
        (Some(live), Some(who)) => live.identities.get(&who.number) == Some(&who.generation),
    };
    if is_known {
        return Ok(());
    }
    loop {
        environment.check_generation().map_err(Unreached::Final)?;
        let until = approach.attempt(environment.now());
        let Err(fault) = attempt(environment, link, lease, caller, until) else { return Ok(()) };
        link.break_off(lease);
        environment.look_for_servers();
        if let Attempt::Final(error) = fault {
            return Err(Unreached::Final(error));
        }
        link.turn_to_other_address();
        ask_where(environment, link, until);
        match approach.failed(environment.now()) {
            Failed::Pause(pause) => std::thread::sleep(pause),
            Failed::Over(waited) => return Err(Unreached::Yet(waited)),
        }
    }
}

/// Asks other servers where the server of a link is, unless that was done a moment ago: another program may have its port, and
/// cluster.json may be old. The first one that answers is believed, since it has proved the key.
fn ask_where(environment: Environment<'_>, link: &Link, until: Duration) {
    let links = &environment.session().links;
    let is_lost = |other: &Link| other.standing.counts_as_lost(environment.now());
    let others = links.iter().filter(|other| other.server() != link.server() && !is_lost(other));
    if !environment.may_ask_where(link) {
        return;
    }
    for other in others.take(ASKED_MAX) {
        let Some(mut lease) = other.try_lease(Lane::Probe) else { continue };
        let until = until.min(environment.now() + ASKED_LIMIT);
        if lease.state().live.is_none() && connect(environment, other, &mut lease, until).is_err() {
            continue;
        }
        let deadline = environment.session().instant(until);
        let state = lease.state();
        let Some(live) = &mut state.live else { continue };
        let connection = live.connection.as_mut();
        match converse(connection, &mut state.send, &mut state.receive, &Request::Cluster, deadline) {
            Ok(Reply::Cluster(cluster)) => {
                environment.heard(other);
                // A server says of itself where it listens, which may be an address of all interfaces.
                let told = cluster.servers.iter().filter(|address| address.server != other.server());
                let known = told.filter_map(|address| Some((links.find(address.server)?, address)));
                return known.for_each(|(link, address)| link.note_told(address));
            }
            _ => other.break_off(&mut lease),
        }
    }
}

/// The reason why an attempt failed.
enum Attempt {
    /// Another attempt may succeed.
    Again,
    /// No attempt will succeed.
    Final(ClientError),
}

fn attempt(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    caller: &Caller,
    until: Duration,
) -> std::result::Result<(), Attempt> {
    if lease.state().live.is_none() {
        connect(environment, link, lease, until)?;
    }
    let Some(who) = &caller.registered else { return Ok(()) };
    let state = lease.state();
    let Some(live) = &mut state.live else { return Err(Attempt::Again) };
    let job = who.job.as_ref().map(|credential| DelegatedJob {
        claims: credential.claims.clone(),
        proof: credential.prove(&live.session),
    });
    let (identity, names) = (IdentityId(who.number), who.names.clone());
    let request = Request::Identify { identity, who: who.who.clone(), names, job };
    let connection = live.connection.as_mut();
    let deadline = environment.session().instant(until);
    match converse(connection, &mut state.send, &mut state.receive, &request, deadline) {
        Ok(Reply::Done) => {
            live.identities.insert(who.number, who.generation);
            Ok(())
        }
        Ok(Reply::Failed(errno)) => Err(Attempt::Final(ClientError::Failed(errno))),
        Ok(_) => Err(Attempt::Final(environment.unexpected(link, "Identify"))),
        Err(fault) => Err(settle(link, fault)),
    }
}

/// Dials and authenticates.
pub(crate) fn connect_once(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    until: Duration,
) -> std::result::Result<(), ClientError> {
    connect(environment, link, lease, until).map_err(|attempt| match attempt {
        Attempt::Final(error) => error,
        Attempt::Again => ClientError::number(libc::ECONNREFUSED),
    })
}

/// Opens a connection to whoever listens at the server's address, with the credential of a reading.
fn dial(
    environment: Environment<'_>,
    link: &Link,
    (credential, reading): (&Credential, usize),
    until: Duration,
) -> std::result::Result<Box<dyn Connection>, Attempt> {
    let left = until.saturating_sub(environment.now()).min(environment.dial_max());
    let dialled = environment.transport().dial(link.address(), credential, left, environment.tick());
    let is_another = dialled.as_ref().is_err_and(|&errno| errno == rustix::io::Errno::PERM);
    link.standing.is_another.store(is_another, Ordering::Relaxed);
    if is_another {
        // The site may have another key since the credential's file was read.
        environment.renew(reading);
    }
    let connection = dialled.map_err(|_| Attempt::Again)?;
    Counters::add(&environment.counters().connections, 1);
    Ok(connection)
}

fn connect(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    until: Duration,
) -> std::result::Result<(), Attempt> {
    if link.standing.has_broken() {
        // The server's number may have gone to another host. The old one may take no connection, and refuse none either.
        environment.look_for_servers();
    }
    let address = link.address();
    let session = environment.session();
    let (credential, reading) = session.credential();
    let mut connection = dial(environment, link, (credential, reading), until)?;
    let deadline = session.instant(until);
    let slot = lease.slot_number();
    let state = lease.state();
    let client_nonce = random_nonce().map_err(Attempt::Final)?;
    let mut ask = |connection: &mut dyn Connection, request: &Request| {
        converse(connection, &mut state.send, &mut state.receive, request, deadline)
            .map_err(|fault| settle(link, fault))
    };
    let hello = Request::Hello {
        client: session.client,
        slot,
        claims: credential.claims.clone(),
        nonce: client_nonce,
        has_mount: environment.has_mount(),
        is_new: link.standing.boot.load(Ordering::SeqCst) == 0,
    };
    let (boot, server_nonce) = match ask(connection.as_mut(), &hello)? {
        Reply::Challenge { server, boot, nonce } if server == link.server() => (boot, nonce),
        Reply::Challenge { .. } => {
            // Another one may listen at the address of a server that went elsewhere.
            environment.look_for_servers();
            if link.address() != address {
                return Err(Attempt::Again);
            }
            return Err(Attempt::Final(environment.unexpected(link, "Hello (another server answered)")));
        }
        Reply::Failed(errno) => return Err(refused(link, errno)),
        _ => return Err(Attempt::Final(environment.unexpected(link, "Hello"))),
    };
    let nonces = (&client_nonce, &server_nonce);
    let proved = SessionBinding::new(link.server(), boot, nonces, &connection.binding());
    let answer = Request::Prove { proof: credential.prove(&proved) };
    let is_known = match ask(connection.as_mut(), &answer)? {
        Reply::Welcome { proof, is_known } if credential.server_is_genuine(&proved, &proof) => is_known,
        Reply::Welcome { .. } => return Err(Attempt::Final(ClientError::NotGenuine(link.server()))),
        // The credential's file may have been renewed since this client read it.
        Reply::Failed(_) if environment.renew(reading) => return Err(Attempt::Again),
        Reply::Failed(errno) => return Err(refused(link, errno)),
        _ => return Err(Attempt::Final(environment.unexpected(link, "Prove"))),
    };
    // The welcome is no sign of life for waiting calls: a server may accept connections and answer nothing more.
    if !is_known {
        reclaim(link, |request| ask(connection.as_mut(), request))?;
    }
    link.standing.boot.store(boot, Ordering::SeqCst);
    lease.set_live(Live { connection, session: proved, identities: Default::default(), reading });
    link.close_kept();
    Ok(())
}

/// Claims handles and locks of a server that has released them, or that restarted.
fn reclaim(
    link: &Link,
    mut ask: impl FnMut(&Request) -> std::result::Result<Reply, Attempt>,
) -> std::result::Result<(), Attempt> {
    // A record that stays busy belongs to a call that a signal interrupted. The next connection claims again.
    let Some((handles, locks)) = look(&link.held).map(|held| {
        let handles: Vec<Capability> = held.handles.values().copied().collect();
        (handles, held.locks.clone())
    }) else {
        return Ok(());
    };
    for part in handles.chunks(HANDLES_PER_RECLAIM) {
        // A description that the server no longer knows answers ESTALE at its next use.
        ask(&Request::Reclaim { handles: part.to_vec() })?;
    }
    let last = link.standing.fence();
    for lock in locks {
        let is_held = matches!(ask(&lock_request(&lock, false, Some(last)))?, Reply::Held { .. });
        // Another client may have had the lock meanwhile, as after a restart of an NFS server.
        if !is_held && !link.lose(&lock) {
            return Err(Attempt::Again);
        }
    }
    let claimed = ask(&Request::Reclaim { handles: Vec::new() })?;
    if let Reply::Held { fence } = claimed {
        link.standing.renew_fence(fence);
    }
    Ok(())
}

fn settle(link: &Link, fault: Fault) -> Attempt {
    match fault {
        // A handshake sends and receives in buffers of this client.
        Fault::Broken | Fault::Silent | Fault::Address => Attempt::Again,
        Fault::Refused(reason) => Attempt::Final(ClientError::Refused { server: link.server(), reason }),
        Fault::Protocol(source) => Attempt::Final(ClientError::Protocol { server: link.server(), source }),
    }
}

fn refused(link: &Link, errno: Errno) -> Attempt {
    if i32::from(errno.0) != libc::EACCES {
        return Attempt::Final(ClientError::Failed(errno));
    }
    let reason = "the credential is forged, altered or expired".to_owned();
    Attempt::Final(ClientError::Refused { server: link.server(), reason })
}

fn random_nonce() -> Result<Nonce> {
    let mut nonce = [0; 32];
    crate::session::fill_random(&mut nonce)?;
    Ok(nonce)
}
