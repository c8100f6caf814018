//! The names of a store in memory that go to another host: a journal is begun for them, with a snapshot of all of them.

use super::{Durability, OwnJournal, Purpose, JOURNAL_SCHEMA};
use crate::control::question::NotChanged;
use crate::home::LeavingNames;
use crate::journal::{JournalError, SnapshotDone};
use crate::namespace::Namespace;
use std::sync::mpsc::SyncSender;

/// Askers that may wait for one departure: commands that are repeated while a slow disk takes the names.
const ASKERS_MAX: usize = 64;

/// Whoever waits until the names are in files.
pub(crate) type Asker = SyncSender<Result<(), NotChanged>>;

/// Names that are being brought into files.
#[derive(Default)]
pub(super) struct Departure {
    askers: Vec<Asker>,
    /// All names are in files, or the error.
    end: Option<Result<(), JournalError>>,
}

/// A journal that is to be begun in an empty folder.
pub struct NamesTicket(Box<dyn LeavingNames>);

/// The begun journal, or the error.
pub struct NamesBegun(Result<OwnJournal, JournalError>);

impl NamesTicket {
    /// A journal in a folder.
    pub(crate) fn new(folder: Box<dyn LeavingNames>) -> NamesTicket {
        NamesTicket(folder)
    }

    /// Empties the folder, and begins the journal; the call blocks.
    pub(crate) fn run(self) -> NamesBegun {
        let opened = self.0.empty().and_then(|empty| OwnJournal::open(empty, JOURNAL_SCHEMA, |_| {}));
        NamesBegun(opened.map(|(journal, _)| journal))
    }
}

impl Durability {
    /// Whether the names are in files.
    pub(crate) fn keeps_names(&self) -> bool {
        self.journal.is_some() && self.departure.askers.is_empty()
    }

    /// Has all names of a store that keeps nothing brought into files, for `asker`. Answers whether a [`NamesTicket`] is to be run: a
    /// departure that is under way serves everybody who asks.
    ///
    /// # Errors
    /// Too many wait for it.
    pub(crate) fn keep_names(&mut self, asker: Asker) -> Result<bool, Asker> {
        if self.departure.askers.len() >= ASKERS_MAX {
            return Err(asker);
        }
        self.departure.askers.push(asker);
        Ok(self.departure.askers.len() == 1)
    }

    /// The journal of the names was begun, or not. The event loop shows the names to it like those of any other snapshot.
    pub(crate) fn names_begun(&mut self, begun: NamesBegun, namespace: &mut Namespace) {
        let mut journal = match begun.0 {
            Ok(journal) => journal,
            Err(error) => return self.end_departure(Err(error)),
        };
        let snapshot = journal.snapshot_begin();
        (self.journal, self.is_for_a_move) = (Some(journal), true);
        self.begin_writing(snapshot, Purpose::Departure, namespace);
    }

    /// The snapshot of the names is in force, or not.
    pub(crate) fn names_written(&mut self, result: Result<SnapshotDone, JournalError>) {
        let Some(journal) = &mut self.journal else { return };
        let written = journal.snapshot_complete(result).map(drop);
        self.end_departure(written);
    }

    /// The names are in files, or in memory alone, as before.
    pub(super) fn end_departure(&mut self, end: Result<(), JournalError>) {
        if end.is_err() {
            (self.journal, self.is_for_a_move) = (None, false);
        }
        self.departure.end = Some(end);
    }

    /// The end of a departure, and everybody who waits for it.
    pub(crate) fn take_departed(&mut self) -> Option<(Vec<Asker>, Result<(), JournalError>)> {
        let end = self.departure.end.take()?;
        Some((std::mem::take(&mut self.departure.askers), end))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read_names, SnapshotStep};
    use super::*;
    use crate::journal::{MemoryStorage, Storage};
    use crate::namespace::{Change, Settings};
    use std::sync::mpsc::{sync_channel, Receiver};
    use std::sync::Arc;
    use weir_placement::{LayoutDefaults, ServerId, TargetId};
    use weir_wire::{Moment, SiteKey};

