//! The bytes of a journal's files: a header, then frames. All numbers are little-endian.
//!
//! | file header, 56 bytes | frame, 24 bytes and its payload |
//! |---|---|
//! | magic 8, version u32, schema u32 | payload bytes u32, checksum u32 |
//! | first sequence u64, durable u64 | sequence u64 |
//! | boot u128, zero u32, checksum u32 | durable u64, payload |
//!
//! `durable` is the last sequence known to be on stable storage when the frame was written. A power loss may take a record if
//! no later record says that it was durable; otherwise a missing record is damage. The checksum of a frame is a CRC-32 over all
//! other bytes of the frame, which begins with a salt. The salt stands in the file's name, so that a reader finds the frames
//! of a file that lost its header.

use super::error::JournalError;
use super::storage::File;
use serde::{de::DeserializeOwned, Serialize};
use std::io;

/// The longest group, encoded: 64 of the largest extended attributes. The limit bounds the memory of a replay.
pub const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Length of an encoded [`FileHeader`].
pub(super) const FILE_HEADER_BYTES: usize = 56;
/// Length of a frame without its payload.
pub(super) const FRAME_HEADER_BYTES: usize = 24;
const VERSION: u32 = 1;
/// Bytes of one read from a file: large against a record, small against memory.
const READ_BYTES: usize = 64 * 1024;
/// More records than any log holds. The limit spares the search behind a broken place most checksums.
const SEQUENCES_PER_LOG: u64 = 1 << 32;

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Content {
    Log,
    Snapshot,
}

/// The head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) content: Content,
    /// Version of the records; the journal's user chooses it.
    pub(super) schema: u32,
    /// A log's first sequence, or the sequence behind the last one of a snapshot.
    pub(super) first: u64,
    pub(super) durable: u64,
    pub(super) boot: u128,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) payload_bytes: usize,
    checksum: u32,
}

/// The reader's finding at its position.
#[derive(Debug)]
pub(super) enum Next {
    /// A whole frame; [`Reader::payload`] gives its payload.
    Frame(Frame),
    /// The file ends here, after a whole frame.
    End,
    /// No whole frame.
    Broken(&'static str),
}

/// The reason for refusing a file header.
#[derive(Debug)]
pub(super) enum Refused {
    /// The header is not whole: nobody wrote it to its end, or it is damaged.
    Broken,
    /// Another version wrote it.
    Format { found: String, expected: String },
}

/// Reads a file from front to back in bounded memory.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    salt: u32,
    buffer: Vec<u8>,
    /// Consumed bytes of `buffer`.
    used: usize,
    /// Offset in the file of `buffer[0]`.
    base: u64,
    payload: std::ops::Range<usize>,
}

impl Content {
    fn magic(self) -> [u8; 8] {
        match self {
            Content::Log => *b"WEIRLOG\n",
            Content::Snapshot => *b"WEIRSNP\n",
        }
    }
}

impl FileHeader {
    pub(super) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.content.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.schema.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.boot.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..52]);
        bytes[52..56].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(content: Content, schema: u32, bytes: &[u8]) -> Result<FileHeader, Refused> {
        let whole = bytes.len() == FILE_HEADER_BYTES
            && bytes[0..8] == content.magic()
            && crc32fast::hash(&bytes[..52]) == word(bytes, 52);
        if !whole {
            return Err(Refused::Broken);
        }
        let found = (word(bytes, 8), word(bytes, 12));
        if found != (VERSION, schema) {
            return Err(Refused::Format {
                found: format!("{}.{}", found.0, found.1),
                expected: format!("{VERSION}.{schema}"),
            });
        }
        let boot = u128::from(long(bytes, 32)) | (u128::from(long(bytes, 40)) << 64);
        let (first, durable) = (long(bytes, 16), long(bytes, 24));
        Ok(FileHeader { content, schema, first, durable, boot })
    }
}

