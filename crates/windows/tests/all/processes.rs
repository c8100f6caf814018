//! Processes that share a file and are killed in the midst of their counts.

use crate::{own, place, SECOND, WINDOW};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_testing::Choices;
use weir_windows::{Counts, Device, Operation, Reader, Recorder};

const CHILDREN: usize = 4;
/// Variable by which a test starts itself as a child, which counts in this folder until it is killed.
const CHILD: &str = "WEIR_TEST_WINDOWS_CHILD";
const BYTES: u64 = 7;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

fn counts_until_killed(folder: &std::path::Path) {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).expect("a signal");
    let recorder = Recorder::open(folder, WINDOW).expect("a recorder");
    let job = recorder.job(1, own(), "job");
    for number in 1_u64.. {
        recorder.count(&job, Device::target(0, 0), Operation::Read(BYTES), now(), 1);
        if number == 1000 {
            println!("counting");
        }
    }
}

#[test]
fn processes_that_are_killed_lose_their_operation_in_progress_at_most() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return counts_until_killed(folder.as_ref());
    }
    let (_root, folder) = place();
    let mut choices = Choices::new();
    let program = std::env::current_exe().expect("this program");
    let name = "processes::processes_that_are_killed_lose_their_operation_in_progress_at_most";
    let mut children: Vec<_> = (0..CHILDREN)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args([name, "--exact", "--nocapture"]).env(CHILD, &folder).stdout(Stdio::piped());
            let mut child = command.spawn().expect("a child");
            // A child that counts has said so, below the words of the test's harness.
            let mut said = Vec::new();
            let mut byte = [0];
            let output = child.stdout.as_mut().expect("piped");
            while !said.ends_with(b"counting\n") && output.read(&mut byte).expect("words") == 1 {
                said.push(byte[0]);
            }
            child
        })
        .collect();
    let began = now() / SECOND;
    for child in &mut children {
        std::thread::sleep(Duration::from_micros(choices.below(20_000)));
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }
    let recorder = Recorder::open(&folder, WINDOW).expect("a recorder after the kills");
    let own_counts = 500;
    let job = recorder.job(1, own(), "job");
    for _ in 0..own_counts {
        recorder.count(&job, Device::target(0, 0), Operation::Read(BYTES), now(), 1);
    }
    let reader = Reader::look(&folder, WINDOW, own()).expect("windows");
    let (lines, last) = reader.lines_after(0, Duration::from_nanos(now() + 2 * SECOND));
    assert!(last >= began);
    let sum = |of: fn(&Counts) -> u64| lines.iter().map(|line| of(&line.counts)).sum::<u64>();
    let (reads, bytes, nanoseconds) =
        (sum(|counts| counts.reads), sum(|counts| counts.read_bytes), sum(|counts| counts.read_nanoseconds));
    assert!(reads >= own_counts + 1000 * CHILDREN as u64 - CHILDREN as u64, "the children counted");
    assert!(reads * BYTES - bytes <= CHILDREN as u64 * BYTES, "{reads} reads of {bytes} bytes");
    assert!(reads - nanoseconds <= CHILDREN as u64);
    assert_eq!(lines.iter().filter(|line| line.job == "job").count(), lines.len());
}
