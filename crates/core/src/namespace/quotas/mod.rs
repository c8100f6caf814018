//! Quotas: what each owner uses and may use.
//!
//! [`Quotas`] holds the limits in force, the use that other servers told last, and the account of bytes behind the ends of files.
//! [`Usage`] sums up what the owners have here, as bytes and inodes that a quota counts and as memory that is kept for users; its
//! owner, the table of inodes, adjusts it with every change. [`KeptMemory`] is the bound of that memory.
//!
//! Promises: the sums follow from charges alone, so a replay gives the same ones, and no user but root passes a limit or the bound.
//! Quotas know no inode: their callers show them what something costs, and ask before they decide.

pub(super) mod estimates;
mod kept;
#[cfg(test)]
mod tests;
mod usage;

pub(crate) use kept::{KeptMemory, ROOT};
pub(crate) use usage::{Charge, Recount, Usage};
pub use usage::{QuotaLine, UseFault};

#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::errno::{EDQUOT, ENOSPC};
use crate::unpublished::Unpublished;
use std::collections::{BTreeSet, HashMap};
use weir_placement::ServerId;
use weir_wire::quota::OWNERS_TOLD;
use weir_wire::{Errno, Identity, QuotaLimits, QuotaOwner, QuotaReport, QuotaTable, QuotaUse};

/// The limits in force, the use of the other servers as they told it last, and bytes that nobody published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    table: QuotaTable,
    elsewhere: HashMap<ServerId, Elsewhere>,
    /// Bytes behind the ends of files here. The journal does not have them: after a start they are found on the targets.
    unpublished: Unpublished,
    /// The most unpublished bytes of a user without a limit, once the targets are known.
    unpublished_max: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Elsewhere {
    /// The start of the server that told it.
    boot: u64,
    owners: HashMap<QuotaOwner, QuotaUse>,
}

impl Quotas {
    /// Puts limits into force.
    pub(crate) fn set(&mut self, table: &QuotaTable) {
        self.table.clone_from(table);
    }

    /// Whether no limit was ever set.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Takes over the use that start `boot` of another server tells.
    pub(crate) fn note(&mut self, server: ServerId, boot: u64, report: &QuotaReport) {
        let told = self.elsewhere.entry(server).or_default();
        if report.is_whole || told.boot != boot {
            told.owners.clear();
        }
        told.boot = boot;
        told.owners.extend(report.owners.iter().take(OWNERS_TOLD).copied());
    }

    /// Takes over the use of some owners on a server whose use was known before.
    pub(crate) fn note_some(&mut self, server: ServerId, owners: &[(QuotaOwner, QuotaUse)]) {
        if let Some(told) = self.elsewhere.get_mut(&server) {
            told.owners.extend(owners.iter().take(OWNERS_TOLD).copied());
        }
    }

    /// A user without a limit may have half of the `capacity_bytes` of the targets here.
    pub(crate) fn note_capacity(&mut self, capacity_bytes: u64) {
        self.unpublished_max = Some(capacity_bytes / 2);
    }

    /// The account of bytes behind the ends of files.
    pub(crate) fn unpublished(&self) -> &Unpublished {
        &self.unpublished
    }

    /// The account of bytes behind the ends of files, for its changes.
    pub(crate) fn unpublished_mut(&mut self) -> &mut Unpublished {
        &mut self.unpublished
    }

    /// The use here that the other servers are to hear of now.
    pub(crate) fn take_news(&self, usage: &mut Usage) -> QuotaReport {
        let (is_whole, mut owners) = usage.take_news();
        for (uid, bytes) in self.unpublished.users() {
            let owner = QuotaOwner::User(uid);
            match owners.binary_search_by_key(&owner, |(owner, _)| *owner) {
                Ok(place) => owners[place].1.bytes = owners[place].1.bytes.saturating_add(bytes),
                Err(place) if owners.len() < OWNERS_TOLD => {
                    owners.insert(place, (owner, self.line(usage, owner).here))
                }
                Err(_) => {}
            }
        }
        QuotaReport { is_whole, owners, limits_digest: 0 }
    }

    /// Every owner with inodes or unpublished bytes here or with limits, in order.
    pub(crate) fn lines(&self, usage: &Usage) -> Vec<QuotaLine> {
        let limited = self.table.limits().map(|(owner, _)| owner);
        let holders = self.unpublished.users().map(|(uid, _)| QuotaOwner::User(uid));
        let owners = usage.owners().map(|(owner, _)| owner).chain(limited).chain(holders);
        let owners: BTreeSet<QuotaOwner> = owners.collect();
        owners.into_iter().map(|owner| self.line(usage, owner)).collect()
    }

