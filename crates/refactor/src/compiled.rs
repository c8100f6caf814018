//! The work on each kind of numbers, as functions without parameters of type: this crate compiles them once, and those
//! that use it do not compile the codec again.

use crate::assemble::Container;
use crate::error::RefactorError;
use crate::header::Header;
use crate::restore::{Known, Region, Rows};
use crate::stream::Part;
use crate::write::Options;

/// A kind whose work is compiled here.
pub trait Compiled: Sized {
    /// [`crate::refactor`].
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

macro_rules! compiled {
    ($($number:ty)*) => {$(
        impl Compiled for $number {
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

compiled!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);
