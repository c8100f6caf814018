//! Arrays of every kind and shape through the container: the restored samples, their promised accuracy, and the effects
//! of damage.

use proptest::prelude::*;
use weir_refactor::{Accuracy, Asked, Header, Kind, Options, RefactorError, Region, Restored};

/// A smooth wave with noise, so that every layer has bits.
fn wave(shape: &[usize], seed: u64) -> Vec<f64> {
    let mut state = seed | 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1 << 24) as f64 - 0.5
    };
    let samples: usize = shape.iter().product();
    let width = shape.last().copied().unwrap_or(1).max(1);
    (0..samples)
        .map(|n| {
            let (row, column) = ((n / width) as f64, (n % width) as f64);
            40.0 * (row * 0.11).sin() * (column * 0.23).cos() + noise()
        })
        .collect()
}

fn as_kind<T: Kind>(samples: &[f64]) -> Vec<T> {
    samples.iter().map(|sample| T::from_f64(sample.abs() * 2.9)).collect()
}

/// The bytes of a container.
fn refactor<T: Kind>(samples: &[T], shape: &[usize], options: &Options) -> Result<Vec<u8>, RefactorError> {
    Ok(weir_refactor::refactor(samples, shape, options)?.to_bytes(options.threads))
}

fn options(codec: &str) -> Options {
    let ratios = (codec == "decimate").then(|| vec![2, 8]);
    Options { codec: codec.to_owned(), ratios, ..Options::default() }
}

fn restored<T: Kind>(stream: &[u8], length: usize, region: Option<&Region>) -> Restored<T> {
    let header = Header::decode(stream).expect("a sound header");
    header.restore(&[(0, &stream[..length])], region, 2).expect("a sound region")
}

/// The RMSE and the largest error.
fn errors<T: Kind>(original: &[T], restored: &[T]) -> (f64, f64) {
    let distances: Vec<f64> =
        original.iter().zip(restored).map(|(one, other)| one.distance(*other)).collect();
    let squares: f64 = distances.iter().map(|distance| distance * distance).sum();
    ((squares / distances.len().max(1) as f64).sqrt(), distances.iter().copied().fold(0.0, f64::max))
}

fn check_bounds<T: Kind>(original: &[T], restored: &Restored<T>) -> Result<(), TestCaseError> {
    let (rmse, max_error) = errors(original, &restored.samples);
    let bound = restored.known.accuracy;
    prop_assert!(rmse <= bound.rmse * (1.0 + 1e-9), "rmse {rmse} > {}", bound.rmse);
    prop_assert!(max_error <= bound.max_error, "max_error {max_error} > {}", bound.max_error);
    Ok(())
}

fn check_kind<T: Kind>(shape: &[usize], seed: u64, codec: &str) -> Result<(), TestCaseError> {
    let samples: Vec<T> = as_kind(&wave(shape, seed));
    let exact = Options { exact: true, threads: 2, ..options(codec) };
    let stream = refactor(&samples, shape, &exact).expect("a sound array");
    let whole = restored::<T>(&stream, stream.len(), None);
    prop_assert_eq!(&whole.samples, &samples);
    prop_assert_eq!(whole.known.accuracy.max_error, 0.0);
    let header = Header::decode(&stream).expect("a sound header");
    prop_assert_eq!(header.total_bytes(), stream.len() as u64);
    for part in 0..8 {
        let length = header.header_bytes as usize;
        let length = length + (stream.len() - length) * part / 8;
        check_bounds(&samples, &restored::<T>(&stream, length, None))?;
    }
    for chunk in &header.chunks {
        let whole = restored::<T>(&stream, (chunk.offset + chunk.length) as usize, None);
        prop_assert_eq!(whole.known.accuracy, chunk.accuracy);
        check_bounds(&samples, &whole)?;
    }
    Ok(())
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        proptest::collection::vec(0_usize..4, 1..=4),
        proptest::collection::vec(1_usize..12, 1..=4),
        proptest::collection::vec(1_usize..200, 1..=2),
    ]
}

