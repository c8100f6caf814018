//! No call on files may be forgotten. The library defines each file call of the supported C libraries (`libc_calls.txt`), or
//! `passed_through.txt` lists the call with the reason why libc's own function is right.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testing::programs;

/// Parts of names of libc functions that may touch files, descriptors or processes.
const PARTS: &[&str] = &[
    "open",
    "read",
    "write",
    "stat",
    "dir",
    "link",
    "file",
    "seek",
    "sync",
    "trunc",
    "chmod",
    "chown",
    "utime",
    "access",
    "path",
    "mkst",
    "mkost",
    "mktemp",
    "mkdtemp",
    "tmp",
    "mount",
    "xattr",
    "flock",
    "lockf",
    "dup",
    "close",
    "splice",
    "tee",
    "mmap",
    "mremap",
    "aio_",
    "lio_",
    "glob",
    "ftw",
    "fts_",
    "exec",
    "fork",
    "spawn",
    "cwd",
    "current_dir",
    "umask",
    "mknod",
    "mkfifo",
    "mkdir",
    "fcntl",
    "ioctl",
    "clone",
    "rename",
    "remove",
    "fadvise",
    "fallocate",
    "dprintf",
    "fdopen",
    "_chk",
    "setuid",
    "setgid",
    "syscall",
    "sendmsg",
    "unshare",
];

/// The dynamic symbols of files that `nm` shows with `option`, without versions.
fn symbols(files: &[PathBuf], option: &str) -> BTreeSet<String> {
    // Scripts among the programs make nm complain and go on.
    let output = Command::new("nm").args(["-D", option]).args(files).output().expect("nm is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    let public = names.filter(|name| !name.ends_with("@GLIBC_PRIVATE"));
    public.map(|name| name.split('@').next().unwrap_or(name).to_string()).collect()
}

fn libc_path() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let line = maps.lines().find(|line| line.contains("libc.so.6")).expect("this test uses libc");
    line[line.find('/').expect("a path")..].into()
}

/// Names of a table beside this folder: the words before a colon of each line that is not a comment.
fn names(table: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(table);
    let text = std::fs::read_to_string(path).expect("the table");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| line.split(':').next().unwrap_or_default().split_whitespace())
        .map(String::from)
        .collect()
}

/// Whether a function is about threads. Threads share every descriptor, so the library watches only their making.
fn is_about_threads(name: &str) -> bool {
    name.trim_start_matches('_').starts_with("pthread_") && name != "pthread_create"
}

#[test]
fn every_file_call_of_the_c_library_is_decided() {
    let (listed, passed) = (names("libc_calls.txt"), names("passed_through.txt"));
    let ours = symbols(&[programs::preload().to_owned()], "--defined-only");
    let undecided: Vec<&String> =
        listed.iter().filter(|name| !ours.contains(*name) && !passed.contains(*name)).collect();
    assert!(undecided.is_empty(), "neither defined nor passed through: {undecided:?}");
    let both: Vec<&String> = passed.iter().filter(|name| ours.contains(*name)).collect();
    assert!(both.is_empty(), "defined, and listed as passed through: {both:?}");
    let unlisted: Vec<&String> = passed.difference(&listed).collect();
    assert!(unlisted.is_empty(), "passed through, but not in libc_calls.txt: {unlisted:?}");
    tell_of_more_than(&listed);
}

/// Prints a warning where the C library here is newer than the list and has more calls: a newer machine is no fault.
fn tell_of_more_than(listed: &BTreeSet<String>) {
    let more: Vec<String> = symbols(&[libc_path()], "--defined-only")
        .into_iter()
        .filter(|name| PARTS.iter().any(|part| name.contains(part)) && !is_about_threads(name))
        .filter(|name| !listed.contains(name))
        .collect();
    if !more.is_empty() {
        println!("warning: the C library here has calls that nobody has decided about: {more:?}");
    }
}

/// One build has to load on every C library since 2.28. A weak reference does not hinder the load.
#[test]
fn no_symbol_of_a_newer_libc_is_required() {
    let output =
        Command::new("objdump").arg("-T").arg(programs::preload()).output().expect("objdump is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let newer = |line: &&str| {
        let Some((_, rest)) = line.split_once("(GLIBC_2.") else { return false };
        let minor = rest.split([')', '.']).next().and_then(|minor| minor.parse::<u32>().ok());
        minor.is_some_and(|minor| minor > 28) && !line.contains(" w ")
    };
    let found: Vec<&str> = text.lines().filter(newer).collect();
    assert!(found.is_empty(), "{found:#?}");
}
