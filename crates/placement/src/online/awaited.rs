//! Files that were made here and whose first bytes are awaited. Where these bytes come late, targets get no further
//! files.
//!
//! The speed of a target is known after its requests, and told once an exchange. A target that suddenly takes fifty
//! times as long would be given dozens of files before. Its first file that is not written when others are tells so at
//! once.

use std::collections::VecDeque;

/// Most files that are watched: a burst of more is watched in part.
const FILES_MAX: usize = 4096;
/// A file is late when it takes so many times as long as files usually do from their making to their first bytes.
const LATE: f64 = 2.0;
/// And so many times the usual deviation longer: where programs wait for processors, some begin to write much later than
/// others, whatever their targets (as for the timeouts of TCP: Jacobson, "Congestion avoidance and control", SIGCOMM 1988).
const LATE_DEVIATIONS: f64 = 4.0;
/// And when so many files were written since it was made: where nothing is written, nobody is late.
const WRITTEN_MEANWHILE: u64 = 8;
/// Nothing is late before this many seconds, however fast files usually are.
const LATE_SECONDS_MIN: f64 = 0.02;
/// A file that is late for so long has not begun to write: other evidence of a slow target is there by then.
const FORGOTTEN_SECONDS: f64 = 1.0;
/// Part that a new delay has in the usual one.
const GAIN: f64 = 1.0 / 16.0;

/// The files that are awaited.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaited {
    /// In the order in which they were made, which is that of their numbers; also files that are written by now, until
    /// their turn at the front comes.
    files: VecDeque<File>,
    /// The number of files at the front of `files` that were found late, or were written before they were late.
    passed: usize,
    /// Targets, by index, on which first bytes may lie: those of each of `files`, one after the other.
    targets: VecDeque<u32>,
    /// The number of targets before those of `targets`.
    targets_gone: u64,
    /// Files whose first bytes came.
    written: u64,
    usual_seconds: f64,
    /// Mean distance of a delay from the usual one.
    deviation_seconds: f64,
}

#[derive(Clone, Debug)]
struct File {
    number: u64,
    made_seconds: f64,
    /// Files that were written before.
    written_before: u64,
    stage: Stage,
    /// Number of its first target, from the first of all, and how many it has.
    first: u64,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Awaited,
    Late,
    Written,
}

/// Targets that are late from now on, and those that are no longer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) late: Vec<u32>,
    pub(crate) forgiven: Vec<u32>,
}

impl Awaited {
    /// A file was made at `seconds` of the clock.
    pub(crate) fn made(&mut self, number: u64, targets: impl Iterator<Item = u32>, seconds: f64) {
        let is_next = self.files.back().is_none_or(|last| last.number < number);
        if is_next && self.files.len() < FILES_MAX {
            let before = self.targets.len();
            self.targets.extend(targets);
            self.files.push_back(File {
                number,
                made_seconds: seconds,
                written_before: self.written,
                stage: Stage::Awaited,
                first: self.targets_gone + before as u64,
                count: self.targets.len() - before,
            });
        }
    }

    /// Bytes of a file came; answers the targets that are not late with it any more.
    pub(crate) fn written(&mut self, number: u64, seconds: f64) -> Vec<u32> {
        let Ok(place) = self.files.binary_search_by_key(&number, |file| file.number) else {
            return Vec::new();
        };
        let file = &mut self.files[place];
        let stage = std::mem::replace(&mut file.stage, Stage::Written);
        if stage == Stage::Written {
            return Vec::new();
        }
        self.written += 1;
        let delay = (seconds - file.made_seconds).clamp(0.0, FORGOTTEN_SECONDS);
        let distance = (delay - self.usual_seconds).abs();
        self.deviation_seconds += GAIN * (distance - self.deviation_seconds);
        self.usual_seconds += GAIN * (delay - self.usual_seconds);
        let file = &self.files[place];
        if stage == Stage::Late {
            self.targets_of(file).collect()
        } else {
            Vec::new()
        }
    }

