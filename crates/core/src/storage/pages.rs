//! The free pages of an arena.
//!
//! Recycled pages are resident and dirty, so they are used first, and their owner clears the bytes that it does not write.
//! Fresh pages were never touched or were given back, and read as zeros.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A run of arena pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First page.
    pub(crate) first: u64,
    /// Number of pages.
    pub(crate) pages: u64,
    /// Whether the run may hold old bytes.
    pub(crate) dirty: bool,
}

/// Keeps freed pages from being handed out while a transfer may still touch them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pin(u64);

#[derive(Default)]
struct FreeSet {
    runs: BTreeMap<u64, u64>,
    pages: u64,
}

/// The free pages of one arena.
pub(crate) struct Pages {
    fresh: FreeSet,
    recycled: FreeSet,
    pins: BTreeSet<u64>,
    next_pin: u64,
    /// Runs that were freed while pins were held, each with the first pin that cannot know the run.
    limbo: VecDeque<(u64, Run)>,
    limbo_pages: u64,
}

impl Pages {
    pub(crate) fn new(pages: u64) -> Pages {
        let mut fresh = FreeSet::default();
        fresh.insert(0, pages);
        Pages {
            fresh,
            recycled: FreeSet::default(),
            pins: BTreeSet::new(),
            next_pin: 0,
            limbo: VecDeque::new(),
            limbo_pages: 0,
        }
    }

    /// Pages that an allocation can have now.
    pub(crate) fn free_pages(&self) -> u64 {
        self.fresh.pages + self.recycled.pages
    }

    /// Pages that will be free when the transfers in flight end.
    pub(crate) fn limbo_pages(&self) -> u64 {
        self.limbo_pages
    }

    /// Takes `pages` pages in as few runs as the free set allows; takes nothing if there are fewer.
    pub(crate) fn take(&mut self, pages: u64) -> Option<Vec<Run>> {
        if self.free_pages() < pages {
            return None;
        }
        let mut runs = Vec::new();
        let mut missing = pages;
        for (set, dirty) in [(&mut self.recycled, true), (&mut self.fresh, false)] {
            while missing > 0 {
                let Some((first, taken)) = set.take(missing) else { break };
                runs.push(Run { first, pages: taken, dirty });
                missing -= taken;
            }
        }
        Some(runs)
    }

    /// Frees a run. The run is handed out again once every present pin is dropped.
    pub(crate) fn free(&mut self, run: Run) {
        if self.pins.is_empty() {
            self.insert(run);
        } else {
            self.limbo_pages += run.pages;
            self.limbo.push_back((self.next_pin, run));
        }
    }

    /// Keeps all pages that are freed from now on out of use until [`Pages::unpin`].
    pub(crate) fn pin(&mut self) -> Pin {
        let pin = self.next_pin;
        self.next_pin += 1;
        self.pins.insert(pin);
        Pin(pin)
    }

    /// Whether a transfer is in flight.
    pub(crate) fn is_pinned(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Ends a pin.
    pub(crate) fn unpin(&mut self, pin: Pin) {
        self.pins.remove(&pin.0);
        let oldest = self.pins.first().copied().unwrap_or(self.next_pin);
        while let Some(&(before, run)) = self.limbo.front() {
            if before > oldest {
                break;
            }
            self.limbo.pop_front();
            self.limbo_pages -= run.pages;
            self.insert(run);
        }
    }

    /// Takes a run of the recycled pages above the number `keep`, whose memory the caller gives back before it
    /// [inserts](Pages::insert) the run as clean.
    pub(crate) fn take_recycled_above(&mut self, keep: u64) -> Option<Run> {
        let excess = self.recycled.pages.checked_sub(keep).filter(|&excess| excess > 0)?;
        let (first, pages) = self.recycled.take(excess)?;
        Some(Run { first, pages, dirty: true })
    }

    /// Puts a run among the free pages.
    pub(crate) fn insert(&mut self, run: Run) {
        let set = if run.dirty { &mut self.recycled } else { &mut self.fresh };
        set.insert(run.first, run.pages);
    }
}

impl FreeSet {
    fn insert(&mut self, mut first: u64, mut pages: u64) {
        self.pages += pages;
        if let Some((&before, &length)) = self.runs.range(..first).next_back() {
            if before + length == first {
                self.runs.remove(&before);
                first = before;
                pages += length;
            }
        }
        if let Some(length) = self.runs.remove(&(first + pages)) {
            pages += length;
        }
        self.runs.insert(first, pages);
    }

    fn take(&mut self, pages: u64) -> Option<(u64, u64)> {
        let (&first, &length) = self.runs.iter().next()?;
        let taken = length.min(pages);
        self.runs.remove(&first);
        if taken < length {
            self.runs.insert(first + taken, length - taken);
        }
        self.pages -= taken;
        Some((first, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_freed_page_waits_for_the_pins_that_knew_it() {
        let mut pages = Pages::new(4);
        let run = pages.take(4).unwrap()[0];
        let early = pages.pin();
        pages.free(Run { dirty: true, ..run });
        let late = pages.pin();
        assert_eq!(pages.free_pages(), 0);
        pages.unpin(late);
        assert_eq!(pages.free_pages(), 0, "the early pin still may touch it");
        pages.unpin(early);
        assert_eq!((pages.free_pages(), pages.limbo_pages()), (4, 0));
    }

    proptest! {
        #[test]
        fn no_page_is_handed_out_twice_or_lost(steps in proptest::collection::vec((any::<bool>(), 1u64..9), 1..200)) {
            let mut pages = Pages::new(64);
            let mut held: Vec<Run> = Vec::new();
            for (take, count) in steps {
                if take {
                    if let Some(runs) = pages.take(count) {
                        prop_assert_eq!(runs.iter().map(|run| run.pages).sum::<u64>(), count);
                        held.extend(runs);
                    }
                } else if !held.is_empty() {
                    let run = held.swap_remove(count as usize % held.len());
                    pages.free(Run { dirty: true, ..run });
                }
                let mut owned: Vec<u64> = held.iter().flat_map(|run| run.first..run.first + run.pages).collect();
                owned.sort_unstable();
                let before = owned.len();
                owned.dedup();
                prop_assert_eq!(before, owned.len());
                prop_assert_eq!(before as u64 + pages.free_pages(), 64);
            }
        }
    }
}
