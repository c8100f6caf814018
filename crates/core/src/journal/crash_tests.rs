//! A crash behind every operation on the storage, by a kill and by a power loss, against the states that the journal promised.

use super::*;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `Add` is not idempotent on purpose: the state then shows a group that is replayed twice, or replayed over a snapshot that
/// has it already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Record {
    Set(u8, u64),
    Add(u8, u64),
}

type State = BTreeMap<u8, u64>;
type TestJournal = Journal<Record>;

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<Record>),
    /// The device gets full after so many bytes of the group.
    AppendFails {
        room: usize,
        truncate_fails: bool,
    },
    SyncBegin,
    SyncRun,
    SnapshotBegin,
    SnapshotPush,
    /// Takes the frames that are ready; the worker has not written them yet.
    SliceTake,
    SliceRun,
    SnapshotSeal,
    SnapshotComplete,
    SnapshotAbandon,
    MarkSync,
    /// The device fails a sync; the journal stops.
    SyncFails,
    /// Begins anew after a failed sync.
    Renew,
    KillAndOpen,
}

/// The promise about a crash behind some operation.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    operations: usize,
    appended: u64,
    durable: u64,
}

#[derive(Debug)]
struct Run {
    storage: MemoryStorage,
    /// The state after each append; the first state is empty.
    states: Vec<State>,
    promises: Vec<Promise>,
}

fn apply(state: &mut State, record: Record) {
    match record {
        Record::Set(key, value) => {
            state.insert(key, value);
        }
        Record::Add(key, value) => {
            let entry = state.entry(key).or_default();
            *entry = entry.wrapping_mul(3).wrapping_add(value);
        }
    }
}

fn open(storage: &MemoryStorage) -> Result<(TestJournal, State, Recovered), JournalError> {
    let mut state = State::new();
    let (journal, recovered) =
        Journal::open(Arc::new(storage.clone()), 1, |record| apply(&mut state, record))?;
    Ok((journal, state, recovered))
}

/// Takes the steps and notes the promises after each. The run passes over steps that do not fit. A `live` snapshot shows each
/// key with its value at the push, any other snapshot with its value at the beginning of the snapshot.
fn run(steps: &[Step], live: bool) -> Result<Run, TestCaseError> {
    let storage = MemoryStorage::new();
    let (mut journal, mut state, _) = open(&storage).map_err(failed)?;
    let mut done =
        Run { storage: storage.clone(), states: vec![State::new()], promises: vec![Promise::default()] };
    let (mut sync, mut writer, mut slice, mut ticket, mut rest) = (None, None, None, None, Vec::new());
    for step in steps {
        match step {
            Step::Append(_) | Step::AppendFails { .. } if journal.is_stopped() => {
                prop_assert!(matches!(journal.append(&[Record::Set(0, 0)]), Err(JournalError::Stopped)));
            }
            Step::Append(group) => {
                let sequence = journal.append(group).map_err(failed)?;
                group.iter().cloned().for_each(|record| apply(&mut state, record));
                prop_assert_eq!(sequence.0 as usize, done.states.len());
                done.states.push(state.clone());
            }
            Step::AppendFails { room, truncate_fails } => {
                storage.limit(Some(storage.used_bytes() + room));
                storage.fail_truncate(*truncate_fails);
                let group = [Record::Set(0, u64::MAX), Record::Add(1, u64::MAX)];
                match journal.append(&group) {
                    // The append first cut off the bytes that an earlier failure had left, and made room.
                    Ok(_) => {
                        group.into_iter().for_each(|record| apply(&mut state, record));
                        done.states.push(state.clone());
                    }
                    Err(error) => prop_assert!(matches!(error, JournalError::Io { .. }), "{}", error),
                }
                storage.limit(None);
                storage.fail_truncate(false);
            }
            Step::SyncBegin => sync = sync.or(journal.sync_begin()),
            Step::SyncRun => {
                if let Some(ticket) = sync.take() {
                    let result = ticket.run();
                    journal.sync_complete(ticket, result).map_err(failed)?;
                }
            }
            Step::MarkSync => {
                if let Some(ticket) = journal.mark_begin() {
                    ticket.run().map_err(|error| TestCaseError::fail(error.to_string()))?;
                }
            }
            Step::SyncFails => {
                if let Some(ticket) = sync.take().or_else(|| journal.sync_begin()) {
                    storage.fail_sync(true);
                    let result = ticket.run();
                    storage.fail_sync(false);
                    prop_assert!(journal.sync_complete(ticket, result).is_err() && journal.is_stopped());
                }
            }
            Step::Renew => {
                if let Some(mut writer) = journal.renewal_begin().map_err(failed)? {
                    for (key, value) in &state {
                        writer.push(&Record::Set(*key, *value)).map_err(failed)?;
                    }
                    let result = journal.renewal_seal(writer).run();
                    journal.renewal_complete(result).map_err(failed)?;
                }
            }
            Step::SnapshotBegin => {
                if let Some(begun) = journal.snapshot_begin().map_err(failed)? {
                    writer = Some(begun);
                    rest = state.iter().map(|(key, value)| Record::Set(*key, *value)).collect();
                }
            }
            Step::SnapshotPush => {
                if let (Some(writer), Some(record)) = (&mut writer, rest.pop()) {
                    writer.push(&shown(record, &state, live)).map_err(failed)?;
                }
            }
            Step::SliceTake => {
                // The owner has one slice away at a time.
                slice = slice.or_else(|| writer.as_mut().and_then(SnapshotWriter::take_slice));
            }
            Step::SliceRun => run_slice(&mut slice)?,
            Step::SnapshotSeal => {
                if let Some(mut writer) = writer.take() {
                    run_slice(&mut slice)?;
                    for record in rest.drain(..) {
                        writer.push(&shown(record, &state, live)).map_err(failed)?;
                    }
                    ticket = Some(journal.snapshot_seal(writer));
                }
            }
            Step::SnapshotComplete => {
                if let Some(ticket) = ticket.take() {
                    let result = ticket.run();
                    journal.snapshot_complete(result).map_err(failed)?;
                }
            }
            Step::SnapshotAbandon => {
                if let Some(writer) = writer.take() {
                    slice = None;
                    journal.snapshot_abandon(writer);
                }
            }
            Step::KillAndOpen => {
                (sync, writer, slice, ticket) = (None, None, None, None);
                let replayed;
                (journal, replayed, _) = open(&storage).map_err(failed)?;
                prop_assert_eq!(&replayed, &state);
            }
        }
        let (appended, durable) = (journal.appended().0, journal.durable().0);
        prop_assert!(durable <= appended);
        done.promises.push(Promise { operations: storage.operations(), appended, durable });
    }
    Ok(done)
}

