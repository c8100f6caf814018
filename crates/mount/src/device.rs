//! One descriptor of `/dev/fuse`: requests come out, answers and notifications go in.

use crate::abi::{flags, opcode, Fixed, InvalidateInode, OutHeader, Store};
use crate::notices::notice;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// Path of the device.
pub(crate) const PATH: &str = "/dev/fuse";
/// Most bytes of one WRITE; the kernel's limit is 256 pages of 4 KiB.
pub(crate) const WRITE_BYTES_MAX: u32 = 1024 * 1024;
/// A request: the longest write, its headers, and a page to spare as the kernel demands.
pub(crate) const REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + 4096;

/// A descriptor of the connection. Answers must go to the descriptor that the request came from.
#[derive(Debug)]
pub(crate) struct Device {
    descriptor: OwnedFd,
}

/// A message of the device, or its end.
pub(crate) enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// Nothing this time.
    Again,
    /// The file system was unmounted or the connection aborted.
    Unmounted,
}

impl Device {
    pub(crate) fn new(descriptor: OwnedFd) -> Device {
        Device { descriptor }
    }

    /// A further descriptor with its own queue of answers, so that threads do not contend; this one again where the
    /// device may not be opened (a mount through fusermount3).
    pub(crate) fn another(self: &Arc<Device>) -> Arc<Device> {
        self.clone_descriptor()
            .map_or_else(|_| Arc::clone(self), |descriptor| Arc::new(Device { descriptor }))
    }

    fn clone_descriptor(&self) -> rustix::io::Result<OwnedFd> {
        use rustix::fs::{open, Mode, OFlags};
        let further = open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let source = self.descriptor.as_raw_fd() as u32;
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32, a descriptor number of this process, through its argument.
        unsafe {
            rustix::ioctl::ioctl(
                &further,
                rustix::ioctl::Setter::<{ flags::DEVICE_CLONE as rustix::ioctl::Opcode }, u32>::new(source),
            )?;
        }
        Ok(further)
    }

    /// Waits for a request and reads it into `buffer` of [`REQUEST_BYTES_MAX`].
    ///
    /// # Errors
    /// The device's error where it means neither "try again" nor "unmounted".
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        match rustix::io::read(&self.descriptor, buffer) {
            Ok(length) => Ok(Received::Request(length)),
            // ENOENT: the request was interrupted while it was being handed over.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Again),
            Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => Ok(Received::Unmounted),
            Err(error) => Err(error),
        }
    }

    /// Answers request `unique` with `parts` one after the other.
    pub(crate) fn answer(&self, unique: u64, parts: &[&[u8]]) {
        self.send(0, unique, parts);
    }

    /// Answers request `unique` with an errno.
    pub(crate) fn fail(&self, unique: u64, errno: i32) {
        self.send(-errno, unique, &[]);
    }

    /// Has the kernel drop its pages of `ino` from `offset` on (`length` 0: to the end). Returns when they are gone, which
    /// includes writing dirty ones back through this device: never call it from a thread that serves requests.
    pub(crate) fn invalidate(&self, ino: u64, offset: u64, length: u64) {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let body = InvalidateInode { ino, offset: signed(offset), length: signed(length) }.to_bytes();
        self.send(opcode::NOTIFY_INVALIDATE_INODE, 0, &[&body]);
    }

    /// Has the kernel know that `ino` has at least `size_bytes`. Returns when it knows: never call it from a thread that serves
    /// requests.
    ///
    /// The kernel has no notification of a size. It takes the end of stored bytes for one, before it fetches these. So the one byte
    /// that is sent lies nowhere: the kernel learns the size, fails with EFAULT, and no page has another content than before.
    pub(crate) fn grow(&self, ino: u64, size_bytes: u64) {
        let Some(offset) = size_bytes.checked_sub(1) else { return };
        let header = OutHeader {
            length: (OutHeader::BYTES + Store::BYTES + 1) as u32,
            error: opcode::NOTIFY_STORE,
            unique: 0,
        };
        let mut front = header.to_bytes();
        front.extend_from_slice(&Store { ino, offset, size: 1, padding: 0 }.to_bytes());
        let nowhere = libc::iovec { iov_base: std::ptr::without_provenance_mut(1), iov_len: 1 };
        let vectors = [libc::iovec { iov_base: front.as_mut_ptr().cast(), iov_len: front.len() }, nowhere];
        // SAFETY: the kernel reads `front` through the first vector. No page of a program lies at the second one's address, so the
        // kernel reads nothing there.
        let sent = unsafe { libc::writev(self.descriptor.as_raw_fd(), vectors.as_ptr(), 2) };
        let error = std::io::Error::last_os_error();
        // ENOENT: the kernel does not know the inode any more.
        if sent < 0
            && !matches!(
                error.raw_os_error(),
                Some(libc::EFAULT | libc::ENOENT | libc::ENODEV | libc::ENOTCONN)
            )
        {
            notice!("the kernel did not take the size of inode {ino:x}: {error}");
        }
    }

    fn send(&self, error: i32, unique: u64, parts: &[&[u8]]) {
        let body: usize = parts.iter().map(|part| part.len()).sum();
        let header = OutHeader { length: (OutHeader::BYTES + body) as u32, error, unique }.to_bytes();
        let mut vectors = vec![IoSlice::new(&header)];
        vectors.extend(parts.iter().map(|part| IoSlice::new(part)));
        loop {
            match rustix::io::writev(self.descriptor.as_fd(), &vectors) {
                Err(Errno::INTR) => {}
                // ENOENT: nobody waits for the answer any more, or the kernel does not know the inode of a notification.
                Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => return,
                Err(error) => {
                    notice!("the kernel refused an answer of {body} bytes: {error}");
                    return;
                }
            }
        }
    }
}
