//! The windows that a process tells of itself: all of them, whatever the order and the pauses of its operations.

use crate::model::{add, any_operation};
use crate::{SECOND, WINDOW};
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use weir_testing::Choices;
use weir_windows::{Counts, Device, Line, Operation, Tally, LINES, WINDOWS};

type Windows = BTreeMap<(u64, Device), Counts>;

const STORE: u64 = 7;
const UID: u32 = 54_871;
const JOB: &str = "job é";

/// Takes told lines as a reader of a trace does: counts only grow, so the greatest of each counts.
fn take(windows: &mut Windows, lines: &[Line]) {
    for line in lines {
        assert_eq!((line.store, line.uid, line.job.as_str()), (STORE, UID, JOB));
        let known = windows.entry((line.window, line.device)).or_default();
        *known = greatest(*known, line.counts);
    }
}

fn greatest(one: Counts, other: Counts) -> Counts {
    Counts {
        reads: one.reads.max(other.reads),
        read_bytes: one.read_bytes.max(other.read_bytes),
        read_nanoseconds: one.read_nanoseconds.max(other.read_nanoseconds),
        writes: one.writes.max(other.writes),
        written_bytes: one.written_bytes.max(other.written_bytes),
        write_nanoseconds: one.write_nanoseconds.max(other.write_nanoseconds),
        stats: one.stats.max(other.stats),
        opens: one.opens.max(other.opens),
        closes: one.closes.max(other.closes),
        others: one.others.max(other.others),
        metadata_nanoseconds: one.metadata_nanoseconds.max(other.metadata_nanoseconds),
    }
}

/// A tally that has begun, and a static place for the windows that it told.
macro_rules! tally {
    ($told:ident) => {{
        static $told: Mutex<Windows> = Mutex::new(Windows::new());
        let tally = Tally::new(|_, lines| take(&mut $told.lock().expect("no panic"), lines));
        tally.begin(WINDOW, STORE, UID, JOB).expect("memory");
        (tally, &$told)
    }};
}

#[test]
fn windows_are_told_as_they_end_and_all_of_them_at_the_end() {
    let (tally, told) = tally!(TOLD);
    let mut choices = Choices::new();
    let devices: Vec<Device> =
        (0..3).flat_map(|server| [Device::metadata(server), Device::target(server, 1)]).collect();
    let mut model = Windows::new();
    let mut now = 1_800_000_000 * SECOND;
    for _ in 0..200 {
        // A pause of exactly a ring would have an operation take the place of a window that was not told.
        now += *choices.one_of(&[0, 0, 1, 1, 2, WINDOWS as u64, 100]) * SECOND;
        for _ in 0..choices.below(40) {
            now += choices.below(SECOND / 20);
            let (device, took) = (*choices.one_of(&devices), choices.below(SECOND));
            let operation = any_operation(&mut choices);
            tally.count(device, operation, now, took);
            add(model.entry((now / SECOND, device)).or_default(), operation, took);
            let open = (now - SECOND / 10) / SECOND;
            let ended: Windows = model.range(..(open, Device::target(0, 0))).map(cloned).collect();
            assert_eq!(*told.lock().expect("no panic"), ended);
        }
    }
    assert!(model.len() > 100);
    tally.finish();
    assert_eq!(*told.lock().expect("no panic"), model);
    tally.count(devices[0], Operation::Read(5), now, 1);
    add(model.entry((now / SECOND, devices[0])).or_default(), Operation::Read(5), 1);
    assert_eq!(*told.lock().expect("no panic"), model, "after the end each operation is told");
    assert_eq!((tally.left_out(), tally.window()), (0, WINDOW));
}

fn cloned((key, counts): (&(u64, Device), &Counts)) -> ((u64, Device), Counts) {
    (*key, *counts)
}

#[test]
fn an_operation_that_is_counted_late_is_told_with_the_next_window() {
    let (tally, told) = tally!(TOLD);
    let device = Device::target(0, 0);
    let reads =
        |window: u64| told.lock().expect("no panic").get(&(window, device)).map(|counts| counts.reads);
    tally.count(device, Operation::Read(1), 1000 * SECOND, 1);
    tally.count(device, Operation::Read(1), 1001 * SECOND + SECOND / 2, 1);
    assert_eq!(reads(1000), Some(1));
    tally.count(device, Operation::Read(1), 1000 * SECOND + 1, 1);
    tally.count(device, Operation::Read(1), 1002 * SECOND + SECOND / 2, 1);
    assert_eq!((reads(1000), reads(1001), reads(1002)), (Some(2), Some(1), None));
}

