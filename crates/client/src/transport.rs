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
use std::time::{Duration, Instant};
use weir_channel::{Channel, Initiator, Interruption, ANSWER_BYTES};
use weir_placement::ServerId;
use weir_wire::{ChannelBinding, Credential, ServerAddress, UNSEALED};

/// A way to reach servers.
pub trait Transport: Debug + Send + Sync {
    /// Connects to a server within `limit`, with the key of `credential` where the connection has to be sealed. A blocking call
    /// on the connection returns `EAGAIN` after `tick`.
    ///
    /// # Errors
    /// The error number of the call that failed, `ETIMEDOUT` where `limit` passed, `EPERM` where somebody else listens at the address.
    fn dial(
        &self,
        address: &ServerAddress,
        credential: &Credential,
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

    /// The digest of the handshake that sealed the connection.
    fn binding(&self) -> ChannelBinding;
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
        credential: &Credential,
        limit: Duration,
        tick: Duration,
    ) -> Result<Box<dyn Connection>, Errno> {
        let deadline = Instant::now() + limit;
        match address.unix.as_deref().filter(|_| self.choice != TransportChoice::Tcp) {
            // A server that announced a Unix socket is reached there: whoever holds its port instead is not asked.
            Some(path) => {
                let socket = connect_unix(path, address.owner, limit)?;
                Ok(Box::new(SocketConnection::new(socket, tick)?))
            }
            None if self.choice == TransportChoice::Unix => Err(Errno::NOENT),
            None => {
                let connection = SocketConnection::new(connect_tcp(&address.tcp, limit)?, tick)?;
                Ok(Box::new(SealedConnection::open(connection, address.server, credential, deadline)?))
            }
        }
    }
}

fn connect_unix(path: &str, owner: u32, limit: Duration) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags(), None)?;
    finish_connect(&socket, rustix::net::connect(&socket, &SocketAddrUnix::new(path)?), limit)?;
    // The kernel tells who listens: the store's owner, or the system that listens for it (systemd.socket(5)).
    let listener = peer_user(&socket)?;
    if listener != owner && listener != 0 {
        return Err(Errno::PERM);
    }
    // The kernel clips the size to net.core.wmem_max. Less room only means more waits.
    let _ = sockopt::set_socket_send_buffer_size(&socket, UNIX_SEND_BUFFER_BYTES);
    Ok(socket)
}

/// The user at the other end. The kernel gives no number of a process in another namespace, which rustix's type cannot say.
fn peer_user(socket: &OwnedFd) -> Result<u32, Errno> {
    let credentials = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials);
    credentials.map(|peer| peer.uid()).map_err(|errno| Errno::from_raw_os_error(errno as i32))
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

impl SocketConnection {
    fn new(socket: OwnedFd, tick: Duration) -> Result<SocketConnection, Errno> {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(tick))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(tick))?;
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(SocketConnection { socket: OwnSocket::new(socket)? })
    }
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

    fn binding(&self) -> ChannelBinding {
        UNSEALED
    }
}

/// A TCP connection, whose bytes are sealed.
#[derive(Debug)]
struct SealedConnection {
    connection: SocketConnection,
    channel: Channel,
}

impl SealedConnection {
    /// Goes through the handshake with `server` until `deadline`.
    fn open(
        mut connection: SocketConnection,
        server: ServerId,
        credential: &Credential,
        deadline: Instant,
    ) -> Result<SealedConnection, Errno> {
        let (initiator, flight) = Initiator::begin(server, credential).map_err(|_| Errno::INVAL)?;
        let mut sent = 0;
        while sent < flight.len() {
            sent += until(deadline, || connection.send(&[IoSlice::new(&flight[sent..])], true))?;
        }
        let mut answer = [0; ANSWER_BYTES];
        let mut have = 0;
        while have < ANSWER_BYTES {
            let mut receive = || connection.receive(&mut [IoSliceMut::new(&mut answer[have..])], true);
            match until(deadline, &mut receive)? {
                0 => return Err(Errno::PERM),
                count => have += count,
            }
        }
        let seal = initiator.finish(&answer).map_err(|_| Errno::PERM)?;
        Ok(SealedConnection { connection, channel: Channel::new(seal, &[]) })
    }
}

impl Connection for SealedConnection {
    fn send(&mut self, parts: &[IoSlice<'_>], block: bool) -> Result<usize, Errno> {
        let SealedConnection { connection, channel } = self;
        channel.send(parts, |record| connection.send(&[IoSlice::new(record)], block)).map_err(settled)
    }

    fn receive(&mut self, parts: &mut [IoSliceMut<'_>], block: bool) -> Result<usize, Errno> {
        let SealedConnection { connection, channel } = self;
        channel
            .receive(parts, |room| connection.receive(&mut [IoSliceMut::new(room)], block))
            .map_err(settled)
    }

    fn readiness(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.connection.readiness()
    }

    fn descriptor_number(&self) -> RawFd {
        self.connection.descriptor_number()
    }

    fn binding(&self) -> ChannelBinding {
        *self.channel.binding()
    }
}

/// Makes a call again that a tick or a signal ended, until `deadline`.
fn until(deadline: Instant, mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < deadline => {}
            Err(Errno::AGAIN | Errno::INTR) => return Err(Errno::TIMEDOUT),
            outcome => return outcome,
        }
    }
}

fn settled(interruption: Interruption<Errno>) -> Errno {
    match interruption {
        // Somebody put bytes in: the connection is broken.
        Interruption::Channel(_) => Errno::PROTO,
        Interruption::Transport(errno) => errno,
    }
}
