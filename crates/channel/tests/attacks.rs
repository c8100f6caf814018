//! Whoever stands between two sides of a channel learns nothing and puts nothing in: handshakes and records under attack.

use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use weir_channel::limits::{CONTENT_BYTES, HEAD_BYTES, RECORDS_AT_ONCE, RECORD_BYTES};
use weir_channel::{Channel, ChannelError, Initiator, Interruption, Responder, ANSWER_BYTES};
use weir_placement::ServerId;
use weir_testing::{claims, key};
use weir_wire::{Claims, Credential, Role, SiteKey};

const HERE: ServerId = ServerId(1);

fn credential() -> Credential {
    key().mint(claims(1000))
}

fn answer_of(responder: &Responder) -> [u8; ANSWER_BYTES] {
    responder.answer[..].try_into().expect("one answer")
}

/// Both sides of a channel.
fn pair() -> (Channel, Channel) {
    let (initiator, flight) = Initiator::begin(HERE, &credential()).expect("a flight");
    let responder = Responder::answer(&flight, HERE, &key()).expect("an answer");
    assert_eq!(responder.claims, credential().claims);
    let seal = initiator.finish(&answer_of(&responder)).expect("a handshake");
    assert_eq!(seal.binding(), responder.seal.binding());
    (Channel::new(seal, &[]), Channel::new(responder.seal, &[]))
}

/// The bytes of the records that carry `content`.
fn sent(from: &mut Channel, content: &[u8]) -> Vec<u8> {
    let (mut bytes, mut done) = (Vec::new(), 0);
    while done < content.len() {
        let push = |record: &[u8]| -> Result<usize, ()> {
            bytes.extend_from_slice(record);
            Ok(record.len())
        };
        done += from.send(&[IoSlice::new(&content[done..])], push).expect("it is sent");
    }
    bytes
}

/// All that `to` takes from `bytes`, and the reason why it takes no more.
fn taken(to: &mut Channel, bytes: &[u8]) -> (Vec<u8>, Option<ChannelError>) {
    let mut left: VecDeque<u8> = bytes.iter().copied().collect();
    let mut content = Vec::new();
    let mut room = vec![0; 4096];
    loop {
        let pull = |room: &mut [u8]| -> Result<usize, ()> {
            let count = room.len().min(left.len());
            room.iter_mut().zip(left.drain(..count)).for_each(|(place, byte)| *place = byte);
            Ok(count)
        };
        match to.receive(&mut [IoSliceMut::new(&mut room)], pull) {
            Ok(0) => return (content, None),
            Ok(count) => content.extend_from_slice(&room[..count]),
            Err(Interruption::Channel(error)) => return (content, Some(error)),
            Err(Interruption::Transport(())) => unreachable!("pulling never fails"),
        }
    }
}

#[test]
fn a_flight_opens_a_channel_at_the_server_that_it_names_alone() {
    let (_, flight) = Initiator::begin(HERE, &credential()).expect("a flight");
    let elsewhere = Responder::answer(&flight, ServerId(0), &key()).expect_err("another server");
    assert_eq!(elsewhere, ChannelError::OtherServer { meant: 1, here: 0 });

    // Whoever passes the flight on to server 0 has to rewrite the number.
    let mut rewritten = flight.clone();
    rewritten[6] = 0;
    let refused = Responder::answer(&rewritten, ServerId(0), &key()).expect_err("rewritten");
    assert_eq!(refused, ChannelError::Unproved);

    let foreign = Responder::answer(&flight, HERE, &SiteKey::new([9; 32])).expect_err("another key");
    assert_eq!(foreign, ChannelError::Unproved);
}

#[test]
fn a_claim_that_is_not_the_bearers_ends_the_handshake() {
    let own = credential();
    let stolen = [
        Claims { role: Role::Server, ..own.claims.clone() },
        Claims { uid: 0, ..own.claims.clone() },
        Claims { expires_seconds: u64::MAX, ..own.claims.clone() },
    ];
    for claims in stolen {
        let mut forged = own.clone();
        forged.claims = claims;
        let (_, flight) = Initiator::begin(HERE, &forged).expect("a flight");
        let refused = Responder::answer(&flight, HERE, &key()).expect_err("forged");
        assert_eq!(refused, ChannelError::Unproved);
    }
}

