//! The table against a naive model that knows the holders and the mode of each byte.

use super::*;
use proptest::prelude::*;

const FILES: usize = 2;
/// Bytes of the model; the last one stands for the end of any file.
const BYTES: usize = 8;

type Held = Vec<(Owner, [Option<Mode>; BYTES])>;

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        file: usize,
        client: u64,
        owner: u64,
        handle: u64,
        kind: LockKind,
        lock: LockType,
        bytes: (usize, usize),
        wait: bool,
        reclaim: bool,
    },
    Cancel {
        nth: usize,
    },
    Resend {
        nth: usize,
    },
    ReleaseOwner {
        file: usize,
        client: u64,
        owner: u64,
    },
    Close {
        file: usize,
        handle: u64,
    },
    DropClient {
        client: u64,
    },
    Remove {
        file: usize,
    },
    Grace,
}

#[derive(Default)]
struct Model {
    held: [[Held; 2]; FILES],
    /// All classes and files, in the order of arrival.
    queue: Vec<LockRequest>,
    in_grace: bool,
}

fn file_of(ino: Ino) -> usize {
    ino.0 as usize - 1
}

fn byte_of(offset: u64) -> usize {
    (offset as usize).min(BYTES - 1)
}

fn range_of(bytes: (usize, usize)) -> LockRange {
    let (first, last) = (bytes.0.min(bytes.1), bytes.0.max(bytes.1));
    LockRange { first: first as u64, last: if last == BYTES - 1 { u64::MAX } else { last as u64 } }
}

fn bytes_of(asked: &LockRequest) -> std::ops::RangeInclusive<usize> {
    match asked.kind {
        LockKind::Flock => 0..=BYTES - 1,
        _ => byte_of(asked.range.first)..=byte_of(asked.range.last),
    }
}

impl Model {
    fn place(&mut self, asked: &LockRequest) -> &mut Held {
        &mut self.held[file_of(asked.ino)][Class::of(asked.kind) as usize]
    }

    fn holds(&mut self, asked: &LockRequest) -> Option<[Option<Mode>; BYTES]> {
        let who = asked.who();
        self.place(asked).iter().find(|(owner, _)| *owner == who).map(|(_, bytes)| *bytes)
    }

    fn set(&mut self, asked: &LockRequest, mode: Option<Mode>) {
        let (who, range) = (asked.who(), bytes_of(asked));
        let held = self.place(asked);
        if !held.iter().any(|(owner, _)| *owner == who) {
            held.push((who, [None; BYTES]));
        }
        for (owner, bytes) in held.iter_mut() {
            if *owner == who {
                bytes[range.clone()].fill(mode);
            }
        }
        held.retain(|(_, bytes)| bytes.iter().any(Option::is_some));
    }

    fn blockers(&mut self, asked: &LockRequest) -> Vec<Owner> {
        let (who, range) = (asked.who(), bytes_of(asked));
        let exclusive = asked.lock == LockType::Write;
        let is_in_the_way = |bytes: &[Option<Mode>; BYTES]| {
            bytes[range.clone()].iter().flatten().any(|mode| exclusive || *mode == Mode::Exclusive)
        };
        let held = self.place(asked).iter();
        held.filter(|(owner, bytes)| *owner != who && is_in_the_way(bytes)).map(|(owner, _)| *owner).collect()
    }

    fn would_deadlock(&mut self, asked: &LockRequest) -> bool {
        let who = asked.who();
        if !who.is_process() {
            return false;
        }
        let mut reached = self.blockers(asked);
        let mut seen = 0;
        while seen < reached.len() {
            let owner = reached[seen];
            let waits: Vec<_> = self
                .queue
                .iter()
                .filter(|other| other.wait && owner.is_process() && other.who() == owner)
                .cloned()
                .collect();
            for waiting in waits {
                for blocker in self.blockers(&waiting) {
                    if !reached.contains(&blocker) {
                        reached.push(blocker);
                    }
                }
            }
            seen += 1;
        }
        reached.contains(&who)
    }

    fn decide(&mut self, asked: &LockRequest) -> Option<Result<(), Errno>> {
        let mode = Mode::of(asked.lock);
        if asked.kind == LockKind::Flock && self.holds(asked).is_some_and(|bytes| bytes[0] != mode) {
            self.set(asked, None);
        }
        if self.blockers(asked).is_empty() {
            self.set(asked, mode);
            Some(Ok(()))
        } else if !asked.wait {
            Some(Err(EAGAIN))
        } else {
            self.would_deadlock(asked).then_some(Err(EDEADLK))
        }
    }

