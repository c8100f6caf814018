//! The audit of a server: who asked it for which change, and what came of each.
//!
//! [`Audit`] is driven by whoever may block. A change is noted before it is made ([`Audit::begin`]) and after
//! ([`Audit::end`]), so a change that is in force has an entry, whatever ends the server. A request without right has
//! one entry ([`Audit::refuse`]). The newest entries lie in memory and in one file of lines, both of bounded size.

mod entry;
#[cfg(test)]
mod tests;

pub use entry::{Asked, Entry, Outcome};

use crate::journal::{File, Storage};
use crate::notices::warning;
use entry::Class;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

const FILE: &str = "audit.log";
/// The name of a file that could not be read.
const UNREAD: &str = "audit.log.unread";
/// Most entries: years of changes by people.
pub const ENTRIES_MAX: usize = 4096;
/// Most of them of requests without right, and most of leases: whoever repeats either pushes no other entry out.
pub const CLASS_ENTRIES_MAX: usize = 1024;
/// Longest file. The entries take half of it at most, so that a file of them alone leaves room for as many.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// Refusals of one caller within this time are one entry.
const REFUSALS_TOGETHER_SECONDS: f64 = 60.0;

/// The entries of one server, and their file.
pub struct Audit {
    storage: Arc<dyn Storage>,
    /// None until the first entry is written.
    file: Option<File>,
    /// Bytes of the file that hold whole lines.
    length: u64,
    /// The entries, oldest first, each with the bytes of its line.
    entries: VecDeque<(Entry, usize)>,
    last: u64,
}

impl Audit {
    /// The entries that are kept in `storage`. Lines that are damaged are left out, with a warning in the log. The
    /// call blocks.
    pub fn open(storage: Arc<dyn Storage>) -> Audit {
        let mut audit = Audit { storage, file: None, length: 0, entries: VecDeque::new(), last: 0 };
        let found = audit.storage.open(FILE).and_then(|file| {
            let bytes = file.read_whole(2 * FILE_BYTES_MAX as usize)?;
            Ok((file, bytes))
        });
        match found {
            Ok((file, bytes)) => audit.take(file, &bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                // A new file is begun, which must not replace what may be read another time.
                let kept = audit.storage.rename(FILE, UNREAD);
                let (file, unread) = (audit.storage.describe(FILE), audit.storage.describe(UNREAD));
                match kept {
                    Ok(()) => warning!("{file} cannot be read: {error}; it is {unread} now"),
                    Err(also) => warning!("{file} cannot be read: {error}; nor renamed: {also}"),
                }
            }
        }
        audit
    }

    /// Notes a change before it is made, on stable storage; answers its number. The call blocks.
    ///
    /// # Errors
    /// It cannot be written; then the change is not to be made.
    pub fn begin(&mut self, asked: Asked, at: f64) -> io::Result<u64> {
        let number = self.next_number();
        let entry = Entry::new(number, at, asked, Outcome::Unknown, None);
        if let Err(error) = self.write(entry.clone(), true) {
            let failed = entry.ended(Outcome::Failed, Some(format!("the audit cannot be kept: {error}")));
            self.keep(failed, line(&entry).len());
            return Err(error);
        }
        Ok(number)
    }

    /// Notes the outcome of a change that began, on stable storage. The call blocks.
    ///
    /// # Errors
    /// The outcome is in memory alone.
    pub fn end(&mut self, number: u64, outcome: Outcome, reason: Option<String>) -> io::Result<()> {
        let found = self.entries.iter().rev().find(|(entry, _)| entry.number == number);
        let Some((entry, _)) = found else { return Ok(()) };
        self.write(entry.ended(outcome, reason), true)
    }

    /// Notes a change of which nothing outlives the server. The call blocks.
    ///
    /// # Errors
    /// The entry is in memory alone.
    pub fn note(
        &mut self,
        asked: Asked,
        at: f64,
        outcome: Outcome,
        reason: Option<String>,
    ) -> io::Result<()> {
        self.write(Entry::new(self.next_number(), at, asked, outcome, reason), false)
    }

