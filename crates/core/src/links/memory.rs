//! The memory that a server holds for its clients: one account of all of it, bounded, and never taken whole by one job.
//!
//! It counts requests in hand, with their bodies, payloads and the buffers that will take the rest of a payload; the
//! replies that they will have, from the moment at which they are read; frames that have begun to arrive; and replies that
//! are not sent. So a request that may be read may also be answered, and no request waits for memory in its midst.

use std::collections::HashMap;
use weir_fairshare::Nanos;
use weir_wire::{limits, JobId, HEADER_BYTES};

/// Bytes held in all: the largest replies of thirty-two clients, which keeps every device at work.
const BYTES_MAX: usize = 128 << 20;
/// Bytes held for one connection: some of the largest replies, so that one that takes none costs its job little.
const CONNECTION_BYTES_MAX: usize = 4 * limits::PAYLOAD_BYTES;
/// A request that needs no more than this is taken also when there is no memory, from a connection with nothing else in
/// hand: signs of life, unlocks and closes never wait for memory, and give some back.
pub(crate) const SMALL_BYTES: usize = HEADER_BYTES + 4 * 1024;
/// A connection that holds memory, and neither takes its replies nor sends the rest of a frame, is closed after this time
/// when others of its job wait for memory. Its client connects again and asks again.
pub(crate) const IDLE_MAX: Nanos = Nanos::from_millis(10_000);

/// Bytes held, in all and by job.
///
/// A job may hold as much as is left free (the dynamic threshold of Choudhury and Hahne for shared-memory switches,
/// 1998): a job alone has half of the memory, each of n jobs 1/(n + 1), and a newcomer always finds room.
#[derive(Default)]
pub(crate) struct Memory {
    bytes: usize,
    by_job: HashMap<JobId, usize>,
}

impl Memory {
    /// Whether one more request of `job` may be read, from a connection that holds `held` bytes.
    pub(crate) fn admits(&self, job: JobId, held: usize) -> bool {
        let of_job = self.by_job.get(&job).copied().unwrap_or(0);
        self.bytes <= BYTES_MAX && of_job <= BYTES_MAX - self.bytes && held <= CONNECTION_BYTES_MAX
    }

    pub(crate) fn hold(&mut self, job: JobId, bytes: usize) {
        if bytes > 0 {
            self.bytes += bytes;
            *self.by_job.entry(job).or_default() += bytes;
        }
    }

    pub(crate) fn release(&mut self, job: JobId, bytes: usize) {
        self.bytes -= bytes;
        if let Some(held) = self.by_job.get_mut(&job) {
            *held -= bytes;
            if *held == 0 {
                self.by_job.remove(&job);
            }
        }
    }

    /// Bytes held in all, for `/v1/status`.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The memory that one link holds.
#[derive(Default)]
pub(crate) struct LinkMemory {
    /// For requests in hand.
    requests: usize,
    /// For begun frames and unsent replies, when it was last counted.
    buffers: usize,
    /// Bytes that the connection had moved when that was last looked at, and the moment at which they became more.
    moved: u64,
    moved_at: Nanos,
}

impl LinkMemory {
    /// Bytes held in all.
    pub(crate) fn bytes(&self) -> usize {
        self.requests + self.buffers
    }

    /// Bytes held by buffers.
    pub(crate) fn buffers(&self) -> usize {
        self.buffers
    }

    pub(super) fn hold(&mut self, bytes: usize) {
        self.requests += bytes;
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.requests -= bytes;
    }

    /// Sets the memory of the buffers; answers the memory of before.
    pub(super) fn set_buffers(&mut self, bytes: usize) -> usize {
        std::mem::replace(&mut self.buffers, bytes)
    }

    /// Notes the bytes that the connection has moved until `now`; `is_short` says whether others wait for memory.
    /// Answers whether the connection has kept memory from them for too long. `awaits_payload` says whether its requests
    /// in hand wait for payload.
    pub(super) fn is_kept(&mut self, moved: u64, now: Nanos, is_short: bool, awaits_payload: bool) -> bool {
        if !is_short || moved != self.moved {
            (self.moved, self.moved_at) = (moved, now);
            return false;
        }
        let held = self.buffers + if awaits_payload { self.requests } else { 0 };
        now.saturating_since(self.moved_at) > IDLE_MAX && held > SMALL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_leaves_room_for_the_next() {
        const PIECE: usize = 64 << 10;
        let mut memory = Memory::default();
        let mut fill = |job: u64| {
            let job = JobId(job);
            let mut held = 0;
            while memory.admits(job, 0) {
                memory.hold(job, PIECE);
                held += PIECE;
            }
            held
        };
        let near = |held: usize, part: usize| held.abs_diff(BYTES_MAX / part) <= 2 * PIECE;
        let first = fill(1);
        assert!(near(first, 2));
        let second = fill(2);
        assert!(near(second, 4), "what the first left is shared with the next");
        assert!(memory.admits(JobId(3), 0));
        assert!(!memory.admits(JobId(3), CONNECTION_BYTES_MAX + 1), "one connection does not take it all");
        memory.release(JobId(1), first);
        memory.release(JobId(2), second);
        assert!(memory.bytes() == 0 && memory.by_job.is_empty());
    }
}
