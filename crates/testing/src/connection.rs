//! Blocking sockets to a server, and the frames that go over them.

use crate::processes::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use weir_channel::SealedStream;
use weir_placement::ServerId;
use weir_wire::{
    decode_body, encode_body, ChannelBinding, Credential, Header, IdentityId, Kind, Reply, Request,
    RequestId, HEADER_BYTES, UNSEALED,
};

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The Unix socket of a server.
    Unix,
    /// A TCP connection over loopback.
    Tcp,
}

impl Transport {
    /// Every kind.
    pub const BOTH: [Transport; 2] = [Transport::Unix, Transport::Tcp];
}

/// A socket of either kind.
pub enum Connection {
    /// A connection to the Unix socket.
    Unix(UnixStream),
    /// A connection over loopback to the server of this number, whose channel is not sealed yet.
    Tcp(TcpStream, ServerId),
    /// A connection over loopback whose channel is sealed.
    Sealed(Box<SealedStream<TcpStream>>),
}

impl Connection {
    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> Connection {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Connection::Unix(stream)
    }

    /// Connects to `host:port`, where a server of this number listens.
    pub fn tcp(address: &str, server: ServerId) -> Connection {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Connection::Tcp(stream, server)
    }

    /// Seals a TCP connection by a credential; none where the server does not take the credential.
    pub fn sealed(self, credential: &Credential) -> Option<Connection> {
        match self {
            Connection::Tcp(stream, server) => {
                SealedStream::open(stream, server, credential).ok().map(Box::new).map(Connection::Sealed)
            }
            other => Some(other),
        }
    }

    /// The binding of the channel.
    pub fn binding(&self) -> ChannelBinding {
        match self {
            Connection::Sealed(stream) => *stream.binding(),
            Connection::Unix(_) | Connection::Tcp(..) => UNSEALED,
        }
    }

    /// Tells the server that nothing more will be sent.
    pub fn end(&self) {
        let _ = match self {
            Connection::Unix(stream) => stream.shutdown(Shutdown::Write),
            Connection::Tcp(stream, _) => stream.shutdown(Shutdown::Write),
            Connection::Sealed(stream) => stream.stream().shutdown(Shutdown::Write),
        };
    }

    /// Bounds each write.
    pub fn set_write_timeout(&self, wait: std::time::Duration) {
        let set = match self {
            Connection::Unix(stream) => stream.set_write_timeout(Some(wait)),
            Connection::Tcp(stream, _) => stream.set_write_timeout(Some(wait)),
            Connection::Sealed(stream) => stream.stream().set_write_timeout(Some(wait)),
        };
        set.expect("a timeout");
    }

    /// Sends bytes; false where the server has closed already.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        match self.write_all(bytes) {
            Ok(()) => true,
            Err(error) => {
                let closed = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
                assert!(closed.contains(&error.kind()), "sending failed: {error}");
                false
            }
        }
    }

    /// The next frame; none when the server closed.
    pub fn receive_frame(&mut self) -> Option<(Header, Vec<u8>, Vec<u8>)> {
        let mut header_bytes = [0; HEADER_BYTES];
        self.fill(&mut header_bytes)?;
        let header = Header::decode(&header_bytes).expect("a server's frame");
        let mut body = vec![0; header.body_bytes as usize];
        self.fill(&mut body)?;
        let mut payload = vec![0; header.payload_bytes as usize];
        self.fill(&mut payload)?;
        Some((header, body, payload))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        match self.read_exact(bytes) {
            Ok(()) => Some(()),
            Err(error) => {
                let silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                assert!(!silent.contains(&error.kind()), "the server neither answers nor closes");
                None
            }
        }
    }

    /// Receives until the server closes; returns the texts of refusals and the number of replies.
    pub fn drain(&mut self) -> (Vec<String>, usize) {
        let (mut refusals, mut replies) = (Vec::new(), 0);
        while let Some((header, body, _)) = self.receive_frame() {
            match header.kind {
                Kind::Refusal => refusals.push(String::from_utf8(body).expect("a refusal is text")),
                _ => replies += 1,
            }
        }
        (refusals, replies)
    }

    /// Sends a request and takes its reply, where nothing else is in flight.
    pub fn ask(&mut self, request: RequestId, message: &Request) -> Option<Reply> {
        self.send_bytes(&frame(request, IdentityId(0), message, &[]));
        let (header, body, _) = self.receive_frame()?;
        assert_eq!((header.kind, header.request), (Kind::Reply, request));
        Some(decode_body(&body, "reply").expect("a reply"))
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.read(bytes),
            Connection::Tcp(stream, _) => stream.read(bytes),
            Connection::Sealed(stream) => stream.read(bytes),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.write(bytes),
            Connection::Tcp(stream, _) => stream.write(bytes),
            Connection::Sealed(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a request.
pub fn frame(request: RequestId, identity: IdentityId, message: &Request, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(request, identity, message, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

/// The bytes of a request whose payload follows.
pub fn head(request: RequestId, identity: IdentityId, message: &Request, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let body_bytes = encode_body(message, &mut bytes) as u32;
    let header = Header {
        kind: Kind::Request,
        body_bytes,
        payload_bytes: payload_bytes as u32,
        identity,
        request,
        acknowledged: RequestId(0),
    };
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    bytes
}
