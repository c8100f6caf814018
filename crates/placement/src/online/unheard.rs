//! The bytes that all homes placed, exchange by exchange, and where bytes that are not heard of yet are likely to lie.
//!
//! Homes that know the same choose the same targets until they hear of each other: those with the least load. Below the level
//! up to which bytes that others placed meanwhile fill the targets, no target is known to be emptier than another.

use std::collections::VecDeque;

/// A placer remembers so many exchanges.
pub const EXCHANGES_MAX: usize = 64;

/// An account of the bytes that all homes placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unheard {
    /// Bytes placed lately, as of the last exchange; absent before the first.
    known_bytes: Option<f64>,
    exchanges: VecDeque<Exchange>,
    /// Whether older exchanges are gone from `exchanges`.
    has_forgotten: bool,
}

/// The news of one exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// Its moment.
    pub(crate) seconds: f64,
    /// Bytes that all homes placed since the one before, without those removed.
    pub(crate) bytes: f64,
    /// Fewer bytes may be an error of rounding.
    pub(crate) grain_bytes: f64,
}

impl Unheard {
    /// The figures of an exchange at `seconds` hold `bytes` that all homes placed lately. Of a byte that was placed by the
    /// exchange before, the part `left` counts.
    pub(crate) fn hear(&mut self, seconds: f64, (bytes, left): (f64, f64), grain_bytes: f64) {
        let new = self.known_bytes.map_or(0.0, |known| bytes - known * left);
        self.known_bytes = Some(bytes);
        self.remember(Exchange { seconds, bytes: new, grain_bytes });
    }

    /// An exchange at `seconds` told of nothing new.
    pub(crate) fn hear_nothing(&mut self, seconds: f64) {
        self.remember(Exchange { seconds, bytes: 0.0, grain_bytes: 0.0 });
    }

    fn remember(&mut self, exchange: Exchange) {
        if self.exchanges.len() == EXCHANGES_MAX {
            self.exchanges.pop_front();
            self.has_forgotten = true;
        }
        self.exchanges.push_back(exchange);
    }

    /// Bytes that were heard of, if any exchange was, count for so many more from now on.
    pub(crate) fn settle(&mut self, more_bytes: f64) {
        self.known_bytes = self.known_bytes.map(|known| known + more_bytes);
    }

    /// The exchanges after the one of a moment.
    pub(crate) fn after(&self, seconds: f64) -> impl Iterator<Item = &Exchange> {
        let first = self.exchanges.partition_point(|exchange| exchange.seconds <= seconds);
        self.exchanges.range(first..)
    }

    /// The moment of the oldest exchange that is remembered, if the one after that of `seconds` may be forgotten.
    pub(crate) fn forgotten_after(&self, seconds: f64) -> Option<f64> {
        let oldest = self.exchanges.front().filter(|_| self.has_forgotten)?;
        (seconds < oldest.seconds).then_some(oldest.seconds)
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
    fn an_exchange_tells_of_new_bytes_and_of_none_that_were_there_before() {
        let mut unheard = Unheard::default();
        unheard.hear(1.0, (1e9, 1.0), 1.0);
        unheard.hear(2.0, (5e8, 0.5), 1.0);
        unheard.settle(-5e8);
        unheard.hear(3.0, (1000.0, 0.9), 1.0);
        unheard.hear(4.0, (300.0, 1.0), 1.0);
        let bytes = |after: f64| unheard.after(after).map(|exchange| exchange.bytes).collect::<Vec<f64>>();
        assert_eq!(bytes(0.0), [0.0, 0.0, 1000.0, -700.0]);
        assert_eq!(bytes(3.0), [-700.0]);
    }

    #[test]
    fn the_last_exchanges_are_remembered() {
        let mut unheard = Unheard::default();
        for second in 0..2 * EXCHANGES_MAX {
            assert!(second > EXCHANGES_MAX || unheard.forgotten_after(-1.0).is_none());
            unheard.hear(second as f64, (0.0, 1.0), 1.0);
        }
        assert_eq!(unheard.after(-1.0).count(), EXCHANGES_MAX);
        let oldest = EXCHANGES_MAX as f64;
        assert_eq!(unheard.forgotten_after(oldest - 1.0), Some(oldest));
        assert_eq!(unheard.forgotten_after(oldest), None);
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
