//! Addresses that the program passes: a bad address answers EFAULT, and must not be a fault inside this library.
//!
//! The library asks the kernel page by page, by calls that touch an address and change nothing. A read of the bytes here
//! that catches the fault would need the program's own signal handlers. Most answers and many paths lie in the frames of
//! the callers, which stay mapped while the callers run. So the kernel is asked once about each of these pages.

use crate::host::guard::SIGNAL_SET_BYTES;
use crate::host::{guard, kernel};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

/// The smallest page of the supported architectures. The kernel is asked about a larger page more often.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A `how` that `rt_sigprocmask(2)` refuses, after the call has read the set and before it changes anything.
const NO_CHANGE: usize = usize::MAX;
/// `FUTEX_WAKE_OP` that stores a word's own value into it: `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x800)`.
const STORE_THE_SAME: usize = (2 << 28) | 0x800;

/// Bytes above this library's own frame that count as frames of its callers: most frames hold no more than a path.
const FRAMES_BYTES: usize = 32 * 1024;
/// Pages of frames that a thread remembers.
const FRAME_PAGES: usize = 8;

thread_local! {
    /// Pages of this thread's frames that the kernel found writable, each in the place of its number.
    static FRAMES: Cell<[usize; FRAME_PAGES]> = const { Cell::new([0; FRAME_PAGES]) };
}

/// A futex that no thread waits for, so no thread is woken.
static UNUSED_FUTEX: AtomicU32 = AtomicU32::new(0);

fn is_fault(result: isize) -> bool {
    kernel::checked(result) == Err(libc::EFAULT)
}

/// Whether `address` lies in a page of the callers' frames, which can be written.
fn is_in_frames(address: usize) -> bool {
    let own = 0_u8;
    let above = address.wrapping_sub(&raw const own as usize);
    if above >= FRAMES_BYTES {
        return false;
    }
    let page = address / PAGE_BYTES;
    let mut known = FRAMES.get();
    if known[page % FRAME_PAGES] == page {
        return true;
    }
    let can_be_written = kernel_writes(address);
    if can_be_written {
        known[page % FRAME_PAGES] = page;
        FRAMES.set(known);
    }
    can_be_written
}

/// Whether the page of `address` can be read.
fn page_is_readable(address: usize) -> bool {
    is_in_frames(address) || kernel_reads(address)
}

/// Whether the page of `address` can be written.
fn page_is_writable(address: usize) -> bool {
    is_in_frames(address) || kernel_writes(address)
}

/// Whether the kernel can read the page of `address`. It can never read the lowest page (`vm.mmap_min_addr`).
fn kernel_reads(address: usize) -> bool {
    let word = address & !(SIGNAL_SET_BYTES - 1);
    // SAFETY: the kernel reads the word or refuses to, and then refuses `how`.
    address >= PAGE_BYTES
        && !is_fault(unsafe {
            kernel::raw(libc::SYS_rt_sigprocmask, [NO_CHANGE, word, 0, SIGNAL_SET_BYTES, 0, 0])
        })
}

/// Whether the kernel can write the page of `address`.
fn kernel_writes(address: usize) -> bool {
    let word = address & !(size_of::<u32>() - 1);
    let operation = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;
    let unused = &raw const UNUSED_FUTEX as usize;
    // SAFETY: the kernel replaces a word by itself, atomically, or refuses to.
    address >= PAGE_BYTES
        && !is_fault(unsafe { kernel::raw(libc::SYS_futex, [unused, operation, 0, 0, word, STORE_THE_SAME]) })
}

/// The number of bytes from `address` on that lie before the first page that fails `test`, at most `length`.
fn prefix_of(address: usize, length: usize, test: impl Fn(usize) -> bool) -> usize {
    let mut done = 0;
    while done < length && test(address.wrapping_add(done)) {
        done += PAGE_BYTES - (address + done) % PAGE_BYTES;
    }
    done.min(length)
}

/// Whether `count` values can be read at `address`.
pub(crate) fn can_read<T>(address: *const T, count: usize) -> bool {
    let bytes = count.saturating_mul(size_of::<T>());
    prefix_of(address as usize, bytes, page_is_readable) == bytes
}

/// Whether `count` values can be written at `address`.
pub(crate) fn can_write<T>(address: *mut T, count: usize) -> bool {
    let bytes = count.saturating_mul(size_of::<T>());
    prefix_of(address as usize, bytes, page_is_writable) == bytes
}

/// Stores the answer of a call, or answers EFAULT.
pub(crate) fn tell<T>(place: *mut T, value: T) -> libc::c_int {
    if !can_write(place, 1) {
        return guard::fail(libc::EFAULT);
    }
    // SAFETY: the place can be written. The kernel asks for no alignment either.
    unsafe { place.write_unaligned(value) };
    0
}

/// The number of bytes of [`prefix_of`]. The test sees the first and the last page alone while both pass: no allocator gives
/// a buffer with a hole, and a question about each page of a large buffer would cost as much as its transfer.
fn prefix_by_ends(first: usize, length: usize, test: impl Fn(usize) -> bool) -> usize {
    let Some(last) = length.checked_sub(1).map(|rest| first.wrapping_add(rest)) else { return 0 };
    let is_one_page = first / PAGE_BYTES == last / PAGE_BYTES;
    if test(first) && (is_one_page || (last > first && test(last))) {
        return length;
    }
    prefix_of(first, length, test)
}

