//! The start of a server: the journal is replayed, and the targets are brought to the state that it knows.

use super::Server;
use crate::durability::read_names;
use crate::error::ServerError;
use crate::journal::{Losses, Recovered, Storage};
use crate::locks::LockTable;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::Change;
use crate::notices::warning;
use crate::starts;
use crate::storage::Settled;
use std::sync::Arc;
use weir_wire::Fence;

impl Server {
    /// Opens the journal of a durable store and brings the namespace to its last state. In a store that keeps nothing, this is
    /// the state with which the server came from another host.
    ///
    /// # Errors
    /// [`ServerError::Journal`] when it is damaged or in use.
    pub(super) fn recover(
        &mut self,
        journal: Option<Arc<dyn Storage>>,
        losses: (Losses, u64),
        is_restored: bool,
    ) -> Result<(), ServerError> {
        let (mut has_arrived, mut is_older) = (false, false);
        let is_journaled = journal.is_some();
        if let Some(journal) = journal {
            let recovered = self.durability.open(journal, losses, &mut self.namespace)?;
            if let Some((_, durable)) = self.durability.progress() {
                self.home.settle(durable)?;
            }
            self.links.keep_executed(&*self.home.own()).map_err(|source| ServerError::Io {
                what: "open the executed writes in",
                path: self.home.path().to_path_buf(),
                source,
            })?;
            for notice in &recovered.notices {
                warning!("{notice}");
            }
            is_older = is_restored || recovered.accepted_loss;
            self.settle_targets(&recovered, is_restored)?;
            self.namespace.index();
        } else if let Some(arrived) = self.home.arrived_names()? {
            read_names(arrived, &mut self.namespace)?;
            has_arrived = true;
            self.namespace.index();
        }
        let last_start = self.last_start();
        let mut start = self.namespace.start(last_start, self.clock.moment());
        #[cfg(any(test, feature = "world"))]
        let is_older = is_older && !mutants::is(Mutant::OlderEpochsKept);
        if let Change::Started { is_older: raises, .. } = &mut start {
            *raises = is_older;
        }
        self.keep_start(&start);
        self.record(std::slice::from_ref(&start)).map_err(|errno| ServerError::Io {
            what: "record the start in",
            path: self.home.path().join("journal"),
            source: std::io::Error::from_raw_os_error(i32::from(errno.0)),
        })?;
        self.raise_known_epochs();
        self.locks = LockTable::new(Fence::of_start(self.namespace.files().starts()));
        // By the number of the start, which a power loss leaves: it may take the whole journal of a server whose clients come back, and
        // leave what they wrote on targets.
        let has_returned = has_arrived || is_journaled && last_start > 0;
        #[cfg(any(test, feature = "world"))]
        let has_returned = has_returned && !mutants::is(Mutant::GraceSkipped);
        if has_returned {
            self.locks.begin_grace(last_start);
            self.clock.begin_grace();
        } else {
            self.expire_orphans();
        }
        Ok(())
    }

    /// The number of the last start, whose record a power loss may have taken from the journal.
    fn last_start(&self) -> u32 {
        let kept = starts::last(&*self.home.own()).unwrap_or_else(|error| {
            warning!("the number of the last start is unknown ({error}); the journal's counts");
            0
        });
        #[cfg(any(test, feature = "world"))]
        let kept = if mutants::is(Mutant::StartsReused) { 0 } else { kept };
        kept.max(self.namespace.files().starts())
    }

    /// Keeps the number of a start before handles, fences and turns have it.
    fn keep_start(&self, start: &Change) {
        let Change::Started { number, .. } = start else { return };
        if let Err(error) = starts::keep(&*self.home.own(), *number) {
            warning!("the number of this start is not kept ({error}): after a power loss the next start may have the same");
        }
    }

    /// Brings the objects here to the state of their files in the journal.
    fn settle_targets(&mut self, recovered: &Recovered, is_restored: bool) -> Result<(), ServerError> {
        #[cfg(any(test, feature = "world"))]
        let is_restored = is_restored && !mutants::is(Mutant::RestoredLikeLost);
        // After a restored copy or an accepted loss the records may be somewhere else: their objects stay.
        let lost_power = recovered.lost_power && !recovered.accepted_loss && !is_restored;
        for (index, opened) in self.targets.iter_mut().enumerate() {
            let Some(directory) = opened.directory_mut() else { continue };
            let target = self.site.target(index);
            let settled = directory
                .settle(|object| self.namespace.known(object.file(), lost_power))
                .map_err(|source| {
                    let path = self.home.path().join(format!("target {target}"));
                    ServerError::Io { what: "bring to what the journal knows", path, source }
                })?;
            if settled != Settled::default() {
                warning!(
                    "target {target}: of changes that a power loss took, {} emptied objects have their \
                     bytes again, and {} objects of files that were never durable are removed",
                    settled.restored,
                    settled.removed
                );
            }
            if self.home.is_apart(opened) {
                self.durability.note_apart(index);
            }
        }
        Ok(())
    }

    /// Has the objects here refuse epochs before those of their files.
    fn raise_known_epochs(&mut self) {
        for (index, opened) in self.targets.iter_mut().enumerate() {
            let Some(directory) = opened.directory_mut() else { continue };
            directory.raise_known_epochs(self.namespace.files().epochs_on(self.site.target(index)));
        }
    }

    /// Carries out the effects that an earlier start left unfinished.
    pub(super) fn resume_effects(&mut self) {
        if let Some(abandoned) = self.namespace.abandon_moves() {
            // Where it cannot be recorded now, the next start gives the moves up.
            let _ = self.record(&abandoned.changes);
        }
        for effect in self.namespace.pending_effects() {
            self.carry_out(effect);
        }
    }

    /// Ends the namespace's grace period, and removes files without a name that nobody has open.
    pub(super) fn expire_orphans(&mut self) {
        self.namespace.files_mut().end_grace();
        self.dispose_orphans();
    }

    /// Removes the files without a name that stayed because the journal took no record.
    pub(super) fn remove_leftovers(&mut self) {
        if self.durability.take_leftovers() {
            self.dispose_orphans();
        }
    }

    fn dispose_orphans(&mut self) {
        while let Some(decision) = self.namespace.dispose_orphans() {
            if self.commit(&decision).is_err() {
                return self.durability.note_leftovers();
            }
        }
    }
}