/// Writes the frames of a slice, if one is away.
fn run_slice(slice: &mut Option<SliceTicket>) -> Result<(), TestCaseError> {
    slice.take().map_or(Ok(()), |slice| slice.run().map_err(failed))
}

fn shown(record: Record, state: &State, live: bool) -> Record {
    match record {
        Record::Set(key, _) if live => Record::Set(key, state.get(&key).copied().unwrap_or_default()),
        other => other,
    }
}

fn failed(error: JournalError) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

/// The promise that must hold after a crash behind operation `point`, and the last append that may be there.
fn promised(promises: &[Promise], point: usize) -> (Promise, u64) {
    let kept = promises.iter().rev().find(|promise| promise.operations <= point);
    let begun = promises.iter().find(|promise| promise.operations > point);
    let kept = kept.copied().unwrap_or_default();
    (kept, begun.map_or(kept.appended, |begun| begun.appended.max(kept.appended)))
}

/// Opens the files that a crash left, goes on, and loses power again: the appends that were synced in between are there.
fn check(run: &Run, crashed: &MemoryStorage, least: u64, most: u64) -> Result<(), TestCaseError> {
    let (mut journal, mut state, _) = open(crashed).map_err(failed)?;
    let appended = journal.appended().0;
    prop_assert!((least..=most).contains(&appended), "{} is not within {}..={}", appended, least, most);
    prop_assert_eq!(&state, &run.states[appended as usize]);
    let group = [Record::Add(200, 7), Record::Add(1, 1)];
    journal.append(&group).map_err(failed)?;
    group.into_iter().for_each(|record| apply(&mut state, record));
    journal.sync().map_err(failed)?;
    let again = crashed.after_power_loss(crashed.operations(), |_| 0);
    let (journal, replayed, recovered) = open(&again).map_err(failed)?;
    prop_assert_eq!((journal.appended().0, replayed), (appended + 1, state));
    prop_assert_eq!(recovered.notices, Vec::<String>::new());
    Ok(())
}

fn any_record() -> impl Strategy<Value = Record> {
    prop_oneof![
        (0..6u8, any::<u64>()).prop_map(|(key, value)| Record::Set(key, value)),
        (0..6u8, any::<u64>()).prop_map(|(key, value)| Record::Add(key, value)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(any_record(), 1..4).prop_map(Step::Append),
        1 => (0..40usize, any::<bool>()).prop_map(|(room, truncate_fails)| Step::AppendFails { room, truncate_fails }),
        3 => Just(Step::SyncBegin),
        3 => Just(Step::SyncRun),
        2 => Just(Step::SnapshotBegin),
        5 => Just(Step::SnapshotPush),
        2 => Just(Step::SliceTake),
        2 => Just(Step::SliceRun),
        2 => Just(Step::SnapshotSeal),
        2 => Just(Step::SnapshotComplete),
        1 => Just(Step::SnapshotAbandon),
        1 => Just(Step::MarkSync),
        1 => Just(Step::SyncFails),
        2 => Just(Step::Renew),
        1 => Just(Step::KillAndOpen),
    ]
}

/// Crashes behind every operation, in every way.
fn crash_everywhere(run: &Run, seed: u64) -> Result<(), TestCaseError> {
    let mut random = seed;
    for point in 0..=run.storage.operations() {
        let (promise, most) = promised(&run.promises, point);
        check(run, &run.storage.after_kill(point), promise.appended, most)?;
        check(run, &run.storage.after_power_loss(point, |_| 0), promise.durable, most)?;
        check(run, &run.storage.after_power_loss(point, |units| units), promise.appended, most)?;
        for _ in 0..4 {
            let crashed = run.storage.after_power_loss(point, |units| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match (random >> 60, (random >> 33) as usize) {
                    (0..5, _) => 0,
                    (5..12, _) => units,
                    (_, torn) => torn % (units + 1),
                }
            });
            check(run, &crashed, promise.durable, most)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_crash_leaves_what_was_promised(steps in proptest::collection::vec(any_step(), 1..30), seed: u64) {
        crash_everywhere(&run(&steps, false)?, seed)?;
    }

    /// A snapshot of a state that changes meanwhile, as the journal allows for records that set what they describe.
    #[test]
    fn a_live_snapshot_never_shows_half_a_group(mut steps in proptest::collection::vec(any_step(), 1..30), seed: u64) {
        steps.retain(|step| !matches!(step, Step::AppendFails { .. }));
        for step in &mut steps {
            if let Step::Append(group) = step {
                for record in group.iter_mut() {
                    if let Record::Add(key, value) = *record {
                        *record = Record::Set(key, value);
                    }
                }
            }
        }
        crash_everywhere(&run(&steps, true)?, seed)?;
    }
}
