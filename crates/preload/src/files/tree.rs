//! Paths without a mount: this library resolves the prefix, and the servers resolve the part below it.

use crate::files::placeholder::Placeholder;
use crate::files::places::present;
use crate::files::{prefix, promotion, working_directory};
use crate::host::kernel;
use crate::store::session;
use libc::c_int;
use std::borrow::Cow;
use std::ffi::CString;
use weir_client::wire::Ino;

/// The place to which a path leads.
pub(crate) enum Located<'a> {
    /// The path does not lead into the store, or only the kernel can tell.
    Host,
    /// The path leads into the store: below this directory, along this path.
    Store(Ino, Cow<'a, [u8]>),
    /// Where no kernel knows the store, the path leads out of the store to this path of the host.
    Elsewhere(CString),
}

/// Whether a path may lead into the store: a few instructions for a path of the host.
pub(crate) fn is_candidate(directory: c_int, path: &[u8]) -> bool {
    match path.first() {
        None => false,
        Some(b'/') => {
            session::below_root(path).is_some()
                || is_roundabout(path)
                || descriptor_named(path).is_some_and(prefix::may_hold)
        }
        Some(_) if directory == libc::AT_FDCWD => working_directory::may_lead_into_store(),
        Some(_) => prefix::may_hold(directory) || begins_as_prefix(path),
    }
}

/// Whether an absolute path may mean another path than its bytes say.
fn is_roundabout(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"//" || pair == b"/.")
}

/// The place to which a path leads from `directory`.
pub(crate) fn locate(directory: c_int, path: &[u8]) -> Located<'_> {
    match path.first() {
        None => Located::Host,
        Some(b'/') => absolute(path),
        Some(_) if directory == libc::AT_FDCWD => match working_directory::position() {
            Some((ino, base)) => relative(ino, &base, path),
            None => from_host(path),
        },
        Some(_) => {
            let Some(description) = promotion::discovered(directory) else {
                return if begins_as_prefix(path) { below_host(directory, path) } else { Located::Host };
            };
            let Some(placeholder) = description.placeholder() else { return Located::Host };
            relative(placeholder.ino(), &placeholder.state().path, path)
        }
    }
}

fn absolute(path: &[u8]) -> Located<'_> {
    if let Some(rest) = session::below_root(path) {
        if climbs(rest, 0).is_none() {
            return Located::Store(Ino::ROOT, Cow::Borrowed(rest));
        }
    }
    if !is_roundabout(path) {
        return Located::Host;
    }
    // The way to the prefix has no symbolic links that matter, because the prefix need not exist on the host.
    let clean = cleaned(path);
    match session::below_root(&clean) {
        Some(rest) => Located::Store(Ino::ROOT, Cow::Owned(rest.to_vec())),
        None if session::below_root(path).is_some() => elsewhere(&clean),
        None => Located::Host,
    }
}

/// The place of a path from the directory `ino`, which was reached under `base` below the prefix. A path leaves the store from
/// the place that the directory has now.
fn relative<'a>(ino: Ino, base: &[u8], path: &'a [u8]) -> Located<'a> {
    let is_inside = |base: &[u8]| climbs(path, components(base).count()).is_none();
    if is_inside(base) {
        return Located::Store(ino, Cow::Borrowed(path));
    }
    let moved = session::store().and_then(|store| present(store, ino, base).ok());
    let base = moved.as_deref().unwrap_or(base);
    if is_inside(base) {
        return Located::Store(ino, Cow::Borrowed(path));
    }
    let whole = [session::root(), b"/", base, b"/", path].concat();
    let clean = cleaned(&whole);
    match session::below_root(&clean) {
        Some(rest) => Located::Store(Ino::ROOT, Cow::Owned(rest.to_vec())),
        None => elsewhere(&clean),
    }
}

/// The place of a relative path while the working directory is the host's. The path may lead down into the prefix.
fn from_host(path: &[u8]) -> Located<'_> {
    let Some(base) = working_directory::host() else { return Located::Host };
    let clean = cleaned(&[base.as_slice(), b"/", path].concat());
    match session::below_root(&clean) {
        Some(rest) => Located::Store(Ino::ROOT, Cow::Owned(rest.to_vec())),
        None => Located::Host,
    }
}