    /// The use of one owner.
    pub(crate) fn line(&self, usage: &Usage, owner: QuotaOwner) -> QuotaLine {
        let mut here = usage.of(owner);
        let unpublished_bytes = match owner {
            QuotaOwner::User(uid) => self.unpublished.of(uid),
            _ => 0,
        };
        here.bytes = here.bytes.saturating_add(unpublished_bytes);
        QuotaLine { owner, here, unpublished_bytes, elsewhere: self.use_elsewhere(owner) }
    }

    /// The caller's own use and limits, as JSON.
    pub(crate) fn text(&self, usage: &Usage, who: &Identity) -> Vec<u8> {
        let mut groups: Vec<u32> = who.groups.iter().copied().chain([who.gid]).collect();
        groups.sort_unstable();
        groups.dedup();
        let line = |owner: QuotaOwner, number: u32| {
            let QuotaLine { here, elsewhere, .. } = self.line(usage, owner);
            let limits = self.limits_of(owner);
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

    /// Whether no limit holds for this user: as CAP_SYS_RESOURCE does on a local file system (quotactl(2)), root passes over limits.
    fn passes(&self, actor: u32) -> bool {
        self.is_empty() || actor == ROOT
    }

    /// Whether these owners may have `growth` more.
    pub(crate) fn admit(
        &self,
        usage: &Usage,
        actor: u32,
        owners: impl IntoIterator<Item = QuotaOwner>,
        growth: QuotaUse,
    ) -> Result<(), Errno> {
        if self.passes(actor) {
            return Ok(());
        }
        let fits = |owner| self.has_room(owner, self.line(usage, owner).here, growth);
        owners.into_iter().all(fits).then_some(()).ok_or(EDQUOT)
    }

    /// Whether the files of these owners may have `bytes` more, of which some may be charged already as bytes that are not published:
    /// another server admits such bytes by sums that are a little old.
    pub(crate) fn admit_published(
        &self,
        usage: &Usage,
        actor: u32,
        owners: impl IntoIterator<Item = QuotaOwner>,
        bytes: u64,
    ) -> Result<(), Errno> {
        if self.passes(actor) {
            return Ok(());
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ChargedAdmitted) {
            return Ok(());
        }
        let fits = |owner| self.has_room(owner, usage.of(owner), QuotaUse { bytes, inodes: 0 });
        owners.into_iter().all(fits).then_some(()).ok_or(EDQUOT)
    }

    /// Whether an owner that has so much here may have so much more.
    fn has_room(&self, owner: QuotaOwner, here: QuotaUse, growth: QuotaUse) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::LimitsIgnored) {
            return true;
        }
        let (limits, elsewhere) = (self.limits_of(owner), self.use_elsewhere(owner));
        let fits = |growth: u64, most: Option<u64>, here: u64, elsewhere: u64| {
            let then = here.saturating_add(elsewhere).saturating_add(growth);
            growth == 0 || most.is_none_or(|most| then <= most)
        };
        fits(growth.bytes, limits.bytes, here.bytes, elsewhere.bytes)
            && fits(growth.inodes, limits.inodes, here.inodes, elsewhere.inodes)
    }

    /// Whether a user may have `growth` more bytes behind the ends of files. In files of other homes the user has `held` bytes here,
    /// of which the homes do not count `untold` yet.
    ///
    /// # Errors
    /// EDQUOT; ENOSPC for a user without a limit.
    pub(crate) fn admit_held(
        &self,
        usage: &Usage,
        (uid, gid): (u32, u32),
        (untold, held): (u64, u64),
        growth: u64,
    ) -> Result<(), Errno> {
        if uid == ROOT {
            return Ok(());
        }
        let own = self.unpublished.of(uid);
        let fits = |owner: QuotaOwner, more: u64| {
            let QuotaLine { here, elsewhere, .. } = self.line(usage, owner);
            let then = here.bytes.saturating_add(elsewhere.bytes).saturating_add(more).saturating_add(growth);
            self.limits_of(owner).bytes.map(|most| then <= most)
        };
        // The bytes of other members are not the group's before they are published.
        if fits(QuotaOwner::Group(gid), own.saturating_add(untold)) == Some(false) {
            return Err(EDQUOT);
        }
        match fits(QuotaOwner::User(uid), untold) {
            Some(true) => Ok(()),
            Some(false) => Err(EDQUOT),
            None => {
                let then = own.saturating_add(held).saturating_add(growth);
                self.unpublished_max.is_none_or(|most| then <= most).then_some(()).ok_or(ENOSPC)
            }
        }
    }

    fn limits_of(&self, owner: QuotaOwner) -> QuotaLimits {
        self.table.of(owner)
    }

    /// The use of an owner on the other servers, as they told it last.
    fn use_elsewhere(&self, owner: QuotaOwner) -> QuotaUse {
        let told = self.elsewhere.values().filter_map(|told| told.owners.get(&owner));
        told.fold(QuotaUse::default(), |sum, used| QuotaUse {
            bytes: sum.bytes.saturating_add(used.bytes),
            inodes: sum.inodes.saturating_add(used.inodes),
        })
    }
}
