//! Homes that share a placer choose as homes with a placer and an exchange each, which tell and hear at every interval, as the
//! product's servers do.
//!
//! The exchanges are a half-life apart and all bytes are powers of two, so that sums are exact in any order: equal costs are
//! equal in both, and the choices have to be the same.

use super::super::placers::Placers;
use super::super::time::seconds;
use super::*;
use crate::check::Settings;
use crate::{
    Clients, Fault, FaultKind, File, Hop, Job, Placement, Scenario, Server, Target, Topology, Transfer,
    Workload,
};
use proptest::prelude::*;
use weir_exchange::{lateness_max, silence_max};
use weir_placement::online::Refusal;
use weir_placement::{LayoutSpecification, ServerId, TargetId};
use weir_wire::PlacedReport;

const SERVERS: u32 = 5;
const TARGETS_EACH: u32 = 3;
/// The half-life of a placed byte.
const LAMBDA_SECONDS: u64 = 180;
/// The intervals that pass with one event.
const EVENT_INTERVALS_MAX: u64 = 3;
/// A removal counts up to this age: 20 half-lives.
const REMOVAL_SECONDS_MAX: f64 = 3_600.0;
const CAPACITY: u64 = 1 << 40;
const LAYOUTS: [&str; 4] = ["-c 1", "-c 4", "-c 2 -S 2M", "-E 2M -c 1 -E -1 -c 4"];

#[derive(Clone, Debug)]
enum Event {
    /// A home makes a file of a layout.
    Make(u32, usize),
    /// One of the files is removed.
    Remove(usize),
    /// So many intervals pass.
    Pass(u64),
    /// A target holds another part of its capacity.
    Fill(usize, u64),
    /// A server is silent from now on.
    Silence(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => (0..SERVERS, 0..LAYOUTS.len()).prop_map(|(home, layout)| Event::Make(home, layout)),
        2 => any::<usize>().prop_map(Event::Remove),
        4 => (1..=EVENT_INTERVALS_MAX).prop_map(Event::Pass),
        2 => (any::<usize>(), prop_oneof![4 => 0..9_u64, 1 => Just(16)]).prop_map(|(target, part)| Event::Fill(target, part)),
        1 => any::<usize>().prop_map(Event::Silence),
    ]
}

fn scenario(allocator: &str) -> Scenario {
    let hop = Hop { bytes_per_second: 1e9, latency_seconds: 0.0 };
    let transfer = Transfer { bytes_per_second: 1e9, fixed_seconds: 0.0 };
    let target = Target::plain(CAPACITY, transfer);
    let server = Server {
        link: hop,
        processor_bytes_per_second: None,
        metadata_seconds: 0.0,
        targets: vec![target; TARGETS_EACH as usize],
    };
    let job = Job {
        name: "job".into(),
        user: "user".into(),
        group: "group".into(),
        nodes: 1,
        priority: 1,
        arrival_seconds: 0.0,
    };
    let file =
        |text: &&str| File { job: 0, placement: Placement::Layout((*text).into()), bytes: 0, home: None };
    let topology = Topology {
        name: "small".into(),
        layout: None,
        clients: Clients { nodes: 1, link: hop },
        routers: Vec::new(),
        servers: vec![server; SERVERS as usize],
    };
    let files = LAYOUTS.iter().map(file).collect();
    let store = Scenario::of(topology, Workload { jobs: vec![job], files, ..Workload::default() });
    Scenario {
        seed: 3,
        policy: "fifo".into(),
        allocator: allocator.into(),
        stripe_count: 1,
        lambda_seconds: LAMBDA_SECONDS as f64,
        ..store
    }
}

const LAMBDA: Nanos = Nanos::from_millis(LAMBDA_SECONDS * 1_000);

fn store(allocator: &str) -> (Settings, Machines, Placers) {
    let scenario = scenario(allocator);
    let settings = crate::check::check(&scenario, &crate::Algorithms::default()).unwrap();
    let machines = Machines::new(&scenario.topology);
    let homes = Placers::new(&machines, &settings, LAMBDA, scenario.seed);
    (settings, machines, homes)
}

