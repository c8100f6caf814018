//! Operations on names and attributes.

use crate::exchange::{call, call_while_remembered, Call, Message};
use crate::paths::{Load, Walk};
use crate::place::Final;
use crate::pool::{look, owe, Lane};
use crate::several::call_all;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, Invalidation, Listing, Opened, Place, Result, Store};
use std::io::IoSlice;
use weir_placement::{LayoutSpecification, ServerId};
use weir_wire::{
    decode_body, limits, At, AttributeChange, Attributes, Capability, DirectoryEntry, HandleId, Ino,
    NodeKind, OpenFlags, RenameMode, Reply, Request, Room, RoomReport, Sequence, XattrMode,
};

/// The figures of `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// The room on all targets.
    pub room: Room,
    /// Inodes that exist.
    pub inodes: u64,
    /// Inodes that can still be made.
    pub inodes_free: u64,
}

impl Store {
    /// The attributes of a node.
    ///
    /// # Errors
    /// The errors of `stat(2)`.
    pub fn attributes(&self, caller: &Caller, place: Place<'_>, follow: bool) -> Result<Attributes> {
        self.walk(caller)?.attributes(place, follow)
    }

    /// Checks the caller's rights in `mask` (R_OK 4, W_OK 2, X_OK 1; 0 asks for existence).
    ///
    /// # Errors
    /// The errors of `access(2)`.
    pub fn access(&self, caller: &Caller, place: Place<'_>, mask: u8, follow: bool) -> Result<()> {
        let request = |at| Request::Access { at, mask, follow };
        self.walk(caller)?.ask(place, Final::Node, Load::none(), request).map(|_| ())
    }

    /// Changes attributes, also the size. Answers the attributes after the change.
    ///
    /// # Errors
    /// The errors of `chmod(2)`, `chown(2)`, `utimensat(2)`, `truncate(2)`.
    pub fn change(
        &self,
        caller: &Caller,
        place: Place<'_>,
        follow: bool,
        change: AttributeChange,
    ) -> Result<Attributes> {
        let walk = self.walk(caller)?;
        let reply =
            walk.ask(place, Final::Node, Load::none(), |at| Request::Change { at, follow, change })?;
        made(&walk, place, reply, "Change")
    }

    /// Opens a file or directory, which the flags may ask to make. The description belongs to this client until
    /// [`Store::close`].
    ///
    /// # Errors
    /// The errors of `open(2)`.
    pub fn open(
        &self,
        caller: &Caller,
        place: Place<'_>,
        flags: OpenFlags,
        permissions: u16,
    ) -> Result<Opened> {
        self.open_laid_out(caller, place, flags, permissions, None)
    }

    /// Opens a node. A file that is made gets `layout`, or its directory's layout where `layout` is absent.
    ///
    /// # Errors
    /// The errors of `open(2)`; `EINVAL` for a layout outside the store's limits; `ENXIO` for a layout with a target that the
    /// store lacks or cannot use now. No file is made then.
    pub fn open_laid_out(
        &self,
        caller: &Caller,
        place: Place<'_>,
        flags: OpenFlags,
        permissions: u16,
        layout: Option<&LayoutSpecification>,
    ) -> Result<Opened> {
        let walk = self.walk_uncounted(caller)?;
        Counters::add(&self.counters().opens, 1);
        let last = if flags.create { Final::Entry } else { Final::Node };
        let request = |at| Request::Open { at, flags, permissions, layout: layout.cloned() };
        let Reply::Opened { attributes, handle, capability, layout, created } =
            walk.ask(place, last, Load::none(), request)?
        else {
            return Err(walk.unexpected(place, "Open"));
        };
        self.hold(capability)?;
        Ok(Opened { attributes, handle, capability, layout, created })
    }

    /// Ends an open description.
    ///
    /// # Errors
    /// A lost server.
    pub fn close(&self, caller: &Caller, ino: Ino, handle: HandleId) -> Result<()> {
        // The record goes first, so that a reconnection in the midst of this call does not claim the description again.
        let environment = self.environment()?;
        let link = environment.link(ino.home())?;
        if let Some(mut held) = look(&link.held) {
            held.close(handle);
        }
        let request = Request::Close { ino, handle };
        let closed = self.ask_server(caller, ino.home(), &request).map(|_| ());
        if matches!(&closed, Err(error) if error.is_open()) {
            owe(link, |held| held.owe(request));
        }
        closed
    }

