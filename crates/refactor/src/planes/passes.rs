//! The order of bits: which coefficients become significant, with what context, and which are refined.
//!
//! A plane of a band is coded in two passes, by falling gain per bit (Taubman 2000, after Shapiro 1993 and Said and
//! Pearlman 1996): coefficients that have significant neighbours; then block by block all others, found through blocks
//! that become active (Islam and Pearlman 1999), and the next bits of those significant before. Coefficients of like
//! context are packed together and coded four at a time, so a step of the coder serves four of them; where a context's
//! bits are nearly even, and for signs and next bits, the coder is left out.

use super::bands::{Band, Extents};
use super::lattice::{Counts, Lattice};
use super::model::{Learning, Model};
use super::rans::Channel;
use super::words::Words;

/// Passes of a plane.
pub(super) const PASSES: usize = 2;

/// The known bits of a band's coefficients, by block.
pub(super) struct Blocks {
    pub(super) lattice: Lattice,
    /// Bits of a magnitude.
    pub(super) bits: usize,
    /// Blocks that hold coefficients: coordinates and place in the arrays.
    pub(super) valid: Vec<u64>,
    /// Coefficients known not to be zero.
    pub(super) significant: Vec<u64>,
    /// The coefficients that became significant in the current plane.
    fresh: Vec<u64>,
    /// Insignificant ones that the current plane has already been asked for.
    tried: Vec<u64>,
    pub(super) negative: Vec<u64>,
    /// Words of all blocks for each plane, from the least bit: a pass goes through contiguous memory.
    pub(super) planes: Vec<Vec<u64>>,
    /// Lowest plane of each block whose refinement is complete.
    pub(super) refined: Vec<u8>,
    above: Above,
}

/// 64 blocks a word.
struct Above {
    lattice: Lattice,
    valid: Vec<u64>,
    active: Vec<u64>,
    /// The places of each word: its own in `active`, and that of its first block in the arrays of blocks.
    places: Vec<(usize, usize)>,
    /// Distance of each bit's block from that of the first.
    offsets: [usize; 64],
    /// Blocks that have a one in each plane or above it, from the least bit: the knowledge of an encoder.
    summits: Vec<u64>,
}

/// Statistics of a tile, kept from plane to plane: they change slowly.
pub(super) struct Models {
    blocks: Vec<Group>,
    likely: Vec<Likely>,
    late: Vec<Group>,
    lone: Vec<Sparse>,
    lone_blocks: Vec<Sparse>,
}

/// Models of four packed bits, and of three, two and one at a word's end.
#[derive(Clone)]
struct Group([Model; 4]);

/// Four classes of neighbours, each coded plainly while its bits are hardly ever worth a model.
struct Likely {
    groups: [Group; LIKELY_CLASSES],
    shares: [Share; LIKELY_CLASSES],
}

/// The number of ones among the last bits.
#[derive(Clone, Copy)]
struct Share {
    ones: u32,
    bits: u32,
}

/// About this many bits are remembered.
const SHARE_BITS_MAX: u32 = 4096;

impl Share {
    #[inline(always)]
    fn add(&mut self, ones: u64, bits: u64) {
        self.ones += ones.count_ones();
        self.bits += bits.count_ones();
        if self.bits > SHARE_BITS_MAX {
            self.ones /= 2;
            self.bits /= 2;
        }
    }

    /// Less than a fourteenth of a bit's cost could be saved: 0.35 to 0.65 are ones.
    #[inline(always)]
    fn is_even(self) -> bool {
        (7 * self.bits..=13 * self.bits).contains(&(20 * self.ones))
    }
}

/// Models of which quarters of a word have a one, which quarters of those (where it is known that one has a one, and
/// where it is not), and of their bits.
#[derive(Clone)]
struct Sparse {
    quarters: Group,
    sixteenths: [Group; 2],
    bits: Group,
    /// A group of a word that has only so few bits.
    few: Group,
}

impl Group {
    fn new(ones: u32, learning: Learning) -> Self {
        Self([1, 2, 3, 4].map(|_| Model::new(ones, learning)))
    }
}

impl Likely {
    fn new(learning: Learning) -> Self {
        Self {
            groups: [90, 100, 110, 128].map(|ones| Group::new(ones, learning)),
            shares: [Share { ones: 0, bits: 0 }; LIKELY_CLASSES],
        }
    }

