//! Samples that no codec takes: infinities, values that are no numbers, and outliers.
//!
//! Their places are coded as runs, and their values are kept, both by zstd. The codec sees the last ordinary sample
//! before them instead, since a jump would cost it bits.

use crate::bytes::{put_integer, Reader};
use crate::ordinary::Ordinary;
use crate::sample::Sample;
use std::io::Read;
use std::ops::Range;

/// Samples that are looked at at a time.
const PIECE_SAMPLES: usize = 4096;
/// Quick enough not to be felt beside the codec.
const LEVEL: i32 = 3;

/// The segment, empty if all samples are ordinary, and then no filled samples either.
pub(crate) fn encode<T: Sample>(samples: &[T], ordinary: Ordinary) -> (Vec<u8>, Option<Vec<T>>) {
    match filled(samples, ordinary) {
        Some(filled) => (segment(samples, ordinary), Some(filled)),
        None => (Vec::new(), None),
    }
}

/// The samples, with the last ordinary one in place of those that are not; none if all are ordinary.
pub(crate) fn filled<T: Sample>(samples: &[T], ordinary: Ordinary) -> Option<Vec<T>> {
    if samples.chunks(PIECE_SAMPLES).all(|piece| ordinary.holds_all(piece)) {
        return None;
    }
    let mut last = samples.iter().copied().find(|sample| ordinary.holds(*sample)).unwrap_or_default();
    let fill = |sample: &T| {
        if ordinary.holds(*sample) {
            last = *sample;
        }
        last
    };
    Some(samples.iter().map(fill).collect())
}

fn segment<T: Sample>(samples: &[T], ordinary: Ordinary) -> Vec<u8> {
    let (mut runs, mut values) = (Vec::new(), Vec::new());
    let mut count = 0_u64;
    let mut at = 0;
    while let Some(gap) = samples[at..].iter().position(|sample| !ordinary.holds(*sample)) {
        let start = at + gap;
        let length = samples[start..].iter().take_while(|sample| !ordinary.holds(**sample)).count();
        put_integer(gap as u64, &mut runs);
        put_integer(length as u64, &mut runs);
        for sample in &samples[start..start + length] {
            let end = values.len();
            values.resize(end + T::KIND.bytes(), 0);
            sample.put(&mut values[end..]);
        }
        count += 1;
        at = start + length;
    }
    let mut plain = Vec::new();
    put_integer(count, &mut plain);
    plain.append(&mut runs);
    plain.append(&mut values);
    // The only failure is one of memory; then there is no segment, and the measured figures show it.
    zstd::bulk::compress(&plain, LEVEL).unwrap_or_default()
}

/// Put the escaped samples back, if the segment is whole.
pub(crate) fn decode<T: Sample>(segment: &[u8], samples: &mut [T]) {
    if let Some(plain) = plain::<T>(segment, samples.len()) {
        place(&plain, samples);
    }
}

/// The places of the escaped samples of a tile; none if the segment is not whole.
pub(crate) fn places<T: Sample>(segment: &[u8], samples: usize) -> Vec<Range<usize>> {
    plain::<T>(segment, samples).and_then(|plain| runs(&mut Reader::new(&plain), samples)).unwrap_or_default()
}

fn plain<T: Sample>(segment: &[u8], samples: usize) -> Option<Vec<u8>> {
    // A run takes at most 20 bytes and holds at least one sample.
    let limit = (samples + 1) * (20 + T::KIND.bytes());
    (!segment.is_empty()).then(|| decompressed(segment, limit)).flatten()
}

fn place<T: Sample>(plain: &[u8], samples: &mut [T]) -> Option<()> {
    let mut reader = Reader::new(plain);
    for sample in runs(&mut reader, samples.len())?.into_iter().flatten() {
        samples[sample] = T::take(reader.take(T::KIND.bytes())?);
    }
    Some(())
}

fn runs(reader: &mut Reader<'_>, samples: usize) -> Option<Vec<Range<usize>>> {
    let count = reader.length()?;
    let mut runs = Vec::new();
    let mut at = 0_usize;
    for _ in 0..count {
        let start = at.checked_add(reader.length()?)?;
        at = start.checked_add(reader.length()?).filter(|end| *end <= samples)?;
        runs.push(start..at);
    }
    Some(runs)
}

/// The bytes that zstd makes, at most `limit`; none if its input is cut or makes more.
pub(crate) fn decompressed(compressed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(compressed).ok()?;
    decoder.take(limit as u64 + 1).read_to_end(&mut plain).ok()?;
    (plain.len() <= limit).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_comes_back_bit_for_bit() {
        let quiet = f32::from_bits(0x7fc0_1234);
        let samples = [f32::NAN, 1.0, quiet, f32::INFINITY, 2.0, 3.0, f32::NEG_INFINITY];
        let (segment, filled) = encode(&samples, Ordinary::FINITE);
        let mut filled = filled.expect("some are no numbers");
        assert_eq!(filled, [1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
        decode(&segment, &mut filled);
        assert_eq!(filled.map_bits(), samples.to_vec().map_bits());
        let (segment, filled) = encode(&[f64::NAN; 5], Ordinary::FINITE);
        let mut filled = filled.expect("all are no numbers");
        decode(&segment[..segment.len() - 1], &mut filled);
        assert_eq!(filled, [0.0; 5]);
        decode(&segment, &mut filled);
        assert!(filled.iter().all(|sample| sample.is_nan()));
        assert_eq!(encode(&[1_u8, 2], Ordinary::FINITE), (Vec::new(), None));
    }

    trait MapBits {
        fn map_bits(&self) -> Vec<u32>;
    }

    impl MapBits for Vec<f32> {
        fn map_bits(&self) -> Vec<u32> {
            self.iter().map(|sample| sample.to_bits()).collect()
        }
    }
}
