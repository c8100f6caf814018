//! Jobs whose turns are likely to come soon, so that their data is brought near before.
//!
//! With ten thousand jobs a decision is as fast as the cache lines that it waits for: of the job, its queue, its leaf and
//! its leaf's siblings. Once a branch of the tree was served, its next leaf is known, and the other branches are likely to
//! be served before that leaf. Its first lines are fetched at once, and the lines to which those point some decisions later.

use super::turns::Turn;

/// Decisions between the two: enough for the first lines to arrive from memory, few enough that they are still near.
const DECISIONS: usize = 8;

/// The turns of the last jobs whose first lines were fetched, in a ring.
#[derive(Debug)]
pub(crate) struct Lookahead {
    turns: [Option<Turn>; DECISIONS],
    next: usize,
}

impl Lookahead {
    /// Looks ahead to nobody yet.
    pub(crate) fn new() -> Lookahead {
        Lookahead { turns: [None; DECISIONS], next: 0 }
    }

    /// Notes a job whose first lines are fetched now. Answers the job whose first lines should be near by now; it may have
    /// left meanwhile.
    #[inline]
    pub(crate) fn note(&mut self, turn: Option<Turn>) -> Option<Turn> {
        let earlier = std::mem::replace(&mut self.turns[self.next], turn);
        self.next = (self.next + 1) % DECISIONS;
        earlier
    }
}
