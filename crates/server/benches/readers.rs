//! How long a client's ping takes beside readers of the control API, where the server knows many jobs.
//!
//! The last line on stdout is one JSON object.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testing::{claims, get, key, ram, Cluster, Line, Stop, Transport};
use weir_wire::{Claims, Reply, Request};

const JOBS: usize = 1_500;
/// Each asks again as soon as it has its answer.
const READERS: [&str; 4] = ["/metrics", "/v1/jobs", "/metrics", "/v1/jobs"];
const PINGS: usize = 5_000;
/// Between two pings: a client that is not always at work, as most are.
const PAUSE: Duration = Duration::from_millis(1);

fn main() {
    // `cargo test` runs benchmarks too, without this flag, only to see that they are built.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let cluster = Cluster::start(&ram(1, "64MiB"));
    for number in 0..JOBS {
        let job = Claims { job: format!("job-{number}"), ..claims(1000) };
        cluster.line(0, Transport::Unix, &key().mint(job));
    }
    let mut line = cluster.root(0);
    let alone = percentile_99(&mut line);
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let control = cluster.address(0).control;
    let beside = std::thread::scope(|scope| {
        let _stopping = Stop::at_end(&stop);
        for path in READERS {
            let (control, stop, answers) = (&control, &stop, &answers);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(get(control, path).status, 200);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        percentile_99(&mut line)
    });
    let answers = answers.into_inner();
    assert!(answers > 0, "the readers had no answer meanwhile");
    println!("ping, 99th percentile: {alone:.2} ms alone, {beside:.2} ms beside {} readers", READERS.len());
    println!("answers to the readers meanwhile: {answers}, each of {JOBS} jobs");
    println!("{{\"metrics_readers_ping_p99_ms\": {beside:.4}, \"ping_p99_ms\": {alone:.4}}}");
}

/// Of many pings, in milliseconds.
fn percentile_99(line: &mut Line) -> f64 {
    let ping = |_| {
        std::thread::sleep(PAUSE);
        let began = Instant::now();
        assert_eq!(line.reply(&Request::Ping), Reply::Done);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..PINGS).map(ping).collect();
    times.sort_unstable();
    times[PINGS * 99 / 100].as_secs_f64() * 1e3
}
