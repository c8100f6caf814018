//! Passes: directories of this server that users reached by walking over another server.

use std::collections::HashMap;
use weir_wire::{limits, Ino, Moment};

/// The most remembered passes, in a few megabytes: many users walk to fewer directories over other servers within a minute.
const PASSES: usize = 65_536;

/// Directories of this server that users reached by walking over another server, and the time of the walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Passes {
    shown: HashMap<(u32, Ino), i64>,
}

impl Passes {
    pub(super) fn note(&mut self, uid: u32, ino: Ino, now: Moment) {
        if self.shown.len() >= PASSES {
            self.shown.retain(|_, since| is_recent(*since, now));
        }
        if self.shown.len() < PASSES {
            self.shown.insert((uid, ino), now.seconds);
        }
    }

    pub(super) fn holds(&self, uid: u32, ino: Ino, now: Moment) -> bool {
        self.shown.get(&(uid, ino)).is_some_and(|&since| is_recent(since, now))
    }
}

pub(super) fn is_recent(since: i64, now: Moment) -> bool {
    now.seconds.saturating_sub(since) <= limits::PASS_SECONDS as i64
}