    fn settle(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !self.in_grace {
            let queue = self.queue.clone();
            let Some(first) = queue.iter().position(|asked| self.blockers(asked).is_empty()) else { break };
            let asked = self.queue.remove(first);
            self.set(&asked, Mode::of(asked.lock));
            answers.push(asked.answer(Ok(())));
        }
        answers
    }

    fn acquire(&mut self, asked: &LockRequest) -> (Outcome, Vec<Answer>) {
        let Some(mode) = Mode::of(asked.lock) else {
            self.set(asked, None);
            return (Outcome::Granted, self.settle());
        };
        if asked.reclaim.is_some() {
            let held = self.holds(asked).unwrap_or_default();
            let has_it = held[bytes_of(asked)].iter().all(|held| held.is_some_and(|held| held >= mode));
            let can_have_it = self.in_grace && self.blockers(asked).is_empty();
            if !has_it && can_have_it {
                self.set(asked, Some(mode));
            }
            let outcome = if has_it || can_have_it { Outcome::Granted } else { Outcome::Failed(ENOLCK) };
            return (outcome, Vec::new());
        }
        let decided = if self.in_grace { None } else { self.decide(asked) };
        let outcome = match decided {
            Some(Ok(())) => Outcome::Granted,
            Some(Err(errno)) => Outcome::Failed(errno),
            None => Outcome::Waiting,
        };
        // The request comes after those that its own conversion made possible.
        if outcome == Outcome::Waiting {
            self.queue.push(asked.clone());
        }
        (outcome, self.settle())
    }

    fn fail_waits(&mut self, errno: Errno, is_meant: impl Fn(&LockRequest) -> bool) -> Vec<Answer> {
        let (gone, kept) = self.queue.drain(..).partition(|asked| is_meant(asked));
        self.queue = kept;
        let gone: Vec<LockRequest> = gone;
        gone.iter().map(|asked| asked.answer(Err(errno))).collect()
    }

    fn end_grace(&mut self) -> Vec<Answer> {
        self.in_grace = false;
        let mut answers = Vec::new();
        for asked in self.queue.clone() {
            let Some(position) = self.queue.iter().position(|other| *other == asked) else { continue };
            self.queue.remove(position);
            let before = self.held[file_of(asked.ino)][Class::of(asked.kind) as usize].clone();
            match self.decide(&asked) {
                Some(result) => answers.push(asked.answer(result)),
                None => self.queue.insert(position, asked.clone()),
            }
            // Only a weakened lock lets others go before their turn.
            let after = self.place(&asked).clone();
            let is_weaker = before.iter().any(|(owner, bytes)| {
                let now =
                    after.iter().find(|(other, _)| other == owner).map_or([None; BYTES], |(_, now)| *now);
                bytes.iter().zip(now).any(|(before, now)| *before > now)
            });
            if is_weaker || asked.kind == LockKind::Flock && !before.is_empty() {
                answers.extend(self.settle_one(&asked, &before));
            }
        }
        answers
    }

