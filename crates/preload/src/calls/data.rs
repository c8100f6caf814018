//! Reads and writes: the bytes of promoted descriptors go straight to the targets.

use crate::calls::appends;
use crate::files::description::Description;
use crate::files::{prefix, promotion, sharing, table};
use crate::host::guard::{attempt, fail, finish, Outcome};
use crate::host::{addresses, file_size, kernel, real};
use crate::store::counters::{self, Call};
use crate::store::session::{self, Mode, CALLER};
use crate::{observation, recorder};
use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};
use std::io::{IoSlice, IoSliceMut};
use weir_client::File;

/// Buffers of one call (`UIO_MAXIOV`). The kernel refuses more.
const BUFFERS: usize = 1024;
/// Bytes of one call (`MAX_RW_COUNT`). Longer calls are cut, as by the kernel.
const CALL_BYTES: usize = 0x7fff_f000;

/// The position of a read or write.
#[derive(Clone, Copy)]
enum Position {
    /// The description's offset, which moves.
    Current,
    /// This offset.
    At(u64),
}

impl Position {
    /// The position of `pread` and the like. Absent for a negative offset, which the kernel refuses.
    fn at(offset: off_t) -> Option<Position> {
        u64::try_from(offset).ok().map(Position::At)
    }
}

/// Whether a call on `descriptor` may concern the store: a few instructions for another descriptor. With a mount, the kernel
/// serves reads of an inherited descriptor, which is shared. Of writes to an inherited descriptor the library has to know,
/// because they may be appends.
fn is_candidate<D: Direction>(descriptor: c_int, position: Option<Position>) -> bool {
    if table::is_known(descriptor) {
        return position.is_some();
    }
    match (position, session::mode()) {
        (None, _) | (_, Mode::Off) => false,
        (Some(Position::Current), Mode::Mount) if !D::WRITES => false,
        _ => !table::is_foreign(descriptor),
    }
}

/// Runs `operate` on the description. A call that the kernel has to serve is counted.
fn on_description<T>(descriptor: c_int, operate: impl FnOnce(&Description) -> Outcome<T>) -> Outcome<T> {
    let description = promotion::discovered(descriptor)?;
    if description.is_the_kernels() {
        description.settle(descriptor);
        counters::passed();
        return None;
    }
    let outcome = operate(&description);
    if outcome.is_none() {
        description.settle(descriptor);
        counters::passed();
    }
    outcome
}

/// The file for data calls. Without a mount, a node that is not a regular file has its own answer.
fn file_of<D: Direction>(description: &Description, descriptor: c_int) -> Result<&File, Option<c_int>> {
    match description.file(descriptor) {
        Some(file) => Ok(file),
        // No directory is ever open for writes.
        None if D::WRITES => Err(description.placeholder().map(|_| libc::EBADF)),
        None => Err(description.placeholder().map(|placeholder| placeholder.refusal())),
    }
}

