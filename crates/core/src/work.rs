//! Blocking work, as data: the calls on files that a step hands out. A worker carries a piece of work out, in any order and beside
//! others, and its end comes back to the core with the output.

use crate::control::question::NotChanged;
use crate::durability::{NamesBegun, NamesTicket, Slice, Ticket};
use crate::home::Joined;
use crate::journal::{JournalError, MarkTicket, SnapshotDone, SyncTicket};
use crate::membership::{OpeningTicket, SettingsTicket};
use crate::storage::{AsidesTicket, FileWork, RefillTicket, Refilled, Seen, TargetFailure, TargetOutput};
use std::io;

/// A piece of blocking work.
// Work on targets is most of it, and an allocation each would cost more than the room.
#[allow(clippy::large_enum_variant)]
pub enum Work {
    /// It is done on the files of a target.
    OnTarget(FileWork),
    /// The journal is brought to stable storage, after the names of objects that were set aside.
    Sync(Vec<AsidesTicket>, SyncTicket),
    /// The journal's reserve is filled again.
    Refill(RefillTicket),
    /// The durable mark is brought to stable storage.
    Mark(MarkTicket),
    /// A slice of a snapshot is written.
    Slice(Slice),
    /// The rest of a snapshot is written, and the snapshot is put in force.
    Snapshot(Box<Ticket>),
    /// Settings of the store are brought to stable storage.
    Settings(SettingsTicket),
    /// A target that joins is opened.
    Open(OpeningTicket),
    /// The journal of names that go to another host is begun.
    Names(NamesTicket),
}

/// The output of blocking work.
// As of the work.
#[allow(clippy::large_enum_variant)]
pub enum WorkOutput {
    /// Nothing to say.
    Done,
    /// The changes of calls on the files of a target, and the outcome of their work.
    OnTarget(Seen, Result<TargetOutput, TargetFailure>),
    /// Work on a target found no descriptor left, and is to be tried again.
    WithoutDescriptor(Box<FileWork>),
    /// The tickets of a synchronisation, and the synchronisation's result.
    Synced(Box<SyncTicket>, Synced),
    /// The result of a slice of a snapshot.
    Slice(Result<(), JournalError>),
    /// The result of a snapshot.
    Snapshot(Result<SnapshotDone, JournalError>),
    /// The result of keeping settings.
    Settings(io::Result<()>),
    /// A target that joins, or its refusal.
    Opened(Box<Result<Joined, NotChanged>>),
    /// The journal of names that go to another host.
    Names(Box<NamesBegun>),
    /// The journal's reserve was looked at.
    Refilled(Refilled),
}

/// The result of a synchronisation of the journal.
pub struct Synced {
    /// The names before it, and whether they are on stable storage.
    pub(crate) asides: (Vec<AsidesTicket>, bool),
    /// The result.
    pub(crate) result: io::Result<()>,
}

impl Work {
    /// Carries the work out; the call blocks.
    pub fn carry_out(self) -> WorkOutput {
        match self {
            Work::OnTarget(work) => match work.carry_out() {
                Ok((seen, outcome)) => WorkOutput::OnTarget(seen, outcome),
                Err(work) => WorkOutput::WithoutDescriptor(work),
            },
            Work::Sync(asides, ticket) => {
                let named = asides.iter().try_for_each(AsidesTicket::run);
                let are_named = named.is_ok();
                let result = named.and_then(|()| ticket.run());
                WorkOutput::Synced(Box::new(ticket), Synced { asides: (asides, are_named), result })
            }
            Work::Mark(ticket) => {
                // The mark before it is in force, and true as well.
                let _ = ticket.run();
                WorkOutput::Done
            }
            Work::Refill(ticket) => WorkOutput::Refilled(ticket.run()),
            Work::Slice(slice) => WorkOutput::Slice(slice.run()),
            Work::Snapshot(ticket) => WorkOutput::Snapshot(ticket.run()),
            Work::Settings(ticket) => WorkOutput::Settings(ticket.run()),
            Work::Open(ticket) => WorkOutput::Opened(Box::new(ticket.run())),
            Work::Names(ticket) => WorkOutput::Names(Box::new(ticket.run())),
        }
    }
}
