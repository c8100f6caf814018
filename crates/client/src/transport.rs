//! The transport of bytes: one small trait, with Unix sockets and TCP behind it.

use crate::descriptors::OwnSocket;
use crate::TransportChoice;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    sockopt, AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::fmt::Debug;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;
use weir_wire::ServerAddress;

/// A way to reach servers.
pub trait Transport: Debug + Send + Sync {
    /// Connects to a server within `limit`. A blocking call on the connection returns `EAGAIN` after `tick`.
    ///
    /// # Errors
    /// The error number of the call that failed, `ETIMEDOUT` where `limit` passed.
    fn dial(
        &self,
        address: &ServerAddress,
        limit: Duration,
        tick: Duration,
    ) -> Result<Box<dyn Connection>, Errno>;
}

/// A reliable, ordered stream of bytes to a server.
pub trait Connection: Debug + Send {
    /// Sends some bytes of `parts`. With `block`, waits for room. Answers the number of sent bytes.
    ///
    /// # Errors
    /// `EAGAIN` without room (with `block`: without room within the tick), `EINTR` for a signal. After any other number the
    /// connection is broken.
    fn send(&mut self, parts: &[IoSlice<'_>], block: bool) -> Result<usize, Errno>;

    /// Receives some bytes into `parts`. With `block`, waits for bytes. Answers their number, 0 where the server closed the
    /// connection.
    ///
    /// # Errors
    /// The errors of [`Connection::send`].
    fn receive(&mut self, parts: &mut [IoSliceMut<'_>], block: bool) -> Result<usize, Errno>;

    /// A descriptor that `poll` finds readable and writable when the connection is so.
    ///
    /// # Errors
    /// `EBADF` where the descriptor is gone.
    fn readiness(&self) -> Result<BorrowedFd<'_>, Errno>;

    /// The number of that descriptor.
    fn descriptor_number(&self) -> RawFd;
}

/// Unix sockets and TCP.
#[derive(Clone, Copy, Debug)]
pub struct SocketTransport {
    /// The choice between the two.
    pub choice: TransportChoice,
}

/// Room for one default stripe in the socket, so that a large write seldom waits for the reader.
const UNIX_SEND_BUFFER_BYTES: usize = 1024 * 1024;

impl Transport for SocketTransport {
    fn dial(
        &self,
        address: &ServerAddress,
        limit: Duration,
        tick: Duration,
    ) -> Result<Box<dyn Connection>, Errno> {
        let unix = address.unix.as_deref().filter(|path| match self.choice {
            TransportChoice::Unix => true,
            TransportChoice::Tcp => false,
            TransportChoice::Automatic => rustix::fs::stat(*path).is_ok(),
        });
        let socket = match unix {
            Some(path) => match connect_unix(path, limit) {
                Err(_) if self.choice == TransportChoice::Automatic => connect_tcp(&address.tcp, limit)?,
                other => other?,
            },
            None if self.choice == TransportChoice::Unix => return Err(Errno::NOENT),
            None => connect_tcp(&address.tcp, limit)?,
        };
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(tick))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(tick))?;
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(Box::new(SocketConnection { socket: OwnSocket::new(socket)? }))
    }
}

fn connect_unix(path: &str, limit: Duration) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?;
    finish_connect(&socket, rustix::net::connect(&socket, &SocketAddrUnix::new(path)?), limit)?;
    // The kernel clips the size to net.core.wmem_max. Less room only means more waits.
    let _ = sockopt::set_socket_send_buffer_size(&socket, UNIX_SEND_BUFFER_BYTES);
    Ok(socket)
}

fn connect_tcp(address: &str, limit: Duration) -> Result<OwnedFd, Errno> {
    let resolved: SocketAddr = match address.parse() {
        Ok(address) => address,
        Err(_) => address.to_socket_addrs().ok().and_then(|mut all| all.next()).ok_or(Errno::HOSTUNREACH)?,
    };
    let family = if resolved.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags(), None)?;
    finish_connect(&socket, rustix::net::connect(&socket, &resolved), limit)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

fn flags() -> SocketFlags {
    SocketFlags::CLOEXEC | SocketFlags::NONBLOCK
}

fn finish_connect(socket: &OwnedFd, begun: Result<(), Errno>, limit: Duration) -> Result<(), Errno> {
    match begun {
        Ok(()) => return Ok(()),
        Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    let deadline = std::time::Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let mut ready = [PollFd::new(socket, PollFlags::OUT)];
        match rustix::event::poll(&mut ready, Some(&timespec(left))) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return sockopt::socket_error(socket)?,
            Err(Errno::INTR) if !left.is_zero() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The duration in the kernel's form.
pub(crate) fn timespec(duration: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: duration.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[derive(Debug)]
struct SocketConnection {
    socket: OwnSocket,
}

impl Connection for SocketConnection {
    fn send(&mut self, parts: &[IoSlice<'_>], block: bool) -> Result<usize, Errno> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, !block);
        let socket = self.socket.as_fd()?;
        match parts {
            [one] => rustix::net::send(socket, one, flags),
            _ => rustix::net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags),
        }
    }

    fn receive(&mut self, parts: &mut [IoSliceMut<'_>], block: bool) -> Result<usize, Errno> {
        let flags = if block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let socket = self.socket.as_fd()?;
        match parts {
            [one] => rustix::net::recv(socket, &mut one[..], flags).map(|(count, _)| count),
            _ => {
                let mut control = RecvAncillaryBuffer::new(&mut []);
                rustix::net::recvmsg(socket, parts, &mut control, flags).map(|message| message.bytes)
            }
        }
    }

    fn readiness(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.socket.as_fd()
    }

    fn descriptor_number(&self) -> RawFd {
        self.socket.number()
    }
}
