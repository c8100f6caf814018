//! Quotas: the limits that a site sets to users and groups, and the use that servers tell each other.

use crate::decision::{Decided, Stamp};
use serde::{Deserialize, Serialize};

/// The most limits of a store: decisions of one server for a site of ten thousand users and groups, in half a megabyte.
pub const LIMITS_MAX: usize = 10_000;
/// The most owners in one report: twenty kilobytes. With more owners a report tells some of them, the changed ones first.
pub const OWNERS_TOLD: usize = 1024;

/// The holder of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaOwner {
    /// A user, by number.
    User(u32),
    /// A group, by number.
    Group(u32),
    /// Every user without a limit of its own, each for itself.
    AnyUser,
    /// Every group without a limit of its own, each for itself.
    AnyGroup,
}

/// The limits of one owner; a limit that is absent is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaLimits {
    /// The most bytes.
    pub bytes: Option<u64>,
    /// The most inodes.
    pub inodes: Option<u64>,
}

/// The use of bytes and inodes by one owner, on the servers that are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUse {
    /// Bytes of files, in whole pages.
    pub bytes: u64,
    /// Inodes of every kind.
    pub inodes: u64,
}

/// The use that one server tells another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaReport {
    /// Whether these are all owners of the server. Otherwise they are some, and the others are as they were told before.
    pub is_whole: bool,
    /// The owners, at most [`OWNERS_TOLD`].
    pub owners: Vec<(QuotaOwner, QuotaUse)>,
    /// A digest of the sender's limits: who has others tells its own in the next report.
    pub limits_digest: u32,
}

/// The limits of a store, each decided by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaTable {
    /// By owner, without repetition. Limits that are absent were taken back.
    limits: Vec<(QuotaOwner, Decided<Option<QuotaLimits>>)>,
}

/// There are [`LIMITS_MAX`] limits already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLimits;

impl Default for QuotaReport {
    fn default() -> QuotaReport {
        QuotaReport { is_whole: true, owners: Vec::new(), limits_digest: QuotaTable::default().digest() }
    }
}

impl QuotaOwner {
    /// The owner that stands for all owners of this kind.
    #[must_use]
    pub fn any(self) -> QuotaOwner {
        match self {
            QuotaOwner::User(_) | QuotaOwner::AnyUser => QuotaOwner::AnyUser,
            QuotaOwner::Group(_) | QuotaOwner::AnyGroup => QuotaOwner::AnyGroup,
        }
    }
}

impl QuotaTable {
    /// The limits that were set, by owner.
    pub fn limits(&self) -> impl Iterator<Item = (QuotaOwner, QuotaLimits)> + '_ {
        self.limits.iter().filter_map(|(owner, decided)| Some((*owner, decided.value?)))
    }

    /// Whether no limit was ever set.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The limits in force for an owner: those of its own, else those of all owners of its kind. The administrator and the
    /// administrator's group have only limits of their own.
    pub fn of(&self, owner: QuotaOwner) -> QuotaLimits {
        let own = self.set_for(owner);
        let default = || match owner {
            QuotaOwner::User(0) | QuotaOwner::Group(0) => None,
            _ => self.set_for(owner.any()),
        };
        own.or_else(default).unwrap_or_default()
    }

    /// The limits that were set for this owner itself.
    pub fn set_for(&self, owner: QuotaOwner) -> Option<QuotaLimits> {
        self.place(owner).ok().and_then(|place| self.limits[place].1.value)
    }

    /// Decides the limits of an owner anew on server `server`, whose clock shows `milliseconds` of Unix time; absent limits
    /// leave the owner to those of its kind.
    ///
    /// # Errors
    /// [`TooManyLimits`]; nothing changes then.
    pub fn decide(
        &mut self,
        owner: QuotaOwner,
        limits: Option<QuotaLimits>,
        milliseconds: u64,
        server: u16,
    ) -> Result<(), TooManyLimits> {
        let place = match self.place(owner) {
            Ok(place) => place,
            Err(_) if self.limits.len() >= LIMITS_MAX => return Err(TooManyLimits),
            Err(place) => {
                self.limits.insert(place, (owner, Decided { value: None, stamp: Stamp::default() }));
                place
            }
        };
        self.limits[place].1.decide(limits, milliseconds, server);
        Ok(())
    }

    /// Takes over later decisions; answers whether there were any.
    pub fn follow(&mut self, others: &QuotaTable) -> bool {
        let mut has_followed = false;
        for (owner, decided) in &others.limits {
            match self.place(*owner) {
                Ok(place) => has_followed |= self.limits[place].1.follow(decided),
                Err(place) if self.limits.len() < LIMITS_MAX => {
                    self.limits.insert(place, (*owner, decided.clone()));
                    has_followed = true;
                }
                Err(_) => {}
            }
        }
        has_followed
    }

    /// A number that differs between tables that differ, but for one pair in four billions (FNV-1a).
    pub fn digest(&self) -> u32 {
        let mut bytes = Vec::new();
        crate::encode_body(self, &mut bytes);
        bytes.iter().fold(0x811c_9dc5, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }

    /// The place of an owner, or the place where it would stand. A table that came from elsewhere may not be in order.
    fn place(&self, owner: QuotaOwner) -> Result<usize, usize> {
        self.limits.binary_search_by_key(&owner, |(owner, _)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: QuotaOwner = QuotaOwner::User(1000);

    fn bytes(bytes: u64) -> Option<QuotaLimits> {
        Some(QuotaLimits { bytes: Some(bytes), inodes: None })
    }

    #[test]
    fn an_owner_has_its_own_limits_else_those_of_its_kind() {
        let mut table = QuotaTable::default();
        table.decide(QuotaOwner::AnyUser, bytes(5), 1, 0).unwrap();
        assert_eq!(table.of(ALICE), bytes(5).unwrap());
        assert_eq!(table.of(QuotaOwner::User(0)), QuotaLimits::default(), "the administrator");
        assert_eq!(table.of(QuotaOwner::Group(1000)), QuotaLimits::default());
        table.decide(ALICE, Some(QuotaLimits::default()), 2, 0).unwrap();
        assert_eq!(table.of(ALICE), QuotaLimits::default(), "no limit is a limit of its own");
        table.decide(ALICE, None, 3, 0).unwrap();
        assert_eq!(table.of(ALICE), bytes(5).unwrap());
    }

    #[test]
    fn decisions_about_several_owners_on_several_servers_all_count() {
        let (mut one, mut other) = (QuotaTable::default(), QuotaTable::default());
        one.decide(ALICE, bytes(1), 10, 0).unwrap();
        other.decide(QuotaOwner::Group(7), bytes(2), 11, 1).unwrap();
        other.decide(ALICE, bytes(3), 9, 1).unwrap();
        assert_ne!(one.digest(), other.digest());
        let before = one.clone();
        assert!(one.follow(&other));
        assert!(other.follow(&before));
        assert_eq!(one, other);
        assert_eq!(one.digest(), other.digest());
        assert_eq!(one.of(ALICE), bytes(1).unwrap());
        assert!(!one.follow(&other), "known decisions change nothing");
    }

    #[test]
    fn a_table_has_an_end_and_is_the_same_in_json() {
        let mut table = QuotaTable::default();
        for number in 0..LIMITS_MAX as u32 {
            table.decide(QuotaOwner::User(number), bytes(1), 1, 0).unwrap();
        }
        assert_eq!(table.decide(QuotaOwner::AnyUser, bytes(1), 1, 0), Err(TooManyLimits));
        table.decide(ALICE, bytes(2), 2, 0).unwrap();
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<QuotaTable>(&text).unwrap(), table);
    }
}
