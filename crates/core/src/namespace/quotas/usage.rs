//! The use of one server by users and groups: sums that follow from the inodes, and counts that check them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use weir_wire::quota::OWNERS_TOLD;
use weir_wire::{Ino, QuotaOwner, QuotaUse};

/// The use of one server by all owners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    owners: BTreeMap<QuotaOwner, QuotaUse>,
    /// Owners whose use changed since it was last told.
    changed: BTreeSet<QuotaOwner>,
    /// The last owner that was told in its turn.
    told: Option<QuotaOwner>,
    /// Memory that the server keeps, in all and by user.
    kept_bytes: u64,
    kept_by_user: HashMap<u32, u64>,
}

/// The part of an inode that its owners pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Bytes that a quota counts.
    pub(crate) bytes: u64,
    /// Memory that the server keeps for the user.
    pub(crate) kept_bytes: u64,
}

/// The use of one owner, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLine {
    /// The owner.
    pub owner: QuotaOwner,
    /// The use of this server.
    pub here: QuotaUse,
    /// The part of `here` that no published size covers.
    pub unpublished_bytes: u64,
    /// The use of the other servers, as they told it last.
    pub(crate) elsewhere: QuotaUse,
}

impl QuotaLine {
    /// The use of the whole store, as far as this server knows it.
    pub(crate) fn everywhere(&self) -> QuotaUse {
        let bytes = self.here.bytes.saturating_add(self.elsewhere.bytes);
        QuotaUse { bytes, inodes: self.here.inodes.saturating_add(self.elsewhere.inodes) }
    }
}

/// A count that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Recount {
    /// Tells this count from one that began later.
    id: u64,
    /// Inodes up to this number are counted,
    through: Ino,
    /// and those above the greatest of the beginning, as they were made since.
    last: Ino,
    usage: Usage,
}

/// An owner with another use than its inodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseFault {
    /// The owner.
    pub owner: QuotaOwner,
    /// The use in the account.
    pub accounted: QuotaUse,
    /// The use by the inodes.
    pub counted: QuotaUse,
}

impl Charge {
    fn owners(self) -> [QuotaOwner; 2] {
        [QuotaOwner::User(self.uid), QuotaOwner::Group(self.gid)]
    }
}

impl Usage {
    /// An inode was `before` and is `after` a change.
    pub(crate) fn adjust(&mut self, before: Option<Charge>, after: Option<Charge>) {
        if before == after {
            return;
        }
        // Most changes cost a quota nothing.
        if let (Some(before), Some(after)) = (before, after) {
            if (before.uid, before.gid, before.bytes) == (after.uid, after.gid, after.bytes) {
                self.let_go(before.uid, before.kept_bytes);
                return self.keep(after.uid, after.kept_bytes);
            }
        }
        for charge in before.into_iter() {
            self.let_go(charge.uid, charge.kept_bytes);
            for owner in charge.owners() {
                let used = self.owners.entry(owner).or_default();
                used.bytes = used.bytes.saturating_sub(charge.bytes);
                used.inodes = used.inodes.saturating_sub(1);
                self.changed.insert(owner);
            }
        }
        for charge in after.into_iter() {
            self.keep(charge.uid, charge.kept_bytes);
            for owner in charge.owners() {
                let used = self.owners.entry(owner).or_default();
                used.bytes = used.bytes.saturating_add(charge.bytes);
                used.inodes = used.inodes.saturating_add(1);
                self.changed.insert(owner);
            }
        }
    }

    /// The server keeps more memory for a user.
    pub(crate) fn keep(&mut self, uid: u32, bytes: u64) {
        self.kept_bytes += bytes;
        *self.kept_by_user.entry(uid).or_default() += bytes;
    }

    /// The server keeps less memory for a user.
    pub(crate) fn let_go(&mut self, uid: u32, bytes: u64) {
        self.kept_bytes -= bytes;
        if let Some(kept) = self.kept_by_user.get_mut(&uid) {
            *kept -= bytes;
            if *kept == 0 {
                self.kept_by_user.remove(&uid);
            }
        }
    }

    /// Memory that the server keeps.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Memory that the server keeps for a user.
    pub(crate) fn kept_by(&self, uid: u32) -> u64 {
        self.kept_by_user.get(&uid).copied().unwrap_or(0)
    }

    /// Memory that the server keeps for each user.
    #[cfg(test)]
    pub(crate) fn kept_by_users(&self) -> BTreeMap<u32, u64> {
        self.kept_by_user.iter().map(|(uid, bytes)| (*uid, *bytes)).collect()
    }

    pub(crate) fn of(&self, owner: QuotaOwner) -> QuotaUse {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = (QuotaOwner, QuotaUse)> + '_ {
        self.owners.iter().map(|(owner, used)| (*owner, *used))
    }

    /// The owners with other sums than those counted.
    pub(crate) fn faults(&self, counted: &Usage) -> Vec<UseFault> {
        let owners: BTreeSet<QuotaOwner> = self.owners.keys().chain(counted.owners.keys()).copied().collect();
        let compared = owners.into_iter().map(|owner| UseFault {
            owner,
            accounted: self.of(owner),
            counted: counted.of(owner),
        });
        compared.filter(|compared| compared.accounted != compared.counted).collect()
    }

    /// Takes over the sums that were counted, of which the other servers are to hear.
    pub(crate) fn correct(&mut self, counted: Usage) {
        self.changed.extend(self.owners.keys().chain(counted.owners.keys()));
        for (owner, used) in &mut self.owners {
            *used = counted.of(*owner);
        }
        self.owners.extend(counted.owners);
    }

    /// The use that the other servers are to hear of now: of all owners, or of the changed ones and of some others in turn.
    pub(crate) fn take_news(&mut self) -> (bool, Vec<(QuotaOwner, QuotaUse)>) {
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

impl Recount {
    /// Count number `id` of inodes up to `last`.
    pub(crate) fn new(id: u64, last: Ino) -> Recount {
        Recount { id, through: Ino::default(), last, usage: Usage::default() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Counts the next inode.
    pub(crate) fn count(&mut self, ino: Ino, charge: Option<Charge>) {
        self.usage.adjust(None, charge);
        self.through = ino;
    }

    /// An inode was `before` and is `after` a change, which counts if the inode was counted.
    pub(crate) fn follow(&mut self, ino: Ino, before: Option<Charge>, after: Option<Charge>) {
        if ino <= self.through || ino > self.last {
            self.usage.adjust(before, after);
        }
    }

    pub(crate) fn into_usage(self) -> Usage {
        self.usage
    }
}
