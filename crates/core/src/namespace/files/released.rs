//! Clients whose descriptions and locks were released while they were silent, and that do not know it yet. After a start of the
//! server such a client would claim locks that others had in between.

use crate::namespace::change::Change;
use std::collections::{HashSet, VecDeque};
use weir_wire::ClientId;

/// The most clients that are remembered; the one that was released first makes room.
const CLIENTS: usize = 65_536;

/// The clients that were released and are not back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Released {
    clients: HashSet<ClientId>,
    /// In the order of their release.
    order: VecDeque<ClientId>,
}

impl Released {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn has(&self, client: ClientId) -> bool {
        self.clients.contains(&client)
    }

    pub(crate) fn note(&mut self, client: ClientId) {
        if !self.clients.insert(client) {
            return;
        }
        self.order.push_back(client);
        while self.order.len() > CLIENTS {
            if let Some(first) = self.order.pop_front() {
                self.clients.remove(&first);
            }
        }
    }

    pub(crate) fn forget(&mut self, client: ClientId) {
        if self.clients.remove(&client) {
            self.order.retain(|&other| other != client);
        }
    }

    pub(crate) fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        self.order.iter().map(|&client| Change::ClientReleased { client })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_remembered_until_it_is_back_or_too_many_are_gone() {
        let mut released = Released::default();
        for client in [7, 7, 8] {
            released.note(ClientId(client));
        }
        assert_eq!(released.snapshot().count(), 2);
        released.forget(ClientId(7));
        assert!(!released.has(ClientId(7)) && released.has(ClientId(8)));
        for client in 100..100 + CLIENTS as u64 {
            released.note(ClientId(client));
        }
        assert!(!released.has(ClientId(8)) && released.has(ClientId(100)));
        assert_eq!(released.snapshot().count(), CLIENTS);
    }
}
