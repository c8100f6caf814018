//! Calls that move bytes between descriptors, map files, or reserve space.

use crate::counters::{self, Call};
use crate::description::Description;
use crate::guard::{self, attempt, finish, quietly, returned, Outcome};
use crate::session::{self, Mode, CALLER};
use crate::{
    addresses, data, descriptors, kernel, mappings, prefix, promotion, real, recorder, sharing, stat, table,
};
use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};

/// The kernel is about to move bytes of `descriptor`: it gets the offset, and looks at the size, because it reads
/// no further than the size it knows.
fn hand_over(descriptor: c_int) {
    sharing::settle(descriptor);
    if session::mode() == Mode::Mount && !table::is_foreign(descriptor) && !guard::is_inside() {
        quietly(|| {
            if promotion::discovered(descriptor).is_some() {
                stat::refresh_size(descriptor);
            }
        });
    }
}

/// Bytes that `sendfile` moves at once where the library does it.
const STEP_BYTES: usize = 1 << 20;

/// `sendfile(2)`.
pub(crate) unsafe fn sendfile(output: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    hand_over(output);
    hand_over(input);
    if prefix::holds(input) || prefix::holds(output) {
        if !offset.is_null() && !addresses::can_write(offset, 1) {
            return guard::fail(libc::EFAULT);
        }
        // SAFETY: the program's own promises, here and in all functions below.
        return unsafe { send(output, input, offset.as_mut(), count) };
    }
    recorder::before_move(input);
    // SAFETY: see above.
    recorder::wrote(output, unsafe { real::sendfile(output, input, offset, count) })
}

