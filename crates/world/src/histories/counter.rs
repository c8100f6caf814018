//! A number in a file that is raised under a lock: no raise is lost, and none takes effect once its lock is in other hands.

use std::collections::BTreeSet;

/// The history of one counter.
#[derive(Default)]
pub(crate) struct Counter {
    /// Values whose writes were answered.
    answered: BTreeSet<u64>,
    attempts: u64,
    place: Option<u64>,
}

impl Counter {
    /// The place of the counter in its file: the first one that a task chose, wherever the bytes move.
    pub(crate) fn place(&mut self, chosen: u64) -> u64 {
        *self.place.get_or_insert(chosen)
    }

    /// The greatest value whose write was answered so far.
    pub(crate) fn floor(&self) -> u64 {
        self.answered.last().copied().unwrap_or(0)
    }

    /// A value was read under a lock; `floor` is the one of the beginning of the read.
    ///
    /// # Errors
    /// A value that was replaced before, or that nobody wrote.
    pub(crate) fn read(&self, value: u64, floor: u64) -> Result<(), String> {
        match value {
            _ if value < floor => {
                Err(format!("the counter is {value} under a lock, and was raised to {floor}"))
            }
            _ if value > self.attempts => {
                Err(format!("the counter is {value}, and was raised {} times at most", self.attempts))
            }
            _ => Ok(()),
        }
    }

    /// A write of a value is about to begin.
    pub(crate) fn attempt(&mut self) {
        self.attempts += 1;
    }

    /// The write of a value was answered; `floor` is the one of the beginning of the write.
    ///
    /// # Errors
    /// A raise that was made while others had the lock.
    pub(crate) fn wrote(&mut self, value: u64, floor: u64) -> Result<(), String> {
        if value <= floor || !self.answered.insert(value) {
            return Err(format!(
                "the counter was raised to {value} by the holder of a lost lock (floor {floor})"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raise_that_is_lost_or_made_twice_is_a_fault() {
        let mut counter = Counter::default();
        (0..3).for_each(|_| counter.attempt());
        assert!(counter.wrote(1, 0).is_ok() && counter.wrote(2, 1).is_ok());
        assert!(
            counter.read(2, 2).is_ok() && counter.read(3, 2).is_ok(),
            "the last write may not be answered yet"
        );
        assert!(counter.read(1, 2).is_err() && counter.read(4, 2).is_err());
        assert!(counter.wrote(2, 1).is_err() && counter.wrote(2, 2).is_err());
    }
}
