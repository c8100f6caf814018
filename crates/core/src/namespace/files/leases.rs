//! The leases of mounts on files: what their kernels hold of a file, and are told of before the answer to whoever changes it.
//!
//! The home of a file gives leases of its size, and each server that has bytes of it leases of its pages. Both stand in one table.

use super::inode::InoMap;
use std::collections::{BTreeMap, HashMap};
use weir_wire::{ClientId, Ino};

/// Files on which one client may have leases: as many as it may have open. A mapped file is an open one.
const PER_CLIENT: usize = 1 << 17;
/// Leases of the clients of all users, at some 250 bytes each. A user may have as many as are left free, whatever the number of clients:
/// one alone has half. Mounts of the administrator are few, and have their own bound only.
const OF_USERS: usize = 1 << 20;

/// The part of a file that a kernel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pages, which go with each change of bytes. A mount asks for this lease.
    Pages,
    /// The size, by which the kernel places appends and ends copies. It comes and goes with each description that a process of the mount
    /// uses through the kernel.
    Size,
}

/// The leases of each file, and their holders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    by_file: InoMap<OnFile>,
    mounts: HashMap<ClientId, Mount>,
    /// Leases of users' clients, by user and in all.
    by_user: HashMap<u32, usize>,
    of_users: usize,
}

#[derive(Clone, Debug, Default)]
struct OnFile {
    /// The size that all kernels know; none before the first change.
    told: Option<u64>,
    leases: BTreeMap<ClientId, Lease>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lease {
    pages: bool,
    /// Descriptions for which the kernel holds the size.
    sizes: u32,
}

#[derive(Clone, Debug)]
struct Mount {
    /// The user of the mount; none for the administrator's.
    user: Option<u32>,
    leases: usize,
}

impl Leases {
    /// A client is a mount; false where that is known.
    pub(crate) fn meet(&mut self, client: ClientId, user: Option<u32>) -> bool {
        let is_known = self.mounts.contains_key(&client);
        self.mounts.entry(client).or_insert(Mount { user, leases: 0 });
        !is_known
    }

    pub(crate) fn is_mount(&self, client: ClientId) -> bool {
        self.mounts.contains_key(&client)
    }

    /// Whether any mount holds something of a file.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.by_file.contains_key(&ino)
    }

    /// Gives a mount a lease; false for a client that is none, and where it has as many as it may. A lease of a size is as good as given:
    /// its description has passed the same bound.
    pub(crate) fn give(&mut self, client: ClientId, ino: Ino, kind: Kind) -> bool {
        let Some(mount) = self.mounts.get_mut(&client) else { return false };
        let is_held = self.by_file.get(&ino).is_some_and(|file| file.leases.contains_key(&client));
        if !is_held {
            let of_user = mount.user.and_then(|user| self.by_user.get(&user)).copied().unwrap_or(0);
            let is_room = mount.user.is_none() || of_user < OF_USERS.saturating_sub(self.of_users);
            if kind == Kind::Pages && (mount.leases >= PER_CLIENT || !is_room) {
                return false;
            }
            mount.leases += 1;
            if let Some(user) = mount.user {
                *self.by_user.entry(user).or_default() += 1;
                self.of_users += 1;
            }
        }
        let lease = self.by_file.entry(ino).or_default().leases.entry(client).or_default();
        match kind {
            Kind::Pages => lease.pages = true,
            Kind::Size => lease.sizes += 1,
        }
        true
    }

    /// Ends a lease, that of a size for one description.
    pub(crate) fn end(&mut self, client: ClientId, ino: Ino, kind: Kind) {
        let Some(file) = self.by_file.get_mut(&ino) else { return };
        let Some(lease) = file.leases.get_mut(&client) else { return };
        match kind {
            Kind::Pages => lease.pages = false,
            Kind::Size => lease.sizes = lease.sizes.saturating_sub(1),
        }
        if *lease == Lease::default() {
            file.leases.remove(&client);
            if file.leases.is_empty() {
                self.by_file.remove(&ino);
            }
            if let Some(mount) = self.mounts.get_mut(&client) {
                mount.leases -= 1;
                let user = mount.user;
                self.give_back(user, 1);
            }
        }
    }

