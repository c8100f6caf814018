//! Programs that tests run, and bounded waits.

use crate::credentials::NOBODY;
use rustix::process::{kill_process, Pid, Signal};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Bound on every wait of a test. Nothing takes nearly as long, so only a hang meets it.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until `condition` holds; panics with `what` when it does not come true.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn send_signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether a child ends before `bound` is over.
pub(crate) fn ends_within(child: &mut Child, bound: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < bound {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// The output of a command. A command that takes too long is killed.
pub fn output(command: &mut Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process number");
    let (sender, receiver) = channel::<()>();
    let guard = std::thread::spawn(move || {
        if receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let output = child.wait_with_output().expect("its end");
    let _ = sender.send(());
    guard.join().expect("no panic");
    output
}

/// The stdout of a command that must succeed; panics with its output when it fails or takes too long.
pub fn checked(command: &mut Command) -> String {
    let output = output(command);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}\n{}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
        output.status
    );
    stdout
}

/// Defines `refused COMMAND` for calls that must fail: `sh -e` goes on after `! COMMAND`, whatever comes of it.
const REFUSED: &str =
    "refused() { if \"$@\" >/dev/null 2>&1; then echo \"not refused: $*\" >&2; exit 1; fi; }\n";

/// Runs `script` by `sh` in `folder`, with `refused COMMAND` for calls that must fail; returns its stdout.
pub fn shell(folder: &Path, script: &str) -> String {
    shell_by(Command::new("sh"), folder, script)
}

/// As [`shell`], by a command that ends in `sh`.
pub fn shell_by(mut command: Command, folder: &Path, script: &str) -> String {
    checked(command.arg("-euc").arg(format!("{REFUSED}{script}")).current_dir(folder))
}

/// Runs `script` by Python in `folder`; returns its stdout.
pub fn python(folder: &Path, script: &str) -> String {
    checked(Command::new("python3").args(["-c", script]).current_dir(folder))
}

/// `program` without the rights of root: as the user [`NOBODY`] with these supplementary groups.
pub fn as_nobody(program: &Path, groups: &[u32]) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}"));
    match groups {
        [] => command.arg("--clear-groups"),
        groups => {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.arg(format!("--groups={}", groups.join(",")))
        }
    };
    command.arg("--").arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_command_passes_and_an_accepted_one_fails() {
        let folder = tempfile::tempdir().expect("a fresh directory");
        assert_eq!(shell(folder.path(), "refused false; echo done"), "done\n");
        let accepted = std::panic::catch_unwind(|| shell(Path::new("/"), "refused true; echo done"));
        let message = *accepted.expect_err("it was accepted").downcast::<String>().expect("a text");
        assert!(message.contains("not refused: true"), "{message}");
    }
}
