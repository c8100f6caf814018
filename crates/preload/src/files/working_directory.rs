//! The working directory: whether it lies in the mount, and its place below the prefix, which no kernel knows.

use crate::host::kernel;
use crate::store::session;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_client::wire::Ino;

const CWD_UNKNOWN: u8 = 0;
const CWD_FOREIGN: u8 = 1;
const CWD_STORE: u8 = 2;
static CWD: AtomicU8 = AtomicU8::new(CWD_UNKNOWN);

/// Forgets whether the working directory lies in the mount, because the directory may have changed.
pub(crate) fn forget() {
    CWD.store(CWD_UNKNOWN, Ordering::Release);
}

/// Whether the working directory is known to lie outside the mount.
pub(crate) fn is_outside_mount() -> bool {
    CWD.load(Ordering::Relaxed) == CWD_FOREIGN
}

/// Notes whether the working directory lies in the mount.
pub(crate) fn note_mount(is_inside: bool) {
    CWD.store(if is_inside { CWD_STORE } else { CWD_FOREIGN }, Ordering::Relaxed);
}

/// The variable in which a child finds the working directory inside the store: `inode-in-hexadecimal:path`.
pub(crate) const VARIABLE: &[u8] = b"WEIR_CWD=";

const UNKNOWN: u8 = 0;
/// A directory of the host below which no path leads to the prefix.
const HOST: u8 = 1;
/// A directory of the host above the prefix.
const ABOVE: u8 = 2;
const STORE: u8 = 3;

static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// Whether the variable still counts: it does until the first `chdir` to the host.
static INHERITED: AtomicBool = AtomicBool::new(true);
static POSITION: Mutex<Option<(Ino, Vec<u8>)>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<(Ino, Vec<u8>)>> {
    POSITION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a relative path can lead into the store. The look takes a few instructions.
pub(crate) fn may_lead_into_store() -> bool {
    PLACE.load(Ordering::Acquire) != HOST
}

/// The inode of the working directory and its path below the prefix, if it lies in the store.
pub(crate) fn position() -> Option<(Ino, Vec<u8>)> {
    learn();
    if PLACE.load(Ordering::Acquire) == STORE {
        lock().clone()
    } else {
        None
    }
}

/// The path of the working directory, if it is the host's and lies above the prefix.
pub(crate) fn host() -> Option<Vec<u8>> {
    learn();
    (PLACE.load(Ordering::Acquire) == ABOVE).then(kernel::working_directory).flatten()
}

/// Learns the place of the working directory, after the start of the process or after a `chdir`.
fn learn() {
    if PLACE.load(Ordering::Acquire) != UNKNOWN {
        return;
    }
    let inherited = std::env::var_os("WEIR_CWD").filter(|_| INHERITED.load(Ordering::Acquire));
    if let Some(inherited) = inherited.filter(|value| !value.is_empty()) {
        if let Some((ino, path)) = inherited.as_bytes().split_once_colon() {
            *lock() = Some((ino, path));
            PLACE.store(STORE, Ordering::Release);
            return;
        }
    }
    let above = kernel::working_directory().is_some_and(|directory| {
        let rest = session::root().strip_prefix(directory.as_slice());
        rest.is_some_and(|rest| directory == b"/" || rest.first() == Some(&b'/'))
    });
    PLACE.store(if above { ABOVE } else { HOST }, Ordering::Release);
}

trait Inherited {
    fn split_once_colon(&self) -> Option<(Ino, Vec<u8>)>;
}

impl Inherited for [u8] {
    fn split_once_colon(&self) -> Option<(Ino, Vec<u8>)> {
        let colon = self.iter().position(|byte| *byte == b':')?;
        let number = std::str::from_utf8(&self[..colon]).ok()?;
        Some((Ino(u64::from_str_radix(number, 16).ok()?), self[colon + 1..].to_vec()))
    }
}

pub(crate) fn variable(ino: Ino, path: &[u8]) -> Option<CString> {
    CString::new([format!("{:x}:", ino.0).as_bytes(), path].concat()).ok()
}

/// Notes that the process is in a directory of the store now. The program's environment stays as it is, because some programs
/// (bash) keep their own index of it. Children get the variable when they are made.
pub(crate) fn enter(ino: Ino, path: Vec<u8>) {
    *lock() = Some((ino, path));
    PLACE.store(STORE, Ordering::Release);
}

/// Notes that the process went to a directory of the host.
pub(crate) fn leave() {
    *lock() = None;
    PLACE.store(UNKNOWN, Ordering::Release);
    INHERITED.store(false, Ordering::Release);
}

/// The absolute path of the working directory, if it lies in the store.
pub(crate) fn current_path() -> Option<Vec<u8>> {
    let (_, path) = position()?;
    let mut whole = session::root().to_vec();
    if !path.is_empty() {
        whole.push(b'/');
        whole.extend_from_slice(&path);
    }
    Some(whole)
}
