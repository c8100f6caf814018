//! Bits of a word moved under a mask.

/// Moves bits between the ones of a mask and the low end of a word.
pub(super) trait Words: Copy {
    /// The bits of `word` where `mask` is one, moved together to the low end.
    fn extract(self, word: u64, mask: u64) -> u64;

    /// The low bits of `word`, moved to where `mask` is one.
    fn deposit(self, word: u64, mask: u64) -> u64;
}

/// Any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Words for Portable {
    #[inline(always)]
    fn extract(self, word: u64, mut mask: u64) -> u64 {
        let (mut result, mut position) = (0, 0);
        while mask != 0 {
            result |= (word >> mask.trailing_zeros() & 1) << position;
            position += 1;
            mask &= mask - 1;
        }
        result
    }

    #[inline(always)]
    fn deposit(self, mut word: u64, mut mask: u64) -> u64 {
        let mut result = 0;
        while mask != 0 {
            result |= (word & 1).wrapping_neg() & mask & mask.wrapping_neg();
            word >>= 1;
            mask &= mask - 1;
        }
        result
    }
}

/// Work that is compiled once for each kind of [`Words`].
pub(super) trait Kernel {
    /// What it returns.
    type Output;

    /// Do it. Everything below must be inlined for the processor's own instructions to be used.
    fn run<W: Words>(self, words: W) -> Self::Output;
}

/// Run with the fastest words that this processor has.
pub(super) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Portable)
}