    /// Takes `count` leases off those of a user.
    fn give_back(&mut self, user: Option<u32>, count: usize) {
        let Some(user) = user.filter(|_| count > 0) else { return };
        self.of_users -= count;
        if let Some(leases) = self.by_user.get_mut(&user) {
            *leases -= count;
            if *leases == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// A mount is gone, with its leases.
    pub(crate) fn drop_mount(&mut self, client: ClientId) {
        let Some(mount) = self.mounts.remove(&client) else { return };
        self.give_back(mount.user, mount.leases);
        if mount.leases > 0 {
            self.by_file.retain(|_, file| {
                file.leases.remove(&client);
                !file.leases.is_empty()
            });
        }
    }

    /// The mounts that hold something of a file.
    pub(crate) fn of_file(&self, ino: Ino) -> impl Iterator<Item = ClientId> + '_ {
        self.by_file.get(&ino).into_iter().flat_map(|file| file.leases.keys().copied())
    }

    /// The mounts that hold pages of a file.
    pub(crate) fn of_pages(&self, ino: Ino) -> impl Iterator<Item = ClientId> + '_ {
        let leases = self.by_file.get(&ino).into_iter().flat_map(|file| &file.leases);
        leases.filter(|(_, lease)| lease.pages).map(|(&client, _)| client)
    }

    /// Notes that a file has `size_bytes` now. If it grew, answers the mounts whose kernels know its size.
    pub(crate) fn resized(&mut self, ino: Ino, size_bytes: u64) -> Vec<ClientId> {
        let Some(file) = self.by_file.get_mut(&ino) else { return Vec::new() };
        match file.told.replace(size_bytes) {
            Some(told) if told >= size_bytes => Vec::new(),
            _ => file.leases.iter().filter(|(_, lease)| lease.sizes > 0).map(|(&client, _)| client).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(5);

    #[test]
    fn a_client_has_leases_on_as_many_files_as_it_may_have_open() {
        let mut leases = Leases::default();
        let (client, other) = (ClientId(1), ClientId(2));
        assert!(!leases.give(client, FILE, Kind::Pages), "it is no mount");
        assert!(leases.meet(client, None) && leases.meet(other, None) && !leases.meet(client, None));
        for ino in 0..PER_CLIENT as u64 {
            assert!(leases.give(client, Ino(ino), Kind::Pages));
        }
        assert!(leases.give(client, Ino(0), Kind::Pages), "one that it has already");
        assert!(leases.give(client, Ino(0), Kind::Size), "both kinds on a file count once");
        assert!(!leases.give(client, Ino(u64::MAX), Kind::Pages));
        assert!(leases.give(other, Ino(u64::MAX), Kind::Pages), "others have their own");
        leases.end(client, Ino(1), Kind::Pages);
        leases.end(client, Ino(1), Kind::Pages);
        assert!(leases.give(client, Ino(u64::MAX), Kind::Pages));
        assert!(!leases.give(client, Ino(1), Kind::Pages));
    }

    /// A user with many clients once had as many leases as all of them together might.
    #[test]
    fn leases_of_users_are_bounded_by_user() {
        let mut leases = Leases::default();
        let clients = |user: u32| (0..8).map(move |part| ClientId(u64::from(user) << 8 | part));
        let fill = |leases: &mut Leases, user: u32| {
            let of_client = |client| {
                leases.meet(client, Some(user));
                (0..).take_while(|&ino| leases.give(client, Ino(ino), Kind::Pages)).count()
            };
            clients(user).map(of_client).sum::<usize>()
        };
        assert_eq!(fill(&mut leases, 1), OF_USERS / 2);
        assert_eq!(fill(&mut leases, 2), OF_USERS / 4);
        leases.meet(ClientId(1), None);
        assert!(leases.give(ClientId(1), Ino(7), Kind::Pages), "the administrator's mount always may");
        leases.end(ClientId(1 << 8), FILE, Kind::Pages);
        clients(1).chain(clients(2)).for_each(|client| leases.drop_mount(client));
        assert_eq!((leases.of_users, leases.by_user.len(), leases.by_file.len()), (0, 0, 1));
    }

    #[test]
    fn who_holds_one_kind_is_not_told_of_the_other() {
        let (pages, size, both) = (ClientId(1), ClientId(2), ClientId(3));
        let mut leases = Leases::default();
        for (client, kind) in
            [(pages, Kind::Pages), (size, Kind::Size), (both, Kind::Pages), (both, Kind::Size)]
        {
            leases.meet(client, None);
            assert!(leases.give(client, FILE, kind));
        }
        assert_eq!(leases.of_pages(FILE).collect::<Vec<_>>(), [pages, both]);
        assert_eq!(leases.resized(FILE, 5), [size, both]);
        leases.end(both, FILE, Kind::Pages);
        assert_eq!(leases.of_pages(FILE).collect::<Vec<_>>(), [pages]);
        assert_eq!(leases.resized(FILE, 6), [size, both]);
        leases.drop_mount(size);
        leases.end(both, FILE, Kind::Size);
        leases.end(pages, FILE, Kind::Pages);
        assert!(!leases.has(FILE));
    }
}