    /// Settles the class and file of `asked` alone, when the decision weakened something there.
    fn settle_one(&mut self, asked: &LockRequest, before: &Held) -> Vec<Answer> {
        let who = asked.who();
        let had = before.iter().find(|(owner, _)| *owner == who).map_or([None; BYTES], |(_, bytes)| *bytes);
        let has = self.holds(asked).unwrap_or_default();
        let converted = asked.kind == LockKind::Flock && had[0].is_some() && had[0] != Mode::of(asked.lock);
        if !converted && !had.iter().zip(has).any(|(had, has)| *had > has) {
            return Vec::new();
        }
        let (ino, class) = (asked.ino, Class::of(asked.kind));
        let (mine, others) =
            self.queue.drain(..).partition(|other| other.ino == ino && Class::of(other.kind) == class);
        self.queue = mine;
        let answers = self.settle();
        // The order among files does not matter to any decision but that of arrival, which request ids give.
        self.queue.extend::<Vec<LockRequest>>(others);
        self.queue.sort_by_key(|asked| asked.request);
        answers
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind =
        prop_oneof![3 => Just(LockKind::Posix), 2 => Just(LockKind::Description), 2 => Just(LockKind::Flock)];
    let lock = prop_oneof![Just(LockType::Read), Just(LockType::Write), Just(LockType::Unlock)];
    let ids = (0..FILES, 0..3u64, 0..2u64, 0..4u64);
    let what = (kind, lock, (0..BYTES, 0..BYTES), any::<bool>(), prop::bool::weighted(0.1));
    let acquire =
        (ids, what).prop_map(|((file, client, owner, handle), (kind, lock, bytes, wait, reclaim))| {
            Step::Acquire { file, client, owner, handle, kind, lock, bytes, wait, reclaim }
        });
    prop_oneof![
        30 => acquire,
        2 => (0..8usize).prop_map(|nth| Step::Cancel { nth }),
        1 => (0..8usize).prop_map(|nth| Step::Resend { nth }),
        2 => (0..FILES, 0..3u64, 0..2u64).prop_map(|(file, client, owner)| Step::ReleaseOwner { file, client, owner }),
        2 => (0..FILES, 0..4u64).prop_map(|(file, handle)| Step::Close { file, handle }),
        1 => (0..3u64).prop_map(|client| Step::DropClient { client }),
        1 => (0..FILES).prop_map(|file| Step::Remove { file }),
        1 => Just(Step::Grace),
    ]
}

/// Grants within one file are ordered; grants within different files in one step are not compared in order.
fn by_request(mut answers: Vec<Answer>) -> Vec<Answer> {
    answers.sort_by_key(|answer| answer.request);
    answers
}

fn take(table: &mut LockTable, model: &mut Model, number: u64, step: &Step) -> Result<(), TestCaseError> {
    match step.clone() {
        Step::Acquire { file, client, owner, handle, kind, lock, bytes, wait, reclaim } => {
            let asked = LockRequest {
                client: ClientId(client),
                uid: client as u32 % 2,
                request: RequestId(number),
                ino: Ino(file as u64 + 1),
                handle: HandleId(handle),
                owner: LockOwner(owner),
                pid: 100 + client as u32,
                kind,
                lock,
                range: range_of(bytes),
                wait,
                reclaim: reclaim.then_some(Fence(1)),
            };
            let is_told = match lock {
                LockType::Unlock => {
                    model.holds(&asked).is_some_and(|held| held[bytes_of(&asked)].iter().any(Option::is_some))
                }
                _ => !model.blockers(&asked).is_empty(),
            };
            prop_assert_eq!(table.test(&asked).expect("a range").is_some(), is_told);
            prop_assert_eq!(table.acquire(&asked), model.acquire(&asked));
        }
        Step::Cancel { nth } => {
            let waiting = model.queue.get(nth).cloned();
            let named =
                waiting.as_ref().map_or((ClientId(9), RequestId(0)), |asked| (asked.client, asked.request));
            prop_assert_eq!(table.cancel(named.0, named.1), waiting.is_some());
            if waiting.is_some() {
                model.queue.remove(nth);
            }
        }
        Step::Resend { nth } => {
            if let Some(asked) = model.queue.get(nth) {
                prop_assert_eq!(table.acquire(asked), (Outcome::Waiting, Vec::new()));
            }
        }
        Step::ReleaseOwner { file, client, owner } => {
            let who = Owner::Process(ClientId(client), LockOwner(owner));
            model.held[file][0].retain(|(owner, _)| *owner != who);
            let answers = table.release_owner(Ino(file as u64 + 1), ClientId(client), LockOwner(owner));
            prop_assert_eq!(answers, model.settle());
        }
        Step::Close { file, handle } => {
            let (who, ino) = (Owner::Description(HandleId(handle)), Ino(file as u64 + 1));
            model.held[file].iter_mut().for_each(|held| held.retain(|(owner, _)| *owner != who));
            let mut answers = model.fail_waits(EBADF, |asked| asked.ino == ino && asked.who() == who);
            answers.extend(model.settle());
            prop_assert_eq!(by_request(table.close(ino, HandleId(handle))), by_request(answers));
        }
        Step::DropClient { client } => {
            let client = ClientId(client);
            model.fail_waits(EBADF, |asked| asked.client == client);
            for held in model.held.iter_mut().flatten() {
                held.retain(|(owner, _)| !matches!(owner, Owner::Process(other, _) if *other == client));
            }
            prop_assert_eq!(by_request(table.drop_client(client)), by_request(model.settle()));
        }
        Step::Remove { file } => {
            let ino = Ino(file as u64 + 1);
            model.held[file].iter_mut().for_each(Vec::clear);
            let answers = model.fail_waits(ESTALE, |asked| asked.ino == ino);
            prop_assert_eq!(by_request(table.remove(ino)), by_request(answers));
        }
        Step::Grace if model.in_grace => prop_assert_eq!(table.end_grace(), model.end_grace()),
        Step::Grace => {
            model.in_grace = true;
            table.begin_grace(0);
        }
    }
    Ok(())
}

fn check(table: &LockTable, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(table.waiting_requests(), model.queue.len());
    let ranges: usize = table.files.values().flatten().map(FileLocks::runs).sum();
    prop_assert_eq!(table.held_ranges(), ranges);
    prop_assert!(
        table.files.values().all(|files| !files.iter().all(FileLocks::is_idle)),
        "idle files are forgotten"
    );
    let owners = |held: &Held| held.iter().filter(|(owner, _)| owner.is_process()).count();
    let processes: usize = model.held.iter().map(|classes| owners(&classes[0])).sum();
    prop_assert_eq!(table.holders.values().sum::<u32>() as usize, processes);
    let waits = model.queue.iter().filter(|asked| asked.wait && asked.who().is_process()).count();
    prop_assert_eq!(table.waits_of.values().map(Vec::len).sum::<usize>(), waits);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn the_table_agrees_with_the_model(steps in proptest::collection::vec(any_step(), 1..120)) {
        let (mut table, mut model) = (LockTable::new(Fence(1)), Model::default());
        for (number, step) in steps.iter().enumerate() {
            take(&mut table, &mut model, number as u64, step)?;
            check(&table, &model)?;
        }
    }
}

fn posix(client: u64, request: u64, lock: LockType, first: u64, last: u64, wait: bool) -> LockRequest {
    LockRequest {
        client: ClientId(client),
        uid: 0,
        request: RequestId(request),
        ino: Ino(7),
        handle: HandleId(0),
        owner: LockOwner(0),
        pid: client as u32,
        kind: LockKind::Posix,
        lock,
        range: LockRange { first, last },
        wait,
        reclaim: None,
    }
}

#[test]
fn a_release_grants_in_the_order_of_arrival() {
    let mut table = LockTable::new(Fence(1));
    assert_eq!(table.acquire(&posix(1, 1, LockType::Write, 0, 9, false)).0, Outcome::Granted);
    for client in 2..6 {
        let lock = if client == 4 { LockType::Write } else { LockType::Read };
        assert_eq!(table.acquire(&posix(client, 1, lock, 5, 5, true)).0, Outcome::Waiting);
    }
    let (_, answers) = table.acquire(&posix(1, 2, LockType::Unlock, 0, u64::MAX, false));
    let granted: Vec<u64> = answers.iter().map(|answer| answer.client.0).collect();
    assert_eq!(granted, [2, 3, 5], "the readers, while the writer between them waits");
}

/// A client with two processes on the file ended, and the reader that only one of them had kept waiting went before
/// the writer that had come first and waited for both.
#[test]
fn the_end_of_a_client_does_not_change_the_order() {
    let mut table = LockTable::new(Fence(1));
    table.acquire(&posix(1, 1, LockType::Write, 5, 5, false));
    let other_process = LockRequest { owner: LockOwner(1), ..posix(1, 2, LockType::Read, 0, 4, false) };
    table.acquire(&other_process);
    assert_eq!(table.acquire(&posix(2, 1, LockType::Write, 0, 2, true)).0, Outcome::Waiting);
    assert_eq!(table.acquire(&posix(3, 1, LockType::Read, 0, 5, true)).0, Outcome::Waiting);
    let granted: Vec<u64> = table.drop_client(ClientId(1)).iter().map(|answer| answer.client.0).collect();
    assert_eq!(granted, [2]);
}

#[test]
fn a_queue_is_bounded() {
    let mut table = LockTable::new(Fence(1));
    table.acquire(&posix(0, 0, LockType::Write, 0, 0, false));
    for client in 1..=WAITING_PER_FILE as u64 {
        assert_eq!(table.acquire(&posix(client, 1, LockType::Write, 0, 0, true)).0, Outcome::Waiting);
    }
    let one_more = posix(u64::MAX, 1, LockType::Write, 0, 0, true);
    assert_eq!(table.acquire(&one_more).0, Outcome::Failed(ENOLCK));
    assert!(table.cancel(ClientId(1), RequestId(1)));
    assert_eq!(table.acquire(&one_more).0, Outcome::Waiting);
}

#[test]
fn ranges_are_bounded_also_where_a_release_would_split_one() {
    let mut table = LockTable::new(Fence(1));
    for range in 0..RANGES_PER_FILE as u64 - 1 {
        let asked = posix(0, range, LockType::Write, range * 4, range * 4 + 2, false);
        assert_eq!(table.acquire(&asked).0, Outcome::Granted);
    }
    assert_eq!(table.acquire(&posix(1, 1, LockType::Write, 3, 3, false)).0, Outcome::Failed(ENOLCK));
    assert_eq!(table.acquire(&posix(0, 1 << 40, LockType::Unlock, 1, 1, false)).0, Outcome::Granted);
    assert_eq!(table.acquire(&posix(0, 2 << 40, LockType::Unlock, 5, 5, false)).0, Outcome::Failed(ENOLCK));
    assert_eq!(table.acquire(&posix(0, 3 << 40, LockType::Unlock, 4, 4, false)).0, Outcome::Granted);
    assert_eq!(table.release_owner(Ino(7), ClientId(0), LockOwner(0)), []);
    assert_eq!(table.held_ranges(), 0);
}

/// The kernel unlocks through FUSE without a number, and the ranges that the process keeps were then told as locked by process 0.
#[test]
fn what_is_left_after_a_partial_unlock_is_still_the_process_s() {
    let mut locks = FileLocks::default();
    let owner = Owner::Process(ClientId(1), LockOwner(1));
    let range = |first, last| LockRange { first, last };
    locks.set(owner, 77, range(0, 99), Some(Mode::Exclusive));
    locks.set(owner, 0, range(10, 19), None);
    let other = Owner::Process(ClientId(2), LockOwner(2));
    let told = locks.conflict(other, range(50, 60), Mode::Exclusive);
    assert_eq!(told, Some((LockType::Write, range(20, 99), 77)));
}

/// One user filled the table with locks on a few files, and nobody else could lock anything. And a file with one lock
/// was counted as one with a range more, though it takes twenty times the memory.
#[test]
fn no_user_takes_the_whole_table() {
    let mut table = LockTable::new(Fence(1));
    let mut request = 0;
    let mut fill = |table: &mut LockTable, uid: u32| {
        let first = request + 1;
        loop {
            request += 1;
            let asked = posix(u64::from(uid), request, LockType::Write, 0, 0, false);
            let outcome = table.acquire(&LockRequest { uid, ino: Ino(request), ..asked }).0;
            if outcome != Outcome::Granted {
                assert_eq!(outcome, Outcome::Failed(ENOLCK));
                return first..request;
            }
        }
    };
    let near = |bytes: usize, part: usize| bytes.abs_diff(BYTES_MAX / part) < 8 << 10;
    let first = fill(&mut table, 1);
    assert!(first.end - first.start > 50_000 && near(table.bytes(), 2), "{first:?}, {} bytes", table.bytes());
    let before = table.bytes();
    fill(&mut table, 2);
    assert!(near(table.bytes() - before, 4), "others have room, {} bytes", table.bytes() - before);
    let before = table.bytes();
    for file in first.clone() {
        table.release_owner(Ino(file), ClientId(1), LockOwner(0));
    }
    assert!(near(before - table.bytes(), 2), "what was held is given back");
    assert!(!fill(&mut table, 1).is_empty(), "and the user may have it again");
    let mut left = table;
    for file in 0..=request {
        left.remove(Ino(file));
    }
    assert_eq!((left.bytes(), left.held_ranges(), left.charged.len()), (0, 0, 0));
}

/// Fences tell of locks that may be in other hands, and of nothing else.
#[test]
fn a_fence_begins_with_the_first_lock_after_a_loss() {
    let mut table = LockTable::new(Fence(7));
    let holder = posix(1, 1, LockType::Write, 0, 9, false);
    let flock = LockRequest {
        kind: LockKind::Flock,
        handle: HandleId(5),
        ..posix(2, 1, LockType::Write, 0, 9, false)
    };
    table.acquire(&holder);
    table.acquire(&flock);
    table.release_owner(holder.ino, holder.client, holder.owner);
    table.close(flock.ino, flock.handle);
    table.acquire(&holder);
    assert_eq!(table.fence(), Fence(7), "all were given back");
    table.drop_client(ClientId(99));
    table.lose(flock.ino, flock.handle);
    table.acquire(&flock);
    assert_eq!(table.fence(), Fence(7), "none was lost");
    let next = posix(3, 1, LockType::Write, 0, 9, true);
    assert_eq!(table.acquire(&next).0, Outcome::Waiting);
    assert_eq!(table.drop_client(holder.client).len(), 1);
    assert_eq!(table.fence(), Fence(8), "the lock went to the one that waited");
    table.lose(flock.ino, flock.handle);
    assert_eq!(table.fence(), Fence(8));
    table.acquire(&LockRequest { lock: LockType::Unlock, ..next.clone() });
    assert_eq!(table.fence(), Fence(8), "nobody took a lock after the loss");
    table.acquire(&next);
    assert_eq!(table.fence(), Fence(9));
}