/// The number of bytes from `address` on that a transfer can read, at most `length`.
pub(crate) fn giving<T>(address: *const T, length: usize) -> usize {
    prefix_by_ends(address as usize, length, page_is_readable)
}

/// The number of bytes from `address` on that a transfer can fill, at most `length`.
pub(crate) fn taking<T>(address: *mut T, length: usize) -> usize {
    prefix_by_ends(address as usize, length, page_is_writable)
}

/// The bytes of a C string of less than `limit` bytes.
///
/// # Errors
/// EFAULT where the string cannot be read, ENAMETOOLONG where the string is longer.
///
/// # Safety
/// No other thread changes or unmaps the string while the result is in use.
pub(crate) unsafe fn string<'a>(start: *const libc::c_char, limit: usize) -> Result<&'a [u8], libc::c_int> {
    let address = start as usize;
    let mut length = 0;
    while length < limit {
        let place = address.wrapping_add(length);
        if !page_is_readable(place) {
            return Err(libc::EFAULT);
        }
        let rest = PAGE_BYTES - place % PAGE_BYTES;
        // SAFETY: the page can be read, and the part ends with it.
        let part = unsafe { std::slice::from_raw_parts(place as *const u8, rest) };
        if let Ok(text) = std::ffi::CStr::from_bytes_until_nul(part) {
            length += text.count_bytes();
            // SAFETY: every page up to the zero byte was found readable.
            let whole = || unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
            return if length < limit { Ok(whole()) } else { Err(libc::ENAMETOOLONG) };
        }
        length += rest;
    }
    Err(libc::ENAMETOOLONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, of which the second cannot be touched and the third cannot be written.
    fn pages() -> *mut u8 {
        // SAFETY: a new mapping, which the test keeps.
        unsafe {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), 3 * PAGE_BYTES, both, flags, -1, 0).cast::<u8>();
            libc::mprotect(start.add(PAGE_BYTES).cast(), PAGE_BYTES, libc::PROT_NONE);
            libc::mprotect(start.add(2 * PAGE_BYTES).cast(), PAGE_BYTES, libc::PROT_READ);
            start
        }
    }

    #[test]
    fn the_kernel_says_what_can_be_touched() {
        let start = pages();
        let at = |offset: usize| start.wrapping_add(offset);
        assert_eq!(giving(at(0), 2 * PAGE_BYTES), PAGE_BYTES);
        assert_eq!(giving(at(0), PAGE_BYTES), PAGE_BYTES);
        assert_eq!(giving(at(PAGE_BYTES - 3), 10), 3);
        assert_eq!(giving(at(PAGE_BYTES), 1), 0);
        assert_eq!(giving(at(2 * PAGE_BYTES), PAGE_BYTES), PAGE_BYTES);
        assert_eq!(taking(at(10), 100), 100);
        assert_eq!(taking(at(PAGE_BYTES - 3), 10), 3);
        assert_eq!(taking(at(2 * PAGE_BYTES), 10), 0);
        assert_eq!(taking(std::ptr::null_mut::<u8>(), 10), 0);
        assert_eq!(taking(usize::MAX as *mut u8, 10), 0);
        assert_eq!(giving(std::ptr::dangling::<u8>(), 1), 0);
        assert!(can_read(at(8).cast::<u64>(), 2) && !can_read(at(PAGE_BYTES - 8).cast::<u64>(), 2));
    }

    #[test]
    fn frames_of_the_callers_are_asked_about_once() {
        let mut answer = [0_u8; 64];
        FRAMES.set([0; FRAME_PAGES]);
        let page = answer.as_ptr() as usize / PAGE_BYTES;
        assert_eq!(taking(answer.as_mut_ptr(), 1), 1);
        assert_eq!(FRAMES.get()[page % FRAME_PAGES], page);
        assert_eq!(giving(answer.as_ptr(), 64), 64);
        let start = pages();
        assert_eq!(taking(start, 2 * PAGE_BYTES), PAGE_BYTES);
        let far = start as usize / PAGE_BYTES;
        assert!(
            FRAMES.get().iter().all(|known| *known != far),
            "a page that is no frame's is asked about each time"
        );
    }

    #[test]
    fn asking_changes_nothing() {
        let start = pages();
        // SAFETY: the first page is the test's own.
        let page = unsafe { std::slice::from_raw_parts_mut(start, PAGE_BYTES) };
        page.fill(0xA5);
        assert_eq!(taking(start, PAGE_BYTES), PAGE_BYTES);
        assert!(page.iter().all(|byte| *byte == 0xA5));
    }

    #[test]
    fn strings_end_before_the_page_that_cannot_be_read() {
        let start = pages();
        // SAFETY: inside the first page.
        unsafe {
            let near = start.add(PAGE_BYTES - 4).cast::<libc::c_char>();
            near.cast::<u8>().copy_from(c"abc".as_ptr().cast(), 4);
            assert_eq!(string(near, 10), Ok(&b"abc"[..]));
            assert_eq!(string(near, 3), Err(libc::ENAMETOOLONG));
            near.add(3).write(b'd' as libc::c_char);
            assert_eq!(string(near, 10), Err(libc::EFAULT));
            assert_eq!(string(std::ptr::null(), 10), Err(libc::EFAULT));
        }
    }
}
