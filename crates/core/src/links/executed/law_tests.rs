//! The law of changes that kills cut off: whatever is cut off and sent again, a byte keeps to an order of the changes.

use super::record::{Key, Left};
use super::Executed;
use crate::journal::MemoryStorage;
use crate::requests::order::Place;
use crate::requests::ranges::Range;
use proptest::prelude::*;
use weir_wire::{ClientId, Ino, RequestId};

const PLACE: Place = (0, Ino(9));
const BYTES: usize = 12;
const CLIENTS: usize = 3;

/// The end of a change.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The server is killed when this part of it is done, in twelfths.
    Killed(u64),
    /// It is done, and answered.
    Answered,
}

/// A change of some bytes to its own number, with the moments at which it began and was answered.
struct Write {
    of: Key,
    range: Range,
    began: usize,
    answered: Option<usize>,
}

/// A server, clients with a connection each, and an object with the number of the last change of each byte.
struct World {
    storage: MemoryStorage,
    executed: Executed,
    slots: [Option<u32>; CLIENTS],
    /// The first one stands for the bytes of before.
    writes: Vec<Write>,
    /// The change that each client sends again.
    cut_off: [Option<usize>; CLIENTS],
    object: [usize; BYTES],
}

impl World {
    fn new() -> World {
        let storage = MemoryStorage::new();
        let executed = Executed::open(&storage).expect("opened");
        let of = (ClientId(0), RequestId(0));
        let before = Write { of, range: (0, BYTES as u64), began: 0, answered: Some(0) };
        let (slots, cut_off) = ([None; CLIENTS], [None; CLIENTS]);
        World { storage, executed, slots, writes: vec![before], cut_off, object: [0; BYTES] }
    }

    /// A client changes bytes, or sends the change again that was cut off.
    fn step(&mut self, now: usize, client: usize, range: Range, end: End) {
        let number = self.cut_off[client].unwrap_or_else(|| {
            let of = (ClientId(1 + client as u64), RequestId(now as u64));
            self.writes.push(Write { of, range, began: now, answered: None });
            self.writes.len() - 1
        });
        let Write { of, range, .. } = self.writes[number];
        let left = match self.executed.left(PLACE, of) {
            _ if self.executed.has(of) => vec![],
            Left::Everything => vec![range],
            Left::Bytes(left) => left,
            // It is answered with an error.
            Left::Unknown => return self.cut_off[client] = None,
        };
        let slot = &mut self.slots[client];
        if !self.executed.has(of) {
            self.executed.begin(slot, of, || of.1, (PLACE, Some(range)));
        }
        let bytes = left.iter().flat_map(|&(begin, end)| begin..end);
        let done_until = if let End::Killed(part) = end { part } else { BYTES as u64 };
        for byte in bytes.filter(|&byte| byte < done_until) {
            self.object[byte as usize] = number;
        }
        match end {
            End::Killed(_) => {
                self.cut_off[client] = Some(number);
                self.executed = Executed::open(&self.storage).expect("opened again");
                self.slots = [None; CLIENTS];
            }
            End::Answered => {
                self.executed.take_from_doubts(of, PLACE, &[range]);
                self.executed.note(&mut self.slots[client], of, || of.1, true);
                self.writes[number].answered = Some(now);
                self.cut_off[client] = None;
            }
        }
    }

    /// A byte whose change was answered before another one began that was answered as well.
    fn stale_byte(&self) -> Option<usize> {
        (0..BYTES).find(|&byte| {
            let is_here = |(begin, end): Range| (begin..end).contains(&(byte as u64));
            self.writes[self.object[byte]].answered.is_some_and(|answered| {
                let mut others = self.writes.iter().filter(|other| is_here(other.range));
                others.any(|other| other.answered.is_some() && other.began > answered)
            })
        })
    }
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![(0u64..=BYTES as u64).prop_map(End::Killed), Just(End::Answered)]
}

proptest! {
    #[test]
    fn no_byte_is_of_a_change_that_was_answered_before_a_later_one_began(
        steps in proptest::collection::vec((0..CLIENTS, 0u64..8, 1u64..5, ends()), 1..60),
    ) {
        let mut world = World::new();
        for (now, (client, begin, length, end)) in (1..).zip(steps) {
            world.step(now, client, (begin, begin + length), end);
            prop_assert_eq!(world.stale_byte(), None, "after step {}", now);
        }
    }
}
