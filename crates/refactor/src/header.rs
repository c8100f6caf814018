//! The header of a container: everything that a reader needs to know about the meaning and the accuracy of other bytes.
//!
//! The format is described in docs/reference/refactored.md.

use crate::accuracy::Accuracy;
use crate::block::{self, stored_bytes, CHECKSUM_BYTES};
use crate::bytes::{put_integer, Reader};
use crate::error::RefactorError;
use crate::fills::{self, Fill};
use crate::grid::Grid;
use crate::lengths;
use crate::parameters::CodecParameters;
use crate::sample::DataType;
use crate::spelling;
use crate::table;
use crate::version::{VERSION, VERSION_BRIEF, VERSION_FILLS, VERSION_OLDEST};
use std::ops::Range;

/// The first bytes of every container. The line ends show a transfer that took it for text.
pub const MAGIC: [u8; 8] = *b"\x89WRF\r\n\x1a\n";
/// Bytes after which the length of the header is known.
pub const PREFIX_BYTES: usize = 14;
/// An array of more bytes is taken for damage.
const ARRAY_BYTES_MAX: u64 = 1 << 44;
const BLOCK_BYTES_MAX: u64 = 1 << 16;
/// Flags: the last layer restores every bit; every prefix was measured; fill values are stated.
const EXACT: u8 = 1;
const MEASURED: u8 = 2;
const FILLS: u8 = 4;

/// A point of the table: the accuracy of the array when so much of it is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bytes of the payload.
    pub(crate) payload: u64,
    /// Upper bounds.
    pub accuracy: Accuracy,
    /// Whether the bounds were measured, and not derived from the coefficients.
    pub measured: bool,
}

/// One piece of the container.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The place of the chunk's beginning in the container.
    pub offset: u64,
    /// The number of bytes of the chunk.
    pub length: u64,
    /// The accuracy when everything up to the chunk's end is there.
    pub accuracy: Accuracy,
    /// The accuracy was measured.
    pub measured: bool,
    /// The part of the payload that it holds.
    pub(crate) payload: Range<u64>,
    /// Payload bytes of each of its blocks but the last.
    pub(crate) block_bytes: u64,
}

/// The contents of a container's header.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The version of the format.
    pub version: u16,
    /// The kind of the samples.
    pub kind: DataType,
    /// The array's shape, 1 to 4 axes, slowest first.
    pub shape: Vec<usize>,
    /// The codec of the samples.
    pub codec: CodecParameters,
    /// The smallest and the largest finite sample, both 0 if there is none.
    pub range: (f64, f64),
    /// The values that mark samples as missing, as they were stated.
    pub fills: Vec<Fill>,
    /// The error of a restored array for which no byte beyond the header is there.
    pub blank: Accuracy,
    /// The base, then the augmentations.
    pub chunks: Vec<Chunk>,
    /// The accuracies of prefixes, from the base on: the ends of all chunks, and places between them.
    pub(crate) points: Vec<Point>,
    /// Bytes of the header itself.
    pub header_bytes: u64,
    /// The header's, which those of all blocks go on from.
    pub(crate) checksum: u32,
    /// Samples that the codec takes: means are over these.
    pub(crate) taken: u64,
    /// The last layer makes the samples exact.
    pub(crate) exact: bool,
    /// The table follows from the errors of every prefix that a reader can have.
    pub(crate) measured: bool,
    pub(crate) grid: Grid,
    /// The longest block.
    pub(crate) block_bytes: u64,
    /// Payload bytes of every tile in each layer; none are listed of a layer that no tile has bytes of.
    pub(crate) layers: Vec<Vec<u64>>,
}

impl Header {
    /// Bytes of the whole container.
    pub fn total_bytes(&self) -> u64 {
        self.chunks.last().map_or(self.header_bytes, |chunk| chunk.offset + chunk.length)
    }

    /// Encodes it, and fills in the values that follow: its length, its checksum, and the places of the chunks.
    pub(crate) fn seal(&mut self) -> Vec<u8> {
        let (head, checksum) = self.encode();
        (self.header_bytes, self.checksum) = (head.len() as u64, checksum);
        let placed = self.place_chunks();
        debug_assert!(placed.is_some(), "the chunks hold what the layers have");
        head
    }