fn codecs() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("planes"), Just("decimate")]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn floats(shape in shapes(), seed in any::<u64>(), codec in codecs()) {
        check_kind::<f32>(&shape, seed, codec)?;
        check_kind::<f64>(&shape, seed, codec)?;
    }

    #[test]
    fn integers(shape in shapes(), seed in any::<u64>(), codec in codecs()) {
        check_kind::<i8>(&shape, seed, codec)?;
        check_kind::<u16>(&shape, seed, codec)?;
        check_kind::<i32>(&shape, seed, codec)?;
        check_kind::<u64>(&shape, seed, codec)?;
    }

    #[test]
    fn any_bits_at_all(bits in proptest::collection::vec(any::<u32>(), 1..300), codec in codecs()) {
        let floats: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
        let options = Options { exact: true, ..options(codec) };
        let stream = refactor(&floats, &[floats.len()], &options).expect("a sound array");
        let back = restored::<f32>(&stream, stream.len(), None);
        let back: Vec<u32> = back.samples.iter().map(|sample| sample.to_bits()).collect();
        prop_assert_eq!(back, bits.clone());
        let wide: Vec<i64> = bits.iter().map(|bits| i64::from(*bits as i32) * i64::from(*bits)).collect();
        let stream = refactor(&wide, &[wide.len()], &options).expect("a sound array");
        prop_assert_eq!(restored::<i64>(&stream, stream.len(), None).samples, wide);
    }

    #[test]
    fn the_full_stream_keeps_the_tolerance(shape in shapes(), seed in any::<u64>(), exponent in -30_i32..6) {
        let samples: Vec<f32> = as_kind(&wave(&shape, seed));
        let tolerance = 2.0_f64.powi(exponent);
        let options = Options { tolerance: Some(tolerance), ..options("planes") };
        let stream = refactor(&samples, &shape, &options).expect("a sound array");
        let (_, max_error) = errors(&samples, &restored::<f32>(&stream, stream.len(), None).samples);
        prop_assert!(max_error <= tolerance, "{max_error} > {tolerance}");
    }

    #[test]
    fn errors_are_bounded_at_any_cut_and_not_by_much(
        shape in prop_oneof![Just(vec![300, 230]), Just(vec![40, 41, 42]), Just(vec![70_000]), Just(vec![2, 500, 2, 50])],
        seed in any::<u64>(), cuts in proptest::collection::vec(0.0_f64..1.0, 8), codec in codecs(),
    ) {
        let samples: Vec<f32> = as_kind(&wave(&shape, seed));
        let stream = refactor(&samples, &shape, &options(codec)).expect("a sound array");
        let header = Header::decode(&stream).expect("a sound header");
        let base = (header.chunks[0].offset + header.chunks[0].length) as usize;
        for (bytes, accuracy, measured) in header.table() {
            let whole = restored::<f32>(&stream, bytes as usize, None);
            check_bounds(&samples, &whole)?;
            let (rmse, _) = errors(&samples, &whole.samples);
            // A part of the last residuals of decimation may be all that is off.
            if codec == "planes" {
                let above = match measured {
                    true => 1.012,
                    // Within short segments, of which the first planes consist, nothing is told of.
                    false if bytes < 4096 => 2.0,
                    false => 1.65,
                };
                prop_assert!(accuracy.rmse <= above * rmse, "{bytes}: {accuracy:?} for {rmse}");
            }
            prop_assert!(measured || bytes < stream.len() as u64, "the end of a container is measured");
        }
        for cut in cuts {
            let length = base + ((stream.len() - base) as f64 * cut) as usize;
            let part = restored::<f32>(&stream, length, None);
            check_bounds(&samples, &part)?;
            let (rmse, _) = errors(&samples, &part.samples);
            prop_assert!(codec != "planes" || part.known.accuracy.rmse <= 2.0 * rmse, "{length}: {:?} for {rmse}", part.known.accuracy);
        }
    }

    #[test]
    fn bytes_for_an_accuracy_reach_it(seed in any::<u64>(), part in 0.0_f64..1.0, codec in codecs()) {
        let shape = [150, 140];
        let samples: Vec<f32> = as_kind(&wave(&shape, seed));
        let stream = refactor(&samples, &shape, &options(codec)).expect("a sound array");
        let header = Header::decode(&stream).expect("a sound header");
        let (first, last) = (header.chunks[0].accuracy, header.chunks[header.chunks.len() - 1].accuracy);
        let between = |first: f64, last: f64| (first.ln() * (1.0 - part) + last.max(1e-12).ln() * part).exp();
        let infinite = f64::INFINITY;
        for asked in [
            Accuracy { rmse: between(first.rmse, last.rmse), max_error: infinite },
            Accuracy { rmse: infinite, max_error: between(first.max_error, last.max_error) },
        ] {
            let Some(bytes) = header.bytes_for(asked) else { continue };
            let restored = restored::<f32>(&stream, bytes as usize, None);
            let accuracy = restored.known.accuracy;
            prop_assert!(accuracy.rmse <= asked.rmse * (1.0 + 1e-9), "{accuracy:?} for {asked:?}");
            prop_assert!(accuracy.max_error <= asked.max_error, "{accuracy:?} for {asked:?}");
            check_bounds(&samples, &restored)?;
        }
        prop_assert_eq!(header.bytes_for(Accuracy { rmse: -1.0, max_error: -1.0 }), None);
        let (rmse, range) = (between(first.rmse, last.rmse), header.range.1 - header.range.0);
        let same = Asked { psnr: Some(20.0 * (range / rmse).log10()), ..Asked::default() };
        let by_level = header.bytes_to_reach(&same).expect("between the first and the last");
        let nearly = |factor: f64| Asked { rmse: Some(rmse * factor), ..Asked::default() };
        let [fewest, most] = [1.0 + 1e-9, 1.0 - 1e-9].map(|factor| header.bytes_to_reach(&nearly(factor)).ok());
        prop_assert!(fewest <= Some(by_level) && most.is_none_or(|most| by_level <= most));
        let never = header.bytes_to_reach(&Asked { relative: Some(-1.0), ..Asked::default() });
        prop_assert!(never.is_err_and(|error| error.to_string().starts_with("the whole container leaves an RMSE of")));
    }

    #[test]
    fn regions_are_cut_from_the_array(shape in shapes(), seed in any::<u64>(), corner in any::<[u16; 8]>()) {
        let samples: Vec<f32> = as_kind(&wave(&shape, seed));
        let stream = refactor(&samples, &shape, &Options { exact: true, ..options("planes") }).expect("sound");
        let region: Region = shape
            .iter()
            .enumerate()
            .map(|(axis, length)| {
                let one = usize::from(corner[axis]) % (length + 1);
                let other = usize::from(corner[axis + 4]) % (length + 1);
                (one.min(other), one.max(other))
            })
            .collect();
        let part = restored::<f32>(&stream, stream.len(), Some(&region));
        let inside: Vec<f32> = samples
            .iter()
            .enumerate()
            .filter(|(index, _)| {
                let mut rest = *index;
                shape.iter().zip(&region).rev().all(|(length, (start, end))| {
                    let at = rest % length;
                    rest /= length;
                    (*start..*end).contains(&at)
                })
            })
            .map(|(_, sample)| *sample)
            .collect();
        prop_assert_eq!(&part.samples, &inside);
        let header = Header::decode(&stream).expect("sound");
        let ranges = header.ranges(Some(&region), usize::MAX).expect("sound");
        let parts: Vec<_> = ranges
            .iter()
            .map(|range| (range.start, &stream[range.start as usize..range.end as usize]))
            .collect();
        let part = header.restore::<f32>(&parts, Some(&region), 1).expect("sound");
        prop_assert_eq!(&part.samples, &inside);
        prop_assert!(part.samples.is_empty() || part.known.accuracy.max_error == 0.0);
    }

    #[test]
    fn damage_is_told_and_bounds_hold(
        seed in any::<u64>(),
        flips in proptest::collection::vec((any::<u32>(), 1_u8..), 1..4),
        codec in codecs(),
    ) {
        let shape = [60, 70];
        let samples: Vec<f32> = as_kind(&wave(&shape, seed));
        let mut stream = refactor(&samples, &shape, &Options { exact: true, ..options(codec) }).expect("sound");
        let header = Header::decode(&stream).expect("sound");
        let start = header.header_bytes as usize;
        for (at, mask) in flips {
            let at = start + at as usize % (stream.len() - start);
            stream[at] ^= mask;
        }
        let whole = header.restore::<f32>(&[(0, &stream)], None, 2).expect("sound");
        check_bounds(&samples, &whole)?;
        if whole.samples != samples {
            prop_assert!(!whole.known.damaged.is_empty());
        }
    }

    #[test]
    fn any_header_is_refused_or_read(at in any::<u32>(), value in any::<u8>(), length in any::<u32>()) {
        let samples: Vec<f32> = as_kind(&wave(&[9, 30, 30], 1));
        let stream = refactor(&samples, &[9, 30, 30], &options("planes")).expect("sound");
        let end = Header::decode(&stream).expect("sound").header_bytes as usize;
        let mut hostile = stream.clone();
        hostile[at as usize % (end - 4)] = value;
        // An attacker makes the checksum right, so that the values of the fields are reached.
        let checksum = crc32c::crc32c(&hostile[..end - 4]).to_le_bytes();
        hostile[end - 4..end].copy_from_slice(&checksum);
        if let Ok(header) = Header::decode(&hostile) {
            if header.shape.iter().product::<usize>() <= 1 << 20 {
                let _ = header.restore::<f32>(&[(0, &hostile)], None, 1);
            }
        }
        let cut = length as usize % (stream.len() + 1);
        prop_assert_eq!(Header::decode(&stream[..cut]).is_ok(), cut >= end);
    }

    #[test]
    fn random_bytes_are_no_container(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Header::decode(&bytes).is_err());
        let mut with_magic = weir_refactor::MAGIC.to_vec();
        with_magic.extend_from_slice(&bytes);
        prop_assert!(Header::decode(&with_magic).is_err());
    }
}

