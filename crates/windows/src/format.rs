//! The format of a file of windows: numbers of 64 bits in the host's order of bytes.
//!
//! A header is followed by the keys of the lines, by the numbers of the windows in which each line was used last, and by the
//! lines. A line is a pair of a job and a device. It has a head, which names both, and a ring of cells, one for each of the
//! last windows. A cell has one word for each count. The upper bits of a word tell the round of the ring, so a word that belongs
//! to an earlier window counts as zero, and nobody clears a cell.

use std::time::Duration;

/// Lines of a file, at most: pairs of a job and a device.
pub const LINES: usize = 256;
/// Windows of a ring: a reader may be away for as long.
pub const WINDOWS: usize = 32;
/// Longest name of a job, as in a credential.
pub const JOB_BYTES_MAX: usize = 128;
/// Shortest window, as at the servers.
pub const WINDOW_MIN: Duration = Duration::from_millis(100);
/// Longest window, as at the servers.
pub const WINDOW_MAX: Duration = Duration::from_secs(60);

/// Time after the end of a window until it is told: an operation is counted some microseconds after its end.
pub(crate) const GRACE: Duration = Duration::from_millis(100);
/// The first word of a file, which has the version of the format at its end.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"weirwin1");
/// Words of the header.
pub(crate) const HEADER_WORDS: usize = 16;
/// The place of the first word.
pub(crate) const AT_MAGIC: usize = 0;
/// The place of the length of a window, in nanoseconds.
pub(crate) const AT_WINDOW: usize = 1;
/// The place of the random number with which keys are made, so that nobody who cannot read the file can name two jobs
/// of one key.
pub(crate) const AT_SALT: usize = 2;
/// The place of the number of operations that found no line.
pub(crate) const AT_LEFT_OUT: usize = 3;
/// The place of the first key.
pub(crate) const AT_KEYS: usize = HEADER_WORDS;
/// The place of the first number of a last use.
pub(crate) const AT_LASTS: usize = AT_KEYS + LINES;
/// The place of the first line.
pub(crate) const AT_LINES: usize = AT_LASTS + LINES;
/// Words of a job's name.
pub(crate) const NAME_WORDS: usize = JOB_BYTES_MAX / 8;
/// Words of the head of a line: store, device and user, length of the name, name.
pub(crate) const HEAD_WORDS: usize = 3 + NAME_WORDS;
/// Words of a cell.
pub(crate) const CELL_WORDS: usize = Count::Metadata as usize + 1;
/// Words of a line.
pub(crate) const LINE_WORDS: usize = HEAD_WORDS + WINDOWS * CELL_WORDS;
/// Words of a file.
pub(crate) const WORDS: usize = AT_LINES + LINES * LINE_WORDS;
/// Bytes of a file.
pub(crate) const FILE_BYTES: usize = WORDS * 8;
/// Bits of a count within its word.
pub(crate) const VALUE_BITS: u32 = 48;
/// The largest count. It is 281 TB, or 281,474 s: 4,691 operations that all last for the whole of the longest window.
pub(crate) const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;
/// The index of a server's metadata service among its devices.
const METADATA: u16 = u16::MAX;

/// The counts of a cell, in the order of their words: those of a read lie side by side, and so do those of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Reads,
    ReadBytes,
    Read,
    Writes,
    WrittenBytes,
    Write,
    Stats,
    Opens,
    Closes,
    Others,
    /// Time of the metadata operations. It is the last count.
    Metadata,
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of this many bytes.
    Read(u64),
    /// A write of this many bytes.
    Write(u64),
    /// A metadata operation that changes nothing.
    Stat,
    /// An open, also one that makes a file.
    Open,
    /// A close.
    Close,
    /// Any other metadata operation: a change, or a listing.
    Other,
}

/// A device: a target, or the metadata service of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    server: u16,
    index: u16,
}

impl Device {
    /// A target, by its number on its server.
    pub const fn target(server: u16, index: u16) -> Device {
        Device { server, index }
    }

    /// The metadata service of a server.
    pub const fn metadata(server: u16) -> Device {
        Device { server, index: METADATA }
    }

    /// The number of the device's server.
    pub const fn server(self) -> u16 {
        self.server
    }

    /// The number of a target on its server; absent for a metadata service.
    pub const fn number_of_target(self) -> Option<u16> {
        match self.index {
            METADATA => None,
            index => Some(index),
        }
    }

    /// A number of 32 bits.
    pub(crate) const fn number(self) -> u64 {
        (self.server as u64) << 16 | self.index as u64
    }

    pub(crate) const fn of_number(number: u64) -> Device {
        Device { server: (number >> 16) as u16, index: number as u16 }
    }
}

/// The name by which servers call the device.
impl std::fmt::Display for Device {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            METADATA => write!(to, "{}.metadata", self.server),
            index => write!(to, "{}.{index}", self.server),
        }
    }
}

/// The number of a store, from the address of its first server, which is the same for all its clients.
pub fn store_of(address: &str) -> u64 {
    let words = address.as_bytes().chunks(8).map(word_of);
    hash(address.len() as u64, words)
}

/// A number of 8 bytes at most.
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The key of a line: never 0, which is the key of an unused line.
pub(crate) fn key_of(job: u64, device: Device) -> u64 {
    mixed(job ^ device.number().wrapping_mul(MULTIPLIER)).max(1)
}

/// A number in which each bit depends on every bit of all words.
pub(crate) fn hash(salt: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(mixed(salt), |state, word| mixed((state ^ word).wrapping_mul(MULTIPLIER)))
}

/// The finalizer of splitmix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The golden ratio in 64 bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
