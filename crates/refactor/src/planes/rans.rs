//! Range variant of asymmetric numeral systems (Duda 2013): symbols to bytes and back.
//!
//! Two interleaved 32-bit states give the processor two independent chains of work (Giesen 2014). The encoder runs over
//! the symbols backwards, so the decoder reads its bytes forwards, and any prefix of them gives the first symbols. Bits
//! that no model would shorten stand as whole words between the states' words, just where the decoder needs them.

use super::model::{Interval, Model, FREQUENCY_BITS};

/// A state never falls below this while symbols remain.
const STATE_MIN: u32 = 1 << 16;
/// Plain bits come from the stream in words of so many.
const PLAIN_WORD_BITS: u32 = u32::BITS;
/// Stands among the symbols where the decoder reads the next word of plain bits.
const PLAIN_WORD: u32 = 0;

/// The destination or the source of symbols. One traversal of the coefficients serves both directions: it hands over
/// the encoder's symbols and goes on with those that the channel returns.
pub(super) trait Channel {
    /// A symbol of four bits by its model, which learns it.
    fn symbol(&mut self, model: &mut Model, actual: u32) -> u32;

    /// Up to 32 bits as they are.
    fn plain_word(&mut self, actual: u32, bits: u32) -> u32;

    /// Whether the bytes have ended: the symbol returned last is void.
    fn exhausted(&self) -> bool;

    /// Up to 64 bits as they are.
    #[inline(always)]
    fn plain(&mut self, actual: u64, bits: u32) -> u64 {
        if bits <= PLAIN_WORD_BITS {
            return u64::from(self.plain_word(actual as u32, bits));
        }
        let low = self.plain_word(actual as u32, PLAIN_WORD_BITS);
        let high = self.plain_word((actual >> PLAIN_WORD_BITS) as u32, bits - PLAIN_WORD_BITS);
        u64::from(high) << PLAIN_WORD_BITS | u64::from(low)
    }
}

/// Gathers the symbols of a segment.
#[derive(Default)]
pub(super) struct Encoder {
    /// Start and length of each symbol's interval, in two halves of a word; [`PLAIN_WORD`] between them.
    intervals: Vec<u32>,
    symbols: usize,
    /// All plain bits, and those that do not fill a word yet.
    plain: Vec<u32>,
    pending: u64,
    pending_bits: u32,
    /// Plain bits that the decoder has read but not used.
    ahead_bits: u32,
    /// Symbols before each mark, as a number of intervals.
    marks: Vec<usize>,
}

impl Encoder {
    /// The symbols that are together, and the words of plain bits between them.
    pub(super) fn symbols(&self) -> usize {
        self.intervals.len()
    }

    /// Asks for the byte at which the symbols so far end.
    pub(super) fn mark(&mut self) {
        self.marks.push(self.intervals.len());
    }

    /// The bytes of all symbols and bits since the last call, and how many of them give the symbols before each mark.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> (Vec<u8>, Vec<usize>) {
        let marks = std::mem::take(&mut self.marks);
        if self.intervals.is_empty() {
            return (Vec::new(), vec![0; marks.len()]);
        }
        if self.pending_bits > 0 {
            self.plain.push(self.pending as u32);
        }
        let mut words: Vec<u16> = Vec::with_capacity(self.intervals.len() / 2 + 2 * self.plain.len() + 4);
        let mut states = [STATE_MIN; 2];
        let mut plain = self.plain.iter().rev();
        let mut turn = self.symbols;
        // Words behind each mark, the last mark first.
        let mut behind = Vec::with_capacity(marks.len());
        let mut rest = self.intervals.as_slice();
        for mark in marks.iter().copied().rev().chain([0]) {
            let (before, after) = rest.split_at(mark);
            rest = before;
            for &interval in after.iter().rev() {
                if interval == PLAIN_WORD {
                    let word = plain.next().copied().unwrap_or(0);
                    words.push((word >> 16) as u16);
                    words.push(word as u16);
                    continue;
                }
                turn -= 1;
                let (start, length) = (interval >> 16, interval & 0xffff);
                let mut state = states[turn & 1];
                if state >> (32 - FREQUENCY_BITS) >= length {
                    words.push(state as u16);
                    state >>= 16;
                }
                states[turn & 1] = ((state / length) << FREQUENCY_BITS) + state % length + start;
            }
            behind.push(words.len());
        }
        for state in states.iter().rev() {
            words.push(*state as u16);
            words.push((state >> 16) as u16);
        }
        self.intervals.clear();
        self.plain.clear();
        (self.symbols, self.pending, self.pending_bits, self.ahead_bits) = (0, 0, 0, 0);
        let mut bytes = vec![0; 2 * words.len()];
        for (bytes, word) in bytes.chunks_exact_mut(2).zip(words.iter().rev()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let ends = behind.iter().take(marks.len()).rev().map(|behind| 2 * (words.len() - behind)).collect();
        (bytes, ends)
    }
}

