//! Blocking work, as data: the calls on files that a step hands out. A worker carries a piece of work out, in any order and beside
//! others, and its end comes back to the core with the output.

use crate::control::question::NotChanged;
use crate::durability::{NamesBegun, NamesTicket, Slice, Ticket};
use crate::home::Joined;
use crate::journal::{JournalError, MarkTicket, SnapshotDone, SyncTicket};
use crate::membership::{OpeningTicket, SettingsTicket};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::errno;
use crate::requests::ranges::{changed_ranges, common, Range};
use crate::storage::{Aside, Cut, Dir, TargetFailure};
use std::io;
use std::sync::Arc;
use weir_wire::{Extent, Ino, PeerRequest, Request, Seek};

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
    /// A target that joins is opened.
    Open(OpeningTicket),
    /// The journal of names that go to another host is begun.
    Names(NamesTicket),
}

/// Work on the objects of a target in a directory.
pub enum TargetWork {
    /// A client's request, with the bytes of a write, and the ranges that a change is confined to where a part of it was done before.
    Request(Request, Vec<u8>, Option<Vec<Range>>),
    /// An object is brought to stable storage.
    Sync(Ino),
    /// An object is cut or removed, for its home. Where `is_lasting`, a cut is on stable storage before it is answered: one file system
    /// does not keep the order of its names with the home's journal. A removal that a power loss undoes is repeated by the next start.
    Change {
        /// The change.
        request: PeerRequest,
        /// Whether a cut is on stable storage when it ends.
        is_lasting: bool,
    },
    /// A cut of an object, which is made, is brought to stable storage.
    SyncCut {
        /// The object.
        object: Ino,
        /// Whether the record of its epoch is not on stable storage yet.
        with_epoch: bool,
    },
    /// The file of an object goes that no call has written to with success: a failed call made it.
    RemoveUnwritten(Ino),
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
    /// A change is made, and the rest of it brings it to stable storage. Others may be on the object meanwhile, so none waits for a device.
    Unsynced(Box<Work>),
    /// The ticket of a synchronisation, and the synchronisation's result.
    Synced(Box<SyncTicket>, io::Result<()>),
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
            Work::Open(ticket) => Ok(WorkOutput::Opened(Box::new(ticket.run()))),
            Work::Names(ticket) => Ok(WorkOutput::Names(Box::new(ticket.run()))),
        }
    }
}

