//! Files alone: nobody has walked to them.

use super::{changed_file, Birth, BirthNode, Files, Opening, Places};
use crate::namespace::change::Change;
use crate::namespace::intents::{Intent, IntentId};
use crate::namespace::tests::runner;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_placement::online::Placer;
use weir_placement::{Layout, LayoutDefaults, ServerId, TargetId};
use weir_wire::{ClientId, HandleId, Ino, Moment, Rights, SiteKey};

const NOW: Moment = Moment { seconds: 1_800_000_000, nanoseconds: 0 };
const CLIENT: ClientId = ClientId(7);
const TARGET: TargetId = TargetId { server: ServerId(0), index: 0 };
pub(in crate::namespace) const WRITING: Rights = Rights { read: true, write: true };

/// The files of a server that was started once.
pub(in crate::namespace) fn started() -> Files {
    let layout = LayoutDefaults { stripe_bytes: 4096, stripe_count: 1 };
    let places = Places::new(Placer::new(ServerId(0), &[TARGET], layout), layout);
    let mut files = Files::new(ServerId(0), SiteKey::new([7; 32]), places);
    files.start(1, NOW);
    files
}

/// A new file with no name.
pub(in crate::namespace) fn file() -> Birth {
    let layout = Layout::striped(4096, vec![TARGET]).unwrap();
    Birth { node: BirthNode::Regular { layout, asked: None }, permissions: 0o644, uid: 1, gid: 1 }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Name,
    Unname,
    Open(u64),
    Close(u64),
    Cut(u64),
    Fence(u64),
    Settle(u64),
    Dispose,
}

#[derive(Default)]
struct Model {
    names: u32,
    open: BTreeSet<u64>,
    under_way: BTreeMap<u64, Intent>,
}

#[test]
fn a_file_stays_as_long_as_it_has_a_name_a_description_or_work_under_way() {
    let step = prop_oneof![
        1 => Just(Step::Name),
        2 => Just(Step::Unname),
        1 => (1u64..4).prop_map(Step::Open),
        2 => (1u64..4).prop_map(Step::Close),
        1 => (1u64..4).prop_map(Step::Cut),
        1 => (4u64..6).prop_map(Step::Fence),
        3 => (1u64..6).prop_map(Step::Settle),
        2 => Just(Step::Dispose),
    ];
    let steps = prop::collection::vec((0u64..3, step), 1..80);
    runner(256, 39).run(&steps, |steps| judge(&steps)).unwrap();
}

fn judge(steps: &[(u64, Step)]) -> Result<(), TestCaseError> {
    let mut files = started();
    let first = files.next_ino();
    let inos: Vec<Ino> = (0..3).map(|number| Ino(first.0 + number)).collect();
    let mut models: BTreeMap<Ino, Model> = BTreeMap::new();
    for &ino in &inos {
        files.give_birth_unnamed(ino, &file(), true, NOW);
        models.insert(ino, Model::default());
    }
    for &(file, step) in steps {
        let ino = inos[file as usize];
        let handle = |number: u64| HandleId(16 * (file + 1) + number);
        let Some(model) = models.get_mut(&ino) else { continue };
        match step {
            Step::Name => {
                files.add_name(ino, NOW);
                model.names += 1;
            }
            Step::Unname if model.names > 0 => {
                files.drop_name(ino, NOW);
                model.names -= 1;
            }
            Step::Open(number) => {
                let handle = handle(number);
                files.open_mut().open(Opening { handle, client: CLIENT, uid: 1, ino, rights: WRITING });
                model.open.insert(number);
            }
            Step::Close(number) => {
                files.open_mut().close(handle(number), CLIENT);
                model.open.remove(&number);
            }
            Step::Cut(number) if !model.under_way.keys().any(|other| *other < 4) => {
                let intent = Intent::Cut { ino, size_bytes: 0, epoch: 1, objects: Vec::new(), at: NOW };
                files.mark(IntentId(number), 1, &intent);
                model.under_way.insert(number, intent);
            }
            Step::Fence(number) if !model.under_way.contains_key(&number) => {
                let intent = Intent::Fence { ino, epoch: 1, objects: Vec::new() };
                files.mark(IntentId(number), 1, &intent);
                model.under_way.insert(number, intent);
            }
            Step::Settle(number) => {
                if let Some(intent) = model.under_way.remove(&number) {
                    files.unmark(IntentId(number), &intent);
                    files.let_go(1, &intent);
                }
            }
            Step::Dispose => dispose(&mut files, &mut models)?,
            Step::Unname | Step::Cut(_) | Step::Fence(_) => {}
        }
        for (&ino, model) in &models {
            prop_assert_eq!(files.is_settling(ino), !model.under_way.is_empty());
            prop_assert_eq!(files.open().is_open(ino), !model.open.is_empty());
            prop_assert_eq!(files.attributes(ino).map(|attributes| attributes.links), Ok(model.names));
        }
        prop_assert!(files.use_faults().is_empty(), "the sums are those of the inodes");
    }
    Ok(())
}

/// Disposes of what nothing keeps, which is what the model says.
fn dispose(files: &mut Files, models: &mut BTreeMap<Ino, Model>) -> Result<(), TestCaseError> {
    let is_kept = |model: &Model| model.names > 0 || !model.open.is_empty() || !model.under_way.is_empty();
    let due: Vec<Ino> = models.iter().filter(|(_, model)| !is_kept(model)).map(|(&ino, _)| ino).collect();
    let decision = files.dispose_orphans(IntentId(100));
    let changes = decision.map_or_else(Vec::new, |decision| decision.changes);
    prop_assert_eq!(changes.iter().filter_map(changed_file).collect::<Vec<_>>(), due);
    for change in &changes {
        let Change::Disposed { ino, removal } = change else { panic!("{change:?}") };
        files.dispose(*ino, *removal);
        prop_assert!(!files.has(*ino));
        models.remove(ino);
    }
    Ok(())
}
