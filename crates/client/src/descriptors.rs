//! The descriptors of this process that are the library's own: the sockets, and others that the library keeps.
//!
//! The library moves its descriptors to high numbers, so that the low numbers stay free for the program. An array of
//! atomics records them, so that hooks of `close`, `close_range` and `dup2` can spare them, also in signal handlers.

use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Numbers from the floor on that have a bit each: more sockets than all lanes of 32 busy servers.
const WINDOW: i32 = 1024;
/// Bound on the floor where the limit is higher: the kernel's table of a process is as long as its highest descriptor,
/// and `fork` copies the table.
const HIGHEST: u64 = 16_384;
/// Sockets that found no free number above the floor. Each is recorded by its number.
const STRAYS: usize = 64;

static FLOOR: AtomicI32 = AtomicI32::new(0);
static BITS: [AtomicU64; (WINDOW / 64) as usize] = [const { AtomicU64::new(0) }; (WINDOW / 64) as usize];
static STRAY: [AtomicI32; STRAYS] = [const { AtomicI32::new(-1) }; STRAYS];
static STRAY_COUNT: AtomicI32 = AtomicI32::new(0);

/// Whether `descriptor` is one of this library's own in this process. The look takes no lock and is safe in signal handlers.
pub fn is_own_descriptor(descriptor: RawFd) -> bool {
    if let Some((word, bit)) = position(descriptor) {
        return BITS[word].load(Ordering::Acquire) & bit != 0;
    }
    descriptor >= 0
        && STRAY_COUNT.load(Ordering::Acquire) > 0
        && STRAY.iter().any(|stray| stray.load(Ordering::Acquire) == descriptor)
}

/// The library's own descriptors in this process, in no order. The look takes no lock and is safe in signal handlers.
pub fn own_descriptors() -> impl Iterator<Item = RawFd> {
    let floor = FLOOR.load(Ordering::Acquire);
    let tracked = BITS.iter().enumerate().flat_map(move |(word, bits)| {
        let mut left = bits.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros() as i32;
                left &= left - 1;
                floor + word as i32 * 64 + bit
            })
        })
    });
    let strays = STRAY.iter().map(|stray| stray.load(Ordering::Acquire)).filter(|number| *number >= 0);
    tracked.chain(strays)
}

fn position(descriptor: RawFd) -> Option<(usize, u64)> {
    let floor = FLOOR.load(Ordering::Acquire);
    if floor == 0 || descriptor < floor || descriptor >= floor + WINDOW {
        return None;
    }
    let index = (descriptor - floor) as usize;
    Some((index / 64, 1 << (index % 64)))
}

fn floor() -> RawFd {
    let known = FLOOR.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let top = limit.unwrap_or(HIGHEST).min(HIGHEST) as i32;
    let chosen = (top - WINDOW.min(top / 4)).max(3);
    match FLOOR.compare_exchange(0, chosen, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => chosen,
        Err(other) => other,
    }
}

fn record(descriptor: RawFd) {
    if let Some((word, bit)) = position(descriptor) {
        BITS[word].fetch_or(bit, Ordering::AcqRel);
        return;
    }
    let free = |stray: &&AtomicI32| {
        stray.compare_exchange(-1, descriptor, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    if STRAY.iter().find(free).is_some() {
        STRAY_COUNT.fetch_add(1, Ordering::AcqRel);
    }
}

/// Forgets a descriptor: its number is no longer the library's.
pub(crate) fn forget(descriptor: RawFd) {
    if let Some((word, bit)) = position(descriptor) {
        BITS[word].fetch_and(!bit, Ordering::AcqRel);
        return;
    }
    let ours = |stray: &&AtomicI32| {
        stray.compare_exchange(descriptor, -1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    if STRAY.iter().find(ours).is_some() {
        STRAY_COUNT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Moves a descriptor to a high number and records it as the library's own; answers the number.
///
/// # Errors
/// `EMFILE` where no number is left.
pub fn keep_descriptor(descriptor: OwnedFd) -> Result<RawFd, Errno> {
    let high = raised(descriptor)?.into_raw_fd();
    record(high);
    Ok(high)
}

/// Forgets a descriptor that [`keep_descriptor`] recorded. The caller closes the descriptor.
pub fn release_descriptor(descriptor: RawFd) {
    forget(descriptor);
}

fn raised(descriptor: OwnedFd) -> Result<OwnedFd, Errno> {
    match rustix::io::fcntl_dupfd_cloexec(&descriptor, floor()) {
        Ok(high) => Ok(high),
        // The limit was lowered below the floor, or every number above the floor is taken.
        Err(Errno::INVAL | Errno::MFILE) => Ok(descriptor),
        Err(errno) => Err(errno),
    }
}

/// A socket with a high number. The drop closes the socket, unless the program put something else at its number.
#[derive(Debug)]
pub(crate) struct OwnSocket {
    descriptor: Option<OwnedFd>,
    identity: (u64, u64),
}

impl OwnSocket {
    /// Moves `socket` up and records it.
    pub(crate) fn new(socket: OwnedFd) -> Result<OwnSocket, Errno> {
        let descriptor = raised(socket)?;
        let identity = identity(descriptor.as_fd())?;
        record(descriptor.as_raw_fd());
        Ok(OwnSocket { descriptor: Some(descriptor), identity })
    }

    /// The socket.
    ///
    /// # Errors
    /// `EBADF` where there is no socket any more.
    pub(crate) fn as_fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.descriptor.as_ref().map(OwnedFd::as_fd).ok_or(Errno::BADF)
    }

    /// The socket's number, -1 where there is no socket.
    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.as_ref().map_or(-1, OwnedFd::as_raw_fd)
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let Some(descriptor) = self.descriptor.take() else { return };
        forget(descriptor.as_raw_fd());
        if identity(descriptor.as_fd()) != Ok(self.identity) {
            // The number belongs to the program now.
            let _ = descriptor.into_raw_fd();
        }
    }
}

fn identity(descriptor: BorrowedFd<'_>) -> Result<(u64, u64), Errno> {
    let status = rustix::fs::fstat(descriptor)?;
    Ok((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    fn socket() -> OwnedFd {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("sockets work")
    }

    /// This is one test, because a second test might take the number that the first gives up.
    #[test]
    fn a_socket_is_known_while_it_lives_and_spares_what_replaced_it() {
        let own = OwnSocket::new(socket()).expect("moved");
        let number = own.number();
        assert!(number >= floor());
        assert!(is_own_descriptor(number));
        assert!(own_descriptors().any(|known| known == number));
        assert!(!is_own_descriptor(0) && !is_own_descriptor(-1));

        // A program that closes every number, and opens its own file at one of them, keeps the file.
        let (pipe, _write) = rustix::pipe::pipe().expect("pipe");
        let replaced = pipe.as_raw_fd();
        drop(OwnSocket { descriptor: Some(pipe), identity: own.identity });
        let is_open = std::path::Path::new(&format!("/proc/self/fd/{replaced}")).exists();
        assert!(is_open, "the pipe at {replaced} is the program's");

        drop(own);
        assert!(!is_own_descriptor(number));
    }
}
