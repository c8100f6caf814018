//! The client of a Weir store, for programs (through the preload library) and for the mount.
//!
//! A [`Store`] opens nothing until its first call, starts no thread, and keeps no lock across a wait. So a store works in
//! signal handlers and across `fork`. Operations on paths start at a [`Place`]. [`Store::open`] answers an [`Opened`], from
//! which a [`File`] reads and writes under the protocol of `docs/design/consistency.md`.
#![forbid(unsafe_code)]

mod caller;
mod connect;
mod counters;
mod descriptors;
mod detour;
mod exchange;
mod fence;
mod file;
mod handle_state;
mod handover;
mod known;
mod layouts;
mod links;
mod locks;
mod message;
mod mode;
mod moving;
mod observer;
mod operations;
mod paths;
mod place;
mod plan;
mod pool;
mod read;
mod session;
mod settings;
mod several;
mod space;
mod store;
mod transfer;
mod transport;
#[cfg(test)]
mod way_law_tests;
mod write;

pub use caller::Caller;
pub use counters::{CounterSnapshot, Counters};
pub use descriptors::{is_own_descriptor, keep_descriptor, own_descriptors, release_descriptor};
pub use file::File;
pub use handle_state::{HandleState, HANDLE_STATE_BYTES};
pub use handover::{HandedLock, Handover};
pub use locks::{LockRequest, LockWait};
pub use mode::{mode_of, node_of, type_bits};
pub use moving::{Moved, Moving, Pace};
pub use operations::StoreStatistics;
pub use settings::Settings;
pub use store::{Invalidation, Listing, Opened, Store};
pub use transport::{Connection, SocketTransport, Transport};
pub use weir_session::{ClientError, Place, Result};
pub use weir_wire as wire;
pub use weir_wire::TransportChoice;
