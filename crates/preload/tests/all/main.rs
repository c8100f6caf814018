//! The tests of the crate from outside: one program, so that what they share is compiled and linked once.

mod placement;
mod store;
mod symbols;
mod ways;
