//! What mounts' kernels hold: pages that a mount must drop before a write is answered, sizes of open files that it must know before
//! the answer to whoever made them longer, and places of directories that it must look up anew before the answer to a rename.

use super::request::Drops;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_wire::{limits, ClientId, FileChange, Ino, Sequence};

/// How long a write waits for a mount to drop its pages. A mount that takes longer is dead or stopped. No write waits for it until
/// it has dropped what it was late with; it is told of all changes when it comes back, and its own readers get the new bytes then.
pub(crate) const DROP_WAIT: Nanos = Nanos::from_millis(2_000);
/// No write waits for a user's mount for at least this long after it was late. Else any reader of a file could slow its writers
/// down for ever.
const LATE: Nanos = Nanos::from_millis(60_000);
/// Files told in one reply: their encoding, of 22 bytes each, fits a frame's body beside the moves.
const FILES_PER_REPLY: usize = 256;
/// Files that one client may watch: as many as it may have open. A mapped file is an open one.
const WATCHED_PER_CLIENT: usize = 1 << 17;
/// Files that the clients of all users may watch, at some 250 bytes each. A user may watch as many as are left free,
/// whatever the number of clients: one alone has half. Mounts of the administrator are few, and have their own bound only.
const WATCHED_BY_USERS: usize = 1 << 20;

/// Moved directories that one mount has still to look up. A mount that is told of more than these forgets the earliest: its kernel
/// finds them when a program looks them up.
const MOVES_MAX: usize = 64;
/// Stands for the inode in the drop of a move, which its sequence alone names.
const NO_FILE: Ino = Ino(0);

/// What a mount is told next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Confirms all of it.
    pub(crate) sequence: Sequence,
    pub(crate) files: Vec<FileChange>,
    /// Paths of directories below the root.
    pub(crate) moved: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Watcher {
    /// Files that it watches.
    watched: usize,
    /// Changed files, by the sequence of their latest change. A file stands once, so the list is bounded by the files that are watched
    /// or open.
    waiting: BTreeMap<u64, FileChange>,
    latest: HashMap<Ino, u64>,
    /// Directories to look up, by the sequence of their move. Mounts share the path.
    moves: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    /// The user of the mount; none for the administrator's mount.
    user: Option<u32>,
    late: Option<Late>,
}

/// A mount that made others wait until their time was over.
#[derive(Clone, Copy)]
struct Late {
    /// The last moment at which it did.
    since: Nanos,
    /// The last change that it was told of by then.
    last: u64,
}

impl Watcher {
    fn is_waited_for(&self) -> bool {
        self.late.is_none()
    }

    /// Notes a change, with those parts of earlier ones that were not told for certain. Returns its sequence.
    fn note(&mut self, change: FileChange) -> u64 {
        self.next += 1;
        let earlier = self.latest.insert(change.ino, self.next);
        let earlier = earlier.and_then(|sequence| self.waiting.remove(&sequence));
        let pages = change.pages || earlier.is_some_and(|earlier| earlier.pages);
        let grown_to = change.grown_to.or(earlier.and_then(|earlier| earlier.grown_to));
        self.waiting.insert(self.next, FileChange { pages, grown_to, ..change });
        self.next
    }
}

/// The watchers of each file, and the files that each watcher has still to drop.
///
/// An object's offsets are not the file's, so a change drops the pages of the whole file.
#[derive(Default)]
pub(crate) struct Watches {
    by_file: HashMap<Ino, HashSet<ClientId>>,
    watchers: HashMap<ClientId, Watcher>,
    /// Files that clients of users watch, by user and in all.
    by_user: HashMap<u32, usize>,
    of_users: usize,
}

impl Watches {
    /// A client polls: it is told of moves, whether it watches a file or not. `user` is as in [`Watches::watch`].
    pub(crate) fn listens(&mut self, client: ClientId, user: Option<u32>) {
        self.watchers.entry(client).or_insert_with(|| Watcher { user, ..Watcher::default() });
    }

