//! The open files that are recorded, and which descriptors stand for them.
//!
//! Nothing here is ever freed and no lock is taken: a write that races with the close of its own descriptor counts for
//! a file of which nobody asks any more, or for the next one.

use crate::recorder::log;
use crate::session::{self, Mode};
use crate::{kernel, sharing, table};
use libc::{c_int, c_void};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
use weir_trace::Opening;

/// Descriptors per part of the table, and parts: numbers up to a million, the kernel's default `fs.nr_open`.
const PART: usize = 1024;
const PARTS: usize = 1024;
/// Descriptors that have the shortest way of all.
const PLAIN: usize = 256;
/// Files per part of the pool, and parts: open files beyond them are counted as missed.
const POOL_PART: usize = 64;
const POOL_PARTS: usize = 1024;
/// Names up to this length are kept for a child of `fork`; for longer ones it asks the kernel.
const NAME_BYTES: usize = 512;
/// At most so many writes to a file go by before the clock is looked at.
const UNWATCHED_MAX: u32 = 31;
/// Writes that come faster than this need not all look at the clock.
const FAST_NANOSECONDS: u64 = 50_000_000;
/// How long what was written stays unreported, while the program writes.
const REPORT_NANOSECONDS: u64 = 1_000_000_000;

/// What every write touches, in one line of the processor's cache.
#[repr(C, align(64))]
struct Counts {
    written: AtomicU64,
    end: AtomicU64,
    unwatched: AtomicU32,
    /// Writes since then moved the kernel's offset, and the end is at least there.
    has_moved: AtomicBool,
    appends: AtomicBool,
}

/// One open file that is recorded.
#[repr(C)]
pub(crate) struct OpenFile {
    counts: Counts,
    is_used: AtomicBool,
    /// Descriptors of this process that stand for it.
    descriptors: AtomicU32,
    number: AtomicU32,
    opening: AtomicU8,
    inode: AtomicU64,
    /// The end is the file's size: writes at explicit offsets went to the end all the same.
    is_at_size: AtomicBool,
    reported: AtomicU64,
    is_announced: AtomicBool,
    is_placed: AtomicBool,
    is_outside_store: AtomicBool,
    stream: AtomicPtr<c_void>,
    /// Size when it was opened, without its bytes being dropped.
    size_before: AtomicU64,
    /// Writes after which the clock is looked at, and when it last was.
    pause: AtomicU32,
    looked: AtomicU64,
    name_length: AtomicUsize,
    name: [AtomicU8; NAME_BYTES],
}

/// What is known of a descriptor.
pub(super) enum Found {
    /// Nothing.
    Unknown,
    /// It was looked at, and is not recorded.
    Foreign,
    /// It stands for a recorded file.
    File(&'static OpenFile),
}

type Slots = [AtomicPtr<OpenFile>; PART];
type Pool = [OpenFile; POOL_PART];

/// What every write looks at first: the switches beside the descriptors that programs have most.
#[repr(C, align(64))]
struct Table {
    /// Whether [`Table::plain`] may be used: one thread, and nobody who borrows its memory.
    is_alone: AtomicBool,
    is_on: AtomicBool,
    /// Children that borrow this process's memory, whose descriptors are their own.
    borrowers: AtomicU32,
    /// The files of `first` that lie outside the store.
    plain: [AtomicPtr<OpenFile>; PLAIN],
    first: Slots,
}

static TABLE: Table = Table {
    is_alone: AtomicBool::new(true),
    is_on: AtomicBool::new(false),
    borrowers: AtomicU32::new(0),
    plain: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLAIN],
    first: [const { AtomicPtr::new(std::ptr::null_mut()) }; PART],
};
static OTHERS: [AtomicPtr<Slots>; PARTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PARTS];
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
static POOL: [AtomicPtr<Pool>; POOL_PARTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; POOL_PARTS];
static FOREIGN: OpenFile = OpenFile::new();
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
static MISSED: AtomicU64 = AtomicU64::new(0);
/// When everything was last reported; 0: report each write, because the process ends.
static REPORTED: AtomicU64 = AtomicU64::new(u64::MAX);

