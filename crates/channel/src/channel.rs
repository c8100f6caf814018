//! The records of a connection over whatever moves its bytes.

use crate::limits::{CONTENT_BYTES, HEAD_BYTES, RECORDS_AT_ONCE, RECORD_BYTES, SMALL_PULL_BYTES};
use crate::seal::grow;
use crate::{ChannelError, Seal};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use weir_wire::limits::INLINE_PAYLOAD_BYTES;
use weir_wire::ChannelBinding;

/// Buffers up to this size stay with an idle connection.
const KEPT_BYTES: usize = 4 * 1024;

/// The reason why bytes do not move: the channel's, or that of whatever moves the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Interruption<E> {
    /// The channel is at its end.
    Channel(ChannelError),
    /// The error of the function that moves the bytes; where it says that there is nothing to do now, the call may be made again.
    Transport(E),
}

/// A sealed connection with few records under way in each direction.
#[derive(Debug)]
pub struct Channel {
    seal: Seal,
    /// Content that was gathered from several parts, or from pages that others write to.
    gathered: Vec<u8>,
    /// The records that are being sent at the front of their buffer, the part of it that is not sent yet, and the bytes of content in
    /// them.
    records: Vec<u8>,
    unsent: Range<usize>,
    content_bytes: usize,
    /// The buffer of bytes that came, and those in it that are not opened yet.
    received: Vec<u8>,
    sealed: Range<usize>,
    /// The length of the record that they begin with, once it is known.
    expected: Option<usize>,
    /// The buffer of the last record's content, and the part of it that is not taken yet.
    opened: Vec<u8>,
    content: Range<usize>,
}

impl Channel {
    /// A channel whose handshake has ended. `early` are bytes that came behind the handshake.
    pub fn new(seal: Seal, early: &[u8]) -> Channel {
        Channel {
            seal,
            gathered: Vec::new(),
            records: Vec::new(),
            unsent: 0..0,
            content_bytes: 0,
            received: early.to_vec(),
            sealed: 0..early.len(),
            expected: None,
            opened: Vec::new(),
            content: 0..0,
        }
    }

    /// The digest of the handshake.
    pub fn binding(&self) -> &ChannelBinding {
        self.seal.binding()
    }