    /// Notes a request without right; one that a caller repeats is counted. The call blocks.
    ///
    /// # Errors
    /// As [`Audit::note`].
    pub fn refuse(&mut self, asked: Asked, at: f64, reason: Option<String>) -> io::Result<()> {
        let mut recent = self.entries.iter_mut().rev().map(|(entry, _)| entry);
        match recent.find(|entry| entry.is_refusal_of(&asked)) {
            Some(entry) if at - entry.at < REFUSALS_TOGETHER_SECONDS => {
                entry.times = entry.times.saturating_add(1);
                Ok(())
            }
            _ => self.note(asked, at, Outcome::Refused, reason),
        }
    }

    /// The entries above a number, oldest first.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(entry, _)| entry).filter(move |entry| entry.number > number)
    }

    /// The number of the next entry. A file may claim that the last one had any number.
    fn next_number(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// Takes up the lines of the file; a last one without an end was cut off by a kill or a power loss.
    fn take(&mut self, file: File, bytes: &[u8]) {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut damaged = 0;
        for line in bytes[..whole].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Entry>(line) {
                Ok(entry) => self.keep(entry, line.len() + 1),
                Err(_) => damaged += 1,
            }
        }
        if damaged > 0 {
            warning!("{} has {damaged} lines that are no entries", self.storage.describe(FILE));
        }
        self.trim();
        self.length = whole as u64;
        self.file = Some(file);
    }

    /// Writes an entry. It stays in memory also where that fails.
    fn write(&mut self, entry: Entry, is_lasting: bool) -> io::Result<()> {
        let line = line(&entry);
        self.keep(entry, line.len());
        self.trim();
        if self.length + line.len() as u64 > FILE_BYTES_MAX {
            return self.write_anew();
        }
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = self.storage.create(FILE)?;
                self.storage.sync_directory()?;
                self.file.insert(file).clone()
            }
        };
        // A write that failed half-way left a part of a line behind.
        file.truncate(self.length)?;
        file.write_all_at(&line, self.length)?;
        if is_lasting {
            file.sync()?;
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Replaces the file by one of the present entries alone.
    fn write_anew(&mut self) -> io::Result<()> {
        let lines: Vec<u8> = self.entries.iter().flat_map(|(entry, _)| line(entry)).collect();
        self.storage.replace(FILE, &lines)?;
        self.file = Some(self.storage.open(FILE)?);
        self.length = lines.len() as u64;
        Ok(())
    }

    /// Keeps an entry in memory, in the place of that of its number.
    fn keep(&mut self, entry: Entry, bytes: usize) {
        self.last = self.last.max(entry.number);
        match self.entries.iter_mut().rev().find(|(known, _)| known.number == entry.number) {
            Some(known) => *known = (entry, bytes),
            None => self.entries.push_back((entry, bytes)),
        }
    }

    /// Lets the oldest entries beyond the bounds go.
    fn trim(&mut self) {
        for class in [Class::Refusal, Class::Lease] {
            let of_class = self.entries.iter().filter(|(entry, _)| entry.class() == class).count();
            let mut excess = of_class.saturating_sub(CLASS_ENTRIES_MAX);
            self.entries.retain(|(entry, _)| {
                let goes = excess > 0 && entry.class() == class;
                excess -= usize::from(goes);
                !goes
            });
        }
        let mut bytes: u64 = self.entries.iter().map(|(_, bytes)| *bytes as u64).sum();
        while self.entries.len() > ENTRIES_MAX || bytes > FILE_BYTES_MAX / 2 {
            let Some((_, gone)) = self.entries.pop_front() else { break };
            bytes -= gone as u64;
        }
    }
}

fn line(entry: &Entry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}
