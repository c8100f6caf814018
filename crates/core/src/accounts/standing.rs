//! The moments since when a target is full or fails. Those are told once in the server's log, and in the control API for as long as
//! they last.

use weir_wire::limits::PAYLOAD_BYTES;
use weir_wire::TargetRoom;

/// A target with less room is full: no stripe of a new file fits.
const FULL_BYTES: u64 = 64 << 10;
/// A full target has room again when this part of what it holds and can hold was freed, so that one that is filled and emptied by a few bytes
/// tells it once.
const FREED_SHARE: u64 = 100;

/// The standing of one target.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    full: Option<Full>,
    was_refused: bool,
    failing_since: Option<u64>,
}

/// A full target: the Unix time in milliseconds since when, and the room that was left.
#[derive(Clone, Copy, Debug)]
struct Full {
    since: u64,
    free_bytes: u64,
}

/// A change that the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Filled,
    HasRoom,
}

impl Standing {
    /// A write found no room.
    pub(crate) fn refuse(&mut self) {
        self.was_refused = true;
    }

    /// Looks at the room of the target, where it is known, and whether its device works, at a Unix time in milliseconds.
    pub(crate) fn look(&mut self, room: Option<&TargetRoom>, fails: bool, now: u64) -> Option<Turn> {
        self.failing_since = fails.then(|| self.failing_since.unwrap_or(now));
        let was_refused = std::mem::take(&mut self.was_refused);
        let room = room?;
        let free_bytes = room.disk.map_or(u64::MAX, |disk| disk.free_bytes).min(room.free_bytes());
        match self.full {
            None => {
                // A refused write is no longer than a payload: with more room it was refused for another reason.
                let has_refused = was_refused && room.used_bytes > 0 && free_bytes < PAYLOAD_BYTES as u64;
                if free_bytes >= FULL_BYTES && !has_refused {
                    return None;
                }
                self.full = Some(Full { since: now, free_bytes });
                Some(Turn::Filled)
            }
            Some(full) => {
                let freed = (room.used_bytes.saturating_add(free_bytes) / FREED_SHARE).max(FULL_BYTES);
                if free_bytes < full.free_bytes + freed {
                    return None;
                }
                self.full = None;
                Some(Turn::HasRoom)
            }
        }
    }

    /// The Unix time in seconds since when the target is full.
    pub(crate) fn full_since(&self) -> Option<f64> {
        self.full.map(|full| full.since as f64 / 1e3)
    }

    /// The Unix time in seconds since when the target's device or folder fails.
    pub(crate) fn failing_since(&self) -> Option<f64> {
        self.failing_since.map(|milliseconds| milliseconds as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 64 << 20;

    fn room(free_bytes: u64) -> TargetRoom {
        TargetRoom { capacity_bytes: CAPACITY, used_bytes: CAPACITY - free_bytes, disk: None }
    }

    #[test]
    fn a_target_is_full_from_its_last_bytes_until_a_hundredth_of_it_is_free_again() {
        let mut standing = Standing::default();
        assert_eq!(standing.look(Some(&room(FULL_BYTES)), false, 1_000), None);
        assert_eq!(standing.look(Some(&room(10)), false, 2_000), Some(Turn::Filled));
        assert_eq!(standing.look(Some(&room(FULL_BYTES + 10)), false, 3_000), None);
        assert_eq!(standing.full_since(), Some(2.0));
        assert_eq!(
            standing.look(Some(&room(CAPACITY / FREED_SHARE + 10)), false, 4_000),
            Some(Turn::HasRoom)
        );
        assert_eq!(standing.full_since(), None);
    }

    #[test]
    fn a_refused_write_makes_a_target_full_only_where_it_may_not_have_fitted() {
        let mut standing = Standing::default();
        standing.refuse();
        assert_eq!(standing.look(Some(&room(PAYLOAD_BYTES as u64)), false, 1_000), None);
        standing.refuse();
        assert_eq!(standing.look(Some(&room(PAYLOAD_BYTES as u64 - 1)), false, 2_000), Some(Turn::Filled));
        assert_eq!(standing.look(Some(&room(PAYLOAD_BYTES as u64 - 1)), false, 3_000), None);
    }

    #[test]
    fn a_failing_target_fails_since_the_first_look_until_it_works() {
        let mut standing = Standing::default();
        for (fails, now, since) in [(true, 1_000, Some(1.0)), (true, 2_000, Some(1.0)), (false, 3_000, None)]
        {
            standing.look(Some(&room(CAPACITY)), fails, now);
            assert_eq!(standing.failing_since(), since);
        }
    }
}
