//! The creation of a file: first with the layout that the database has for it.

use crate::files::paths::{self, Touch};
use crate::files::streams;
use crate::files::streams::CREATED_MODE;
use crate::files::tree::Located;
use crate::host::guard::{self, attempt};
use crate::host::kernel;
use crate::host::umask;
use crate::placement::database::Component;
use crate::placement::lookup::{self, concerns, find, Foreseen, Turn};
use crate::placement::lustre;
use crate::placement::reports::{count, Fate};
use crate::store::session::{self, Mode, CALLER};
use libc::{c_char, c_int, mode_t, FILE};
use std::ffi::{CStr, CString};
use weir_client::wire::OpenFlags;
use weir_client::{ClientError, Opened, Place, Store};
use weir_placement::{ComponentSpecification, LayoutSpecification, Stripes};

/// The owner's rights to read and write. The call that makes a file may open it with any mode, and a later call needs rights.
const OWNER: mode_t = 0o600;

/// The preparation of the program's own open.
enum Prepared {
    /// Nothing was done: the open goes on as the program asked for it.
    Nothing,
    /// Nothing was done. If the open makes a file, the file has this fate and this turn.
    Left(Fate, Vec<u8>, Turn),
    /// The file was made for the open.
    Made,
}

/// Does an `openat` of the program. `open` opens the file with the flags that it gets.
///
/// # Safety
/// `path` is null or ends with a zero byte.
pub(crate) unsafe fn open(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    open: impl FnOnce(c_int) -> c_int,
) -> c_int {
    if !concerns(flags) || guard::is_inside() {
        return open(flags);
    }
    // SAFETY: as the caller promises.
    let Some(text) = (unsafe { paths::text(path) }) else { return open(flags) };
    match prepare(directory, text, mode | OWNER) {
        Prepared::Nothing => open(flags),
        Prepared::Left(fate, path, turn) => {
            let opened = open(flags);
            note(opened, fate, &path, turn);
            opened
        }
        Prepared::Made => {
            let opened = open(flags & !libc::O_EXCL);
            if mode & OWNER != OWNER {
                restore_mode(directory, path, opened, mode);
            }
            opened
        }
    }
}

/// Does an `fopen` of the program. `open` opens the stream with the mode that it gets.
///
/// # Safety
/// Both texts are null or end with a zero byte.
pub(crate) unsafe fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    open: impl FnOnce(*const c_char) -> *mut FILE,
) -> *mut FILE {
    if !lookup::is_on() || mode.is_null() || guard::is_inside() {
        return open(mode);
    }
    // SAFETY: as the caller promises.
    let (text, letters) = unsafe { (paths::text(path), CStr::from_ptr(mode).to_bytes()) };
    let creates = streams::flags_of(letters).is_some_and(concerns);
    let Some(text) = text.filter(|_| creates) else { return open(mode) };
    match prepare(libc::AT_FDCWD, text, CREATED_MODE) {
        Prepared::Nothing => open(mode),
        Prepared::Left(fate, path, turn) => {
            let stream = open(mode);
            // SAFETY: libc has just opened the stream.
            let opened = if stream.is_null() { -1 } else { unsafe { streams::stream_descriptor(stream) } };
            note(opened, fate, &path, turn);
            stream
        }
        Prepared::Made => match streams::without_exclusive(letters) {
            Some(shared) => open(shared.as_ptr()),
            None => open(mode),
        },
    }
}

/// Opens a node at the servers, where no kernel knows it. `name` is the path below the prefix.
pub(crate) fn open_at_store(
    store: &Store,
    place: Place<'_>,
    wanted: OpenFlags,
    mode: mode_t,
    name: impl FnOnce() -> Vec<u8>,
) -> weir_client::Result<Opened> {
    let permissions = umask::masked(mode);
    let plainly = || store.open(&CALLER, place, wanted, permissions);
    if !wanted.create || !lookup::is_on() {
        return plainly();
    }
    let name = [session::root(), b"/", &name()].concat();
    let Foreseen { components, turn } = find(&name);
    let layout = specification(&components).filter(|_| !components.is_empty());
    let fate = if components.is_empty() { Fate::Missed } else { Fate::Refused };
    let placed = layout.map(|layout| store.open_laid_out(&CALLER, place, wanted, permissions, Some(&layout)));
    let (opened, made) = match placed {
        // The failure may have nothing to do with the layout: then the second answer is the program's.
        None | Some(Err(ClientError::Failed(_))) => (plainly(), fate),
        Some(answer) => (answer, Fate::Placed),
    };
    match &opened {
        Ok(opened) if opened.created => count(made, &name),
        answer => {
            turn.give_back();
            if answer.is_ok() && matches!(made, Fate::Placed) {
                count(Fate::Present, &name);
            }
        }
    }
    opened
}

