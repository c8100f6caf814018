//! The memory that a server holds for its clients: one account of all of it, bounded, and never taken whole by one job.
//!
//! It counts requests in hand, with their bodies, payloads and the buffers that will take the rest of a payload; the
//! replies that they will have, from the moment at which they are read; frames that have begun to arrive; and replies that
//! are not sent. So whoever may read a request may also answer it, and nobody waits for memory in the midst of one.

use crate::links::LinkKey;
use crate::notices::Notice;
use crate::server::Server;
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
const IDLE_MAX: Nanos = Nanos::from_millis(10_000);

/// Bytes held, in all and by job.
///
/// A job may hold as much as is left free (the dynamic threshold of Choudhury and Hahne for shared-memory switches,
/// 1998): a job alone has half of the memory, each of n jobs 1/(n + 1), and one that comes new always finds room.
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

/// What one link holds.
#[derive(Default)]
pub(crate) struct LinkMemory {
    /// For requests in hand.
    requests: usize,
    /// For begun frames and unsent replies, when it was last counted.
    buffers: usize,
    /// Bytes that the connection had moved when that was last looked at, and when they became more.
    moved: u64,
    moved_at: Nanos,
}

impl LinkMemory {
    pub(crate) fn bytes(&self) -> usize {
        self.requests + self.buffers
    }
}

impl Server {
    /// Whether a link may have one more request.
    pub(crate) fn admits(&self, index: usize) -> bool {
        let Some(link) = self.links.get(index) else { return false };
        // A connection that is not proved has one small frame at a time, which the number of connections bounds.
        link.session().is_none_or(|session| self.memory.admits(session.job(), link.memory.bytes()))
    }

    /// Counts a request of a link.
    pub(crate) fn hold_memory(&mut self, index: usize, job: JobId, bytes: usize) {
        self.memory.hold(job, bytes);
        if let Some(link) = self.links.get_mut(index) {
            link.memory.requests += bytes;
        }
    }

    /// A request is gone, and what it held is free.
    pub(crate) fn release_memory(&mut self, key: LinkKey, job: JobId, bytes: usize) {
        self.memory.release(job, bytes);
        if let Some(link) = self.links.get_mut(key.index).filter(|link| link.serial == key.serial) {
            link.memory.requests -= bytes;
        }
        self.read_held_back();
    }

    /// Counts anew what the buffers of a link hold.
    pub(crate) fn count_buffers(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        let Some(job) = link.session().map(crate::links::Session::job) else { return };
        let bytes = link.connection.buffered();
        let before = std::mem::replace(&mut link.memory.buffers, bytes);
        if bytes > before {
            self.memory.hold(job, bytes - before);
        } else if bytes < before {
            self.memory.release(job, before - bytes);
            self.read_held_back();
        }
    }

    /// A link is gone with its buffers; what its requests hold is released when they end.
    pub(crate) fn release_buffers(&mut self, job: JobId, memory: &LinkMemory) {
        self.memory.release(job, memory.buffers);
        self.read_held_back();
    }

    /// Closes links that keep memory from others and do nothing with it.
    pub(crate) fn expire_holders(&mut self, now: Nanos) {
        let mut idle = Vec::new();
        let is_short = !self.held_back.is_empty();
        for (index, link) in &mut self.links {
            let moved = link.connection.moved();
            if !is_short || moved != link.memory.moved {
                (link.memory.moved, link.memory.moved_at) = (moved, now);
                continue;
            }
            let awaits_payload = link.receiving.is_some_and(|token| {
                self.pending.get(token).is_some_and(crate::requests::service::Pending::is_starved)
            });
            let held = link.memory.buffers + if awaits_payload { link.memory.requests } else { 0 };
            let is_idle = now.saturating_since(link.memory.moved_at) > IDLE_MAX && held > SMALL_BYTES;
            let job = link.session().map(crate::links::Session::job).filter(|_| is_idle);
            if job.is_some_and(|job| !self.memory.admits(job, 0)) {
                idle.push(index);
            }
        }
        for index in idle {
            let seconds = IDLE_MAX.0 / 1_000_000_000;
            self.notices.tell(Notice::MemoryKept, now, || {
                format!("a connection is closed that kept memory from others of its job for {seconds} s")
            });
            self.close_link(index);
        }
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
