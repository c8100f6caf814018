//! The proof that the fast path served a program's calls: one JSON file per process image.

use crate::host::kernel::{self, system_call};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! calls {
    ($($call:ident $name:literal),+ $(,)?) => {
        /// A kind of call that the client can serve.
        #[derive(Clone, Copy)]
        pub(crate) enum Call { $($call),+ }
        const NAMES: &[&str] = &[$($name),+];
    };
}

calls! {
    Open "open", Read "read", Write "write", Append "append", Seek "seek", Sync "sync", Truncate "truncate",
    Allocate "allocate", Copy "copy", Lock "lock", Map "map",
    Stat "stat", Access "access", Change "change", Make "make", Unlink "unlink", Rename "rename", Link "link",
    ReadLink "readlink", List "list", Attribute "xattr", Statistics "statfs",
}

/// Files that one process may write, one for each `exec`: more than any real chain of programs, so that a loop of `exec` ends.
const IMAGES: u32 = 10_000;

static SERVED: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
static BYTES_READ: AtomicU64 = AtomicU64::new(0);
static BYTES_WRITTEN: AtomicU64 = AtomicU64::new(0);
static PASSED: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// Counts a call that the client served.
pub(crate) fn served(call: Call) {
    SERVED[call as usize].fetch_add(1, Ordering::Relaxed);
}

/// Counts a read of the client.
pub(crate) fn read(bytes: usize) {
    served(Call::Read);
    BYTES_READ.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts a write of the client.
pub(crate) fn wrote(call: Call, bytes: usize) {
    served(call);
    BYTES_WRITTEN.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts a call on a file of the store that went to the kernel.
pub(crate) fn passed() {
    PASSED.fetch_add(1, Ordering::Relaxed);
}

/// Clears all counters, in the child of `fork`.
pub(crate) fn reset() {
    for counter in SERVED.iter().chain([&BYTES_READ, &BYTES_WRITTEN, &PASSED]) {
        counter.store(0, Ordering::Relaxed);
    }
    WRITTEN.store(false, Ordering::Relaxed);
}

/// Writes the counters into the folder `WEIR_COUNTERS`, once for a process image, if the program touched the store. `creations`
/// are the counts of creations, each with its name.
pub(crate) fn write_file(creations: &[(&str, u64)]) {
    let touched = SERVED.iter().chain([&PASSED]).any(|counter| counter.load(Ordering::Relaxed) > 0);
    if !touched || WRITTEN.swap(true, Ordering::AcqRel) {
        return;
    }
    let Some(folder) = std::env::var_os("WEIR_COUNTERS").filter(|folder| !folder.is_empty()) else { return };
    let text = json(creations);
    let process = kernel::process_id();
    for image in 0..IMAGES {
        let name = if image == 0 { format!("{process}.json") } else { format!("{process}-{image}.json") };
        let mut path = std::path::Path::new(&folder).join(name).into_os_string().into_encoded_bytes();
        path.push(0);
        // SAFETY: the path ends with a zero byte, and the text lives through the write.
        unsafe {
            match kernel::open(path.as_ptr().cast(), libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL) {
                Ok(descriptor) => {
                    let _ = system_call!(libc::SYS_write, descriptor, text.as_ptr(), text.len());
                    kernel::close(descriptor);
                    return;
                }
                Err(libc::EEXIST) => {}
                Err(_) => return,
            }
        }
    }
}

/// Lets the counters be written again, because `exec` failed.
pub(crate) fn rearm() {
    WRITTEN.store(false, Ordering::Release);
}

fn json(creations: &[(&str, u64)]) -> String {
    let mut text = String::from("{\"calls\":{");
    let counts = NAMES.iter().zip(&SERVED).map(|(name, count)| (name, count.load(Ordering::Relaxed)));
    for (index, (name, count)) in counts.filter(|(_, count)| *count > 0).enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Writing into a String cannot fail.
        let _ = write!(text, "{comma}\"{name}\":{count}");
    }
    let [read, written, passed] = [&BYTES_READ, &BYTES_WRITTEN, &PASSED].map(|c| c.load(Ordering::Relaxed));
    let _ =
        write!(text, "}},\"bytes_read\":{read},\"bytes_written\":{written},\"passed_to_kernel\":{passed}");
    for (name, count) in creations {
        let _ = write!(text, ",\"creations_{name}\":{count}");
    }
    text.push_str("}\n");
    text
}
