//! Work on the objects of a target in a directory: what is wanted, and the file calls that a worker is handed for it.

use super::aside::Cut;
use super::names::Aside;
use super::seen::Seen;
use super::Dir;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::requests::order::Place;
use crate::requests::ranges::{changed_ranges, common, Range};
use crate::storage::files::File;
use crate::storage::TargetFailure;
use std::sync::Arc;
use weir_wire::{Extent, Ino, Request, Seek};

/// Tries of work that finds no descriptor left, each after another file was closed.
const ATTEMPTS: u32 = 16;

/// Work that is wanted on an object.
// Requests are most of it, and an allocation each would cost more than the room.
#[allow(clippy::large_enum_variant)]
pub enum TargetWork {
    /// A client's request, with the bytes of a write, and the ranges that a change is confined to where a part of it was done before.
    Request(Request, Vec<u8>, Option<Vec<Range>>),
    /// The object is brought to stable storage.
    Sync,
    /// The object is cut, and its epoch raised; an object that has the epoch already stays as it is. Where `is_lasting`, the record of the
    /// epoch is on stable storage when the work ends, and [`TargetOutput::Unsynced`] asks for the rest.
    Cut {
        /// Its length from then on.
        length: u64,
        /// Its epoch from then on.
        epoch: u64,
        /// Whether the cut is to be on stable storage.
        is_lasting: bool,
    },
    /// A cut of the object, which is made, is brought to stable storage.
    SyncCut {
        /// Whether the record of its epoch may not be on stable storage yet.
        with_epoch: bool,
    },
    /// The part of a cut that the next start can undo.
    CutUndoably {
        /// Its length from then on.
        length: u64,
        /// Its epoch from then on.
        epoch: u64,
    },
    /// The object goes, if no call has written to it with success: a failed call made it.
    RemoveUnwritten,
    /// The object goes. A removal that a power loss undoes is repeated by the next start.
    Remove,
    /// All bytes of the object go, unless its epoch is another one by now.
    Vacate {
        /// The epoch.
        epoch: u64,
    },
    /// An object that was set aside goes.
    Discard(Aside),
    /// The objects are listed.
    List,
}

/// The output of work on a target.
pub enum TargetOutput {
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
    /// A cut is made, and [`TargetWork::SyncCut`] brings it to stable storage. Others may be on the object meanwhile, so none waits for a
    /// device.
    Unsynced {
        /// As in the work.
        with_epoch: bool,
    },
}

/// File calls for a worker.
pub struct FileWork {
    dir: Option<Arc<Dir>>,
    /// The work, or its outcome where no call is needed.
    work: Decided,
    seen: Seen,
    /// Files that make room for others: a worker closes them, as that may take time.
    closing: Vec<File>,
    attempts: u32,
}

/// The work that is to be done, or its outcome where no call is needed.
pub(in crate::storage) type Decided = Result<TargetWork, Result<TargetOutput, TargetFailure>>;

impl FileWork {
    pub(in crate::storage) fn new(dir: &Arc<Dir>, work: Decided, seen: Seen, closing: Vec<File>) -> FileWork {
        FileWork { dir: Some(Arc::clone(dir)), work, seen, closing, attempts: 0 }
    }

    /// No calls: nothing is left of the target.
    pub(crate) fn none(place: Place) -> FileWork {
        let work = Err(Ok(TargetOutput::Done));
        FileWork { dir: None, work, seen: Seen::of(place), closing: Vec::new(), attempts: 0 }
    }

    /// The number of the target.
    pub(crate) fn target(&self) -> usize {
        self.seen.target()
    }

    /// The work is tried again after this file was closed.
    pub(in crate::storage) fn again(&mut self, closing: Option<File>) {
        self.attempts += 1;
        self.closing.extend(closing);
    }

    /// Makes the calls, which block.
    ///
    /// # Errors
    /// No descriptor was left: the work is to be tried again when another file was closed.
    pub(crate) fn carry_out(mut self) -> Result<(Seen, Result<TargetOutput, TargetFailure>), Box<FileWork>> {
        self.closing.clear();
        let (Ok(work), Some(dir)) = (&self.work, &self.dir) else {
            return Ok((self.seen, self.work.err().unwrap_or(Ok(TargetOutput::Done))));
        };
        let outcome = work.run(dir, &mut self.seen);
        if let Err(failure) = outcome {
            if is_want_of_descriptors(failure) && self.attempts < ATTEMPTS {
                return Err(Box::new(self));
            }
            dir.examine(&mut self.seen, failure);
        }
        let outcome = match (outcome, self.work) {
            (Err(TargetFailure::Full), Ok(TargetWork::Request(_, bytes, _))) => {
                Ok(TargetOutput::NoRoom(bytes))
            }
            (outcome, _) => outcome,
        };
        Ok((self.seen, outcome))
    }
}

impl TargetWork {
    fn run(&self, dir: &Dir, seen: &mut Seen) -> Result<TargetOutput, TargetFailure> {
        match self {
            TargetWork::Request(request, bytes, None) => return answered(dir, seen, request, bytes),
            TargetWork::Request(request, bytes, Some(left)) => confined(request, bytes, left)
                .try_for_each(|(request, bytes)| answered(dir, seen, &request, &bytes).map(drop))?,
            #[cfg(any(test, feature = "world"))]
            TargetWork::Sync if mutants::is(Mutant::ObjectsUnsynced) => {}
            TargetWork::Sync => dir.sync(seen)?,
            TargetWork::Cut { length, epoch, is_lasting } => {
                dir.cut(seen, *length, *epoch, *is_lasting)?;
                if *is_lasting {
                    return Ok(TargetOutput::Unsynced { with_epoch: false });
                }
            }
            TargetWork::SyncCut { with_epoch } => dir.sync_cut(seen, *with_epoch)?,
            TargetWork::CutUndoably { length, epoch } => {
                return Ok(TargetOutput::Cut(dir.cut_undoably(seen, *length, *epoch)?));
            }
            TargetWork::Remove | TargetWork::RemoveUnwritten | TargetWork::Vacate { .. } => {
                dir.remove(seen, matches!(self, TargetWork::Remove))?;
            }
            TargetWork::Discard(aside) => dir.discard(seen, *aside)?,
            TargetWork::List => return Ok(TargetOutput::Objects(dir.listed()?)),
        }
        Ok(TargetOutput::Done)
    }
}

/// Carries a client's request out.
fn answered(
    dir: &Dir,
    seen: &mut Seen,
    request: &Request,
    bytes: &[u8],
) -> Result<TargetOutput, TargetFailure> {
    match request {
        Request::Read { extents, .. } => return Ok(TargetOutput::Bytes(dir.read(seen, extents)?)),
        Request::Write { extents, .. } => dir.write(seen, extents, bytes)?,
        Request::Reserve { offset, length, punch: true, .. } => dir.punch(seen, *offset, *length)?,
        Request::Reserve { offset, length, .. } => dir.allocate(seen, *offset, *length)?,
        Request::ObjectSeek { offset, seek, .. } => {
            return Ok(TargetOutput::Position(dir.seek(seen, *offset, *seek == Seek::Data)?));
        }
        _ => return Err(TargetFailure::Device(rustix::io::Errno::INVAL.raw_os_error())),
    }
    Ok(TargetOutput::Done)
}

fn is_want_of_descriptors(failure: TargetFailure) -> bool {
    use rustix::io::Errno;
    let TargetFailure::Device(raw) = failure else { return false };
    matches!(Errno::from_raw_os_error(raw), Errno::MFILE | Errno::NFILE)
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
