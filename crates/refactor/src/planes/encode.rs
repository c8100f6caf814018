//! A tile's samples to segments.

use super::bands::{Band, Extents, Plan};
use super::boxes::{block_box, copy_row, copy_rows, for_each_row};
use super::lattice::BLOCK;
use super::layout::{compact, integer_exponent, is_single, Header, Layout, DESCENT_MAX, FLOAT_EXPONENT_MIN};
use super::measure::{Estimated, Grain, Observed, Passes};
use super::number::Number;
use super::offsets::{self, Tile};
use super::passes::{Blocks, Models, PASSES};
use super::rans::Encoder;
use super::squares::Squares;
use super::words::{dispatch, Kernel, Words};
use super::{transform, Settings};
use crate::codec::{Coded, Segment};
use crate::judge::Measuring;

/// Fewer symbols are not worth a segment of their own: the coder's two states would cost 2 % of it or more.
const SEGMENT_SYMBOLS: usize = 1 << 10;
/// Where no other tile waits for the segment to end, only the memory for its symbols does: it should stay in a cache.
const SEGMENT_SYMBOLS_ALONE: usize = 1 << 16;

/// The segments of a tile of samples, of which `is_rounded` tells whether restored ones are rounded to whole numbers.
pub(super) fn encoded<T: Number>(
    samples: &[T],
    shape: [usize; 4],
    settings: Settings,
    measuring: Option<&Measuring<'_, T>>,
    is_rounded: bool,
) -> Coded<'static> {
    if samples.is_empty() {
        return Coded::default();
    }
    let (least, most) = offsets::ends(samples);
    let header = if T::INTEGER { integer_header(least, most) } else { float_header(least, most) };
    let Header { centre, wrapping, .. } = header;
    let tile = measuring.map(|measuring| {
        let (judge, unit) = (measuring.judge, measuring.unit);
        (Tile { samples, judge, unit, centre, wrapping }, measuring)
    });
    let observed = tile.as_ref().map(|(tile, measuring)| {
        let Measuring { unit, base_bytes, is_alone, .. } = **measuring;
        Observed { tile, unit, base_bytes, is_alone }
    });
    if least == most {
        return constant(header, observed);
    }
    let (extents, plan) = compact(shape, settings.first);
    // Half the range is left around the centre, and the coarsest band multiplies it most.
    let largest = (most.to_f64() / 2.0 - least.to_f64() / 2.0) * plan.gain();
    let grain = match (T::INTEGER, is_rounded) {
        (true, _) => Grain::Lifted,
        (false, true) => Grain::Rounded,
        (false, false) => Grain::Fine,
    };
    let encoding = Encoding { extents, plan, settings, header, grain, observed };
    if T::INTEGER {
        return encoding.of(offsets::converted(samples, |sample| sample.centred(centre as i64)));
    }
    let centre = f64::from_bits(centre);
    if is_single(highest_plane(largest, settings), settings.finest) {
        encoding.of(offsets::converted(samples, |sample| (sample.to_f64() - centre) as f32))
    } else {
        encoding.of(offsets::converted(samples, |sample| sample.to_f64() - centre))
    }
}

fn float_header<T: Number>(least: T, most: T) -> Header {
    let centre = T::from_f64(least.to_f64() / 2.0 + most.to_f64() / 2.0).to_f64();
    Header { centre: centre.to_bits(), descent: None, wrapping: false }
}

fn integer_header<T: Number>(least: T, most: T) -> Header {
    let (least, most) = (least.centred(0), most.centred(0));
    let span = most.wrapping_sub(least) as u64;
    let centre = least.wrapping_add((span / 2) as i64);
    Header { centre: centre as u64, descent: None, wrapping: span >> 61 != 0 }
}

