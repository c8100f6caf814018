//! The recorder: it notes which files the program makes, and how much the program writes to them.
//!
//! Where `WEIR_TRACE` names a directory, the recorder notes files of the store, and files below the paths of `WEIR_OBSERVE`,
//! whose calls pass to the kernel. A write costs a look at [`pool`] and an addition. Costlier events append a block to the
//! trace ([`log`]), so that the block outlives the process: a file's opening and closing, and once a second a report of the
//! open files. Each description of the store counts the sizes and places of its accesses ([`accesses`]). The client's
//! operations are counted in windows, which are written as they end ([`windows`]). libc may close a number without a call that the library sees: the inode tells the next file from the last.

use crate::files::{paths, promotion, state, table};
use crate::host::guard::{self, quietly, returned};
use crate::host::kernel;
use crate::store::session::{self, Mode};
use libc::{c_char, c_int, c_void, ssize_t};
use names::Name;
use pool::Found;
use weir_trace::{Opening, Record, Renamed, Unlinked};

mod accesses;
mod clock;
mod log;
mod names;
mod open_file;
mod pool;
mod report;
mod room;
mod settings;
mod windows;

pub(crate) use clock::clock;
pub(crate) use names::is_below;
pub(crate) use open_file::OpenFile;
pub(crate) use pool::{is_on, note_borrower};

/// The state of a file before a call that opens it for writing.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    opening: Opening,
    appends: bool,
}

/// Begins to record, where the environment asks for a trace. `find` looks up a variable, whose name ends with `=`.
pub(crate) fn start<'a>(find: impl Fn(&[u8]) -> Option<&'a [u8]>) {
    if !settings::learn(find) {
        return;
    }
    log::start();
    pool::switch_on();
    windows::start();
    if settings::is_expected() {
        quietly(log::begin);
    }
}

/// The state of a file that is about to be opened, absent for a file that is not recorded. `is_there` looks whether the file
/// exists.
pub(crate) fn opening(flags: c_int, is_there: impl FnOnce() -> bool) -> Option<Before> {
    let is_written = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    let is_other = flags & libc::O_PATH != 0 || flags & libc::O_DIRECTORY != 0;
    if !is_on() || !is_written || is_other || guard::is_inside() {
        return None;
    }
    let makes = flags & libc::O_CREAT != 0;
    let is_there = !(makes && flags & libc::O_EXCL != 0) && is_there();
    let opening = match (is_there, flags & libc::O_TRUNC != 0) {
        (false, _) => Opening::Created,
        (true, true) => Opening::Truncated,
        (true, false) => Opening::Existing,
    };
    Some(Before { opening, appends: flags & libc::O_APPEND != 0 })
}

/// The state of a file that a call makes under a name of its own.
pub(crate) fn making() -> Option<Before> {
    is_on().then_some(Before { opening: Opening::Created, appends: false })
}

/// Notes that a call opened `descriptor`. `before` is the answer of [`opening`].
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn opened(
    descriptor: c_int,
    (directory, path): (c_int, *const c_char),
    before: Option<Before>,
) {
    if descriptor < 0 || !is_on() || guard::is_inside() {
        return;
    }
    closing(descriptor);
    let Some(before) = before else { return };
    // SAFETY: as the caller promises.
    let text = unsafe { paths::text(path) };
    quietly(|| {
        let named = text.and_then(|text| named(descriptor, directory, text));
        match named {
            Some(name) => enter(descriptor, &name, before),
            None => pool::mark_foreign(descriptor),
        }
    });
}

/// The name to record for a regular file that was just opened by `path`, if the file is recorded.
fn named(descriptor: c_int, directory: c_int, path: &[u8]) -> Option<Name> {
    if let Some(name) = placeholder_name(descriptor) {
        return name.map(Name::plain);
    }
    let true_name = names::of_recorded_file(descriptor)?;
    // Only the kernel knows the symbolic links over which a path climbs.
    let climbs = path.split(|byte| *byte == b'/').any(|part| part == b"..");
    match names::absolute(directory, path).filter(|_| !climbs) {
        Some(path) if path != true_name => Some(Name { path, true_path: true_name }),
        _ => Some(Name::plain(true_name)),
    }
}

