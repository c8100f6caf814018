//! Calls that move bytes between descriptors.

use crate::calls::{data, duplicate, seek};
use crate::files::description::Description;
use crate::files::{prefix, promotion, sharing, table};
use crate::host::guard::{self, attempt, finish, quietly, returned, Outcome};
use crate::host::{addresses, kernel, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, Mode, CALLER};
use crate::{observation, recorder};
use libc::{c_int, c_uint, off_t, size_t, ssize_t};

/// Prepares the kernel to move bytes of `descriptor`. The kernel gets the offset, and looks at the size, because it reads no
/// further than the size that it knows.
fn hand_over(descriptor: c_int) {
    sharing::settle(descriptor);
    if session::mode() == Mode::Mount && !table::is_foreign(descriptor) && !guard::is_inside() {
        quietly(|| {
            if promotion::discovered(descriptor).is_some() {
                kernel::refresh_size(descriptor);
            }
        });
    }
}

/// The access modes of descriptors that can be read, and of those that can be written.
const READING: [c_int; 2] = [libc::O_RDONLY, libc::O_RDWR];
const WRITING: [c_int; 2] = [libc::O_WRONLY, libc::O_RDWR];

/// Whether a descriptor is open in one of these access modes.
fn may(descriptor: c_int, modes: [c_int; 2]) -> bool {
    // SAFETY: no memory is passed.
    let flags = unsafe { duplicate::fcntl(descriptor, libc::F_GETFL, 0) };
    flags >= 0 && flags & libc::O_PATH == 0 && modes.contains(&(flags & libc::O_ACCMODE))
}

/// Bytes that `sendfile` moves at once, where the library does the call.
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
    let begins = (observation::begin(input), observation::begin(output));
    // SAFETY: see above.
    let moved = unsafe { real::sendfile(output, input, offset, count) };
    // SAFETY: see above. The kernel has used the offset.
    unsafe { observation::transferred((input, offset), (output, std::ptr::null()), moved, begins) };
    recorder::wrote(output, moved)
}

/// `sendfile` from or to a placeholder: reads and writes. Only written bytes move the offset.
fn send(output: c_int, input: c_int, given: Option<&mut off_t>, count: size_t) -> ssize_t {
    if !may(input, READING) {
        return guard::fail(libc::EBADF);
    }
    let start = match &given {
        Some(given) => **given,
        // SAFETY: no memory is passed, here and below.
        None => unsafe { seek::lseek(input, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        return guard::fail(if given.is_some() { libc::EINVAL } else { refusal_of_input() });
    }
    if !may(output, WRITING) {
        return guard::fail(libc::EBADF);
    }
    // SAFETY: see above.
    if unsafe { duplicate::fcntl(output, libc::F_GETFL, 0) } & libc::O_APPEND != 0 {
        return guard::fail(libc::EINVAL);
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
                seek::lseek(input, start + sent as off_t, libc::SEEK_SET);
            },
        }
    }
    sent.map_or(-1, |sent| sent as ssize_t)
}

/// Moves up to `count` bytes. Fails, with errno, only where no byte moved.
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

/// The error of `sendfile` for an input that cannot be read at an offset.
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
    let begins = (observation::begin(input), observation::begin(output));
    let moved = finish(
        refused,
        |()| 0,
        || {
            // SAFETY: see `sendfile`.
            unsafe { real::splice(input, input_offset, output, output_offset, count, flags) }
        },
    );
    // SAFETY: see `sendfile`.
    unsafe { observation::transferred((input, input_offset), (output, output_offset), moved, begins) };
    // SAFETY: see `sendfile`.
    unsafe { recorder::moved(output, output_offset, moved) }
}

/// `copy_file_range(2)`. The client copies the bytes between two files of the store.
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
                _ if session::mode() == Mode::Prefix => {
                    Some(Err(match may(input, READING) && may(output, WRITING) {
                        true => libc::EXDEV,
                        false => libc::EBADF,
                    }))
                }
                _ => None,
            }
        })
    } else {
        None
    };
    recorder::before_move(input);
    let begins = (observation::begin(input), observation::begin(output));
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
    unsafe { observation::transferred((input, input_offset), (output, output_offset), copied, begins) };
    // SAFETY: see `sendfile`.
    unsafe { recorder::moved(output, output_offset, copied) }
}

/// Whether both descriptions have one offset. After an `exec`, two numbers of one placeholder are two values here.
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
        let refused =
            [from, to].into_iter().filter_map(Description::placeholder).find(|each| !each.is_file());
        return from.placeholder().map(|_| Err(refused.map_or(libc::EINVAL, |each| each.refusal())));
    };
    // An appending target has a rule of its own.
    to.refresh_flags(output);
    if !from.is_readable() || !to.is_writable() || to.appends() {
        return from.placeholder().map(|_| Err(libc::EBADF));
    }
    // One offset is locked once. The copy would put the bytes onto themselves, so the client refuses all but no bytes.
    if from_offset.is_none() && to_offset.is_none() && is_one_description(from, to) {
        from.placeholder()?;
        return from.with_offset(input, |at| {
            let copied = source.copy_range(&CALLER, at, target, at, count as u64);
            Some(session::outcome(copied)?.map(|bytes| (at + bytes, bytes)))
        });
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
    // Two copies in opposite directions take the two offsets in the same order.
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
