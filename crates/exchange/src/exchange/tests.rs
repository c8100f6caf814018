//! Figures, portions and moments that follow from what is told and heard.
//!
//! The last part: servers that exchange reports over a network which loses, delays and repeats them, while servers stop
//! and start: once it is quiet, two exchanges make every server's portions right.

use super::*;
use crate::{lateness_max, silence_max};
use proptest::prelude::*;
use weir_fairshare::{JobId, Portions, Sharing};
use weir_placement::LayoutDefaults;
use weir_wire::{DeviceUse, JobReport, MachineLoad, PlacedReport, ServerReport, StoreSettings};
use weir_wire::{TargetReport, TargetRoom};

const LAMBDA: Nanos = Nanos::from_millis(100);
/// Exchanges after which a server that is silent is left out.
const SILENT: u64 = 10;

/// The jobs of ThemisIO's figure 5, and one that has a server to itself: nodes, and servers used.
const JOBS: [(u32, &[u16]); 4] = [(16, &[0, 1]), (8, &[0]), (8, &[1]), (3, &[2])];

struct Node {
    exchange: Exchange<ServerReport>,
    is_up: bool,
}

/// A report on its way: the moment and the place of its arrival, and its words.
type Message = (Nanos, usize, ServerReport);

struct Cluster {
    nodes: Vec<Node>,
    messages: Vec<Message>,
    now: Nanos,
    boots: u64,
    have_come: bool,
}

fn sharing() -> Sharing {
    Sharing::of("size-fair".parse().unwrap())
}

/// The report of a server; before the jobs of [`JOBS`] came it had another one.
fn report(server: u16, boot: u64, sequence: u64, have_come: bool) -> ServerReport {
    let here = JOBS.iter().enumerate().filter(|(_, (_, servers))| servers.contains(&server));
    let job = |(number, &(nodes, _)): (usize, &(u32, &[u16]))| JobReport {
        job: JobId(number as u64 + if have_come { 0 } else { 100 }),
        name: format!("job-{number}"),
        user: "ada".into(),
        group: "science".into(),
        uid: 1000,
        nodes,
        priority: 1,
        active: true,
        device_seconds: 0.0,
        uses: vec![DeviceUse { device: 0, wanted: None }],
    };
    ServerReport {
        server: ServerId(server),
        boot,
        started: boot,
        sequence,
        load: MachineLoad::default(),
        jobs: here.map(job).collect(),
        targets: Vec::new(),
        placed: Vec::new(),
        settings: StoreSettings::default(),
        leaving: Vec::new(),
        quotas: Default::default(),
    }
}

impl Node {
    fn start((server, boot): (u16, u64), have_come: bool, now: Nanos) -> Node {
        let mut exchange = Exchange::new(report(server, boot, 0, have_come), LAMBDA, now);
        (0..3).filter(|&peer| peer != server).for_each(|peer| exchange.meet(ServerId(peer)));
        Node { exchange, is_up: true }
    }
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            nodes: (0..3).map(|server| Node::start((server, 1), true, Nanos::ZERO)).collect(),
            messages: Vec::new(),
            now: Nanos::ZERO,
            boots: 1,
            have_come: true,
        }
    }

    /// One interval: everybody who is up reports to everybody, and what is due arrives. `fate` says for each
    /// message after how many intervals its copies arrive.
    fn exchange(&mut self, mut fate: impl FnMut() -> Vec<u64>) {
        for server in 0..self.nodes.len() {
            if !self.nodes[server].is_up {
                continue;
            }
            let exchange = &mut self.nodes[server].exchange;
            assert!(exchange.take_due(self.now) && !exchange.take_due(self.now));
            let &ServerReport { boot, sequence, .. } = exchange.own();
            *exchange.own_mut() = report(server as u16, boot, sequence + 1, self.have_come);
            for peer in exchange.tell() {
                for intervals in fate() {
                    let arrival = Nanos(self.now.0 + intervals * LAMBDA.0);
                    self.messages.push((arrival, usize::from(peer.0), exchange.own().clone()));
                }
            }
            exchange.give_up();
        }
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.messages).into_iter().partition(|(at, _, _)| *at <= now);
        self.messages = later;
        let due: Vec<Message> = due;
        for (_, peer, said) in due {
            if self.nodes[peer].is_up {
                self.nodes[peer].exchange.hear(said, now);
            }
        }
        self.now = self.now + LAMBDA;
    }

    fn stop(&mut self, server: usize) {
        self.nodes[server].is_up = false;
    }

    fn start(&mut self, server: usize) {
        self.boots += 1;
        self.nodes[server] = Node::start((server as u16, self.boots), self.have_come, self.now);
    }

    fn portions(&self, server: usize) -> Portions {
        let uses = self.nodes[server].exchange.uses(self.now);
        uses.portions(&sharing(), server as u16).remove(&0).unwrap_or_default()
    }
}

