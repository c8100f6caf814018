//! The requests of a call.

use weir_placement::TargetId;
use weir_wire::{Capability, Extent, Publication, Request};

/// A request. Reads and writes are borrowed, because a copy would cost each of them an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    Plain(&'a Request),
    Read {
        capability: Capability,
        target: TargetId,
        epoch: u64,
        extent: Extent,
    },
    Write {
        capability: Capability,
        target: TargetId,
        epoch: u64,
        extent: Extent,
        publication: Option<Publication>,
    },
}

impl Message<'_> {
    /// The capability with which the request reaches for bytes.
    pub(crate) fn capability(&self) -> Option<Capability> {
        match self {
            Message::Read { capability, .. } | Message::Write { capability, .. } => Some(*capability),
            Message::Plain(
                Request::Reserve { capability, .. }
                | Request::ObjectSeek { capability, .. }
                | Request::SyncObject { capability, .. }
                | Request::ObjectChanges { capability, .. }
                | Request::Watch { capability },
            ) => Some(*capability),
            Message::Plain(_) => None,
        }
    }

    /// The capability of the description through which the request reads or changes bytes of its file.
    pub(crate) fn changes_or_reads(&self) -> Option<Capability> {
        match self {
            Message::Read { capability, .. } | Message::Write { capability, .. } => Some(*capability),
            Message::Plain(
                Request::Reserve { capability, .. }
                | Request::Append { capability }
                | Request::AppendBegin { capability },
            ) => Some(*capability),
            Message::Plain(Request::Change { change, .. }) => change.capability,
            Message::Plain(_) => None,
        }
    }
}
