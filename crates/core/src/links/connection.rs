//! One connection: bytes in, frames out, never blocking.
//!
//! Small frames are taken whole. A payload above the inline limit stays in the socket: the caller receives it
//! with [`Connection::receive`] once its request is scheduled, and until then nothing more is read.

use super::socket::RECEIVE_BYTES;
use super::stream::Stream;
use crate::storage::{ReadPlan, Segment, Target};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use weir_wire::{limits, ChannelBinding, Header, Kind, Reply, RequestId, WireError, HEADER_BYTES};

/// Buffers up to this size stay with an idle connection.
const KEPT_BYTES: usize = 4 * 1024;
/// Slices of one vectored send.
const SLICES_MAX: usize = 64;
/// Zeros for holes, sent again and again.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// A complete frame; only the length of a large payload is known.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    /// The payload when it is inline, else empty.
    pub(crate) payload: Vec<u8>,
    /// Bytes of payload that are still in the socket.
    pub(crate) detached_bytes: usize,
}

/// The result of reading.
#[derive(Debug)]
pub(crate) enum Received {
    /// One more frame.
    Frame(Frame),
    /// Nothing more for now.
    Blocked,
    /// The next frame is larger than a frame that may be taken now.
    Large,
    /// The other side closed, or the socket failed.
    Closed,
    /// The bytes are not frames.
    Malformed(WireError),
    /// The bytes are not those of a channel whose key this server has.
    Unproved(String),
}

/// The bytes behind a reply's body, where they are not copied.
pub(crate) enum Tail {
    /// Bytes of their own.
    Bytes(Vec<u8>),
    /// Bytes that stay in a `ram` target until they are sent.
    Arena {
        /// Number of the target on this server.
        target: usize,
        /// Their places.
        plan: ReadPlan,
    },
}

struct Outgoing {
    head: Vec<u8>,
    sent: usize,
    tail: Option<Tail>,
    tail_bytes: usize,
}

impl Outgoing {
    /// The server's own memory that the reply takes: pages of a target are the target's.
    fn memory(&self) -> usize {
        self.head.capacity()
            + matches!(self.tail, Some(Tail::Bytes(_))).then_some(self.tail_bytes).unwrap_or(0)
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    input: Vec<u8>,
    consumed: usize,
    detached: usize,
    /// The next frame may be received whole.
    is_taking: bool,
    output: VecDeque<Outgoing>,
    /// Bytes of memory of the output, and bytes received and sent so far.
    output_bytes: usize,
    moved: u64,
    /// The socket may hold unread bytes.
    readable: bool,
    /// The other side sends no more: read until the end is met.
    ended: bool,
    /// The loop is told when the socket has room.
    awaits_room: bool,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Connection {
        Connection {
            stream,
            input: Vec::new(),
            consumed: 0,
            detached: 0,
            is_taking: false,
            output: VecDeque::new(),
            output_bytes: 0,
            moved: 0,
            readable: true,
            ended: false,
            awaits_room: false,
        }
    }

    /// Has the loop told of the connection, as the link in this place.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn enlist(&mut self, link: usize) -> io::Result<()> {
        self.stream.socket().enlist(link)
    }