#[test]
fn a_flight_that_is_sent_again_opens_nothing() {
    let (initiator, flight) = Initiator::begin(HERE, &credential()).expect("a flight");
    let first = Responder::answer(&flight, HERE, &key()).expect("an answer");
    let again = Responder::answer(&flight, HERE, &key()).expect("a second answer");
    let mut client = Channel::new(initiator.finish(&answer_of(&first)).expect("a handshake"), &[]);
    let records = sent(&mut client, b"remove everything");
    let replayed = taken(&mut Channel::new(again.seal, &[]), &records);
    assert_eq!(replayed, (Vec::new(), Some(ChannelError::Altered)));
    let honest = taken(&mut Channel::new(first.seal, &[]), &records);
    assert_eq!(honest, (b"remove everything".to_vec(), None));
}

#[test]
fn an_answer_of_another_handshake_proves_nothing() {
    let (initiator, _) = Initiator::begin(HERE, &credential()).expect("a flight");
    let (_, other) = Initiator::begin(HERE, &credential()).expect("another flight");
    let responder = Responder::answer(&other, HERE, &key()).expect("an answer");
    assert_eq!(initiator.finish(&answer_of(&responder)).expect_err("recorded"), ChannelError::Unproved);
    // The handshake's own flight, sent back, is no answer either.
    let (initiator, flight) = Initiator::begin(HERE, &credential()).expect("a flight");
    let mut echo = [0; ANSWER_BYTES];
    echo[..6].copy_from_slice(&flight[..6]);
    echo[6..].copy_from_slice(&flight[flight.len() - 48..]);
    assert_eq!(initiator.finish(&echo).expect_err("its own echo"), ChannelError::Unproved);
}

#[test]
fn records_out_of_their_order_are_not_opened() {
    let (mut client, mut server) = pair();
    let (one, two) = (sent(&mut client, b"one"), sent(&mut client, b"two"));
    assert_eq!(taken(&mut server, &two), (Vec::new(), Some(ChannelError::Altered)), "the second one first");
    let (mut client, mut server) = pair();
    let first = sent(&mut client, b"one");
    let twice = [first.clone(), first].concat();
    assert_eq!(taken(&mut server, &twice), (b"one".to_vec(), Some(ChannelError::Altered)), "one twice");
    let (mut client, _) = pair();
    assert_eq!(taken(&mut client, &one), (Vec::new(), Some(ChannelError::Altered)), "of another connection");
    let (mut client, _) = pair();
    let own = sent(&mut client, b"one");
    assert_eq!(taken(&mut client, &own), (Vec::new(), Some(ChannelError::Altered)), "sent back");
}

#[test]
fn a_long_transfer_tells_what_it_is_about_in_a_record_of_its_own() {
    let (mut client, mut server) = pair();
    let (head, payload) = (vec![1; 200], vec![2; 100_000]);
    let mut records = Vec::new();
    let push = |record: &[u8]| -> Result<usize, ()> {
        records.extend_from_slice(record);
        Ok(record.len())
    };
    let gone = client.send(&[IoSlice::new(&head), IoSlice::new(&payload)], push);
    assert_eq!(gone, Ok(head.len()));
    assert_eq!(taken(&mut server, &records), (head, None));
}

#[test]
fn a_record_that_the_socket_took_in_part_goes_on_where_it_was() {
    let (mut client, mut server) = pair();
    let mut records = Vec::new();
    let mut calls = 0;
    let gone = loop {
        calls += 1;
        let mut has_room = true;
        let push = |record: &[u8]| {
            let count = record.len().min(7).min(if has_room { 7 } else { 0 });
            has_room = false;
            records.extend_from_slice(&record[..count]);
            if count == 0 {
                Err("no room")
            } else {
                Ok(count)
            }
        };
        match client.send(&[IoSlice::new(b"a message of some length")], push) {
            Ok(gone) => break gone,
            Err(interruption) => assert_eq!(interruption, Interruption::Transport("no room")),
        }
    };
    assert_eq!((gone, calls), (24, 9));
    assert_eq!(taken(&mut server, &records), (b"a message of some length".to_vec(), None));
}

