//! The trace of this process image: one file, which the first record makes, and to which blocks are appended.
//!
//! The library keeps no descriptor of the trace, so no call of the program on descriptors touches it. A block is one `write`.

use crate::host::file_size;
use crate::host::kernel::{self, system_call};
use crate::host::{launcher, patience};
use crate::recorder::room::ROOM;
use crate::recorder::{clock, names, pool, settings};
use libc::c_int;
use std::cell::UnsafeCell;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use weir_trace::{block, header, Process, Record, BLOCK_HEADER_BYTES};

/// Longest name of a trace: a path of Linux.
const PATH_BYTES: usize = 4096;
/// Traces that one process may write, one for each image: more than any real chain of `exec`.
const IMAGES: u32 = 10_000;
/// Recorded bytes of the arguments. Further arguments are cut.
const ARGUMENT_BYTES: usize = 16 << 10;
/// A bound on the bytes of a record beside its texts.
const RECORD_BYTES: usize = 240;

const NONE: u8 = 0;
const MAKING: u8 = 1;
const MADE: u8 = 2;
const BROKEN: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(NONE);
static PROCESS: AtomicU32 = AtomicU32::new(0);
static STARTED: AtomicU64 = AtomicU64::new(0);

struct PathBuffer(UnsafeCell<[u8; PATH_BYTES]>);
// SAFETY: the one thread that has set STATE to MAKING writes the buffer, and others read it once STATE is MADE.
unsafe impl Sync for PathBuffer {}
static PATH: PathBuffer = PathBuffer(UnsafeCell::new([0; PATH_BYTES]));

/// The nanoseconds since the process image, or the child of `fork`, started.
pub(super) fn elapsed() -> u64 {
    clock::clock(libc::CLOCK_REALTIME).saturating_sub(STARTED.load(Ordering::Relaxed))
}

/// Begins the time of a process image, or of the child of `fork`, which has no trace yet.
pub(super) fn start() {
    PROCESS.store(kernel::process_id(), Ordering::Relaxed);
    STARTED.store(clock::clock(libc::CLOCK_REALTIME), Ordering::Relaxed);
    STATE.store(NONE, Ordering::Release);
}

/// Begins anew in the child of a fork: the parent reports its own writes and windows.
pub(super) fn start_in_child() {
    pool::forget_borrowers();
    ROOM.clear();
    start();
    pool::each(|_, file| file.inherit());
}

/// Makes the trace of a process that has one in any case.
pub(super) fn begin() {
    is_ready();
}

/// Whether there is a trace.
pub(super) fn is_made() -> bool {
    STATE.load(Ordering::Acquire) == MADE
}

/// Begins anew in a child in which no fork handler ran.
pub(super) fn notice_child() {
    if PROCESS.load(Ordering::Relaxed) != kernel::process_id() {
        start_in_child();
    }
}

