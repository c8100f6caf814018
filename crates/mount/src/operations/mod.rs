//! The operations, by subject. Each takes its request apart, calls the client and encodes the answer.

mod attributes;
mod data;
mod directories;
pub(crate) mod locks;
mod names;
mod opening;
mod xattrs;
