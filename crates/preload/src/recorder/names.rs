//! Names of recorded files: absolute, as the program named them.

use crate::files::{promotion, tree, working_directory};
use crate::host::kernel;
use crate::recorder::settings;
use crate::store::session::{self, Mode};
use libc::c_int;

/// The word that the kernel puts behind the path of a file without a name.
const DELETED: &[u8] = b" (deleted)";

/// The recorded name of a file.
pub(super) struct Name {
    pub(super) path: Vec<u8>,
    /// The path without symbolic links, empty where it is the same.
    pub(super) true_path: Vec<u8>,
}

impl Name {
    /// A name without symbolic links on its way, as far as is known.
    pub(super) fn plain(path: Vec<u8>) -> Name {
        Name { path, true_path: Vec::new() }
    }
}

/// The absolute path that `path` means from `directory`. Symbolic links stay in the path.
pub(super) fn absolute(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    if path.first() == Some(&b'/') {
        return Some(tree::cleaned(path));
    }
    let base = if directory == libc::AT_FDCWD { working_directory()? } else { directory_path(directory)? };
    Some(tree::cleaned(&[base.as_slice(), b"/", path].concat()))
}

/// The working directory.
pub(super) fn working_directory() -> Option<Vec<u8>> {
    if session::mode() == Mode::Prefix {
        if let Some(path) = working_directory::current_path() {
            return Some(path);
        }
    }
    kernel::working_directory()
}

fn directory_path(directory: c_int) -> Option<Vec<u8>> {
    if session::mode() == Mode::Prefix {
        if let Some(description) = promotion::discovered(directory) {
            let placeholder = description.placeholder()?;
            return Some([session::root(), b"/", &placeholder.state().path].concat());
        }
    }
    kernel::path_of(directory)
}

/// Whether a path lies where files are recorded.
pub(super) fn is_recorded(path: &[u8]) -> bool {
    (!session::root().is_empty() && session::below_root(path).is_some()) || is_observed(path)
}

/// The traces themselves are not recorded.
fn is_observed(path: &[u8]) -> bool {
    settings::observed().any(|observed| is_below(path, observed)) && !is_below(path, settings::directory())
}

/// Whether a path is a folder or lies below the folder.
pub(crate) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder == b"/" || matches!(rest.first(), None | Some(b'/')))
}

/// The kernel's name of an open file, if the file is regular and is recorded.
pub(super) fn of_recorded_file(descriptor: c_int) -> Option<Vec<u8>> {
    let found = kernel::identify(descriptor, c"", libc::STATX_TYPE | libc::STATX_INO).ok()?;
    if libc::mode_t::from(found.stx_mode) & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let mut path = kernel::path_of(descriptor)?;
    if let Some(name) = path.strip_suffix(DELETED) {
        path.truncate(name.len());
    }
    let is_on_store = session::mode() != Mode::Prefix
        && session::device().is_some_and(|device| device == kernel::device_of(&found));
    (is_on_store || is_observed(&path)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_what_is_below_it() {
        for (path, folder, is_in) in [
            ("/a/b", "/a", true),
            ("/a", "/a", true),
            ("/ab", "/a", false),
            ("/b/a", "/a", false),
            ("/b", "/", true),
        ] {
            assert_eq!(is_below(path.as_bytes(), folder.as_bytes()), is_in, "{path} below {folder}");
        }
    }
}
