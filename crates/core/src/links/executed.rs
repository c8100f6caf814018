//! Changes of bytes that were carried out and whose answers may not have arrived: a request that is sent again is answered,
//! and not carried out behind those of others that came in between.
//!
//! A connection has one request at a time, so a slot with the last one of each connection is enough. It is kept while the
//! client may come back. The slots of changes on directories lie in a file, so that a killed server knows them at its next
//! start; after a power loss the bytes may be gone as well, and the file is as old as they are.

use super::link::LinkKey;
use super::Links;
use crate::journal::{File, Storage};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::{ClientId, RequestId};

/// The most slots: more than a server has connections. Where all are taken, further connections go without.
const SLOTS: usize = 65_536;
/// Bytes of a slot in the file: client and request, little-endian. A slot without a request is zero.
const SLOT_BYTES: usize = 16;
/// The file's name.
const FILE: &str = "executed";
/// How long the slots of an earlier start are kept for clients that have not come back.
const KEPT: Nanos = Nanos::from_millis(120_000);

/// The last change that a connection asked for and that was carried out.
#[derive(Clone, Copy, Debug)]
struct Slot {
    request: RequestId,
    /// Its connection is there.
    is_live: bool,
    /// It is in the file.
    is_kept: bool,
}

/// The slots of one server.
#[derive(Debug, Default)]
pub(crate) struct Executed {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    of_client: HashMap<ClientId, Vec<u32>>,
    file: Option<File>,
    /// Clients that have slots of an earlier start alone.
    awaited: Vec<ClientId>,
}

