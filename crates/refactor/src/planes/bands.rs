//! The bands of a box's multilevel transform, and their places.
//!
//! Axes are halved together, coarse samples first (Mallat 1989), each as often as its length allows. Axes that the
//! settings name are decomposed to their ends before the others, a wavelet packet: it suits arrays whose axes are
//! unlike each other, such as months of a map, or pressure levels over a wide grid.

/// Axes of a tile.
pub(super) const AXES: usize = 4;
/// Extents or coordinates of a box.
pub(super) type Extents = [usize; AXES];
/// A set of axes.
pub(super) type Axes = [bool; AXES];

/// An axis is halved while it has at least this many samples.
const HALVED_SAMPLES_MIN: usize = 6;
/// A box of coefficients of the same scale and orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    pub(super) origin: Extents,
    pub(super) extents: Extents,
    /// Halvings along each axis.
    pub(super) level: Extents,
    /// Whether the band is the detail (and not the smooth half) along each axis.
    pub(super) detail: [bool; AXES],
}

/// One call of the lifting: along `axis`, of the box at the origin with these extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halving {
    pub(super) axis: usize,
    pub(super) extents: Extents,
}

/// The transform of a box: halvings in the order of the forward transform, bands from coarse to fine.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) halvings: Vec<Halving>,
    pub(super) bands: Vec<Band>,
}

/// How often an axis is halved.
pub(super) fn halvings_of(length: usize) -> usize {
    let (mut length, mut count) = (length, 0);
    while length >= HALVED_SAMPLES_MIN {
        length = length.div_ceil(2);
        count += 1;
    }
    count
}

impl Plan {
    /// The plan for a box of these extents, which decomposes the axes `early` to their ends before the others.
    pub(super) fn new(extents: Extents, early: Axes) -> Self {
        let counts = extents.map(halvings_of);
        let deepest = (0..AXES).filter(|&axis| !early[axis]).map(|axis| counts[axis]).max().unwrap_or(0);
        let whole = Band { origin: [0; AXES], extents, level: [0; AXES], detail: [false; AXES] };
        let mut halvings = Vec::new();
        let mut boxes = vec![whole];
        for axis in 0..AXES {
            for level in 0..if early[axis] { counts[axis] } else { 0 } {
                let mut part = extents;
                (0..level).for_each(|_| part[axis] = part[axis].div_ceil(2));
                halvings.push(Halving { axis, extents: part });
                let coarse = boxes.remove(0);
                let (smooth, detail) = halves(coarse, axis);
                boxes.splice(0..0, [smooth, detail]);
            }
        }
        let mut part = extents;
        let mut bands = Vec::new();
        for level in 0..deepest {
            let axes: Vec<usize> = (0..AXES).filter(|&axis| !early[axis] && level < counts[axis]).collect();
            for &axis in &axes {
                halvings.push(Halving { axis, extents: part });
            }
            for coarse in &mut boxes {
                let mut parts = vec![*coarse];
                for &axis in &axes {
                    parts =
                        parts.into_iter().flat_map(|band| <[Band; 2]>::from(halves(band, axis))).collect();
                }
                *coarse = parts.remove(0);
                bands.extend(parts);
            }
            axes.iter().for_each(|&axis| part[axis] = part[axis].div_ceil(2));
        }
        bands.extend(boxes);
        bands.sort_by_key(|band| std::cmp::Reverse(band.level.iter().sum::<usize>()));
        Self { halvings, bands }
    }
}

/// The axes that can be halved less often than the longest.
pub(super) fn shorter(extents: Extents) -> Axes {
    let counts = extents.map(halvings_of);
    let deepest = counts.into_iter().max().unwrap_or(0);
    counts.map(|count| count < deepest)
}

impl Plan {
    /// The factor by which a coefficient of the coarsest band can exceed the samples: the smooth filter's sum and the
    /// part that its negative taps may add, for each halving.
    pub(super) fn gain(&self) -> f64 {
        let halvings: usize = self.bands.first().map_or(0, |band| band.level.iter().sum());
        1.5_f64.powi(halvings as i32)
    }
}

fn halves(band: Band, axis: usize) -> (Band, Band) {
    let (mut smooth, mut detail) = (band, band);
    smooth.level[axis] += 1;
    detail.level[axis] += 1;
    smooth.extents[axis] = band.extents[axis].div_ceil(2);
    detail.extents[axis] = band.extents[axis] / 2;
    detail.origin[axis] += smooth.extents[axis];
    detail.detail[axis] = true;
    (smooth, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bands_cover_the_box_once(extents in proptest::array::uniform4(1_usize..40), early: Axes) {
            let plan = Plan::new(extents, early);
            let samples: usize = extents.iter().product();
            prop_assert_eq!(plan.bands.iter().map(|band| band.extents.iter().product::<usize>()).sum::<usize>(), samples);
            let mut seen = std::collections::HashSet::new();
            for band in &plan.bands {
                for ((origin, length), whole) in band.origin.iter().zip(&band.extents).zip(&extents) {
                    prop_assert!(*length > 0 && origin + length <= *whole);
                }
                prop_assert!(seen.insert(band.origin));
            }
        }
    }
}
