//! The queue of coming events: by moment, and at one moment in the order in which they were asked for.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use weir_fairshare::Nanos;

/// Events that are to come.
#[derive(Debug)]
pub(crate) struct Events<T> {
    heap: BinaryHeap<Entry<T>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Nanos,
    sequence: u64,
    event: T,
}

impl<T> Events<T> {
    pub(crate) fn new() -> Events<T> {
        Events { heap: BinaryHeap::new(), sequence: 0 }
    }

    pub(crate) fn push(&mut self, at: Nanos, event: T) {
        self.heap.push(Entry { at, sequence: self.sequence, event });
        self.sequence += 1;
    }

    /// The moment of the next event.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// The next event, if it is due at `now`.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|entry| entry.event)
    }
}

impl<T> Ord for Entry<T> {
    /// The earliest is the greatest, because the heap hands out the greatest.
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_moment_keep_the_order_in_which_they_were_asked_for() {
        let mut events = Events::new();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            events.push(Nanos(at), event);
        }
        assert_eq!(events.due(Nanos(2)), None);
        let taken: String = std::iter::from_fn(|| events.due(Nanos(9))).collect();
        assert_eq!(taken, "abcd");
        assert_eq!(events.next(), None);
    }
}