/// A placer and an exchange for each home.
struct Each {
    placers: Vec<Placer>,
    exchanges: Vec<Exchange<Told>>,
    /// The files of others that each heard of.
    heard: Vec<Vec<(TargetId, f64)>>,
    files: Vec<u64>,
    /// The moment of the last exchange.
    exchanged: Nanos,
}

impl Each {
    fn new(settings: &Settings, machines: &Machines) -> Each {
        let mut homes = Placers::new(machines, settings, LAMBDA, 3);
        let exchange = |server| Exchange::new(Told { server, ..Told::default() }, LAMBDA, Nanos::ZERO);
        Each {
            placers: (0..SERVERS).map(|home| homes.placer(home).clone()).collect(),
            exchanges: (0..SERVERS as u16).map(exchange).collect(),
            heard: vec![Vec::new(); SERVERS as usize],
            files: vec![0; SERVERS as usize],
            exchanged: Nanos::ZERO,
        }
    }

    /// Every home tells its targets, and hears of the others; silent ones neither tell nor hear. Somebody tells each home what the
    /// others placed, also those that nobody hears; a silent home knows what they had placed before.
    fn exchange(&mut self, machines: &Machines, now: Nanos) {
        let half_lives = (now.0 - self.exchanged.0) / LAMBDA.0;
        self.exchanged = now;
        let left = 0.5_f64.powi(half_lives as i32);
        let faded = |(target, bytes)| (target, bytes * left);
        let placed = self.placers.iter().map(|placer| placer.placed_lately().map(faded).collect());
        let placed: Vec<Vec<(TargetId, f64)>> = placed.collect();
        let is_silent =
            |server: usize| machines.servers[server].silent_since.is_some_and(|since| since < now);
        let sequence = now.0 + 1;
        for home in 0..placed.len() {
            let (placer, exchange) = (&mut self.placers[home], &mut self.exchanges[home]);
            *exchange.own_mut() = Told::of_room(machines, home as u16, sequence);
            let others = || (0..placed.len()).filter(|&other| other != home);
            for other in others().filter(|&other| !is_silent(home) && !is_silent(other)) {
                exchange.hear(Told::of_room(machines, other as u16, sequence), now);
            }
            let heard = &mut self.heard[home];
            match is_silent(home) {
                true => heard.iter_mut().for_each(|(_, bytes)| *bytes *= left),
                false => *heard = others().flat_map(|other| placed[other].clone()).collect(),
            }
            let placed = heard.iter().flat_map(exact).collect();
            exchange.hear(Told { server: NOBODY, sequence, placed, ..Told::default() }, now);
            exchange.inform(placer, now);
        }
    }

    fn place(
        &mut self,
        home: u32,
        asked: &LayoutSpecification,
        now: Nanos,
    ) -> Result<(u64, Layout), Refusal> {
        let (placer, files) = (&mut self.placers[home as usize], &mut self.files[home as usize]);
        let layout = placer.place(*files, Some(asked))?.layout;
        placer.placed(&layout, seconds(now) as i64);
        *files += 1;
        Ok((*files - 1, layout))
    }
}

