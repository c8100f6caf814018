//! One recorded open file: the counts of its writes, and the state of its reports.

use crate::files::table;
use crate::host::kernel;
use crate::recorder::clock;
use crate::store::session::{self, Mode};
use libc::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
use weir_trace::Opening;

/// Longest name that is kept for a child of `fork`. The child asks the kernel for a longer name.
const NAME_BYTES: usize = 512;
/// Most writes to a file between two looks at the clock.
const UNWATCHED_MAX: u32 = 31;
/// Time between two looks at the clock below which writes are fast: not every fast write looks at the clock.
const FAST_NANOSECONDS: u64 = 50_000_000;
/// Time between two reports while the program writes.
const REPORT_NANOSECONDS: u64 = 1_000_000_000;

/// The time of the last report of all files. At 0 each write is reported, because the process ends.
static REPORTED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The counts that every write touches, in one line of the processor's cache.
#[repr(C, align(64))]
struct Counts {
    written: AtomicU64,
    end: AtomicU64,
    unwatched: AtomicU32,
    /// Whether writes moved the kernel's offset since the last look at it: the end is at least there.
    has_moved: AtomicBool,
    appends: AtomicBool,
}

/// One open file that is recorded.
#[repr(C)]
pub(crate) struct OpenFile {
    counts: Counts,
    is_used: AtomicBool,
    /// The number of this process's descriptors that stand for the file.
    descriptors: AtomicU32,
    number: AtomicU32,
    opening: AtomicU8,
    inode: AtomicU64,
    /// Whether the end is the file's size: writes at explicit offsets went to the end all the same.
    is_at_size: AtomicBool,
    reported: AtomicU64,
    is_announced: AtomicBool,
    is_placed: AtomicBool,
    is_outside_store: AtomicBool,
    stream: AtomicPtr<c_void>,
    /// The size at an opening that kept the bytes.
    size_before: AtomicU64,
    /// The number of writes between two looks at the clock, and the time of the last look.
    pause: AtomicU32,
    looked: AtomicU64,
    name_length: AtomicUsize,
    name: [AtomicU8; NAME_BYTES],
}

impl OpenFile {
    pub(super) const fn new() -> OpenFile {
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

    /// Counts a write, at `offset` or at the kernel's offset. Answers whether a report is due.
    #[inline]
    pub(super) fn add(&self, offset: Option<u64>, bytes: u64) -> bool {
        self.counts.written.fetch_add(bytes, Ordering::Relaxed);
        self.note_end(offset, bytes)
    }

    /// Counts a write where there is no other thread, without a locked addition: it would be a good part of a write's cost.
    /// Answers whether a report is due.
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
        let now = clock::coarse_clock();
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

    /// Notes that bytes were written up to `end`.
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

    /// The number of written bytes, and the offset behind the last one.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.end.load(Ordering::Relaxed))
    }

    pub(super) fn size_before(&self) -> u64 {
        self.size_before.load(Ordering::Relaxed)
    }

    /// Whether bytes were written that are not reported.
    pub(super) fn is_dirty(&self) -> bool {
        self.counts.written.load(Ordering::Relaxed) != self.reported.load(Ordering::Relaxed)
    }

    pub(super) fn set_reported(&self, written: u64) {
        self.reported.store(written, Ordering::Relaxed);
    }

