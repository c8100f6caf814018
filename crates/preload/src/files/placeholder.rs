//! The state of an open description where no kernel knows it: a page of a memfd that every holder maps.
//!
//! The program's descriptor is an `O_PATH` descriptor of the memfd. `dup`, `fork` and `exec` keep it, and a call that this
//! library missed fails with EBADF instead of losing bytes.

use crate::files::state::{Kind, State, STATE_BYTES};
use crate::host::guard::Outcome;
use crate::host::kernel::{self, system_call};
use crate::store::session::{self, CALLER};
use libc::{c_int, off_t};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use weir_client::wire::{Attributes, Capability, Ino};
use weir_client::{File, Place, Store};

/// Name of the memfd, by which the library recognises a placeholder after `exec`.
const NAME: &std::ffi::CStr = c"weir-description";
/// The link that `readlink` shows for such a descriptor.
const LINK: &[u8] = b"/memfd:weir-description (deleted)";
/// First word of the page. A change of the page's form changes the word.
const MAGIC: u64 = u64::from_le_bytes(*b"weirdsc2");
/// Lowest number of the library's short-lived descriptors, so that programs get the lowest number as POSIX says.
const OUT_OF_THE_WAY: c_int = 700;
/// Longest sleep of a waiter, which then looks whether the lock's holder still lives.
const HOLDER_CHECK: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
/// Sleeps of a process that waits for another one to hold a description: a program starts within this time on a busy machine.
const HOLDER_CHECKS: u32 = 5;
/// The mark of a lock for which a thread waits.
const WAITED_FOR: u32 = 1 << 31;

/// The page.
#[repr(C)]
struct Page {
    magic: u64,
    /// 0, or the thread that uses the offset, perhaps with [`WAITED_FOR`].
    lock: AtomicU32,
    flags: AtomicI32,
    /// Whether any process locked the description, perhaps no longer: 0 or 1.
    locked: AtomicU32,
    /// The number of processes that began with a descriptor of the description, and whose clients do not hold it yet.
    expected: AtomicU32,
    /// The offset of a file, or the cookie of a directory.
    offset: AtomicU64,
    /// The length of the encoded state, which never changes.
    length: u32,
    state: [u8; STATE_BYTES],
}

/// A mapped page, until it is dropped.
struct Mapping(*const Page);

// SAFETY: only the page's atomics change.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl std::ops::Deref for Mapping {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: mapped for the page's size until the drop.
        unsafe { &*self.0 }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        let _ = unsafe { system_call!(libc::SYS_munmap, self.0, size_of::<Page>()) };
    }
}

/// An open description behind an `O_PATH` descriptor.
pub(crate) struct Placeholder {
    page: Mapping,
    state: State,
    /// Whether this process opened the file. The session of its client then holds the description at the server.
    is_opener: bool,
    /// Whether this process's client has adopted the description that another process opened.
    adopted: AtomicBool,
}

impl Placeholder {
    /// Makes the page and the program's descriptor. Answers also the descriptor and the memfd's inode.
    pub(crate) fn make(state: State, flags: c_int) -> Result<(Placeholder, c_int, u64), c_int> {
        let encoded = state.encode();
        if encoded.len() > STATE_BYTES {
            return Err(libc::ENAMETOOLONG);
        }
        // SAFETY: the name ends with a zero byte.
        let low = unsafe { system_call!(libc::SYS_memfd_create, NAME.as_ptr(), libc::MFD_CLOEXEC) }? as c_int;
        let memory = kernel::out_of_the_way(low, OUT_OF_THE_WAY);
        let made = fill(memory, &encoded, flags).and_then(|page| Ok((page, placeholder_of(memory, flags)?)));
        kernel::close(memory);
        let (page, descriptor) = made?;
        let identity = kernel::identify(descriptor, c"", libc::STATX_INO)?.stx_ino;
        Ok((
            Placeholder { page, state, is_opener: true, adopted: AtomicBool::new(false) },
            descriptor,
            identity,
        ))
    }

