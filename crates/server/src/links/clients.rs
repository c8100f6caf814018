//! Clients: processes and mounts, each with one or more connections, and what is released when one is gone.

use crate::descriptors::LINKS_MAX;
use crate::namespace::{errno, Appender};
use crate::notices::Notice;
use crate::requests::metadata::Continued;
use crate::requests::service::{Outcome, Stage};
use crate::requests::watch::{Drops, DROP_WAIT};
use crate::server::Server;
use std::collections::{BTreeSet, HashMap};
use weir_fairshare::Nanos;
use weir_wire::{limits, Capability, ClientId, Ino, JobId, Reply, Request, RequestId, Sequence};

/// How long a client may be without a connection before its locks, open files and turns are released: long enough
/// to connect again, short enough that others do not wait long for what a killed process held.
const RETURN_WAIT: Nanos = Nanos::from_millis(2_000);
/// How long the replies of a gone client are remembered for a resend.
const REPLIES_KEPT: Nanos = Nanos::from_millis(120_000);
/// Gone clients of one user that are remembered: as many as the user can have connections, so that all of them may lose
/// theirs at once and return. Of a user with more the longest gone is released and forgotten, so that no user fills the
/// server's memory (about a kilobyte each, with a remembered reply) by clients that come and go.
const GONE_PER_USER: usize = LINKS_MAX as usize / 2;

/// The clients of a server.
#[derive(Default)]
pub(crate) struct Clients {
    by_id: HashMap<ClientId, Client>,
    /// Those without a connection, by user, the longest gone first.
    gone: BTreeSet<(u32, Nanos, ClientId)>,
    gone_of_user: HashMap<u32, usize>,
}

/// One client.
struct Client {
    /// The user whose credential it showed first; no other may speak for it.
    uid: u32,
    connections: usize,
    /// When its last connection ended.
    gone_since: Option<Nanos>,
    released: bool,
    /// The long poll of a mount.
    poll: Option<usize>,
    /// It can write through a mount instead.
    has_mount: bool,
}

/// A request that waits until mounts have dropped pages.
pub(crate) struct Held {
    token: usize,
    then: Then,
    drops: Drops,
    until: Nanos,
}

/// What a request waits to do.
enum Then {
    /// It has changed bytes: what others read of them before is dropped, and it is answered.
    Reply(Box<Outcome>),
    /// It is about to change bytes: what others stored beside them is written back, and it is carried out.
    Route,
}

impl Clients {
    /// A connection of a client was proved.
    fn connected(&mut self, id: ClientId, uid: u32, has_mount: bool) {
        let client = self.by_id.entry(id).or_insert(Client {
            uid,
            connections: 0,
            gone_since: None,
            released: false,
            poll: None,
            has_mount,
        });
        client.has_mount = has_mount;
        client.connections += 1;
        client.released = false;
        if let Some(since) = client.gone_since.take() {
            let uid = client.uid;
            self.is_back(uid, since, id);
        }
    }

    /// A connection of a client ended. Answers the client that is forgotten for it, where its user has too many gone ones.
    fn disconnected(&mut self, id: ClientId, now: Nanos) -> Option<ClientId> {
        let client = self.by_id.get_mut(&id)?;
        client.connections = client.connections.saturating_sub(1);
        if client.connections > 0 || client.gone_since.is_some() {
            return None;
        }
        client.gone_since = Some(now);
        let uid = client.uid;
        self.gone.insert((uid, now, id));
        let count = self.gone_of_user.entry(uid).or_default();
        *count += 1;
        if *count <= GONE_PER_USER {
            return None;
        }
        let first = (uid, Nanos(0), ClientId(0));
        self.gone.range(first..).next().map(|&(_, _, longest_gone)| longest_gone)
    }

    /// Those that have had no connection for longer than `wait`.
    fn gone_for(&self, wait: Nanos, now: Nanos) -> impl Iterator<Item = (ClientId, &Client)> + '_ {
        let gone = self.gone.iter().filter(move |&&(_, since, _)| now.saturating_since(since) > wait);
        gone.filter_map(|&(_, _, id)| Some((id, self.by_id.get(&id)?)))
    }

    fn forget(&mut self, id: ClientId) {
        let Some(client) = self.by_id.remove(&id) else { return };
        if let Some(since) = client.gone_since {
            self.is_back(client.uid, since, id);
        }
    }

    fn is_back(&mut self, uid: u32, since: Nanos, id: ClientId) {
        if !self.gone.remove(&(uid, since, id)) {
            return;
        }
        if let Some(count) = self.gone_of_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.gone_of_user.remove(&uid);
            }
        }
    }
}

impl Server {
    /// Whether user `uid` may connect as this client: what a client holds is its user's.
    pub(crate) fn may_be(&self, client: ClientId, uid: u32) -> bool {
        self.clients.by_id.get(&client).is_none_or(|known| known.uid == uid)
    }