    /// Code the bits of `actual` under the classes' masks.
    #[inline(always)]
    fn code<C: Channel, W: Words>(
        &mut self,
        channel: &mut C,
        words: W,
        actual: u64,
        classes: [u64; LIKELY_CLASSES],
    ) -> u64 {
        let mut even = 0;
        for (class, share) in classes.iter().zip(&self.shares) {
            even |= if share.is_even() { *class } else { 0 };
        }
        let bits = channel.plain(words.extract(actual, even), even.count_ones());
        let mut found = words.deposit(bits, even);
        for (class, group) in classes.into_iter().zip(&mut self.groups) {
            if class & !even != 0 {
                found |= packed(channel, words, group, actual, class);
            }
        }
        for (class, share) in classes.into_iter().zip(&mut self.shares) {
            share.add(found & class, class);
        }
        found
    }
}

impl Sparse {
    fn new(learning: Learning) -> Self {
        let group = |ones| Group::new(ones, learning);
        Self { quarters: group(100), sixteenths: [60, 80].map(group), bits: group(70), few: group(40) }
    }
}

const DENSITIES: usize = 4;
const LIKELY_CLASSES: usize = 4;

impl Models {
    pub(super) fn new(learning: Learning) -> Self {
        Self {
            blocks: vec![Group::new(64, learning); 3],
            likely: (0..DENSITIES).map(|_| Likely::new(learning)).collect(),
            late: vec![Group::new(60, learning); 2 * DENSITIES],
            lone: vec![Sparse::new(learning); DENSITIES + 1],
            lone_blocks: vec![Sparse::new(learning); 1],
        }
    }
}

/// The crowding of a block.
#[inline(always)]
fn density(significant: u64) -> usize {
    match significant.count_ones() {
        0..=3 => 0,
        4..=11 => 1,
        12..=27 => 2,
        _ => 3,
    }
}

/// Code the bits of `actual` under `mask`.
#[inline(always)]
fn packed<C: Channel, W: Words>(channel: &mut C, words: W, group: &mut Group, actual: u64, mask: u64) -> u64 {
    let count = mask.count_ones();
    let bits = words.extract(actual, mask);
    words.deposit(low_bits(channel, group, bits, count), mask)
}

#[inline(always)]
fn low_bits<C: Channel>(channel: &mut C, group: &mut Group, bits: u64, count: u32) -> u64 {
    let mut result = 0;
    let mut position = 0;
    while position + 4 <= count {
        result |= u64::from(channel.symbol(&mut group.0[3], (bits >> position) as u32 & 15)) << position;
        position += 4;
    }
    if position < count {
        let rest = count - position;
        let model = &mut group.0[(rest as usize - 1) & 3];
        let value = channel.symbol(model, (bits >> position) as u32 & ((1 << rest) - 1));
        result |= u64::from(value & ((1 << rest) - 1)) << position;
    }
    result
}

/// Code the bits of `actual` under `mask`, of which few are ones.
#[inline(always)]
fn sparse<C: Channel, W: Words>(
    channel: &mut C,
    words: W,
    models: &mut Sparse,
    actual: u64,
    mask: u64,
) -> u64 {
    let count = mask.count_ones();
    let bits = words.extract(actual, mask);
    if count <= 4 {
        return words.deposit(low_bits(channel, &mut models.few, bits, count), mask);
    }
    if count <= 16 {
        return words.deposit(quarter(channel, models, bits, count, false), mask);
    }
    let quarters = (0..4).fold(0, |set, index| set | u64::from(bits >> (16 * index) & 0xffff != 0) << index);
    let mut quarters = low_bits(channel, &mut models.quarters, quarters, count.div_ceil(16));
    let mut result = 0;
    while quarters != 0 {
        let first = 16 * quarters.trailing_zeros();
        quarters &= quarters - 1;
        result |= quarter(channel, models, bits >> first & 0xffff, (count - first).min(16), true) << first;
    }
    words.deposit(result, mask)
}

