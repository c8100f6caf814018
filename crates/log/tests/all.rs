//! A log that fills: this program's own standard error is the log, so one test owns the process.

use std::fs;
use std::io::Write;
use std::path::Path;
use weir_log::{begin, complain, write, Level, FILE_BYTES_MAX};

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn a_log_begins_anew_and_loses_no_line_of_the_last_two() {
    let folder = tempfile::tempdir().unwrap();
    let (log, older) = (folder.path().join("log"), folder.path().join("log.1"));
    fs::write(&log, "words of the shell\n").unwrap();
    begin(Some(&log)).unwrap();
    write(Level::Warning, "weir-test", format_args!("first"));
    complain("weir-test", format_args!("bad; hint: none"));
    // Other words of the process go where the log is.
    std::io::stderr().write_all(b"words of a library\n").unwrap();
    let begun = lines(&log);
    assert_eq!(begun[0], "words of the shell");
    assert!(begun[1].ends_with("Z WARNING weir-test: first"), "{begun:?}");
    assert!(begun[2].ends_with("Z ERROR weir-test: bad; hint: none"), "{begun:?}");
    assert_eq!(begun[3], "words of a library");
    assert!(!older.exists());

    let padding = "x".repeat(1000);
    let count = 5 * FILE_BYTES_MAX / 1000;
    for number in 0..count {
        write(Level::Info, "weir-test", format_args!("{number} {padding}"));
        assert!(fs::metadata(&log).unwrap().len() <= FILE_BYTES_MAX);
    }
    let kept = [lines(&older), lines(&log)].concat();
    let told: Vec<u64> = kept.iter().map(|line| line.split(' ').nth(3).unwrap().parse().unwrap()).collect();
    let first = count - told.len() as u64;
    assert_eq!(told, (first..count).collect::<Vec<_>>(), "the last lines, in order");
    assert!(fs::metadata(&older).unwrap().len() <= FILE_BYTES_MAX);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "two files and no more");

    // Where no new log can be begun, the old one is bounded all the same.
    fs::remove_file(&older).unwrap();
    fs::create_dir_all(older.join("in the way")).unwrap();
    for number in 0..5 * FILE_BYTES_MAX / 1000 {
        write(Level::Info, "weir-test", format_args!("{number} {padding}"));
    }
    assert!(fs::metadata(&log).unwrap().len() <= 2 * FILE_BYTES_MAX);
}
