//! Bytes behind the ends of this home's files: their users are charged for them, and the files are cut at their ends once nobody
//! is left who could publish the bytes.
//!
//! The home knows of the bytes that were written to its own targets, and other servers tell it of those on theirs.

use super::Files;
use crate::namespace::change::Change;
use crate::namespace::errno::{EDQUOT, EINVAL};
use crate::namespace::quotas::ROOT;
use crate::unpublished::{Charge, Part, Reach};
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{ClientId, Errno, HeldObject, Ino, PaidObject, QuotaOwner, QuotaUse};

/// Files that are cut at their ends at once: the cuts of one look of the server stay far below the limit of one group of the journal.
const CUTS_PER_LOOK: usize = 1024;
/// For so long a part on another server counts without word from it: ten of the intervals in which the server repeats the part.
const HEARD_FOR: Nanos = Nanos::from_millis(10_000);
impl Files {
    /// Charges a user for a write to an object of a file here, before its bytes arrive. None if the bytes are paid for.
    ///
    /// # Errors
    /// As [`Files::admit_held`]; EINVAL for a place that is not of the file.
    pub(crate) fn hold_bytes(&mut self, part: Part, gid: u32, reach: Reach) -> Result<Option<Charge>, Errno> {
        // The late bytes of a file that is gone are removed.
        let Some(inode) = self.get(part.ino) else { return Ok(None) };
        let paid = self.paid_of(part.ino, inode, part.place).ok_or(EINVAL)?;
        if reach.end <= paid {
            return Ok(None);
        }
        let growth = self.quotas.unpublished().growth(&part, reach, paid).ok_or(EDQUOT)?;
        self.admit_held((part.uid, gid), (0, 0), growth)?;
        Ok(Some(self.quotas.unpublished_mut().add(part, reach, paid)))
    }

    /// Whether a user may have `growth` more bytes behind the ends of files, as [`Quotas::admit_held`](super::Quotas::admit_held) says.
    ///
    /// # Errors
    /// EDQUOT; ENOSPC for a user without a limit.
    pub(crate) fn admit_held(&self, owner: (u32, u32), held: (u64, u64), growth: u64) -> Result<(), Errno> {
        self.quotas.admit_held(self.inodes.usage(), owner, held, growth)
    }

    /// The records that other servers have objects of these files.
    pub(crate) fn touched(&self, files: Vec<Ino>) -> Vec<Change> {
        files.into_iter().map(|ino| Change::Touched { ino }).collect()
    }

    /// Bytes of all users on targets here behind the ends of files here.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.quotas.unpublished().bytes_on(self.server)
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
        let reach =
            if self.cuts.contains_key(&ino) { Reach { end: 0, bytes: 0 } } else { Reach { end, bytes } };
        self.quotas.unpublished_mut().hear(Part { ino, place, uid, client }, reach, paid, is_left, now);
        PaidObject::Bytes(paid)
    }

    /// The use of these users here, for a server that told of their bytes.
    pub(crate) fn use_of_users(&self, uids: impl Iterator<Item = u32>) -> Vec<(QuotaOwner, QuotaUse)> {
        let mut owners: Vec<QuotaOwner> = uids.map(QuotaOwner::User).collect();
        owners.sort_unstable();
        owners.dedup();
        owners.into_iter().map(|owner| (owner, self.quotas.line(self.inodes.usage(), owner).here)).collect()
    }

    /// Files that have bytes behind their ends which nobody will publish: their clients are gone, or nobody has a file open for
    /// writing. `is_here` says whether a client is still here.
    pub(crate) fn left_files(&mut self, is_here: impl Fn(ClientId) -> bool, now: Nanos) -> Vec<Ino> {
        if self.quotas.unpublished().is_empty() || self.in_grace {
            return Vec::new();
        }
        let own = self.server;
        self.quotas.unpublished_mut().expire(own, now.saturating_since(HEARD_FOR));
        self.quotas.unpublished_mut().note_left(own, is_here);
        let files = self.quotas.unpublished().files().into_iter();
        let left = files.filter(|(ino, is_left)| *is_left || !self.open.has_writers(*ino));
        left.map(|(ino, _)| ino).filter(|ino| !self.is_settling(*ino)).take(CUTS_PER_LOOK).collect()
    }

    /// Notes a file with bytes of earlier starts on a target here: `bytes` is the length of its object.
    pub(crate) fn note_found(&mut self, ino: Ino, place: TargetId, bytes: u64) {
        if !self.quotas.unpublished().reaches(ino, place, bytes) {
            self.note_held(Part { ino, place, uid: ROOT, client: ClientId(0) }, Reach::of([(0, bytes)]));
        }
    }
}
