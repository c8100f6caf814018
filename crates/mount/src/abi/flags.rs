//! Flags of the protocol, and the numbers of the device.

/// Major version of the protocol.
pub(crate) const MAJOR: u32 = 7;
/// Newest minor version that this program speaks (Linux 6.18).
pub(crate) const MINOR: u32 = 45;
/// Oldest minor version that is served (Linux 5.4).
pub(crate) const MINOR_MIN: u32 = 31;

/// Features of both sides, as one 64-bit mask (the upper half travels in `flags2`).
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub(crate) const ABORT_ERROR: u64 = 1 << 21;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// `valid` of a SETATTR request.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
}

/// The descriptor moves data past the page cache.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1 << 0;
/// Writes inside the file run beside each other.
pub(crate) const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
/// GETATTR names an open file.
pub(crate) const GETATTR_FH: u32 = 1 << 0;
/// A lock call is `flock(2)`.
pub(crate) const LOCK_FLOCK: u32 = 1 << 0;
/// The lock owner of a READ is known, so it is a read call and no page fault.
pub(crate) const READ_LOCK_OWNER: u32 = 1 << 1;
/// A WRITE comes from the page cache; its file and process are guessed.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// Only data has to be durable.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;

/// `ioctl` of the device that makes a further descriptor of the same connection: `_IOR(229, 0, u32)`.
pub(crate) const DEVICE_CLONE: u32 = (2 << 30) | (4 << 16) | (229 << 8);

/// Bytes of the answer of [`IOCTL_HANDLE`].
pub(crate) const IOCTL_HANDLE_BYTES: usize = 4096;
/// `ioctl` on an open file that tells the client library its handle: `_IOR('W', 1, [u8; 4096])`.
pub(crate) const IOCTL_HANDLE: u32 =
    (2 << 30) | ((IOCTL_HANDLE_BYTES as u32) << 16) | ((b'W' as u32) << 8) | 1;
/// `ioctl` on an open file whose pages are about to be mapped: `_IO('W', 2)`.
pub(crate) const IOCTL_MAP: u32 = ((b'W' as u32) << 8) | 2;
