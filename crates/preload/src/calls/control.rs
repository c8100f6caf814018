//! `ioctl`, `isatty` and `pathconf`, where the kernel does not know the file: the answers are those of a mount.

use crate::files::paths::{self, Touch};
use crate::files::state::Kind;
use crate::files::{prefix, promotion, sharing, stand_ins};
use crate::host::guard::{attempt, fail, finish, Outcome};
use crate::host::kernel::system_call;
use crate::host::{addresses, real};
use crate::store::counters::Call;
use crate::store::session::{self, CALLER};
use libc::{c_char, c_int, c_long, c_ulong, c_void};

/// `FIGETBSZ` of `<linux/fs.h>`.
const BLOCK_SIZE: c_ulong = 2;
/// `FICLONE` and `FICLONERANGE`.
const CLONES: [c_ulong; 2] = [0x4004_9409, 0x4020_940D];
/// `_PC_2_SYMLINKS`.
const SYMBOLIC_LINKS: c_int = 20;
/// Bits in which a size is counted: a signed word.
const SIZE_BITS: c_long = 64;
/// Longest name (`NAME_MAX`).
const NAME_BYTES: c_long = 255;

/// `ioctl(2)`.
///
/// # Safety
/// `argument` has the request's form, or is a bad address.
pub(crate) unsafe fn ioctl(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if stand_ins::hold(descriptor) {
        if request == libc::TCGETS {
            return fail(libc::ENOTTY);
        }
        if CLONES.contains(&request) {
            return fail(libc::EOPNOTSUPP);
        }
        sharing::settle(descriptor);
    } else if request == libc::FIONREAD {
        // The kernel answers by its own offset.
        sharing::settle(descriptor);
    }
    let outcome =
        if prefix::may_hold(descriptor) { attempt(|| control(descriptor, request, argument)) } else { None };
    finish(
        outcome,
        |answer| answer,
        // SAFETY: the program's own promises.
        || unsafe { real::ioctl(descriptor, request, argument) },
    )
}

fn control(descriptor: c_int, request: c_ulong, argument: *mut c_void) -> Outcome<c_int> {
    let description = promotion::discovered(descriptor)?;
    let placeholder = description.placeholder()?;
    if placeholder.is_path_only() {
        return Some(Err(libc::EBADF));
    }
    let number = argument.cast::<c_int>();
    Some(match request {
        libc::FIOCLEX | libc::FIONCLEX => {
            let flag = if request == libc::FIOCLEX { libc::FD_CLOEXEC } else { 0 };
            // SAFETY: no memory is passed.
            unsafe { system_call!(libc::SYS_fcntl, descriptor, libc::F_SETFD, flag) }.map(|_| 0)
        }
        libc::FIONBIO if addresses::can_read(number, 1) => {
            // SAFETY: the number can be read.
            let is_wanted = unsafe { number.read_unaligned() } != 0;
            let kept = placeholder.flags() & !libc::O_NONBLOCK;
            placeholder.set_flags(kept | if is_wanted { libc::O_NONBLOCK } else { 0 });
            Ok(0)
        }
        libc::FIONREAD if matches!(placeholder.state().kind, Kind::Regular(_)) => {
            let file = description.file(descriptor)?;
            let size = match session::outcome(file.size(&CALLER))? {
                Ok(size) => size,
                Err(error) => return Some(Err(error)),
            };
            let waiting =
                placeholder.with_offset(|offset| Some(Ok((offset, size.saturating_sub(offset)))))?;
            return Some(waiting.and_then(|waiting| told(number, waiting as c_int)));
        }
        BLOCK_SIZE => told(number, session::block_bytes() as c_int),
        libc::FIONBIO => Err(libc::EFAULT),
        request if CLONES.contains(&request) => Err(libc::EOPNOTSUPP),
        _ => Err(libc::ENOTTY),
    })
}

fn told(place: *mut c_int, value: c_int) -> Result<c_int, c_int> {
    if addresses::tell(place, value) == 0 {
        Ok(0)
    } else {
        Err(libc::EFAULT)
    }
}

/// `isatty(3)` and `tcgetattr(3)`, which ask the kernel inside libc. A file of the store answers `refusal` with ENOTTY.
pub(crate) fn terminal(descriptor: c_int, refusal: c_int, pass: impl FnOnce() -> c_int) -> c_int {
    if stand_ins::hold(descriptor) || prefix::holds(descriptor) {
        let _: c_int = fail(libc::ENOTTY);
        return refusal;
    }
    pass()
}

/// The store's value of a limit. `None` for a limit of the machine, which is the same for every file.
fn limit(name: c_int, is_regular: bool) -> Option<c_long> {
    Some(match name {
        libc::_PC_NAME_MAX => NAME_BYTES,
        libc::_PC_FILESIZEBITS => SIZE_BITS,
        libc::_PC_ASYNC_IO => {
            if is_regular {
                1
            } else {
                -1
            }
        }
        libc::_PC_REC_MIN_XFER_SIZE | libc::_PC_REC_XFER_ALIGN | libc::_PC_ALLOC_SIZE_MIN => {
            c_long::from(session::block_bytes())
        }
        SYMBOLIC_LINKS | libc::_PC_CHOWN_RESTRICTED | libc::_PC_NO_TRUNC => 1,
        _ => return None,
    })
}

/// `pathconf(3)`.
///
/// # Safety
/// `path` is null, ends with a zero byte, or is a bad address.
pub(crate) unsafe fn pathconf(path: *const c_char, name: c_int) -> c_long {
    // SAFETY: the program's own promises.
    let pass = |path: *const c_char| unsafe { real::pathconf(path, name) };
    if !prefix::is_in_use() {
        return pass(path);
    }
    // SAFETY: as the caller promises.
    unsafe {
        paths::call(
            (libc::AT_FDCWD, path),
            Touch::Target,
            Call::Stat,
            |store, place| store.attributes(&CALLER, place, true),
            |found| {
                let is_regular = found.kind == weir_client::wire::FileKind::Regular;
                // Other limits are the same for every path, also for the root of the host.
                limit(name, is_regular).unwrap_or_else(|| pass(c"/".as_ptr()))
            },
            |_, path| pass(path),
        )
    }
}

/// `fpathconf(3)`.
pub(crate) fn fpathconf(descriptor: c_int, name: c_int) -> c_long {
    sharing::settle_stand_in(descriptor);
    // SAFETY: no memory is passed.
    let pass = || unsafe { real::fpathconf(descriptor, name) };
    let kind = if prefix::may_hold(descriptor) {
        attempt(|| {
            let description = promotion::discovered(descriptor)?;
            Some(Ok(matches!(description.placeholder()?.state().kind, Kind::Regular(_))))
        })
    } else {
        None
    };
    match kind {
        Some(Ok(is_regular)) => {
            // SAFETY: the path ends with a zero byte.
            limit(name, is_regular).unwrap_or_else(|| unsafe { real::pathconf(c"/".as_ptr(), name) })
        }
        _ => pass(),
    }
}
