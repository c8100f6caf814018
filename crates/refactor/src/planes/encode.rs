//! A tile's samples to segments.

use super::bands::{Band, Extents, Plan};
use super::boxes::{block_box, copy_row, copy_rows, for_each_row};
use super::lattice::BLOCK;
use super::layout::{compact, integer_exponent, is_single, Header, Layout, DESCENT_MAX, FLOAT_EXPONENT_MIN};
use super::measure::{beginning, Estimated, Grain, Passes, Tile};
use super::number::Number;
use super::passes::{Blocks, Models, PASSES};
use super::rans::Encoder;
use super::squares::Squares;
use super::words::{Kernel, Words};
use super::{transform, Settings};
use crate::codec::{Coded, Segment};
use crate::judge::Measuring;

/// Fewer symbols are not worth a segment of their own: the coder's two states would cost 2 % of it or more.
const SEGMENT_SYMBOLS: usize = 1 << 10;
/// Where no other tile waits for the segment to end, only the memory for its symbols does: it should stay in a cache.
const SEGMENT_SYMBOLS_ALONE: usize = 1 << 16;

pub(super) struct Encoding<'a, T> {
    pub(super) samples: &'a [T],
    pub(super) shape: [usize; 4],
    pub(super) settings: Settings,
    /// Without it, nothing is measured.
    pub(super) measuring: Option<&'a Measuring<'a, T>>,
    /// Restored samples are rounded to whole numbers.
    pub(super) rounded: bool,
}

impl<T: Number> Kernel for Encoding<'_, T> {
    type Output = Coded<'static>;

    #[inline(always)]
    fn run<W: Words>(self, words: W) -> Coded<'static> {
        if self.samples.is_empty() {
            return Coded::default();
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
    fn floats<W: Words>(&self, words: W) -> Coded<'static> {
        let (least, most) = range(self.samples);
        let (least, most) = (least.to_f64(), most.to_f64());
        let centre = T::from_f64(least / 2.0 + most / 2.0).to_f64();
        let header = Header { centre: centre.to_bits(), descent: None, wrapping: false };
        if least == most {
            return self.constant(header);
        }
        let (extents, plan) = compact(self.shape, self.settings.first);
        // Half the range is left around the centre, and the coarsest band multiplies it most.
        let highest = highest_plane((most / 2.0 - least / 2.0) * plan.gain(), self.settings);
        if is_single(highest, self.settings.finest) {
            let centred = self.samples.iter().map(|sample| (sample.to_f64() - centre) as f32).collect();
            self.code_floats::<f32, W>(centred, extents, plan, header, words)
        } else {
            let centred = self.samples.iter().map(|sample| sample.to_f64() - centre).collect();
            self.code_floats::<f64, W>(centred, extents, plan, header, words)
        }
    }

    #[inline(always)]
    fn code_floats<C: Estimated + Into<f64>, W: Words>(
        &self,
        mut coefficients: Vec<C>,
        extents: Extents,
        plan: Plan,
        header: Header,
        words: W,
    ) -> Coded<'static> {
        transform::forward(&mut coefficients, extents, &plan);
        let largest = coefficients.iter().fold(0.0_f64, |largest, &value| largest.max(value.into().abs()));
        let highest = highest_plane(largest, self.settings);
        self.code(&coefficients, header, Layout::floats(extents, plan, self.settings, highest), words)
    }

    #[inline(always)]
    fn integers<W: Words>(&self, words: W) -> Coded<'static> {
        let (least, most) = range(self.samples);
        let (least, most) = (least.centred(0), most.centred(0));
        let span = most.wrapping_sub(least) as u64;
        let centre = least.wrapping_add((span / 2) as i64);
        let header = Header { centre: centre as u64, descent: None, wrapping: span >> 61 != 0 };
        if span == 0 {
            return self.constant(header);
        }
        let (extents, plan) = compact(self.shape, self.settings.first);
        let mut coefficients: Vec<i64> = self.samples.iter().map(|sample| sample.centred(centre)).collect();
        transform::forward(&mut coefficients, extents, &plan);
        let highest_of =
            |band: &Band| integer_exponent(band) + bits_of(&coefficients, extents, band) as i32 - 1;
        let highest = plan.bands.iter().map(highest_of).max().unwrap_or(0).min(self.settings.top);
        self.code(&coefficients, header, Layout::integers(extents, plan, self.settings, highest), words)
    }

    /// A tile that is its centre.
    fn constant(&self, header: Header) -> Coded<'static> {
        let bytes = header.to_bytes();
        let progress = self.measuring.map(|measuring| beginning(self.tile(header, measuring), bytes.len()));
        Coded {
            segments: vec![Segment { layer: 0, bytes }],
            deferred: None,
            progress: progress.unwrap_or_default(),
        }
    }

    fn tile<'b>(&'b self, header: Header, measuring: &'b Measuring<'b, T>) -> Tile<'b, T> {
        let Header { centre, wrapping, .. } = header;
        Tile { samples: self.samples, judge: measuring.judge, unit: measuring.unit, centre, wrapping }
    }

    /// Encodes all planes of all bands, with their accuracies.
    #[inline(always)]
    fn code<C: Estimated, W: Words>(
        &self,
        coefficients: &[C],
        mut header: Header,
        layout: Layout,
        words: W,
    ) -> Coded<'static> {
        header.descent = u16::try_from(layout.top - layout.highest).ok();
        let mut squares = self.measuring.map(|_| Squares::new(&layout, T::INTEGER));
        let mut bands: Vec<Blocks> = Vec::with_capacity(layout.plan.bands.len());
        // No closure: the compiler must inline everything for the processor's own instructions to be used.
        for band in 0..layout.plan.bands.len() {
            bands.push(gather(coefficients, &layout, band, squares.as_mut()));
        }
        let mut segments = vec![Segment { layer: 0, bytes: header.to_bytes() }];
        let is_alone = self.measuring.is_some_and(|measuring| measuring.is_alone);
        let least = if is_alone { SEGMENT_SYMBOLS_ALONE } else { SEGMENT_SYMBOLS };
        let models = Models::new(self.settings.learning);
        let ends = code_planes(&mut bands, &layout, squares.as_mut(), (models, least), words, &mut segments);
        let (Some(measuring), Some(squares)) = (self.measuring, squares) else {
            return Coded { segments, deferred: None, progress: Vec::new() };
        };
        let ends = squares.passes(&layout, &ends);
        let grain = match (T::INTEGER, self.rounded) {
            (true, _) => Grain::Lifted,
            (false, true) => Grain::Rounded,
            (false, false) => Grain::Fine,
        };
        let passes = Passes { layout: &layout, segments: &segments, ends, per_plane: PASSES, grain };
        let progress = passes.progress(coefficients, self.tile(header, measuring), measuring.base_bytes);
        Coded { segments, deferred: None, progress }
    }
}