/// Whether a relative path begins with a name of the prefix: from a directory of the host above it, programs that
/// walk one name at a time (rsync) come in this way.
fn begins_as_prefix(path: &[u8]) -> bool {
    let first = components(path).next();
    session::mode() == session::Mode::Prefix && components(session::root()).any(|part| Some(part) == first)
}

/// The place of a path from a directory of the host.
fn below_host(directory: c_int, path: &[u8]) -> Located<'_> {
    let Some(base) = kernel::path_of(directory) else { return Located::Host };
    let clean = cleaned(&[base.as_slice(), b"/", path].concat());
    match session::below_root(&clean) {
        Some(rest) => Located::Store(Ino::ROOT, Cow::Owned(rest.to_vec())),
        None => Located::Host,
    }
}

fn elsewhere<'a>(path: &[u8]) -> Located<'a> {
    CString::new(path).map_or(Located::Host, Located::Elsewhere)
}

/// The position at which a path climbs above the prefix. The path starts `depth` directories below the prefix.
fn climbs(path: &[u8], depth: usize) -> Option<usize> {
    let mut depth = depth;
    for (index, part) in components(path).enumerate() {
        if part == b".." {
            match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return Some(index),
            }
        } else {
            depth += 1;
        }
    }
    None
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."))
}

/// The path without `//`, `.` and `..`. A slash at the end, which asks for a directory, stays.
pub(crate) fn cleaned(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(path) {
        if part == b".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let mut clean = vec![b'/'];
    clean.extend_from_slice(&parts.join(&b'/'));
    if path.len() > 1 && path.ends_with(b"/") && clean.len() > 1 {
        clean.push(b'/');
    }
    clean
}

/// The path below the prefix of a directory: of the working directory, or of an open one. `None` for a directory of the
/// host.
pub(crate) fn path_of_directory(directory: c_int) -> Option<Vec<u8>> {
    if directory == libc::AT_FDCWD {
        return working_directory::position().map(|(_, path)| path);
    }
    let description = promotion::discovered(directory)?;
    Some(description.placeholder()?.state().path.clone())
}

/// The path below the prefix that `path` means from `directory`.
pub(crate) fn name(directory: c_int, path: &[u8]) -> Vec<u8> {
    let base = if path.first() == Some(&b'/') { None } else { path_of_directory(directory) };
    name_below(base.as_deref(), path)
}

/// The path below the prefix of a located path, for `getcwd`.
pub(crate) fn name_below(base: Option<&[u8]>, path: &[u8]) -> Vec<u8> {
    let whole: Cow<'_, [u8]> = match (session::below_root(path), base) {
        (Some(rest), _) if path.first() == Some(&b'/') => Cow::Borrowed(rest),
        (_, Some(base)) => Cow::Owned([base, b"/", path].concat()),
        (_, None) => Cow::Borrowed(path),
    };
    let clean = cleaned(&whole);
    clean.strip_prefix(b"/").map(|rest| rest.strip_suffix(b"/").unwrap_or(rest)).unwrap_or(&clean).to_vec()
}

/// The descriptor that a path of `/proc` or `/dev` names. The kernel would open the memfd behind a placeholder.
pub(crate) fn descriptor_named(path: &[u8]) -> Option<c_int> {
    let number: &[u8] = match path {
        b"/dev/stdin" => b"0",
        b"/dev/stdout" => b"1",
        b"/dev/stderr" => b"2",
        _ => {
            let folders: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
            folders.iter().find_map(|folder| path.strip_prefix(*folder))?
        }
    };
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The inode of the placeholder that such a path names.
pub(crate) fn inode_named(path: &[u8]) -> Option<Ino> {
    let description = promotion::discovered(descriptor_named(path)?)?;
    description.placeholder().map(Placeholder::ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_follows_the_components() {
        for (path, clean) in [
            ("/a/./b//c", "/a/b/c"),
            ("/a/../b/", "/b/"),
            ("/../..", "/"),
            ("/", "/"),
            ("/a/b/../../../c", "/c"),
        ] {
            assert_eq!(cleaned(path.as_bytes()), clean.as_bytes(), "{path}");
        }
    }

    #[test]
    fn climbing_is_measured_from_the_start() {
        assert_eq!(climbs(b"a/../b", 0), None);
        assert_eq!(climbs(b"a/../../b", 0), Some(2));
        assert_eq!(climbs(b"../x", 1), None);
    }
}
