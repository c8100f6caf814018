//! A plain client: one proved connection, and the files that it opens.

use crate::connection::{frame, Connection};
use crate::credentials::key;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_placement::{Layout, TargetId};
use weir_wire::{
    decode_body, At, Attributes, Capability, ClientId, Credential, Description, Errno, Extent, Fence,
    HandleId, IdentityId, Ino, Kind, Nonce, OpenFlags, Publication, Reply, Request, RequestId, Rights,
    SessionBinding,
};

/// Flags to read and to write a file, which is made where it is missing.
pub const READ_WRITE: OpenFlags = OpenFlags {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    directory: false,
    no_follow: false,
    unnamed: false,
};

/// Checks that a lock was granted, or that descriptions were claimed.
///
/// # Panics
/// At any other reply.
pub fn assert_held(reply: &Reply) {
    assert!(matches!(reply, Reply::Held { .. }), "{reply:?}");
}

/// Id of the first request of the next connection.
static FIRST_REQUEST: AtomicU64 = AtomicU64::new(1 << 32);

/// A proved connection.
pub struct Line {
    /// The socket, for bytes that are no proper frames.
    pub connection: Connection,
    /// The client that proved itself.
    pub client: ClientId,
    /// Random number of the server's start.
    pub boot: u64,
    /// The session that the proofs of the handshake were made for.
    pub session: SessionBinding,
    /// Identity under which requests act.
    pub identity: IdentityId,
    next: u64,
}

/// An open file, with the size and epoch that its client knows.
#[derive(Clone, Debug)]
pub struct File {
    /// The inode.
    pub ino: Ino,
    /// The open description.
    pub handle: HandleId,
    /// The right that the description gives.
    pub capability: Capability,
    /// The targets of its bytes.
    pub layout: Layout,
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// The number of cuts before now.
    pub epoch: u64,
}

impl File {
    /// The first of its targets on a server.
    pub fn target_on(&self, server: u16) -> Option<TargetId> {
        self.layout.targets().iter().copied().find(|target| target.server.0 == server)
    }

    /// The open description, for user `uid`.
    pub fn description(&self, uid: u32) -> Description {
        Description { ino: self.ino, handle: self.handle, uid }
    }

    /// A capability of the same description with other rights, as its home would have made it.
    pub fn with_rights(&self, rights: Rights) -> Capability {
        let Capability { uid, issued_seconds, .. } = self.capability;
        key().capability(self.description(uid), rights, issued_seconds)
    }
}

/// A client id that no other client has.
pub fn random_client() -> ClientId {
    ClientId(u64::from_le_bytes(random_nonce()[..8].try_into().expect("eight bytes")))
}

fn random_nonce() -> Nonce {
    let mut nonce = [0; 32];
    let mut source = std::fs::File::open("/dev/urandom").expect("a random source");
    source.read_exact(&mut nonce).expect("random bytes");
    nonce
}

impl Line {
    /// Goes through the handshake.
    ///
    /// # Errors
    /// The server's answer in place of a welcome; none where the server closed the connection.
    pub fn prove(
        connection: Connection,
        credential: &Credential,
        client: ClientId,
    ) -> Result<Line, Option<Reply>> {
        Line::prove_with(connection, credential, (client, 0), false)
    }

    /// As [`Line::prove`], in a slot of the client's and for a client that may write through a mount.
    ///
    /// # Errors
    /// The server's answer in place of a welcome; none where the server closed the connection.
    pub fn prove_with(
        connection: Connection,
        credential: &Credential,
        (client, slot): (ClientId, u16),
        has_mount: bool,
    ) -> Result<Line, Option<Reply>> {
        let mut connection = connection.sealed(credential).ok_or(None)?;
        let nonce = random_nonce();
        let claims = credential.claims.clone();
        let hello = Request::Hello { client, slot, claims, nonce, has_mount, is_new: false };
        let (session, boot) = match connection.ask(RequestId(0), &hello) {
            Some(Reply::Challenge { server, boot, nonce: theirs }) => {
                (SessionBinding::new(server, boot, (&nonce, &theirs), &connection.binding()), boot)
            }
            other => return Err(other),
        };
        let prove = Request::Prove { proof: credential.prove(&session) };
        match connection.ask(RequestId(0), &prove) {
            Some(Reply::Welcome { proof, .. }) => {
                assert!(credential.server_is_genuine(&session, &proof), "the server knows the key");
                let identity = IdentityId(0);
                // A client that connects again goes on with ids that it has not used.
                let next = FIRST_REQUEST.fetch_add(1 << 32, Ordering::Relaxed);
                Ok(Line { connection, client, boot, session, identity, next })
            }
            other => Err(other),
        }
    }

    /// Sends a request; returns its id.
    pub fn send(&mut self, message: &Request, payload: &[u8]) -> RequestId {
        let request = self.take_id();
        self.resend(request, message, payload);
        request
    }

    /// Sends the frame of a request but for its last `left` bytes, which it answers with the id.
    pub fn send_but(&mut self, left: usize, message: &Request, payload: &[u8]) -> (RequestId, Vec<u8>) {
        let request = self.take_id();
        let mut bytes = frame(request, self.identity, message, payload);
        let rest = bytes.split_off(bytes.len() - left);
        self.connection.send_bytes(&bytes);
        (request, rest)
    }

