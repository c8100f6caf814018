//! The bytes of one connection: plain where the kernel names the peer, as on a Unix socket, and sealed over TCP.

use super::socket::{Socket, RECEIVE_BYTES};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::rc::Rc;
use weir_channel::{Channel, ChannelError, Interruption, Responder};
use weir_placement::ServerId;
use weir_wire::{ChannelBinding, Header, SiteKey, WireError, UNSEALED};

/// The server behind every TCP connection, and the key that it proves.
pub(crate) struct Door {
    pub(crate) here: ServerId,
    pub(crate) key: SiteKey,
}

/// A socket, and the state of its channel.
pub(crate) struct Stream {
    socket: Box<dyn Socket>,
    cover: Cover,
}

enum Cover {
    /// The bytes are those of the socket.
    Plain,
    /// The client's flight is awaited; a part of it may be there.
    Awaited { door: Rc<Door>, flight: Vec<u8> },
    /// The channel stands.
    Sealed(Box<Channel>),
}

impl Stream {
    /// A connection that was just accepted: one over TCP says nothing before its channel stands.
    pub(crate) fn new(socket: Box<dyn Socket>, door: &Rc<Door>) -> Stream {
        let cover = match socket.is_local() {
            false => Cover::Awaited { door: Rc::clone(door), flight: Vec::new() },
            true => Cover::Plain,
        };
        Stream { socket, cover }
    }

    /// The socket.
    pub(crate) fn socket(&mut self) -> &mut dyn Socket {
        &mut *self.socket
    }

    /// The digest of the handshake that sealed the connection.
    pub(crate) fn binding(&self) -> ChannelBinding {
        match &self.cover {
            Cover::Sealed(channel) => *channel.binding(),
            Cover::Plain | Cover::Awaited { .. } => UNSEALED,
        }
    }

    /// Memory of the channel, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.cover {
            Cover::Plain => 0,
            Cover::Awaited { flight, .. } => flight.capacity(),
            Cover::Sealed(channel) => channel.memory_bytes(),
        }
    }

    /// Gives memory back that an idle connection does not need.
    pub(crate) fn release_idle(&mut self) {
        if let Cover::Sealed(channel) = &mut self.cover {
            channel.release_idle();
        }
    }

    /// Bytes that can be read, as far as that is known: an upper bound where they are sealed.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let in_socket = self.socket.waiting_bytes();
        match &self.cover {
            Cover::Sealed(channel) => in_socket + channel.waiting_bytes(),
            Cover::Plain | Cover::Awaited { .. } => in_socket,
        }
    }

    /// Whether more may be there after a read that gave `count` of `wanted` bytes: a socket that gave less is empty (epoll(7)), a
    /// record that gave less may have others behind it.
    pub(crate) fn may_have_more(&self, count: usize, wanted: usize) -> bool {
        count == wanted || matches!(self.cover, Cover::Sealed(_))
    }

    /// Appends up to `bytes_max` bytes that can be read now, at most [`RECEIVE_BYTES`]. Answers their number, 0 at the end.
    ///
    /// # Errors
    /// The errors of the socket; [`ErrorKind::InvalidData`] with a [`ChannelError`].
    pub(crate) fn append_to(&mut self, input: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        self.meet()?;
        let wanted = bytes_max.min(RECEIVE_BYTES);
        let Cover::Sealed(channel) = &mut self.cover else {
            return self.socket.append_to(input, wanted);
        };
        let content = channel.content(wanted, |room| self.socket.read(room)).map_err(settled)?;
        let count = content.len().min(wanted);
        input.extend_from_slice(&content[..count]);
        channel.consume(count);
        Ok(count)
    }

    /// Reads into `buffer`. Answers the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The errors of [`Stream::append_to`].
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.cover {
            Cover::Sealed(channel) => {
                let parts = &mut [IoSliceMut::new(buffer)];
                channel.receive(parts, |room| self.socket.read(room)).map_err(settled)
            }
            Cover::Plain | Cover::Awaited { .. } => self.socket.read(buffer),
        }
    }

    /// Sends some bytes of `slices`. Where the socket has no room, the next call has to give the same bytes first.
    ///
    /// # Errors
    /// The errors of the socket.
    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.cover {
            Cover::Sealed(channel) => channel
                .send(slices, |record| self.socket.write_vectored(&[IoSlice::new(record)]))
                .map_err(settled),
            Cover::Plain | Cover::Awaited { .. } => self.socket.write_vectored(slices),
        }
    }

    /// Answers the client's flight, once all of it is there.
    fn meet(&mut self) -> io::Result<()> {
        while let Cover::Awaited { door, flight } = &mut self.cover {
            match Responder::flight_bytes(flight) {
                Ok(Some(length)) if flight.len() >= length => {
                    let answered = Responder::answer(&flight[..length], door.here, &door.key);
                    let Responder { answer, seal, .. } = answered.map_err(|error| self.refused(error))?;
                    // A fresh socket has room for the answer; one that has none is no client's.
                    if self.socket.write_vectored(&[IoSlice::new(&answer)])? != answer.len() {
                        return Err(ErrorKind::WriteZero.into());
                    }
                    let Cover::Awaited { flight, .. } = &self.cover else { return Ok(()) };
                    self.cover = Cover::Sealed(Box::new(Channel::new(seal, &flight[length..])));
                }
                Ok(_) => {
                    if self.socket.append_to(flight, RECEIVE_BYTES)? == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
        Ok(())
    }

    /// Ends the wait for a channel: the reason goes to the other side as it is. A client of another version is told both versions.
    fn refused(&mut self, error: ChannelError) -> io::Error {
        let Cover::Awaited { flight, .. } = std::mem::replace(&mut self.cover, Cover::Plain) else {
            return invalid(error);
        };
        match flight.first_chunk().map(Header::decode) {
            Some(Err(version @ WireError::Version { .. })) => invalid(version),
            _ => invalid(error),
        }
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

fn settled(interruption: Interruption<io::Error>) -> io::Error {
    match interruption {
        Interruption::Channel(error) => invalid(error),
        Interruption::Transport(error) => error,
    }
}
