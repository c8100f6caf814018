//! The recorded open files, and the descriptors that stand for them.
//!
//! Nothing here is ever freed, and no lock is taken. A write that races with the close of its own descriptor counts for a
//! file that is not reported any more, or for the next file.

use crate::files::generation;
use crate::host::parts::Parts;
use crate::recorder::open_file::OpenFile;
use libc::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use weir_trace::Opening;

/// Descriptors per part of the table, and parts: numbers up to a million, the kernel's default `fs.nr_open`.
const PART: usize = 1024;
const PARTS: usize = 1024;
/// Descriptors with the shortest way of a write.
const PLAIN: usize = 256;
/// Files per part of the pool, and parts. Open files beyond them count as missed.
const POOL_PART: usize = 64;
const POOL_PARTS: usize = 1024;

/// The knowledge about a descriptor.
pub(super) enum Found {
    /// Nothing is known.
    Unknown,
    /// The descriptor was looked at, and is not recorded.
    Foreign,
    /// The descriptor stands for a recorded file.
    File(&'static OpenFile),
}

/// The table that every write looks at first: the switches beside the descriptors that programs have most.
#[repr(C, align(64))]
struct Table {
    /// Whether [`Table::plain`] may be used: one thread, and nobody who borrows its memory.
    is_alone: AtomicBool,
    is_on: AtomicBool,
    /// The number of children that borrow this process's memory. Their descriptors are their own.
    borrowers: AtomicU32,
    /// The files of `first` that lie outside the store.
    plain: [AtomicPtr<OpenFile>; PLAIN],
    first: [AtomicPtr<OpenFile>; PART],
}

static TABLE: Table = Table {
    is_alone: AtomicBool::new(true),
    is_on: AtomicBool::new(false),
    borrowers: AtomicU32::new(0),
    plain: [const { AtomicPtr::new(std::ptr::null_mut()) }; PLAIN],
    first: [const { AtomicPtr::new(std::ptr::null_mut()) }; PART],
};
static OTHERS: Parts<AtomicPtr<OpenFile>, PART, PARTS> = Parts::new();
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
static POOL: Parts<OpenFile, POOL_PART, POOL_PARTS> = Parts::new();
static FOREIGN: OpenFile = OpenFile::new();
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
static MISSED: AtomicU64 = AtomicU64::new(0);

fn slot(descriptor: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    let number = usize::try_from(descriptor).ok()?;
    TABLE.first.get(number).or_else(|| OTHERS.get(number))
}

fn slot_made(descriptor: c_int) -> Option<&'static AtomicPtr<OpenFile>> {
    let number = usize::try_from(descriptor).ok()?;
    TABLE.first.get(number).or_else(|| OTHERS.get_made(number, || AtomicPtr::new(std::ptr::null_mut())))
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

/// Switches the recorder on.
pub(super) fn switch_on() {
    TABLE.is_on.store(true, Ordering::Release);
}

/// The recorded file behind `descriptor`, if it lies outside the store and its writes need no further look.
#[inline(always)]
pub(super) fn plain(descriptor: c_int) -> Option<&'static OpenFile> {
    let place = TABLE.plain.get(descriptor as usize)?;
    if !TABLE.is_alone.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: files of the pool are never freed.
    unsafe { place.load(Ordering::Relaxed).as_ref() }
}

/// Closes the shortest way of writes: another thread, or a borrower of the memory, may be there from now on.
pub(super) fn close_plain_way() {
    TABLE.is_alone.store(false, Ordering::Release);
}

/// Opens the shortest way of writes again, if no other thread is there (`is_alone`). No child borrows the memory.
fn reopen_plain_way(is_alone: bool) {
    TABLE.is_alone.store(is_alone, Ordering::Release);
}

/// Whether children borrow this process's memory.
#[inline]
pub(super) fn is_lent() -> bool {
    TABLE.borrowers.load(Ordering::Relaxed) > 0
}

/// Notes a child that borrows this process's memory, or without `is_there` the child's end.
pub(crate) fn note_borrower(is_there: bool) {
    if is_there {
        close_plain_way();
        TABLE.borrowers.fetch_add(1, Ordering::Relaxed);
    } else if TABLE.borrowers.fetch_sub(1, Ordering::Relaxed) == 1 {
        reopen_plain_way(!generation::has_threads());
    }
}

/// Forgets the parent's borrowers, in the child of `fork`.
pub(super) fn forget_borrowers() {
    TABLE.borrowers.store(0, Ordering::Relaxed);
    reopen_plain_way(true);
}

/// The knowledge about `descriptor`: a load and two comparisons.
#[inline]
pub(super) fn look_up(descriptor: c_int) -> Found {
    slot(descriptor).map_or(Found::Foreign, |slot| found(slot.load(Ordering::Acquire)))
}

/// Notes that `descriptor` stands for `file` from now on, or that nothing is known of it.
pub(super) fn set(descriptor: c_int, file: Option<&'static OpenFile>) {
    let pointer = file.map_or(std::ptr::null_mut(), |file| std::ptr::from_ref(file).cast_mut());
    let place = if pointer.is_null() { slot(descriptor) } else { slot_made(descriptor) };
    let plain = file.filter(|file| file.is_outside_store());
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

/// Notes that `descriptor` was looked at and is not recorded.
pub(super) fn mark_foreign(descriptor: c_int) {
    set_plain(descriptor, std::ptr::null_mut());
    if let Some(slot) = slot_made(descriptor) {
        slot.store((&raw const FOREIGN).cast_mut(), Ordering::Release);
    }
}

/// Takes the file for which `descriptor` stood. Only one caller gets the file.
pub(super) fn take(descriptor: c_int) -> Option<&'static OpenFile> {
    set_plain(descriptor, std::ptr::null_mut());
    match found(slot(descriptor)?.swap(std::ptr::null_mut(), Ordering::AcqRel)) {
        Found::File(file) => Some(file),
        Found::Unknown | Found::Foreign => None,
    }
}

/// The highest number that ever stood for a file, -1 before the first.
pub(super) fn highest() -> c_int {
    HIGHEST.load(Ordering::Acquire)
}

/// Visits every descriptor that stands for a file.
pub(super) fn each(mut visit: impl FnMut(c_int, &'static OpenFile)) {
    for descriptor in 0..=highest() {
        if let Found::File(file) = look_up(descriptor) {
            visit(descriptor, file);
        }
    }
}

/// A file of the pool for `descriptor`. None where too many files are open.
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
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    file.begin(descriptor, name, (number, opening), appends);
    Some(file)
}

fn unused() -> Option<&'static OpenFile> {
    (0..POOL_PARTS).find_map(|index| POOL.part_made(index, OpenFile::new)?.iter().find(|file| file.claim()))
}

/// The number of files that were not recorded, because too many were open.
pub(super) fn missed() -> u64 {
    MISSED.load(Ordering::Relaxed)
}
