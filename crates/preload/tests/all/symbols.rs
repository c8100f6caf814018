//! Nothing that programs call on files may be forgotten: each such import of the programs of this machine is either
//! defined by the library or listed in `passed_through.txt` with the reason why libc's own is right.

use crate::support;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Parts of names that say of a libc function that it may touch files, descriptors or processes.
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
    names.map(|name| name.split('@').next().unwrap_or(name).to_string()).collect()
}

fn libc_path() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let line = maps.lines().find(|line| line.contains("libc.so.6")).expect("this test uses libc");
    line[line.find('/').expect("a path")..].into()
}

/// Names of the table: the first word of each line that is not a comment.
fn passed_through() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passed_through.txt");
    let text = std::fs::read_to_string(path).expect("the table");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| line.split(':').next().unwrap_or_default().split_whitespace())
        .map(String::from)
        .collect()
}

/// Threads share every descriptor; only their making is watched.
fn is_about_threads(name: &str) -> bool {
    name.trim_start_matches('_').starts_with("pthread_") && name != "pthread_create"
}

#[test]
fn every_file_call_of_the_programs_here_is_accounted_for() {
    let libc = symbols(&[libc_path()], "--defined-only");
    let ours = symbols(&[support::library()], "--defined-only");
    let passed = passed_through();
    let entries = ["/usr/bin", "/usr/sbin"].map(|folder| std::fs::read_dir(folder).expect("programs"));
    let programs: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    assert!(programs.len() > 50, "only {} programs were looked at", programs.len());
    let forgotten: Vec<String> = symbols(&programs, "--undefined-only")
        .into_iter()
        .filter(|name| PARTS.iter().any(|part| name.contains(part)) && !is_about_threads(name))
        .filter(|name| libc.contains(name) && !ours.contains(name) && !passed.contains(name))
        .collect();
    assert!(forgotten.is_empty(), "neither defined nor listed: {forgotten:?}");
}

/// One build has to load on every C library since 2.28; a weak reference does not hinder that.
#[test]
fn no_symbol_of_a_newer_libc_is_required() {
    let output =
        Command::new("objdump").arg("-T").arg(support::library()).output().expect("objdump is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let newer = |line: &&str| {
        let Some((_, rest)) = line.split_once("(GLIBC_2.") else { return false };
        let minor = rest.split([')', '.']).next().and_then(|minor| minor.parse::<u32>().ok());
        minor.is_some_and(|minor| minor > 28) && !line.contains(" w ")
    };
    let found: Vec<&str> = text.lines().filter(newer).collect();
    assert!(found.is_empty(), "{found:#?}");
}
