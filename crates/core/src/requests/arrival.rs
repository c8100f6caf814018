//! A payload above the inline limit: it stays in its socket until its request has a turn, and is received piece by piece.

use crate::links::connection::Connection;
use crate::storage::{Ram, WritePlan};
use weir_fairshare::Nanos;
use weir_wire::{limits, Reply};

/// Payload that is in the socket before its request is queued: every socket buffer of a usual size holds as much, and it
/// is enough to be worth a turn at the device.
const ARRIVED_BYTES: usize = limits::INLINE_PAYLOAD_BYTES;
/// The request of a slower sender is queued with the bytes that have come within this time.
pub(crate) const ARRIVAL_WAIT: Nanos = Nanos::from_millis(5);
/// A sender that is silent for this long in the midst of a payload loses its connection.
const STALL_MAX: Nanos = Nanos::from_millis(60_000);
/// Bytes that are read at once to be thrown away.
const SCRATCH_BYTES: usize = 16 * 1024;

/// The payload of one request that is still in the socket.
pub(crate) struct Arrival {
    left: usize,
    sink: Sink,
    /// Bytes in the socket when it was last looked at, and the moment since which there are some.
    here: usize,
    here_since: Nanos,
    /// The last moment at which bytes arrived.
    progress: Nanos,
}

/// The place that a payload goes to.
pub(crate) enum Sink {
    /// None is chosen yet.
    None,
    /// The memory of a `ram` target.
    Arena { plan: WritePlan, region: usize, within: usize },
    /// A buffer, for a worker or another server's report.
    Buffer { bytes: Vec<u8>, filled: usize },
    /// Nowhere: the request has failed already.
    Discard { failure: Reply },
}

/// The bytes that one look at the socket found.
pub(crate) enum Look {
    /// Too few to be queued; `is_first` where these are the first.
    Few { is_first: bool },
    /// Enough to be queued.
    Enough,
}

impl Arrival {
    pub(super) fn new(left: usize, now: Nanos) -> Arrival {
        Arrival { left, sink: Sink::None, here: 0, here_since: now, progress: now }
    }

    /// Bytes that are not received yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether every byte is received.
    pub(crate) fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Whether bytes go where others may read them, before all of them are here.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.sink, Sink::Arena { .. })
    }

    /// Chooses the place that the payload goes to.
    pub(crate) fn open(&mut self, sink: Sink) {
        self.sink = sink;
    }

    /// A buffer as large as the rest of the payload.
    pub(crate) fn open_buffer(&mut self) {
        self.sink = Sink::Buffer { bytes: vec![0; self.left], filled: 0 };
    }

    /// The place that the payload went to, which is nowhere from now on.
    pub(crate) fn take(&mut self) -> Sink {
        std::mem::replace(&mut self.sink, Sink::None)
    }

    /// The answer to a request that failed while its payload came.
    pub(crate) fn failure(&self) -> Option<&Reply> {
        match &self.sink {
            Sink::Discard { failure } => Some(failure),
            _ => None,
        }
    }

    /// The payload is awaited, and the socket was not looked at yet.
    pub(crate) fn begin_wait(&mut self) {
        self.here = 0;
    }

    /// The request has a slot: its sender is measured from now on.
    pub(crate) fn begin_receiving(&mut self, now: Nanos) {
        self.progress = now;
    }

    /// Notes the bytes that are in the socket.
    pub(crate) fn look(&mut self, here: usize, now: Nanos) -> Look {
        let mut is_first = false;
        if here > self.here {
            if self.here == 0 {
                self.here_since = now;
                is_first = true;
            }
            (self.here, self.progress) = (here, now);
        }
        let is_slow = here > 0 && now >= self.here_since + ARRIVAL_WAIT;
        match here >= ARRIVED_BYTES.min(self.left) || is_slow {
            true => Look::Enough,
            false => Look::Few { is_first },
        }
    }

    /// Whether the sender has been silent for too long.
    pub(crate) fn is_stalled(&self, now: Nanos) -> bool {
        now.saturating_since(self.progress) > STALL_MAX
    }

    /// Receives the bytes that are here; answers their number. `memory` is that of the request's target.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub(crate) fn receive(
        &mut self,
        connection: &mut Connection,
        mut memory: Option<&mut Ram>,
        now: Nanos,
    ) -> std::io::Result<usize> {
        if let Some(ram) = memory.as_deref_mut() {
            self.discard_if_stale(ram);
        }
        let mut received = 0;
        while self.left > 0 {
            let count = self.receive_once(connection, memory.as_deref_mut())?;
            if count == 0 {
                break;
            }
            received += count;
            self.left -= count;
            self.progress = now;
        }
        Ok(received)
    }

    fn receive_once(
        &mut self,
        connection: &mut Connection,
        memory: Option<&mut Ram>,
    ) -> std::io::Result<usize> {
        match (&mut self.sink, memory) {
            (Sink::Arena { plan, region, within }, Some(ram)) => {
                let whole = plan.regions[*region];
                let count = connection.receive(&mut ram.bytes_mut(whole)[*within..])?;
                *within += count;
                if *within == whole.length {
                    (*region, *within) = (*region + 1, 0);
                }
                Ok(count)
            }
            (Sink::Buffer { bytes, filled }, _) => {
                let count = connection.receive(&mut bytes[*filled..])?;
                *filled += count;
                Ok(count)
            }
            (Sink::Discard { .. }, _) => {
                let mut scratch = [0; SCRATCH_BYTES];
                let wanted = self.left.min(SCRATCH_BYTES);
                connection.receive(&mut scratch[..wanted])
            }
            (Sink::None, _) | (Sink::Arena { .. }, None) => Ok(0),
        }
    }

    /// Frees the memory that was to take the rest of the payload.
    pub(super) fn abandon(&mut self, memory: Option<&mut Ram>) {
        if !matches!(self.sink, Sink::Arena { .. }) {
            return;
        }
        if let (Sink::Arena { plan, .. }, Some(ram)) = (self.take(), memory) {
            ram.abandon_write(plan);
        }
    }

    /// Throws the rest of the payload away once its object was cut.
    fn discard_if_stale(&mut self, ram: &mut Ram) {
        let Sink::Arena { plan, .. } = &self.sink else { return };
        let Err(stale) = ram.check_write(plan) else { return };
        let failure = Reply::StaleEpoch { epoch: stale.0 };
        if let Sink::Arena { plan, .. } = std::mem::replace(&mut self.sink, Sink::Discard { failure }) {
            ram.abandon_write(plan);
        }
    }
}
