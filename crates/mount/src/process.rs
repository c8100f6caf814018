//! Facts of `/proc` about the process that made a request.

use rustix::fs::{openat, Mode, OFlags, CWD};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use weir_client::wire::limits;

/// Longest environment that is searched for a credential: twice the size that `execve(2)` passes by default.
const ENVIRONMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest `/proc/PID/status` that is read: 65,536 groups (NGROUPS_MAX) of eleven characters fit.
const STATUS_BYTES_MAX: u64 = 1024 * 1024;
/// Commands of `fcntl(2)` that lock for an open description: F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW.
const DESCRIPTION_COMMANDS: std::ops::RangeInclusive<u64> = 36..=38;
/// Most looks at a caller that has not gone to sleep yet.
const SYSCALL_LOOKS_MAX: u32 = 50;
const SYSCALL_LOOK_INTERVAL: std::time::Duration = std::time::Duration::from_micros(50);

/// One run of one program: changes when the number is reused and at `execve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Incarnation {
    started_ticks: u64,
    environment_address: u64,
}

impl Incarnation {
    /// The incarnation of thread or process `pid`; `None` when it is gone or out of sight.
    pub(crate) fn of(pid: u32) -> Option<Incarnation> {
        parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// Fields 22 and 50 of `/proc/PID/stat`, see proc_pid_stat(5). The name in field 2 may hold blanks and brackets.
fn parse_stat(text: &str) -> Option<Incarnation> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let started_ticks = fields.nth(19)?.parse().ok()?;
    let environment_address = fields.nth(27).and_then(|field| field.parse().ok()).unwrap_or(0);
    Some(Incarnation { started_ticks, environment_address })
}

/// Whether `pid` is a thread of this very process.
pub(crate) fn is_own_thread(pid: u32) -> bool {
    pid != 0 && std::path::Path::new(&format!("/proc/self/task/{pid}")).exists()
}

/// A process by its open folder in `/proc`, which never becomes that of another process with the same number.
pub(crate) struct Process {
    folder: OwnedFd,
}

impl Process {
    /// Process or thread `pid`; `None` when it is gone or out of sight.
    pub(crate) fn of(pid: u32) -> Option<Process> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok().map(|folder| Process { folder })
    }

    /// Its supplementary groups, at most [`limits::GROUPS`]; none when it is gone.
    pub(crate) fn groups(&self) -> Vec<u32> {
        self.read("status", STATUS_BYTES_MAX)
            .map(|bytes| parse_groups(&String::from_utf8_lossy(&bytes)))
            .unwrap_or_default()
    }

    /// Path in the variable `name` of the environment with which it was started.
    pub(crate) fn environment_path(&self, name: &str) -> Option<PathBuf> {
        let bytes = self.read("environ", ENVIRONMENT_BYTES_MAX)?;
        find_variable(&bytes, name).map(|value| PathBuf::from(std::ffi::OsString::from_vec(value.to_vec())))
    }

    /// Its root folder, as its mounts show it.
    pub(crate) fn root(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.folder, "root", flags, Mode::empty()).ok()
    }

    fn read(&self, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        fs::File::from(file).take(bytes_max).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn parse_groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|group| group.parse().ok()).take(limits::GROUPS).collect()
}

fn find_variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environment
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .filter(|value| !value.is_empty())
}

/// Whether thread `pid`, which waits for our answer to a lock call, locks for an open description (OFD).
///
/// The kernel does not pass that on, but the thread sleeps in the very system call, and `/proc/PID/syscall` shows
/// its arguments. Where that may not be read, the call is taken for one of a process.
pub(crate) fn locks_for_description(pid: u32) -> bool {
    system_call(pid).is_some_and(|text| is_description_lock(&text))
}

/// The system call in which thread `pid` waits for our answer, as `/proc/PID/syscall` shows it; none where it may not be read.
pub(crate) fn system_call(pid: u32) -> Option<String> {
    for _ in 0..SYSCALL_LOOKS_MAX {
        match fs::read_to_string(format!("/proc/{pid}/syscall")) {
            Ok(text) if text.starts_with("running") => std::thread::sleep(SYSCALL_LOOK_INTERVAL),
            Ok(text) => return Some(text),
            Err(_) => return None,
        }
    }
    None
}

fn is_description_lock(syscall: &str) -> bool {
    let mut fields = syscall.split_ascii_whitespace();
    let number = fields.next().and_then(|field| field.parse::<i64>().ok());
    let command = fields.nth(1).and_then(|field| field.strip_prefix("0x"));
    let command = command.and_then(|field| u64::from_str_radix(field, 16).ok());
    number == Some(libc::SYS_fcntl) && command.is_some_and(|command| DESCRIPTION_COMMANDS.contains(&command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let pid = std::process::id();
        let incarnation = Incarnation::of(pid).expect("it runs");
        assert!(incarnation.started_ticks > 0);
        assert_eq!(Incarnation::of(pid), Some(incarnation));
        assert_eq!(Incarnation::of(u32::MAX), None);
        let process = Process::of(pid).expect("it runs");
        assert!(process.environment_path("PATH").is_some());
        assert_eq!(process.environment_path("PAT"), None);
        assert!(process.root().is_some());
    }

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        let mut fields = vec!["S".to_owned()];
        fields.extend((4..=52).map(|field| field.to_string()));
        let text = format!("7 (a) b) c) {}", fields.join(" "));
        assert_eq!(parse_stat(&text), Some(Incarnation { started_ticks: 22, environment_address: 50 }));
        assert_eq!(parse_stat("7 (short) S 1"), None);
    }

    #[test]
    fn groups_are_one_line_of_the_status() {
        assert_eq!(parse_groups("Name:\tx\nGroups:\t4 24 1000 \nNgid:\t0\n"), vec![4, 24, 1000]);
        assert_eq!(parse_groups("Groups:\t\n"), Vec::<u32>::new());
    }

    #[test]
    fn variables_are_found_whole() {
        let environment = b"WEIR_CREDENTIALS=/no\0WEIR_CREDENTIAL=/yes\0";
        assert_eq!(find_variable(environment, "WEIR_CREDENTIAL"), Some(&b"/yes"[..]));
        assert_eq!(find_variable(b"WEIR_CREDENTIAL=\0", "WEIR_CREDENTIAL"), None);
    }

    #[test]
    fn description_locks_are_told_by_the_command() {
        let call = |number: i64, command: &str| {
            format!("{number} 0x3 {command} 0x7ffd0 0x0 0x0 0x0 0x7ffc 0x7f1e\n")
        };
        assert!(is_description_lock(&call(libc::SYS_fcntl, "0x26")));
        assert!(!is_description_lock(&call(libc::SYS_fcntl, "0x7")));
        assert!(!is_description_lock(&call(libc::SYS_ioctl, "0x26")));
        assert!(!is_description_lock("-1 0x7ffd 0x7f1e\n"));
    }
}
