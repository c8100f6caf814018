//! Tickets: the parts of a sync that block on the device. Any thread can run a ticket.

use super::mark::{Mark, MarkFile};
use super::storage::{File, Storage};
use std::io;
use std::sync::Arc;
use weir_wire::Sequence;

/// The blocking part of a sync. [`super::Journal::sync_begin`] makes the ticket, any thread runs it.
#[derive(Debug)]
#[must_use = "appends are durable only when the ticket was run and completed"]
pub struct SyncTicket {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) files: Vec<File>,
    /// Whether the names of files changed, too.
    pub(super) directory: bool,
    pub(super) through: u64,
    /// The first sequence of the current log, and the part of it that the ticket makes durable.
    pub(super) log: (u64, u64),
    /// The mark that holds once the ticket was run, and its turn.
    pub(super) mark: Option<(MarkFile, Mark, u64)>,
}

/// The blocking part of [`super::Journal::mark_begin`].
#[derive(Debug)]
#[must_use = "the mark is durable only when the ticket was run"]
pub struct MarkTicket(pub(super) MarkFile);

impl SyncTicket {
    /// Makes all appends before the ticket durable. The call blocks on the device; [`super::Journal::sync_complete`] takes
    /// its result.
    ///
    /// # Errors
    /// The system's error.
    pub fn run(&self) -> io::Result<()> {
        for file in &self.files {
            file.sync()?;
        }
        if self.directory {
            self.storage.sync_directory()?;
        }
        if let Some((file, mark, turn)) = &self.mark {
            // If the write fails, an older mark stays, which is true as well.
            let _ = file.write(*mark, *turn);
        }
        Ok(())
    }

    /// The last append that the ticket makes durable.
    pub fn through(&self) -> Sequence {
        Sequence(self.through)
    }
}

impl MarkTicket {
    /// Brings the mark to stable storage. The call blocks on the device.
    ///
    /// # Errors
    /// The system's error; an older mark stays in force, which is true as well.
    pub fn run(&self) -> io::Result<()> {
        self.0.sync()
    }
}