/// Puts a frame around the payload in `buffer`, which has `FRAME_HEADER_BYTES` of room before the payload.
pub(super) fn seal_frame(buffer: &mut [u8], salt: u32, sequence: u64, durable: u64) {
    let payload_bytes = (buffer.len() - FRAME_HEADER_BYTES) as u32;
    buffer[0..4].copy_from_slice(&payload_bytes.to_le_bytes());
    buffer[8..16].copy_from_slice(&sequence.to_le_bytes());
    buffer[16..24].copy_from_slice(&durable.to_le_bytes());
    let checksum = checksum(buffer, salt);
    buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Appends the encoded record to `buffer`. After an error `buffer` is empty.
pub(super) fn encode<R: Serialize>(record: &R, buffer: &mut Vec<u8>) -> Result<(), JournalError> {
    *buffer = postcard::to_extend(record, std::mem::take(buffer))?;
    Ok(())
}

/// Decodes the records of a payload; false if they do not decode.
pub(super) fn decode<R: DeserializeOwned>(mut payload: &[u8], records: &mut Vec<R>) -> bool {
    while !payload.is_empty() {
        match postcard::take_from_bytes(payload) {
            Ok((record, rest)) if rest.len() < payload.len() => {
                records.push(record);
                payload = rest;
            }
            _ => return false,
        }
    }
    true
}

impl Reader {
    /// Opens `file`, whose checksums begin with `salt`, and reads its header. The reader then stands behind the header.
    pub(super) fn open(
        file: File,
        content: Content,
        schema: u32,
        salt: u32,
    ) -> io::Result<(Reader, Result<FileHeader, Refused>)> {
        let mut reader = Reader { file, salt, buffer: Vec::new(), used: 0, base: 0, payload: 0..0 };
        reader.fill(FILE_HEADER_BYTES)?;
        let available = reader.buffer.len().min(FILE_HEADER_BYTES);
        let header = FileHeader::decode(content, schema, &reader.buffer[..available]);
        reader.used = available;
        Ok((reader, header))
    }

    /// Position in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.used as u64
    }

    /// Reads the next frame. The position moves behind the frame; without a frame it stays.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let available = self.fill(FRAME_HEADER_BYTES)?;
        if available == 0 {
            return Ok(Next::End);
        }
        if available < FRAME_HEADER_BYTES {
            return Ok(Next::Broken("an incomplete record"));
        }
        let frame = self.frame();
        if frame.payload_bytes > GROUP_BYTES {
            return Ok(Next::Broken("a record of impossible length"));
        }
        let whole = FRAME_HEADER_BYTES + frame.payload_bytes;
        if self.fill(whole)? < whole {
            return Ok(Next::Broken("an incomplete record"));
        }
        if !self.is_sound(frame) {
            return Ok(Next::Broken("a record whose checksum is wrong"));
        }
        self.payload = self.used + FRAME_HEADER_BYTES..self.used + whole;
        self.used += whole;
        Ok(Next::Frame(frame))
    }

    /// The payload of the frame that [`Reader::next`] read.
    pub(super) fn payload(&self) -> &[u8] {
        &self.buffer[self.payload.clone()]
    }

    /// Looks behind a broken place for a whole frame with a sequence above `broken`. The position moves behind the frame.
    pub(super) fn find_later(&mut self, broken: u64) -> io::Result<Option<Frame>> {
        loop {
            self.used += 1;
            if self.fill(FRAME_HEADER_BYTES)? < FRAME_HEADER_BYTES {
                return Ok(None);
            }
            let frame = self.frame();
            let is_plausible = frame.payload_bytes <= GROUP_BYTES
                && frame.durable < frame.sequence
                && (1..SEQUENCES_PER_LOG).contains(&frame.sequence.saturating_sub(broken));
            let whole = FRAME_HEADER_BYTES + frame.payload_bytes;
            if is_plausible && self.fill(whole)? >= whole && self.is_sound(frame) {
                self.used += whole;
                return Ok(Some(frame));
            }
        }
    }

    fn frame(&self) -> Frame {
        let bytes = &self.buffer[self.used..];
        Frame {
            payload_bytes: word(bytes, 0) as usize,
            checksum: word(bytes, 4),
            sequence: long(bytes, 8),
            durable: long(bytes, 16),
        }
    }

    fn is_sound(&self, frame: Frame) -> bool {
        let whole = FRAME_HEADER_BYTES + frame.payload_bytes;
        checksum(&self.buffer[self.used..self.used + whole], self.salt) == frame.checksum
    }

    /// Fills the buffer until it has at least `wanted` bytes behind the position, or all up to the end of the file. Answers
    /// the number of these bytes.
    fn fill(&mut self, wanted: usize) -> io::Result<usize> {
        while self.buffer.len().saturating_sub(self.used) < wanted {
            let used = self.used.min(self.buffer.len());
            self.buffer.drain(..used);
            self.base += used as u64;
            self.used -= used;
            let length = self.buffer.len();
            self.buffer.resize(length + READ_BYTES, 0);
            let offset = self.base + length as u64;
            let read = self.file.read_at(&mut self.buffer[length..], offset);
            self.buffer.truncate(length + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffer.len().saturating_sub(self.used))
    }
}

/// The checksum of a frame: over all its bytes but those of the checksum.
fn checksum(frame: &[u8], salt: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&frame[0..4]);
    hasher.update(&frame[8..]);
    hasher.finalize()
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    let mut long = [0; 8];
    long.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(long)
}
