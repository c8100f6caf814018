//! Links: accepted connections, their handshake, and the way from a frame to a request in hand.

pub(crate) mod admission;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod memory;

use crate::links::connection::{Connection, Frame, Received, Stream};
use crate::links::memory::{LinkMemory, SMALL_BYTES};
use crate::namespace::errno;
use crate::notices::Notice;
use crate::requests::data::COPY_BYTES_MAX;
use crate::requests::intake::FRAMES_PER_VISIT;
use crate::requests::service::{total_bytes, Pending};
use crate::server::Server;
use crate::storage::Target;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use weir_fairshare::{JobAttributes, Nanos};
use weir_placement::{ServerId, TargetId};
use weir_wire::{
    decode_body, limits, AccountNames, Claims, ClientId, DelegatedJob, Errno, Identity, IdentityId, JobId,
    Nonce, Proof, Reply, Request, RequestId, Role, HEADER_BYTES,
};

/// A client that is silent for this long is forgotten when its last connection is gone already.
pub(crate) const HEARTBEAT_SECONDS: u32 = 10;

/// Links that are tried whenever memory is freed: one would take it, and one may be of a job that has no room yet.
const HELD_BACK_READ: usize = 2;
/// How often all of them are looked at.
const HELD_BACK_RETRY: Nanos = Nanos::from_millis(25);
/// Longest frame of a connection that is not proved: a body, and nothing behind it.
const STRANGER_FRAME_BYTES: usize = HEADER_BYTES + limits::BODY_BYTES;
/// Memory of a request in hand beside its body and payload.
const REQUEST_BYTES: usize = size_of::<Pending>() + 256;

const PEER_JOB: &str = "server-";

/// What a client is told whose credential expired while it was connected.
const EXPIRED: &str =
    "the credential has expired: renew its file (weir grant), or start the program again (weir run)";

/// On whose behalf a request acts.
#[derive(Debug)]
pub(crate) struct Acting {
    pub(crate) who: Identity,
    pub(crate) job: JobId,
    pub(crate) attributes: JobAttributes,
    /// A mount of the administrator: the inodes that it names are those that the kernel led its callers to.
    pub(crate) trusted: bool,
    /// Unix time after which nothing is done for it any more, in seconds.
    expires_seconds: u64,
}

/// How far the handshake is.
enum Standing {
    Fresh,
    Challenged { client: ClientId, claims: Claims, theirs: Nonce, ours: Nonce, has_mount: bool },
    Ready(Session),
}

/// A proved connection.
pub(crate) struct Session {
    pub(crate) client: ClientId,
    pub(crate) role: Role,
    own: Rc<Acting>,
    identities: HashMap<IdentityId, Rc<Acting>>,
    theirs: Nonce,
    ours: Nonce,
    job: JobId,
    /// Whose connection this counts as; a mount's or a server's is nobody's.
    user: Option<u32>,
    /// The server that this client is.
    peer: Option<ServerId>,
}

/// One accepted connection.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// Tells this link from an earlier one in the same place.
    pub(crate) serial: u64,
    standing: Standing,
    /// Requests in hand.
    pub(crate) requests: HashSet<usize>,
    /// The request whose payload is still in the socket.
    pub(crate) receiving: Option<usize>,
    /// Close once the output is sent.
    pub(crate) closing: bool,
    /// It has as many requests in hand as it may have, and is read again when it has fewer.
    pub(crate) full: bool,
    /// It waits in the queue of those held back.
    pub(crate) held_back: bool,
    /// It may have something to read, or replies to send; and it waits for its turn among the links.
    pub(crate) is_ready: bool,
    pub(crate) is_dirty: bool,
    pub(crate) is_queued: bool,
    pub(crate) memory: LinkMemory,
}

/// A link, as something that may be gone by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkKey {
    pub(crate) index: usize,
    pub(crate) serial: u64,
}

impl Link {
    pub(crate) fn new(stream: Stream, serial: u64) -> Link {
        Link {
            connection: Connection::new(stream),
            serial,
            standing: Standing::Fresh,
            requests: HashSet::new(),
            receiving: None,
            closing: false,
            full: false,
            held_back: false,
            is_ready: false,
            is_dirty: false,
            is_queued: false,
            memory: LinkMemory::default(),
        }
    }

