//! The bytes of one connection: plain on a Unix socket, whose peer the kernel names, and sealed over TCP.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use weir_channel::{Channel, ChannelError, Interruption, Responder};
use weir_placement::ServerId;
use weir_wire::{ChannelBinding, Header, SiteKey, WireError, UNSEALED};

/// Read at once: several small frames, yet little of a large payload is copied twice.
pub(crate) const RECEIVE_BYTES: usize = 16 * 1024;

/// A socket of either kind.
pub(crate) enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// Unix.
    Unix(UnixStream),
}

/// The server behind every TCP connection, and the key that it proves.
pub(crate) struct Door {
    pub(crate) here: ServerId,
    pub(crate) key: SiteKey,
}

/// A socket, and the state of its channel.
pub(crate) struct Stream {
    socket: Socket,
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
    pub(crate) fn new(socket: Socket, door: &Rc<Door>) -> Stream {
        let cover = match socket {
            Socket::Tcp(_) => Cover::Awaited { door: Rc::clone(door), flight: Vec::new() },
            Socket::Unix(_) => Cover::Plain,
        };
        Stream { socket, cover }
    }

    /// The socket, for the poll.
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match &mut self.socket {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        }
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
        // A socket that cannot say fails when it is read, and is closed then.
        let in_socket = rustix::io::ioctl_fionread(self.socket.descriptor()).unwrap_or(1) as usize;
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
            let mut scratch = [const { MaybeUninit::uninit() }; RECEIVE_BYTES];
            let (received, _) = rustix::io::read(self.socket.descriptor(), &mut scratch[..wanted])?;
            input.extend_from_slice(received);
            return Ok(received.len());
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
            Cover::Sealed(channel) => {
                channel.send(slices, |record| self.socket.write(record)).map_err(settled)
            }
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
                    if self.socket.write(&answer)? != answer.len() {
                        return Err(ErrorKind::WriteZero.into());
                    }
                    let Cover::Awaited { flight, .. } = &self.cover else { return Ok(()) };
                    self.cover = Cover::Sealed(Box::new(Channel::new(seal, &flight[length..])));
                }
                Ok(_) => {
                    let mut scratch = [0; RECEIVE_BYTES];
                    let count = self.socket.read(&mut scratch)?;
                    if count == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    flight.extend_from_slice(&scratch[..count]);
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

impl Socket {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write_vectored(slices),
            Socket::Unix(stream) => stream.write_vectored(slices),
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
