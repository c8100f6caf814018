//! The edge of a Weir server: sockets, files, workers, the event loop and the control API around [`weir_core`], which decides.
//!
//! A node with many cores runs several servers; see `docs/design/server.md`.
#![deny(unsafe_code)]
// It panics where the log cannot be written, as on a full disk: `notice!` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod activation;
pub mod config;
mod control;
mod descriptors;
mod event_loop;
mod folder;
mod home;
mod host;
mod identity;
pub mod inventory;
pub mod journal;
mod machine_time;
mod mapped;
mod namespace_memory;
mod peers;
mod ports;
mod privacy;
mod published;
mod sockets;
mod workers;

pub use event_loop::{check, run};
