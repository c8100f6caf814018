//! Append turns: one appender of a file at a time, in the order of their requests.

use super::Appends;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use std::collections::VecDeque;
use weir_wire::{ClientId, Ino, RequestId, Sequence};

/// The most appenders that may wait for one file: every connection of a thousand clients at its limit of outstanding requests.
/// One more is answered EAGAIN.
const WAITERS_PER_FILE: usize = 65_536;
/// The most files of earlier starts that are known to be free of turns of those, in a megabyte or two. At the limit all are forgotten, and
/// each is cut once more.
const SETTLED_FILES: usize = 65_536;

/// A request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appender {
    /// The client.
    pub client: ClientId,
    /// The client's request, which is answered when the turn comes.
    pub request: RequestId,
}

#[derive(Clone, Debug)]
pub(super) struct Turns {
    holder: Appender,
    turn: Sequence,
    waiting: VecDeque<Appender>,
}

/// The outcome of a request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted(Sequence),
    Queued,
    Full,
}

impl Appends {
    /// The server starts, and forgets the turns of before: no later turn has the number of one of those. Inodes from
    /// `next_sequence` on are made by this start.
    pub(crate) fn begin(&mut self, start: u32, next_sequence: u64) {
        *self = Appends { last: u64::from(start) << 32, first_of_start: next_sequence, ..Appends::default() };
    }

    /// Whether a client may still write to a file in a turn that it had of an earlier start, or before it was gone.
    pub(super) fn may_be_written(&self, ino: Ino) -> bool {
        if self.uncut.contains(&ino) {
            return true;
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::TurnsOutliveStart) {
            return false;
        }
        ino.sequence() < self.first_of_start && !self.settled.contains(&ino)
    }

    /// A file is cut: nothing that was begun before takes effect.
    pub(crate) fn cut(&mut self, ino: Ino) {
        self.uncut.remove(&ino);
        if ino.sequence() >= self.first_of_start {
            return;
        }
        if self.settled.len() >= SETTLED_FILES {
            self.settled.clear();
        }
        self.settled.insert(ino);
    }

