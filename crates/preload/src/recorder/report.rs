//! Reports of a file to the trace: when the file is made, at least once a second while it is written, and at its close.

use crate::files::promotion;
use crate::files::table::{self, Entry};
use crate::host::guard::quietly;
use crate::host::kernel;
use crate::host::real;
use crate::recorder::names::{self, Name};
use crate::recorder::open_file::{self, OpenFile};
use crate::recorder::{log, pool};
use crate::store::session::{self, Mode, CALLER};
use libc::{c_int, FILE};
use weir_trace::{Ended, Opened, Opening, Placed, Record, Written};

extern "C" {
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
}

/// Reports a file that was made or emptied.
pub(super) fn announce(file: &OpenFile, name: &Name) {
    if file.is_to_be_announced() {
        log::append(&[opened(file, name)]);
    }
}

fn opened<'a>(file: &OpenFile, name: &'a Name) -> Record<'a> {
    Record::Opened(Opened {
        file: file.number(),
        path: &name.path,
        true_path: &name.true_path,
        opening: file.opening(),
        after_nanoseconds: log::elapsed(),
    })
}

/// Notes the end of the bytes that were written at the kernel's offset, before the offset moves by other means.
pub(super) fn settle(descriptor: c_int, file: &OpenFile) {
    if file.take_moved() && file.is_behind(descriptor) {
        if let Some(position) = position(descriptor) {
            file.extend(position);
        }
    }
}

fn position(descriptor: c_int) -> Option<u64> {
    if let Entry::Known(description) = table::look_up(descriptor) {
        if let Some(placeholder) = description.placeholder() {
            return placeholder.with_offset(|offset| Some(Ok((offset, offset))))?.ok();
        }
        description.settle(descriptor);
    }
    kernel::seek(descriptor, 0, libc::SEEK_CUR).ok()
}

/// The file's size now.
pub(super) fn size(descriptor: c_int) -> Option<u64> {
    if session::mode() == Mode::Prefix {
        if let Some(description) = promotion::discovered(descriptor) {
            return description.file(descriptor)?.size(&CALLER).ok();
        }
    }
    let found = kernel::statx(descriptor, c"", libc::AT_EMPTY_PATH, libc::STATX_SIZE);
    found.ok().map(|found| found.stx_size)
}

/// Reports the writes to every file, because a second has gone by since the last report.
#[cold]
pub(super) fn due() {
    quietly(|| {
        open_file::set_reported(false);
        pool::each(|descriptor, file| {
            if file.is_dirty() {
                tell(descriptor, file, false);
            }
        });
    });
}

/// Reports a file for the last time: its last descriptor is about to be closed.
pub(super) fn last(descriptor: c_int, file: &OpenFile) {
    tell(descriptor, file, true);
}

fn tell(descriptor: c_int, file: &OpenFile, is_last: bool) {
    if !file.is_behind(descriptor) {
        return;
    }
    settle(descriptor, file);
    if file.is_at_size() {
        file.extend(size(descriptor).unwrap_or(0));
    }
    let (mut written, mut end) = file.counts();
    file.set_reported(written);
    let is_estimate = written == 0;
    if end > 0 && is_estimate {
        // The program stored to mapped memory alone.
        written = end;
    } else if is_last && is_estimate {
        (written, end) = estimate(descriptor, file);
    }
    if written == 0 && end == 0 && !file.is_announced() {
        return;
    }
    let name = if file.is_to_be_announced() {
        file.name().map(Name::plain).or_else(|| names::of_recorded_file(descriptor).map(Name::plain))
    } else {
        None
    };
    let layout = if file.is_to_be_placed() { layout_of(descriptor) } else { None };
    let mut records = Vec::with_capacity(3);
    records.extend(name.as_ref().map(|name| opened(file, name)));
    if let Some(layout) = &layout {
        file.set_placed();
        records.push(Record::Placed(Placed { file: file.number(), layout }));
    }
    records.push(Record::Written(Written {
        file: file.number(),
        end_bytes: end,
        written_bytes: written,
        is_estimate: is_estimate && written > 0,
        is_closed: is_last,
        after_nanoseconds: log::elapsed(),
    }));
    log::append(&records);
}

/// The estimated number of written bytes and their end, for a file whose writes the library did not see: those of libc's
/// streams, of a child, or asynchronous ones.
fn estimate(descriptor: c_int, file: &OpenFile) -> (u64, u64) {
    let Some(size) = size(descriptor) else { return (0, 0) };
    match file.opening() {
        Opening::Created | Opening::Truncated => (size, size),
        Opening::Existing if size > file.size_before() => (size - file.size_before(), size),
        Opening::Existing | Opening::Inherited => (0, 0),
    }
}

/// Has libc write the content of its streams now: libc itself would do so only after the library's end. A stream that another
/// thread holds is left to libc.
pub(super) fn flush_streams() {
    pool::each(|_, file| {
        let stream = file.stream().cast::<FILE>();
        if stream.is_null() {
            return;
        }
        // SAFETY: the close of a stream forgets the stream here.
        unsafe {
            if ftrylockfile(stream) == 0 {
                real::fflush(stream);
                funlockfile(stream);
            }
        }
    });
}

/// Reports all files for the last time, because the process image ends.
pub(super) fn everything() {
    pool::each(|descriptor, file| tell(descriptor, file, true));
    open_file::set_reported(true);
    if log::is_made() {
        log::append(&[Record::Ended(Ended {
            after_nanoseconds: log::elapsed(),
            missed_files: pool::missed(),
        })]);
    }
}

/// Goes on with reports once a second, because the process image did not end.
pub(super) fn resume() {
    if pool::is_on() {
        open_file::set_reported(false);
    }
}

/// The layout of the file behind `descriptor` in the spelling of `lfs setstripe`, if this process uses the file in the store.
pub(super) fn layout_of(descriptor: c_int) -> Option<String> {
    let table::Entry::Known(description) = table::look_up(descriptor) else { return None };
    let file = description.file_in_use()?;
    Some(file.layout().to_string())
}
