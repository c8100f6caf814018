//! The free pages of an arena.
//!
//! Recycled pages are in memory with old bytes. They are used first, and their owner clears the bytes that it does not write.
//! Fresh pages were never touched or were given back, and read as zeros. Those that are handed out next are asked for ahead of
//! their use, since a page's first use costs as much as three copies of its bytes.

use super::arena::PAGE_BYTES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Recycled pages that keep their memory: 256 MiB, as much as a burst recycles within a second.
const RECYCLED_PAGES_MAX: u64 = (256 << 20) / PAGE_BYTES;
/// Fresh pages that have memory ahead of their use: 128 MiB, the start of a burst.
const AHEAD_PAGES_MAX: u64 = (128 << 20) / PAGE_BYTES;
/// The part of the arena that they take at most: a sixteenth, so a small target holds little.
const AHEAD_PART: u64 = 16;
/// Pages that are asked for at once: 2 MiB take the system longer than the thread that asks takes to wake up.
const AHEAD_PAGES: u64 = (2 << 20) / PAGE_BYTES;

/// A run of arena pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First page.
    pub(crate) first: u64,
    /// Number of pages.
    pub(crate) pages: u64,
    /// The state of its memory.
    pub(crate) memory: Memory,
}

/// The memory of a run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// None yet, or given back: the first use gets it, with zeros.
    None,
    /// It was asked for ahead, and has zeros.
    Ahead,
    /// It may hold old bytes.
    Used,
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
    /// Fresh pages whose memory was asked for.
    ahead: FreeSet,
    recycled: FreeSet,
    /// Pages that are to be ahead at most.
    ahead_max: u64,
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
            ahead: FreeSet::default(),
            recycled: FreeSet::default(),
            ahead_max: AHEAD_PAGES_MAX.min(pages / AHEAD_PART),
            pins: BTreeSet::new(),
            next_pin: 0,
            limbo: VecDeque::new(),
            limbo_pages: 0,
        }
    }

    /// Pages that an allocation can have now.
    pub(crate) fn free_pages(&self) -> u64 {
        self.fresh.pages + self.ahead.pages + self.recycled.pages
    }

    /// Free pages that have memory.
    pub(crate) fn spare_pages(&self) -> u64 {
        self.ahead.pages + self.recycled.pages
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
        let recycled = (&mut self.recycled, Memory::Used);
        for (set, memory) in [recycled, (&mut self.ahead, Memory::Ahead), (&mut self.fresh, Memory::None)] {
            while missing > 0 {
                let Some((first, taken)) = set.take(missing) else { break };
                runs.push(Run { first, pages: taken, memory });
                missing -= taken;
            }
        }
        Some(runs)
    }

    /// The fresh pages whose memory is to be asked for next. `None` where enough pages have memory, ahead or recycled.
    pub(crate) fn next_ahead(&self) -> Option<Run> {
        if self.spare_pages() + AHEAD_PAGES > self.ahead_max {
            return None;
        }
        let (&first, &length) = self.fresh.runs.first_key_value()?;
        Some(Run { first, pages: length.min(AHEAD_PAGES), memory: Memory::None })
    }

    /// Notes that the memory of the [next pages ahead](Pages::next_ahead) was asked for.
    pub(crate) fn move_ahead(&mut self, run: Run) {
        if let Some((first, pages)) = self.fresh.take(run.pages) {
            self.ahead.insert(first, pages);
        }
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

    /// Takes a run of the recycled pages above their bound. The caller gives the memory back before it
    /// [inserts](Pages::insert) the run as one without memory.
    pub(crate) fn take_excess(&mut self) -> Option<Run> {
        let excess = self.recycled.pages.checked_sub(RECYCLED_PAGES_MAX).filter(|&excess| excess > 0)?;
        let (first, pages) = self.recycled.take(excess)?;
        Some(Run { first, pages, memory: Memory::Used })
    }

    /// Puts a run among the free pages.
    pub(crate) fn insert(&mut self, run: Run) {
        let set = match run.memory {
            Memory::None => &mut self.fresh,
            Memory::Ahead => &mut self.ahead,
            Memory::Used => &mut self.recycled,
        };
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
        pages.free(Run { memory: Memory::Used, ..run });
        let late = pages.pin();
        assert_eq!(pages.free_pages(), 0);
        pages.unpin(late);
        assert_eq!(pages.free_pages(), 0, "the early pin still may touch it");
        pages.unpin(early);
        assert_eq!((pages.free_pages(), pages.limbo_pages()), (4, 0));
    }

    /// Has all memory asked for that is wanted ahead; answers the pages that are ahead then.
    fn ask(pages: &mut Pages) -> u64 {
        while let Some(run) = pages.next_ahead() {
            pages.move_ahead(run);
        }
        pages.ahead.pages
    }

    #[test]
    fn pages_ahead_are_bounded_and_come_next() {
        let mut pages = Pages::new(AHEAD_PART * AHEAD_PAGES_MAX * 2);
        assert_eq!(ask(&mut pages), AHEAD_PAGES_MAX);
        let run = pages.take(AHEAD_PAGES).unwrap()[0];
        assert_eq!(run, Run { first: 0, pages: AHEAD_PAGES, memory: Memory::Ahead });
        assert_eq!(ask(&mut pages), AHEAD_PAGES_MAX);
        pages.insert(Run { memory: Memory::Used, ..run });
        assert_eq!(
            pages.take(AHEAD_PAGES).unwrap()[0].memory,
            Memory::Used,
            "recycled pages are in the cache"
        );
        let mut small = Pages::new(AHEAD_PART * AHEAD_PAGES);
        assert_eq!(ask(&mut small), AHEAD_PAGES);
    }

    #[test]
    fn nothing_is_asked_for_while_enough_is_recycled() {
        let mut pages = Pages::new(AHEAD_PART * AHEAD_PAGES_MAX);
        let run = pages.take(AHEAD_PAGES_MAX).unwrap()[0];
        pages.insert(Run { memory: Memory::Used, ..run });
        assert_eq!(ask(&mut pages), 0);
    }

    proptest! {
        #[test]
        fn no_page_is_handed_out_twice_or_lost(steps in proptest::collection::vec((any::<bool>(), 1u64..9), 1..200)) {
            // The law counts in units, so that it goes through pages ahead, too.
            const UNIT: u64 = AHEAD_PAGES / 2;
            let mut pages = Pages::new(64 * UNIT);
            let mut held: Vec<Run> = Vec::new();
            for (take, count) in steps {
                if take {
                    if let Some(runs) = pages.take(count * UNIT) {
                        prop_assert_eq!(runs.iter().map(|run| run.pages).sum::<u64>(), count * UNIT);
                        held.extend(runs);
                    }
                    if let Some(run) = pages.next_ahead() {
                        pages.move_ahead(run);
                    }
                } else if !held.is_empty() {
                    let run = held.swap_remove(count as usize % held.len());
                    pages.free(Run { memory: Memory::Used, ..run });
                }
                let units = |run: &Run| run.first / UNIT..(run.first + run.pages) / UNIT;
                let mut owned: Vec<u64> = held.iter().flat_map(units).collect();
                owned.sort_unstable();
                let before = owned.len();
                owned.dedup();
                prop_assert_eq!(before, owned.len());
                prop_assert_eq!(before as u64 * UNIT + pages.free_pages(), 64 * UNIT);
            }
        }
    }
}
