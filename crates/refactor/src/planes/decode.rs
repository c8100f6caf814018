//! Segments to the best estimate of a tile's samples.

use super::boxes::{block_box, copy_row, copy_rows};
use super::layout::{compact, is_single, Header, Layout, DESCENT_MAX};
use super::magnitudes::Magnitudes;
use super::number::{Coefficient, Number, Uncertainty};
use super::offsets::{convert_to, Offsets};
use super::passes::{Blocks, Models, PASSES};
use super::rans::Decoder;
use super::words::{dispatch, Kernel, Words};
use super::{transform, Settings};

/// Sets a tile's samples to the best estimate that the segments give.
pub(super) fn decode<T: Number>(
    shape: [usize; 4],
    settings: Settings,
    segments: &[&[u8]],
    samples: &mut [T],
) {
    let Some(header) = segments.first().and_then(|bytes| Header::from_bytes(bytes)) else {
        return samples.fill(T::default());
    };
    let centre = f64::from_bits(header.centre);
    let constant = if T::INTEGER { T::uncentred(0, header.centre as i64, true) } else { T::from_f64(centre) };
    let Some(descent) =
        header.descent.filter(|&descent| i32::from(descent) <= DESCENT_MAX && !samples.is_empty())
    else {
        return samples.fill(constant);
    };
    let highest = settings.top.saturating_sub(i32::from(descent));
    match dispatch(Decoding { shape, settings, segments, highest, is_integer: T::INTEGER }) {
        Offsets::Whole(offsets) => convert_to(&offsets, samples, |offset| {
            T::uncentred(offset, header.centre as i64, header.wrapping)
        }),
        Offsets::Single(offsets) => {
            convert_to(&offsets, samples, |offset| T::from_f64(f64::from(offset) + centre));
        }
        Offsets::Double(offsets) => convert_to(&offsets, samples, |offset| T::from_f64(offset + centre)),
    }
}

pub(super) struct Decoding<'a> {
    pub(super) shape: [usize; 4],
    pub(super) settings: Settings,
    pub(super) segments: &'a [&'a [u8]],
    /// Exponent of the highest plane.
    pub(super) highest: i32,
    /// Integers by the reversible transform.
    pub(super) is_integer: bool,
}

impl Kernel for Decoding<'_> {
    type Output = Offsets;

    #[inline(always)]
    fn run<W: Words>(self, words: W) -> Offsets {
        let (extents, plan) = compact(self.shape, self.settings.first);
        if self.is_integer {
            let layout = Layout::integers(extents, plan, self.settings, self.highest);
            return Offsets::Whole(self.read(layout, words).restored());
        }
        let known = self.read(Layout::floats(extents, plan, self.settings, self.highest), words);
        match is_single(self.highest, known.last_exponent()) {
            true => Offsets::Single(known.restored()),
            false => Offsets::Double(known.restored()),
        }
    }
}

/// The bits of a tile, as far as they are there.
struct Known {
    layout: Layout,
    bands: Vec<Blocks>,
    /// The lowest bit that was begun, of each band.
    last: Vec<Option<usize>>,
}

impl Known {
    /// The exponent of the lowest plane that was begun.
    fn last_exponent(&self) -> i32 {
        let exponents = self.last.iter().zip(&self.layout.exponents);
        let begun = exponents.filter_map(|(last, exponent)| last.map(|last| exponent + last as i32));
        begun.min().unwrap_or(self.layout.highest)
    }

    /// The distances of the samples from the centre, as far as the bits give them.
    #[inline(always)]
    fn restored<C: Coefficient>(&self) -> Vec<C> {
        let mut samples = vec![C::default(); self.layout.extents.iter().product()];
        for (index, blocks) in self.bands.iter().enumerate() {
            if let Some(last) = self.last[index] {
                scatter(blocks, last, &self.layout, index, &mut samples);
            }
        }
        transform::inverse(&mut samples, self.layout.extents, &self.layout.plan);
        samples
    }
}

impl Decoding<'_> {
    #[inline(always)]
    fn read<W: Words>(&self, layout: Layout, words: W) -> Known {
        let blocks = |(index, band)| Blocks::new(band, layout.bits(index));
        let mut bands: Vec<Blocks> = layout.plan.bands.iter().enumerate().map(blocks).collect();
        let last = self.read_planes(&layout, &mut bands, words);
        Known { layout, bands, last }
    }

    /// Read passes until the bytes end. The lowest bit that was begun, of each band.
    #[inline(always)]
    fn read_planes<W: Words>(&self, layout: &Layout, blocks: &mut [Blocks], words: W) -> Vec<Option<usize>> {
        let mut last = vec![None; blocks.len()];
        let mut models = Models::new(self.settings.learning);
        let mut open: Option<Decoder<'_>> = None;
        for exponent in (layout.lowest..=layout.highest).rev() {
            for pass in 0..PASSES {
                let layer = layout.layer(exponent, pass);
                if layer >= self.segments.len() {
                    return last;
                }
                let mut decoder = open.take().unwrap_or_else(|| Decoder::new(self.segment_of(layer)));
                for (index, blocks) in blocks.iter_mut().enumerate() {
                    if let Some(bit) = layout.bit(index, exponent) {
                        last[index] = Some(bit);
                        blocks.open(bit);
                        if !blocks.pass(pass, bit, &mut decoder, &mut models, words) {
                            return last;
                        }
                    }
                }
                open = Some(decoder).filter(|_| self.segments[layer].is_empty());
            }
        }
        last
    }

    /// The segment that the pass of a layer stands in: its own, or that of the next one that has any.
    #[inline(always)]
    fn segment_of(&self, layer: usize) -> &[u8] {
        self.segments[layer..].iter().find(|bytes| !bytes.is_empty()).copied().unwrap_or_default()
    }
}

/// Put a band's coefficients into the tile.
#[inline(always)]
fn scatter<C: Coefficient>(blocks: &Blocks, last: usize, layout: &Layout, index: usize, samples: &mut [C]) {
    let band = &layout.plan.bands[index];
    let step = f64::from(layout.exponents[index] + last as i32).exp2();
    for (block, place) in blocks.lattice.places() {
        if blocks.significant[place] == 0 {
            continue;
        }
        let mut magnitudes = Magnitudes::ZERO;
        for (plane, words) in blocks.planes[last..].iter().enumerate() {
            match words[place] {
                0 => {}
                word => magnitudes.add_plane(plane, word),
            }
        }
        let uncertainty = if usize::from(blocks.refined[place]) == last {
            Uncertainty { bits: last, doubled: 0 }
        } else {
            Uncertainty { bits: last, doubled: !blocks.planes[last][place] }
        };
        let values = C::restored(&magnitudes, blocks.negative[place], &uncertainty, step);
        let part = block_box(&blocks.lattice, block, band);
        copy_rows(part, layout.extents, blocks.lattice.block, |start, bit, length| {
            copy_row(&values[bit..bit + length], &mut samples[start..start + length]);
        });
    }
}
