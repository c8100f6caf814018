//! Memory for payloads that arrive with their requests: bounded, and never taken whole by one job.

use std::collections::HashMap;
use weir_wire::JobId;

/// Payloads held for requests whose turn has not come.
const BYTES_MAX: usize = 128 << 20;

/// Bytes held, in all and by job.
///
/// A job may hold as much as is left free (the dynamic threshold of Choudhury and Hahne for shared-memory switches,
/// 1998): a job alone has half of the memory, each of n jobs 1/(n + 1), and one that comes new always finds room.
#[derive(Default)]
pub(crate) struct Payloads {
    bytes: usize,
    by_job: HashMap<JobId, usize>,
}

impl Payloads {
    /// Whether one more request of `job` may be read; of a connection that is not proved yet, none.
    pub(crate) fn admit(&self, job: Option<JobId>) -> bool {
        let held = job.and_then(|job| self.by_job.get(&job)).copied().unwrap_or(0);
        self.bytes <= BYTES_MAX && held <= BYTES_MAX - self.bytes
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

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_leaves_room_for_the_next() {
        const PIECE: usize = 64 << 10;
        let mut payloads = Payloads::default();
        let mut fill = |job: u64| {
            let job = JobId(job);
            let mut held = 0;
            while payloads.admit(Some(job)) {
                payloads.hold(job, PIECE);
                held += PIECE;
            }
            held
        };
        let near = |held: usize, part: usize| held.abs_diff(BYTES_MAX / part) <= 2 * PIECE;
        let first = fill(1);
        assert!(near(first, 2));
        let second = fill(2);
        assert!(near(second, 4), "what the first left is shared with the next");
        assert!(payloads.admit(Some(JobId(3))) && payloads.admit(None));
        payloads.release(JobId(1), first);
        payloads.release(JobId(2), second);
        assert!(payloads.is_empty() && payloads.by_job.is_empty());
    }
}
