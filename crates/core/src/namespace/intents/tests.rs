//! Intents alone: their numbers, their snapshots and the ends of their effects.

use super::{Intent, IntentId, Intents, When};
use crate::namespace::change::Change;
use crate::namespace::tests::runner;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_placement::{ServerId, TargetId};
use weir_wire::{Errno, Ino};

const HERE: ServerId = ServerId(0);

fn removal(targets: u16) -> Intent {
    let targets = (0..targets).map(|index| TargetId { server: ServerId(index % 2), index }).collect();
    Intent::Remove { ino: Ino(9), targets }
}

#[derive(Clone, Debug)]
enum Step {
    Begin,
    /// Begins again one that is pending.
    Repeat(usize),
    Settle(usize),
    /// Takes records of a snapshot, which begins with the first.
    Show(usize),
}

#[test]
fn a_snapshot_shows_the_intents_of_its_beginning_whatever_begins_and_ends_meanwhile() {
    let step = prop_oneof![
        3 => Just(Step::Begin),
        1 => (0usize..8).prop_map(Step::Repeat),
        2 => (0usize..8).prop_map(Step::Settle),
        2 => (1usize..4).prop_map(Step::Show),
    ];
    runner(256, 39)
        .run(&prop::collection::vec(step, 1..60), |steps| {
            let mut intents = Intents::new(HERE);
            let mut pending: BTreeMap<IntentId, u32> = BTreeMap::new();
            let mut showing: Option<(BTreeMap<IntentId, u32>, BTreeMap<IntentId, u32>)> = None;
            for (number, step) in steps.into_iter().enumerate() {
                let uid = number as u32;
                match step {
                    Step::Begin => {
                        let id = intents.next();
                        prop_assert!(pending.keys().all(|other| *other < id), "numbers are new");
                        intents.insert(id, uid, removal(1));
                        pending.insert(id, uid);
                    }
                    Step::Repeat(place) => {
                        if let Some((&id, before)) = pending.iter_mut().nth(place) {
                            let replaced = intents.insert(id, uid, removal(1));
                            prop_assert_eq!(replaced, Some((std::mem::replace(before, uid), removal(1))));
                        }
                    }
                    Step::Settle(place) => {
                        let id = pending.keys().nth(place).copied();
                        if let Some(id) = id {
                            prop_assert_eq!(intents.remove(id).map(|(uid, _)| uid), pending.remove(&id));
                        }
                    }
                    Step::Show(count) => {
                        let (_, shown) = showing.get_or_insert_with(|| {
                            intents.begin_snapshot();
                            (pending.clone(), BTreeMap::new())
                        });
                        for _ in 0..count {
                            let Some(Change::Intended { id, uid, .. }) = intents.next_of_snapshot() else {
                                break;
                            };
                            prop_assert_eq!(shown.insert(id, uid), None, "each is shown once");
                        }
                    }
                }
            }
            if let Some((begun, mut shown)) = showing {
                while let Some(Change::Intended { id, uid, .. }) = intents.next_of_snapshot() {
                    prop_assert_eq!(shown.insert(id, uid), None);
                }
                prop_assert_eq!(shown, begun);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn an_intent_ends_with_its_last_effect_and_the_first_failure() {
    let mut intents = Intents::new(HERE);
    let id = intents.next();
    intents.insert(id, 1, removal(3));
    let effects = intents.issue(id);
    assert_eq!(effects.iter().map(|effect| effect.part).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(effects.iter().all(|effect| effect.when == When::DurableInTime));
    assert_eq!(intents.finish(id, 2, Err(Errno(5))), None);
    assert_eq!(intents.finish(id, 2, Ok(())), None, "a doubled answer is none of another part");
    assert_eq!(intents.finish(id, 0, Err(Errno(28))), None);
    assert_eq!(intents.finish(id, 1, Ok(())), Some(Err(Errno(5))));
    assert_eq!(intents.finish(id, 1, Ok(())), None, "nothing is outstanding");
    assert_eq!(intents.issue_all().len(), 3, "it is pending until it is settled");
}