impl Executed {
    /// Opens the file of a server and takes over the slots of its earlier start.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(storage: &dyn Storage) -> std::io::Result<Executed> {
        let file = match storage.open(FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => storage.create(FILE)?,
            opened => opened?,
        };
        let bytes = file.read_whole(SLOTS * SLOT_BYTES)?;
        let mut executed = Executed { file: Some(file), ..Executed::default() };
        for (number, bytes) in bytes.chunks_exact(SLOT_BYTES).enumerate() {
            let half = |part: &[u8]| part.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
            let (client, request) = (ClientId(half(&bytes[..8])), RequestId(half(&bytes[8..])));
            if request.0 == 0 {
                executed.slots.push(None);
                executed.free.push(number as u32);
                continue;
            }
            executed.slots.push(Some(Slot { request, is_live: false, is_kept: true }));
            executed.of_client.entry(client).or_default().push(number as u32);
        }
        executed.awaited = executed.of_client.keys().copied().collect();
        Ok(executed)
    }

    /// Notes that a change was carried out for a connection, whose slot is `place`. `is_kept` says whether the bytes outlive the
    /// server's process. The client awaits no answer to a request below `awaited`, which is asked for a new slot alone.
    pub(crate) fn note(
        &mut self,
        place: &mut Option<u32>,
        (client, request): (ClientId, RequestId),
        awaited: impl FnOnce() -> RequestId,
        is_kept: bool,
    ) {
        let number = match *place {
            Some(number) => number,
            None => {
                self.drop_answered(client, awaited());
                let Some(number) = self.take_free() else { return };
                self.of_client.entry(client).or_default().push(number);
                *place.insert(number)
            }
        };
        let was_kept = self.slots[number as usize].is_some_and(|slot| slot.is_kept);
        self.slots[number as usize] = Some(Slot { request, is_live: true, is_kept });
        if is_kept || was_kept {
            self.write(number, if is_kept { (client.0, request.0) } else { (0, 0) });
        }
    }

    /// Whether the change was carried out.
    pub(crate) fn has(&self, client: ClientId, request: RequestId) -> bool {
        self.slots_of(client).any(|slot| slot.request == request)
    }

    /// The highest request of a client of which a slot tells.
    pub(crate) fn highest(&self, client: ClientId) -> RequestId {
        self.slots_of(client).map(|slot| slot.request).max().unwrap_or(RequestId(0))
    }

    /// The connection with this slot is gone; its client may come back.
    pub(crate) fn disconnect(&mut self, number: u32) {
        if let Some(slot) = &mut self.slots[number as usize] {
            slot.is_live = false;
        }
    }

    /// Forgets a client that will not come back.
    pub(crate) fn forget(&mut self, client: ClientId) {
        for number in self.of_client.remove(&client).unwrap_or_default() {
            self.clear(number);
        }
    }

    /// Forgets the clients of an earlier start that have not come back in time; `has_come` tells of each whether it has.
    pub(crate) fn expire(&mut self, now: Nanos, has_come: impl Fn(ClientId) -> bool) {
        if now < KEPT {
            return;
        }
        for client in std::mem::take(&mut self.awaited) {
            if !has_come(client) {
                self.forget(client);
            }
        }
    }

    fn slots_of(&self, client: ClientId) -> impl Iterator<Item = Slot> + '_ {
        let numbers = self.of_client.get(&client).into_iter().flatten();
        numbers.filter_map(|&number| self.slots[number as usize])
    }

    /// Gives back the slots of ended connections of a client that has the answers.
    fn drop_answered(&mut self, client: ClientId, awaited: RequestId) {
        let Some(numbers) = self.of_client.get_mut(&client) else { return };
        let slots = &self.slots;
        let is_over =
            |&number: &u32| slots[number as usize].is_none_or(|slot| !slot.is_live && slot.request < awaited);
        let over: Vec<u32> = numbers.iter().copied().filter(|number| is_over(number)).collect();
        numbers.retain(|number| !over.contains(number));
        for number in over {
            self.clear(number);
        }
    }

    fn take_free(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let number = self.slots.len();
            (number < SLOTS).then(|| {
                self.slots.push(None);
                number as u32
            })
        })
    }

    fn clear(&mut self, number: u32) {
        let slot = self.slots[number as usize].take();
        if slot.is_some_and(|slot| slot.is_kept) {
            self.write(number, (0, 0));
        }
        self.free.push(number);
    }

    /// Where the file takes nothing, a killed server may carry a request out twice.
    fn write(&self, number: u32, (client, request): (u64, u64)) {
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&client.to_le_bytes());
        bytes[8..].copy_from_slice(&request.to_le_bytes());
        if let Some(file) = &self.file {
            let _ = file.write_all_at(&bytes, u64::from(number) * SLOT_BYTES as u64);
        }
    }
}

