//! Range variant of asymmetric numeral systems (Duda 2013): symbols to bytes and back.
//!
//! Two interleaved 32-bit states give the processor two independent chains of work (Giesen 2014). The encoder runs over
//! the symbols backwards, so the decoder reads its bytes forwards, and any prefix of them gives the first symbols.

use super::model::{Interval, Model, FREQUENCY_BITS};

/// A state never falls below this while symbols remain.
const STATE_MIN: u32 = 1 << 16;
/// Bits coded as one symbol of a flat distribution.
const RAW_BITS_MAX: u32 = FREQUENCY_BITS;

/// Where symbols go to or come from. One traversal of the coefficients serves both directions: it hands over what the
/// encoder knows and goes on with what the channel returns.
pub(super) trait Channel {
    /// A symbol of four bits by its model, which learns it.
    fn symbol(&mut self, model: &mut Model, actual: u32) -> u32;

    /// Up to [`RAW_BITS_MAX`] equally likely bits.
    fn flat(&mut self, actual: u32, bits: u32) -> u32;

    /// The bytes have ended: what was returned last is void.
    fn exhausted(&self) -> bool;

    /// Up to 64 equally likely bits.
    #[inline(always)]
    fn raw(&mut self, actual: u64, bits: u32) -> u64 {
        let mut result = 0;
        let mut position = 0;
        while position < bits {
            let count = (bits - position).min(RAW_BITS_MAX);
            let part = (actual >> position) as u32 & ((1 << count) - 1);
            result |= u64::from(self.flat(part, count)) << position;
            position += count;
        }
        result
    }
}

/// Gathers the symbols of a segment.
#[derive(Default)]
pub(super) struct Encoder {
    /// Start and length of each symbol's interval, in two halves of a word.
    intervals: Vec<u32>,
}

impl Encoder {
    #[inline(always)]
    fn push(&mut self, interval: Interval) {
        self.intervals.push(interval.start << 16 | interval.length);
    }

    /// The bytes of all symbols since the last call; none for no symbols.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Vec<u8> {
        if self.intervals.is_empty() {
            return Vec::new();
        }
        let mut words: Vec<u16> = Vec::with_capacity(self.intervals.len() / 2 + 4);
        let mut states = [STATE_MIN; 2];
        for (index, interval) in self.intervals.iter().enumerate().rev() {
            let (start, length) = (interval >> 16, interval & 0xffff);
            let mut state = states[index & 1];
            if u64::from(state) >= u64::from(length) << (32 - FREQUENCY_BITS) {
                words.push(state as u16);
                state >>= 16;
            }
            states[index & 1] = ((state / length) << FREQUENCY_BITS) + state % length + start;
        }
        for state in states.iter().rev() {
            words.push(*state as u16);
            words.push((state >> 16) as u16);
        }
        self.intervals.clear();
        words.iter().rev().flat_map(|word| word.to_le_bytes()).collect()
    }
}

impl Channel for Encoder {
    #[inline(always)]
    fn symbol(&mut self, model: &mut Model, actual: u32) -> u32 {
        self.push(model.interval(actual));
        model.update(actual);
        actual
    }

    #[inline(always)]
    fn flat(&mut self, actual: u32, bits: u32) -> u32 {
        let shift = FREQUENCY_BITS - bits;
        self.push(Interval { start: actual << shift, length: 1 << shift });
        actual
    }

    #[inline(always)]
    fn exhausted(&self) -> bool {
        false
    }
}

/// Reads the symbols of a segment, of which the end may be missing.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    position: usize,
    states: [u32; 2],
}

impl<'a> Decoder<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { bytes, position: 0, states: [0; 2] };
        decoder.states = [0, 1].map(|_| u32::from(decoder.word()) << 16 | u32::from(decoder.word()));
        decoder
    }

    #[inline(always)]
    fn word(&mut self) -> u16 {
        let word = self.bytes.get(self.position..self.position + 2);
        self.position += 2;
        word.map_or(0, |word| u16::from_le_bytes([word[0], word[1]]))
    }

    /// Take the interval out of the state whose turn it is.
    #[inline(always)]
    fn advance(&mut self, interval: Interval) {
        let state = self.states[0];
        let slot = state & ((1 << FREQUENCY_BITS) - 1);
        let mut state = interval
            .length
            .wrapping_mul(state >> FREQUENCY_BITS)
            .wrapping_add(slot.wrapping_sub(interval.start));
        if state < STATE_MIN {
            state = state << 16 | u32::from(self.word());
        }
        self.states = [self.states[1], state];
    }
}

impl Channel for Decoder<'_> {
    #[inline(always)]
    fn symbol(&mut self, model: &mut Model, _actual: u32) -> u32 {
        let symbol = model.symbol_at(self.states[0] & ((1 << FREQUENCY_BITS) - 1));
        self.advance(model.interval(symbol));
        model.update(symbol);
        symbol
    }

    #[inline(always)]
    fn flat(&mut self, _actual: u32, bits: u32) -> u32 {
        let shift = FREQUENCY_BITS - bits;
        let value = (self.states[0] & ((1 << FREQUENCY_BITS) - 1)) >> shift;
        self.advance(Interval { start: value << shift, length: 1 << shift });
        value
    }

    #[inline(always)]
    fn exhausted(&self) -> bool {
        self.position > self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn symbols_return_and_a_prefix_gives_the_first_of_them(
            symbols in proptest::collection::vec((0_u32..3, any::<u32>()), 0..900), cut in 0.0_f64..1.0,
        ) {
            let mut models = [Model::new(20), Model::new(128)];
            let mut encoder = Encoder::default();
            for &(kind, value) in &symbols {
                match kind {
                    0 => drop(encoder.symbol(&mut models[0], value & value >> 8 & 15)),
                    1 => drop(encoder.symbol(&mut models[1], value & 15)),
                    _ => drop(encoder.raw(u64::from(value), 32)),
                }
            }
            let bytes = encoder.finish();
            for length in [bytes.len(), (bytes.len() as f64 * cut) as usize] {
                let mut models = [Model::new(20), Model::new(128)];
                let mut decoder = Decoder::new(&bytes[..length]);
                for &(kind, value) in &symbols {
                    let (expected, returned) = match kind {
                        0 => (u64::from(value & value >> 8 & 15), u64::from(decoder.symbol(&mut models[0], 0))),
                        1 => (u64::from(value & 15), u64::from(decoder.symbol(&mut models[1], 0))),
                        _ => (u64::from(value), decoder.raw(0, 32)),
                    };
                    if decoder.exhausted() {
                        prop_assert!(length < bytes.len());
                        break;
                    }
                    prop_assert_eq!(expected, returned);
                }
            }
        }
    }
}
