//! Changes of bytes whose answers may not have arrived: a request that is sent again is answered where it was carried out, and not carried
//! out behind those of others that came in between.
//!
//! A connection has one request at a time, so a slot with the last one of each connection is enough. It is kept while the
//! client may come back. The slots of changes on directories lie in a file, so that a killed server knows them at its next
//! start; after a power loss the bytes may be gone as well, and the file is as old as they are.
//!
//! The file tells of a change before it begins and when it has ended. A change that an earlier start began and did not end is *in doubt*: any
//! part of it may be done. Bytes that others change before it is sent again are theirs, as it came before them; the resend changes the rest.

#[cfg(test)]
mod law_tests;
mod record;

use super::link::LinkKey;
use super::Links;
use crate::journal::{File, Storage};
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::requests::order::Place;
use crate::requests::ranges::Range;
pub(crate) use record::Left;
use record::{Key, Record, SLOT_BYTES};
use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::{ClientId, RequestId};

/// The most slots: more than a server has connections. Where all are taken, further connections go without.
const SLOTS: usize = 65_536;
/// The file's name.
const FILE: &str = "executed";
/// How long the slots of an earlier start are kept for clients that have not come back.
const KEPT: Nanos = Nanos::from_millis(120_000);

/// The last change that a connection asked for.
#[derive(Clone, Copy, Debug)]
struct Slot {
    request: RequestId,
    /// Its connection is there.
    is_live: bool,
    /// It is in the file.
    is_kept: bool,
    /// It was carried out.
    is_done: bool,
}

