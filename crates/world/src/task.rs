//! A task of a client: one thread of a program, with the calls that the product's library makes for it.

use super::agenda::{Agenda, Happening};
use super::client::{Shared, Ticket};
use super::histories::pauses::Pause;
use super::histories::Histories;
use super::members::Order;
use super::session::{Answered, LOCK_LOST};
use super::SETTLED;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;
use weir_fairshare::Nanos;
use weir_placement::{Layout, ServerId, TargetId};
use weir_session::{lock_request, ClientError, Course, HeldLock, Place, Verdict, Way};
use weir_wire::{
    At, Capability, Errno, Extent, Fence, HandleId, Ino, LockKind, LockOwner, LockRange, LockType, OpenFlags,
    Publication, Reply, Request,
};

const EIO: Errno = Errno(5);
const EISDIR: Errno = Errno(21);
const EHOSTDOWN: Errno = Errno(112);
/// The pause before a file is made that had no place.
const HEARD_AGAIN: Nanos = Nanos::from_millis(100);

const NONE: OpenFlags = OpenFlags {
    read: false,
    write: false,
    create: false,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
    unnamed: false,
};
/// The flags of an open that reads.
pub(super) const READ: OpenFlags = OpenFlags { read: true, ..NONE };
/// The flags of an open that reads and writes, and makes a file where there is none.
pub(super) const WRITE: OpenFlags = OpenFlags { read: true, write: true, create: true, ..NONE };

/// The shortest time for which a task stands still, and half of the longest.
const STAND: Nanos = Nanos::from_millis(3_000);
const LONG_STAND: Nanos = Nanos::from_millis(12_000);
/// No task stands still that comes to it later: then nothing fails any more.
const STANDS_UNTIL: Nanos = Nanos::from_millis(5_000);
/// Times that a request for bytes is tried again for one reason. A world has fewer causes for each.
const TRIES: usize = 1_000;

/// The beginning of a call that is never late.
const NEVER: Nanos = Nanos(u64::MAX);

/// The fault that a world found.
pub(super) type Outcome<T> = Result<T, String>;

/// The end of a call that did not do what it should.
pub(super) enum Failure {
    /// The program is told of an error, and so is everyone who reads this number.
    Refused(Errno),
    /// The store did what it should not.
    Fault(String),
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        match failure {
            Failure::Refused(errno) => format!("refused: {errno:?}"),
            Failure::Fault(fault) => fault,
        }
    }
}

impl From<String> for Failure {
    fn from(fault: String) -> Failure {
        Failure::Fault(fault)
    }
}

/// A request to a server, with its payload.
pub(super) type Call = (Ticket, usize, Request, Vec<u8>);

/// The calls of a task that are to be sent, those that wait, and the answers that came.
#[derive(Default)]
pub(super) struct Desk {
    calls: Vec<Call>,
    /// The orders of an administrator that are to be carried out.
    pub(super) orders: Vec<Order>,
    pub(super) answers: BTreeMap<u64, Answered>,
    /// The beginnings of calls that are not answered.
    pub(super) waiting: BTreeMap<u64, Nanos>,
    next: u64,
}

impl Desk {
    /// Takes the calls and orders that came since.
    pub(super) fn take(&mut self) -> (Vec<Call>, Vec<Order>) {
        (std::mem::take(&mut self.calls), std::mem::take(&mut self.orders))
    }

    /// The task is gone.
    pub(super) fn end(&mut self) {
        self.calls.clear();
        self.orders.clear();
        self.waiting.clear();
    }
}

/// An open file.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) ino: Ino,
    pub(super) handle: HandleId,
    pub(super) capability: Capability,
    pub(super) layout: Layout,
    pub(super) epoch: u64,
    pub(super) size_bytes: u64,
    pub(super) created: bool,
}

impl Open {
    pub(super) fn home(&self) -> usize {
        usize::from(self.ino.home().0)
    }
}

/// A task.
pub(super) struct Task {
    pub(super) client: Shared,
    pub(super) number: usize,
    pub(super) desk: Rc<RefCell<Desk>>,
    pub(super) agenda: Agenda,
    pub(super) histories: Rc<RefCell<Histories>>,
}

impl Task {
    pub(super) fn now(&self) -> Nanos {
        self.agenda.now()
    }

