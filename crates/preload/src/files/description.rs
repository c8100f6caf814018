//! Open file descriptions of the store, as this process knows them.
//!
//! With a mount the kernel's offset is the true one. While a description provably belongs to this process alone, the library
//! keeps its offset, and gives the offset back to the kernel before any call that may share the description. The offset of a
//! shared description stays the kernel's.

use crate::files::accesses::Accesses;
use crate::files::placeholder::Placeholder;
use crate::files::unopened::{Locked, Unopened};
use crate::files::{generation, mappings, watches};
use crate::host::guard::Outcome;
use crate::host::kernel;
use crate::store::{mount, session};
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weir_client::wire::Ino;
use weir_client::{ClientError, File};

/// Descriptors that `stdio` reads and writes inside libc, where the library sees no call. `daemon` and the terminal calls
/// replace them there, too.
pub(crate) const STANDARD_STREAMS: std::ops::RangeInclusive<c_int> = 0..=2;

/// One open file description.
pub(crate) struct Description {
    /// The inode that the kernel shows for the descriptor. Another inode means that the number was closed and used again
    /// without a call that the library saw.
    identity: AtomicU64,
    /// The status flags and access mode, as `F_GETFL` tells them.
    flags: AtomicI32,
    /// The number of this process's descriptors that stand for the description.
    aliases: AtomicUsize,
    /// Whether writes followed the last publication: the modification time may be pending.
    wrote: AtomicBool,
    /// Whether the servers refused this process a call on the file ([`Description::answer`]). The kernel does all calls from
    /// then on.
    refused: AtomicBool,
    file: OnceLock<Option<File>>,
    /// A directory of a placeholder that was locked.
    directory: OnceLock<Option<File>>,
    accesses: Accesses,
    /// The part that a description shares between processes.
    pub(crate) backing: Backing,
}

/// The place of the shared part of a description.
pub(crate) enum Backing {
    /// The kernel holds the shared part.
    Kernel(KernelOffset),
    /// A memfd holds the shared part. Every process that has the description maps the memfd.
    Placeholder(Placeholder),
}

/// The offset of a description that the kernel knows, too.
pub(crate) struct KernelOffset {
    /// The sharing generation of the opening. A generation older than the present one means that the description may be shared.
    opened: u32,
    shared: AtomicBool,
    /// Whether `stdio` inside libc may use the offset, too.
    streamed: AtomicBool,
    /// The offset, where the kernel's is out of date, or where the kernel has none.
    local: Mutex<Option<u64>>,
    /// The file's inode.
    ino: u64,
    /// The part of a description that the kernel did not open at first.
    unopened: Option<Box<Unopened>>,
}

impl Description {
    /// A description of the kernel, opened in the sharing generation `opened`. Generation 0 means a shared description.
    pub(crate) fn of_kernel(identity: u64, flags: c_int, opened: u32) -> Description {
        let offset = KernelOffset {
            opened,
            shared: AtomicBool::new(opened == 0),
            streamed: AtomicBool::new(false),
            local: Mutex::new(None),
            ino: identity,
            unopened: None,
        };
        Description::new(identity, flags, Backing::Kernel(offset), OnceLock::new())
    }

    /// A description that the client opened and the kernel did not: its numbers are stand-ins, which show the inode `shown`.
    pub(crate) fn of_stand_in(shown: u64, flags: c_int, unopened: Unopened) -> Description {
        let offset = KernelOffset {
            opened: generation::generation(),
            shared: AtomicBool::new(false),
            streamed: AtomicBool::new(false),
            local: Mutex::new(Some(0)),
            ino: unopened.file.ino().0,
            unopened: Some(Box::new(unopened)),
        };
        Description::new(shown, flags, Backing::Kernel(offset), OnceLock::new())
    }

    /// A description that a placeholder stands for.
    pub(crate) fn of_placeholder(identity: u64, placeholder: Placeholder, file: Option<File>) -> Description {
        let flags = placeholder.flags();
        let file = file.map_or_else(OnceLock::new, |file| OnceLock::from(Some(file)));
        Description::new(identity, flags, Backing::Placeholder(placeholder), file)
    }

    fn new(identity: u64, flags: c_int, backing: Backing, file: OnceLock<Option<File>>) -> Description {
        Description {
            identity: AtomicU64::new(identity),
            flags: AtomicI32::new(flags),
            aliases: AtomicUsize::new(0),
            wrote: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            file,
            directory: OnceLock::new(),
            accesses: Accesses::new(),
            backing,
        }
    }

