//! Objects here of files with other homes: how far each is paid for, and the bytes behind that, of which the homes are told.
//!
//! Only the home knows the size of a file. So a target takes the paid end that the home told last, which is too low at most: the
//! home has every object cut before a file shrinks. Bytes behind that end are charged to their writer here until the home, which is told
//! within an interval, says that they are paid for, or counts them itself.

use super::confirmations::Waiting;
use super::line::Answer;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::unpublished::{Charge, Held, Part, Reach, Unpublished};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{limits, ClientId, HeldObject, Ino, PaidObject, PeerReply};

/// How long a home may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Parts are told again so often: homes forget parts that nobody tells of.
const TOLD_AGAIN: Nanos = Nanos::from_millis(1_000);
/// Objects whose paid ends are remembered, in 32 MiB. At the limit all are asked for again.
const PAID: usize = 1 << 20;
/// Objects to ask about that are kept: as many as the requests of all connections.
const ASKED: usize = 65_536;

/// An object of a file with another home.
type Object = (Ino, TargetId);

/// The objects here of files with other homes.
#[derive(Default)]
pub(crate) struct ObjectsElsewhere {
    paid: HashMap<Object, u64>,
    held: Unpublished,
    /// Objects whose paid ends are to be asked for, with the user whose use is, and those that an earlier start left here, with their lengths.
    asked: BTreeMap<Object, u32>,
    found: HashMap<ServerId, Vec<(Object, u64)>>,
    telling: HashSet<ServerId>,
    /// The start of each home that reported last.
    starts: HashMap<ServerId, u64>,
    waiting: Vec<Unsettled>,
}

/// A request over its user's limit, as far as this server knows.
struct Unsettled {
    waiting: Waiting,
    /// The homes whose word may make room.
    homes: BTreeSet<ServerId>,
    since: Nanos,
}

/// News for a home: objects, each with the epoch that it has here.
pub(crate) struct News {
    pub(crate) objects: Vec<HeldObject>,
    pub(crate) epochs: Vec<u64>,
    parts: Vec<Part>,
    /// The first of the objects that an earlier start left: they are the last ones.
    first_found: usize,
}

/// An object whose bytes go, because its file is gone, or has no object there.
pub(crate) enum Stray {
    Gone(Ino, TargetId),
    /// Unless the home raised the epoch since.
    Nowhere(Ino, TargetId, u64),
}

impl ObjectsElsewhere {
    /// The end up to which an object is paid for, as far as is known here.
    pub(crate) fn paid(&self, ino: Ino, place: TargetId) -> u64 {
        self.paid.get(&(ino, place)).copied().unwrap_or(0)
    }

    /// Whether a home is being told.
    pub(crate) fn is_telling(&self, home: ServerId) -> bool {
        self.telling.contains(&home)
    }

    /// Bytes of a user here.
    pub(crate) fn held_of(&self, uid: u32) -> u64 {
        self.held.of(uid)
    }

    /// Bytes of a user here that homes do not count yet.
    pub(crate) fn untold_of(&self, uid: u32) -> u64 {
        self.held.untold_of(uid)
    }

    /// Bytes of all users on targets of `own`, this server, behind the paid ends of objects.
    pub(crate) fn held_bytes(&self, own: ServerId) -> u64 {
        self.held.bytes_on(own)
    }

    /// The bytes by which a write makes its part cost more; none where the user has too many parts.
    pub(crate) fn growth(&self, part: &Part, reach: Reach) -> Option<u64> {
        self.held.growth(part, reach, self.paid(part.ino, part.place))
    }

    /// Charges a write to its part.
    pub(crate) fn hold(&mut self, part: Part, reach: Reach) -> Charge {
        self.held.add(part, reach, self.paid(part.ino, part.place))
    }

    /// Takes the charge of a write back that left no bytes.
    pub(crate) fn take_back(&mut self, charge: &Charge) {
        self.held.take_back(charge);
    }

    /// Notes that a write is done. If its file was cut or removed since the write was charged, its bytes are news to the home.
    pub(crate) fn wrote(&mut self, part: Part, reach: Reach, charge: Option<&Charge>) {
        let is_known = charge.is_some_and(|charge| self.held.has(charge))
            || reach.end <= self.paid(part.ino, part.place);
        if !is_known {
            self.hold(part, reach);
        }
    }

