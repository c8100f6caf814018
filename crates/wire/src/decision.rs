//! A value of which the later decision counts, on every server.

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