/// The name of the regular file behind a placeholder, or nothing where the placeholder is not recorded. Absent for other
/// descriptors.
fn placeholder_name(descriptor: c_int) -> Option<Option<Vec<u8>>> {
    if session::mode() != Mode::Prefix {
        return None;
    }
    let description = promotion::discovered(descriptor)?;
    let state = description.placeholder()?.state();
    let is_regular = matches!(state.kind, state::Kind::Regular(_));
    Some(is_regular.then(|| [session::root(), b"/", &state.path].concat()))
}

fn enter(descriptor: c_int, name: &Name, before: Before) {
    let Some(file) = pool::make(descriptor, &name.path, before.opening, before.appends) else { return };
    pool::set(descriptor, Some(file));
    if matches!(before.opening, Opening::Created | Opening::Truncated) {
        report::announce(file, name);
    }
}

/// The recorded file behind `descriptor`, if its writes are plainly the kernel's: the file lies outside the store, and the
/// process has one thread, which nobody can cancel.
#[inline(always)]
pub(crate) fn plain(descriptor: c_int) -> Option<&'static OpenFile> {
    pool::plain(descriptor)
}

/// Counts a write to a [`plain`] file, to which the kernel answered `result`. Answers libc's result.
#[inline(always)]
pub(crate) fn counted(file: &OpenFile, offset: Option<libc::off_t>, result: isize) -> ssize_t {
    if result <= 0 {
        return returned(result);
    }
    if file.add_alone(offset.map(|offset| offset as u64), result as u64) {
        report::due();
    }
    result
}

/// Notes that the process may have threads from now on.
pub(crate) fn note_thread() {
    pool::close_plain_way();
}

/// Counts a write at the file's offset. Answers `result`.
#[inline]
pub(crate) fn wrote(descriptor: c_int, result: ssize_t) -> ssize_t {
    if is_on() && result > 0 {
        note(descriptor, None, result as u64);
    }
    result
}

/// Counts a write at `offset`. Answers `result`.
#[inline]
pub(crate) fn wrote_at(descriptor: c_int, offset: libc::off_t, result: ssize_t) -> ssize_t {
    if is_on() && result > 0 {
        note(descriptor, u64::try_from(offset).ok(), result as u64);
    }
    result
}

/// Counts a write whose call answers the offset after it, if the call has an offset. Answers `result`.
///
/// # Safety
/// `offset` is null or readable.
pub(crate) unsafe fn moved(descriptor: c_int, offset: *const libc::off_t, result: ssize_t) -> ssize_t {
    if is_on() && result > 0 {
        // SAFETY: as the caller promises.
        let start = unsafe { offset.as_ref() }.map(|after| (*after - result as libc::off_t).max(0) as u64);
        note(descriptor, start, result as u64);
    }
    result
}

#[inline]
fn note(descriptor: c_int, offset: Option<u64>, bytes: u64) {
    if pool::is_lent() && guard::is_inside() {
        return;
    }
    let file = match pool::look_up(descriptor) {
        Found::File(file) => file,
        Found::Foreign => return,
        Found::Unknown => match discover(descriptor) {
            Some(file) => file,
            None => return,
        },
    };
    if file.add(offset, bytes) {
        report::due();
    }
}

/// Looks at a descriptor whose opening the library did not see: it may have come over `exec`.
#[cold]
fn discover(descriptor: c_int) -> Option<&'static OpenFile> {
    let mut found = None;
    quietly(|| {
        let name = match placeholder_name(descriptor) {
            Some(name) => name,
            None => names::of_recorded_file(descriptor),
        };
        match name {
            Some(name) => {
                let appends = kernel::status_flags(descriptor).is_ok_and(|flags| flags & libc::O_APPEND != 0);
                found = pool::make(descriptor, &name, Opening::Inherited, appends);
                pool::set(descriptor, found);
            }
            None => pool::mark_foreign(descriptor),
        }
    });
    found
}

/// Notes the end of the writes at the file's offset, which is about to move by other means.
#[inline]
pub(crate) fn before_move(descriptor: c_int) {
    if is_on() {
        if let Found::File(file) = pool::look_up(descriptor) {
            if file.has_moved() && !guard::is_inside() {
                quietly(|| report::settle(descriptor, file));
            }
        }
    }
}

/// Counts the range of a mapping through which the program can write.
pub(crate) fn mapped(descriptor: c_int, protection: c_int, flags: c_int, end: Option<u64>) {
    let is_written = protection & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0;
    if !is_on() || !is_written || guard::is_inside() {
        return;
    }
    let found = match pool::look_up(descriptor) {
        Found::File(file) => Some(file),
        Found::Unknown => discover(descriptor),
        Found::Foreign => None,
    };
    if let (Some(file), Some(end)) = (found, end) {
        quietly(|| file.extend(report::size(descriptor).map_or(end, |size| end.min(size))));
    }
}

