//! Rows of boxes within a tile.

use super::bands::{Band, Extents, AXES};
use super::lattice::Lattice;

/// Call `work` with the start and the length of each row of a box, in a tile of extents `whole`.
#[inline(always)]
pub(super) fn for_each_row(
    origin: Extents,
    extents: Extents,
    whole: Extents,
    mut work: impl FnMut(usize, usize),
) {
    copy_rows((origin, extents), whole, extents, |start, _, length| work(start, length));
}

/// Call `work` with the start of each row of a box in a tile of extents `whole`, its place in a dense array of extents
/// `dense`, and its length.
#[inline(always)]
pub(super) fn copy_rows(
    (origin, extents): (Extents, Extents),
    whole: Extents,
    dense: Extents,
    mut work: impl FnMut(usize, usize, usize),
) {
    for a in 0..extents[0] {
        for b in 0..extents[1] {
            for c in 0..extents[2] {
                let row = ((origin[0] + a) * whole[1] + origin[1] + b) * whole[2] + origin[2] + c;
                let place = ((a * dense[1] + b) * dense[2] + c) * dense[3];
                work(row * whole[3] + origin[3], place, extents[AXES - 1]);
            }
        }
    }
}

/// The place of a band's block in the tile: origin and extents, cut at the band's end.
#[inline(always)]
pub(super) fn block_box(lattice: &Lattice, block: Extents, band: &Band) -> (Extents, Extents) {
    let (mut origin, mut extents) = ([0; AXES], [0; AXES]);
    for axis in 0..AXES {
        let first = block[axis] * lattice.block[axis];
        origin[axis] = band.origin[axis] + first;
        extents[axis] = lattice.block[axis].min(band.extents[axis] - first);
    }
    (origin, extents)
}

/// Copy a row that is mostly four or eight numbers long, without a call.
#[inline(always)]
pub(super) fn copy_row<T: Copy>(from: &[T], to: &mut [T]) {
    if let (Some(from), Some(to)) = (exact::<T, 4>(from), to.first_chunk_mut::<4>()) {
        *to = *from;
    } else if let (Some(from), Some(to)) = (exact::<T, 8>(from), to.first_chunk_mut::<8>()) {
        *to = *from;
    } else {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

#[inline(always)]
fn exact<T, const LENGTH: usize>(row: &[T]) -> Option<&[T; LENGTH]> {
    row.try_into().ok()
}
