//! The tests of the crate from outside: one program, so that what they share is compiled and linked once.

mod entitlements;
mod many_jobs;
mod published;
mod sharing;
mod simulation;
