//! Moves alone, shown layouts of files that nobody has.

use super::{check, Frozen, MoveRecord, Moves, EINVAL};
use crate::namespace::change::Change;
use crate::namespace::intents::IntentId;
use crate::namespace::tests::runner;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_placement::{Layout, ServerId, TargetId};
use weir_wire::{ClientId, Ino, Moment, ObjectMove};

fn target(index: u16) -> TargetId {
    TargetId { server: ServerId(index % 2), index }
}

fn layout(targets: &[u16]) -> Layout {
    Layout::striped(4096, targets.iter().copied().map(target).collect()).unwrap()
}

fn moves(pairs: &[(u16, u16)]) -> Vec<ObjectMove> {
    pairs.iter().map(|&(from, to)| ObjectMove { from: target(from), to: target(to) }).collect()
}

#[test]
fn objects_move_from_places_of_the_layout_to_others_each_once() {
    let layout = layout(&[0, 1, 2]);
    for (pairs, is_right) in [
        (&[(0, 3)][..], true),
        (&[(0, 3), (1, 4)], true),
        (&[], false),
        (&[(3, 4)], false),
        (&[(0, 1)], false),
        (&[(0, 3), (0, 4)], false),
        (&[(0, 3), (1, 3)], false),
        (&[(0, 5)], false),
    ] {
        let checked = check(&layout, &moves(pairs), |to| to != target(5));
        assert_eq!(checked, if is_right { Ok(()) } else { Err(EINVAL) }, "{pairs:?}");
    }
}

#[test]
fn a_target_counts_the_objects_of_layouts_and_of_copies_on_their_way() {
    let step = (0u64..3, 0u16..6, 0u16..3);
    runner(256, 39)
        .run(&prop::collection::vec(step, 1..40), |steps| {
            let mut counted = Moves::default();
            let mut files: BTreeMap<u64, (u16, Option<u16>)> = BTreeMap::new();
            for (file, place, kind) in steps {
                let (ino, before) = (Ino(file), files.get(&file).copied());
                if let Some((at, _)) = before {
                    counted.each_object(ino, &layout(&[at]), |count| *count -= 1);
                }
                let after = match (kind, before) {
                    // The file is laid out, its object moves, or it goes.
                    (0, _) | (1, None) => Some((place, None)),
                    (1, Some((at, _))) => Some((at, (at != place).then_some(place))),
                    _ => None,
                };
                counted.remove(ino);
                if let Some((at, Some(to))) = after {
                    let record = MoveRecord {
                        id: IntentId(1),
                        client: ClientId(1),
                        moves: moves(&[(at, to)]),
                        freeze: None,
                    };
                    counted.insert(ino, record);
                    prop_assert_eq!(counted.origin(ino, target(to)), Some(target(at)));
                }
                match after {
                    Some((at, _)) => {
                        counted.each_object(ino, &layout(&[at]), |count| *count += 1);
                        files.insert(file, after.unwrap_or_default());
                    }
                    None => _ = files.remove(&file),
                }
                for index in 0..6 {
                    let there = files.values().flat_map(|&(at, to)| [Some(at), to]);
                    let expected = there.filter(|place| *place == Some(index)).count() as u64;
                    prop_assert_eq!(counted.objects_on(target(index)), expected);
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_move_that_is_given_up_empties_its_copies_and_ends_its_freeze() {
    let mut all = Moves::default();
    for (ino, client) in [(1, 7), (2, 8), (3, 7)] {
        let (moves, client) = (moves(&[(0, 3)]), ClientId(client));
        all.insert(Ino(ino), MoveRecord { id: IntentId(ino), client, moves, freeze: None });
    }
    let frozen = Frozen { intent: IntentId(20), fence: IntentId(21), since: Moment::default() };
    assert_eq!(all.freeze(Ino(3), frozen).map(<[_]>::len), Some(1));
    assert_eq!(all.freeze(Ino(4), frozen), None);
    let given_up = all.abandonments(|_, record| record.client == ClientId(7), IntentId(30));
    let abandoned = |ino, vacate| Change::MoveAbandoned { ino: Ino(ino), vacate: IntentId(vacate) };
    assert_eq!(given_up, [abandoned(1, 30), abandoned(3, 31), Change::Settled { id: IntentId(20) }]);
}
