//! Every limit of the channel, with its reason.

/// Longest record without its length: the longest message of Noise.
pub const RECORD_BYTES: usize = 65_535;
/// Bytes that authenticate a record.
pub const TAG_BYTES: usize = 16;
/// Bytes of a length.
pub const LENGTH_BYTES: usize = 2;
/// Bytes before a record: its length, sealed as a message of its own. A length in the clear could be altered, and its receiver would
/// wait for bytes that never come.
pub const HEAD_BYTES: usize = LENGTH_BYTES + TAG_BYTES;
/// Most bytes that one record carries.
pub const CONTENT_BYTES: usize = RECORD_BYTES - TAG_BYTES;
/// Longest claims in a flight: three names of 128 bytes and 256 groups of five bytes fit twice.
pub const CLAIMS_BYTES: usize = 4 * 1024;
/// Records of a long transfer that go to the socket, or come from it, in one call: one by one, the calls and the wake-ups of the other
/// side would cost more than the cipher. Buffers of a connection with such a transfer take 256 KiB.
pub const RECORDS_AT_ONCE: usize = 4;
/// Bytes that a side takes from its socket at once while it expects small messages: several fit, and little of a large payload
/// leaves the socket before its turn.
pub const SMALL_PULL_BYTES: usize = 16 * 1024;
