//! Names alone, by their records: no request, no intent and no append.

use super::{Last, Names};
use crate::namespace::change::Change;
use crate::namespace::decision::Stop;
use crate::namespace::files::tests::{file, started};
use crate::namespace::files::{Birth, BirthNode};
use crate::namespace::intents::{Bytes, Intent, IntentId};
use crate::namespace::tests::runner;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_placement::{LayoutRequest, ServerId};
use weir_wire::{At, FileKind, Identity, Ino, Moment};

const NOW: Moment = Moment { seconds: 1_800_000_000, nanoseconds: 0 };

fn root() -> Identity {
    Identity { uid: 0, gid: 0, groups: Vec::new() }
}

/// Two directories in the root of server 0, of two.
fn two_directories() -> (Names, [Ino; 2]) {
    let mut names = Names::new(started(), vec![ServerId(0), ServerId(1)]);
    let directories = ["a", "b"].map(|name| {
        let node = BirthNode::Directory { request: LayoutRequest::default() };
        let birth = Birth { node, permissions: 0o755, uid: 0, gid: 0 };
        let (ino, name) = (names.files().next_ino(), Bytes::from(name));
        names.apply(&Change::Created { parent: Ino::ROOT, name, ino, birth, at: NOW });
        ino
    });
    (names, directories)
}

/// Makes, links, removes and moves: a kind, and two places.
type Step = (u8, (usize, usize), (usize, usize));

#[test]
fn every_name_leads_to_its_inode_and_the_names_of_each_are_counted() {
    let place = || (0usize..2, 0usize..3);
    let steps = prop::collection::vec((0u8..5, place(), place()), 1..60);
    runner(256, 39).run(&steps, |steps| judge(&steps)).unwrap();
}

fn judge(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut names, directories) = two_directories();
    let mut model: BTreeMap<(usize, usize), Ino> = BTreeMap::new();
    let name_of = |place: (usize, usize)| Bytes::from(format!("file-{}", place.1));
    for &(kind, one, other) in steps {
        let (parent, name) = (directories[one.0], name_of(one));
        let (to, to_name) = (directories[other.0], name_of(other));
        let (here, there) = (model.get(&one).copied(), model.get(&other).copied());
        match (kind, here, there) {
            (0, None, _) => {
                let ino = names.files().next_ino();
                names.apply(&Change::Created { parent, name, ino, birth: file(), at: NOW });
                model.insert(one, ino);
            }
            (1, Some(ino), None) => {
                let kind = FileKind::Regular;
                names.apply(&Change::Linked { parent: to, name: to_name, ino, kind, at: NOW });
                model.insert(other, ino);
            }
            (2, Some(_), _) => {
                names.apply(&Change::Unlinked { parent, name, at: NOW });
                model.remove(&one);
            }
            // A rename between two names of one file does nothing, and is no record.
            (3 | 4, Some(ino), _) if there != Some(ino) => {
                let exchange = kind == 4 && there.is_some();
                let (from, from_name, reparents) = (parent, name, [None, None]);
                names.apply(&Change::Moved { from, from_name, to, to_name, exchange, reparents, at: NOW });
                model.insert(other, ino);
                match there.filter(|_| exchange) {
                    Some(there) => _ = model.insert(one, there),
                    None => _ = model.remove(&one),
                }
            }
            _ => {}
        }
        for (place, &directory) in directories.iter().enumerate() {
            for number in 0..3 {
                let at = At::new(directory, format!("file-{number}"));
                let found = names.node(&root(), &at, Last::Keep).ok();
                prop_assert_eq!(found, model.get(&(place, number)).copied());
            }
        }
        for ino in model.values() {
            let inode = names.files().get(*ino).expect("it has a name");
            let count = model.values().filter(|other| *other == ino).count() as u32;
            prop_assert_eq!((inode.names, inode.holders.len()), (count, count));
        }
    }
    let examined = names.examine(&names.files().numbers(|_| true), 0);
    // Files without a name stay until somebody disposes of them.
    let mut faults = examined.faults.iter();
    prop_assert!(faults.all(|fault| fault.kind == super::FaultKind::Leftover), "{:?}", examined.faults);
    Ok(())
}

#[test]
fn a_name_that_another_server_is_about_to_change_waits() {
    let (mut names, [a, _]) = two_directories();
    let away = Ino::new(ServerId(1), 9);
    let kind = FileKind::Directory;
    names.apply(&Change::Linked { parent: a, name: Bytes::from("away"), ino: away, kind, at: NOW });
    let intents = [
        Intent::Reparent { ino: away, parent: a, name: Bytes::from("away") },
        Intent::MakeDirectory { server: ServerId(1), parent: a, name: Bytes::from("new") },
    ];
    let redirect = |names: &Names| names.node(&root(), &At::new(a, "away/x"), Last::Keep).unwrap_err();
    let entry = |names: &Names| names.may_enter(&root(), a, b"new").map(|_| ());
    assert!(matches!(redirect(&names), Stop::Detour(_)) && entry(&names).is_ok());
    for (number, intent) in intents.iter().enumerate() {
        names.mark(IntentId(number as u64), 0, intent);
    }
    assert!(matches!(redirect(&names), Stop::Wait(IntentId(0))));
    assert!(matches!(entry(&names), Err(Stop::Wait(IntentId(1)))));
    assert!(names.may_enter(&root(), a, b"other").is_ok(), "other names wait for nothing");
    for (number, intent) in intents.iter().enumerate() {
        names.unmark(IntentId(number as u64), intent);
    }
    assert!(matches!(redirect(&names), Stop::Detour(_)) && entry(&names).is_ok());
}
