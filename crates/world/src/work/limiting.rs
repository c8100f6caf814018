//! A user that meets its limits: whatever fits is done, whatever does not is refused, and a refused call changes nothing.

use super::super::histories::uses::{LIMITED, LIMITS};
use super::super::task::{Failure, Open, Outcome, Task, WRITE};
use super::super::SETTLED;
use super::{own_directory, Troubles, EIO};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_wire::{At, AttributeChange, Attributes, Errno, Ino, QuotaUse, Reply, Request, XattrMode};

const OPERATIONS: u64 = 60;
/// Names of the task's directory: more than its user may have inodes.
const NAMES: u64 = 7;
/// The largest file, in stripes: more than its user may have.
const STRIPES: u64 = 12;
const STRIPE_BYTES: u64 = 4 << 10;
const PAGE_BYTES: u64 = 4 << 10;
/// The longest value of an attribute.
const VALUE_BYTES: u64 = 10 << 10;
const ATTRIBUTE: &str = "user.value";
/// Bytes of names and attributes that come with an inode, and what a name and an attribute cost beside their text: `docs/guides/quotas.md`.
const INCLUDED_BYTES: u64 = 1024;
const NAME_BYTES: u64 = 192;
const ATTRIBUTE_BYTES: u64 = 128;
/// All servers run again by then, and count what they did not lose.
const RESTED: Nanos = Nanos::from_millis(40_000);
const PAUSE: Nanos = Nanos::from_millis(20);
/// Tries of a call that fits, once nothing fails any more: the reports of one moment cost one of them at most.
const TRIES: u64 = 3;
const ENOENT: Errno = Errno(2);
const EDQUOT: Errno = Errno(122);

/// A file of the model.
#[derive(Clone, Debug, PartialEq)]
struct File {
    ino: Ino,
    size_bytes: u64,
    value_bytes: Option<u64>,
}

/// A task of a user with limits.
pub(crate) struct Limiting {
    task: Task,
    servers: usize,
    directory: Ino,
    files: BTreeMap<String, File>,
    troubles: Rc<RefCell<Troubles>>,
    losses: u64,
    /// Whether a server may refuse what fits, as it has not heard yet what went on another one.
    may_be_late: bool,
}

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES)
}

impl File {
    fn cost(&self, name: &str) -> u64 {
        let value = self.value_bytes.map_or(0, |bytes| ATTRIBUTE_BYTES + ATTRIBUTE.len() as u64 + bytes);
        let described = NAME_BYTES + name.len() as u64 + value;
        pages(self.size_bytes) + pages(described.saturating_sub(INCLUDED_BYTES))
    }
}

impl Limiting {
    pub(crate) fn new(task: Task, servers: usize, troubles: &Rc<RefCell<Troubles>>) -> Limiting {
        let (troubles, losses) = (Rc::clone(troubles), troubles.borrow().losses());
        let (directory, files, may_be_late) = (Ino::ROOT, BTreeMap::new(), servers > 1);
        Limiting { task, servers, directory, files, troubles, losses, may_be_late }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        while self.task.histories.borrow().uses.limited() < self.servers {
            self.task.wait_until(self.task.now() + PAUSE).await;
        }
        self.directory = own_directory(&self.task, &self.own()).await?;
        self.sync().await?;
        self.troubles.borrow_mut().note_ready();
        for _ in 0..OPERATIONS {
            self.operate().await?;
        }
        self.task.wait_until(RESTED).await;
        if self.losses != self.troubles.borrow().losses() {
            // A loss since the last operation has taken what was not synced.
            self.look().await?;
            self.note_rest(true);
        }
        self.task.wait_until(SETTLED).await;
        self.look().await?;
        self.may_be_late = false;
        self.meet_limits().await?;
        self.use_room().await?;
        self.remove_all().await
    }

    fn own(&self) -> String {
        format!("limited-{}", self.task.number)
    }

    fn here(&self, name: &str) -> At {
        At::new(self.directory, name)
    }

