//! The membership of servers that are driven by hand: their files, their targets and their reports to each other.

use super::*;
use crate::control::question::NotChanged;
use crate::journal::MemoryStorage;
use crate::storage::memory_arena::MemoryArena;
use crate::storage::Target;
use proptest::prelude::*;
use std::sync::mpsc::{sync_channel, Receiver};
use weir_fairshare::{Algorithm, Policy};
use weir_wire::{MachineLoad, QuotaLimits, QuotaOwner, QuotaReport, TargetReport, TargetRoom};

const FILE: &str = "version = 1\n\
     [[server]]\nlisten = \"a:1\"\ncontrol = \"a:2\"\n[[server.target]]\nbackend = \"ram\"\ncapacity = \"1MiB\"\n\
     [[server]]\nlisten = \"b:1\"\ncontrol = \"b:2\"\n[[server.target]]\nbackend = \"ram\"\ncapacity = \"1MiB\"\n";

/// Servers that run; a third one joins in some cases, and does not report.
const RUNNING: u16 = 2;

fn config() -> ClusterConfig {
    toml::from_str(FILE).unwrap()
}

fn target(server: u16, index: u16) -> TargetId {
    TargetId { server: ServerId(server), index }
}

/// A server around its membership: it does outside work when it is told to.
struct Node {
    number: u16,
    storage: MemoryStorage,
    membership: Membership,
    /// The work that the change under way waits for.
    work: Option<Effect>,
    /// Its targets that are open.
    targets: usize,
    answers: Vec<Receiver<Result<(), NotChanged>>>,
}

impl Node {
    fn start(number: u16, storage: MemoryStorage) -> Node {
        let own = Arc::new(storage.clone());
        let membership = Membership::open(ServerId(number), config(), own).unwrap();
        let targets = membership.own().targets.len();
        let mut node = Node { number, storage, membership, work: None, targets, answers: Vec::new() };
        let effects = node.membership.put_in_force();
        node.carry_out(effects);
        assert!(node.work.is_none(), "a start opens all targets that it knows of, and decides nothing");
        node
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Open { .. } | Effect::Keep(_) => {
                    assert!(self.work.is_none(), "one change is made at a time");
                    self.work = Some(effect);
                }
                Effect::TakeIn(target, ..) => {
                    assert_eq!(target.number(), self.targets, "targets are taken in by their numbers");
                    self.targets += 1;
                }
                Effect::Retire(index) => assert!(index < self.targets, "target {index} is not open"),
                _ => {}
            }
        }
    }

    fn report(&self, used_bytes: u64) -> ServerReport {
        let room = TargetRoom { capacity_bytes: 1 << 20, used_bytes, disk: None };
        let targets =
            (0..self.targets as u16).map(|index| TargetReport::idle(target(self.number, index), room));
        let records = self.membership.settings().targets.iter();
        let retiring = records.filter(|record| record.state.value == TargetState::Retiring);
        ServerReport {
            server: ServerId(self.number),
            boot: 1,
            started: 0,
            sequence: 0,
            load: MachineLoad::default(),
            jobs: Vec::new(),
            targets: targets.collect(),
            placed: Vec::new(),
            settings: self.membership.settings().clone(),
            leaving: retiring.map(|record| LeavingReport { target: record.target, objects: 0 }).collect(),
            quotas: QuotaReport::default(),
        }
    }

    fn begin(&mut self, reports: &[ServerReport], milliseconds: u64) {
        let reports = reports.iter().collect();
        let facts = Facts { milliseconds, reports, is_durable: false, is_in_use: &|_| false };
        let effects = self.membership.begin(&facts);
        self.carry_out(effects);
    }

    fn ask(&mut self, wanted: Wanted) {
        let (sender, receiver) = sync_channel(1);
        self.membership.ask(wanted, Asker::Of(sender));
        self.answers.push(receiver);
    }

    /// Ends the outside work of the change under way.
    fn end_work(&mut self, succeeds: bool, milliseconds: u64) {
        let before = self.membership.settings().clone();
        let effects = match self.work.take() {
            None => return,
            Some(Effect::Keep(ticket)) => {
                self.storage.fail_sync(!succeeds);
                let kept = ticket.run();
                self.storage.fail_sync(false);
                assert_eq!(kept.is_ok(), succeeds);
                let is_told = self.membership.changes.has(|wanted| matches!(wanted, Wanted::Told(_)));
                let effects = self.membership.kept(kept);
                let now = self.membership.settings();
                if succeeds {
                    let after =
                        Membership::open(ServerId(self.number), config(), Arc::new(self.after_power_loss()));
                    assert_eq!(after.unwrap().settings(), now, "what is in force survives a power loss");
                } else if !is_told {
                    assert_eq!(now, &before, "a decision that is not kept is not in force");
                }
                effects
            }
            Some(_) => {
                let opened = match succeeds {
                    true => {
                        let target = Target::in_memory(Box::new(MemoryArena::new(1 << 20)));
                        Ok(Joined { target, is_apart: false })
                    }
                    false => Err(NotChanged::refused("the folder is gone".into(), "look for it".into())),
                };
                self.membership.opened(opened, milliseconds)
            }
        };
        self.carry_out(effects);
    }

    fn after_power_loss(&self) -> MemoryStorage {
        self.storage.after_power_loss(self.storage.operations(), |_| 0)
    }

    fn answers(&self) -> Vec<Option<Result<(), NotChanged>>> {
        self.answers.iter().map(|answer| answer.try_recv().ok()).collect()
    }
}

