//! `lseek`, where this process keeps the offset.

use crate::files::{prefix, promotion, table};
use crate::host::guard::{self, attempt, finish, returned};
use crate::host::kernel;
use crate::recorder;
use crate::store::counters::{self, Call};
use crate::store::session::{self, Mode, CALLER};
use libc::{c_int, off_t};
use weir_client::wire::Seek;

/// `lseek(2)`.
pub(crate) unsafe fn lseek(descriptor: c_int, offset: off_t, whence: c_int) -> off_t {
    recorder::before_move(descriptor);
    let is_ours = table::is_known(descriptor) || prefix::may_hold(descriptor);
    let outcome = if is_ours { attempt(|| seek(descriptor, offset, whence)) } else { None };
    finish(
        outcome,
        |position| position as off_t,
        || {
            // SAFETY: no memory is passed.
            returned(unsafe {
                kernel::raw(libc::SYS_lseek, [descriptor as usize, offset as usize, whence as usize, 0, 0, 0])
            })
        },
    )
}

fn seek(descriptor: c_int, offset: off_t, whence: c_int) -> guard::Outcome<u64> {
    let description = match session::mode() {
        Mode::Prefix => promotion::discovered(descriptor)?,
        _ => promotion::described(descriptor)?,
    };
    if matches!(whence, libc::SEEK_DATA | libc::SEEK_HOLE) && description.is_the_kernels() {
        // The mount looks for holes at the servers, which learn of stores through the mapping when the pages are written.
        kernel::write_pages(descriptor);
    }
    let Some(file) = description.promoted(descriptor) else {
        return description.placeholder()?.seek_other(offset, whence);
    };
    let moved =
        |base: u64| base.checked_add_signed(offset).filter(|to| *to <= i64::MAX as u64).ok_or(libc::EINVAL);
    let result = description.with_offset(descriptor, |current| {
        let target = match whence {
            libc::SEEK_SET => moved(0),
            libc::SEEK_CUR => moved(current),
            libc::SEEK_END => match description.answer(file.size(&CALLER))? {
                Ok(size) => moved(size),
                Err(number) => Err(number),
            },
            libc::SEEK_DATA | libc::SEEK_HOLE => match u64::try_from(offset) {
                Ok(from) => {
                    let wanted = if whence == libc::SEEK_DATA { Seek::Data } else { Seek::Hole };
                    description.answer(file.seek(&CALLER, from, wanted))?
                }
                Err(_) => Err(libc::ENXIO),
            },
            _ => Err(libc::EINVAL),
        };
        Some(target.map(|target| (target, target)))
    });
    if matches!(result, Some(Ok(_))) {
        counters::served(Call::Seek);
    }
    result
}