    /// A directory has the place `path` now, to which `mover` brought it for the user `uid`. Answers the drops that the reply has to
    /// wait for. Mounts of other users are not told: a path is nobody's affair but its user's and the administrator's.
    pub(crate) fn moved(&mut self, (mover, uid): (ClientId, u32), path: &Arc<[u8]>) -> Drops {
        let mut drops = Drops::new();
        for (&client, watcher) in &mut self.watchers {
            if client == mover || watcher.user.is_some_and(|user| user != uid) {
                continue;
            }
            watcher.next += 1;
            watcher.moves.insert(watcher.next, Arc::clone(path));
            if watcher.moves.len() > MOVES_MAX {
                watcher.moves.pop_first();
            }
            if watcher.is_waited_for() {
                drops.push((client, NO_FILE, watcher.next));
            }
        }
        drops
    }

    /// Watches a file for the client of a user, or of the administrator's mount; false where it watches as many as it may.
    pub(crate) fn watch(&mut self, client: ClientId, user: Option<u32>, ino: Ino) -> bool {
        let watcher = self.watchers.entry(client).or_insert_with(|| Watcher { user, ..Watcher::default() });
        if self.by_file.get(&ino).is_some_and(|clients| clients.contains(&client)) {
            return true;
        }
        let of_user = watcher.user.and_then(|user| self.by_user.get(&user)).copied().unwrap_or(0);
        let is_room = watcher.user.is_none() || of_user < WATCHED_BY_USERS - self.of_users;
        if watcher.watched >= WATCHED_PER_CLIENT || !is_room {
            return false;
        }
        watcher.watched += 1;
        if let Some(user) = watcher.user {
            *self.by_user.entry(user).or_default() += 1;
            self.of_users += 1;
        }
        self.by_file.entry(ino).or_default().insert(client);
        true
    }

