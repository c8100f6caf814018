//! Leases of the append turns that others wait for.

use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::{limits, Ino, Sequence};

/// A turn that is not renewed for this long is taken from its client, which may be stopped.
const LEASE: Nanos = Nanos::from_millis(limits::TURN_LEASE_SECONDS * 1_000);

/// The turns that others wait for, and when each was renewed.
#[derive(Default)]
pub(crate) struct Turns {
    renewed: HashMap<(Ino, Sequence), Nanos>,
}

impl Turns {
    /// The client of a turn keeps it.
    pub(crate) fn renew(&mut self, ino: Ino, turn: Sequence, now: Nanos) {
        if let Some(since) = self.renewed.get_mut(&(ino, turn)) {
            *since = now;
        }
    }

    /// The files with a turn that is to be taken. The lease of a turn that nobody waited for before begins now.
    pub(crate) fn overdue(&mut self, contested: Vec<(Ino, Sequence)>, now: Nanos) -> Vec<Ino> {
        let earlier = std::mem::take(&mut self.renewed);
        let mut overdue = Vec::new();
        for turn in contested {
            let since = earlier.get(&turn).copied().unwrap_or(now);
            self.renewed.insert(turn, since);
            if now.saturating_since(since) > LEASE {
                overdue.push(turn.0);
            }
        }
        overdue
    }
}
