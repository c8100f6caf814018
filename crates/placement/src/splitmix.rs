//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): numbers that look
//! random and are the same everywhere.

/// A sequence of uniform numbers; the seed says which. Good enough to draw targets and test data, not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        let drawn = scatter(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// The next number as a fraction: at least 0 and below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The golden ratio as a fraction of 2^64: multiples of it are spread evenly.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection that scatters nearby values: the number that a sequence with this seed begins with.
pub(crate) fn scatter(value: u64) -> u64 {
    let mixed = value.wrapping_add(STEP);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the generator's published code, so that placed files, rings and seeds of tests keep their
    /// numbers.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| random.draw()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(drawn, published);
    }
}
