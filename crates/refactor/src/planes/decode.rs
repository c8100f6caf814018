//! Segments to the best estimate of a tile's samples.

use super::boxes::{block_box, copy_row, copy_rows};
use super::layout::{compact, is_single, Header, Layout, DESCENT_MAX};
use super::magnitudes::Magnitudes;
use super::number::{Coefficient, Number, Uncertainty};
use super::passes::{Blocks, Models, PASSES};
use super::rans::Decoder;
use super::words::{Kernel, Words};
use super::{transform, Settings};

pub(super) struct Decoding<'a> {
    pub(super) shape: [usize; 4],
    pub(super) settings: Settings,
    pub(super) segments: &'a [&'a [u8]],
}

/// [`Decoding`] to the tile's samples.
pub(super) struct DecodingTo<'a, T> {
    pub(super) tile: Decoding<'a>,
    pub(super) samples: &'a mut [T],
}

impl<T: Number> Kernel for DecodingTo<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self, words: W) {
        let Self { tile, samples } = self;
        let Some(header) = tile.segments.first().and_then(|bytes| Header::from_bytes(bytes)) else {
            return samples.fill(T::default());
        };
        let centre = f64::from_bits(header.centre);
        let constant =
            if T::INTEGER { T::uncentred(0, header.centre as i64, true) } else { T::from_f64(centre) };
        let Some(descent) =
            header.descent.filter(|&descent| i32::from(descent) <= DESCENT_MAX && !samples.is_empty())
        else {
            return samples.fill(constant);
        };
        let (extents, plan) = compact(tile.shape, tile.settings.first);
        let highest = tile.settings.top.saturating_sub(i32::from(descent));
        if T::INTEGER {
            let known = tile.read(Layout::integers(extents, plan, tile.settings, highest), words);
            let offsets: Vec<i64> = known.restored();
            return set(samples, &offsets, |offset| {
                T::uncentred(offset, header.centre as i64, header.wrapping)
            });
        }
        let known = tile.read(Layout::floats(extents, plan, tile.settings, highest), words);
        if is_single(highest, known.last_exponent()) {
            let offsets: Vec<f32> = known.restored();
            set(samples, &offsets, |offset| T::from_f64(f64::from(offset) + centre));
        } else {
            let offsets: Vec<f64> = known.restored();
            set(samples, &offsets, |offset| T::from_f64(offset + centre));
        }
    }
}

#[inline(always)]
fn set<C: Copy, T>(samples: &mut [T], offsets: &[C], sample: impl Fn(C) -> T) {
    samples.iter_mut().zip(offsets).for_each(|(own, offset)| *own = sample(*offset));
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