/// Reads into `buffers`.
fn reading(descriptor: c_int, position: Position, buffers: &mut [IoSliceMut<'_>]) -> Outcome<usize> {
    let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
    on_description(descriptor, |description| {
        let file = match file_of::<Reading>(description, descriptor) {
            Ok(file) => file,
            Err(refusal) => return refusal.map(Err),
        };
        if !description.is_readable() {
            return description.placeholder().map(|_| Err(libc::EBADF));
        }
        let mut read_at = |offset| {
            let read = description.answer(file.read_at(&CALLER, buffers, offset))?;
            Some(read.inspect(|bytes| {
                counters::read(*bytes);
                if recorder::is_on() {
                    description.accesses().read(offset, *bytes);
                }
            }))
        };
        match position {
            Position::At(offset) => read_at(offset),
            Position::Current => description.with_offset(descriptor, |offset| {
                if !fits(offset, bytes) {
                    return Some(Err(libc::EINVAL));
                }
                Some(read_at(offset)?.map(|bytes| (offset + bytes as u64, bytes)))
            }),
        }
    })
}

/// Writes `buffers`.
fn writing(descriptor: c_int, position: Position, buffers: &[IoSlice<'_>]) -> Outcome<usize> {
    let written =
        on_description(descriptor, |description| write_on(description, descriptor, position, buffers));
    if written.is_none() {
        appends::prepare_kernel(descriptor);
    }
    written
}

fn write_on(
    description: &Description,
    descriptor: c_int,
    position: Position,
    buffers: &[IoSlice<'_>],
) -> Outcome<usize> {
    let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
    let file = match file_of::<Writing>(description, descriptor) {
        Ok(file) => file,
        Err(refusal) => return refusal.map(Err),
    };
    if !description.is_writable() {
        return description.placeholder().map(|_| Err(libc::EBADF));
    }
    description.refresh_flags(descriptor);
    let is_kernels = description.is_synchronous() || file_size::limit().is_some();
    if is_kernels && description.placeholder().is_none() {
        description.settle(descriptor);
        return None;
    }
    let written = match position {
        Position::At(offset) => {
            write_to(description, (descriptor, file), offset, buffers).map(|done| done.map(|(_, n)| n))
        }
        Position::Current => description
            .with_offset(descriptor, |offset| {
                if !fits(offset, bytes) {
                    return Some(Err(libc::EINVAL));
                }
                write_to(description, (descriptor, file), offset, buffers)
            })
            .or_else(|| {
                let append = || write_to(description, (descriptor, file), 0, buffers);
                appends::append_shared(description, descriptor, append)
            }),
    };
    if description.is_synchronous() && matches!(written, Some(Ok(_))) {
        if let Err(number) = description.answer(file.sync(&CALLER, false))? {
            return Some(Err(number));
        }
    }
    written
}

/// Writes at `offset`, or at the end for `O_APPEND`, as Linux does for `pwrite`, too. Answers the offset behind the bytes and
/// their number.
fn write_to(
    description: &Description,
    (descriptor, file): (c_int, &File),
    offset: u64,
    buffers: &[IoSlice<'_>],
) -> Outcome<(u64, usize)> {
    let cut;
    let buffers = match file_size::limit() {
        None => buffers,
        Some(_) => match within_limit(description, file, offset, buffers)? {
            Ok(within) => {
                cut = within;
                &cut[..]
            }
            Err(number) => return Some(Err(number)),
        },
    };
    Some(if description.appends() {
        let appended = description.written(descriptor, file.append(&CALLER, buffers))?;
        appended
            .inspect(|(start, bytes)| {
                counters::wrote(Call::Append, *bytes);
                if recorder::is_on() {
                    description.accesses().wrote(*start, *bytes);
                }
            })
            .map(|(start, bytes)| (start + bytes as u64, bytes))
    } else {
        let written = description.written(descriptor, file.write_at(&CALLER, buffers, offset))?;
        written
            .inspect(|bytes| {
                counters::wrote(Call::Write, *bytes);
                if recorder::is_on() {
                    description.accesses().wrote(offset, *bytes);
                }
            })
            .map(|bytes| (offset + bytes as u64, bytes))
    })
}

/// The part of `buffers` that the limit on the size of files lets the process write.
fn within_limit<'a>(
    description: &Description,
    file: &File,
    offset: u64,
    buffers: &'a [IoSlice<'a>],
) -> Outcome<Vec<IoSlice<'a>>> {
    let start = if description.appends() { description.answer(file.size(&CALLER))? } else { Ok(offset) };
    let wanted = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let mut room = match start.and_then(|start| file_size::room(start, wanted)) {
        Ok(room) => room as usize,
        Err(number) => return Some(Err(number)),
    };
    let within = |buffer: &'a IoSlice<'a>| {
        let taken = buffer.len().min(room);
        room -= taken;
        IoSlice::new(&buffer[..taken])
    };
    Some(Ok(buffers.iter().map(within).filter(|part| !part.is_empty()).collect()))
}

/// Whether the end of a transfer is an offset of the kernel, which refuses other transfers (`rw_verify_area`).
fn fits(offset: u64, bytes: usize) -> bool {
    offset.checked_add(bytes as u64).is_some_and(|end| end <= i64::MAX as u64)
}

/// The number of bytes that one call moves of a transfer of `bytes` at `position`.
///
/// # Errors
/// EINVAL for a transfer that the kernel refuses.
fn allowed(position: Position, bytes: usize) -> Result<usize, c_int> {
    match position {
        Position::At(offset) if !fits(offset, bytes) => Err(libc::EINVAL),
        _ => Ok(bytes.min(CALL_BYTES)),
    }
}

/// A direction in which a call moves bytes between a file and the program's memory.
trait Direction {
    /// A buffer of the program.
    type Buffer<'a>;

    /// Whether the call writes to the file.
    const WRITES: bool;

    /// Number of the bytes from `start` on that the call can use, at most `bytes`.
    fn usable(start: *mut c_void, bytes: usize) -> usize;

    /// The buffer of `bytes` bytes at `start`.
    ///
    /// # Safety
    /// The call can use the bytes, and no other code of this process touches them during the call.
    unsafe fn buffer<'a>(start: *mut c_void, bytes: usize) -> Self::Buffer<'a>;

    /// Whether the description is open for this direction.
    fn is_open(description: &Description) -> bool;

    /// Moves the bytes of `buffers`.
    fn transfer(descriptor: c_int, position: Position, buffers: &mut [Self::Buffer<'_>]) -> Outcome<usize>;
}

/// Bytes move into the program's memory.
struct Reading;
/// Bytes move out of the program's memory.
struct Writing;

impl Direction for Reading {
    type Buffer<'a> = IoSliceMut<'a>;

    const WRITES: bool = false;

    fn usable(start: *mut c_void, bytes: usize) -> usize {
        addresses::taking(start, bytes)
    }

    unsafe fn buffer<'a>(start: *mut c_void, bytes: usize) -> IoSliceMut<'a> {
        // SAFETY: as the caller promises.
        IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes) })
    }

    fn is_open(description: &Description) -> bool {
        description.is_readable()
    }

    fn transfer(descriptor: c_int, position: Position, buffers: &mut [IoSliceMut<'_>]) -> Outcome<usize> {
        reading(descriptor, position, buffers)
    }
}

impl Direction for Writing {
    type Buffer<'a> = IoSlice<'a>;

    const WRITES: bool = true;

    fn usable(start: *mut c_void, bytes: usize) -> usize {
        addresses::giving(start, bytes)
    }

    unsafe fn buffer<'a>(start: *mut c_void, bytes: usize) -> IoSlice<'a> {
        // SAFETY: as the caller promises.
        IoSlice::new(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) })
    }

    fn is_open(description: &Description) -> bool {
        description.is_writable()
    }

    fn transfer(descriptor: c_int, position: Position, buffers: &mut [IoSlice<'_>]) -> Outcome<usize> {
        writing(descriptor, position, buffers)
    }
}

