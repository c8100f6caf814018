//! What some worlds have beside their ordinary clients, by their seeds. The worlds of the other seeds go the way that they went without.

use super::disk::Store;
use super::histories::uses::LIMITED;
use super::work;
use super::{Shape, World};
use std::rc::Rc;
use weir_testing::claims;
use weir_wire::{Claims, Role};

/// Seeds of one extra in a row: one for each store and size of worlds.
const SEEDS_ALIKE: u64 = 12;

/// Something that a world has beside its ordinary clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Nothing,
    /// A user that meets its limits.
    Quotas,
    /// Clocks of servers that drift and jump.
    Clocks,
    /// A mount, whose kernel keeps pages.
    Mount,
    /// A directory of many entries.
    Crowd,
    /// A process that forks.
    Fork,
}

/// The user of ordinary clients.
pub(super) const ROOT: u32 = 0;

impl Extra {
    /// The extra of a seed. Losses of power take files of mounts, crowds and forks, whose tasks know nothing of them.
    /// Where members join and backups are brought back there is none.
    pub(super) fn of(seed: u64, shape: Shape) -> Extra {
        match seed / SEEDS_ALIKE % 8 {
            _ if shape.changes > 0 || shape.restores => Extra::Nothing,
            1 => Extra::Quotas,
            2 => Extra::Clocks,
            3 if Store::of(seed) != Store::Failing => Extra::Mount,
            5 if Store::of(seed) != Store::Failing => Extra::Crowd,
            6 if Store::of(seed) != Store::Failing => Extra::Fork,
            _ => Extra::Nothing,
        }
    }

    /// The directories that no loss of power takes, beside those of ordinary clients.
    pub(super) fn directories(self) -> usize {
        usize::from(self == Extra::Quotas)
    }
}

impl World {
    /// Adds what the seed gives beside the ordinary clients.
    pub(super) fn add_extra(&mut self) {
        let servers = self.machines.len();
        match self.extra {
            Extra::Nothing => {}
            Extra::Quotas => {
                let (number, client) = self.add_slots_of(&claims(LIMITED));
                let troubles = Rc::clone(&self.troubles);
                self.add_task(number, &client, |task| work::limit(task, servers, &troubles));
            }
            Extra::Clocks => self.machines.iter().for_each(|machine| machine.clocks().part(&self.agenda)),
            Extra::Mount => {
                let (number, client) = self.add_slots_of(&Claims { role: Role::Mount, ..claims(ROOT) });
                let kernel = Rc::default();
                for server in 0..servers {
                    self.add_task(number, &client, |task| work::follow(task, server, &kernel));
                }
                self.add_task(number, &client, |task| work::mount(task, &kernel));
            }
            Extra::Crowd => {
                let (number, client) = self.add_slots();
                self.add_task(number, &client, work::crowd);
            }
            Extra::Fork => {
                let fork = Rc::default();
                let (parent, client) = self.add_slots();
                self.add_task(parent, &client, |task| work::parent(task, &fork));
                let (child, client) = self.add_slots();
                self.add_task(child, &client, |task| work::child(task, &fork));
            }
        }
        self.steady = self.slots.len();
    }
}
