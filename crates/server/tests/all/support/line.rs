//! A plain client: one blocking socket, one frame after another.

use super::{Transport, PATIENCE};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_placement::Layout;
use weir_wire::{
    decode_body, encode_body, At, Attributes, Capability, ClientId, Credential, Description, Errno, Extent,
    HandleId, Header, IdentityId, Ino, Kind, Nonce, OpenFlags, Publication, Reply, Request, RequestId,
    Rights, HEADER_BYTES,
};

/// Read and write, made where it is missing.
pub(crate) const READ_WRITE: OpenFlags = OpenFlags {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
    unnamed: false,
};

/// Id of the first request of the next connection.
static FIRST_REQUEST: AtomicU64 = AtomicU64::new(1 << 32);

/// A socket of either kind.
pub(crate) enum Connection {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A proved connection.
pub(crate) struct Line {
    pub(crate) connection: Connection,
    pub(crate) client: ClientId,
    /// Random number of the server's start.
    pub(crate) boot: u64,
    /// The nonces of the handshake: the client's, the server's.
    pub(crate) nonces: (Nonce, Nonce),
    /// Identity under which requests act.
    pub(crate) identity: IdentityId,
    next: u64,
}

/// An open file, with the size and epoch that its client knows.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) ino: Ino,
    pub(crate) handle: HandleId,
    pub(crate) capability: Capability,
    pub(crate) layout: Layout,
    pub(crate) size_bytes: u64,
    pub(crate) epoch: u64,
}

impl File {
    /// Its description, for user `uid`.
    pub(crate) fn description(&self, uid: u32) -> Description {
        Description { ino: self.ino, handle: self.handle, uid }
    }

    /// A capability of the same description with other rights, as its home would have made it.
    pub(crate) fn with_rights(&self, rights: Rights) -> Capability {
        let Capability { uid, issued_seconds, .. } = self.capability;
        super::key().capability(self.description(uid), rights, issued_seconds)
    }
}

impl Connection {
    pub(crate) fn unix(path: &Path) -> Connection {
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Connection::Unix(stream)
    }