/// The least and the most of the samples.
#[inline(always)]
pub(super) fn range<T: Number>(samples: &[T]) -> (T, T) {
    samples.iter().fold((samples[0], samples[0]), |(least, most), &sample| {
        (if sample < least { sample } else { least }, if sample > most { sample } else { most })
    })
}

/// The plane that the leading bit of `largest` is in.
fn highest_plane(largest: f64, settings: Settings) -> i32 {
    let exponent = largest.log2().floor().max(f64::from(FLOAT_EXPONENT_MIN)) as i32;
    exponent.max(settings.top.saturating_sub(DESCENT_MAX)).min(settings.top)
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

/// Appends the segments of all passes, and notes the coefficients that the first pass of each plane finds. Passes share a
/// segment until at least so many symbols are together. The bands of each pass, and the bytes of the segment at which they end.
#[inline(always)]
fn code_planes<W: Words>(
    bands: &mut [Blocks],
    layout: &Layout,
    mut squares: Option<&mut Squares>,
    (mut models, least): (Models, usize),
    words: W,
    segments: &mut Vec<Segment>,
) -> Vec<Vec<(usize, usize)>> {
    let mut encoder = Encoder::default();
    let mut all_ends: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut done = 0;
    for exponent in (layout.lowest..=layout.highest).rev() {
        let mut found_in_plane = 0;
        for pass in 0..PASSES {
            let mut coded = Vec::with_capacity(bands.len());
            for (index, band) in bands.iter_mut().enumerate() {
                if let Some(bit) = layout.bit(index, exponent) {
                    band.pass(pass, bit, &mut encoder, &mut models, words);
                    encoder.mark();
                    coded.push((index, 0));
                    let Some(squares) = squares.as_mut() else { continue };
                    match pass {
                        0 => band.for_each_fresh(|place, found| squares.found(index, place, bit, found)),
                        _ => band.for_each_fresh(|_, found| found_in_plane += found.count_ones() as usize),
                    }
                }
            }
            all_ends.push(coded);
            let is_last = exponent == layout.lowest && pass + 1 == PASSES;
            if encoder.symbols() < least && !is_last {
                continue;
            }
            let (bytes, ends) = encoder.finish();
            all_ends[done..].iter_mut().flatten().zip(ends).for_each(|(own, end)| own.1 = end);
            done = all_ends.len();
            if !bytes.is_empty() {
                segments.push(Segment { layer: layout.layer(exponent, pass) as u16, bytes });
            }
        }
        if let Some(squares) = squares.as_mut() {
            squares.finds(found_in_plane);
        }
    }
    all_ends
}

/// A band's coefficients as planes of blocks.
#[inline(always)]
fn gather<C: Estimated>(
    coefficients: &[C],
    layout: &Layout,
    index: usize,
    mut squares: Option<&mut Squares>,
) -> Blocks {
    let band = &layout.plan.bands[index];
    let bits = layout.bits(index);
    let mut blocks = Blocks::new(band, bits);
    let step_inverse = (-f64::from(layout.exponents[index])).exp2();
    (0..bits).for_each(|plane| blocks.open(plane));
    if let Some(squares) = &mut squares {
        squares.open(index, blocks.lattice.length);
    }
    for (block, place) in blocks.lattice.places() {
        let mut values = [C::default(); BLOCK];
        let part = block_box(&blocks.lattice, block, band);
        copy_rows(part, layout.extents, blocks.lattice.block, |start, bit, length| {
            copy_row(&coefficients[start..start + length], &mut values[bit..bit + length]);
        });
        let (magnitudes, negative) = C::quantised(&values, step_inverse, bits);
        let used = (magnitudes.bits() as usize).min(bits);
        if let Some(squares) = &mut squares {
            squares.add(index, place, &C::steps(&values, step_inverse), used);
        }
        if used > 0 {
            let mut planes = [0; BLOCK];
            magnitudes.for_each_plane(used, |plane, word| planes[plane] = word);
            for (words, word) in blocks.planes.iter_mut().zip(planes).take(used) {
                words[place] = word;
            }
            blocks.negative[place] = negative;
            blocks.raise(block, used);
        }
    }
    blocks
}
