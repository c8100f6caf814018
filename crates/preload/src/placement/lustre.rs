//! Layouts on Lustre, through liblustreapi where it is installed.
//!
//! The first creation that needs liblustreapi looks for it. Signatures are those of `lustre/lustreapi.h` of Lustre 2.10 to
//! 2.16 and of `llapi_layout(7)`. A layout of several components is built as `lfs setstripe -E` does: the extent of one
//! component is set before the next one is added.

use crate::host::kernel::{self, say};
use crate::host::{guard, real};
use crate::placement::database::Component;
use libc::{c_char, c_int, c_void, mode_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// `f_type` of Lustre (`LL_SUPER_MAGIC`).
const LUSTRE: i64 = 0x0BD0_0BD0;
/// `LUSTRE_EOF`: the end of a component that reaches to the end of the file.
const END_OF_FILE: u64 = u64::MAX;
const NAMES: [&CStr; 2] = [c"liblustreapi.so.1", c"liblustreapi.so"];
/// The file was made, and its layout was refused. No error number of the system has this value.
pub(super) const MADE_WITHOUT_LAYOUT: c_int = -1;
/// Remembered file systems: a program writes to fewer.
const DEVICES: usize = 16;

/// `struct llapi_layout`, whose form only liblustreapi knows.
#[repr(C)]
struct Layout {
    _opaque: [u8; 0],
}

macro_rules! library {
    ($($name:ident : $symbol:literal ( $($type:ty),* ) $(-> $result:ty)?;)*) => {
        /// The used functions of liblustreapi.
        struct Library { $($name: unsafe extern "C" fn($($type),*) $(-> $result)?),* }

        impl Library {
            /// All of them, or none.
            ///
            /// # Safety
            /// `handle` is a library that `dlopen` has opened.
            unsafe fn of(handle: *mut c_void) -> Option<Library> {
                Some(Library { $($name: {
                    // SAFETY: as the caller promises. The functions have these signatures in every Lustre with
                    // composite layouts.
                    unsafe {
                        let found = libc::dlsym(handle, $symbol.as_ptr());
                        if found.is_null() {
                            return None;
                        }
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(found)
                    }
                }),* })
            }
        }
    };
}

library! {
    alloc: c"llapi_layout_alloc" () -> *mut Layout;
    free: c"llapi_layout_free" (*mut Layout);
    stripe_count_set: c"llapi_layout_stripe_count_set" (*mut Layout, u64) -> c_int;
    stripe_size_set: c"llapi_layout_stripe_size_set" (*mut Layout, u64) -> c_int;
    ost_index_set: c"llapi_layout_ost_index_set" (*mut Layout, c_int, u64) -> c_int;
    comp_extent_set: c"llapi_layout_comp_extent_set" (*mut Layout, u64, u64) -> c_int;
    comp_add: c"llapi_layout_comp_add" (*mut Layout) -> c_int;
    file_create: c"llapi_layout_file_create" (*const c_char, c_int, c_int, *const Layout) -> c_int;
}

static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(std::ptr::null_mut());
static MISSING: AtomicBool = AtomicBool::new(false);

static KNOWN: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// The mark of a known device that is Lustre. Numbers of devices have 44 bits.
const IS_LUSTRE: u64 = 1 << 63;

/// Makes the file at `path`, which is absolute, with its layout. `None` for a file that does not lie on Lustre.
///
/// liblustreapi allocates with the program's `malloc`, and so may not be called in a signal handler that interrupted
/// `malloc`. The signal of a running handler is blocked, so only a thread that `is_calm` calls liblustreapi.
///
/// # Errors
/// `EEXIST` where the file exists, [`MADE_WITHOUT_LAYOUT`], or the number of liblustreapi, which made no file.
pub(super) fn make(
    path: &CStr,
    components: &[Component],
    mode: mode_t,
    is_calm: bool,
) -> Option<Result<(), c_int>> {
    let folder = parent(path);
    let found = kernel::identify(libc::AT_FDCWD, &folder, libc::STATX_TYPE).ok()?;
    if !has_device(kernel::device_of(&found), folder.to_bytes()) {
        return None;
    }
    if !is_calm {
        return Some(Err(libc::EAGAIN));
    }
    let Some(library) = library() else { return Some(Err(libc::ENOSYS)) };
    Some(library.make(path, components, mode))
}

/// Whether the file system `device`, on which `path` lies, is Lustre.
pub(super) fn has_device(device: u64, path: &[u8]) -> bool {
    let known =
        |entry: &AtomicU64| Some(entry.load(Ordering::Relaxed)).filter(|known| known & !IS_LUSTRE == device);
    if let Some(found) = KNOWN.iter().find_map(known) {
        return found & IS_LUSTRE != 0;
    }
    let Ok(path) = std::ffi::CString::new(path) else { return false };
    // SAFETY: zeros are valid for a structure of numbers, and the path ends with a zero byte.
    let (asked, kind) = unsafe {
        let mut answer: libc::statfs = std::mem::zeroed();
        (real::statfs(path.as_ptr(), &raw mut answer), answer.f_type)
    };
    if asked != 0 {
        return false;
    }
    let is_lustre = kind == LUSTRE;
    let entry = device | if is_lustre { IS_LUSTRE } else { 0 };
    KNOWN[NEXT.fetch_add(1, Ordering::Relaxed) % DEVICES].store(entry, Ordering::Relaxed);
    is_lustre
}

fn parent(path: &CStr) -> std::ffi::CString {
    let bytes = path.to_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    // A part of a C string has no zero byte inside.
    std::ffi::CString::new(&bytes[..slash.max(1)]).unwrap_or_default()
}

fn library() -> Option<&'static Library> {
    let known = LIBRARY.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: the table was leaked below and is never freed.
        return Some(unsafe { &*known });
    }
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let open = |name: &CStr| {
        // SAFETY: the name ends with a zero byte. The library stays open, so its functions stay where they are.
        unsafe {
            let handle = real::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                None
            } else {
                Library::of(handle)
            }
        }
    };
    let Some(found) = NAMES.into_iter().find_map(open) else {
        if !MISSING.swap(true, Ordering::Relaxed) {
            say(
                "weir: liblustreapi.so.1 of Lustre 2.10 or newer is not to be loaded: files on Lustre are made without \
                 the layouts of the interaction database; install the Lustre client's tools, or make the files with \
                 `weir place --emit lfs`\n",
            );
        }
        return None;
    };
    // Two threads may load the library at once: then one of the two tables is left over.
    let made = Box::into_raw(Box::new(found));
    LIBRARY.store(made, Ordering::Release);
    // SAFETY: the table is leaked.
    Some(unsafe { &*made })
}