    /// A user's client watches so many files less.
    fn give_back(&mut self, user: Option<u32>, count: usize) {
        let Some(user) = user.filter(|_| count > 0) else { return };
        self.of_users -= count;
        if let Some(watched) = self.by_user.get_mut(&user) {
            *watched -= count;
            if *watched == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// The wait is over, and these watchers have not dropped their pages.
    pub(crate) fn are_late(&mut self, drops: &Drops, now: Nanos) {
        for one in drops {
            if self.are_done(std::slice::from_ref(one)) {
                continue;
            }
            if let Some(watcher) = self.watchers.get_mut(&one.0) {
                watcher.late = Some(Late { since: now, last: watcher.next });
            }
        }
    }

    /// Writes wait again for mounts of users that were late long enough ago.
    pub(crate) fn expire(&mut self, now: Nanos) {
        for watcher in self.watchers.values_mut().filter(|watcher| watcher.user.is_some()) {
            watcher.late = watcher.late.filter(|late| now.saturating_since(late.since) <= LATE);
        }
    }

    pub(crate) fn unwatch(&mut self, client: ClientId, ino: Ino) {
        let Some(clients) = self.by_file.get_mut(&ino) else { return };
        let is_removed = clients.remove(&client);
        if clients.is_empty() {
            self.by_file.remove(&ino);
        }
        if let Some(watcher) = self.watchers.get_mut(&client).filter(|_| is_removed) {
            watcher.watched -= 1;
            let user = watcher.user;
            self.give_back(user, 1);
        }
    }

    /// Whether another client holds pages of a file that `client` is about to change. A client that holds some itself is not asked
    /// to wait beforehand: two clients that write back pages of one file would wait for each other.
    pub(crate) fn others_hold(&self, client: ClientId, ino: Ino) -> bool {
        let is_waited_for =
            |other: &ClientId| self.watchers.get(other).is_some_and(|watcher| watcher.is_waited_for());
        let others = self.by_file.get(&ino).filter(|clients| !clients.contains(&client));
        others.is_some_and(|clients| clients.iter().any(is_waited_for))
    }

    /// Forgets a client that is gone; requests that waited for it wait no longer.
    pub(crate) fn drop_client(&mut self, client: ClientId) {
        if let Some(watcher) = self.watchers.remove(&client) {
            self.give_back(watcher.user, watcher.watched);
            self.by_file.retain(|_, clients| {
                clients.remove(&client);
                !clients.is_empty()
            });
        }
    }

    /// `writer` changed bytes of `ino`. Answers the drops that its reply has to wait for; a mount's kernel drops its own pages.
    pub(crate) fn changed(&mut self, writer: ClientId, ino: Ino) -> Drops {
        let Some(clients) = self.by_file.get(&ino) else { return Drops::new() };
        let mut drops = Drops::new();
        for &client in clients.iter().filter(|&&client| client != writer) {
            let Some(watcher) = self.watchers.get_mut(&client) else { continue };
            let sequence = watcher.note(FileChange { ino, pages: true, grown_to: None });
            if watcher.is_waited_for() {
                drops.push((client, ino, sequence));
            }
        }
        drops
    }

    /// `ino` became longer. Returns the mounts of `clients` for which the reply to whoever did it has to wait.
    pub(crate) fn grew(&mut self, (ino, size_bytes): (Ino, u64), clients: &[ClientId]) -> Drops {
        let mut drops = Drops::new();
        for &client in clients {
            let Some(watcher) = self.watchers.get_mut(&client) else { continue };
            let sequence = watcher.note(FileChange { ino, pages: false, grown_to: Some(size_bytes) });
            if watcher.is_waited_for() {
                drops.push((client, ino, sequence));
            }
        }
        drops
    }

    /// The watcher has dropped everything up to `done`.
    pub(crate) fn confirm(&mut self, client: ClientId, done: Sequence) {
        let Some(watcher) = self.watchers.get_mut(&client) else { return };
        let rest = watcher.waiting.split_off(&(done.0.saturating_add(1)));
        for change in std::mem::replace(&mut watcher.waiting, rest).into_values() {
            watcher.latest.remove(&change.ino);
        }
        watcher.moves = watcher.moves.split_off(&(done.0.saturating_add(1)));
        if watcher.user.is_none() {
            watcher.late = watcher.late.filter(|late| done.0 < late.last);
        }
    }

    /// What the watcher should drop and look up next, in the order of sequences.
    pub(crate) fn next(&self, client: ClientId) -> Option<Told> {
        let watcher = self.watchers.get(&client)?;
        let mut told = Told { sequence: Sequence(0), files: Vec::new(), moved: Vec::new() };
        let (mut files, mut moves) = (watcher.waiting.iter().peekable(), watcher.moves.iter().peekable());
        while told.files.len() < FILES_PER_REPLY && told.moved.len() < limits::MOVES {
            let file = files.next_if(|(at, _)| moves.peek().is_none_or(|(moved_at, _)| at < moved_at));
            if let Some((&at, &change)) = file {
                told.files.push(change);
                told.sequence = Sequence(at);
            } else if let Some((&at, path)) = moves.next() {
                told.moved.push(path.to_vec());
                told.sequence = Sequence(at);
            } else {
                break;
            }
        }
        (told.sequence.0 > 0).then_some(told)
    }

    /// Whether nothing of `drops` is outstanding.
    ///
    /// A later change of the file takes an earlier one's place, so a file that still waits counts for all of them.
    pub(crate) fn are_done(&self, drops: &[(ClientId, Ino, u64)]) -> bool {
        drops.iter().all(|(client, ino, sequence)| {
            self.watchers.get(client).is_none_or(|watcher| {
                let is_newer = watcher.latest.get(ino).is_none_or(|latest| latest < sequence);
                is_newer && (*ino != NO_FILE || !watcher.moves.contains_key(sequence))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(5);
    const PAGES: FileChange = FileChange { ino: FILE, pages: true, grown_to: None };

    #[test]
    fn a_write_waits_for_other_mounts_and_not_for_its_own() {
        let (mount, other) = (ClientId(1), ClientId(2));
        let mut watches = Watches::default();
        watches.watch(mount, None, FILE);
        assert!(watches.changed(mount, FILE).is_empty());
        let drops = watches.changed(other, FILE);
        assert!(!watches.are_done(&drops));
        let Told { sequence, files, .. } = watches.next(mount).unwrap();
        assert_eq!(files, [PAGES]);
        watches.confirm(mount, sequence);
        assert!(watches.are_done(&drops));
        assert!(watches.next(mount).is_none());
    }

    #[test]
    fn who_holds_pages_itself_waits_for_nobody_beforehand() {
        let mut watches = Watches::default();
        assert!(!watches.others_hold(ClientId(1), FILE));
        watches.watch(ClientId(1), None, FILE);
        assert!(watches.others_hold(ClientId(2), FILE) && !watches.others_hold(ClientId(1), FILE));
        watches.watch(ClientId(2), None, FILE);
        assert!(!watches.others_hold(ClientId(2), FILE));
        watches.unwatch(ClientId(2), FILE);
        watches.drop_client(ClientId(1));
        assert!(!watches.others_hold(ClientId(2), FILE));
    }

    #[test]
    fn a_client_watches_as_many_files_as_it_may_have_open() {
        let mut watches = Watches::default();
        let client = ClientId(1);
        for ino in 0..WATCHED_PER_CLIENT as u64 {
            assert!(watches.watch(client, None, Ino(ino)));
        }
        assert!(watches.watch(client, None, Ino(0)), "one that it watches already");
        assert!(!watches.watch(client, None, Ino(u64::MAX)));
        assert!(watches.watch(ClientId(2), None, Ino(u64::MAX)), "others have their own");
        watches.unwatch(client, Ino(1));
        watches.unwatch(client, Ino(1));
        assert!(watches.watch(client, None, Ino(u64::MAX)));
        assert!(!watches.watch(client, None, Ino(1)));
    }

    /// A user with many clients once watched as many files as all of them together might.
    #[test]
    fn what_users_watch_is_bounded_by_user() {
        let mut watches = Watches::default();
        let fill = |watches: &mut Watches, user: u32| {
            let clients = (0..8).map(|part| ClientId(u64::from(user) << 8 | part));
            let of_client =
                |client| (0..).take_while(|&ino| watches.watch(client, Some(user), Ino(ino))).count();
            clients.map(of_client).sum::<usize>()
        };
        assert_eq!(fill(&mut watches, 1), WATCHED_BY_USERS / 2);
        assert_eq!(fill(&mut watches, 2), WATCHED_BY_USERS / 4);
        assert!(watches.watch(ClientId(1), None, Ino(7)), "the administrator's mount always may");
        watches.unwatch(ClientId(1 << 8), Ino(5));
        (0..8).for_each(|part| watches.drop_client(ClientId(1 << 8 | part)));
        (0..8).for_each(|part| watches.drop_client(ClientId(2 << 8 | part)));
        assert_eq!((watches.of_users, watches.by_user.len(), watches.by_file.len()), (0, 0, 1));
    }

    #[test]
    fn a_mount_that_is_gone_holds_nobody() {
        let mut watches = Watches::default();
        watches.watch(ClientId(1), None, FILE);
        let drops = watches.changed(ClientId(2), FILE);
        watches.drop_client(ClientId(1));
        assert!(watches.are_done(&drops));
        assert!(watches.changed(ClientId(2), FILE).is_empty());
    }

    /// A user who watched another's file and dropped nothing made each of its writes take two seconds.
    #[test]
    fn a_user_that_drops_nothing_is_waited_for_once_and_told_all_the_same() {
        let (user, mount, writer) = (ClientId(1), ClientId(2), ClientId(3));
        let at = |seconds: u64| Nanos::from_millis(seconds * 1000);
        let mut watches = Watches::default();
        watches.watch(user, Some(1000), FILE);
        watches.watch(mount, None, FILE);
        let first = watches.changed(writer, FILE);
        assert_eq!(first.len(), 2);
        let told = watches.next(mount).unwrap().sequence;
        watches.confirm(mount, told);
        watches.are_late(&first, at(2));
        assert_eq!(watches.changed(writer, FILE).iter().map(|one| one.0).collect::<Vec<_>>(), [mount]);
        let Told { sequence: told, files, .. } = watches.next(user).unwrap();
        assert_eq!(files, [PAGES], "it drops its pages when it comes back");
        watches.confirm(user, told);
        watches.expire(at(30));
        assert_eq!(watches.changed(writer, FILE).len(), 1, "it may do the same again");
        watches.expire(at(63));
        assert_eq!(watches.changed(writer, FILE).len(), 2);
    }

    /// The kernel of a mount led `..` of a moved directory into its old parent.
    #[test]
    fn a_rename_waits_until_the_mounts_of_its_user_and_of_the_administrator_know() {
        let (mount, own, other, mover) = (ClientId(1), ClientId(2), ClientId(3), ClientId(4));
        let mut watches = Watches::default();
        watches.listens(mount, None);
        watches.listens(own, Some(1000));
        watches.listens(other, Some(1001));
        watches.listens(mover, Some(1000));
        watches.watch(mount, None, FILE);
        let path: Arc<[u8]> = b"new/d".as_slice().into();
        let write = watches.changed(mover, FILE);
        let drops = watches.moved((mover, 1000), &path);
        let mut waited: Vec<ClientId> = drops.iter().map(|one| one.0).collect();
        waited.sort_unstable();
        assert_eq!(waited, [mount, own]);
        assert_eq!((watches.next(other), watches.next(mover)), (None, None));
        let told = watches.next(mount).unwrap();
        assert_eq!((told.files, told.moved), (vec![PAGES], vec![path.to_vec()]));
        watches.confirm(mount, told.sequence);
        assert!(watches.are_done(&write) && !watches.are_done(&drops));
        let told = watches.next(own).unwrap();
        watches.confirm(own, told.sequence);
        assert!(watches.are_done(&drops));
    }

    #[test]
    fn a_mount_that_looks_up_nothing_keeps_the_last_moves_alone() {
        let mut watches = Watches::default();
        watches.listens(ClientId(1), None);
        let path: Arc<[u8]> = b"d".as_slice().into();
        let first = watches.moved((ClientId(2), 0), &path);
        for _ in 0..MOVES_MAX {
            watches.moved((ClientId(2), 0), &path);
        }
        assert!(watches.are_done(&first), "nobody waits for a move that was forgotten");
        let mut told = 0;
        while let Some(next) = watches.next(ClientId(1)) {
            assert!(next.moved.len() <= limits::MOVES);
            told += next.moved.len();
            watches.confirm(ClientId(1), next.sequence);
        }
        assert_eq!(told, MOVES_MAX);
    }

    /// A stopped mount of the administrator once made each write of others wait until its time was over, twice.
    #[test]
    fn a_stopped_mount_is_waited_for_once_and_again_when_it_is_back() {
        let (mount, writer) = (ClientId(1), ClientId(2));
        let mut watches = Watches::default();
        watches.watch(mount, None, FILE);
        let first = watches.changed(writer, FILE);
        watches.are_late(&first, Nanos::from_millis(2_000));
        assert!(watches.changed(writer, FILE).is_empty());
        assert!(!watches.others_hold(writer, FILE), "nobody waits beforehand, either");
        watches.expire(Nanos::from_millis(1_000_000));
        assert!(watches.changed(writer, FILE).is_empty(), "time alone proves nothing");
        let Told { sequence: told, files, .. } = watches.next(mount).unwrap();
        assert_eq!(files, [PAGES]);
        watches.confirm(mount, told);
        assert_eq!(watches.changed(writer, FILE).len(), 1);
    }

    /// The kernel of a mount believed the size of before, and placed appends and copies by it.
    #[test]
    fn who_makes_a_file_longer_waits_until_other_mounts_know_the_size() {
        let (mount, other, writer) = (ClientId(1), ClientId(2), ClientId(3));
        let mut watches = Watches::default();
        watches.listens(mount, None);
        watches.listens(other, Some(1000));
        let drops = watches.grew((FILE, 10), &[mount, other]);
        assert_eq!(drops.iter().map(|one| one.0).collect::<Vec<_>>(), [mount, other]);
        watches.watch(mount, None, FILE);
        let written = watches.changed(writer, FILE);
        let own = watches.grew((FILE, 20), &[mount]);
        assert_eq!(own.iter().map(|one| one.0).collect::<Vec<_>>(), [mount]);
        let Told { sequence, files, .. } = watches.next(mount).unwrap();
        assert_eq!(files, [FileChange { ino: FILE, pages: true, grown_to: Some(20) }]);
        watches.confirm(mount, sequence);
        assert!(watches.are_done(&written) && watches.are_done(&own) && !watches.are_done(&drops));
        watches.drop_client(other);
        assert!(watches.are_done(&drops));
    }

    #[test]
    fn a_change_during_a_drop_is_told_again() {
        let mut watches = Watches::default();
        watches.watch(ClientId(1), None, FILE);
        let first = watches.changed(ClientId(2), FILE);
        let told = watches.next(ClientId(1)).unwrap().sequence;
        let second = watches.changed(ClientId(2), FILE);
        watches.confirm(ClientId(1), told);
        assert!(
            !watches.are_done(&first) && !watches.are_done(&second),
            "the drop may have been before the second write"
        );
        let Told { sequence: told, files, .. } = watches.next(ClientId(1)).unwrap();
        assert_eq!(files, [PAGES]);
        watches.confirm(ClientId(1), told);
        assert!(watches.are_done(&first) && watches.are_done(&second));
    }
}
