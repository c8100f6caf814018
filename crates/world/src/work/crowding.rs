//! A directory of very many entries, which is listed in parts while entries come and go.

use super::super::task::{Outcome, Task};
use super::super::SETTLED;
use super::own_directory;
use std::collections::{BTreeMap, BTreeSet};
use weir_wire::{decode_body, At, DirectoryEntry, Errno, Ino, OpenFlags, RenameMode, Reply, Request};

/// The entries at first: many pages of the shortest listing.
const ENTRIES: u64 = 240;
const LISTINGS: u64 = 8;
/// The calls that are under way at once.
const AT_ONCE: usize = 8;
/// The most changes between two parts of a listing.
const CHANGES: u64 = 4;
/// The shortest part of a listing, and what may be more, in bytes.
const PART_BYTES: u64 = 150;
const MORE_BYTES: u64 = 3_000;
const EBADF: Errno = Errno(9);
const ESTALE: Errno = Errno(116);

/// A task with a large directory.
pub(crate) struct Crowding {
    task: Task,
    directory: Ino,
    names: BTreeSet<String>,
    made: u64,
    /// The names that were there for some time of the listing that is under way, with how often each of them came.
    seen: BTreeMap<String, u64>,
    /// The names that stayed since the listing began.
    steady: BTreeSet<String>,
}

impl Crowding {
    pub(crate) fn new(task: Task) -> Crowding {
        let (names, seen, steady) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
        Crowding { task, directory: Ino::ROOT, names, made: 0, seen, steady }
    }

