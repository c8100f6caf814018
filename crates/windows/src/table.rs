//! The shared table: the lines of jobs and devices, and the counts of their windows.
//!
//! Every change is one atomic operation on one word, and a head may be written again by anyone who has its key. So there is no
//! moment at which the death of a process, or its stop, leaves something that others would have to wait for or to repair.

use crate::format::{
    Count, Operation, AT_KEYS, AT_LASTS, AT_LEFT_OUT, AT_LINES, CELL_WORDS, HEAD_WORDS, LINES, LINE_WORDS,
    VALUE_BITS, VALUE_MAX, WINDOWS,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rounds of the ring by which a count may come late without being taken for one that is long gone: its process may have
/// been stopped between its look at the clock and its count.
const LATE_ROUNDS: u64 = 8;
/// Rounds of the ring that the upper bits of a word tell apart.
const ROUND_MASK: u64 = (1 << (u64::BITS - VALUE_BITS)) - 1;

/// The words of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Table<'a> {
    /// A table of as many words as a file has.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Table<'a> {
        debug_assert_eq!(words.len(), crate::format::WORDS);
        Table { words }
    }

    /// The line of a key in a window. Where there is none it takes a line that nobody used for a whole ring; absent where
    /// there is none of these either. The answer tells, too, whether this call gave the line its key: the head may be another's.
    #[inline]
    pub(crate) fn line(&self, key: u64, window: u64) -> Option<(usize, bool)> {
        let first = (key % LINES as u64) as usize;
        let (found, is_claimed) = if self.words[AT_KEYS + first].load(Relaxed) == key {
            (first, false)
        } else {
            self.search(key, first, window)?
        };
        let last = &self.words[AT_LASTS + found];
        if last.load(Relaxed) < window {
            last.fetch_max(window, Relaxed);
        }
        Some((found, is_claimed))
    }

    #[cold]
    fn search(&self, key: u64, first: usize, window: u64) -> Option<(usize, bool)> {
        let mut idlest: Option<(u64, u64, usize)> = None;
        for number in (0..LINES).map(|step| (first + step) % LINES) {
            let place = &self.words[AT_KEYS + number];
            let mut held = place.load(Relaxed);
            if held == 0 {
                match place.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => return Some((number, true)),
                    Err(other) => held = other,
                }
            }
            if held == key {
                return Some((number, false));
            }
            let last = self.last(number);
            if last.saturating_add(WINDOWS as u64) < window && idlest.is_none_or(|(least, _, _)| last < least)
            {
                idlest = Some((last, held, number));
            }
        }
        let (_, held, number) = idlest?;
        self.words[AT_KEYS + number]
            .compare_exchange(held, key, Relaxed, Relaxed)
            .ok()
            .map(|_| (number, true))
    }

    /// Whether a line still has a key.
    pub(crate) fn has(&self, number: usize, key: u64) -> bool {
        self.words[AT_KEYS + number].load(Relaxed) == key
    }

    /// Writes the head of a line. All who have the key of the line write the same words.
    pub(crate) fn introduce(&self, number: usize, head: &[u64; HEAD_WORDS]) {
        let start = AT_LINES + number * LINE_WORDS;
        for (place, word) in self.words[start..].iter().zip(head) {
            place.store(*word, Relaxed);
        }
    }

    /// Counts an operation in a window of a line.
    #[inline]
    pub(crate) fn count(&self, number: usize, window: u64, operation: Operation, nanoseconds: u64) {
        let start = cell_of(number, window);
        let cell = &self.words[start..start + CELL_WORDS];
        let round = round_of(window);
        let add = |count: Count, amount: u64| add(&cell[count as usize], round, amount);
        match operation {
            Operation::Read(bytes) => {
                add(Count::Reads, 1);
                add(Count::ReadBytes, bytes);
                add(Count::Read, nanoseconds);
            }
            Operation::Write(bytes) => {
                add(Count::Writes, 1);
                add(Count::WrittenBytes, bytes);
                add(Count::Write, nanoseconds);
            }
            Operation::Stat => add(Count::Stats, 1),
            Operation::Open => add(Count::Opens, 1),
            Operation::Close => add(Count::Closes, 1),
            Operation::Other => add(Count::Others, 1),
        }
        if !matches!(operation, Operation::Read(_) | Operation::Write(_)) {
            add(Count::Metadata, nanoseconds);
        }
    }

    /// The key of a line in use, its head, and the number of the window in which it was used last.
    pub(crate) fn head(&self, number: usize) -> Option<(u64, [u64; HEAD_WORDS], u64)> {
        let key = self.words[AT_KEYS + number].load(Relaxed);
        if key == 0 {
            return None;
        }
        let start = AT_LINES + number * LINE_WORDS;
        let head = std::array::from_fn(|place| self.words[start + place].load(Relaxed));
        Some((key, head, self.last(number)))
    }

    /// The number of the window in which a line was used last.
    #[inline]
    pub(crate) fn last(&self, number: usize) -> u64 {
        self.words[AT_LASTS + number].load(Relaxed)
    }

    /// The words of a line's cell for a window.
    pub(crate) fn cell(&self, number: usize, window: u64) -> [u64; CELL_WORDS] {
        let start = cell_of(number, window);
        std::array::from_fn(|place| self.words[start + place].load(Relaxed))
    }

    /// Operations that found no place.
    pub(crate) fn left_out(&self) -> u64 {
        self.words[AT_LEFT_OUT].load(Relaxed)
    }

    /// Counts an operation that found no place.
    #[cold]
    pub(crate) fn leave_out(&self) {
        self.words[AT_LEFT_OUT].fetch_add(1, Relaxed);
    }
}

/// The place of a line's cell for a window.
fn cell_of(number: usize, window: u64) -> usize {
    AT_LINES + number * LINE_WORDS + HEAD_WORDS + (window % WINDOWS as u64) as usize * CELL_WORDS
}

/// The round of the ring in which a window falls, as the upper bits of a word tell it.
pub(crate) fn round_of(window: u64) -> u64 {
    (window / WINDOWS as u64) & ROUND_MASK
}

/// The count that a word has in a round.
pub(crate) fn value_in(word: u64, round: u64) -> u64 {
    if word >> VALUE_BITS == round {
        word & VALUE_MAX
    } else {
        0
    }
}

/// Adds to a word in a round. What the word counted in an earlier round is gone; an amount of an earlier round than the word's is.
#[inline]
fn add(word: &AtomicU64, round: u64, amount: u64) {
    let mut held = word.load(Relaxed);
    loop {
        let (in_round, value) = (held >> VALUE_BITS, held & VALUE_MAX);
        let fresh = if in_round == round {
            (value + amount.min(VALUE_MAX)).min(VALUE_MAX)
        } else if value > 0 && (1..=LATE_ROUNDS).contains(&(in_round.wrapping_sub(round) & ROUND_MASK)) {
            return;
        } else {
            amount.min(VALUE_MAX)
        };
        match word.compare_exchange_weak(held, round << VALUE_BITS | fresh, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(other) => held = other,
        }
    }
}
