//! Reproducible choices of random tests.

use std::time::{SystemTime, UNIX_EPOCH};
use weir_placement::SplitMix64;

/// The seed of a random test: `WEIR_SEED`, else the clock. It is printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let fresh = clock.map_or(1, |elapsed| elapsed.as_nanos() as u64);
    let seed = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(fresh);
    println!("WEIR_SEED={seed}");
    seed
}

/// A generator of reproducible choices.
#[derive(Clone)]
pub struct Choices(SplitMix64);

impl Choices {
    /// A generator that starts at [`seed`].
    #[allow(clippy::new_without_default)]
    pub fn new() -> Choices {
        Choices(SplitMix64(seed()))
    }

    /// Another generator, for another thread.
    pub fn branch(&mut self) -> Choices {
        Choices(SplitMix64(self.number()))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// One element.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// Any bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.drawn(length, 0)
    }

    /// Bytes for a file. None of them is zero, so a hole differs from all of them.
    pub fn data(&mut self, length: usize) -> Vec<u8> {
        self.drawn(length, u64::from_le_bytes([1; 8]))
    }

    /// Eight bytes of each number, with these bits set in all of them.
    fn drawn(&mut self, length: usize, bits: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
        while bytes.len() < length {
            bytes.extend_from_slice(&(self.number() | bits).to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_repeats_its_choices_and_its_branches_differ() {
        let mut one = Choices(SplitMix64(7));
        let mut other = one.clone();
        assert_eq!(one.bytes(100), other.bytes(100));
        let (mut branch, mut same) = (one.branch(), other.branch());
        assert_eq!(branch.number(), same.number());
        assert_ne!(branch.number(), one.number());
        assert!(one.data(1000).iter().all(|&byte| byte != 0));
    }
}