#[test]
fn several_tiles_restore_alike_on_any_number_of_threads() {
    let shape = [3, 700, 700];
    let samples: Vec<f32> = as_kind(&wave(&shape, 5));
    let streams: Vec<Vec<u8>> = [1, 3]
        .map(|threads| {
            let options = Options { tolerance: Some(0.5), threads, ..options("planes") };
            refactor(&samples, &shape, &options).expect("sound")
        })
        .to_vec();
    assert!(streams[0] == streams[1]);
    let header = Header::decode(&streams[0]).expect("sound");
    let stream = &streams[0];
    let region: Region = vec![(1, 2), (10, 60), (20, 40)];
    let ranges = header.ranges(Some(&region), usize::MAX).expect("sound");
    let needed: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert!(needed < stream.len() as u64 * 3 / 4, "{needed} of {}", stream.len());
    // A block that is damaged in one tile leaves the others as they were.
    let last = header.chunks.last().expect("a chunk");
    let mut damaged = stream.clone();
    damaged[(last.offset + last.length) as usize - 100] ^= 1;
    let whole = header.restore::<f32>(&[(0, stream)], None, 1).expect("sound");
    let lowered = header.restore::<f32>(&[(0, &damaged)], None, 3).expect("sound");
    assert_eq!(lowered.known.damaged.len(), 1);
    assert!(whole.samples != lowered.samples);
    assert!(errors(&samples, &lowered.samples).1 <= lowered.known.accuracy.max_error);
    assert!(whole.known.accuracy.max_error <= 0.5);
}

