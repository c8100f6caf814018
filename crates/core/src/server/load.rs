//! What worlds ask a server beside its work: how much it keeps for its clients, and which members of the store it knows.

use super::Server;
use crate::config::ClusterConfig;
use crate::descriptors::LINKS_MAX;
use crate::locks;
use weir_wire::limits;

/// Requests of all connections that a server may have, and of those that have just ended.
const REQUESTS_MAX: u64 = LINKS_MAX * limits::OUTSTANDING_PER_CONNECTION as u64;

impl Server {
    /// Everything that goes when its clients have ended their calls, closed their files and given their locks back: its name, how much there is,
    /// and the most that may be.
    pub fn held_for_clients(&self) -> [(&'static str, u64, u64); 4] {
        let polls = self.requests.pages_here().polls();
        let requests = self.requests.len().saturating_sub(polls) as u64;
        let descriptions = self.namespace.files().open().len() as u64;
        let kept = self.namespace.kept_memory();
        let waiting = self.locks.waiting_requests() as u64;
        [
            ("requests in hand", requests, REQUESTS_MAX),
            ("open descriptions", descriptions, kept.bytes_max),
            ("ranges of locks", self.locks.held_ranges() as u64, locks::BYTES_MAX as u64),
            ("requests that wait for locks", waiting, REQUESTS_MAX),
        ]
    }

    /// The memory that the server keeps for users, and for bytes that clients sent.
    pub fn memory_for_clients(&self) -> [(&'static str, u64, u64); 2] {
        let kept = self.namespace.kept_memory();
        let locks = (self.locks.bytes() as u64, locks::BYTES_MAX as u64);
        [("bytes kept for users", kept.bytes, kept.bytes_max), ("bytes of locks", locks.0, locks.1)]
    }

    /// The configuration, with the servers and targets as this server knows them now.
    pub fn members(&self) -> &ClusterConfig {
        self.membership.config()
    }
}
