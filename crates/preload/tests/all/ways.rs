//! One program, three ways: its output on the store must be its output on a plain directory.

use crate::store::{compile, ways, Store, Way};
use std::path::Path;
use std::process::Command;
use weir_testing::{can_mount, checked, output, programs};

/// The name of the way in the C programs.
fn word(way: Way) -> &'static str {
    match way {
        Way::Preload => "mount",
        Way::Prefix => "prefix",
    }
}

fn plain(program: &Path, way: Way) -> String {
    let folder = tempfile::tempdir().expect("a fresh directory");
    checked(Command::new(program).arg(folder.path()).arg(word(way)))
}

/// A fresh directory on tmpfs, whose files have the same bounds as the kernel's calls.
fn tmpfs() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a fresh directory on tmpfs")
}

fn on_store(store: &Store, program: &Path, name: &str, way: Way) -> String {
    let root = store.root(way).join(name);
    checked(store.command(way, "mkdir").arg(&root));
    checked(store.command(way, program).arg(root).arg(word(way)))
}

fn assert_same(plain: &str, store: &str, way: Way) {
    for (number, (expected, found)) in plain.lines().zip(store.lines()).enumerate() {
        assert_eq!(expected, found, "line {} by {way:?}", number + 1);
    }
    assert_eq!(plain.lines().count(), store.lines().count(), "{way:?}");
}

#[test]
fn every_call_answers_as_on_a_plain_directory() {
    let store = Store::start(can_mount());
    for (name, options) in [("plain", &["-O1"][..]), ("fortified", &["-O2", "-D_FORTIFY_SOURCE=2"][..])] {
        let program = compile("calls", store.folder(), options);
        for way in ways() {
            let printed = on_store(&store, &program, &format!("{name}-{}", word(way)), way);
            assert_same(&plain(&program, way), &printed, way);
            let counted = store.counted();
            for call in
                ["open", "read", "write", "append", "seek", "stat", "change", "make", "unlink", "rename"]
            {
                assert!(counted.get(call).is_some_and(|count| *count > 0), "{way:?}: {call} in {counted:?}");
            }
        }
    }
}

#[test]
fn signals_threads_forks_and_bulk_closes_lose_nothing() {
    let store = Store::start(can_mount());
    let program = compile("hazards", store.folder(), &["-O1"]);
    for way in ways() {
        let printed = on_store(&store, &program, &format!("hazards-{}", word(way)), way);
        assert!(!printed.contains(": NO"), "{way:?}\n{printed}");
        assert_same(&plain(&program, way), &printed, way);
    }
}

#[test]
fn a_session_of_usual_programs_goes_as_on_a_plain_directory() {
    let store = Store::start(can_mount());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/session.sh");
    let folder = tempfile::tempdir().expect("a fresh directory");
    let expected = checked(Command::new("bash").arg(&script).arg(folder.path()));
    for way in ways() {
        let root = store.root(way).join(word(way));
        checked(store.command(way, "mkdir").arg(&root));
        let printed = checked(store.command(way, "bash").arg(&script).arg(root));
        assert_same(&expected, &printed, way);
        let counted = store.counted();
        assert!(counted["bytes_written"] > 0 && counted["bytes_read"] > 0, "{way:?}: {counted:?}");
    }
}

#[test]
fn calls_at_the_edges_answer_as_on_tmpfs() {
    let store = Store::start(can_mount());
    let program = compile("edges", store.folder(), &["-O1"]);
    for way in ways() {
        let expected = checked(Command::new(&program).arg(tmpfs().path()).arg(word(way)));
        assert_same(&expected, &on_store(&store, &program, &format!("edges-{}", word(way)), way), way);
    }
}

/// node 20 registers a handler for the child before its first call on the store. The child then waited for the library's heap
/// for ever.
#[test]
fn handlers_of_forks_may_call_the_store() {
    let store = Store::start(can_mount());
    let program = compile("forks", store.folder(), &["-O1"]);
    for way in ways() {
        let root = store.root(way).join(format!("forks-{}", word(way)));
        checked(store.command(way, "mkdir").arg(&root));
        for when in ["p", "o", "c"] {
            for what in ["w", "n", "s", "f", "m", "r"] {
                let handler = format!("{when}{what}");
                let expected = checked(Command::new(&program).arg(tmpfs().path()).arg(&handler));
                let found = checked(store.command(way, &program).arg(&root).arg(&handler));
                assert_eq!(expected, found, "{way:?} {handler}");
            }
        }
        // OpenMPI's launcher writes to a pipe in its handler of SIGCHLD, while it forks the next process.
        for handler in ["sw", "sn", "sr"] {
            let expected = checked(Command::new(&program).arg(tmpfs().path()).arg(handler));
            let found = checked(store.command(way, &program).arg(&root).arg(handler));
            assert_eq!(expected, found, "{way:?} {handler}");
        }
    }
}