    /// Asks to be told of room in the socket only while something waits for it: every reply that a client takes
    /// makes room, and each would wake the loop.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn watch_for_room(&mut self) -> io::Result<()> {
        let blocked = self.has_output();
        if std::mem::replace(&mut self.awaits_room, blocked) == blocked {
            return Ok(());
        }
        self.stream.socket().watch_room(blocked)
    }

    /// The socket reported that it can be read, and whether its other side has ended.
    pub(crate) fn mark_readable(&mut self, ended: bool) {
        self.readable = true;
        self.ended |= ended;
    }

    /// The digest of the handshake that sealed the connection.
    pub(crate) fn binding(&self) -> ChannelBinding {
        self.stream.binding()
    }

    /// Whether the other side sends no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Replies that wait to be sent.
    pub(crate) fn unsent_replies(&self) -> usize {
        self.output.len()
    }

    /// Whether replies wait to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Bytes of memory in its buffers, with all that a begun frame will take. Memory that every connection may
    /// have at any time is not counted, so that connections that wait for memory take none from each other.
    pub(crate) fn buffered(&self) -> usize {
        let is_begun = self.is_taking && self.consumed < self.input.len();
        let begun = if is_begun { self.next_length().ok().flatten().unwrap_or(0) } else { 0 };
        let buffers = self.input.capacity().max(begun) + self.stream.memory_bytes();
        buffers.saturating_sub(RECEIVE_BYTES) + self.output_bytes
    }

    /// Bytes received and sent so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// Takes the next frame, if it is no larger in memory than `bytes_max`.
    pub(crate) fn next_frame(&mut self, bytes_max: usize) -> Received {
        debug_assert_eq!(self.detached, 0, "a detached payload is received before the next frame");
        loop {
            match self.next_length() {
                Ok(Some(length)) if length > bytes_max => {
                    self.is_taking = false;
                    return Received::Large;
                }
                Ok(_) => self.is_taking = true,
                Err(error) => return Received::Malformed(error),
            }
            match self.parse() {
                Ok(Some(frame)) => return Received::Frame(frame),
                Ok(None) => {}
                Err(error) => return Received::Malformed(error),
            }
            if !self.readable {
                self.release_idle_buffer();
                return Received::Blocked;
            }
            match self.fill(bytes_max.min(RECEIVE_BYTES)) {
                Ok(0) => return Received::Closed,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Received::Unproved(error.to_string())
                }
                Err(_) => return Received::Closed,
            }
        }
    }

    /// Takes a frame back that was taken last: it will be the next one again.
    pub(crate) fn put_back(&mut self, frame: &Frame) {
        self.consumed -= HEADER_BYTES + frame.body.len() + frame.payload.len();
        self.detached = 0;
    }

    /// Bytes of the next frame that are received before it is scheduled, once its header is there.
    fn next_length(&self) -> Result<Option<usize>, WireError> {
        let available = &self.input[self.consumed..];
        let Some(header_bytes) = available.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::decode(header_bytes)?;
        let payload_bytes = header.payload_bytes as usize;
        let inline_bytes = if payload_bytes <= limits::INLINE_PAYLOAD_BYTES { payload_bytes } else { 0 };
        Ok(Some(HEADER_BYTES + header.body_bytes as usize + inline_bytes))
    }

    fn parse(&mut self) -> Result<Option<Frame>, WireError> {
        let available = &self.input[self.consumed..];
        let Some(header_bytes) = available.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::decode(header_bytes)?;
        if header.kind != Kind::Request {
            return Err(WireError::Kind(2));
        }
        let body_end = HEADER_BYTES + header.body_bytes as usize;
        let payload_bytes = header.payload_bytes as usize;
        let inline_bytes = if payload_bytes <= limits::INLINE_PAYLOAD_BYTES { payload_bytes } else { 0 };
        if available.len() < body_end + inline_bytes {
            return Ok(None);
        }
        let body = available[HEADER_BYTES..body_end].to_vec();
        let payload = available[body_end..body_end + inline_bytes].to_vec();
        self.consumed += body_end + inline_bytes;
        self.detached = payload_bytes - inline_bytes;
        Ok(Some(Frame { header, body, payload, detached_bytes: self.detached }))
    }

    fn fill(&mut self, bytes_max: usize) -> io::Result<usize> {
        if self.consumed > 0 {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        let count = self.stream.append_to(&mut self.input, bytes_max)?;
        // The socket reports each arrival once.
        self.readable = self.stream.may_have_more(count, bytes_max) || self.ended;
        self.moved += count as u64;
        Ok(count)
    }

    /// A thousand idle connections should cost little.
    fn release_idle_buffer(&mut self) {
        if self.consumed == self.input.len() {
            self.consumed = 0;
            self.input.clear();
            self.input.shrink_to(KEPT_BYTES);
            self.stream.release_idle();
        }
    }

    /// Bytes of the detached payload that can be received now.
    pub(crate) fn arrived(&mut self) -> usize {
        let buffered = self.input.len() - self.consumed;
        let in_stream = self.stream.waiting_bytes();
        self.readable |= in_stream > 0;
        self.detached.min(buffered + in_stream)
    }

    /// Receives bytes of the detached payload into `buffer`; `Ok(0)` means that none are there yet.
    ///
    /// # Errors
    /// UnexpectedEof when the other side closed; the errors of the socket.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.detached);
        let buffered = self.input.len() - self.consumed;
        if buffered > 0 {
            let count = buffered.min(wanted);
            buffer[..count].copy_from_slice(&self.input[self.consumed..self.consumed + count]);
            self.consumed += count;
            self.detached -= count;
            return Ok(count);
        }
        if !self.readable {
            return Ok(0);
        }
        loop {
            match self.stream.read(&mut buffer[..wanted]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.moved += count as u64;
                    self.detached -= count;
                    self.readable = self.stream.may_have_more(count, wanted) || self.ended;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Queues a reply whose payload is `payload`, or the tail.
    pub(crate) fn reply(&mut self, request: RequestId, reply: &Reply, payload: &[u8], tail: Option<Tail>) {
        let mut head = vec![0; HEADER_BYTES];
        let body_bytes = weir_wire::encode_body(reply, &mut head) as u32;
        head.extend_from_slice(payload);
        let tail_bytes = tail.as_ref().map_or(0, Tail::length);
        let header = Header {
            kind: Kind::Reply,
            body_bytes,
            payload_bytes: (payload.len() + tail_bytes) as u32,
            identity: weir_wire::IdentityId(0),
            request,
            acknowledged: RequestId(0),
        };
        head[..HEADER_BYTES].copy_from_slice(&header.encode());
        self.push(Outgoing { head, sent: 0, tail, tail_bytes });
    }

    /// Queues the reason why the connection is closed.
    pub(crate) fn refuse(&mut self, reason: &str) {
        let body = &reason.as_bytes()[..reason.len().min(limits::BODY_BYTES)];
        let header = Header {
            kind: Kind::Refusal,
            body_bytes: body.len() as u32,
            payload_bytes: 0,
            identity: weir_wire::IdentityId(0),
            request: RequestId(0),
            acknowledged: RequestId(0),
        };
        let mut head = header.encode().to_vec();
        head.extend_from_slice(body);
        self.push(Outgoing { head, sent: 0, tail: None, tail_bytes: 0 });
    }

    fn push(&mut self, outgoing: Outgoing) {
        self.output_bytes += outgoing.memory();
        self.output.push_back(outgoing);
    }

    /// Sends as much as the socket takes, and little more than `bytes_max`; the tails of replies that are done are handed to
    /// `finished`. Answers whether the socket may take more.
    ///
    /// # Errors
    /// The errors of the socket: the connection is lost.
    pub(crate) fn flush(
        &mut self,
        targets: &[Target],
        bytes_max: usize,
        finished: &mut Vec<Tail>,
    ) -> io::Result<bool> {
        let mut sent = 0;
        while let Some(front) = self.output.front_mut() {
            if sent >= bytes_max {
                return Ok(true);
            }
            if front.sent == front.head.len() + front.tail_bytes {
                self.output_bytes -= front.memory();
                finished.extend(self.output.pop_front().and_then(|outgoing| outgoing.tail));
                continue;
            }
            let mut slices = Vec::new();
            if front.sent < front.head.len() {
                slices.push(IoSlice::new(&front.head[front.sent..]));
            }
            if let Some(tail) = &front.tail {
                tail.slices(targets, front.sent.saturating_sub(front.head.len()), &mut slices);
            }
            slices.truncate(SLICES_MAX);
            match self.stream.write_vectored(&slices) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    front.sent += count;
                    sent += count;
                    self.moved += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Ends the connection: the tails that will never be sent.
    pub(crate) fn unsent_tails(&mut self) -> impl Iterator<Item = Tail> + '_ {
        self.output.drain(..).filter_map(|outgoing| outgoing.tail)
    }
}

impl Tail {
    fn length(&self) -> usize {
        match self {
            Tail::Bytes(bytes) => bytes.len(),
            Tail::Arena { plan, .. } => plan.segments.iter().map(Segment::length).sum(),
        }
    }

    /// The bytes from `position` on, as far as one vectored send takes them.
    fn slices<'a>(&'a self, targets: &'a [Target], position: usize, slices: &mut Vec<IoSlice<'a>>) {
        let (target, plan) = match self {
            Tail::Bytes(bytes) => return slices.push(IoSlice::new(&bytes[position..])),
            Tail::Arena { target, plan } => (&targets[*target], plan),
        };
        let mut skip = position;
        for segment in &plan.segments {
            let length = segment.length();
            if skip >= length {
                skip -= length;
                continue;
            }
            if slices.len() >= SLICES_MAX {
                return;
            }
            match *segment {
                Segment::Bytes(region) => slices.push(IoSlice::new(&target.arena_bytes(region)[skip..])),
                Segment::Zeros(length) => zero_slices(length - skip, slices),
            }
            skip = 0;
        }
    }
}

/// Zeros of a hole; where they do not fit into one send, the last slice is the last that is sent.
fn zero_slices(mut length: usize, slices: &mut Vec<IoSlice<'_>>) {
    while length > 0 && slices.len() <= SLICES_MAX {
        let count = length.min(ZEROS.len());
        slices.push(IoSlice::new(&ZEROS[..count]));
        length -= count;
    }
}

#[cfg(test)]
pub(crate) mod tests;
