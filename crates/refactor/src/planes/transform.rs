//! The multilevel transform of a tile in place: every halving of a plan, panel by panel.
//!
//! Along all axes but the last one a panel is a plane of rows, so the inner loops run over contiguous numbers and the
//! panel stays in the second-level cache.

use super::bands::{Extents, Halving, Plan, AXES};
use super::lifting::Lift;

/// Transform `samples` (C order, of these extents) into bands.
#[inline(always)]
pub(super) fn forward<T: Lift>(samples: &mut [T], extents: Extents, plan: &Plan) {
    let mut panel = Panel::default();
    let mut halvings = plan.halvings.iter().peekable();
    while let Some(halving) = halvings.next() {
        let rows_too = halvings.next_if(|next| is_plane(halving, next)).is_some();
        for_each_panel(extents, halving, |start, shape| {
            let samples = &mut samples[start..];
            let (even, odd) = panel.halves(shape.rows, shape.width);
            split(samples, shape, even, odd);
            T::forward(even, odd, shape.width);
            if !rows_too {
                store_halves(samples, shape, even, odd);
                return;
            }
            let row_shape = PanelShape { rows: shape.width, width: 1, stride: 1 };
            let rows = even.chunks_exact(shape.width).chain(odd.chunks_exact(shape.width));
            for (row, values) in rows.enumerate() {
                let target = &mut samples[row * shape.stride..][..shape.width];
                let (low, high) = target.split_at_mut(shape.width.div_ceil(2));
                split(values, row_shape, low, high);
                T::forward(low, high, 1);
            }
        });
    }
}

/// Undo [`forward`].
#[inline(always)]
pub(super) fn inverse<T: Lift>(samples: &mut [T], extents: Extents, plan: &Plan) {
    let (mut panel, mut line) = (Panel::default(), Panel::default());
    let mut halvings = plan.halvings.iter().rev().peekable();
    while let Some(halving) = halvings.next() {
        let plane = halvings.next_if(|next| is_plane(next, halving));
        for_each_panel(extents, plane.unwrap_or(halving), |start, shape| {
            let samples = &mut samples[start..];
            let (even, odd) = panel.halves(shape.rows, shape.width);
            if plane.is_some() {
                let row_shape = PanelShape { rows: shape.width, width: 1, stride: 1 };
                let rows = even.chunks_exact_mut(shape.width).chain(odd.chunks_exact_mut(shape.width));
                for (row, values) in rows.enumerate() {
                    let (low, high) = line.halves(shape.width, 1);
                    load_halves(&samples[row * shape.stride..], row_shape, low, high);
                    T::inverse(low, high, 1);
                    merge(values, row_shape, low, high);
                }
            } else {
                load_halves(samples, shape, even, odd);
            }
            T::inverse(even, odd, shape.width);
            merge(samples, shape, even, odd);
        });
    }
}

/// Whether two halvings are those of the columns and the rows of the same planes: one panel does both, which saves a
/// walk through memory.
fn is_plane(columns: &Halving, rows: &Halving) -> bool {
    columns.extents == rows.extents && columns.axis + 1 == rows.axis && rows.axis + 1 == AXES
}

/// `rows` rows of `width` contiguous numbers, `stride` apart.
#[derive(Clone, Copy)]
struct PanelShape {
    rows: usize,
    width: usize,
    stride: usize,
}

#[derive(Default)]
struct Panel<T> {
    numbers: Vec<T>,
}

impl<T: Lift> Panel<T> {
    fn halves(&mut self, rows: usize, width: usize) -> (&mut [T], &mut [T]) {
        self.numbers.resize(rows * width, T::default());
        self.numbers.split_at_mut(rows.div_ceil(2) * width)
    }
}

#[inline(always)]
fn for_each_panel(whole: Extents, halving: &Halving, mut work: impl FnMut(usize, PanelShape)) {
    let mut strides = [1; AXES];
    for axis in (0..AXES - 1).rev() {
        strides[axis] = strides[axis + 1] * whole[axis + 1];
    }
    let last = AXES - 1;
    let mut outer = halving.extents;
    let rows = outer[halving.axis];
    outer[halving.axis] = 1;
    let width = outer[last];
    outer[last] = 1;
    let shape = PanelShape { rows, width, stride: strides[halving.axis] };
    for a in 0..outer[0] {
        for b in 0..outer[1] {
            for c in 0..outer[2] {
                work(a * strides[0] + b * strides[1] + c * strides[2], shape);
            }
        }
    }
}

