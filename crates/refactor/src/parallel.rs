//! Loops over tiles on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// `work(0)`, `work(1)`, ... `work(count - 1)` on at most `threads` threads, in that order in the answer.
///
/// A thread takes the next number when it is done with one, since tiles take different times.
pub(crate) fn map<R: Send>(count: usize, threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let threads = threads.clamp(1, count.max(1));
    if threads == 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let run = || {
        let mut own = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            own.push((number, work(number)));
        }
        done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).append(&mut own);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut results = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Threads that each of `count` pieces of work, done by [`map`], may use for itself.
pub(crate) fn of_each(threads: usize, count: usize) -> usize {
    (threads / count.max(1)).max(1)
}

/// `work` on every item, on at most `threads` threads.
pub(crate) fn for_each<I: Send>(items: Vec<I>, threads: usize, work: impl Fn(I) + Sync) {
    for_each_with(items, threads, || (), |(), item| work(item));
}

/// As [`for_each`]; each thread begins with a state of its own, which all its items share.
pub(crate) fn for_each_with<I: Send, S>(
    items: Vec<I>,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, I) + Sync,
) {
    let count = items.len();
    let items = Mutex::new(items.into_iter());
    let next = || items.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    map(threads.min(count), threads, |_| {
        let mut state = state();
        while let Some(item) = next() {
            work(&mut state, item);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_stand_in_the_order_of_their_numbers() {
        for threads in [1, 2, 7] {
            assert_eq!(
                map(100, threads, |number| number * number),
                (0..100).map(|n| n * n).collect::<Vec<_>>()
            );
        }
        assert!(map(0, 3, |number| number).is_empty());
    }
}