impl OpenFile {
    const fn new() -> OpenFile {
        OpenFile {
            counts: Counts {
                written: AtomicU64::new(0),
                end: AtomicU64::new(0),
                unwatched: AtomicU32::new(0),
                has_moved: AtomicBool::new(false),
                appends: AtomicBool::new(false),
            },
            is_used: AtomicBool::new(false),
            descriptors: AtomicU32::new(0),
            number: AtomicU32::new(0),
            opening: AtomicU8::new(0),
            inode: AtomicU64::new(0),
            is_at_size: AtomicBool::new(false),
            reported: AtomicU64::new(0),
            is_announced: AtomicBool::new(false),
            is_placed: AtomicBool::new(false),
            is_outside_store: AtomicBool::new(false),
            stream: AtomicPtr::new(std::ptr::null_mut()),
            size_before: AtomicU64::new(0),
            pause: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            name_length: AtomicUsize::new(0),
            name: [const { AtomicU8::new(0) }; NAME_BYTES],
        }
    }

    /// Counts a write, at `offset` or at the kernel's; whether a report is due.
    #[inline]
    pub(super) fn add(&self, offset: Option<u64>, bytes: u64) -> bool {
        self.counts.written.fetch_add(bytes, Ordering::Relaxed);
        self.note_end(offset, bytes)
    }

