//! The errors of every prefix that a reader can have, by decoding each of them.
//!
//! A reader uses whole blocks, so a container has few prefixes that differ. In small arrays chance rules, and no margin
//! on derived errors is right for all of them: there, every prefix is restored and compared while it is written.

use crate::block;
use crate::header::Header;
use crate::judge::{Errors, Judge};
use crate::parallel;
use crate::pieces::Pieces;
use crate::sample::Sample;
use crate::tile::Coder;

/// Prefixes times samples that are decoded at most: an eighth of a second of work on one core.
const SAMPLES_MAX: u64 = 3 << 21;

/// Payload offsets at which blocks end, if all prefixes of them are to be decoded; chunks end at `ends`.
pub(crate) fn decodable(header: &Header, ends: &[u64]) -> Option<Vec<u64>> {
    if header.grid.tiles() != 1 {
        return None;
    }
    let samples = header.grid.samples() as u64;
    let mut cuts = vec![0];
    let mut start = 0;
    for end in ends {
        let block_bytes = block::of_chunk(*end, header.block_bytes, header.version);
        while start < *end {
            start = (start + block_bytes).min(*end);
            cuts.push(start);
        }
        if cuts.len() as u64 * samples > SAMPLES_MAX {
            return None;
        }
    }
    Some(cuts)
}

/// The layers of the only tile of an array, and the array's judge.
pub(crate) struct Tile<'a, T: Sample> {
    pub(crate) layers: &'a [Vec<u8>],
    pub(crate) coder: &'a Coder<T>,
    pub(crate) judge: &'a dyn Judge<T>,
}

impl<T: Sample> Tile<'_, T> {
    /// The errors when the payload is there up to each of these places, which rise.
    pub(crate) fn errors(&self, shape: [usize; 4], cuts: &[u64], threads: usize) -> Vec<Errors> {
        let codec: u64 = self.codec_layers().iter().map(|layer| layer.len() as u64).sum();
        let total: u64 = self.layers.iter().map(|layer| layer.len() as u64).sum();
        // A part of the last residual changes nothing.
        let used = |cut: &u64| if *cut < total { codec.min(*cut) } else { total };
        let mut places: Vec<u64> = cuts.iter().map(used).collect();
        places.dedup();
        let found = parallel::map(places.len(), threads, |number| self.errors_at(shape, places[number]));
        let of = |cut| found[places.partition_point(|place| *place < used(cut))];
        cuts.iter().map(of).collect()
    }

    /// The layers without the residual of an exact array.
    fn codec_layers(&self) -> &[Vec<u8>] {
        match self.coder.exact {
            true => &self.layers[..self.layers.len().saturating_sub(1)],
            false => self.layers,
        }
    }

    fn errors_at(&self, shape: [usize; 4], cut: u64) -> Errors {
        if (cut as usize) < self.layers.first().map_or(0, Vec::len) {
            // Samples that the codec does not take are as wrong as can be.
            return Errors { squares: f64::INFINITY, largest: f64::INFINITY };
        }
        let mut left = cut as usize;
        let mut is_whole = true;
        let mut segments: Vec<Pieces<'_>> = Vec::with_capacity(self.layers.len());
        for layer in self.codec_layers() {
            let used = left.min(layer.len());
            segments.push(layer[..used].into());
            left -= used;
            if used < layer.len() {
                is_whole = false;
                break;
            }
        }
        let residual = self.layers.last().filter(|last| self.coder.exact && is_whole && left == last.len());
        let mut restored = vec![T::default(); shape.iter().product()];
        let residual = residual.map(|residual| residual.as_slice().into());
        self.coder.decode(shape, (&segments, residual.as_ref()), 1, &mut restored);
        self.judge.errors(0, &restored)
    }
}
