//! One level of a wavelet transform along one axis, by lifting.
//!
//! Floats use the biorthogonal 9/7 filters of Cohen, Daubechies and Feauveau (1992) in the four lifting steps of
//! Daubechies and Sweldens (1998), scaled so that both bands have nearly unit gain in the L2 norm. Integers use the
//! reversible 5/3 filters (Le Gall and Tabatabai 1988; Calderbank et al. 1998). Signals are mirrored at their ends
//! without repeating the end sample, so no length needs padding.

/// A coefficient that lifting works on. A panel holds rows of `width` numbers; the transform runs across the rows.
pub(super) trait Lift: Copy + Default {
    /// Even rows become the smooth half, odd rows the detail.
    fn forward(even: &mut [Self], odd: &mut [Self], width: usize);

    /// Undo [`Lift::forward`]; exact for integers.
    fn inverse(even: &mut [Self], odd: &mut [Self], width: usize);
}

/// Change each odd row by its two even neighbours.
#[inline(always)]
fn odd_rows<T: Copy>(odd: &mut [T], even: &[T], width: usize, change: impl Fn(T, T, T) -> T) {
    if width == 1 {
        let count = odd.len().min(even.len() - 1);
        let (right, left) = (&even[1..=count], &even[..count]);
        for ((target, &a), &b) in odd[..count].iter_mut().zip(left).zip(right) {
            *target = change(*target, a, b);
        }
        if count < odd.len() {
            odd[count] = change(odd[count], even[count], even[count]);
        }
        return;
    }
    let last = even.len() - width;
    for (row, target) in odd.chunks_exact_mut(width).enumerate() {
        let left = &even[row * width..][..width];
        let right = &even[((row + 1) * width).min(last)..][..width];
        for ((target, &a), &b) in target.iter_mut().zip(left).zip(right) {
            *target = change(*target, a, b);
        }
    }
}

/// Change each even row by its two odd neighbours.
#[inline(always)]
fn even_rows<T: Copy>(even: &mut [T], odd: &[T], width: usize, change: impl Fn(T, T, T) -> T) {
    if width == 1 {
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
        return;
    }
    let last = odd.len() - width;
    for (row, target) in even.chunks_exact_mut(width).enumerate() {
        let left = &odd[(row * width).saturating_sub(width)..][..width];
        let right = &odd[(row * width).min(last)..][..width];
        for ((target, &a), &b) in target.iter_mut().zip(left).zip(right) {
            *target = change(*target, a, b);
        }
    }
}

macro_rules! lift_float {
    ($float:ty) => {
        impl Lift for $float {
            #[inline(always)]
            fn forward(even: &mut [Self], odd: &mut [Self], width: usize) {
                odd_rows(odd, even, width, |t, a, b| t + ALPHA as $float * (a + b));
                even_rows(even, odd, width, |t, a, b| t + BETA as $float * (a + b));
                odd_rows(odd, even, width, |t, a, b| t + GAMMA as $float * (a + b));
                even_rows(even, odd, width, |t, a, b| t + DELTA as $float * (a + b));
                even.iter_mut().for_each(|value| *value *= SMOOTH as $float);
                odd.iter_mut().for_each(|value| *value *= DETAIL as $float);
            }

            #[inline(always)]
            fn inverse(even: &mut [Self], odd: &mut [Self], width: usize) {
                even.iter_mut().for_each(|value| *value *= (1.0 / SMOOTH) as $float);
                odd.iter_mut().for_each(|value| *value *= (1.0 / DETAIL) as $float);
                even_rows(even, odd, width, |t, a, b| t - DELTA as $float * (a + b));
                odd_rows(odd, even, width, |t, a, b| t - GAMMA as $float * (a + b));
                even_rows(even, odd, width, |t, a, b| t - BETA as $float * (a + b));
                odd_rows(odd, even, width, |t, a, b| t - ALPHA as $float * (a + b));
            }
        }
    };
}

// Daubechies and Sweldens 1998, section 7.7.
const ALPHA: f64 = -1.586_134_342_059_924;
const BETA: f64 = -0.052_980_118_572_961;
const GAMMA: f64 = 0.882_911_075_530_934;
const DELTA: f64 = 0.443_506_852_043_971;
const SMOOTH: f64 = 1.149_604_398_860_241;
const DETAIL: f64 = 1.0 / SMOOTH;

lift_float!(f32);
lift_float!(f64);

impl Lift for i64 {
    #[inline(always)]
    fn forward(even: &mut [Self], odd: &mut [Self], width: usize) {
        odd_rows(odd, even, width, |t, a, b| t.wrapping_sub(a.wrapping_add(b) >> 1));
        even_rows(even, odd, width, |t, a, b| t.wrapping_add(a.wrapping_add(b).wrapping_add(2) >> 2));
    }

    #[inline(always)]
    fn inverse(even: &mut [Self], odd: &mut [Self], width: usize) {
        even_rows(even, odd, width, |t, a, b| t.wrapping_sub(a.wrapping_add(b).wrapping_add(2) >> 2));
        odd_rows(odd, even, width, |t, a, b| t.wrapping_add(a.wrapping_add(b) >> 1));
    }
}
