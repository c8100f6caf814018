//! Rate, distortion and speed of the `planes` codec on `.npy` files of float32, each coded as one tile:
//! `cargo run --release --example planes -- FIELD.npy...`

use weir_refactor::planes::{decode_tile, encode_tile, Settings};

/// Shares of the raw bytes that are decoded.
const SHARES: [f64; 4] = [0.01, 0.05, 0.25, 1.0];
/// Least time for which each work is repeated.
const SECONDS_MIN: f64 = 0.3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let (samples, shape) =
            read_npy(&std::fs::read(&path)?).ok_or_else(|| format!("{path}: not a float32 .npy"))?;
        measure(&path, &samples, shape);
    }
    Ok(())
}

fn measure(path: &str, samples: &[f32], shape: [usize; 4]) {
    let (least, most) =
        samples.iter().fold((f32::MAX, f32::MIN), |(a, b), &value| (a.min(value), b.max(value)));
    let range = f64::from(most) - f64::from(least);
    let settings = Settings::new(range.log2() as i32 + 10, (range * 3e-6).log2().floor() as i32);
    let raw = size_of_val(samples);
    let (segments, seconds) = timed(|| encode_tile(samples, shape, settings));
    println!("{path} {shape:?}: encode {:.0} MB/s", raw as f64 / seconds / 1e6);
    let layers = segments.last().map_or(0, |segment| usize::from(segment.layer) + 1);
    for share in SHARES {
        let mut budget = (raw as f64 * share) as usize;
        let mut parts: Vec<&[u8]> = vec![&[]; layers];
        for segment in &segments {
            let taken = segment.bytes.len().min(budget);
            parts[usize::from(segment.layer)] = &segment.bytes[..taken];
            budget -= taken;
        }
        let used: usize = parts.iter().map(|part| part.len()).sum();
        let (restored, seconds) = timed(|| decode_tile::<f32>(shape, settings, &parts));
        let errors = samples.iter().zip(&restored).map(|(a, b)| f64::from(a - b));
        let (squares, largest) =
            errors.fold((0.0, 0.0_f64), |(sum, most), e| (sum + e * e, most.max(e.abs())));
        let psnr = 20.0 * (range / (squares / samples.len() as f64).sqrt()).log10();
        println!(
            "  {:6.2} %: {psnr:6.2} dB, {:4.0} MB/s, largest error {:.2} of the last step",
            100.0 * used as f64 / raw as f64,
            raw as f64 / seconds / 1e6,
            largest / f64::from(settings.finest).exp2(),
        );
    }
}

/// The result of `work`, and its mean time.
fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let start = processor_seconds();
    let mut repetitions = 0.0;
    loop {
        let result = work();
        repetitions += 1.0;
        let seconds = processor_seconds() - start;
        if seconds > SECONDS_MIN {
            return (result, seconds / repetitions);
        }
    }
}

/// Seconds that this thread has run for; others on the machine do not count.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = statistics.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

/// Samples and shape, axes that are missing first with length 1.
fn read_npy(bytes: &[u8]) -> Option<(Vec<f32>, [usize; 4])> {
    let length = usize::from(u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?));
    let header = std::str::from_utf8(bytes.get(10..10 + length)?).ok()?;
    header.contains("'<f4'").then_some(())?;
    let axes = header.split_once("'shape': (")?.1.split_once(')')?.0;
    let axes: Vec<usize> = axes.split(',').filter_map(|axis| axis.trim().parse().ok()).collect();
    let mut shape = [1; 4];
    shape.get_mut(4_usize.checked_sub(axes.len())?..)?.copy_from_slice(&axes);
    let numbers = bytes[10 + length..].chunks_exact(4);
    Some((
        numbers.map(|number| f32::from_le_bytes([number[0], number[1], number[2], number[3]])).collect(),
        shape,
    ))
}
