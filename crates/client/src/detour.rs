//! The way off full targets: the home lays the bytes behind a file's end on other targets, and the write goes on there.

use crate::known::Size;
use crate::pool::Lane;
use crate::session::Environment;
use crate::{Caller, ClientError, File, Result};
use weir_placement::TargetId;
use weir_wire::{Reply, Request};

/// The reason why a write stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error.
    pub(crate) error: ClientError,
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
pub(crate) struct Detours {
    full: Vec<TargetId>,
}

impl Failure {
    /// The failure that a target answered under the layout of `layout_epoch`.
    pub(crate) fn of(error: ClientError, target: TargetId, layout_epoch: u64) -> Failure {
        let full = if is_full(&error) { vec![target] } else { Vec::new() };
        let is_open = error.is_open();
        Failure { error, full, layout_epoch, is_open, has_leftovers: false }
    }

    /// Adds the failure of a further target of the same layout.
    pub(crate) fn add(&mut self, error: &ClientError, target: TargetId) {
        if is_full(error) {
            self.full.push(target);
        }
        self.is_open |= error.is_open();
    }

    /// Whether a target may carry out its part of the write later.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Notes whether bytes behind the failure arrived beyond the size.
    pub(crate) fn note_leftovers(&mut self, has_leftovers: bool) {
        self.has_leftovers = has_leftovers;
    }

    /// Whether bytes behind the failure are to be cut off. While a target may still carry out its part, a cut would have to wait
    /// for that target, and the outcome of the write is unknown in any case.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.has_leftovers && !self.is_open
    }

    /// Whether other targets may help.
    pub(crate) fn is_full(&self) -> bool {
        !self.full.is_empty()
    }
}

impl Detours {
    /// Asks the home for other targets behind the end of `file`. The caller then tries the write again.
    ///
    /// # Errors
    /// The failure itself, where other targets do not help or the home has none.
    pub(crate) fn take(
        &mut self,
        file: &File,
        environment: Environment<'_>,
        caller: &Caller,
        failure: Failure,
    ) -> Result<()> {
        if !failure.is_full() {
            return Err(failure.error);
        }
        self.full.extend(failure.full);
        self.full.sort_unstable();
        self.full.dedup();
        let (capability, layout_epoch, full) = (file.capability(), failure.layout_epoch, self.full.clone());
        let request = Request::Detour { capability, layout_epoch, full };
        match file.ask_home(environment, caller, Lane::Small, &request) {
            Ok(Reply::Layout { layout, layout_epoch, size_bytes, epoch }) => {
                file.learn_layout(layout, layout_epoch, Size { bytes: size_bytes, epoch });
                Ok(())
            }
            Ok(_) => Err(file.unexpected("Detour")),
            Err(_) => Err(failure.error),
        }
    }
}

fn is_full(error: &ClientError) -> bool {
    error.errno() == libc::ENOSPC
}