    /// The inode that the kernel shows for the descriptor.
    pub(crate) fn identity(&self) -> u64 {
        self.identity.load(Ordering::Acquire)
    }

    /// Whether the description's numbers are stand-ins.
    pub(crate) fn is_stand_in(&self) -> bool {
        matches!(&self.backing, Backing::Kernel(offset) if offset.is_unopened())
    }

    /// The file's inode, where no kernel's call is needed to change the file's attributes: that of a stand-in or a placeholder.
    pub(crate) fn ino_beside_kernel(&self) -> Option<Ino> {
        match &self.backing {
            Backing::Kernel(offset) => offset.is_unopened().then_some(Ino(offset.ino)),
            Backing::Placeholder(placeholder) => Some(placeholder.ino()),
        }
    }

    /// The reads and writes through the description that are not told yet.
    pub(crate) fn accesses(&self) -> &Accesses {
        &self.accesses
    }

    /// The status flags and access mode.
    pub(crate) fn flags(&self) -> c_int {
        match &self.backing {
            Backing::Kernel(_) => self.flags.load(Ordering::Relaxed),
            Backing::Placeholder(placeholder) => placeholder.flags(),
        }
    }

    /// Takes over the flags of a shared description, which another process may have changed.
    pub(crate) fn refresh_flags(&self, descriptor: c_int) {
        if matches!(&self.backing, Backing::Kernel(offset) if offset.is_shared() && !offset.is_unopened()) {
            if let Ok(flags) = kernel::status_flags(descriptor) {
                self.set_flags(flags);
            }
        }
    }

    /// Notes flags that `F_SETFL` set.
    pub(crate) fn set_flags(&self, flags: c_int) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Whether bytes may be read.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.flags() & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    /// Whether bytes may be written.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.flags() & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }

    /// Whether each write goes to the end.
    pub(crate) fn appends(&self) -> bool {
        self.flags() & libc::O_APPEND != 0
    }

    /// Whether each write has to be durable at its return.
    pub(crate) fn is_synchronous(&self) -> bool {
        self.flags() & (libc::O_SYNC | libc::O_DSYNC) != 0
    }

    /// Counts one more descriptor of the description.
    pub(crate) fn add_alias(&self, descriptor: c_int) {
        if let Some(unopened) = self.unopened() {
            unopened.add_number(descriptor);
        }
        self.aliases.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one descriptor of the description less.
    pub(crate) fn remove_alias(&self, descriptor: c_int) {
        if let Some(unopened) = self.unopened() {
            unopened.remove_number(descriptor);
        }
        self.aliases.fetch_sub(1, Ordering::AcqRel);
    }

    /// The part of a description that the kernel did not open at first.
    fn unopened(&self) -> Option<&Unopened> {
        match &self.backing {
            Backing::Kernel(offset) => offset.unopened.as_deref(),
            Backing::Placeholder(_) => None,
        }
    }

    /// Whether no descriptor of this process stands for the description any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.aliases.load(Ordering::Acquire) == 0
    }

    /// The file on the fast path. Of a file that the kernel opened, the first call asks `descriptor` for the handle.
    pub(crate) fn file(&self, descriptor: c_int) -> Option<&File> {
        let find = || match &self.backing {
            Backing::Kernel(_) => mount::promote(descriptor),
            Backing::Placeholder(placeholder) => placeholder.adopt(session::store()?),
        };
        self.file_beside_kernel().or_else(|| self.file.get_or_init(find).as_ref())
    }

    /// The file that the client opened, as long as the kernel has not.
    fn file_beside_kernel(&self) -> Option<&File> {
        let Backing::Kernel(offset) = &self.backing else { return None };
        offset.unopened.as_deref().filter(|unopened| unopened.is_waiting()).map(|unopened| &unopened.file)
    }

    /// The file for a call that moves no data. With a mount only a promoted file is given, so that such calls on a file that is
    /// never read or written stay the kernel's.
    pub(crate) fn promoted(&self, descriptor: c_int) -> Option<&File> {
        match &self.backing {
            Backing::Kernel(_) if self.is_the_kernels() => {
                self.settle(descriptor);
                None
            }
            Backing::Kernel(_) => self.file_in_use(),
            Backing::Placeholder(_) => self.file(descriptor),
        }
    }

