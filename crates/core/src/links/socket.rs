//! The near end of a connection, as links see it: bytes that are there, room for bytes, and nothing that waits.

use std::io::{self, IoSlice};

/// Read at once: several small frames, yet little of a large payload is copied twice.
pub const RECEIVE_BYTES: usize = 16 * 1024;

/// One socket. No call blocks: where nothing can be done now, the answer is [`WouldBlock`](io::ErrorKind::WouldBlock).
pub trait Socket {
    /// Whether the kernel names the peer, so that its bytes need no seal.
    fn is_local(&self) -> bool;

    /// Has the loop told of the link in this place: of bytes that arrive, and of the end.
    ///
    /// # Errors
    /// The system's.
    fn enlist(&mut self, link: usize) -> io::Result<()>;

    /// Has the loop told of room for bytes, too, or not any longer.
    ///
    /// # Errors
    /// The system's.
    fn watch_room(&mut self, is_awaited: bool) -> io::Result<()>;

    /// Bytes that can be read; 1 where that is not known.
    fn waiting_bytes(&self) -> usize;

    /// Reads into `buffer`. Answers the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Appends up to `bytes_max` bytes that can be read now, at most [`RECEIVE_BYTES`]. Answers their number, 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn append_to(&mut self, input: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize>;

    /// Sends some bytes of `slices`. Answers their number.
    ///
    /// # Errors
    /// The system's.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}
