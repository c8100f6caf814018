//! The last reports of all servers about their targets, brought together for a placer.

use weir_placement::online::{Figures, Presence};
use weir_placement::TargetId;

/// The figures of every target that was heard of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// By ascending target.
    figures: Vec<(TargetId, Figures)>,
    is_starting: bool,
}

impl Heard {
    /// The last figures that servers tell of each target. While the placer's server `is_starting`, a target that was not heard of
    /// may yet be; later its server counts as dead.
    pub(crate) fn of(told: impl Iterator<Item = (TargetId, Figures)>, is_starting: bool) -> Heard {
        let mut figures: Vec<(TargetId, Figures)> = told.collect();
        figures.sort_by_key(|(target, _)| *target);
        figures.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        Heard { figures, is_starting }
    }

    /// Notes that another server has lately placed so many bytes on a target. Bytes on a target without a report do not
    /// count.
    pub(crate) fn place(&mut self, target: TargetId, bytes: f64) {
        if let Some(place) = self.find(target) {
            self.figures[place].1.placed_bytes += bytes.max(0.0);
        }
    }

    /// The figures that count for a target now; nothing if the old ones stay.
    pub(crate) fn figures(&self, target: TargetId) -> Option<Figures> {
        let dead = Figures { presence: Presence::Dead, ..Figures::UNKNOWN };
        let found = self.find(target).map(|place| self.figures[place].1);
        found.or_else(|| (!self.is_starting).then_some(dead))
    }

    fn find(&self, target: TargetId) -> Option<usize> {
        self.figures.binary_search_by_key(&target, |(known, _)| *known).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_placement::ServerId;

    #[test]
    fn a_silent_server_is_dead_once_all_could_have_been_heard_and_its_placed_bytes_do_not_count() {
        let target = |server| TargetId { server: ServerId(server), index: 0 };
        for is_starting in [true, false] {
            let figures = |free_bytes| Figures { free_bytes, ..Figures::UNKNOWN };
            let told = [(target(2), figures(3)), (target(0), figures(9)), (target(0), figures(7))];
            let mut heard = Heard::of(told.into_iter(), is_starting);
            for (server, bytes) in [(0, 5.0), (0, -3.0), (1, 5.0)] {
                heard.place(target(server), bytes);
            }
            let dead = Figures { presence: Presence::Dead, ..Figures::UNKNOWN };
            for _ in 0..2 {
                assert_eq!(heard.figures(target(0)), Some(Figures { placed_bytes: 5.0, ..figures(7) }));
                assert_eq!(heard.figures(target(1)), (!is_starting).then_some(dead));
                assert_eq!(heard.figures(target(2)), Some(figures(3)));
            }
        }
    }
}