/// Moves the bytes of one buffer of the program.
///
/// # Safety
/// `buffer` has `count` bytes for the direction, as `read(2)` or `write(2)` demands, or is a bad address.
#[inline(always)]
unsafe fn move_one<D: Direction>(
    descriptor: c_int,
    position: Option<Position>,
    buffer: *mut c_void,
    count: usize,
) -> Outcome<usize> {
    if !is_candidate::<D>(descriptor, position) {
        return None;
    }
    let position = position?;
    attempt(|| {
        if (buffer as usize).checked_add(count).is_none_or(|end| end > isize::MAX as usize) {
            // No memory of a program reaches so far.
            return refused::<D>(descriptor, Err(libc::EFAULT));
        }
        let count = match allowed(position, count) {
            Ok(count) if count > 0 => count,
            nothing => return refused::<D>(descriptor, nothing),
        };
        let usable = D::usable(buffer, count);
        if usable == 0 {
            return refused::<D>(descriptor, Err(libc::EFAULT));
        }
        // SAFETY: as the caller promises.
        D::transfer(descriptor, position, &mut [unsafe { D::buffer(buffer, usable) }])
    })
}

/// Answers a transfer that moves nothing. With a mount the kernel answers it, with the right offset. Without a mount the
/// answer is `answer`, where the description allows such transfers at all.
fn refused<D: Direction>(descriptor: c_int, answer: Result<usize, c_int>) -> Outcome<usize> {
    let description = promotion::discovered(descriptor)?;
    if description.placeholder().is_none() {
        description.settle(descriptor);
        return None;
    }
    Some(match file_of::<D>(&description, descriptor) {
        Err(refusal) => Err(refusal.unwrap_or(libc::EBADF)),
        Ok(_) if !D::is_open(&description) => Err(libc::EBADF),
        Ok(_) => answer,
    })
}

/// The buffers of a vectored call without the empty ones, and the number of their bytes.
///
/// # Errors
/// The number with which the call fails.
///
/// # Safety
/// `vector` has `count` elements, or is a bad address.
unsafe fn vector_of<'a>(
    vector: *const iovec,
    count: c_int,
) -> Result<(impl Iterator<Item = &'a iovec>, usize), c_int> {
    let count = usize::try_from(count).ok().filter(|count| *count <= BUFFERS).ok_or(libc::EINVAL)?;
    if !addresses::can_read(vector, count) {
        return Err(libc::EFAULT);
    }
    // SAFETY: as the caller promises. An empty vector may be null.
    let vector = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(vector, count) } };
    if vector.iter().any(|part| part.iov_len > isize::MAX as usize) {
        return Err(libc::EINVAL);
    }
    let total = vector.iter().fold(0_usize, |sum, part| sum.saturating_add(part.iov_len));
    Ok((vector.iter().filter(|part| part.iov_len > 0), total.min(CALL_BYTES)))
}

