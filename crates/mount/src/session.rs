//! The first exchange with the kernel: versions, features and sizes.

use crate::abi::{flags, opcode, Fixed, InHeader, InitIn, InitOut, InitShortIn};
use crate::device::{Device, Received, REQUEST_BYTES_MAX, WRITE_BYTES_MAX};
use crate::error::MountError;
use crate::filesystem::Features;

/// Requests that the kernel may have outstanding without a waiting process: asynchronous I/O, read-ahead, pages written
/// back and closes. They share the workers with all others, so they stay well below their number.
const BACKGROUND_MAX: u16 = 96;
/// Number of requests from which on the kernel slows its writers down: three quarters, the kernel's own choice.
const BACKGROUND_CONGESTED: u16 = BACKGROUND_MAX / 4 * 3;
const PAGE_BYTES: u32 = 4096;

/// The features that this program asks for. Three are left out. With the write-back cache or timeouts, writes of other
/// clients would be missed. The attributes of READDIRPLUS would be stale at once. After an open with ATOMIC_O_TRUNC the
/// kernel refuses to truncate a running program only when its bytes are gone. The servers clear set-id bits
/// (HANDLE_KILLPRIV).
const WANTED: u64 = flags::init::ASYNC_READ
    | flags::init::POSIX_LOCKS
    | flags::init::EXPORT_SUPPORT
    | flags::init::BIG_WRITES
    | flags::init::FLOCK_LOCKS
    | flags::init::AUTO_INVAL_DATA
    | flags::init::ASYNC_DIO
    | flags::init::PARALLEL_DIROPS
    | flags::init::HANDLE_KILLPRIV
    | flags::init::ABORT_ERROR
    | flags::init::MAX_PAGES
    | flags::init::SETXATTR_EXT
    | flags::init::INIT_EXT
    | flags::init::DIRECT_IO_ALLOW_MMAP;

/// The features that the kernel offers.
struct Offer {
    major: u32,
    minor: u32,
    readahead: u32,
    flags: u64,
}

/// Agrees with the kernel on the features of both.
///
/// # Errors
/// [`MountError::Protocol`] for a kernel that is too old, [`MountError::System`] when the device fails or the store is
/// unmounted at once.
pub(crate) fn negotiate(device: &Device) -> Result<Features, MountError> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    loop {
        let received = device
            .receive(&mut buffer)
            .map_err(|error| MountError::system("cannot read from /dev/fuse", error))?;
        let length = match received {
            Received::Request(length) => length,
            Received::Again => continue,
            Received::Unmounted => {
                return Err(MountError::system("the store was unmounted at once", rustix::io::Errno::NODEV))
            }
        };
        let mut bytes = &buffer[..length];
        let Some(header) = InHeader::take(&mut bytes) else { continue };
        if header.opcode != opcode::INIT {
            device.fail(header.unique, libc::EIO);
            continue;
        }
        let Some(offer) = parse(bytes) else {
            device.fail(header.unique, libc::EPROTO);
            continue;
        };
        if offer.major > flags::MAJOR {
            // The kernel asks again with our major version.
            let ours = InitOut { major: flags::MAJOR, minor: flags::MINOR, ..InitOut::default() };
            device.answer(header.unique, &[&ours.to_bytes()]);
            continue;
        }
        if offer.major < flags::MAJOR || offer.minor < flags::MINOR_MIN {
            device.fail(header.unique, libc::EPROTO);
            return Err(MountError::Protocol { major: offer.major, minor: offer.minor });
        }
        let (features, answer) = agree(&offer);
        device.answer(header.unique, &[&answer.to_bytes()]);
        return Ok(features);
    }
}

fn parse(bytes: &[u8]) -> Option<Offer> {
    let short = InitShortIn::take(&mut &*bytes)?;
    let flags2 = InitIn::take(&mut &*bytes).map_or(0, |long| long.flags2);
    let flags = u64::from(short.flags) | (u64::from(flags2) << 32);
    Some(Offer { major: short.major, minor: short.minor, readahead: short.readahead, flags })
}

fn agree(offer: &Offer) -> (Features, InitOut) {
    let agreed = offer.flags & WANTED;
    let answer = InitOut {
        major: flags::MAJOR,
        minor: flags::MINOR,
        readahead: offer.readahead.min(WRITE_BYTES_MAX),
        flags: agreed as u32,
        background: BACKGROUND_MAX,
        congestion: BACKGROUND_CONGESTED,
        write_bytes: WRITE_BYTES_MAX,
        time_granularity: 1,
        pages: (WRITE_BYTES_MAX / PAGE_BYTES) as u16,
        flags2: (agreed >> 32) as u32,
        ..InitOut::default()
    };
    (Features::new(agreed), answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_gets_what_it_knows() {
        let old = InitShortIn { major: 7, minor: 31, readahead: 1 << 17, flags: !(1 << 30) };
        let offer = parse(&old.to_bytes()).expect("short form");
        let (features, answer) = agree(&offer);
        assert!(!features.direct_io());
        assert_eq!(answer.flags2, 0);
        assert_eq!(answer.readahead, 1 << 17);
    }

    #[test]
    fn a_new_kernel_maps_files_with_direct_io() {
        let new = InitIn {
            major: 7,
            minor: 45,
            readahead: 1 << 30,
            flags: u32::MAX,
            flags2: u32::MAX,
            unused: [0; 11],
        };
        let (features, answer) = agree(&parse(&new.to_bytes()).expect("long form"));
        assert!(features.direct_io() && features.long_setxattr());
        assert_eq!(u64::from(answer.flags) | (u64::from(answer.flags2) << 32), WANTED);
        assert_eq!(answer.readahead, WRITE_BYTES_MAX);
    }
}
