//! Open descriptions, which keep an unlinked file alive. The journal does not have them; clients reclaim them.

use super::inode::InoMap;
use super::leases::{Kind, Leases};
use std::collections::{BTreeSet, HashMap};
use weir_wire::{Capability, ClientId, HandleId, Ino, Rights};

/// The most descriptions of one client: more than the processes of a node have open through one mount. One more is answered
/// ENFILE. So no client can fill the server's memory, and the changes at a client's end fit into one group of the journal.
const HANDLES_PER_CLIENT: usize = 1 << 17;
/// The most descriptions of all clients, at some 300 bytes each. A user may hold as many as are left free, with any number of
/// clients: one user alone has half of them, and a new user always finds room. One more is answered ENFILE.
const HANDLES_MAX: usize = 1 << 20;

/// The open descriptions of this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenFiles {
    /// The first handle of this start.
    first: u64,
    next: u64,
    handles: HashMap<HandleId, Description>,
    counts: InoMap<Count>,
    clients: HashMap<ClientId, BTreeSet<(Ino, HandleId)>>,
    /// The number of holds on descriptions.
    held: usize,
    /// The number of holds by the user who opened the descriptions.
    held_by_user: HashMap<u32, usize>,
    /// The leases of mounts: one of the size with each description that their processes use.
    pub(crate) leases: Leases,
}

/// One open description.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) ino: Ino,
    pub(crate) rights: Rights,
    uid: u32,
    /// The clients that hold the description: after fork and exec another client may hold it beside the one that opened it.
    holders: Vec<ClientId>,
    /// The process that uses the description asks for sizes by itself, so no mount has a lease of the size for it.
    is_unfollowed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    writers: u32,
}

/// A description that is about to be held by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) handle: HandleId,
    pub(crate) client: ClientId,
    /// The user of the client's process.
    pub(crate) uid: u32,
    pub(crate) ino: Ino,
    pub(crate) rights: Rights,
}

impl OpenFiles {
    /// The first handle of start `number`: handles of different starts differ, as no start opens 2^32 a second.
    pub(crate) fn begin(&mut self, number: u32) {
        self.first = u64::from(number) << 32;
        self.next = self.first;
    }

    pub(crate) fn next_handle(&self) -> HandleId {
        HandleId(self.next)
    }

    pub(crate) fn find(&self, handle: HandleId) -> Option<&Description> {
        self.handles.get(&handle)
    }

    /// Whether a client may hold one more description for a user.
    pub(crate) fn has_room(&self, client: ClientId, uid: u32) -> bool {
        let of_client = self.clients.get(&client).map_or(0, BTreeSet::len);
        let of_user = self.held_by_user(uid);
        of_client < HANDLES_PER_CLIENT && of_user < HANDLES_MAX.saturating_sub(self.held)
    }

