//! The journal of a process that is killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use weir_core::journal::{Journal, JournalError};
use weir_server::journal::DirectoryStorage;

const SCHEMA: u32 = 3;
/// The variable in the environment of the child that the test kills.
const CHILD: &str = "WEIR_TEST_JOURNAL_CHILD";

/// Opens the journal in a directory, whose groups are one number each.
fn opened(path: &Path) -> Result<(Journal<u64>, Vec<u64>), JournalError> {
    let mut found = Vec::new();
    let (journal, _) = Journal::open(DirectoryStorage::open(path)?, SCHEMA, |number| found.push(number))?;
    Ok((journal, found))
}

/// The child of the next test: it appends groups and prints their numbers, until the test kills it.
#[test]
fn append_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let (mut journal, found) = opened(Path::new(&path)).expect("it opens");
    for number in found.len() as u64 + 1.. {
        journal.append(&[number]).expect("there is room");
        println!("appended {number}");
        if number % 50 == 0 {
            let state: Vec<u64> = (1..=number).collect();
            journal.snapshot(&state).expect("there is room");
        }
    }
}

#[test]
fn groups_that_a_killed_process_acknowledged_are_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged = 0;
    for lines in [3, 57, 130, 211] {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--nocapture", "journals::append_until_killed"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let said = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("appended ")?.parse().ok());
        acknowledged = said.take(lines).last().unwrap_or(acknowledged);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let (_, found) = opened(directory.path()).expect("it opens");
        assert!(found.len() as u64 >= acknowledged && acknowledged > 0, "{} of {acknowledged}", found.len());
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<u64>>());
    }
}