/// Appends one block. A trace that cannot be written stays as it is from then on.
pub(super) fn append(records: &[Record<'_>]) {
    if put(records).is_some_and(|(written, _)| written != Written::Whole) {
        STATE.store(BROKEN, Ordering::Release);
    }
}

/// Appends one block that the other records can do without, and answers its bytes. Where the trace took none of them, later
/// blocks may find room again: absent.
pub(super) fn offer(records: &[Record<'_>]) -> Option<usize> {
    match put(records)? {
        (Written::Whole, bytes) => Some(bytes),
        (Written::Nothing, _) => None,
        (Written::Part, _) => {
            STATE.store(BROKEN, Ordering::Release);
            None
        }
    }
}

/// Writes one block of these bytes to the trace; absent without a trace.
fn put(records: &[Record<'_>]) -> Option<(Written, usize)> {
    notice_child();
    if !is_ready() {
        return None;
    }
    let room = BLOCK_HEADER_BYTES + records.iter().map(bytes_of).sum::<usize>();
    let mut buffer = vec![0; room];
    let length = block(records, &mut buffer).ok()?;
    // SAFETY: STATE is MADE.
    let path = unsafe { (*PATH.0.get()).as_ptr() };
    // SAFETY: the path ends with a zero byte.
    let written = unsafe { write_to(path, libc::O_WRONLY | libc::O_APPEND, &buffer[..length]) };
    Some((written.unwrap_or(Written::Nothing), length))
}

fn bytes_of(record: &Record<'_>) -> usize {
    let texts = match record {
        Record::Process(process) => {
            let texts = [process.node, process.program, process.arguments, process.directory, process.job];
            process.run.len() + texts.iter().map(|text| text.len()).sum::<usize>()
        }
        Record::Opened(opened) => opened.path.len() + opened.true_path.len(),
        Record::Placed(placed) => placed.layout.len(),
        Record::Renamed(renamed) => renamed.from.len() + renamed.to.len(),
        Record::Unlinked(unlinked) => unlinked.path.len(),
        Record::Job(job) => job.name.len(),
        Record::Accessed(accessed) => accessed.path.len() + accessed.layout.len(),
        Record::Written(_) | Record::Ended(_) | Record::Window(_) | Record::Uncounted(_) => 0,
    };
    RECORD_BYTES + texts
}

/// Makes the trace if there is none. Answers whether a block can be appended.
fn is_ready() -> bool {
    let is_made =
        patience::until(|| match STATE.compare_exchange(NONE, MAKING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                let is_made = make();
                STATE.store(if is_made { MADE } else { BROKEN }, Ordering::Release);
                Some(is_made)
            }
            Err(MAKING) => None,
            Err(state) => Some(state == MADE),
        });
    is_made.unwrap_or(false)
}

fn make() -> bool {
    // SAFETY: every field of the structure is text, for which zeros are valid.
    let mut node: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the answer lives through the call.
    unsafe { libc::uname(&raw mut node) };
    // SAFETY: the kernel ends the name with a zero byte.
    let node = unsafe { std::ffi::CStr::from_ptr(node.nodename.as_ptr()) }.to_bytes();
    let first = first_block(node);
    for image in 0..IMAGES {
        // SAFETY: this thread alone has set MAKING.
        let path = unsafe { &mut *PATH.0.get() };
        if !name(path, node, image) {
            return false;
        }
        // SAFETY: the path ends with a zero byte.
        match unsafe { write_to(path.as_ptr(), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, &first) } {
            Ok(written) => return written == Written::Whole,
            Err(libc::EEXIST) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Puts the name of the trace of image `image` into `path`. False for a name that is too long.
fn name(path: &mut [u8; PATH_BYTES], node: &[u8], image: u32) -> bool {
    let mut rest = path.as_mut_slice();
    let process = PROCESS.load(Ordering::Relaxed);
    let mut put = |bytes: &[u8]| rest.write_all(bytes).is_ok();
    put(settings::directory())
        && put(b"/")
        && put(settings::run().as_bytes())
        && put(b"+")
        && put(node)
        && put(format!("+{process}-{image}.weirtrace\0").as_bytes())
}

/// The header and the block of the process.
fn first_block(node: &[u8]) -> Vec<u8> {
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mut arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    arguments.truncate(ARGUMENT_BYTES);
    let directory = names::working_directory().unwrap_or_default();
    let record = Record::Process(Process {
        run: settings::run(),
        node,
        process: PROCESS.load(Ordering::Relaxed),
        // SAFETY: the call has no arguments and cannot fail.
        parent: unsafe { kernel::raw(libc::SYS_getppid, [0; 6]) } as u32,
        is_first: settings::is_first(),
        program: program.as_os_str().as_bytes(),
        arguments: &arguments,
        directory: &directory,
        job: settings::job(),
        rank: launcher::rank(),
        started_nanoseconds: STARTED.load(Ordering::Relaxed),
    });
    let mut bytes = header().to_vec();
    let start = bytes.len();
    bytes.resize(start + BLOCK_HEADER_BYTES + bytes_of(&record), 0);
    let length = block(&[record], &mut bytes[start..]).unwrap_or(0);
    bytes.truncate(start + length);
    bytes
}

/// The bytes of a block that a file took.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Whole,
    Part,
    Nothing,
}

/// Writes `bytes` into the file at `path`.
///
/// # Errors
/// The number of a failed open.
///
/// # Safety
/// `path` ends with a zero byte.
unsafe fn write_to(path: *const u8, flags: c_int, bytes: &[u8]) -> Result<Written, c_int> {
    // SAFETY: as the caller promises. The bytes live through the call.
    unsafe {
        let descriptor = kernel::open(path.cast(), flags)?;
        // The signal for a file that grows beyond the limit would end the program.
        let is_allowed = file_size::limit().is_none_or(|limit| {
            kernel::seek(descriptor, 0, libc::SEEK_END).is_ok_and(|end| end + bytes.len() as u64 <= limit)
        });
        let written = if is_allowed {
            system_call!(libc::SYS_write, descriptor, bytes.as_ptr(), bytes.len()).unwrap_or(0)
        } else {
            0
        };
        kernel::close(descriptor);
        Ok(match written {
            0 => Written::Nothing,
            count if count == bytes.len() => Written::Whole,
            _ => Written::Part,
        })
    }
}
