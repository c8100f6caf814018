//! Sockets of the system, and the poll that tells of them.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::rc::Rc;
use weir_core::links::socket::{Socket, RECEIVE_BYTES};

/// Tokens of the poll from here on are links.
const FIRST_LINK: usize = 16;

/// A socket of either kind, and the poll that tells of it.
struct Polled<S> {
    stream: S,
    registry: Rc<Registry>,
    /// None before the poll knows the socket.
    token: Option<Token>,
}

/// A connection that the poll tells of.
pub(crate) fn polled(stream: impl Family + 'static, registry: &Rc<Registry>) -> Box<dyn Socket> {
    Box::new(Polled { stream, registry: Rc::clone(registry), token: None })
}

/// The place of the link that an event of the poll tells of.
pub(crate) fn link_of(token: Token) -> usize {
    token.0 - FIRST_LINK
}

/// A stream of either family.
pub(crate) trait Family: Source + Read + Write + AsFd {
    /// Whether the kernel names the peer.
    const IS_LOCAL: bool;
}

impl Family for TcpStream {
    const IS_LOCAL: bool = false;
}

impl Family for UnixStream {
    const IS_LOCAL: bool = true;
}

impl<S: Family> Socket for Polled<S> {
    fn is_local(&self) -> bool {
        S::IS_LOCAL
    }

    fn enlist(&mut self, link: usize) -> io::Result<()> {
        let token = Token(link + FIRST_LINK);
        self.token = Some(token);
        // A closed descriptor leaves the poll by itself.
        self.registry.register(&mut self.stream, token, Interest::READABLE)
    }

    fn watch_room(&mut self, is_awaited: bool) -> io::Result<()> {
        let Some(token) = self.token else { return Ok(()) };
        let interest = if is_awaited { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.registry.reregister(&mut self.stream, token, interest)
    }

    fn waiting_bytes(&self) -> usize {
        // A socket that cannot say fails when it is read, and is closed then.
        rustix::io::ioctl_fionread(&self.stream).unwrap_or(1) as usize
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    fn append_to(&mut self, input: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        let mut scratch = [const { MaybeUninit::uninit() }; RECEIVE_BYTES];
        let wanted = bytes_max.min(RECEIVE_BYTES);
        let (received, _) = rustix::io::read(&self.stream, &mut scratch[..wanted])?;
        input.extend_from_slice(received);
        Ok(received.len())
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices)
    }
}