    /// A connection of this client was proved.
    pub(crate) fn client_connected(&mut self, (client, uid): (ClientId, u32), job: JobId, has_mount: bool) {
        self.clients.connected(client, uid, has_mount);
        if let Some(job) = self.jobs.job_mut(job) {
            job.connections += 1;
        }
    }

    /// A connection of this client ended.
    pub(crate) fn client_disconnected(&mut self, client: ClientId, job: JobId) {
        let now = self.now();
        if let Some(job) = self.jobs.job_mut(job) {
            job.connections = job.connections.saturating_sub(1);
            job.last_seen = now;
        }
        if let Some(longest_gone) = self.clients.disconnected(client, now) {
            self.forget_client(longest_gone);
        }
    }

    /// A request came.
    pub(crate) fn note_sign_of_life(&mut self, job: JobId, now: Nanos) {
        if let Some(job) = self.jobs.job_mut(job) {
            job.last_seen = now;
        }
    }

    /// Releases what gone clients held, and forgets them in time.
    pub(crate) fn expire_clients(&mut self, now: Nanos) {
        if self.is_read_only() {
            // What they leave behind changes the namespace: they are looked for again once the journal takes that.
            return;
        }
        let released: Vec<ClientId> = self
            .clients
            .gone_for(RETURN_WAIT, now)
            .filter(|(_, client)| !client.released)
            .map(|(id, _)| id)
            .collect();
        for id in released {
            self.release_client(id);
        }
        let forgotten: Vec<ClientId> = self.clients.gone_for(REPLIES_KEPT, now).map(|(id, _)| id).collect();
        for id in forgotten {
            self.forget_client(id);
        }
    }

    /// Forgets a client that is gone, with what it held and its replies.
    fn forget_client(&mut self, id: ClientId) {
        if self.is_read_only() {
            // What it leaves behind changes the namespace: it is looked for again once the journal takes that.
            return;
        }
        if self.clients.by_id.get(&id).is_some_and(|client| !client.released) {
            self.release_client(id);
        }
        self.clients.forget(id);
        let change = self.namespace.forget_client(id);
        // Where the journal does not take it, its replies stay until the next start.
        let _ = self.record(&[change]);
    }

    /// Takes append turns that others wait for and that are not renewed, as those of stopped processes.
    pub(crate) fn expire_turns(&mut self, now: Nanos) {
        let lease = Nanos::from_millis(limits::TURN_LEASE_SECONDS * 1_000);
        let renewed = std::mem::take(&mut self.turns_renewed);
        for turn in self.namespace.contested_turns() {
            // The lease of a turn that nobody waited for begins now.
            let since = renewed.get(&turn).copied().unwrap_or(now);
            self.turns_renewed.insert(turn, since);
            if now.saturating_since(since) > lease {
                self.take_turn(turn.0);
            }
        }
    }

    /// A client keeps its append turn.
    pub(crate) fn renew_turn(&mut self, token: usize, capability: &Capability, turn: Sequence) -> Reply {
        let (now, Some(pending)) = (self.now(), self.pending.get(token)) else {
            return Reply::Failed(errno::EIO);
        };
        let renewed =
            self.namespace.append_renew(&crate::requests::metadata::caller(pending), capability, turn);
        if let (Ok(()), Some(since)) = (renewed, self.turns_renewed.get_mut(&(capability.ino, turn))) {
            *since = now;
        }
        renewed.map_or_else(Reply::Failed, |()| Reply::Done)
    }

    fn take_turn(&mut self, ino: Ino) {
        let Some(taken) = self.namespace.take_turn(ino, self.moment()) else { return };
        let (now, seconds) = (self.now(), limits::TURN_LEASE_SECONDS);
        self.notices.tell(Notice::TurnTaken, now, || {
            format!("the append turn of inode {} is taken, as it was not renewed for {seconds} s", ino.0)
        });
        let committed = self.commit(&taken.decision);
        for Appender { client, request } in taken.waiting {
            let Some(token) = self.waiting.remove(&(client, request)) else { continue };
            match (committed, taken.cut) {
                (Err(errno), _) => self.finish(token, Outcome::failed(errno)),
                (Ok(()), Some(cut)) => self.continue_after(cut, Continued::AtOnce(token)),
                (Ok(()), None) => self.serve_at_once(token),
            }
        }
    }

    fn release_client(&mut self, id: ClientId) {
        if let Some(client) = self.clients.by_id.get_mut(&id) {
            client.released = true;
        }
        let answers = self.locks.drop_client(id);
        self.answer_locks(answers);
        let waited: Vec<_> = self.waiting.keys().filter(|(client, _)| *client == id).copied().collect();
        let mut ended: Vec<usize> = waited.iter().filter_map(|key| self.waiting.remove(key)).collect();
        ended.extend(self.clients.by_id.get_mut(&id).and_then(|client| client.poll.take()));
        for token in ended {
            self.finish(token, Outcome::failed(errno::EIO));
        }
        self.watches.drop_client(id);
        self.release_drops();
        self.drop_from_namespace(id);
    }

