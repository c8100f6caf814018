//! The clocks of a machine: one that drifts and never goes back, and Unix time, which its owner sets back and forth.

use super::agenda::Agenda;
use super::task::Outcome;
use super::World;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use weir_core::clock::Time;
use weir_fairshare::Nanos;
use weir_wire::{Moment, Reply};

/// The greatest drift of a clock, in millionths: ten times that of a bad quartz.
const DRIFT_MAX: u64 = 1_000;
/// The farthest that Unix time is set from the world's: servers refuse the credentials of others five minutes ahead of them.
const AHEAD_MAX: Nanos = Nanos::from_millis(140_000);
/// The length of a small jump.
const JUMP: Nanos = Nanos::from_millis(3_000);

/// The clocks of a machine.
pub(super) struct Clocks {
    world: Arc<dyn Time>,
    drift: AtomicI64,
    /// Nanoseconds by which Unix time is ahead.
    ahead: AtomicI64,
    /// The world's time of the last jump.
    jumped: AtomicU64,
}

/// A time of the world as a clock with this drift shows it.
fn drifted(elapsed: Nanos, drift: i64) -> Nanos {
    let more = i128::from(elapsed.0) * i128::from(drift) / 1_000_000;
    Nanos((i128::from(elapsed.0) + more) as u64)
}

/// Any number from `-most` to `most`.
fn around(agenda: &Agenda, most: u64) -> i64 {
    agenda.below(2 * most + 1) as i64 - most as i64
}

impl Clocks {
    /// Clocks that show the world's time.
    pub(super) fn new(agenda: &Agenda) -> Arc<Clocks> {
        let (drift, ahead, jumped) = (AtomicI64::new(0), AtomicI64::new(0), AtomicU64::new(0));
        Arc::new(Clocks { world: agenda.time(), drift, ahead, jumped })
    }

    /// The clocks drift from the beginning on, and are not together.
    pub(super) fn part(&self, agenda: &Agenda) {
        self.drift.store(around(agenda, DRIFT_MAX), Ordering::Relaxed);
        self.jump(agenda);
    }

    /// Unix time is set by a little, or to any time that is not too far.
    pub(super) fn jump(&self, agenda: &Agenda) {
        let most = AHEAD_MAX.0 as i64;
        let ahead = match agenda.by_chance(50) {
            true => self.ahead.load(Ordering::Relaxed) + around(agenda, JUMP.0),
            false => around(agenda, AHEAD_MAX.0),
        };
        self.ahead.store(ahead.clamp(-most, most), Ordering::Relaxed);
        self.jumped.store(agenda.now().0, Ordering::Relaxed);
    }

    fn unix_at(&self, moment: Nanos) -> Duration {
        let elapsed = drifted(moment, self.drift.load(Ordering::Relaxed));
        let unix = self.world.unix() - Duration::from(self.world.elapsed()) + Duration::from(elapsed);
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Duration::from_nanos(ahead.unsigned_abs());
        if ahead < 0 {
            unix - by
        } else {
            unix + by
        }
    }

    /// Checks the stamp of something that was made by a call from `began` to now.
    ///
    /// # Errors
    /// The clock of the machine did not show that time meanwhile.
    pub(super) fn check(&self, stamp: Moment, began: Nanos) -> Outcome<()> {
        if self.jumped.load(Ordering::Relaxed) >= began.0 {
            return Ok(());
        }
        let stamp = Duration::new(stamp.seconds.max(0) as u64, stamp.nanoseconds);
        let (first, last) = (self.unix_at(began), self.unix());
        match first <= stamp && stamp <= last {
            true => Ok(()),
            false => Err(format!("it has the time {stamp:?}, and was made between {first:?} and {last:?}")),
        }
    }
}

impl World {
    /// Checks the time of a file that a call from `began` to now has made.
    pub(super) fn check_stamp(&self, reply: &Reply, began: Nanos) -> Outcome<()> {
        match reply {
            Reply::Opened { attributes, created: true, .. } => {
                let home = usize::from(attributes.ino.home().0);
                let checked = self.machines[home].clocks().check(attributes.created, began);
                checked.map_err(|fault| format!("{:?}: {fault}", attributes.ino))
            }
            _ => Ok(()),
        }
    }
}

impl Time for Clocks {
    fn elapsed(&self) -> Nanos {
        drifted(self.world.elapsed(), self.drift.load(Ordering::Relaxed))
    }

    fn unix(&self) -> Duration {
        self.unix_at(self.world.elapsed())
    }
}