    fn encode(&self) -> (Vec<u8>, u32) {
        let mut body = vec![self.kind as u8, self.shape.len() as u8];
        self.shape.iter().for_each(|length| put_integer(*length as u64, &mut body));
        spelling::put_edges(&self.grid, &mut body);
        self.codec.put(&mut body);
        let has_fills = !self.fills.is_empty();
        body.push(
            (u8::from(self.exact) * EXACT)
                | (u8::from(self.measured) * MEASURED)
                | (u8::from(has_fills) * FILLS),
        );
        if has_fills {
            fills::put(&self.fills, &mut body);
        }
        put_integer(self.block_bytes, &mut body);
        put_integer(self.grid.samples() as u64 - self.taken, &mut body);
        spelling::put_range(self.kind, self.range, &mut body);
        spelling::put_blank(self.kind, self.range, self.blank, &mut body);
        lengths::put(&self.layers, &mut body);
        let ends_chunk = |point: &Point| self.chunks.iter().any(|chunk| chunk.payload.end == point.payload);
        table::put(self.blank, &self.points, ends_chunk, &mut body);
        let length = PREFIX_BYTES + body.len() + CHECKSUM_BYTES as usize;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&self.version.to_le_bytes());
        header.extend_from_slice(&(length as u32).to_le_bytes());
        header.extend_from_slice(&body);
        let checksum = crc32c::crc32c(&header);
        header.extend_from_slice(&checksum.to_le_bytes());
        (header, checksum)
    }

    /// The header that `head` begins with.
    ///
    /// # Errors
    /// [`RefactorError::HeaderShort`] says how many bytes are needed.
    pub fn decode(head: &[u8]) -> Result<Self, RefactorError> {
        let (version, length) = prefix(head)?;
        let short = RefactorError::HeaderShort { needed: length, given: head.len() as u64 };
        let header = usize::try_from(length).ok().and_then(|length| head.get(..length)).ok_or(short)?;
        let (body, checksum) = header.split_at(header.len() - CHECKSUM_BYTES as usize);
        let computed = crc32c::crc32c(body);
        if computed.to_le_bytes() != checksum {
            return Err(RefactorError::Header("its checksum is wrong"));
        }
        let mut header = Self::take(&mut Reader::new(&body[PREFIX_BYTES..]), version)
            .ok_or(RefactorError::Header("a field has no meaning"))?;
        (header.header_bytes, header.checksum) = (length, computed);
        header.place_chunks().ok_or(RefactorError::Header("its chunks do not hold what its layers need"))?;
        Ok(header)
    }

    fn take(reader: &mut Reader<'_>, version: u16) -> Option<Self> {
        let kind = DataType::from_code(reader.byte()?)?;
        let dimensions = usize::from(reader.byte()?);
        if !(1..=4).contains(&dimensions) {
            return None;
        }
        let shape = (0..dimensions).map(|_| reader.length()).collect::<Option<Vec<_>>>()?;
        let grid = spelling::take_edges(padded(&shape), reader, version)?;
        let samples = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length as u64))?;
        samples.checked_mul(kind.bytes() as u64).filter(|bytes| *bytes <= ARRAY_BYTES_MAX)?;
        let codec = CodecParameters::take(reader, version)?;
        let is_whole = grid == Grid::whole(grid.shape);
        if !(grid.is_sound() || is_whole && matches!(codec, CodecParameters::Decimate(_))) {
            return None;
        }
        let is_possible = match codec {
            CodecParameters::Quantised(..) => kind.is_float(),
            CodecParameters::Scaled(_, dropped) => {
                kind.is_float() || (1..8 * kind.bytes() as i32).contains(&dropped)
            }
            _ => true,
        };
        if !is_possible {
            return None;
        }
        let known = if version < VERSION_FILLS { EXACT | MEASURED } else { EXACT | MEASURED | FILLS };
        let flags = reader.byte().filter(|flags| *flags <= known)?;
        let (exact, measured) = (flags & EXACT != 0, flags & MEASURED != 0);
        let fills = if flags & FILLS != 0 { fills::take(reader)? } else { Vec::new() };
        let block_bytes = reader.integer().filter(|bytes| (1..=BLOCK_BYTES_MAX).contains(bytes))?;
        let count = reader.integer().filter(|count| *count <= samples)?;
        let taken = if version < VERSION_BRIEF { count } else { samples - count };
        let range = spelling::take_range(kind, reader, version)?;
        let blank = spelling::take_blank(kind, range, reader, version)?;
        let layers = lengths::take(grid.tiles(), reader, version)?;
        let points = table::take(blank, reader, version)?;
        let chunks = chunks_of(&points)?;
        let points = points.into_iter().map(|(point, _)| point).collect();
        reader.rest().is_empty().then_some(())?;
        Some(Self {
            version,
            kind,
            shape,
            codec,
            range,
            fills,
            blank,
            chunks,
            points,
            header_bytes: 0,
            checksum: 0,
            taken,
            exact,
            measured,
            grid,
            block_bytes,
            layers,
        })
    }

    /// Fills in the places of the chunks; `None` if they do not hold just the bytes of the layers.
    fn place_chunks(&mut self) -> Option<()> {
        let mut offset = self.header_bytes;
        for chunk in &mut self.chunks {
            let payload = chunk.payload.end - chunk.payload.start;
            if payload > ARRAY_BYTES_MAX {
                return None;
            }
            chunk.offset = offset;
            chunk.block_bytes = block::of_chunk(chunk.payload.end, self.block_bytes, self.version);
            chunk.length = stored_bytes(payload, chunk.block_bytes);
            offset = offset.checked_add(chunk.length)?;
        }
        let needed = self.layers.iter().flatten().try_fold(0_u64, |sum, length| sum.checked_add(*length))?;
        (self.chunks.last().map_or(0, |chunk| chunk.payload.end) == needed).then_some(())
    }
}

