//! Laws of a target, held by random calls on a folder in memory: a target equals a model, a killed server loses nothing, and a power loss
//! takes nothing that was synced.

use super::aside::Cut;
use super::names::{self, subdirectory, Name, SUBDIRECTORIES};
use crate::storage::files::TargetFolder;
use crate::storage::memory_folder::{Failing, Faults, MemoryFolder, BLOCK_BYTES};
use crate::storage::{Aside, Directory, Known, StaleEpoch, TargetFailure, TargetOutput, TargetWork};
use proptest::prelude::*;
use std::sync::Arc;
use weir_fairshare::Nanos;
use weir_placement::{ServerId, TargetId};
use weir_wire::{Capability, Description, Extent, Fence, HandleId, Ino, Request, Rights, SiteKey};

/// The bytes of an object that the calls reach.
const REACH_BYTES: usize = 3 * BLOCK_BYTES as usize;
/// Objects; the first and the last one share a subdirectory. The last one is of a file with its home elsewhere: its cuts are lasting, and
/// nobody here knows its epoch.
const OBJECTS: [Ino; 3] = [Ino(0x1_0000_0000_0007), Ino(0x1_0000_0000_0008), Ino(0x1_0000_0000_0107)];

const ELSEWHERE: usize = 2;

/// One random step on an object.
#[derive(Clone, Debug)]
enum Step {
    Write {
        offset: usize,
        length: usize,
        byte: u8,
    },
    Punch {
        offset: usize,
        length: usize,
    },
    Allocate {
        offset: usize,
        length: usize,
    },
    Sync,
    Truncate {
        length: usize,
    },
    Fence {
        length: usize,
    },
    CutUndoably,
    Decide {
        is_discarded: bool,
    },
    Remove,
    Kill,
    PowerLoss {
        seed: u64,
    },
    /// The next calls meet these faults, or a full disk, until one of them has failed.
    Fail {
        which: u8,
        is_lasting: bool,
    },
}

/// An object as it should be: its bytes, and every content that it had since its last sync, which the first one is of.
#[derive(Clone)]
struct Object {
    bytes: Vec<u8>,
    since_sync: Vec<Vec<u8>>,
    epoch: u64,
    /// The epoch that is on stable storage.
    fenced: u64,
    /// The epoch of the last cut that the journal knows.
    decided: u64,
    /// The cut that the journal does not know yet, and the object before it.
    undecided: Option<(Aside, Box<Object>)>,
}

struct World {
    folder: MemoryFolder,
    dir: Directory,
    objects: Vec<Object>,
    is_faulty: bool,
}

impl Object {
    fn new() -> Object {
        let bytes = vec![0; REACH_BYTES];
        let since_sync = vec![bytes.clone()];
        Object { bytes, since_sync, epoch: 0, fenced: 0, decided: 0, undecided: None }
    }

    fn now(&mut self, bytes: Vec<u8>) {
        self.since_sync.push(bytes.clone());
        self.bytes = bytes;
    }

    fn changed(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        bytes
    }
}

fn opened(folder: &MemoryFolder, objects: &[Object]) -> Directory {
    let mut dir = Directory::open(Arc::new(folder.clone()), None, Some(1 << 30), 2).unwrap();
    let own = || OBJECTS.into_iter().zip(objects).take(ELSEWHERE).map(|(ino, object)| (ino, object.decided));
    let decided = |ino| own().find(|(own, _)| *own == ino).map(|(_, decided)| Known::File { decided });
    dir.settle(|ino| decided(ino).unwrap_or(Known::Elsewhere)).unwrap();
    dir.raise_known_epochs(own().filter(|(_, decided)| *decided > 0));
    dir
}

const TARGET: TargetId = TargetId { server: ServerId(0), index: 0 };

fn extents(offset: usize, length: usize) -> Vec<Extent> {
    vec![Extent { offset: offset as u64, length: length as u32 }]
}

fn capability(ino: Ino) -> Capability {
    let of = Description { ino, handle: HandleId(1), uid: 0 };
    SiteKey::new([1; 32]).capability(of, Rights { read: true, write: true }, 0)
}

