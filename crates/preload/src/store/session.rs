//! The process's way to the store: the mode, the root of the store's paths, and the client itself.

use crate::host::guard::Outcome;
use crate::host::kernel;
use libc::c_int;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicU8, AtomicUsize, Ordering};
use weir_client::{wire, Caller, ClientError, Settings, Store};
use weir_windows::Tally;

/// The way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// There is none: every call passes.
    Off,
    /// The store is mounted, and descriptors are the kernel's.
    Mount,
    /// The store is not mounted, and paths below the prefix exist for this library only.
    Prefix,
}

/// Longest mount point or prefix: a path of Linux.
const ROOT_BYTES: usize = 4096;
/// `STATX_ATTR_MOUNT_ROOT` of Linux 5.8.
const ATTRIBUTE_MOUNT_ROOT: u64 = 0x2000;
/// `st_dev` of the store where no mount gives one: a major number that Linux leaves to local use (240-254).
const PREFIX_DEVICE: u64 = libc::makedev(240, 0x57);
/// `st_blksize` where no mount gives one: the default stripe, so that buffers have its size.
const PREFIX_BLOCK_BYTES: u32 = 1 << 20;

static MODE: AtomicU8 = AtomicU8::new(0);
static ROOT_LENGTH: AtomicUsize = AtomicUsize::new(0);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static BLOCK_BYTES: AtomicU64 = AtomicU64::new(0);
static STORE: AtomicPtr<Store> = AtomicPtr::new(std::ptr::null_mut());
static TALLY: AtomicPtr<Tally> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the user was told of settings that cannot be used.
static TOLD: AtomicBool = AtomicBool::new(false);

struct RootBuffer(UnsafeCell<[u8; ROOT_BYTES]>);
// SAFETY: the constructor writes the buffer once, before ROOT_LENGTH and MODE let anyone read it.
unsafe impl Sync for RootBuffer {}
static ROOT: RootBuffer = RootBuffer(UnsafeCell::new([0; ROOT_BYTES]));

/// The caller of every request of this process: its own credential.
pub(crate) static CALLER: Caller = Caller::own();

/// Takes the mount point or the prefix from the environment, when the library is loaded.
pub(crate) fn learn(mount: Option<&[u8]>, prefix: Option<&[u8]>) {
    let (mode, root) = match (mount, prefix) {
        (Some(mount), _) => (Mode::Mount, mount),
        (None, Some(prefix)) => (Mode::Prefix, prefix),
        (None, None) => return,
    };
    let trimmed = root.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    if trimmed == 0 || trimmed >= ROOT_BYTES || root[0] != b'/' {
        return;
    }
    // SAFETY: nothing reads the buffer before MODE is set.
    unsafe { (&mut *ROOT.0.get())[..trimmed].copy_from_slice(&root[..trimmed]) };
    ROOT_LENGTH.store(trimmed, Ordering::Relaxed);
    MODE.store(mode as u8, Ordering::Release);
}

/// Has the client count its operations in `tally`, too. The library's start calls this function, before the client is made.
pub(crate) fn count_in(tally: &'static Tally) {
    TALLY.store(std::ptr::from_ref(tally).cast_mut(), Ordering::Release);
}

/// The way to the store.
pub(crate) fn mode() -> Mode {
    match MODE.load(Ordering::Acquire) {
        1 => Mode::Mount,
        2 => Mode::Prefix,
        _ => Mode::Off,
    }
}

/// Mount point or prefix, without a slash at its end.
pub(crate) fn root() -> &'static [u8] {
    let length = ROOT_LENGTH.load(Ordering::Relaxed);
    // SAFETY: the constructor wrote these bytes, and nothing writes later.
    unsafe { &(&*ROOT.0.get())[..length] }
}

/// The part of an absolute path below the root, empty for the root itself.
pub(crate) fn below_root(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(root())?;
    match rest.first() {
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        Some(_) => None,
    }
}

/// Lets every call pass from now on: the process has an identity that its credential does not name, or sees another file
/// system tree.
pub(crate) fn leave() {
    MODE.store(Mode::Off as u8, Ordering::Release);
}

/// `st_dev` of the store. Absent while nothing is mounted at the mount point.
pub(crate) fn device() -> Option<u64> {
    match DEVICE.load(Ordering::Relaxed) {
        0 => learn_device(),
        known => Some(known),
    }
}