    async fn sync(&self) -> Outcome<()> {
        for ino in [self.directory, Ino::ROOT] {
            let request = Request::SyncMetadata { at: At::inode(ino) };
            match self.task.call(usize::from(ino.home().0), request, &[]).await.0 {
                Reply::Done => {}
                other => return Err(format!("its directory is not synced: {other:?}")),
            }
        }
        Ok(())
    }

    async fn stat(&self, at: At) -> Outcome<Option<Attributes>> {
        let what = format!("{at:?}");
        match self.task.at(at, |at| Request::Attributes { at, follow: false }).await.0 {
            Reply::Attributes(attributes) => Ok(Some(attributes)),
            Reply::Failed(ENOENT) => Ok(None),
            other => Err(format!("stat {what}: {other:?}")),
        }
    }

    /// The use by the model; the directory is an inode as well.
    fn used(&self) -> QuotaUse {
        let bytes = self.files.iter().map(|(name, file)| file.cost(name)).sum();
        QuotaUse { bytes, inodes: 1 + self.files.len() as u64 }
    }

    fn note_rest(&self, is_at_rest: bool) {
        self.task.histories.borrow_mut().uses.note(is_at_rest.then(|| self.used()));
    }

    /// One operation. Where a disk failed or a server lost power, the task looks what is there.
    async fn operate(&mut self) -> Outcome<()> {
        let begun = self.task.now();
        self.note_rest(false);
        let name = format!("name-{}", self.task.agenda.below(NAMES));
        let done = match self.task.agenda.below(8) {
            0 | 1 => self.truncate(&name).await,
            2 => self.remove(&name).await,
            3 => self.attribute(&name).await,
            _ => self.write(&name).await,
        };
        let (is_lost, fails) = {
            let troubles = self.troubles.borrow();
            (troubles.losses() != self.losses, troubles.fails_since(begun))
        };
        let used = self.used();
        self.task
            .agenda
            .tell(|| format!("task {}: {name}: {done:?}, lost {is_lost}: {used:?}", self.task.number));
        match done {
            Err(_) if fails => self.look().await?,
            _ if is_lost => self.look().await?,
            done => done?,
        }
        self.note_rest(true);
        Ok(())
    }

    /// Takes over what is there.
    async fn look(&mut self) -> Outcome<()> {
        loop {
            self.losses = self.troubles.borrow().losses();
            self.files.clear();
            for name in (0..NAMES).map(|number| format!("name-{number}")) {
                let Some(found) = self.stat(self.here(&name)).await? else { continue };
                let get = |at| Request::XattrGet { at, follow: false, name: ATTRIBUTE.into() };
                let value_bytes = match self.task.at(self.here(&name), get).await {
                    (Reply::Value, value) => Some(value.len() as u64),
                    _ => None,
                };
                self.files.insert(name, File { ino: found.ino, size_bytes: found.size_bytes, value_bytes });
            }
            if self.losses == self.troubles.borrow().losses() {
                return Ok(());
            }
        }
    }

    /// Whether an answer is right to a call that needs so much more.
    fn judge(&self, what: &str, growth: QuotaUse, errno: Option<Errno>) -> Outcome<bool> {
        let used = self.used();
        let fits = |used: u64, growth: u64, most: Option<u64>| {
            growth == 0 || most.is_none_or(|most| used + growth <= most)
        };
        let fits =
            fits(used.bytes, growth.bytes, LIMITS.bytes) && fits(used.inodes, growth.inodes, LIMITS.inodes);
        let is_unsure = self.may_be_late || self.task.histories.borrow().uses.are_unsure(self.task.now());
        match errno {
            None if fits => Ok(true),
            Some(EDQUOT) if !fits || is_unsure => Ok(false),
            other => Err(format!(
                "user {LIMITED}: {what}: {other:?}, used {used:?}, more {growth:?}: {:?}",
                self.files
            )),
        }
    }