#[test]
fn decimation_of_several_windows_is_alike_on_any_number_of_threads_and_from_any_parts() {
    let shape = [3, 301, 333];
    let whole: Vec<f32> = as_kind(&wave(&shape, 7));
    let mut masked = whole.clone();
    masked.iter_mut().step_by(1013).for_each(|sample| *sample = f32::NAN);
    for samples in [whole, masked] {
        let [stream, other] = [1, 3].map(|threads| {
            refactor(&samples, &shape, &Options { threads, ..options("decimate") }).expect("sound")
        });
        assert!(stream == other);
        let header = Header::decode(&stream).expect("sound");
        let restored = header.restore::<f32>(&[(0, &stream)], None, 1).expect("sound");
        let (rmse, largest) = errors(&samples, &restored.samples);
        assert!(rmse <= restored.known.accuracy.rmse && largest <= restored.known.accuracy.max_error);
        assert!(largest < 1e-4, "{largest}");
        let starts = (0..).step_by(10_007);
        let parts: Vec<(u64, &[u8])> = starts.zip(stream.chunks(10_007)).collect();
        for kept in [parts.len(), parts.len() / 2, 1] {
            let end: usize = parts[..kept].iter().map(|(_, bytes)| bytes.len()).sum();
            let together = header.restore::<f32>(&[(0, &stream[..end])], None, 1).expect("sound");
            let apart = header.restore::<f32>(&parts[..kept], None, 3).expect("sound");
            let bits = |restored: &Restored<f32>| -> Vec<u32> {
                restored.samples.iter().map(|sample| sample.to_bits()).collect()
            };
            assert!(bits(&together) == bits(&apart) && together.known == apart.known, "{kept} parts");
        }
    }
}

