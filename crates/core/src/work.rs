//! Blocking work, as data: the calls on files that a step hands out. A worker carries a piece of work out, in any order and beside
//! others, and its end comes back to the core with the output.

use crate::durability::{Slice, Ticket};
use crate::journal::{JournalError, MarkTicket, SnapshotDone, SyncTicket};
use crate::membership::SettingsTicket;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::errno;
use crate::storage::{Aside, Cut, Dir, TargetFailure};
use std::io;
use std::sync::Arc;
use weir_wire::{Ino, PeerRequest, Request, Seek};

/// A piece of blocking work.
pub enum Work {
    /// It is done on the files of a target.
    OnTarget(Arc<Dir>, TargetWork),
    /// The journal is brought to stable storage, after the names of objects that were set aside on these targets.
    Sync(Vec<Arc<Dir>>, SyncTicket),
    /// The durable mark is brought to stable storage.
    Mark(MarkTicket),
    /// A slice of a snapshot is written.
    Slice(Slice),
    /// The rest of a snapshot is written, and the snapshot is put in force.
    Snapshot(Box<Ticket>),
    /// Settings of the store are brought to stable storage.
    Settings(SettingsTicket),
}

/// Work on the objects of a target in a directory.
pub enum TargetWork {
    /// A client's request, with the bytes of a write.
    Request(Request, Vec<u8>),
    /// An object is brought to stable storage.
    Sync(Ino),
    /// An object is cut or removed, for its home. Where `is_lasting`, the change is on stable storage before it is answered: one file
    /// system does not keep the order of its names with the home's journal.
    Change {
        /// The change.
        request: PeerRequest,
        /// Whether it is on stable storage when it ends.
        is_lasting: bool,
    },
    /// The part of a cut that the next start can undo.
    CutUndoably {
        /// The object.
        object: Ino,
        /// Its length from then on.
        length: u64,
        /// Its epoch from then on.
        epoch: u64,
    },
    /// An object that was set aside goes.
    Discard(Aside),
    /// An object goes.
    Remove(Ino),
    /// All bytes of an object go, unless its epoch is another one by now.
    Vacate {
        /// The object.
        object: Ino,
        /// Its epoch from then on.
        epoch: u64,
    },
    /// The objects are listed.
    List,
}

/// The output of blocking work.
pub enum WorkOutput {
    /// Nothing to say.
    Done,
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// A position that was sought.
    Position(Option<u64>),
    /// Objects with their lengths.
    Objects(Vec<(Ino, u64)>),
    /// No room for these bytes.
    NoRoom(Vec<u8>),
    /// The part of a cut that the next start can undo.
    Cut(Cut),
    /// The ticket of a synchronisation, and the synchronisation's result.
    Synced(Box<SyncTicket>, io::Result<()>),
    /// The result of a slice of a snapshot.
    Slice(Result<(), JournalError>),
    /// The result of a snapshot.
    Snapshot(Result<SnapshotDone, JournalError>),
    /// The result of keeping settings.
    Settings(io::Result<()>),
}

impl Work {
    /// Carries the work out; the call blocks.
    ///
    /// # Errors
    /// The target's refusal. Failures of the journal are outputs.
    pub fn carry_out(self) -> Result<WorkOutput, TargetFailure> {
        match self {
            Work::OnTarget(dir, work) => dir.noted(work.carry_out(&dir)),
            Work::Sync(apart, ticket) => {
                let asides = apart.iter().try_for_each(|dir| dir.sync_asides());
                let result = asides.and_then(|()| ticket.run());
                Ok(WorkOutput::Synced(Box::new(ticket), result))
            }
            Work::Mark(ticket) => {
                // The mark before it is in force, and true as well.
                let _ = ticket.run();
                Ok(WorkOutput::Done)
            }
            Work::Slice(slice) => Ok(WorkOutput::Slice(slice.run())),
            Work::Snapshot(ticket) => Ok(WorkOutput::Snapshot(ticket.run())),
            Work::Settings(ticket) => Ok(WorkOutput::Settings(ticket.run())),
        }
    }
}

impl TargetWork {
    fn carry_out(self, dir: &Dir) -> Result<WorkOutput, TargetFailure> {
        match self {
            TargetWork::Request(request, bytes) => {
                return match answered(dir, &request, &bytes) {
                    Err(TargetFailure::Full) => Ok(WorkOutput::NoRoom(bytes)),
                    outcome => outcome,
                };
            }
            #[cfg(any(test, feature = "world"))]
            TargetWork::Sync(_) if mutants::is(Mutant::ObjectsUnsynced) => {}
            TargetWork::Sync(object) => dir.sync(object)?,
            TargetWork::Change { request, is_lasting } => change(dir, &request, is_lasting)?,
            TargetWork::CutUndoably { object, length, epoch } => {
                return dir.cut_undoably(object, length, epoch).map(WorkOutput::Cut);
            }
            TargetWork::Discard(aside) => dir.discard(aside)?,
            TargetWork::Remove(object) => dir.remove(object)?,
            TargetWork::Vacate { object, epoch } => dir.vacate(object, epoch)?,
            TargetWork::List => return Ok(WorkOutput::Objects(dir.listed()?)),
        }
        Ok(WorkOutput::Done)
    }
}

/// Carries a client's request out.
fn answered(dir: &Dir, request: &Request, bytes: &[u8]) -> Result<WorkOutput, TargetFailure> {
    match request {
        Request::Read { capability, target, epoch, extents, .. } => {
            dir.read(capability.ino.object_on(*target), *epoch, extents).map(WorkOutput::Bytes)
        }
        Request::Write { capability, target, epoch, extents, .. } => {
            dir.write(capability.ino.object_on(*target), *epoch, extents, bytes).map(|()| WorkOutput::Done)
        }
        Request::Reserve { capability, target, epoch, offset, length, punch, .. } => dir
            .reserve(capability.ino.object_on(*target), *epoch, *offset, *length, *punch)
            .map(|()| WorkOutput::Done),
        Request::ObjectSeek { capability, target, epoch, offset, seek } => dir
            .seek(capability.ino.object_on(*target), *epoch, *offset, *seek == Seek::Data)
            .map(WorkOutput::Position),
        _ => Err(TargetFailure::Device(i32::from(errno::EINVAL.0))),
    }
}

/// Changes an object whose home has durably recorded the change.
fn change(dir: &Dir, request: &PeerRequest, is_lasting: bool) -> Result<(), TargetFailure> {
    match request {
        PeerRequest::TruncateObject { ino, target, length, epoch } if !is_lasting => {
            dir.truncate(ino.object_on(*target), *length, *epoch)
        }
        PeerRequest::TruncateObject { ino, target, length, epoch }
        | PeerRequest::FenceObject { ino, target, length, epoch } => {
            dir.fence(ino.object_on(*target), *length, *epoch)
        }
        PeerRequest::RemoveObject { ino, target } => dir.remove(ino.object_on(*target)),
        _ => Ok(()),
    }
}
