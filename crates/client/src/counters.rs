//! Counters of a process's calls to the store: the proof that the fast path served them.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of one store, updated without locks.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)+
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct CounterSnapshot {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counters {
            /// The counters now.
            pub fn snapshot(&self) -> CounterSnapshot {
                CounterSnapshot { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }
        }
    };
}

counters! {
    /// Opens and creations.
    opens,
    /// Operations on paths other than opens, and directory listings.
    metadata_calls,
    /// Reads.
    read_calls,
    /// Bytes read.
    read_bytes,
    /// Writes and appends.
    write_calls,
    /// Bytes written.
    write_bytes,
    /// Synchronisations.
    sync_calls,
    /// Truncations, allocations, punches and seeks.
    space_calls,
    /// Lock calls.
    lock_calls,
    /// Requests sent, resends included.
    requests,
    /// Requests sent again over a new connection.
    resends,
    /// Connections made.
    connections,
    /// Calls that failed because a server was lost.
    lost,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
