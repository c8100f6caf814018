//! Tiles: an array cut into boxes that are coded each by itself.

use std::ops::Range;

/// The most samples of one tile: those of a cube of 96. Smaller tiles cost quality, larger ones caches and parallelism.
pub(crate) const TILE_SAMPLES: usize = 96 * 96 * 96;

/// A tile may have so many times fewer, where halving an edge cannot be avoided.
const TILES_SMALLER_MAX: usize = 64;

/// One range an axis.
pub(crate) type Bounds = [Range<usize>; 4];

/// An array of up to four axes and the edges of its tiles. Axes that the array lacks come first, with length 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) shape: [usize; 4],
    pub(crate) edges: [usize; 4],
}

impl Grid {
    /// Tiles of at most `tile_samples`, with edges as equal as the shape lets them be.
    pub(crate) fn new(shape: [usize; 4], tile_samples: usize) -> Self {
        let mut counts = [1_usize; 4];
        let edge = |counts: &[usize; 4], axis: usize| shape[axis].div_ceil(counts[axis]).max(1);
        while (0..4).map(|axis| edge(&counts, axis)).product::<usize>() > tile_samples.max(1) {
            let longest = (0..4).max_by_key(|axis| edge(&counts, *axis)).unwrap_or(3);
            counts[longest] += 1;
        }
        Self { shape, edges: [0, 1, 2, 3].map(|axis| edge(&counts, axis)) }
    }

    /// One tile that holds the whole array.
    pub(crate) fn whole(shape: [usize; 4]) -> Self {
        Self { shape, edges: shape.map(|length| length.max(1)) }
    }

    /// Samples of the array.
    pub(crate) fn samples(&self) -> usize {
        self.shape.iter().product()
    }

    /// Are the tiles such as an encoder makes them: none too large to be decoded in little memory, not many too small?
    pub(crate) fn is_sound(&self) -> bool {
        let edges = [0, 1, 2, 3].map(|axis| self.edges[axis].min(self.shape[axis].max(1)) as u128);
        let counts = [0, 1, 2, 3].map(|axis| self.shape[axis].div_ceil(self.edges[axis]) as u128);
        let samples: u128 = self.shape.iter().map(|length| *length as u128).product();
        let most = 1 + samples / (TILE_SAMPLES / TILES_SMALLER_MAX) as u128;
        edges.iter().product::<u128>() <= TILE_SAMPLES as u128 && counts.iter().product::<u128>() <= most
    }

    fn counts(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|axis| self.shape[axis].div_ceil(self.edges[axis]))
    }

    /// The number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.counts().iter().product()
    }

    /// The place of a tile in the array.
    pub(crate) fn bounds(&self, tile: usize) -> Bounds {
        let counts = self.counts();
        let mut rest = tile;
        let mut bounds = [0..0, 0..0, 0..0, 0..0];
        for axis in (0..4).rev() {
            let start = rest % counts[axis] * self.edges[axis];
            rest /= counts[axis];
            bounds[axis] = start..(start + self.edges[axis]).min(self.shape[axis]);
        }
        bounds
    }

    /// The tiles that a region touches, in their order.
    pub(crate) fn touched(&self, region: &Bounds) -> Vec<usize> {
        (0..self.tiles()).filter(|tile| intersection(&self.bounds(*tile), region).is_some()).collect()
    }
}

/// The lengths of a box.
pub(crate) fn lengths(bounds: &Bounds) -> [usize; 4] {
    [0, 1, 2, 3].map(|axis| bounds[axis].len())
}

/// The box that two boxes share, unless it is empty.
pub(crate) fn intersection(one: &Bounds, other: &Bounds) -> Option<Bounds> {
    let shared =
        [0, 1, 2, 3].map(|axis| one[axis].start.max(other[axis].start)..one[axis].end.min(other[axis].end));
    shared.iter().all(|range| range.start < range.end).then_some(shared)
}

/// Call `work` with where each row of the box `part` begins in an array that holds the box `source` and in one that holds
/// the box `target`, and with its length.
pub(crate) fn for_each_row(
    source: &Bounds,
    target: &Bounds,
    part: &Bounds,
    mut work: impl FnMut(usize, usize, usize),
) {
    for first in part[0].clone() {
        for second in part[1].clone() {
            for third in part[2].clone() {
                let at = |bounds: &Bounds| offset(bounds, [first, second, third, part[3].start]);
                work(at(source), at(target), part[3].len());
            }
        }
    }
}

/// Copy the box `part` from an array that holds the box `source` into one that holds the box `target`.
pub(crate) fn copy<T: Copy>(from: &[T], source: &Bounds, to: &mut [T], target: &Bounds, part: &Bounds) {
    for_each_row(source, target, part, |read, written, length| {
        to[written..written + length].copy_from_slice(&from[read..read + length]);
    });
}

fn offset(bounds: &Bounds, point: [usize; 4]) -> usize {
    (0..4).fold(0, |offset, axis| offset * bounds[axis].len() + point[axis] - bounds[axis].start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiles_of_an_encoder_are_sound_and_others_are_not() {
        let lengths = [0, 1, 2, 3, 7, 31, 96, 97, 500, 1009, 9_999, 65_537, 3_000_000];
        for (a, b) in lengths.iter().flat_map(|a| lengths.iter().map(move |b| (*a, *b))) {
            for shape in [[1, 1, a, b], [1, a, 3, b], [a, 5, b, 2], [a, b, 11, 13]] {
                let grid = Grid::new(shape, TILE_SAMPLES);
                assert!(grid.is_sound(), "{grid:?}");
            }
        }
        let shape = [1, 1, 1 << 15, 1 << 15];
        for edges in [[1, 1, 1, 1], [1, 1, 1 << 15, 1 << 15], [usize::MAX; 4], [1, 1, 1, 1 << 10]] {
            assert!(!Grid { shape, edges }.is_sound(), "{edges:?}");
        }
    }

    #[test]
    fn tiles_cover_every_sample_once() {
        for shape in [[1, 1, 1, 1], [1, 1, 1, 17], [1, 5, 7, 3], [3, 4, 5, 6], [1, 91, 13, 2]] {
            for tile_samples in [1, 8, 30, 1000] {
                let grid = Grid::new(shape, tile_samples);
                let whole: Bounds = shape.map(|length| 0..length);
                let mut seen = vec![0_u8; grid.samples()];
                for tile in 0..grid.tiles() {
                    let bounds = grid.bounds(tile);
                    let samples: usize = lengths(&bounds).iter().product();
                    assert!(samples > 0 && samples <= tile_samples, "{shape:?} {tile_samples} {bounds:?}");
                    let mut own = vec![0_u8; samples];
                    copy(&seen, &whole, &mut own, &bounds, &bounds);
                    own.iter_mut().for_each(|count| *count += 1);
                    copy(&own, &bounds, &mut seen, &whole, &bounds);
                }
                assert!(seen.iter().all(|count| *count == 1), "{shape:?} {tile_samples}");
            }
        }
    }

    #[test]
    fn a_field_of_up_to_a_cube_of_96_is_one_tile() {
        for shape in [[1, 91, 91, 91], [1, 41, 128, 128], [1, 1, 512, 512], [1, 96, 96, 96]] {
            assert_eq!(Grid::new(shape, TILE_SAMPLES).tiles(), 1);
        }
        assert_eq!(Grid::new([1, 192, 192, 192], TILE_SAMPLES).tiles(), 8);
    }
}