/// A program, a script's interpreter or a library that lies in the store is the kernel's or the dynamic linker's to open.
#[test]
fn programs_and_libraries_on_the_store_are_run_and_loaded() {
    let store = Store::start(can_mount());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/spawns.sh");
    let expected = checked(Command::new("bash").arg(&script).arg(tmpfs().path()));
    for way in ways() {
        let root = store.root(way).join(format!("spawns-{}", word(way)));
        checked(store.command(way, "mkdir").arg(&root));
        assert_same(&expected, &checked(store.command(way, "bash").arg(&script).arg(root)), way);
    }
}

/// The dynamic linker looked for the libraries of programs where the store is unknown, and those without a SONAME were lost.
#[test]
fn programs_find_their_libraries_in_the_store() {
    let store = Store::start(can_mount());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/libraries.sh");
    let host = tmpfs();
    let expected = checked(Command::new("bash").arg(&script).args([tmpfs().path(), host.path()]));
    for way in ways() {
        let root = store.root(way).join(format!("libraries-{}", word(way)));
        checked(store.command(way, "mkdir").arg(&root));
        let told = checked(store.command(way, "bash").arg(&script).arg(root).arg(host.path()));
        assert_same(&expected, &told, way);
    }
}

/// Seeds of one run of the law of streams, and the calls of each.
const STREAM_SEEDS: u64 = 6;
const STREAM_CALLS: &str = "1500";

/// A stream that sought between two writes wrote to an old place: `12345678` became `67845`.
#[test]
fn random_calls_on_streams_answer_as_on_tmpfs() {
    let store = Store::start(can_mount());
    let program = compile("streams", store.folder(), &["-O1"]);
    let first: u64 = match std::env::var("STREAM_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => u64::from(std::process::id()) * 1000,
    };
    for seed in (first..first + STREAM_SEEDS).map(|seed| seed.to_string()) {
        for way in ways() {
            println!("STREAM_SEED={seed} by {way:?}");
            let arguments = [seed.as_str(), STREAM_CALLS];
            let expected = checked(Command::new(&program).arg(tmpfs().path()).args(arguments));
            let root = store.root(way).join(format!("streams-{seed}-{}", word(way)));
            checked(store.command(way, "mkdir").arg(&root));
            assert_same(&expected, &checked(store.command(way, &program).arg(root).args(arguments)), way);
        }
    }
}

/// `dd` writes through a duplicate of its descriptor at number 1, which libc's stdio could use, too.
#[test]
fn dd_takes_the_fast_path() {
    let store = Store::start(can_mount());
    for way in ways() {
        let file = store.root(way).join(format!("dd-{}", word(way)));
        let output = format!("of={}", file.display());
        checked(store.command(way, "dd").args(["if=/dev/zero", "bs=64k", "count=16", &output]));
        let counted = store.counted();
        assert_eq!(counted.get("bytes_written"), Some(&(16 << 16)), "{way:?}: {counted:?}");
        assert_eq!(counted["passed_to_kernel"], 0, "{way:?}: {counted:?}");
    }
}

#[test]
fn a_missing_store_is_an_error_and_no_hang() {
    let store = Store::start(false);
    let mut command = store.command(Way::Prefix, "cat");
    command.env("WEIR_CLUSTER", store.folder().join("none.json")).env("WEIR_TIMEOUT_SECONDS", "1");
    let output = output(command.arg(store.root(Way::Prefix).join("x")));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Input/output error"), "{output:?}");
}

#[test]
fn a_setting_that_cannot_be_used_is_told_and_not_passed_over() {
    let store = Store::start(can_mount());
    for way in ways() {
        let file = store.root(way).join(format!("told-{}", word(way)));
        checked(store.command(way, "touch").arg(&file));
        let written =
            output(store.command(way, "cp").env("WEIR_TRANSPORT", "tpc").arg("/etc/hostname").arg(&file));
        let told = String::from_utf8_lossy(&written.stderr);
        assert!(told.contains(r#"WEIR_TRANSPORT is "tpc"; hint: "#), "{way:?}: {told}");
        assert_eq!(told.matches("weir: ").count(), 1, "{way:?}: {told}");
        assert_eq!(written.status.success(), way == Way::Preload, "{way:?}: {told}");
        let there = checked(store.command(way, "cat").arg(&file));
        let expected = match way {
            Way::Preload => std::fs::read_to_string("/etc/hostname").expect("a name"),
            Way::Prefix => String::new(),
        };
        assert_eq!(there, expected, "{way:?}");
    }
}

/// The library's cost for a process that never touches the store is printed, not asserted.
#[test]
fn the_cost_of_starting_is_shown() {
    let folder = tempfile::tempdir().expect("a fresh directory");
    let program = compile("nothing", folder.path(), &["-O1"]);
    let median = |with_library: bool| {
        let mut times: Vec<_> = (0..51)
            .map(|_| {
                let mut command = Command::new(&program);
                if with_library {
                    command.env("LD_PRELOAD", programs::preload()).env("WEIR_MOUNT", "/nowhere");
                }
                let start = std::time::Instant::now();
                assert!(command.status().expect("it starts").success());
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (without, with) = (median(false), median(true));
    println!("a process starts and ends in {without:?} without the library, in {with:?} with it");
}