    /// Whether the file is to be announced: the first question answers yes.
    pub(super) fn is_to_be_announced(&self) -> bool {
        !self.is_announced.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// Whether the file's layout is not reported yet.
    pub(super) fn is_to_be_placed(&self) -> bool {
        !self.is_placed.load(Ordering::Relaxed)
    }

    pub(super) fn set_placed(&self) {
        self.is_placed.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_stream(&self, stream: *mut c_void) {
        self.stream.store(stream, Ordering::Release);
    }

    /// The stream with which libc writes to the file, null without one.
    pub(super) fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    /// Whether `descriptor` still stands for the file. The number may have been closed and used again.
    pub(super) fn is_behind(&self, descriptor: c_int) -> bool {
        kernel::inode_of(descriptor) == Some(self.inode.load(Ordering::Relaxed))
    }

    /// The file's name, absent for a name that was too long to keep.
    pub(super) fn name(&self) -> Option<Vec<u8>> {
        let length = self.name_length.load(Ordering::Acquire);
        let bytes = self.name.get(..length).filter(|bytes| !bytes.is_empty())?;
        Some(bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect())
    }

    /// Counts one more descriptor of the file.
    pub(super) fn share(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one descriptor of the file less. Answers whether it was the last.
    pub(super) fn release(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Clears the counts in the child of `fork`, which has the file from its parent and has written nothing.
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

    /// Takes an unused file of the pool for the caller. Answers false for a file in use.
    pub(super) fn claim(&self) -> bool {
        !self.is_used.load(Ordering::Relaxed) && !self.is_used.swap(true, Ordering::AcqRel)
    }

    /// Gives the file back to the pool, because no descriptor stands for it any more.
    pub(super) fn recycle(&self) {
        self.stream.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.is_used.store(false, Ordering::Release);
    }

    /// Whether the kernel alone serves the writes to the file.
    pub(super) fn is_outside_store(&self) -> bool {
        self.is_outside_store.load(Ordering::Relaxed)
    }

    /// Begins a recorded file of this number and name, for which `descriptor` stands.
    pub(super) fn begin(
        &self,
        descriptor: c_int,
        name: &[u8],
        (number, opening): (u32, Opening),
        appends: bool,
    ) {
        self.inherit();
        let found = kernel::identify(descriptor, c"", libc::STATX_INO | libc::STATX_SIZE).ok();
        let is_outside = found.as_ref().is_some_and(|found| is_outside_store(descriptor, found));
        self.is_outside_store.store(is_outside, Ordering::Relaxed);
        self.inode.store(found.as_ref().map_or(0, |found| found.stx_ino), Ordering::Relaxed);
        self.size_before.store(found.map_or(0, |found| found.stx_size), Ordering::Relaxed);
        self.descriptors.store(1, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.opening.store(code(opening), Ordering::Relaxed);
        self.counts.appends.store(appends, Ordering::Relaxed);
        self.counts.unwatched.store(0, Ordering::Relaxed);
        self.pause.store(0, Ordering::Relaxed);
        let kept = if name.len() <= NAME_BYTES { name } else { b"" };
        for (place, byte) in self.name.iter().zip(kept) {
            place.store(*byte, Ordering::Relaxed);
        }
        self.name_length.store(kept.len(), Ordering::Release);
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

/// Whether the kernel alone serves the writes to the file behind `descriptor`.
fn is_outside_store(descriptor: c_int, found: &libc::statx) -> bool {
    let is_elsewhere = match session::mode() {
        Mode::Off | Mode::Prefix => true,
        Mode::Mount => session::device() != Some(kernel::device_of(found)),
    };
    // A placeholder was entered when its name was asked for.
    is_elsewhere && !table::is_known(descriptor)
}

/// Notes that all files are reported. With `each_write` each write is reported from now on.
pub(super) fn set_reported(each_write: bool) {
    REPORTED.store(if each_write { 0 } else { clock::coarse_clock() }, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_add_up_and_the_end_is_the_farthest() {
        let file = OpenFile::new();
        file.add(Some(100), 50);
        file.add_alone(Some(0), 10);
        assert_eq!(file.counts(), (60, 150));
        assert!(!file.has_moved());
        file.add(None, 5);
        assert!(file.take_moved() && !file.has_moved());
        assert_eq!(file.counts(), (65, 150));
        assert!(file.is_dirty());
        file.set_reported(65);
        assert!(!file.is_dirty());
    }

    #[test]
    fn only_one_takes_a_file_of_the_pool() {
        let file = OpenFile::new();
        assert!(file.claim());
        assert!(!file.claim());
        file.recycle();
        assert!(file.claim());
    }

    #[test]
    fn a_child_has_written_nothing() {
        let file = OpenFile::new();
        file.add(Some(0), 10);
        assert!(file.is_to_be_announced());
        file.inherit();
        assert_eq!(file.counts(), (0, 0));
        assert_eq!(file.opening(), Opening::Inherited);
        assert!(file.is_to_be_announced());
    }
}
