//! Sessions of clients, as their descriptions know them: their return, and their end.

use super::{Files, Leases, Opening};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::change::{Change, Outcome, OutcomeKind};
use crate::namespace::decision::{Answer, Caller, Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{ENFILE, ESTALE};
use crate::namespace::intents::IntentId;
use crate::namespace::quotas::KeptMemory;
use weir_wire::{Capability, ClientId, Errno, HandleId, Ino, Reply, Rights};

/// The most files in one decision of disposals: their changes stay far below the limit of one group of the journal.
const DISPOSALS_PER_DECISION: usize = 16_384;

impl Files {
    /// Ends a decision by which the caller will hold a new description of `ino`.
    pub(crate) fn hold_open(
        &self,
        mut draft: Draft<'_>,
        ino: Ino,
        rights: Rights,
        created: bool,
    ) -> Step<Decision> {
        let Caller { client, request, acknowledged, .. } = *draft.caller;
        let uid = draft.caller.who.uid;
        if !(self.open.has_room(client, uid) && self.may_hold(draft.kept, uid)) {
            return Err(ENFILE.into());
        }
        let handle = self.open.next_handle();
        draft.open(Opening { handle, client, uid, ino, rights });
        let outcome = OutcomeKind::Opened { ino, handle, rights, created };
        if draft.changes.is_empty() {
            // Descriptions end with the server, so a reply that made nothing but a description need not outlive the server.
            let mut decision = draft.done_once(outcome.clone());
            decision.recent = Some((request, acknowledged, Outcome { kind: outcome, wait: Vec::new() }));
            return Ok(decision);
        }
        Ok(draft.done(outcome))
    }

    /// Takes a description back, while the server keeps so much.
    ///
    /// # Errors
    /// ESTALE where the client or its user has as many as it may, or the number is another file's.
    pub(crate) fn take_back_open(
        &mut self,
        kept: KeptMemory,
        caller: &Caller<'_>,
        capability: &Capability,
    ) -> Result<(), Errno> {
        let Capability { ino, handle, rights, .. } = *capability;
        let (client, uid) = (caller.client, caller.who.uid);
        // A power loss may have taken the knowledge that the number was given before.
        let is_free = self.open.find(handle).is_none_or(|description| description.ino == ino);
        if !(is_free && self.open.has_room(client, uid) && self.may_hold(kept, uid)) {
            return Err(ESTALE);
        }
        self.open.open(Opening { handle, client, uid, ino, rights });
        Ok(())
    }

    /// A client loses what it holds.
    pub(crate) fn note_released(&mut self, client: ClientId) {
        self.released.note(client);
    }

    /// A client that was released is back.
    pub(crate) fn note_returned(&mut self, client: ClientId) {
        self.released.forget(client);
    }

    /// The leases of mounts.
    pub(crate) fn leases(&self) -> &Leases {
        &self.open.leases
    }

    /// The leases of mounts, to give and end those of pages.
    pub(crate) fn leases_mut(&mut self) -> &mut Leases {
        &mut self.open.leases
    }

    /// The record that a silent client loses what it holds; none where it holds nothing.
    pub(crate) fn release_of(&self, client: ClientId) -> Option<Change> {
        self.open.holds_any(client).then_some(Change::ClientReleased { client })
    }

    /// The record that a client which was released is back; none for any other client.
    pub(crate) fn return_of(&self, client: ClientId) -> Option<Change> {
        self.released.has(client).then_some(Change::ClientReturned { client })
    }

    /// The inode and rights of an open description.
    pub(crate) fn description(&self, handle: HandleId) -> Option<(Ino, weir_wire::Rights)> {
        self.open.find(handle).map(|description| (description.ino, description.rights))
    }

    /// A client is the mount of a user, or of the administrator: its kernel knows the sizes of files that it has open. Returns the files, with
    /// their sizes, that it had open before this server knew, such as before a restart.
    pub(crate) fn meet_mount(&mut self, client: ClientId, user: Option<u32>) -> Vec<(Ino, u64)> {
        let held = self.open.meet_mount(client, user);
        held.into_iter().filter_map(|ino| Some((ino, self.regular(ino)?.size_bytes))).collect()
    }

    /// The files that `changes` of `client` made longer, each with its size and the other mounts whose kernels know a size of it. `used`
    /// is the description by which it did.
    pub(crate) fn grown_files(
        &mut self,
        changes: &[Change],
        client: ClientId,
        used: Option<(Ino, HandleId)>,
    ) -> Vec<(Ino, u64, Vec<ClientId>)> {
        let resized = changes.iter().filter_map(|change| match change {
            Change::Published { ino, .. } | Change::Resized { ino, .. } => Some(*ino),
            _ => None,
        });
        let inodes = &self.inodes;
        let sizes = resized.filter_map(|ino| Some((ino, inodes.get(&ino)?.regular()?.size_bytes)));
        let mut grown = Vec::new();
        for (ino, size_bytes) in sizes {
            if let Some(description) = used {
                self.open.is_used_by(client, description);
            }
            let mut mounts = self.open.leases.resized(ino, size_bytes);
            // A mount's kernel knows its own changes.
            mounts.retain(|&mount| mount != client);
            grown.push((ino, size_bytes, mounts));
        }
        grown
    }

    /// Ends all descriptions of a client: the changes by which its moves are given up and files go that only the client kept, and the
    /// descriptions that have no holder now.
    pub(crate) fn drop_client(
        &mut self,
        client: ClientId,
        next: IntentId,
    ) -> (Vec<Change>, Vec<(Ino, HandleId)>) {
        let mut changes = self.moves.abandonments(|_, record| record.client == client, next);
        let mut released = Vec::new();
        let mut closed = Vec::new();
        for handle in self.open.held_by(client) {
            #[cfg(any(test, feature = "world"))]
            if mutants::is(Mutant::DescriptionsKept) {
                continue;
            }
            let Some((ino, rights)) = self.description(handle) else { continue };
            self.open.close(handle, client);
            if self.description(handle).is_none() {
                closed.push((ino, handle));
            }
            // The client may have died between a write and its publication.
            if rights.write && self.is_untouched_now(ino) {
                changes.push(Change::Touched { ino });
            }
            released.push(ino);
        }
        self.open.leases.drop_mount(client);
        released.sort_unstable();
        released.dedup();
        released.retain(|ino| self.orphans.contains(ino));
        changes.extend(self.disposals(released, &changes, next));
        (changes, closed)
    }

    /// Ends a description that no client hears of: the changes by which the file goes that the description alone kept.
    pub(crate) fn close_failed(&mut self, opened: Opening, next: IntentId) -> Vec<Change> {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::FailedOpenKept) {
            return Vec::new();
        }
        let Opening { handle, client, ino, .. } = opened;
        self.open.close(handle, client);
        let orphan = self.orphans.get(&ino).copied().into_iter().collect();
        self.disposals(orphan, &[], next)
    }

    /// Disposes of some orphans, for [`Namespace::dispose_orphans`](crate::namespace::Namespace::dispose_orphans).
    pub(crate) fn dispose_orphans(&self, next: IntentId) -> Option<Decision> {
        if self.in_grace {
            return None;
        }
        let due = |ino: &Ino| !self.open.is_open(*ino) && !self.is_settling(*ino);
        let orphans: Vec<Ino> =
            self.orphans.iter().copied().filter(due).take(DISPOSALS_PER_DECISION).collect();
        if orphans.is_empty() {
            return None;
        }
        let changes = self.disposals(orphans, &[], next);
        Some(Decision::of(changes, Answer::Now(Reply::Done, Vec::new())))
    }

    /// Disposes of orphans that nobody has open. During the grace period all orphans stay, as their other holders may not have
    /// come back yet.
    fn disposals(&self, orphans: Vec<Ino>, before: &[Change], next: IntentId) -> Vec<Change> {
        if self.in_grace {
            return Vec::new();
        }
        let numbered = before.iter().filter(|change| matches!(change, Change::MoveAbandoned { .. }));
        let mut next_intent = next.0 + numbered.count() as u64;
        let mut changes = Vec::new();
        for ino in orphans {
            if self.open.is_open(ino) || self.is_settling(ino) {
                continue;
            }
            let touched = self.is_touched(ino) || before.contains(&Change::Touched { ino });
            let removal = touched.then_some(IntentId(next_intent));
            next_intent += u64::from(touched);
            changes.push(Change::Disposed { ino, removal });
        }
        changes
    }

    /// Whether a file was made by this start and has no objects yet.
    fn is_untouched_now(&self, ino: Ino) -> bool {
        let file = self.regular(ino);
        file.is_some_and(|file| file.untouched_start == self.starts)
    }
}
