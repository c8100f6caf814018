//! The format's laws: a written trace is read back, a cut anywhere loses only the bytes behind it, and no bytes make
//! the reader panic.

use proptest::prelude::*;
use weir_trace::{
    block, decode, header, DecodeError, Ended, Launcher, Opened, Opening, Placed, Process, Rank, Record,
    Renamed, Unlinked, Written, HEADER_BYTES, PAYLOAD_BYTES,
};

const ROOM: usize = PAYLOAD_BYTES + 64;

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
    ]
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
        let _ = decode(&all);
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
        let _ = decode(&bytes);
    }
}

#[test]
fn another_version_and_another_file_are_told_apart() {
    let (mut bytes, _) = written(&[vec![process()]]);
    bytes[8] = 9;
    assert_eq!(decode(&bytes), Err(DecodeError::OtherVersion { found: 9 }));
    let error = decode(b"#!/bin/sh\n").expect_err("a script is no trace");
    assert_eq!(error.to_string(), "it is not a trace of Weir: it begins with #!/bin/s");
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
