//! Reading a journal back when it is opened: the newest snapshot, then the logs that follow it.
//!
//! A break in the records is one of two things. Either the bytes behind the break are lost work that the journal promised to
//! nobody (a write that was cut short, or one that a power loss took): the reader cuts them off. Or they are damage: the reader
//! refuses the journal. A break is damage if the durable mark or a later record says that the missing record was durable. A
//! break is also damage if the log was written since the machine started and something follows the break. If the journal's
//! owner accepts the loss, the reader cuts off damage as well, and a notice says so.

use super::error::{JournalError, ACCEPT_HINT};
use super::format::{self, Content, FileHeader, Next, Reader, Refused, FILE_HEADER_BYTES};
use super::mark::{self, Mark};
use super::name::{FileName, UNFINISHED_SUFFIX};
use super::storage::Storage;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use serde::de::DeserializeOwned;

/// The decision about a journal that lost changes which were on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losses {
    /// The journal stays closed.
    #[default]
    Refused,
    /// The journal goes on from the break in its records; a notice names the lost changes.
    Accepted,
}

/// The findings at the opening of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records of the snapshot.
    pub snapshot_records: u64,
    /// Groups read from the logs.
    pub groups: u64,
    /// Lines for the log of the server about cuts and removed files; empty after a clean stop.
    pub notices: Vec<String>,
    /// The machine started anew since the last write to the journal: changes that were not durable may be gone.
    pub lost_power: bool,
    /// Changes that were durable are gone, and the owner accepted the loss.
    pub accepted_loss: bool,
}

/// A log that the recovery keeps.
#[derive(Debug)]
pub(super) struct KeptLog {
    pub(super) name: FileName,
    pub(super) bytes: u64,
}

/// The files from which the journal goes on.
#[derive(Debug)]
pub(super) struct Found {
    /// The snapshot and its length in bytes.
    pub(super) snapshot: Option<(FileName, u64)>,
    pub(super) logs: Vec<KeptLog>,
    pub(super) next: u64,
    pub(super) recovered: Recovered,
}

pub(super) struct Recovery<'a, R> {
    storage: &'a dyn Storage,
    schema: u32,
    losses: Losses,
    mark: Option<Mark>,
    witnessed: u64,
    apply: &'a mut dyn FnMut(R),
    recovered: Recovered,
    /// Records of one frame, reused.
    records: Vec<R>,
}

/// A break in the records of a log.
#[derive(Clone, Copy, Debug)]
struct Break {
    offset: u64,
    reason: &'static str,
    /// The log was written since the machine started, so no power loss can have taken anything.
    same_boot: bool,
}

/// The records behind a break.
#[derive(Clone, Copy, Debug, Default)]
struct Later {
    anything: bool,
    durable: u64,
    /// The last readable sequence.
    last: u64,
}

/// The journal's files by number. All other files stay as they are.
#[derive(Debug, Default)]
struct Names {
    snapshots: Vec<FileName>,
    logs: Vec<FileName>,
    unfinished: Vec<String>,
}

