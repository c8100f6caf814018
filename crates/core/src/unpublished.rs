//! Bytes behind the paid ends of objects: bytes that were written, or reserved, and that no published size covers yet. The user
//! who wrote them is charged for them until a publication pays, or until they are cut off.
//!
//! A part is the work of one user and one client on one object. A part costs the pages that were written, but no more pages than
//! the object can have behind its paid end. So bytes that are written twice cost no more than the reach of the object.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{ClientId, Extent, Ino};

/// The unit in which targets give room.
const PAGE_BYTES: u64 = 4096;
/// The most parts of all users, at 200 bytes each. A user may have as many as are left free, so one user alone takes half: as many
/// files as a server gets new within seconds.
const PARTS_MAX: usize = 65_536;

/// The work of one user and one client on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Part {
    pub(crate) ino: Ino,
    pub(crate) place: TargetId,
    pub(crate) uid: u32,
    pub(crate) client: ClientId,
}

/// The reach of a write in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// One past the last byte.
    pub(crate) end: u64,
    /// The bytes of all touched pages.
    pub(crate) bytes: u64,
}

/// A charge for one write, which is taken back if the write leaves no bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    part: Part,
    bytes: u64,
    serial: u64,
}

/// The bytes of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The reach of all its writes.
    pub(crate) reach: Reach,
    /// The paid end of the object, as it was known last.
    paid: u64,
    /// Its client is gone, or was never known: nobody will publish the bytes.
    pub(crate) is_left: bool,
    /// The moment at which the home heard of the part last.
    pub(crate) heard: Nanos,
    told: Told,
    serial: u64,
}

/// The knowledge of the home about a part as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It does not know of it.
    News,
    /// It is being told.
    UnderWay,
    /// It counts the part.
    Heard,
}

/// All parts that are known to a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unpublished {
    parts: BTreeMap<Part, Held>,
    users: HashMap<u32, Share>,
    serial: u64,
}

/// The parts of one user.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: u64,
    /// The bytes that the homes do not count yet.
    untold: u64,
    parts: usize,
}

impl Reach {
    /// The reach of a list of ranges, each a first byte and a length.
    pub(crate) fn of(ranges: impl IntoIterator<Item = (u64, u64)>) -> Reach {
        ranges.into_iter().fold(Reach { end: 0, bytes: 0 }, |reach, (offset, length)| {
            let end = offset.saturating_add(length);
            let pages = pages_up(end).saturating_sub(pages_down(offset));
            Reach { end: reach.end.max(end), bytes: reach.bytes.saturating_add(pages) }
        })
    }

    /// The reach of a write's extents.
    pub(crate) fn of_extents(extents: &[Extent]) -> Reach {
        Reach::of(extents.iter().map(|extent| (extent.offset, u64::from(extent.length))))
    }

    /// The bytes behind `paid`.
    fn behind(self, paid: u64) -> u64 {
        match self.end > paid {
            true => self.bytes.min(pages_up(self.end) - pages_down(paid)),
            false => 0,
        }
    }

