//! The machine of a server, as the server sees it: random bytes, and the kernel's figures.

use crate::accounts::machine::Reading;
use crate::config::ClusterConfig;
use std::io;
use weir_fairshare::Nanos;
use weir_placement::ServerId;

/// The machine of one server.
pub trait Host {
    /// Fills `bytes` with random ones.
    ///
    /// # Errors
    /// The system has none.
    fn draw(&mut self, bytes: &mut [u8]) -> io::Result<()>;

    /// The figures of the kernel at `now`.
    fn reading(&mut self, now: Nanos) -> Reading;

    /// Bytes of memory that the namespace of a server may take.
    fn namespace_bytes_max(&self, config: &ClusterConfig, server: ServerId) -> u64;
}
