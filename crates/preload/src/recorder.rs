//! Recording: which files the program makes, and how much it writes to them.
//!
//! Where `WEIR_TRACE` names a directory, files of the store are recorded, and files below the paths of `WEIR_OBSERVE`,
//! whose calls pass to the kernel. A write costs a look at [`pool`] and an addition; whatever costs more (a file's
//! opening and closing, a report of what is open once a second) appends a block to the trace ([`log`]), so that it
//! outlives the process. A number that libc closes out of our sight is told from another file's by its inode.

use crate::files::{paths, promotion, state};
use crate::host::guard::{self, quietly, returned};
use crate::host::{forks, kernel};
use crate::store::session::{self, Mode};
use libc::{c_char, c_int, c_void, ssize_t};
use names::Name;
use pool::Found;
use weir_trace::{Opening, Record, Renamed, Unlinked};

mod clock;
mod log;
mod names;
mod open_file;
mod pool;
mod report;
mod settings;

pub(crate) use open_file::OpenFile;
pub(crate) use pool::{is_on, note_borrower};

/// What was known before a call that opens a file for writing.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    opening: Opening,
    appends: bool,
}

/// Begins to record, where the environment asks for a trace; `find` looks up a variable, whose name ends with `=`.
pub(crate) fn start<'a>(find: impl Fn(&[u8]) -> Option<&'a [u8]>) {
    if !settings::learn(find) {
        return;
    }
    forks::register();
    log::start();
    pool::switch_on();
    if settings::is_expected() {
        quietly(log::begin);
    }
}

/// A file is about to be opened: absent where it is not to be recorded. `is_there` looks whether the file exists.
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

/// What a call that makes a file of its own name knows before.
pub(crate) fn making() -> Option<Before> {
    is_on().then_some(Before { opening: Opening::Created, appends: false })
}

/// A call opened `descriptor`; `before` is what [`opening`] told of it.
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

/// The name to record for a regular file that was just opened by `path`, if it is to be recorded.
fn named(descriptor: c_int, directory: c_int, path: &[u8]) -> Option<Name> {
    if let Some(name) = placeholder_name(descriptor) {
        return name.map(Name::plain);
    }
    let true_name = names::of_recorded_file(descriptor)?;
    // Where a path climbs, only the kernel knows over which symbolic links.
    let climbs = path.split(|byte| *byte == b'/').any(|part| part == b"..");
    match names::absolute(directory, path).filter(|_| !climbs) {
        Some(path) if path != true_name => Some(Name { path, true_path: true_name }),
        _ => Some(Name::plain(true_name)),
    }
}

/// What a placeholder stands for: the name of a regular file, or nothing to record. Absent for other descriptors.
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

/// The recorded file behind `descriptor` whose writes are plainly the kernel's: it lies outside the store, and the
/// process has one thread, which nobody can cancel.
#[inline(always)]
pub(crate) fn plain(descriptor: c_int) -> Option<&'static OpenFile> {
    pool::plain(descriptor)
}

/// The kernel answered `result` to a write to a [`plain`] file; answers what libc would.
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

/// Threads may be there from now on.
pub(crate) fn note_thread() {
    pool::close_plain_way();
}

/// The program wrote at the file's offset; answers `result`.
#[inline]
pub(crate) fn wrote(descriptor: c_int, result: ssize_t) -> ssize_t {
    if is_on() && result > 0 {
        note(descriptor, None, result as u64);
    }
    result
}

/// The program wrote at `offset`; answers `result`.
#[inline]
pub(crate) fn wrote_at(descriptor: c_int, offset: libc::off_t, result: ssize_t) -> ssize_t {
    if is_on() && result > 0 {
        note(descriptor, u64::try_from(offset).ok(), result as u64);
    }
    result
}

/// As [`wrote_at`] with the offset after the call, where there is one.
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

/// Looks at a descriptor that the process did not open in our sight: it may have come over `exec`.
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

/// The file's offset is about to move by other means than writing.
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

/// The program maps a file so that its stores change it.
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

/// A stream of libc's writes to `descriptor` out of our sight.
pub(crate) fn streamed(descriptor: c_int, stream: *mut libc::FILE) {
    if is_on() && !stream.is_null() {
        if let Found::File(file) = pool::look_up(descriptor) {
            file.set_stream(stream.cast::<c_void>());
        }
    }
}

/// `descriptor` is about to be closed, by whomever.
pub(crate) fn closing(descriptor: c_int) {
    if !is_on() || guard::is_inside() {
        return;
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

/// The highest number that was ever recorded, -1 where none was.
pub(crate) fn highest() -> c_int {
    pool::highest()
}

/// The kernel made `new` a duplicate of `old`; answers `new`.
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

/// A file got another name; answers `result`.
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

/// A name was removed; answers `result`.
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

/// A child is about to be made that moves the offsets of what is open.
pub(crate) fn before_fork() {
    if is_on() {
        pool::each(|descriptor, file| {
            if file.has_moved() {
                report::settle(descriptor, file);
            }
        });
    }
}

/// In the child of a fork: what the parent wrote is the parent's to tell.
pub(crate) fn in_child() {
    if is_on() {
        log::start_in_child();
    }
}

/// The process ends, or its image is about to go (`exec`); `streams_follow` where libc is still to write what its
/// streams hold.
pub(crate) fn end(streams_follow: bool) {
    if !is_on() || guard::is_inside() {
        return;
    }
    if streams_follow {
        report::flush_streams();
    }
    quietly(report::everything);
}

/// The next image did not come: the process goes on.
pub(crate) fn resume() {
    report::resume();
}
