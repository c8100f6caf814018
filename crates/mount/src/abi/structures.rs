//! Structures of requests and answers, in the kernel's order of fields.

use super::Fixed;

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }

        impl Fixed for $name {
            const BYTES: usize = 0 $(+ <$kind as Fixed>::BYTES)*;
            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Fixed::take(bytes)?),* })
            }
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
        }
    )* };
}

structures! {
    /// In front of every request.
    InHeader {
        length: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        extension_words: u16, padding: u16,
    }
    /// In front of every answer and notification.
    OutHeader { length: u32, error: i32, unique: u64 }
    /// Attributes of an inode.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64,
        atime_nanoseconds: u32, mtime_nanoseconds: u32, ctime_nanoseconds: u32,
        mode: u32, links: u32, uid: u32, gid: u32, device: u32, block_size: u32, flags: u32,
    }
    /// A name and its inode, with how long the kernel may believe both.
    EntryOut {
        node: u64, generation: u64, entry_seconds: u64, attr_seconds: u64,
        entry_nanoseconds: u32, attr_nanoseconds: u32, attr: Attr,
    }
    /// Attributes, with how long the kernel may believe them.
    AttrOut { attr_seconds: u64, attr_nanoseconds: u32, padding: u32, attr: Attr }
    GetattrIn { flags: u32, padding: u32, handle: u64 }
    SetattrIn {
        valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64,
        atime: i64, mtime: i64, ctime: i64,
        atime_nanoseconds: u32, mtime_nanoseconds: u32, ctime_nanoseconds: u32,
        mode: u32, unused: u32, uid: u32, gid: u32, unused_end: u32,
    }
    MknodIn { mode: u32, device: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { new_parent: u64 }
    Rename2In { new_parent: u64, flags: u32, padding: u32 }
    LinkIn { old_node: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    /// The body of CREATE and TMPFILE.
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    OpenOut { handle: u64, open_flags: u32, backing: i32 }
    ReleaseIn { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { handle: u64, unused: u32, padding: u32, lock_owner: u64 }
    /// The body of READ and READDIR.
    ReadIn {
        handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteIn {
        handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32,
    }
    WriteOut { size: u32, padding: u32 }
    StatfsOut {
        blocks: u64, free: u64, available: u64, files: u64, files_free: u64,
        block_size: u32, name_length: u32, fragment_size: u32, padding: u32, spare: [u32; 6],
    }
    /// The body of FSYNC and FSYNCDIR.
    FsyncIn { handle: u64, flags: u32, padding: u32 }
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    /// The short form, where the kernel does not know `SETXATTR_EXT`.
    SetxattrShortIn { size: u32, flags: u32 }
    /// The body of GETXATTR and LISTXATTR.
    GetxattrIn { size: u32, padding: u32 }
    GetxattrOut { size: u32, padding: u32 }
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    LockIn { handle: u64, owner: u64, lock: FileLock, flags: u32, padding: u32 }
    AccessIn { mask: u32, padding: u32 }
    /// First part of INIT; the rest depends on the minor version.
    InitIn { major: u32, minor: u32, readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] }
    /// INIT of kernels before 7.36.
    InitShortIn { major: u32, minor: u32, readahead: u32, flags: u32 }
    InitOut {
        major: u32, minor: u32, readahead: u32, flags: u32, background: u16, congestion: u16,
        write_bytes: u32, time_granularity: u32, pages: u16, map_alignment: u16, flags2: u32,
        unused: [u32; 7],
    }
    InterruptIn { unique: u64 }
    IoctlIn { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32 }
    IoctlOut { result: i32, flags: u32, in_vectors: u32, out_vectors: u32 }
    FallocateIn { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { handle: u64, offset: u64, whence: u32, padding: u32 }
    LseekOut { offset: u64 }
    CopyFileRangeIn {
        handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64,
    }
    CopyFileRangeOut { bytes: u64 }
    /// In front of a name in a directory listing; records are padded to eight bytes.
    Dirent { ino: u64, offset: u64, name_length: u32, kind: u32 }
    InvalidateInode { ino: u64, offset: i64, length: i64 }
    /// In front of bytes for the kernel's pages.
    Store { ino: u64, offset: u64, size: u32, padding: u32 }
    StatxIn { flags: u32, reserved: u32, handle: u64, statx_flags: u32, statx_mask: u32 }
    StatxTime { seconds: i64, nanoseconds: u32, reserved: i32 }
    Statx {
        mask: u32, block_size: u32, attributes: u64, links: u32, uid: u32, gid: u32, mode: u16, spare: u16,
        ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime,
        device_major: u32, device_minor: u32, store_major: u32, store_minor: u32, spare_end: [u64; 14],
    }
    StatxOut { attr_seconds: u64, attr_nanoseconds: u32, flags: u32, spare: [u64; 2], stat: Statx }
}
