//! The time of allocators on a large file system, as one JSON object: the Rust side of `benchmarks/allocation.py`.
//!
//! The file system has 3,600 targets on 450 servers, each with a load of its own. Every time is the median of several
//! runs.

use std::time::Instant;
use weir_placement::{
    AllocatorName, Balanced, Demand, ServerId, ServerState, SplitMix64, TargetId, TargetState, View,
};

const SERVERS: u16 = 450;
const TARGETS_PER_SERVER: u16 = 8;
const STRIPE_BYTES: u64 = 1 << 20;
const LOAD_STRIPES_MAX: u64 = 10;

/// Targets with loads of 0 to 10 stripes and, where asked, servers whose loads count and speeds that differ.
fn view(has_servers: bool, has_speeds: bool, free_stripes: u64) -> View {
    let mut random = SplitMix64(1);
    let mut targets = Vec::new();
    let mut servers = Vec::new();
    for server in 0..SERVERS {
        let mut load = 0.0;
        for index in 0..TARGETS_PER_SERVER {
            let stripes = random.draw() % (LOAD_STRIPES_MAX + 1);
            let load_bytes = (stripes * STRIPE_BYTES) as f64;
            load += load_bytes;
            let speed = if has_speeds { 0.5 + (random.draw() % 1000) as f64 / 1000.0 } else { 1.0 };
            let target = TargetId { server: ServerId(server), index };
            targets.push(TargetState { target, speed, load_bytes, free_bytes: free_stripes * STRIPE_BYTES });
        }
        let speed = if has_servers { f64::from(TARGETS_PER_SERVER) } else { f64::INFINITY };
        servers.push(ServerState { server: ServerId(server), speed, load_bytes: load });
    }
    View::new(targets, &servers).expect("a right view")
}

/// An idle server among busy ones: more stripes want the idle targets than their distinctness allows.
fn contended(view: &View, busy_stripes: u64) -> View {
    let mut view = view.clone();
    for target in 0..view.targets().len() {
        let TargetState { target: id, speed, load_bytes, free_bytes } = view.targets()[target];
        let more = if id.server.0 == 0 { 0 } else { busy_stripes * STRIPE_BYTES };
        view.update_target(target, speed, load_bytes + more as f64, free_bytes).expect("a right load");
    }
    view
}

fn one_count(requests: usize) -> Vec<Demand> {
    vec![Demand { stripes: 8, stripe_bytes: STRIPE_BYTES, program: 0 }; requests]
}

/// Stripe counts of 1 to 16, 8 on average.
fn mixed_counts(requests: usize) -> Vec<Demand> {
    let counts = [1, 3, 8, 16, 12, 8, 4, 12];
    let demand = |request: usize| Demand {
        stripes: counts[request % counts.len()],
        stripe_bytes: STRIPE_BYTES,
        program: 0,
    };
    (0..requests).map(demand).collect()
}

/// Mixed counts, and a stripe size of its own for each request.
fn mixed_sizes(requests: usize) -> Vec<Demand> {
    let mut random = SplitMix64(2);
    let size =
        |demand: Demand| Demand { stripe_bytes: STRIPE_BYTES / 2 + random.draw() % STRIPE_BYTES, ..demand };
    mixed_counts(requests).into_iter().map(size).collect()
}

/// The median time of `runs` allocations, the load of the fullest target in stripes, and the cost over its bound.
fn measure(
    view: &View,
    demands: &[Demand],
    allocator: AllocatorName,
    runs: usize,
) -> (f64, f64, Option<f64>) {
    let mut allocator = allocator.build();
    let mut random = SplitMix64(3);
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..runs {
        let start = Instant::now();
        last = Some(allocator.allocate(view, demands, &mut || random.draw()).expect("there is room"));
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let allocation = last.expect("at least one run");
    let fullest = allocation.loads_bytes.iter().copied().fold(0.0, f64::max) / STRIPE_BYTES as f64;
    (times[runs / 2], fullest, allocation.ratio())
}

/// The median time of the choice for one file, in microseconds.
fn measure_one(view: &View) -> f64 {
    let mut balanced = Balanced::default();
    let mut targets = Vec::new();
    let mut times = Vec::new();
    for _ in 0..1000 {
        targets.clear();
        let demand = Demand { stripes: 8, stripe_bytes: STRIPE_BYTES, program: 0 };
        let start = Instant::now();
        balanced.place_one(view, demand, &mut targets).expect("there is room");
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let (alone, served) = (view(false, false, 1 << 20), view(true, false, 1 << 20));
    let uneven = view(true, true, 1 << 20);
    // Room for 8 stripes on average where 800 requests ask for 8 each of 800 targets: none is left over.
    let full = view(true, true, 12);
    let idle_few = contended(&uneven, 2000);
    let ample = view(false, true, 1 << 20);
    let balanced = AllocatorName::Balanced;
    let cases = [
        ("allocation", &alone, one_count(1000), balanced, 51),
        ("allocation_servers", &served, one_count(1000), balanced, 51),
        ("allocation_speeds", &uneven, one_count(1000), balanced, 51),
        ("allocation_general", &uneven, mixed_counts(1000), balanced, 21),
        ("allocation_general_full", &full, mixed_counts(5000), balanced, 5),
        ("allocation_contended", &idle_few, mixed_counts(1000), balanced, 5),
        ("allocation_contended_20k", &idle_few, mixed_counts(20_000), balanced, 1),
        ("allocation_sizes", &uneven, mixed_sizes(1000), balanced, 11),
        ("allocation_100k", &uneven, one_count(100_000), balanced, 5),
        ("allocation_100k_general", &uneven, mixed_counts(100_000), balanced, 3),
        ("allocation_100k_general_no_servers", &ample, mixed_counts(100_000), balanced, 3),
        ("allocation_100k_sizes", &uneven, mixed_sizes(100_000), balanced, 3),
        ("lustre_standard", &alone, one_count(1000), AllocatorName::LustreStandard, 11),
        ("random", &alone, one_count(1000), AllocatorName::Random, 11),
    ];
    let mut fields = vec![format!("\"place_one_us\": {:.3}", measure_one(&uneven))];
    for (name, view, demands, allocator, runs) in cases {
        let (milliseconds, fullest, ratio) = measure(view, &demands, allocator, runs);
        fields.push(format!("\"{name}_ms\": {milliseconds:.4}"));
        fields.push(format!("\"{name}_fullest_stripes\": {fullest:.2}"));
        if let Some(ratio) = ratio {
            fields.push(format!("\"{name}_ratio\": {ratio:.6}"));
        }
    }
    println!("{{{}}}", fields.join(", "));
}
