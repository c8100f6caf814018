//! The knowledge of a client about one server, beside the calls that go on there: signs of life, losses, starts and fences.
//!
//! All of it is atomic, so no call waits for another one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_wire::Fence;

/// After a server was lost, calls for this long make one attempt instead of waiting for it.
const LOST: Duration = Duration::from_secs(2);
/// After an attempt that waited for a silent server, calls fail at once for as long as the attempt took, at most for this
/// time. So a program that makes many calls waits for half of its time at most, and a command of a few calls waits once.
const AT_ONCE_MAX: Duration = Duration::from_secs(1);

/// The knowledge of a client about one server.
#[derive(Debug, Default)]
pub struct Standing {
    /// The moment of the last reply, in nanoseconds, as all moments here.
    heard: AtomicU64,
    /// The end of the time in which the server counts as lost. Until then calls try once instead of waiting.
    lost_until: AtomicU64,
    /// The end of the time in which calls fail at once, because the server let a call wait in vain.
    silent_until: AtomicU64,
    /// The start of the server that the last connection found, 0 before the first connection.
    pub boot: AtomicU64,
    /// The number of times that a connection found another start than the one before.
    restarts: AtomicU64,
    /// The number of connections that broke or were refused.
    breaks: AtomicU64,
    /// Whether what listened at the server's address did not prove to be the server, at the last try.
    pub is_another: AtomicBool,
    /// The fence that the server told last, [`Fence::NONE`] before this client's first lock.
    pub fence: AtomicU64,
}

impl Standing {
    /// Notes that the server answered.
    pub fn note_heard(&self, now: Duration) {
        self.heard.store(nanoseconds(now), Ordering::Relaxed);
        if self.lost_until.load(Ordering::Relaxed) != 0 {
            self.lost_until.store(0, Ordering::Relaxed);
            self.silent_until.store(0, Ordering::Relaxed);
        }
    }

    /// The moment of the last reply.
    pub fn heard(&self) -> Duration {
        Duration::from_nanos(self.heard.load(Ordering::Relaxed))
    }

    /// Whether the server was lost a moment ago.
    pub fn counts_as_lost(&self, now: Duration) -> bool {
        self.lost_until.load(Ordering::Relaxed) > nanoseconds(now)
    }

    /// Whether calls fail at once, because the server has just let another call wait in vain.
    pub fn fails_at_once(&self, now: Duration) -> bool {
        self.silent_until.load(Ordering::Relaxed) > nanoseconds(now)
    }

    /// Notes that the server is lost. The last attempt waited for the time `waited`.
    pub fn lose(&self, now: Duration, waited: Duration) {
        self.lost_until.store(nanoseconds(now + LOST), Ordering::Relaxed);
        self.silent_until.fetch_max(nanoseconds(now + waited.min(AT_ONCE_MAX)), Ordering::Relaxed);
    }

    /// Notes the start of the server that a new connection found.
    pub fn note_start(&self, boot: u64) {
        let before = self.boot.swap(boot, Ordering::SeqCst);
        if before != 0 && before != boot {
            self.restarts.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether the server knows this client from an earlier connection.
    pub fn has_met(&self) -> bool {
        self.boot.load(Ordering::SeqCst) != 0
    }

    /// Notes that a connection broke or was refused.
    pub fn note_break(&self) {
        self.breaks.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a connection broke or was refused.
    pub fn has_broken(&self) -> bool {
        self.breaks.load(Ordering::SeqCst) > 0
    }

    /// A number that changes when the server may have forgotten requests of earlier connections: after a connection broke, or
    /// the server started anew. The first connection changes nothing: before it there was nothing to forget.
    pub fn memory(&self) -> u64 {
        self.restarts.load(Ordering::SeqCst) + self.breaks.load(Ordering::SeqCst)
    }

    /// The fence that the server told last.
    pub fn fence(&self) -> Fence {
        Fence(self.fence.load(Ordering::SeqCst))
    }

    /// Takes over the fence under which a lock was granted. Replies may overtake each other: an earlier one is ignored.
    pub fn note_fence(&self, told: Fence) {
        self.fence.fetch_max(told.0, Ordering::SeqCst);
    }

    /// Takes over the fence of a server that knows this client's holdings, where this client uses locks. The number of a start
    /// may be lower than that of an earlier one, if the server kept nothing and its clock was set back.
    pub fn renew_fence(&self, told: Fence) {
        let known = self.fence();
        if known == Fence::NONE {
            return;
        }
        let is_earlier = known.start() == told.start() && told < known;
        let fence = if is_earlier { known } else { told };
        // Where another thread was faster, its fence is as good.
        let _ = self.fence.compare_exchange(known.0, fence.0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

fn nanoseconds(moment: Duration) -> u64 {
    moment.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connection_has_nothing_to_forget_and_another_start_and_a_break_have() {
        let standing = Standing::default();
        let before = standing.memory();
        standing.note_start(7);
        standing.note_start(7);
        assert_eq!(standing.memory(), before);
        standing.note_start(9);
        let after_start = standing.memory();
        assert_ne!(after_start, before);
        standing.note_break();
        assert_ne!(standing.memory(), after_start);
    }
}