    /// Memory that the buffers take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.gathered.capacity() + self.records.capacity() + self.received.capacity() + self.opened.capacity()
    }

    /// Bytes that came and were not taken yet, as far as they are known: an upper bound where they are still sealed.
    pub fn waiting_bytes(&self) -> usize {
        self.content.len() + self.sealed.len()
    }

    /// Gives memory back that an idle connection does not need.
    pub fn release_idle(&mut self) {
        let kept = [
            (&mut self.gathered, 0),
            (&mut self.records, self.unsent.end),
            (&mut self.received, self.sealed.end),
            (&mut self.opened, self.content.end),
        ];
        for (buffer, end) in kept {
            buffer.truncate(end.max(KEPT_BYTES));
            buffer.shrink_to_fit();
        }
    }

    /// Sends some bytes of `parts` as a record or a few, by `push`, which answers how many of its bytes have gone. Answers the bytes of
    /// `parts` that have gone.
    ///
    /// Where `push` fails, the records stay under way: the next call goes on with them, and takes the first bytes of `parts` as
    /// those that were given first. A long transfer's first part has a record of its own, so that the other side reads what
    /// the transfer is about without its payload.
    ///
    /// # Errors
    /// [`Interruption`].
    pub fn send<E>(
        &mut self,
        parts: &[IoSlice<'_>],
        mut push: impl FnMut(&[u8]) -> Result<usize, E>,
    ) -> Result<usize, Interruption<E>> {
        if self.content_bytes == 0 {
            self.fill_records(parts).map_err(Interruption::Channel)?;
        }
        while !self.unsent.is_empty() {
            match push(&self.records[self.unsent.clone()]).map_err(Interruption::Transport)? {
                0 => return Err(Interruption::Channel(ChannelError::Altered)),
                count => self.unsent.start += count,
            }
        }
        self.unsent = 0..0;
        Ok(std::mem::take(&mut self.content_bytes))
    }

    /// The next bytes that the other side sent, empty at the end. They come by `pull`, which answers how many bytes it has put into
    /// its room, 0 at the end. `wanted` is how many bytes the caller can use. Whatever was altered on its way is not among them.
    ///
    /// # Errors
    /// [`Interruption`].
    pub fn content<E>(
        &mut self,
        wanted: usize,
        mut pull: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<&[u8], Interruption<E>> {
        while self.content.is_empty() {
            let is_open = self.open_next().map_err(Interruption::Channel)?;
            if !is_open && self.pull_some(wanted, &mut pull).map_err(Interruption::Transport)? == 0 {
                break;
            }
        }
        Ok(&self.opened[self.content.clone()])
    }

    /// Takes `count` bytes of [`Channel::content`]: they are not there any more.
    pub fn consume(&mut self, count: usize) {
        self.content.start = (self.content.start + count).min(self.content.end);
        if self.content.is_empty() {
            self.content = 0..0;
        }
    }

    /// Receives some bytes into `parts`, by `pull`. Answers the number of received bytes, 0 at the end.
    ///
    /// # Errors
    /// The errors of [`Channel::content`].
    pub fn receive<E>(
        &mut self,
        parts: &mut [IoSliceMut<'_>],
        pull: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, Interruption<E>> {
        let wanted = parts.iter().map(|part| part.len()).sum();
        let content = self.content(wanted, pull)?;
        let mut copied = 0;
        for part in parts {
            let count = part.len().min(content.len() - copied);
            part[..count].copy_from_slice(&content[copied..copied + count]);
            copied += count;
        }
        self.consume(copied);
        Ok(copied)
    }

    /// Seals the content of the next records. The cipher works on a copy, because others may write to `parts` meanwhile.
    fn fill_records(&mut self, parts: &[IoSlice<'_>]) -> Result<(), ChannelError> {
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let first = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
        let is_long = whole > INLINE_PAYLOAD_BYTES;
        if is_long || first.len() == whole {
            return self.seal_content(first);
        }
        self.gathered.clear();
        for part in parts {
            let room = CONTENT_BYTES - self.gathered.len();
            self.gathered.extend_from_slice(&part[..part.len().min(room)]);
        }
        let gathered = std::mem::take(&mut self.gathered);
        let sealed = self.seal_content(&gathered);
        self.gathered = gathered;
        sealed
    }

    fn seal_content(&mut self, content: &[u8]) -> Result<(), ChannelError> {
        let mut end = 0;
        for part in content.chunks(CONTENT_BYTES).take(RECORDS_AT_ONCE) {
            end = self.seal.seal(part, &mut self.records, end)?;
            self.content_bytes += part.len();
        }
        self.unsent = 0..end;
        Ok(())
    }

    /// Opens the next record if all of it is there.
    fn open_next(&mut self) -> Result<bool, ChannelError> {
        let Some(length) = self.next_length()? else { return Ok(false) };
        let waiting = &self.received[self.sealed.clone()];
        let Some(record) = waiting.get(..length) else { return Ok(false) };
        self.content = 0..self.seal.open(record, &mut self.opened)?;
        self.sealed.start += length;
        self.expected = None;
        Ok(true)
    }

    /// The length of the record that the waiting bytes begin with, none while too few of them are there.
    fn next_length(&mut self) -> Result<Option<usize>, ChannelError> {
        let waiting = &self.received[self.sealed.clone()];
        if let (None, Some(head)) = (self.expected, waiting.first_chunk::<HEAD_BYTES>()) {
            self.expected = Some(self.seal.open_length(head)?);
            self.sealed.start += HEAD_BYTES;
        }
        Ok(self.expected)
    }

    /// Pulls bytes of the record that is under way, and little more than its reader wants.
    fn pull_some<E>(
        &mut self,
        wanted: usize,
        pull: &mut impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.received.copy_within(self.sealed.clone(), 0);
        let have = self.sealed.len();
        self.sealed = 0..have;
        let readable = wanted.clamp(SMALL_PULL_BYTES, RECORDS_AT_ONCE * (HEAD_BYTES + RECORD_BYTES));
        let room = self.expected.unwrap_or(0).max(readable);
        grow(&mut self.received, room);
        let pulled = pull(&mut self.received[have..room]);
        self.sealed.end += pulled.as_ref().copied().unwrap_or(0);
        pulled
    }
}
