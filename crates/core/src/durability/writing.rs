//! A snapshot of the namespace on its way to the journal's device. The event loop shows some records in each turn, and a worker writes
//! them meanwhile. Changes go on: the namespace shows each subject as it was when the snapshot began.

use crate::journal::{JournalError, SliceTicket, SnapshotWriter};
use crate::namespace::{Change, Namespace};

/// Records between two looks at the clock: some tens of microseconds.
const RECORDS_PER_LOOK: usize = 64;

/// The frames that a worker writes.
pub(crate) type Slice = SliceTicket;
type Writer = SnapshotWriter<Change>;

/// The purpose of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It replaces a long journal.
    Compaction,
    /// A stopped journal begins anew with it.
    Renewal,
    /// The names of a store in memory go to another host.
    Departure,
}

/// A snapshot that is being written.
pub(super) struct Writing {
    writer: Writer,
    purpose: Purpose,
    /// A worker has a slice of it.
    is_away: bool,
}

/// The end of a look at a snapshot.
pub(super) enum Shown {
    /// The turn is over.
    Some,
    /// A worker is to write these frames.
    Slice(Slice),
    /// All records are shown.
    All,
}

impl Writing {
    /// Begins to show the namespace of now.
    pub(super) fn begin(
        mut writer: Writer,
        purpose: Purpose,
        namespace: &mut Namespace,
    ) -> Result<Writing, (Writer, JournalError)> {
        let first = namespace.begin_snapshot().try_for_each(|change| writer.push(&change));
        match first {
            Ok(()) => Ok(Writing { writer, purpose, is_away: false }),
            Err(error) => Err((writer, error)),
        }
    }

    /// Shows records until the turn is over, a slice is full or none is left.
    pub(super) fn show(
        &mut self,
        namespace: &mut Namespace,
        is_over: impl Fn() -> bool,
    ) -> Result<Shown, JournalError> {
        loop {
            for _ in 0..RECORDS_PER_LOOK {
                let Some(change) = namespace.next_of_snapshot() else { return Ok(Shown::All) };
                self.writer.push(&change)?;
                if let Some(slice) = self.writer.take_slice() {
                    self.is_away = true;
                    return Ok(Shown::Slice(slice));
                }
            }
            if is_over() {
                return Ok(Shown::Some);
            }
        }
    }

    pub(super) fn is_away(&self) -> bool {
        self.is_away
    }

    pub(super) fn came_back(&mut self) {
        self.is_away = false;
    }

    pub(super) fn into_parts(self) -> (Writer, Purpose) {
        (self.writer, self.purpose)
    }
}
