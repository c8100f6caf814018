//! The lock table beside Linux itself: real processes lock a real file, and the table must say the same.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use weir_core::locks::{LockRequest, LockTable, Outcome};
use weir_testing::PATIENCE;
use weir_wire::{ClientId, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, RequestId};

/// Bytes of the file that are locked; a range that ends at the last one goes to the end of the file.
const BYTES: u64 = 10;
const PROCESSES: usize = 3;
/// Open descriptions of each process.
const DESCRIPTIONS: usize = 2;

/// One command a line, one answer a line: the errno, or the lock that was found.
const HELPER: &str = r#"
import fcntl, os, struct, sys
path = sys.argv[1]
types = {"r": fcntl.F_RDLCK, "w": fcntl.F_WRLCK, "u": fcntl.F_UNLCK}
names = {value: name for name, value in types.items()}
whole = {"r": fcntl.LOCK_SH, "w": fcntl.LOCK_EX, "u": fcntl.LOCK_UN}
descriptors = [os.open(path, os.O_RDWR) for _ in range(2)]
def region(kind, first, last, last_byte):
    length = 0 if last == last_byte else last - first + 1
    return struct.pack("hhqqi", types[kind], os.SEEK_SET, first, length, 0)
for line in sys.stdin:
    call, which, kind, first, last, last_byte = line.split()
    which, first, last, last_byte = int(which), int(first), int(last), int(last_byte)
    answer = "0"
    try:
        if call == "close":
            os.close(descriptors[which])
            descriptors[which] = os.open(path, os.O_RDWR)
        elif call == "flock":
            fcntl.flock(descriptors[which], whole[kind] | fcntl.LOCK_NB)
        elif call == "get":
            found = fcntl.fcntl(descriptors[which], fcntl.F_GETLK, region(kind, first, last, last_byte))
            name, _, start, length, pid = struct.unpack("hhqqi", found[:struct.calcsize("hhqqi")])
            end = last_byte if length == 0 else start + length - 1
            answer = f"{names[name]} {start} {end} {pid}"
        else:
            command = {"posix": fcntl.F_SETLK, "wait": fcntl.F_SETLKW, "ofd": fcntl.F_OFD_SETLK}[call]
            fcntl.fcntl(descriptors[which], command, region(kind, first, last, last_byte))
    except OSError as error:
        answer = str(error.errno)
    print(answer, flush=True)
"#;

struct Helper {
    child: Child,
    commands: ChildStdin,
    answers: std::sync::mpsc::Receiver<String>,
}

