//! The tests of the crate from outside: one program, so that their common part is compiled and linked once.

mod doors;
mod durability;
mod epochs;
mod failed_device;
mod fences;
mod full_disk;
mod identity;
mod journals;
mod kept;
mod lease;
mod leased_jobs;
mod locks_against_the_kernel;
mod malformed;
mod membership;
mod pages;
mod placement;
mod power_loss;
mod pressure;
mod resends;
mod sharing;
mod starving;
mod strangers;
mod two_servers;
mod unpublished;
