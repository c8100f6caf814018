//! Servers that exchange reports over a network which loses, delays and repeats them, while servers stop
//! and start: once it is quiet, two exchanges make every server's portions right.

use super::*;
use crate::peers::origin;
use proptest::prelude::*;
use weir_device::Reports;
use weir_fairshare::Nanos;
use weir_wire::{DeviceUse, JobId, MachineLoad, StoreSettings};

const LAMBDA: Nanos = Nanos::from_millis(100);
/// Exchanges after which a server that is silent is left out.
const SILENT: u64 = 10;

/// The jobs of ThemisIO's figure 5, and one that has a server to itself: nodes, and servers used.
const JOBS: [(u32, &[u16]); 4] = [(16, &[0, 1]), (8, &[0]), (8, &[1]), (3, &[2])];

struct Node {
    boot: u64,
    sequence: u64,
    reports: Reports<ServerReport>,
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

impl Cluster {
    fn new() -> Cluster {
        let node = |boot| Node { boot, sequence: 0, reports: Reports::every(LAMBDA), is_up: true };
        Cluster {
            nodes: (1..=3).map(node).collect(),
            messages: Vec::new(),
            now: Nanos::ZERO,
            boots: 3,
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
            self.nodes[server].sequence += 1;
            let said =
                report(server as u16, self.nodes[server].boot, self.nodes[server].sequence, self.have_come);
            for peer in (0..self.nodes.len()).filter(|&peer| peer != server) {
                for intervals in fate() {
                    let arrival = Nanos(self.now.0 + intervals * LAMBDA.0);
                    self.messages.push((arrival, peer, said.clone()));
                }
            }
        }
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.messages).into_iter().partition(|(at, _, _)| *at <= now);
        self.messages = later;
        let due: Vec<Message> = due;
        for (_, peer, said) in due {
            if self.nodes[peer].is_up {
                self.nodes[peer].reports.take(origin(&said), said, now);
            }
        }
        self.now = self.now + LAMBDA;
    }

    fn stop(&mut self, server: usize) {
        self.nodes[server].is_up = false;
    }

    fn start(&mut self, server: usize) {
        self.boots += 1;
        self.nodes[server] =
            Node { boot: self.boots, sequence: 0, reports: Reports::every(LAMBDA), is_up: true };
    }

    fn portions(&self, server: usize) -> Portions {
        let node = &self.nodes[server];
        let own = report(server as u16, node.boot, node.sequence, self.have_come);
        let reports: Vec<&ServerReport> = node.reports.fresh(self.now).chain(std::iter::once(&own)).collect();
        portions(&sharing(), ServerId(server as u16), &reports).remove(&0).unwrap_or_default()
    }
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
