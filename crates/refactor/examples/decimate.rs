//! Speed of the `decimate` codec beside a plain copy, on a field of waves and noise, on one thread:
//! `cargo run --release -p weir-refactor --example decimate`

use std::hint::black_box;
use weir_refactor::{refactor, Header, Options};

const EDGE: usize = 192;
const ROUNDS: usize = 7;
/// A copy is too short to be timed by itself.
const COPIES: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = 1;
    let samples = field();
    let shape = [EDGE; 3];
    let options = Options { codec: "decimate".to_owned(), threads, ..Options::default() };
    let container = refactor(&samples, &shape, &options)?.to_bytes(threads);
    let header = Header::decode(&container)?;
    let mut target = samples.clone();
    let mut stored = vec![0; container.len()];
    let mut restored = vec![0; size_of_val(samples.as_slice())];
    let mut best = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        let works: [&mut dyn FnMut(); 4] = [
            &mut || {
                for _ in 0..COPIES {
                    black_box(&mut target).copy_from_slice(black_box(&samples));
                }
            },
            &mut || drop(black_box(refactor(&samples, &shape, &options))),
            &mut || {
                if let Ok(container) = refactor(&samples, &shape, &options) {
                    container.write(&mut stored, threads);
                }
            },
            &mut || {
                let parts = [(0, container.as_slice())];
                drop(black_box(header.restore_to_bytes::<f32>(&parts, None, threads, &mut restored)));
            },
        ];
        for (work, best) in works.into_iter().zip(&mut best) {
            let begun = processor_seconds();
            work();
            *best = best.min(processor_seconds() - begun);
        }
    }
    best[0] /= COPIES as f64;
    let bytes = size_of_val(samples.as_slice()) as f64;
    for (name, seconds) in ["copy", "encode, not written", "encode", "restore all"].into_iter().zip(best) {
        println!("{name:20} {:6.0} MB/s, {:.4} of a copy", bytes / seconds / 1e6, best[0] / seconds);
    }
    println!("{:.2} bytes of container a byte of array", container.len() as f64 / bytes);
    Ok(())
}

/// A wave of several lengths with noise, so that few samples lie on a line.
fn field() -> Vec<f32> {
    let mut state = 1_u64;
    let sample = |index: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (state >> 40) as f32 / (1 << 24) as f32;
        let place = index as f32;
        (place * 0.013).sin() + 0.2 * (place * 0.21).sin() + 0.01 * noise * (place * 1e-5).cos()
    };
    (0..EDGE * EDGE * EDGE).map(sample).collect()
}

/// Seconds that this thread has run for; others on the machine do not count.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}
