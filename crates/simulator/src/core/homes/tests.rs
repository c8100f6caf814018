//! Homes that share a placer choose as homes with a placer each, which all refresh at every exchange, as the product's servers do.
//!
//! The exchanges are a half-life apart and all bytes are powers of two, so that sums are exact in any order: equal costs are
//! equal in both, and the choices have to be the same.

use super::*;
use crate::{Clients, File, Hop, Job, Placement, Scenario, Server, Target, Topology, Transfer, Workload};
use proptest::prelude::*;

const SERVERS: u32 = 5;
const TARGETS_EACH: u32 = 3;
/// The half-life of a placed byte.
const LAMBDA_SECONDS: u64 = 180;
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
        4 => (1_u64..4).prop_map(Event::Pass),
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

fn store(allocator: &str) -> (Settings, Machines, Homes) {
    let scenario = scenario(allocator);
    let settings = crate::check::check(&scenario).unwrap();
    let machines = Machines::new(&scenario.topology);
    let homes = Homes::new(&machines, &settings, Nanos::from_millis(LAMBDA_SECONDS * 1_000), scenario.seed);
    (settings, machines, homes)
}

/// A placer for each home.
struct Each {
    placers: Vec<Placer>,
    files: Vec<u64>,
    silent_max: Nanos,
    /// The moment of the last exchange.
    exchanged: Nanos,
}

impl Each {
    fn new(homes: &Homes) -> Each {
        let placer = |home: u32| {
            let mut placer = new_placer(home, &homes.targets, (homes.defaults, homes.allocator));
            placer.set_seed(u64::from(home) ^ homes.seed << 16);
            placer
        };
        let placers = (0..SERVERS).map(placer).collect();
        Each {
            placers,
            files: vec![0; SERVERS as usize],
            silent_max: homes.silent_max,
            exchanged: Nanos::ZERO,
        }
    }

    /// Every home hears the figures, and the bytes that the others placed.
    fn exchange(&mut self, machines: &Machines, now: Nanos) {
        let half_lives = (now.0 - self.exchanged.0) / (LAMBDA_SECONDS * 1_000_000_000);
        self.exchanged = now;
        let left = 0.5_f64.powi(half_lives as i32);
        let told = |placer: &Placer| placer.placed_lately().map(|(_, bytes)| bytes * left).collect();
        let told: Vec<Vec<f64>> = self.placers.iter().map(told).collect();
        for (home, placer) in self.placers.iter_mut().enumerate() {
            placer.refresh(seconds(now), |target| {
                let number = machines.number(target);
                let others = told.iter().enumerate().filter(|&(other, _)| other != home);
                let placed_bytes = others.map(|(_, bytes)| bytes[number as usize]).sum();
                let presence = |server| presence(machines, server, (now, self.silent_max));
                let presence = match (u32::from(target.server.0), home as u32) {
                    (server, home) if server == home => Presence::Alive,
                    (server, home) if presence(home) == Presence::Alive => presence(server),
                    (_, home) => presence(home),
                };
                Some(Figures { placed_bytes, ..figures(machines, number, presence) })
            });
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn homes_that_share_a_placer_choose_as_homes_with_a_placer_each(
        allocator in prop_oneof![3 => Just("balanced"), 1 => Just("lustre-standard"), 1 => Just("random")],
        events in prop::collection::vec(event(), 1..60),
    ) {
        let (settings, mut machines, mut homes) = store(allocator);
        let mut each = Each::new(&homes);
        let mut now = Nanos::ZERO;
        let mut made: Vec<(u32, Layout, Nanos)> = Vec::new();
        each.exchange(&machines, now);
        for event in events {
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
                        homes.removed(home, &layout, (created, now));
                        each.placers[home as usize].removed_at_age(&layout, age_seconds);
                    }
                }
                Event::Remove(_) => {}
                Event::Pass(intervals) => {
                    for _ in 0..intervals {
                        now = Nanos(now.0 + homes.lambda.0);
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
                    now = Nanos(now.0 + homes.lambda.0);
                    each.exchange(&machines, now);
                }
                Event::Silence(server) => {
                    machines.servers[server % SERVERS as usize].silent_since.get_or_insert(now);
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
    assert_eq!(of_burst, homes.targets, "a stripe on each target");
    assert_eq!(homes.common.copied, [0]);
    let others = homes.place(1, asked, (&machines, Nanos::ZERO)).unwrap().1;
    assert_eq!(others.targets()[0].server, ServerId(1), "among equals the first lies at home");
    let later = Nanos::from_millis(LAMBDA_SECONDS * 1_000);
    homes.place(2, asked, (&machines, later)).unwrap();
    let told: f64 = homes.common.placer.placed_lately().map(|(_, bytes)| bytes).sum();
    assert_eq!(told, f64::from(count + 1) * f64::from(1 << 19), "half of each byte is left");
    assert!(homes.homes.iter().all(|home| home.own.is_none()), "copies end with the exchange");
}

/// A placer that takes two exchanges for one expects files of other homes that it was told of.
#[test]
fn files_made_before_the_run_in_turn_are_even() {
    let (settings, machines, mut homes) = store("balanced");
    let two_stripes = Some(&settings.specifications[2]);
    let files = SERVERS * TARGETS_EACH;
    let mut used: Vec<TargetId> = Vec::new();
    homes.await_exchanges_before(files as usize);
    for file in 0..files {
        let home = homes.usual(file);
        used.extend(homes.place(home, two_stripes, (&machines, Nanos::ZERO)).unwrap().1.targets());
        homes.exchange_before();
    }
    used.sort_unstable();
    let twice: Vec<TargetId> = homes.targets.iter().flat_map(|&target| [target; 2]).collect();
    assert_eq!(used, twice);
}
