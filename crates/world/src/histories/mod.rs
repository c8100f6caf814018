//! The answers that tasks of a world had about things that they share: each history has an order, or the store is at fault.

pub(super) mod counter;
pub(super) mod holders;
pub(super) mod pauses;
pub(super) mod records;
pub(super) mod register;
mod starts;
pub(super) mod uses;
mod versions;

use counter::Counter;
use holders::Holders;
use pauses::Pauses;
use records::Records;
use register::Register;
use starts::Starts;
use std::collections::BTreeMap;
use uses::Uses;
use versions::Versions;
use weir_wire::Ino;

/// All histories of a world.
#[derive(Default)]
pub(super) struct Histories {
    pub(super) register: Register,
    pub(super) counters: BTreeMap<Ino, Counter>,
    pub(super) records: BTreeMap<Ino, Records>,
    pub(super) holders: Holders,
    pub(super) pauses: Pauses,
    pub(super) starts: Starts,
    pub(super) versions: Versions,
    pub(super) uses: Uses,
}

impl Histories {
    /// The fault of a history that is seen at the end alone.
    pub(super) fn fault(&self) -> Option<String> {
        self.register.fault()
    }
}
