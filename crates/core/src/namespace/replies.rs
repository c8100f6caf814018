//! The replies of mutations, for resends: a resend gets the answer of the original.

use super::change::{Change, Outcome};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::{BTreeMap, HashMap};
use weir_wire::{limits, ClientId, RequestId};

/// The most replies that stay for one client: the outstanding requests of four connections. Only a client that never
/// acknowledges loses a reply.
const REPLIES_PER_CLIENT: usize = 4 * limits::OUTSTANDING_PER_CONNECTION;
/// The most replies that stay for all clients; the replies of the client that has been silent for longest make room. The limit
/// keeps the memory for ever new processes at some 30 MiB, and is far above the number of requests in flight.
const REPLIES: usize = 262_144;

/// The remembered replies.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies {
    clients: HashMap<ClientId, ClientReplies>,
    /// Clients by their last mutation.
    by_age: BTreeMap<u64, ClientId>,
    next_stamp: u64,
    total: usize,
}

#[derive(Clone, Debug)]
struct ClientReplies {
    stamp: u64,
    outcomes: BTreeMap<RequestId, Outcome>,
}

impl Replies {
    pub(super) fn find(&self, client: ClientId, request: RequestId) -> Option<&Outcome> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::RepliesForgotten) {
            return None;
        }
        self.clients.get(&client)?.outcomes.get(&request)
    }

    pub(super) fn len(&self) -> usize {
        self.total
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.by_age.values().copied()
    }

    pub(super) fn remember(
        &mut self,
        client: ClientId,
        request: RequestId,
        acknowledged: RequestId,
        outcome: Outcome,
    ) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let kept =
            self.clients.entry(client).or_insert_with(|| ClientReplies { stamp, outcomes: BTreeMap::new() });
        self.by_age.remove(&kept.stamp);
        self.by_age.insert(stamp, client);
        kept.stamp = stamp;
        self.total += usize::from(kept.outcomes.insert(request, outcome).is_none());
        while kept
            .outcomes
            .first_key_value()
            .is_some_and(|(&first, _)| first < acknowledged && first != request)
            || kept.outcomes.len() > REPLIES_PER_CLIENT
        {
            kept.outcomes.pop_first();
            self.total -= 1;
        }
        while self.total > REPLIES {
            let Some((_, &oldest)) = self.by_age.first_key_value() else { return };
            self.forget(oldest);
        }
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        if let Some(kept) = self.clients.remove(&client) {
            self.by_age.remove(&kept.stamp);
            self.total -= kept.outcomes.len();
        }
    }

    pub(super) fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        self.by_age.values().flat_map(|client| {
            let outcomes = self.clients.get(client).into_iter().flat_map(|kept| &kept.outcomes);
            outcomes.map(|(&request, outcome)| Change::Remembered {
                client: *client,
                request,
                acknowledged: RequestId(0),
                outcome: outcome.clone(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::OutcomeKind;
    use super::*;

    #[test]
    fn the_longest_silent_client_makes_room() {
        let outcome = Outcome { kind: OutcomeKind::Done, wait: Vec::new() };
        let mut replies = Replies::default();
        let mut remember = |client: u64, request: u64, acknowledged: u64| {
            let (client, request) = (ClientId(client), RequestId(request));
            replies.remember(client, request, RequestId(acknowledged), outcome.clone());
            (replies.total, replies.clients.len())
        };
        for request in 1..=1000 {
            let expected = (request as usize).min(REPLIES_PER_CLIENT);
            assert_eq!(remember(0, request, 0), (expected, 1));
        }
        assert_eq!(remember(0, 1001, 1000), (2, 1), "acknowledged ones go");
        assert_eq!(remember(0, 1001, 1001), (1, 1));
        for client in 1..=REPLIES as u64 {
            remember(client, 1, 0);
        }
        assert_eq!(remember(5, 2, 0), (REPLIES, REPLIES - 1));
        assert!(replies.find(ClientId(0), RequestId(1001)).is_none());
        assert!(replies.find(ClientId(2), RequestId(1)).is_some());
        assert_eq!(replies.snapshot().count(), REPLIES);
        replies.forget(ClientId(5));
        assert_eq!((replies.total, replies.by_age.len()), (REPLIES - 2, REPLIES - 2));
    }
}
