//! The library's start and end in a process.

use crate::calls::{environments, handover, libraries, process, standard_streams};
use crate::host::{forks, launcher};
use crate::store::session::{self, Mode};
use crate::{observation, placement, recorder};
use libc::{c_char, c_int};
use std::ffi::CStr;

/// Runs when the library is loaded: comparisons of environment strings.
extern "C" fn begin(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: glibc passes the environment, ended by a null pointer, to constructors.
    let find = |name: &[u8]| unsafe { variable(environment, name) };
    forks::register(&process::FORKS);
    launcher::learn(find);
    recorder::start(find);
    observation::start(find);
    placement::learn(find(b"WEIR_PLACEMENT="), find(b"WEIR_PLACEMENT_REPORT="));
    session::learn(find(b"WEIR_MOUNT="), find(b"WEIR_PREFIX="));
    if session::mode() == Mode::Prefix {
        let loaded = find(b"WEIR_LIBRARIES=").unwrap_or_default();
        libraries::learn(find(b"LD_LIBRARY_PATH="), environments::loaded(loaded));
        handover::take_over(find(b"WEIR_HANDOVER="));
        standard_streams::look_at_standard();
    }
}

/// The non-empty value of a variable, whose `name` ends with `=`.
///
/// # Safety
/// `environment` is a null-terminated array of C strings, or null.
unsafe fn variable<'a>(environment: *const *const c_char, name: &[u8]) -> Option<&'a [u8]> {
    let mut cursor = environment;
    // SAFETY: the cursor stays inside the array, which ends with a null pointer.
    unsafe {
        while !cursor.is_null() && !(*cursor).is_null() {
            let entry = CStr::from_ptr(*cursor).to_bytes();
            if let Some(value) = entry.strip_prefix(name) {
                return (!value.is_empty()).then_some(value);
            }
            cursor = cursor.add(1);
        }
    }
    None
}

#[cfg_attr(not(test), used, link_section = ".init_array")]
#[cfg_attr(test, allow(dead_code, reason = "called by the dynamic linker, outside of tests"))]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

#[cfg_attr(not(test), used, link_section = ".fini_array")]
#[cfg_attr(test, allow(dead_code, reason = "called by the dynamic linker, outside of tests"))]
static DESTRUCTOR: extern "C" fn() = process::at_end;
