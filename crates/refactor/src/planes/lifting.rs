//! One level of a wavelet transform along one axis, by lifting.
//!
//! Floats use the biorthogonal 9/7 filters of Cohen, Daubechies and Feauveau (1992) in the four lifting steps of
//! Daubechies and Sweldens (1998), scaled so that both bands have nearly unit gain in the L2 norm. Integers use the
//! reversible 5/3 filters (Le Gall and Tabatabai 1988; Calderbank et al. 1998). Signals are mirrored at their ends
//! without repeating the end sample, so no length needs padding.

/// A coefficient that lifting works on: rounds of a step that predicts odd samples from even ones, and one that updates
/// the even ones.
pub(super) trait Lift: Copy + Default {
    const ROUNDS: usize;

    /// An odd sample, by its even neighbours.
    fn predicted(round: usize, own: Self, left: Self, right: Self) -> Self;

    /// An even sample, by its odd neighbours.
    fn updated(round: usize, own: Self, left: Self, right: Self) -> Self;

    /// Undo [`Lift::updated`]; exact for integers.
    fn restored_even(round: usize, own: Self, left: Self, right: Self) -> Self;

    /// Undo [`Lift::predicted`]; exact for integers.
    fn restored_odd(round: usize, own: Self, left: Self, right: Self) -> Self;

    /// Smooth and detail scaled to unit gain.
    fn scaled(smooth: Self, detail: Self) -> (Self, Self);

    /// Undo [`Lift::scaled`].
    fn unscaled(smooth: Self, detail: Self) -> (Self, Self);
}

/// Columns that are lifted together: their numbers of a few rows stay in registers, and those of all rows in the
/// first-level cache.
const STRIP: usize = 16;
const QUARTER_STRIP: usize = STRIP / 4;

/// Rows of `width` contiguous numbers, `stride` apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

/// Lift across rows: the smooth half becomes the first of them, the detail the others.
#[inline(always)]
pub(super) fn forward_columns<T: Lift>(samples: &mut [T], rows: Rows, buffer: &mut Vec<T>) {
    let mut column = 0;
    while column < rows.width {
        let columns = columns_of(rows.width - column);
        let samples = &mut samples[column..];
        match columns {
            STRIP => forward_strip::<T, STRIP>(samples, rows, buffer),
            QUARTER_STRIP => forward_strip::<T, QUARTER_STRIP>(samples, rows, buffer),
            _ => forward_strip::<T, 1>(samples, rows, buffer),
        }
        column += columns;
    }
}

/// Undo [`forward_columns`].
#[inline(always)]
pub(super) fn inverse_columns<T: Lift>(samples: &mut [T], rows: Rows, buffer: &mut Vec<T>) {
    // No closure: the compiler must inline everything for the processor's own instructions to be used.
    let mut column = 0;
    while column < rows.width {
        let columns = columns_of(rows.width - column);
        let samples = &mut samples[column..];
        match columns {
            STRIP => inverse_strip::<T, STRIP>(samples, rows, buffer),
            QUARTER_STRIP => inverse_strip::<T, QUARTER_STRIP>(samples, rows, buffer),
            _ => inverse_strip::<T, 1>(samples, rows, buffer),
        }
        column += columns;
    }
}

/// Lift along a row: the smooth half comes first, the detail behind it.
#[inline(always)]
pub(super) fn forward_row<T: Lift>(row: &mut [T], buffer: &mut Vec<T>) {
    buffer.resize(row.len(), T::default());
    let (even, odd) = buffer.split_at_mut(row.len().div_ceil(2));
    let pairs = row.chunks_exact(2);
    if let [end] = pairs.remainder() {
        even[row.len() / 2] = *end;
    }
    for ((pair, even), odd) in pairs.zip(&mut *even).zip(&mut *odd) {
        (*even, *odd) = (pair[0], pair[1]);
    }
    for round in 0..T::ROUNDS {
        odd_row(odd, even, |own, left, right| T::predicted(round, own, left, right));
        even_row(even, odd, |own, left, right| T::updated(round, own, left, right));
    }
    let (low, high) = row.split_at_mut(even.len());
    for (to, value) in low.iter_mut().zip(even) {
        *to = T::scaled(*value, T::default()).0;
    }
    for (to, value) in high.iter_mut().zip(odd) {
        *to = T::scaled(T::default(), *value).1;
    }
}

/// Undo [`forward_row`].
#[inline(always)]
pub(super) fn inverse_row<T: Lift>(row: &mut [T], buffer: &mut Vec<T>) {
    buffer.resize(row.len(), T::default());
    let (even, odd) = buffer.split_at_mut(row.len().div_ceil(2));
    let (low, high) = row.split_at(even.len());
    for (to, value) in even.iter_mut().zip(low) {
        *to = T::unscaled(*value, T::default()).0;
    }
    for (to, value) in odd.iter_mut().zip(high) {
        *to = T::unscaled(T::default(), *value).1;
    }
    for round in (0..T::ROUNDS).rev() {
        even_row(even, odd, |own, left, right| T::restored_even(round, own, left, right));
        odd_row(odd, even, |own, left, right| T::restored_odd(round, own, left, right));
    }
    let last = even[even.len() - 1];
    let mut pairs = row.chunks_exact_mut(2);
    for ((pair, even), odd) in (&mut pairs).zip(even).zip(odd) {
        (pair[0], pair[1]) = (*even, *odd);
    }
    if let [end] = pairs.into_remainder() {
        *end = last;
    }
}

