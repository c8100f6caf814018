//! Random operations, beside a model that keeps every window of every job and device in a map.

use crate::{own, place, SECOND, WINDOW};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_testing::Choices;
use weir_windows::{Counts, Device, Job, Operation, Reader, Recorder, JOB_BYTES_MAX, LINES, WINDOWS};

type Windows = BTreeMap<(u64, String, Device), Counts>;

const STORE: u64 = 7;
/// Jobs that count at a time: they fit into the lines.
const AT_ONCE: usize = 24;

pub(crate) fn add(counts: &mut Counts, operation: Operation, took: u64) {
    match operation {
        Operation::Read(bytes) => {
            counts.reads += 1;
            counts.read_bytes += bytes;
            counts.read_nanoseconds += took;
        }
        Operation::Write(bytes) => {
            counts.writes += 1;
            counts.written_bytes += bytes;
            counts.write_nanoseconds += took;
        }
        Operation::Stat => counts.stats += 1,
        Operation::Open => counts.opens += 1,
        Operation::Close => counts.closes += 1,
        Operation::Other => counts.others += 1,
    }
    if !matches!(operation, Operation::Read(_) | Operation::Write(_)) {
        counts.metadata_nanoseconds += took;
    }
}

pub(crate) fn any_operation(choices: &mut Choices) -> Operation {
    let bytes = choices.below(1 << 20);
    *choices.one_of(&[
        Operation::Read(bytes),
        Operation::Write(bytes),
        Operation::Stat,
        Operation::Open,
        Operation::Close,
        Operation::Other,
    ])
}

/// The windows that a reader is told at a moment.
fn told(folder: &std::path::Path, now: u64) -> (Windows, Reader) {
    let reader = Reader::look(folder, WINDOW, own()).expect("windows");
    let (lines, _) = reader.lines_after(0, Duration::from_nanos(now));
    let mut found = Windows::new();
    for line in lines {
        assert_eq!((line.store, line.uid), (STORE, own()));
        let known = found.insert((line.window, line.job, line.device), line.counts);
        assert_eq!(known, None, "one thread makes one line of a job and a device");
    }
    (found, reader)
}

#[test]
fn windows_are_those_of_a_model() {
    let (_root, folder) = place();
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder");
    let mut choices = Choices::new();
    let names: Vec<String> = (0..3 * AT_ONCE)
        .map(|number| if number == 0 { "j".repeat(JOB_BYTES_MAX) } else { format!("job {number} é") })
        .collect();
    let jobs: Vec<Job> = names.iter().map(|name| recorder.job(STORE, own(), name)).collect();
    let devices: Vec<Device> =
        (0..4).flat_map(|server| [Device::metadata(server), Device::target(server, 3)]).collect();
    assert!(jobs.len() * devices.len() > LINES, "lines have to be taken over");
    let mut model = Windows::new();
    let mut counted = 0_u64;
    let mut offered = 0_u64;
    // A round of the ring that the words' upper bits end in comes early in the test.
    let mut now = ((1 << 16) - 3) * WINDOWS as u64 * SECOND;
    for step in 0..150 {
        // Some jobs at a time, as on a node. Others follow after a pause in which all windows go.
        let first = step / 50 * AT_ONCE;
        if step % 50 == 0 {
            now += 2 * WINDOWS as u64 * SECOND;
        }
        for _ in 0..choices.below(200) {
            now += choices.below(SECOND / 50);
            let (name, device) = (first + choices.below(AT_ONCE as u64) as usize, *choices.one_of(&devices));
            let (operation, took) = (any_operation(&mut choices), choices.below(SECOND));
            recorder.count(&jobs[name], device, operation, now, took);
            add(model.entry((now / SECOND, names[name].clone(), device)).or_default(), operation, took);
            offered += 1;
        }
        let pause = *choices.one_of(&[1, 3, 3, 3, 3, 3, 3, 3, 3, 100]);
        now += choices.below(SECOND * pause);
        let (found, reader) = told(&folder, now);
        // The last window that has ended by then, and the oldest whose cell is not the next one.
        let (last, first) = ((now - SECOND / 10) / SECOND - 1, now / SECOND + 2 - WINDOWS as u64);
        let expected: Windows =
            model.iter().filter(|((window, ..), _)| (first..=last).contains(window)).map(clone).collect();
        assert_eq!(reader.left_out(), 0);
        assert_eq!(found, expected);
        counted = counted.max(found.len() as u64);
    }
    assert!(offered > 1000 && counted > 10);
}

