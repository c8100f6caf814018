//! A program on a mount: the kernel keeps pages until a server has them dropped, and no program sees bytes there that an answered write
//! had replaced.
//!
//! The kernel, and the mount that serves it, are a model of those of `crates/mount`: a file is watched where its bytes lie, a thread for each
//! server drops what the server tells, and everything goes once a server may have forgotten the watches.

use super::super::task::{Open, Outcome, Task};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_fairshare::Nanos;
use weir_wire::{At, Ino, Reply, Request, Sequence};

const OPERATIONS: u64 = 200;
const REGISTER: &str = "register";
/// Bytes of the register.
const BYTES: u64 = 8;
/// The longest pause between two looks at the register.
const PAUSE: Nanos = Nanos::from_millis(60);
/// The pause of the mount before a lost server is asked again.
const RETRY_PAUSE: Nanos = Nanos::from_millis(500);
const TICK: Nanos = Nanos::from_millis(500);
/// A write waits for so long for a mount. A mount that heard nothing late for longer than that was waited for.
const WAITED_FOR: Nanos = Nanos::from_millis(4_000);

/// A look at a page that a kernel had.
struct Look {
    server: usize,
    value: u64,
    at: Nanos,
}

/// A page of a file, and where it is watched.
struct Page {
    value: u64,
    server: usize,
    memory: u64,
}

/// The kernel of a host, with its mount.
#[derive(Default)]
pub(crate) struct Kernel {
    pages: BTreeMap<Ino, Page>,
    /// The times that pages were dropped.
    drops: u64,
    /// Looks that count once their servers have been heard again, and nothing of them was late.
    looks: Vec<Look>,
    has_ended: bool,
}

impl Kernel {
    fn drop_pages(&mut self, ino: Ino) {
        self.drops += 1;
        self.pages.remove(&ino);
    }

    /// A server may have forgotten the watches.
    fn drop_everything(&mut self, server: usize) {
        self.drops += 1;
        self.pages.retain(|_, page| page.server != server);
        self.looks.retain(|look| look.server != server);
    }
}

/// Carries out what a server tells the mount.
pub(crate) fn follow(task: Task, server: usize, kernel: &Rc<RefCell<Kernel>>) -> super::Work {
    let kernel = Rc::clone(kernel);
    Box::pin(async move {
        let remembered = || task.client.borrow_mut().memory(server);
        let (mut done, mut memory) = (Sequence(0), remembered());
        loop {
            if remembered() != memory {
                // A server that was lost between two polls forgot the watches of that time.
                memory = remembered();
                kernel.borrow_mut().drop_everything(server);
                done = Sequence(0);
            }
            let poll = task.poll(server, Request::Invalidations { done });
            let reply = loop {
                if kernel.borrow().has_ended {
                    return Ok(());
                }
                if let Some((reply, _)) = task.answer_until(poll, task.now() + TICK).await {
                    break reply;
                }
            };
            match reply {
                Reply::Invalidate { sequence, files, .. } => {
                    settle(&task, server, &mut kernel.borrow_mut());
                    for change in files.iter().filter(|change| change.pages) {
                        kernel.borrow_mut().drop_pages(change.ino);
                    }
                    done = sequence;
                }
                _ => {
                    memory = remembered();
                    kernel.borrow_mut().drop_everything(server);
                    done = Sequence(0);
                    task.wait_until(task.now() + RETRY_PAUSE).await;
                }
            }
        }
    })
}

/// The server is heard: whoever changed the file of a page waited for this mount since the looks at it, unless something was late.
fn settle(task: &Task, server: usize, kernel: &mut Kernel) {
    for look in kernel.looks.extract_if(.., |look| look.server == server) {
        if !task.agenda.is_late_since(server, look.at.saturating_since(WAITED_FOR)) {
            task.histories.borrow_mut().register.looked(look.value, look.at);
        }
    }
}

/// A program that reads the register through its mount.
pub(crate) struct Caching {
    task: Task,
    kernel: Rc<RefCell<Kernel>>,
    writes: u64,
}

impl Caching {
    pub(crate) fn new(task: Task, kernel: &Rc<RefCell<Kernel>>) -> Caching {
        Caching { task, kernel: Rc::clone(kernel), writes: 0 }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        let mut left = OPERATIONS;
        while left > 0 {
            let mut file = self.task.open_or_make(At::new(Ino::ROOT, REGISTER)).await?;
            // The kernel drops a file's pages at every open.
            self.kernel.borrow_mut().drop_pages(file.ino);
            let some = left.min(1 + self.task.agenda.below(40));
            for _ in 0..some {
                self.task.wait_until(self.task.agenda.within(PAUSE)).await;
                match self.task.agenda.by_chance(5) {
                    true => self.write(&mut file).await?,
                    false => self.look(&mut file).await?,
                }
            }
            left -= some;
            self.leave(&file).await;
        }
        self.kernel.borrow_mut().has_ended = true;
        Ok(())
    }

    fn server(file: &Open) -> usize {
        let first = file.layout.pieces(0, BYTES).next().map_or(0, |piece| piece.object);
        usize::from(file.layout.targets()[first].server.0)
    }

    fn memory(&self, server: usize) -> u64 {
        self.task.client.borrow_mut().memory(server)
    }

    /// Looks at the register: at the kernel's page, or at one that the kernel gets for that.
    async fn look(&mut self, file: &mut Open) -> Outcome<()> {
        let (server, at) = (Caching::server(file), self.task.now());
        let memory = self.memory(server);
        {
            let mut kernel = self.kernel.borrow_mut();
            let page = kernel.pages.get(&file.ino).filter(|page| page.memory == memory);
            if let Some(value) = page.map(|page| page.value) {
                kernel.looks.push(Look { server, value, at });
                return Ok(());
            }
        }
        let watch = Request::Watch { capability: file.capability };
        let is_watched = self.task.call(server, watch, &[]).await.0 == Reply::Done;
        let drops = self.kernel.borrow().drops;
        let began = self.task.now();
        let bytes = self.task.read_bytes(file, BYTES).await?;
        let value = u64::from_le_bytes(bytes.try_into().map_err(|_| "a short read")?);
        self.task.histories.borrow_mut().register.read(value, began, self.task.now());
        let mut kernel = self.kernel.borrow_mut();
        if is_watched && kernel.drops == drops && self.memory(server) == memory {
            kernel.pages.insert(file.ino, Page { value, server, memory });
        }
        Ok(())
    }

    /// Writes past the page, which the kernel drops by itself.
    async fn write(&mut self, file: &mut Open) -> Outcome<()> {
        self.kernel.borrow_mut().drop_pages(file.ino);
        self.writes += 1;
        let value = (self.task.number as u64 + 1) << 32 | self.writes;
        let began = self.task.now();
        self.task.write_bytes(file, 0, &value.to_le_bytes()).await?;
        self.task.histories.borrow_mut().register.wrote(value, began, self.task.now());
        Ok(())
    }

    /// The last close of the file: no page of it is seen again.
    async fn leave(&mut self, file: &Open) {
        self.kernel.borrow_mut().drop_pages(file.ino);
        self.task.call(Caching::server(file), Request::Unwatch { ino: file.ino }, &[]).await;
        self.task.close(file.ino, file.handle).await;
    }
}