/// Forgets the device, because the table of mounts changed: the store may have gone, or come.
pub(crate) fn forget_device() {
    DEVICE.store(0, Ordering::Relaxed);
}

/// `st_blksize` of the store, which is known once [`device`] is known.
pub(crate) fn block_bytes() -> u32 {
    BLOCK_BYTES.load(Ordering::Relaxed) as u32
}

fn learn_device() -> Option<u64> {
    let (device, block_bytes) = match mode() {
        Mode::Off => return None,
        Mode::Prefix => (PREFIX_DEVICE, PREFIX_BLOCK_BYTES),
        Mode::Mount => {
            let mut path = [0_u8; ROOT_BYTES];
            path[..root().len()].copy_from_slice(root());
            let path = CStr::from_bytes_until_nul(&path).ok()?;
            let found = kernel::identify(libc::AT_FDCWD, path, libc::STATX_BASIC_STATS).ok()?;
            // Kernels before 5.8 cannot tell a mount's root. There a directory with an anonymous device of its own is one.
            let is_root = if found.stx_attributes_mask & ATTRIBUTE_MOUNT_ROOT != 0 {
                found.stx_attributes & ATTRIBUTE_MOUNT_ROOT != 0
            } else {
                found.stx_dev_major == 0
            };
            if !is_root {
                return None;
            }
            (kernel::device_of(&found), found.stx_blksize)
        }
    };
    BLOCK_BYTES.store(u64::from(block_bytes), Ordering::Relaxed);
    DEVICE.store(device, Ordering::Relaxed);
    Some(device)
}

/// The client, which its first use makes. Absent where a setting cannot be used, and with a mount where the credential is
/// missing or names another user than the process has. The mount, which learns the caller from the kernel, then decides.
pub(crate) fn store() -> Option<&'static Store> {
    let known = STORE.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: the client was leaked below and is never freed.
        return Some(unsafe { &*known });
    }
    let mut settings = Settings::from_environment().inspect_err(tell).ok()?;
    settings.has_mount = mode() == Mode::Mount;
    // SAFETY: the pointer is null or comes from a static value.
    settings.tally = unsafe { TALLY.load(Ordering::Acquire).as_ref() };
    if mode() == Mode::Mount && !bears_own_credential(&settings) {
        leave();
        return None;
    }
    let made = Box::into_raw(Box::new(Store::new(settings)));
    match STORE.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: the client is leaked, because the process may use it until its end.
        Ok(_) => Some(unsafe { &*made }),
        Err(other) => {
            // SAFETY: `made` was not shared, and `other` is leaked as above.
            unsafe {
                drop(Box::from_raw(made));
                Some(&*other)
            }
        }
    }
}

/// Tells the user once of settings that cannot be used.
fn tell(unusable: &ClientError) {
    let root = String::from_utf8_lossy(root());
    let outcome = match mode() {
        Mode::Prefix => "is not reached",
        Mode::Mount | Mode::Off => "is reached through its mount alone",
    };
    kernel::say_once(&TOLD, || format!("weir: {root} {outcome}: {unusable}\n"));
}

/// The client, where this process has used it.
pub(crate) fn store_in_use() -> Option<&'static Store> {
    let known = STORE.load(Ordering::Acquire);
    // SAFETY: `store` leaked the client, which is never freed.
    (!known.is_null()).then(|| unsafe { &*known })
}

fn bears_own_credential(settings: &Settings) -> bool {
    // SAFETY: neither call has arguments or fails.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    std::fs::read_to_string(&settings.credential)
        .ok()
        .and_then(|text| wire::Credential::from_json(&text).ok())
        .is_some_and(|credential| credential.claims.uid == uid && credential.claims.gid == gid)
}

/// The outcome of a call of the client. With a mount, the kernel does the calls that this client cannot answer.
pub(crate) fn outcome<T>(result: weir_client::Result<T>) -> Outcome<T> {
    match result {
        Ok(value) => Some(Ok(value)),
        Err(ClientError::Failed(number)) => Some(Err(c_int::from(number.0))),
        Err(error @ ClientError::Lost { .. }) => Some(Err(error.errno())),
        Err(_) if mode() == Mode::Mount => None,
        Err(error) => Some(Err(error.errno())),
    }
}

/// The client's error with an error number of the caller.
pub(crate) fn failed(number: c_int) -> ClientError {
    ClientError::Failed(wire::Errno(number as u16))
}
