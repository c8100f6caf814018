//! The opening of a file: through the mount, below the prefix, or at the host.

use crate::calls::{close, open_beside_kernel, open_in_store, stat};
use crate::files::{generation, paths, promotion, table};
use crate::host::guard::{self, fail, quietly};
use crate::host::real;
use crate::store::counters::{self, Call};
use crate::store::session::{self, Mode};
use crate::{observation, placement, recorder};
use libc::{c_char, c_int, mode_t};

/// The mode that the fortified forms pass on. These forms make no file.
const CREATED_MODE: mode_t = 0o666;

/// `openat(2)` under all its names. `mode` counts only where a file may be made.
pub(crate) unsafe fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own promises, here and in all functions below.
    unsafe {
        let before = before_opening(directory, path, flags);
        let begin = observation::begin_opening();
        let opened = open_by_mode(directory, path, flags, mode);
        observation::opened(opened, begin);
        recorder::opened(opened, (directory, path), before);
        opened
    }
}

/// The recorder's state of a file before a path is opened.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn before_opening(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
) -> Option<recorder::Before> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    recorder::opening(flags, || unsafe { stat::exists(directory, path) })
}

unsafe fn open_by_mode(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    match session::mode() {
        // SAFETY: see `openat`.
        Mode::Off => unsafe {
            placement::open(directory, path, flags, mode, |flags| real::openat(directory, path, flags, mode))
        },
        // SAFETY: see above.
        Mode::Prefix => unsafe {
            open_in_store::open(directory, path, flags, mode, |directory, path| {
                let pass = |flags| real::openat(directory, path, flags, mode);
                let opened = placement::open(directory, path, flags, mode, pass);
                close::note_foreign(opened);
                opened
            })
        },
        Mode::Mount => {
            // SAFETY: see above.
            let text = unsafe { paths::text(path) };
            let opened = text.and_then(|text| open_beside_kernel::open(directory, text, flags, mode));
            match opened {
                Some(Ok(opened)) => return opened,
                Some(Err(number)) => return fail(number),
                None => {}
            }
            let generation = generation::generation();
            // SAFETY: see above.
            let opened = unsafe {
                placement::open(directory, path, flags, mode, |flags| {
                    real::openat(directory, path, flags, mode)
                })
            };
            if guard::is_inside() {
                return opened;
            }
            if opened >= 0 {
                let text = text.filter(|text| paths::is_candidate(directory, text));
                note_opened(opened, text, flags, generation);
            } else {
                paths::correct_stale(directory, text);
            }
            opened
        }
    }
}

/// `open(2)`.
pub(crate) unsafe fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: see `openat`.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// `__open_2` and `__openat_2`, the fortified forms, which may not make a file.
pub(crate) unsafe fn openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    if flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE {
        // libc ends the program, because the mode is missing.
        // SAFETY: see `openat`.
        return unsafe { real::__openat_2(directory, path, flags) };
    }
    // SAFETY: see `openat`.
    unsafe { openat(directory, path, flags, CREATED_MODE) }
}

/// Enters a descriptor that the kernel opened, where `path` is given and so may lead into the store.
pub(crate) fn note_opened(opened: c_int, path: Option<&[u8]>, flags: c_int, generation: u32) {
    if table::is_known(opened) || table::is_foreign(opened) {
        quietly(|| promotion::forget(opened));
    }
    if path.is_some() && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 {
        quietly(|| {
            if promotion::enter_opened(opened, generation).is_some() {
                counters::served(Call::Open);
            }
        });
    }
}
