//! The numbers that arrays are made of.

use std::fmt;

/// The kind of number that an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DataType {
    Float32 = 0,
    Float64 = 1,
    Int8 = 2,
    Int16 = 3,
    Int32 = 4,
    Int64 = 5,
    Uint8 = 6,
    Uint16 = 7,
    Uint32 = 8,
    Uint64 = 9,
}

impl DataType {
    const ALL: [Self; 10] = [
        Self::Float32,
        Self::Float64,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
    ];

    /// The kind that a container's header means by `code`.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Bytes of one sample.
    pub fn bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Float32 | Self::Int32 | Self::Uint32 => 4,
            Self::Float64 | Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// Is it a floating-point number?
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// The name that numpy gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Bits behind the leading one by which buckets of residuals differ: an octave has eight.
const BUCKET_BITS: u32 = 3;

/// One number of an array.
pub trait Sample: bytemuck::Pod + Default + PartialEq + PartialOrd + fmt::Debug + Send + Sync {
    /// Its kind.
    const KIND: DataType;

    /// The distance of two samples. Two that are not numbers, or the same infinity, do not differ.
    fn distance(self, other: Self) -> f64;

    /// The nearest double.
    fn to_f64(self) -> f64;

    /// Neither infinite nor not a number.
    fn is_finite(self) -> bool;

    /// The nearest finite sample to an infinity; all others as they are.
    fn bounded(self) -> Self;

    /// Write it in little-endian order; `bytes` has the sample's size.
    fn put(self, bytes: &mut [u8]);

    /// Reads the bytes of [`Sample::put`].
    fn take(bytes: &[u8]) -> Self;

    /// The point at `position` of `ratio` on the straight line from `left` to `right`. A neighbour that is no number
    /// is left out.
    fn interpolate(left: Self, right: Self, position: usize, ratio: usize) -> Self;

    /// `self - estimate`, such that [`Sample::plus`] gives `self` again up to a rounding (integers: exactly).
    fn minus(self, estimate: Self) -> Self;

    /// `self + residual`.
    fn plus(self, residual: Self) -> Self;

    /// Sets `samples` to those of [`Sample::interpolate`] from `position` on, all of them before `ratio`.
    fn line(left: Self, right: Self, position: usize, ratio: usize, samples: &mut [Self]);

    /// Sets `samples` to the lines between neighbours in `coarse`. Each begins with its left one; the last may be cut.
    #[inline(always)]
    fn lines(coarse: &[Self], ratio: usize, samples: &mut [Self]) {
        lines_between(coarse, ratio, samples);
    }

    /// The distance of two finite samples.
    fn difference(self, other: Self) -> f64;

    /// A number that equal samples share: the bits of the double, or the integer's own in 64 bits. Both zeros are one.
    fn key(self) -> u64;

    /// The sample of a key.
    fn from_key(key: u64) -> Self;

    /// The next larger sample; the largest has none, and is its own.
    fn above(self) -> Self;

    /// The next smaller sample; the smallest has none, and is its own.
    fn below(self) -> Self;

    /// The number of values of [`Sample::bucket`].
    const BUCKETS: usize;

