//! The format's laws: a written trace is read back, a cut anywhere loses only the bytes behind it, and no bytes make
//! the reader panic.

use proptest::prelude::*;
use weir_trace::{
    block, decode, header, Accessed, DecodeError, Ended, Job, Launcher, Opened, Opening, Pattern, Placed,
    Process, Rank, Record, Renamed, Uncounted, Unlinked, Window, Written, HEADER_BYTES, PAYLOAD_BYTES,
    SIZE_BOUNDS,
};

const ROOM: usize = PAYLOAD_BYTES + 64;
const JOB: Job<'static> = Job { store: 7, uid: 1000, name: "solver", window_nanoseconds: 1_000_000_000 };

fn process() -> Record<'static> {
    Record::Process(Process {
        run: "node-17-99",
        node: b"node",
        process: 17,
        parent: 1,
        is_first: true,
        program: b"/usr/bin/simulation",
        arguments: b"simulation\0-n\0",
        directory: b"/scratch",
        job: b"",
        rank: Some(Rank { number: 3, size: 8, launcher: Launcher::Pmi }),
        started_nanoseconds: 1_800_000_000_000_000_000,
    })
}

/// A trace of one block per list, and where each block ends.
fn written(blocks: &[Vec<Record<'_>>]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = header().to_vec();
    let mut ends = Vec::new();
    let mut buffer = vec![0; ROOM];
    for records in blocks {
        let length = block(records, &mut buffer).expect("the records fit");
        bytes.extend_from_slice(&buffer[..length]);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn name() -> impl Strategy<Value = &'static [u8]> {
    prop_oneof![
        Just(b"/scratch/out.0".as_slice()),
        Just(b"/scratch/\xff\n".as_slice()),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| &*bytes.leak()),
    ]
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let opening = prop_oneof![
        Just(Opening::Created),
        Just(Opening::Truncated),
        Just(Opening::Existing),
        Just(Opening::Inherited)
    ];
    prop_oneof![
        (any::<u32>(), name(), opening, any::<u64>()).prop_map(|(file, path, opening, after_nanoseconds)| {
            Record::Opened(Opened { file, path, true_path: b"/true", opening, after_nanoseconds })
        }),
        (any::<u32>(), any::<(u64, u64, u64)>(), any::<(bool, bool)>()).prop_map(|(file, numbers, flags)| {
            Record::Written(Written {
                file,
                end_bytes: numbers.0,
                written_bytes: numbers.1,
                is_estimate: flags.0,
                is_closed: flags.1,
                after_nanoseconds: numbers.2,
            })
        }),
        any::<u32>().prop_map(|file| Record::Placed(Placed { file, layout: "-c 4 -S 1M" })),
        (name(), name(), any::<u64>()).prop_map(|(from, to, after_nanoseconds)| Record::Renamed(Renamed {
            from,
            to,
            after_nanoseconds
        })),
        (name(), any::<u64>())
            .prop_map(|(path, after_nanoseconds)| Record::Unlinked(Unlinked { path, after_nanoseconds })),
        any::<(u64, u64)>().prop_map(|(after_nanoseconds, missed_files)| {
            Record::Ended(Ended { after_nanoseconds, missed_files })
        }),
        job().prop_map(Record::Job),
        window().prop_map(Record::Window),
        any::<(u64, u64, u64)>().prop_map(|(windows, operations, after_nanoseconds)| {
            Record::Uncounted(Uncounted { windows, operations, after_nanoseconds })
        }),
        (name(), pattern(), pattern(), any::<u64>()).prop_map(|(path, reads, writes, after_nanoseconds)| {
            Record::Accessed(Accessed { path, layout: "-c 2 -S 1M", reads, writes, after_nanoseconds })
        }),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    any::<([u64; SIZE_BOUNDS.len() + 1], [u64; 4])>().prop_map(
        |(sizes, [bytes, unaligned, ahead, consecutive])| Pattern {
            sizes,
            bytes,
            unaligned,
            ahead,
            consecutive,
        },
    )
}

fn job() -> impl Strategy<Value = Job<'static>> {
    let name = prop_oneof![Just("solver"), ".{0,128}".prop_map(|name| &*name.leak())];
    (any::<u64>(), any::<u32>(), name, any::<u64>()).prop_map(|(store, uid, name, window_nanoseconds)| Job {
        store,
        uid,
        name,
        window_nanoseconds,
    })
}

fn window() -> impl Strategy<Value = Window> {
    (any::<(u64, u16, Option<u16>)>(), any::<[u64; 12]>()).prop_map(|((number, server, target), counts)| {
        let [reads, read_bytes, read_nanoseconds, writes, written_bytes, write_nanoseconds, ..] = counts;
        let [.., stats, opens, closes, others, metadata_nanoseconds, after_nanoseconds] = counts;
        Window {
            number,
            server,
            target,
            reads,
            read_bytes,
            read_nanoseconds,
            writes,
            written_bytes,
            write_nanoseconds,
            stats,
            opens,
            closes,
            others,
            metadata_nanoseconds,
            after_nanoseconds,
        }
    })
}

/// A window whose counts are all `count`.
fn alike(number: u64, server: u16, target: Option<u16>, count: u64) -> Window {
    Window {
        number,
        server,
        target,
        reads: count,
        read_bytes: count,
        read_nanoseconds: count,
        writes: count,
        written_bytes: count,
        write_nanoseconds: count,
        stats: count,
        opens: count,
        closes: count,
        others: count,
        metadata_nanoseconds: count,
        after_nanoseconds: count,
    }
}

fn blocks() -> impl Strategy<Value = Vec<Vec<Record<'static>>>> {
    let block = proptest::collection::vec(record(), 1..5);
    proptest::collection::vec(block, 0..6).prop_map(|mut blocks| {
        blocks.insert(0, vec![process()]);
        blocks
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read(blocks in blocks()) {
        let (bytes, _) = written(&blocks);
        let trace = decode(&bytes).expect("it is whole");
        prop_assert_eq!(trace.records, blocks.concat());
        prop_assert_eq!(trace.torn, None);
    }

    #[test]
    fn a_cut_loses_only_what_was_cut(blocks in blocks(), at in any::<prop::sample::Index>()) {
        let (bytes, ends) = written(&blocks);
        let cut = at.index(bytes.len() + 1);
        let trace = decode(&bytes[..cut]).expect("a torn end is no error");
        let whole = ends.iter().filter(|end| **end <= cut).count();
        prop_assert_eq!(trace.records, blocks[..whole].concat());
        let is_between = ends.contains(&cut);
        prop_assert_eq!(trace.torn.is_none(), is_between);
        if let Some(torn) = trace.torn {
            prop_assert_eq!(torn.offset + torn.bytes, cut);
        }
    }

    #[test]
    fn zeros_at_the_end_are_a_torn_end(blocks in blocks(), zeros in 1usize..5000) {
        let (mut bytes, _) = written(&blocks);
        let end = bytes.len();
        bytes.resize(end + zeros, 0);
        let trace = decode(&bytes).expect("lost bytes at the end are no error");
        prop_assert_eq!(trace.records, blocks.concat());
        prop_assert_eq!(trace.torn.map(|torn| torn.offset), Some(end));
    }

    /// A changed byte is never read as something else: it is an error, or, in the last block, a torn end.
    #[test]
    fn a_changed_byte_is_seen(blocks in blocks(), at in any::<prop::sample::Index>(), change in 1u8..) {
        let (mut bytes, ends) = written(&blocks);
        let place = HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES);
        bytes[place] ^= change;
        let block = ends.iter().filter(|end| **end <= place).count();
        match decode(&bytes) {
            Ok(trace) => {
                prop_assert_eq!(block, ends.len() - 1);
                prop_assert!(trace.torn.is_some());
                prop_assert_eq!(trace.records, blocks[..block].concat());
            }
            Err(DecodeError::Damaged { offset, .. }) => {
                prop_assert_eq!(offset, if block == 0 { HEADER_BYTES } else { ends[block - 1] });
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), is_trace in any::<bool>()) {
        let mut all = if is_trace { header().to_vec() } else { Vec::new() };
        all.extend_from_slice(&bytes);
        if let Ok(trace) = decode(&all) {
            let _ = trace.windows();
        }
    }

    /// The order of a window's records does not matter, because threads write them.
    #[test]
    fn the_greatest_counts_of_a_window_hold(
        counts in proptest::collection::vec((0u64..3, 0u16..2, any::<bool>(), 0u64..50), 0..40),
    ) {
        let mut greatest = std::collections::BTreeMap::new();
        let mut records = vec![process()];
        for (number, server, is_target, count) in counts {
            let target = is_target.then_some(4);
            let known = greatest.entry((number, server, target)).or_insert(count);
            *known = count.max(*known);
            records.push(Record::Window(alike(number, server, target, count)));
        }
        records.push(Record::Job(JOB));
        let expected: Vec<Window> = greatest
            .into_iter()
            .map(|((number, server, target), count)| alike(number, server, target, count))
            .collect();
        let (bytes, _) = written(&[records]);
        let trace = decode(&bytes).expect("it is whole");
        let windows = trace.windows().expect("the job is there");
        prop_assert_eq!((windows.job, windows.lines, windows.uncounted), (JOB, expected, None));
    }

    /// Whatever stands in a block whose checksums are right.
    #[test]
    fn no_payload_makes_it_panic(payload in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (mut bytes, _) = written(&[vec![process()]]);
        let mut head = Vec::new();
        head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        head.extend_from_slice(&crc32fast::hash(&payload).to_le_bytes());
        let check = crc32fast::hash(&head);
        head.extend_from_slice(&check.to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&payload);
        if let Ok(trace) = decode(&bytes) {
            let _ = trace.windows();
        }
    }
}

#[test]
fn another_version_and_another_file_are_told_apart() {
    let (mut bytes, _) = written(&[vec![process()]]);
    bytes[8] = 9;
    assert_eq!(decode(&bytes), Err(DecodeError::OtherVersion { found: 9 }));
    bytes[8] = 0;
    assert_eq!(decode(&bytes), Err(DecodeError::OtherVersion { found: 0 }));
    let error = decode(b"#!/bin/sh\n").expect_err("a script is no trace");
    assert_eq!(error.to_string(), "it is not a trace of Weir: it begins with #!/bin/s");
}

#[test]
fn a_trace_of_version_1_is_read_and_has_no_windows() {
    let ended = Record::Ended(Ended { after_nanoseconds: 1, missed_files: 0 });
    let (mut bytes, _) = written(&[vec![process()], vec![ended]]);
    bytes[8] = 1;
    let trace = decode(&bytes).expect("it is whole");
    assert_eq!((trace.records.len(), trace.windows()), (2, None));
    for record in [Record::Job(JOB), Record::Window(alike(1, 0, None, 1))] {
        let (mut bytes, ends) = written(&[vec![process()], vec![record], vec![ended]]);
        assert!(decode(&bytes).is_ok());
        bytes[8] = 1;
        let what = "a record is of a later version";
        assert_eq!(decode(&bytes), Err(DecodeError::Damaged { offset: ends[0], bytes: bytes.len(), what }));
    }
}

#[test]
fn accesses_are_read_from_version_3_on() {
    let (reads, writes) =
        (Pattern::default(), Pattern { sizes: [0, 0, 0, 0, 2], bytes: 9, ..Pattern::default() });
    let record =
        Record::Accessed(Accessed { path: b"/weir/a", layout: "", reads, writes, after_nanoseconds: 1 });
    let (mut bytes, ends) = written(&[vec![process()], vec![record]]);
    assert_eq!(decode(&bytes).expect("it is whole").records[1], record);
    bytes[8] = 2;
    let what = "a record is of a later version";
    // The last block of a trace may be torn, but its checksum is right.
    assert_eq!(decode(&bytes), Err(DecodeError::Damaged { offset: ends[0], bytes: bytes.len(), what }));
}

#[test]
fn the_last_record_of_missing_operations_holds() {
    let missing = |windows| Uncounted { windows, operations: 3, after_nanoseconds: 1 };
    let records = [Record::Job(JOB), Record::Uncounted(missing(1)), Record::Uncounted(missing(2))];
    let (bytes, _) = written(&[vec![process()], records.to_vec()]);
    let windows = decode(&bytes).expect("it is whole").windows().expect("the job is there");
    assert_eq!(windows.uncounted, Some(missing(2)));
}

#[test]
fn a_trace_without_a_process_is_damaged() {
    let ended = Record::Ended(Ended { after_nanoseconds: 1, missed_files: 0 });
    let (bytes, _) = written(&[vec![ended]]);
    assert!(matches!(decode(&bytes), Err(DecodeError::Damaged { .. })));
}

#[test]
fn a_block_that_does_not_fit_is_refused() {
    let long = vec![b'a'; 4096];
    let record = Record::Unlinked(Unlinked { path: &long, after_nanoseconds: 0 });
    assert!(block(&[record], &mut [0; 4096]).is_err());
    assert!(block(&[record], &mut [0; 3]).is_err());
    assert!(block(&[record], &mut vec![0; 5000]).is_ok());
}

#[test]
fn a_record_of_a_file_is_small() {
    let mut buffer = [0; 256];
    let path = b"/scratch/out.0";
    let opened =
        Opened { file: 3, path, true_path: b"", opening: Opening::Created, after_nanoseconds: 5_000_000_000 };
    let length = block(&[Record::Opened(opened)], &mut buffer).expect("it fits");
    assert!(length <= 12 + path.len() + 10, "{length} bytes");
}

#[test]
fn a_window_of_writes_is_small_and_no_window_is_large() {
    let mut buffer = [0; 256];
    let none = alike(1_800_000_000, 3, Some(1), 0);
    let written_bytes = 512 << 20;
    let busy = Window { writes: 512, written_bytes, write_nanoseconds: 900_000_000, ..none };
    let length = block(&[Record::Window(busy)], &mut buffer).expect("it fits") - 12;
    assert!(length <= 32, "{length} bytes");
    let largest = alike(u64::MAX, u16::MAX, Some(u16::MAX), u64::MAX);
    let length = block(&[Record::Window(largest)], &mut buffer).expect("it fits") - 12;
    assert!(length <= 140, "{length} bytes");
}