    struct Memory(MemoryStorage);

    impl LeavingNames for Memory {
        fn empty(self: Box<Self>) -> Result<Arc<dyn Storage>, JournalError> {
            Ok(Arc::new(self.0))
        }
    }

    fn namespace() -> Namespace {
        Namespace::new(Settings {
            server: ServerId(0),
            servers: vec![ServerId(0)],
            targets: vec![TargetId { server: ServerId(0), index: 0 }],
            layout: LayoutDefaults { stripe_bytes: 4096, stripe_count: 1 },
            kept_bytes_max: 1 << 32,
            key: SiteKey::new([7; 32]),
        })
    }

    /// A start of the server, which is a change of its own.
    fn start(namespace: &mut Namespace) -> Change {
        let change = namespace.start(namespace.files().starts(), Moment { seconds: 7, nanoseconds: 0 });
        namespace.apply(&change);
        change
    }

    fn ask(durability: &mut Durability) -> (bool, Receiver<Result<(), NotChanged>>) {
        let (sender, receiver) = sync_channel(1);
        (durability.keep_names(sender).expect("few ask"), receiver)
    }

    /// Has the names written as the event loop and its workers do, with a change in the midst of it.
    fn write(durability: &mut Durability, namespace: &mut Namespace, storage: &MemoryStorage) {
        let begun = NamesTicket::new(Box::new(Memory(storage.clone()))).run();
        durability.names_begun(begun, namespace);
        let change = start(namespace);
        durability.append(&[change], namespace, weir_fairshare::Nanos::ZERO).unwrap();
        while durability.is_showing() {
            match durability.go_on_writing(namespace, || true) {
                None => {}
                Some(SnapshotStep::Slice(slice)) => durability.end_slice(slice.run(), namespace),
                Some(SnapshotStep::Seal(ticket, _)) => durability.names_written(ticket.run()),
            }
        }
    }

    #[test]
    fn names_are_in_files_with_the_changes_since_and_everybody_who_asked_is_answered_once() {
        let (mut durability, mut namespace) = (Durability::new(None), namespace());
        start(&mut namespace);
        let storage = MemoryStorage::new();
        let (is_first, one) = ask(&mut durability);
        let (is_second_first, other) = ask(&mut durability);
        assert!(is_first && !is_second_first, "one departure serves both");
        assert!(durability.take_departed().is_none() && !durability.keeps_names());
        write(&mut durability, &mut namespace, &storage);
        let (askers, end) = durability.take_departed().expect("it ended");
        assert_eq!(askers.len(), 2);
        end.unwrap();
        assert!(durability.keeps_names() && !durability.is_durable());
        drop((askers, one, other, durability));
        let mut arrived = super::tests::namespace();
        read_names(Arc::new(storage), &mut arrived).unwrap();
        assert_eq!(arrived.files().starts(), namespace.files().starts());
    }

    #[test]
    fn names_that_a_full_disk_does_not_take_stay_in_memory_and_go_at_the_next_try() {
        let (mut durability, mut namespace) = (Durability::new(None), namespace());
        start(&mut namespace);
        let storage = MemoryStorage::new();
        storage.limit(Some(0));
        let (_, _asker) = ask(&mut durability);
        let begun = NamesTicket::new(Box::new(Memory(storage))).run();
        durability.names_begun(begun, &mut namespace);
        let (_, end) = durability.take_departed().expect("it ended");
        end.unwrap_err();
        assert!(!durability.keeps_names());
        let (is_first, _asker) = ask(&mut durability);
        assert!(is_first, "the next who asks has it tried again");
        write(&mut durability, &mut namespace, &MemoryStorage::new());
        durability.take_departed().expect("it ended").1.unwrap();
        assert!(durability.keeps_names());
    }
}
