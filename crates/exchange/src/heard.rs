//! The last reports of all servers about their targets, brought together for a placer.

use std::collections::HashMap;
use weir_placement::online::{Figures, Presence};
use weir_placement::TargetId;

/// The figures of every target that was heard of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    figures: HashMap<TargetId, Figures>,
    is_starting: bool,
}

impl Heard {
    /// Nothing was heard yet. While the placer's server `is_starting`, a target that was not heard of may yet be; later
    /// its server counts as dead.
    pub(crate) fn new(is_starting: bool) -> Heard {
        Heard { figures: HashMap::new(), is_starting }
    }

    /// Its server says this of a target.
    pub(crate) fn tell(&mut self, target: TargetId, figures: Figures) {
        self.figures.insert(target, figures);
    }

    /// Notes that another server has lately placed so many bytes on a target. Bytes on a target without a report do not
    /// count.
    pub(crate) fn place(&mut self, target: TargetId, bytes: f64) {
        if let Some(figures) = self.figures.get_mut(&target) {
            figures.placed_bytes += bytes.max(0.0);
        }
    }

    /// The figures that count for a target now; nothing if the old ones stay.
    pub(crate) fn figures(&self, target: TargetId) -> Option<Figures> {
        let dead = Figures { presence: Presence::Dead, ..Figures::UNKNOWN };
        self.figures.get(&target).copied().or_else(|| (!self.is_starting).then_some(dead))
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
            let mut heard = Heard::new(is_starting);
            heard.tell(target(0), Figures { free_bytes: 7, ..Figures::UNKNOWN });
            heard.place(target(0), 5.0);
            heard.place(target(0), -3.0);
            heard.place(target(1), 5.0);
            let told = Figures { free_bytes: 7, placed_bytes: 5.0, ..Figures::UNKNOWN };
            assert_eq!(heard.figures(target(0)), Some(told));
            let dead = Figures { presence: Presence::Dead, ..Figures::UNKNOWN };
            assert_eq!(heard.figures(target(1)), (!is_starting).then_some(dead));
        }
    }
}