    fn growth(&self, name: &str, then: &File) -> QuotaUse {
        let now = self.files.get(name).map_or(0, |file| file.cost(name));
        QuotaUse {
            bytes: then.cost(name).saturating_sub(now),
            inodes: u64::from(!self.files.contains_key(name)),
        }
    }

    /// Opens a file, and makes it where there is none and one more may be.
    async fn open(&mut self, name: &str) -> Outcome<Option<Open>> {
        let is_new = !self.files.contains_key(name);
        let opened = self.task.open(self.here(name), WRITE).await;
        let growth = QuotaUse { bytes: 0, inodes: u64::from(is_new) };
        if !self.judge(&format!("open {name}"), growth, opened.as_ref().err().copied())? {
            return Ok(None);
        }
        let Ok(file) = opened else { return Ok(None) };
        let known = self.files.get(name).map(|file| (file.ino, file.size_bytes));
        if file.created != is_new || known.is_some_and(|known| known != (file.ino, file.size_bytes)) {
            self.task.close(file.ino, file.handle).await;
            return Err(format!("{name} is {:?} of {} bytes, and was {known:?}", file.ino, file.size_bytes));
        }
        if is_new {
            self.files.insert(name.into(), File { ino: file.ino, size_bytes: 0, value_bytes: None });
        }
        Ok(Some(file))
    }

    /// Writes a part of one stripe.
    async fn write(&mut self, name: &str) -> Outcome<()> {
        let Some(mut file) = self.open(name).await? else { return Ok(()) };
        let offset = self.task.agenda.below(STRIPES) * STRIPE_BYTES;
        let length = 1 + self.task.agenda.below(STRIPE_BYTES);
        let written = self.write_at(name, &mut file, offset, length).await;
        self.task.close(file.ino, file.handle).await;
        written
    }

    async fn write_at(&mut self, name: &str, file: &mut Open, offset: u64, length: u64) -> Outcome<()> {
        let Some(known) = self.files.get(name).cloned() else { return Ok(()) };
        let then = File { size_bytes: known.size_bytes.max(offset + length), ..known };
        let growth = self.growth(name, &then);
        let errno = match self.task.write_bytes(file, offset, &vec![1; length as usize]).await {
            Ok(()) => None,
            Err(Failure::Refused(errno)) => Some(errno),
            Err(failure) => return Err(failure.into()),
        };
        if self.judge(&format!("write {name} {offset}+{length}"), growth, errno)? {
            self.files.insert(name.into(), then);
        }
        self.check_size(name).await
    }

    /// A refused call changes nothing, and one that was done everything.
    async fn check_size(&self, name: &str) -> Outcome<()> {
        let found = self.stat(self.here(name)).await?.map(|found| (found.ino, found.size_bytes));
        let known = self.files.get(name).map(|file| (file.ino, file.size_bytes));
        match found == known {
            true => Ok(()),
            false => Err(format!("{name} is {found:?}, and should be {known:?}")),
        }
    }

    async fn truncate(&mut self, name: &str) -> Outcome<()> {
        let size_bytes = self.task.agenda.below(STRIPES * STRIPE_BYTES);
        self.resize(name, size_bytes).await
    }

    async fn resize(&mut self, name: &str, size_bytes: u64) -> Outcome<()> {
        let Some(known) = self.files.get(name).cloned() else { return Ok(()) };
        let then = File { size_bytes, ..known };
        let change = AttributeChange { size_bytes: Some(size_bytes), ..AttributeChange::default() };
        let request = |at| Request::Change { at, follow: false, change };
        let errno = loop {
            match self.task.at(self.here(name), request).await.0 {
                // A cut is made once the servers of the bytes have heard of it, and may be asked for again.
                Reply::Failed(EIO) => self.task.wait_until(self.task.now() + PAUSE).await,
                Reply::Failed(errno) => break Some(errno),
                _ => break None,
            }
        };
        if self.judge(&format!("truncate {name} to {size_bytes}"), self.growth(name, &then), errno)? {
            self.files.insert(name.into(), then);
        }
        self.check_size(name).await
    }