    /// Requests that were read and whose replies have not left.
    pub(crate) fn in_hand(&self) -> usize {
        self.requests.len() + self.connection.unsent_replies()
    }

    /// The proved session.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.standing {
            Standing::Ready(session) => Some(session),
            _ => None,
        }
    }
}

impl Session {
    /// What a policy may know of the connection's own job.
    pub(crate) fn attributes(&self) -> JobAttributes {
        self.own.attributes
    }

    /// The connection's own job.
    pub(crate) fn job(&self) -> JobId {
        self.job
    }

    /// Whether the client is another server.
    pub(crate) fn is_peer(&self) -> bool {
        self.peer.is_some()
    }
}

impl Server {
    /// Takes and handles frames of a link, until it has none, enough requests in hand, or had its turn.
    pub(crate) fn read_link(&mut self, index: usize) {
        for _ in 0..FRAMES_PER_VISIT {
            let Some(link) = self.links.get_mut(index) else { return };
            if link.closing || link.receiving.is_some() {
                return;
            }
            if link.in_hand() >= limits::OUTSTANDING_PER_CONNECTION {
                // Nobody would take the answers of a client that is gone, and nothing else is read until it has some.
                match link.connection.has_ended() {
                    true => return self.close_link(index),
                    false => link.full = true,
                }
                return;
            }
            let is_idle = link.in_hand() == 0;
            let is_proved = link.session().is_some();
            let is_admitted = self.admits(index);
            let bytes_max = match (is_proved, is_admitted) {
                (true, true) => usize::MAX,
                (false, _) => STRANGER_FRAME_BYTES,
                (true, false) if is_idle => SMALL_BYTES,
                (true, false) => return self.hold_back(index),
            };
            let Some(link) = self.links.get_mut(index) else { return };
            match link.connection.next_frame(bytes_max) {
                Received::Frame(frame) => {
                    if !self.handle_frame(index, frame, is_admitted) {
                        return self.hold_back(index);
                    }
                }
                Received::Large if is_proved => return self.hold_back(index),
                Received::Large => {
                    return self.refuse_link(index, "a connection begins with Hello and Prove")
                }
                Received::Blocked => return self.count_buffers(index),
                Received::Closed => return self.close_link(index),
                Received::Malformed(error) => {
                    self.malformed += 1;
                    return self.refuse_link(index, &error.to_string());
                }
            }
        }
        self.make_ready(index);
    }

    /// A link waits for memory, and is not read before there is some.
    fn hold_back(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if link.connection.has_ended() {
            // Nobody is there for whom it would wait.
            return self.close_link(index);
        }
        if !std::mem::replace(&mut link.held_back, true) {
            self.held_back.push_back(index);
        }
        self.count_buffers(index);
    }

    /// Links that wait for memory and may have some go on.
    pub(crate) fn retry_held_back(&mut self) {
        let now = self.now();
        if self.held_back.is_empty() || now < self.next_retry {
            return;
        }
        self.next_retry = now + HELD_BACK_RETRY;
        for index in std::mem::take(&mut self.held_back) {
            if !self.links.contains(index) {
                continue;
            }
            if !self.admits(index) {
                self.held_back.push_back(index);
                continue;
            }
            self.links[index].held_back = false;
            self.make_ready(index);
        }
    }

    /// Memory was freed: as many of the links that wait for it go on as may find some.
    pub(crate) fn read_held_back(&mut self) {
        for _ in 0..HELD_BACK_READ.min(self.held_back.len()) {
            let Some(index) = self.held_back.pop_front() else { return };
            if let Some(link) = self.links.get_mut(index) {
                link.held_back = false;
                self.make_ready(index);
            }
        }
    }

    /// Says why, and closes when that is sent.
    pub(crate) fn refuse_link(&mut self, index: usize, reason: &str) {
        if let Some(link) = self.links.get_mut(index) {
            link.connection.refuse(reason);
            link.closing = true;
            self.dirty.push(index);
        }
    }

