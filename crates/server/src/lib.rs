//! The Weir server: one event loop that owns the namespace, the targets, the schedulers and the job table.
//!
//! A node with many cores runs several servers; see `ARCHITECTURE.md`, "The server: one event loop".
#![deny(unsafe_code)]
// It panics where the log cannot be written, as on a full disk: `notice!` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod admission;
mod board;
mod callers;
mod carrying_out;
mod clients;
mod config;
mod confirmations;
mod connection;
mod control;
mod data;
mod descriptors;
mod durability;
mod error;
mod event_loop;
mod events;
mod exchange;
mod fairness;
mod http;
mod immediate;
mod intake;
mod jobs;
pub mod journal;
mod links;
pub mod locks;
mod machine;
mod memory;
mod metadata;
mod metrics;
mod moving;
pub mod namespace;
mod notices;
mod peers;
mod placement;
mod privacy;
mod reports;
mod reserve;
mod room;
mod server;
mod service;
mod showing;
mod snapshot;
mod target;
mod waited_for;
mod waits;
mod watch;
mod workers;

pub use config::{BackendKind, ClusterConfig, LayoutConfig, ServerConfig, SpeedConfig, TargetConfig};
pub use error::ServerError;
pub use event_loop::run;