    pub(crate) fn tcp(address: &str) -> Connection {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Connection::Tcp(stream)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn end(&self) {
        let _ = match self {
            Connection::Unix(stream) => stream.shutdown(Shutdown::Write),
            Connection::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    pub(crate) fn set_write_timeout(&self, wait: std::time::Duration) {
        let set = match self {
            Connection::Unix(stream) => stream.set_write_timeout(Some(wait)),
            Connection::Tcp(stream) => stream.set_write_timeout(Some(wait)),
        };
        set.expect("a timeout");
    }

    /// Sends bytes; false where the server has closed already.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> bool {
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
    pub(crate) fn receive_frame(&mut self) -> Option<(Header, Vec<u8>, Vec<u8>)> {
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

    /// Everything until the server closes: the texts of refusals, and how many replies came.
    pub(crate) fn drain(&mut self) -> (Vec<String>, usize) {
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
    pub(crate) fn ask(&mut self, request: RequestId, message: &Request) -> Option<Reply> {
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
            Connection::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Unix(stream) => stream.write(bytes),
            Connection::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a request.
pub(crate) fn frame(request: RequestId, identity: IdentityId, message: &Request, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(request, identity, message, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

/// The bytes of a request whose payload follows.
pub(crate) fn head(
    request: RequestId,
    identity: IdentityId,
    message: &Request,
    payload_bytes: usize,
) -> Vec<u8> {
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

/// A client id that no other client has.
pub(crate) fn random_client() -> ClientId {
    ClientId(u64::from_le_bytes(random_nonce()[..8].try_into().expect("eight bytes")))
}

pub(crate) fn random_nonce() -> Nonce {
    let mut nonce = [0; 32];
    let mut source = std::fs::File::open("/dev/urandom").expect("a random source");
    source.read_exact(&mut nonce).expect("random bytes");
    nonce
}

impl Line {
    /// Goes through the handshake; answers what the server said instead of a welcome.
    pub(crate) fn prove(
        connection: Connection,
        credential: &Credential,
        client: ClientId,
    ) -> Result<Line, Option<Reply>> {
        Line::prove_with(connection, credential, client, false)
    }

    /// As [`Line::prove`], for a client that may write through a mount.
    pub(crate) fn prove_with(
        mut connection: Connection,
        credential: &Credential,
        client: ClientId,
        has_mount: bool,
    ) -> Result<Line, Option<Reply>> {
        let nonce = random_nonce();
        let hello = Request::Hello { client, claims: credential.claims.clone(), nonce, has_mount };
        let theirs = match connection.ask(RequestId(0), &hello) {
            Some(Reply::Challenge { nonce }) => nonce,
            other => return Err(other),
        };
        let prove = Request::Prove { proof: credential.prove(&nonce, &theirs) };
        match connection.ask(RequestId(0), &prove) {
            Some(Reply::Welcome { boot, proof, .. }) => {
                assert!(credential.server_is_genuine(&nonce, &theirs, &proof), "the server knows the key");
                let identity = IdentityId(0);
                // A client that connects again goes on with ids that it has not used.
                let next = FIRST_REQUEST.fetch_add(1 << 32, Ordering::Relaxed);
                Ok(Line { connection, client, boot, nonces: (nonce, theirs), identity, next })
            }
            other => Err(other),
        }
    }

    /// Sends a request and tells its id.
    pub(crate) fn send(&mut self, message: &Request, payload: &[u8]) -> RequestId {
        let request = RequestId(self.next);
        self.next += 1;
        self.resend(request, message, payload);
        request
    }

    /// Sends a request under an id of the caller's choice.
    pub(crate) fn resend(&mut self, request: RequestId, message: &Request, payload: &[u8]) {
        self.connection.send_bytes(&frame(request, self.identity, message, payload));
    }

    /// The next reply, whichever request it answers.
    pub(crate) fn receive(&mut self) -> (RequestId, Reply, Vec<u8>) {
        self.try_receive().expect("the connection holds")
    }

    /// The next reply; none when the server closed.
    pub(crate) fn try_receive(&mut self) -> Option<(RequestId, Reply, Vec<u8>)> {
        let (header, body, payload) = self.connection.receive_frame()?;
        assert_eq!(header.kind, Kind::Reply, "{}", String::from_utf8_lossy(&body));
        Some((header.request, decode_body(&body, "reply").expect("a reply"), payload))
    }

    /// Sends a request and takes its reply, where nothing else is in flight.
    pub(crate) fn call(&mut self, message: &Request, payload: &[u8]) -> (Reply, Vec<u8>) {
        self.try_call(message, payload).expect("the connection holds")
    }

    /// As [`Line::call`]; none when the server closed.
    pub(crate) fn try_call(&mut self, message: &Request, payload: &[u8]) -> Option<(Reply, Vec<u8>)> {
        let request = self.send(message, payload);
        let (answered, reply, payload) = self.try_receive()?;
        assert_eq!(answered, request);
        Some((reply, payload))
    }

    /// A request whose reply has no payload of interest.
    pub(crate) fn reply(&mut self, message: &Request) -> Reply {
        self.call(message, &[]).0
    }

    /// Opens a regular file below the root.
    pub(crate) fn open(&mut self, path: &str, flags: OpenFlags) -> Result<File, Errno> {
        let request = Request::Open { at: At::new(Ino::ROOT, path), flags, permissions: 0o644, layout: None };
        match self.reply(&request) {
            Reply::Opened { attributes, handle, capability, layout, .. } => Ok(File {
                ino: attributes.ino,
                handle,
                capability,
                layout: layout.expect("a regular file"),
                size_bytes: attributes.size_bytes,
                epoch: attributes.epoch,
            }),
            Reply::Failed(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn close(&mut self, file: &File) {
        let reply = self.reply(&Request::Close { ino: file.ino, handle: file.handle });
        assert_eq!(reply, Reply::Done);
    }

    /// Attributes of a node below the root.
    pub(crate) fn attributes(&mut self, path: &str) -> Result<Attributes, Errno> {
        match self.reply(&Request::Attributes { at: At::new(Ino::ROOT, path), follow: false }) {
            Reply::Attributes(attributes) => Ok(attributes),
            Reply::Failed(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    /// The write requests of `length` file bytes at `offset`, with the range of the bytes that each carries.
    pub(crate) fn write_requests(
        file: &File,
        offset: u64,
        length: usize,
    ) -> Vec<(Request, std::ops::Range<usize>)> {
        let piece_request = |piece: weir_placement::Piece| {
            let target = file.layout.targets()[piece.object];
            let end = piece.file_offset + piece.length;
            let publication = Publication { end, written_bytes: piece.length, epoch: file.epoch };
            let first = (piece.file_offset - offset) as usize;
            let request = Request::Write {
                capability: file.capability,
                target,
                epoch: file.epoch,
                extents: vec![Extent { offset: piece.object_offset, length: piece.length as u32 }],
                publication: Some(publication),
            };
            (request, first..first + piece.length as usize)
        };
        file.layout.pieces(offset, length as u64).map(piece_request).collect()
    }

    /// Writes a file whose targets are all of this server.
    pub(crate) fn write(&mut self, file: &mut File, offset: u64, bytes: &[u8]) -> Result<(), Reply> {
        for (request, range) in Line::write_requests(file, offset, bytes.len()) {
            match self.call(&request, &bytes[range]).0 {
                Reply::Written { size: Some((size_bytes, _)) } => file.size_bytes = size_bytes,
                other => return Err(other),
            }
        }
        Ok(())
    }

    /// Reads a file whose targets are all of this server.
    pub(crate) fn read(&mut self, file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Reply> {
        let mut bytes = Vec::new();
        for piece in file.layout.pieces(offset, length as u64) {
            let request = Request::Read {
                capability: file.capability,
                target: file.layout.targets()[piece.object],
                epoch: file.epoch,
                extents: vec![Extent { offset: piece.object_offset, length: piece.length as u32 }],
            };
            match self.call(&request, &[]) {
                (Reply::Data { .. }, part) => bytes.extend_from_slice(&part),
                (other, _) => return Err(other),
            }
        }
        Ok(bytes)
    }

    /// Cuts or lengthens a file and learns its epoch.
    pub(crate) fn truncate(&mut self, file: &mut File, size_bytes: u64) {
        let change = weir_wire::AttributeChange {
            size_bytes: Some(size_bytes),
            capability: Some(file.capability),
            ..Default::default()
        };
        match self.reply(&Request::Change { at: At::inode(file.ino), follow: false, change }) {
            Reply::Attributes(attributes) => {
                (file.size_bytes, file.epoch) = (attributes.size_bytes, attributes.epoch);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Removes a name below the root.
    pub(crate) fn unlink(&mut self, path: &str, directory: bool) -> Reply {
        self.reply(&Request::Unlink { at: At::new(Ino::ROOT, path), directory })
    }

    /// Makes a directory below the root.
    pub(crate) fn make_directory(&mut self, path: &str) -> Reply {
        let kind = weir_wire::NodeKind::Directory;
        self.reply(&Request::Make { at: At::new(Ino::ROOT, path), kind, permissions: 0o755 })
    }
}

impl Transport {
    pub(crate) const BOTH: [Transport; 2] = [Transport::Unix, Transport::Tcp];
}
