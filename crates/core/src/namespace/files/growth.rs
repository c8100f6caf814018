//! The growth of files, as quotas allow it.
//!
//! A file costs its size. So bytes that are written into holes were paid for when the file grew over them, and only a change at
//! the home makes a file cost more.

use super::inode::allocation_of;
use super::{Files, Inode};
use crate::namespace::change::Change;
use crate::namespace::decision::Decision;
use crate::namespace::draft::Draft;
use crate::namespace::errno::EDQUOT;
use crate::namespace::quotas::estimates::DESCRIPTION_BYTES;
use crate::namespace::quotas::{KeptMemory, QuotaLine};
use weir_placement::TargetId;
use weir_wire::{
    limits, AttributeChange, Capability, Errno, Identity, Ino, QuotaOwner, QuotaReport, QuotaUse, Reply,
};

/// Descriptions that a user may hold however much is kept: with fewer nobody could walk through a tree to remove it.
const DESCRIPTIONS_ALWAYS: usize = 1024;

impl Files {
    /// The use here that the other servers are to hear of now.
    pub(crate) fn take_quota_news(&mut self) -> QuotaReport {
        self.quotas.take_news(self.inodes.usage_mut())
    }

    /// Every owner with inodes or unpublished bytes here or with limits, in order.
    pub(crate) fn quota_lines(&self) -> Vec<QuotaLine> {
        self.quotas.lines(self.inodes.usage())
    }

    /// Whether the owners of a new inode may have one more.
    pub(crate) fn admit_inode(&self, maker: u32, uid: u32, gid: u32) -> Result<(), Errno> {
        let owners = [QuotaOwner::User(uid), QuotaOwner::Group(gid)];
        self.admit(maker, owners, QuotaUse { bytes: 0, inodes: 1 })
    }

    /// Whether the owners of a file may have the bytes that it grows by: to `size_bytes`, with room up to `reserved_end`.
    pub(crate) fn admit_growth(
        &self,
        writer: u32,
        (ino, inode): (Ino, &Inode),
        size_bytes: u64,
        reserved_end: u64,
    ) -> Result<(), Errno> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let now = inode.data_bytes();
        let then = now.max(allocation_of(size_bytes)).max(allocation_of(reserved_end));
        // The owner is charged already for bytes that the file grows over.
        let (held, left) = self.held_of_owner(ino, inode, then);
        let growth = |bytes| QuotaUse { bytes, inodes: 0 };
        self.admit(writer, [QuotaOwner::User(inode.uid)], growth((then + left).saturating_sub(now + held)))?;
        let owners = [QuotaOwner::User(inode.uid), QuotaOwner::Group(inode.gid)];
        self.quotas.admit_published(self.inodes.usage(), writer, owners, then - now)
    }

    /// Whether the new owners of an inode may have it with all its bytes.
    pub(crate) fn admit_owners(
        &self,
        who: &Identity,
        inode: &Inode,
        change: &AttributeChange,
    ) -> Result<(), Errno> {
        let cost = QuotaUse { bytes: inode.charged_bytes(), inodes: 1 };
        let user = change.uid.filter(|uid| *uid != inode.uid).map(QuotaOwner::User);
        let group = change.gid.filter(|gid| *gid != inode.gid).map(QuotaOwner::Group);
        self.admit(who.uid, user.into_iter().chain(group), cost)
    }

    /// Whether an append that ends at `end` may make the file as long as that.
    pub(crate) fn may_grow(&self, capability: &Capability, end: u64) -> Result<(), Errno> {
        match self.get(capability.ino) {
            Some(inode) => self.admit_growth(capability.uid, (capability.ino, inode), end, 0),
            None => Ok(()),
        }
    }

    /// Whether bytes or room up to `object_end` of the object on `target` may make the file as long as that. The server of the home
    /// asks before a byte arrives, also for writes that are published later.
    pub(crate) fn may_reach(
        &self,
        capability: &Capability,
        target: TargetId,
        epoch: u64,
        object_end: u64,
    ) -> Result<(), Errno> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let Some(inode) = self.get(capability.ino) else { return Ok(()) };
        // Another epoch may have another layout: its write is refused, or goes on under this epoch.
        let Some(file) = inode.regular().filter(|file| file.epoch == epoch) else { return Ok(()) };
        let place = file.layout.targets().iter().position(|other| *other == target);
        let Some((object, last)) = place.zip(object_end.checked_sub(1)) else { return Ok(()) };
        let objects = file.layout.targets().len() as u64;
        let is_possible = object_end.checked_mul(objects).is_some_and(|end| end <= limits::FILE_BYTES);
        let end = match is_possible {
            true => file.layout.file_offset(object, last).saturating_add(1),
            false => limits::FILE_BYTES,
        };
        self.admit_growth(capability.uid, (capability.ino, inode), end.max(file.size_bytes), 0)
    }

    /// Refuses the publication of bytes that a quota has no room for. Nothing keeps the room of these bytes: the file is cut at its
    /// end, as after the loss of an append turn, and late bytes are answered `StaleEpoch`.
    pub(crate) fn refuse_growth(&self, mut draft: Draft<'_>, ino: Ino) -> Result<Decision, Errno> {
        let size_bytes = self.regular(ino).ok_or(EDQUOT)?.size_bytes;
        self.moves.abandon(&mut draft, ino)?;
        let cut = draft.intent()?;
        draft.wait.push(cut);
        let at = draft.now;
        draft.push(Change::Resized { ino, size_bytes, permissions: None, cut: Some(cut), at });
        Ok(draft.reply(Reply::Failed(EDQUOT)))
    }

    /// Whether these owners may have so much more.
    pub(super) fn admit(
        &self,
        actor: u32,
        owners: impl IntoIterator<Item = QuotaOwner>,
        growth: QuotaUse,
    ) -> Result<(), Errno> {
        self.quotas.admit(self.inodes.usage(), actor, owners, growth)
    }

    /// Whether the server, which keeps so much, may keep so much more for a user.
    ///
    /// # Errors
    /// EDQUOT beyond the part of the memory that one user may have; ENOSPC beyond the bound.
    pub(super) fn admit_memory(
        &self,
        kept: KeptMemory,
        actor: u32,
        uid: u32,
        growth_bytes: u64,
    ) -> Result<(), Errno> {
        if growth_bytes == 0 {
            return Ok(());
        }
        let of_user =
            self.inodes.usage().kept_by(uid) + self.open.held_by_user(uid) as u64 * DESCRIPTION_BYTES;
        kept.admit(actor, of_user, growth_bytes)
    }

    /// Whether a user may hold one more description.
    pub(super) fn may_hold(&self, kept: KeptMemory, uid: u32) -> bool {
        self.open.held_by_user(uid) < DESCRIPTIONS_ALWAYS
            || self.admit_memory(kept, uid, uid, DESCRIPTION_BYTES).is_ok()
    }
}