    /// The description behind `descriptor`, if a process with this library made `descriptor` as a placeholder.
    pub(crate) fn recognise(descriptor: c_int) -> Option<(Placeholder, u64)> {
        let path = own_path(descriptor);
        let mut link = [0_u8; 64];
        // SAFETY: the path ends with a zero byte and the buffer has this length.
        let length = unsafe {
            system_call!(libc::SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), link.as_mut_ptr(), link.len())
        };
        if link.get(..length.ok()?)? != LINK {
            return None;
        }
        // SAFETY: the path ends with a zero byte.
        let low = unsafe { kernel::open(path.as_ptr().cast(), libc::O_RDWR) }.ok()?;
        let memory = kernel::out_of_the_way(low, OUT_OF_THE_WAY);
        let found = kernel::identify(memory, c"", libc::STATX_INO | libc::STATX_SIZE);
        let page = map(memory);
        kernel::close(memory);
        let (found, page) = (found.ok()?, page.ok()?);
        if found.stx_size < size_of::<Page>() as u64 || page.magic != MAGIC {
            return None;
        }
        let state = State::decode(page.state.get(..page.length as usize)?)?;
        Some((Placeholder { page, state, is_opener: false, adopted: AtomicBool::new(false) }, found.stx_ino))
    }

    /// The same description in the child of a fork, where the parent's value is never dropped.
    pub(crate) fn inherited(&self) -> Placeholder {
        Placeholder {
            page: Mapping(self.page.0),
            state: self.state.clone(),
            is_opener: false,
            adopted: AtomicBool::new(false),
        }
    }

    /// The file, which this process's client now holds as well.
    pub(crate) fn adopt(&self, store: &Store) -> Option<File> {
        let Kind::Regular(handle) = &self.state.kind else { return None };
        if self.is_opener {
            return None;
        }
        if !self.adopted.swap(true, Ordering::AcqRel) {
            // Where the server has forgotten the description, because the opener closed it first, reads and writes answer ESTALE.
            let _ = store.adopt(handle.capability);
        }
        Some(File::from_state(store, (**handle).clone()))
    }

    /// Has this process's client hold the directory's description as well, before the directory is listed.
    pub(crate) fn adopt_directory(&self, store: &Store) {
        if let Kind::Directory(_, capability) = self.state.kind {
            if !self.is_opener && !self.adopted.swap(true, Ordering::AcqRel) {
                let _ = store.adopt(capability);
            }
        }
    }

    /// The directory, for its locks. This process's client now holds the description as well.
    pub(crate) fn directory(&self, store: &Store) -> Option<File> {
        let Kind::Directory(_, capability) = self.state.kind else { return None };
        self.adopt_directory(store);
        File::of_directory(store, self.state.ino, capability)
    }

    /// The right to the open file or directory.
    pub(crate) fn capability(&self) -> Option<Capability> {
        match &self.state.kind {
            Kind::Regular(handle) => Some(handle.capability),
            Kind::Directory(_, capability) => Some(*capability),
            Kind::Path => None,
        }
    }

    /// Notes that this process's client holds the description, as the client of the program that the process executed before.
    pub(crate) fn note_held(&self) {
        self.adopted.store(true, Ordering::Release);
    }

    /// Notes that a process locked the description.
    pub(crate) fn note_locked(&self) {
        self.page.locked.store(1, Ordering::Release);
    }

    /// Whether any process locked the description. Another one may have unlocked it since.
    pub(crate) fn is_locked(&self) -> bool {
        self.page.locked.load(Ordering::Acquire) != 0
    }

    /// Notes that a process is about to begin, whose client is to hold the description.
    pub(crate) fn expect_holder(&self) {
        self.page.expected.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that the client of a process that began holds the description.
    pub(crate) fn note_holder(&self) {
        let one_less = |count: u32| Some(count.saturating_sub(1));
        if self.page.expected.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less) == Ok(1) {
            wake(&self.page.expected, c_int::MAX);
        }
    }

    /// Waits until all expected processes hold the description. A process that does not within a bound never will: it was
    /// killed, or runs without this library.
    pub(crate) fn await_holders(&self) {
        let expected = &self.page.expected;
        for _ in 0..HOLDER_CHECKS {
            match expected.load(Ordering::Acquire) {
                0 => return,
                count => wait(expected, count, HOLDER_CHECK),
            }
        }
        expected.store(0, Ordering::Release);
    }

    /// The state of the description.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The inode of the open node.
    pub(crate) fn ino(&self) -> Ino {
        self.state.ino
    }

    /// The status flags and access mode.
    pub(crate) fn flags(&self) -> c_int {
        self.page.flags.load(Ordering::Acquire)
    }

    /// Takes away flags with which the library opened for itself.
    pub(crate) fn forget_flags(&self, added: c_int) {
        self.page.flags.fetch_and(!added, Ordering::AcqRel);
    }

    /// Sets the status flags that `F_SETFL` may change.
    pub(crate) fn set_flags(&self, wanted: c_int) {
        let changeable = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;
        let kept = self.flags() & !changeable;
        self.page.flags.store(kept | (wanted & changeable), Ordering::Release);
    }

    /// Whether the description was opened with `O_PATH`.
    pub(crate) fn is_path_only(&self) -> bool {
        matches!(self.state.kind, Kind::Path)
    }

    /// Whether the description is of a regular file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.state.kind, Kind::Regular(_))
    }

    /// The error of a data call on a node that is not a regular file.
    pub(crate) fn refusal(&self) -> c_int {
        match self.state.kind {
            Kind::Directory(..) => libc::EISDIR,
            _ => libc::EBADF,
        }
    }

    /// The attributes of a node that is not a regular file.
    pub(crate) fn attributes(&self) -> Outcome<Attributes> {
        let store = session::store()?;
        session::outcome(store.attributes(&CALLER, Place::inode(self.state.ino), true))
    }

    /// Runs `operate` with the offset, which no other holder of the description uses meanwhile, in any process.
    pub(crate) fn with_offset<T>(&self, operate: impl FnOnce(u64) -> Outcome<(u64, T)>) -> Outcome<T> {
        let _held = Held::take(&self.page.lock);
        let result = operate(self.page.offset.load(Ordering::Acquire))?;
        if let Ok((after, _)) = &result {
            self.page.offset.store(*after, Ordering::Release);
        }
        Some(result.map(|(_, value)| value))
    }

    /// Does `lseek` on a node that is not a regular file: a directory goes to a cookie of `telldir`, or to its start.
    pub(crate) fn seek_other(&self, offset: off_t, whence: c_int) -> Outcome<u64> {
        if !matches!(self.state.kind, Kind::Directory(..)) {
            return Some(Err(libc::EBADF));
        }
        self.with_offset(|current| {
            let target = match whence {
                libc::SEEK_SET => u64::try_from(offset).map_err(|_| libc::EINVAL),
                libc::SEEK_CUR if offset == 0 => Ok(current),
                _ => Err(libc::EINVAL),
            };
            Some(target.map(|target| (target, target)))
        })
    }

    /// Gives the description up for this process.
    pub(crate) fn close(&self, file: Option<&File>) {
        let Some(store) = session::store() else { return };
        // A lost server forgets the description with the session.
        match (&self.state.kind, file) {
            (Kind::Regular(_), Some(file)) if self.is_opener => drop(file.close(&CALLER)),
            (Kind::Regular(handle), Some(file)) => {
                drop(file.publish_pending(&CALLER));
                drop(store.close(&CALLER, self.state.ino, handle.handle));
            }
            (Kind::Directory(handle, _), _) if self.is_opener || self.adopted.load(Ordering::Acquire) => {
                drop(store.close(&CALLER, self.state.ino, *handle));
            }
            _ => {}
        }
    }
}

