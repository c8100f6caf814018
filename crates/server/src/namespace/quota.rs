//! Quotas: the use of each user and group, and the refusal of growth beyond the limits.
//!
//! The use follows from the inodes alone. A file costs its owner and its group its size in whole pages, or the room that was
//! reserved for it if that is more. So bytes that are written into holes were paid for when the file grew over them, and only a
//! change at the home makes a file cost more. Each inode costs one inode until it is gone, also without a name.

use super::change::Change;
use super::core::Namespace;
use super::decision::Decision;
use super::draft::Draft;
use super::errno::EDQUOT;
use super::inode::{allocation_of, Inode, Node};
use super::intent::Intent;
use super::state::State;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use weir_placement::ServerId;
use weir_wire::quota::OWNERS_TOLD;
use weir_wire::{
    AttributeChange, Capability, Errno, Identity, Ino, QuotaOwner, QuotaReport, QuotaTable, QuotaUse, Reply,
};

/// The user without limits.
const ROOT: u32 = 0;

/// The use of one server by all owners.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    owners: BTreeMap<QuotaOwner, QuotaUse>,
    /// Owners whose use changed since it was last told.
    changed: BTreeSet<QuotaOwner>,
    /// The last owner that was told in its turn.
    told: Option<QuotaOwner>,
}

/// The limits in force, and the use of the other servers as they told it last.
#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    table: QuotaTable,
    elsewhere: HashMap<ServerId, Elsewhere>,
}

#[derive(Clone, Debug, Default)]
struct Elsewhere {
    /// The start of the server that told it.
    boot: u64,
    owners: HashMap<QuotaOwner, QuotaUse>,
}

/// The part of an inode that its owners pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    uid: u32,
    gid: u32,
    bytes: u64,
}

/// The use of one owner, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaLine {
    /// The owner.
    pub(crate) owner: QuotaOwner,
    /// The use of this server.
    pub(crate) here: QuotaUse,
    /// The use of the other servers, as they told it last.
    pub(crate) elsewhere: QuotaUse,
}

impl Inode {
    /// The bytes that the owners pay for.
    pub(super) fn charged_bytes(&self) -> u64 {
        match &self.node {
            Node::Regular(file) => allocation_of(file.size_bytes).max(file.allocated_bytes),
            _ => 0,
        }
    }
}

impl Charge {
    fn owners(self) -> [QuotaOwner; 2] {
        [QuotaOwner::User(self.uid), QuotaOwner::Group(self.gid)]
    }
}

impl Usage {
    /// An inode was `before` and is `after` a change.
    fn adjust(&mut self, before: Option<Charge>, after: Option<Charge>) {
        if before == after {
            return;
        }
        for charge in before.into_iter() {
            for owner in charge.owners() {
                let used = self.owners.entry(owner).or_default();
                used.bytes = used.bytes.saturating_sub(charge.bytes);
                used.inodes = used.inodes.saturating_sub(1);
                self.changed.insert(owner);
            }
        }
        for charge in after.into_iter() {
            for owner in charge.owners() {
                let used = self.owners.entry(owner).or_default();
                used.bytes = used.bytes.saturating_add(charge.bytes);
                used.inodes = used.inodes.saturating_add(1);
                self.changed.insert(owner);
            }
        }
    }

