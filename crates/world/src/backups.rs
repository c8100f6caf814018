//! Backups of the servers' metadata while clients work, and their return when the store is down.

use super::agenda::Happening;
use super::disk::Backup;
use super::task::Outcome;
use super::{rest, work, World, OUTAGE};
use std::collections::BTreeSet;
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_wire::Ino;

/// The longest time from the first directories to the backup, and between the copies of two servers.
const BACKUP: Nanos = Nanos::from_millis(3_000);
const APART: Nanos = Nanos::from_millis(50);
/// The pause before a backup is tried again.
const AGAIN: Nanos = Nanos::from_millis(100);
/// The moment of the return: the traces of the last fault are gone.
const RETURN: Nanos = Nanos::from_millis(15_000);

/// The backup of a store that is to be brought back.
#[derive(Default)]
pub(super) struct Backups {
    /// By server.
    taken: Vec<Option<Backup>>,
    /// Objects of files that the servers do not know since. They stay.
    pub(super) orphans: BTreeSet<Ino>,
}

impl World {
    /// A backup is to be taken, and brought back later.
    pub(super) fn plan_backup(&mut self) {
        self.backups.taken = self.machines.iter().map(|_| None).collect();
        let at = self.agenda.within(BACKUP);
        for server in 0..self.machines.len() {
            self.agenda.add(at + Nanos(self.agenda.below(APART.0)), Happening::BackUp { server });
        }
        self.agenda.add(RETURN, Happening::Restore);
    }

    /// Copies the metadata of a server, once all clients have directories there.
    pub(super) fn back_up(&mut self, server: usize) {
        if !self.troubles.borrow().are_ready() {
            return self.agenda.add(self.agenda.now() + AGAIN, Happening::BackUp { server });
        }
        self.agenda.tell(|| format!("server {server} is backed up"));
        self.troubles.borrow().back_up(server);
        self.backups.taken[server] = Some(self.machines[server].disk().back_up());
    }

    /// The programs end, the store is down, and comes up with the metadata of the backup. Other programs look at the directories.
    ///
    /// # Errors
    /// A server does not start, or has lost objects.
    pub(super) fn restore(&mut self) -> Outcome<()> {
        (0..self.slots.len()).for_each(|client| self.end_client(client));
        let (before, had) = (rest::objects(&mut self.machines)?, rest::known(&mut self.machines)?);
        for server in 0..self.machines.len() {
            self.machines[server].end();
            self.end_lines(server);
            let backup = self.backups.taken[server].as_ref().ok_or("a server was not backed up")?;
            self.machines[server].restore(backup)?;
        }
        (0..self.machines.len()).try_for_each(|server| self.start(server))?;
        let after = rest::objects(&mut self.machines)?;
        // Objects of files that were removed before are on their way out.
        let mut of_files = before.iter().filter(|(_, ino)| had.contains(ino));
        if let Some((server, ino)) = of_files.find(|object| !after.contains(object)) {
            return Err(format!("server {server} has removed an object of {ino:?}, which it may not know"));
        }
        let known = rest::known(&mut self.machines)?;
        self.backups.orphans =
            before.into_iter().map(|(_, ino)| ino).filter(|ino| !known.contains(ino)).collect();
        self.last_fault = self.last_fault.max(self.agenda.now() + OUTAGE);
        let (number, client) = self.add_slots();
        let (first, troubles) = (self.workers.len(), Rc::clone(&self.troubles));
        let directories = troubles.borrow().directories();
        for directory in directories {
            self.add_task(number, &client, |task| work::take_up(task, &troubles, directory));
        }
        (first..self.workers.len()).try_for_each(|worker| self.go_on(worker))
    }
}