/// A tile that is its centre.
fn constant(header: Header, observed: Option<Observed<'_>>) -> Coded<'static> {
    let bytes = header.to_bytes();
    let progress = observed.map(|observed| observed.tile.beginning(bytes.len())).unwrap_or_default();
    Coded { segments: vec![Segment { layer: 0, bytes }], deferred: None, progress }
}

/// A tile without its samples.
#[derive(Clone)]
pub(super) struct Encoding<'a> {
    pub(super) extents: Extents,
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    pub(super) header: Header,
    pub(super) grain: Grain,
    /// Without it, nothing is measured.
    pub(super) observed: Option<Observed<'a>>,
}

impl Encoding<'_> {
    fn of<C: Encoded>(self, offsets: Vec<C>) -> Coded<'static> {
        dispatch(EncodingOf { encoding: self, offsets })
    }
}

/// [`Encoding`] of the offsets of the samples from their centre.
pub(super) struct EncodingOf<'a, C> {
    pub(super) encoding: Encoding<'a>,
    pub(super) offsets: Vec<C>,
}

/// Coefficients whose planes are coded.
pub(super) trait Encoded: Estimated {
    /// The planes of a tile's coefficients.
    fn layout(coefficients: &[Self], extents: Extents, plan: Plan, settings: Settings) -> Layout;
}

macro_rules! float_encoded {
    ($float:ty) => {
        impl Encoded for $float {
            #[inline(always)]
            fn layout(coefficients: &[Self], extents: Extents, plan: Plan, settings: Settings) -> Layout {
                let larger = |largest: f64, &value: &$float| largest.max(f64::from(value).abs());
                let largest = coefficients.iter().fold(0.0, larger);
                Layout::floats(extents, plan, settings, highest_plane(largest, settings))
            }
        }
    };
}

float_encoded!(f32);
float_encoded!(f64);

impl Encoded for i64 {
    #[inline(always)]
    fn layout(coefficients: &[Self], extents: Extents, plan: Plan, settings: Settings) -> Layout {
        let highest_of =
            |band: &Band| integer_exponent(band) + bits_of(coefficients, extents, band) as i32 - 1;
        let highest = plan.bands.iter().map(highest_of).max().unwrap_or(0).min(settings.top);
        Layout::integers(extents, plan, settings, highest)
    }
}

impl<C: Encoded> Kernel for EncodingOf<'_, C> {
    type Output = Coded<'static>;

    /// Encodes all planes of all bands, with their accuracies.
    #[inline(always)]
    fn run<W: Words>(self, words: W) -> Coded<'static> {
        let Self { encoding: Encoding { extents, plan, settings, mut header, grain, observed }, mut offsets } =
            self;
        transform::forward(&mut offsets, extents, &plan);
        let coefficients = offsets;
        let layout = C::layout(&coefficients, extents, plan, settings);
        header.descent = u16::try_from(layout.top - layout.highest).ok();
        let mut squares = observed.map(|_| Squares::new(&layout, grain == Grain::Lifted));
        let mut bands: Vec<Blocks> = Vec::with_capacity(layout.plan.bands.len());
        // No closure: the compiler must inline everything for the processor's own instructions to be used.
        for band in 0..layout.plan.bands.len() {
            bands.push(gather(&coefficients, &layout, band, squares.as_mut()));
        }
        let mut segments = vec![Segment { layer: 0, bytes: header.to_bytes() }];
        let is_alone = observed.is_some_and(|observed| observed.is_alone);
        let least = if is_alone { SEGMENT_SYMBOLS_ALONE } else { SEGMENT_SYMBOLS };
        let models = Models::new(settings.learning);
        let ends = code_planes(&mut bands, &layout, squares.as_mut(), (models, least), words, &mut segments);
        let (Some(observed), Some(squares)) = (observed, squares) else {
            return Coded { segments, deferred: None, progress: Vec::new() };
        };
        let ends = squares.passes(&layout, &ends);
        let passes = Passes { layout: &layout, segments: &segments, ends, per_plane: PASSES, grain };
        let progress = passes.progress(&coefficients, observed);
        Coded { segments, deferred: None, progress }
    }
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