fn write(ino: Ino, epoch: u64, offset: usize, bytes: &[u8]) -> TargetWork {
    let (capability, target, fence) = (capability(ino), TARGET, Fence::NONE);
    let extents = extents(offset, bytes.len());
    let request = Request::Write { capability, target, epoch, fence, extents, publication: None };
    TargetWork::Request(request, bytes.to_vec(), None)
}

impl World {
    fn new() -> World {
        let (folder, objects) = (MemoryFolder::default(), vec![Object::new(); OBJECTS.len()]);
        World { dir: opened(&folder, &objects), folder, objects, is_faulty: false }
    }

    /// Has work done, and all of a cut that is to be lasting.
    fn run(&mut self, index: usize, work: TargetWork) -> Result<TargetOutput, TargetFailure> {
        match self.dir.carry_out(OBJECTS[index], work)? {
            TargetOutput::Unsynced { with_epoch } => {
                self.dir.carry_out(OBJECTS[index], TargetWork::SyncCut { with_epoch })
            }
            TargetOutput::NoRoom(_) => Err(TargetFailure::Full),
            output => Ok(output),
        }
    }

    fn bytes(&mut self, index: usize) -> Vec<u8> {
        let (capability, target, fence) = (capability(OBJECTS[index]), TARGET, Fence::NONE);
        let (epoch, extents) = (self.dir.epoch_of(OBJECTS[index]), extents(0, REACH_BYTES));
        let request = Request::Read { capability, target, epoch, fence, extents };
        match self.run(index, TargetWork::Request(request, Vec::new(), None)) {
            Ok(TargetOutput::Bytes(bytes)) => bytes,
            _ => panic!("object {index} is not read"),
        }
    }

    /// Takes up the outcome of a call that was to leave `after`. A failed call leaves each byte as it was, or as it was to be.
    fn ended(&mut self, index: usize, outcome: Result<TargetOutput, TargetFailure>, after: Vec<u8>) -> bool {
        let outcome = outcome.map(drop);
        if outcome.is_ok() {
            self.objects[index].now(after);
            return true;
        }
        assert!(self.is_faulty, "{outcome:?} without a fault");
        self.mend();
        let (found, before) = (self.bytes(index), self.objects[index].bytes.clone());
        for (at, byte) in found.iter().enumerate() {
            assert!(*byte == before[at] || *byte == after[at], "byte {at} after a failed call");
        }
        self.objects[index].since_sync.push(after);
        self.objects[index].now(found);
        self.objects[index].epoch = self.dir.epoch_of(OBJECTS[index]);
        false
    }

    fn mend(&mut self) {
        self.folder.fail(Faults::default());
        self.folder.limit(None);
        self.is_faulty = false;
        // The server has the reserve filled when a write finds no room.
        if let Some(ticket) = self.dir.refill_begin() {
            self.dir.refill_complete(ticket.run());
        }
    }