    /// # Errors
    /// An entry that is not listed, or twice, or an answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        let name = format!("crowded-{}", self.task.number);
        self.directory = own_directory(&self.task, &name).await?;
        self.fill().await?;
        for _ in 0..LISTINGS {
            self.list(CHANGES).await?;
        }
        self.task.wait_until(SETTLED).await;
        self.list(0).await?;
        self.remove_all(name).await
    }

    fn home(&self) -> usize {
        usize::from(self.directory.home().0)
    }

    fn here(&self, name: &str) -> At {
        At::new(self.directory, name)
    }

    fn any_name(&self) -> Option<String> {
        self.names.iter().nth(self.task.agenda.below(self.names.len() as u64) as usize).cloned()
    }

    /// A name that never was there.
    fn new_name(&mut self) -> String {
        self.made += 1;
        let long = "x".repeat(self.task.agenda.below(40) as usize);
        format!("entry-{}-{long}", self.made)
    }

    /// Makes all entries, several at once.
    async fn fill(&mut self) -> Outcome<()> {
        while (self.names.len() as u64) < ENTRIES {
            let names: Vec<String> = (0..AT_ONCE).map(|_| self.new_name()).collect();
            let make = |name: &String| Request::Symlink { at: self.here(name), target: b"nowhere".to_vec() };
            let calls: Vec<_> =
                names.iter().map(|name| self.task.send(self.home(), make(name), &[])).collect();
            for (name, call) in names.into_iter().zip(calls) {
                match self.task.answer(call).await.0 {
                    Reply::Attributes(_) => _ = self.names.insert(name),
                    other => return Err(format!("symlink {name}: {other:?}")),
                }
            }
        }
        Ok(())
    }

    fn came(&mut self, name: &str) {
        self.names.insert(name.into());
        *self.seen.entry(name.into()).or_default() += 1;
    }

    fn went(&mut self, name: &str) {
        self.names.remove(name);
        self.steady.remove(name);
    }

    async fn expect_done(&self, what: &str, request: Request) -> Outcome<()> {
        match self.task.call(self.home(), request, &[]).await.0 {
            Reply::Failed(errno) => Err(format!("{what}: {errno:?}")),
            _ => Ok(()),
        }
    }

    /// Adds, removes or renames an entry.
    async fn change(&mut self) -> Outcome<()> {
        let Some(name) = self.any_name() else { return Ok(()) };
        let other = match self.task.agenda.by_chance(70) {
            true => self.new_name(),
            false => self.any_name().unwrap_or_default(),
        };
        match self.task.agenda.below(3) {
            0 => {
                self.went(&name);
                let request = Request::Unlink { at: self.here(&name), directory: false };
                self.expect_done(&format!("remove {name}"), request).await
            }
            1 if name != other => {
                self.went(&name);
                self.went(&other);
                self.came(&other);
                let (from, to) = (self.here(&name), self.here(&other));
                let request = Request::Rename { from, to, mode: RenameMode::Replace };
                self.expect_done(&format!("rename {name} {other}"), request).await
            }
            _ if !self.names.contains(&other) => {
                self.came(&other);
                let request = Request::Symlink { at: self.here(&other), target: b"nowhere".to_vec() };
                self.expect_done(&format!("symlink {other}"), request).await
            }
            _ => Ok(()),
        }
    }

    /// Lists the directory in parts, between which this number of changes is made at most. A client that was away for too long begins anew.
    async fn list(&mut self, changes: u64) -> Outcome<()> {
        loop {
            self.steady = self.names.clone();
            self.seen = self.names.iter().map(|name| (name.clone(), 1)).collect();
            let absences = self.task.client.borrow_mut().absences(self.home());
            let found = self.list_parts(changes).await?;
            if let Ok(found) = found {
                return self.check(&found);
            }
            if self.task.client.borrow_mut().absences(self.home()) == absences {
                return Err(format!("its description is lost: {found:?}"));
            }
        }
    }

    /// The names in the order of the listing; the refusal where the description is lost.
    async fn list_parts(&mut self, changes: u64) -> Outcome<Result<Vec<String>, Errno>> {
        let ino = self.directory;
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let request = Request::Open { at: At::inode(ino), flags, permissions: 0, layout: None };
        let handle = match self.task.call(self.home(), request, &[]).await.0 {
            Reply::Opened { handle, capability, .. } => {
                self.task.client.borrow_mut().opened(handle, capability);
                handle
            }
            other => return Err(format!("open its directory: {other:?}")),
        };
        let (mut found, mut cookie) = (Vec::new(), 0);
        loop {
            let bytes = (PART_BYTES + self.task.agenda.below(MORE_BYTES)) as u32;
            let list = Request::List { ino, handle, cookie, bytes, attributes: false };
            let (reply, payload) = self.task.call(self.home(), list, &[]).await;
            let end = match reply {
                Reply::Listing { end } => end,
                Reply::Failed(errno @ (ESTALE | EBADF)) => return Ok(Err(errno)),
                other => return Err(format!("list: {other:?}")),
            };
            let part: Vec<DirectoryEntry> =
                decode_body(&payload, "listing").map_err(|error| error.to_string())?;
            cookie = part.last().map_or(cookie, |entry| entry.cookie);
            let names = part.into_iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
            found.extend(names.filter(|name| name != "." && name != ".."));
            if end {
                self.task.close(ino, handle).await;
                return Ok(Ok(found));
            }
            for _ in 0..self.task.agenda.below(changes + 1) {
                self.change().await?;
            }
        }
    }

    fn check(&self, found: &[String]) -> Outcome<()> {
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for name in found {
            *times.entry(name).or_default() += 1;
        }
        if let Some(name) = self.steady.iter().find(|name| times.get(name.as_str()) != Some(&1)) {
            let times = times.get(name.as_str()).copied().unwrap_or(0);
            return Err(format!("{name} was there all the time, and is listed {times} times"));
        }
        match times.iter().find(|(name, times)| self.seen.get(**name).copied().unwrap_or(0) < **times) {
            Some((name, times)) => {
                Err(format!("{name} came {:?} times, and is listed {times} times", self.seen.get(*name)))
            }
            None => Ok(()),
        }
    }

    async fn remove_all(&mut self, own: String) -> Outcome<()> {
        let names: Vec<String> = std::mem::take(&mut self.names).into_iter().collect();
        for some in names.chunks(AT_ONCE) {
            let remove = |name: &String| Request::Unlink { at: self.here(name), directory: false };
            let calls: Vec<_> =
                some.iter().map(|name| self.task.send(self.home(), remove(name), &[])).collect();
            for (name, call) in some.iter().zip(calls) {
                if let Reply::Failed(errno) = self.task.answer(call).await.0 {
                    return Err(format!("remove {name} at the end: {errno:?}"));
                }
            }
        }
        let removed =
            self.task.at(At::new(Ino::ROOT, own), |at| Request::Unlink { at, directory: true }).await;
        match removed.0 {
            Reply::Failed(errno) => Err(format!("its directory is not removed: {errno:?}")),
            _ => Ok(()),
        }
    }
}