proptest! {
    #[test]
    fn whatever_is_sent_arrives(lengths in proptest::collection::vec(1_usize..150_000, 1..4), pulled in 1_usize..70_000) {
        let (mut client, mut server) = pair();
        let content: Vec<u8> = (0..lengths.iter().sum()).map(|at: usize| (at * 7 + at / 251) as u8).collect();
        let mut records: VecDeque<u8> = VecDeque::new();
        let mut begin = 0;
        for length in &lengths {
            records.extend(sent(&mut client, &content[begin..begin + length]));
            begin += length;
        }
        let mut found = Vec::new();
        let mut room = vec![0; pulled];
        loop {
            let (first, second) = room.split_at_mut(pulled / 3);
            let pull = |room: &mut [u8]| -> Result<usize, ()> {
                let count = room.len().min(records.len()).min(pulled);
                room.iter_mut().zip(records.drain(..count)).for_each(|(place, byte)| *place = byte);
                Ok(count)
            };
            let parts = &mut [IoSliceMut::new(first), IoSliceMut::new(second)];
            let count = server.receive(parts, pull).expect("nothing is altered");
            if count == 0 {
                break;
            }
            found.extend_from_slice(&room[..count]);
        }
        prop_assert!(found == content);
        prop_assert_eq!(server.waiting_bytes(), 0);
    }

    #[test]
    fn an_altered_bit_reaches_nobody(length in 1_usize..3 * CONTENT_BYTES, at: prop::sample::Index, bit in 0_u8..8) {
        let (mut client, mut server) = pair();
        let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut records = sent(&mut client, &content);
        let at = at.index(records.len());
        records[at] ^= 1 << bit;
        let (found, error) = taken(&mut server, &records);
        prop_assert!(content.starts_with(&found), "bytes arrived that nobody sent");
        prop_assert!(found.len() < content.len());
        prop_assert_eq!(error, Some(ChannelError::Altered), "the receiver waits for bytes that never come");
    }

    /// What a stranger puts behind, between or before honest records, as long as a record or not, is shown to nobody.
    #[test]
    fn any_bytes_are_no_record(
        strange in proptest::collection::vec(any::<u8>(), 1..70_000),
        before: bool,
        after in 0_usize..3,
    ) {
        let (mut client, mut server) = pair();
        let mut stream = if before { sent(&mut client, b"before") } else { Vec::new() };
        stream.extend_from_slice(&strange);
        for _ in 0..after {
            stream.extend_from_slice(&sent(&mut client, b"after"));
        }
        let (found, error) = taken(&mut server, &stream);
        prop_assert_eq!(&found[..], if before { &b"before"[..] } else { b"" });
        // Fewer bytes than those of a length may still become one.
        let is_whole = strange.len() >= HEAD_BYTES || after > 0;
        prop_assert_eq!(error, is_whole.then_some(ChannelError::Altered));
        // A receiver keeps no more than the records that it opens at once, whatever lengths are claimed.
        prop_assert!(server.waiting_bytes() <= RECORDS_AT_ONCE * (HEAD_BYTES + RECORD_BYTES));
    }

    #[test]
    fn a_cut_stream_shows_whole_records_alone(length in 1_usize..3 * CONTENT_BYTES, at: prop::sample::Index) {
        let (mut client, mut server) = pair();
        let content: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let records = sent(&mut client, &content);
        let (found, error) = taken(&mut server, &records[..at.index(records.len())]);
        prop_assert!(content.starts_with(&found));
        prop_assert_eq!(error, None);
    }

    #[test]
    fn any_bytes_are_a_flight_or_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), magic: bool) {
        if magic && bytes.len() > 6 {
            bytes[..6].copy_from_slice(&weir_channel::MAGIC);
        }
        match Responder::flight_bytes(&bytes) {
            Ok(Some(length)) if bytes.len() >= length => {
                let _ = Responder::answer(&bytes[..length], HERE, &key());
            }
            Ok(length) => prop_assert!(length.unwrap_or(0) < 8 * 1024),
            Err(error) => prop_assert!(matches!(error, ChannelError::Foreign | ChannelError::Claims)),
        }
    }

    #[test]
    fn an_altered_flight_or_answer_ends_the_handshake(at: prop::sample::Index, bit in 0_u8..8, of_the_answer: bool) {
        let (initiator, mut flight) = Initiator::begin(HERE, &credential()).expect("a flight");
        if of_the_answer {
            let responder = Responder::answer(&flight, HERE, &key()).expect("an answer");
            let mut answer = answer_of(&responder);
            answer[at.index(ANSWER_BYTES)] ^= 1 << bit;
            // The highest bit of a public key counts for nothing (RFC 7748), but it is part of what is authenticated.
            prop_assert!(initiator.finish(&answer).is_err());
        } else {
            let at = at.index(flight.len());
            flight[at] ^= 1 << bit;
            let length = Responder::flight_bytes(&flight);
            let taken = length.ok().flatten().filter(|length| *length <= flight.len());
            let answered = taken.map(|length| Responder::answer(&flight[..length], HERE, &key()));
            prop_assert!(!matches!(answered, Some(Ok(_))));
        }
    }
}