    fn take_id(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next - 1)
    }

    /// Sends a request under an id of the caller's choice.
    pub fn resend(&mut self, request: RequestId, message: &Request, payload: &[u8]) {
        self.connection.send_bytes(&frame(request, self.identity, message, payload));
    }

    /// The next reply, whichever request it answers.
    pub fn receive(&mut self) -> (RequestId, Reply, Vec<u8>) {
        self.try_receive().expect("the connection holds")
    }

    /// The next reply; none when the server closed.
    pub fn try_receive(&mut self) -> Option<(RequestId, Reply, Vec<u8>)> {
        let (header, body, payload) = self.connection.receive_frame()?;
        assert_eq!(header.kind, Kind::Reply, "{}", String::from_utf8_lossy(&body));
        Some((header.request, decode_body(&body, "reply").expect("a reply"), payload))
    }

    /// Sends a request and takes its reply, where nothing else is in flight.
    pub fn call(&mut self, message: &Request, payload: &[u8]) -> (Reply, Vec<u8>) {
        self.try_call(message, payload).expect("the connection holds")
    }

    /// As [`Line::call`]; none when the server closed.
    pub fn try_call(&mut self, message: &Request, payload: &[u8]) -> Option<(Reply, Vec<u8>)> {
        let request = self.send(message, payload);
        let (answered, reply, payload) = self.try_receive()?;
        assert_eq!(answered, request);
        Some((reply, payload))
    }

    /// A request whose reply has no payload of interest.
    pub fn reply(&mut self, message: &Request) -> Reply {
        self.call(message, &[]).0
    }

    /// Opens a regular file below the root.
    ///
    /// # Errors
    /// The server's errno.
    pub fn open(&mut self, path: &str, flags: OpenFlags) -> Result<File, Errno> {
        self.open_laid_out(path, flags, None)
    }

    /// As [`Line::open`]. A file that it makes has the layout.
    ///
    /// # Errors
    /// The server's errno.
    pub fn open_laid_out(
        &mut self,
        path: &str,
        flags: OpenFlags,
        layout: Option<&str>,
    ) -> Result<File, Errno> {
        let layout = layout.map(|text| text.parse().expect("a layout"));
        let request = Request::Open { at: At::new(Ino::ROOT, path), flags, permissions: 0o644, layout };
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

    /// Makes a file with a target on this server, once the file's home has heard of the server.
    ///
    /// # Panics
    /// After [`crate::PATIENCE`].
    pub fn make_on(&mut self, path: &str, server: u16) -> File {
        let mut made = None;
        crate::wait_until("the server is known", || {
            let file = self.open(path, READ_WRITE).expect("opened");
            if file.target_on(server).is_some() {
                made = Some(file);
                return true;
            }
            self.close(&file);
            assert_eq!(self.unlink(path, false), Reply::Done);
            false
        });
        made.expect("made")
    }

    /// Closes a file.
    pub fn close(&mut self, file: &File) {
        let reply = self.reply(&Request::Close { ino: file.ino, handle: file.handle });
        assert_eq!(reply, Reply::Done);
    }

    /// Attributes of a node below the root.
    ///
    /// # Errors
    /// The server's errno.
    pub fn attributes(&mut self, path: &str) -> Result<Attributes, Errno> {
        match self.reply(&Request::Attributes { at: At::new(Ino::ROOT, path), follow: false }) {
            Reply::Attributes(attributes) => Ok(attributes),
            Reply::Failed(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    /// The requests that write `length` bytes of a file at `offset`, each with the range of bytes that it carries.
    pub fn write_requests(file: &File, offset: u64, length: usize) -> Vec<(Request, std::ops::Range<usize>)> {
        let piece_request = |piece: weir_placement::Piece| {
            let target = file.layout.targets()[piece.object];
            let end = piece.file_offset + piece.length;
            let publication =
                Publication { end, written_bytes: piece.length, epoch: file.epoch, reserved_end: 0 };
            let first = (piece.file_offset - offset) as usize;
            let request = Request::Write {
                fence: Fence::NONE,
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

    /// Writes a file all of whose targets belong to this server.
    ///
    /// # Errors
    /// The first reply that is no success.
    pub fn write(&mut self, file: &mut File, offset: u64, bytes: &[u8]) -> Result<(), Reply> {
        for (request, range) in Line::write_requests(file, offset, bytes.len()) {
            match self.call(&request, &bytes[range]).0 {
                Reply::Written { size: Some((size_bytes, _)) } => file.size_bytes = size_bytes,
                other => return Err(other),
            }
        }
        Ok(())
    }

    /// Reads a file all of whose targets belong to this server.
    ///
    /// # Errors
    /// The first reply that is no success.
    pub fn read(&mut self, file: &File, offset: u64, length: usize) -> Result<Vec<u8>, Reply> {
        let mut bytes = Vec::new();
        for piece in file.layout.pieces(offset, length as u64) {
            let request = Request::Read {
                fence: Fence::NONE,
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
    pub fn truncate(&mut self, file: &mut File, size_bytes: u64) {
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
    pub fn unlink(&mut self, path: &str, directory: bool) -> Reply {
        self.reply(&Request::Unlink { at: At::new(Ino::ROOT, path), directory })
    }

    /// Makes a directory below the root.
    pub fn make_directory(&mut self, path: &str) -> Reply {
        let kind = weir_wire::NodeKind::Directory;
        self.reply(&Request::Make { at: At::new(Ino::ROOT, path), kind, permissions: 0o755 })
    }
}