/// Makes the file with its layout, if the database has the file and the file does not exist.
fn prepare(directory: c_int, text: &[u8], mode: mode_t) -> Prepared {
    let is_calm = guard::no_signal_is_blocked();
    let prepared = attempt(|| {
        let path = absolute(directory, text)?;
        let Foreseen { components, turn } = find(&path);
        if components.is_empty() {
            return Some(Ok(Prepared::Left(Fate::Missed, path, turn)));
        }
        let made = match on_store(directory, text, &components, mode) {
            Some(made) => Some(made),
            None => lustre::make(&CString::new(path.as_slice()).ok()?, &components, mode, is_calm),
        };
        Some(Ok(match made {
            Some(Ok(())) => {
                count(Fate::Placed, &path);
                Prepared::Made
            }
            Some(Err(libc::EEXIST)) => {
                turn.give_back();
                count(Fate::Present, &path);
                Prepared::Nothing
            }
            Some(Err(lustre::MADE_WITHOUT_LAYOUT)) => {
                count(Fate::Refused, &path);
                Prepared::Made
            }
            Some(Err(_)) => Prepared::Left(Fate::Refused, path, turn),
            None => {
                turn.give_back();
                Prepared::Nothing
            }
        }))
    });
    match prepared {
        Some(Ok(prepared)) => prepared,
        _ => Prepared::Nothing,
    }
}

/// Makes the file through the client. `None` for a file outside the store.
fn on_store(
    directory: c_int,
    text: &[u8],
    components: &[Component],
    mode: mode_t,
) -> Option<Result<(), c_int>> {
    if session::mode() != Mode::Mount || !paths::is_candidate(directory, text) {
        return None;
    }
    let Located::Store(ino, rest) = paths::locate(directory, text, Touch::Name) else { return None };
    let Some(layout) = specification(components) else { return Some(Err(libc::EINVAL)) };
    let store = session::store()?;
    let wanted = OpenFlags { write: true, create: true, exclusive: true, ..OpenFlags::default() };
    let place = Place { ino, path: &rest };
    match store.open_laid_out(&CALLER, place, wanted, umask::masked(mode), Some(&layout)) {
        Ok(opened) => {
            // The file is made. A handle that cannot be closed ends with this client.
            drop(store.close(&CALLER, opened.attributes.ino, opened.handle));
            Some(Ok(()))
        }
        Err(error) => Some(Err(error.errno())),
    }
}

/// The layout in the store's form. `None` where the targets are no targets of a store.
fn specification(components: &[Component]) -> Option<LayoutSpecification> {
    let components = components.iter().map(|component| {
        let targets: Result<Vec<_>, _> = component.targets.split_ascii_whitespace().map(str::parse).collect();
        let targets = targets.ok()?;
        let stripes = match targets.len() {
            0 => Stripes::Count(component.stripe_count),
            count if count == usize::from(component.stripe_count) => Stripes::Targets(targets),
            _ => return None,
        };
        Some(ComponentSpecification {
            end: component.end,
            stripe_bytes: Some(component.stripe_bytes),
            stripes,
        })
    });
    Some(LayoutSpecification { components: components.collect::<Option<Vec<_>>>()? })
}

/// Counts the file that the open made, if the database could have placed it there. An existing file has bytes, or was
/// emptied: an emptied file counts as made.
fn note(opened: c_int, fate: Fate, path: &[u8], turn: Turn) {
    guard::quietly(|| {
        if is_new_file(opened, path) {
            count(fate, path);
        } else {
            turn.give_back();
        }
    });
}

/// Whether `opened` is an empty file on a file system where the library places files.
fn is_new_file(opened: c_int, path: &[u8]) -> bool {
    let mask = libc::STATX_TYPE | libc::STATX_SIZE;
    let Ok(found) = kernel::identify(opened, c"", mask) else { return false };
    let is_file = libc::mode_t::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG;
    let device = kernel::device_of(&found);
    is_file && found.stx_size == 0 && (session::device() == Some(device) || lustre::has_device(device, path))
}

/// Takes away the rights that the owner had only for the open.
fn restore_mode(directory: c_int, path: *const c_char, opened: c_int, mode: mode_t) {
    guard::quietly(|| {
        let permissions = usize::from(umask::masked(mode));
        let (number, arguments) = if opened >= 0 {
            (libc::SYS_fchmod, [opened as usize, permissions, 0, 0, 0, 0])
        } else {
            (libc::SYS_fchmodat, [directory as usize, path as usize, permissions, 0, 0, 0])
        };
        // SAFETY: the path is the program's own: the open with it has just returned.
        unsafe { kernel::raw(number, arguments) };
    });
}

/// The absolute path that the program means, without empty parts and `.`: the database names files so.
pub(super) fn absolute(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    let mut whole = if path.first() == Some(&b'/') {
        Vec::with_capacity(path.len())
    } else if directory == libc::AT_FDCWD {
        kernel::working_directory()?
    } else {
        kernel::path_of(directory)?
    };
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if whole.last() != Some(&b'/') {
            whole.push(b'/');
        }
        whole.extend_from_slice(part);
    }
    (whole.first() == Some(&b'/')).then_some(whole)
}
