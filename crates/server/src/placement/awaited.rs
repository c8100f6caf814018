//! Files that were made here and whose first bytes are awaited: where they come late, targets are kept free of more.
//!
//! What a target achieves is known after its requests and told once an exchange; a target that suddenly takes fifty times
//! as long would be given dozens of files before. Its first file that is not written when others are says so at once.

use std::collections::{HashMap, VecDeque};
use weir_wire::Ino;

/// Most files that are watched: a burst of more is watched in part.
const FILES_MAX: usize = 4096;
/// A file is late when it takes so many times as long as files usually do from their making to their first bytes.
const LATE: f64 = 2.0;
/// And when so many files were written since it was made: where nothing is written, nobody is late.
const WRITTEN_MEANWHILE: u64 = 8;
/// Nothing is late before this many seconds, however fast files usually are.
const LATE_SECONDS_MIN: f64 = 0.02;
/// Who is late for so long has not begun to write: other evidence of a slow target is there by then.
const FORGOTTEN_SECONDS: f64 = 1.0;
/// Part that a new delay has in the usual one.
const GAIN: f64 = 1.0 / 16.0;

/// The files that are awaited, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Awaited {
    files: HashMap<Ino, File>,
    /// Also files that are written by now, until their turn at the front comes.
    order: VecDeque<Ino>,
    /// How many at the front of `order` were found late.
    passed: usize,
    /// Files whose first bytes came.
    written: u64,
    usual_seconds: f64,
}

#[derive(Clone, Debug)]
struct File {
    made_seconds: f64,
    /// Files that were written before.
    written_before: u64,
    is_late: bool,
    /// Targets, by index, on which its first bytes may lie.
    targets: Vec<u32>,
}

/// Targets that are late from now on, and those that are no longer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) late: Vec<u32>,
    pub(super) forgiven: Vec<u32>,
}

impl Awaited {
    /// A file was made at `seconds` of the clock.
    pub(super) fn made(&mut self, ino: Ino, targets: impl Iterator<Item = u32>, seconds: f64) {
        if self.order.len() < FILES_MAX {
            let (made_seconds, written_before) = (seconds, self.written);
            let file = File { made_seconds, written_before, is_late: false, targets: targets.collect() };
            if self.files.insert(ino, file).is_none() {
                self.order.push_back(ino);
            }
        }
    }

    /// Bytes of a file came; answers the targets that are not late with it any more.
    pub(super) fn written(&mut self, ino: Ino, seconds: f64) -> Vec<u32> {
        let Some(file) = self.files.remove(&ino) else { return Vec::new() };
        self.written += 1;
        let delay = (seconds - file.made_seconds).clamp(0.0, FORGOTTEN_SECONDS);
        self.usual_seconds += GAIN * (delay - self.usual_seconds);
        if file.is_late {
            file.targets
        } else {
            Vec::new()
        }
    }

    /// What is late at `seconds`, and what was for so long that it says nothing any more.
    pub(super) fn turn(&mut self, seconds: f64) -> Turn {
        let mut turn = Turn::default();
        let late_seconds = (LATE * self.usual_seconds).max(LATE_SECONDS_MIN);
        while let Some(ino) = self.order.front() {
            match self.files.get(ino).map(|file| seconds - file.made_seconds) {
                None => {}
                Some(age) if age >= FORGOTTEN_SECONDS => {
                    let forgotten = self.files.remove(ino).filter(|file| file.is_late);
                    turn.forgiven.extend(forgotten.into_iter().flat_map(|file| file.targets));
                }
                Some(_) => break,
            }
            self.order.pop_front();
            self.passed = self.passed.saturating_sub(1);
        }
        while let Some(ino) = self.order.get(self.passed) {
            if let Some(file) = self.files.get_mut(ino) {
                let meanwhile = self.written - file.written_before;
                if seconds - file.made_seconds < late_seconds || meanwhile < WRITTEN_MEANWHILE {
                    break;
                }
                file.is_late = true;
                turn.late.extend_from_slice(&file.targets);
            }
            self.passed += 1;
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(awaited: &mut Awaited, number: u64, target: u32, seconds: f64) {
        awaited.made(Ino(number), std::iter::once(target), seconds);
    }

    #[test]
    fn a_file_that_takes_longer_than_the_others_makes_its_target_late() {
        let mut awaited = Awaited::default();
        for number in 0..200_u32 {
            let seconds = f64::from(number) * 0.01;
            made(&mut awaited, u64::from(number), 7, seconds);
            assert_eq!(awaited.turn(seconds), Turn::default());
            assert!(awaited.written(Ino(u64::from(number)), seconds + 0.03).is_empty());
        }
        made(&mut awaited, 500, 3, 10.0);
        made(&mut awaited, 501, 4, 10.01);
        assert_eq!(awaited.turn(10.5), Turn::default(), "nothing was written meanwhile");
        (0..8).for_each(|number| made(&mut awaited, 600 + number, 5, 10.02));
        (0..8).for_each(|number| assert!(awaited.written(Ino(600 + number), 10.05).is_empty()));
        assert_eq!(awaited.turn(10.05), Turn::default(), "all are in time so far");
        assert_eq!(awaited.turn(10.065).late, [3], "twice the usual 30 ms");
        assert_eq!(awaited.turn(10.066), Turn::default(), "once");
        assert!(awaited.written(Ino(501), 10.067).is_empty());
        assert_eq!(awaited.written(Ino(500), 10.9), [3]);
        assert_eq!(awaited.turn(12.0), Turn::default());
    }

    /// Files of others, made and written at once.
    fn write_some(awaited: &mut Awaited) {
        for number in 10_000..10_000 + WRITTEN_MEANWHILE {
            made(awaited, number, 0, 0.0);
            assert!(awaited.written(Ino(number), 0.0).is_empty());
        }
    }

    #[test]
    fn a_program_that_makes_a_file_and_does_not_write_it_is_forgotten() {
        let mut awaited = Awaited::default();
        made(&mut awaited, 1, 3, 0.0);
        write_some(&mut awaited);
        assert_eq!(awaited.turn(0.5).late, [3]);
        assert_eq!(awaited.turn(1.0).forgiven, [3]);
        assert!(awaited.written(Ino(1), 2.0).is_empty());
        assert!(awaited.files.is_empty() && awaited.order.is_empty());
    }

    #[test]
    fn no_more_than_a_bounded_number_is_watched() {
        let mut awaited = Awaited::default();
        for number in 0..2 * FILES_MAX as u64 {
            made(&mut awaited, number, 0, 0.0);
        }
        assert_eq!((awaited.files.len(), awaited.order.len()), (FILES_MAX, FILES_MAX));
        assert_eq!(awaited.turn(5.0), Turn::default());
        assert!(awaited.files.is_empty() && awaited.order.is_empty());
    }
}