/// Server 0, which started at `started`, and the report of server 1, each with one target.
fn two(started: Nanos) -> (Exchange<ServerReport>, ServerReport) {
    let told = |server| ServerReport { targets: vec![told(target(server), 0)], ..report(server, 1, 1, true) };
    let mut exchange = Exchange::new(told(0), LAMBDA, started);
    exchange.meet(ServerId(1));
    (exchange, told(1))
}

fn target(server: u16) -> TargetId {
    TargetId { server: ServerId(server), index: 0 }
}

fn told(target: TargetId, used_bytes: u64) -> TargetReport {
    TargetReport::idle(target, TargetRoom { capacity_bytes: 1 << 40, used_bytes, disk: None })
}

/// The server of the target that a file gets by what is believed at `now`; none where it gets no target.
fn placed(exchange: &Exchange<ServerReport>, asked: Option<&str>, now: Nanos) -> Option<u16> {
    let mut placer = Placer::new(
        ServerId(0),
        &[target(0), target(1)],
        LayoutDefaults { stripe_bytes: 1 << 20, stripe_count: 1 },
    );
    exchange.inform(&mut placer, now);
    let asked = asked.map(|text| text.parse().expect("a layout"));
    let layout = placer.place(0, asked.as_ref()).ok()?.layout;
    layout.targets().first().map(|target| target.server.0)
}

#[test]
fn a_silent_server_is_late_then_dead_to_the_placer_and_one_that_may_yet_be_heard_of_is_neither() {
    let silence = silence_max(LAMBDA);
    let lateness = lateness_max(silence);
    let started = Nanos(7);
    let (mut exchange, other) = two(started);
    let named = Some("-o 1.0");
    assert_eq!(placed(&exchange, named, started + silence), Some(1), "it may yet be heard of");
    assert_eq!(placed(&exchange, named, started + Nanos(silence.0 + 1)), None, "it is not there");
    exchange.hear(other, started);
    exchange.own_mut().targets[0].room.used_bytes = 1 << 40;
    for (silent, by_choice, by_name) in [
        (silence.0, Some(1), Some(1)),
        (silence.0 + 1, None, Some(1)),
        (lateness.0, None, Some(1)),
        (lateness.0 + 1, None, None),
    ] {
        let now = started + Nanos(silent);
        assert_eq!(
            (placed(&exchange, None, now), placed(&exchange, named, now)),
            (by_choice, by_name),
            "{silent}"
        );
        let up = if silent > lateness.0 { vec![] } else { vec![ServerId(1)] };
        assert_eq!(exchange.maybe_up(now), up, "{silent}");
    }
}

#[test]
fn the_placer_counts_what_others_placed_and_not_what_the_own_report_tells() {
    let (mut exchange, other) = two(Nanos::ZERO);
    let many = |server| vec![PlacedReport { target: target(server), bytes: 1e9 }];
    exchange.hear(ServerReport { placed: many(0), ..other.clone() }, Nanos::ZERO);
    assert_eq!(placed(&exchange, None, Nanos::ZERO), Some(1));
    exchange.hear(ServerReport { sequence: 2, ..other }, Nanos::ZERO);
    exchange.own_mut().placed = many(0);
    assert_eq!(placed(&exchange, None, Nanos::ZERO), Some(0));
}