    /// Handles a frame; false where it has to wait for memory, and is the next one again.
    fn handle_frame(&mut self, index: usize, frame: Frame, is_admitted: bool) -> bool {
        let request = match decode_body::<Request>(&frame.body, "request") {
            Ok(request) => request,
            Err(error) => {
                self.malformed += 1;
                self.refuse_link(index, &error.to_string());
                return true;
            }
        };
        let (bytes, now) = (self.memory_of(&request, &frame), self.moment().seconds as u64);
        let Some(link) = self.links.get_mut(index) else { return true };
        if !is_admitted && bytes > REQUEST_BYTES + SMALL_BYTES {
            link.connection.put_back(&frame);
            return false;
        }
        if link.session().is_some_and(|session| session.own.expires_seconds < now) {
            self.refuse_expired(index);
            return true;
        }
        match (&mut link.standing, request) {
            (Standing::Fresh, Request::Hello { client, claims, nonce, has_mount })
                if frame.header.payload_bytes == 0 =>
            {
                self.challenge(index, frame.header.request, (client, has_mount), claims, nonce);
            }
            (Standing::Challenged { .. }, Request::Prove { proof }) if frame.header.payload_bytes == 0 => {
                self.welcome(index, frame.header.request, &proof);
            }
            (Standing::Ready(_), Request::Hello { .. } | Request::Prove { .. }) => {
                self.refuse_link(index, "this connection is already proved");
            }
            (Standing::Ready(_), Request::Identify { identity, who, names, job })
                if frame.detached_bytes == 0 =>
            {
                let reply = match self.identify(index, identity, who, (names, job)) {
                    Ok(()) => Reply::Done,
                    Err(errno) => Reply::Failed(errno),
                };
                self.answer(index, frame.header.request, &reply);
            }
            (Standing::Ready(session), request) => {
                let acting = match frame.header.identity {
                    IdentityId(0) => Some(Rc::clone(&session.own)),
                    identity => session.identities.get(&identity).cloned(),
                };
                let client = session.client;
                match acting {
                    Some(acting) if acting.expires_seconds < now && frame.detached_bytes == 0 => {
                        self.answer(index, frame.header.request, &Reply::Failed(errno::EKEYEXPIRED));
                    }
                    Some(acting) if acting.expires_seconds < now => {
                        self.refuse_link(index, "the credential of the caller has expired");
                    }
                    Some(acting) => self.take_request(index, client, (acting, bytes), frame, request),
                    None if frame.detached_bytes > 0 => self.refuse_link(index, "unknown identity"),
                    None => self.answer(index, frame.header.request, &Reply::Failed(errno::EACCES)),
                }
            }
            _ => self.refuse_link(index, "a connection begins with Hello and Prove"),
        }
        true
    }

    /// Memory that a request takes until its reply is sent.
    fn memory_of(&self, request: &Request, frame: &Frame) -> usize {
        let target = |target: &TargetId| self.targets.get(usize::from(target.index));
        let is_directory = |named: &TargetId| target(named).and_then(Target::directory).is_some();
        let more = match request {
            Request::Read { target, extents, .. } => {
                let bytes = total_bytes(extents).min(limits::PAYLOAD_BYTES as u64);
                // What stays in the pages of a target until it is sent takes none.
                if is_directory(target) {
                    bytes
                } else {
                    bytes.min(COPY_BYTES_MAX)
                }
            }
            Request::Write { target, .. } if is_directory(target) => frame.detached_bytes as u64,
            Request::Peer(_) => frame.detached_bytes as u64,
            Request::List { bytes, .. } => u64::from(*bytes).min(limits::PAYLOAD_BYTES as u64),
            Request::Lock { wait: true, .. } => crate::locks::WAITING_BYTES as u64,
            Request::XattrGet { .. } | Request::XattrList { .. } => limits::XATTR_VALUE_BYTES as u64,
            _ => 0,
        };
        REQUEST_BYTES + frame.body.len() + frame.payload.len() + more as usize
    }

