//! The tests of the crate from outside: one program, so that their common parts are compiled and linked once.

mod entitlements;
mod jobs;
mod law;
mod many_jobs;
mod published;
mod sharing;
