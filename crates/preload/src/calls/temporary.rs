//! The `mkstemp` family.

use crate::calls::{names, open};
use crate::files::{generation, paths};
use crate::host::guard::{self, fail};
use crate::host::kernel;
use crate::placement;
use crate::recorder;
use crate::store::session::{self, Mode};
use libc::{c_char, c_int};

/// The kind of a temporary file.
#[derive(Clone, Copy)]
pub(crate) enum Temporary {
    /// `mkstemp` and the like make a file, with these flags beside its own.
    File(c_int),
    /// `mkdtemp` makes a directory.
    Directory,
}

/// Names that are tried before the call fails, as in glibc.
const ATTEMPTS: u32 = 62 * 62 * 62;
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const PLACES: usize = 6;

/// The `mkstemp` family. Answers a descriptor, 0 for a directory, or -1 with errno. `pass` runs where libc can make the file.
pub(crate) unsafe fn temporary(
    template: *mut c_char,
    suffix: c_int,
    what: Temporary,
    pass: impl FnOnce() -> c_int,
) -> c_int {
    let generation = generation::generation();
    // SAFETY: see `fopen`.
    unsafe {
        let text = paths::text(template);
        let is_candidate = text.is_some_and(|text| paths::is_candidate(libc::AT_FDCWD, text));
        let is_placed = placement::is_on() && matches!(what, Temporary::File(_));
        let is_ours = is_placed || (session::mode() == Mode::Prefix && is_candidate);
        // libc opens the file past this library, so a file that is to be placed is opened here.
        if !is_ours || guard::is_inside() {
            let made = pass();
            if let (Temporary::File(_), true) = (what, made >= 0 && session::mode() == Mode::Mount) {
                let text = paths::text(template).filter(|_| is_candidate);
                open::note_opened(made, text, 0, generation);
            }
            if let Temporary::File(_) = what {
                recorder::opened(made, (libc::AT_FDCWD, template), recorder::making());
            }
            return made;
        }
        make_temporary(template, text.map_or(0, <[u8]>::len), suffix, what)
    }
}

unsafe fn make_temporary(template: *mut c_char, length: usize, suffix: c_int, what: Temporary) -> c_int {
    let start = usize::try_from(suffix).ok().and_then(|suffix| length.checked_sub(suffix + PLACES));
    let Some(start) = start else { return fail(libc::EINVAL) };
    // SAFETY: the places lie inside the template.
    unsafe {
        let places = std::slice::from_raw_parts_mut(template.cast::<u8>().add(start), PLACES);
        if places != b"XXXXXX" {
            return fail(libc::EINVAL);
        }
        for _ in 0..ATTEMPTS {
            let mut random = [0_u8; PLACES];
            let asked = kernel::checked(kernel::raw(
                libc::SYS_getrandom,
                [random.as_mut_ptr() as usize, PLACES, 0, 0, 0, 0],
            ));
            if let Err(number) = asked {
                return fail(number);
            }
            for (place, random) in places.iter_mut().zip(random) {
                *place = LETTERS[usize::from(random) % LETTERS.len()];
            }
            let made = match what {
                Temporary::File(flags) => {
                    let flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
                    open::open(template, flags, 0o600)
                }
                Temporary::Directory => names::mkdirat(libc::AT_FDCWD, template, 0o700),
            };
            if made >= 0 || guard::errno() != libc::EEXIST {
                return made;
            }
        }
        places.copy_from_slice(b"XXXXXX");
    }
    fail(libc::EEXIST)
}
