//! Quotas: the use of each user and group, and the refusal of growth beyond the limits.
//!
//! A file costs its size. So bytes that are written into holes were paid for when the file grew over them, and only a change at
//! the home makes a file cost more.

use super::kept::ROOT;
use super::usage::QuotaLine;
use crate::namespace::change::Change;
use crate::namespace::core::Namespace;
use crate::namespace::decision::Decision;
use crate::namespace::draft::Draft;
use crate::namespace::errno::EDQUOT;
use crate::namespace::files::inode::{allocation_of, Inode};
use std::collections::BTreeSet;
use weir_placement::{ServerId, TargetId};
use weir_wire::quota::OWNERS_TOLD;
use weir_wire::{
    limits, AttributeChange, Capability, Errno, Identity, Ino, QuotaOwner, QuotaReport, QuotaTable, QuotaUse,
    Reply,
};

impl Namespace {
    /// Puts limits into force.
    pub(crate) fn set_quotas(&mut self, table: &QuotaTable) {
        self.quotas.set(table);
    }

    /// Takes over the use of some users on another server, as that one answered now.
    pub(crate) fn note_use_of_users(&mut self, server: ServerId, users: &[(QuotaOwner, QuotaUse)]) {
        self.quotas.note_some(server, users);
    }

    /// Takes over the use that start `boot` of another server tells.
    pub(crate) fn note_use_elsewhere(&mut self, server: ServerId, boot: u64, report: &QuotaReport) {
        self.quotas.note(server, boot, report);
    }

    /// The use here that the other servers are to hear of now.
    pub(crate) fn take_quota_news(&mut self) -> QuotaReport {
        let (is_whole, mut owners) = self.state.inodes.usage_mut().take_news();
        for (uid, bytes) in self.unpublished.users() {
            let owner = QuotaOwner::User(uid);
            match owners.binary_search_by_key(&owner, |(owner, _)| *owner) {
                Ok(place) => owners[place].1.bytes = owners[place].1.bytes.saturating_add(bytes),
                Err(place) if owners.len() < OWNERS_TOLD => {
                    owners.insert(place, (owner, self.quota_line(owner).here))
                }
                Err(_) => {}
            }
        }
        QuotaReport { is_whole, owners, limits_digest: 0 }
    }

    /// Every owner with inodes or unpublished bytes here or with limits, in order.
    pub(crate) fn quota_lines(&self) -> Vec<QuotaLine> {
        let limited = self.quotas.limited();
        let holders = self.unpublished.users().map(|(uid, _)| QuotaOwner::User(uid));
        let owners: BTreeSet<QuotaOwner> = self
            .state
            .inodes
            .usage()
            .owners()
            .map(|(owner, _)| owner)
            .chain(limited)
            .chain(holders)
            .collect();
        owners.into_iter().map(|owner| self.quota_line(owner)).collect()
    }

    pub(crate) fn quota_line(&self, owner: QuotaOwner) -> QuotaLine {
        let mut here = self.state.inodes.usage().of(owner);
        let unpublished_bytes = match owner {
            QuotaOwner::User(uid) => self.unpublished.of(uid),
            _ => 0,
        };
        here.bytes = here.bytes.saturating_add(unpublished_bytes);
        QuotaLine { owner, here, unpublished_bytes, elsewhere: self.quotas.use_elsewhere(owner) }
    }

    /// The caller's own use and limits, as JSON.
    pub(crate) fn quota_text(&self, who: &Identity) -> Vec<u8> {
        let mut groups: Vec<u32> = who.groups.iter().copied().chain([who.gid]).collect();
        groups.sort_unstable();
        groups.dedup();
        let line = |owner: QuotaOwner, number: u32| {
            let QuotaLine { here, elsewhere, .. } = self.quota_line(owner);
            let limits = self.quotas.limits_of(owner);
            serde_json::json!({
                "id": number,
                "bytes": here.bytes.saturating_add(elsewhere.bytes),
                "inodes": here.inodes.saturating_add(elsewhere.inodes),
                "bytes_max": limits.bytes,
                "inodes_max": limits.inodes,
            })
        };
        let groups: Vec<_> = groups.into_iter().map(|gid| line(QuotaOwner::Group(gid), gid)).collect();
        let text = serde_json::json!({ "user": line(QuotaOwner::User(who.uid), who.uid), "groups": groups });
        text.to_string().into_bytes()
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
        self.admit(writer, [QuotaOwner::Group(inode.gid)], growth(then - now))
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
        match self.state.inodes.get(&capability.ino) {
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
        let Some(inode) = self.state.inodes.get(&capability.ino) else { return Ok(()) };
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
        let size_bytes = self.state.regular(ino).ok_or(EDQUOT)?.size_bytes;
        self.abandon_move(&mut draft, ino)?;
        let cut = draft.intent()?;
        draft.wait.push(cut);
        let at = draft.now;
        draft.push(Change::Resized { ino, size_bytes, permissions: None, cut: Some(cut), at });
        Ok(draft.reply(Reply::Failed(EDQUOT)))
    }

    /// Whether these owners may have so much more.
    pub(crate) fn admit(
        &self,
        actor: u32,
        owners: impl IntoIterator<Item = QuotaOwner>,
        growth: QuotaUse,
    ) -> Result<(), Errno> {
        // As CAP_SYS_RESOURCE does on a local file system (quotactl(2)), root passes over limits.
        if self.quotas.is_empty() || actor == ROOT {
            return Ok(());
        }
        let has_room = |owner| {
            let limits = self.quotas.limits_of(owner);
            let QuotaLine { here, elsewhere, .. } = self.quota_line(owner);
            let fits = |growth: u64, most: Option<u64>, here: u64, elsewhere: u64| {
                let then = here.saturating_add(elsewhere).saturating_add(growth);
                growth == 0 || most.is_none_or(|most| then <= most)
            };
            fits(growth.bytes, limits.bytes, here.bytes, elsewhere.bytes)
                && fits(growth.inodes, limits.inodes, here.inodes, elsewhere.inodes)
        };
        if owners.into_iter().all(has_room) {
            Ok(())
        } else {
            Err(EDQUOT)
        }
    }
}