    fn take_request(
        &mut self,
        index: usize,
        client: ClientId,
        (acting, bytes): (Rc<Acting>, usize),
        frame: Frame,
        request: Request,
    ) {
        let now = self.now();
        self.note_sign_of_life(acting.job, now);
        let Some(link) = self.links.get_mut(index) else { return };
        let Some(session_job) = link.session().map(|session| session.job) else { return };
        let key = LinkKey { index, serial: link.serial };
        self.hold_memory(index, session_job, bytes);
        let pending = Pending::new(key, client, (acting, session_job, bytes), frame, request, now);
        let detached = pending.detached_bytes > 0;
        let token = self.pending.insert(pending);
        let Some(link) = self.links.get_mut(index) else { return };
        link.requests.insert(token);
        if detached {
            link.receiving = Some(token);
        }
        self.route(token);
    }

    fn challenge(
        &mut self,
        index: usize,
        request: RequestId,
        (client, has_mount): (ClientId, bool),
        claims: Claims,
        theirs: Nonce,
    ) {
        let mut ours = [0; 32];
        let filled = rustix::rand::getrandom(&mut ours, rustix::rand::GetRandomFlags::empty());
        if filled != Ok(ours.len()) {
            return self.refuse_link(index, "the server has no randomness for a challenge: try again");
        }
        if let Some(link) = self.links.get_mut(index) {
            link.standing = Standing::Challenged { client, claims, theirs, ours, has_mount };
            self.answer(index, request, &Reply::Challenge { nonce: ours });
        }
    }

    fn welcome(&mut self, index: usize, request: RequestId, proof: &Proof) {
        let Some(link) = self.links.get_mut(index) else { return };
        let serial = link.serial;
        let standing = std::mem::replace(&mut link.standing, Standing::Fresh);
        let Standing::Challenged { client, claims, theirs, ours, has_mount } = standing else { return };
        let checked = self.check_claims(&claims, proof, &theirs, &ours);
        let is_its = self.may_be(client, claims.uid).then_some(()).ok_or("its client is another user's");
        if let Err(reason) = checked.and(is_its) {
            self.refusals += 1;
            let now = self.now();
            self.notices.tell(Notice::Refused, now, || {
                format!("credential of job \"{}\" of uid {} refused: {reason}", claims.job, claims.uid)
            });
            self.answer(index, request, &Reply::Failed(errno::EACCES));
            if let Some(link) = self.links.get_mut(index) {
                link.closing = true;
            }
            return;
        }
        let now = self.now();
        let user = (claims.role == Role::User).then_some(claims.uid);
        if !self.admission.prove(serial, user) {
            self.notices.tell(Notice::TurnedAway, now, || {
                format!("no more room for connections of uid {} (job \"{}\"); one more is turned away; hint: raise the limit of open files (ulimit -n)", claims.uid, claims.job)
            });
            // Without a word: its client tries again within its bound, as after a lost connection.
            return self.close_link(index);
        }
        let job = claims.job_id();
        // A server is no job: it is not listed, and its requests are never queued.
        let attributes = match claims.role {
            Role::Server => crate::accounts::jobs::attributes(&claims),
            Role::User | Role::Mount => self.jobs.meet(&claims, now),
        };
        self.client_connected((client, claims.uid), job, has_mount);
        let server_proof = self.key.server_proof(&claims, &theirs, &ours);
        let who = Identity { uid: claims.uid, gid: claims.gid, groups: claims.groups.clone() };
        let (trusted, expires_seconds) = (claims.role == Role::Mount, claims.expires_seconds);
        let own = Rc::new(Acting { who, job, attributes, trusted, expires_seconds });
        let session = Session {
            client,
            role: claims.role,
            own,
            identities: HashMap::new(),
            theirs,
            ours,
            job,
            user,
            peer: peer_named(&claims),
        };
        let reply = Reply::Welcome {
            server: self.id,
            boot: self.boot,
            proof: server_proof,
            heartbeat_seconds: HEARTBEAT_SECONDS,
        };
        if let Some(link) = self.links.get_mut(index) {
            link.standing = Standing::Ready(session);
            self.answer(index, request, &reply);
        }
    }

    /// Ends a connection whose credential has expired.
    fn refuse_expired(&mut self, index: usize) {
        self.refusals += 1;
        self.refuse_link(index, EXPIRED);
    }

