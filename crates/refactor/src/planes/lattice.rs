//! A band cut into blocks of 64 coefficients, so that one bit of each is one word.
//!
//! A block is 4x4x4 in a volume, 8x8 in a plane, 64 in a row. Its coefficients stand in C order in the word. Blocks lie in
//! an array with a margin of empty ones, so that every block has neighbours. 64 blocks are a block of the lattice above:
//! there a bit says whether a block has any significant coefficient.

use super::bands::{Extents, AXES};

/// Coefficients of a block.
pub(super) const BLOCK: usize = 64;

/// The neighbourhood of a word's bits along an axis.
#[derive(Clone, Copy, Debug)]
struct Neighbourhood {
    /// Distance of neighbours within the word.
    shift: u32,
    /// Distance of the first and the last coefficient within the word.
    span: u32,
    /// The first and the last coefficients along the axis.
    first: u64,
    last: u64,
    /// Distance of neighbouring blocks in the array.
    stride: usize,
}

/// Blocks of a box of items.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    /// Items along each axis of a block.
    pub(super) block: Extents,
    /// Blocks along each axis.
    pub(super) blocks: Extents,
    /// Distance in the array of neighbouring blocks along each axis.
    pub(super) strides: Extents,
    /// Length of the array of blocks, margin included.
    pub(super) length: usize,
    margin: usize,
    /// The bits of the last block along each axis that stand for items.
    tails: [u64; AXES],
    neighbourhoods: Vec<Neighbourhood>,
}

/// The number of significant neighbours of each item of a block, the bits of the count in a word each; seven is the
/// most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ones: u64,
    pub(super) twos: u64,
    pub(super) fours: u64,
}

impl Counts {
    #[inline(always)]
    fn add(&mut self, word: u64) {
        let carry = self.ones & word;
        self.ones ^= word;
        self.fours |= self.twos & carry;
        self.twos ^= carry;
    }
}

/// Block extents that suit a box: as cubic as the box lets them be.
fn block_of(items: Extents) -> Extents {
    let mut block = [1; AXES];
    for _ in 0..BLOCK.ilog2() {
        let axis = (0..AXES).rev().filter(|&axis| block[axis] < items[axis]).min_by_key(|&axis| block[axis]);
        block[axis.unwrap_or(AXES - 1)] *= 2;
    }
    block
}

fn bits_where(chosen: impl Fn(usize) -> bool) -> u64 {
    (0..BLOCK).fold(0, |mask, bit| mask | u64::from(chosen(bit)) << bit)
}

impl Lattice {
    pub(super) fn new(items: Extents) -> Self {
        let block = block_of(items);
        let mut blocks = [0; AXES];
        let mut strides = [0; AXES];
        let mut tails = [0; AXES];
        let mut neighbourhoods = Vec::new();
        let (mut length, mut margin, mut shift) = (1, 0, 1);
        for axis in (0..AXES).rev() {
            blocks[axis] = items[axis].div_ceil(block[axis]);
            strides[axis] = length;
            let mask = |count| bits_where(|bit| bit / shift % block[axis] < count);
            tails[axis] = mask(items[axis] - (blocks[axis] - 1) * block[axis]);
            if items[axis] > 1 {
                let span = shift * (block[axis] - 1);
                let first = mask(1);
                let (shift, span) = (shift as u32, span as u32);
                neighbourhoods.push(Neighbourhood {
                    shift,
                    span,
                    first,
                    last: first << span,
                    stride: length,
                });
                margin += length;
                length *= blocks[axis] + 2;
            } else {
                length *= blocks[axis];
            }
            shift *= block[axis];
        }
        Self { block, blocks, strides, length, margin, tails, neighbourhoods }
    }

    /// The place of a block in the array.
    #[inline(always)]
    pub(super) fn index(&self, block: Extents) -> usize {
        self.margin + (0..AXES).map(|axis| block[axis] * self.strides[axis]).sum::<usize>()
    }

