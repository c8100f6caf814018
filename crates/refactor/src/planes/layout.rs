//! The agreement of a tile's encoder and decoder before the first bit: axes, bands, weights, layers, header.

use super::bands::{shorter, Band, Extents, Plan, AXES};
use super::passes::PASSES;
use super::{First, Settings};

/// Finest planes below the tile's top: doubles hold no more.
const FLOAT_PLANES_MAX: i32 = 50;
/// Steps below this have no inverse among doubles.
pub(super) const FLOAT_EXPONENT_MIN: i32 = -1000;
/// Planes that single precision restores without loss worth naming: its rounding lies four bits below the last.
const SINGLE_PLANES_MAX: i32 = 18;
/// Largest exponent, of either sign, that single precision takes, with room for the transform.
const SINGLE_EXPONENT_MAX: i32 = 100;
/// Bits of an integer coefficient.
pub(super) const INTEGER_PLANES_MAX: usize = 64;

/// Norms of the 5/3 wavelets of each level, smooth and detail, as powers of two: every level beyond these adds a half.
const SMOOTH_NORMS_LOG2: [f64; 4] = [0.292, 0.730, 1.213, 1.708];
const DETAIL_NORMS_LOG2: [f64; 4] = [-0.238, -0.059, 0.332, 0.804];

/// Farthest that a tile's highest plane lies below the top.
pub(super) const DESCENT_MAX: i32 = 0x7ffe;

/// The first segment: the value that was subtracted from all samples, and the highest plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bits of a double or an integer.
    pub(super) centre: u64,
    /// The highest plane's distance from the settings' top; none if all samples are the centre.
    pub(super) descent: Option<u16>,
    /// Integers that span more than half of 64 bits.
    pub(super) wrapping: bool,
}

impl Header {
    const CONSTANT: u16 = 0x7fff;

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let code = self.descent.unwrap_or(Self::CONSTANT) << 1 | u16::from(self.wrapping);
        let mut bytes = code.to_le_bytes().to_vec();
        let centre = self.centre.to_be_bytes();
        let used = centre.len() - (self.centre.trailing_zeros() / 8) as usize;
        bytes.extend_from_slice(&centre[..used]);
        bytes
    }

    /// Reads a header; none where the bytes hold no whole one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (code, rest) = bytes.split_first_chunk()?;
        let code = u16::from_le_bytes(*code);
        let mut centre = [0; 8];
        centre.get_mut(..rest.len())?.copy_from_slice(rest);
        let descent = Some(code >> 1).filter(|&descent| descent != Self::CONSTANT);
        Some(Self { centre: u64::from_be_bytes(centre), descent, wrapping: code & 1 == 1 })
    }
}

/// The axes that have more than one sample, moved to the end, and the plan of their transform.
pub(super) fn compact(shape: [usize; AXES], first: First) -> (Extents, Plan) {
    let long: Vec<usize> = (0..AXES).filter(|&axis| shape[axis] > 1).collect();
    let (mut extents, mut early) = ([1; AXES], [false; AXES]);
    for (place, &axis) in (AXES - long.len()..).zip(&long) {
        extents[place] = shape[axis];
        early[place] = matches!(first, First::Axes(axes) if axes[axis]);
    }
    let early = if first == First::Shorter { shorter(extents) } else { early };
    (extents, Plan::new(extents, early))
}

/// The planes of a tile whose highest plane is known.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) extents: Extents,
    pub(super) plan: Plan,
    /// Exponent of the highest and the lowest plane.
    pub(super) highest: i32,
    pub(super) lowest: i32,
    /// Exponent of each band's least bit.
    pub(super) exponents: Vec<i32>,
    pub(super) top: i32,
}

impl Layout {
    pub(super) fn floats(extents: Extents, plan: Plan, settings: Settings, highest: i32) -> Self {
        let lowest = settings
            .finest
            .max(highest.saturating_sub(FLOAT_PLANES_MAX - 1))
            .max(FLOAT_EXPONENT_MIN)
            .min(highest);
        let exponents = vec![lowest; plan.bands.len()];
        Self { extents, plan, highest, lowest, exponents, top: settings.top }
    }

    pub(super) fn integers(extents: Extents, plan: Plan, settings: Settings, highest: i32) -> Self {
        let exponents: Vec<i32> = plan.bands.iter().map(integer_exponent).collect();
        let lowest = exponents.iter().copied().min().unwrap_or(0).max(settings.finest).min(highest);
        Self { extents, plan, highest, lowest, exponents, top: settings.top }
    }

    /// Planes of a band.
    pub(super) fn bits(&self, band: usize) -> usize {
        (self.highest.saturating_sub(self.exponents[band]).saturating_add(1))
            .clamp(0, INTEGER_PLANES_MAX as i32) as usize
    }

    /// The bit of a band's magnitudes in the plane of this exponent.
    pub(super) fn bit(&self, band: usize, exponent: i32) -> Option<usize> {
        let bit = usize::try_from(exponent - self.exponents[band]).ok()?;
        (bit < self.bits(band)).then_some(bit)
    }

    /// The layer of a pass. Layer 0 is the header's.
    pub(super) fn layer(&self, exponent: i32, pass: usize) -> usize {
        (self.top - exponent).max(0) as usize * PASSES + pass + 1
    }
}

/// Whether single precision will do for planes from `highest` down to `last`.
pub(super) fn is_single(highest: i32, last: i32) -> bool {
    let is_near_one = -SINGLE_EXPONENT_MAX < last && highest < SINGLE_EXPONENT_MAX;
    is_near_one && highest.saturating_sub(last) < SINGLE_PLANES_MAX
}

/// Weight of a band's least bit: the norm of its wavelets, as a power of two.
pub(super) fn integer_exponent(band: &Band) -> i32 {
    integer_norm_log2(band).round() as i32
}

/// The norm of a band's wavelets, as the exponent of a power of two.
pub(super) fn integer_norm_log2(band: &Band) -> f64 {
    let mut norm = 0.0;
    for axis in 0..AXES {
        if band.level[axis] > 0 {
            let norms = if band.detail[axis] { DETAIL_NORMS_LOG2 } else { SMOOTH_NORMS_LOG2 };
            let level = band.level[axis] - 1;
            let beyond = level.saturating_sub(norms.len() - 1);
            norm += norms[level - beyond] + 0.5 * beyond as f64;
        }
    }
    norm
}
