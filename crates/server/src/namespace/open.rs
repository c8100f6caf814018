//! Open descriptions: what keeps an unlinked file alive. They are not journaled; clients reclaim them.

use super::inode::InoMap;
use std::collections::{BTreeSet, HashMap};
use weir_wire::{Capability, ClientId, HandleId, Ino, Rights};

/// Descriptions that one client may hold: above what the processes of a node have open through one mount. A client
/// beyond it gets ENFILE, so that none can fill the server's memory, and what its end changes fits into one group of
/// the journal.
const HANDLES_PER_CLIENT: usize = 1 << 17;

/// The open descriptions of this server.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenFiles {
    /// The first handle of this start.
    first: u64,
    next: u64,
    handles: HashMap<HandleId, Description>,
    counts: InoMap<Count>,
    clients: HashMap<ClientId, BTreeSet<(Ino, HandleId)>>,
}

/// One open description.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) ino: Ino,
    pub(super) rights: Rights,
    /// Who holds it: after fork and exec another client may, beside the one that opened it.
    holders: Vec<ClientId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    writers: u32,
}

/// A description that is about to be held by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) handle: HandleId,
    pub(super) client: ClientId,
    pub(super) ino: Ino,
    pub(super) rights: Rights,
}

impl OpenFiles {
    /// The first handle of start `number`: handles of different starts differ, as no start opens 2^32 a second.
    pub(super) fn begin(&mut self, number: u32) {
        self.first = u64::from(number) << 32;
        self.next = self.first;
    }

    pub(super) fn next_handle(&self) -> HandleId {
        HandleId(self.next)
    }

    pub(super) fn find(&self, handle: HandleId) -> Option<&Description> {
        self.handles.get(&handle)
    }

    /// Whether one more description fits.
    pub(super) fn has_room(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_none_or(|handles| handles.len() < HANDLES_PER_CLIENT)
    }

    pub(super) fn is_open(&self, ino: Ino) -> bool {
        self.counts.contains_key(&ino)
    }

    pub(super) fn has_writers(&self, ino: Ino) -> bool {
        self.counts.get(&ino).is_some_and(|count| count.writers > 0)
    }

    /// Whether the description of a capability that this server made is open.
    pub(super) fn has(&self, capability: &Capability) -> bool {
        self.handles.get(&capability.handle).is_some_and(|description| description.ino == capability.ino)
    }

    /// Whether an earlier start of the server gave the handle out.
    pub(super) fn is_earlier(&self, handle: HandleId) -> bool {
        handle.0 < self.first
    }

    /// Whether `client` holds a description of `ino`.
    pub(super) fn holds(&self, client: ClientId, ino: Ino) -> bool {
        let of_ino = (ino, HandleId(0))..=(ino, HandleId(u64::MAX));
        self.clients.get(&client).is_some_and(|held| held.range(of_ino).next().is_some())
    }

    /// The description `handle` of `ino`, where `client` holds it.
    pub(super) fn held(&self, client: ClientId, ino: Ino, handle: HandleId) -> Option<&Description> {
        let description = self.handles.get(&handle)?;
        (description.ino == ino && description.holders.contains(&client)).then_some(description)
    }

    pub(super) fn open(&mut self, opening: Opening) {
        let Opening { handle, client, ino, rights } = opening;
        self.next = self.next.max(handle.0.saturating_add(1));
        let counts = &mut self.counts;
        let description = self.handles.entry(handle).or_insert_with(|| {
            let count = counts.entry(ino).or_default();
            count.all += 1;
            count.writers += u32::from(rights.write);
            Description { ino, rights, holders: Vec::with_capacity(1) }
        });
        if !description.holders.contains(&client) {
            description.holders.push(client);
            self.clients.entry(client).or_default().insert((ino, handle));
        }
    }

    /// Whether nobody else holds the description.
    pub(super) fn ends_with(&self, handle: HandleId, client: ClientId) -> bool {
        self.handles.get(&handle).is_some_and(|description| description.holders == [client])
    }

    /// Whether the inode is no longer open once `client` closes `handle`.
    pub(super) fn is_last(&self, handle: HandleId, client: ClientId) -> bool {
        self.handles.get(&handle).is_some_and(|description| {
            description.holders == [client]
                && self.counts.get(&description.ino).is_some_and(|count| count.all == 1)
        })
    }

    /// Ends `client`'s hold; a handle that it does not hold is closed already.
    pub(super) fn close(&mut self, handle: HandleId, client: ClientId) {
        let Some(description) = self.handles.get_mut(&handle) else { return };
        description.holders.retain(|&holder| holder != client);
        if let Some(handles) = self.clients.get_mut(&client) {
            handles.remove(&(description.ino, handle));
            if handles.is_empty() {
                self.clients.remove(&client);
            }
        }
        if !description.holders.is_empty() {
            return;
        }
        let Description { ino, rights, .. } = *description;
        self.handles.remove(&handle);
        if let Some(count) = self.counts.get_mut(&ino) {
            count.all -= 1;
            count.writers -= u32::from(rights.write);
            if count.all == 0 {
                self.counts.remove(&ino);
            }
        }
    }

    /// The handles that `client` holds.
    pub(super) fn held_by(&self, client: ClientId) -> Vec<HandleId> {
        let held = self.clients.get(&client).into_iter().flatten();
        let mut handles: Vec<HandleId> = held.map(|&(_, handle)| handle).collect();
        handles.sort_unstable();
        handles
    }
}