    fn step(&mut self, index: usize, step: &Step) {
        let (ino, object) = (OBJECTS[index], self.objects[index].clone());
        let next = object.decided + 1;
        match *step {
            Step::Write { offset, length, byte } => {
                let after = object.changed(|bytes| bytes[offset..offset + length].fill(byte));
                if object.epoch > 0 {
                    let stale = self.run(index, write(ino, object.epoch - 1, offset, &after[..length]));
                    assert_eq!(stale.map(drop), Err(StaleEpoch(object.epoch).into()));
                }
                let part = &after[offset..offset + length];
                let outcome = self.run(index, write(ino, object.epoch, offset, part));
                self.ended(index, outcome, after);
            }
            Step::Punch { offset, length } | Step::Allocate { offset, length } => {
                let is_punch = matches!(step, Step::Punch { .. });
                let after = object.changed(|bytes| {
                    if is_punch {
                        bytes[offset..offset + length].fill(0);
                    }
                });
                let (offset, length) = (offset as u64, length as u64);
                let (capability, target, fence, epoch) = (capability(ino), TARGET, Fence::NONE, object.epoch);
                let request =
                    Request::Reserve { capability, target, epoch, fence, offset, length, punch: is_punch };
                let outcome = self.run(index, TargetWork::Request(request, Vec::new(), None));
                self.ended(index, outcome, after);
            }
            Step::Sync => {
                // An object that is not there has nothing to sync: the record of its removal is the home's.
                let is_there = self.folder.node_of(&names::object(ino)).is_some();
                let outcome = self.run(index, TargetWork::Sync);
                if self.ended(index, outcome, object.bytes.clone()) && is_there {
                    self.objects[index].since_sync = vec![object.bytes];
                }
            }
            Step::Truncate { length } | Step::Fence { length } if object.undecided.is_none() => {
                let is_fence = index == ELSEWHERE || matches!(step, Step::Fence { .. });
                // The home's record of a cut is durable before the cut.
                self.objects[index].decided = next;
                let after = object.changed(|bytes| bytes[length..].fill(0));
                let cut = TargetWork::Cut { length: length as u64, epoch: next, is_lasting: is_fence };
                let outcome = self.run(index, cut);
                if self.ended(index, outcome, after.clone()) {
                    self.objects[index].epoch = next;
                    if is_fence {
                        (self.objects[index].since_sync, self.objects[index].fenced) = (vec![after], next);
                    }
                }
            }
            Step::CutUndoably if object.undecided.is_none() && index != ELSEWHERE => {
                let outcome = self.run(index, TargetWork::CutUndoably { length: 0, epoch: next });
                let after = vec![0; REACH_BYTES];
                match outcome {
                    Ok(TargetOutput::Cut(Cut::SetAside(aside))) => {
                        self.objects[index] = Object {
                            epoch: next,
                            undecided: Some((aside, Box::new(object.clone()))),
                            since_sync: vec![after.clone()],
                            bytes: after,
                            ..object
                        };
                    }
                    Ok(_) => panic!("a cut of everything sets nothing aside"),
                    Err(failure) => _ = self.ended(index, Err(failure), object.bytes),
                }
            }
            Step::Decide { is_discarded } => self.decide(index, is_discarded),
            Step::Remove if object.undecided.is_none() => {
                let outcome = self.run(index, TargetWork::Remove);
                if self.ended(index, outcome, vec![0; REACH_BYTES]) {
                    (self.objects[index].epoch, self.objects[index].fenced) = (0, 0);
                }
            }
            Step::Kill => self.restart(None),
            Step::PowerLoss { seed } => self.restart(Some(seed)),
            Step::Fail { which, is_lasting } => {
                let failing = if is_lasting { Failing::Forever } else { Failing::Once };
                let mut faults = Faults::default();
                match which {
                    0 => faults.writes = failing,
                    1 => faults.syncs = failing,
                    2 => faults.names = failing,
                    _ => self.folder.limit(Some(self.folder.used_bytes())),
                }
                self.folder.fail(faults);
                self.is_faulty = true;
            }
            Step::Truncate { .. } | Step::Fence { .. } | Step::CutUndoably | Step::Remove => {}
        }
    }

    /// The record of a cut becomes durable, after the names of what was set aside.
    fn decide(&mut self, index: usize, is_discarded: bool) {
        let Some((aside, _)) = self.objects[index].undecided.clone() else { return };
        if let Some(ticket) = self.dir.asides_begin(0) {
            let is_synced = ticket.run().is_ok();
            self.dir.asides_complete(ticket, is_synced);
            if !is_synced {
                assert!(self.is_faulty);
                return self.mend();
            }
        }
        let object = &mut self.objects[index];
        (object.decided, object.undecided) = (object.epoch, None);
        if is_discarded && self.run(index, TargetWork::Discard(aside)).is_err() {
            assert!(self.is_faulty);
            self.mend();
        }
    }