    /// Begins a call.
    pub(super) fn send(&self, server: usize, request: Request, payload: &[u8]) -> Ticket {
        let mut desk = self.desk.borrow_mut();
        desk.next += 1;
        let ticket = Ticket { worker: self.number, number: desk.next };
        desk.calls.push((ticket, server, request, payload.to_vec()));
        desk.waiting.insert(ticket.number, self.now());
        ticket
    }

    /// Whether a call is not answered yet.
    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        self.desk.borrow().waiting.contains_key(&ticket.number)
    }

    /// Begins a call that is answered when there is something to tell, perhaps never.
    pub(super) fn poll(&self, server: usize, request: Request) -> Ticket {
        let ticket = self.send(server, request, &[]);
        self.desk.borrow_mut().waiting.insert(ticket.number, NEVER);
        ticket
    }

    /// Waits for the answer to a call.
    pub(super) async fn answer(&self, ticket: Ticket) -> Answered {
        std::future::poll_fn(|_| match self.desk.borrow_mut().answers.remove(&ticket.number) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Waits for the answer to a call until a moment.
    pub(super) async fn answer_until(&self, ticket: Ticket, moment: Nanos) -> Option<Answered> {
        self.agenda.add(moment, Happening::GoOn { worker: self.number });
        std::future::poll_fn(|_| match self.desk.borrow_mut().answers.remove(&ticket.number) {
            Some(answer) => Poll::Ready(Some(answer)),
            None if self.now() >= moment => Poll::Ready(None),
            None => Poll::Pending,
        })
        .await
    }

    pub(super) async fn wait_until(&self, moment: Nanos) {
        self.agenda.add(moment, Happening::GoOn { worker: self.number });
        std::future::poll_fn(|_| if self.now() < moment { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Stands still, seldom, while the task has something of a server: mostly until a client that is away may have lost it, and in a few
    /// worlds until a start of the server has passed.
    pub(super) async fn stand_still(&self, home: usize) {
        let length = match self.agenda.below(1_000) {
            _ if self.now() > STANDS_UNTIL => return,
            0..=9 => LONG_STAND,
            10..=89 => STAND,
            _ => return,
        };
        let until = self.agenda.within(length) + length;
        self.histories.borrow_mut().pauses.begin(self.number, Pause { home, until });
        self.wait_until(until).await;
        self.histories.borrow_mut().pauses.end(self.number);
    }

    pub(super) async fn call(&self, server: usize, request: Request, payload: &[u8]) -> Answered {
        let ticket = self.send(server, request, payload);
        self.answer(ticket).await
    }

    /// A request to the homes to which a place leads.
    pub(super) async fn at(&self, at: At, request: impl Fn(At) -> Request) -> Answered {
        self.at_with(at, request, &[]).await
    }

    /// The same with a payload.
    pub(super) async fn at_with(&self, at: At, request: impl Fn(At) -> Request, payload: &[u8]) -> Answered {
        let first = at.clone();
        let mut way = Way::new(None, Place { ino: first.ino, path: &first.path }, at);
        loop {
            let server = usize::from(way.at().ino.home().0);
            let (reply, received) = self.call(server, request(way.at().clone()), payload).await;
            match way.take(reply, |_, _| {}) {
                Ok(Some(reply)) => return (reply, received),
                Ok(None) => {}
                Err(error) => return (Reply::Failed(Errno(error.errno() as u16)), Vec::new()),
            }
        }
    }

    /// Opens a file; a name that is none of a file is EISDIR. No file is made while all servers are silent whose targets take files: the
    /// program tries again.
    pub(super) async fn open(&self, at: At, flags: OpenFlags) -> Result<Open, Errno> {
        loop {
            match self.open_once(at.clone(), flags).await {
                Err(EHOSTDOWN) if self.now() < SETTLED => self.wait_until(self.now() + HEARD_AGAIN).await,
                opened => return opened,
            }
        }
    }

    async fn open_once(&self, at: At, flags: OpenFlags) -> Result<Open, Errno> {
        let request = |at| Request::Open { at, flags, permissions: 0o644, layout: None };
        match self.at(at, request).await.0 {
            Reply::Opened { attributes, handle, capability, layout: Some(layout), created } => {
                self.client.borrow_mut().opened(handle, capability);
                let (epoch, size_bytes) = (attributes.epoch, attributes.size_bytes);
                Ok(Open { ino: attributes.ino, handle, capability, layout, epoch, size_bytes, created })
            }
            Reply::Opened { attributes, handle, .. } => {
                self.close(attributes.ino, handle).await;
                Err(EISDIR)
            }
            Reply::Failed(errno) => Err(errno),
            _ => Err(Errno(0)),
        }
    }

    /// Opens a file for reading and writing, and makes it where there is none.
    pub(super) async fn open_or_make(&self, at: At) -> Outcome<Open> {
        let what = format!("{at:?}");
        self.open(at, WRITE).await.map_err(|errno| format!("open {what}: {errno:?}"))
    }

    pub(super) async fn close(&self, ino: Ino, handle: HandleId) {
        self.client.borrow_mut().closed(ino, handle);
        self.call(usize::from(ino.home().0), Request::Close { ino, handle }, &[]).await;
    }

    /// Has the home of a file tell its fence. A new connection claims what the client holds before.
    pub(super) async fn greet(&self, home: usize) {
        if let (Reply::Held { fence }, _) = self.call(home, Request::Fence, &[]).await {
            self.client.borrow_mut().standing(home).renew_fence(fence);
        }
    }

    /// Asks for the present layout, size and epoch of a file.
    pub(super) async fn refresh(&self, file: &mut Open) -> Outcome<()> {
        let at = At::described(file.capability);
        match self.call(file.home(), Request::Layout { at }, &[]).await.0 {
            Reply::Layout { layout, size_bytes, epoch, .. } => {
                (file.layout, file.size_bytes, file.epoch) = (layout, size_bytes, epoch);
                Ok(())
            }
            other => Err(format!("layout of {:?}: {other:?}", file.ino)),
        }
    }

    /// A data request to the server of a target, repeated under the epoch, the layout, the fence and the rights that its server knows. The
    /// layout of `file` is the one under which it was carried out.
    pub(super) async fn transfer(
        &self,
        file: &mut Open,
        payload: &[u8],
        request: impl Fn(&Open) -> (ServerId, Request),
    ) -> Result<Answered, Failure> {
        for _ in 0..TRIES {
            let server = usize::from(request(file).0 .0);
            match self.course(server, file.home(), payload, || request(file).1).await {
                Some((Reply::StaleEpoch { .. }, _)) => self.refresh(file).await?,
                // The home was away for too long for the server of the bytes, or others lose locks all the time.
                Some((Reply::Failed(EIO), _)) | None => {}
                Some((Reply::Failed(errno), _)) => return Err(Failure::Refused(errno)),
                Some(answered) => return Ok(answered),
            }
        }
        Err(Failure::Fault(format!("a request for bytes of {:?} is tried for ever", file.ino)))
    }

    /// One call about the bytes of a file, over the requests that it takes. It fails where others lose locks all the time.
    pub(super) async fn course(
        &self,
        server: usize,
        home: usize,
        payload: &[u8],
        request: impl Fn() -> Request,
    ) -> Option<Answered> {
        let number = |server: usize| ServerId(server as u16);
        let mut course = Course::new(number(server), Some(number(home)));
        loop {
            let (reply, received) = self.call(server, request(), payload).await;
            let answer = match reply {
                Reply::Failed(errno) => Err(ClientError::Failed(errno)),
                reply => Ok((reply, received.len())),
            };
            match (course.judge(&answer), answer) {
                (Verdict::Ask(home), _) => self.greet(usize::from(home.0)).await,
                (Verdict::Fail, _) => return None,
                (Verdict::Done, Ok((reply, _))) => return Some((reply, received)),
                (Verdict::Done, Err(error)) => {
                    return Some((Reply::Failed(Errno(error.errno() as u16)), received));
                }
            }
        }
    }

    /// Writes and publishes.
    pub(super) async fn write_bytes(
        &self,
        file: &mut Open,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let home = file.ino.home();
        let pieces: Vec<_> = file.layout.pieces(offset, bytes.len() as u64).collect();
        for piece in pieces {
            let end = piece.file_offset + piece.length;
            let published = |file: &Open| Publication {
                end,
                written_bytes: piece.length,
                epoch: file.epoch,
                reserved_end: 0,
            };
            let extent = Extent { offset: piece.object_offset, length: piece.length as u32 };
            let first = (piece.file_offset - offset) as usize;
            let part = &bytes[first..first + piece.length as usize];
            let request = |file: &Open| {
                let target = file.layout.targets()[piece.object];
                let publication = (target.server == home).then(|| published(file));
                (target.server, write(file, target, extent, publication))
            };
            loop {
                let answered = self.transfer(file, part, &request).await?;
                let target = file.layout.targets()[piece.object];
                if !matches!(answered.0, Reply::Written { .. }) {
                    return Err(format!("write to {target}: {:?}", answered.0).into());
                }
                if target.server == home {
                    break;
                }
                let published_under = file.epoch;
                let publish = |file: &Open| {
                    let (capability, publication) = (file.capability, published(file));
                    (home, Request::Publish { capability, publication })
                };
                let answered = self.transfer(file, &[], publish).await?;
                if !matches!(answered.0, Reply::Written { .. }) {
                    return Err(format!("publish of {:?}: {:?}", file.ino, answered.0).into());
                }
                // The home may have cut the bytes off before it heard of them.
                if file.epoch == published_under {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads the first bytes of a file.
    pub(super) async fn read_bytes(&self, file: &mut Open, length: u64) -> Result<Vec<u8>, Failure> {
        self.read_at(file, 0, length).await
    }

    /// Reads bytes from an offset on.
    pub(super) async fn read_at(
        &self,
        file: &mut Open,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let pieces: Vec<_> = file.layout.pieces(offset, length).collect();
        for piece in pieces {
            let extent = Extent { offset: piece.object_offset, length: piece.length as u32 };
            let request = |file: &Open| {
                let (fence, capability, epoch) = (Fence::NONE, file.capability, file.epoch);
                let target = file.layout.targets()[piece.object];
                (target.server, Request::Read { fence, capability, target, epoch, extents: vec![extent] })
            };
            match self.transfer(file, &[], request).await? {
                (Reply::Data { .. }, part) => bytes.extend(part),
                (other, _) => return Err(format!("read of {:?}: {other:?}", file.ino).into()),
            }
        }
        Ok(bytes)
    }

    /// A lock through a description of a file, or its release.
    pub(super) fn lock_of(&self, file: &Open, kind: LockKind, lock: LockType, last: u64) -> HeldLock {
        let last = if kind == LockKind::Flock { u64::MAX } else { last };
        HeldLock {
            ino: file.ino,
            handle: file.handle,
            owner: LockOwner(1 + self.number as u64),
            pid: 1,
            kind,
            lock,
            range: LockRange { first: 0, last },
        }
    }

    /// Begins a lock call.
    pub(super) fn begin_lock(&self, lock: &HeldLock, wait: bool) -> Ticket {
        self.send(usize::from(lock.ino.home().0), lock_request(lock, wait, None), &[])
    }

    /// Takes over the answer to a lock call.
    pub(super) fn end_lock(&self, lock: &HeldLock, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Held { fence } => {
                self.client.borrow_mut().locked(*lock, fence);
                Ok(())
            }
            Reply::Failed(errno) => Err(Failure::Refused(errno)),
            other => Err(Failure::Fault(format!("{lock:?}: {other:?}"))),
        }
    }

    /// Gives all locks of the owner of one back, as a process that closes a descriptor of the file does.
    pub(super) async fn release_all(&self, lock: &HeldLock) -> Outcome<()> {
        let HeldLock { ino, owner, .. } = *lock;
        self.client.borrow_mut().released(ino, owner);
        match self.call(usize::from(ino.home().0), Request::ReleaseLocks { ino, owner }, &[]).await.0 {
            Reply::Done => Ok(()),
            other => Err(format!("the release of {lock:?}: {other:?}")),
        }
    }

    /// Ends the wait of a lock call that may wait.
    pub(super) async fn cancel(&self, lock: &HeldLock, ticket: Ticket) -> Outcome<()> {
        let waiting = self.client.borrow().request_of(ticket);
        let Some(waiting) = waiting else { return Ok(()) };
        let cancel = Request::CancelLock { ino: lock.ino, waiting };
        match self.call(usize::from(lock.ino.home().0), cancel, &[]).await.0 {
            Reply::Done => Ok(()),
            other => Err(format!("the end of the wait for {lock:?}: {other:?}")),
        }
    }
}

/// A write of one piece.
pub(super) fn write(
    file: &Open,
    target: TargetId,
    extent: Extent,
    publication: Option<Publication>,
) -> Request {
    Request::Write {
        // The session shows the fence that the client knows as the request is sent.
        fence: Fence::NONE,
        capability: file.capability,
        target,
        epoch: file.epoch,
        extents: vec![extent],
        publication,
    }
}

impl Failure {
    /// Whether the program was told that its lock is lost.
    pub(super) fn is_lost_lock(&self) -> bool {
        matches!(self, Failure::Refused(LOCK_LOST))
    }
}
