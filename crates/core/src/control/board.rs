//! The place where the event loop puts a snapshot for all callers: however many ask, it makes one.
//!
//! A question is answered by a snapshot that is begun after it, so a change that the caller made before is shown.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The last snapshot, and the callers that wait for the next.
pub struct Board<T> {
    state: Mutex<State<T>>,
    shown: Condvar,
}

struct State<T> {
    /// Snapshots begun so far: the number of the last one.
    begun: u64,
    /// Number of the snapshot shown; 0 before the first.
    number: u64,
    snapshot: Option<Arc<T>>,
    /// The ones before, which a reader lets go of: to free ten thousand jobs takes the loop too long.
    former: Vec<Arc<T>>,
    /// A caller waits for a snapshot that is not begun yet.
    is_asked: bool,
}

impl<T> Default for Board<T> {
    fn default() -> Board<T> {
        let state = State { begun: 0, number: 0, snapshot: None, former: Vec::new(), is_asked: false };
        Board { state: Mutex::new(state), shown: Condvar::new() }
    }
}

impl<T> Board<T> {
    /// The next snapshot that is begun, or none within `wait`. `ask` tells the loop; one of the waiting callers does.
    pub fn next(&self, ask: impl FnOnce(), wait: Duration) -> Option<Arc<T>> {
        let mut state = self.state();
        let wanted = state.begun + 1;
        if !std::mem::replace(&mut state.is_asked, true) {
            drop(state);
            ask();
            state = self.state();
        }
        let is_old = |state: &mut State<T>| state.number < wanted;
        let waited = self.shown.wait_timeout_while(state, wait, is_old);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::take(&mut state.former);
        let snapshot = state.snapshot.clone().filter(|_| state.number >= wanted);
        drop(state);
        drop(former);
        snapshot
    }

    /// The loop begins a snapshot: a caller that asks from now on waits for the one after it.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.begun += 1;
        state.is_asked = false;
    }

    /// The loop shows the snapshot that it began last.
    pub(crate) fn show(&self, snapshot: T) {
        let mut state = self.state();
        state.number = state.begun;
        let former = state.snapshot.replace(Arc::new(snapshot));
        state.former.extend(former);
        self.shown.notify_all();
    }

    /// A poisoned state is whole: its changes cannot panic half-way.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Each of many readers once had a snapshot made of its own.
    #[test]
    fn all_who_wait_share_one_snapshot_and_one_asks_for_it() {
        let board = Board::default();
        let asked = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let next = || board.next(|| _ = asked.fetch_add(1, Ordering::SeqCst), PATIENCE);
            let readers: Vec<_> = (0..8).map(|_| scope.spawn(next)).collect();
            while asked.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // A late caller asks again, and is answered by another snapshot.
            while readers.iter().any(|reader| !reader.is_finished()) {
                board.begin();
                board.show(7);
            }
            for reader in readers {
                assert_eq!(reader.join().expect("no panic").as_deref(), Some(&7));
            }
        });
        assert!((1..=8).contains(&asked.into_inner()));
    }

    #[test]
    fn a_snapshot_that_was_begun_before_the_question_does_not_answer_it() {
        let board = Board::default();
        board.begin();
        let none = board.next(|| board.show("before"), Duration::from_millis(1));
        assert_eq!(none, None);
        let after = board.next(|| unreachable!("it is asked for already"), Duration::ZERO);
        assert_eq!(after, None);
        board.begin();
        board.show("after");
        let asks_again = || {
            board.begin();
            board.show("later");
        };
        assert_eq!(board.next(asks_again, PATIENCE).as_deref(), Some(&"later"));
    }

    #[test]
    fn a_loop_that_does_not_answer_is_waited_for_no_longer_than_said() {
        let board: Board<()> = Board::default();
        assert_eq!(board.next(|| {}, Duration::from_millis(1)), None);
    }
}
