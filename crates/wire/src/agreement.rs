//! Settings of a whole store that can change while it runs. Of two decisions, the later one counts on every server.

use crate::QuotaTable;
use serde::{Deserialize, Serialize};

/// The place of a decision among all decisions about one setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// Milliseconds of Unix time; more than those of the decision before, whatever the clock says.
    pub milliseconds: u64,
    /// Number of the server that was told. It orders decisions of one millisecond.
    pub server: u16,
}

/// A value, and when it was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided<T> {
    /// The value.
    pub value: T,
    /// The decision.
    pub stamp: Stamp,
}

/// The division of device time, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingNames {
    /// Name of the policy, such as `size-fair`.
    pub policy: String,
    /// Name of the scheduler, such as `virtual-time`.
    pub scheduler: String,
}

/// The settings that all servers of a store share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSettings {
    /// The division of device time among jobs.
    pub sharing: Decided<SharingNames>,
    /// Name of the algorithm that chooses the targets of new files.
    pub allocator: Decided<String>,
    /// The limits of users and groups. A report has them only while another server has others.
    #[serde(default)]
    pub quotas: QuotaTable,
}

impl StoreSettings {
    /// The settings without the limits of users and groups.
    #[must_use]
    pub fn without_quotas(&self) -> StoreSettings {
        StoreSettings { quotas: QuotaTable::default(), ..self.clone() }
    }
}

impl<T: Clone> Decided<T> {
    /// Takes over a later decision; answers whether `other` was later.
    pub fn follow(&mut self, other: &Decided<T>) -> bool {
        let is_later = other.stamp > self.stamp;
        if is_later {
            self.clone_from(other);
        }
        is_later
    }

    /// Decides anew on server `server`, whose clock shows `milliseconds` of Unix time.
    pub fn decide(&mut self, value: T, milliseconds: u64, server: u16) {
        let milliseconds = milliseconds.max(self.stamp.milliseconds.saturating_add(1));
        *self = Decided { value, stamp: Stamp { milliseconds, server } };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_decisions_counts_wherever_they_are_told_first() {
        let mut one: Decided<&str> = Decided::default();
        let mut other = one.clone();
        one.decide("early", 1_000, 0);
        other.decide("late", 1_001, 1);
        let (early, late) = (one.clone(), other.clone());
        assert!(one.follow(&late));
        assert!(!other.follow(&early));
        assert_eq!(one, other);
        assert_eq!(one.value, "late");
        assert!(!one.follow(&late), "a decision that is known changes nothing");
    }

    #[test]
    fn a_decision_counts_although_the_clock_went_back() {
        let mut decided: Decided<&str> = Decided::default();
        decided.decide("first", 5_000, 0);
        let before = decided.clone();
        decided.decide("second", 3_000, 0);
        assert!(before.stamp < decided.stamp);
    }

    #[test]
    fn two_decisions_of_one_millisecond_have_an_order() {
        let mut one: Decided<&str> = Decided::default();
        let mut other = one.clone();
        one.decide("of server 0", 1_000, 0);
        other.decide("of server 1", 1_000, 1);
        let first = one.clone();
        assert!(one.follow(&other));
        assert!(!other.follow(&first));
    }
}
