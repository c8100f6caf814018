//! Requests in hand, and everything that they wait for.
//!
//! A request goes through its stages in this order: it is read, awaits the payload that is still in its socket, is queued
//! at its device, receives that payload, is carried out, waits for the emulated device, and is answered. A request that
//! never waits behind others is carried out as soon as it is read. The step or the list that has the [`Token`] of a request takes it on;
//! between two steps the token is parked here with its [`Stage`], and the event that the stage waits for claims it.
//!
//! A step that ends the wait of another request does not take that request on itself: it puts the request into the list of
//! those that go on, and the turn of the loop takes up that list. So no step calls back into an earlier one.

pub(crate) mod arrival;
pub(crate) mod continuation;
pub(crate) mod devices;
pub(crate) mod failed_syncs;
pub(crate) mod objects;
pub(crate) mod order;
pub(crate) mod pages;
pub(crate) mod ranges;
pub(crate) mod recalls;
pub(crate) mod request;
pub(crate) mod room;
pub(crate) mod service;
pub(crate) mod turns;

use crate::namespace::{errno, Appender, IntentId};
use crate::notices::warning;
use arrival::ARRIVAL_WAIT;
use continuation::{Continued, Woken};
use devices::Devices;
use failed_syncs::FailedSyncs;
use pages::{Pages, Then};
use request::{Drops, InHand, Outcome, Stage, Step, Token};
use room::Room;
use slab::Slab;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::{Index, IndexMut};
use turns::Turns;
use weir_fairshare::Nanos;
use weir_wire::{ClientId, Errno, Request, RequestId};

/// How long a request waits for an intent to be settled: long enough for a server that is restarted at once.
const SETTLEMENT_WAIT: Nanos = Nanos::from_millis(10_000);

/// The requests in hand.
pub(crate) struct Requests {
    in_hand: Slab<InHand>,
    devices: Devices,
    pages: Pages,
    /// Requests whose payload is awaited or received, each marked as listed here.
    receiving: HashSet<usize>,
    /// Requests of slow senders, by the moment from which they are queued with the bytes that have come.
    slow_senders: VecDeque<(Nanos, usize)>,
    /// Requests that wait for the settlement of an intent, each since when.
    continued: HashMap<IntentId, Vec<(Nanos, Continued)>>,
    /// Requests that wait for an intent or another server, and the resends of each that get the same answer.
    unfinished: HashMap<(ClientId, RequestId), usize>,
    followers: HashMap<usize, Vec<Token>>,
    /// Requests that wait for a lock or an append turn.
    waiting: HashMap<(ClientId, RequestId), Token>,
    /// Append turns that others wait for.
    turns: Turns,
    /// Writes that wait for room on their target.
    room: Room,
    /// New files that wait for room on any target.
    vacancy: Room,
    failed_syncs: FailedSyncs,
    /// Requests that wait no longer.
    woken: VecDeque<Woken>,
    /// Changes that wait until the journal's device has caught up.
    held_back: Vec<Continued>,
    /// Requests that were not in the stage in which an event looked for them.
    lost: u64,
}

impl Index<&Token> for Requests {
    type Output = InHand;

    fn index(&self, token: &Token) -> &InHand {
        &self.in_hand[token.0]
    }
}

impl IndexMut<&Token> for Requests {
    fn index_mut(&mut self, token: &Token) -> &mut InHand {
        &mut self.in_hand[token.0]
    }
}

impl Requests {
    /// No request is in hand yet.
    pub(crate) fn new(devices: Devices) -> Requests {
        Requests {
            in_hand: Slab::new(),
            devices,
            pages: Pages::default(),
            receiving: HashSet::new(),
            slow_senders: VecDeque::new(),
            continued: HashMap::new(),
            unfinished: HashMap::new(),
            followers: HashMap::new(),
            waiting: HashMap::new(),
            turns: Turns::default(),
            room: Room::default(),
            vacancy: Room::default(),
            failed_syncs: FailedSyncs::default(),
            woken: VecDeque::new(),
            held_back: Vec::new(),
            lost: 0,
        }
    }

    /// Takes a request in hand.
    pub(crate) fn insert(&mut self, request: InHand) -> Token {
        Token(self.in_hand.insert(request))
    }

