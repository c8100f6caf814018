//! New connections: dialling, the mutual proof, and the claim of handles and locks that this client held.

use crate::pool::{look, Lane, Lease, Link, Live};
use crate::session::Environment;
use crate::transfer::{converse, Fault};
use crate::transport::Connection;
use crate::{Caller, ClientError, Counters, Result};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_session::{Approach, Failed, Greeted, Greeting, Guest, HeldLock};
use weir_wire::{Capability, Credential, DelegatedJob, IdentityId, Nonce, Reply, Request};

/// Servers that are asked for the address of another one.
const ASKED_MAX: usize = 3;
/// Longest wait for the answer of each.
const ASKED_LIMIT: Duration = Duration::from_millis(500);
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
    let (client, has_mount, binding) = (session.client, environment.has_mount(), connection.binding());
    let nonce = random_nonce().map_err(Attempt::Final)?;
    let guest = Guest { client, credential, slot, has_mount, nonce, binding };
    let (mut greeting, mut next) = Greeting::new(guest, link.server(), &link.standing);
    let (proved, boot) = loop {
        next = match next {
            Greeted::Ask(request) => {
                let connection = connection.as_mut();
                let reply = converse(connection, &mut state.send, &mut state.receive, &request, deadline);
                greeting.take(reply.map_err(|fault| settle(link, fault))?)
            }
            Greeted::Claim(boot) => {
                // From now on a reply of an earlier start gives nothing that would not be claimed.
                link.standing.note_start(boot);
                greeting.claim(holdings(link), &link.standing)
            }
            Greeted::Lost(lock) if link.lose(&lock) => greeting.go_on(),
            // The record of losses stays busy.
            Greeted::Lost(_) => return Err(Attempt::Again),
            Greeted::Ready(proved, boot, fence) => {
                fence.into_iter().for_each(|fence| link.standing.renew_fence(fence));
                break (proved, boot);
            }
            Greeted::Another(error) => {
                environment.look_for_servers();
                return Err(if link.address() == address { Attempt::Final(error) } else { Attempt::Again });
            }
            Greeted::Unproved(_) if environment.renew(reading) => return Err(Attempt::Again),
            Greeted::Unproved(error) | Greeted::Failed(error) => return Err(Attempt::Final(error)),
        };
    };
    link.standing.note_start(boot);
    lease.set_live(Live { connection, session: proved, identities: Default::default(), reading, boot });
    link.close_kept();
    Ok(())
}

/// The descriptions and locks that the client holds at a server, or nothing where the record stays busy.
fn holdings(link: &Link) -> Option<(Vec<Capability>, Vec<HeldLock>)> {
    look(&link.held).map(|held| (held.handles.values().copied().collect(), held.locks.clone()))
}

fn settle(link: &Link, fault: Fault) -> Attempt {
    match fault {
        // A handshake sends and receives in buffers of this client.
        Fault::Broken | Fault::Silent | Fault::Address => Attempt::Again,
        Fault::Refused(reason) => Attempt::Final(ClientError::Refused { server: link.server(), reason }),
        Fault::Protocol(source) => Attempt::Final(ClientError::Protocol { server: link.server(), source }),
    }
}

fn random_nonce() -> Result<Nonce> {
    let mut nonce = [0; 32];
    crate::session::fill_random(&mut nonce)?;
    Ok(nonce)
}