fn fill(memory: c_int, encoded: &[u8], flags: c_int) -> Result<Mapping, c_int> {
    let mut page = Box::new(Page {
        magic: MAGIC,
        lock: AtomicU32::new(0),
        flags: AtomicI32::new(flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_CLOEXEC)),
        locked: AtomicU32::new(0),
        expected: AtomicU32::new(0),
        offset: AtomicU64::new(0),
        length: encoded.len() as u32,
        state: [0; STATE_BYTES],
    });
    page.state[..encoded.len()].copy_from_slice(encoded);
    // SAFETY: the page is plain numbers without padding that matters, readable for its size.
    unsafe { system_call!(libc::SYS_pwrite64, memory, &raw const *page, size_of::<Page>(), 0) }?;
    map(memory)
}

fn map(memory: c_int) -> Result<Mapping, c_int> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the new mapping lies at an address that the kernel chooses. Only its atomics change later.
    unsafe {
        let address =
            system_call!(libc::SYS_mmap, 0, size_of::<Page>(), protection, libc::MAP_SHARED, memory, 0)?;
        Ok(Mapping(address as *const Page))
    }
}

fn placeholder_of(memory: c_int, flags: c_int) -> Result<c_int, c_int> {
    let path = own_path(memory);
    let wanted = libc::O_PATH | (flags & libc::O_CLOEXEC);
    // SAFETY: the path ends with a zero byte.
    unsafe { system_call!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), wanted, 0) }
        .map(|descriptor| descriptor as c_int)
}

/// `/proc/self/fd/N`, ended by a zero byte.
fn own_path(descriptor: c_int) -> Vec<u8> {
    format!("/proc/self/fd/{descriptor}\0").into_bytes()
}

/// The lock of a page, which this thread holds. A thread takes the lock over from a thread that died with it.
struct Held<'a>(&'a AtomicU32);

impl<'a> Held<'a> {
    fn take(lock: &'a AtomicU32) -> Held<'a> {
        // SAFETY: the call has no arguments and cannot fail.
        let own = unsafe { kernel::raw(libc::SYS_gettid, [0; 6]) } as u32;
        if lock.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Held(lock);
        }
        loop {
            let seen = lock.load(Ordering::Acquire);
            let holder = seen & !WAITED_FOR;
            if holder == 0 || !is_alive(holder) {
                if lock.compare_exchange(seen, own | WAITED_FOR, Ordering::AcqRel, Ordering::Acquire).is_ok()
                {
                    return Held(lock);
                }
                continue;
            }
            let marked = seen | WAITED_FOR;
            if seen == marked
                || lock.compare_exchange(seen, marked, Ordering::AcqRel, Ordering::Acquire).is_ok()
            {
                wait(lock, marked, HOLDER_CHECK);
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.0.swap(0, Ordering::AcqRel) & WAITED_FOR != 0 {
            wake(self.0, 1);
        }
    }
}

/// Waits while a word of the page has a value, at most for a time.
fn wait(word: &AtomicU32, value: u32, at_most: libc::timespec) {
    // SAFETY: word and time live through the call.
    let _ = unsafe {
        system_call!(libc::SYS_futex, &raw const *word, libc::FUTEX_WAIT, value, &raw const at_most)
    };
}

fn wake(word: &AtomicU32, waiters: c_int) {
    // SAFETY: the word is mapped for the life of the process.
    let _ = unsafe { system_call!(libc::SYS_futex, &raw const *word, libc::FUTEX_WAKE, waiters) };
}

fn is_alive(thread: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let asked = unsafe { system_call!(libc::SYS_tkill, thread, 0) };
    asked != Err(libc::ESRCH)
}