    fn with(self, other: Reach) -> Reach {
        Reach { end: self.end.max(other.end), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl Charge {
    /// The file of the write.
    pub(crate) fn ino(&self) -> Ino {
        self.part.ino
    }
}

impl Held {
    /// Whether the home does not know of the part as it is now.
    pub(crate) fn is_news(&self) -> bool {
        self.told == Told::News
    }

    fn cost(&self) -> u64 {
        self.reach.behind(self.paid)
    }

    fn untold(&self) -> u64 {
        if self.told == Told::Heard {
            0
        } else {
            self.cost()
        }
    }
}

impl Unpublished {
    /// Whether no server knows of any such bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The bytes of all users on targets of a server.
    pub(crate) fn bytes_on(&self, server: ServerId) -> u64 {
        let there = self.parts.iter().filter(|(part, _)| part.place.server == server);
        there.map(|(_, held)| held.cost()).sum()
    }

    /// The bytes of a user.
    pub(crate) fn of(&self, uid: u32) -> u64 {
        self.users.get(&uid).map_or(0, |share| share.bytes)
    }

    /// The bytes of a user that the homes do not count yet.
    pub(crate) fn untold_of(&self, uid: u32) -> u64 {
        self.users.get(&uid).map_or(0, |share| share.untold)
    }

    /// Every user with parts.
    pub(crate) fn users(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.users.iter().map(|(uid, share)| (*uid, share.bytes))
    }

    /// The bytes by which a write makes its part cost more; none where the user has too many parts to have one more.
    pub(crate) fn growth(&self, part: &Part, reach: Reach, paid: u64) -> Option<u64> {
        let Some(held) = self.parts.get(part) else {
            let own = self.users.get(&part.uid).map_or(0, |share| share.parts);
            return (own < PARTS_MAX - self.parts.len().min(PARTS_MAX)).then(|| reach.behind(paid));
        };
        let then = Held { reach: held.reach.with(reach), paid: paid.max(held.paid), ..*held };
        Some(then.cost().saturating_sub(held.cost()))
    }

    /// Adds a write to its part.
    pub(crate) fn add(&mut self, part: Part, reach: Reach, paid: u64) -> Charge {
        self.serial += 1;
        let fresh = Held {
            reach: Reach { end: 0, bytes: 0 },
            paid,
            is_left: false,
            heard: Nanos::ZERO,
            told: Told::News,
            serial: self.serial,
        };
        let before = self.parts.get(&part).copied().unwrap_or(fresh);
        let held =
            Held { reach: before.reach.with(reach), paid: paid.max(before.paid), told: Told::News, ..before };
        self.put(part, held);
        Charge { part, bytes: reach.bytes, serial: held.serial }
    }

    /// Whether the part of a charge is still the one that was charged.
    pub(crate) fn has(&self, charge: &Charge) -> bool {
        self.parts.get(&charge.part).is_some_and(|held| held.serial == charge.serial)
    }

    /// Takes the charge of a write back that left no bytes.
    pub(crate) fn take_back(&mut self, charge: &Charge) {
        let Some(held) = self.parts.get(&charge.part).filter(|held| held.serial == charge.serial) else {
            return;
        };
        let bytes = held.reach.bytes.saturating_sub(charge.bytes);
        let held = Held { reach: Reach { bytes, ..held.reach }, told: Told::News, ..*held };
        match bytes {
            0 => self.remove(&charge.part),
            _ => self.put(charge.part, held),
        }
    }

    /// Takes over a part as another server tells it; one that costs nothing is forgotten.
    pub(crate) fn hear(&mut self, part: Part, reach: Reach, paid: u64, is_left: bool, heard: Nanos) {
        self.serial += 1;
        let held = Held { reach, paid, is_left, heard, told: Told::Heard, serial: self.serial };
        match held.cost() {
            0 => self.remove(&part),
            _ => self.put(part, held),
        }
    }

    /// The bytes of a user in a file: those of now, and those that are left once the objects are paid for up to `paid`.
    pub(crate) fn left_of(&self, ino: Ino, uid: u32, paid: impl Fn(TargetId) -> u64) -> (u64, u64) {
        let own = self.parts.range(of_file(ino)).filter(|(part, _)| part.uid == uid);
        own.fold((0, 0), |(now, then), (part, held)| {
            (now + held.cost(), then + held.reach.behind(paid(part.place).max(held.paid)))
        })
    }

    /// The objects of a file are paid for as `paid` says, which has no answer for places that are not of the file.
    pub(crate) fn settle(&mut self, ino: Ino, paid: impl Fn(TargetId) -> Option<u64>) {
        self.each_of(ino, |part, held| Some(Held { paid: paid(part.place)?, ..held }));
    }

    /// One object is paid for up to `paid`.
    pub(crate) fn settle_object(&mut self, ino: Ino, place: TargetId, paid: u64) {
        self.each_of(ino, |part, held| match part.place == place {
            true => Some(Held { paid, ..held }),
            false => Some(held),
        });
    }

    /// No object of the file has unpaid bytes any more.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.each_of(ino, |_, _| None);
    }

    /// The object has no unpaid bytes any more.
    pub(crate) fn forget_object(&mut self, ino: Ino, place: TargetId) {
        self.each_of(ino, |part, held| (part.place != place).then_some(held));
    }

    /// Forgets parts on other servers than `own` that were not heard of since `since`: the servers tell of them again and again.
    pub(crate) fn expire(&mut self, own: ServerId, since: Nanos) {
        let is_over = |part: &Part, held: &Held| part.place.server != own && held.heard < since;
        let over: Vec<Part> =
            self.parts.iter().filter(|(part, held)| is_over(part, held)).map(|(part, _)| *part).collect();
        for part in over {
            self.remove(&part);
        }
    }

    /// Notes which parts on targets of `own` were left by their clients; `is_here` says whether a client is still here.
    pub(crate) fn note_left(&mut self, own: ServerId, is_here: impl Fn(ClientId) -> bool) {
        let is_news =
            |part: &Part, held: &Held| part.place.server == own && !held.is_left && !is_here(part.client);
        let left = self.parts.iter().filter(|(part, held)| is_news(part, held));
        let left: Vec<(Part, Held)> = left.map(|(part, held)| (*part, *held)).collect();
        for (part, held) in left {
            self.put(part, Held { is_left: true, told: Told::News, ..held });
        }
    }

    /// Whether a part of the object reaches as far as `end`.
    pub(crate) fn reaches(&self, ino: Ino, place: TargetId, end: u64) -> bool {
        self.parts.range(of_file(ino)).any(|(part, held)| part.place == place && held.reach.end >= end)
    }

    /// Every file with parts, each once, and whether one of its parts was left.
    pub(crate) fn files(&self) -> Vec<(Ino, bool)> {
        let mut files: Vec<(Ino, bool)> = Vec::new();
        for (part, held) in &self.parts {
            match files.last_mut() {
                Some((ino, is_left)) if *ino == part.ino => *is_left |= held.is_left,
                _ => files.push((part.ino, held.is_left)),
            }
        }
        files
    }

    /// The parts of files with this home.
    pub(crate) fn of_home(&self, home: ServerId) -> impl Iterator<Item = (&Part, &Held)> {
        self.parts.range(of_home(home))
    }

    /// Notes that a home is told of these parts at `now`.
    pub(crate) fn note_told(&mut self, told: &[Part], now: Nanos) {
        self.each(told, |held| Held {
            told: if held.is_news() { Told::UnderWay } else { held.told },
            heard: now,
            ..held
        });
    }

    /// The home counts these parts, but for those that changed since it was told.
    pub(crate) fn note_heard(&mut self, told: &[Part]) {
        self.each(told, |held| Held { told: if held.is_news() { Told::News } else { Told::Heard }, ..held });
    }

    /// The home was not reached: these parts are news to it.
    pub(crate) fn note_unheard(&mut self, told: &[Part]) {
        self.each(told, |held| Held { told: Told::News, ..held });
    }

    /// The homes of the files with parts, each once.
    pub(crate) fn homes(&self) -> Vec<ServerId> {
        let mut homes: Vec<ServerId> = self.parts.keys().map(|part| part.ino.home()).collect();
        homes.dedup();
        homes
    }

    /// The homes that have not heard of all parts of a user.
    pub(crate) fn homes_to_hear(&self, uid: u32) -> Vec<ServerId> {
        let news = self.parts.iter().filter(|(part, held)| part.uid == uid && held.is_news());
        let mut homes: Vec<ServerId> = news.map(|(part, _)| part.ino.home()).collect();
        homes.dedup();
        homes
    }

    fn each_of(&mut self, ino: Ino, change: impl Fn(&Part, Held) -> Option<Held>) {
        if self.parts.is_empty() {
            return;
        }
        let parts: Vec<(Part, Held)> =
            self.parts.range(of_file(ino)).map(|(part, held)| (*part, *held)).collect();
        for (part, held) in parts {
            match change(&part, held).filter(|held| held.cost() > 0) {
                Some(held) => self.put(part, held),
                None => self.remove(&part),
            }
        }
    }

    fn each(&mut self, parts: &[Part], change: impl Fn(Held) -> Held) {
        for part in parts {
            if let Some(held) = self.parts.get(part).copied() {
                self.put(*part, change(held));
            }
        }
    }

    fn put(&mut self, part: Part, held: Held) {
        let before = self.parts.insert(part, held);
        let share = self.users.entry(part.uid).or_default();
        share.parts += usize::from(before.is_none());
        let (cost, untold) = before.map_or((0, 0), |before| (before.cost(), before.untold()));
        share.bytes = share.bytes - cost + held.cost();
        share.untold = share.untold - untold + held.untold();
    }

    fn remove(&mut self, part: &Part) {
        let Some(held) = self.parts.remove(part) else { return };
        if let Some(share) = self.users.get_mut(&part.uid) {
            share.bytes -= held.cost();
            share.untold -= held.untold();
            share.parts -= 1;
            if share.parts == 0 {
                self.users.remove(&part.uid);
            }
        }
    }
}

/// The parts of a file, in their order.
fn of_file(ino: Ino) -> RangeInclusive<Part> {
    of_inos(ino, ino)
}

/// The parts of the files of a home: the upper bits of a file's number name its home.
fn of_home(home: ServerId) -> RangeInclusive<Part> {
    let first = Ino::new(home, 0);
    let last = Ino::new(ServerId(home.0 + 1), 0);
    of_inos(first, Ino(last.0 - 1))
}

fn of_inos(first: Ino, last: Ino) -> RangeInclusive<Part> {
    let lowest = TargetId { server: ServerId(0), index: 0 };
    let highest = TargetId { server: ServerId(u16::MAX), index: u16::MAX };
    Part { ino: first, place: lowest, uid: 0, client: ClientId(0) }..=Part {
        ino: last,
        place: highest,
        uid: u32::MAX,
        client: ClientId(u64::MAX),
    }
}

fn pages_up(end: u64) -> u64 {
    end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

fn pages_down(offset: u64) -> u64 {
    offset - offset % PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use weir_testing::Choices;

    const HOME: ServerId = ServerId(0);

    fn part(number: u64) -> Part {
        let place = TargetId { server: HOME, index: (number / 3 % 2) as u16 };
        Part {
            ino: Ino::new(HOME, 7 + number % 3),
            place,
            uid: 1000 + (number / 6 % 2) as u32,
            client: ClientId(number / 12 % 2),
        }
    }

    /// Each page that a part touched behind the paid end, by a model that knows them all.
    #[derive(Default)]
    struct Model {
        pages: HashMap<Part, HashSet<u64>>,
        paid: HashMap<(Ino, TargetId), u64>,
    }

    impl Model {
        fn of(&self, uid: u32) -> u64 {
            let own = self.pages.iter().filter(|(part, _)| part.uid == uid);
            let behind = |(part, pages): (&Part, &HashSet<u64>)| {
                let paid = self.paid.get(&(part.ino, part.place)).copied().unwrap_or(0) / PAGE_BYTES;
                pages.iter().filter(|page| **page >= paid).count() as u64 * PAGE_BYTES
            };
            own.map(behind).sum()
        }
    }

    /// The account never has less than the bytes that are there, its sums are those of its parts, and nothing stays of what is paid.
    #[test]
    fn the_account_covers_every_page_that_a_model_knows() {
        let mut choices = Choices::new();
        for _ in 0..200 {
            let (mut account, mut model) = (Unpublished::default(), Model::default());
            for _ in 0..60 {
                let part = part(choices.below(24));
                let object = (part.ino, part.place);
                let paid = model.paid.get(&object).copied().unwrap_or(0);
                match choices.below(6) {
                    0 => {
                        let paid = paid.max(choices.below(40) * PAGE_BYTES);
                        model.paid.insert(object, paid);
                        account.settle_object(part.ino, part.place, paid);
                    }
                    1 => {
                        account.forget_object(part.ino, part.place);
                        model.pages.retain(|other, _| (other.ino, other.place) != object);
                    }
                    _ => {
                        let (offset, length) =
                            (choices.below(40 * PAGE_BYTES), 1 + choices.below(5 * PAGE_BYTES));
                        let reach = Reach::of([(offset, length)]);
                        if reach.end <= paid {
                            continue;
                        }
                        let (before, growth) = (account.of(part.uid), account.growth(&part, reach, paid));
                        let charge = account.add(part, reach, paid);
                        assert_eq!(Some(account.of(part.uid) - before), growth);
                        if choices.below(4) == 0 {
                            account.take_back(&charge);
                        } else {
                            let pages = offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES);
                            model.pages.entry(part).or_default().extend(pages);
                        }
                    }
                }
                for uid in [1000, 1001] {
                    let costs = account.parts.iter().filter(|(part, _)| part.uid == uid);
                    assert_eq!(account.of(uid), costs.map(|(_, held)| held.cost()).sum::<u64>());
                    assert!(account.of(uid) >= model.of(uid), "{} of {}", account.of(uid), model.of(uid));
                }
            }
            for sequence in 7..10 {
                account.settle(Ino::new(HOME, sequence), |_| Some(1 << 40));
            }
            assert!(account.is_empty() && account.users.is_empty());
        }
    }

    #[test]
    fn a_part_costs_no_more_than_its_object_can_have() {
        let mut account = Unpublished::default();
        for _ in 0..10 {
            account.add(part(0), Reach::of([(0, 3 * PAGE_BYTES)]), PAGE_BYTES);
        }
        assert_eq!(account.of(1000), 2 * PAGE_BYTES);
        assert_eq!(account.growth(&part(0), Reach::of([(3 * PAGE_BYTES, 1)]), PAGE_BYTES), Some(PAGE_BYTES));
        account.settle(part(0).ino, |_| None);
        assert!(account.is_empty());
    }

    #[test]
    fn one_user_has_half_of_the_parts_and_another_finds_room() {
        let mut account = Unpublished::default();
        let of = |uid: u32, number: u64| Part { ino: Ino::new(HOME, number), uid, ..part(0) };
        let one_page = Reach::of([(0, 1)]);
        let fill = |account: &mut Unpublished, uid: u32| {
            (0..)
                .take_while(|number| {
                    let has_room = account.growth(&of(uid, *number), one_page, 0).is_some();
                    if has_room {
                        account.add(of(uid, *number), one_page, 0);
                    }
                    has_room
                })
                .count()
        };
        assert_eq!((fill(&mut account, 1), fill(&mut account, 2)), (PARTS_MAX / 2, PARTS_MAX / 4));
        assert!(account.growth(&of(3, 0), one_page, 0).is_some());
    }

    /// A home is told once of each change, and again if it was not reached; meanwhile the bytes count here.
    #[test]
    fn bytes_count_here_until_the_home_has_heard_of_them() {
        let mut account = Unpublished::default();
        let (part, page) = (part(0), Reach::of([(0, 1)]));
        account.add(part, page, 0);
        assert_eq!((account.untold_of(1000), account.homes_to_hear(1000)), (PAGE_BYTES, vec![HOME]));
        account.note_told(&[part], Nanos(1));
        assert_eq!((account.untold_of(1000), account.homes_to_hear(1000)), (PAGE_BYTES, vec![]));
        account.note_unheard(&[part]);
        assert_eq!(account.homes_to_hear(1000), [HOME]);
        account.note_told(&[part], Nanos(2));
        account.note_heard(&[part]);
        assert_eq!((account.untold_of(1000), account.of(1000)), (0, PAGE_BYTES));
        account.note_left(HOME, |_| false);
        assert_eq!(account.files(), [(part.ino, true)]);
        assert_eq!(account.untold_of(1000), PAGE_BYTES, "that its client is gone is news");
    }
}