#[inline(always)]
fn split<T: Copy>(samples: &[T], shape: PanelShape, even: &mut [T], odd: &mut [T]) {
    if shape.width == 1 && shape.stride == 1 {
        let pairs = samples[..shape.rows].chunks_exact(2);
        if let [end] = pairs.remainder() {
            even[shape.rows / 2] = *end;
        }
        for ((pair, even), odd) in pairs.zip(even).zip(odd) {
            (*even, *odd) = (pair[0], pair[1]);
        }
        return;
    }
    for (row, even) in even.chunks_exact_mut(shape.width).enumerate() {
        even.copy_from_slice(&samples[2 * row * shape.stride..][..shape.width]);
    }
    for (row, odd) in odd.chunks_exact_mut(shape.width).enumerate() {
        odd.copy_from_slice(&samples[(2 * row + 1) * shape.stride..][..shape.width]);
    }
}

#[inline(always)]
fn merge<T: Copy>(samples: &mut [T], shape: PanelShape, even: &[T], odd: &[T]) {
    if shape.width == 1 && shape.stride == 1 {
        let mut pairs = samples[..shape.rows].chunks_exact_mut(2);
        for ((pair, even), odd) in (&mut pairs).zip(even).zip(odd) {
            (pair[0], pair[1]) = (*even, *odd);
        }
        if let [end] = pairs.into_remainder() {
            *end = even[shape.rows / 2];
        }
        return;
    }
    for (row, even) in even.chunks_exact(shape.width).enumerate() {
        samples[2 * row * shape.stride..][..shape.width].copy_from_slice(even);
    }
    for (row, odd) in odd.chunks_exact(shape.width).enumerate() {
        samples[(2 * row + 1) * shape.stride..][..shape.width].copy_from_slice(odd);
    }
}

#[inline(always)]
fn store_halves<T: Copy>(samples: &mut [T], shape: PanelShape, even: &[T], odd: &[T]) {
    if shape.width == 1 && shape.stride == 1 {
        let (low, high) = samples.split_at_mut(even.len());
        low.copy_from_slice(even);
        high[..odd.len()].copy_from_slice(odd);
        return;
    }
    for (row, values) in even.chunks_exact(shape.width).chain(odd.chunks_exact(shape.width)).enumerate() {
        samples[row * shape.stride..][..shape.width].copy_from_slice(values);
    }
}

#[inline(always)]
fn load_halves<T: Copy>(samples: &[T], shape: PanelShape, even: &mut [T], odd: &mut [T]) {
    if shape.width == 1 && shape.stride == 1 {
        let (low, high) = samples.split_at(even.len());
        even.copy_from_slice(low);
        odd.copy_from_slice(&high[..odd.len()]);
        return;
    }
    let rows = even.chunks_exact_mut(shape.width).chain(odd.chunks_exact_mut(shape.width));
    for (row, values) in rows.enumerate() {
        values.copy_from_slice(&samples[row * shape.stride..][..shape.width]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_return_exactly(extents in proptest::array::uniform4(1_usize..14), seed in any::<u64>()) {
            let mut state = seed | 1;
            let samples: Vec<i64> = (0..extents.iter().product::<usize>())
                .map(|_| { state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1); state as i64 })
                .collect();
            let plan = Plan::new(extents);
            let mut coefficients = samples.clone();
            forward(&mut coefficients, extents, &plan);
            inverse(&mut coefficients, extents, &plan);
            prop_assert_eq!(coefficients, samples);
        }

        #[test]
        fn floats_return_and_keep_their_energy(extents in proptest::array::uniform4(1_usize..14), phase in 0.1_f64..3.0) {
            let samples: Vec<f64> = (0..extents.iter().product::<usize>()).map(|i| (phase * i as f64).sin()).collect();
            let plan = Plan::new(extents);
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