/// The chunks that end at some of the points; none if the last one does not.
fn chunks_of(points: &[(Point, bool)]) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    for (point, _) in points.iter().filter(|(_, ends_chunk)| *ends_chunk) {
        chunks.push(Chunk::up_to(point, start));
        start = point.payload;
    }
    (points.last().map_or(0, |(last, _)| last.payload) == start).then_some(chunks)
}

impl Chunk {
    /// The chunk from `start` to a point of the table; its place in the container is not known yet.
    pub(crate) fn up_to(point: &Point, start: u64) -> Self {
        let Point { payload, accuracy, measured } = *point;
        Self { offset: 0, length: 0, accuracy, measured, payload: start..payload, block_bytes: 0 }
    }
}

/// Bytes of the header that `head` begins with.
///
/// # Errors
/// [`RefactorError::HeaderShort`] if even that takes more bytes than are given.
pub fn header_bytes(head: &[u8]) -> Result<u64, RefactorError> {
    prefix(head).map(|(_, length)| length)
}

/// The version of the container that `head` begins, and the bytes of its header.
fn prefix(head: &[u8]) -> Result<(u16, u64), RefactorError> {
    let known = head.len().min(MAGIC.len());
    if head[..known] != MAGIC[..known] {
        return Err(RefactorError::Magic(head[..known].to_vec()));
    }
    let short = || RefactorError::HeaderShort { needed: PREFIX_BYTES as u64, given: head.len() as u64 };
    let mut reader = Reader::new(head.get(MAGIC.len()..PREFIX_BYTES).ok_or_else(short)?);
    let version = reader.take(2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes);
    if !(VERSION_OLDEST..=VERSION).contains(&version) {
        return Err(RefactorError::Version(version, VERSION));
    }
    let length = reader.take(4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    if u64::from(length) < PREFIX_BYTES as u64 + CHECKSUM_BYTES {
        return Err(RefactorError::Header("it says that it is shorter than any header"));
    }
    Ok((version, u64::from(length)))
}

/// A shape of four axes: those that the array lacks come first, with length 1.
pub(crate) fn padded(shape: &[usize]) -> [usize; 4] {
    let mut padded = [1; 4];
    let lacking = padded.len() - shape.len();
    padded[lacking..].copy_from_slice(shape);
    padded
}