#[test]
fn quantised_data_is_lossless_early() {
    let shape = [64, 64];
    let steps: Vec<f32> =
        wave(&shape, 3).iter().map(|sample| (sample.round() as f32) * 0.01 + 273.15).collect();
    let stream = refactor(&steps, &shape, &options("planes")).expect("sound");
    assert!(stream.len() < steps.len() * 4 / 3, "{}", stream.len());
    assert_eq!(restored::<f32>(&stream, stream.len(), None).samples, steps);
}

#[test]
fn fill_values_and_outliers_leave_the_others_their_accuracy() {
    let shape = [64, 128];
    let mut field: Vec<f32> = as_kind(&wave(&shape, 7));
    field.chunks_exact_mut(128).skip(20).take(30).for_each(|row| row[40..90].fill(1e20));
    field[5] = 3e9;
    let stream = refactor(&field, &shape, &options("planes")).expect("a sound array");
    let part = restored::<f32>(&stream, field.len(), None);
    for (sample, restored) in field.iter().zip(&part.samples) {
        let tolerance = if *sample > 1e6 { 0.0 } else { 0.5 };
        assert!((sample - restored).abs() <= tolerance, "{sample}: {restored}");
    }
}

/// Between the first samples of a base and the zeros behind them, lines once were further off than the zeros whose error was told.
#[test]
fn a_part_of_a_decimated_base_is_told_of() {
    let shape = [28, 24, 65];
    let samples: Vec<f64> = (0..28 * 24 * 65).map(|index| (f64::from(index) * 1.9).sin()).collect();
    let stream = refactor(&samples, &shape, &options("decimate")).expect("a sound array");
    let header = Header::decode(&stream).expect("sound");
    let base = header.table()[0].0 as usize;
    let parts = (header.header_bytes as usize..base).step_by(200);
    let off = parts.filter(|&length| {
        let part = restored::<f64>(&stream, length, None);
        check_bounds(&samples, &part).expect("no error above what is told");
        errors(&samples, &part.samples).1 > 1.0
    });
    assert!(off.count() > 0, "no part of the base is further off than zeros");
}