/// The first `total` bytes of the buffers of a vector, up to the first bad address, each as far as the call can use it.
///
/// # Safety
/// Each part has its length for the direction, as `readv(2)` or `writev(2)` demands, or is a bad address.
unsafe fn usable_buffers<'a, D: Direction>(
    parts: impl Iterator<Item = &'a iovec>,
    total: usize,
) -> Vec<D::Buffer<'a>> {
    let mut found = Vec::new();
    let mut room = total;
    for part in parts {
        let bytes = D::usable(part.iov_base, part.iov_len.min(room));
        if bytes > 0 {
            // SAFETY: as the caller promises.
            found.push(unsafe { D::buffer(part.iov_base, bytes) });
        }
        room -= bytes;
        if bytes < part.iov_len {
            break;
        }
    }
    found
}

/// Moves the bytes of a vector of buffers.
///
/// # Safety
/// As for `readv(2)` or `writev(2)`.
unsafe fn move_many<D: Direction>(
    descriptor: c_int,
    position: Option<Position>,
    vector: *const iovec,
    count: c_int,
) -> Outcome<usize> {
    if !is_candidate::<D>(descriptor, position) {
        return None;
    }
    let position = position?;
    attempt(|| {
        // SAFETY: as the caller promises.
        let (parts, total) = match unsafe { vector_of(vector, count) } {
            Ok(found) => found,
            Err(number) => return refused::<D>(descriptor, Err(number)),
        };
        let total = match allowed(position, total) {
            Ok(total) if total > 0 => total,
            nothing => return refused::<D>(descriptor, nothing),
        };
        // SAFETY: as the caller promises.
        let mut buffers = unsafe { usable_buffers::<D>(parts, total) };
        if buffers.is_empty() {
            return refused::<D>(descriptor, Err(libc::EFAULT));
        }
        D::transfer(descriptor, position, &mut buffers)
    })
}

