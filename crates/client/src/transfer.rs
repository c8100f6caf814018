//! One request and its reply on one connection, as a state machine over non-blocking progress.

use crate::pool::{Live, SlotState, RECEIVE_BYTES};
use crate::transport::Connection;
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::time::Instant;
use weir_wire::{
    decode_body, encode_body, Header, IdentityId, Kind, Reply, Request, RequestId, WireError, HEADER_BYTES,
};

/// Slices that one system call takes. Longer vectors take several calls.
const SLICES: usize = 16;
/// Largest payload that is copied. A reply that may have a longer payload is received in two steps, so that the payload goes
/// straight to its place.
const COPY_BYTES: usize = RECEIVE_BYTES - HEADER_BYTES - 64;
/// Bytes of the first step of such a reply: the header and body of a data reply fit.
const HEAD_BYTES: usize = 128;

/// The place for a reply's payload.
#[derive(Debug)]
pub(crate) enum Sink<'b, 'u> {
    /// No payload is expected.
    None,
    /// The payload fills these buffers, in order.
    Slices(&'b mut [IoSliceMut<'u>]),
    /// The payload replaces the content of this vector.
    Vector(&'b mut Vec<u8>),
}

/// The reason why a connection cannot go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection broke. A new one may work.
    Broken,
    /// The server closed the connection with these words.
    Refused(String),
    /// The server does not speak the protocol.
    Protocol(WireError),
    /// The server did not answer in time.
    Silent,
    /// The kernel cannot reach the caller's memory. The connection is in the midst of a frame.
    Address,
}

/// The outcome of an attempt to make progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The transfer waits until the connection is ready.
    Stalled {
        /// Whether bytes moved before.
        moved: bool,
        /// Whether a signal came.
        interrupted: bool,
    },
    /// The whole reply has arrived.
    Complete,
}

/// The progress of a request whose header and body stand in the slot's send buffer.
#[derive(Debug)]
pub(crate) struct Transfer {
    request: RequestId,
    total: usize,
    sent: usize,
    filled: usize,
    delivered: usize,
    header: Option<Header>,
}

/// Writes the frame of `request` without its payload into `buffer`.
pub(crate) fn encode_frame(buffer: &mut Vec<u8>, header: Header, request: &Request) {
    buffer.clear();
    buffer.resize(HEADER_BYTES, 0);
    let body_bytes = encode_body(request, buffer) as u32;
    buffer[..HEADER_BYTES].copy_from_slice(&Header { body_bytes, ..header }.encode());
}

impl Sink<'_, '_> {
    /// Whether the payload may be so long that a copy costs more than a system call.
    fn is_large(&self) -> bool {
        match self {
            Sink::None => false,
            Sink::Slices(slices) => slices.iter().map(|slice| slice.len()).sum::<usize>() > COPY_BYTES,
            Sink::Vector(_) => false,
        }
    }

    fn prepare(&mut self, bytes: usize) -> Result<(), WireError> {
        let room = match self {
            Sink::None => 0,
            Sink::Slices(slices) => slices.iter().map(|slice| slice.len()).sum(),
            Sink::Vector(vector) => {
                vector.clear();
                vector.resize(bytes, 0);
                bytes
            }
        };
        if bytes > room {
            return Err(WireError::TooLong { what: "a reply", bytes: bytes as u64, limit: room as u64 });
        }
        Ok(())
    }

