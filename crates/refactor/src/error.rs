//! Errors of an array, a container or a question.

use crate::accuracy::Accuracy;
use thiserror::Error;

/// The reason why an array was not refactored, or a container not read.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum RefactorError {
    #[error("an array of {0} dimensions cannot be refactored: 1 to 4 are possible; reshape it first")]
    Dimensions(usize),
    #[error("the array has {samples} samples, but its shape {shape:?} holds {expected}")]
    Shape { shape: Vec<usize>, samples: usize, expected: usize },
    #[error("{name} is {value}: {expected}")]
    Option { name: &'static str, value: String, expected: &'static str },
    #[error("unknown codec `{0}`: expected planes or decimate")]
    Codec(String),
    #[error("these are not the bytes of a refactored array: they begin with {0:02x?}")]
    Magic(Vec<u8>),
    #[error("the container is of version {0}, and this program reads version {1}: use the program that wrote it, or write it again")]
    Version(u16, u16),
    #[error("the header needs {needed} bytes, but only {given} are given; read that many from its start")]
    HeaderShort { needed: u64, given: u64 },
    #[error("the header is damaged: {0}; without it nothing can be restored, so take another copy")]
    Header(&'static str),
    #[error("the array needs {0} bytes, more than this machine can give; restore a region of it")]
    Memory(u64),
    #[error("the array holds {stored} samples, not {asked}")]
    DataType { stored: &'static str, asked: &'static str },
    #[error(
        "the whole container leaves an RMSE of {} and a largest error of {}, which is more than was asked for; refactor the \
         array with a lower tolerance, or exactly",
        .0.rmse,
        .0.max_error
    )]
    Accuracy(Accuracy),
    #[error("region {region:?} does not lie in an array of shape {shape:?}")]
    Region { region: Vec<(usize, usize)>, shape: Vec<usize> },
}
