//! Recalls: mounts hear of files on which they have leases (`namespace/files/leases.rs`), pages that they must drop and sizes that they must know
//! before the answer to whoever changed the file; and places of directories that they must look up anew before the answer to a rename.

use super::request::Drops;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::{BTreeMap, HashMap};
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
/// Moved directories that one mount has still to look up. A mount that is told of more than these forgets the earliest: its kernel
/// finds them when a program looks them up.
const MOVES_MAX: usize = 64;
/// Stands for the inode in the drop of a move, which its sequence alone names.
const NO_FILE: Ino = Ino(0);

/// The next recall of a mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Confirms all of it.
    pub(crate) sequence: Sequence,
    pub(crate) files: Vec<FileChange>,
    /// Paths of directories below the root.
    pub(crate) moved: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Recalled {
    /// Changed files, by the sequence of their latest change. A file stands once, so the list is bounded by its leases.
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

impl Recalled {
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

/// The mounts, each with what it has still to confirm.
#[derive(Default)]
pub(crate) struct Recalls {
    mounts: HashMap<ClientId, Recalled>,
}

impl Recalls {
    /// A client is a mount: it is told of moves, whether it has a lease or not. `user` is as in [`Recalled`].
    pub(crate) fn meet(&mut self, client: ClientId, user: Option<u32>) {
        self.mounts.entry(client).or_insert_with(|| Recalled { user, ..Recalled::default() });
    }

    /// A directory has the place `path` now, to which `mover` brought it for the user `uid`. Answers the drops that the reply has to
    /// wait for. Mounts of other users are not told: a path is nobody's affair but its user's and the administrator's.
    pub(crate) fn moved(&mut self, (mover, uid): (ClientId, u32), path: &Arc<[u8]>) -> Drops {
        let mut drops = Drops::new();
        for (&client, mount) in &mut self.mounts {
            if client == mover || mount.user.is_some_and(|user| user != uid) {
                continue;
            }
            mount.next += 1;
            mount.moves.insert(mount.next, Arc::clone(path));
            if mount.moves.len() > MOVES_MAX {
                mount.moves.pop_first();
            }
            if mount.is_waited_for() {
                drops.push((client, NO_FILE, mount.next));
            }
        }
        drops
    }

    /// The wait is over, and these mounts have not dropped their pages.
    pub(crate) fn are_late(&mut self, drops: &Drops, now: Nanos) {
        for one in drops {
            if self.are_done(std::slice::from_ref(one)) {
                continue;
            }
            if let Some(mount) = self.mounts.get_mut(&one.0) {
                mount.late = Some(Late { since: now, last: mount.next });
            }
        }
    }

    /// Writes wait again for mounts of users that were late long enough ago.
    pub(crate) fn expire(&mut self, now: Nanos) {
        for mount in self.mounts.values_mut().filter(|mount| mount.user.is_some()) {
            mount.late = mount.late.filter(|late| now.saturating_since(late.since) <= LATE);
        }
    }

    /// Whether another of the holders of a file's pages has to write back before `client` changes the file. A client that holds some itself
    /// is not asked to wait beforehand: two clients that write back pages of one file would wait for each other.
    pub(crate) fn others_hold(&self, client: ClientId, holders: &[ClientId]) -> bool {
        let is_waited_for = |other| self.mounts.get(other).is_some_and(Recalled::is_waited_for);
        !holders.contains(&client) && holders.iter().any(is_waited_for)
    }

    /// Forgets a client that is gone; requests that waited for it wait no longer.
    pub(crate) fn drop_client(&mut self, client: ClientId) {
        self.mounts.remove(&client);
    }

    /// Tells mounts of a change. Answers what the reply to whoever made the change has to wait for.
    ///
    /// An object's offsets are not the file's, so a change of bytes drops the pages of the whole file.
    pub(crate) fn tell(&mut self, change: FileChange, clients: &[ClientId]) -> Drops {
        let mut drops = Drops::new();
        for &client in clients {
            let Some(mount) = self.mounts.get_mut(&client) else { continue };
            let sequence = mount.note(change);
            if mount.is_waited_for() {
                drops.push((client, change.ino, sequence));
            }
        }
        drops
    }

    /// The drops of a file that these mounts were told of and have not confirmed, as far as anybody waits for them.
    pub(crate) fn owed(&self, ino: Ino, clients: impl Iterator<Item = ClientId>) -> Drops {
        let owed = clients.filter_map(|client| {
            let mount = self.mounts.get(&client).filter(|mount| mount.is_waited_for())?;
            Some((client, ino, *mount.latest.get(&ino)?))
        });
        owed.collect()
    }

    /// The mount has dropped everything up to `done`.
    pub(crate) fn confirm(&mut self, client: ClientId, done: Sequence) {
        let Some(mount) = self.mounts.get_mut(&client) else { return };
        let rest = mount.waiting.split_off(&(done.0.saturating_add(1)));
        for change in std::mem::replace(&mut mount.waiting, rest).into_values() {
            mount.latest.remove(&change.ino);
        }
        mount.moves = mount.moves.split_off(&(done.0.saturating_add(1)));
        if mount.user.is_none() {
            mount.late = mount.late.filter(|late| done.0 < late.last);
        }
    }

    /// The files that the mount should drop and the places that it should look up next, in the order of sequences.
    pub(crate) fn next(&self, client: ClientId) -> Option<Told> {
        let mount = self.mounts.get(&client)?;
        let mut told = Told { sequence: Sequence(0), files: Vec::new(), moved: Vec::new() };
        let (mut files, mut moves) = (mount.waiting.iter().peekable(), mount.moves.iter().peekable());
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
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::RecallsUnawaited) {
            return true;
        }
        drops.iter().all(|(client, ino, sequence)| {
            self.mounts.get(client).is_none_or(|mount| {
                let is_newer = mount.latest.get(ino).is_none_or(|latest| latest < sequence);
                is_newer && (*ino != NO_FILE || !mount.moves.contains_key(sequence))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(5);
    const PAGES: FileChange = FileChange { ino: FILE, pages: true, grown_to: None };

    fn grown_to(size_bytes: u64) -> FileChange {
        FileChange { ino: FILE, pages: false, grown_to: Some(size_bytes) }
    }

    #[test]
    fn a_write_waits_until_a_mount_has_confirmed() {
        let mount = ClientId(1);
        let mut recalls = Recalls::default();
        recalls.meet(mount, None);
        let drops = recalls.tell(PAGES, &[mount]);
        assert!(!recalls.are_done(&drops));
        let Told { sequence, files, .. } = recalls.next(mount).unwrap();
        assert_eq!(files, [PAGES]);
        recalls.confirm(mount, sequence);
        assert!(recalls.are_done(&drops));
        assert!(recalls.next(mount).is_none());
    }

    #[test]
    fn a_change_that_is_sent_again_waits_for_what_its_first_answer_waits_for() {
        let (mount, late) = (ClientId(1), ClientId(2));
        let mut recalls = Recalls::default();
        recalls.meet(mount, None);
        recalls.meet(late, None);
        let owed = |recalls: &Recalls| recalls.owed(FILE, [mount, late].into_iter());
        assert!(owed(&recalls).is_empty());
        let drops = recalls.tell(PAGES, &[mount, late]);
        assert_eq!(owed(&recalls), drops);
        recalls.are_late(&vec![drops[1]], Nanos::from_millis(2_000));
        assert_eq!(owed(&recalls)[..], drops[..1]);
        recalls.confirm(mount, Sequence(drops[0].2));
        assert!(owed(&recalls).is_empty());
    }

    #[test]
    fn who_holds_pages_itself_waits_for_nobody_beforehand() {
        let (first, second, stranger) = (ClientId(1), ClientId(2), ClientId(3));
        let mut recalls = Recalls::default();
        recalls.meet(first, None);
        recalls.meet(second, None);
        assert!(!recalls.others_hold(first, &[]));
        assert!(recalls.others_hold(second, &[first]) && !recalls.others_hold(first, &[first]));
        assert!(!recalls.others_hold(second, &[first, second]));
        assert!(recalls.others_hold(stranger, &[first, second]));
        recalls.drop_client(first);
        assert!(!recalls.others_hold(second, &[first]));
    }

    #[test]
    fn a_mount_that_is_gone_holds_nobody() {
        let mut recalls = Recalls::default();
        recalls.meet(ClientId(1), None);
        let drops = recalls.tell(PAGES, &[ClientId(1)]);
        recalls.drop_client(ClientId(1));
        assert!(recalls.are_done(&drops));
        assert!(recalls.tell(PAGES, &[ClientId(1)]).is_empty());
    }

    /// A user who watched another's file and dropped nothing made each of its writes take two seconds.
    #[test]
    fn a_user_that_drops_nothing_is_waited_for_once_and_told_all_the_same() {
        let (user, mount) = (ClientId(1), ClientId(2));
        let at = |seconds: u64| Nanos::from_millis(seconds * 1000);
        let mut recalls = Recalls::default();
        recalls.meet(user, Some(1000));
        recalls.meet(mount, None);
        let first = recalls.tell(PAGES, &[user, mount]);
        assert_eq!(first.len(), 2);
        let told = recalls.next(mount).unwrap().sequence;
        recalls.confirm(mount, told);
        recalls.are_late(&first, at(2));
        assert_eq!(recalls.tell(PAGES, &[user, mount]).iter().map(|one| one.0).collect::<Vec<_>>(), [mount]);
        let Told { sequence: told, files, .. } = recalls.next(user).unwrap();
        assert_eq!(files, [PAGES], "it drops its pages when it comes back");
        recalls.confirm(user, told);
        recalls.expire(at(30));
        assert_eq!(recalls.tell(PAGES, &[user, mount]).len(), 1, "it may do the same again");
        recalls.expire(at(63));
        assert_eq!(recalls.tell(PAGES, &[user, mount]).len(), 2);
    }

    /// The kernel of a mount led `..` of a moved directory into its old parent.
    #[test]
    fn a_rename_waits_until_the_mounts_of_its_user_and_of_the_administrator_know() {
        let (mount, own, other, mover) = (ClientId(1), ClientId(2), ClientId(3), ClientId(4));
        let mut recalls = Recalls::default();
        recalls.meet(mount, None);
        recalls.meet(own, Some(1000));
        recalls.meet(other, Some(1001));
        recalls.meet(mover, Some(1000));
        let path: Arc<[u8]> = b"new/d".as_slice().into();
        let write = recalls.tell(PAGES, &[mount]);
        let drops = recalls.moved((mover, 1000), &path);
        let mut waited: Vec<ClientId> = drops.iter().map(|one| one.0).collect();
        waited.sort_unstable();
        assert_eq!(waited, [mount, own]);
        assert_eq!((recalls.next(other), recalls.next(mover)), (None, None));
        let told = recalls.next(mount).unwrap();
        assert_eq!((told.files, told.moved), (vec![PAGES], vec![path.to_vec()]));
        recalls.confirm(mount, told.sequence);
        assert!(recalls.are_done(&write) && !recalls.are_done(&drops));
        let told = recalls.next(own).unwrap();
        recalls.confirm(own, told.sequence);
        assert!(recalls.are_done(&drops));
    }

    #[test]
    fn a_mount_that_looks_up_nothing_keeps_the_last_moves_alone() {
        let mut recalls = Recalls::default();
        recalls.meet(ClientId(1), None);
        let path: Arc<[u8]> = b"d".as_slice().into();
        let first = recalls.moved((ClientId(2), 0), &path);
        for _ in 0..MOVES_MAX {
            recalls.moved((ClientId(2), 0), &path);
        }
        assert!(recalls.are_done(&first), "nobody waits for a move that was forgotten");
        let mut told = 0;
        while let Some(next) = recalls.next(ClientId(1)) {
            assert!(next.moved.len() <= limits::MOVES);
            told += next.moved.len();
            recalls.confirm(ClientId(1), next.sequence);
        }
        assert_eq!(told, MOVES_MAX);
    }

    /// A stopped mount of the administrator once made each write of others wait until its time was over, twice.
    #[test]
    fn a_stopped_mount_is_waited_for_once_and_again_when_it_is_back() {
        let (mount, writer) = (ClientId(1), ClientId(2));
        let mut recalls = Recalls::default();
        recalls.meet(mount, None);
        let first = recalls.tell(PAGES, &[mount]);
        recalls.are_late(&first, Nanos::from_millis(2_000));
        assert!(recalls.tell(PAGES, &[mount]).is_empty());
        assert!(!recalls.others_hold(writer, &[mount]), "nobody waits beforehand, either");
        recalls.expire(Nanos::from_millis(1_000_000));
        assert!(recalls.tell(PAGES, &[mount]).is_empty(), "time alone proves nothing");
        let Told { sequence: told, files, .. } = recalls.next(mount).unwrap();
        assert_eq!(files, [PAGES]);
        recalls.confirm(mount, told);
        assert_eq!(recalls.tell(PAGES, &[mount]).len(), 1);
    }

    /// The kernel of a mount believed the size of before, and placed appends and copies by it.
    #[test]
    fn who_makes_a_file_longer_waits_until_other_mounts_know_the_size() {
        let (mount, other) = (ClientId(1), ClientId(2));
        let mut recalls = Recalls::default();
        recalls.meet(mount, None);
        recalls.meet(other, Some(1000));
        let drops = recalls.tell(grown_to(10), &[mount, other]);
        assert_eq!(drops.iter().map(|one| one.0).collect::<Vec<_>>(), [mount, other]);
        let written = recalls.tell(PAGES, &[mount]);
        let own = recalls.tell(grown_to(20), &[mount]);
        assert_eq!(own.iter().map(|one| one.0).collect::<Vec<_>>(), [mount]);
        let Told { sequence, files, .. } = recalls.next(mount).unwrap();
        assert_eq!(files, [FileChange { ino: FILE, pages: true, grown_to: Some(20) }]);
        recalls.confirm(mount, sequence);
        assert!(recalls.are_done(&written) && recalls.are_done(&own) && !recalls.are_done(&drops));
        recalls.drop_client(other);
        assert!(recalls.are_done(&drops));
    }

    #[test]
    fn a_change_during_a_drop_is_told_again() {
        let mut recalls = Recalls::default();
        recalls.meet(ClientId(1), None);
        let first = recalls.tell(PAGES, &[ClientId(1)]);
        let told = recalls.next(ClientId(1)).unwrap().sequence;
        let second = recalls.tell(PAGES, &[ClientId(1)]);
        recalls.confirm(ClientId(1), told);
        assert!(
            !recalls.are_done(&first) && !recalls.are_done(&second),
            "the drop may have been before the second write"
        );
        let Told { sequence: told, files, .. } = recalls.next(ClientId(1)).unwrap();
        assert_eq!(files, [PAGES]);
        recalls.confirm(ClientId(1), told);
        assert!(recalls.are_done(&first) && recalls.are_done(&second));
    }
}