#[test]
fn numbers_of_a_report_that_are_none_count_as_nothing() {
    let wrong = [f32::NAN, f32::INFINITY, -1.0];
    for number in wrong {
        let report = TargetReport {
            speed: number,
            backlog_seconds: number,
            rates: vec![(0, number)],
            ..told(target(0), 0)
        };
        let Figures { speed, backlog_seconds, bytes_per_second, .. } = figures_of(&report);
        assert_eq!([speed, backlog_seconds, bytes_per_second], [0.0; 3], "{number}");
    }
}

#[test]
fn a_peer_is_told_once_until_it_answers_or_has_no_more_time() {
    let (mut exchange, _) = two(Nanos::ZERO);
    assert_eq!(exchange.tell(), [ServerId(1)]);
    assert_eq!(exchange.tell(), []);
    exchange.answered(ServerId(1));
    assert_eq!(exchange.tell(), [ServerId(1)]);
    exchange.give_up();
    assert_eq!(exchange.tell(), [ServerId(1)]);
}

#[test]
fn news_and_divisions_have_their_pauses() {
    let (mut exchange, _) = two(Nanos::ZERO);
    for (millis, is_told) in [(9, false), (10, true), (19, false), (20, true)] {
        assert_eq!(exchange.take_news(Nanos::from_millis(millis)), is_told, "{millis}");
    }
    exchange.divided(Nanos(100), Nanos(5));
    assert!(!exchange.may_divide(Nanos(100 + 5 * DIVISION_COST_FACTOR - 1)));
    assert!(exchange.may_divide(Nanos(100 + 5 * DIVISION_COST_FACTOR)));
}

/// The portion of job 0's weight on a server, to a hundredth.
fn portion_of_first(portions: &Portions) -> f64 {
    (portions[&JobId(0)][0] * 100.0).round() / 100.0
}

#[test]
fn one_exchange_tells_everybody() {
    let mut cluster = Cluster::new();
    assert_eq!(portion_of_first(&cluster.portions(0)), 1.0, "before it knows of the other server");
    cluster.exchange(|| vec![0]);
    for server in [0, 1] {
        assert_eq!(portion_of_first(&cluster.portions(server)), 0.5);
    }
    assert!(cluster.portions(2).values().all(|portions| portions == &[1.0]));
}

#[test]
fn a_server_that_leaves_is_left_out_and_one_that_comes_back_counts_again() {
    let mut cluster = Cluster::new();
    cluster.exchange(|| vec![0]);
    cluster.stop(1);
    for _ in 0..=SILENT {
        cluster.exchange(|| vec![0]);
    }
    assert_eq!(portion_of_first(&cluster.portions(0)), 1.0);
    cluster.start(1);
    cluster.exchange(|| vec![0]);
    assert_eq!(portion_of_first(&cluster.portions(0)), 0.5);
    assert_eq!(portion_of_first(&cluster.portions(1)), 0.5);
}

#[derive(Clone, Debug)]
enum Fault {
    None,
    Stop(usize),
    Start(usize),
}

proptest! {
    #[test]
    fn after_any_faults_two_quiet_exchanges_are_enough(
        faults in prop::collection::vec(
            prop_oneof![
                3 => Just(Fault::None),
                1 => (0..3_usize).prop_map(Fault::Stop),
                1 => (0..3_usize).prop_map(Fault::Start),
            ],
            1..40,
        ),
        fates in prop::collection::vec(prop::collection::vec(0..8_u64, 0..3), 1..200),
    ) {
        let mut cluster = Cluster { have_come: false, ..Cluster::new() };
        let mut fates = fates.iter().cycle();
        for fault in faults {
            match fault {
                Fault::None => {}
                Fault::Stop(server) => cluster.stop(server),
                Fault::Start(server) => cluster.start(server),
            }
            cluster.exchange(|| fates.next().cloned().unwrap_or_default());
        }
        for server in 0..3 {
            if !cluster.nodes[server].is_up {
                cluster.start(server);
            }
        }
        cluster.have_come = true;
        for _ in 0..2 {
            cluster.exchange(|| vec![0]);
        }
        for server in [0, 1] {
            prop_assert_eq!(portion_of_first(&cluster.portions(server)), 0.5, "server {}", server);
        }
    }
}