    /// Exponent and leading bits of a residual's magnitude as one number: 0 for 0 alone, never falling with the
    /// magnitude, largest for residuals that are no number.
    fn bucket(self) -> u16;
}

/// Writes samples one behind the other, each as [`Sample::put`] does.
#[inline(always)]
pub(crate) fn put_all<T: Sample>(samples: &[T], bytes: &mut [u8]) {
    if cfg!(target_endian = "little") {
        bytes.copy_from_slice(bytemuck::cast_slice(samples));
    } else {
        let bytes = bytes.chunks_exact_mut(T::KIND.bytes());
        samples.iter().zip(bytes).for_each(|(sample, bytes)| sample.put(bytes));
    }
}

/// Reads the bytes of [`put_all`]; missing ones are those of 0.
#[inline(always)]
pub(crate) fn take_all<T: Sample, const COUNT: usize>(bytes: &[u8]) -> [T; COUNT] {
    let mut samples = [T::default(); COUNT];
    let own: &mut [u8] = bytemuck::cast_slice_mut(&mut samples);
    if cfg!(target_endian = "little") && own.len() == bytes.len() {
        own.copy_from_slice(bytes);
    } else {
        let bytes = bytes.chunks_exact(T::KIND.bytes());
        samples.iter_mut().zip(bytes).for_each(|(sample, bytes)| *sample = T::take(bytes));
    }
    samples
}

/// The lines of [`Sample::lines`], one by one.
#[inline(always)]
fn lines_between<T: Sample>(coarse: &[T], ratio: usize, samples: &mut [T]) {
    for (index, line) in samples.chunks_mut(ratio).enumerate() {
        let left = coarse[index];
        T::line(left, coarse.get(index + 1).copied().unwrap_or(left), 0, ratio, line);
        line[0] = left;
    }
}

/// The lines of [`Sample::lines`] for a ratio that is known here, by the weights of their right ends.
#[inline(always)]
fn lines_of<T, const RATIO: usize>(coarse: &[T], samples: &mut [T], weight: impl Fn(u8) -> T)
where
    T: Sample + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    let mut far = [T::default(); RATIO];
    far.iter_mut().zip(0..).for_each(|(far, place)| *far = weight(place));
    // Multiples of the ratio's inverse, so the difference from 1 is exact.
    let mut near = far;
    near.iter_mut().zip(0..).for_each(|(near, place)| *near = weight(RATIO as u8 - place));
    let (lines, _) = samples.as_chunks_mut::<RATIO>();
    let whole = lines.len().min(coarse.len().saturating_sub(1));
    for (line, ends) in lines[..whole].iter_mut().zip(coarse.windows(2)) {
        let (left, right) = (ends[0], ends[1]);
        if left.is_finite() && right.is_finite() {
            for place in 0..RATIO {
                line[place] = near[place] * left + far[place] * right;
            }
        } else {
            T::line(left, right, 0, RATIO, line);
        }
        line[0] = left;
    }
    if let Some(coarse) = coarse.get(whole..).filter(|_| samples.len() > whole * RATIO) {
        lines_between(coarse, RATIO, &mut samples[whole * RATIO..]);
    }
}

macro_rules! little_endian {
    () => {
        #[inline]
        fn put(self, bytes: &mut [u8]) {
            bytes.copy_from_slice(&self.to_le_bytes());
        }

        #[inline]
        fn take(bytes: &[u8]) -> Self {
            Self::from_le_bytes(bytes.try_into().unwrap_or_default())
        }
    };
}

macro_rules! float_sample {
    ($float:ty, $kind:ident, $bits:ty) => {
        impl Sample for $float {
            const KIND: DataType = DataType::$kind;

            #[inline]
            fn distance(self, other: Self) -> f64 {
                if self == other || (self.is_nan() && other.is_nan()) {
                    return 0.0;
                }
                let distance = (f64::from(self) - f64::from(other)).abs();
                if distance.is_nan() {
                    f64::INFINITY
                } else {
                    distance
                }
            }

            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn is_finite(self) -> bool {
                <$float>::is_finite(self)
            }

            #[inline]
            fn bounded(self) -> Self {
                self.clamp(<$float>::MIN, <$float>::MAX)
            }

            little_endian!();

            #[inline]
            fn interpolate(left: Self, right: Self, position: usize, ratio: usize) -> Self {
                match (left.is_finite(), right.is_finite()) {
                    (true, true) => {
                        let weight = position as $float / ratio as $float;
                        (1.0 - weight) * left + weight * right
                    }
                    (true, false) => left,
                    (false, true) => right,
                    (false, false) => 0.0,
                }
            }

            #[inline]
            fn minus(self, estimate: Self) -> Self {
                self - estimate
            }

            #[inline]
            fn plus(self, residual: Self) -> Self {
                self + residual
            }

            #[inline(always)]
            fn line(left: Self, right: Self, position: usize, ratio: usize, samples: &mut [Self]) {
                if !(left.is_finite() && right.is_finite()) {
                    return samples.fill(Self::interpolate(left, right, position, ratio));
                }
                // Numbers of 32 bits are converted several at once.
                let Ok(narrow) = i32::try_from(ratio) else {
                    for (place, sample) in (position..).zip(samples) {
                        *sample = Self::interpolate(left, right, place, ratio);
                    }
                    return;
                };
                if ratio.is_power_of_two() {
                    // The inverse is exact, too.
                    let inverse = 1.0 / narrow as $float;
                    for (place, sample) in (position as i32..).zip(samples) {
                        let weight = place as $float * inverse;
                        *sample = (1.0 - weight) * left + weight * right;
                    }
                    return;
                }
                for (place, sample) in (position as i32..).zip(samples) {
                    let weight = place as $float / narrow as $float;
                    *sample = (1.0 - weight) * left + weight * right;
                }
            }

            #[inline(always)]
            fn lines(coarse: &[Self], ratio: usize, samples: &mut [Self]) {
                // A line of known length has its weights in registers.
                match ratio {
                    4 => lines_of::<$float, 4>(coarse, samples, |place| place as $float / 4.0),
                    8 => lines_of::<$float, 8>(coarse, samples, |place| place as $float / 8.0),
                    16 => lines_of::<$float, 16>(coarse, samples, |place| place as $float / 16.0),
                    32 => lines_of::<$float, 32>(coarse, samples, |place| place as $float / 32.0),
                    _ => lines_between(coarse, ratio, samples),
                }
            }

            #[inline(always)]
            fn difference(self, other: Self) -> f64 {
                (f64::from(self) - f64::from(other)).abs()
            }

            #[inline(always)]
            fn key(self) -> u64 {
                (f64::from(self) + 0.0).to_bits()
            }

            fn from_key(key: u64) -> Self {
                f64::from_bits(key) as $float
            }

            fn above(self) -> Self {
                self.next_up()
            }

            fn below(self) -> Self {
                self.next_down()
            }

            const BUCKETS: usize =
                ((<$bits>::MAX >> 1) >> (<$float>::MANTISSA_DIGITS - 1 - BUCKET_BITS)) as usize + 2;

            #[inline(always)]
            fn bucket(self) -> u16 {
                // Rounded up, so that 0 is alone.
                let dropped = <$float>::MANTISSA_DIGITS - 1 - BUCKET_BITS;
                ((self.abs().to_bits() + ((1 << dropped) - 1)) >> dropped) as u16
            }
        }
    };
}