    /// Ends a request.
    pub(crate) fn remove(&mut self, token: Token) -> InHand {
        let request = self.in_hand.remove(token.0);
        if request.is_listed {
            self.receiving.remove(&token.0);
        }
        request
    }

    /// The number of requests in hand.
    pub(crate) fn len(&self) -> usize {
        self.in_hand.len()
    }

    /// All requests in hand.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &InHand> {
        self.in_hand.iter().map(|(_, request)| request)
    }

    /// The request of this number, which may have ended.
    pub(crate) fn get(&self, number: usize) -> Option<&InHand> {
        self.in_hand.get(number)
    }

    /// Leaves a request in a stage, until the event that the stage waits for claims it.
    pub(crate) fn park(&mut self, token: Token, stage: Stage) {
        let request = &mut self.in_hand[token.0];
        let is_starved = matches!(stage, Stage::Awaiting | Stage::Receiving);
        request.stage = stage;
        if is_starved && !request.is_listed {
            self.receiving.insert(token.0);
        } else if !is_starved && request.is_listed {
            self.receiving.remove(&token.0);
        }
        request.is_listed = is_starved;
    }

    /// Claims a request that awaits payload, if it does.
    fn claim_awaiting(&mut self, number: usize) -> Option<Token> {
        self.claim_if(number, |request| matches!(request.stage, Stage::Awaiting))
    }

    /// Claims a request that receives payload, if it does.
    pub(crate) fn claim_receiving(&mut self, number: usize) -> Option<Token> {
        self.claim_if(number, |request| matches!(request.stage, Stage::Receiving))
    }

    /// Claims a request that has its turn at its device. A request that is not queued is lost: that is counted, and said.
    fn claim_queued(&mut self, number: usize) -> Option<Token> {
        let claimed = self.claim_if(number, |request| matches!(request.stage, Stage::Queued));
        if claimed.is_none() {
            self.count_lost(number, "a device has its turn for it, and it is not queued");
        }
        claimed
    }

    /// Claims a request after the word about its capability, unless its link closed meanwhile.
    pub(crate) fn claim_unconfirmed(
        &mut self,
        number: usize,
        is_it: impl Fn(&InHand) -> bool,
    ) -> Option<Token> {
        self.claim_if(number, |request| matches!(request.stage, Stage::Unconfirmed) && is_it(request))
    }

    fn claim_if(&mut self, number: usize, is_it: impl Fn(&InHand) -> bool) -> Option<Token> {
        let request = self.in_hand.get_mut(number).filter(|request| is_it(request))?;
        request.stage = Stage::Held;
        Some(Token(number))
    }

    /// Marks a request as without a link. Answers its token where the request waits here and may be ended at once, with
    /// the stage that it waited in. Any other is carried out all the same, and a resend waits for its end. Bytes that are
    /// read go with their reply alone, so a resend reads them again.
    fn abandon(&mut self, number: usize) -> Option<(Token, Stage)> {
        let request = self.in_hand.get_mut(number)?;
        request.is_abandoned = true;
        match request.stage {
            Stage::Queued | Stage::Unconfirmed | Stage::Awaiting | Stage::Receiving => {
                Some((Token(number), std::mem::replace(&mut request.stage, Stage::Held)))
            }
            Stage::Held | Stage::Ready | Stage::Finished(_) => {
                if !matches!(request.request, Request::Read { .. }) {
                    self.unfinished.entry(request.key()).or_insert(number);
                }
                None
            }
        }
    }

    /// A request is nowhere to be found: an error of this program, which is counted and said at every doubling.
    fn count_lost(&mut self, number: usize, how: &str) {
        self.lost += 1;
        if self.lost.is_power_of_two() {
            warning!("request {number} is lost: {how} ({} since the start); hint: report this", self.lost);
        }
    }

    /// The request awaits payload whose first bytes came at `now`: after a while it is queued with the bytes that have come.
    fn note_slow_sender(&mut self, number: usize, now: Nanos) {
        self.slow_senders.push_back((now + ARRIVAL_WAIT, number));
    }

    /// The moment at which the next slow sender's request is queued.
    pub(crate) fn next_slow_sender(&self) -> Option<Nanos> {
        self.slow_senders.front().map(|&(due, _)| due)
    }

    /// The number of the next slow sender's request. It may be another request's by now, which looks once more than it need.
    pub(crate) fn take_slow_sender(&mut self, now: Nanos) -> Option<usize> {
        let &(due, number) = self.slow_senders.front()?;
        if due > now {
            return None;
        }
        self.slow_senders.pop_front();
        Some(number)
    }

    /// Links of senders that have been silent for too long in the midst of a payload.
    pub(crate) fn stalled_links(&self, now: Nanos) -> Vec<usize> {
        let requests = self.receiving.iter().filter_map(|&number| self.in_hand.get(number));
        requests
            .filter(|request| request.arrival.is_stalled(now))
            .map(|request| request.sender.link.index)
            .collect()
    }

    /// Notes that a request waits for an intent or another server: a resend of it joins it.
    pub(crate) fn note_unfinished(&mut self, token: &Token) {
        self.unfinished.insert(self[token].key(), token.0);
    }

    /// The request that this one is a resend of, where that one waits.
    pub(crate) fn first_of(&self, token: &Token) -> Option<usize> {
        self.unfinished.get(&self[token].key()).copied().filter(|&first| first != token.0)
    }

    /// Gives a resend the answer of the request that it repeats.
    pub(crate) fn follow_first(&mut self, first: usize, token: Token) {
        self.followers.entry(first).or_default().push(token);
    }

    /// The resends that get the answer of this request, which waits no longer.
    pub(crate) fn end_unfinished(&mut self, token: &Token) -> Vec<Token> {
        if self.unfinished.is_empty() {
            return Vec::new();
        }
        let key = self[token].key();
        if self.unfinished.get(&key) == Some(&token.0) {
            self.unfinished.remove(&key);
        }
        self.followers.remove(&token.0).unwrap_or_default()
    }

    /// Keeps a request until its intent is settled.
    pub(crate) fn continue_after(&mut self, intent: IntentId, since: Nanos, continued: Continued) {
        self.continued.entry(intent).or_default().push((since, continued));
    }

    /// The requests that wait for an intent, which is settled.
    pub(crate) fn take_continued(&mut self, intent: IntentId) -> impl Iterator<Item = Continued> {
        self.continued.remove(&intent).unwrap_or_default().into_iter().map(|(_, continued)| continued)
    }

    /// The requests that wait for these intents go on.
    pub(crate) fn go_on_after(&mut self, settled: impl Iterator<Item = IntentId>) {
        for intent in settled {
            let continued = self.continued.remove(&intent).unwrap_or_default();
            self.woken.extend(continued.into_iter().map(|(_, continued)| Woken::Continued(continued)));
        }
    }

    /// Answers EIO to requests that have waited longer than [`SETTLEMENT_WAIT`] for an intent, because a server is lost. The
    /// intent stays, and is settled when the server is back.
    pub(crate) fn expire_continued(&mut self, now: Nanos) {
        for waiting in self.continued.values_mut() {
            let is_overdue = |since: Nanos| now.saturating_since(since) > SETTLEMENT_WAIT;
            let overdue = waiting.extract_if(.., |(since, _)| is_overdue(*since));
            self.woken.extend(overdue.map(|(_, continued)| Woken::failed(continued.into_token())));
        }
    }

    /// Keeps a request until its lock or its append turn comes. It takes the place of an earlier send of it.
    pub(crate) fn wait_for_turn(&mut self, token: Token) -> Step {
        let key = self[&token].key();
        if let Some(earlier) = self.waiting.insert(key, token) {
            self.wake_done(earlier, Outcome::failed(errno::EAGAIN));
        }
        Step::Away
    }

    /// The request that waits for a lock or an append turn by this name.
    pub(crate) fn take_waiting(&mut self, client: ClientId, request: RequestId) -> Option<Token> {
        self.waiting.remove(&(client, request))
    }

    /// The request of an append that waits for its turn.
    pub(crate) fn take_appender(&mut self, appender: Appender) -> Option<Token> {
        self.take_waiting(appender.client, appender.request)
    }

    /// All requests of a client that wait for a lock, an append turn, or room for a new file.
    pub(crate) fn take_waiting_of(&mut self, client: ClientId) -> Vec<Token> {
        let in_hand = &self.in_hand;
        let is_of =
            |number: usize| in_hand.get(number).is_some_and(|request| request.sender.client == client);
        let waiting = self.waiting.extract_if(|(of, _), _| *of == client);
        waiting.map(|(_, token)| token).chain(self.vacancy.take_of(is_of)).collect()
    }

    /// The append turns that others wait for.
    pub(crate) fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// The writes that wait for room.
    pub(crate) fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    /// Objects of which a sync failed.
    pub(crate) fn failed_syncs(&mut self) -> &mut FailedSyncs {
        &mut self.failed_syncs
    }

    /// Whether new files wait for room on any target.
    pub(crate) fn awaits_vacancy(&self) -> bool {
        self.vacancy.is_awaited()
    }

    /// The new files that wait for room on any target.
    pub(crate) fn vacancy(&mut self) -> &mut Room {
        &mut self.vacancy
    }

    /// Requests that wait for room go on, as `next` says; the last time they are refused where they find none.
    pub(crate) fn try_again(&mut self, tokens: Vec<Token>, is_last: bool, next: fn(Token) -> Woken) {
        for token in tokens {
            if is_last {
                self[&token].try_last();
            }
            self.wake(next(token));
        }
    }

    /// The kernel pages of mounts.
    pub(crate) fn pages(&mut self) -> &mut Pages {
        &mut self.pages
    }

    /// The kernel pages of mounts, to look at.
    pub(crate) fn pages_here(&self) -> &Pages {
        &self.pages
    }

    /// Keeps a request until every watcher has dropped its pages, or its time is over.
    pub(crate) fn hold_for_pages(&mut self, token: Token, then: Then, drops: Drops, now: Nanos) {
        for (poll, outcome) in self.pages.hold(token, then, drops, now) {
            self.wake_done(poll, outcome);
        }
    }

    /// Requests go on that wait for no more pages, or have waited for too long.
    pub(crate) fn release_pages(&mut self, now: Nanos) {
        let released = self.pages.release(now);
        self.woken.extend(released);
    }

    /// Keeps a change until the journal's device has caught up.
    pub(crate) fn hold_back(&mut self, change: Continued) {
        self.held_back.push(change);
    }

    /// Whether changes wait for the journal's device.
    pub(crate) fn has_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// The changes that waited for the journal's device go on.
    pub(crate) fn go_on_held_back(&mut self) {
        self.woken.extend(self.held_back.drain(..).map(Woken::Continued));
    }

    /// Puts a request into the list of those that go on.
    pub(crate) fn wake(&mut self, woken: Woken) {
        self.woken.push_back(woken);
    }

    /// Answers a request as the list of those that go on is taken up.
    pub(crate) fn wake_done(&mut self, token: Token, outcome: Outcome) {
        self.wake(Woken::Step(Step::Done(token, outcome)));
    }

    /// Requests failed while they waited.
    pub(crate) fn wake_failed(&mut self, tokens: Vec<Token>, errno: Errno) {
        for token in tokens {
            self.wake_done(token, Outcome::failed(errno));
        }
    }

    /// The next request that goes on.
    pub(crate) fn take_woken(&mut self) -> Option<Woken> {
        self.woken.pop_front()
    }

    /// Whether a request goes on as soon as the list of them is taken up.
    pub(crate) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::ClusterConfig;
    use crate::links::connection::Frame;
    use crate::links::link::{Acting, LinkKey};
    use request::Sender;
    use std::rc::Rc;
    use weir_placement::{ServerId, TargetId};
    use weir_wire::{
        Description, Fence, HandleId, Header, Identity, IdentityId, Ino, JobId, Kind, Rights, SiteKey,
    };

    /// The requests of a server with one target, of which none is in hand.
    pub(super) fn none() -> Requests {
        let file = "version = 1\n[[server]]\n[[server.target]]\nbackend = \"ram\"\ncapacity = \"1MiB\"\n";
        let config: ClusterConfig = toml::from_str(file).unwrap();
        Requests::new(Devices::new(&config.servers[0], config.sharing().unwrap(), 1))
    }

    fn request(client: u64, id: u64) -> InHand {
        in_hand(client, id, Request::Ping)
    }

    /// A client of a user, on a link.
    pub(super) fn sender(link: LinkKey, client: u64) -> Sender {
        let job = JobId(1);
        let acting = Acting {
            who: Identity { uid: 1, gid: 1, groups: Vec::new() },
            job,
            attributes: weir_wire::job_attributes(job, ("a", "b", "c"), 1, 1),
            account: None,
            trusted: false,
            expires_seconds: 0,
        };
        Sender { link, client: ClientId(client), acting: Rc::new(acting), session_job: job }
    }

    fn in_hand(client: u64, id: u64, message: Request) -> InHand {
        let sender = sender(LinkKey { index: 0, serial: 1 }, client);
        let header = Header {
            kind: Kind::Request,
            body_bytes: 0,
            payload_bytes: 0,
            identity: IdentityId(0),
            request: RequestId(id),
            acknowledged: RequestId(0),
        };
        let frame = Frame { header, body: Vec::new(), payload: Vec::new(), detached_bytes: 0 };
        InHand::new(sender, 0, frame, message, Nanos::ZERO)
    }

    fn read(client: u64, id: u64) -> InHand {
        let of = Description { ino: Ino::ROOT, handle: HandleId(1), uid: 1 };
        let rights = Rights { read: true, write: false };
        let capability = SiteKey::new([1; 32]).capability(of, rights, 0);
        let target = TargetId { server: ServerId(0), index: 0 };
        let (fence, extents) = (Fence::NONE, Vec::new());
        in_hand(client, id, Request::Read { capability, target, epoch: 0, fence, extents })
    }

    /// A device's turn for a request that was not there once ended silently, and the slot stayed taken.
    #[test]
    fn a_request_is_claimed_once_from_its_stage_and_a_lost_one_is_counted() {
        let mut requests = none();
        let token = requests.insert(request(1, 1));
        let number = token.number();
        requests.park(token, Stage::Queued);
        assert_eq!((requests.claim_receiving(number), requests.lost), (None, 0));
        let token = requests.claim_queued(number).expect("it is queued");
        assert_eq!((requests.claim_queued(number), requests.lost), (None, 1));
        requests.remove(token);
        assert_eq!((requests.claim_queued(number), requests.lost), (None, 2));
        assert_eq!(requests.len(), 0);
    }

    #[test]
    fn a_request_that_lost_its_link_ends_at_once_unless_a_step_has_it() {
        let mut requests = none();
        let (waiting, held) = (requests.insert(request(1, 1)), requests.insert(request(1, 2)));
        let number = waiting.number();
        requests.park(waiting, Stage::Awaiting);
        assert_eq!(requests.stalled_links(Nanos(u64::MAX)), [0]);
        let (token, stage) = requests.abandon(number).expect("it waits here");
        assert!(matches!(stage, Stage::Awaiting) && requests[&token].is_abandoned());
        requests.remove(token);
        assert!(requests.stalled_links(Nanos(u64::MAX)).is_empty(), "its number may be another request's");
        assert!(requests.abandon(held.number()).is_none());
        assert!(requests[&held].is_abandoned());
    }

    /// The reply of a read has its bytes, which are sent once.
    #[test]
    fn a_resend_waits_for_an_abandoned_request_and_reads_again() {
        let mut requests = none();
        let (change, bytes) = (requests.insert(request(1, 7)), requests.insert(read(1, 8)));
        for token in [&change, &bytes] {
            assert!(requests.abandon(token.number()).is_none(), "a step has it");
        }
        let (change_again, bytes_again) = (requests.insert(request(1, 7)), requests.insert(read(1, 8)));
        assert_eq!(requests.first_of(&change_again), Some(change.number()));
        assert_eq!(requests.first_of(&bytes_again), None);
    }

    #[test]
    fn resends_get_the_answer_of_the_request_that_waits() {
        let mut requests = none();
        let (first, other) = (requests.insert(request(1, 7)), requests.insert(request(2, 7)));
        requests.note_unfinished(&first);
        let resend = requests.insert(request(1, 7));
        assert_eq!((requests.first_of(&first), requests.first_of(&other)), (None, None));
        let joined = requests.first_of(&resend).expect("the first waits");
        requests.follow_first(joined, resend);
        assert!(requests.end_unfinished(&other).is_empty());
        assert_eq!(requests.end_unfinished(&first).len(), 1);
        assert!(requests.end_unfinished(&first).is_empty());
    }
}