#[test]
fn a_process_that_goes_on_tells_windows_as_they_end_again() {
    let (tally, told) = tally!(TOLD);
    let device = Device::target(0, 0);
    tally.count(device, Operation::Open, 1000 * SECOND, 1);
    tally.finish();
    tally.resume();
    tally.count(device, Operation::Open, 1000 * SECOND + 1, 1);
    let opens = || told.lock().expect("no panic").values().map(|counts| counts.opens).collect::<Vec<_>>();
    assert_eq!(opens(), [1]);
    tally.finish();
    assert_eq!(opens(), [2]);
}

#[test]
fn threads_lose_no_count() {
    const THREADS: u64 = 4;
    const SECONDS: u64 = 80;
    const COUNTS: u64 = 500;
    let (tally, told) = tally!(TOLD);
    // A thread that falls behind by more than a ring would find its windows gone.
    let step = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for server in 0..THREADS as u16 {
            let (tally, step) = (&tally, &step);
            scope.spawn(move || {
                for number in 0..SECONDS * COUNTS {
                    if number % COUNTS == 0 {
                        step.wait();
                    }
                    let at = 1000 * SECOND + number * SECOND / COUNTS;
                    tally.count(Device::target(server % 2, 0), Operation::Write(3), at, 5);
                }
            });
        }
    });
    tally.finish();
    let told = told.lock().expect("no panic");
    assert_eq!(told.len() as u64, 2 * SECONDS);
    for counts in told.values() {
        let writes = COUNTS * THREADS / 2;
        assert_eq!(
            (counts.writes, counts.written_bytes, counts.write_nanoseconds),
            (writes, 3 * writes, 5 * writes)
        );
    }
}

#[test]
fn more_devices_than_lines_are_left_out_and_counted() {
    let (tally, told) = tally!(TOLD);
    for number in 0..LINES as u16 + 10 {
        tally.count(Device::target(1, number), Operation::Stat, 1000 * SECOND, 1);
    }
    tally.finish();
    assert_eq!((told.lock().expect("no panic").len(), tally.left_out()), (LINES, 10));
}

#[test]
fn operations_after_the_clock_was_set_back_by_a_ring_are_left_out_and_counted() {
    let (tally, told) = tally!(TOLD);
    let device = Device::target(0, 0);
    // The windows lie in one place of the ring, side by side, and many rounds of the ring apart.
    for window in [1000, 969, 968, 967, 800, 10, 1001] {
        tally.count(device, Operation::Stat, window * SECOND, 1);
    }
    tally.finish();
    let told = told.lock().expect("no panic");
    let stats: Vec<_> = told.iter().map(|((window, _), counts)| (*window, counts.stats)).collect();
    assert_eq!(stats, [(969, 1), (1000, 1), (1001, 1)]);
    assert_eq!(tally.left_out(), 4);
}

#[test]
fn the_end_of_a_window_is_told_where_operations_alone_were_left_out() {
    static LEFT_OUT: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let tally = Tally::new(|tally, _| LEFT_OUT.lock().expect("no panic").push(tally.left_out()));
    tally.begin(WINDOW, STORE, UID, JOB).expect("memory");
    for window in [1000, 900, 901, 901, 902] {
        tally.count(Device::target(0, 0), Operation::Stat, window * SECOND + SECOND / 2, 1);
    }
    assert_eq!(*LEFT_OUT.lock().expect("no panic"), [0, 0, 1, 3]);
}

#[test]
fn nothing_is_counted_before_the_begin_and_a_second_begin_changes_nothing() {
    static TOLD: Mutex<Windows> = Mutex::new(Windows::new());
    let tally = Tally::new(|_, lines| take(&mut TOLD.lock().expect("no panic"), lines));
    tally.count(Device::target(0, 0), Operation::Open, SECOND, 1);
    tally.begin(std::time::Duration::from_millis(1), STORE, UID, JOB).expect_err("too short");
    tally.finish();
    tally.begin(WINDOW, STORE, UID, JOB).expect("memory");
    tally.begin(2 * WINDOW, 0, 0, "other").expect("nothing to do");
    assert_eq!(tally.window(), WINDOW);
    tally.count(Device::target(0, 0), Operation::Open, SECOND, 1);
    tally.finish();
    assert_eq!(TOLD.lock().expect("no panic").values().map(|counts| counts.opens).collect::<Vec<_>>(), [1]);
}
