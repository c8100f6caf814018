//! A tile's samples to segments.

use super::bands::{Band, Extents, Plan};
use super::boxes::{block_box, copy_row, copy_rows, for_each_row};
use super::lattice::BLOCK;
use super::layout::{compact, integer_exponent, is_single, Header, Layout, DESCENT_MAX, FLOAT_EXPONENT_MIN};
use super::number::{Coefficient, Number};
use super::passes::{Blocks, Models, PASSES};
use super::rans::Encoder;
use super::words::{Kernel, Words};
use super::{transform, Settings};
use crate::codec::Segment;

pub(super) struct Encoding<'a, T> {
    pub(super) samples: &'a [T],
    pub(super) shape: [usize; 4],
    pub(super) settings: Settings,
}

impl<T: Number> Kernel for Encoding<'_, T> {
    type Output = Vec<Segment>;

    #[inline(always)]
    fn run<W: Words>(self, words: W) -> Vec<Segment> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        if T::INTEGER {
            self.integers(words)
        } else {
            self.floats(words)
        }
    }
}

impl<T: Number> Encoding<'_, T> {
    #[inline(always)]
    fn floats<W: Words>(&self, words: W) -> Vec<Segment> {
        let (least, most) = range(self.samples);
        let (least, most) = (least.to_f64(), most.to_f64());
        let centre = T::from_f64(least / 2.0 + most / 2.0).to_f64();
        let header = Header { centre: centre.to_bits(), descent: None, wrapping: false };
        if least == most {
            return vec![Segment { layer: 0, bytes: header.to_bytes() }];
        }
        let extents = compact(self.shape);
        let plan = Plan::new(extents);
        // Half the range is left around the centre, and the coarsest band multiplies it most.
        let highest = highest_plane((most / 2.0 - least / 2.0) * plan.gain(), self.settings);
        if is_single(highest, self.settings) {
            let centred = self.samples.iter().map(|sample| (sample.to_f64() - centre) as f32).collect();
            code_floats::<f32, W>(centred, extents, plan, self.settings, header, words)
        } else {
            let centred = self.samples.iter().map(|sample| sample.to_f64() - centre).collect();
            code_floats::<f64, W>(centred, extents, plan, self.settings, header, words)
        }
    }

    #[inline(always)]
    fn integers<W: Words>(&self, words: W) -> Vec<Segment> {
        let (least, most) = range(self.samples);
        let (least, most) = (least.centred(0), most.centred(0));
        let span = most.wrapping_sub(least) as u64;
        let centre = least.wrapping_add((span / 2) as i64);
        let header = Header { centre: centre as u64, descent: None, wrapping: span >> 61 != 0 };
        if span == 0 {
            return vec![Segment { layer: 0, bytes: header.to_bytes() }];
        }
        let extents = compact(self.shape);
        let plan = Plan::new(extents);
        let mut coefficients: Vec<i64> = self.samples.iter().map(|sample| sample.centred(centre)).collect();
        transform::forward(&mut coefficients, extents, &plan);
        let highest_of =
            |band: &Band| integer_exponent(band) + bits_of(&coefficients, extents, band) as i32 - 1;
        let highest = plan.bands.iter().map(highest_of).max().unwrap_or(0).min(self.settings.top);
        code(&coefficients, header, Layout::integers(extents, plan, self.settings, highest), words)
    }
}

/// The least and the most of the samples.
#[inline(always)]
fn range<T: Number>(samples: &[T]) -> (T, T) {
    samples.iter().fold((samples[0], samples[0]), |(least, most), &sample| {
        (if sample < least { sample } else { least }, if sample > most { sample } else { most })
    })
}

/// The plane that the leading bit of `largest` is in.
fn highest_plane(largest: f64, settings: Settings) -> i32 {
    let exponent = largest.log2().floor().max(f64::from(FLOAT_EXPONENT_MIN)) as i32;
    exponent.max(settings.top.saturating_sub(DESCENT_MAX)).min(settings.top)
}

#[inline(always)]
fn code_floats<C: Coefficient + Into<f64> + PartialOrd, W: Words>(
    mut coefficients: Vec<C>,
    extents: Extents,
    plan: Plan,
    settings: Settings,
    header: Header,
    words: W,
) -> Vec<Segment> {
    transform::forward(&mut coefficients, extents, &plan);
    let largest = coefficients.iter().fold(0.0_f64, |largest, &value| largest.max(value.into().abs()));
    let highest = highest_plane(largest, settings);
    code(&coefficients, header, Layout::floats(extents, plan, settings, highest), words)
}

/// Bits that the largest magnitude of a band needs.
fn bits_of(coefficients: &[i64], extents: Extents, band: &Band) -> u32 {
    let mut union = 0;
    for_each_row(band.origin, band.extents, extents, |start, length| {
        union = coefficients[start..start + length]
            .iter()
            .fold(union, |union, value| union | value.unsigned_abs());
    });
    u64::BITS - union.leading_zeros()
}

/// All planes of all bands.
#[inline(always)]
fn code<C: Coefficient, W: Words>(
    coefficients: &[C],
    mut header: Header,
    layout: Layout,
    words: W,
) -> Vec<Segment> {
    header.descent = u16::try_from(layout.top - layout.highest).ok();
    let mut segments = vec![Segment { layer: 0, bytes: header.to_bytes() }];
    let mut bands: Vec<Blocks> =
        (0..layout.plan.bands.len()).map(|band| gather(coefficients, &layout, band)).collect();
    let mut models = Models::new();
    let mut encoder = Encoder::default();
    for exponent in (layout.lowest..=layout.highest).rev() {
        for pass in 0..PASSES {
            for (index, band) in bands.iter_mut().enumerate() {
                if let Some(bit) = layout.bit(index, exponent) {
                    band.pass(pass, bit, &mut encoder, &mut models, words);
                }
            }
            let bytes = encoder.finish();
            if !bytes.is_empty() {
                segments.push(Segment { layer: layout.layer(exponent, pass) as u16, bytes });
            }
        }
    }
    segments
}

/// A band's coefficients as planes of blocks.
#[inline(always)]
fn gather<C: Coefficient>(coefficients: &[C], layout: &Layout, index: usize) -> Blocks {
    let band = &layout.plan.bands[index];
    let bits = layout.bits(index);
    let mut blocks = Blocks::new(band, bits);
    let step_inverse = (-f64::from(layout.exponents[index])).exp2();
    (0..bits).for_each(|plane| blocks.open(plane));
    let lattice = blocks.lattice.clone();
    lattice.for_each_block(|block, place| {
        let mut values = [C::default(); BLOCK];
        let part = block_box(&lattice, block, band);
        copy_rows(part, layout.extents, lattice.block, |start, bit, length| {
            copy_row(&coefficients[start..start + length], &mut values[bit..bit + length]);
        });
        let (magnitudes, negative) = C::quantised(&values, step_inverse);
        let used = (magnitudes.bits() as usize).min(bits);
        if used > 0 {
            magnitudes.for_each_plane(used, |plane, word| blocks.planes[plane][place] = word);
            blocks.negative[place] = negative;
            blocks.raise(block, used);
        }
    });
    blocks
}
