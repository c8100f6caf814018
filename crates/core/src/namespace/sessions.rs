//! Sessions of clients: their return and their end.

use super::appends::append::NextTurn;
use super::change::Change;
use super::core::Namespace;
use super::decision::{Answer, Caller, Decision};
use super::errno::ESTALE;
use super::files::leases::Leases;
use super::files::open::Opening;
use super::intents::intent::IntentId;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use weir_wire::{Capability, ClientId, Errno, HandleId, Ino, Reply};

/// The most files in one decision of disposals: their changes stay far below the limit of one group of the journal.
const DISPOSALS_PER_DECISION: usize = 16_384;

/// The legacy of a client that is gone.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The decision to journal and commit: files that only the client kept alive go.
    pub decision: Decision,
    /// Append turns that pass on to others. The owner takes the client's own turns before ([`Namespace::take_turn`]), because
    /// bytes of the client may still be on their way to a target: those left here are of files that are being cut.
    pub turns: Vec<NextTurn>,
    /// Descriptions without any holder: their locks go.
    pub closed: Vec<(Ino, HandleId)>,
}

impl Namespace {
    /// Takes back descriptions after a lost connection or a restart. ESTALE says that one of them could not be taken back: its
    /// file is gone, as after the restart of a server that keeps nothing, or the grace period is over. All others are taken
    /// back.
    pub fn reclaim(&mut self, caller: &Caller<'_>, handles: &[Capability]) -> Result<(), Errno> {
        let mut failed = None;
        for capability in handles {
            let Capability { ino, handle, rights, .. } = *capability;
            if let Err(errno) = self.may_reclaim(caller, capability) {
                failed = failed.or(Some(errno));
            } else if !(self.open.has_room(caller.client, caller.who.uid) && self.may_hold(caller.who.uid)) {
                failed = failed.or(Some(ESTALE));
            } else {
                let (client, uid) = (caller.client, caller.who.uid);
                self.open.open(Opening { handle, client, uid, ino, rights });
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The record that a silent client loses what it holds; none where it holds nothing.
    pub fn release_of(&self, client: ClientId) -> Option<Change> {
        self.open.holds_any(client).then_some(Change::ClientReleased { client })
    }

    /// The record that a client which was released is back; none for any other client.
    pub fn return_of(&self, client: ClientId) -> Option<Change> {
        self.is_released(client).then_some(Change::ClientReturned { client })
    }

    /// Whether a client was released, perhaps before the last start, and may not know that.
    pub fn is_released(&self, client: ClientId) -> bool {
        self.state.released.has(client)
    }

    /// The inode and rights of an open description.
    pub fn description(&self, handle: HandleId) -> Option<(Ino, weir_wire::Rights)> {
        self.open.find(handle).map(|description| (description.ino, description.rights))
    }

    /// A client is the mount of a user, or of the administrator: its kernel knows the sizes of files that it has open. Returns the files, with
    /// their sizes, that it had open before this server knew, such as before a restart.
    pub fn meet_mount(&mut self, client: ClientId, user: Option<u32>) -> Vec<(Ino, u64)> {
        let held = self.open.meet_mount(client, user);
        held.into_iter().filter_map(|ino| Some((ino, self.state.regular(ino)?.size_bytes))).collect()
    }

    /// The leases of mounts.
    pub(crate) fn leases(&self) -> &Leases {
        &self.open.leases
    }

    /// The leases of mounts, to give and end those of pages.
    pub(crate) fn leases_mut(&mut self) -> &mut Leases {
        &mut self.open.leases
    }

    /// Whether a process of a mount believes the kernel's size of a description's file.
    pub fn set_followed(&mut self, client: ClientId, description: (Ino, HandleId), is_followed: bool) {
        self.open.set_followed(client, description, is_followed);
    }

    /// The files that `changes` of `client` made longer, each with its size and the other mounts whose kernels know a size of it. `used`
    /// is the description by which it did.
    pub fn grown_files(
        &mut self,
        changes: &[Change],
        client: ClientId,
        used: Option<(Ino, HandleId)>,
    ) -> Vec<(Ino, u64, Vec<ClientId>)> {
        let resized = changes.iter().filter_map(|change| match change {
            Change::Published { ino, .. } | Change::Resized { ino, .. } => Some(*ino),
            _ => None,
        });
        let sizes = resized.filter_map(|ino| Some((ino, self.state.regular(ino)?.size_bytes)));
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

    /// Ends a client's session: its descriptions, append turns and places in queues go.
    pub fn drop_client(&mut self, client: ClientId) -> Departure {
        self.recent.forget(client);
        let mut changes = self.abandonments(|_, record| record.client == client);
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
            if rights.write && self.is_untouched_for_good(ino) {
                changes.push(Change::Touched { ino });
            }
            released.push(ino);
        }
        self.open.leases.drop_mount(client);
        released.sort_unstable();
        released.dedup();
        released.retain(|ino| self.state.orphans.contains(ino));
        changes.extend(self.disposals(released, &changes));
        let turns = self.turns.drop_client(client).into_iter().map(|ino| self.pass_turn(ino)).collect();
        Departure { decision: Decision::of(changes, Answer::Now(Reply::Done, Vec::new())), turns, closed }
    }

    /// Ends the grace period after a start: nobody takes descriptions of before back any more.
    pub fn end_grace(&mut self) {
        self.in_grace = false;
    }

    /// Files without a name that nobody has open go, some with each decision, until none is left. In the grace period all stay.
    pub fn dispose_orphans(&self) -> Option<Decision> {
        if self.in_grace {
            return None;
        }
        let due = |ino: &Ino| !self.open.is_open(*ino) && !self.is_settling(*ino);
        let orphans: Vec<Ino> =
            self.state.orphans.iter().copied().filter(due).take(DISPOSALS_PER_DECISION).collect();
        if orphans.is_empty() {
            return None;
        }
        let changes = self.disposals(orphans, &[]);
        Some(Decision::of(changes, Answer::Now(Reply::Done, Vec::new())))
    }

    /// Disposes of orphans that nobody has open. During the grace period all orphans stay, as their other holders may not have
    /// come back yet.
    fn disposals(&self, orphans: Vec<Ino>, before: &[Change]) -> Vec<Change> {
        if self.in_grace {
            return Vec::new();
        }
        let numbered = before.iter().filter(|change| matches!(change, Change::MoveAbandoned { .. }));
        let mut next_intent = self.state.next_intent + numbered.count() as u64;
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

    fn is_untouched_for_good(&self, ino: Ino) -> bool {
        let file = self.state.regular(ino);
        file.is_some_and(|file| file.untouched_start == self.state.starts)
    }
}