    /// A file is gone.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.uncut.remove(&ino);
    }

    pub(super) fn is_taken(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Whether `client` has this turn.
    pub(crate) fn holds(&self, ino: Ino, client: ClientId, turn: Sequence) -> bool {
        self.files.get(&ino).is_some_and(|turns| turns.turn == turn && turns.holder.client == client)
    }

    /// The files whose turn `client` has, in their order.
    pub(crate) fn held_by(&self, client: ClientId) -> Vec<Ino> {
        let inos = self.clients.get(&client).into_iter().flatten().copied();
        let mut held: Vec<Ino> = inos
            .filter(|ino| self.files.get(ino).is_some_and(|turns| turns.holder.client == client))
            .collect();
        held.sort_unstable();
        held
    }

    /// Takes the turn or waits for it. A request that has the turn, or waits for it already, is a resend.
    pub(super) fn take_or_queue(&mut self, ino: Ino, appender: Appender) -> Asked {
        let Some(turns) = self.files.get_mut(&ino) else {
            self.last += 1;
            let turn = Sequence(self.last);
            self.files.insert(ino, Turns { holder: appender, turn, waiting: VecDeque::new() });
            self.clients.entry(appender.client).or_default().insert(ino);
            return Asked::Granted(turn);
        };
        if turns.holder == appender {
            return Asked::Granted(turns.turn);
        }
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::TurnsShared) {
            return Asked::Granted(turns.turn);
        }
        if turns.waiting.contains(&appender) {
            return Asked::Queued;
        }
        if turns.waiting.len() >= WAITERS_PER_FILE {
            return Asked::Full;
        }
        turns.waiting.push_back(appender);
        self.clients.entry(appender.client).or_default().insert(ino);
        Asked::Queued
    }

    /// Ends the turn and gives it to the next in the queue.
    pub(super) fn pass_on(&mut self, ino: Ino) -> Option<(Appender, Sequence)> {
        let turns = self.files.get_mut(&ino)?;
        let ended = turns.holder;
        let next = turns.waiting.pop_front();
        match next {
            Some(next) => {
                self.last += 1;
                turns.holder = next;
                turns.turn = Sequence(self.last);
            }
            None => drop(self.files.remove(&ino)),
        }
        self.forget_unless_queued(ino, ended.client);
        next.map(|next| (next, Sequence(self.last)))
    }

    /// Turns that others wait for.
    pub(crate) fn contested(&self) -> Vec<(Ino, Sequence)> {
        let contested = self.files.iter().filter(|(_, turns)| !turns.waiting.is_empty());
        contested.map(|(&ino, turns)| (ino, turns.turn)).collect()
    }

    /// Ends the turn and empties the queue; answers the waiting appenders, in their order.
    pub(crate) fn take(&mut self, ino: Ino) -> Vec<Appender> {
        let Some(turns) = self.files.remove(&ino) else { return Vec::new() };
        self.forget_unless_queued(ino, turns.holder.client);
        for waiter in &turns.waiting {
            self.forget_unless_queued(ino, waiter.client);
        }
        turns.waiting.into()
    }

    /// Takes every turn and every place in a queue from `client`; answers the files whose turn ended.
    pub(super) fn forget_client(&mut self, client: ClientId) -> Vec<Ino> {
        let mut ended = Vec::new();
        let mut inos: Vec<Ino> = self.clients.remove(&client).into_iter().flatten().collect();
        inos.sort_unstable();
        for ino in inos {
            if let Some(turns) = self.files.get_mut(&ino) {
                turns.waiting.retain(|waiter| waiter.client != client);
                if turns.holder.client == client {
                    ended.push(ino);
                }
            }
        }
        ended
    }

    fn forget_unless_queued(&mut self, ino: Ino, client: ClientId) {
        let queued = self.files.get(&ino).is_some_and(|turns| {
            turns.holder.client == client || turns.waiting.iter().any(|waiter| waiter.client == client)
        });
        if queued {
            return;
        }
        if let Some(inos) = self.clients.get_mut(&client) {
            inos.remove(&ino);
            if inos.is_empty() {
                self.clients.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appender(client: u64, request: u64) -> Appender {
        Appender { client: ClientId(client), request: RequestId(request) }
    }

    #[test]
    fn turns_come_in_the_order_of_asking_and_leave_nothing_behind() {
        let mut turns = Appends::default();
        let file = Ino(9);
        let Asked::Granted(first) = turns.take_or_queue(file, appender(1, 1)) else {
            panic!("the file is free")
        };
        assert_eq!(
            turns.take_or_queue(file, appender(1, 1)),
            Asked::Granted(first),
            "a resend has the same turn"
        );
        assert_eq!(turns.take_or_queue(file, appender(2, 1)), Asked::Queued);
        assert_eq!(turns.take_or_queue(file, appender(2, 1)), Asked::Queued, "a resend does not wait twice");
        assert_eq!(turns.take_or_queue(file, appender(3, 1)), Asked::Queued);
        assert!(turns.holds(file, ClientId(1), first));
        let (second, turn) = turns.pass_on(file).unwrap();
        assert_eq!(second, appender(2, 1));
        assert!(turns.holds(file, ClientId(2), turn) && !turns.holds(file, ClientId(1), first));
        assert_eq!(turns.forget_client(ClientId(2)), [file]);
        assert_eq!(turns.pass_on(file).unwrap().0, appender(3, 1));
        assert_eq!(turns.pass_on(file), None);
        assert!(turns.files.is_empty() && turns.clients.is_empty());
    }

    #[test]
    fn a_start_ends_all_turns_and_each_older_file_is_cut_once() {
        let mut turns = Appends::default();
        turns.begin(1, 1);
        let (older, newer) = (Ino(9), Ino(10));
        assert!(!turns.may_be_written(older));
        let Asked::Granted(before) = turns.take_or_queue(older, appender(1, 1)) else {
            panic!("the file is free")
        };
        turns.begin(2, 10);
        assert!(turns.may_be_written(older) && !turns.may_be_written(newer));
        turns.cut(older);
        assert!(!turns.may_be_written(older));
        let Asked::Granted(turn) = turns.take_or_queue(older, appender(1, 2)) else {
            panic!("the turn of before is over")
        };
        assert!(turn > before && !turns.holds(older, ClientId(1), before));
        for file in 0..=SETTLED_FILES as u64 {
            turns.first_of_start = u64::MAX;
            turns.cut(Ino(100 + file));
        }
        assert!(turns.settled.len() <= SETTLED_FILES && turns.may_be_written(older));
    }

    #[test]
    fn a_turn_that_is_taken_leaves_nothing_behind() {
        let mut turns = Appends::default();
        let file = Ino(9);
        let Asked::Granted(turn) = turns.take_or_queue(file, appender(1, 1)) else {
            panic!("the file is free")
        };
        assert_eq!(turns.contested(), [], "nobody waits");
        turns.take_or_queue(file, appender(2, 1));
        turns.take_or_queue(file, appender(3, 1));
        assert_eq!(turns.contested(), [(file, turn)]);
        assert_eq!(turns.take(file), [appender(2, 1), appender(3, 1)]);
        assert!(!turns.holds(file, ClientId(1), turn));
        assert!(turns.files.is_empty() && turns.clients.is_empty());
    }
}