/// The position of `preadv2` and `pwritev2`, where -1 is the current offset. With a mount only the kernel knows the meaning of
/// flags, so the kernel gets the offset.
fn position2(descriptor: c_int, offset: off_t, flags: c_int) -> Result<Option<Position>, c_int> {
    if flags != 0 && session::mode() == Mode::Mount {
        sharing::settle(descriptor);
        return Ok(None);
    }
    if flags & !libc::RWF_HIPRI != 0 && prefix::holds(descriptor) {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(if offset == -1 { Some(Position::Current) } else { Position::at(offset) })
}

fn bytes(count: usize) -> ssize_t {
    count as ssize_t
}

/// `read(2)`.
pub(crate) unsafe fn read(descriptor: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    recorder::before_move(descriptor);
    let begin = observation::begin(descriptor);
    // SAFETY: the program's own promises, here and in all functions below.
    let read = unsafe {
        finish(move_one::<Reading>(descriptor, Some(Position::Current), buffer, count), bytes, || {
            real::read(descriptor, buffer, count)
        })
    };
    observation::read(descriptor, None, read, begin)
}

/// `write(2)`. After a system call, each return to a caller costs as much as the count of a write. So the way of a recorded
/// file outside the store is flat.
#[inline(always)]
pub(crate) unsafe fn write(descriptor: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    if let Some(file) = recorder::plain(descriptor).filter(|_| !observation::is_on()) {
        let arguments = [descriptor as usize, buffer as usize, count, 0, 0, 0];
        // SAFETY: see `read`.
        return recorder::counted(file, None, unsafe { kernel::raw(libc::SYS_write, arguments) });
    }
    // SAFETY: see `read`.
    unsafe { write_followed(descriptor, buffer, count) }
}

#[inline(never)]
unsafe fn write_followed(descriptor: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let written = unsafe {
        finish(
            move_one::<Writing>(descriptor, Some(Position::Current), buffer.cast_mut(), count),
            bytes,
            || real::write(descriptor, buffer, count),
        )
    };
    observation::wrote(descriptor, None, written, begin);
    recorder::wrote(descriptor, written)
}

/// Writes until all bytes are written, or a write fails or moves nothing. Answers the number of written bytes.
///
/// # Safety
/// As for `write(2)`.
pub(crate) unsafe fn write_fully(descriptor: c_int, bytes: *const c_void, count: size_t) -> usize {
    let mut done = 0;
    while done < count {
        // SAFETY: as the caller promises.
        match usize::try_from(unsafe { write(descriptor, bytes.wrapping_byte_add(done), count - done) }) {
            Ok(written) if written > 0 => done += written,
            _ => break,
        }
    }
    done
}

/// `pread(2)`.
pub(crate) unsafe fn pread(descriptor: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let read = unsafe {
        finish(move_one::<Reading>(descriptor, Position::at(offset), buffer, count), bytes, || {
            real::pread(descriptor, buffer, count, offset)
        })
    };
    observation::read(descriptor, Some(offset), read, begin)
}

/// `pwrite(2)`, as flat as [`write`].
#[inline(always)]
pub(crate) unsafe fn pwrite(
    descriptor: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    if let Some(file) = recorder::plain(descriptor).filter(|_| !observation::is_on()) {
        let arguments = [descriptor as usize, buffer as usize, count, offset as usize, 0, 0];
        // SAFETY: see `read`.
        return recorder::counted(file, Some(offset), unsafe { kernel::raw(libc::SYS_pwrite64, arguments) });
    }
    // SAFETY: see `read`.
    unsafe { pwrite_followed(descriptor, buffer, count, offset) }
}

#[inline(never)]
unsafe fn pwrite_followed(descriptor: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let written = unsafe {
        finish(move_one::<Writing>(descriptor, Position::at(offset), buffer.cast_mut(), count), bytes, || {
            real::pwrite(descriptor, buffer, count, offset)
        })
    };
    observation::wrote(descriptor, Some(offset), written, begin);
    recorder::wrote_at(descriptor, offset, written)
}

/// `readv(2)`.
pub(crate) unsafe fn readv(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    recorder::before_move(descriptor);
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let read = unsafe {
        finish(move_many::<Reading>(descriptor, Some(Position::Current), vector, count), bytes, || {
            real::readv(descriptor, vector, count)
        })
    };
    observation::read(descriptor, None, read, begin)
}

/// `writev(2)`.
pub(crate) unsafe fn writev(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let written = unsafe {
        finish(move_many::<Writing>(descriptor, Some(Position::Current), vector, count), bytes, || {
            real::writev(descriptor, vector, count)
        })
    };
    observation::wrote(descriptor, None, written, begin);
    recorder::wrote(descriptor, written)
}

/// `preadv(2)`.
pub(crate) unsafe fn preadv(descriptor: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let read = unsafe {
        finish(move_many::<Reading>(descriptor, Position::at(offset), vector, count), bytes, || {
            real::preadv(descriptor, vector, count, offset)
        })
    };
    observation::read(descriptor, Some(offset), read, begin)
}

/// `pwritev(2)`.
pub(crate) unsafe fn pwritev(
    descriptor: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let written = unsafe {
        finish(move_many::<Writing>(descriptor, Position::at(offset), vector, count), bytes, || {
            real::pwritev(descriptor, vector, count, offset)
        })
    };
    observation::wrote(descriptor, Some(offset), written, begin);
    recorder::wrote_at(descriptor, offset, written)
}

/// `preadv2(2)`.
pub(crate) unsafe fn preadv2(
    descriptor: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let position = match position2(descriptor, offset, flags) {
        Ok(position) => position,
        Err(number) => return fail(number),
    };
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let read = unsafe {
        finish(move_many::<Reading>(descriptor, position, vector, count), bytes, || {
            real::preadv2(descriptor, vector, count, offset, flags)
        })
    };
    observation::read(descriptor, (offset != -1).then_some(offset), read, begin)
}

/// `pwritev2(2)`.
pub(crate) unsafe fn pwritev2(
    descriptor: c_int,
    vector: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let position = match position2(descriptor, offset, flags) {
        Ok(position) => position,
        Err(number) => return fail(number),
    };
    let begin = observation::begin(descriptor);
    // SAFETY: see `read`.
    let written = unsafe {
        finish(move_many::<Writing>(descriptor, position, vector, count), bytes, || {
            real::pwritev2(descriptor, vector, count, offset, flags)
        })
    };
    observation::wrote(descriptor, (offset != -1).then_some(offset), written, begin);
    if offset == -1 {
        recorder::wrote(descriptor, written)
    } else {
        recorder::wrote_at(descriptor, offset, written)
    }
}