    /// The home had an object cut to `length` under a new epoch: no bytes lie behind the end of the file.
    pub(crate) fn cut(&mut self, ino: Ino, place: TargetId, length: u64) {
        self.held.forget_object(ino, place);
        if let Some(paid) = self.paid.get_mut(&(ino, place)) {
            *paid = length.min(*paid);
        }
    }

    /// The home had an object removed.
    pub(crate) fn removed(&mut self, ino: Ino, place: TargetId) {
        self.held.forget_object(ino, place);
        self.paid.remove(&(ino, place));
    }

    /// Notes the start of a home that reports. Answers whether it is another one than before: what was published and not durable
    /// may be lost, and the paid ends of before are forgotten.
    pub(crate) fn note_start(&mut self, home: ServerId, boot: u64) -> bool {
        let is_another = self.starts.insert(home, boot).is_some_and(|before| before != boot);
        if is_another {
            self.paid.retain(|(ino, _), _| ino.home() != home);
        }
        is_another
    }

    /// Notes an object that an earlier start left here, with its length.
    pub(crate) fn note_found(&mut self, ino: Ino, place: TargetId, bytes: u64) {
        self.found.entry(ino.home()).or_default().push(((ino, place), bytes));
    }

    /// The number of such objects of which no home was told yet.
    pub(crate) fn found(&self) -> usize {
        self.found.values().map(Vec::len).sum()
    }

    /// Notes which parts were left by their clients.
    pub(crate) fn note_left(&mut self, own: ServerId, is_here: impl Fn(ClientId) -> bool) {
        self.held.note_left(own, is_here);
    }

    /// Holds a request over its user's limit until the homes have said what is paid for. Its own object is asked about, too.
    pub(crate) fn wait(&mut self, part: &Part, waiting: Waiting, now: Nanos) {
        if self.asked.len() < ASKED {
            self.asked.insert((part.ino, part.place), part.uid);
        }
        let homes = self.held.homes_to_hear(part.uid).into_iter().chain(self.telling.iter().copied());
        let homes = homes.chain([part.ino.home()]).collect();
        self.waiting.push(Unsettled { waiting, homes, since: now });
    }

    /// Requests that have waited too long for the word of a home.
    pub(crate) fn overdue(&mut self, now: Nanos) -> Vec<Waiting> {
        let is_over = |one: &mut Unsettled| now.saturating_since(one.since) > Nanos::from(PATIENCE);
        self.waiting.extract_if(.., is_over).map(|one| one.waiting).collect()
    }

    /// Homes that are to be told of something at `now`.
    pub(crate) fn homes_to_tell(&self) -> Vec<ServerId> {
        let asked = self.asked.keys().map(|(ino, _)| ino.home());
        let found = self.found.keys().copied();
        let homes: BTreeSet<ServerId> = self.held.homes().into_iter().chain(asked).chain(found).collect();
        homes.into_iter().collect()
    }

    /// The news for a home, if there are some and it is not being told. `epoch` knows the epochs of objects here.
    pub(crate) fn take_news(
        &mut self,
        home: ServerId,
        now: Nanos,
        epoch: impl Fn(Ino, TargetId) -> u64,
    ) -> Option<News> {
        if self.telling.contains(&home) {
            return None;
        }
        let is_due = |held: &Held| held.is_news() || now.saturating_since(held.heard) >= TOLD_AGAIN;
        let due = self.held.of_home(home).filter(|(_, held)| is_due(held)).take(limits::OBJECTS_HELD);
        let due: Vec<(Part, Held)> = due.map(|(part, held)| (*part, *held)).collect();
        let parts: Vec<Part> = due.iter().map(|(part, _)| *part).collect();
        self.held.note_told(&parts, now);
        let mut objects: Vec<HeldObject> = due.iter().map(|(part, held)| told_of(part, held)).collect();
        let asked = self.asked.iter().filter(|((ino, _), _)| ino.home() == home);
        let asked = asked.map(|(object, uid)| (*object, *uid)).take(limits::OBJECTS_HELD - objects.len());
        for (object, uid) in asked.collect::<Vec<_>>() {
            self.asked.remove(&object);
            #[cfg(any(test, feature = "world"))]
            let uid = if mutants::is(Mutant::UserUnasked) { 0 } else { uid };
            objects.push(HeldObject { uid, ..question_about(object, 0) });
        }
        let first_found = objects.len();
        if let Some(found) = self.found.get_mut(&home) {
            let rest = found.len().saturating_sub(limits::OBJECTS_HELD - objects.len());
            // A client of this start that wrote as far publishes the bytes, or leaves them.
            let left =
                found.drain(rest..).filter(|((ino, place), bytes)| !self.held.reaches(*ino, *place, *bytes));
            objects.extend(left.map(|(object, bytes)| question_about(object, bytes)));
        }
        self.found.retain(|_, found| !found.is_empty());
        if objects.is_empty() {
            return None;
        }
        self.telling.insert(home);
        let epochs = objects.iter().map(|object| epoch(object.ino, object.place)).collect();
        Some(News { objects, epochs, parts, first_found })
    }

