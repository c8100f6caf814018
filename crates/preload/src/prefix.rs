//! The store without a mount: paths below the prefix exist for this library only, descriptors are placeholders.

pub(crate) mod control;
mod locks;
mod mapping;
mod opening;
mod placeholder;
pub(crate) mod readiness;
mod resolution;
mod state;
mod streams;
mod tree;
mod working_directory;

pub(crate) use locks::{fcntl, flock, lockf, release_all as release_all_locks};
pub(crate) use mapping::{copy_of, map};
pub(crate) use opening::{inode_named, open, open_how};
pub(crate) use placeholder::Placeholder;
pub(crate) use state::{Kind, State};
pub(crate) use streams::{stream_descriptor, stream_of, CookieFunctions};
pub(crate) use tree::{cleaned, is_candidate, locate};
pub(crate) use working_directory::{
    answer_to as working_directory_to, chdir, current_path as working_directory_path, fchdir,
    kernel_answer as working_directory_raw, with_environment,
};

use crate::counters::{self, Call};
use crate::description::Description;
use crate::exec::Strings;
use crate::guard::{self, attempt, Outcome};
use crate::session::{self, Mode, CALLER};
use crate::{exec, file_size, guard::finish, promotion, table};
use libc::{c_char, c_int, off_t};
use std::sync::Arc;
use weir_client::wire::StoreStatistics;

/// `f_type`: "WEIR".
const FILE_SYSTEM: i64 = 0x5745_4952;
/// Descriptors that libc has streams on.
const STANDARD: std::ops::RangeInclusive<c_int> = 0..=2;
/// Unit of the counts of `statfs`.
const STATISTICS_UNIT: u64 = 4096;

/// Whether `descriptor` may be a placeholder: a few instructions.
pub(crate) fn may_hold(descriptor: c_int) -> bool {
    descriptor >= 0
        && session::mode() == Mode::Prefix
        && !table::is_foreign(descriptor)
        && !guard::is_inside()
}

/// Whether descriptors may be placeholders at all.
pub(crate) fn is_in_use() -> bool {
    session::mode() == Mode::Prefix && !guard::is_inside()
}

/// Whether `descriptor` is a placeholder that was opened with `O_PATH`.
pub(crate) fn is_place(descriptor: c_int) -> bool {
    let is_place = || Some(Ok(promotion::discovered(descriptor)?.placeholder()?.is_path_only()));
    may_hold(descriptor) && attempt(is_place) == Some(Ok(true))
}

/// Whether `descriptor` is a placeholder.
pub(crate) fn holds(descriptor: c_int) -> bool {
    may_hold(descriptor)
        && attempt(|| Some(Ok(promotion::discovered(descriptor).is_some()))) == Some(Ok(true))
}

/// The description behind a placeholder that this process inherited.
pub(crate) fn recognise(descriptor: c_int) -> Option<Arc<Description>> {
    let (placeholder, identity) = Placeholder::recognise(descriptor)?;
    Some(Arc::new(Description::of_placeholder(identity, placeholder, None)))
}

/// Forgets a descriptor that is about to be closed; the last one of a description ends it. POSIX: closing any
/// descriptor of a file releases the process's locks on it.
pub(crate) fn release(descriptor: c_int) {
    let Some(description) = promotion::discovered(descriptor) else {
        drop(table::forget(descriptor));
        return;
    };
    table::forget(descriptor);
    locks::release_process_locks(&description);
    if description.is_abandoned() {
        description.publish();
        if let Some(placeholder) = description.placeholder() {
            placeholder.close(description.file_in_use());
        }
    }
}

/// `fsync`: the bytes, or a directory's metadata.
pub(crate) fn sync(descriptor: c_int, data_only: bool) -> Outcome<()> {
    let description = promotion::discovered(descriptor)?;
    let placeholder = description.placeholder()?;
    counters::served(Call::Sync);
    if let Some(file) = description.file(descriptor) {
        return session::outcome(file.sync(&CALLER, data_only));
    }
    if placeholder.is_path_only() {
        return Some(Err(libc::EBADF));
    }
    session::outcome(session::store()?.sync_metadata(&CALLER, placeholder.ino()))
}