    async fn remove(&mut self, name: &str) -> Outcome<()> {
        let reply = self.task.at(self.here(name), |at| Request::Unlink { at, directory: false }).await.0;
        match (reply, self.files.remove(name)) {
            (Reply::Failed(ENOENT), None) => Ok(()),
            (Reply::Failed(errno), known) => Err(format!("remove {name}: {errno:?}, was {known:?}")),
            (_, Some(_)) => Ok(()),
            (reply, None) => Err(format!("remove {name}: {reply:?}, and it was not there")),
        }
    }

    /// Sets an extended attribute, of which pages are counted.
    async fn attribute(&mut self, name: &str) -> Outcome<()> {
        let Some(known) = self.files.get(name).cloned() else { return Ok(()) };
        let length = self.task.agenda.below(VALUE_BYTES);
        let then = File { value_bytes: Some(length), ..known };
        let set = |at| Request::XattrSet { at, follow: false, name: ATTRIBUTE.into(), mode: XattrMode::Set };
        let reply = self.task.at_with(self.here(name), set, &vec![b'v'; length as usize]).await.0;
        let errno = match reply {
            Reply::Failed(errno) => Some(errno),
            _ => None,
        };
        if self.judge(&format!("setxattr {name} of {length} bytes"), self.growth(name, &then), errno)? {
            self.files.insert(name.into(), then);
        }
        Ok(())
    }

    /// Once nothing fails any more the limits are met exactly: each byte and inode within is given, and none beyond.
    async fn meet_limits(&mut self) -> Outcome<()> {
        for number in 0..NAMES {
            let Some(file) = self.open(&format!("name-{number}")).await? else { continue };
            self.task.close(file.ino, file.handle).await;
        }
        let Some(name) = self.files.keys().next().cloned() else { return Ok(()) };
        for stripe in 0..STRIPES {
            let Some(mut file) = self.open(&name).await? else { continue };
            let written = self.write_at(&name, &mut file, stripe * STRIPE_BYTES, STRIPE_BYTES).await;
            self.task.close(file.ino, file.handle).await;
            written?;
        }
        self.note_rest(true);
        Ok(())
    }

    /// The room of a file that was removed is there at once, on all servers. A report that was under way then may cost a try.
    async fn use_room(&mut self) -> Outcome<()> {
        let largest =
            self.files.iter().max_by_key(|(name, file)| file.cost(name)).map(|(name, _)| name.clone());
        let Some(name) = largest else { return Ok(()) };
        for stripe in 0..STRIPES {
            self.may_be_late = true;
            self.remove(&name).await?;
            if self.used().bytes + (stripe + 1) * STRIPE_BYTES > LIMITS.bytes.unwrap_or(0) {
                return Ok(());
            }
            for _ in 0..TRIES {
                let Some(mut file) = self.open(&name).await? else { continue };
                let written = self.write_at(&name, &mut file, stripe * STRIPE_BYTES, STRIPE_BYTES).await;
                self.task.close(file.ino, file.handle).await;
                written?;
                if self.files[&name].size_bytes > 0 {
                    break;
                }
            }
            if self.files.get(&name).is_none_or(|file| file.size_bytes == 0) {
                return Err(format!(
                    "the room of {name}, which was removed, is not there: {:?}",
                    self.used()
                ));
            }
            let size_bytes =
                LIMITS.bytes.unwrap_or(0) - (self.used().bytes - pages(self.files[&name].size_bytes));
            self.resize(&name, size_bytes).await?;
        }
        Ok(())
    }

    async fn remove_all(&mut self) -> Outcome<()> {
        self.note_rest(false);
        for name in self.files.keys().cloned().collect::<Vec<_>>() {
            self.remove(&name).await?;
        }
        match self
            .task
            .at(At::new(Ino::ROOT, self.own()), |at| Request::Unlink { at, directory: true })
            .await
            .0
        {
            Reply::Failed(errno) => Err(format!("its directory is not removed: {errno:?}")),
            _ => Ok(()),
        }
    }
}