impl Helper {
    fn start(path: &std::path::Path) -> Helper {
        let mut child = Command::new("python3")
            .args(["-c", HELPER])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let (commands, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (sender, answers) = std::sync::mpsc::sync_channel(16);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Helper { child, commands, answers }
    }

    fn tell(&mut self, call: &str, which: usize, lock: LockType, (first, last): (u64, u64)) {
        let name = match lock {
            LockType::Read => "r",
            LockType::Write => "w",
            LockType::Unlock => "u",
        };
        writeln!(self.commands, "{call} {which} {name} {first} {last} {}", BYTES - 1)
            .expect("the helper reads");
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the helper answers")
    }

    fn ask(&mut self, call: &str, which: usize, lock: LockType, bytes: (u64, u64)) -> String {
        self.tell(call, which, lock, bytes);
        self.answer()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Lock { process: usize, description: usize, kind: LockKind, lock: LockType, bytes: (u64, u64) },
    Close { process: usize, description: usize },
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind =
        prop_oneof![3 => Just(LockKind::Posix), 2 => Just(LockKind::Description), 1 => Just(LockKind::Flock)];
    let lock =
        prop_oneof![2 => Just(LockType::Read), 2 => Just(LockType::Write), 1 => Just(LockType::Unlock)];
    let bytes = (0..BYTES, 0..BYTES).prop_map(|(one, other)| (one.min(other), one.max(other)));
    let step = (0..PROCESSES, 0..DESCRIPTIONS, kind, lock, bytes);
    prop_oneof![
        12 => step.prop_map(|(process, description, kind, lock, bytes)| {
            Step::Lock { process, description, kind, lock, bytes }
        }),
        1 => (0..PROCESSES, 0..DESCRIPTIONS).prop_map(|(process, description)| Step::Close { process, description }),
    ]
}

fn range(bytes: (u64, u64)) -> LockRange {
    LockRange { first: bytes.0, last: if bytes.1 == BYTES - 1 { u64::MAX } else { bytes.1 } }
}

/// The call of one process, through one of its descriptions.
fn request(
    process: usize,
    description: usize,
    kind: LockKind,
    lock: LockType,
    bytes: (u64, u64),
) -> LockRequest {
    LockRequest {
        client: ClientId(process as u64),
        uid: 0,
        request: RequestId(0),
        ino: Ino(1),
        handle: HandleId((process * DESCRIPTIONS + description) as u64),
        owner: LockOwner(0),
        pid: process as u32,
        kind,
        lock,
        range: range(bytes),
        wait: false,
        reclaim: None,
    }
}

fn errno_of(outcome: Outcome) -> String {
    match outcome {
        Outcome::Granted => "0".to_owned(),
        Outcome::Failed(errno) => errno.0.to_string(),
        Outcome::Waiting => "waiting".to_owned(),
    }
}

/// The holder of each byte, seen by a process that holds nothing.
fn compare(table: &LockTable, observer: &mut Helper, helpers: &[Helper]) -> Result<(), TestCaseError> {
    for byte in 0..BYTES {
        let found = observer.ask("get", 0, LockType::Write, (byte, byte));
        let asked = request(PROCESSES, 0, LockKind::Posix, LockType::Write, (byte, byte));
        let Ok(conflict) = table.test(&asked) else {
            return Err(TestCaseError::fail("the range is well-formed"));
        };
        match conflict {
            None => prop_assert_eq!(&found[..1], "u", "byte {}", byte),
            Some((LockType::Write, held, process)) => {
                let pid = helpers
                    .get(process as usize)
                    .map_or("-1".to_owned(), |helper| helper.child.id().to_string());
                let last = held.last.min(BYTES - 1);
                prop_assert_eq!(found, format!("w {} {} {}", held.first, last, pid), "byte {}", byte);
            }
            // Which of several readers is named is the kernel's choice.
            Some(_) => prop_assert_eq!(&found[..1], "r", "byte {}", byte),
        }
    }
    Ok(())
}

fn take(table: &mut LockTable, helpers: &mut [Helper], step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Lock { process, description, kind, lock, bytes } => {
            let call = match kind {
                LockKind::Posix => "posix",
                LockKind::Description => "ofd",
                LockKind::Flock => "flock",
            };
            let (outcome, answers) = table.acquire(&request(process, description, kind, lock, bytes));
            prop_assert_eq!(helpers[process].ask(call, description, lock, bytes), errno_of(outcome));
            prop_assert_eq!(answers, vec![]);
        }
        Step::Close { process, description } => {
            helpers[process].ask("close", description, LockType::Unlock, (0, 0));
            table.release_owner(Ino(1), ClientId(process as u64), LockOwner(0));
            table.close(Ino(1), HandleId((process * DESCRIPTIONS + description) as u64));
        }
    }
    Ok(())
}

#[test]
fn every_call_ends_as_linux_ends_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    std::fs::write(&path, [0; BYTES as usize]).expect("a file");
    let helpers: Vec<Helper> = (0..PROCESSES).map(|_| Helper::start(&path)).collect();
    let real = RefCell::new((helpers, Helper::start(&path)));
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let result = runner.run(&proptest::collection::vec(any_step(), 1..40), |steps| {
        let (helpers, observer) = &mut *real.borrow_mut();
        let mut table = LockTable::new(Fence(1));
        for (process, description) in (0..PROCESSES).flat_map(|process| [(process, 0), (process, 1)]) {
            take(&mut table, helpers, &Step::Close { process, description })?;
        }
        for step in &steps {
            take(&mut table, helpers, step)?;
        }
        compare(&table, observer, helpers)
    });
    // A failure prints the steps, shrunk, and the seed.
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// How many of these processes the kernel holds back.
fn blocked(helpers: &[Helper]) -> usize {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let waits = |helper: &Helper| {
        let pid = helper.child.id().to_string();
        locks.lines().any(|line| line.contains("->") && line.split_whitespace().any(|word| word == pid))
    };
    helpers.iter().filter(|helper| waits(helper)).count()
}

#[test]
fn a_circle_of_waits_is_refused_where_linux_refuses_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    std::fs::write(&path, [0; BYTES as usize]).expect("a file");
    let mut helpers: Vec<Helper> = (0..PROCESSES).map(|_| Helper::start(&path)).collect();
    let mut table = LockTable::new(Fence(1));
    for (process, helper) in helpers.iter_mut().enumerate() {
        let byte = (process as u64, process as u64);
        assert_eq!(helper.ask("posix", 0, LockType::Write, byte), "0");
        let asked = request(process, 0, LockKind::Posix, LockType::Write, byte);
        assert_eq!(table.acquire(&asked).0, Outcome::Granted);
    }
    for process in 0..PROCESSES {
        let byte = ((process as u64 + 1) % PROCESSES as u64, (process as u64 + 1) % PROCESSES as u64);
        let asked = LockRequest {
            wait: true,
            request: RequestId(1),
            ..request(process, 0, LockKind::Posix, LockType::Write, byte)
        };
        let (outcome, _) = table.acquire(&asked);
        helpers[process].tell("wait", 0, LockType::Write, byte);
        if process + 1 == PROCESSES {
            assert_eq!(helpers[process].answer(), errno_of(outcome));
            continue;
        }
        assert_eq!(outcome, Outcome::Waiting);
        let begun = Instant::now();
        while blocked(&helpers) <= process {
            assert!(begun.elapsed() < PATIENCE, "process {process} waits in the kernel");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let last = PROCESSES - 1;
    let byte = (last as u64, last as u64);
    assert_eq!(helpers[last].ask("posix", 0, LockType::Unlock, byte), "0");
    let (_, answers) = table.acquire(&request(last, 0, LockKind::Posix, LockType::Unlock, byte));
    let granted: Vec<u64> = answers.iter().map(|answer| answer.client.0).collect();
    assert_eq!(granted, [last as u64 - 1]);
    assert_eq!(helpers[last - 1].answer(), "0");
}
