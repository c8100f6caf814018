//! The multilevel transform of a tile in place: every halving of a plan, panel by panel.
//!
//! Along all axes but the last one a panel is a plane of rows, so the inner loops run over contiguous numbers.

use super::bands::{Extents, Halving, Plan, AXES};
use super::lifting::{forward_columns, forward_row, inverse_columns, inverse_row, Lift, Rows};

/// Transform `samples` (C order, of these extents) into bands.
#[inline(always)]
pub(super) fn forward<T: Lift>(samples: &mut [T], extents: Extents, plan: &Plan) {
    let mut buffer = Vec::new();
    let mut halvings = plan.halvings.iter().peekable();
    while let Some(halving) = halvings.next() {
        let rows_too = halvings.next_if(|next| is_plane(halving, next)).is_some();
        let (starts, rows) = panels(extents, halving);
        for start in starts {
            let samples = &mut samples[start..];
            if halving.axis == AXES - 1 {
                forward_row(&mut samples[..rows.count], &mut buffer);
                continue;
            }
            forward_columns(samples, rows, &mut buffer);
            for row in 0..if rows_too { rows.count } else { 0 } {
                forward_row(&mut samples[row * rows.stride..][..rows.width], &mut buffer);
            }
        }
    }
}

/// Undo [`forward`].
#[inline(always)]
pub(super) fn inverse<T: Lift>(samples: &mut [T], extents: Extents, plan: &Plan) {
    let mut buffer = Vec::new();
    let mut halvings = plan.halvings.iter().rev().peekable();
    while let Some(halving) = halvings.next() {
        let plane = halvings.next_if(|next| is_plane(next, halving));
        let (starts, rows) = panels(extents, plane.unwrap_or(halving));
        for start in starts {
            let samples = &mut samples[start..];
            if plane.is_none() && halving.axis == AXES - 1 {
                inverse_row(&mut samples[..rows.count], &mut buffer);
                continue;
            }
            for row in 0..if plane.is_some() { rows.count } else { 0 } {
                inverse_row(&mut samples[row * rows.stride..][..rows.width], &mut buffer);
            }
            inverse_columns(samples, rows, &mut buffer);
        }
    }
}

/// Whether two halvings are those of the columns and the rows of the same planes: done together, they save a walk
/// through memory.
fn is_plane(columns: &Halving, rows: &Halving) -> bool {
    columns.extents == rows.extents && columns.axis + 1 == rows.axis && rows.axis + 1 == AXES
}

/// The beginnings of a halving's panels, and their rows: along the last axis, each number is one.
fn panels(whole: Extents, halving: &Halving) -> (Vec<usize>, Rows) {
    let mut strides = [1; AXES];
    for axis in (0..AXES - 1).rev() {
        strides[axis] = strides[axis + 1] * whole[axis + 1];
    }
    let mut outer = halving.extents;
    let count = outer[halving.axis];
    outer[halving.axis] = 1;
    let width = outer[AXES - 1];
    let mut starts = Vec::with_capacity(outer[0] * outer[1] * outer[2]);
    for a in 0..outer[0] {
        for b in 0..outer[1] {
            for c in 0..outer[2] {
                starts.push(a * strides[0] + b * strides[1] + c * strides[2]);
            }
        }
    }
    (starts, Rows { count, width, stride: strides[halving.axis] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_return_exactly(extents in proptest::array::uniform4(1_usize..14), early: [bool; AXES], seed in any::<u64>()) {
            let mut state = seed | 1;
            let samples: Vec<i64> = (0..extents.iter().product::<usize>())
                .map(|_| { state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); state as i64 })
                .collect();
            let plan = Plan::new(extents, early);
            let mut coefficients = samples.clone();
            forward(&mut coefficients, extents, &plan);
            inverse(&mut coefficients, extents, &plan);
            prop_assert_eq!(coefficients, samples);
        }

        #[test]
        fn floats_return_and_keep_their_energy(extents in proptest::array::uniform4(1_usize..14), early: [bool; AXES], phase in 0.1_f64..3.0) {
            let samples: Vec<f64> = (0..extents.iter().product::<usize>()).map(|i| (phase * i as f64).sin()).collect();
            let plan = Plan::new(extents, early);
            let mut coefficients = samples.clone();
            forward(&mut coefficients, extents, &plan);
            let energy = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            prop_assert!((0.25..4.0).contains(&(energy(&coefficients) / energy(&samples))));
            inverse(&mut coefficients, extents, &plan);
            for (a, b) in coefficients.iter().zip(&samples) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