    /// Registers a description as held by this client, too. Another process of this host opened the description, before
    /// `fork` or `exec`; the description now outlives that process.
    ///
    /// # Errors
    /// `ESTALE` where the server no longer knows the description.
    pub fn adopt(&self, capability: Capability) -> Result<()> {
        self.adopt_for(&Caller::own(), capability)
    }

    /// [`Store::adopt`] for a description of `caller`.
    pub(crate) fn adopt_for(&self, caller: &Caller, capability: Capability) -> Result<()> {
        let request = Request::Reclaim { handles: vec![capability] };
        let home = capability.ino.home();
        if let Reply::Held { fence } = self.ask_server(caller, home, &request)? {
            // The other process may have locked the file through the description.
            self.environment()?.link(home)?.standing.note_fence(fence);
        }
        self.hold(capability)
    }

    /// Makes a directory, regular file, fifo, socket or device.
    ///
    /// # Errors
    /// The errors of `mknod(2)` and `mkdir(2)`.
    pub fn make(
        &self,
        caller: &Caller,
        place: Place<'_>,
        kind: NodeKind,
        permissions: u16,
    ) -> Result<Attributes> {
        let walk = self.walk(caller)?;
        let request = |at| Request::Make { at, kind, permissions };
        let reply = walk.ask(place, Final::Entry, Load::none(), request)?;
        made(&walk, place, reply, "Make")
    }

