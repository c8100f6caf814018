//! The laws of the codec, on random tiles and hostile bytes.

use super::decode::Decoding;
use super::encode::{Encoded, Encoding, EncodingOf};
use super::layout::{compact, Header};
use super::measure::Grain;
use super::words::{Kernel, Portable};
use super::*;
use crate::fills::Apart;
use crate::judge::Original;
use proptest::prelude::*;

const SETTINGS: Settings = Settings {
    top: 12,
    finest: -9,
    first: First::Axes([false; 4]),
    integers: Integers::Reversible,
    learning: Learning::Steady,
};

fn shapes() -> impl Strategy<Value = [usize; 4]> {
    prop_oneof![
        proptest::array::uniform4(1_usize..9),
        (1_usize..40, 1_usize..40).prop_map(|(a, b)| [1, 1, a, b]),
        (1_usize..20, 1_usize..20, 1_usize..20).prop_map(|(a, b, c)| [1, a, b, c]),
        (1_usize..20, 1_usize..20, 1_usize..20).prop_map(|(a, b, c)| [a, b, 1, c]),
        (1_usize..700).prop_map(|a| [1, 1, 1, a]),
    ]
}

/// A smooth field with some noise and a step.
fn field(shape: [usize; 4], seed: u64, noise: f64) -> Vec<f64> {
    let mut state = seed | 1;
    let samples = shape.iter().product::<usize>();
    let sample = |index: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (state >> 40) as f64 / (1 << 24) as f64 - 0.5;
        let (row, column) = (index / shape[3], index % shape[3]);
        let step = if 3 * index > samples { 40.0 } else { 0.0 };
        100.0 * (row as f64 / 5.0).sin() * (column as f64 / 7.0).cos() + step + noise * random
    };
    (0..samples).map(sample).collect()
}

/// Segments of a tile by layer.
fn by_layer(segments: &[Segment]) -> Vec<&[u8]> {
    let mut layers: Vec<&[u8]> = vec![&[]; segments.last().map_or(0, |last| usize::from(last.layer) + 1)];
    for segment in segments {
        layers[usize::from(segment.layer)] = &segment.bytes;
    }
    layers
}

/// The layers that fit into so many bytes, the last one cut.
fn cut<'a>(layers: &[&'a [u8]], mut bytes: usize) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    for layer in layers {
        parts.push(&layer[..layer.len().min(bytes)]);
        if bytes < layer.len() {
            break;
        }
        bytes -= layer.len();
    }
    parts
}

fn root_mean_square(samples: &[f64], restored: &[f64]) -> f64 {
    let squares: f64 = samples.iter().zip(restored).map(|(a, b)| (a - b) * (a - b)).sum();
    (squares / samples.len() as f64).sqrt()
}