#[test]
fn errors_are_means_over_what_the_codec_takes() {
    let shape = [120, 100];
    let mut sea: Vec<f32> = as_kind(&wave(&shape, 8));
    sea.chunks_exact_mut(100).filter(|row| row[0] < 60.0).for_each(|row| row.fill(f32::NAN));
    let stream = refactor(&sea, &shape, &options("planes")).expect("a sound array");
    for length in [stream.len() / 4, stream.len() / 2, stream.len()] {
        let part = restored::<f32>(&stream, length, None);
        let (sea, back): (Vec<f32>, Vec<f32>) =
            sea.iter().zip(&part.samples).filter(|(sample, _)| sample.is_finite()).unzip();
        assert!((100..8000).contains(&sea.len()), "{}", sea.len());
        let (rmse, told) = (errors(&sea, &back).0, part.known.accuracy.rmse);
        assert!((rmse..2.0 * rmse).contains(&told), "{length}: {told} for {rmse}");
    }
}

#[test]
fn blocks_of_another_array_or_place_are_damage() {
    let shape = [100, 90];
    let samples: Vec<f32> = wave(&shape, 4).iter().map(|sample| *sample as f32).collect();
    let mirrored: Vec<f32> = samples.iter().map(|sample| -sample).collect();
    let [own, other] =
        [&samples, &mirrored].map(|samples| refactor(samples, &shape, &options("planes")).expect("sound"));
    assert_eq!(own.len(), other.len());
    let header = Header::decode(&own).expect("a sound header");
    let augmentation = header.chunks[1].offset as usize;
    let mixed = header.restore::<f32>(
        &[(0, &own[..augmentation]), (augmentation as u64, &other[augmentation..])],
        None,
        1,
    );
    let mixed = mixed.expect("a sound array");
    assert_eq!(mixed.known.damaged, [augmentation as u64]);
    assert_eq!(mixed.samples, restored::<f32>(&own, augmentation, None).samples);
    let block = header.chunks[1].length as usize;
    let mut moved = own[..augmentation].to_vec();
    moved.extend_from_slice(&own[augmentation + block..]);
    moved.resize(own.len(), 0);
    assert_eq!(restored::<f32>(&moved, moved.len(), None).known.damaged, [augmentation as u64]);
}

#[test]
fn constants_denormals_and_holes_survive() {
    let constant = vec![1e-42_f32; 5000];
    let stream = refactor(&constant, &[50, 100], &options("planes")).expect("sound");
    assert!(stream.len() < 400, "{}", stream.len());
    assert_eq!(restored::<f32>(&stream, stream.len(), None).samples, constant);
    let tiny: Vec<f64> = wave(&[40, 40], 9).iter().map(|sample| sample * 1e-315).collect();
    let stream = refactor(&tiny, &[40, 40], &options("planes")).expect("sound");
    let (_, max_error) = errors(&tiny, &restored::<f64>(&stream, stream.len(), None).samples);
    assert!(max_error < 1e-320, "{max_error:e}");
    let huge: Vec<f32> = wave(&[40, 40], 9).iter().map(|sample| (sample / 41.0) as f32 * f32::MAX).collect();
    let stream = refactor(&huge, &[40, 40], &options("planes")).expect("sound");
    assert!(errors(&huge, &restored::<f32>(&stream, stream.len(), None).samples).1 < 1e33);
    let mut holes = wave(&[40, 40], 9);
    holes.iter_mut().step_by(7).for_each(|sample| *sample = f64::NAN);
    holes[3] = f64::NEG_INFINITY;
    let stream = refactor(&holes, &[40, 40], &options("planes")).expect("sound");
    let header = Header::decode(&stream).expect("sound");
    let base = restored::<f64>(&stream, (header.chunks[0].offset + header.chunks[0].length) as usize, None);
    assert!(base.known.accuracy.max_error.is_finite());
    assert!(base.samples.iter().zip(&holes).all(|(one, other)| one.is_nan() == other.is_nan()));
    assert_eq!(base.samples[3], f64::NEG_INFINITY);
    let blind = restored::<f64>(&stream, header.header_bytes as usize, None);
    assert_eq!(blind.known.accuracy.max_error, f64::INFINITY);
}