impl TargetWork {
    fn carry_out(self, dir: &Arc<Dir>) -> Result<WorkOutput, TargetFailure> {
        match self {
            TargetWork::Request(request, bytes, None) => {
                return match answered(dir, &request, &bytes) {
                    Err(TargetFailure::Full) => Ok(WorkOutput::NoRoom(bytes)),
                    outcome => outcome,
                };
            }
            TargetWork::Request(request, bytes, Some(left)) => {
                let outcome = confined(&request, &bytes, &left)
                    .try_for_each(|(request, bytes)| answered(dir, &request, &bytes).map(drop));
                return match outcome {
                    Err(TargetFailure::Full) => Ok(WorkOutput::NoRoom(bytes)),
                    outcome => outcome.map(|()| WorkOutput::Done),
                };
            }
            #[cfg(any(test, feature = "world"))]
            TargetWork::Sync(_) if mutants::is(Mutant::ObjectsUnsynced) => {}
            TargetWork::Sync(object) => dir.sync(object)?,
            TargetWork::Change { request, is_lasting } => return change(dir, &request, is_lasting),
            TargetWork::SyncCut { object, with_epoch } => dir.sync_cut(object, with_epoch)?,
            TargetWork::RemoveUnwritten(object) => dir.remove_unwritten(object)?,
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

/// The parts of a change that lie in some ranges.
fn confined<'a>(
    request: &'a Request,
    bytes: &'a [u8],
    left: &'a [Range],
) -> impl Iterator<Item = (Request, Vec<u8>)> + 'a {
    let mut rest = bytes;
    changed_ranges(request).into_iter().flat_map(move |whole| {
        let (own, after) = rest.split_at(rest.len().min((whole.1 - whole.0) as usize));
        rest = after;
        let parts = common(whole, left).map(move |(begin, end)| {
            let mut part = request.clone();
            match &mut part {
                Request::Write { extents, .. } => {
                    *extents = vec![Extent { offset: begin, length: (end - begin) as u32 }];
                }
                Request::Reserve { offset, length, .. } => (*offset, *length) = (begin, end - begin),
                _ => {}
            }
            let within = |at: u64| own.len().min((at - whole.0) as usize);
            (part, own[within(begin)..within(end)].to_vec())
        });
        parts.collect::<Vec<_>>()
    })
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
fn change(dir: &Arc<Dir>, request: &PeerRequest, is_lasting: bool) -> Result<WorkOutput, TargetFailure> {
    let (object, length, epoch, is_lasting) = match request {
        PeerRequest::TruncateObject { ino, target, length, epoch } => {
            (ino.object_on(*target), *length, *epoch, is_lasting)
        }
        PeerRequest::FenceObject { ino, target, length, epoch } => {
            (ino.object_on(*target), *length, *epoch, true)
        }
        PeerRequest::RemoveObject { ino, target } => {
            return dir.remove(ino.object_on(*target)).map(|()| WorkOutput::Done)
        }
        _ => return Ok(WorkOutput::Done),
    };
    if !is_lasting {
        return dir.truncate(object, length, epoch).map(|()| WorkOutput::Done);
    }
    let is_raised = dir.cut_lastingly(object, length, epoch)?;
    let rest = TargetWork::SyncCut { object, with_epoch: !is_raised };
    Ok(WorkOutput::Unsynced(Box::new(Work::OnTarget(Arc::clone(dir), rest))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_placement::{ServerId, TargetId};
    use weir_wire::{Description, Fence, HandleId, Rights, SiteKey};

    /// The bytes of an object that the changes reach.
    const REACH_BYTES: usize = 64;

    fn ranges(most: usize) -> impl Strategy<Value = Vec<Range>> {
        proptest::collection::vec((0..REACH_BYTES as u64, 0..=REACH_BYTES as u64), 1..most)
    }

    proptest! {
        /// Where a part of a change was done before, the change is done at the bytes that are left, and as it would be there as a whole.
        #[test]
        fn a_confined_change_changes_the_bytes_that_are_left(
            written in ranges(4), left in ranges(4), is_punch in any::<bool>(),
        ) {
            let of = Description { ino: Ino(7), handle: HandleId(1), uid: 0 };
            let capability = SiteKey::new([1; 32]).capability(of, Rights { read: true, write: true }, 0);
            let target = TargetId { server: ServerId(0), index: 0 };
            let (epoch, fence) = (0, Fence::NONE);
            let length = |(begin, end): &Range| end.saturating_sub(*begin);
            let extents = |ranges: &[Range]| -> Vec<Extent> {
                ranges.iter().map(|range| Extent { offset: range.0, length: length(range) as u32 }).collect()
            };
            let request = match is_punch {
                true => Request::Reserve { capability, target, epoch, fence, offset: written[0].0, length: length(&written[0]), punch: true },
                false => Request::Write { capability, target, epoch, fence, extents: extents(&written), publication: None },
            };
            let total: u64 = if is_punch { 0 } else { written.iter().map(length).sum() };
            let payload: Vec<u8> = (0..total).map(|number| number as u8 + 1).collect();
            let apply = |bytes: &mut [u8], request: &Request, payload: &[u8]| {
                let mut rest = payload.iter();
                for (begin, end) in changed_ranges(request) {
                    bytes[begin as usize..end as usize].fill_with(|| rest.next().copied().unwrap_or(0));
                }
            };
            let before = [255; REACH_BYTES];
            let (mut whole, mut confined_to) = (before, before);
            apply(&mut whole, &request, &payload);
            for (part, bytes) in confined(&request, &payload, &left) {
                apply(&mut confined_to, &part, &bytes);
            }
            for at in 0..REACH_BYTES {
                let is_left = left.iter().any(|&(begin, end)| begin <= at as u64 && (at as u64) < end);
                prop_assert_eq!(confined_to[at], if is_left { whole[at] } else { before[at] }, "byte {}", at);
            }
        }
    }
}
