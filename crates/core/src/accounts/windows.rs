//! Windows of time, which begin at multiples of their length since 1970, so that those of all servers fit together.
//!
//! Windows are closed by the first turn of the loop after their end. A server with nothing to do is not woken for them: its
//! counters did not move meanwhile.

use crate::accounts::observed::ObservedLine;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_device::Statistics;
use weir_fairshare::Nanos;

/// Samples of a window.
pub const SAMPLES: u64 = 10;
/// Jobs of a window by device, at most; those with the most work are kept.
pub(crate) const LINES_MAX: usize = 128;

/// The last windows of one server.
pub(crate) struct Windows {
    /// Length of a sample.
    sample: u64,
    /// Unix time of the server's start, in nanoseconds.
    started: u64,
    /// Number of the next sample to end, since 1970.
    next: u64,
    /// Whether the open window was observed from its begin on.
    is_whole: bool,
    kept: usize,
    closed: VecDeque<Arc<Window>>,
}

/// A window that has ended.
#[derive(Debug)]
pub struct Window {
    /// The begin of the window is this many times its length, in Unix time.
    pub number: u64,
    /// Whether the window was observed from its begin on.
    pub is_whole: bool,
    /// The devices by name.
    pub devices: Vec<(String, Statistics)>,
    /// The jobs that had work in the window.
    pub jobs: Vec<ObservedLine>,
    /// Lines of jobs that are left out.
    pub left_out: usize,
}

/// The end of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Since the start of the server.
    pub(crate) at: Nanos,
    /// The number of the window that ended with it.
    pub(crate) window: Option<u64>,
    /// Whether the window was observed from its begin on.
    pub(crate) is_whole: bool,
}

impl Windows {
    /// Windows of this length, of which the last `kept` ones are kept, at a server that started at a Unix time.
    pub(crate) fn new(length: Nanos, kept: usize, started: Nanos) -> Windows {
        let sample = (length.0 / SAMPLES).max(1);
        let next = started.0 / sample + 1;
        Windows { sample, started: started.0, next, is_whole: false, kept, closed: VecDeque::new() }
    }

    /// Length of a window.
    pub(crate) fn length(&self) -> Nanos {
        Nanos(self.sample * SAMPLES)
    }

    /// The next sample that has ended by `now`. After a pause that is longer than all windows that are kept, the pause is left out.
    pub(crate) fn take_ended(&mut self, now: Nanos) -> Option<Ended> {
        let reached = (self.started + now.0) / self.sample;
        if reached < self.next {
            return None;
        }
        let oldest = reached.saturating_sub((self.kept as u64 + 1) * SAMPLES);
        if self.next < oldest {
            (self.next, self.is_whole) = (oldest, false);
        }
        let end = self.next;
        self.next += 1;
        let at = Nanos((end * self.sample).saturating_sub(self.started));
        let window = end.is_multiple_of(SAMPLES).then(|| end / SAMPLES - 1);
        let is_whole = self.is_whole;
        self.is_whole |= window.is_some();
        Some(Ended { at, window, is_whole })
    }

    /// Keeps a window that has ended, in the place of the oldest.
    pub(crate) fn keep(&mut self, window: Window) {
        while self.closed.len() >= self.kept {
            self.closed.pop_front();
        }
        self.closed.push_back(Arc::new(window));
    }

    /// The windows after a number, the oldest first.
    pub(crate) fn after(&self, number: u64) -> Vec<Arc<Window>> {
        self.closed.iter().filter(|window| window.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_millis(1000);

    fn ends(windows: &mut Windows, now: u64) -> Vec<Ended> {
        std::iter::from_fn(|| windows.take_ended(Nanos::from_millis(now))).collect()
    }

    #[test]
    fn windows_begin_at_multiples_of_their_length_and_the_first_is_no_whole_one() {
        let mut windows = Windows::new(LENGTH, 4, Nanos::from_millis(5_250));
        assert_eq!(ends(&mut windows, 49), []);
        let first = ends(&mut windows, 750);
        assert_eq!(first.len(), 8, "samples end at 5.3 s to 6.0 s");
        assert_eq!(first[0], Ended { at: Nanos::from_millis(50), window: None, is_whole: false });
        assert_eq!(first[7], Ended { at: Nanos::from_millis(750), window: Some(5), is_whole: false });
        let second = ends(&mut windows, 1_750);
        assert_eq!(
            second.last().copied(),
            Some(Ended { at: LENGTH + Nanos::from_millis(750), window: Some(6), is_whole: true })
        );
    }

    #[test]
    fn a_long_pause_costs_no_more_than_the_windows_that_are_kept() {
        let mut windows = Windows::new(LENGTH, 4, Nanos::ZERO);
        ends(&mut windows, 2_000);
        let numbers: Vec<u64> = ends(&mut windows, 100_000).iter().filter_map(|ended| ended.window).collect();
        assert_eq!(numbers, [94, 95, 96, 97, 98, 99]);
    }

    #[test]
    fn the_last_windows_are_kept() {
        let mut windows = Windows::new(LENGTH, 2, Nanos::ZERO);
        for number in 1..=5 {
            windows.keep(Window {
                number,
                is_whole: true,
                devices: Vec::new(),
                jobs: Vec::new(),
                left_out: 0,
            });
        }
        let numbers = |after| windows.after(after).iter().map(|window| window.number).collect::<Vec<_>>();
        assert_eq!((numbers(0), numbers(4), numbers(5)), (vec![4, 5], vec![5], vec![]));
    }
}
