//! The making of a directory: the server chooses the home of a tree by the number of files that the database foresees in it.

use crate::files::tree;
use crate::placement::creation::absolute;
use crate::placement::lookup;
use crate::store::session::{self, Mode};
use libc::c_int;
use weir_client::wire::NodeKind;

/// The kind of the directory that is made at `path`. The caller is inside a hook.
pub(crate) fn directory_kind(directory: c_int, path: &[u8]) -> NodeKind {
    if !lookup::is_on() {
        return NodeKind::Directory;
    }
    let whole = match session::mode() {
        Mode::Prefix => Some([session::root(), b"/", &tree::name(directory, path)].concat()),
        Mode::Mount | Mode::Off => absolute(directory, path),
    };
    match whole.map_or(0, |whole| lookup::files_below(&whole)) {
        0 => NodeKind::Directory,
        files => NodeKind::Tree(files),
    }
}