impl Channel for Encoder {
    #[inline(always)]
    fn symbol(&mut self, model: &mut Model, actual: u32) -> u32 {
        let Interval { start, length } = model.interval(actual);
        self.intervals.push(start << 16 | length);
        self.symbols += 1;
        model.update(actual);
        actual
    }

    #[inline(always)]
    fn plain_word(&mut self, actual: u32, bits: u32) -> u32 {
        if self.ahead_bits < bits {
            self.intervals.push(PLAIN_WORD);
            self.ahead_bits += PLAIN_WORD_BITS;
        }
        self.ahead_bits -= bits;
        self.pending |= u64::from(actual) << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= PLAIN_WORD_BITS {
            self.plain.push(self.pending as u32);
            self.pending >>= PLAIN_WORD_BITS;
            self.pending_bits -= PLAIN_WORD_BITS;
        }
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
    ahead: u64,
    ahead_bits: u32,
}

impl<'a> Decoder<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { bytes, position: 0, states: [0; 2], ahead: 0, ahead_bits: 0 };
        if !bytes.is_empty() {
            decoder.states = [0, 1].map(|_| u32::from(decoder.word()) << 16 | u32::from(decoder.word()));
        }
        decoder
    }

    #[inline(always)]
    fn word(&mut self) -> u16 {
        let word = self.bytes.get(self.position..self.position + 2);
        self.position += 2;
        word.map_or(0, |word| u16::from_le_bytes([word[0], word[1]]))
    }
}

impl Channel for Decoder<'_> {
    #[inline(always)]
    fn symbol(&mut self, model: &mut Model, _actual: u32) -> u32 {
        let state = self.states[0];
        let slot = state & ((1 << FREQUENCY_BITS) - 1);
        let symbol = model.symbol_at(slot);
        let Interval { start, length } = model.interval(symbol);
        let mut state = length * (state >> FREQUENCY_BITS) + (slot - start);
        if state < STATE_MIN {
            state = state << 16 | u32::from(self.word());
        }
        self.states = [self.states[1], state];
        model.update(symbol);
        symbol
    }

    #[inline(always)]
    fn plain_word(&mut self, _actual: u32, bits: u32) -> u32 {
        if self.ahead_bits < bits {
            let word = self.bytes.get(self.position..).and_then(|rest| rest.first_chunk());
            self.position += 4;
            self.ahead |= u64::from(word.map_or(0, |word| u32::from_le_bytes(*word))) << self.ahead_bits;
            self.ahead_bits += PLAIN_WORD_BITS;
        }
        let value = self.ahead & ((1 << bits) - 1);
        self.ahead >>= bits;
        self.ahead_bits -= bits;
        value as u32
    }

    #[inline(always)]
    fn exhausted(&self) -> bool {
        self.position > self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Learning;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn symbols_return_and_a_prefix_gives_the_first_of_them(
            symbols in proptest::collection::vec((0_u32..3, any::<u32>()), 0..900), cut in 0.0_f64..1.0,
        ) {
            let mut models = [20, 128].map(|ones| Model::new(ones, Learning::Steady));
            let mut encoder = Encoder::default();
            let middle = symbols.len() / 2;
            for (number, &(kind, value)) in symbols.iter().enumerate() {
                if number == middle {
                    encoder.mark();
                }
                match kind {
                    0 => drop(encoder.symbol(&mut models[0], value & value >> 8 & 15)),
                    1 => drop(encoder.symbol(&mut models[1], value & 15)),
                    _ => drop(encoder.plain(u64::from(value), 32)),
                }
            }
            let (bytes, ends) = encoder.finish();
            let marked = ends.first().copied().unwrap_or(0);
            for length in [bytes.len(), (bytes.len() as f64 * cut) as usize, marked] {
                let mut returned_symbols = 0;
                let mut models = [20, 128].map(|ones| Model::new(ones, Learning::Steady));
                let mut decoder = Decoder::new(&bytes[..length]);
                for &(kind, value) in &symbols {
                    let (expected, returned) = match kind {
                        0 => (u64::from(value & value >> 8 & 15), u64::from(decoder.symbol(&mut models[0], 0))),
                        1 => (u64::from(value & 15), u64::from(decoder.symbol(&mut models[1], 0))),
                        _ => (u64::from(value), decoder.plain(0, 32)),
                    };
                    if decoder.exhausted() {
                        prop_assert!(length < bytes.len());
                        break;
                    }
                    prop_assert_eq!(expected, returned);
                    returned_symbols += 1;
                }
                prop_assert!(length < marked || returned_symbols >= middle, "{returned_symbols} of {middle}");
            }
        }
    }
}