/// `fallocate`.
pub(crate) fn allocate(descriptor: c_int, mode: c_int, offset: off_t, length: off_t) -> Outcome<()> {
    let description = promotion::discovered(descriptor)?;
    let placeholder = description.placeholder()?;
    let Some(file) = description.file(descriptor).filter(|_| description.is_writable()) else {
        return Some(Err(if placeholder.is_path_only() { libc::EBADF } else { libc::ENODEV }));
    };
    let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else {
        return Some(Err(libc::EINVAL));
    };
    if length == 0 {
        return Some(Err(libc::EINVAL));
    }
    let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    if let Some(Err(number)) = (!keep).then(|| file_size::check(offset.saturating_add(length))) {
        return Some(Err(number));
    }
    counters::served(Call::Allocate);
    session::outcome(match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => file.reserve(&CALLER, offset, length, keep),
        libc::FALLOC_FL_PUNCH_HOLE if keep => file.punch(&CALLER, offset, length),
        libc::FALLOC_FL_ZERO_RANGE => file.zero(&CALLER, offset, length, keep),
        _ => return Some(Err(libc::EOPNOTSUPP)),
    })
}

/// A call that no client can do on a placeholder is refused with `number`, so that programs go another way.
pub(crate) fn refuse_either(first: c_int, second: c_int, number: c_int) -> Outcome<()> {
    let held = promotion::discovered(first).is_some() || promotion::discovered(second).is_some();
    held.then_some(Err(number))
}

/// The store's figures, if `descriptor` is a placeholder.
pub(crate) fn statistics_of(descriptor: c_int) -> Outcome<StoreStatistics> {
    if !may_hold(descriptor) {
        return None;
    }
    attempt(|| {
        promotion::discovered(descriptor)?;
        session::outcome(session::store()?.statistics(&CALLER))
    })
}

/// The figures as `statfs` gives them.
pub(crate) fn statfs_of(statistics: &StoreStatistics) -> libc::statfs {
    // SAFETY: every field of the structure is a number, for which zeros are valid.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    answer.f_type = FILE_SYSTEM;
    answer.f_bsize = i64::from(session::block_bytes().max(STATISTICS_UNIT as u32));
    answer.f_frsize = STATISTICS_UNIT as i64;
    answer.f_blocks = statistics.capacity_bytes / STATISTICS_UNIT;
    answer.f_bfree = statistics.free_bytes / STATISTICS_UNIT;
    answer.f_bavail = answer.f_bfree;
    answer.f_files = statistics.inodes + statistics.inodes_free;
    answer.f_ffree = statistics.inodes_free;
    answer.f_namelen = 255;
    answer
}

/// Runs a program that may lie in the store: its bytes are copied into memory, which the kernel can execute.
///
/// # Safety
/// The lists are null-terminated, `path` ends with a zero byte.
pub(crate) unsafe fn execute(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    pass: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    if session::mode() != Mode::Prefix || guard::is_inside() {
        return pass(path);
    }
    // SAFETY: as the caller promises.
    let Some(text) = (unsafe { crate::paths::text(path) }).filter(|text| text.contains(&b'/')) else {
        return pass(path);
    };
    if !is_candidate(libc::AT_FDCWD, text) {
        return pass(path);
    }
    let image = attempt(|| mapping::image(text));
    finish(
        image,
        |image| {
            // SAFETY: as the caller promises. The image stays open over the exec, because a script's interpreter
            // opens it by its number.
            unsafe { exec::execute_image(image, arguments, environment) }
        },
        || pass(path),
    )
}

/// Something else is about to stand at `descriptor`: what libc buffered for it is written first.
pub(crate) fn before_standard(descriptor: c_int) {
    if session::mode() == Mode::Prefix && !guard::is_inside() {
        streams::flush_standard(descriptor);
    }
}

/// Something came to stand at `descriptor`: a placeholder among the standard ones needs a stream of ours.
pub(crate) fn after_standard(descriptor: c_int) {
    if STANDARD.contains(&descriptor) && holds(descriptor) {
        streams::adopt_stream(descriptor);
    }
}

/// The process starts: its standard descriptors may be placeholders that a shell opened.
pub(crate) fn look_at_standard() {
    STANDARD.for_each(after_standard);
}
