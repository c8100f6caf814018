//! Names in a store whose disks lose power and fail: a task syncs its files, and knows what may be left of them.

use super::super::kept::{Change, Found, Kept, UNKNOWN};
use super::super::task::{Open, Outcome, Task, READ, WRITE};
use super::super::SETTLED;
use super::removing::list;
use super::{directory_kind, EIO};
use std::cell::RefCell;
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_wire::{At, AttributeChange, Ino, OpenFlags, RenameMode, Reply, Request};

/// The pause between two tries of a call that a disk refused.
const PAUSE: Nanos = Nanos::from_millis(10);
/// A disk that works again may leave its server this time for the next try to write the journal anew.
const AFTER_FAULTS: Nanos = Nanos::from_millis(3_000);
const OPERATIONS: u64 = 60;
/// Names of a task's directory: few, so that calls meet.
const NAMES: u64 = 5;
/// The largest file, in bytes: some stripes on each target.
const SIZE_MAX: u64 = 24 << 10;
/// The largest write, in bytes.
const WRITE_MAX: u64 = 9 << 10;

/// The faults of the disks of a world, as its clients know them.
pub(crate) struct Troubles {
    /// The losses of power, by server.
    losses: Vec<u64>,
    /// Disks fail until then.
    until: Nanos,
    /// Clients, each of which makes a directory.
    clients: usize,
    /// The directories that were made and synced.
    directories: Vec<Directory>,
    /// The directories that others have to make and to sync, who know more than their names.
    unready: usize,
}

/// A directory that no loss takes, with its model.
#[derive(Clone)]
pub(crate) struct Directory {
    /// The task that made it.
    task: usize,
    ino: Ino,
    kept: Rc<RefCell<Kept>>,
}

impl Troubles {
    pub(crate) fn new(servers: usize, clients: usize, unready: usize) -> Troubles {
        Troubles { losses: vec![0; servers], until: Nanos::ZERO, clients, directories: Vec::new(), unready }
    }

    /// Whether every client has a directory that no loss takes.
    pub(crate) fn are_ready(&self) -> bool {
        self.directories.len() == self.clients && self.unready == 0
    }

    /// The metadata of a server is backed up, and with it the directories there.
    pub(crate) fn back_up(&self, server: usize) {
        let there = self.directories.iter().filter(|one| usize::from(one.ino.home().0) == server);
        there.for_each(|one| one.kept.borrow_mut().back_up());
    }

    /// All directories.
    pub(crate) fn directories(&self) -> Vec<Directory> {
        self.directories.clone()
    }

    /// One more of the others has such a directory.
    pub(crate) fn note_ready(&mut self) {
        self.unready -= 1;
    }

    pub(crate) fn lose(&mut self, server: usize) {
        self.losses[server] += 1;
    }

    /// The losses of power so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.iter().sum()
    }

    pub(crate) fn fail(&mut self, until: Nanos) {
        self.until = self.until.max(until + AFTER_FAULTS);
    }

    /// Whether a disk failed since a moment.
    pub(crate) fn fails_since(&self, moment: Nanos) -> bool {
        moment <= self.until
    }
}

/// A task with a directory of its own.
pub(crate) struct Keeping {
    task: Task,
    /// The number of the task that made the directory.
    number: usize,
    directory: Ino,
    kept: Rc<RefCell<Kept>>,
    troubles: Rc<RefCell<Troubles>>,
    /// The losses that the model knows.
    losses: Vec<u64>,
    /// Whether a call of this operation may have been carried out, or not.
    is_unsure: bool,
}

impl Keeping {
    pub(crate) fn new(task: Task, troubles: &Rc<RefCell<Troubles>>) -> Keeping {
        let (troubles, losses) = (Rc::clone(troubles), troubles.borrow().losses.clone());
        let (number, kept) = (task.number, Rc::new(RefCell::new(Kept::new())));
        Keeping { task, number, directory: Ino::ROOT, kept, troubles, losses, is_unsure: false }
    }

