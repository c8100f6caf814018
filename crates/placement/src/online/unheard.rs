//! The bytes that other homes place before they are heard of, and where these bytes are likely to lie.
//!
//! Homes that know the same choose the same targets until they hear of each other. A home therefore expects that, until
//! the next exchange, the others place as much as was placed between two exchanges lately, on the targets with the least
//! load. Below the level up to which these bytes fill the targets, no target is known to be emptier than another.

/// An account of the bytes that all homes placed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unheard {
    /// Bytes placed lately, as of the last exchange; absent before the first.
    known_bytes: Option<f64>,
    /// Most bytes that were placed between two exchanges; older ones count for less.
    most_bytes: f64,
}

impl Unheard {
    /// The figures of an exchange hold `bytes` that all homes placed lately. Of a byte that was placed by the exchange before,
    /// the part `left` counts.
    pub(crate) fn hear(&mut self, bytes: f64, left: f64) {
        let new = self.known_bytes.map_or(0.0, |known| bytes - known * left);
        self.most_bytes = (self.most_bytes * left).max(new);
        self.known_bytes = Some(bytes);
    }

    /// The bytes that were heard of, if any exchange was, count for so many from now on.
    pub(crate) fn settle(&mut self, bytes: f64) {
        self.known_bytes = self.known_bytes.map(|_| bytes);
    }

    /// The bytes that others are expected to place until the next exchange. This home is one of `homes`, and placed
    /// `own_bytes` between two exchanges at most, by the same measure.
    pub(crate) fn expected(&self, own_bytes: f64, homes: usize) -> f64 {
        (self.most_bytes - own_bytes.max(self.most_bytes / homes.max(1) as f64)).max(0.0)
    }
}

/// The load over speed up to which `bytes` fill the emptiest of `bins`, given by speed and load; 0 for no bytes, and where no
/// bin has a speed.
pub(crate) fn level(bins: &[(f64, f64)], bytes: f64) -> f64 {
    if bytes <= 0.0 {
        return 0.0;
    }
    // The bytes fill at first all bins, and then those that are below the level of the time before: some rounds instead of
    // a sort.
    let mut level = f64::INFINITY;
    loop {
        let (mut speeds, mut loads) = (0.0, 0.0);
        for &(speed, load) in bins {
            let is_below = speed > 0.0 && load < level * speed;
            speeds += if is_below { speed } else { 0.0 };
            loads += if is_below { load } else { 0.0 };
        }
        if speeds == 0.0 {
            return 0.0;
        }
        let next = (loads + bytes) / speeds;
        if next >= level {
            return level;
        }
        level = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_home_expects_what_was_placed_between_two_exchanges_less_its_own_part() {
        let mut unheard = Unheard::default();
        for (bytes, left) in [(1e9, 1.0), (5e8, 0.5)] {
            unheard.hear(bytes, left);
            assert_eq!(unheard.expected(0.0, 10), 0.0, "old bytes are no sign of new ones");
        }
        unheard.settle(0.0);
        unheard.hear(1000.0, 0.9);
        assert_eq!(unheard.expected(0.0, 10), 900.0);
        assert_eq!(unheard.expected(400.0, 10), 600.0);
        assert_eq!(unheard.expected(1000.0, 10), 0.0, "all was placed here");
        assert_eq!(unheard.expected(0.0, 1), 0.0, "there is no other home");
        unheard.hear(500.0, 0.5);
        assert_eq!(unheard.expected(0.0, 10), 450.0, "half of it after a half-life without new files");
    }

    proptest! {
        /// All bytes are in the bins below the level, and none in the others.
        #[test]
        fn the_bytes_fill_the_bins_up_to_the_level(
            bins in prop::collection::vec((0.01_f64..10.0, 0.0_f64..1e9), 1..30),
            bytes in 0.0_f64..1e10,
        ) {
            let level = level(&bins, bytes);
            let filled: f64 = bins.iter().map(|(speed, load)| (level * speed - load).max(0.0)).sum();
            prop_assert!((filled - bytes).abs() <= 1e-6 * (bytes + 1e9), "{filled} of {bytes}");
        }
    }

    #[test]
    fn nothing_is_filled_where_no_bin_has_a_speed() {
        assert_eq!(level(&[(0.0, 5.0), (-1.0, 3.0)], 9.0), 0.0);
        assert_eq!(level(&[(1.0, 5.0)], 0.0), 0.0);
    }
}
