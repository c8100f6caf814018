//! Kinds and permissions of inodes in the form of `st_mode`.

use weir_wire::{Attributes, FileKind, NodeKind};

/// File type bits of `st_mode`.
pub fn type_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharacterDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
    }
}

/// File type and permission bits, as `st_mode` has them.
pub fn mode_of(attributes: &Attributes) -> u32 {
    type_bits(attributes.kind) | u32::from(attributes.permissions)
}

/// The node that `mknod(2)` makes for a mode and a device number; none for a directory, a link and types that do not exist.
pub fn node_of(mode: u32, device: u64) -> Option<NodeKind> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Some(NodeKind::Regular),
        libc::S_IFIFO => Some(NodeKind::Fifo),
        libc::S_IFSOCK => Some(NodeKind::Socket),
        libc::S_IFCHR => Some(NodeKind::CharacterDevice(device)),
        libc::S_IFBLK => Some(NodeKind::BlockDevice(device)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_not_made_by_mknod() {
        assert_eq!(node_of(libc::S_IFDIR | 0o755, 0), None);
        assert_eq!(node_of(libc::S_IFIFO | 0o644, 0), Some(NodeKind::Fifo));
        assert_eq!(node_of(0o644, 0), Some(NodeKind::Regular));
    }
}
