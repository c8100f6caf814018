//! Streams of libc: the meaning of their modes, and their descriptors.

use crate::host::{guard, real};
use libc::{c_int, FILE};
use std::ffi::CString;

/// Permissions that `fopen` asks for.
pub(crate) const CREATED_MODE: libc::mode_t = 0o666;

/// The open flags of a stream's mode. `None` for a mode that libc refuses.
pub(crate) fn flags_of(mode: &[u8]) -> Option<c_int> {
    let (first, rest) = mode.split_first()?;
    // A character set follows a comma.
    let rest = rest.split(|byte| *byte == b',').next().unwrap_or_default();
    let access = if rest.contains(&b'+') {
        libc::O_RDWR
    } else if *first == b'r' {
        libc::O_RDONLY
    } else {
        libc::O_WRONLY
    };
    let making = match first {
        b'r' => 0,
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let exclusive = if rest.contains(&b'x') && making != 0 { libc::O_EXCL } else { 0 };
    let closing = if rest.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    Some(access | making | exclusive | closing)
}

/// The descriptor of a stream, -1 where the stream has none.
///
/// # Safety
/// `stream` is an open stream.
pub(crate) unsafe fn stream_descriptor(stream: *mut FILE) -> c_int {
    let before = guard::errno();
    // SAFETY: as the caller promises.
    let descriptor = unsafe { real::fileno(stream) };
    guard::set_errno(before);
    descriptor
}

/// A stream's mode without `x`. `None` for a mode that has no `x`. A character set follows a comma.
pub(crate) fn without_exclusive(mode: &[u8]) -> Option<CString> {
    let comma = mode.iter().position(|byte| *byte == b',').unwrap_or(mode.len());
    if !mode[..comma].contains(&b'x') {
        return None;
    }
    let mut shared: Vec<u8> = mode[..comma].iter().copied().filter(|byte| *byte != b'x').collect();
    shared.extend_from_slice(&mode[comma..]);
    CString::new(shared).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_mean_what_fopen_says() {
        assert_eq!(flags_of(b"r"), Some(libc::O_RDONLY));
        assert_eq!(flags_of(b"rb+"), Some(libc::O_RDWR));
        assert_eq!(flags_of(b"wx"), Some(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL));
        assert_eq!(flags_of(b"a+e"), Some(libc::O_RDWR | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC));
        assert_eq!(flags_of(b"r,ccs=x+"), Some(libc::O_RDONLY));
        assert_eq!(flags_of(b"q"), None);
    }
}