/// A change in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Doubt {
    of: Key,
    slot: u32,
    left: Left,
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
    /// Changes in doubt, by their objects.
    doubts: HashMap<Place, Vec<Doubt>>,
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
        let mut begun = Vec::new();
        for (slot, bytes) in (0..).zip(bytes.chunks_exact(SLOT_BYTES)) {
            let Some(record) = Record::decoded(bytes) else {
                executed.slots.push(None);
                executed.free.push(slot);
                continue;
            };
            let (client, request) = record.of;
            let is_done = record.begun.is_none();
            executed.slots.push(Some(Slot { request, is_live: false, is_kept: true, is_done }));
            executed.of_client.entry(client).or_default().push(slot);
            let of = record.of;
            begun.extend(record.begun.map(|(place, left)| (place, Doubt { of, slot, left })));
        }
        executed.awaited = executed.of_client.keys().copied().collect();
        for (place, doubt) in begun {
            if !executed.has(doubt.of) {
                executed.doubt(place, doubt);
            }
        }
        Ok(executed)
    }

    fn doubt(&mut self, place: Place, doubt: Doubt) {
        let doubts = self.doubts.entry(place).or_default();
        match doubts.iter_mut().find(|other| other.of == doubt.of) {
            Some(other) if other.left.bytes() <= doubt.left.bytes() => {}
            Some(other) => *other = doubt,
            None => doubts.push(doubt),
        }
    }

    /// Notes that a change within `reach` is about to begin for a connection, whose slot is `slot`, or with none that its bytes are done and
    /// the rest of it is not. `awaited` is as in [`Executed::note`].
    pub(crate) fn begin(
        &mut self,
        slot: &mut Option<u32>,
        of: Key,
        awaited: impl FnOnce() -> RequestId,
        (place, reach): (Place, Option<Range>),
    ) {
        let left = self.left(place, of);
        let Some(number) = self.slot(slot, of, awaited) else { return };
        self.fill(number, of, (true, false));
        let left = match &left {
            Left::Everything => reach.as_slice(),
            Left::Bytes(left) if reach.is_some() => left.as_slice(),
            Left::Bytes(_) => &[],
            Left::Unknown => return,
        };
        self.write(number, &Record::begun(of, place, Some(left)));
    }

    /// A change of these ranges is done: others in doubt on the object lose the ranges that it changed, which are those that were left of it
    /// where it was in doubt itself. They keep the ranges of a change that is cut off as well, as nobody knows whether it was done: of two
    /// such changes the one that is sent again last is the last one.
    pub(crate) fn take_from_doubts(&mut self, of: Key, place: Place, ranges: &[Range]) {
        let ranges = &self.left(place, of).within(ranges);
        let doubts = self.doubts.get_mut(&place).into_iter().flatten().filter(|doubt| doubt.of != of);
        doubts.for_each(|doubt| doubt.left = doubt.left.without(ranges));
        for doubt in self.doubts.get(&place).into_iter().flatten().filter(|doubt| doubt.of != of) {
            let left = if let Left::Bytes(left) = &doubt.left { Some(left.as_slice()) } else { None };
            self.write(doubt.slot, &Record::begun(doubt.of, place, left));
        }
    }

    /// Whether changes are in doubt.
    pub(crate) fn has_doubts(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// The part of a change that is to be carried out.
    pub(crate) fn left(&self, place: Place, of: Key) -> Left {
        let doubt = self.doubts.get(&place).into_iter().flatten().find(|doubt| doubt.of == of);
        doubt.map_or(Left::Everything, |doubt| doubt.left.clone())
    }

    /// Notes that a change was carried out for a connection, whose slot is `slot`. `is_kept` says whether the bytes outlive the
    /// server's process. The client awaits no answer to a request below `awaited`, which is asked for a new slot alone.
    pub(crate) fn note(
        &mut self,
        slot: &mut Option<u32>,
        of: Key,
        awaited: impl FnOnce() -> RequestId,
        is_kept: bool,
    ) {
        let Some(number) = self.slot(slot, of, awaited) else { return };
        let before = self.fill(number, of, (is_kept, true));
        match (is_kept, before.is_some_and(|slot| slot.is_kept)) {
            (true, _) => self.write(number, &Record::done(of)),
            (false, true) => self.write(number, &[0; SLOT_BYTES]),
            (false, false) => {}
        }
        self.end_doubt(of);
    }

    /// Puts a request into a slot; answers the slot before. A connection that goes on has the answer to its request before, of which nothing
    /// is in doubt any more.
    fn fill(
        &mut self,
        number: u32,
        (client, request): Key,
        (is_kept, is_done): (bool, bool),
    ) -> Option<Slot> {
        let slot = Slot { request, is_live: true, is_kept, is_done };
        let before = self.slots[number as usize].replace(slot);
        if let Some(before) = before.filter(|before| before.request != request) {
            self.end_doubt((client, before.request));
        }
        before
    }

    /// The slot of a connection. One without a slot takes over that of an ended connection with the same request, or a free one; it has
    /// none where all are taken.
    fn slot(
        &mut self,
        slot: &mut Option<u32>,
        (client, request): Key,
        awaited: impl FnOnce() -> RequestId,
    ) -> Option<u32> {
        if slot.is_none() {
            let slots = &self.slots;
            let is_left = |slot: Slot| slot.request == request && !slot.is_live;
            let mut numbers = self.of_client.get(&client).into_iter().flatten();
            *slot = numbers.find(|&&number| slots[number as usize].is_some_and(is_left)).copied();
        }
        if slot.is_none() {
            self.drop_answered(client, awaited());
            *slot = self.take_free();
            self.of_client.entry(client).or_default().extend(*slot);
        }
        *slot
    }

    /// Whether the change was carried out.
    pub(crate) fn has(&self, (client, request): Key) -> bool {
        self.slots_of(client).any(|slot| slot.request == request && slot.is_done)
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
            self.clear(client, number);
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
            self.clear(client, number);
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

    fn clear(&mut self, client: ClientId, number: u32) {
        if let Some(slot) = self.slots[number as usize].take() {
            if slot.is_kept {
                self.write(number, &[0; SLOT_BYTES]);
            }
            self.end_doubt((client, slot.request));
        }
        self.free.push(number);
    }

    /// A change is in doubt no more.
    fn end_doubt(&mut self, of: Key) {
        if self.has_doubts() {
            self.doubts.values_mut().for_each(|doubts| doubts.retain(|doubt| doubt.of != of));
            self.doubts.retain(|_, doubts| !doubts.is_empty());
        }
    }

    /// Where the file takes nothing, a killed server may carry a request out twice.
    fn write(&self, number: u32, bytes: &[u8; SLOT_BYTES]) {
        if let Some(file) = &self.file {
            let _ = file.write_all_at(bytes, u64::from(number) * SLOT_BYTES as u64);
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

    /// Notes that a change of an object is about to begin, within these bounds, or that its bytes are done and the rest of it is not.
    pub(crate) fn note_begun(&mut self, key: LinkKey, of: Key, change: (Place, Option<Range>)) {
        self.with_slot(key, of, |executed, slot, awaited| executed.begin(slot, of, awaited, change));
    }

    /// Notes that a change was carried out.
    pub(crate) fn note_executed(&mut self, key: LinkKey, of: Key, is_kept: bool) {
        self.with_slot(key, of, |executed, slot, awaited| executed.note(slot, of, awaited, is_kept));
    }

    /// Notes something in the slot of a link, or of one that is gone.
    fn with_slot(
        &mut self,
        key: LinkKey,
        (client, _): Key,
        note: impl FnOnce(&mut Executed, &mut Option<u32>, &dyn Fn() -> RequestId),
    ) {
        let awaited = || self.clients.range_of(client).0;
        match self.links.get_mut(key.index).filter(|link| link.serial() == key.serial) {
            Some(link) => note(&mut self.executed, &mut link.executed, &awaited),
            None => {
                let mut slot = None;
                note(&mut self.executed, &mut slot, &awaited);
                slot.into_iter().for_each(|number| self.executed.disconnect(number));
            }
        }
    }

    /// The part of a change of an object that is to be carried out.
    pub(crate) fn left(&self, place: Place, of: Key) -> Left {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::BegunForgotten) {
            return Left::Everything;
        }
        self.executed.left(place, of)
    }

    /// Forgets the clients of an earlier start that have not come back in time.
    pub(crate) fn expire_executed(&mut self, now: Nanos) {
        let clients = &self.clients;
        self.executed.expire(now, |client| clients.has(client));
    }

    /// Whether a request is sent again, and was carried out before.
    pub(crate) fn was_executed(&mut self, key: LinkKey, (client, request): Key) -> bool {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ExecutedForgotten) {
            return false;
        }
        let may_be = self.of(key).is_some_and(|link| request <= link.resent_up_to);
        may_be && self.executed.has((client, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::MemoryStorage;
    use weir_wire::Ino;

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
        let has = |executed: &Executed, request| executed.has((CLIENT, RequestId(request)));
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
        let known: Vec<u64> = (0..10).filter(|&request| executed.has((CLIENT, RequestId(request)))).collect();
        assert_eq!(known, [5]);
        executed.expire(KEPT, |_| true);
        assert!(executed.has((CLIENT, RequestId(5))));
        let mut executed = Executed::open(&storage).expect("opened again");
        executed.expire(Nanos(1), |_| false);
        assert!(executed.has((CLIENT, RequestId(5))));
        executed.expire(KEPT, |_| false);
        assert!(!Executed::open(&storage).expect("opened again").has((CLIENT, RequestId(5))));
    }

    const OTHER: ClientId = ClientId(8);
    const PLACE: Place = (3, Ino(9));

    /// A change of a client that begins in a slot of its own.
    fn begin(executed: &mut Executed, client: ClientId, range: Range) -> Option<u32> {
        let (of, mut slot) = ((client, RequestId(1)), None);
        executed.begin(&mut slot, of, || RequestId(1), (PLACE, Some(range)));
        slot
    }

    fn left(executed: &Executed, client: ClientId) -> Left {
        executed.left(PLACE, (client, RequestId(1)))
    }

    /// A write that was cut off by a kill was once carried out again over a later one of another client.
    #[test]
    fn a_change_that_a_kill_cut_off_is_carried_out_where_nobody_else_changed_bytes_since() {
        let storage = MemoryStorage::new();
        let start = || Executed::open(&storage).expect("opened");
        let mut executed = start();
        begin(&mut executed, CLIENT, (10, 50));
        let mut executed = start();
        assert!(!executed.has((CLIENT, RequestId(1))) && executed.highest(CLIENT) == RequestId(1));
        assert_eq!(left(&executed, CLIENT), Left::Bytes(vec![(10, 50)]));
        assert_eq!(
            (left(&executed, OTHER), executed.left((3, Ino(8)), (CLIENT, RequestId(1)))),
            (Left::Everything, Left::Everything)
        );
        let of_other = (OTHER, RequestId(1));
        for (range, is_done, after) in [
            ((40, 60), false, vec![(10, 50)]),
            ((40, 60), true, vec![(10, 40)]),
            ((20, 30), true, vec![(10, 20), (30, 40)]),
            ((0, 35), true, vec![(35, 40)]),
        ] {
            let before = left(&executed, CLIENT);
            let slot = begin(&mut executed, OTHER, range);
            assert_eq!((left(&executed, CLIENT), left(&start(), CLIENT)), (before.clone(), before));
            if is_done {
                executed.take_from_doubts(of_other, PLACE, &[range]);
            }
            let after = Left::Bytes(after);
            assert_eq!(
                (left(&executed, CLIENT), left(&start(), CLIENT)),
                (after.clone(), after),
                "{range:?}"
            );
            executed.note(&mut slot.clone(), of_other, || RequestId(1), true);
            executed.disconnect(slot.expect("a slot"));
        }
        let slot = begin(&mut executed, CLIENT, (10, 50));
        assert_eq!(left(&start(), CLIENT), Left::Bytes(vec![(35, 40)]), "the resend is cut off as well");
        executed.note(&mut slot.clone(), (CLIENT, RequestId(1)), || RequestId(1), true);
        assert!(!executed.has_doubts() && !start().has_doubts() && start().has((CLIENT, RequestId(1))));
    }

    /// A write of which nothing was left took the bytes of a later one from it: that one was answered, and never done.
    #[test]
    fn a_resend_takes_no_more_from_others_in_doubt_than_it_changes() {
        let storage = MemoryStorage::new();
        let start = || Executed::open(&storage).expect("opened");
        begin(&mut start(), CLIENT, (0, 20));
        let mut executed = start();
        executed.take_from_doubts((ClientId(9), RequestId(1)), PLACE, &[(0, 10)]);
        begin(&mut executed, OTHER, (0, 20));
        let mut executed = start();
        begin(&mut executed, CLIENT, (0, 20));
        executed.take_from_doubts((CLIENT, RequestId(1)), PLACE, &[(0, 20)]);
        assert_eq!(left(&executed, OTHER), Left::Bytes(vec![(0, 10)]));
    }

    #[test]
    fn more_parts_than_a_slot_has_room_for_are_unknown_to_the_next_start() {
        let storage = MemoryStorage::new();
        begin(&mut Executed::open(&storage).expect("opened"), CLIENT, (0, 100));
        let mut executed = Executed::open(&storage).expect("opened");
        for range in [(10, 20), (30, 40)] {
            executed.take_from_doubts((OTHER, RequestId(1)), PLACE, &[range]);
        }
        assert_eq!(left(&executed, CLIENT), Left::Bytes(vec![(0, 10), (20, 30), (40, 100)]));
        assert_eq!(left(&Executed::open(&storage).expect("opened"), CLIENT), Left::Unknown);
    }

    #[test]
    fn a_change_is_in_doubt_until_its_client_goes_on() {
        let storage = MemoryStorage::new();
        begin(&mut Executed::open(&storage).expect("opened"), CLIENT, (0, 100));
        let mut executed = Executed::open(&storage).expect("opened");
        let mut slot = begin(&mut executed, CLIENT, (0, 100));
        executed.begin(&mut slot, (CLIENT, RequestId(1)), || RequestId(1), (PLACE, None));
        assert_eq!(
            left(&Executed::open(&storage).expect("opened"), CLIENT),
            Left::Bytes(vec![]),
            "its bytes are done"
        );
        executed.begin(&mut slot, (CLIENT, RequestId(2)), || RequestId(1), (PLACE, Some((0, 5))));
        assert!(!executed.has_doubts());
        let executed = Executed::open(&storage).expect("opened");
        assert_eq!(left(&executed, CLIENT), Left::Everything);
        assert_eq!(executed.left(PLACE, (CLIENT, RequestId(2))), Left::Bytes(vec![(0, 5)]));
    }

    #[test]
    fn slots_are_bounded() {
        let mut executed = Executed::default();
        for client in 1..=SLOTS as u64 {
            executed.note(&mut None, (ClientId(client), RequestId(1)), || RequestId(1), false);
        }
        let mut place = None;
        executed.note(&mut place, (ClientId(u64::MAX), RequestId(1)), || RequestId(1), false);
        assert!(place.is_none() && !executed.has((ClientId(u64::MAX), RequestId(1))));
    }

    #[test]
    fn a_file_of_other_bytes_is_taken_as_it_is() {
        for bytes in [vec![255; 137], vec![0; SLOT_BYTES], vec![1; SLOTS * SLOT_BYTES + 5]] {
            let storage = MemoryStorage::new();
            let file = storage.create(FILE).expect("made");
            file.write_all_at(&bytes, 0).expect("written");
            let mut executed = Executed::open(&storage).expect("opened");
            note(&mut executed, &mut None, 5, true);
        }
    }
}
