//! The observation of files outside the store: operations on them are counted in windows, in memory that the processes of a
//! run share ([`weir_windows`]).
//!
//! `weir run --windows` makes a folder for the run, names it in `WEIR_OBSERVATION` beside the length of a window, and reads
//! the windows while the program runs. The observed files are those below the paths of `WEIR_OBSERVE`. An operation counts
//! at each target that it touched, with its bytes there; its time is divided as its bytes are. Operations of libc's streams,
//! and on mapped memory, are not seen.

use crate::host::guard::{self, quietly};
use crate::host::kernel;
use crate::recorder;
use layout::Layout;
use libc::{c_int, off_t, ssize_t};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::Duration;
use table::Found;
use weir_windows::{store_of, Attempts, Device, Job, Operation, Recorder};

mod layout;
mod table;

/// The name of the run in its own folder: nobody else counts there.
const NAME: &str = "observed";
/// The device of opens, closes and requests for attributes.
const METADATA: Device = Device::metadata(0);

static IS_ON: AtomicBool = AtomicBool::new(false);
static ASKED: OnceLock<Asked> = OnceLock::new();
static OBSERVER: OnceLock<Observer> = OnceLock::new();
static ATTEMPTS: Attempts = Attempts::new();

/// The windows and files that the environment asks for.
struct Asked {
    folder: PathBuf,
    window: Duration,
    paths: Vec<Vec<u8>>,
}

struct Observer {
    recorder: Recorder,
    job: Job,
    paths: &'static [Vec<u8>],
}

/// The begin of an operation in nanoseconds since 1970; 0 where the operation is not observed.
#[derive(Clone, Copy)]
pub(crate) struct Begin(u64);

/// Begins to observe, where the environment asks for it. `find` looks up a variable, whose name ends with `=`.
pub(crate) fn start<'a>(find: impl Fn(&[u8]) -> Option<&'a [u8]>) {
    let (Some(asked), Some(observed)) = (find(b"WEIR_OBSERVATION="), find(b"WEIR_OBSERVE=")) else { return };
    quietly(|| {
        let Some(asked) = Asked::of(asked, observed) else { return };
        open(ASKED.get_or_init(|| asked));
    });
}

/// Tries to open the file of windows. Where the folder is not fit, programs run all the same.
fn open(asked: &'static Asked) {
    match Observer::of(asked) {
        Some(observer) => {
            let _ = OBSERVER.set(observer);
            IS_ON.store(true, Ordering::Release);
            ATTEMPTS.succeed();
        }
        None => ATTEMPTS.fail(seconds()),
    }
}

/// Whether this process is observed, after a further attempt where one is due.
#[cold]
fn is_on_at_last() -> bool {
    if let Some(asked) = ASKED.get().filter(|_| ATTEMPTS.is_due(seconds())) {
        quietly(|| open(asked));
    }
    is_on()
}

/// The seconds of a clock that costs little.
fn seconds() -> u64 {
    recorder::clock(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000_000
}

impl Asked {
    /// The question of `MILLISECONDS:FOLDER` and paths between colons.
    fn of(asked: &[u8], observed: &[u8]) -> Option<Asked> {
        let colon = asked.iter().position(|byte| *byte == b':')?;
        let milliseconds = std::str::from_utf8(&asked[..colon]).ok()?.parse().ok()?;
        let folder = std::ffi::OsStr::from_bytes(&asked[colon + 1..]).into();
        let paths = observed.split(|byte| *byte == b':').filter(|path| path.first() == Some(&b'/'));
        let window = Duration::from_millis(milliseconds);
        Some(Asked { folder, window, paths: paths.map(<[u8]>::to_vec).collect() })
    }
}

impl Observer {
    fn of(asked: &'static Asked) -> Option<Observer> {
        let recorder = Recorder::open(&asked.folder, asked.window).ok()?;
        // SAFETY: the call has no arguments and cannot fail.
        let job = recorder.job(store_of(NAME), unsafe { libc::geteuid() }, NAME);
        Some(Observer { recorder, job, paths: &asked.paths })
    }

    fn count(&self, device: Device, operation: Operation, ended: u64, took: u64) {
        self.recorder.count(&self.job, device, operation, ended, took);
    }
}

fn now() -> u64 {
    recorder::clock(libc::CLOCK_REALTIME)
}

/// Whether this process is observed.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The highest descriptor that was ever looked at, -1 before the first.
pub(crate) fn highest() -> c_int {
    table::highest()
}

/// The begin of an operation on `descriptor`.
#[inline]
pub(crate) fn begin(descriptor: c_int) -> Begin {
    if !is_on() || guard::is_inside() {
        return Begin(0);
    }
    match table::look_up(descriptor) {
        Found::Foreign => Begin(0),
        Found::Observed(_) => Begin(now()),
        Found::Unknown => Begin(if discover(descriptor).is_some() { now() } else { 0 }),
    }
}

/// The begin of an opening. A process whose file of windows could not be opened tries again here, where that costs little.
#[inline]
pub(crate) fn begin_opening() -> Begin {
    let is_asked = is_on() || ATTEMPTS.are_failing();
    Begin(if is_asked && !guard::is_inside() && (is_on() || is_on_at_last()) { now() } else { 0 })
}

/// Looks at a descriptor whose opening the library did not see: it may have come over `exec`.
#[cold]
fn discover(descriptor: c_int) -> Option<&'static Layout> {
    let mut found = None;
    quietly(|| {
        found = observed_layout(descriptor);
        match found {
            Some(layout) => table::set(descriptor, layout),
            None => table::mark_foreign(descriptor),
        }
    });
    found
}