    /// The number of holds on descriptions.
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    /// The number of holds by a user.
    pub(crate) fn held_by_user(&self, uid: u32) -> usize {
        self.held_by_user.get(&uid).copied().unwrap_or(0)
    }

    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.counts.contains_key(&ino)
    }

    pub(crate) fn has_writers(&self, ino: Ino) -> bool {
        self.counts.get(&ino).is_some_and(|count| count.writers > 0)
    }

    /// Whether the description of a capability that this server made is open.
    pub(crate) fn has(&self, capability: &Capability) -> bool {
        self.handles.get(&capability.handle).is_some_and(|description| description.ino == capability.ino)
    }

    /// Whether an earlier start of the server gave the handle out.
    pub(crate) fn is_earlier(&self, handle: HandleId) -> bool {
        handle.0 < self.first
    }

    /// Whether `client` holds a description of `ino`.
    pub(crate) fn holds(&self, client: ClientId, ino: Ino) -> bool {
        let of_ino = (ino, HandleId(0))..=(ino, HandleId(u64::MAX));
        self.clients.get(&client).is_some_and(|held| held.range(of_ino).next().is_some())
    }

    /// Whether `client` holds any description.
    pub(crate) fn holds_any(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|held| !held.is_empty())
    }

    /// The description `handle` of `ino`, if `client` holds it.
    pub(crate) fn held(&self, client: ClientId, ino: Ino, handle: HandleId) -> Option<&Description> {
        let description = self.handles.get(&handle)?;
        (description.ino == ino && description.holders.contains(&client)).then_some(description)
    }

    pub(crate) fn open(&mut self, opening: Opening) {
        let Opening { handle, client, uid, ino, rights } = opening;
        self.next = self.next.max(handle.0.saturating_add(1));
        let counts = &mut self.counts;
        let description = self.handles.entry(handle).or_insert_with(|| {
            let count = counts.entry(ino).or_default();
            count.all += 1;
            count.writers += u32::from(rights.write);
            Description { ino, rights, uid, holders: Vec::with_capacity(1), is_unfollowed: false }
        });
        if !description.holders.contains(&client) {
            self.held += 1;
            *self.held_by_user.entry(description.uid).or_default() += 1;
            description.holders.push(client);
            let is_followed = !description.is_unfollowed;
            self.clients.entry(client).or_default().insert((ino, handle));
            if is_followed {
                self.leases.give(client, ino, Kind::Size);
            }
        }
    }

    /// A client is the mount of a user, or of the administrator: its kernel knows sizes of the files that it holds. Returns those that it held
    /// before this was known.
    pub(crate) fn meet_mount(&mut self, client: ClientId, user: Option<u32>) -> Vec<Ino> {
        if !self.leases.meet(client, user) {
            return Vec::new();
        }
        let handles = &self.handles;
        let is_followed = |handle| handles.get(handle).is_some_and(|description| !description.is_unfollowed);
        let held = self.clients.get(&client).into_iter().flatten();
        let held: Vec<Ino> = held.filter(|(_, handle)| is_followed(handle)).map(|&(ino, _)| ino).collect();
        held.iter().for_each(|&ino| _ = self.leases.give(client, ino, Kind::Size));
        held
    }

    /// Whether a process of the mount `client` believes the kernel's size of the description's file.
    pub(crate) fn set_followed(
        &mut self,
        client: ClientId,
        (ino, handle): (Ino, HandleId),
        is_followed: bool,
    ) {
        let Some(description) = self.handles.get_mut(&handle) else { return };
        let is_held = description.ino == ino && description.holders.contains(&client);
        if !is_held || !self.leases.is_mount(client) || description.is_unfollowed != is_followed {
            return;
        }
        description.is_unfollowed = !is_followed;
        match is_followed {
            true => _ = self.leases.give(client, ino, Kind::Size),
            false => self.leases.end(client, ino, Kind::Size),
        }
    }

    /// A client that is no mount changes the file by a description that a mount holds: its process does not go through the kernel.
    pub(crate) fn is_used_by(&mut self, client: ClientId, (ino, handle): (Ino, HandleId)) {
        if self.leases.is_mount(client) || !self.leases.has(ino) {
            return;
        }
        let holders =
            self.handles.get(&handle).map_or_else(Vec::new, |description| description.holders.clone());
        for mount in holders {
            self.set_followed(mount, (ino, handle), false);
        }
    }

    /// Whether nobody else holds the description.
    pub(crate) fn ends_with(&self, handle: HandleId, client: ClientId) -> bool {
        self.handles.get(&handle).is_some_and(|description| description.holders == [client])
    }

    /// Whether the inode is no longer open once `client` closes `handle`.
    pub(crate) fn is_last(&self, handle: HandleId, client: ClientId) -> bool {
        self.handles.get(&handle).is_some_and(|description| {
            description.holders == [client]
                && self.counts.get(&description.ino).is_some_and(|count| count.all == 1)
        })
    }

    /// Ends `client`'s hold on a description. A description that it does not hold is closed already.
    pub(crate) fn close(&mut self, handle: HandleId, client: ClientId) {
        let Some(description) = self.handles.get_mut(&handle) else { return };
        let holders = description.holders.len();
        description.holders.retain(|&holder| holder != client);
        let was_followed = description.holders.len() < holders && !description.is_unfollowed;
        if description.holders.len() < holders {
            self.held -= 1;
            if let Some(held) = self.held_by_user.get_mut(&description.uid) {
                *held -= 1;
                if *held == 0 {
                    self.held_by_user.remove(&description.uid);
                }
            }
        }
        let Description { ino, rights, .. } = *description;
        let is_held_on = !description.holders.is_empty();
        if let Some(handles) = self.clients.get_mut(&client) {
            handles.remove(&(ino, handle));
            if handles.is_empty() {
                self.clients.remove(&client);
            }
        }
        if was_followed {
            self.leases.end(client, ino, Kind::Size);
        }
        if is_held_on {
            return;
        }
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
    pub(crate) fn held_by(&self, client: ClientId) -> Vec<HandleId> {
        let held = self.clients.get(&client).into_iter().flatten();
        let mut handles: Vec<HandleId> = held.map(|&(_, handle)| handle).collect();
        handles.sort_unstable();
        handles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_follow_the_files_that_they_have_open_for_kernels() {
        let (mount, other, library) = (ClientId(1), ClientId(2), ClientId(3));
        let rights = Rights { read: true, write: true };
        let mut open = OpenFiles::default();
        let at = |client, handle| Opening { handle: HandleId(handle), client, uid: 0, ino: Ino(7), rights };
        open.open(at(mount, 1));
        open.open(at(library, 3));
        assert!(open.leases.resized(Ino(7), 5).is_empty(), "nobody is a mount");
        assert_eq!(open.meet_mount(mount, None), [Ino(7)]);
        assert!(open.meet_mount(mount, None).is_empty() && open.meet_mount(other, None).is_empty());
        open.open(at(mount, 2));
        open.open(at(other, 4));
        open.open(at(library, 1));
        assert_eq!(open.leases.resized(Ino(7), 5), [mount, other]);
        assert!(
            open.leases.resized(Ino(7), 5).is_empty() && open.leases.resized(Ino(7), 4).is_empty(),
            "the file did not grow"
        );
        assert_eq!(open.leases.resized(Ino(7), 5), [mount, other]);
        open.set_followed(mount, (Ino(7), HandleId(1)), false);
        open.set_followed(mount, (Ino(7), HandleId(1)), false);
        open.set_followed(library, (Ino(7), HandleId(2)), false);
        assert_eq!(
            open.leases.resized(Ino(7), 6),
            [mount, other],
            "the second description of the mount is the kernel's"
        );
        open.close(HandleId(1), mount);
        open.set_followed(mount, (Ino(7), HandleId(2)), false);
        assert_eq!(open.leases.resized(Ino(7), 7), [other]);
        open.set_followed(mount, (Ino(7), HandleId(2)), true);
        assert_eq!(open.leases.resized(Ino(7), 8), [mount, other]);
        open.is_used_by(other, (Ino(7), HandleId(2)));
        open.is_used_by(library, (Ino(8), HandleId(2)));
        assert_eq!(open.leases.resized(Ino(7), 9), [mount, other]);
        open.is_used_by(library, (Ino(7), HandleId(2)));
        assert_eq!(open.leases.resized(Ino(7), 10), [other], "a library uses the description of the mount");
        open.set_followed(mount, (Ino(7), HandleId(2)), true);
        open.close(HandleId(2), mount);
        assert_eq!(open.leases.resized(Ino(7), 11), [other]);
        open.close(HandleId(4), other);
        assert!(!open.leases.has(Ino(7)));
    }

    /// A user with many clients once had as many descriptions as its clients together, which filled the server's memory.
    #[test]
    fn descriptions_are_bounded_by_user_and_others_find_room() {
        let mut open = OpenFiles::default();
        let rights = Rights { read: true, write: false };
        let fill = |open: &mut OpenFiles, uid: u32| {
            let mut count = 0u64;
            while let Some(client) = (0..16)
                .map(|part| ClientId(u64::from(uid) << 8 | part))
                .find(|&client| open.has_room(client, uid))
            {
                let handle = open.next_handle();
                open.open(Opening { handle, client, uid, ino: Ino(7), rights });
                count += 1;
            }
            count as usize
        };
        let first = fill(&mut open, 1);
        assert_eq!(first, HANDLES_MAX / 2);
        let second = fill(&mut open, 2);
        assert_eq!(second, HANDLES_MAX / 4);
        assert!(open.has_room(ClientId(u64::MAX), 3));
        for client in (0..16).map(|part| ClientId(1 << 8 | part)) {
            for handle in open.held_by(client) {
                open.close(handle, client);
                // A second close finds the description closed.
                open.close(handle, client);
            }
        }
        assert_eq!((open.held, open.held_by_user.len()), (second, 1));
        assert!(open.has_room(ClientId(1 << 8), 1));
    }
}