/// The servers of a store.
struct Store {
    nodes: Vec<Node>,
    milliseconds: u64,
}

impl Store {
    fn start() -> Store {
        let nodes = (0..RUNNING).map(|number| Node::start(number, MemoryStorage::new())).collect();
        Store { nodes, milliseconds: 1_000 }
    }

    fn begin(&mut self, node: usize) {
        let reports: Vec<ServerReport> = self.nodes.iter().map(|node| node.report(0)).collect();
        self.nodes[node].begin(&reports, self.milliseconds);
    }

    fn end_work(&mut self, node: usize, succeeds: bool) {
        self.nodes[node].end_work(succeeds, self.milliseconds);
    }

    fn hear(&mut self, node: usize, from: usize) {
        let told = self.nodes[from].membership.settings().clone();
        self.nodes[node].membership.hear(&told);
    }

    /// Asks one server, and makes all changes that follow there.
    fn change(&mut self, node: usize, wanted: Wanted) -> Result<(), NotChanged> {
        self.nodes[node].ask(wanted);
        self.finish(node);
        self.nodes[node].answers().pop().flatten().expect("a change at its end is answered")
    }

    fn finish(&mut self, node: usize) {
        for _ in 0..1_000 {
            if self.nodes[node].work.is_none() && !self.nodes[node].membership.is_to_begin() {
                return;
            }
            self.end_work(node, true);
            self.begin(node);
        }
        panic!("server {node} has changes without end");
    }

