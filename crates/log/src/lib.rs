//! Lines of a daemon's log, each with its time and its level.
//!
//! The log is the standard error of the process, so that words of libraries and panics stand in it, too. It is a file of
//! bounded size that begins anew ([`begin`]), or the journal of systemd, which adds times by itself.
#![forbid(unsafe_code)]

use rustix::fs::{Mode, OFlags};
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes of a log after which a new one begins: some ten thousand lines. The log before is kept, so a daemon's logs take twice as
/// much.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Ending of the name of the log before.
pub const OLDER: &str = ".1";

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A deed of the daemon.
    Info,
    /// A fault that the daemon lives with.
    Warning,
    /// A fault that ends the daemon, or a part of its work.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        }
    }

    /// The priority by which the journal knows the level (sd-daemon(3)).
    fn priority(self) -> u8 {
        match self {
            Level::Info => 6,
            Level::Warning => 4,
            Level::Error => 3,
        }
    }
}

/// The place of the lines.
enum Place {
    /// Standard error, for a person.
    Stderr,
    Journal,
    File(PathBuf),
}

static PLACE: Mutex<Place> = Mutex::new(Place::Stderr);

/// Sends all further lines, and all other words on standard error, to a file; without one, to the journal where standard error
/// belongs to it.
///
/// # Errors
/// The file cannot be opened.
pub fn begin(file: Option<&Path>) -> io::Result<()> {
    let place = match file {
        Some(path) => {
            let path = std::path::absolute(path)?;
            rustix::stdio::dup2_stderr(open(&path)?)?;
            Place::File(path)
        }
        None if is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref()) => Place::Journal,
        None => Place::Stderr,
    };
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = place;
    Ok(())
}

/// Writes a line. A log that cannot be written, on a full disk, loses the line and not the daemon: the standard library's own macro
/// panics then.
pub fn write(level: Level, program: &str, words: Arguments<'_>) {
    let place = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let line = match &*place {
        Place::Journal => format!("<{}>{program}: {words}\n", level.priority()),
        Place::Stderr | Place::File(_) => {
            let time = humantime::format_rfc3339_millis(SystemTime::now());
            format!("{time} {} {program}: {words}\n", level.name())
        }
    };
    if let Place::File(path) = &*place {
        if !has_room(path, line.len() as u64, FILE_BYTES_MAX) {
            return;
        }
    }
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes an error that ends the program: as a line of the log, or in the form `error: …` for a person or a program that started
/// this one without a log.
pub fn complain(program: &str, words: Arguments<'_>) {
    let is_for_a_person = matches!(*PLACE.lock().unwrap_or_else(PoisonError::into_inner), Place::Stderr);
    if is_for_a_person {
        let _ = io::stderr().write_all(format!("error: {words}\n").as_bytes());
    } else {
        write(Level::Error, program, words);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Begins the log anew where it would become longer than `most`; tells whether the line may be written. Where no new log can be
/// begun, the old one is written up to twice its length, and then no more.
fn has_room(path: &Path, line: u64, most: u64) -> bool {
    let Ok(present) = rustix::fs::fstat(io::stderr()) else { return true };
    let length = u64::try_from(present.st_size).unwrap_or(0);
    if length + line <= most {
        return true;
    }
    let mut older = path.as_os_str().to_owned();
    older.push(OLDER);
    let begun = std::fs::rename(path, older)
        .and_then(|()| open(path))
        .and_then(|file| Ok(rustix::stdio::dup2_stderr(file)?));
    begun.is_ok() || length + line <= 2 * most
}

/// Whether standard error is the stream of the journal that `JOURNAL_STREAM` names by device and inode (systemd.exec(5)).
fn is_journal(stream: Option<&str>) -> bool {
    let Some((device, inode)) = stream.and_then(|stream| stream.split_once(':')) else { return false };
    let known = device.parse::<u64>().ok().zip(inode.parse::<u64>().ok());
    let present = rustix::fs::fstat(io::stderr()).ok().map(|file| (file.st_dev, file.st_ino));
    known.is_some() && known == present
}
