//! One component of a layout: a range of the file striped over its own targets (RAID-0).

use crate::TargetId;
use serde::{Deserialize, Serialize};

/// End of a component that has none: that of the file.
pub const END_OF_FILE: u64 = u64::MAX;

/// A range of a file, cut into stripes: stripe `n` of the range lies on target `n mod targets.len()`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// One past its last file byte, or [`END_OF_FILE`]. It begins where the one before it ends.
    pub end: u64,
    /// Bytes of one stripe; positive.
    pub stripe_bytes: u64,
    /// Its targets in stripe order, each once; never empty.
    pub targets: Vec<TargetId>,
}

/// A run of bytes in one stripe, as offsets from the start of the component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index into the component's targets.
    pub(crate) stripe: usize,
    /// Offset inside the component's part of the target.
    pub(crate) offset: u64,
    /// Bytes to the end of the stripe.
    pub(crate) length: u64,
}

impl Component {
    /// The run that begins at `position` bytes from the component's start.
    pub(crate) fn run(&self, position: u64) -> Run {
        let count = self.targets.len() as u64;
        if count == 1 {
            return Run { stripe: 0, offset: position, length: u64::MAX - position };
        }
        let number = position / self.stripe_bytes;
        let within = position % self.stripe_bytes;
        Run {
            stripe: (number % count) as usize,
            offset: (number / count) * self.stripe_bytes + within,
            length: self.stripe_bytes - within,
        }
    }

    /// The number of the component's first `bytes` that lie on the target of stripe index `stripe`.
    pub fn share(&self, stripe: usize, bytes: u64) -> u64 {
        share(self.stripe_bytes, self.targets.len(), stripe, bytes)
    }

    /// Position, from the component's start, of byte `offset` in the part of stripe index `stripe`.
    pub(crate) fn position(&self, stripe: usize, offset: u64) -> u64 {
        let count = self.targets.len() as u64;
        if count == 1 {
            return offset;
        }
        let row = offset / self.stripe_bytes;
        let number = row.saturating_mul(count).saturating_add(stripe as u64);
        number.saturating_mul(self.stripe_bytes).saturating_add(offset % self.stripe_bytes)
    }
}

/// The number of the first `bytes` of a component of `count` stripes that lie on the target of stripe index `stripe`.
pub(crate) fn share(stripe_bytes: u64, count: usize, stripe: usize, bytes: u64) -> u64 {
    let count = count as u64;
    if count == 1 {
        return bytes;
    }
    let stripes = bytes / stripe_bytes;
    let rows = stripes / count;
    // Whole stripes of the last row lie on the first targets, then comes the cut one.
    let last = match (stripe as u64).cmp(&(stripes % count)) {
        std::cmp::Ordering::Less => stripe_bytes,
        std::cmp::Ordering::Equal => bytes % stripe_bytes,
        std::cmp::Ordering::Greater => 0,
    };
    rows * stripe_bytes + last
}