/// The number of columns of the next strip.
#[inline(always)]
fn columns_of(left: usize) -> usize {
    match left {
        STRIP.. => STRIP,
        QUARTER_STRIP.. => QUARTER_STRIP,
        _ => 1,
    }
}

#[inline(always)]
fn load<T: Lift, const COLUMNS: usize>(rows: &[T], at: usize) -> [T; COLUMNS] {
    rows[at..at + COLUMNS].try_into().unwrap_or([T::default(); COLUMNS])
}

#[inline(always)]
fn store<T: Lift, const COLUMNS: usize>(rows: &mut [T], at: usize, values: [T; COLUMNS]) {
    if let Some(row) = rows[at..at + COLUMNS].first_chunk_mut() {
        *row = values;
    }
}

/// `change` of each column's numbers.
#[inline(always)]
fn each<T: Lift, const COLUMNS: usize>(
    own: [T; COLUMNS],
    left: [T; COLUMNS],
    right: [T; COLUMNS],
    change: impl Fn(T, T, T) -> T,
) -> [T; COLUMNS] {
    let mut changed = own;
    for column in 0..COLUMNS {
        changed[column] = change(own[column], left[column], right[column]);
    }
    changed
}

/// Room for all rows of a strip: the even ones, then the odd ones.
#[inline(always)]
fn halves<T: Lift, const COLUMNS: usize>(buffer: &mut Vec<T>, rows: usize) -> (&mut [T], &mut [T]) {
    buffer.resize(rows * COLUMNS, T::default());
    buffer.split_at_mut(rows.div_ceil(2) * COLUMNS)
}

/// Runs all rounds of a strip, each in one walk down the rows; the last one goes back to the samples.
#[inline(always)]
fn forward_strip<T: Lift, const COLUMNS: usize>(samples: &mut [T], rows: Rows, buffer: &mut Vec<T>) {
    let (even, odd) = halves::<T, COLUMNS>(buffer, rows.count);
    let (evens, odds) = (rows.count.div_ceil(2), rows.count / 2);
    for row in 0..evens {
        store::<T, COLUMNS>(even, row * COLUMNS, load(samples, 2 * row * rows.stride));
    }
    for row in 0..odds {
        store::<T, COLUMNS>(odd, row * COLUMNS, load(samples, (2 * row + 1) * rows.stride));
    }
    for round in 0..T::ROUNDS {
        let is_last = round + 1 == T::ROUNDS;
        let updated = |value, a, b| T::updated(round, value, a, b);
        let mut own: [T; COLUMNS] = load(even, 0);
        let mut before: [T; COLUMNS] = own;
        for row in 0..odds {
            let next = if row + 1 < evens { load(even, (row + 1) * COLUMNS) } else { own };
            let detail =
                each(load(odd, row * COLUMNS), own, next, |value, a, b| T::predicted(round, value, a, b));
            let smooth = each(own, if row == 0 { detail } else { before }, detail, updated);
            if is_last {
                store(samples, row * rows.stride, smooth.map(|value| T::scaled(value, T::default()).0));
                store(
                    samples,
                    (evens + row) * rows.stride,
                    detail.map(|value| T::scaled(T::default(), value).1),
                );
            } else {
                store(even, row * COLUMNS, smooth);
                store(odd, row * COLUMNS, detail);
            }
            (own, before) = (next, detail);
        }
        if evens > odds {
            let smooth = each(own, before, before, updated);
            if is_last {
                store(samples, odds * rows.stride, smooth.map(|value| T::scaled(value, T::default()).0));
            } else {
                store(even, odds * COLUMNS, smooth);
            }
        }
    }
}

/// Undo [`forward_strip`].
#[inline(always)]
fn inverse_strip<T: Lift, const COLUMNS: usize>(samples: &mut [T], rows: Rows, buffer: &mut Vec<T>) {
    let (even, odd) = halves::<T, COLUMNS>(buffer, rows.count);
    let (evens, odds) = (rows.count.div_ceil(2), rows.count / 2);
    for row in 0..evens {
        let smooth: [T; COLUMNS] = load(samples, row * rows.stride);
        store(even, row * COLUMNS, smooth.map(|value| T::unscaled(value, T::default()).0));
    }
    for row in 0..odds {
        let detail: [T; COLUMNS] = load(samples, (evens + row) * rows.stride);
        store(odd, row * COLUMNS, detail.map(|value| T::unscaled(T::default(), value).1));
    }
    for round in (0..T::ROUNDS).rev() {
        let restored_even = |value, a, b| T::restored_even(round, value, a, b);
        let mut detail: [T; COLUMNS] = load(odd, 0);
        let mut own = each(load(even, 0), detail, detail, restored_even);
        for row in 0..odds {
            let next_detail = if row + 1 < odds { load(odd, (row + 1) * COLUMNS) } else { detail };
            let next = match row + 1 < evens {
                true => each(load(even, (row + 1) * COLUMNS), detail, next_detail, restored_even),
                false => own,
            };
            let value = each(detail, own, next, |value, a, b| T::restored_odd(round, value, a, b));
            if round == 0 {
                store(samples, 2 * row * rows.stride, own);
                store(samples, (2 * row + 1) * rows.stride, value);
            } else {
                store(even, row * COLUMNS, own);
                store(odd, row * COLUMNS, value);
            }
            (own, detail) = (next, next_detail);
        }
        if evens > odds {
            match round {
                0 => store(samples, 2 * odds * rows.stride, own),
                _ => store(even, odds * COLUMNS, own),
            }
        }
    }
}

