//! Adaptive statistics of a four-bit symbol.
//!
//! Cumulative frequencies move towards those of a certain next symbol by a fraction that falls from an eighth to 1/128 as
//! symbols are seen; all sixteen move at once (F. Giesen, "Mixing discrete probability distributions", 2015).

/// Frequencies are parts of `1 << FREQUENCY_BITS`.
pub(super) const FREQUENCY_BITS: u32 = 15;
const SYMBOLS: usize = 16;
const TOTAL: i16 = i16::MAX;

/// Slowest adaptation: a symbol changes the frequencies by one part in `1 << RATE_MAX`.
const RATE_MAX: u8 = 7;

/// The likelihood of each value of four bits.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Model {
    /// Frequency of all symbols below the index; strictly increasing from 0, so that every symbol has a code.
    below: [i16; SYMBOLS],
    seen: u8,
}

/// The weight of a model's first frequencies, in symbols beyond four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Learning {
    /// The first symbol counts a quarter, in containers of version 5 and before.
    Quick = 0,
    /// The first symbol counts an eighth.
    Steady = 8,
}

/// The place of a symbol in the frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: u32,
    pub(super) length: u32,
}

impl Model {
    /// A model of bits that are one with about `ones` parts in 256.
    pub(super) fn new(ones: u32, learning: Learning) -> Self {
        let mut below = [0; SYMBOLS];
        let mut sum = 0.0;
        let one = f64::from(ones) / 256.0;
        for (symbol, start) in below.iter_mut().enumerate() {
            *start = (sum * f64::from(TOTAL - SYMBOLS as i16)) as i16 + symbol as i16;
            let count = symbol.count_ones() as i32;
            sum += one.powi(count) * (1.0 - one).powi(4 - count);
        }
        Self { below, seen: learning as u8 }
    }

    #[inline(always)]
    pub(super) fn interval(&self, symbol: u32) -> Interval {
        let symbol = symbol as usize & (SYMBOLS - 1);
        let start = self.below[symbol] as u32;
        let end = if symbol == SYMBOLS - 1 {
            1 << FREQUENCY_BITS
        } else {
            self.below[(symbol + 1) & (SYMBOLS - 1)] as u32
        };
        Interval { start, length: end - start }
    }

    /// The symbol whose interval holds `slot`.
    #[inline(always)]
    pub(super) fn symbol_at(&self, slot: u32) -> u32 {
        let slot = slot as i16;
        let mut count = 0_i16;
        for below in self.below {
            count += i16::from(below <= slot);
        }
        (count - 1) as u32
    }

    /// Learn that `symbol` came.
    #[inline(always)]
    pub(super) fn update(&mut self, symbol: u32) {
        let targets = &TARGETS[symbol as usize & (SYMBOLS - 1)];
        let rate = RATES[usize::from(self.seen)];
        for (below, target) in self.below.iter_mut().zip(targets) {
            *below = below.wrapping_add(target.wrapping_sub(*below) >> rate);
        }
        self.seen += u8::from(usize::from(self.seen) + 1 < RATES.len());
    }
}

/// Frequencies below each symbol when the row's symbol is certain: all others keep one part.
static TARGETS: [[i16; SYMBOLS]; SYMBOLS] = {
    let mut targets = [[0; SYMBOLS]; SYMBOLS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let mut index = 0;
        while index < SYMBOLS {
            let kept = index as i16;
            targets[symbol][index] = if index <= symbol { kept } else { TOTAL - (SYMBOLS as i16 - 1 - kept) };
            index += 1;
        }
        symbol += 1;
    }
    targets
};

/// The shift after so many symbols: about one part in the number of symbols seen.
static RATES: [u8; 128] = {
    let mut rates = [0; 128];
    let mut seen = 0;
    while seen < rates.len() {
        let rate = (seen as u32 + 4).ilog2() as u8;
        rates[seen] = if rate > RATE_MAX { RATE_MAX } else { rate };
        seen += 1;
    }
    rates
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_slot_belongs_to_one_symbol(ones in 0_u32..=256, learning in prop_oneof![Just(Learning::Quick), Just(Learning::Steady)], symbols in proptest::collection::vec(0_u32..16, 0..600)) {
            let mut model = Model::new(ones, learning);
            for symbol in symbols {
                let interval = model.interval(symbol);
                prop_assert!(interval.length > 0);
                prop_assert_eq!(model.symbol_at(interval.start), symbol);
                prop_assert_eq!(model.symbol_at(interval.start + interval.length - 1), symbol);
                model.update(symbol);
            }
            let lengths: u32 = (0..16).map(|symbol| model.interval(symbol).length).sum();
            prop_assert_eq!(lengths, 1 << FREQUENCY_BITS);
        }
    }
}
