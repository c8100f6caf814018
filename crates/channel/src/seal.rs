//! The two ciphers of one connection: each record is sealed and opened in its turn.

use crate::limits::{CONTENT_BYTES, HEAD_BYTES, RECORD_BYTES, TAG_BYTES};
use crate::ChannelError;
use std::fmt;
use weir_wire::ChannelBinding;

/// The two ciphers of one connection, after a handshake that both sides have ended.
pub struct Seal {
    transport: snow::TransportState,
    binding: ChannelBinding,
}

impl Seal {
    pub(crate) fn new(handshake: snow::HandshakeState) -> Result<Seal, ChannelError> {
        let mut binding = [0; 32];
        binding.copy_from_slice(handshake.get_handshake_hash());
        let transport = handshake.into_transport_mode().map_err(|_| ChannelError::Unproved)?;
        Ok(Seal { transport, binding })
    }

    /// The digest of the handshake: the same on both sides, and of no other connection.
    pub fn binding(&self) -> &ChannelBinding {
        &self.binding
    }

    /// Puts the sealed record, with its sealed length, that carries `content` (at most [`CONTENT_BYTES`]) into `records` from byte
    /// `begin` on; the buffer grows where it is too short. Returns the end of the record in the buffer.
    ///
    /// # Errors
    /// [`ChannelError::Altered`] where a connection has sent all the messages that its key allows (2^64 - 1).
    pub fn seal(
        &mut self,
        content: &[u8],
        records: &mut Vec<u8>,
        begin: usize,
    ) -> Result<usize, ChannelError> {
        debug_assert!(content.len() <= CONTENT_BYTES);
        let sealed_bytes = content.len() + TAG_BYTES;
        let end = begin + HEAD_BYTES + sealed_bytes;
        grow(records, end);
        let (head, record) = records[begin..end].split_at_mut(HEAD_BYTES);
        let length = (sealed_bytes as u16).to_le_bytes();
        let written = self.transport.write_message(&length, head);
        let written = written.and_then(|_| self.transport.write_message(content, record));
        written.map(|_| end).map_err(|_| ChannelError::Altered)
    }

    /// The length of the next record, from the bytes before it.
    ///
    /// # Errors
    /// [`ChannelError::Altered`] where they are not the next ones of the other side, or say that the record carries nothing: its
    /// sender would keep the receiver busy for nothing.
    pub fn open_length(&mut self, head: &[u8; HEAD_BYTES]) -> Result<usize, ChannelError> {
        let mut length = [0; HEAD_BYTES];
        self.transport.read_message(head, &mut length).map_err(|_| ChannelError::Altered)?;
        let length = u16::from_le_bytes([length[0], length[1]]).into();
        Some(length).filter(|length| *length > TAG_BYTES).ok_or(ChannelError::Altered)
    }

    /// Puts the bytes that a record without its length carries at the front of `content`, which grows where it is too short. Returns
    /// their number.
    ///
    /// # Errors
    /// [`ChannelError::Altered`] where the record is not the next one of the other side; `content` is of no use then.
    pub fn open(&mut self, record: &[u8], content: &mut Vec<u8>) -> Result<usize, ChannelError> {
        debug_assert!(record.len() <= RECORD_BYTES);
        // The cipher opens in place where the room has the length of the record with its tag.
        grow(content, record.len());
        self.transport.read_message(record, content).map_err(|_| ChannelError::Altered)
    }
}

/// Makes a buffer long enough. One that is keeps its bytes, because zeros for 64 KiB cost as much as the cipher does for 16.
pub(crate) fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seal(..)")
    }
}