impl Links {
    /// Takes over the slots that lie in the server's folder, and keeps those of changes on directories there.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn keep_executed(&mut self, storage: &dyn Storage) -> std::io::Result<()> {
        self.executed = Executed::open(storage)?;
        Ok(())
    }

    /// Notes which requests a client may send again on its new link.
    pub(crate) fn note_return(&mut self, index: usize, client: ClientId) {
        let (_, highest) = self.clients.range_of(client);
        let resent_up_to = highest.max(self.executed.highest(client));
        if let Some(link) = self.links.get_mut(index) {
            link.resent_up_to = resent_up_to;
        }
    }

    /// Notes that a change was carried out.
    pub(crate) fn note_executed(&mut self, key: LinkKey, of: (ClientId, RequestId), is_kept: bool) {
        let awaited = || self.clients.range_of(of.0).0;
        match self.links.get_mut(key.index).filter(|link| link.serial() == key.serial) {
            Some(link) => self.executed.note(&mut link.executed, of, awaited, is_kept),
            None => {
                let mut place = None;
                self.executed.note(&mut place, of, awaited, is_kept);
                place.into_iter().for_each(|number| self.executed.disconnect(number));
            }
        }
    }

    /// Forgets the clients of an earlier start that have not come back in time.
    pub(crate) fn expire_executed(&mut self, now: Nanos) {
        let clients = &self.clients;
        self.executed.expire(now, |client| clients.has(client));
    }

    /// Whether a request is sent again, and was carried out before.
    pub(crate) fn was_executed(&mut self, key: LinkKey, (client, request): (ClientId, RequestId)) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ExecutedForgotten) {
            return false;
        }
        let may_be = self.of(key).is_some_and(|link| request <= link.resent_up_to);
        may_be && self.executed.has(client, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::MemoryStorage;

    const CLIENT: ClientId = ClientId(7);

    fn note(executed: &mut Executed, place: &mut Option<u32>, request: u64, is_kept: bool) {
        executed.note(place, (CLIENT, RequestId(request)), || RequestId(1), is_kept);
    }

    #[test]
    fn a_slot_outlives_its_connection_until_the_client_has_the_answer() {
        let mut executed = Executed::default();
        let (mut first, mut second) = (None, None);
        note(&mut executed, &mut first, 5, false);
        note(&mut executed, &mut second, 6, false);
        note(&mut executed, &mut first, 8, false);
        let has = |executed: &Executed, request| executed.has(CLIENT, RequestId(request));
        assert!(!has(&executed, 5) && has(&executed, 6) && has(&executed, 8) && !has(&executed, 9));
        assert_eq!(executed.highest(CLIENT), RequestId(8));
        executed.disconnect(first.expect("taken"));
        assert!(has(&executed, 8));
        executed.note(&mut None, (CLIENT, RequestId(10)), || RequestId(8), false);
        assert!(has(&executed, 8), "its answer is awaited");
        executed.note(&mut None, (CLIENT, RequestId(11)), || RequestId(9), false);
        assert!(!has(&executed, 8) && has(&executed, 6) && has(&executed, 10));
        executed.forget(CLIENT);
        assert!(!has(&executed, 6) && executed.slots.iter().all(Option::is_none));
        assert_eq!(executed.free.len(), executed.slots.len());
    }

    #[test]
    fn the_slots_of_kept_bytes_outlive_the_process_and_the_others_do_not() {
        let storage = MemoryStorage::new();
        let mut executed = Executed::open(&storage).expect("opened");
        let (mut kept, mut lost, mut once) = (None, None, None);
        note(&mut executed, &mut kept, 5, true);
        note(&mut executed, &mut lost, 6, false);
        note(&mut executed, &mut once, 7, true);
        note(&mut executed, &mut once, 8, false);
        drop(executed);
        let mut executed = Executed::open(&storage).expect("opened again");
        let known: Vec<u64> = (0..10).filter(|&request| executed.has(CLIENT, RequestId(request))).collect();
        assert_eq!(known, [5]);
        executed.expire(KEPT, |_| true);
        assert!(executed.has(CLIENT, RequestId(5)));
        let mut executed = Executed::open(&storage).expect("opened again");
        executed.expire(Nanos(1), |_| false);
        assert!(executed.has(CLIENT, RequestId(5)));
        executed.expire(KEPT, |_| false);
        assert!(!Executed::open(&storage).expect("opened again").has(CLIENT, RequestId(5)));
    }

    #[test]
    fn slots_are_bounded() {
        let mut executed = Executed::default();
        for client in 1..=SLOTS as u64 {
            executed.note(&mut None, (ClientId(client), RequestId(1)), || RequestId(1), false);
        }
        let mut place = None;
        executed.note(&mut place, (ClientId(u64::MAX), RequestId(1)), || RequestId(1), false);
        assert!(place.is_none() && !executed.has(ClientId(u64::MAX), RequestId(1)));
    }

    #[test]
    fn a_file_of_other_bytes_is_taken_as_it_is() {
        for bytes in [vec![255; 37], vec![0; 16], vec![1; SLOTS * SLOT_BYTES + 5]] {
            let storage = MemoryStorage::new();
            let file = storage.create(FILE).expect("made");
            file.write_all_at(&bytes, 0).expect("written");
            let mut executed = Executed::open(&storage).expect("opened");
            note(&mut executed, &mut None, 5, true);
        }
    }
}
