//! Reads and writes of objects: checked, and carried out in the memory of a target.

use super::arrival::Sink;
use super::order::{Changed, Place};
use super::request::{InHand, Outcome};
use crate::links::connection::Tail;
use crate::namespace::errno;
use crate::storage::{Ram, Segment, TargetFailure, TargetWork};
use crate::unpublished::{Part, Reach};
use weir_wire::{limits, Capability, Errno, Extent, Fence, Ino, PeerRequest, Reply, Request, Seek};

/// Reads up to this size are copied into the reply: cheaper than keeping their pages in place.
pub(crate) const COPY_BYTES_MAX: u64 = 16 * 1024;

/// The sum of a list of extents, in bytes.
pub(crate) fn total_bytes(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| u64::from(extent.length)).sum()
}

/// The capability with which a request reaches for bytes, or for news of them.
pub(crate) fn object_capability(request: &Request) -> Option<&Capability> {
    match request {
        Request::Read { capability, .. }
        | Request::Write { capability, .. }
        | Request::Append { capability }
        | Request::Reserve { capability, .. }
        | Request::ObjectSeek { capability, .. }
        | Request::SyncObject { capability, .. }
        | Request::ObjectChanges { capability, .. }
        | Request::Watch { capability } => Some(capability),
        _ => None,
    }
}

/// The fence of a request that reads or changes the bytes of an object.
pub(crate) fn object_fence(request: &Request) -> Fence {
    match request {
        Request::Read { fence, .. } | Request::Write { fence, .. } | Request::Reserve { fence, .. } => *fence,
        _ => Fence::NONE,
    }
}

/// The object whose bytes a request reads or changes.
pub(crate) fn object_of(request: &Request) -> Option<Ino> {
    match request {
        Request::Read { capability, target, .. }
        | Request::Write { capability, target, .. }
        | Request::Reserve { capability, target, .. }
        | Request::ObjectSeek { capability, target, .. } => Some(capability.ino.object_on(*target)),
        _ => None,
    }
}

/// The bytes of its object that a request changes. An allocation changes none.
pub(crate) fn changed_bytes(request: &Request) -> Changed {
    match request {
        Request::Write { extents, .. } => Changed::of_extents(extents),
        Request::Reserve { offset, length, punch: true, .. } => {
            Changed::Bytes(*offset, offset.saturating_add(*length))
        }
        _ => Changed::Nothing,
    }
}

/// The file whose bytes a request changes where mounts may hold pages of them.
pub(crate) fn overwritten(request: &Request) -> Option<Ino> {
    match request {
        Request::Write { capability, .. }
        | Request::Append { capability }
        | Request::Reserve { capability, punch: true, .. } => Some(capability.ino),
        Request::Change { at, change, .. } if change.size_bytes.is_some() && at.path.is_empty() => {
            Some(at.ino)
        }
        _ => None,
    }
}

/// The capability with which a request makes a file longer.
pub(crate) fn growing_capability(request: &Request) -> Option<&Capability> {
    match request {
        Request::Publish { capability, .. } | Request::AppendEnd { capability, .. } => Some(capability),
        Request::Change { change, .. } => change.capability.as_ref(),
        _ => object_capability(request),
    }
}

/// The part to which a write or a reservation adds bytes, and its reach there.
pub(crate) fn unpublished_part(request: &InHand) -> Option<(Part, Reach)> {
    let (capability, place, reach) = match &request.request {
        Request::Write { capability, target, extents, .. } => {
            (capability, *target, Reach::of_extents(extents))
        }
        Request::Reserve { capability, target, offset, length, punch: false, .. } => {
            (capability, *target, Reach::of([(*offset, *length)]))
        }
        _ => return None,
    };
    let (ino, uid, client) = (capability.ino, capability.uid, request.sender.client);
    Some((Part { ino, place, uid, client }, reach))
}

/// Checks the rights and the ranges of a request for bytes; its capability holds.
///
/// # Errors
/// The error number of the refusal.
pub(crate) fn check(request: &InHand, extents: &[Extent], is_write: bool) -> Result<(), Errno> {
    let Some(capability) = object_capability(&request.request) else { return Err(errno::EINVAL) };
    let rights = capability.rights;
    let is_allowed = match &request.request {
        // `lseek` asks for no access mode.
        Request::ObjectSeek { .. } => rights.read || rights.write,
        _ if is_write => rights.write,
        _ => rights.read,
    };
    if !is_allowed {
        return Err(errno::EBADF);
    }
    let is_outside =
        |offset: u64, length: u64| offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES);
    let outside = match request.request {
        Request::Reserve { offset, length, .. } => is_outside(offset, length),
        Request::ObjectSeek { offset, .. } => is_outside(offset, 0),
        _ => extents.iter().any(|extent| is_outside(extent.offset, u64::from(extent.length))),
    };
    if outside {
        return Err(errno::EFBIG);
    }
    let bytes = total_bytes(extents);
    let expected = if matches!(request.request, Request::Write { .. }) { bytes } else { 0 };
    let is_wrong = extents.len() > limits::EXTENTS
        || bytes > limits::PAYLOAD_BYTES as u64
        || expected != u64::from(request.header.payload_bytes);
    if is_wrong {
        Err(errno::EINVAL)
    } else {
        Ok(())
    }
}