/// A report of placed bytes in two parts: a sum of powers of two needs more digits than one has.
fn exact(&(target, bytes): &(TargetId, f64)) -> [PlacedReport; 2] {
    let near = bytes as f32;
    let most = if f64::from(near) > bytes { near.next_down() } else { near };
    [most, (bytes - f64::from(most)) as f32].map(|bytes| PlacedReport { target, bytes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn homes_that_share_a_placer_choose_as_homes_with_a_placer_each(
        allocator in prop_oneof![3 => Just("balanced"), 1 => Just("lustre-standard"), 1 => Just("random")],
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (settings, mut machines, mut homes) = store(allocator);
        let mut each = Each::new(&settings, &machines);
        let mut now = Nanos::ZERO;
        let mut made: Vec<(u32, Layout, Nanos)> = Vec::new();
        each.exchange(&machines, now);
        for event in events {
            let silent = machines.servers.iter().filter_map(|server| server.silent_since).min();
            let ends = Nanos(now.0 + EVENT_INTERVALS_MAX * LAMBDA.0);
            // What others placed on the targets of a dead server counts for homes that share a placer alone.
            if silent.is_some_and(|since| ends.saturating_since(since) > lateness_max(silence_max(LAMBDA))) {
                break;
            }
            match event {
                Event::Make(home, layout) => {
                    let asked = &settings.specifications[layout];
                    let placed = homes.place(home, Some(asked), (&machines, now));
                    prop_assert_eq!(&placed, &each.place(home, asked, now));
                    made.extend(placed.ok().map(|(_, layout)| (home, layout, now)));
                }
                Event::Remove(number) if !made.is_empty() => {
                    let (home, layout, created) = made.swap_remove(number % made.len());
                    let age_seconds = seconds(now) - seconds(created);
                    // A placer that just heard the figures leaves the last byte of an older file where it is.
                    if age_seconds < REMOVAL_SECONDS_MAX {
                        homes.removed((home, &layout, created), (&machines, now));
                        each.placers[home as usize].removed_at_age(&layout, age_seconds);
                    }
                }
                Event::Remove(_) => {}
                Event::Pass(intervals) => {
                    for _ in 0..intervals {
                        now = Nanos(now.0 + LAMBDA.0);
                        each.exchange(&machines, now);
                    }
                }
                // Figures are heard with the next exchange.
                Event::Fill(target, part) => {
                    let target = target % machines.targets.len();
                    let target = &mut machines.targets[target];
                    // A full target stays full: a home with a placer of its own adds less to one that comes back.
                    if target.free_bytes() > 0 {
                        target.workload_bytes = CAPACITY / 16 * part;
                    }
                    now = Nanos(now.0 + LAMBDA.0);
                    each.exchange(&machines, now);
                }
                Event::Silence(server) => {
                    let server = (server % SERVERS as usize) as u32;
                    let fault = Fault { at_seconds: seconds(now), server, target: 0, kind: FaultKind::Parted };
                    homes.hit(&fault, &mut machines, now);
                }
            }
        }
    }
}

/// A home that makes many files between two exchanges counts each, and the others hear of them at the next.
#[test]
fn a_home_knows_its_own_files_before_the_others_do() {
    let (settings, machines, mut homes) = store("balanced");
    let asked = Some(&settings.specifications[0]);
    let count = SERVERS * TARGETS_EACH;
    let mut of_burst: Vec<TargetId> = Vec::new();
    for _ in 0..count {
        of_burst.extend(homes.place(0, asked, (&machines, Nanos::ZERO)).unwrap().1.targets());
    }
    of_burst.sort_unstable();
    let all: Vec<TargetId> = (0..count).map(|number| machines.name(number)).collect();
    assert_eq!(of_burst, all, "a stripe on each target");
    let shared = |homes: &Placers| homes.shared().placer.placed_lately().map(|(_, bytes)| bytes).sum::<f64>();
    assert_eq!(shared(&homes), 0.0, "nobody else knows of them");
    assert!(homes.homes.iter().position(|home| home.own.is_some()) == Some(0), "the home has a copy");
    let others = homes.place(1, asked, (&machines, Nanos::ZERO)).unwrap().1;
    assert_eq!(others.targets()[0].server, ServerId(1), "among equals the first lies at home");
    let later = Nanos::from_millis(LAMBDA_SECONDS * 1_000);
    homes.place(2, asked, (&machines, later)).unwrap();
    assert_eq!(shared(&homes), f64::from(count + 1) * f64::from(1 << 19), "half of each byte is left");
    assert!(homes.homes.iter().all(|home| home.own.is_none()), "copies end with the exchange");
}

/// A placer that takes two exchanges for one expects files of other homes that it was told of.
#[test]
fn files_made_before_the_run_in_turn_are_even() {
    let (settings, machines, mut homes) = store("balanced");
    let two_stripes = Some(&settings.specifications[2]);
    let files = SERVERS * TARGETS_EACH;
    let mut used: Vec<TargetId> = Vec::new();
    for file in 0..files {
        homes.await_exchanges_before((files - file) as usize);
        let home = homes.usual(file);
        used.extend(homes.place(home, two_stripes, (&machines, Nanos::ZERO)).unwrap().1.targets());
    }
    used.sort_unstable();
    let twice: Vec<TargetId> =
        (0..files).map(|number| machines.name(number)).flat_map(|target| [target; 2]).collect();
    assert_eq!(used, twice);
}