/// Notes the stream with which libc writes to `descriptor`.
pub(crate) fn streamed(descriptor: c_int, stream: *mut libc::FILE) {
    if is_on() && !stream.is_null() {
        if let Found::File(file) = pool::look_up(descriptor) {
            file.set_stream(stream.cast::<c_void>());
        }
    }
}

/// Notes that `descriptor` is about to be closed.
pub(crate) fn closing(descriptor: c_int) {
    if !is_on() || guard::is_inside() {
        return;
    }
    if table::is_known(descriptor) {
        quietly(|| accesses::tell(descriptor));
    }
    match pool::look_up(descriptor) {
        Found::Unknown => {}
        Found::Foreign => pool::set(descriptor, None),
        Found::File(_) => quietly(|| {
            let Some(file) = pool::take(descriptor) else { return };
            if file.release() {
                report::last(descriptor, file);
                file.recycle();
            }
        }),
    }
}

/// The highest number that was ever recorded, -1 before the first.
pub(crate) fn highest() -> c_int {
    pool::highest()
}

/// Notes that the kernel made `new` a duplicate of `old`. Answers `new`.
pub(crate) fn duplicated(old: c_int, new: c_int) -> c_int {
    if is_on() && new >= 0 && old != new && !guard::is_inside() {
        closing(new);
        match pool::look_up(old) {
            Found::File(file) => {
                file.share();
                pool::set(new, Some(file));
            }
            Found::Foreign => pool::mark_foreign(new),
            Found::Unknown => {}
        }
    }
    new
}

/// Notes that a file got another name. Answers `result`.
///
/// # Safety
/// Both paths are null or end with a zero byte.
pub(crate) unsafe fn renamed(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    result: c_int,
) -> c_int {
    if result == 0 && is_on() && !guard::is_inside() {
        // SAFETY: as the caller promises.
        let (first, second) = unsafe { (paths::text(from.1), paths::text(to.1)) };
        quietly(|| {
            let absolute = |at, text: Option<&[u8]>| text.and_then(|text| names::absolute(at, text));
            let (Some(from), Some(to)) = (absolute(from.0, first), absolute(to.0, second)) else { return };
            if names::is_recorded(&from) || names::is_recorded(&to) {
                let after_nanoseconds = log::elapsed();
                log::append(&[Record::Renamed(Renamed { from: &from, to: &to, after_nanoseconds })]);
            }
        });
    }
    result
}

/// Notes that a name was removed. Answers `result`.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn unlinked(directory: c_int, path: *const c_char, result: c_int) -> c_int {
    if result == 0 && is_on() && !guard::is_inside() {
        // SAFETY: as the caller promises.
        let text = unsafe { paths::text(path) };
        quietly(|| {
            let absolute = text.and_then(|text| names::absolute(directory, text));
            if let Some(path) = absolute.filter(|path| names::is_recorded(path)) {
                let after_nanoseconds = log::elapsed();
                log::append(&[Record::Unlinked(Unlinked { path: &path, after_nanoseconds })]);
            }
        });
    }
    result
}

/// Notes the ends of all writes, before a child is made that moves the offsets of open files.
pub(crate) fn before_fork() {
    if is_on() {
        pool::each(|descriptor, file| {
            if file.has_moved() {
                report::settle(descriptor, file);
            }
        });
    }
}

/// Begins anew in the child of a fork: the parent reports its own writes.
pub(crate) fn in_child() {
    if is_on() {
        log::start_in_child();
    }
}

/// Reports everything, because the process ends, or its image is about to go (`exec`). `streams_follow` where libc writes the
/// content of its streams afterwards.
pub(crate) fn end(streams_follow: bool) {
    if !is_on() || guard::is_inside() {
        return;
    }
    if streams_follow {
        report::flush_streams();
    }
    quietly(accesses::tell_all);
    quietly(report::everything);
}

/// Writes all windows, because the process ends, or its image is about to go. Requests that end it have been made.
pub(crate) fn end_windows() {
    if is_on() && !guard::is_inside() {
        quietly(windows::finish);
    }
}

/// Goes on to record, because `exec` failed.
pub(crate) fn resume() {
    report::resume();
    windows::resume();
}