    fn of(&self, owner: QuotaOwner) -> QuotaUse {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// The use that the other servers are to hear of now: of all owners, or of the changed ones and of some others in turn.
    fn take_news(&mut self) -> (bool, Vec<(QuotaOwner, QuotaUse)>) {
        let is_whole = self.owners.len() <= OWNERS_TOLD;
        if is_whole {
            self.changed.clear();
            let told = self.owners.iter().map(|(owner, used)| (*owner, *used)).collect();
            self.owners.retain(|_, used| *used != QuotaUse::default());
            return (true, told);
        }
        let mut chosen: Vec<QuotaOwner> = self.changed.iter().copied().take(OWNERS_TOLD / 2).collect();
        for owner in &chosen {
            self.changed.remove(owner);
        }
        let from = self.told.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = self.owners.range((from, Bound::Unbounded)).chain(self.owners.iter());
        let in_turn: Vec<QuotaOwner> =
            in_turn.map(|(owner, _)| *owner).take(OWNERS_TOLD - chosen.len()).collect();
        self.told = in_turn.last().copied();
        chosen.extend(in_turn);
        chosen.sort_unstable();
        chosen.dedup();
        (false, chosen.into_iter().map(|owner| (owner, self.of(owner))).collect())
    }
}

impl State {
    /// Carries out a change, and accounts the inode that costs more or less afterwards.
    pub(super) fn apply_accounted(&mut self, change: &Change) {
        let Some(ino) = self.accounted(change) else { return self.apply(change) };
        let (before, extent) = (self.charge(ino), self.extent(ino));
        self.apply(change);
        self.note_holes(ino, extent);
        let after = self.charge(ino);
        self.usage.adjust(before, after);
    }

    /// The cost of an inode. A file that is about to grow costs its new size from the decision on, so that nobody else is
    /// given the same room.
    fn charge(&self, ino: Ino) -> Option<Charge> {
        let inode = self.inodes.get(&ino)?;
        let pending = self.cuts.get(&ino).and_then(|id| match self.intents.get(id) {
            Some(Intent::Cut { size_bytes, .. }) => Some(allocation_of(*size_bytes)),
            _ => None,
        });
        let bytes = inode.charged_bytes().max(pending.unwrap_or(0));
        Some(Charge { uid: inode.uid, gid: inode.gid, bytes })
    }

    /// The inode that may cost its owners more or less after a change.
    fn accounted(&self, change: &Change) -> Option<Ino> {
        match change {
            Change::Created { ino, .. }
            | Change::CreatedUnnamed { ino, .. }
            | Change::Kept { ino, .. }
            | Change::MadeForPeer { ino, .. }
            | Change::Disposed { ino, .. }
            | Change::AttributesSet { ino, .. }
            | Change::Resized { ino, .. }
            | Change::Published { ino, .. } => Some(*ino),
            Change::Started { .. } => Some(Ino::ROOT),
            Change::Intended { intent: Intent::Cut { ino, .. }, .. } => Some(*ino),
            Change::ForgottenForPeer { from, intent } => self.made.get(&(*from, *intent)).copied(),
            Change::Settled { id } => match self.intents.get(id) {
                Some(Intent::Cut { ino, .. }) => Some(*ino),
                _ => None,
            },
            _ => None,
        }
    }

    /// The use of all owners, counted anew.
    #[cfg(test)]
    pub(super) fn recounted(&self) -> BTreeMap<QuotaOwner, QuotaUse> {
        let mut usage = Usage::default();
        for ino in self.inodes.keys() {
            usage.adjust(None, self.charge(*ino));
        }
        usage.owners
    }

    /// The use of all owners that have any, as it was accounted.
    #[cfg(test)]
    pub(super) fn accounted_use(&self) -> BTreeMap<QuotaOwner, QuotaUse> {
        let used = self.usage.owners.iter().filter(|(_, used)| **used != QuotaUse::default());
        used.map(|(owner, used)| (*owner, *used)).collect()
    }
}

impl Namespace {
    /// Puts limits into force.
    pub(crate) fn set_quotas(&mut self, table: &QuotaTable) {
        self.quotas.table.clone_from(table);
    }

    /// Takes over the use that start `boot` of another server tells.
    pub(crate) fn note_use_elsewhere(&mut self, server: ServerId, boot: u64, report: &QuotaReport) {
        let told = self.quotas.elsewhere.entry(server).or_default();
        if report.is_whole || told.boot != boot {
            told.owners.clear();
        }
        told.boot = boot;
        told.owners.extend(report.owners.iter().take(OWNERS_TOLD).copied());
    }

    /// The use here that the other servers are to hear of now.
    pub(crate) fn take_quota_news(&mut self) -> QuotaReport {
        let (is_whole, owners) = self.state.usage.take_news();
        QuotaReport { is_whole, owners, limits_digest: 0 }
    }

