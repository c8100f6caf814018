//! The version of an inode: two answers with the same version are the same, and no version falls, whatever becomes of the server. Every
//! answer of every cluster of these tests is held to that.

use super::cluster::{root, snapshot, user, Cluster};
use super::model::{operation, tree_of_cluster, Operation};
use super::runner;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_wire::{Attributes, DirectoryEntry, Ino, Reply};

const CASES: u32 = 200;
const STEPS: usize = 60;

/// The attributes that were told of each inode, by their version.
#[derive(Default)]
pub(super) struct Told(BTreeMap<Ino, BTreeMap<u64, Attributes>>);

impl Told {
    /// Holds an answer to those before.
    pub(super) fn note(&mut self, reply: &Reply, payload: &[u8]) {
        match reply {
            Reply::Attributes(attributes) | Reply::Opened { attributes, .. } => self.hold(attributes),
            Reply::Listing { .. } => {
                let entries: Vec<DirectoryEntry> = postcard::from_bytes(payload).expect("a listing decodes");
                entries.iter().filter_map(|entry| entry.attributes.as_ref()).for_each(|one| self.hold(one));
            }
            _ => {}
        }
    }

    fn hold(&mut self, attributes: &Attributes) {
        if attributes.version == 0 {
            return;
        }
        let told = self.0.entry(attributes.ino).or_default();
        let last = told.last_key_value().map_or(0, |(&last, _)| last);
        assert!(last <= attributes.version, "the version {last} fell: {attributes:?}");
        let same = told.entry(attributes.version).or_insert(*attributes);
        assert_eq!(same, attributes, "two states have one version");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Do(usize, Operation),
    /// The records of now are kept beside the journal.
    BackUp,
    /// The same as a snapshot, as a compaction and a move of the server to another host write it.
    BackUpSnapshot,
    /// The server starts from its journal.
    Restart,
    /// The server starts from the last backup.
    Restore,
    /// The server starts without its last records.
    Lose(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (0usize..2, operation()).prop_map(|(who, operation)| Step::Do(who, operation)),
        2 => Just(Step::BackUp),
        2 => Just(Step::BackUpSnapshot),
        1 => Just(Step::Restart),
        2 => Just(Step::Restore),
        2 => (1usize..20).prop_map(Step::Lose),
    ]
}

fn carry_out(steps: &[Step]) {
    let mut cluster = Cluster::new(1);
    let people = [root(), user(1000)];
    let mut backup = cluster.journals[0].clone();
    // A snapshot is whole, or it is no journal.
    let mut kept = backup.len();
    for step in steps {
        match step {
            Step::Do(who, operation) => _ = operation.on_cluster(&mut cluster, &people[*who], Ino::ROOT),
            Step::BackUp => backup = cluster.journals[0].clone(),
            Step::BackUpSnapshot => backup = snapshot(&mut cluster.servers[0].clone()),
            Step::Restart => cluster.restart(0),
            Step::Restore => {
                cluster.journals[0] = backup.clone();
                kept = backup.len();
                cluster.restart(0);
            }
            Step::Lose(records) => {
                let journal = &mut cluster.journals[0];
                journal.truncate(journal.len().saturating_sub(*records).max(kept));
                cluster.restart(0);
            }
        }
        tree_of_cluster(&mut cluster, Ino::ROOT);
    }
    cluster.check();
}

#[test]
fn what_is_told_under_one_version_is_the_same_and_no_version_falls() {
    let seed = weir_testing::seed();
    runner(CASES, seed)
        .run(&proptest::collection::vec(step(), 1..STEPS), |steps| {
            carry_out(&steps);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("WEIR_SEED={seed}\n{failure}"));
}