    /// A home answered, or did not, and is told again then. Answers the objects whose bytes go.
    pub(crate) fn told(
        &mut self,
        home: ServerId,
        news: &News,
        answer: &Answer,
        present: impl Fn(Ino, TargetId) -> u64,
    ) -> Vec<Stray> {
        self.telling.remove(&home);
        let Ok((PeerReply::ObjectsPaid { objects, .. }, _)) = answer else {
            self.held.note_unheard(&news.parts);
            for object in &news.objects[news.first_found..] {
                self.note_found(object.ino, object.place, object.end);
            }
            return Vec::new();
        };
        self.held.note_heard(&news.parts);
        let mut strays = Vec::new();
        for ((object, paid), epoch) in news.objects.iter().zip(objects).zip(&news.epochs) {
            let HeldObject { ino, place, end, .. } = *object;
            match paid {
                // The home has cut the file since it answered.
                PaidObject::Bytes(_) if present(ino, place) != *epoch => {}
                PaidObject::Bytes(paid) => {
                    self.note_paid(ino, place, *paid);
                    if object.client == FOUND && end > *paid {
                        self.keep_found(object, *paid);
                    }
                }
                PaidObject::Gone => strays.push(Stray::Gone(ino, place)),
                PaidObject::Nowhere => strays.push(Stray::Nowhere(ino, place, *epoch)),
            }
        }
        for stray in &strays {
            let (Stray::Gone(ino, place) | Stray::Nowhere(ino, place, _)) = stray;
            self.removed(*ino, *place);
        }
        strays
    }

    /// The requests that wait for no further home, once `home` has nothing more to hear.
    pub(crate) fn take_settled(&mut self, home: ServerId) -> Vec<Waiting> {
        for one in &mut self.waiting {
            one.homes.remove(&home);
        }
        self.waiting.extract_if(.., |one| one.homes.is_empty()).map(|one| one.waiting).collect()
    }

    fn note_paid(&mut self, ino: Ino, place: TargetId, paid: u64) {
        self.held.settle_object(ino, place, paid);
        if self.paid.len() >= PAID {
            self.paid.clear();
        }
        self.paid.insert((ino, place), paid);
    }

    /// Bytes that an earlier start left behind the end of a file: its home is told of them until it has cut them off.
    fn keep_found(&mut self, object: &HeldObject, paid: u64) {
        let HeldObject { ino, place, uid, client, end, .. } = *object;
        self.held.hear(Part { ino, place, uid, client }, Reach::of([(0, end)]), paid, true, Nanos::ZERO);
    }
}

/// The client of objects that an earlier start left.
const FOUND: ClientId = ClientId(0);

fn told_of(part: &Part, held: &Held) -> HeldObject {
    let Part { ino, place, uid, client } = *part;
    HeldObject {
        ino,
        place,
        uid,
        client,
        end: held.reach.end,
        bytes: held.reach.bytes,
        is_left: held.is_left,
    }
}

fn question_about((ino, place): Object, end: u64) -> HeldObject {
    HeldObject { ino, place, uid: 0, client: FOUND, end, bytes: 0, is_left: end > 0 }
}
