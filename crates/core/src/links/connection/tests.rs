//! Frames over a socket that gives and takes bytes in any pieces.

use super::*;
use crate::links::socket::Socket;
use crate::links::stream::Door;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use weir_placement::ServerId;
use weir_wire::{IdentityId, Request, SiteKey};

/// The two directions of a connection, as its far end sees them.
#[derive(Default)]
pub(crate) struct Wire {
    /// Bytes that have arrived.
    pub(crate) arrived: VecDeque<u8>,
    pub(crate) has_ended: bool,
    /// Bytes that were sent.
    sent: Vec<u8>,
    /// Room for more of them.
    room: usize,
    is_room_awaited: bool,
}

struct Near(Rc<RefCell<Wire>>);

impl Socket for Near {
    fn is_local(&self) -> bool {
        true
    }

    fn enlist(&mut self, _link: usize) -> io::Result<()> {
        Ok(())
    }

    fn watch_room(&mut self, is_awaited: bool) -> io::Result<()> {
        self.0.borrow_mut().is_room_awaited = is_awaited;
        Ok(())
    }

    fn waiting_bytes(&self) -> usize {
        self.0.borrow().arrived.len()
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut bytes = Vec::new();
        let count = self.append_to(&mut bytes, buffer.len())?;
        buffer[..count].copy_from_slice(&bytes);
        Ok(count)
    }

    fn append_to(&mut self, input: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        let count = wire.arrived.len().min(bytes_max);
        if count == 0 && !wire.has_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        input.extend(wire.arrived.drain(..count));
        Ok(count)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(wire.room).collect();
        if bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        wire.room -= bytes.len();
        wire.sent.extend(&bytes);
        Ok(bytes.len())
    }
}

/// A stream of this host, and its far end.
pub(crate) fn stream() -> (Stream, Rc<RefCell<Wire>>) {
    let wire = Rc::new(RefCell::new(Wire::default()));
    let door = Rc::new(Door { here: ServerId(0), key: SiteKey::new([7; 32]) });
    (Stream::new(Box::new(Near(Rc::clone(&wire))), &door), wire)
}

fn connected() -> (Connection, Rc<RefCell<Wire>>) {
    let (stream, wire) = stream();
    (Connection::new(stream), wire)
}

/// A frame of a request, with a payload of its number.
pub(crate) fn frame(number: usize, payload_bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    let body_bytes = weir_wire::encode_body(&Request::Ping, &mut frame) as u32;
    let request = RequestId(number as u64);
    let header = Header {
        kind: Kind::Request,
        body_bytes,
        payload_bytes: payload_bytes as u32,
        identity: IdentityId(0),
        request,
        acknowledged: request,
    };
    frame[..HEADER_BYTES].copy_from_slice(&header.encode());
    frame.resize(frame.len() + payload_bytes, number as u8);
    frame
}

/// Takes all that can be taken now, and tells of each whole frame its number and its payload.
fn take(connection: &mut Connection, taken: &mut Vec<(u64, Vec<u8>)>, rest: &mut usize) -> Received {
    loop {
        while *rest > 0 {
            let mut buffer = vec![0; *rest];
            let count = connection.receive(&mut buffer).expect("the other side is there");
            if count == 0 {
                return Received::Blocked;
            }
            *rest -= count;
            taken.last_mut().expect("a frame is begun").1.extend(&buffer[..count]);
        }
        match connection.next_frame(usize::MAX) {
            Received::Frame(frame) => {
                *rest = frame.detached_bytes;
                taken.push((frame.header.request.0, frame.payload));
            }
            other => return other,
        }
    }
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0usize..64, 1 => limits::INLINE_PAYLOAD_BYTES - 2..limits::INLINE_PAYLOAD_BYTES + 300]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn frames_are_whole_and_in_order_however_their_bytes_arrive(
        payloads in prop::collection::vec(sizes(), 1..8),
        pieces in prop::collection::vec(1usize..40_000, 1..12),
    ) {
        let (mut connection, wire) = connected();
        let bytes: Vec<u8> = payloads.iter().enumerate().flat_map(|(number, &size)| frame(number, size)).collect();
        let (mut left, mut taken, mut rest) = (bytes.as_slice(), Vec::new(), 0);
        for piece in pieces.iter().cycle() {
            let (now, later) = left.split_at((*piece).min(left.len()));
            wire.borrow_mut().arrived.extend(now);
            left = later;
            connection.mark_readable(false);
            prop_assert!(matches!(take(&mut connection, &mut taken, &mut rest), Received::Blocked));
            if left.is_empty() {
                break;
            }
        }
        let whole = payloads.iter().enumerate().map(|(number, &size)| (number as u64, vec![number as u8; size]));
        prop_assert_eq!(taken, whole.collect::<Vec<_>>());
        wire.borrow_mut().has_ended = true;
        connection.mark_readable(true);
        prop_assert!(matches!(connection.next_frame(usize::MAX), Received::Closed));
    }

    #[test]
    fn replies_are_whole_and_in_order_however_much_room_there_is(
        payloads in prop::collection::vec(sizes(), 1..8),
        rooms in prop::collection::vec(1usize..40_000, 1..12),
    ) {
        let (mut connection, wire) = connected();
        let mut whole = Vec::new();
        for (number, &size) in payloads.iter().enumerate() {
            let (payload, tail) = (vec![number as u8; size / 2], vec![!number as u8; size - size / 2]);
            let request = RequestId(number as u64);
            connection.reply(request, &Reply::Done, &payload, Some(Tail::Bytes(tail.clone())));
            let mut head = vec![0; HEADER_BYTES];
            let body_bytes = weir_wire::encode_body(&Reply::Done, &mut head) as u32;
            let header = Header {
                kind: Kind::Reply,
                body_bytes,
                payload_bytes: size as u32,
                identity: IdentityId(0),
                request,
                acknowledged: RequestId(0),
            };
            head[..HEADER_BYTES].copy_from_slice(&header.encode());
            whole.extend([head, payload, tail].concat());
        }
        let mut finished = Vec::new();
        for room in rooms.iter().cycle() {
            wire.borrow_mut().room = *room;
            connection.flush(&[], usize::MAX, &mut finished).expect("the other side is there");
            connection.watch_for_room().expect("the socket watches");
            prop_assert_eq!(wire.borrow().is_room_awaited, connection.has_output());
            if !connection.has_output() {
                break;
            }
        }
        prop_assert_eq!(&wire.borrow().sent, &whole);
        prop_assert_eq!(finished.len(), payloads.len());
        prop_assert_eq!(connection.moved(), whole.len() as u64);
    }
}