proptest! {
    #[test]
    fn the_whole_stream_restores_to_the_step(shape in shapes(), seed in any::<u64>(), noise in 0.0_f64..50.0) {
        let samples = field(shape, seed, noise);
        let segments = encode_tile(&samples, shape, SETTINGS);
        let restored: Vec<f64> = decode_tile(shape, SETTINGS, &by_layer(&segments));
        let singles: Vec<f32> = samples.iter().map(|&sample| sample as f32).collect();
        let segments = encode_tile(&singles, shape, SETTINGS);
        let restored_singles: Vec<f32> = decode_tile(shape, SETTINGS, &by_layer(&segments));
        let step = f64::from(SETTINGS.finest).exp2();
        for ((sample, double), single) in samples.iter().zip(&restored).zip(&restored_singles) {
            prop_assert!((sample - double).abs() < 4.0 * step);
            prop_assert!((sample - f64::from(*single)).abs() < 4.0 * step);
        }
        prop_assert!(root_mean_square(&samples, &restored) < 0.7 * step);
    }

    #[test]
    fn more_bytes_are_hardly_ever_worse(
        // In a tile of few samples a coarse guess may be right by chance.
        shape in shapes().prop_filter("many samples", |shape| shape.iter().product::<usize>() > 300), seed in any::<u64>(), noise in 0.0_f64..50.0,
    ) {
        let samples = field(shape, seed, noise);
        let segments = encode_tile(&samples, shape, SETTINGS);
        let layers = by_layer(&segments);
        let total: usize = layers.iter().map(|layer| layer.len()).sum();
        let mut best = f64::INFINITY;
        for twentieth in 0..=20 {
            let restored: Vec<f64> = decode_tile(shape, SETTINGS, &cut(&layers, total * twentieth / 20));
            let error = root_mean_square(&samples, &restored);
            prop_assert!(error <= 1.3 * best + 1e-9, "{error} after {best}");
            best = best.min(error);
        }
    }

    #[test]
    fn integers_return_exactly(shape in shapes(), seed in any::<u64>(), bits in 1_u32..64) {
        let settings = Settings::new(90, -64);
        let noise = field(shape, seed, 1e6);
        let wide: Vec<i64> = noise.iter().map(|x| (x.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64) >> (64 - bits)).collect();
        prop_assert_eq!(&decode_tile::<i64>(shape, settings, &by_layer(&encode_tile(&wide, shape, settings))), &wide);
        let unsigned: Vec<u64> = wide.iter().map(|&x| x as u64).collect();
        prop_assert_eq!(&decode_tile::<u64>(shape, settings, &by_layer(&encode_tile(&unsigned, shape, settings))), &unsigned);
        let small: Vec<u8> = wide.iter().map(|&x| x as u8).collect();
        prop_assert_eq!(&decode_tile::<u8>(shape, settings, &by_layer(&encode_tile(&small, shape, settings))), &small);
        let short: Vec<i16> = wide.iter().map(|&x| x as i16).collect();
        prop_assert_eq!(&decode_tile::<i16>(shape, settings, &by_layer(&encode_tile(&short, shape, settings))), &short);
    }

    #[test]
    fn every_processor_codes_the_same_bits(shape in shapes(), seed in any::<u64>(), noise in 0.0_f64..50.0, part in 0.0_f64..1.0) {
        fn check<C: Encoded>(offsets: Vec<C>, grain: Grain, shape: [usize; 4], part: f64) -> Result<(), TestCaseError> {
            let (extents, plan) = compact(shape, SETTINGS.first);
            let header = Header { centre: 0, descent: None, wrapping: false };
            let encoding = Encoding { extents, plan, settings: SETTINGS, header, grain, observed: None };
            let encoding = || EncodingOf { encoding: encoding.clone(), offsets: offsets.clone() };
            let segments = encoding().run(Portable).segments;
            prop_assert_eq!(&segments, &words::dispatch(encoding()).segments);
            let descent = Header::from_bytes(&segments[0].bytes).and_then(|header| header.descent).expect("not constant");
            let layers = by_layer(&segments);
            let total: usize = layers.iter().map(|layer| layer.len()).sum();
            let segments = cut(&layers, (part * total as f64) as usize);
            let (highest, is_integer) = (SETTINGS.top - i32::from(descent), grain == Grain::Lifted);
            let decoding = || Decoding { shape, settings: SETTINGS, segments: &segments, highest, is_integer };
            prop_assert_eq!(decoding().run(Portable), words::dispatch(decoding()));
            Ok(())
        }
        let samples = field(shape, seed, noise);
        check(samples.iter().map(|&sample| sample as f32).collect(), Grain::Fine, shape, part)?;
        check(samples.iter().map(|&sample| sample as i64).collect(), Grain::Lifted, shape, part)?;
        check(samples, Grain::Fine, shape, part)?;
    }

    #[test]
    fn what_passes_leave_is_known_without_decoding(
        shape in prop_oneof![Just([1, 1, 300, 230]), Just([1, 40, 43, 39]), Just([1, 1, 1, 70_000])],
        seed in any::<u64>(), noise in 1.0_f64..50.0, is_alone in any::<bool>(),
    ) {
        let samples = field(shape, seed, noise);
        let judge = Original { samples: &samples, taken: None, scale: 1.0, apart: &Apart::default() };
        let measuring = Measuring { judge: &judge, unit: 1.0, base_bytes: size_of_val(&samples[..]) / 128, is_alone };
        let coded: Coded<'_> = SETTINGS.encode(Cow::Borrowed(&samples), shape, 1, &measuring);
        let layers = by_layer(&coded.segments);
        let mut bytes = 0;
        for point in coded.progress {
            let layer = usize::from(point.layer);
            let length = layers.get(layer).map_or(0, |layer| layer.len());
            if point.bytes < length || length == 0 {
                continue;
            }
            bytes += length;
            // No accuracy is told for a prefix within the base.
            if bytes < measuring.base_bytes {
                continue;
            }
            let restored: Vec<f64> = decode_tile(shape, SETTINGS, &layers[..=layer]);
            let error = root_mean_square(&samples, &restored);
            let largest = samples.iter().zip(&restored).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
            let told = (point.errors.squares / samples.len() as f64).sqrt();
            prop_assert!(error <= told * (1.0 + 1e-6), "layer {layer}: {error} > {told}");
            prop_assert!(largest <= point.errors.largest * (1.0 + 1e-4), "layer {layer}: {largest} > {}", point.errors.largest);
            prop_assert!(told <= 1.5 * error, "layer {layer}: {told} for {error}");
            if point.measured && layer > 0 {
                prop_assert!(told <= 1.001 * error, "layer {layer}: {told} measured for {error}");
            }
        }
    }

    #[test]
    fn constants_cost_a_few_bytes(shape in shapes(), value in any::<f32>().prop_filter("finite", |value| value.is_finite())) {
        let samples = vec![value; shape.iter().product()];
        let segments = encode_tile(&samples, shape, SETTINGS);
        prop_assert!(segments.iter().map(|segment| segment.bytes.len()).sum::<usize>() < 12);
        prop_assert_eq!(decode_tile::<f32>(shape, SETTINGS, &by_layer(&segments)), samples);
    }

    #[test]
    fn every_magnitude_of_float_is_taken(shape in shapes(), seed in any::<u64>(), exponent in -320_i32..300, finest in -1100_i32..1100) {
        let scale = 10_f64.powi(exponent);
        let samples: Vec<f64> = field(shape, seed, 30.0).into_iter().map(|sample| sample * scale).collect();
        let settings = Settings::new((160.0 * scale).log2() as i32 + 8, finest);
        let segments = encode_tile(&samples, shape, settings);
        let restored: Vec<f64> = decode_tile(shape, settings, &by_layer(&segments));
        let largest = samples.iter().fold(0.0_f64, |largest, sample| largest.max(sample.abs()));
        for value in restored {
            prop_assert!(value.abs() <= 20.0 * largest + f64::from(finest).exp2());
        }
    }

    #[test]
    fn hostile_bytes_restore_to_something(
        shape in shapes(), seed in any::<u64>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..4),
        lost in proptest::option::of(any::<prop::sample::Index>()),
        bytes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..70),
        top in any::<i32>(), finest in any::<i32>(),
    ) {
        let samples = field(shape, seed, 10.0);
        let segments = encode_tile(&samples, shape, SETTINGS);
        let mut layers: Vec<Vec<u8>> = by_layer(&segments).iter().map(|layer| layer.to_vec()).collect();
        for (index, flip) in flips {
            let layer = index.index(layers.len());
            if !layers[layer].is_empty() {
                let place = index.index(layers[layer].len());
                layers[layer][place] ^= flip;
            }
        }
        if let Some(lost) = lost {
            let layer = lost.index(layers.len());
            layers[layer].clear();
        }
        let damaged: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(decode_tile::<f64>(shape, SETTINGS, &damaged).len(), samples.len());
        prop_assert_eq!(decode_tile::<i32>(shape, SETTINGS, &damaged).len(), samples.len());
        let random: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        for settings in [SETTINGS, Settings::new(top, finest)] {
            prop_assert_eq!(decode_tile::<f32>(shape, settings, &random).len(), samples.len());
            prop_assert_eq!(decode_tile::<u64>(shape, settings, &random).len(), samples.len());
        }
    }
}