    /// Calls `take` with the room from byte `skip` on, of at most `bytes` bytes.
    fn with_room<T>(
        &mut self,
        skip: usize,
        bytes: usize,
        take: impl FnOnce(&mut [IoSliceMut<'_>]) -> T,
    ) -> T {
        let mut parts: [IoSliceMut<'_>; SLICES] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut used = 0;
        let (mut skip, mut left) = (skip, bytes);
        match self {
            Sink::None => {}
            Sink::Vector(vector) => {
                let end = vector.len().min(skip + left);
                parts[0] = IoSliceMut::new(&mut vector[skip.min(end)..end]);
                used = 1;
            }
            Sink::Slices(slices) => {
                for slice in slices.iter_mut() {
                    if skip >= slice.len() {
                        skip -= slice.len();
                        continue;
                    }
                    if left == 0 || used == SLICES {
                        break;
                    }
                    let end = slice.len().min(skip + left);
                    left -= end - skip;
                    parts[used] = IoSliceMut::new(&mut slice[skip..end]);
                    skip = 0;
                    used += 1;
                }
            }
        }
        take(&mut parts[..used])
    }
}

impl Transfer {
    /// A transfer of the frame in the send buffer followed by `payload`.
    pub(crate) fn new(request: RequestId, frame: &[u8], payload: &[IoSlice<'_>]) -> Transfer {
        let total = frame.len() + payload.iter().map(|slice| slice.len()).sum::<usize>();
        Transfer { request, total, sent: 0, filled: 0, delivered: 0, header: None }
    }

    /// Starts over on a new connection.
    pub(crate) fn restart(&mut self) {
        *self = Transfer { sent: 0, filled: 0, delivered: 0, header: None, ..*self };
    }

    /// Whether bytes are still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        self.sent < self.total
    }

    /// Sends and receives as much as possible. With `block`, waits up to the connection's tick.
    pub(crate) fn advance(
        &mut self,
        slot: &mut SlotState,
        payload: &[IoSlice<'_>],
        sink: &mut Sink<'_, '_>,
        block: bool,
    ) -> Result<Step, Fault> {
        let SlotState { live, send, receive, .. } = slot;
        let Some(Live { connection, .. }) = live else { return Err(Fault::Broken) };
        self.advance_on(connection.as_mut(), send, receive, payload, sink, block)
    }

    fn advance_on(
        &mut self,
        connection: &mut dyn Connection,
        send: &[u8],
        receive: &mut Vec<u8>,
        payload: &[IoSlice<'_>],
        sink: &mut Sink<'_, '_>,
        block: bool,
    ) -> Result<Step, Fault> {
        let mut moved = false;
        loop {
            let done = if self.is_sending() {
                self.send_some(connection, send, payload, block)
            } else {
                self.receive_some(connection, receive, sink, block)?
            };
            match done {
                Ok(()) if self.is_complete() => return Ok(Step::Complete),
                Ok(()) => moved = true,
                Err(Errno::AGAIN) => return Ok(Step::Stalled { moved, interrupted: false }),
                Err(Errno::INTR) => return Ok(Step::Stalled { moved, interrupted: true }),
                Err(Errno::FAULT) => return Err(Fault::Address),
                Err(_) => return Err(Fault::Broken),
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.header.is_some_and(|header| {
            self.filled >= HEADER_BYTES + header.body_bytes as usize
                && self.delivered == header.payload_bytes as usize
        })
    }

    fn send_some(
        &mut self,
        connection: &mut dyn Connection,
        frame: &[u8],
        payload: &[IoSlice<'_>],
        block: bool,
    ) -> Result<(), Errno> {
        let mut parts = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        let mut skip = self.sent;
        let whole = std::iter::once(frame).chain(payload.iter().map(|slice| &slice[..]));
        for slice in whole {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            parts[used] = IoSlice::new(&slice[skip..]);
            skip = 0;
            used += 1;
            if used == SLICES {
                break;
            }
        }
        self.sent += connection.send(&parts[..used], block)?;
        Ok(())
    }

    /// Receives some bytes. The outer result is a fault of the protocol, the inner result a fault of the socket.
    fn receive_some(
        &mut self,
        connection: &mut dyn Connection,
        receive: &mut Vec<u8>,
        sink: &mut Sink<'_, '_>,
        block: bool,
    ) -> Result<Result<(), Errno>, Fault> {
        let head = self.header.map_or(HEADER_BYTES, |header| HEADER_BYTES + header.body_bytes as usize);
        let count = if self.header.is_none() || self.filled < head {
            if receive.len() < head {
                receive.resize(head, 0);
            }
            let room = if sink.is_large() { head.max(HEAD_BYTES) } else { receive.len() };
            let mut part = [IoSliceMut::new(&mut receive[self.filled..room])];
            let count = connection.receive(&mut part, block);
            self.filled += count.unwrap_or(0);
            self.look_at_head(receive, sink)?;
            count
        } else {
            let left = self.header.map_or(0, |header| header.payload_bytes as usize) - self.delivered;
            let count = sink.with_room(self.delivered, left, |parts| connection.receive(parts, block));
            self.delivered += count.unwrap_or(0);
            count
        };
        Ok(match count {
            Ok(0) => Err(Errno::PIPE),
            Ok(_) => Ok(()),
            Err(errno) => Err(errno),
        })
    }

    /// Reads the header once it has arrived, and hands over payload bytes that came with the body.
    fn look_at_head(&mut self, receive: &[u8], sink: &mut Sink<'_, '_>) -> Result<(), Fault> {
        if self.header.is_none() {
            let Some(bytes) = receive[..self.filled].first_chunk::<HEADER_BYTES>() else { return Ok(()) };
            let header = Header::decode(bytes).map_err(Fault::Protocol)?;
            if header.kind == Kind::Request || (header.kind == Kind::Reply && header.request != self.request)
            {
                return Err(Fault::Protocol(WireError::Malformed("reply header")));
            }
            if header.kind == Kind::Reply {
                sink.prepare(header.payload_bytes as usize).map_err(Fault::Protocol)?;
            }
            self.header = Some(header);
        }
        let Some(header) = self.header else { return Ok(()) };
        let head = HEADER_BYTES + header.body_bytes as usize;
        if self.filled < head {
            return Ok(());
        }
        if header.kind == Kind::Refusal {
            let words = String::from_utf8_lossy(&receive[HEADER_BYTES..head]).into_owned();
            return Err(Fault::Refused(words));
        }
        let mut early = &receive[head..self.filled];
        if early.len() > header.payload_bytes as usize {
            return Err(Fault::Protocol(WireError::Malformed("bytes after a reply")));
        }
        while !early.is_empty() {
            let copied = sink.with_room(self.delivered, early.len(), |parts| copy_into(parts, early));
            self.delivered += copied;
            early = &early[copied..];
        }
        Ok(())
    }

    /// The reply of a complete transfer, and the length of its payload.
    pub(crate) fn reply(&self, receive: &[u8]) -> Result<(Reply, usize), Fault> {
        let Some(header) = self.header else { return Err(Fault::Broken) };
        let body = &receive[HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize];
        let reply = decode_body(body, "reply").map_err(Fault::Protocol)?;
        Ok((reply, self.delivered))
    }
}

fn copy_into(parts: &mut [IoSliceMut<'_>], bytes: &[u8]) -> usize {
    let mut copied = 0;
    for part in parts {
        let length = part.len().min(bytes.len() - copied);
        part[..length].copy_from_slice(&bytes[copied..copied + length]);
        copied += length;
    }
    copied
}

/// Sends a request without payload, and waits for its reply until `deadline`. Handshakes, registrations and pings go so.
pub(crate) fn converse(
    connection: &mut dyn Connection,
    send: &mut Vec<u8>,
    receive: &mut Vec<u8>,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, Fault> {
    // The server does not record such requests, so all of them may carry one id.
    let id = RequestId(0);
    let header = Header {
        kind: Kind::Request,
        body_bytes: 0,
        payload_bytes: 0,
        identity: IdentityId(0),
        request: id,
        acknowledged: RequestId(0),
    };
    encode_frame(send, header, request);
    let mut transfer = Transfer::new(id, send, &[]);
    loop {
        match transfer.advance_on(connection, send, receive, &[], &mut Sink::None, true)? {
            Step::Complete => return transfer.reply(receive).map(|(reply, _)| reply),
            Step::Stalled { .. } if Instant::now() >= deadline => return Err(Fault::Silent),
            Step::Stalled { .. } => {}
        }
    }
}
