//! The admission of changes that make the server keep more, by its memory and by quotas. Every change has its entry.

use super::accounting::charged_description;
use super::{Birth, BirthNode, Files, Inode};
use crate::namespace::change::Change;
use crate::namespace::quotas::estimates::{
    attribute_bytes, layout_bytes, moved_bytes, name_bytes, request_bytes, INODE_BYTES, INTENT_BYTES,
};
use crate::namespace::quotas::KeptMemory;
use weir_wire::{Errno, Identity, Ino, QuotaOwner, QuotaUse};

/// The memory and the charge that a change adds for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Growth {
    uid: u32,
    gid: u32,
    kept_bytes: u64,
    charged_bytes: u64,
}

impl Files {
    /// Whether the server, which keeps so much, may keep what these changes add, and their owners may have it.
    ///
    /// # Errors
    /// EDQUOT beyond a quota, or the part of the memory that one user may have; ENOSPC beyond the memory's bound.
    pub(crate) fn admit_kept(
        &self,
        kept: KeptMemory,
        who: &Identity,
        changes: &[Change],
    ) -> Result<(), Errno> {
        if changes.is_empty() || self.frees(changes) {
            return Ok(());
        }
        let mut kept_bytes = 0;
        for growth in changes.iter().filter_map(|change| self.growth_of(who, change)) {
            // All that one decision adds belongs to one user, but for links to files of others.
            kept_bytes += growth.kept_bytes;
            self.admit_memory(kept, who.uid, growth.uid, kept_bytes)?;
            let owners = [QuotaOwner::User(growth.uid), QuotaOwner::Group(growth.gid)];
            self.admit(who.uid, owners, QuotaUse { bytes: growth.charged_bytes, inodes: 0 })?;
        }
        Ok(())
    }

    /// The memory that a change makes the server keep. Every change has its entry, so nothing new is kept without an account.
    fn growth_of(&self, who: &Identity, change: &Change) -> Option<Growth> {
        match change {
            Change::Created { name, birth, .. } | Change::MadeForPeer { name, birth, .. } => {
                Some(Growth::of_new(birth, name_bytes(name.len())))
            }
            Change::CreatedUnnamed { birth, .. } => Some(Growth::of_new(birth, 0)),
            Change::Linked { parent, name, ino, .. } => {
                let owner = if self.has(*ino) { ino } else { parent };
                self.described(who, *owner, name_bytes(name.len()))
            }
            Change::Moved { from_name, to_name, from, reparents, .. } => {
                let ino = self.directory(*from)?.find(from_name)?.ino;
                let owner = if self.has(ino) { ino } else { *from };
                let longer = to_name.len().saturating_sub(from_name.len()) as u64;
                let told = reparents.iter().flatten().count() as u64;
                let intents = told * (INTENT_BYTES + 2 * to_name.len().max(from_name.len()) as u64);
                let growth = self.described(who, owner, longer)?;
                Some(Growth { kept_bytes: growth.kept_bytes + intents, ..growth })
            }
            Change::XattrSet { ino, name, value, .. } => {
                let before = self.get(*ino).and_then(|inode| inode.xattrs.as_ref()?.get(name));
                let before = before.map_or(0, |value| attribute_bytes(name.len(), value.len()));
                let after = value.as_ref().map_or(0, |value| attribute_bytes(name.len(), value.len()));
                self.described(who, *ino, after.saturating_sub(before))
            }
            Change::LayoutRequested { ino, request, .. } => {
                let before = self.directory(*ino).and_then(|directory| directory.request.layout.as_ref());
                let growth = request_bytes(request.layout.as_ref()).saturating_sub(request_bytes(before));
                self.kept(who, *ino, growth)
            }
            Change::LaidOut { ino, layout, asked, .. } => {
                self.kept(who, *ino, layout_bytes(layout) + request_bytes(Some(asked)))
            }
            Change::Detoured { ino, layout, .. } => self.kept(who, *ino, 2 * layout_bytes(layout)),
            Change::MoveBegun { ino, moves, .. } => self.kept(who, *ino, moved_bytes(moves.len())),
            Change::Intended { uid, intent, .. } => Some(Growth::of_kept(*uid, who.gid, intent.kept_bytes())),
            Change::Resized { ino, cut, .. } => {
                let layout = cut.and(self.regular(*ino)).map(|file| layout_bytes(&file.layout));
                self.kept(who, *ino, layout.map_or(0, |bytes| INTENT_BYTES + bytes))
            }
            // These keep the rest of a move, whose beginning was admitted with it.
            Change::MoveFrozen { .. } | Change::Relaid { .. } | Change::MoveAbandoned { .. } => None,
            // Their tables have bounds of their own, which are no greater for any user.
            Change::Remembered { .. } | Change::ClientReleased { .. } => None,
            // These keep no more than before: an inode that changes its owner goes with all that it carries.
            Change::AttributesSet { .. }
            | Change::Published { .. }
            | Change::Touched { .. }
            | Change::Reparented { .. }
            | Change::Unlinked { .. }
            | Change::Disposed { .. }
            | Change::Settled { .. }
            | Change::ForgottenForPeer { .. }
            | Change::DirectoryRemoved { .. }
            | Change::ClientForgotten { .. }
            | Change::ClientReturned { .. }
            | Change::NamesCounted { .. }
            | Change::UseCounted
            | Change::Started { .. } => None,
            // A snapshot alone has these, and no decision.
            Change::Counted { .. }
            | Change::Kept { .. }
            | Change::EntryKept { .. }
            | Change::MadeKept { .. }
            | Change::MoveKept { .. } => None,
        }
    }

    /// More memory for an inode, which nobody is charged for in bytes.
    fn kept(&self, who: &Identity, ino: Ino, kept_bytes: u64) -> Option<Growth> {
        let (uid, gid) = self.get(ino).map_or((who.uid, who.gid), |inode| (inode.uid, inode.gid));
        Some(Growth::of_kept(uid, gid, kept_bytes))
    }

    /// More names, attributes or link targets of an inode.
    fn described(&self, who: &Identity, ino: Ino, bytes: u64) -> Option<Growth> {
        let before = self.get(ino).map_or(0, Inode::described_bytes);
        let charged_bytes = charged_description(before + bytes) - charged_description(before);
        Some(Growth { charged_bytes, ..self.kept(who, ino, bytes)? })
    }
}

impl Growth {
    /// A new inode with names of so many bytes.
    fn of_new(birth: &Birth, names_bytes: u64) -> Growth {
        let (carried, target) = match &birth.node {
            BirthNode::Regular { layout, asked } => {
                (layout_bytes(layout) + request_bytes(asked.as_deref()), 0)
            }
            BirthNode::Directory { request } => (request_bytes(request.layout.as_ref()), 0),
            BirthNode::Symlink { target } => (0, target.len() as u64),
            BirthNode::Special { .. } => (0, 0),
        };
        let described = names_bytes + target;
        Growth {
            uid: birth.uid,
            gid: birth.gid,
            kept_bytes: INODE_BYTES + carried + described,
            charged_bytes: charged_description(described),
        }
    }

    fn of_kept(uid: u32, gid: u32, kept_bytes: u64) -> Growth {
        Growth { uid, gid, kept_bytes, charged_bytes: 0 }
    }
}
