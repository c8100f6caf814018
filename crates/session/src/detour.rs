//! The way off full targets: the home lays the bytes behind a file's end on other targets, and the write goes on there.

use crate::{ClientError, Result};
use rustix::io::Errno as System;
use weir_placement::TargetId;
use weir_wire::{Capability, Request};

/// The reason why a write stopped.
#[derive(Debug)]
pub struct Failure {
    /// The error.
    pub error: ClientError,
    /// The targets that had no room.
    full: Vec<TargetId>,
    /// The epoch of the layout that named these targets.
    layout_epoch: u64,
    /// Whether a target may carry out its part of the write later.
    is_open: bool,
    /// Whether bytes behind the failure arrived beyond the size that the writer knew.
    has_leftovers: bool,
}

/// The full targets that one call has met.
#[derive(Debug, Default)]
pub struct Detours {
    full: Vec<TargetId>,
}

impl Failure {
    /// The failure that a target answered under the layout of `layout_epoch`.
    pub fn of(error: ClientError, target: TargetId, layout_epoch: u64) -> Failure {
        let full = if is_full(&error) { vec![target] } else { Vec::new() };
        let is_open = error.is_open();
        Failure { error, full, layout_epoch, is_open, has_leftovers: false }
    }

    /// Adds the failure of a further target of the same layout.
    pub fn add(&mut self, error: &ClientError, target: TargetId) {
        if is_full(error) {
            self.full.push(target);
        }
        self.is_open |= error.is_open();
    }

    /// Whether a target may carry out its part of the write later.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Notes whether bytes behind the failure arrived beyond the size.
    pub fn note_leftovers(&mut self, has_leftovers: bool) {
        self.has_leftovers = has_leftovers;
    }

    /// Whether bytes behind the failure are to be cut off. While a target may still carry out its part, a cut would have to wait
    /// for that target, and the outcome of the write is unknown in any case.
    pub fn has_leftovers(&self) -> bool {
        self.has_leftovers && !self.is_open
    }

    /// Whether other targets may help.
    pub fn is_full(&self) -> bool {
        !self.full.is_empty()
    }
}

impl Detours {
    /// The request for other targets behind the end of the file of `capability`, and the error of a call to which the home gives
    /// none.
    ///
    /// # Errors
    /// The failure itself, where other targets do not help.
    pub fn ask(&mut self, failure: Failure, capability: Capability) -> Result<(Request, ClientError)> {
        if !failure.is_full() {
            return Err(failure.error);
        }
        self.full.extend(failure.full);
        self.full.sort_unstable();
        self.full.dedup();
        let full = self.full.clone();
        Ok((Request::Detour { capability, layout_epoch: failure.layout_epoch, full }, failure.error))
    }
}

fn is_full(error: &ClientError) -> bool {
    error.errno() == System::NOSPC.raw_os_error()
}
