//! Bytes that calls write beside pages of the same file.
//!
//! The kernel drops the pages of a range before and after it writes the range past them. In between a page can be read,
//! with bytes from before the write, and stored to. Written back as it is, the page would cover the write with those
//! old bytes. So bytes that calls wrote since a page was last read are left out when the page is written back. A store
//! to one of these very bytes came during the write call, and the call may as well be the later one.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_client::wire::Ino;

/// Ranges kept of each file after their calls. Pages with older bytes are gone once the kernel has seen the end of the
/// call and dropped them, so only the calls of the last moments matter: as many as there are workers, with room to spare.
const DONE_MAX: usize = 1024;

/// Ranges that calls wrote, for each file that has pages.
#[derive(Default)]
pub(crate) struct Overwrites {
    files: Mutex<HashMap<Ino, Written>>,
}

#[derive(Default)]
struct Written {
    /// Ranges of calls that are under way.
    under_way: Vec<Range<u64>>,
    /// Ranges of finished calls that no page was read from since: starts and ends, none touching another.
    done: BTreeMap<u64, u64>,
}

impl Overwrites {
    /// Runs `write`, which puts bytes into `range` of the file, or into the range it answers with its result. `keep` says
    /// whether there may be pages of the file by then.
    pub(crate) fn during<T, E>(
        &self,
        ino: Ino,
        range: Range<u64>,
        keep: impl FnOnce() -> bool,
        write: impl FnOnce() -> Result<(T, Range<u64>), E>,
    ) -> Result<T, E> {
        self.files().entry(ino).or_default().under_way.push(range.clone());
        let result = write();
        let has_pages = keep();
        let mut files = self.files();
        if let Some(file) = files.get_mut(&ino) {
            if let Some(index) = file.under_way.iter().position(|other| *other == range) {
                file.under_way.swap_remove(index);
            }
            match &result {
                Ok((_, written)) if has_pages => file.insert(written.clone()),
                _ => {}
            }
            if file.under_way.is_empty() && file.done.is_empty() {
                files.remove(&ino);
            }
        }
        result.map(|(value, _)| value)
    }

    /// Notes that pages of `range` are about to be read, with all bytes written before.
    pub(crate) fn read(&self, ino: Ino, range: &Range<u64>) {
        if let Some(file) = self.files().get_mut(&ino) {
            file.remove(range);
        }
    }

    /// The parts of pages of `range` that are to be written back.
    pub(crate) fn rest(&self, ino: Ino, range: Range<u64>) -> Vec<Range<u64>> {
        let files = self.files();
        let Some(file) = files.get(&ino) else { return vec![range] };
        let done = file.done.range(..range.end).map(|(&start, &end)| start..end);
        let mut covered: Vec<Range<u64>> = done.chain(file.under_way.iter().cloned()).collect();
        covered.sort_unstable_by_key(|part| part.start);
        let mut rest = Vec::new();
        let mut from = range.start;
        for part in covered {
            if part.start.min(range.end) > from {
                rest.push(from..part.start.min(range.end));
            }
            from = from.max(part.end);
        }
        if from < range.end {
            rest.push(from..range.end);
        }
        rest
    }

    /// The file has no pages any more.
    pub(crate) fn forget(&self, ino: Ino) {
        let mut files = self.files();
        if let Some(file) = files.get_mut(&ino) {
            file.done.clear();
            if file.under_way.is_empty() {
                files.remove(&ino);
            }
        }
    }

    /// A poisoned table is whole enough: a range too many or too few concerns one racing call.
    fn files(&self) -> MutexGuard<'_, HashMap<Ino, Written>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    fn insert(&mut self, range: Range<u64>) {
        let mut range = range;
        let touching: Vec<(u64, u64)> = self
            .done
            .range(..=range.end)
            .rev()
            .take_while(|(_, end)| **end >= range.start)
            .map(|(&start, &end)| (start, end))
            .collect();
        for (start, end) in touching {
            self.done.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        if range.start < range.end {
            self.done.insert(range.start, range.end);
        }
        if self.done.len() > DONE_MAX {
            self.done.pop_first();
        }
    }

    fn remove(&mut self, range: &Range<u64>) {
        let touched: Vec<(u64, u64)> = self
            .done
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(&start, &end)| (start, end))
            .collect();
        for (start, end) in touched {
            self.done.remove(&start);
            if start < range.start {
                self.done.insert(start, range.start);
            }
            if range.end < end {
                self.done.insert(range.end, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: Ino = Ino(7);
    const PAGE: Range<u64> = 0..4096;

    fn written(overwrites: &Overwrites, range: Range<u64>) {
        let done: Result<(), ()> = overwrites.during(FILE, range.clone(), || true, || Ok(((), range)));
        assert_eq!(done, Ok(()));
    }

    #[test]
    fn a_page_that_was_read_before_a_write_does_not_cover_it() {
        let overwrites = Overwrites::default();
        overwrites.read(FILE, &PAGE);
        written(&overwrites, 100..101);
        assert_eq!(overwrites.rest(FILE, PAGE), [0..100, 101..4096]);
        overwrites.read(FILE, &PAGE);
        assert_eq!(overwrites.rest(FILE, PAGE), [PAGE]);
    }

    #[test]
    fn a_page_that_was_read_during_a_write_does_not_cover_it() {
        let overwrites = Overwrites::default();
        let during: Result<(), ()> = overwrites.during(
            FILE,
            100..101,
            || true,
            || {
                overwrites.read(FILE, &PAGE);
                assert_eq!(overwrites.rest(FILE, PAGE), [0..100, 101..4096]);
                Ok(((), 100..101))
            },
        );
        assert_eq!(during, Ok(()));
        assert_eq!(overwrites.rest(FILE, PAGE), [0..100, 101..4096]);
        overwrites.forget(FILE);
        assert_eq!(overwrites.rest(FILE, PAGE), [PAGE]);
    }

    #[test]
    fn what_failed_or_has_no_pages_is_not_kept() {
        let overwrites = Overwrites::default();
        let failed: Result<(), i32> = overwrites.during(FILE, 0..9, || true, || Err(28));
        assert_eq!(failed, Err(28));
        let alone: Result<(), i32> = overwrites.during(FILE, 0..9, || false, || Ok(((), 0..9)));
        assert_eq!(alone, Ok(()));
        assert!(overwrites.files().is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_back_against_a_model_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0..60_u64, 1..20_u64), 0..80),
            from in 0..60_u64,
            length in 1..20_u64,
        ) {
            let overwrites = Overwrites::default();
            let mut model = [false; 80];
            for (is_write, start, length) in steps {
                let range = start..start + length;
                if is_write {
                    written(&overwrites, range.clone());
                } else {
                    overwrites.read(FILE, &range);
                }
                model[start as usize..range.end as usize].fill(is_write);
            }
            let rest = overwrites.rest(FILE, from..from + length);
            for at in from..from + length {
                prop_assert_eq!(rest.iter().filter(|part| part.contains(&at)).count(), usize::from(!model[at as usize]));
            }
        }

        #[test]
        fn few_ranges_are_kept(starts in proptest::collection::vec(0..1_000_000_u64, 0..3000)) {
            let overwrites = Overwrites::default();
            for start in starts {
                written(&overwrites, start * 3..start * 3 + 1);
            }
            prop_assert!(overwrites.files().get(&FILE).is_none_or(|file| file.done.len() <= DONE_MAX));
        }
    }
}