/// Change each odd number of a row by its two even neighbours.
#[inline(always)]
fn odd_row<T: Copy>(odd: &mut [T], even: &[T], change: impl Fn(T, T, T) -> T) {
    let count = odd.len().min(even.len() - 1);
    let (right, left) = (&even[1..=count], &even[..count]);
    for ((target, &a), &b) in odd[..count].iter_mut().zip(left).zip(right) {
        *target = change(*target, a, b);
    }
    if count < odd.len() {
        odd[count] = change(odd[count], even[count], even[count]);
    }
}

/// Change each even number of a row by its two odd neighbours.
#[inline(always)]
fn even_row<T: Copy>(even: &mut [T], odd: &[T], change: impl Fn(T, T, T) -> T) {
    even[0] = change(even[0], odd[0], odd[0]);
    let count = (odd.len() - 1).min(even.len() - 1);
    let (left, right) = (&odd[..count], &odd[1..=count]);
    for ((target, &a), &b) in even[1..=count].iter_mut().zip(left).zip(right) {
        *target = change(*target, a, b);
    }
    if count + 1 < even.len() {
        let end = odd[odd.len() - 1];
        even[count + 1] = change(even[count + 1], end, end);
    }
}

macro_rules! lift_float {
    ($float:ty) => {
        impl Lift for $float {
            const ROUNDS: usize = 2;

            #[inline(always)]
            fn predicted(round: usize, own: Self, left: Self, right: Self) -> Self {
                own + PREDICTIONS[round] as $float * (left + right)
            }

            #[inline(always)]
            fn updated(round: usize, own: Self, left: Self, right: Self) -> Self {
                own + UPDATES[round] as $float * (left + right)
            }

            #[inline(always)]
            fn restored_even(round: usize, own: Self, left: Self, right: Self) -> Self {
                own - UPDATES[round] as $float * (left + right)
            }

            #[inline(always)]
            fn restored_odd(round: usize, own: Self, left: Self, right: Self) -> Self {
                own - PREDICTIONS[round] as $float * (left + right)
            }

            #[inline(always)]
            fn scaled(smooth: Self, detail: Self) -> (Self, Self) {
                (smooth * SMOOTH as $float, detail * DETAIL as $float)
            }

            #[inline(always)]
            fn unscaled(smooth: Self, detail: Self) -> (Self, Self) {
                (smooth * (1.0 / SMOOTH) as $float, detail * (1.0 / DETAIL) as $float)
            }
        }
    };
}

// Daubechies and Sweldens 1998, section 7.7.
const PREDICTIONS: [f64; 2] = [-1.586_134_342_059_924, 0.882_911_075_530_934];
const UPDATES: [f64; 2] = [-0.052_980_118_572_961, 0.443_506_852_043_971];
const SMOOTH: f64 = 1.149_604_398_860_241;
const DETAIL: f64 = 1.0 / SMOOTH;

lift_float!(f32);
lift_float!(f64);

impl Lift for i64 {
    const ROUNDS: usize = 1;

    #[inline(always)]
    fn predicted(_round: usize, own: Self, left: Self, right: Self) -> Self {
        own.wrapping_sub(left.wrapping_add(right) >> 1)
    }

    #[inline(always)]
    fn updated(_round: usize, own: Self, left: Self, right: Self) -> Self {
        own.wrapping_add(left.wrapping_add(right).wrapping_add(2) >> 2)
    }

    #[inline(always)]
    fn restored_even(_round: usize, own: Self, left: Self, right: Self) -> Self {
        own.wrapping_sub(left.wrapping_add(right).wrapping_add(2) >> 2)
    }

    #[inline(always)]
    fn restored_odd(_round: usize, own: Self, left: Self, right: Self) -> Self {
        own.wrapping_add(left.wrapping_add(right) >> 1)
    }

    #[inline(always)]
    fn scaled(smooth: Self, detail: Self) -> (Self, Self) {
        (smooth, detail)
    }

    #[inline(always)]
    fn unscaled(smooth: Self, detail: Self) -> (Self, Self) {
        (smooth, detail)
    }
}