    /// Makes a symbolic link to `target`.
    ///
    /// # Errors
    /// The errors of `symlink(2)`.
    pub fn symlink(&self, caller: &Caller, place: Place<'_>, target: &[u8]) -> Result<Attributes> {
        if target.len() >= limits::PATH_BYTES {
            return Err(ClientError::number(libc::ENAMETOOLONG));
        }
        let walk = self.walk(caller)?;
        let request = |at| Request::Symlink { at, target: target.to_vec() };
        let reply = walk.ask(place, Final::Entry, Load::none(), request)?;
        made(&walk, place, reply, "Symlink")
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// The errors of `readlink(2)`.
    pub fn read_link(&self, caller: &Caller, place: Place<'_>) -> Result<Vec<u8>> {
        let walk = self.walk(caller)?;
        match walk.ask(place, Final::Entry, Load::none(), |at| Request::ReadLink { at })? {
            Reply::Link { target } => Ok(target),
            _ => Err(walk.unexpected(place, "ReadLink")),
        }
    }

    /// Makes a hard link. Answers the attributes of the node.
    ///
    /// # Errors
    /// The errors of `link(2)`; `EXDEV` between trees of different homes.
    pub fn link(&self, caller: &Caller, from: Place<'_>, follow: bool, to: Place<'_>) -> Result<Attributes> {
        let walk = self.walk(caller)?;
        let request = |from, to| Request::Link { from, follow, to };
        let reply = match two_paths_at_once(self, &walk, (from, Final::Entry), to, request)? {
            Some(reply) => reply,
            None => {
                let (_, node) = walk.found(from, follow)?;
                let to = walk.entry(to)?;
                if node.ino.home() != to.ino.home() {
                    return Err(ClientError::number(libc::EXDEV));
                }
                let home = to.ino.home();
                self.ask_server(caller, home, &request(node, to))?
            }
        };
        made(&walk, to, reply, "Link")
    }

    /// Removes a name: that of a directory where `directory` is set, else that of another node.
    ///
    /// # Errors
    /// The errors of `unlink(2)` and `rmdir(2)`.
    pub fn unlink(&self, caller: &Caller, place: Place<'_>, directory: bool) -> Result<()> {
        let request = |at| Request::Unlink { at, directory };
        self.walk(caller)?.ask(place, Final::Entry, Load::none(), request).map(|_| ())
    }

    /// Moves a name.
    ///
    /// # Errors
    /// The errors of `renameat2(2)`; `EXDEV` between trees of different homes.
    pub fn rename(&self, caller: &Caller, from: Place<'_>, to: Place<'_>, mode: RenameMode) -> Result<()> {
        let walk = self.walk(caller)?;
        let request = |from, to| Request::Rename { from, to, mode };
        if two_paths_at_once(self, &walk, (from, Final::Entry), to, request)?.is_some() {
            return Ok(());
        }
        let (from, to) = (walk.entry(from)?, walk.entry(to)?);
        let home = from.ino.home();
        if home != to.ino.home() {
            return Err(ClientError::number(libc::EXDEV));
        }
        self.ask_server(caller, home, &request(from, to)).map(|_| ())
    }

    /// The part of an open directory that begins at `cookie` (0 at first), of at most `bytes` encoded bytes.
    ///
    /// # Errors
    /// The errors of `getdents64(2)`.
    pub fn list(
        &self,
        caller: &Caller,
        ino: Ino,
        handle: HandleId,
        cookie: u64,
        bytes: u32,
        attributes: bool,
    ) -> Result<Listing> {
        let environment = self.environment()?;
        Counters::add(&self.counters().metadata_calls, 1);
        let bytes = bytes.min(limits::INLINE_PAYLOAD_BYTES as u32);
        let request = Request::List { ino, handle, cookie, bytes, attributes };
        let mut payload = Vec::new();
        let list = Call {
            server: ino.home(),
            lane: Lane::Small,
            message: Message::Plain(&request),
            payload: &[],
            sink: Sink::Vector(&mut payload),
        };
        let bad = || ClientError::UnexpectedReply { server: ino.home(), request: "List" };
        let Reply::Listing { end } = call(environment, caller, list)?.0 else { return Err(bad()) };
        let entries: Vec<DirectoryEntry> = decode_body(&payload, "listing").map_err(|_| bad())?;
        Ok(Listing { entries, end })
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// The errors of `getxattr(2)`.
    pub fn xattr(&self, caller: &Caller, place: Place<'_>, follow: bool, name: &[u8]) -> Result<Vec<u8>> {
        check_xattr_name(name)?;
        let mut value = Vec::new();
        let load = Load { payload: &[], received: Some(&mut value) };
        let request = |at| Request::XattrGet { at, follow, name: name.to_vec() };
        self.walk(caller)?.ask(place, Final::Node, load, request)?;
        Ok(value)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// The errors of `setxattr(2)`.
    pub fn set_xattr(
        &self,
        caller: &Caller,
        place: Place<'_>,
        follow: bool,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        check_xattr_name(name)?;
        if value.len() > limits::XATTR_VALUE_BYTES {
            return Err(ClientError::number(libc::E2BIG));
        }
        let payload = [IoSlice::new(value)];
        let load = Load { payload: &payload, received: None };
        let request = |at| Request::XattrSet { at, follow, name: name.to_vec(), mode };
        self.walk(caller)?.ask(place, Final::Node, load, request).map(|_| ())
    }

    /// The names of the extended attributes, each ended by a zero byte.
    ///
    /// # Errors
    /// The errors of `listxattr(2)`.
    pub fn xattr_names(&self, caller: &Caller, place: Place<'_>, follow: bool) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        let load = Load { payload: &[], received: Some(&mut names) };
        self.walk(caller)?.ask(place, Final::Node, load, |at| Request::XattrList { at, follow })?;
        Ok(names)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// The errors of `removexattr(2)`.
    pub fn remove_xattr(&self, caller: &Caller, place: Place<'_>, follow: bool, name: &[u8]) -> Result<()> {
        check_xattr_name(name)?;
        let request = |at| Request::XattrRemove { at, follow, name: name.to_vec() };
        self.walk(caller)?.ask(place, Final::Node, Load::none(), request).map(|_| ())
    }

    /// The room and the inodes of all servers that answer within half of the bound on silence.
    ///
    /// # Errors
    /// The last error, where no server answers.
    pub fn statistics(&self, caller: &Caller) -> Result<StoreStatistics> {
        let environment = self.environment()?.brief();
        Counters::add(&self.counters().metadata_calls, 1);
        let request = Request::Statistics;
        environment.look_for_servers();
        let servers = environment.session().links.iter().map(|link| link.server());
        let mut calls: Vec<Call<'_, '_>> = servers.map(|server| plain(server, &request)).collect();
        let mut reports = Vec::new();
        let mut failure = ClientError::number(libc::EIO);
        for answer in call_all(environment, caller, &mut calls) {
            match answer {
                Ok((Reply::Statistics(report), _)) => reports.push(report),
                Ok(_) => {}
                Err(error) => failure = error,
            }
        }
        if reports.is_empty() {
            return Err(failure);
        }
        let inodes = |count: fn(&RoomReport) -> u64| reports.iter().map(count).fold(0, u64::saturating_add);
        Ok(StoreStatistics {
            room: Room::of(reports.iter().flat_map(|report| report.targets.iter().copied())),
            inodes: inodes(|report| report.inodes),
            inodes_free: inodes(|report| report.inodes_free),
        })
    }

    /// Makes the metadata of `ino`, such as a directory, durable.
    ///
    /// # Errors
    /// The errors of `fsync(2)`.
    pub fn sync_metadata(&self, caller: &Caller, ino: Ino) -> Result<()> {
        Counters::add(&self.counters().sync_calls, 1);
        self.ask_server(caller, ino.home(), &Request::SyncMetadata { at: At::inode(ino) }).map(|_| ())
    }

    /// A number that changes when `server` may have forgotten this client's requests, such as [`crate::File::watch`]: after
    /// a connection broke, or the server started anew.
    ///
    /// # Errors
    /// An unreadable cluster.json or credential; an unknown server.
    pub fn memory(&self, server: ServerId) -> Result<u64> {
        Ok(self.environment()?.link(server)?.standing.memory())
    }

    /// Confirms the invalidation `done` (0 at first), and waits for the server's next one while the server's
    /// [`Store::memory`] stays. A mount has a thread for each server that makes this call.
    ///
    /// # Errors
    /// A lost server, or a server that may have forgotten the watches.
    pub fn next_invalidation(&self, server: ServerId, done: Sequence, memory: u64) -> Result<Invalidation> {
        let environment = self.environment()?;
        let request = Request::Invalidations { done };
        let wait = Call { lane: Lane::Waiting, ..plain(server, &request) };
        match call_while_remembered(environment, wait, memory)?.0 {
            Reply::Invalidate { sequence, files, moved } => Ok(Invalidation { sequence, files, moved }),
            _ => Err(ClientError::UnexpectedReply { server, request: "Invalidations" }),
        }
    }

    /// Asks one server on its small lane.
    pub(crate) fn ask_server(&self, caller: &Caller, server: ServerId, request: &Request) -> Result<Reply> {
        Ok(call(self.environment()?, caller, plain(server, request))?.0)
    }

    fn hold(&self, capability: Capability) -> Result<()> {
        let link = self.environment()?.link(capability.ino.home())?;
        if let Some(mut held) = look(&link.held) {
            held.handles.insert(capability.handle, capability);
        }
        Ok(())
    }
}

/// A small request without payload.
pub(crate) fn plain<'a, 'u>(server: ServerId, request: &'a Request) -> Call<'a, 'u> {
    Call { server, lane: Lane::Small, message: Message::Plain(request), payload: &[], sink: Sink::None }
}

fn check_xattr_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(ClientError::number(libc::ERANGE)),
        length if length > limits::XATTR_NAME_BYTES => Err(ClientError::number(libc::ERANGE)),
        _ => Ok(()),
    }
}

fn made(walk: &Walk<'_>, place: Place<'_>, reply: Reply, request: &'static str) -> Result<Attributes> {
    match reply {
        Reply::Attributes(attributes) => Ok(attributes),
        _ => Err(walk.unexpected(place, request)),
    }
}

/// Makes the request in one round trip where both paths begin at the same home. Answers nothing where either path leads
/// away from that home.
fn two_paths_at_once(
    store: &Store,
    walk: &Walk<'_>,
    (from, last): (Place<'_>, Final),
    to: Place<'_>,
    request: impl Fn(At, At) -> Request,
) -> Result<Option<Reply>> {
    let from = walk.anchors.start(from, last)?;
    let to = walk.anchors.start(to, Final::Entry)?;
    let home = from.ino.home();
    if to.ino.home() != home {
        return Ok(None);
    }
    match store.ask_server(walk.caller, home, &request(from, to))? {
        Reply::Redirect { .. } | Reply::Escape { .. } | Reply::Stale => Ok(None),
        reply => Ok(Some(reply)),
    }
}