float_sample!(f32, Float32, u32);
float_sample!(f64, Float64, u64);

macro_rules! integer_sample {
    ($integer:ty, $signed:ty, $kind:ident) => {
        impl Sample for $integer {
            const KIND: DataType = DataType::$kind;

            #[inline]
            fn distance(self, other: Self) -> f64 {
                self.abs_diff(other) as f64
            }

            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline]
            fn is_finite(self) -> bool {
                true
            }

            #[inline]
            fn bounded(self) -> Self {
                self
            }

            little_endian!();

            #[inline]
            fn interpolate(left: Self, right: Self, position: usize, ratio: usize) -> Self {
                let (position, ratio) = (position as i128, ratio as i128);
                let sum = i128::from(left) * (ratio - position) + i128::from(right) * position;
                sum.div_euclid(ratio) as $integer
            }

            #[inline]
            fn minus(self, estimate: Self) -> Self {
                self.wrapping_sub(estimate)
            }

            #[inline]
            fn plus(self, residual: Self) -> Self {
                self.wrapping_add(residual)
            }

            #[inline(always)]
            fn line(left: Self, right: Self, position: usize, ratio: usize, samples: &mut [Self]) {
                // In 64 bits, a product of both has room, and a shift rounds down.
                if Self::KIND.bytes() <= 4 && ratio.is_power_of_two() && ratio < 1 << 30 {
                    let (left, right, shift) = (left as i64, right as i64, ratio.trailing_zeros());
                    for (place, sample) in (position..).zip(samples) {
                        let sum = left * (ratio - place) as i64 + right * place as i64;
                        *sample = (sum >> shift) as $integer;
                    }
                    return;
                }
                for (place, sample) in (position..).zip(samples) {
                    *sample = Self::interpolate(left, right, place, ratio);
                }
            }

            #[inline(always)]
            fn difference(self, other: Self) -> f64 {
                self.abs_diff(other) as f64
            }

            #[inline(always)]
            fn key(self) -> u64 {
                self as i64 as u64
            }

            fn from_key(key: u64) -> Self {
                key as $integer
            }

            fn above(self) -> Self {
                self.saturating_add(1)
            }

            fn below(self) -> Self {
                self.saturating_sub(1)
            }

            const BUCKETS: usize = (u64::BITS as usize + 1) << BUCKET_BITS;

            #[inline(always)]
            fn bucket(self) -> u16 {
                let magnitude = u64::from((self as $signed).unsigned_abs());
                // All bits of small ones, leading bits of others.
                let dropped = (u64::BITS - magnitude.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
                ((dropped << BUCKET_BITS) + (magnitude >> dropped) as u32) as u16
            }
        }
    };
}

integer_sample!(i8, i8, Int8);
integer_sample!(i16, i16, Int16);
integer_sample!(i32, i32, Int32);
integer_sample!(i64, i64, Int64);
integer_sample!(u8, i8, Uint8);
integer_sample!(u16, i16, Uint16);
integer_sample!(u32, i32, Uint32);
integer_sample!(u64, i64, Uint64);