/// The layout of a regular file below an observed path.
fn observed_layout(descriptor: c_int) -> Option<&'static Layout> {
    let observer = OBSERVER.get()?;
    let found = kernel::identify(descriptor, c"", libc::STATX_TYPE).ok()?;
    if libc::mode_t::from(found.stx_mode) & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let path = kernel::path_of(descriptor)?;
    observer
        .paths
        .iter()
        .any(|folder| recorder::is_below(&path, folder))
        .then(|| table::kept(layout::of_file(descriptor)))
}

/// Counts a read at `offset`, or at the file's offset, that answered `result`. Answers `result`.
#[inline]
pub(crate) fn read(descriptor: c_int, offset: Option<off_t>, result: ssize_t, begin: Begin) -> ssize_t {
    moved(descriptor, offset, result, begin, Operation::Read);
    result
}

/// Counts a write, as [`read`] does.
#[inline]
pub(crate) fn wrote(descriptor: c_int, offset: Option<off_t>, result: ssize_t, begin: Begin) -> ssize_t {
    moved(descriptor, offset, result, begin, Operation::Write);
    result
}

#[inline]
fn moved(
    descriptor: c_int,
    offset: Option<off_t>,
    result: ssize_t,
    Begin(began): Begin,
    of: fn(u64) -> Operation,
) {
    if began == 0 || result < 0 {
        return;
    }
    let (Some(observer), Found::Observed(layout)) = (OBSERVER.get(), table::look_up(descriptor)) else {
        return;
    };
    let ended = now();
    let (took, bytes) = (ended.saturating_sub(began), result as u64);
    if let Some(device) = layout.only() {
        observer.count(device, of(bytes), ended, took);
        return;
    }
    let start = match offset {
        Some(offset) => offset.max(0) as u64,
        None => kernel::seek(descriptor, 0, libc::SEEK_CUR).map_or(0, |after| after.saturating_sub(bytes)),
    };
    let is_known = layout.divide(start, bytes, |device, part| {
        let share =
            if bytes == 0 { took } else { (u128::from(took) * u128::from(part) / u128::from(bytes)) as u64 };
        observer.count(device, of(part), ended, share);
    });
    if !is_known && matches!(of(0), Operation::Write(_)) {
        // Lustre chooses the targets of a component when its first byte is written.
        quietly(|| table::set(descriptor, table::kept(layout::of_file(descriptor))));
    }
}

/// Counts bytes that a call moved between two files. `begins` are those of input and output.
///
/// # Safety
/// The offsets are null, where the file's own moved, or readable, and lie after the bytes.
pub(crate) unsafe fn transferred(
    (input, input_offset): (c_int, *const off_t),
    (output, output_offset): (c_int, *const off_t),
    result: ssize_t,
    begins: (Begin, Begin),
) {
    if result > 0 && (begins.0 .0, begins.1 .0) != (0, 0) {
        // SAFETY: as the caller promises.
        let (from, to) = unsafe { (input_offset.as_ref(), output_offset.as_ref()) };
        let start = |after: &off_t| (*after - result as off_t).max(0);
        read(input, from.map(start), result, begins.0);
        wrote(output, to.map(start), result, begins.1);
    }
}

/// Notes an opening that answered `descriptor`.
#[inline]
pub(crate) fn opened(descriptor: c_int, Begin(began): Begin) {
    if began == 0 || descriptor < 0 {
        return;
    }
    let ended = now();
    if discover(descriptor).is_some() {
        if let Some(observer) = OBSERVER.get() {
            observer.count(METADATA, Operation::Open, ended, ended.saturating_sub(began));
        }
    }
}

/// Notes that `descriptor` is about to be closed.
#[inline]
pub(crate) fn closing(descriptor: c_int) {
    if !is_on() || guard::is_inside() {
        return;
    }
    if table::forget(descriptor) {
        if let Some(observer) = OBSERVER.get() {
            observer.count(METADATA, Operation::Close, now(), 0);
        }
    }
}

/// Notes that `new` stands for the file of `old` from now on.
#[inline]
pub(crate) fn duplicated(old: c_int, new: c_int) {
    if is_on() && new >= 0 && old != new && !guard::is_inside() {
        table::copy(old, new);
    }
}
