//! The durable mark: a small file beside the logs that says how much of them was on stable storage.
//!
//! A log cannot tell that it lost its own end: the record that would say so is in the missing part. The mark can. Each sync of
//! the logs writes the mark before anybody learns of the sync. So the mark never promises more than the device did, and a
//! killed server leaves it exact. A sync of the mark itself runs beside the syncs of the logs, as often as the server asks for
//! one ([`super::Journal::mark_begin`]): after a power loss the mark may be behind, never ahead.
//!
//! | slot, 44 bytes, at 0 and 4096 |
//! |---|
//! | magic 8, durable sequence u64 |
//! | the log's first sequence u64, its salt u32, its durable length in bytes u64 |
//! | zero u32, checksum u32 |

use super::error::JournalError;
use super::format;
use super::storage::{File, Storage};
use std::io;

/// The file's name.
const NAME: &str = "durable";
const MAGIC: [u8; 8] = *b"WEIRMRK\n";
const MARK_BYTES: usize = 44;
const CHECKED_BYTES: usize = 40;
/// Writes take the slots in turn. The slots lie in different blocks, so that a torn write spoils the older mark.
const SLOTS: [u64; 2] = [0, 4096];

/// The part of the logs that was on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The last sequence.
    pub(super) through: u64,
    /// First sequence and salt of the log that holds the sequence, or of the log behind it.
    pub(super) log: (u64, u32),
    /// The length of the durable part of that log.
    pub(super) bytes: u64,
}

/// The mark's file.
#[derive(Clone, Debug)]
pub(super) struct MarkFile(File);

impl Mark {
    fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.through.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.log.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.log.1.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.bytes.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; MARK_BYTES]) -> Option<Mark> {
        let is_whole = bytes[0..8] == MAGIC
            && crc32fast::hash(&bytes[..CHECKED_BYTES]) == format::word(bytes, CHECKED_BYTES);
        is_whole.then(|| Mark {
            through: format::long(bytes, 8),
            log: (format::long(bytes, 16), format::word(bytes, 24)),
            bytes: format::long(bytes, 28),
        })
    }
}

/// The newest mark; none if there is no file, or no whole slot in the file.
pub(super) fn read(storage: &dyn Storage) -> Result<Option<Mark>, JournalError> {
    let file = match storage.open(NAME) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::io("open", storage.describe(NAME))(error)),
    };
    let mut newest: Option<Mark> = None;
    for slot in SLOTS {
        let mut bytes = [0; MARK_BYTES];
        let read = file.read_at(&mut bytes, slot);
        let read = read.map_err(JournalError::io("read", storage.describe(NAME)))?;
        let mark = if read == MARK_BYTES { Mark::decode(&bytes) } else { None };
        if mark.is_some_and(|mark| newest.is_none_or(|newest| mark.through > newest.through)) {
            newest = mark;
        }
    }
    Ok(newest)
}

impl MarkFile {
    /// Writes `mark` durably into both slots, also over a mark of later records, which the owner has given up.
    pub(super) fn begin(storage: &dyn Storage, mark: Mark) -> Result<MarkFile, JournalError> {
        let opened = storage.open(NAME).or_else(|_| storage.create(NAME));
        let file = opened.map_err(JournalError::io("make", storage.describe(NAME)))?;
        let written = SLOTS.iter().try_for_each(|&slot| file.write_all_at(&mark.encode(), slot));
        written.and_then(|()| file.sync()).map_err(JournalError::io("write", storage.describe(NAME)))?;
        Ok(MarkFile(file))
    }

    /// Writes the mark into the slot of `turn`. The write does not wait for a device.
    pub(super) fn write(&self, mark: Mark, turn: u64) -> io::Result<()> {
        self.0.write_all_at(&mark.encode(), SLOTS[(turn % SLOTS.len() as u64) as usize])
    }

    /// Brings the mark to stable storage.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}