    /// Call `work` with the coordinates of each block and its place in the array, in C order.
    #[inline(always)]
    pub(super) fn for_each_block(&self, mut work: impl FnMut(Extents, usize)) {
        let [a, b, c, d] = self.blocks;
        for i in 0..a {
            for j in 0..b {
                for k in 0..c {
                    let row = self.index([i, j, k, 0]);
                    for l in 0..d {
                        work([i, j, k, l], row + l);
                    }
                }
            }
        }
    }

    /// The coordinates of each block and its place in the array, in C order.
    pub(super) fn places(&self) -> Vec<(Extents, usize)> {
        let mut places = Vec::with_capacity(self.blocks.iter().product());
        self.for_each_block(|block, place| places.push((block, place)));
        places
    }

    /// The bits of a block that stand for items.
    #[inline(always)]
    pub(super) fn valid(&self, block: Extents) -> u64 {
        let mut valid = u64::MAX;
        for ((block, blocks), tail) in block.iter().zip(&self.blocks).zip(&self.tails) {
            valid &= if block + 1 == *blocks { *tail } else { u64::MAX };
        }
        valid
    }

    /// Coordinates within the block of the item at `bit`.
    pub(super) fn item(&self, bit: usize) -> Extents {
        let mut rest = bit;
        let mut item = [0; AXES];
        for axis in (0..AXES).rev() {
            item[axis] = rest % self.block[axis];
            rest /= self.block[axis];
        }
        item
    }

    /// The number of ones among the two neighbours along each axis, for every item of the block at `index`.
    #[inline(always)]
    pub(super) fn counts(&self, words: &[u64], index: usize) -> Counts {
        let own = words[index];
        let mut counts = Counts::default();
        for near in &self.neighbourhoods {
            let (before, after) = (words[index - near.stride], words[index + near.stride]);
            counts.add(own << near.shift & !near.first | before >> near.span & near.first);
            counts.add(own >> near.shift & !near.last | after << near.span & near.last);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_are_as_cubic_as_the_box() {
        assert_eq!(block_of([1, 50, 50, 50]), [1, 4, 4, 4]);
        assert_eq!(block_of([1, 1, 50, 50]), [1, 1, 8, 8]);
        assert_eq!(block_of([1, 1, 1, 50]), [1, 1, 1, 64]);
        assert_eq!(block_of([1, 2, 50, 50]), [1, 2, 4, 8]);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_plain_walk(items in proptest::array::uniform4(1_usize..7), seed in any::<u64>()) {
            let lattice = Lattice::new(items);
            let mut words = vec![0; lattice.length];
            let mut blocks = Vec::new();
            lattice.for_each_block(|block, index| {
                assert_eq!(index, lattice.index(block));
                blocks.push(block);
            });
            let mut set = std::collections::HashSet::new();
            let mut state = seed | 1;
            for &block in &blocks {
                let valid = lattice.valid(block);
                for bit in (0..BLOCK).filter(|bit| valid >> bit & 1 == 1) {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if state >> 62 == 0 {
                        words[lattice.index(block)] |= 1 << bit;
                        let item = lattice.item(bit);
                        set.insert([0, 1, 2, 3].map(|axis| (block[axis] * lattice.block[axis] + item[axis]) as i64));
                    }
                }
            }
            for &block in &blocks {
                let counts = lattice.counts(&words, lattice.index(block));
                let valid = lattice.valid(block);
                for bit in (0..BLOCK).filter(|bit| valid >> bit & 1 == 1) {
                    let item = lattice.item(bit);
                    let at = [0, 1, 2, 3].map(|axis| (block[axis] * lattice.block[axis] + item[axis]) as i64);
                    let mut expected = 0;
                    for axis in 0..AXES {
                        for step in [-1, 1] {
                            let mut near = at;
                            near[axis] += step;
                            expected += u32::from(set.contains(&near));
                        }
                    }
                    let count = (counts.ones >> bit & 1) + 2 * (counts.twos >> bit & 1) + 4 * (counts.fours >> bit & 1);
                    if expected < 8 {
                        prop_assert_eq!(count, u64::from(expected));
                    }
                }
            }
        }
    }
}
