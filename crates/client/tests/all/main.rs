//! The tests of the crate from outside: one program, so that what they share is compiled and linked once.

mod files;
mod full_targets;
mod lost_locks;
mod membership;
mod moving;
mod protocol;
mod real_servers;
mod relays;
mod reliability;
mod renewal;
mod scripted_server;