    /// All servers tell each other everything until nobody has news.
    fn settle(&mut self) {
        for _ in 0..10 {
            for (node, from) in [(0, 1), (1, 0)] {
                self.finish(node);
                self.hear(node, from);
                self.finish(node);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        self.milliseconds += 1;
        match step {
            Step::Ask(node, wanted) => self.nodes[*node].ask(wanted.clone()),
            Step::Begin(node) => self.begin(*node),
            Step::End(node, succeeds) => self.end_work(*node, *succeeds),
            Step::Hear(node) => self.hear(*node, 1 - *node),
            Step::LosePower(node) => {
                let storage = self.nodes[*node].after_power_loss();
                self.nodes[*node] = Node::start(*node as u16, storage);
            }
            Step::LoseFiles(node) => self.nodes[*node] = Node::start(*node as u16, MemoryStorage::new()),
        }
    }
}

#[derive(Debug)]
enum Step {
    Ask(usize, Wanted),
    Begin(usize),
    End(usize, bool),
    Hear(usize),
    LosePower(usize),
    LoseFiles(usize),
}

fn any_state() -> impl Strategy<Value = TargetState> {
    prop_oneof![Just(TargetState::Open), Just(TargetState::Retiring), Just(TargetState::Retired)]
}

fn any_wanted() -> impl Strategy<Value = Wanted> {
    let (server, new) = (config().servers[1].clone(), config().servers[0].targets[0].clone());
    let joined = ServerConfig { listen: "c:1".into(), control: "c:2".into(), ..server };
    prop_oneof![
        prop_oneof!["size-fair", "job-fair", "fifo"]
            .prop_map(|name: String| { Wanted::Sharing(name.parse::<Policy>().unwrap(), None::<Algorithm>) }),
        prop_oneof!["random", "balanced"].prop_map(|name: String| Wanted::Allocator(name.parse().unwrap())),
        (0..3u32, any::<u64>()).prop_map(|(uid, bytes)| {
            Wanted::Quota(QuotaOwner::User(uid), Some(QuotaLimits { bytes: Some(bytes), inodes: None }))
        }),
        Just(()).prop_map(move |()| Wanted::Server(ServerId(RUNNING), Box::new(joined.clone()))),
        (0..RUNNING, any_state()).prop_map(|(server, state)| Wanted::ServerState(ServerId(server), state)),
        (0..RUNNING, 0..3u16).prop_map(move |(server, index)| {
            Wanted::Target(target(server, index), Box::new(new.clone()))
        }),
        (0..RUNNING, 0..3u16, any_state())
            .prop_map(|(server, index, state)| Wanted::TargetState(target(server, index), state)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let node = || 0..usize::from(RUNNING);
    prop_oneof![
        6 => (node(), any_wanted()).prop_map(|(node, wanted)| Step::Ask(node, wanted)),
        8 => node().prop_map(Step::Begin),
        8 => (node(), prop::bool::weighted(0.8)).prop_map(|(node, succeeds)| Step::End(node, succeeds)),
        3 => node().prop_map(Step::Hear),
        1 => node().prop_map(Step::LosePower),
        1 => node().prop_map(Step::LoseFiles),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Changes on two servers, in any order, with disks that fail and power that goes: every asker is answered once, what is in
    /// force is on stable storage, and in the end both servers know the same of the store.
    #[test]
    fn servers_agree_in_the_end_and_every_asker_is_answered(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut store = Store::start();
        steps.iter().for_each(|step| store.step(step));
        store.settle();
        let [one, other] = &store.nodes[..] else { unreachable!() };
        prop_assert_eq!(one.membership.settings(), other.membership.settings());
        let states = |node: &Node| -> Vec<Vec<TargetState>> {
            let of = |server: &ServerConfig| server.targets.iter().map(|target| target.state).collect();
            node.membership.config().servers.iter().map(of).collect()
        };
        prop_assert_eq!(states(one), states(other));
        for node in [one, other] {
            prop_assert!(node.answers().iter().all(Option::is_some), "an asker waits for ever");
            prop_assert_eq!(node.targets, node.membership.own().targets.len());
        }
    }
}

#[test]
fn a_slow_disk_keeps_a_bounded_number_of_changes_waiting() {
    let mut store = Store::start();
    for _ in 0..100 {
        store.nodes[0].ask(Wanted::Allocator("random".parse().unwrap()));
        store.begin(0);
    }
    let refused = store.nodes[0].answers().into_iter().flatten();
    let refused: Vec<String> = refused.map(|answer| answer.unwrap_err().to_string()).collect();
    assert_eq!(refused.len(), 100 - 65, "one is under way, and 64 wait");
    assert!(refused.iter().all(|what| what.contains("slow disk")), "{refused:?}");
}

/// A report tells the same settings every tenth of a second, and a disk may take longer.
#[test]
fn what_another_server_tells_is_followed_once() {
    let mut store = Store::start();
    store.change(1, Wanted::Allocator("random".parse().unwrap())).unwrap();
    for _ in 0..10 {
        store.hear(0, 1);
        store.begin(0);
    }
    store.end_work(0, false);
    assert_eq!(
        store.nodes[0].membership.settings().allocator.value,
        "random",
        "followed without the file, too"
    );
    assert!(!store.nodes[0].membership.is_to_begin());
}

#[test]
fn a_target_whose_decision_was_lost_is_opened_again_by_what_the_others_know() {
    let mut store = Store::start();
    let new = config().servers[0].targets[0].clone();
    store.change(0, Wanted::Target(target(0, 1), Box::new(new))).unwrap();
    store.settle();
    store.nodes[0] = Node::start(0, MemoryStorage::new());
    assert_eq!(store.nodes[0].targets, 1);
    store.settle();
    assert_eq!(store.nodes[0].targets, 2);
}

#[test]
fn a_target_retires_where_the_others_have_room_and_leaves_when_every_home_has_kept_that() {
    let mut store = Store::start();
    let retire = |state| Wanted::TargetState(target(0, 0), state);
    let full: Vec<ServerReport> = store.nodes.iter().map(|node| node.report(600 << 10)).collect();
    store.nodes[0].ask(retire(TargetState::Retiring));
    store.nodes[0].begin(&full, 1_000);
    let refusal = store.nodes[0].answers().remove(0).unwrap().unwrap_err();
    assert!(refusal.to_string().contains("have room for"), "{refusal}");
    store.change(0, retire(TargetState::Retiring)).unwrap();
    let early = store.change(0, retire(TargetState::Retired)).unwrap_err();
    assert_eq!(early.to_string(), "server 1 does not know yet that 0.0 retires");
    store.settle();
    store.change(0, retire(TargetState::Retired)).unwrap();
    let last = store.change(1, Wanted::ServerState(ServerId(1), TargetState::Retiring)).unwrap_err();
    assert_eq!(last.to_string(), "server 1 is the last one that takes files");
}

#[test]
fn no_object_is_left_once_no_power_loss_takes_the_records_of_it() {
    let mut store = Store::start();
    store.change(0, Wanted::TargetState(target(0, 0), TargetState::Retiring)).unwrap();
    let membership = &mut store.nodes[0].membership;
    let mut left = |objects, progress| {
        let (reports, is_sync_wanted) = membership.report_leaving(|_| objects, progress);
        (reports[0].objects, is_sync_wanted)
    };
    assert_eq!(left(2, Some((10, 5))), (2, false));
    assert_eq!(left(0, Some((12, 5))), (1, true), "record 12 may be lost");
    assert_eq!(left(0, Some((20, 11))), (1, true));
    assert_eq!(left(0, Some((20, 12))), (0, false));
    assert_eq!(left(0, None), (0, false), "a store without a journal loses no records");
}

#[test]
fn a_server_is_where_it_is_and_tells_the_others() {
    let mut store = Store::start();
    let place = |port: u16| Place { tcp: format!("a:{port}"), control: format!("a:{}", port + 1) };
    assert!(store.nodes[0].membership.settle_at(place(1), Vec::new(), 1_000).is_none(), "as the file says");
    let ticket = store.nodes[0].membership.settle_at(place(7), Vec::new(), 1_001).expect("it is elsewhere");
    ticket.run().unwrap();
    assert!(store.nodes[0].membership.kept(Ok(())).is_empty());
    let told = store.nodes[0].membership.settings().clone();
    let other = &mut store.nodes[1].membership;
    other.hear(&told);
    other.begin(&Facts {
        milliseconds: 2_000,
        reports: Vec::new(),
        is_durable: false,
        is_in_use: &|_| false,
    });
    let effects = other.kept(Ok(()));
    let redirected = effects.iter().find_map(|effect| match effect {
        Effect::Redirect(address) => Some(address.tcp.as_str()),
        _ => None,
    });
    assert_eq!(redirected, Some("a:7"));
}

#[test]
fn a_lease_is_renewed_without_a_word_to_the_schedulers_and_ends_in_time() {
    let mut store = Store::start();
    let membership = &mut store.nodes[0].membership;
    let defaults = membership.config().layout_defaults();
    let placer = Placer::new(ServerId(0), &membership.config().targets(), defaults);
    let lease =
        |seconds: u32| serde_json::from_str(&format!(r#"{{"policy":"fifo","seconds":{seconds}}}"#)).unwrap();
    let shares = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Share(_)));
    let at = Nanos::from_millis;
    assert!(shares(&membership.set_lease(lease(5), &placer, at(0)).unwrap()));
    assert!(!shares(&membership.set_lease(lease(5), &placer, at(4_000)).unwrap()));
    assert!(membership.end_lease_if_due(at(8_999)).is_empty());
    assert!(shares(&membership.end_lease_if_due(at(9_000))));
    assert!(membership.end_lease_if_due(at(9_001)).is_empty());
    assert!(
        membership.set_lease(lease(0), &placer, at(9_002)).unwrap().is_empty(),
        "there is none to give back"
    );
}

/// A command writes the configuration file before it asks, and a server may start by that file in between.
#[test]
fn a_member_that_a_server_has_by_its_file_is_told_to_the_others_once_it_is_asked_to_join() {
    let mut store = Store::start();
    let grown = |config: &mut ClusterConfig| {
        let new = config.servers[0].targets[0].clone();
        config.servers[0].targets.push(new);
    };
    grown(&mut store.nodes[0].membership.config);
    store.nodes[0].targets = 2;
    let new = store.nodes[0].membership.own().targets[1].clone();
    for _ in 0..2 {
        store.change(0, Wanted::Target(target(0, 1), Box::new(new.clone()))).unwrap();
    }
    assert_eq!(store.nodes[0].targets, 2, "it is open already");
    let storage = store.nodes[0].after_power_loss();
    store.nodes[0] = Node::start(0, storage);
    assert_eq!(store.nodes[0].membership.own().targets.len(), 2, "a start by the old file knows it");
    store.settle();
    assert_eq!(store.nodes[1].membership.config().servers[0].targets.len(), 2);
}
