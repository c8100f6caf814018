//! The kernel and the C library below this library, and the parts that depend on these two alone.

pub(crate) mod addresses;
pub(crate) mod elf;
pub(crate) mod file_size;
pub(crate) mod forks;
pub(crate) mod guard;
mod heap;
pub(crate) mod kernel;
pub(crate) mod launcher;
pub(crate) mod linker_cache;
pub(crate) mod parts;
pub(crate) mod patience;
pub(crate) mod real;
pub(crate) mod umask;