    fn check_claims(
        &self,
        claims: &Claims,
        proof: &Proof,
        theirs: &Nonce,
        ours: &Nonce,
    ) -> Result<(), &'static str> {
        if !claims.is_well_formed() {
            return Err("a claim is outside its limits");
        }
        if self.key.expected_proof(claims, theirs, ours) != *proof {
            return Err("it was forged, altered, or minted with another site key");
        }
        let now = self.wall_seconds();
        if claims.issued_seconds > now + 300 {
            return Err("it is not valid yet: are the clocks set?");
        }
        if claims.expires_seconds < now {
            return Err("it has expired");
        }
        Ok(())
    }

    /// Registers an identity; only a mount may, and a forwarded job must be proved and belong to that user.
    fn identify(
        &mut self,
        index: usize,
        identity: IdentityId,
        who: Identity,
        (names, delegated): (AccountNames, Option<DelegatedJob>),
    ) -> Result<(), Errno> {
        let now = self.now();
        let link = self.links.get(index).ok_or(errno::EIO)?;
        let session = link.session().ok_or(errno::EACCES)?;
        if session.role != Role::Mount || identity == IdentityId(0) {
            return Err(errno::EPERM);
        }
        let full = session.identities.len() >= limits::IDENTITIES_PER_CONNECTION;
        if who.groups.len() > limits::GROUPS || full && !session.identities.contains_key(&identity) {
            return Err(errno::E2BIG);
        }
        let claims = match delegated {
            Some(DelegatedJob { claims, proof }) => {
                let checked = self.check_claims(&claims, &proof, &session.theirs, &session.ours);
                if checked.is_err() || claims.uid != who.uid {
                    self.refusals += 1;
                    return Err(errno::EACCES);
                }
                claims
            }
            None => default_claims(&who, names).ok_or(errno::EINVAL)?,
        };
        let attributes = self.jobs.meet(&claims, now);
        let (trusted, expires_seconds) = (true, claims.expires_seconds);
        let acting = Rc::new(Acting { who, job: claims.job_id(), attributes, trusted, expires_seconds });
        if let Some(Standing::Ready(session)) = self.links.get_mut(index).map(|link| &mut link.standing) {
            session.identities.insert(identity, acting);
        }
        Ok(())
    }

    /// Answers outside any queue.
    pub(crate) fn answer(&mut self, index: usize, request: RequestId, reply: &Reply) {
        if let Some(link) = self.links.get_mut(index) {
            link.connection.reply(request, reply, &[], None);
            self.dirty.push(index);
        }
    }

    /// The other server at the far end of a link; none where it is a client.
    pub(crate) fn peer_of(&self, key: LinkKey) -> Option<ServerId> {
        let link = self.links.get(key.index).filter(|link| link.serial == key.serial)?;
        link.session()?.peer
    }

    /// Ends a link: what it had in hand is given up, and its client is forgotten later if it does not return.
    pub(crate) fn close_link(&mut self, index: usize) {
        let Some(mut link) = self.links.try_remove(index) else { return };
        link.connection.deregister(&self.registry);
        match link.session() {
            Some(session) => self.admission.forget_proved(session.user),
            None => self.admission.forget_stranger(link.serial),
        }
        for tail in link.connection.unsent_tails() {
            crate::requests::service::release_tail(&mut self.targets, tail);
        }
        for token in std::mem::take(&mut link.requests) {
            self.give_up(token);
        }
        if let Some(session) = link.session() {
            self.release_buffers(session.job, &link.memory);
            self.client_disconnected(session.client, session.job);
        }
    }
}

/// The job of a user whose process carries no credential: one node, all of the user's such processes together.
fn default_claims(who: &Identity, names: AccountNames) -> Option<Claims> {
    let claims = Claims {
        job: format!("uid-{}", who.uid),
        user: names.user,
        group: names.group,
        uid: who.uid,
        gid: who.gid,
        groups: Vec::new(),
        nodes: 1,
        priority: 1,
        role: Role::User,
        issued_seconds: 0,
        expires_seconds: u64::MAX,
    };
    claims.is_well_formed().then_some(claims)
}

/// The job in the credential of a server.
pub(crate) fn peer_job(server: ServerId) -> String {
    format!("{PEER_JOB}{server}")
}

fn peer_named(claims: &Claims) -> Option<ServerId> {
    let number = claims.job.strip_prefix(PEER_JOB)?.parse().ok()?;
    (claims.role == Role::Server).then_some(ServerId(number))
}
