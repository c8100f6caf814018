//! The tests of the crate from outside: one program, so that their common parts are compiled and linked once.

mod credentials;
mod files;
mod life;
mod locks;
mod mappings;