    /// Every owner with inodes here or with limits, in order.
    pub(crate) fn quota_lines(&self) -> Vec<QuotaLine> {
        let limited = self.quotas.table.limits().map(|(owner, _)| owner);
        let owners: BTreeSet<QuotaOwner> = self.state.usage.owners.keys().copied().chain(limited).collect();
        owners.into_iter().map(|owner| self.quota_line(owner)).collect()
    }

    fn quota_line(&self, owner: QuotaOwner) -> QuotaLine {
        QuotaLine { owner, here: self.state.usage.of(owner), elsewhere: self.quotas.use_elsewhere(owner) }
    }

    /// The caller's own use and limits, as JSON.
    pub(super) fn quota_text(&self, who: &Identity) -> Vec<u8> {
        let mut groups: Vec<u32> = who.groups.iter().copied().chain([who.gid]).collect();
        groups.sort_unstable();
        groups.dedup();
        let line = |owner: QuotaOwner, number: u32| {
            let QuotaLine { here, elsewhere, .. } = self.quota_line(owner);
            let limits = self.quotas.table.of(owner);
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
    pub(super) fn admit_inode(&self, maker: u32, uid: u32, gid: u32) -> Result<(), Errno> {
        let owners = [QuotaOwner::User(uid), QuotaOwner::Group(gid)];
        self.admit(maker, owners, QuotaUse { bytes: 0, inodes: 1 })
    }

    /// Whether the owners of a file may have the bytes that it grows by: to `size_bytes`, with room up to `reserved_end`.
    pub(super) fn admit_growth(
        &self,
        writer: u32,
        inode: &Inode,
        size_bytes: u64,
        reserved_end: u64,
    ) -> Result<(), Errno> {
        let now = inode.charged_bytes();
        let then = allocation_of(size_bytes).max(allocation_of(reserved_end));
        let bytes = then.saturating_sub(now);
        let owners = [QuotaOwner::User(inode.uid), QuotaOwner::Group(inode.gid)];
        self.admit(writer, owners, QuotaUse { bytes, inodes: 0 })
    }

    /// Whether the new owners of an inode may have it with all its bytes.
    pub(super) fn admit_owners(
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

    /// Whether a write that ends at `end` may make the file as long as that. It is refused before a byte of it is written.
    pub(crate) fn may_grow(&self, capability: &Capability, end: u64) -> Result<(), Errno> {
        match self.state.inodes.get(&capability.ino) {
            Some(inode) => self.admit_growth(capability.uid, inode, end, 0),
            None => Ok(()),
        }
    }

    /// Refuses the publication of bytes that a quota has no room for. Nothing keeps the room of these bytes: the file is cut at its
    /// end, as after the loss of an append turn, and late bytes are answered `StaleEpoch`.
    pub(super) fn refuse_growth(&self, mut draft: Draft<'_>, ino: Ino) -> Result<Decision, Errno> {
        let size_bytes = self.state.regular(ino).ok_or(EDQUOT)?.size_bytes;
        self.abandon_for_cut(&mut draft, ino)?;
        let cut = draft.intent()?;
        draft.wait.push(cut);
        let at = draft.now;
        draft.push(Change::Resized { ino, size_bytes, permissions: None, cut: Some(cut), at });
        Ok(draft.reply(Reply::Failed(EDQUOT)))
    }

    fn admit(
        &self,
        actor: u32,
        owners: impl IntoIterator<Item = QuotaOwner>,
        growth: QuotaUse,
    ) -> Result<(), Errno> {
        // As CAP_SYS_RESOURCE does on a local file system (quotactl(2)), root passes over limits.
        if self.quotas.table.is_empty() || actor == ROOT {
            return Ok(());
        }
        let has_room = |owner| {
            let limits = self.quotas.table.of(owner);
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

impl Quotas {
    fn use_elsewhere(&self, owner: QuotaOwner) -> QuotaUse {
        let told = self.elsewhere.values().filter_map(|told| told.owners.get(&owner));
        told.fold(QuotaUse::default(), |sum, used| QuotaUse {
            bytes: sum.bytes.saturating_add(used.bytes),
            inodes: sum.inodes.saturating_add(used.inodes),
        })
    }
}
