//! Clients: processes and mounts, each with one or more connections.

use crate::descriptors::LINKS_MAX;
use std::collections::{BTreeSet, HashMap};
use weir_fairshare::Nanos;
use weir_wire::{ClientId, RequestId};

/// How long a client may be without a connection before its locks, open files and turns are released: long enough
/// to connect again, short enough that others do not wait long for the holdings of a killed process.
const RETURN_WAIT: Nanos = Nanos::from_millis(2_000);
/// How long the replies of a gone client are remembered for a resend.
const REPLIES_KEPT: Nanos = Nanos::from_millis(120_000);
/// Gone clients of one user that are remembered: as many as the user can have connections, so that all of them may lose
/// theirs at once and return. Of a user with more the longest gone is released and forgotten, so that no user fills the
/// server's memory (about a kilobyte each, with a remembered reply) by clients that come and go.
const GONE_PER_USER: usize = LINKS_MAX as usize / 2;
/// Gone clients of one user that are remembered while the server keeps more than its memory's bound: the processes of a job on a
/// node may all return.
const GONE_WHEN_SHORT: usize = 256;

/// The clients of a server.
#[derive(Default)]
pub(crate) struct Clients {
    by_id: HashMap<ClientId, Client>,
    /// Clients without a connection, by user, the longest gone first.
    gone: BTreeSet<(u32, Nanos, ClientId)>,
    gone_of_user: HashMap<u32, usize>,
}

/// The words of a client about itself as it connects.
#[derive(Clone, Copy)]
pub(crate) struct Introduction {
    pub(crate) client: ClientId,
    /// Its slot for the connection.
    pub(crate) slot: u16,
    /// It can write through a mount instead.
    pub(crate) has_mount: bool,
    /// This server has never welcomed it.
    pub(crate) is_new: bool,
}

/// One client.
struct Client {
    /// The user of the credential that the client showed first; no other may speak for it.
    uid: u32,
    connections: usize,
    /// The moment at which its last connection ended.
    gone_since: Option<Nanos>,
    released: bool,
    /// Whether it holds what it held before: it is new, or has claimed that since its holdings were released.
    is_known: bool,
    /// The lowest request that the client may still wait for.
    awaited: RequestId,
    /// The highest request that came from the client.
    highest: RequestId,
    /// It can write through a mount instead.
    has_mount: bool,
}

impl Clients {
    /// Whether user `uid` may connect as this client: the holdings of a client are its user's.
    pub(crate) fn may_be(&self, id: ClientId, uid: u32) -> bool {
        self.by_id.get(&id).is_none_or(|known| known.uid == uid)
    }

    /// Whether a client can write through a mount instead.
    pub(crate) fn has_mount(&self, id: ClientId) -> bool {
        self.by_id.get(&id).is_some_and(|client| client.has_mount)
    }

    /// Notes that a request came from a client, which waits for no request before `awaited`.
    pub(crate) fn note_request(&mut self, id: ClientId, request: RequestId, awaited: RequestId) {
        if let Some(client) = self.by_id.get_mut(&id) {
            client.awaited = client.awaited.max(awaited);
            client.highest = client.highest.max(request);
        }
    }

    /// The lowest request that a client may still wait for, and the highest one that came from it.
    pub(crate) fn range_of(&self, id: ClientId) -> (RequestId, RequestId) {
        self.by_id.get(&id).map_or((RequestId(0), RequestId(0)), |client| (client.awaited, client.highest))
    }