    /// As [`OpenFile::add`] where there is no other thread: a locked addition is a good part of what a write may cost.
    #[inline(always)]
    pub(super) fn add_alone(&self, offset: Option<u64>, bytes: u64) -> bool {
        self.counts.written.store(self.counts.written.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.note_end(offset, bytes)
    }

    #[inline(always)]
    fn note_end(&self, offset: Option<u64>, bytes: u64) -> bool {
        match offset {
            Some(_) if self.counts.appends.load(Ordering::Relaxed) => {
                self.is_at_size.store(true, Ordering::Relaxed)
            }
            Some(offset) => self.extend(offset + bytes),
            None => self.counts.has_moved.store(true, Ordering::Relaxed),
        }
        let left = self.counts.unwatched.load(Ordering::Relaxed);
        if left > 0 {
            self.counts.unwatched.store(left - 1, Ordering::Relaxed);
            return false;
        }
        self.look_at_clock()
    }

    /// Fast writers look at the clock rarely, slow ones at each write.
    #[cold]
    fn look_at_clock(&self) -> bool {
        let now = log::coarse_clock();
        let is_fast = now.saturating_sub(self.looked.swap(now, Ordering::Relaxed)) < FAST_NANOSECONDS;
        let pause = self.pause.load(Ordering::Relaxed);
        let pause = if is_fast { (pause * 2 + 1).min(UNWATCHED_MAX) } else { 0 };
        self.pause.store(pause, Ordering::Relaxed);
        self.counts.unwatched.store(pause, Ordering::Relaxed);
        let reported = REPORTED.load(Ordering::Relaxed);
        if reported == u64::MAX {
            REPORTED.store(now, Ordering::Relaxed);
            return false;
        }
        now.saturating_sub(reported) >= REPORT_NANOSECONDS
    }

    /// Something was written up to `end`.
    #[inline(always)]
    pub(super) fn extend(&self, end: u64) {
        if end > self.counts.end.load(Ordering::Relaxed) {
            self.counts.end.fetch_max(end, Ordering::Relaxed);
        }
    }

    pub(super) fn has_moved(&self) -> bool {
        self.counts.has_moved.load(Ordering::Relaxed)
    }

    pub(super) fn take_moved(&self) -> bool {
        self.counts.has_moved.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_at_size(&self) -> bool {
        self.is_at_size.load(Ordering::Relaxed)
    }

    pub(super) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn opening(&self) -> Opening {
        match self.opening.load(Ordering::Relaxed) {
            0 => Opening::Created,
            1 => Opening::Truncated,
            2 => Opening::Existing,
            _ => Opening::Inherited,
        }
    }

    /// Bytes written, and one past the last.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.end.load(Ordering::Relaxed))
    }

    pub(super) fn size_before(&self) -> u64 {
        self.size_before.load(Ordering::Relaxed)
    }

    /// Whether more was written than was reported.
    pub(super) fn is_dirty(&self) -> bool {
        self.counts.written.load(Ordering::Relaxed) != self.reported.load(Ordering::Relaxed)
    }

    pub(super) fn set_reported(&self, written: u64) {
        self.reported.store(written, Ordering::Relaxed);
    }

    /// Whether this is the first time that anyone asks to announce it.
    pub(super) fn is_to_be_announced(&self) -> bool {
        !self.is_announced.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// Whether nobody has told its layout yet.
    pub(super) fn is_to_be_placed(&self) -> bool {
        !self.is_placed.load(Ordering::Relaxed)
    }

    pub(super) fn set_placed(&self) {
        self.is_placed.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_stream(&self, stream: *mut c_void) {
        self.stream.store(stream, Ordering::Release);
    }

    /// The stream of libc's that writes to it, null where none does.
    pub(super) fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    /// Whether `descriptor` still stands for the file: its number may have been closed and used again.
    pub(super) fn is_behind(&self, descriptor: c_int) -> bool {
        inode(descriptor) == Some(self.inode.load(Ordering::Relaxed))
    }

    /// Its name, absent where it was too long to keep.
    pub(super) fn name(&self) -> Option<Vec<u8>> {
        let length = self.name_length.load(Ordering::Acquire);
        let bytes = self.name.get(..length).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect())
    }

    /// One more descriptor stands for it.
    pub(super) fn share(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// One descriptor fewer stands for it; whether it was the last.
    pub(super) fn release(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The child of `fork` has it from its parent, and has written nothing.
    pub(super) fn inherit(&self) {
        self.opening.store(code(Opening::Inherited), Ordering::Relaxed);
        for number in [&self.counts.written, &self.counts.end, &self.reported] {
            number.store(0, Ordering::Relaxed);
        }
        for flag in [&self.counts.has_moved, &self.is_at_size, &self.is_announced, &self.is_placed] {
            flag.store(false, Ordering::Relaxed);
        }
        self.stream.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

fn code(opening: Opening) -> u8 {
    match opening {
        Opening::Created => 0,
        Opening::Truncated => 1,
        Opening::Existing => 2,
        Opening::Inherited => 3,
    }
}

fn inode(descriptor: c_int) -> Option<u64> {
    kernel::identify(descriptor, c"", libc::STATX_INO).ok().map(|found| found.stx_ino)
}

fn slot(descriptor: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    let number = usize::try_from(descriptor).ok()?;
    if number < PART {
        return Some(&TABLE.first[number]);
    }
    let part = OTHERS.get(number / PART)?.load(Ordering::Acquire);
    // SAFETY: a part is leaked when it is made and never freed.
    (!part.is_null()).then(|| unsafe { &(*part)[number % PART] })
}

fn slot_made(descriptor: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    if let Some(found) = slot(descriptor) {
        return Some(found);
    }
    let cell = OTHERS.get(usize::try_from(descriptor).ok()? / PART)?;
    publish(cell, || AtomicPtr::new(std::ptr::null_mut()));
    slot(descriptor)
}

/// Makes what `cell` is to point to, unless another thread was faster.
fn publish<T, const N: usize>(cell: &AtomicPtr<[T; N]>, make: impl Fn() -> T) {
    let made: Result<Box<[T; N]>, _> =
        (0..N).map(|_| make()).collect::<Vec<_>>().into_boxed_slice().try_into();
    let Ok(made) = made else { return };
    let made = Box::into_raw(made);
    if cell.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: nobody else has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
}

fn found(pointer: *mut OpenFile) -> Found {
    if pointer.is_null() {
        Found::Unknown
    } else if std::ptr::eq(pointer, &raw const FOREIGN) {
        Found::Foreign
    } else {
        // SAFETY: files of the pool are never freed.
        Found::File(unsafe { &*pointer })
    }
}

/// Whether this process is recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    TABLE.is_on.load(Ordering::Relaxed)
}

/// From now on it is.
pub(super) fn switch_on() {
    TABLE.is_on.store(true, Ordering::Release);
}

/// The recorded file behind `descriptor`, if it lies outside the store and nothing else has to be thought of.
#[inline(always)]
pub(super) fn plain(descriptor: c_int) -> Option<&'static OpenFile> {
    let place = TABLE.plain.get(descriptor as usize)?;
    if !TABLE.is_alone.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: files of the pool are never freed.
    unsafe { place.load(Ordering::Relaxed).as_ref() }
}

/// Something else has to be thought of from now on: another thread, or who borrows the memory.
pub(super) fn close_plain_way() {
    TABLE.is_alone.store(false, Ordering::Release);
}

/// Nobody borrows the memory, and `is_alone` says that no other thread is there.
fn reopen_plain_way(is_alone: bool) {
    TABLE.is_alone.store(is_alone, Ordering::Release);
}

/// Whether the kernel alone serves the writes to what stands behind `descriptor`.
fn is_outside_store(descriptor: c_int, found: &libc::statx) -> bool {
    let is_elsewhere = match session::mode() {
        Mode::Off | Mode::Prefix => true,
        Mode::Mount => session::device() != Some(session::device_of(found)),
    };
    // A placeholder was entered when its name was asked for.
    is_elsewhere && !table::is_known(descriptor)
}

/// Whether children borrow this process's memory.
#[inline]
pub(super) fn is_lent() -> bool {
    TABLE.borrowers.load(Ordering::Relaxed) > 0
}

/// A child borrows this process's memory, or, without `is_there`, does no more.
pub(crate) fn note_borrower(is_there: bool) {
    if is_there {
        close_plain_way();
        TABLE.borrowers.fetch_add(1, Ordering::Relaxed);
    } else if TABLE.borrowers.fetch_sub(1, Ordering::Relaxed) == 1 {
        reopen_plain_way(!sharing::has_threads());
    }
}

/// In the child of `fork`.
pub(super) fn forget_borrowers() {
    TABLE.borrowers.store(0, Ordering::Relaxed);
    reopen_plain_way(true);
}

/// What is known of `descriptor`: a load and two comparisons.
#[inline]
pub(super) fn look_up(descriptor: c_int) -> Found {
    slot(descriptor).map_or(Found::Foreign, |slot| found(slot.load(Ordering::Acquire)))
}

/// `descriptor` stands for `file` from now on, or nothing is known of it.
pub(super) fn set(descriptor: c_int, file: Option<&'static OpenFile>) {
    let pointer = file.map_or(std::ptr::null_mut(), |file| std::ptr::from_ref(file).cast_mut());
    let place = if pointer.is_null() { slot(descriptor) } else { slot_made(descriptor) };
    let plain = file.filter(|file| file.is_outside_store.load(Ordering::Relaxed));
    set_plain(descriptor, plain.map_or(std::ptr::null_mut(), |file| std::ptr::from_ref(file).cast_mut()));
    if let Some(slot) = place {
        slot.store(pointer, Ordering::Release);
        if !pointer.is_null() {
            HIGHEST.fetch_max(descriptor, Ordering::AcqRel);
        }
    }
}

fn set_plain(descriptor: c_int, pointer: *mut OpenFile) {
    if let Some(place) = usize::try_from(descriptor).ok().and_then(|number| TABLE.plain.get(number)) {
        place.store(pointer, Ordering::Release);
    }
}

/// `descriptor` was looked at, and is not recorded.
pub(super) fn mark_foreign(descriptor: c_int) {
    set_plain(descriptor, std::ptr::null_mut());
    if let Some(slot) = slot_made(descriptor) {
        slot.store((&raw const FOREIGN).cast_mut(), Ordering::Release);
    }
}

/// The file that `descriptor` stood for, given to one caller only.
pub(super) fn take(descriptor: c_int) -> Option<&'static OpenFile> {
    set_plain(descriptor, std::ptr::null_mut());
    match found(slot(descriptor)?.swap(std::ptr::null_mut(), Ordering::AcqRel)) {
        Found::File(file) => Some(file),
        Found::Unknown | Found::Foreign => None,
    }
}

/// The highest number that ever stood for a file, -1 where none did.
pub(super) fn highest() -> c_int {
    HIGHEST.load(Ordering::Acquire)
}

/// Every descriptor that stands for a file.
pub(super) fn each(mut visit: impl FnMut(c_int, &'static OpenFile)) {
    for descriptor in 0..=highest() {
        if let Found::File(file) = look_up(descriptor) {
            visit(descriptor, file);
        }
    }
}

/// A file of the pool for what `descriptor` stands for; none where too many are open.
pub(super) fn make(
    descriptor: c_int,
    name: &[u8],
    opening: Opening,
    appends: bool,
) -> Option<&'static OpenFile> {
    let Some(file) = unused() else {
        MISSED.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    file.inherit();
    let found = kernel::identify(descriptor, c"", libc::STATX_INO | libc::STATX_SIZE).ok();
    let is_outside = found.as_ref().is_some_and(|found| is_outside_store(descriptor, found));
    file.is_outside_store.store(is_outside, Ordering::Relaxed);
    file.inode.store(found.as_ref().map_or(0, |found| found.stx_ino), Ordering::Relaxed);
    file.size_before.store(found.map_or(0, |found| found.stx_size), Ordering::Relaxed);
    file.descriptors.store(1, Ordering::Relaxed);
    file.number.store(NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    file.opening.store(code(opening), Ordering::Relaxed);
    file.counts.appends.store(appends, Ordering::Relaxed);
    file.counts.unwatched.store(0, Ordering::Relaxed);
    file.pause.store(0, Ordering::Relaxed);
    let kept = if name.len() <= NAME_BYTES { name } else { b"" };
    for (place, byte) in file.name.iter().zip(kept) {
        place.store(*byte, Ordering::Relaxed);
    }
    file.name_length.store(kept.len(), Ordering::Release);
    Some(file)
}

fn unused() -> Option<&'static OpenFile> {
    for cell in &POOL {
        if cell.load(Ordering::Acquire).is_null() {
            publish(cell, OpenFile::new);
        }
        let part = cell.load(Ordering::Acquire);
        if part.is_null() {
            return None;
        }
        // SAFETY: a part is leaked when it is made and never freed.
        let part: &'static Pool = unsafe { &*part };
        let free = part
            .iter()
            .find(|file| !file.is_used.load(Ordering::Relaxed) && !file.is_used.swap(true, Ordering::AcqRel));
        if free.is_some() {
            return free;
        }
    }
    None
}

/// No descriptor stands for `file` any more.
pub(super) fn recycle(file: &OpenFile) {
    file.stream.store(std::ptr::null_mut(), Ordering::Relaxed);
    file.is_used.store(false, Ordering::Release);
}

/// Files that were not recorded, because too many were open.
pub(super) fn missed() -> u64 {
    MISSED.load(Ordering::Relaxed)
}

/// Everything was reported; `each_write` where every write is to be from now on.
pub(super) fn set_reported(each_write: bool) {
    REPORTED.store(if each_write { 0 } else { log::coarse_clock() }, Ordering::Relaxed);
}