    /// The file, if it is on the fast path already.
    pub(crate) fn file_in_use(&self) -> Option<&File> {
        self.file_beside_kernel().or_else(|| self.file.get().and_then(Option::as_ref))
    }

    /// The file or the directory, for the locks of a placeholder.
    pub(crate) fn lockable(&self, descriptor: c_int) -> Option<&File> {
        self.file(descriptor).or_else(|| {
            let find = || self.placeholder()?.directory(session::store()?);
            self.directory.get_or_init(find).as_ref()
        })
    }

    /// The file or the directory, if this process has locked it, or has the file on the fast path.
    pub(crate) fn lockable_in_use(&self) -> Option<&File> {
        self.file_in_use().or_else(|| self.directory.get().and_then(Option::as_ref))
    }

    /// Whether the kernel does all calls, because the process maps the file shared or watches the store, or because the
    /// servers refused a call. The caller gives the offset back to the kernel first.
    pub(crate) fn is_the_kernels(&self) -> bool {
        let Backing::Kernel(offset) = &self.backing else { return false };
        self.refused.load(Ordering::Acquire) || mappings::hold(offset.ino) || watches::are_any()
    }

    /// The outcome of a call of the client on the file. With a mount the kernel does the calls that the servers refuse this
    /// process: writes beside pages that a mount holds, and calls on a description that another user opened and passed on.
    /// The mount then acts for the opener, because a descriptor keeps its opener's rights.
    pub(crate) fn answer<T>(&self, result: weir_client::Result<T>) -> Outcome<T> {
        let is_refused = match &result {
            Err(ClientError::PagesHeld) => true,
            Err(error) => matches!(error.errno(), libc::EACCES | libc::EPERM),
            Ok(_) => false,
        };
        if is_refused && matches!(self.backing, Backing::Kernel(_)) {
            self.refused.store(true, Ordering::Release);
            return None;
        }
        session::outcome(result)
    }

    /// The outcome of a write of the client through `descriptor`.
    pub(crate) fn written<T>(&self, descriptor: c_int, result: weir_client::Result<T>) -> Outcome<T> {
        let outcome = self.answer(result)?;
        if outcome.is_ok() {
            if !self.wrote.swap(true, Ordering::AcqRel) {
                generation::note_pending();
            }
            if matches!(&self.backing, Backing::Kernel(offset) if mappings::hold(offset.ino)) {
                // Another thread mapped the file meanwhile, perhaps with the size before.
                kernel::refresh_size(descriptor);
            }
        }
        Some(outcome)
    }

    /// Publishes the modification time of writes on the fast path, so that callers of the kernel see it.
    pub(crate) fn publish(&self) {
        if self.wrote.swap(false, Ordering::AcqRel) {
            generation::note_published();
            for file in self.file_opened_here().into_iter().chain(self.file.get().and_then(Option::as_ref)) {
                // The data is published already. A lost server fails the next call that needs it.
                let _ = file.publish_pending(&session::CALLER);
            }
        }
    }

    /// Ends a description that no descriptor of this process stands for any more: pending times are published, and what the
    /// client opened is closed.
    pub(crate) fn end(&self) {
        self.publish();
        let Backing::Kernel(KernelOffset { unopened: Some(unopened), .. }) = &self.backing else { return };
        unopened.end_waiting();
        // A lost server forgets the description with the session.
        let _ = unopened.file.close(&session::CALLER);
    }

    /// The file that the client opened, whether or not the kernel has since.
    fn file_opened_here(&self) -> Option<&File> {
        let Backing::Kernel(offset) = &self.backing else { return None };
        offset.unopened.as_deref().map(|unopened| &unopened.file)
    }

    /// The placeholder of a description without a mount.
    pub(crate) fn placeholder(&self) -> Option<&Placeholder> {
        match &self.backing {
            Backing::Placeholder(placeholder) => Some(placeholder),
            Backing::Kernel(_) => None,
        }
    }

    /// Gives the kernel the file, if the kernel has not opened it, and the offset, so that calls of the kernel are right.
    pub(crate) fn settle(&self, descriptor: c_int) {
        if let Backing::Kernel(offset) = &self.backing {
            self.hand_over(offset, descriptor, &mut offset.lock());
        }
    }

    /// Gives the kernel the offset of a file that it has opened, before `descriptor` goes.
    pub(crate) fn settle_opened(&self, descriptor: c_int) {
        if !self.is_stand_in() {
            self.settle(descriptor);
        }
    }

