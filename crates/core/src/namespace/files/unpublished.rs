//! Bytes behind the ends of this home's files: their users are charged for them, and the files are cut at their ends once nobody
//! is left who could publish the bytes.
//!
//! The home knows of the bytes that were written to its own targets, and other servers tell it of those on theirs.

use crate::namespace::change::Change;
use crate::namespace::core::Namespace;
use crate::namespace::errno::{EDQUOT, EINVAL, ENOSPC};
use crate::namespace::quotas::usage::QuotaLine;
use crate::unpublished::{Charge, Part, Reach};
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{ClientId, Errno, HeldObject, Ino, PaidObject, QuotaOwner, QuotaUse};

/// Files that are cut at their ends at once: the cuts of one look of the server stay far below the limit of one group of the journal.
const CUTS_PER_LOOK: usize = 1024;
/// For so long a part on another server counts without word from it: ten of the intervals in which the server repeats the part.
const HEARD_FOR: Nanos = Nanos::from_millis(10_000);
/// The user without limits.
const ROOT: u32 = 0;

impl Namespace {
    /// Charges a user for a write to an object of a file here, before its bytes arrive. None if the bytes are paid for.
    ///
    /// # Errors
    /// As [`Namespace::admit_held`]; EINVAL for a place that is not of the file.
    pub(crate) fn hold_bytes(&mut self, part: Part, gid: u32, reach: Reach) -> Result<Option<Charge>, Errno> {
        // The late bytes of a file that is gone are removed.
        let Some(inode) = self.state.inodes.get(&part.ino) else { return Ok(None) };
        let paid = self.paid_of(part.ino, inode, part.place).ok_or(EINVAL)?;
        if reach.end <= paid {
            return Ok(None);
        }
        let growth = self.unpublished.growth(&part, reach, paid).ok_or(EDQUOT)?;
        self.admit_held((part.uid, gid), (0, 0), growth)?;
        Ok(Some(self.unpublished.add(part, reach, paid)))
    }

    /// Whether a user may have `growth` more bytes behind the ends of files. In files of other homes the user has `held` bytes here,
    /// of which the homes do not count `untold` yet.
    ///
    /// # Errors
    /// EDQUOT; ENOSPC for a user without a limit.
    pub(crate) fn admit_held(
        &self,
        (uid, gid): (u32, u32),
        (untold, held): (u64, u64),
        growth: u64,
    ) -> Result<(), Errno> {
        if uid == ROOT {
            return Ok(());
        }
        let own = self.unpublished.of(uid);
        let fits = |owner: QuotaOwner, more: u64| {
            let QuotaLine { here, elsewhere, .. } = self.quota_line(owner);
            let then = here.bytes.saturating_add(elsewhere.bytes).saturating_add(more).saturating_add(growth);
            self.quotas.limits_of(owner).bytes.map(|most| then <= most)
        };
        // The bytes of other members are not the group's before they are published.
        if fits(QuotaOwner::Group(gid), own.saturating_add(untold)) == Some(false) {
            return Err(EDQUOT);
        }
        match fits(QuotaOwner::User(uid), untold) {
            Some(true) => Ok(()),
            Some(false) => Err(EDQUOT),
            None if own.saturating_add(held).saturating_add(growth) <= self.unpublished_max => Ok(()),
            None => Err(ENOSPC),
        }
    }

    /// The records that other servers have objects of these files.
    pub(crate) fn touched(&self, files: Vec<Ino>) -> Vec<Change> {
        files.into_iter().map(|ino| Change::Touched { ino }).collect()
    }

    /// A user without a limit may have half of the `capacity_bytes` of the targets here.
    pub(crate) fn note_capacity(&mut self, capacity_bytes: u64) {
        self.unpublished_max = capacity_bytes / 2;
    }

    /// Bytes of all users on targets here behind the ends of files here.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.unpublished.bytes_on(self.settings.server)
    }

    /// Takes over what another server holds of files here, and answers how far each object is paid for.
    pub(crate) fn hear_held(
        &mut self,
        from: ServerId,
        objects: &[HeldObject],
        now: Nanos,
    ) -> Vec<PaidObject> {
        objects.iter().map(|object| self.hear_one(from, object, now)).collect()
    }

    fn hear_one(&mut self, from: ServerId, object: &HeldObject, now: Nanos) -> PaidObject {
        let HeldObject { ino, place, uid, client, end, bytes, is_left } = *object;
        if !self.has(ino) {
            return PaidObject::Gone;
        }
        let paid = self.paid_bytes(ino, place).filter(|_| place.server == from);
        let Some(paid) = paid else { return PaidObject::Nowhere };
        // A cut that is under way takes the bytes along.
        let reach = if self.state.cuts.contains_key(&ino) {
            Reach { end: 0, bytes: 0 }
        } else {
            Reach { end, bytes }
        };
        self.unpublished.hear(Part { ino, place, uid, client }, reach, paid, is_left, now);
        PaidObject::Bytes(paid)
    }

    /// The use of these users here, for a server that told of their bytes.
    pub(crate) fn use_of_users(&self, uids: impl Iterator<Item = u32>) -> Vec<(QuotaOwner, QuotaUse)> {
        let mut owners: Vec<QuotaOwner> = uids.map(QuotaOwner::User).collect();
        owners.sort_unstable();
        owners.dedup();
        owners.into_iter().map(|owner| (owner, self.quota_line(owner).here)).collect()
    }

    /// Files that have bytes behind their ends which nobody will publish: their clients are gone, or nobody has a file open for
    /// writing. `is_here` says whether a client is still here.
    pub(crate) fn left_files(&mut self, is_here: impl Fn(ClientId) -> bool, now: Nanos) -> Vec<Ino> {
        if self.unpublished.is_empty() || self.in_grace {
            return Vec::new();
        }
        let own = self.settings.server;
        self.unpublished.expire(own, now.saturating_since(HEARD_FOR));
        self.unpublished.note_left(own, is_here);
        let files = self.unpublished.files().into_iter();
        let left = files.filter(|(ino, is_left)| *is_left || !self.open.has_writers(*ino));
        left.map(|(ino, _)| ino).filter(|ino| !self.is_settling(*ino)).take(CUTS_PER_LOOK).collect()
    }

    /// Notes a file with bytes of earlier starts on a target here: `bytes` is the length of its object.
    pub(crate) fn note_found(&mut self, ino: Ino, place: TargetId, bytes: u64) {
        if !self.unpublished.reaches(ino, place, bytes) {
            self.note_held(Part { ino, place, uid: ROOT, client: ClientId(0) }, Reach::of([(0, bytes)]));
        }
    }
}