/// `sendfile` from or to a placeholder: reads and writes, of which only what was written moves the offset.
fn send(output: c_int, input: c_int, given: Option<&mut off_t>, count: size_t) -> ssize_t {
    // SAFETY: no memory is passed, here and below.
    match unsafe { descriptors::fcntl(output, libc::F_GETFL, 0) } {
        -1 => return -1,
        flags if flags & libc::O_APPEND != 0 => return guard::fail(libc::EINVAL),
        _ => {}
    }
    let start = match &given {
        Some(given) => **given,
        // SAFETY: see above.
        None => unsafe { descriptors::lseek(input, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        return guard::fail(if given.is_some() { libc::EINVAL } else { refusal_of_input() });
    }
    let buffer = attempt(|| Some(Ok(vec![0_u8; count.min(STEP_BYTES)])));
    let Some(Ok(mut buffer)) = buffer else { return guard::fail(libc::ENOMEM) };
    let sent = send_through(&mut buffer, (output, input), start, count);
    // The library's heap is only touched while signals are held back.
    quietly(|| drop(buffer));
    if let Ok(sent) = sent {
        match given {
            Some(given) => *given += sent as off_t,
            // SAFETY: see above.
            None => unsafe {
                descriptors::lseek(input, start + sent as off_t, libc::SEEK_SET);
            },
        }
    }
    sent.map_or(-1, |sent| sent as ssize_t)
}

/// Moves up to `count` bytes; an error (in errno) only where none moved.
fn send_through(
    buffer: &mut [u8],
    (output, input): (c_int, c_int),
    start: off_t,
    count: usize,
) -> Result<usize, ()> {
    let mut sent = 0;
    while sent < count {
        let step = buffer.len().min(count - sent);
        // SAFETY: the buffer has this length, here and below.
        let read = unsafe { data::pread(input, buffer.as_mut_ptr().cast(), step, start + sent as off_t) };
        let Ok(read) = usize::try_from(read) else {
            guard::set_errno(refusal_of_input());
            return if sent > 0 { Ok(sent) } else { Err(()) };
        };
        if read == 0 {
            break;
        }
        // SAFETY: see above.
        let written = unsafe { data::write(output, buffer.as_ptr().cast(), read) };
        match usize::try_from(written) {
            Ok(written) => sent += written,
            Err(_) if sent == 0 => return Err(()),
            Err(_) => break,
        }
        if usize::try_from(written) != Ok(read) {
            break;
        }
    }
    Ok(sent)
}

/// What `sendfile` says of an input that cannot be read at an offset.
fn refusal_of_input() -> c_int {
    match guard::errno() {
        libc::ESPIPE | libc::EISDIR => libc::EINVAL,
        other => other,
    }
}

/// `splice(2)`.
pub(crate) unsafe fn splice(
    input: c_int,
    input_offset: *mut off_t,
    output: c_int,
    output_offset: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    hand_over(output);
    hand_over(input);
    let refused = if prefix::may_hold(input) || prefix::may_hold(output) {
        attempt(|| prefix::refuse_either(input, output, libc::EINVAL))
    } else {
        None
    };
    recorder::before_move(input);
    let moved = finish(
        refused,
        |()| 0,
        || {
            // SAFETY: see `sendfile`.
            unsafe { real::splice(input, input_offset, output, output_offset, count, flags) }
        },
    );
    // SAFETY: see `sendfile`.
    unsafe { recorder::moved(output, output_offset, moved) }
}

/// `copy_file_range(2)`: between two files of the store the servers' bytes are copied by the client.
pub(crate) unsafe fn copy_file_range(
    input: c_int,
    input_offset: *mut off_t,
    output: c_int,
    output_offset: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    let is_ours = |descriptor| table::is_known(descriptor) || prefix::may_hold(descriptor);
    let outcome = if is_ours(input) || is_ours(output) {
        attempt(|| {
            let (from, to) = (promotion::discovered(input), promotion::discovered(output));
            match (from, to) {
                (Some(from), Some(to)) if flags == 0 => {
                    let is_usable = |offset: *mut off_t| offset.is_null() || addresses::can_write(offset, 1);
                    if !is_usable(input_offset) || !is_usable(output_offset) {
                        return from.placeholder().map(|_| Err(libc::EFAULT));
                    }
                    // SAFETY: see `sendfile`.
                    let offsets = unsafe { (input_offset.as_mut(), output_offset.as_mut()) };
                    copy((input, &from), (output, &to), offsets, count)
                }
                (None, None) => None,
                _ if session::mode() == Mode::Prefix => Some(Err(libc::EXDEV)),
                _ => None,
            }
        })
    } else {
        None
    };
    recorder::before_move(input);
    let copied = finish(
        outcome,
        |bytes| bytes as ssize_t,
        || {
            hand_over(output);
            hand_over(input);
            let arguments = [
                input as usize,
                input_offset as usize,
                output as usize,
                output_offset as usize,
                count,
                flags as usize,
            ];
            // SAFETY: see `sendfile`.
            returned(unsafe { kernel::raw(libc::SYS_copy_file_range, arguments) })
        },
    );
    // SAFETY: see `sendfile`.
    unsafe { recorder::moved(output, output_offset, copied) }
}

/// Whether both stand for one offset. After an `exec` two numbers of one placeholder are two values here.
fn is_one_description(one: &Description, other: &Description) -> bool {
    std::ptr::eq(one, other) || (one.placeholder().is_some() && one.identity() == other.identity())
}

fn copy(
    (input, from): (c_int, &Description),
    (output, to): (c_int, &Description),
    (from_offset, to_offset): (Option<&mut off_t>, Option<&mut off_t>),
    count: usize,
) -> Outcome<u64> {
    if from.is_the_kernels() || to.is_the_kernels() {
        return None;
    }
    let (Some(source), Some(target)) = (from.file(input), to.file(output)) else {
        return from.placeholder().map(|_| Err(libc::EINVAL));
    };
    // An appending target has a rule of its own.
    if !from.is_readable() || !to.is_writable() || to.appends() {
        return from.placeholder().map(|_| Err(libc::EBADF));
    }
    // The bytes would be copied onto themselves, and one offset would be locked twice.
    if from_offset.is_none() && to_offset.is_none() && is_one_description(from, to) {
        return from.placeholder().map(|_| Err(libc::EINVAL));
    }
    let transfer = |read_at: u64, write_at: u64| {
        let copied = source.copy_range(&CALLER, read_at, target, write_at, count as u64);
        let copied = to.written(output, copied)?;
        if copied.is_ok() {
            counters::served(Call::Copy);
        }
        Some(copied)
    };
    let at = |given: &Option<&mut off_t>| match given {
        Some(given) => u64::try_from(**given).map(Some).map_err(|_| libc::EINVAL),
        None => Ok(None),
    };
    let (read_at, write_at) = match (at(&from_offset), at(&to_offset)) {
        (Ok(read_at), Ok(write_at)) => (read_at, write_at),
        _ => return Some(Err(libc::EINVAL)),
    };
    let reading = |then: &dyn Fn(u64) -> Outcome<u64>| match read_at {
        Some(read_at) => then(read_at),
        None => from.with_offset(input, |read_at| Some(then(read_at)?.map(|bytes| (read_at + bytes, bytes)))),
    };
    let writing = |then: &dyn Fn(u64) -> Outcome<u64>| match write_at {
        Some(write_at) => then(write_at),
        None => {
            to.with_offset(output, |write_at| Some(then(write_at)?.map(|bytes| (write_at + bytes, bytes))))
        }
    };
    // Two copies in opposite directions take the two offsets in one order.
    let order =
        |description: &Description| (description.identity(), std::ptr::from_ref(description) as usize);
    let copied = if order(from) < order(to) {
        reading(&|read_at| writing(&|write_at| transfer(read_at, write_at)))
    } else {
        writing(&|write_at| reading(&|read_at| transfer(read_at, write_at)))
    };
    if let Some(Ok(bytes)) = copied {
        [from_offset, to_offset].into_iter().flatten().for_each(|given| *given += bytes as off_t);
    }
    copied
}

/// `mmap(2)`.
pub(crate) unsafe fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    let arguments =
        [address as usize, length, protection as usize, flags as usize, descriptor as usize, offset as usize];
    // SAFETY: see `sendfile`; one call without a lookup, because allocators map memory before libc is ready.
    let pass = || address_of(unsafe { kernel::raw(libc::SYS_mmap, arguments) });
    let is_file = descriptor >= 0 && flags & libc::MAP_ANONYMOUS == 0;
    if is_file {
        let end = u64::try_from(offset).ok().and_then(|offset| offset.checked_add(length as u64));
        recorder::mapped(descriptor, protection, flags, end);
    }
    if session::mode() == Mode::Off || guard::is_inside() {
        return pass();
    }
    if session::mode() == Mode::Mount {
        let announced = if is_file { announce_mapping(descriptor, flags) } else { None };
        let mapped = pass();
        let made = (mapped != libc::MAP_FAILED).then_some((mapped as usize, length));
        match (announced, made) {
            (Some(ino), _) => quietly(|| mappings::end(ino, made)),
            (None, Some((address, length))) => forget_mapped(address, length),
            (None, None) => {}
        }
        return mapped;
    }
    if !is_file {
        return pass();
    }
    let mapped = attempt(|| prefix::map(descriptor, address, length, (protection, flags), offset));
    match mapped {
        Some(Ok(mapped)) => mapped,
        Some(Err(number)) => map_failed(number),
        None => pass(),
    }
}

fn map_failed(number: c_int) -> *mut c_void {
    guard::set_errno(number);
    libc::MAP_FAILED
}

/// The C result of a system call that answers an address.
fn address_of(result: isize) -> *mut c_void {
    match kernel::checked(result) {
        Ok(mapped) => mapped as *mut c_void,
        Err(number) => map_failed(number),
    }
}

/// With a mount, `descriptor` is about to be mapped: whoever writes the file beside the kernel is refused from now on,
/// the kernel knows its size, and a file that is mapped shared, which is answered, leaves the fast path.
fn announce_mapping(descriptor: c_int, flags: c_int) -> Option<u64> {
    let is_shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if table::is_foreign(descriptor) {
        return None;
    }
    let mut announced = None;
    quietly(|| {
        let Some(description) = promotion::discovered(descriptor) else { return };
        if is_shared {
            mappings::begin(description.identity());
            announced = Some(description.identity());
        }
        description.publish();
        promotion::announce_pages(descriptor);
        stat::refresh_size(descriptor);
    });
    announced
}

/// What was mapped there is no more.
fn forget_mapped(address: usize, length: usize) {
    if mappings::are_any() {
        quietly(|| drop(mappings::remove(address, length)));
    }
}

/// `munmap(2)`. The region goes before the kernel gives its addresses to another thread's mapping.
pub(crate) unsafe fn munmap(address: *mut c_void, length: size_t) -> c_int {
    let is_followed = mappings::are_any() && !guard::is_inside();
    let mut removed = mappings::Removed::new();
    if is_followed {
        quietly(|| removed = mappings::remove(address as usize, length));
    }
    // SAFETY: see `sendfile`.
    let result = unsafe { kernel::raw(libc::SYS_munmap, [address as usize, length, 0, 0, 0, 0]) };
    if is_followed {
        quietly(|| if result == 0 { drop(removed) } else { mappings::put_back(removed) });
    }
    returned(result)
}

/// `mremap(2)`. With an old length of 0, as with `MREMAP_DONTUNMAP`, the old mapping stays.
pub(crate) unsafe fn mremap(
    old: *mut c_void,
    old_length: size_t,
    length: size_t,
    flags: c_int,
    wanted: *mut c_void,
) -> *mut c_void {
    let arguments = [old as usize, old_length, length, flags as usize, wanted as usize, 0];
    // SAFETY: see `sendfile`.
    let pass = || address_of(unsafe { kernel::raw(libc::SYS_mremap, arguments) });
    if !mappings::are_any() || guard::is_inside() {
        return pass();
    }
    let mut file = None;
    quietly(|| {
        file = mappings::file_at(old as usize);
        file.into_iter().for_each(mappings::begin);
    });
    let mapped = pass();
    let made = (mapped != libc::MAP_FAILED).then_some((mapped as usize, length));
    quietly(|| {
        let moves = made.is_some() && old_length > 0 && flags & libc::MREMAP_DONTUNMAP == 0;
        if moves {
            drop(mappings::remove(old as usize, old_length));
        }
        match (file, made) {
            (Some(ino), _) => mappings::end(ino, made),
            (None, Some((address, length))) => drop(mappings::remove(address, length)),
            (None, None) => {}
        }
    });
    mapped
}

/// `fallocate(2)`.
pub(crate) unsafe fn fallocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    sharing::settle(descriptor);
    let outcome = if prefix::may_hold(descriptor) {
        attempt(|| prefix::allocate(descriptor, mode, offset, length))
    } else {
        None
    };
    finish(
        outcome,
        |()| 0,
        || {
            // SAFETY: no memory is passed.
            unsafe { real::fallocate(descriptor, mode, offset, length) }
        },
    )
}

/// `posix_fallocate(3)`, whose result is an error number.
pub(crate) unsafe fn posix_fallocate(descriptor: c_int, offset: off_t, length: off_t) -> c_int {
    sharing::settle(descriptor);
    let outcome = if prefix::may_hold(descriptor) {
        attempt(|| prefix::allocate(descriptor, 0, offset, length))
    } else {
        None
    };
    match outcome {
        Some(Ok(())) => 0,
        Some(Err(number)) => number,
        // SAFETY: no memory is passed.
        None => unsafe { real::posix_fallocate(descriptor, offset, length) },
    }
}

/// `posix_fadvise(2)`, `readahead(2)` and `sync_file_range(2)`: advice about the kernel's pages. Without a mount
/// there are none: the first two say so by success, as for a file system that ignores them; the last waits for all.
pub(crate) fn advise(descriptor: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    let is_placeholder = prefix::may_hold(descriptor) && prefix::holds(descriptor);
    if is_placeholder {
        0
    } else {
        pass()
    }
}
