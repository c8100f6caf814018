//! The kernel and the C library below this one, and what depends on them alone.

pub(crate) mod addresses;
pub(crate) mod file_size;
pub(crate) mod forks;
pub(crate) mod guard;
mod heap;
pub(crate) mod kernel;
pub(crate) mod parts;
pub(crate) mod real;
pub(crate) mod umask;