impl<'a, R: DeserializeOwned> Recovery<'a, R> {
    pub(super) fn new(
        storage: &'a dyn Storage,
        schema: u32,
        (losses, witnessed): (Losses, u64),
        apply: &'a mut dyn FnMut(R),
    ) -> Recovery<'a, R> {
        let (recovered, records) = (Recovered::default(), Vec::new());
        Recovery { storage, schema, losses, mark: None, witnessed, apply, recovered, records }
    }

    /// Hands over every record, cuts off records that the journal did not promise, and removes files that a snapshot replaced.
    pub(super) fn run(mut self) -> Result<Found, JournalError> {
        let names = self.names()?;
        self.mark = mark::read(self.storage)?;
        for name in &names.unfinished {
            self.remove(name)?;
            self.recovered.notices.push(format!("removed the unfinished {}", self.storage.describe(name)));
        }
        let snapshot = match names.snapshots.last() {
            Some(name) => Some((*name, self.read_snapshot(*name)?)),
            None => None,
        };
        let first = snapshot.map_or(1, |(name, _)| name.first);
        let replaced = names.snapshots.iter().filter(|name| Some(**name) != snapshot.map(|(name, _)| name));
        for name in replaced.chain(names.logs.iter().filter(|name| name.first < first)) {
            self.remove(&name.to_string())?;
        }
        let mut logs = Vec::new();
        for name in names.logs.into_iter().filter(|name| name.first >= first) {
            if self.holds_nothing(name)? {
                self.remove(&name.to_string())?;
            } else {
                logs.push(name);
            }
        }
        let (logs, next) = self.read_logs(&logs, first)?;
        self.check_mark(next)?;
        self.sync_kept(&logs)?;
        Ok(Found { snapshot, logs, next, recovered: self.recovered })
    }

    fn names(&self) -> Result<Names, JournalError> {
        let mut names = Names::default();
        let found = self.storage.names().map_err(JournalError::io("list", self.storage.describe("")))?;
        for name in found {
            match FileName::parse(&name) {
                Some(name) if name.content == Content::Snapshot => names.snapshots.push(name),
                Some(name) => names.logs.push(name),
                None if name.ends_with(UNFINISHED_SUFFIX) => names.unfinished.push(name),
                None => {}
            }
        }
        names.snapshots.sort_unstable();
        names.logs.sort_unstable();
        Ok(names)
    }

    /// Whether nobody appended to a log, as happens to a server that had nothing to do.
    fn holds_nothing(&self, name: FileName) -> Result<bool, JournalError> {
        let length = self.storage.open(&name.to_string()).and_then(|file| file.length());
        let length = length.map_err(JournalError::io("read", self.storage.describe(&name.to_string())))?;
        Ok(length <= FILE_HEADER_BYTES as u64)
    }

    /// Reads a snapshot and answers its length. A snapshot got its name when it was whole and durable: anything else is damage.
    fn read_snapshot(&mut self, name: FileName) -> Result<u64, JournalError> {
        let (mut reader, header) = self.open(name)?;
        if header.is_none_or(|header| header.first != name.first) {
            return Err(self.damaged(name, 0, "a snapshot without its head", String::new()));
        }
        let mut frames = 0;
        loop {
            let offset = reader.offset();
            let damage = match self.next(name, &mut reader)? {
                Next::Frame(frame) if frame.sequence != frames + 1 => "a record out of order",
                Next::Frame(frame) if frame.payload_bytes == 0 => {
                    if frame.durable == self.recovered.snapshot_records {
                        return Ok(reader.offset());
                    }
                    "a wrong count of records"
                }
                Next::Frame(_) => {
                    frames += 1;
                    let count = self.apply_payload(name, offset, reader.payload())?;
                    self.recovered.snapshot_records += count;
                    continue;
                }
                Next::End => "the missing end of a snapshot",
                Next::Broken(reason) => reason,
            };
            return Err(self.damaged(name, offset, damage, String::new()));
        }
    }

    fn read_logs(&mut self, names: &[FileName], first: u64) -> Result<(Vec<KeptLog>, u64), JournalError> {
        let mut next = first;
        let mut kept: Vec<KeptLog> = Vec::new();
        let mut same_boot = false;
        for (index, name) in names.iter().enumerate() {
            if name.first != next {
                // The log before this one lost its end, from a place where a record would begin.
                let reason = "the next log's predecessors missing,";
                let before = kept.last().map(|log| (log.name, log.bytes));
                let broken = Break { offset: before.map_or(0, |(_, bytes)| bytes), reason, same_boot };
                self.cut(before.map_or(*name, |(name, _)| name), broken, None, next, &names[index..])?;
                break;
            }
            let (mut reader, header) = self.open(*name)?;
            let broken = if header.is_some_and(|header| header.first == name.first) {
                same_boot =
                    header.is_some_and(|header| header.boot == self.storage.boot() && header.boot != 0);
                self.recovered.lost_power = !same_boot;
                let broken = self.read_log(*name, &mut reader, &mut next)?;
                kept.push(KeptLog { name: *name, bytes: reader.offset() });
                broken.map(|reason| Break { offset: reader.offset(), reason, same_boot })
            } else {
                Some(Break { offset: 0, reason: "a log without its head", same_boot: false })
            };
            if let Some(broken) = broken {
                self.cut(*name, broken, Some(&mut reader), next, &names[index + 1..])?;
                break;
            }
        }
        Ok((kept, next))
    }

    /// Applies the groups of one log; answers the reason if they break off.
    fn read_log(
        &mut self,
        name: FileName,
        reader: &mut Reader,
        next: &mut u64,
    ) -> Result<Option<&'static str>, JournalError> {
        loop {
            let offset = reader.offset();
            match self.next(name, reader)? {
                #[cfg(any(test, feature = "world"))]
                Next::Frame(frame) if mutants::is(Mutant::RecordSkipped) && self.is_last(name, reader) => {
                    *next = frame.sequence + 1;
                }
                Next::Frame(frame) if frame.sequence == *next && frame.payload_bytes > 0 => {
                    self.apply_payload(name, offset, reader.payload())?;
                    self.recovered.groups += 1;
                    *next += 1;
                }
                Next::Frame(_) => {
                    return Err(self.damaged(name, offset, "a record out of order", String::new()));
                }
                Next::End => return Ok(None),
                Next::Broken(reason) => return Ok(Some(reason)),
            }
        }
    }

    /// Whether nothing follows in a log.
    #[cfg(any(test, feature = "world"))]
    fn is_last(&self, name: FileName, reader: &Reader) -> bool {
        let length = self.storage.open(&name.to_string()).and_then(|file| file.length());
        length.is_ok_and(|length| length == reader.offset())
    }

    /// Cuts the log at the break and removes the logs behind the log, or refuses the journal.
    fn cut(
        &mut self,
        name: FileName,
        broken: Break,
        rest: Option<&mut Reader>,
        missing: u64,
        behind: &[FileName],
    ) -> Result<(), JournalError> {
        let later = self.look_behind(name, rest, missing, behind)?;
        let durable = later.durable.max(self.marked());
        if durable >= missing || (broken.same_boot && later.anything) {
            let lost = durable.max(later.last).max(missing) - missing + 1;
            let what = format!(
                "{lost} groups of changes from number {missing} on, of which {} were on stable storage",
                (durable + 1).saturating_sub(missing)
            );
            if self.losses == Losses::Refused {
                let give_up = format!(", or give up {what}: {ACCEPT_HINT}");
                return Err(self.damaged(name, broken.offset, broken.reason, give_up));
            }
            self.accept_loss(&what);
        }
        let described = self.storage.describe(&name.to_string());
        if broken.offset < FILE_HEADER_BYTES as u64 {
            // A log without its head would be in the way of the log that begins at the same record.
            self.remove(&name.to_string())?;
        } else {
            let file = self.storage.open(&name.to_string()).map_err(JournalError::io("open", &*described))?;
            file.truncate(broken.offset).map_err(JournalError::io("cut", &*described))?;
        }
        for behind in behind.iter().filter(|behind| **behind != name) {
            self.remove(&behind.to_string())?;
        }
        let promise = match self.mark {
            _ if self.recovered.accepted_loss => "see above for what that gives up",
            Some(_) => "nothing that was on stable storage is missing",
            None => "whether any of it was on stable storage is not known, as there is no durable mark",
        };
        self.recovered.notices.push(format!(
            "cut {described} at byte {} and removed {} logs behind it: {} there; {promise}",
            broken.offset,
            behind.len(),
            broken.reason
        ));
        Ok(())
    }

    /// The last sequence that the mark, or others, know to have been durable.
    fn marked(&self) -> u64 {
        self.mark.map_or(0, |mark| mark.through).max(self.witnessed)
    }

    /// Compares the last record with the mark. A log that was cut between two records is whole and ends too early: only the
    /// mark shows the cut.
    fn check_mark(&mut self, next: u64) -> Result<(), JournalError> {
        let durable = self.marked();
        if durable < next || self.recovered.accepted_loss {
            return Ok(());
        }
        let what = format!("{} groups of changes, from number {next} to {durable}", durable + 1 - next);
        if self.losses == Losses::Refused {
            let directory = self.storage.describe("");
            return Err(JournalError::Lost { directory, last: next - 1, durable, what });
        }
        self.accept_loss(&what);
        Ok(())
    }

    fn accept_loss(&mut self, what: &str) {
        self.recovered.accepted_loss = true;
        let directory = self.storage.describe("");
        self.recovered.notices.push(format!("accepted the loss of {what}, in the journal {directory}"));
    }

    fn look_behind(
        &mut self,
        name: FileName,
        rest: Option<&mut Reader>,
        missing: u64,
        behind: &[FileName],
    ) -> Result<Later, JournalError> {
        let mut later = Later::default();
        if let Some(reader) = rest {
            self.collect(name, reader, missing, &mut later)?;
        }
        for name in behind {
            let (mut reader, header) = self.open(*name)?;
            later.anything |= header.is_some();
            later.durable = later.durable.max(header.map_or(0, |header| header.durable));
            self.collect(*name, &mut reader, missing, &mut later)?;
        }
        Ok(later)
    }

    fn collect(
        &self,
        name: FileName,
        reader: &mut Reader,
        missing: u64,
        later: &mut Later,
    ) -> Result<(), JournalError> {
        loop {
            let found = match self.next(name, reader)? {
                Next::Frame(frame) => Some(frame),
                Next::End => None,
                Next::Broken(_) => {
                    let found = reader.find_later(missing);
                    found.map_err(JournalError::io("read", self.storage.describe(&name.to_string())))?
                }
            };
            let Some(frame) = found else { return Ok(()) };
            later.anything = true;
            later.durable = later.durable.max(frame.durable);
            later.last = later.last.max(frame.sequence);
        }
    }

    /// Syncs the logs that stay. Their bytes may be in the kernel's memory only, and from here on they count as durable.
    fn sync_kept(&self, logs: &[KeptLog]) -> Result<(), JournalError> {
        for log in logs {
            let name = log.name.to_string();
            let synced = self.storage.open(&name).and_then(|file| file.sync());
            synced.map_err(JournalError::io("sync", self.storage.describe(&name)))?;
        }
        self.storage.sync_directory().map_err(JournalError::io("sync", self.storage.describe("")))
    }

    fn apply_payload(&mut self, name: FileName, offset: u64, payload: &[u8]) -> Result<u64, JournalError> {
        self.records.clear();
        if !format::decode(payload, &mut self.records) {
            return Err(self.damaged(name, offset, "a record of an unknown kind", String::new()));
        }
        let count = self.records.len() as u64;
        self.records.drain(..).for_each(&mut *self.apply);
        Ok(count)
    }

    fn open(&self, name: FileName) -> Result<(Reader, Option<FileHeader>), JournalError> {
        let text = name.to_string();
        let opened = self
            .storage
            .open(&text)
            .and_then(|file| Reader::open(file, name.content, self.schema, name.salt));
        let (reader, header) = opened.map_err(JournalError::io("read", self.storage.describe(&text)))?;
        match header {
            Ok(header) => Ok((reader, Some(header))),
            Err(Refused::Broken) => Ok((reader, None)),
            Err(Refused::Format { found, expected }) => {
                Err(JournalError::Format { file: self.storage.describe(&text), found, expected })
            }
        }
    }

    fn next(&self, name: FileName, reader: &mut Reader) -> Result<Next, JournalError> {
        reader.next().map_err(JournalError::io("read", self.storage.describe(&name.to_string())))
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        self.storage.remove(name).map_err(JournalError::io("remove", self.storage.describe(name)))
    }

    fn damaged(&self, name: FileName, offset: u64, reason: &'static str, give_up: String) -> JournalError {
        JournalError::Damaged { file: self.storage.describe(&name.to_string()), offset, reason, give_up }
    }
}