    /// The files that are late at `seconds`, and those that have been late for too long to be evidence.
    pub(crate) fn turn(&mut self, seconds: f64) -> Turn {
        let mut turn = Turn::default();
        while let Some(file) = self.files.front() {
            match file.stage {
                Stage::Written => {}
                _ if seconds - file.made_seconds < FORGOTTEN_SECONDS => break,
                Stage::Late => turn.forgiven.extend(self.targets_of(file)),
                Stage::Awaited => {}
            }
            self.targets_gone += file.count as u64;
            self.targets.drain(..file.count);
            self.files.pop_front();
            self.passed = self.passed.saturating_sub(1);
        }
        let usual =
            (LATE * self.usual_seconds).max(self.usual_seconds + LATE_DEVIATIONS * self.deviation_seconds);
        let late_seconds = usual.max(LATE_SECONDS_MIN);
        while let Some(file) = self.files.get(self.passed) {
            if file.stage == Stage::Awaited {
                let meanwhile = self.written - file.written_before;
                if seconds - file.made_seconds < late_seconds || meanwhile < WRITTEN_MEANWHILE {
                    break;
                }
                turn.late.extend(self.targets_of(file));
                self.files[self.passed].stage = Stage::Late;
            }
            self.passed += 1;
        }
        turn
    }

    fn targets_of(&self, file: &File) -> impl Iterator<Item = u32> + '_ {
        let first = (file.first - self.targets_gone) as usize;
        self.targets.range(first..first + file.count).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(awaited: &mut Awaited, number: u64, target: u32, seconds: f64) {
        awaited.made(number, std::iter::once(target), seconds);
    }

    #[test]
    fn a_file_that_takes_longer_than_the_others_makes_its_target_late() {
        let mut awaited = Awaited::default();
        for number in 0..200_u32 {
            let seconds = f64::from(number) * 0.01;
            made(&mut awaited, u64::from(number), 7, seconds);
            assert_eq!(awaited.turn(seconds), Turn::default());
            assert!(awaited.written(u64::from(number), seconds + 0.03).is_empty());
        }
        made(&mut awaited, 500, 3, 10.0);
        made(&mut awaited, 501, 4, 10.01);
        assert_eq!(awaited.turn(10.5), Turn::default(), "nothing was written meanwhile");
        (0..8).for_each(|number| made(&mut awaited, 600 + number, 5, 10.02));
        (0..8).for_each(|number| assert!(awaited.written(600 + number, 10.05).is_empty()));
        assert_eq!(awaited.turn(10.05), Turn::default(), "all are in time so far");
        assert_eq!(awaited.turn(10.065).late, [3], "twice the usual 30 ms");
        assert_eq!(awaited.turn(10.066), Turn::default(), "once");
        assert!(awaited.written(501, 10.067).is_empty());
        assert_eq!(awaited.written(500, 10.9), [3]);
        assert_eq!(awaited.turn(12.0), Turn::default());
    }

    /// On a busy machine some programs get a processor a tenth of a second after others. A slow target is found all the same.
    #[test]
    fn files_are_not_late_where_programs_begin_to_write_at_any_time() {
        let mut awaited = Awaited::default();
        for number in 0..400_u32 {
            let (seconds, delay) = (f64::from(number), [0.0, 0.01, 0.02, 0.1][number as usize % 4]);
            made(&mut awaited, u64::from(number), 7, seconds);
            assert_eq!(awaited.turn(seconds + delay), Turn::default());
            awaited.written(u64::from(number), seconds + delay);
        }
        made(&mut awaited, 500, 3, 500.0);
        (0..8).for_each(|number| made(&mut awaited, 600 + number, 5, 500.0));
        (0..8).for_each(|number| assert!(awaited.written(600 + number, 500.01).is_empty()));
        assert_eq!(awaited.turn(500.1), Turn::default());
        assert_eq!(awaited.turn(500.3).late, [3]);
    }

    /// Files of others, made and written at once.
    fn write_some(awaited: &mut Awaited) {
        for number in 10_000..10_000 + WRITTEN_MEANWHILE {
            made(awaited, number, 0, 0.0);
            assert!(awaited.written(number, 0.0).is_empty());
        }
    }

    #[test]
    fn a_program_that_makes_a_file_and_does_not_write_it_is_forgotten() {
        let mut awaited = Awaited::default();
        made(&mut awaited, 1, 3, 0.0);
        write_some(&mut awaited);
        assert_eq!(awaited.turn(0.5).late, [3]);
        assert_eq!(awaited.turn(1.0).forgiven, [3]);
        assert!(awaited.written(1, 2.0).is_empty());
        assert!(awaited.files.is_empty() && awaited.targets.is_empty());
    }

    #[test]
    fn no_more_than_a_bounded_number_is_watched() {
        let mut awaited = Awaited::default();
        for number in 0..2 * FILES_MAX as u64 {
            made(&mut awaited, number, 0, 0.0);
        }
        assert_eq!((awaited.files.len(), awaited.targets.len()), (FILES_MAX, FILES_MAX));
        assert_eq!(awaited.turn(5.0), Turn::default());
        assert!(awaited.files.is_empty() && awaited.targets.is_empty());
    }
}
