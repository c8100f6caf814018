//! The callers of the control API: few at once, and where there is no room, the one that has kept the server waiting
//! longest gives way to the next.
//!
//! So callers that send half a request, or do not take their answer, cost the others nothing, and no caller loses an
//! answer that the server is still working on.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a newcomer looks for room where the server owes every caller an answer, should a wake-up have been lost.
const ROOM_TICK: Duration = Duration::from_millis(100);

/// The callers that are served now.
pub(crate) struct Callers {
    most: usize,
    table: Mutex<Table>,
    room: Condvar,
}

#[derive(Default)]
struct Table {
    last: u64,
    callers: BTreeMap<u64, Entry>,
}

struct Entry {
    stream: Arc<TcpStream>,
    /// The moment since which the server waits for this caller; absent while the caller waits for the server.
    kept_waiting: Option<Instant>,
}

/// One caller; its place is free when this is dropped.
pub(crate) struct Caller {
    callers: Arc<Callers>,
    number: u64,
    stream: Arc<TcpStream>,
}

impl Callers {
    /// Room for `most`.
    pub(crate) fn new(most: usize) -> Callers {
        Callers { most, table: Mutex::default(), room: Condvar::new() }
    }

    /// Takes a caller in, and turns another one away where that makes room; waits where the server owes all an answer.
    pub(crate) fn admit(self: &Arc<Callers>, stream: TcpStream) -> Caller {
        let stream = Arc::new(stream);
        let mut table = self.table();
        while table.callers.len() >= self.most && !table.turn_away() {
            let waited = self.room.wait_timeout(table, ROOM_TICK);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        table.last += 1;
        let number = table.last;
        let entry = Entry { stream: Arc::clone(&stream), kept_waiting: Some(Instant::now()) };
        table.callers.insert(number, entry);
        Caller { callers: Arc::clone(self), number, stream }
    }

    /// A poisoned table is whole: its changes cannot panic half-way.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Ends the connection of the caller that the server has waited for longest; its thread ends by that.
    fn turn_away(&mut self) -> bool {
        let waited_for =
            self.callers.iter().filter_map(|(&number, entry)| Some((entry.kept_waiting?, number)));
        let Some((_, number)) = waited_for.min() else { return false };
        if let Some(entry) = self.callers.remove(&number) {
            // One that has ended already needs no end.
            let _ = entry.stream.shutdown(Shutdown::Both);
        }
        true
    }
}

impl Caller {
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The server waits for this caller from now on: for the rest of its request, or that it takes more of its answer.
    pub(crate) fn is_waited_for(&self) {
        self.set(Some(Instant::now()));
    }

    /// The caller waits for the server.
    pub(crate) fn waits(&self) {
        self.set(None);
    }

    fn set(&self, kept_waiting: Option<Instant>) {
        if let Some(entry) = self.callers.table().callers.get_mut(&self.number) {
            entry.kept_waiting = kept_waiting;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.callers.table().callers.remove(&self.number);
        self.callers.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Both ends of a connection.
    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn the_one_waited_for_longest_gives_way_and_who_is_owed_an_answer_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let callers = Arc::new(Callers::new(3));
        let mut near = Vec::new();
        let mut admitted: Vec<Caller> = (0..3)
            .map(|_| {
                let (caller, stream) = pair(&listener);
                near.push(caller);
                callers.admit(stream)
            })
            .collect();
        admitted[0].waits();
        admitted[1].is_waited_for();
        // The third has been waited for longer than the second, which has just gone on.
        let (_fourth, stream) = pair(&listener);
        admitted.push(callers.admit(stream));
        assert_eq!(near[2].read(&mut [0; 1]).unwrap(), 0, "it is turned away");
        assert_eq!(callers.table().callers.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        drop(admitted.remove(2));
        assert_eq!(callers.table().callers.len(), 3, "the place is another's by now");
    }

    #[test]
    fn where_all_are_owed_an_answer_the_next_one_waits_for_a_place() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let callers = Arc::new(Callers::new(1));
        let (_near, stream) = pair(&listener);
        let first = callers.admit(stream);
        first.waits();
        let (_next, stream) = pair(&listener);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| callers.admit(stream).number);
            drop(first);
            assert_eq!(waiting.join().unwrap(), 2);
        });
    }
}
