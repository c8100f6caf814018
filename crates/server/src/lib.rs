//! The Weir server: one event loop that owns the namespace, the targets, the schedulers and the job table.
//!
//! A node with many cores runs several servers; see `ARCHITECTURE.md`, "The server: one event loop".
#![deny(unsafe_code)]
// It panics where the log cannot be written, as on a full disk: `notice!` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod accounts;
mod activation;
mod clock;
mod config;
mod control;
mod descriptors;
mod durability;
mod errands;
mod error;
mod event_loop;
mod events;
mod home;
mod host;
mod identity;
pub mod inventory;
pub mod journal;
mod links;
pub mod locks;
mod machine_time;
pub mod namespace;
mod namespace_memory;
mod notices;
mod peers;
mod ports;
mod privacy;
mod published;
mod requests;
mod server;
mod sockets;
mod storage;
mod unpublished;
mod work;
mod workers;
#[cfg(test)]
mod world;

pub use config::{BackendKind, ClusterConfig, LayoutConfig, ServerConfig, SpeedConfig, TargetConfig};
pub use durability::JOURNAL_SCHEMA;
pub use error::ServerError;
pub use event_loop::{check, run};
pub use identity::{Consent, IdentityError};
pub use ports::Ports;