impl Library {
    fn make(&self, path: &CStr, components: &[Component], mode: mode_t) -> Result<(), c_int> {
        // SAFETY: the layout is liblustreapi's own and is freed once, and the path ends with a zero byte.
        unsafe {
            let layout = (self.alloc)();
            if layout.is_null() {
                return Err(libc::ENOMEM);
            }
            let made = self.describe(layout, components).and_then(|()| self.create(path, layout, mode));
            (self.free)(layout);
            made
        }
    }

    /// # Safety
    /// `layout` is one that liblustreapi has allocated.
    unsafe fn describe(&self, layout: *mut Layout, components: &[Component]) -> Result<(), c_int> {
        let done = |result: c_int| if result == 0 { Ok(()) } else { Err(guard::errno()) };
        let mut start = 0;
        for (index, component) in components.iter().enumerate() {
            // SAFETY: as the caller promises, here and below.
            unsafe {
                if components.len() > 1 {
                    if index > 0 {
                        done((self.comp_add)(layout))?;
                    }
                    let end = component.end.unwrap_or(END_OF_FILE);
                    done((self.comp_extent_set)(layout, start, end))?;
                    start = end;
                }
                done((self.stripe_count_set)(layout, component.stripe_count.into()))?;
                done((self.stripe_size_set)(layout, component.stripe_bytes))?;
                for (stripe, target) in component.targets.split_ascii_whitespace().enumerate() {
                    let target = target.parse::<u32>().map_err(|_| libc::EINVAL)?;
                    done((self.ost_index_set)(layout, stripe as c_int, target.into()))?;
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Library::describe`].
    unsafe fn create(&self, path: &CStr, layout: *mut Layout, mode: mode_t) -> Result<(), c_int> {
        // SAFETY: as the caller promises.
        let made = unsafe {
            (self.file_create)(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC, mode as c_int, layout)
        };
        if made >= 0 {
            kernel::close(made);
            return Ok(());
        }
        let number = guard::errno();
        // liblustreapi makes the file before it sets the layout: a file that exists now, and did not before, is this one.
        let is_there = || kernel::identify(libc::AT_FDCWD, path, libc::STATX_TYPE).is_ok();
        Err(if number != libc::EEXIST && is_there() { MADE_WITHOUT_LAYOUT } else { number })
    }
}