/// Carries a request out in the memory of target `target`.
///
/// # Errors
/// The target's refusal. The payload of a refused write is kept, so that the write can be tried again.
pub(crate) fn run_in_memory(
    ram: &mut Ram,
    target: usize,
    request: &mut InHand,
) -> Result<Outcome, TargetFailure> {
    match &request.request {
        Request::Read { capability, target: place, epoch, extents, .. } => {
            let plan = ram.begin_read(capability.ino.object_on(*place), *epoch, extents)?;
            let mut outcome = Outcome::of(Reply::Data { size: None });
            if total_bytes(extents) <= COPY_BYTES_MAX {
                outcome.payload = copied(ram, &plan.segments);
                ram.finish_read(&plan);
            } else {
                outcome.tail = Some(Tail::Arena { target, plan });
            }
            Ok(outcome)
        }
        Request::Write { capability, target: place, epoch, extents, .. } => {
            let object = capability.ino.object_on(*place);
            match request.arrival.take() {
                Sink::Arena { plan, .. } => ram.finish_write(plan)?,
                Sink::Buffer { bytes, filled } => {
                    let written = write_inline(ram, object, *epoch, extents, &bytes);
                    request.arrival.open(Sink::Buffer { bytes, filled });
                    written?;
                }
                _ => write_inline(ram, object, *epoch, extents, &request.payload)?,
            }
            Ok(Outcome::of(Reply::Written { size: None }))
        }
        Request::Reserve { capability, target: place, epoch, offset, length, punch, .. } => {
            let object = capability.ino.object_on(*place);
            if *punch {
                ram.punch(object, *epoch, *offset, *length)?;
            } else {
                ram.reserve(object, *epoch, *offset, *length)?;
            }
            Ok(Outcome::of(Reply::Done))
        }
        Request::ObjectSeek { capability, target: place, epoch, offset, seek } => {
            let position =
                ram.seek(capability.ino.object_on(*place), *epoch, *offset, *seek == Seek::Data)?;
            Ok(Outcome::of(Reply::Position(position)))
        }
        _ => Ok(Outcome::failed(errno::EINVAL)),
    }
}

fn copied(ram: &Ram, segments: &[Segment]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(segments.iter().map(Segment::length).sum());
    for segment in segments {
        match *segment {
            Segment::Bytes(region) => bytes.extend_from_slice(ram.bytes(region)),
            Segment::Zeros(length) => bytes.resize(bytes.len() + length, 0),
        }
    }
    bytes
}

/// Writes bytes that are here into the memory of a target.
///
/// # Errors
/// The target's refusal.
pub(crate) fn write_inline(
    ram: &mut Ram,
    ino: Ino,
    epoch: u64,
    extents: &[Extent],
    bytes: &[u8],
) -> Result<(), TargetFailure> {
    let plan = ram.begin_write(ino, epoch, extents)?;
    let mut rest = bytes;
    for region in plan.regions.clone() {
        let (part, after) = rest.split_at(region.length);
        ram.bytes_mut(region).copy_from_slice(part);
        rest = after;
    }
    Ok(ram.finish_write(plan)?)
}

/// The object that another server, or the namespace here, has changed.
pub(crate) fn changed_object(request: &PeerRequest) -> Option<Place> {
    match request {
        PeerRequest::TruncateObject { ino, target, .. }
        | PeerRequest::FenceObject { ino, target, .. }
        | PeerRequest::RemoveObject { ino, target } => Some((target.number(), ino.object_on(*target))),
        _ => None,
    }
}

/// The work that cuts or removes an object below the directory of a target. Where `is_lasting`, a cut is on stable storage before it is
/// answered: one file system does not keep the order of its names with the journal of the home.
pub(crate) fn change_in_directory(request: &PeerRequest, is_lasting: bool) -> Option<TargetWork> {
    match *request {
        PeerRequest::TruncateObject { length, epoch, .. } => {
            Some(TargetWork::Cut { length, epoch, is_lasting })
        }
        PeerRequest::FenceObject { length, epoch, .. } => {
            Some(TargetWork::Cut { length, epoch, is_lasting: true })
        }
        PeerRequest::RemoveObject { .. } => Some(TargetWork::Remove),
        _ => None,
    }
}

/// Cuts or removes an object in the memory of a target.
pub(crate) fn change_in_memory(ram: &mut Ram, request: &PeerRequest) {
    match request {
        PeerRequest::TruncateObject { ino, target, length, epoch }
        | PeerRequest::FenceObject { ino, target, length, epoch } => {
            ram.truncate(ino.object_on(*target), *length, *epoch);
        }
        PeerRequest::RemoveObject { ino, target } => ram.remove(ino.object_on(*target)),
        _ => {}
    }
}