/// Code up to 16 bits, of which few are ones; whether any is may be known.
#[inline(always)]
fn quarter<C: Channel>(channel: &mut C, models: &mut Sparse, bits: u64, count: u32, any: bool) -> u64 {
    let sixteenths = (0..4).fold(0, |set, index| set | u64::from(bits >> (4 * index) & 15 != 0) << index);
    let group = &mut models.sixteenths[usize::from(any)];
    let mut sixteenths = low_bits(channel, group, sixteenths, count.div_ceil(4));
    let mut result = 0;
    while sixteenths != 0 {
        let first = 4 * sixteenths.trailing_zeros();
        sixteenths &= sixteenths - 1;
        result |= low_bits(channel, &mut models.bits, bits >> first & 15, (count - first).min(4)) << first;
    }
    result
}

impl Blocks {
    pub(super) fn new(band: &Band, bits: usize) -> Self {
        let lattice = Lattice::new(band.extents);
        let mut valid = vec![0; lattice.length];
        lattice.for_each_block(|block, index| valid[index] = lattice.valid(block));
        let length = lattice.length;
        let empty = || vec![0; length];
        let above = Above::new(&lattice, bits);
        Self {
            bits,
            valid,
            significant: empty(),
            fresh: empty(),
            tried: empty(),
            negative: empty(),
            planes: vec![Vec::new(); bits],
            refined: vec![bits as u8; length],
            above,
            lattice,
        }
    }

    /// Make room for a plane.
    pub(super) fn open(&mut self, plane: usize) {
        self.planes[plane].resize(self.lattice.length, 0);
    }

    /// Note for the encoder that the block at `index` reaches up to this many bits.
    pub(super) fn raise(&mut self, block: Extents, bits: usize) {
        let (word, bit) = self.above.place(block);
        for plane in 0..bits {
            self.above.summits[word * self.bits + plane] |= 1 << bit;
        }
    }

    /// Call `work` with each block's place and the coefficients of it that became significant in the current plane.
    #[inline(always)]
    pub(super) fn for_each_fresh(&self, mut work: impl FnMut(usize, u64)) {
        for (place, fresh) in self.fresh.iter().enumerate() {
            if *fresh != 0 {
                work(place, *fresh);
            }
        }
    }

    /// Code one pass of one plane. False if the bytes have ended.
    #[inline(always)]
    pub(super) fn pass<C: Channel, W: Words>(
        &mut self,
        pass: usize,
        plane: usize,
        channel: &mut C,
        models: &mut Models,
        words: W,
    ) -> bool {
        for word in 0..self.above.places.len() {
            let (place, first) = self.above.places[word];
            let before = self.above.active[place];
            if pass == 1 && !self.activate(word, plane, channel, models, words) {
                return false;
            }
            let mut active = self.above.active[place];
            while active != 0 {
                let bit = active.trailing_zeros() as usize;
                active &= active - 1;
                let index = first + self.above.offsets[bit];
                let going_on = if pass == 0 {
                    self.likely(index, plane, channel, models, words)
                } else {
                    let is_new = before >> bit & 1 == 0;
                    self.unlikely(index, plane, is_new, channel, models, words)
                        && self.refine(index, plane, channel, words)
                };
                if !going_on {
                    return false;
                }
            }
        }
        true
    }

    /// Find the blocks that become active.
    #[inline(always)]
    fn activate<C: Channel, W: Words>(
        &mut self,
        word: usize,
        plane: usize,
        channel: &mut C,
        models: &mut Models,
        words: W,
    ) -> bool {
        let place = self.above.places[word].0;
        let active = self.above.active[place];
        let open = self.above.valid[place] & !active;
        if open == 0 {
            return true;
        }
        let actual = self.above.summits[word * self.bits + plane];
        let Counts { ones, twos, fours } = self.above.lattice.counts(&self.above.active, place);
        let mut found =
            packed(channel, words, &mut models.blocks[2], actual, open & (twos | fours) & (ones | fours));
        found |= packed(channel, words, &mut models.blocks[1], actual, open & twos & !fours & !ones);
        found |= packed(channel, words, &mut models.blocks[0], actual, open & ones & !twos & !fours);
        let lone = open & !(ones | twos | fours);
        if lone != 0 {
            found |= sparse(channel, words, &mut models.lone_blocks[0], actual, lone);
        }
        if channel.exhausted() {
            return false;
        }
        self.above.active[place] |= found;
        true
    }

