//! The time of one count, for a job that is alone and for four threads of one job: `cargo bench -p weir-windows`.

use std::time::{Duration, Instant};
use weir_windows::{Device, Operation, Recorder};

const COUNTS: u64 = 4_000_000;

fn nanoseconds(recorder: &Recorder) -> f64 {
    let job = recorder.job(1, 0, "job");
    let began = Instant::now();
    for number in 0..COUNTS {
        let device = Device::target(0, (number % 2) as u16);
        recorder.count(&job, device, Operation::Write(4096), 1_000_000_000_000 + number * 20_000, 20_000);
    }
    began.elapsed().as_nanos() as f64 / COUNTS as f64
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let recorder =
        Recorder::open(&folder.path().join("windows"), Duration::from_secs(1)).expect("a recorder");
    println!("one thread: {:.1} ns a count", nanoseconds(&recorder));
    let each = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| nanoseconds(&recorder))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an end")).fold(0.0, f64::max)
    });
    println!("four threads at once, the slowest: {each:.1} ns a count");
}