    /// Whether a client is or was here since the start, and is not forgotten.
    pub(crate) fn has(&self, id: ClientId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Whether a client has told that it waits for this request no more. The program was told of an error, and went on: the
    /// request must not take effect behind those that came after it.
    pub(crate) fn has_given_up(&self, id: ClientId, request: RequestId) -> bool {
        // Requests of a handshake, and questions whether the server lives, have the id 0.
        request.0 != 0 && self.by_id.get(&id).is_some_and(|client| request < client.awaited)
    }

    /// Whether a client is here, or may return to its holdings.
    pub(crate) fn holds(&self, id: ClientId) -> bool {
        self.by_id.get(&id).is_some_and(|client| !client.released)
    }

    /// Gone clients that still have their holdings, which are to be released.
    pub(crate) fn to_release(&self, now: Nanos) -> Vec<ClientId> {
        let gone = self.gone_for(RETURN_WAIT, now);
        gone.filter(|(_, client)| !client.released).map(|(id, _)| id).collect()
    }

    /// Gone clients that are to be forgotten.
    pub(crate) fn to_forget(&self, now: Nanos) -> Vec<ClientId> {
        self.gone_for(REPLIES_KEPT, now).map(|(id, _)| id).collect()
    }

    /// Notes that the holdings of a client are released; false where they were before.
    pub(crate) fn release(&mut self, id: ClientId) -> bool {
        self.by_id.get_mut(&id).is_some_and(|client| {
            client.is_known = false;
            !std::mem::replace(&mut client.released, true)
        })
    }

    /// A client has claimed everything that it held before.
    pub(crate) fn claimed(&mut self, id: ClientId) {
        if let Some(client) = self.by_id.get_mut(&id) {
            client.is_known = true;
        }
    }

    /// Whether a client has claimed everything that it held before.
    pub(super) fn is_known(&self, id: ClientId) -> bool {
        self.by_id.get(&id).is_some_and(|client| client.is_known)
    }

    /// A connection of a client was proved. Answers whether the client holds what it held before.
    pub(crate) fn connected(&mut self, introduction: Introduction, uid: u32) -> bool {
        let Introduction { client: id, has_mount, is_new, .. } = introduction;
        let client = self.by_id.entry(id).or_insert(Client {
            uid,
            connections: 0,
            gone_since: None,
            released: false,
            // One that was welcomed by this start before may have been released since it told that it is new.
            is_known: is_new,
            awaited: RequestId(0),
            highest: RequestId(0),
            has_mount,
        });
        client.has_mount = has_mount;
        client.connections += 1;
        client.released = false;
        let is_known = client.is_known;
        if let Some(since) = client.gone_since.take() {
            let uid = client.uid;
            self.is_back(uid, since, id);
        }
        is_known
    }

    /// A connection of a client ended. Answers the client that is forgotten for it, where its user has too many gone ones;
    /// `is_short` says that the server keeps more than its memory's bound.
    pub(crate) fn disconnected(&mut self, id: ClientId, now: Nanos, is_short: bool) -> Option<ClientId> {
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
        if *count <= if is_short { GONE_WHEN_SHORT } else { GONE_PER_USER } {
            return None;
        }
        let first = (uid, Nanos(0), ClientId(0));
        self.gone.range(first..).next().map(|&(_, _, longest_gone)| longest_gone)
    }

    /// Clients that have had no connection for longer than `wait`.
    fn gone_for(&self, wait: Nanos, now: Nanos) -> impl Iterator<Item = (ClientId, &Client)> + '_ {
        let gone = self.gone.iter().filter(move |&&(_, since, _)| now.saturating_since(since) > wait);
        gone.filter_map(|&(_, _, id)| Some((id, self.by_id.get(&id)?)))
    }

    /// The number of clients.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Forgets a client.
    pub(crate) fn forget(&mut self, id: ClientId) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn new(id: u64) -> Introduction {
        Introduction { client: ClientId(id), slot: 0, has_mount: false, is_new: true }
    }

    #[test]
    fn a_client_is_known_until_its_holdings_are_released_and_again_once_it_has_claimed_them() {
        let mut clients = Clients::default();
        let back = Introduction { is_new: false, ..new(7) };
        assert!(clients.connected(new(7), 1) && clients.connected(back, 1));
        assert!(clients.release(ClientId(7)) && !clients.connected(back, 1), "released");
        assert!(!clients.connected(back, 1), "nothing was claimed yet");
        clients.claimed(ClientId(7));
        assert!(clients.connected(back, 1));
        assert!(
            clients.release(ClientId(7)) && !clients.connected(new(7), 1),
            "its word that it is new came late"
        );
        clients.forget(ClientId(7));
        assert!(!clients.connected(back, 1), "forgotten, as by a restart");
    }

    /// A user could connect as one client after the other, and the server remembered each of them for two minutes.
    #[test]
    fn the_longest_gone_client_of_a_user_with_many_is_forgotten() {
        const USER: u32 = 7;
        let mut clients = Clients::default();
        let come_and_go = |clients: &mut Clients, uid: u32, id: u64, now: u64| {
            clients.connected(new(id), uid);
            clients.disconnected(ClientId(id), Nanos(now), false)
        };
        for id in 0..GONE_PER_USER as u64 {
            assert_eq!(come_and_go(&mut clients, USER, id, id), None);
        }
        assert_eq!(come_and_go(&mut clients, USER + 1, 1 << 40, 5), None, "each user has a bound of its own");
        clients.connected(new(0), USER);
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