fn clone(
    ((window, job, device), counts): (&(u64, String, Device), &Counts),
) -> ((u64, String, Device), Counts) {
    ((*window, job.clone(), *device), *counts)
}

#[test]
fn more_jobs_than_lines_are_left_out_and_counted() {
    let (_root, folder) = place();
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder");
    let now = 1000 * SECOND;
    let job = |number: usize| recorder.job(STORE, own(), &format!("job-{number}"));
    for number in 0..LINES + 10 {
        recorder.count(&job(number), Device::target(0, 0), Operation::Read(1), now, 1);
    }
    let (found, reader) = told(&folder, now + 2 * SECOND);
    assert_eq!((found.len(), reader.left_out()), (LINES, 10));
    // Lines that nobody used for a ring go to others.
    let later = now + (WINDOWS as u64 + 2) * SECOND;
    for number in 0..10 {
        recorder.count(&job(1000 + number), Device::target(0, 0), Operation::Read(1), later, 1);
    }
    let (found, reader) = told(&folder, later + 2 * SECOND);
    assert_eq!((found.len(), reader.left_out()), (10, 10));
}

#[test]
fn a_line_that_was_taken_over_and_taken_back_has_its_own_head() {
    let (_root, folder) = place();
    let recorders = [(); 2].map(|()| Recorder::open(&folder, WINDOW).expect("a recorder"));
    let ring = (WINDOWS as u64 + 2) * SECOND;
    let mut now = 1000 * SECOND;
    // All lines go from one process to the other and back, each time after a ring in which nobody used them.
    for turn in 0..4 {
        let (recorder, name) = (&recorders[turn % 2], ["one", "other"][turn % 2]);
        for index in 0..LINES as u16 {
            let job = recorder.job(STORE, own(), name);
            recorder.count(&job, Device::target(0, index), Operation::Read(1), now, 1);
        }
        let (found, reader) = told(&folder, now + 2 * SECOND);
        assert_eq!((found.len(), reader.left_out()), (LINES, 0));
        assert!(found.keys().all(|(_, job, _)| job == name));
        now += ring;
    }
}

#[test]
fn counts_of_a_round_whose_number_comes_again_are_gone() {
    let (_root, folder) = place();
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder");
    let job = recorder.job(STORE, own(), "job");
    recorder.count(&job, Device::target(0, 0), Operation::Read(1), 1000 * SECOND, 1);
    assert_eq!(told(&folder, 1002 * SECOND).0.len(), 1);
    assert_eq!(told(&folder, (1002 + (WINDOWS as u64) * (1 << 16)) * SECOND).0, Windows::new());
}

#[test]
fn a_count_that_comes_late_changes_no_later_window() {
    let (_root, folder) = place();
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder");
    let job = recorder.job(STORE, own(), "job");
    let (early, late) = (5000 * SECOND, (5000 + WINDOWS as u64) * SECOND);
    recorder.count(&job, Device::target(0, 0), Operation::Read(1), late, 1);
    recorder.count(&job, Device::target(0, 0), Operation::Read(100), early, 1);
    let (found, _) = told(&folder, late + 2 * SECOND);
    let counts: Vec<Counts> = found.into_values().collect();
    assert_eq!(counts.iter().map(|counts| (counts.reads, counts.read_bytes)).collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn threads_lose_no_count() {
    const COUNTS: u64 = 20_000;
    let (_root, folder) = place();
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder");
    let now = 1000 * SECOND;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let job = recorder.job(STORE, own(), "job");
                for number in 0..COUNTS {
                    let at = now + number * 4 * SECOND / COUNTS;
                    recorder.count(&job, Device::target(1, 2), Operation::Write(3), at, 5);
                }
            });
        }
    });
    let reader = Reader::look(&folder, WINDOW, own()).expect("windows");
    let (lines, last) = reader.lines_after(0, Duration::from_nanos(now + 10 * SECOND));
    let sum = |of: fn(&Counts) -> u64| lines.iter().map(|line| of(&line.counts)).sum::<u64>();
    assert_eq!(sum(|counts| counts.writes), 4 * COUNTS);
    assert_eq!(sum(|counts| counts.written_bytes), 12 * COUNTS);
    assert_eq!(sum(|counts| counts.write_nanoseconds), 20 * COUNTS);
    assert_eq!(last, 1008);
    assert_eq!(reader.lines_after(last, Duration::from_nanos(now + 10 * SECOND)), (Vec::new(), last));
}
