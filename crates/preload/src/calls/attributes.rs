//! Calls on extended attributes.

use crate::calls::changes;
use crate::files::paths::{self, Touch};
use crate::files::prefix;
use crate::host::guard::{fail, finish, returned, Failure};
use crate::host::{addresses, kernel};
use crate::store::counters::Call;
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use weir_client::wire::{limits, XattrMode};
use weir_client::{Place, Store};

/// Longest value of an attribute (`XATTR_SIZE_MAX`).
const ATTRIBUTE_BYTES: usize = 65_536;

/// The subject of an attribute call.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    /// The node at a path. A symbolic link at the path's end is followed.
    Path(*const c_char),
    /// The node at a path.
    Link(*const c_char),
    /// An open file.
    Descriptor(c_int),
}

impl Subject {
    fn raw(self) -> usize {
        match self {
            Subject::Path(path) | Subject::Link(path) => path as usize,
            Subject::Descriptor(descriptor) => descriptor as usize,
        }
    }

    fn number<N>(self, path: N, link: N, descriptor: N) -> N {
        match self {
            Subject::Path(_) => path,
            Subject::Link(_) => link,
            Subject::Descriptor(_) => descriptor,
        }
    }
}

/// Does an attribute call.
///
/// # Safety
/// Paths end with a zero byte.
unsafe fn on_subject<T, R: Failure>(
    subject: Subject,
    operate: impl FnOnce(&Store, Place<'_>, bool) -> weir_client::Result<T>,
    convert: impl FnOnce(T) -> R,
    pass: impl FnOnce(Subject) -> R,
) -> R {
    match subject {
        Subject::Descriptor(descriptor) if prefix::is_place(descriptor) => fail(libc::EBADF),
        Subject::Descriptor(descriptor) => {
            let done = changes::on_descriptor(descriptor, Call::Attribute, |store, place| {
                operate(store, place, true)
            });
            finish(done, convert, || pass(subject))
        }
        Subject::Path(path) | Subject::Link(path) => {
            let follow = matches!(subject, Subject::Path(_));
            // SAFETY: as the caller promises.
            unsafe {
                paths::call(
                    (libc::AT_FDCWD, path),
                    Touch::following(follow),
                    Call::Attribute,
                    |store, place| operate(store, place, follow),
                    convert,
                    |_, path| pass(if follow { Subject::Path(path) } else { Subject::Link(path) }),
                )
            }
        }
    }
}

/// `getxattr(2)`, `lgetxattr(2)`, `fgetxattr(2)`.
pub(crate) unsafe fn get_attribute(
    subject: Subject,
    name: *const c_char,
    value: *mut c_void,
    size: size_t,
) -> ssize_t {
    // SAFETY: see `fchmodat`.
    unsafe {
        on_subject(
            subject,
            |store, place, follow| store.xattr(&CALLER, place, follow, attribute_name(name)?),
            |found| copy_out(&found, value, size),
            |subject| {
                let number = subject.number(libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr);
                returned(kernel::raw(number, [subject.raw(), name as usize, value as usize, size, 0, 0]))
            },
        )
    }
}

/// `setxattr(2)`, `lsetxattr(2)`, `fsetxattr(2)`.
pub(crate) unsafe fn set_attribute(
    subject: Subject,
    name: *const c_char,
    value: *const c_void,
    size: size_t,
    flags: c_int,
) -> c_int {
    let pass = |subject: Subject| {
        let number = subject.number(libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr);
        let arguments = [subject.raw(), name as usize, value as usize, size, flags as usize, 0];
        // SAFETY: see `fchmodat`.
        returned(unsafe { kernel::raw(number, arguments) })
    };
    let mode = match flags {
        0 => XattrMode::Set,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return pass(subject),
    };
    // SAFETY: see `fchmodat`.
    unsafe {
        on_subject(
            subject,
            |store, place, follow| {
                let wanted = attribute_name(name)?;
                if size > ATTRIBUTE_BYTES {
                    return Err(session::failed(libc::E2BIG));
                }
                if !addresses::can_read(value.cast::<u8>(), size) {
                    return Err(session::failed(libc::EFAULT));
                }
                let bytes: &[u8] =
                    if size == 0 { &[] } else { std::slice::from_raw_parts(value.cast(), size) };
                store.set_xattr(&CALLER, place, follow, wanted, bytes, mode)
            },
            |()| 0,
            pass,
        )
    }
}

/// `listxattr(2)`, `llistxattr(2)`, `flistxattr(2)`.
pub(crate) unsafe fn list_attributes(subject: Subject, list: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: see `fchmodat`.
    unsafe {
        on_subject(
            subject,
            |store, place, follow| store.xattr_names(&CALLER, place, follow),
            |found| copy_out(&found, list.cast(), size),
            |subject| {
                let number = subject.number(libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr);
                returned(kernel::raw(number, [subject.raw(), list as usize, size, 0, 0, 0]))
            },
        )
    }
}

/// `removexattr(2)`, `lremovexattr(2)`, `fremovexattr(2)`.
pub(crate) unsafe fn remove_attribute(subject: Subject, name: *const c_char) -> c_int {
    // SAFETY: see `fchmodat`.
    unsafe {
        on_subject(
            subject,
            |store, place, follow| store.remove_xattr(&CALLER, place, follow, attribute_name(name)?),
            |()| 0,
            |subject| {
                let number =
                    subject.number(libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr);
                returned(kernel::raw(number, [subject.raw(), name as usize, 0, 0, 0, 0]))
            },
        )
    }
}

/// Gives the program a value or a list of an attribute call. Without room the call answers the length alone.
///
/// # Safety
/// `buffer` is writable for `size` bytes.
unsafe fn copy_out(value: &[u8], buffer: *mut c_void, size: size_t) -> ssize_t {
    if size == 0 {
        return value.len() as ssize_t;
    }
    if value.len() > size {
        return fail(libc::ERANGE);
    }
    if !addresses::can_write(buffer.cast::<u8>(), value.len()) {
        return fail(libc::EFAULT);
    }
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len()) };
    value.len() as ssize_t
}

/// The name of an attribute, or Linux's error for a name that cannot be read or is too long.
///
/// # Safety
/// No other thread changes the name meanwhile.
unsafe fn attribute_name<'a>(name: *const c_char) -> weir_client::Result<&'a [u8]> {
    // SAFETY: as the caller promises.
    unsafe { addresses::string(name, limits::PATH_BYTES) }
        .map_err(|number| session::failed(if number == libc::ENAMETOOLONG { libc::ERANGE } else { number }))
}
