//! The weather of a world: which faults it has, and how many. Where everything fails all the time no server lives for long, and whatever
//! needs minutes without a start never happens: a lock that is released and granted to others, for instance.

use super::agenda::Agenda;

/// Worlds with all kinds of faults, at every moment for one, in hundredths.
const STORMY: u64 = 50;
/// The chances of a fault at such a moment in other worlds, in hundredths.
const CHANCES: [u64; 3] = [100, 40, 10];

/// The faults of a world.
pub(super) struct Weather {
    kinds: Vec<u64>,
    percent: u64,
}

impl Weather {
    /// The weather of the world of this agenda, which has this number of kinds of faults.
    pub(super) fn new(agenda: &Agenda, kinds: u64) -> Weather {
        if agenda.by_chance(STORMY) {
            return Weather { kinds: (0..kinds).collect(), percent: 100 };
        }
        let percent = CHANCES[agenda.below(CHANCES.len() as u64) as usize];
        Weather { kinds: (0..kinds).filter(|_| agenda.by_chance(50)).collect(), percent }
    }

    /// The kind of the fault at a moment for one; none where nothing fails.
    pub(super) fn fault(&self, agenda: &Agenda) -> Option<u64> {
        let kind = agenda.below(self.kinds.len() as u64) as usize;
        self.kinds.get(kind).copied().filter(|_| agenda.by_chance(self.percent))
    }
}
