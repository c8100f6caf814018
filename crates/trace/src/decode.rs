//! Bytes to records. A process that is killed, or a full file system, leaves a torn end; anything else is damage.

use crate::encode::{BLOCK_HEADER_BYTES, HEADER_BYTES, MAGIC, OLDEST_VERSION, PAYLOAD_BYTES, VERSION};
use crate::Record;
use thiserror::Error;

/// The records of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace<'a> {
    /// The records in the order in which they were made; the first one describes the process.
    pub records: Vec<Record<'a>>,
    /// The incomplete end of the trace, if there is one.
    pub torn: Option<Torn>,
}

/// An incomplete end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The offset at which it begins.
    pub offset: usize,
    /// Bytes left out.
    pub bytes: usize,
}

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are no trace.
    #[error("it is not a trace of Weir: it begins with {found}")]
    NotATrace {
        /// Its first bytes.
        found: String,
    },
    /// Another version of the format.
    #[error("it is of version {found} of the format, and this program reads versions {OLDEST_VERSION} to {VERSION}")]
    OtherVersion {
        /// The trace's version.
        found: u32,
    },
    /// Bytes were changed.
    #[error("it is damaged at byte {offset} of {bytes}: {what}")]
    Damaged {
        /// The offset of the damaged block.
        offset: usize,
        /// Bytes of the whole file.
        bytes: usize,
        /// The fault of the block.
        what: &'static str,
    },
}

/// The content of a trace at one offset.
enum Next<'a> {
    Payload(&'a [u8]),
    Torn,
    Wrong(&'static str),
}

/// Reads a whole trace.
///
/// # Errors
/// The bytes are no trace, have another version, or are damaged. A torn end is no error.
pub fn decode(bytes: &[u8]) -> Result<Trace<'_>, DecodeError> {
    let torn_at = |offset: usize| Some(Torn { offset, bytes: bytes.len() - offset });
    let Some(version) = version(bytes)? else {
        return Ok(Trace { records: Vec::new(), torn: torn_at(0) });
    };
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(DecodeError::OtherVersion { found: version });
    }
    let mut records = Vec::new();
    let mut offset = HEADER_BYTES;
    while offset < bytes.len() {
        let damaged = |what| DecodeError::Damaged { offset, bytes: bytes.len(), what };
        match next(&bytes[offset..]) {
            Next::Payload(payload) => {
                take(payload, version, &mut records).map_err(damaged)?;
                offset += BLOCK_HEADER_BYTES + payload.len();
            }
            Next::Torn => return Ok(Trace { records, torn: torn_at(offset) }),
            Next::Wrong(what) => return Err(damaged(what)),
        }
    }
    let torn = if records.is_empty() { torn_at(offset) } else { None };
    Ok(Trace { records, torn })
}

/// The version, absent where the header was not written whole.
fn version(bytes: &[u8]) -> Result<Option<u32>, DecodeError> {
    let shown = bytes.len().min(MAGIC.len());
    if bytes[..shown] != MAGIC[..shown] {
        return Err(DecodeError::NotATrace { found: format!("{}", bytes[..shown].escape_ascii()) });
    }
    Ok(bytes.get(MAGIC.len()..HEADER_BYTES).map(|version| word(version, 0)))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn next(bytes: &[u8]) -> Next<'_> {
    // A file system may give a file its length and lose the bytes when the node fails.
    if bytes.len() < BLOCK_HEADER_BYTES || bytes.iter().all(|byte| *byte == 0) {
        return Next::Torn;
    }
    if crc32fast::hash(&bytes[..8]) != word(bytes, 8) {
        return Next::Wrong("a block's header has a wrong checksum");
    }
    let length = word(bytes, 0) as usize;
    if length > PAYLOAD_BYTES {
        return Next::Wrong("a block is longer than any");
    }
    let end = BLOCK_HEADER_BYTES + length;
    let Some(payload) = bytes.get(BLOCK_HEADER_BYTES..end) else { return Next::Torn };
    if crc32fast::hash(payload) == word(bytes, 4) {
        return Next::Payload(payload);
    }
    if end == bytes.len() {
        Next::Torn
    } else {
        Next::Wrong("a block has a wrong checksum")
    }
}

fn take<'a>(mut payload: &'a [u8], version: u32, records: &mut Vec<Record<'a>>) -> Result<(), &'static str> {
    while !payload.is_empty() {
        let (record, rest) =
            postcard::take_from_bytes::<Record<'a>>(payload).map_err(|_| "a record cannot be read")?;
        if matches!(record, Record::Process(_)) != records.is_empty() {
            return Err("a trace has one process, at its start");
        }
        if record.since() > version {
            return Err("a record is of a later version");
        }
        records.push(record);
        payload = rest;
    }
    Ok(())
}
