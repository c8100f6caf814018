//! The bytes of a database: a private mapping, whose truncation by another process cannot end the program.

use crate::host::kernel::{self, system_call};
use libc::{c_int, iovec};
use std::ffi::CStr;

/// Bytes that can be read by their offset.
pub(crate) trait Pages {
    /// Fills `buffer` from `offset` on. An error where there are fewer bytes.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ()>;

    /// The bytes themselves, if they are memory that cannot vanish.
    fn memory(&self) -> Option<&[u8]>;
}

/// Largest database that is copied into the process's own memory: a hundred thousand files of eight stripes. A larger
/// database is mapped, and all processes of a node share its pages.
const COPIED_BYTES_MAX: usize = 16 << 20;
/// Largest database that is copied where the kernel refuses fault-free reads of a mapping.
const COPY_BYTES_MAX: usize = 256 << 20;

/// Largest database whose pages are all mapped at once, so that no look-up waits for one.
const POPULATED_BYTES_MAX: usize = 64 << 20;

/// The address of an empty copy, which is never read: any address but null.
const NO_ADDRESS: usize = 1;

/// The version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, u32),
}

/// A file in memory. It keeps no descriptor, which the program could close or overwrite.
pub(crate) struct MappedFile {
    address: usize,
    length: usize,
    /// Whether the memory is the process's own and cannot vanish.
    is_copy: bool,
}

impl Version {
    /// The version of the file at `path`.
    pub(crate) fn of(path: &CStr) -> Result<Version, c_int> {
        Version::read(libc::AT_FDCWD, path)
    }

    fn read(descriptor: c_int, path: &CStr) -> Result<Version, c_int> {
        let mask = libc::STATX_INO | libc::STATX_SIZE | libc::STATX_MTIME;
        let found = kernel::identify(descriptor, path, mask)?;
        Ok(Version {
            device: kernel::device_of(&found),
            inode: found.stx_ino,
            size_bytes: found.stx_size,
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        })
    }
}

impl MappedFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// The error number of the call that failed. `EFBIG` for a file that does not fit into memory.
    pub(crate) fn open(path: &CStr) -> Result<(MappedFile, Version), c_int> {
        // SAFETY: the path ends with a zero byte.
        let descriptor = unsafe { kernel::open(path.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK) }?;
        let opened = MappedFile::of(descriptor);
        kernel::close(descriptor);
        opened
    }

    fn of(descriptor: c_int) -> Result<(MappedFile, Version), c_int> {
        let version = Version::read(descriptor, c"")?;
        let length = usize::try_from(version.size_bytes).map_err(|_| libc::EFBIG)?;
        if length == 0 {
            return Ok((MappedFile { address: NO_ADDRESS, length, is_copy: true }, version));
        }
        if length <= COPIED_BYTES_MAX {
            return Ok((MappedFile::copied(descriptor, length)?, version));
        }
        let populate = if length <= POPULATED_BYTES_MAX { libc::MAP_POPULATE } else { 0 };
        let address = map(descriptor, length, libc::PROT_READ, libc::MAP_PRIVATE | populate)?;
        let mapped = MappedFile { address, length, is_copy: false };
        let mut probe = [0];
        if mapped.read(0, &mut probe).is_ok() {
            return Ok((mapped, version));
        }
        drop(mapped);
        Ok((MappedFile::copied(descriptor, length)?, version))
    }

    /// A copy of the file, for small files and where seccomp filters refuse `process_vm_readv`.
    fn copied(descriptor: c_int, length: usize) -> Result<MappedFile, c_int> {
        if length > COPY_BYTES_MAX {
            return Err(libc::EFBIG);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let address = map(-1, length, libc::PROT_READ | libc::PROT_WRITE, flags)?;
        let copy = MappedFile { address, length, is_copy: true };
        let mut done = 0;
        while done < length {
            // SAFETY: the mapping has `length` writable bytes.
            let read =
                unsafe { system_call!(libc::SYS_pread64, descriptor, address + done, length - done, done) }?;
            if read == 0 {
                return Err(libc::EIO);
            }
            done += read;
        }
        Ok(copy)
    }
}

impl Pages for MappedFile {
    /// A page beyond the end of a file that was cut gives a touch `SIGBUS`, and gives the kernel's copy an error.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ()> {
        let start = usize::try_from(offset).map_err(|_| ())?;
        let inside = start.checked_add(buffer.len()).is_some_and(|end| end <= self.length);
        if !inside {
            return Err(());
        }
        if let Some(memory) = self.memory() {
            buffer.copy_from_slice(&memory[start..start + buffer.len()]);
            return Ok(());
        }
        let into = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let from = iovec { iov_base: (self.address + start) as *mut libc::c_void, iov_len: buffer.len() };
        // SAFETY: both descriptions live through the call, and the kernel checks the memory that they describe.
        let read = unsafe {
            system_call!(
                libc::SYS_process_vm_readv,
                kernel::process_id(),
                &raw const into,
                1,
                &raw const from,
                1,
                0
            )
        };
        if read == Ok(buffer.len()) {
            Ok(())
        } else {
            Err(())
        }
    }

    fn memory(&self) -> Option<&[u8]> {
        // SAFETY: the memory is this value's own, has this length, and is not written once it was copied.
        self.is_copy.then(|| unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) })
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the mapping is this value's own, and nothing refers to it any more.
            let _ = unsafe { system_call!(libc::SYS_munmap, self.address, self.length) };
        }
    }
}

fn map(descriptor: c_int, length: usize, protection: c_int, flags: c_int) -> Result<usize, c_int> {
    // SAFETY: a new mapping replaces nothing.
    unsafe { system_call!(libc::SYS_mmap, 0, length, protection, flags, descriptor, 0) }
}
