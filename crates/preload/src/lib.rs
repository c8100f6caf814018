//! `libweir_preload.so`: C symbols over the client, for programs started by `weir run`.
//!
//! [`symbols`] and [`symbols_paths`] list every exported name; the families they lead to decide in a few
//! instructions whether a call concerns the store, and leave all others to libc or the kernel. With a mount
//! ([`promotion`], [`description`]) descriptors are the kernel's; without one ([`prefix`]) they are placeholders.
//! What is promised and what is not stands in `docs/design/interception.md`.

mod addresses;
mod changes;
#[cfg(not(test))]
mod compatibility;
mod counters;
mod data;
mod description;
mod descriptors;
mod directories;
mod exec;
mod file_size;
mod guard;
mod identity;
mod kernel;
mod mappings;
mod memory;
mod mounts;
mod names;
mod paths;
mod placement;
mod prefix;
mod process;
mod promotion;
mod real;
mod recorder;
mod session;
mod sharing;
mod stat;
mod stdio;
mod symbols;
mod symbols_paths;
mod system_calls;
mod table;
mod trampolines;
mod transfers;
mod walks;
mod watches;