    /// Keeps a reply until every watcher has dropped its pages, or its time is over.
    pub(crate) fn hold_for_drops(&mut self, token: usize, mut outcome: Outcome, now: Nanos) {
        let drops = std::mem::take(&mut outcome.drops);
        self.hold(token, Then::Reply(Box::new(outcome)), drops, now);
    }

    /// Keeps a request of `client` that is about to change bytes of `ino` until every watcher has written back and
    /// dropped its pages, or its time is over: a page that is written back later would cover the new bytes with old.
    pub(crate) fn hold_for_write_back(&mut self, token: usize, client: ClientId, ino: Ino) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.stage = Stage::Elsewhere;
        let drops = self.watches.changed(client, ino);
        let now = self.now();
        self.hold(token, Then::Route, drops, now);
    }

    fn hold(&mut self, token: usize, then: Then, drops: Drops, now: Nanos) {
        for client in drops.iter().map(|&(client, _, _)| client).collect::<Vec<_>>() {
            self.answer_poll(client);
        }
        self.held.push(Held { token, then, drops, until: now + DROP_WAIT });
    }

    /// Whether a client can write through a mount instead.
    pub(crate) fn has_mount(&self, client: ClientId) -> bool {
        self.clients.by_id.get(&client).is_some_and(|client| client.has_mount)
    }

    /// Goes on with what waited for pages that are dropped now, or whose wait is over.
    pub(crate) fn release_drops(&mut self) {
        let now = self.now();
        let mut index = 0;
        while index < self.held.len() {
            let held = &self.held[index];
            if held.until <= now || self.watches.are_done(&held.drops) {
                let held = self.held.swap_remove(index);
                self.watches.are_late(&held.drops, now);
                match held.then {
                    Then::Reply(outcome) => self.reply(held.token, *outcome),
                    Then::Route => self.route_written_back(held.token),
                }
            } else {
                index += 1;
            }
        }
    }

    /// The long poll of a mount: confirms what was dropped, and is answered when there is more.
    pub(crate) fn poll_invalidations(&mut self, token: usize, done: Sequence) {
        let Some(client) = self.pending.get(token).map(|pending| pending.client) else { return };
        self.watches.confirm(client, done);
        self.release_drops();
        if let Some(pending) = self.pending.get_mut(token) {
            pending.stage = Stage::Elsewhere;
        }
        if let Some(entry) = self.clients.by_id.get_mut(&client) {
            if let Some(earlier) = entry.poll.replace(token) {
                self.finish(earlier, Outcome::of(Reply::Done));
            }
        }
        self.answer_poll(client);
    }

    fn answer_poll(&mut self, client: ClientId) {
        let Some(entry) = self.clients.by_id.get_mut(&client) else { return };
        let Some((sequence, files)) = self.watches.next(client) else { return };
        if let Some(token) = entry.poll.take() {
            let ranges = files.into_iter().map(|ino| (ino, 0, 0)).collect();
            self.finish(token, Outcome::of(Reply::Invalidate { sequence, ranges }));
        }
    }

    /// The request in hand of a client with this id, where it waits for a lock or a turn.
    pub(crate) fn waiting_request(&self, client: ClientId, request: RequestId) -> Option<usize> {
        let waits = |request: &Request| matches!(request, Request::Lock { .. } | Request::AppendBegin { .. });
        self.waiting.get(&(client, request)).copied().filter(|&token| {
            self.pending.get(token).is_some_and(|pending| pending.client == client && waits(&pending.request))
        })
    }
}

/// Requests that wait for a lock or a turn, by client and id.
pub(crate) type Waiting = HashMap<(ClientId, RequestId), usize>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A user could connect as one client after the other, and the server remembered each of them for two minutes.
    #[test]
    fn the_longest_gone_client_of_a_user_with_many_is_forgotten() {
        const USER: u32 = 7;
        let mut clients = Clients::default();
        let come_and_go = |clients: &mut Clients, uid: u32, id: u64, now: u64| {
            clients.connected(ClientId(id), uid, false);
            clients.disconnected(ClientId(id), Nanos(now))
        };
        for id in 0..GONE_PER_USER as u64 {
            assert_eq!(come_and_go(&mut clients, USER, id, id), None);
        }
        assert_eq!(come_and_go(&mut clients, USER + 1, 1 << 40, 5), None, "each user has a bound of its own");
        clients.connected(ClientId(0), USER, false);
        assert_eq!(come_and_go(&mut clients, USER, 1 << 41, 1 << 30), None, "one of them returned");
        for longest_gone in 1..10 {
            let forgotten = come_and_go(&mut clients, USER, longest_gone << 50, 1 << 31);
            assert_eq!(forgotten, Some(ClientId(longest_gone)));
            clients.forget(ClientId(longest_gone));
            assert_eq!(clients.by_id.len(), GONE_PER_USER + 2);
        }
        let all: Vec<ClientId> = clients.by_id.keys().copied().collect();
        for id in all {
            clients.forget(id);
        }
        assert_eq!((clients.gone.len(), clients.gone_of_user.len()), (0, 0));
    }
}
