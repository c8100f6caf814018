//! The settings of the recorder, from the environment at the library's start.

use crate::host::launcher;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Longest directory of traces: a path of Linux.
const DIRECTORY_BYTES: usize = 4096;
/// Bytes of all observed paths together.
const OBSERVED_BYTES: usize = 16 << 10;
/// Longest name of a run or a job: the name is part of a file's name.
const NAME_BYTES: usize = 128;

/// Bytes that the constructor writes once.
struct Text<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    length: AtomicUsize,
}

// SAFETY: the constructor alone writes the bytes, before it switches the recorder on.
unsafe impl<const N: usize> Sync for Text<N> {}

impl<const N: usize> Text<N> {
    const fn new() -> Text<N> {
        Text { bytes: UnsafeCell::new([0; N]), length: AtomicUsize::new(0) }
    }

    /// Keeps `text`. Answers whether the text fits. An empty text does not.
    fn set(&self, text: &[u8]) -> bool {
        let fits = !text.is_empty() && text.len() < N;
        if fits {
            // SAFETY: no code reads the bytes yet.
            unsafe { (&mut *self.bytes.get())[..text.len()].copy_from_slice(text) };
            self.length.store(text.len(), Ordering::Relaxed);
        }
        fits
    }

    fn text(&'static self) -> &'static [u8] {
        // SAFETY: the constructor wrote these bytes, and nothing writes later.
        unsafe { &(&*self.bytes.get())[..self.length.load(Ordering::Relaxed)] }
    }
}

static DIRECTORY: Text<DIRECTORY_BYTES> = Text::new();
static OBSERVED: Text<OBSERVED_BYTES> = Text::new();
static RUN: Text<NAME_BYTES> = Text::new();
static JOB: Text<NAME_BYTES> = Text::new();
static FIRST: AtomicBool = AtomicBool::new(false);

/// The variables of a job's name.
const JOBS: [&[u8]; 4] = [b"SLURM_JOB_ID=", b"FLUX_JOB_ID=", b"PBS_JOBID=", b"LSB_JOBID="];

/// Takes the settings from the environment by `find`, whose names end with `=`. Answers whether a trace is wanted.
pub(super) fn learn<'a>(find: impl Fn(&[u8]) -> Option<&'a [u8]>) -> bool {
    let number = |name: &[u8]| std::str::from_utf8(find(name)?).ok()?.parse::<u32>().ok();
    let (Some(directory), Some(run)) = (find(b"WEIR_TRACE="), find(b"WEIR_TRACE_RUN=")) else { return false };
    let is_named = run.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(byte));
    if directory[0] != b'/' || !DIRECTORY.set(directory) || !is_named || !RUN.set(run) {
        return false;
    }
    OBSERVED.set(find(b"WEIR_OBSERVE=").unwrap_or_default());
    JOB.set(JOBS.iter().find_map(|name| find(name)).unwrap_or_default());
    // SAFETY: the call has no arguments and cannot fail.
    let parent = unsafe { libc::getppid() };
    FIRST.store(number(b"WEIR_TRACE_PARENT=") == u32::try_from(parent).ok(), Ordering::Relaxed);
    true
}

/// The directory of the traces.
pub(super) fn directory() -> &'static [u8] {
    DIRECTORY.text()
}

/// The name of the run, which all processes of the invocation share.
pub(super) fn run() -> &'static str {
    std::str::from_utf8(RUN.text()).unwrap_or_default()
}

/// The batch system's name of the job, empty without one.
pub(super) fn job() -> &'static [u8] {
    JOB.text()
}

/// The paths below which files outside the store are recorded.
pub(super) fn observed() -> impl Iterator<Item = &'static [u8]> {
    OBSERVED.text().split(|byte| *byte == b':').filter(|path| !path.is_empty())
}

/// Whether `weir run` started this process itself.
pub(super) fn is_first() -> bool {
    FIRST.load(Ordering::Relaxed)
}

/// Whether the process has a trace even if it writes no file. Other processes begin their trace with the first record.
pub(super) fn is_expected() -> bool {
    is_first() || launcher::rank().is_some()
}
