//! Records to bytes: a file header, then blocks.

use crate::Record;
use thiserror::Error;

/// First bytes of a trace. The first byte is no ASCII, so that no text counts as a trace.
pub const MAGIC: [u8; 8] = *b"\xb7WEIRTRC";
/// Version of the format that is written.
pub const VERSION: u32 = 3;
/// The oldest version that is read.
pub const OLDEST_VERSION: u32 = 1;
/// Bytes of the file's header: magic and version.
pub const HEADER_BYTES: usize = MAGIC.len() + 4;
/// Bytes of a block's header: length of the payload, its CRC-32, and the CRC-32 of these two.
pub const BLOCK_HEADER_BYTES: usize = 12;
/// Longest payload of a block: a process with all its arguments, or many records of files.
pub const PAYLOAD_BYTES: usize = 64 << 10;

/// The reason why a block was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The records do not fit.
    #[error("a block of records does not fit into {room} bytes")]
    TooLong {
        /// Room for the payload, in bytes.
        room: usize,
    },
}

/// The header of a trace.
pub fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Writes one block of `records` to the start of `buffer` and returns its length. It allocates no memory.
///
/// # Errors
/// [`EncodeError::TooLong`] where `buffer` or the limit on a payload is too short.
pub fn block(records: &[Record<'_>], buffer: &mut [u8]) -> Result<usize, EncodeError> {
    let room = buffer.len().saturating_sub(BLOCK_HEADER_BYTES).min(PAYLOAD_BYTES);
    let too_long = EncodeError::TooLong { room };
    if buffer.len() < BLOCK_HEADER_BYTES {
        return Err(too_long);
    }
    let (head, rest) = buffer.split_at_mut(BLOCK_HEADER_BYTES);
    let payload = &mut rest[..room];
    let mut length = 0;
    for record in records {
        match postcard::to_slice(record, &mut payload[length..]) {
            Ok(written) => length += written.len(),
            Err(_) => return Err(too_long),
        }
    }
    head[..4].copy_from_slice(&(length as u32).to_le_bytes());
    head[4..8].copy_from_slice(&crc32fast::hash(&payload[..length]).to_le_bytes());
    let check = crc32fast::hash(&head[..8]);
    head[8..].copy_from_slice(&check.to_le_bytes());
    Ok(BLOCK_HEADER_BYTES + length)
}