    /// Gives the kernel the file and the offset for good: another process may use the description.
    pub(crate) fn share(&self, descriptor: c_int) {
        if let Backing::Kernel(offset) = &self.backing {
            offset.shared.store(true, Ordering::Release);
            self.hand_over(offset, descriptor, &mut offset.lock());
        }
    }

    /// Notes that `stdio` inside libc may use the description through `descriptor`.
    pub(crate) fn note_stream(&self, descriptor: c_int) {
        if let Backing::Kernel(offset) = &self.backing {
            offset.streamed.store(true, Ordering::Release);
            self.hand_over(offset, descriptor, &mut offset.lock());
        }
    }

    /// Notes the stream that libc has on `descriptor`, if `descriptor` is a standard one.
    pub(crate) fn note_standard_stream(&self, descriptor: c_int) {
        if STANDARD_STREAMS.contains(&descriptor) {
            self.note_stream(descriptor);
        }
    }

    /// Runs `operate` with the current offset, which no other thread uses meanwhile. `operate` answers the new offset.
    ///
    /// `None` where the kernel has to do the call, because another process or libc may use the offset at the same time.
    pub(crate) fn with_offset<T>(
        &self,
        descriptor: c_int,
        operate: impl FnOnce(u64) -> Outcome<(u64, T)>,
    ) -> Outcome<T> {
        match &self.backing {
            Backing::Kernel(offset) => self.with_kernel_offset(offset, descriptor, operate),
            Backing::Placeholder(placeholder) => placeholder.with_offset(operate),
        }
    }

    fn with_kernel_offset<T>(
        &self,
        shared: &KernelOffset,
        descriptor: c_int,
        operate: impl FnOnce(u64) -> Outcome<(u64, T)>,
    ) -> Outcome<T> {
        let mut local = shared.lock();
        let streamed = shared.streamed.load(Ordering::Acquire);
        if shared.is_shared() || (streamed && generation::has_threads()) {
            self.hand_over(shared, descriptor, &mut local);
            return None;
        }
        let offset = match *local {
            Some(offset) => offset,
            None => kernel::seek(descriptor, 0, libc::SEEK_CUR).ok()?,
        };
        let result = operate(offset);
        if let Some(Ok((after, _))) = &result {
            *local = Some(*after);
        }
        if streamed || result.is_none() {
            self.hand_over(shared, descriptor, &mut local);
        }
        result.map(|done| done.map(|(_, value)| value))
    }

    /// Has the kernel open the file, and gives it the offset, through a descriptor that still stands for the file.
    fn hand_over(&self, shared: &KernelOffset, descriptor: c_int, local: &mut Option<u64>) {
        if shared.is_unopened() && self.open_in_kernel(shared, local).is_none() {
            // The offset stays here, and the kernel's call answers EBADF.
            return;
        }
        let Some(offset) = local.take() else { return };
        if kernel::inode_of(descriptor) == Some(self.identity()) {
            // The call fails only for a descriptor that is gone: nobody can use the offset then.
            let _ = kernel::seek(descriptor, offset as i64, libc::SEEK_SET);
        }
    }

    /// Has the kernel open the file of stand-ins at the offset, under all their numbers. `None` where it cannot.
    fn open_in_kernel(&self, shared: &KernelOffset, local: &mut Option<u64>) -> Option<()> {
        let unopened = shared.unopened.as_deref()?;
        self.publish();
        let opened = unopened.way.open(self.flags()).ok()?;
        let Some(locked) = Locked::take() else {
            kernel::close(opened);
            return None;
        };
        if let Some(offset) = local.take() {
            // A file has every offset.
            let _ = kernel::seek(opened, offset as i64, libc::SEEK_SET);
        }
        locked.replace(unopened, opened);
        self.identity.store(shared.ino, Ordering::Release);
        unopened.end_waiting();
        Some(())
    }
}

impl KernelOffset {
    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_unopened(&self) -> bool {
        self.unopened.as_deref().is_some_and(Unopened::is_waiting)
    }

    fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire) || self.opened != generation::generation()
    }
}

/// The description for the child of `fork`: shared, and without the connections, which are the parent's.
pub(crate) fn inherited(description: &Arc<Description>) -> Arc<Description> {
    Arc::new(match &description.backing {
        Backing::Kernel(_) => Description::of_kernel(description.identity(), description.flags(), 0),
        Backing::Placeholder(placeholder) => {
            Description::of_placeholder(description.identity(), placeholder.inherited(), None)
        }
    })
}