    /// The server is killed, or its machine loses power with a random part of what was not synced.
    fn restart(&mut self, loss: Option<u64>) {
        self.mend();
        for object in &mut self.objects {
            if let Some((_, before)) = object.undecided.take() {
                let Object { bytes, since_sync, fenced, decided, .. } = *before;
                *object = Object { bytes, since_sync, fenced, decided, epoch: decided, undecided: None };
            }
        }
        if let Some(mut random) = loss {
            self.folder = self.folder.after_power_loss(|units| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match random >> 62 {
                    0 => 0,
                    1 => (random >> 8) as usize % (units + 1),
                    _ => units,
                }
            });
        }
        self.dir = opened(&self.folder, &self.objects);
        for (index, ino) in OBJECTS.into_iter().enumerate() {
            let (found, epoch) = (self.bytes(index), self.dir.epoch_of(ino));
            let object = &mut self.objects[index];
            if index != ELSEWHERE {
                object.epoch = object.decided;
            }
            if loss.is_none() {
                continue;
            }
            for (at, byte) in found.iter().enumerate() {
                let is_known = object.since_sync.iter().any(|content| content[at] == *byte);
                assert!(
                    is_known,
                    "object {index}: byte {at} is {byte}, which it never was since its last sync"
                );
            }
            if index == ELSEWHERE {
                assert!((object.fenced..=object.decided).contains(&epoch), "object {index}: epoch {epoch}");
                object.epoch = epoch;
            }
            (object.bytes, object.since_sync) = (found.clone(), vec![found]);
        }
    }

    fn check(&mut self) {
        for (index, ino) in OBJECTS.into_iter().enumerate() {
            let found = self.bytes(index);
            let object = &self.objects[index];
            assert_eq!(self.dir.epoch_of(ino), object.epoch, "epoch of object {index}");
            let other = found.iter().zip(&object.bytes).position(|(found, expected)| found != expected);
            assert_eq!(other, None, "object {index} differs from its model at this byte");
        }
        let mut counted = 0;
        for number in 0..SUBDIRECTORIES as usize {
            for entry in self.folder.entries(&subdirectory(number)).unwrap() {
                if matches!(entry.name.to_str().map(Name::of), Some(Name::Object(_) | Name::Aside(_))) {
                    counted += entry.sizes.occupied_bytes;
                }
            }
        }
        assert_eq!(self.dir.used_bytes(), counted, "the count of the blocks of all objects");
    }
}

fn ranges() -> impl Strategy<Value = (usize, usize)> {
    (0..REACH_BYTES).prop_flat_map(|offset| (Just(offset), 1..=REACH_BYTES - offset))
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (ranges(), 1u8..).prop_map(|((offset, length), byte)| Step::Write { offset, length, byte }),
        1 => ranges().prop_map(|(offset, length)| Step::Punch { offset, length }),
        1 => ranges().prop_map(|(offset, length)| Step::Allocate { offset, length }),
        3 => Just(Step::Sync),
        1 => (0..REACH_BYTES).prop_map(|length| Step::Truncate { length }),
        1 => (0..REACH_BYTES).prop_map(|length| Step::Fence { length }),
        2 => Just(Step::CutUndoably),
        2 => any::<bool>().prop_map(|is_discarded| Step::Decide { is_discarded }),
        1 => Just(Step::Remove),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(|seed| Step::PowerLoss { seed }),
        1 => (0u8..4, any::<bool>()).prop_map(|(which, is_lasting)| Step::Fail { which, is_lasting }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A target equals its model after each call, after a kill, and after faults of its device; after a power loss each byte is one that
    /// it had since its last sync.
    #[test]
    fn a_target_equals_its_model_and_keeps_what_was_synced(
        calls in proptest::collection::vec((0..OBJECTS.len(), steps()), 1..60),
    ) {
        let mut world = World::new();
        for (index, step) in &calls {
            world.step(*index, step);
            if !world.is_faulty {
                world.check();
            }
        }
    }
}

proptest! {
    /// Writes to different bytes of an object may be under way at once. They are carried out in one order and end in another, and the count
    /// of the blocks is that of the file system.
    #[test]
    fn blocks_are_counted_in_whatever_order_writes_end(
        order in Just((0..4usize).collect::<Vec<_>>()).prop_shuffle(),
        ends in Just((0..4usize).collect::<Vec<_>>()).prop_shuffle(),
        is_there in any::<bool>(),
    ) {
        let mut world = World::new();
        let ino = OBJECTS[0];
        if is_there {
            world.run(0, write(ino, 0, 0, &[1])).unwrap();
        }
        let begin = |block: usize| write(ino, 0, block * BLOCK_BYTES as usize, &[2]);
        let mut begun: Vec<_> =
            (0..4).map(|block| Some(world.dir.begin((0, ino), begin(block)))).collect();
        let mut done: Vec<_> = (0..4).map(|_| None).collect();
        for number in order {
            done[number] = begun[number].take().map(|work| work.carry_out().ok().unwrap());
        }
        for number in ends {
            let (seen, outcome) = done[number].take().unwrap();
            prop_assert!(world.dir.end(seen, outcome, Nanos::ZERO).is_ok());
        }
        prop_assert_eq!(world.dir.used_bytes(), 4 * BLOCK_BYTES);
    }
}