    /// Coefficients next to significant ones.
    #[inline(always)]
    fn likely<C: Channel, W: Words>(
        &mut self,
        index: usize,
        plane: usize,
        channel: &mut C,
        models: &mut Models,
        words: W,
    ) -> bool {
        self.fresh[index] = 0;
        self.tried[index] = 0;
        let significant = self.significant[index];
        let open = self.valid[index] & !significant;
        if open == 0 {
            return true;
        }
        let actual = self.planes[plane][index];
        let Counts { ones, twos, fours } = self.lattice.counts(&self.significant, index);
        let tried = open & (ones | twos | fours);
        if tried == 0 {
            return true;
        }
        let one = open & ones & !twos & !fours;
        let two = open & twos & !ones & !fours;
        let classes = [one, two, tried & !one & !two & !fours, tried & fours];
        let found = models.likely[density(significant)].code(channel, words, actual, classes);
        self.tried[index] = tried & !found;
        self.found(index, plane, found, channel, words)
    }

    /// All other coefficients of the block.
    #[inline(always)]
    fn unlikely<C: Channel, W: Words>(
        &mut self,
        index: usize,
        plane: usize,
        new: bool,
        channel: &mut C,
        models: &mut Models,
        words: W,
    ) -> bool {
        let significant = self.significant[index];
        let open = self.valid[index] & !significant & !self.tried[index];
        if open == 0 {
            return true;
        }
        let actual = self.planes[plane][index];
        let Counts { ones, twos, fours } = self.lattice.counts(&self.significant, index);
        let near = open & (ones | twos | fours);
        let density = density(significant);
        let mut found = 0;
        if near != 0 {
            found = packed(channel, words, &mut models.late[2 * density + usize::from(new)], actual, near);
        }
        let lone = open & !near;
        if lone != 0 {
            let context = if new { DENSITIES } else { density };
            found |= sparse(channel, words, &mut models.lone[context], actual, lone);
        }
        self.found(index, plane, found, channel, words)
    }

    /// Codes the signs of the found coefficients, which count from then on.
    #[inline(always)]
    fn found<C: Channel, W: Words>(
        &mut self,
        index: usize,
        plane: usize,
        found: u64,
        channel: &mut C,
        words: W,
    ) -> bool {
        let signs = channel.plain(words.extract(self.negative[index], found), found.count_ones());
        if channel.exhausted() {
            return false;
        }
        self.significant[index] |= found;
        self.fresh[index] |= found;
        self.negative[index] = self.negative[index] & !found | words.deposit(signs, found);
        self.planes[plane][index] |= found;
        true
    }

    /// Codes the next bit of the coefficients that were significant before this plane.
    #[inline(always)]
    fn refine<C: Channel, W: Words>(
        &mut self,
        index: usize,
        plane: usize,
        channel: &mut C,
        words: W,
    ) -> bool {
        let old = self.significant[index] & !self.fresh[index];
        if old != 0 {
            let actual = self.planes[plane][index];
            let bits = channel.plain(words.extract(actual, old), old.count_ones());
            if channel.exhausted() {
                return false;
            }
            self.planes[plane][index] = actual & !old | words.deposit(bits, old);
        }
        self.refined[index] = plane as u8;
        true
    }
}

impl Above {
    fn new(below: &Lattice, bits: usize) -> Self {
        let lattice = Lattice::new(below.blocks);
        let mut valid = vec![0; lattice.length];
        let mut places = Vec::new();
        lattice.for_each_block(|word, place| {
            valid[place] = lattice.valid(word);
            places.push((place, below.index([0, 1, 2, 3].map(|axis| word[axis] * lattice.block[axis]))));
        });
        let offset = |bit| (0..4).map(|axis| lattice.item(bit)[axis] * below.strides[axis]).sum();
        let offsets = std::array::from_fn(offset);
        let active = vec![0; lattice.length];
        let summits = vec![0; places.len() * bits];
        Self { lattice, valid, active, places, offsets, summits }
    }

    /// The word of a block's bit, and the bit in it.
    fn place(&self, block: Extents) -> (usize, usize) {
        let (mut word, mut bit) = (0, 0);
        for (axis, coordinate) in block.into_iter().enumerate() {
            word = word * self.lattice.blocks[axis] + coordinate / self.lattice.block[axis];
            bit = bit * self.lattice.block[axis] + coordinate % self.lattice.block[axis];
        }
        (word, bit)
    }
}
