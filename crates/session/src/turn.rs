//! The append turn of a client: it is renewed while its client writes, and what was written decides how it ends.

use crate::{ClientError, Failure, Result, Size};
use rustix::io::Errno as System;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_placement::ServerId;
use weir_wire::{limits, Capability, Publication, Reply, Request, Sequence};

/// Renewals within the lease of an append turn: some may come late.
const RENEWALS: u64 = 5;

/// A turn that the home gave.
#[derive(Debug)]
pub struct Turn {
    capability: Capability,
    turn: Sequence,
    size: Size,
    /// The moment of the last renewal, in nanoseconds.
    renewed: AtomicU64,
}

/// The outcome of the writes in a turn.
#[derive(Debug)]
pub enum Wrote {
    /// So many bytes from the start of the turn are on their targets, without a gap, and the reason why no more are.
    Bytes(u64, Option<Failure>),
    /// The file was shortened or laid out anew meanwhile.
    Stale,
}

/// The end of a turn.
#[derive(Debug)]
pub struct Ending {
    wrote: Result<Wrote>,
    /// Whether a part of the bytes is appended where a target is full.
    takes_part: bool,
    publication: Option<Publication>,
    unexpected: ClientError,
}

/// The outcome of a turn.
#[derive(Debug)]
pub enum Appended {
    /// The bytes of the publication stand at the start of the turn, and the size and epoch of the file that the home told. A
    /// failure kept further bytes away.
    At(Publication, Option<(u64, u64)>, Option<Failure>),
    /// Nothing was appended, and another turn is taken.
    Again,
    /// Nothing was appended, because targets are full. Others may have room.
    Full(Failure),
    /// Nothing was appended.
    Failed(Failure),
}

impl Turn {
    /// The turn that the home gave at this end of the file.
    pub fn new(capability: Capability, turn: Sequence, size: Size, now: Duration) -> Turn {
        Turn { capability, turn, size, renewed: AtomicU64::new(now.as_nanos() as u64) }
    }

    /// The home of the file.
    pub fn home(&self) -> ServerId {
        self.capability.ino.home()
    }

    /// The end of the file in the turn, and its epoch.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The request that renews the turn, where that is due: long before its lease ends. The end of the turn tells of a turn that
    /// was lost.
    pub fn renewal(&self, now: Duration) -> Option<Request> {
        let renewed = Duration::from_nanos(self.renewed.load(Ordering::Relaxed));
        if now.saturating_sub(renewed).as_secs() < limits::TURN_LEASE_SECONDS / RENEWALS {
            return None;
        }
        self.renewed.store(now.as_nanos() as u64, Ordering::Relaxed);
        Some(Request::AppendRenew { capability: self.capability, turn: self.turn })
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// The failure of a target that may carry out its part late. So the turn is left to its lease, at whose end the home cuts the
    /// file: that part never lies over the bytes of the next appender.
    pub fn end(&self, wrote: Result<Wrote>, takes_part: bool) -> Result<Ending> {
        let (wrote, bytes) = match wrote {
            Err(error) if error.is_open() => return Err(error),
            Ok(Wrote::Bytes(_, Some(failure))) if failure.is_open() => return Err(failure.error),
            Ok(Wrote::Bytes(bytes, failure)) => {
                let is_kept_back = failure.as_ref().is_some_and(Failure::is_full) && !takes_part;
                (Ok(Wrote::Bytes(bytes, failure)), if is_kept_back { 0 } else { bytes })
            }
            wrote => (wrote, 0),
        };
        let Size { bytes: offset, epoch } = self.size;
        let publication = Publication { end: offset + bytes, written_bytes: bytes, epoch, reserved_end: 0 };
        let server = self.home();
        let unexpected = ClientError::UnexpectedReply { server, request: "AppendEnd" };
        Ok(Ending { wrote, takes_part, publication: (bytes > 0).then_some(publication), unexpected })
    }

    /// The request that ends the turn.
    pub fn end_request(&self, ending: &Ending) -> Request {
        let publication = ending.publication;
        Request::AppendEnd { capability: self.capability, turn: self.turn, publication }
    }
}

impl Ending {
    /// Takes the home's answer to the end of the turn.
    ///
    /// # Errors
    /// The error of the write, or of the answer.
    pub fn told(self, answer: Result<Reply>) -> Result<Appended> {
        let Wrote::Bytes(_, failure) = self.wrote? else { return Ok(Appended::Again) };
        match (answer, self.publication, failure) {
            // The turn went with a lost connection, or the server took it while this process was stopped.
            (Err(error), ..) if error.errno() == System::BADF.raw_os_error() => Ok(Appended::Again),
            (Ok(Reply::StaleEpoch { .. }), ..) => Ok(Appended::Again),
            (Err(error), ..) => Err(error),
            (Ok(Reply::Written { size }), Some(publication), failure) => {
                Ok(Appended::At(publication, size, failure))
            }
            (Ok(_), Some(publication), failure) => Ok(Appended::At(publication, None, failure)),
            (Ok(_), None, Some(failure)) if failure.is_full() && !self.takes_part => {
                Ok(Appended::Full(failure))
            }
            (Ok(_), None, Some(failure)) => Ok(Appended::Failed(failure)),
            (Ok(_), None, None) => Err(self.unexpected),
        }
    }
}