    /// Makes some operations, and removes everything when nothing fails any more.
    ///
    /// # Errors
    /// Something that the store promised to keep is not there, or something is there that nobody wrote.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        let kind = directory_kind(&self.task);
        let make = |at| Request::Make { at, kind, permissions: 0o755 };
        self.directory = match self.task.at(self.own(), make).await.0 {
            Reply::Attributes(attributes) => attributes.ino,
            other => return Err(format!("its directory: {other:?}")),
        };
        for ino in [self.directory, Ino::ROOT] {
            match self.sync_names(At::inode(ino)).await {
                Reply::Done => {}
                other => return Err(format!("its directory is not synced: {other:?}")),
            }
        }
        let directory =
            Directory { task: self.task.number, ino: self.directory, kept: Rc::clone(&self.kept) };
        self.troubles.borrow_mut().directories.push(directory);
        self.go_on(OPERATIONS).await
    }

    /// Looks at a directory whose home has been brought back from a backup, and goes on with it.
    ///
    /// # Errors
    /// It is not as it was when it was backed up; as for [`Keeping::work`].
    pub(crate) async fn take_up(mut self, directory: Directory) -> Outcome<()> {
        (self.number, self.directory) = (directory.task, directory.ino);
        let mut restored = directory.kept.borrow().restored().ok_or("a directory was not backed up")?;
        restored.take(&self.find().await?, false, true)?;
        self.kept = Rc::new(RefCell::new(restored));
        self.go_on(OPERATIONS / 2).await
    }

    /// Makes some operations, and removes everything when nothing fails any more.
    async fn go_on(mut self, operations: u64) -> Outcome<()> {
        for _ in 0..operations {
            self.operate().await?;
        }
        self.task.wait_until(SETTLED).await;
        self.is_unsure = false;
        self.look().await?;
        let left: Vec<String> = self.kept.borrow().now().into_keys().collect();
        for name in left {
            self.remove(&name).await?;
            self.kept.borrow_mut().end();
        }
        let removed = self.task.at(self.own(), |at| Request::Unlink { at, directory: true }).await.0;
        match (removed, self.is_unsure) {
            (Reply::Failed(errno), _) => Err(format!("its directory is not removed: {errno:?}")),
            (_, true) => Err("a call at the end failed".into()),
            _ => Ok(()),
        }
    }

    /// The place of its directory.
    fn own(&self) -> At {
        At::new(Ino::ROOT, format!("task-{}", self.number))
    }

    fn any_name(&self) -> String {
        format!("name-{}", self.task.agenda.below(NAMES))
    }

    fn here(&self, name: &str) -> At {
        At::new(self.directory, name)
    }

    /// One operation. Where it may have been carried out or not, or a server lost power, the task looks what is there.
    async fn operate(&mut self) -> Outcome<()> {
        let begun = self.task.now();
        self.is_unsure = false;
        let (name, other) = (self.any_name(), self.any_name());
        let is_there = self.kept.borrow_mut().now().contains_key(&name);
        let done = match self.task.agenda.below(12) {
            2 | 3 if is_there => self.read(&name).await,
            4 if is_there => self.truncate(&name).await,
            5 | 6 if is_there && name != other => self.rename(&name, &other).await,
            7 if is_there => self.remove(&name).await,
            8 => self.sync_directory().await,
            9 => self.look().await,
            _ => self.write(&name).await,
        };
        let is_lost = self.has_lost();
        self.task.agenda.tell(|| {
            let (number, unsure, names) = (self.task.number, self.is_unsure, self.kept.borrow_mut().now());
            format!("task {number}: {name} {other}: {done:?}, lost {is_lost}, unsure {unsure}: {names:?}")
        });
        match done {
            Err(_) if is_lost || self.troubles.borrow().fails_since(begun) => self.look().await,
            Ok(()) if is_lost || self.is_unsure => self.look().await,
            done => {
                self.kept.borrow_mut().end();
                done
            }
        }
    }

    fn has_lost(&self) -> bool {
        self.troubles.borrow().losses != self.losses
    }

    /// A change that was refused: where a disk or a server was away, it may have been made.
    fn settle(&mut self, what: &str, reply: &Reply) -> Outcome<()> {
        match reply {
            Reply::Failed(EIO) => self.is_unsure = true,
            Reply::Failed(errno) => return Err(format!("{what}: {errno:?}")),
            _ => {}
        }
        Ok(())
    }

    /// Looks at everything, until no server loses power meanwhile.
    async fn look(&mut self) -> Outcome<()> {
        loop {
            let losses = self.troubles.borrow().losses.clone();
            let begun = self.task.now();
            let found = self.find().await;
            if self.troubles.borrow().losses != losses {
                continue;
            }
            match found {
                Ok(found) => {
                    let sizes = found.iter().map(|(name, (ino, bytes))| (name, ino, bytes.len()));
                    let sizes: Vec<_> = sizes.collect();
                    self.task.agenda.tell(|| format!("task {}: found {sizes:?}", self.task.number));
                    let home = usize::from(self.directory.home().0);
                    let are_lost = (losses[home] != self.losses[home], losses != self.losses);
                    let taken = self.kept.borrow_mut().take(&found, are_lost.0, are_lost.1);
                    let known = std::mem::replace(&mut self.losses, losses);
                    return taken.map_err(|fault| {
                        format!("{fault}; power was lost {known:?} times before, {:?} since", self.losses)
                    });
                }
                Err(_) if self.troubles.borrow().fails_since(begun) => {
                    self.task.wait_until(self.task.now() + PAUSE).await;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Everything that is there.
    async fn find(&self) -> Outcome<Found> {
        let mut found = Found::new();
        for entry in list(&self.task, At::inode(self.directory)).await? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let file = self.task.open(self.here(&name), READ).await;
            let mut file = file.map_err(|errno| format!("{name} ({:?}) is listed: {errno:?}", entry.ino))?;
            let size_bytes = file.size_bytes;
            let bytes = self.task.read_bytes(&mut file, size_bytes).await;
            self.task.close(file.ino, file.handle).await;
            found.insert(name, (file.ino, bytes?));
        }
        Ok(found)
    }

    /// Opens a file to write to it. A cut is made once the servers of the bytes have heard of it, and may be asked for again.
    async fn open(&mut self, name: &str, truncate: bool) -> Outcome<Open> {
        let flags = OpenFlags { truncate, ..WRITE };
        loop {
            match self.task.open(self.here(name), flags).await {
                Ok(file) => return Ok(file),
                Err(EIO) if truncate => self.task.wait_until(self.task.now() + PAUSE).await,
                Err(errno) => return Err(format!("open {name}: {errno:?}")),
            }
        }
    }

    async fn write(&mut self, name: &str) -> Outcome<()> {
        let known = self.kept.borrow_mut().now().get(name).copied();
        let is_cut = known.is_some() && self.task.agenda.by_chance(25);
        // A loss may take the name before the open, which makes a file then.
        self.kept.borrow_mut().change(Change::Make(name.into(), UNKNOWN));
        if let Some((ino, _)) = known.filter(|_| is_cut) {
            self.kept.borrow_mut().write(ino, Vec::new());
            self.kept.borrow_mut().change(Change::Cut(name.into(), 0));
        }
        let mut file = self.open(name, is_cut).await?;
        let written = self.write_to(name, &mut file, known.map(|(ino, _)| ino)).await;
        self.task.close(file.ino, file.handle).await;
        written
    }

    async fn write_to(&mut self, name: &str, file: &mut Open, known: Option<Ino>) -> Outcome<()> {
        if file.created != known.is_none() || known.is_some_and(|ino| ino != file.ino) {
            return Err(format!("{name} is {:?}, made {}, and was {known:?}", file.ino, file.created));
        }
        if known.is_none() {
            self.kept.borrow_mut().made(name, file.ino)?;
        }
        let size = self.kept.borrow_mut().now()[name].1;
        if file.size_bytes != size {
            return Err(format!("{name} has {} bytes, and had {size}", file.size_bytes));
        }
        let agenda = self.task.agenda.clone();
        let (offset, length) = (agenda.below(SIZE_MAX - WRITE_MAX), 1 + agenda.below(WRITE_MAX));
        let bytes: Vec<u8> = (0..length).map(|_| 1 + agenda.below(255) as u8).collect();
        let mut content = self.kept.borrow_mut().content(file.ino).to_vec();
        let end = (offset + length) as usize;
        content.resize(content.len().max(end), 0);
        content[offset as usize..end].copy_from_slice(&bytes);
        self.kept.borrow_mut().write(file.ino, content);
        for piece in file.layout.pieces(offset, length) {
            self.kept.borrow_mut().change(Change::Grow(file.ino, piece.file_offset + piece.length));
        }
        self.task.write_bytes(file, offset, &bytes).await?;
        match agenda.by_chance(50) {
            true => self.sync(file).await,
            false => Ok(()),
        }
    }

    /// Syncs a file: its objects, then its home's journal.
    async fn sync(&mut self, file: &mut Open) -> Outcome<()> {
        let size = self.kept.borrow_mut().content(file.ino).len() as u64;
        let layout = file.layout.clone();
        for object in (0..layout.targets().len()).filter(|&object| layout.object_bytes(object, size) > 0) {
            let request = |file: &Open| {
                let (capability, target) = (file.capability, file.layout.targets()[object]);
                (target.server, Request::SyncObject { capability, target })
            };
            let synced = self.task.transfer(file, &[], request).await?.0;
            if synced != Reply::Done {
                let target = file.layout.targets()[object];
                return Err(format!("sync of {:?} on {target}: {synced:?}", file.ino));
            }
        }
        let synced = self.sync_names(At::described(file.capability)).await;
        if synced == Reply::Done && !self.has_lost() {
            self.kept.borrow_mut().synced(Some(file.ino));
        }
        self.settle("fsync", &synced)
    }

    async fn sync_directory(&mut self) -> Outcome<()> {
        let synced = self.sync_names(At::inode(self.directory)).await;
        if synced == Reply::Done && !self.has_lost() {
            self.kept.borrow_mut().synced(None);
        }
        self.settle("fsync of its directory", &synced)
    }

    async fn sync_names(&self, at: At) -> Reply {
        self.task.call(usize::from(at.ino.home().0), Request::SyncMetadata { at }, &[]).await.0
    }

    async fn read(&mut self, name: &str) -> Outcome<()> {
        let (ino, size) = self.kept.borrow_mut().now()[name];
        let file = self.task.open(self.here(name), READ).await;
        let mut file = file.map_err(|errno| format!("open {name}: {errno:?}"))?;
        let found = self.task.read_bytes(&mut file, size).await;
        self.task.close(file.ino, file.handle).await;
        let found = found?;
        if (file.ino, file.size_bytes) != (ino, size) {
            return Err(format!(
                "{name} is {:?} of {} bytes, and was {ino:?} of {size}",
                file.ino, file.size_bytes
            ));
        }
        self.kept.borrow_mut().check((name, ino), &found)
    }

    async fn truncate(&mut self, name: &str) -> Outcome<()> {
        let size_bytes = self.task.agenda.below(SIZE_MAX);
        let (ino, _) = self.kept.borrow_mut().now()[name];
        let mut content = self.kept.borrow_mut().content(ino).to_vec();
        content.resize(size_bytes as usize, 0);
        self.kept.borrow_mut().write(ino, content);
        self.kept.borrow_mut().change(Change::Cut(name.into(), size_bytes));
        let change = AttributeChange { size_bytes: Some(size_bytes), ..AttributeChange::default() };
        let request = |at| Request::Change { at, follow: false, change };
        loop {
            match self.task.at(self.here(name), request).await.0 {
                Reply::Attributes(found) if found.size_bytes == size_bytes => return Ok(()),
                // A cut is made once the servers of the bytes have heard of it, and may be asked for again.
                Reply::Failed(EIO) => self.task.wait_until(self.task.now() + PAUSE).await,
                other => return Err(format!("truncate {name} to {size_bytes}: {other:?}")),
            }
        }
    }

    async fn rename(&mut self, from: &str, to: &str) -> Outcome<()> {
        self.kept.borrow_mut().change(Change::Rename(from.into(), to.into()));
        let (from, to) = (self.here(from), self.here(to));
        let home = usize::from(from.ino.home().0);
        let request = Request::Rename { from, to, mode: RenameMode::Replace };
        let reply = self.task.call(home, request, &[]).await.0;
        self.settle("rename", &reply)
    }

    async fn remove(&mut self, name: &str) -> Outcome<()> {
        self.kept.borrow_mut().change(Change::Remove(name.into()));
        let request = |at| Request::Unlink { at, directory: false };
        let reply = self.task.at(self.here(name), request).await.0;
        self.settle(&format!("remove {name}"), &reply)
    }
}
