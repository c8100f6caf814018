//! Arrays of each kind of numbers into containers and back.
//!
//! The work on each kind is a function without parameters of type. So this crate compiles the codec, and crates that use
//! it do not compile it again.

use crate::assemble::Container;
use crate::error::RefactorError;
use crate::header::Header;
use crate::planes::Number;
use crate::restore::{Known, Region, Restored, Rows};
use crate::sample::Sample;
use crate::stream::Part;
use crate::write::Options;

/// A kind of numbers that arrays are refactored of.
pub trait Kind: Number {
    /// [`refactor`].
    fn refactored<'a>(
        samples: &'a [Self],
        shape: &[usize],
        options: &Options,
    ) -> Result<Container<'a>, RefactorError>;

    /// [`Header::restore_to_bytes`], to rows of any kind.
    fn restored(
        header: &Header,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
        rows: &mut dyn Rows<Self>,
    ) -> Result<Known, RefactorError>;
}

macro_rules! kinds {
    ($($number:ty)*) => {$(
        impl Kind for $number {
            fn refactored<'a>(
                samples: &'a [Self],
                shape: &[usize],
                options: &Options,
            ) -> Result<Container<'a>, RefactorError> {
                crate::write::refactored(samples, shape, options)
            }

            fn restored(
                header: &Header,
                parts: &[Part<'_>],
                region: Option<&Region>,
                threads: usize,
                rows: &mut dyn Rows<Self>,
            ) -> Result<Known, RefactorError> {
                header.restore_rows(parts, region, threads, rows)
            }
        }
    )*};
}

kinds!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

/// Refactors an array of 1 to 4 axes in C order.
///
/// # Errors
///
/// The shape or an option is wrong.
pub fn refactor<'a, T: Kind>(
    samples: &'a [T],
    shape: &[usize],
    options: &Options,
) -> Result<Container<'a>, RefactorError> {
    T::refactored(samples, shape, options)
}

impl Header {
    /// The array, or a region of it, from the parts of the container that are there.
    ///
    /// # Errors
    /// The array is of another type, the region lies outside, or memory does not suffice. Missing and damaged bytes
    /// are no errors: they lower the accuracy.
    pub fn restore<T: Kind>(
        &self,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
    ) -> Result<Restored<T>, RefactorError> {
        let shape = self.restored_shape(region)?;
        let count: usize = shape.iter().product();
        let mut samples: Vec<T> = Vec::new();
        samples
            .try_reserve_exact(count)
            .map_err(|_| RefactorError::Memory((count * T::KIND.bytes()) as u64))?;
        samples.resize(count, T::default());
        let known = T::restored(self, parts, region, threads, &mut samples.as_mut_slice())?;
        Ok(Restored { samples, shape, known })
    }

    /// As [`Header::restore`], to the little-endian bytes of the samples of [`Header::restored_shape`].
    ///
    /// # Errors
    /// The array is of another type, or the region lies outside.
    ///
    /// # Panics
    /// There are not as many bytes as the samples have.
    pub fn restore_to_bytes<T: Kind>(
        &self,
        parts: &[Part<'_>],
        region: Option<&Region>,
        threads: usize,
        bytes: &mut [u8],
    ) -> Result<Known, RefactorError> {
        let count: usize = self.restored_shape(region)?.iter().product();
        assert_eq!(bytes.len(), count * self.kind.bytes(), "an array is restored as a whole");
        T::restored(self, parts, region, threads, &mut Bytes(bytes))
    }
}

impl<T: Sample> Rows<T> for &mut [T] {
    fn put(&mut self, start: usize, row: &[T]) {
        self[start..start + row.len()].copy_from_slice(row);
    }

    fn whole(&mut self) -> Option<&mut [T]> {
        Some(self)
    }
}

/// Samples as their little-endian bytes.
struct Bytes<'a>(&'a mut [u8]);

impl<T: Sample> Rows<T> for Bytes<'_> {
    fn put(&mut self, start: usize, row: &[T]) {
        let width = T::KIND.bytes();
        let bytes = self.0[start * width..(start + row.len()) * width].chunks_exact_mut(width);
        row.iter().zip(bytes).for_each(|(sample, bytes)| sample.put(bytes));
    }

    fn whole(&mut self) -> Option<&mut [T]> {
        let is_native = cfg!(target_endian = "little");
        bytemuck::try_cast_slice_mut(self.0).ok().filter(|_| is_native)
    }
}
