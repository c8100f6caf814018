//! Requests of clients.

use crate::parameters::{
    AccountNames, AttributeChange, DelegatedJob, Extent, Identity, LockKind, LockRange, LockType, NodeKind,
    OpenFlags, Publication, RenameMode, Seek, XattrMode,
};
#[cfg(doc)]
use crate::Reply;
use crate::{
    At, Capability, Claims, ClientId, Fence, HandleId, IdentityId, Ino, LockOwner, Nonce, ObjectMove,
    PeerRequest, Proof, Sequence,
};
use serde::{Deserialize, Serialize};
use weir_placement::{LayoutSpecification, TargetId};

/// The round of [`Request::ObjectChanges`] after which nothing is noted any more.
pub const ROUND_LAST: u32 = u32::MAX;

/// A request of a client.
///
/// Requests before `Hello` is proved are refused. Data requests go to the server of their target, all others to
/// the home of their inode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The first frame of a connection, with the claims of the client.
    Hello {
        /// The client.
        client: ClientId,
        /// The client's slot for the connection, whose earlier connection is over: nothing that is left of it in the
        /// network or in the server is carried out any more.
        slot: u16,
        /// Its claims.
        claims: Claims,
        /// Its challenge.
        nonce: Nonce,
        /// The client can reach files through a mount of its host as well: beside pages that a mount holds its writes
        /// are refused with [`Reply::PagesHeld`], so that the kernel does them.
        has_mount: bool,
        /// This server has never welcomed the client, which holds nothing here.
        is_new: bool,
    },
    /// Answer to [`Reply::Challenge`].
    Prove {
        /// The answer.
        proof: Proof,
    },
    /// Registers an identity under which later requests of this connection may act (mounts only).
    Identify {
        /// Number it will have on this connection.
        identity: IdentityId,
        /// The identity.
        who: Identity,
        /// Names under which the user is accounted where there is no job, as credentials have them: one user is one user.
        names: AccountNames,
        /// The caller's job; the uid's default job when absent.
        job: Option<DelegatedJob>,
    },
    /// Are you there. Answered at once, also when requests of the same client are queued under a policy.
    Ping,
    /// Asks for the state of the server's locks; answered [`Reply::Held`].
    Fence,
    /// The servers of the store.
    Cluster,

    /// Attributes of a node.
    Attributes {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
    },
    /// May the caller do this (`access(2)`): a mask of R_OK 4, W_OK 2, X_OK 1.
    Access {
        /// The node.
        at: At,
        /// Mask.
        mask: u8,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
    },
    /// Changes attributes, all of them or none; also truncates. Answered [`Reply::Attributes`].
    Change {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
        /// The new values.
        change: AttributeChange,
    },
    /// Opens a file or directory; may create.
    Open {
        /// The node.
        at: At,
        /// The flags of the open.
        flags: OpenFlags,
        /// Permission bits of a file that is made, after the umask.
        permissions: u16,
        /// Layout of a file that is made; its directory's where absent. One that cannot be had makes no file: EINVAL
        /// where it breaks a limit, ENXIO where it names a target that the store has not, EHOSTDOWN one whose server does
        /// not report (or where that leaves none), ENOSPC a full one (or where all others are full).
        layout: Option<LayoutSpecification>,
    },
    /// Ends an open description; its flock and OFD locks go. One that is closed already is success.
    Close {
        /// The file.
        ino: Ino,
        /// The description.
        handle: HandleId,
    },
    /// After a lost connection or a server restart, or by another process after fork and exec: these descriptions
    /// are open here; answered [`Reply::Held`]. Answered ESTALE when one is gone; the others are taken back all the same.
    ///
    /// A client that is not known ([`Reply::Welcome`]) claims its descriptions, then its locks. A claim of no descriptions comes
    /// last, and makes the client known.
    Reclaim {
        /// The capabilities of the descriptions.
        handles: Vec<Capability>,
    },
    /// Makes a node that is not opened; answered [`Reply::Attributes`].
    Make {
        /// Its parent and name.
        at: At,
        /// The kind of the node.
        kind: NodeKind,
        /// Permission bits, after the umask.
        permissions: u16,
    },
    /// Makes a symbolic link; answered [`Reply::Attributes`].
    Symlink {
        /// Its parent and name.
        at: At,
        /// Its target.
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// Reads a symbolic link.
    ReadLink {
        /// The link.
        at: At,
    },
    /// Makes a hard link; answered [`Reply::Attributes`].
    ///
    /// A [`Reply::Redirect`], [`Reply::Escape`] or [`Reply::Stale`] does not say which of the two paths it is about: the
    /// client then resolves `from` to an inode and the directory of `to` to an inode (its path with `/.` behind it asks
    /// for search permission too) and asks again with these and the last name. Two homes are EXDEV.
    Link {
        /// Existing node; a symbolic link at the end is not followed unless `follow`.
        from: At,
        /// Whether it is.
        follow: bool,
        /// Parent and name of the new link.
        to: At,
    },
    /// Removes a name; answered [`Reply::Done`].
    Unlink {
        /// Parent and name.
        at: At,
        /// `rmdir` instead of `unlink`.
        directory: bool,
    },
    /// Moves a name; answered [`Reply::Done`]. Where a path leaves the server, the client resolves both directories, as
    /// for [`Request::Link`], and sends their inodes with the last names (and the slashes behind them).
    Rename {
        /// From.
        from: At,
        /// To.
        to: At,
        /// The treatment of an existing target.
        mode: RenameMode,
    },
    /// Lists a directory from `cookie` (0 at first); the entries are the payload, a postcard sequence of
    /// [`crate::DirectoryEntry`].
    List {
        /// The directory.
        ino: Ino,
        /// Its open description, whose read right replaces the permission check.
        handle: HandleId,
        /// The place at which the listing goes on.
        cookie: u64,
        /// Most bytes of payload.
        bytes: u32,
        /// Whether attributes are wanted.
        attributes: bool,
    },
    /// Reads an extended attribute; the value is the payload.
    XattrGet {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
        /// Name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Sets an extended attribute; the value is the payload.
    XattrSet {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
        /// Name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        /// The treatment of an existing value.
        mode: XattrMode,
    },
    /// Lists extended attributes; the names, each ended by a zero byte, are the payload.
    XattrList {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
    },
    /// Removes an extended attribute.
    XattrRemove {
        /// The node.
        at: At,
        /// Whether a symbolic link at the end is followed.
        follow: bool,
        /// Name.
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
    },
    /// Capacity of this server.
    Statistics,
    /// Makes this server's metadata durable: the journal is on stable storage at the reply.
    SyncMetadata {
        /// The file for which it is done.
        at: At,
    },

    /// Sets, changes or releases a lock; with `wait` the reply comes when it is granted, and is [`Reply::Held`] then.
    ///
    /// For some seconds after a server restart (the grace period) only `reclaim` requests are decided at once: every
    /// other one, also without `wait`, is answered when the period ends. A client that the server does not
    /// know ([`Reply::Welcome`]) sends [`Request::Reclaim`] for its handles, then one `reclaim` per range it held.
    /// ENOLCK says that the lock is lost: another one stands in its way, the period is over, or others may have had it since.
    Lock {
        /// The file.
        ino: Ino,
        /// An open description of it.
        handle: HandleId,
        /// Owner, within this client.
        owner: LockOwner,
        /// Process to report to others.
        pid: u32,
        /// The lock call.
        kind: LockKind,
        /// The type of the lock.
        lock: LockType,
        /// Range.
        range: LockRange,
        /// Whether to wait.
        wait: bool,
        /// The lock was held under this fence before the server restarted or the connection was lost, and is claimed again.
        reclaim: Option<Fence>,
    },
    /// Asks for a lock that would be in the way (`F_GETLK`).
    TestLock {
        /// The file.
        ino: Ino,
        /// The open description; the owner of a lock other than [`LockKind::Posix`].
        handle: HandleId,
        /// Owner, within this client.
        owner: LockOwner,
        /// The lock call.
        kind: LockKind,
        /// The type of the lock.
        lock: LockType,
        /// Range.
        range: LockRange,
    },
    /// Ends the wait of request `waiting` of this client: it is answered EINTR.
    CancelLock {
        /// The file.
        ino: Ino,
        /// The lock request that waits.
        waiting: crate::RequestId,
    },
    /// A process closed a descriptor of the file: all POSIX locks of the owner go.
    ReleaseLocks {
        /// The file.
        ino: Ino,
        /// Owner, within this client.
        owner: LockOwner,
    },

    /// Tells the home that bytes were written: grows the size, sets the modification time. Answered
    /// [`Reply::Written`] or [`Reply::StaleEpoch`].
    Publish {
        /// Right to write the file.
        capability: Capability,
        /// The written bytes.
        publication: Publication,
    },
    /// Appends the payload where one object of this home server can take all of it: one round trip.
    Append {
        /// Right to write the file.
        capability: Capability,
    },
    /// Waits for the file's append turn; answered [`Reply::Turn`] with the offset to write at. A turn that is
    /// not renewed for [`crate::limits::TURN_LEASE_SECONDS`] is lost to others.
    AppendBegin {
        /// Right to write the file.
        capability: Capability,
    },
    /// Ends the append turn and publishes the written bytes (none, when absent). Answered [`Reply::Written`] or
    /// [`Reply::StaleEpoch`]; EBADF means that the turn was lost and nothing was appended.
    AppendEnd {
        /// Right to write the file.
        capability: Capability,
        /// The turn.
        turn: Sequence,
        /// The written bytes.
        publication: Option<Publication>,
    },

    /// Reads extents of an object; their bytes, in order and zero where nothing was written, are the payload.
    Read {
        /// Right to read the file.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
        /// Epoch under which the client knows the size.
        epoch: u64,
        /// The state of the home's locks that the client knows; one that is not the home's is answered
        /// [`Reply::StaleFence`].
        fence: Fence,
        /// The ranges of the object.
        extents: Vec<Extent>,
    },
    /// Writes extents of an object; the payload is their bytes in order.
    Write {
        /// Right to write the file.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
        /// Epoch under which the client knows the size.
        epoch: u64,
        /// The state of the home's locks that the client knows; one that is not the home's is answered
        /// [`Reply::StaleFence`].
        fence: Fence,
        /// The ranges of the object.
        extents: Vec<Extent>,
        /// Published in the same step where this server is the file's home.
        publication: Option<Publication>,
    },
    /// Allocates (`punch` false) or frees (`punch` true) a range of an object.
    Reserve {
        /// Right to write the file.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
        /// Epoch under which the client knows the size.
        epoch: u64,
        /// The state of the home's locks that the client knows; one that is not the home's is answered
        /// [`Reply::StaleFence`].
        fence: Fence,
        /// First byte of the object.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Frees the range: it reads as zeros.
        punch: bool,
    },
    /// Finds the next data or hole of an object, at or after `offset`; answered [`Reply::Position`].
    ObjectSeek {
        /// Right to read the file.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
        /// Epoch under which the client knows the size.
        epoch: u64,
        /// From.
        offset: u64,
        /// Data or a hole.
        seek: Seek,
    },
    /// Makes an object durable: its bytes are on stable storage at the reply.
    SyncObject {
        /// The file, by any right to it.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
    },

    /// Asks for the present places of a file's bytes, with its size and epoch; answered [`Reply::Layout`]. The asking
    /// client holds another layout than [`crate::Attributes::layout_epoch`] names.
    Layout {
        /// The file.
        at: At,
    },
    /// Begins to move objects of a file to other targets (its owner or root only); answered [`Reply::Moving`]. The
    /// objects there are empty at the reply, and no bytes of the file go to them yet. EBUSY: another move of the file
    /// is under way; EINVAL: an object would not be alone on its target. The move ends with its client's session, and
    /// with any cut of the file: whatever asks for it after that is answered ESTALE.
    MoveBegin {
        /// The file.
        at: At,
        /// The objects and their new targets, at most [`crate::limits::STRIPES`].
        moves: Vec<ObjectMove>,
    },
    /// Keeps all other clients from the objects that move, for [`crate::limits::FREEZE_SECONDS`] at most; answered
    /// [`Reply::Frozen`] when the objects have every write that was acknowledged to others, and kernel pages of the
    /// file are dropped.
    MoveFreeze {
        /// The file.
        ino: Ino,
        /// The move.
        moving: Sequence,
    },
    /// Ends a move: with `commit`, which must follow a freeze, the file's bytes are at their new places from now on;
    /// else everything stays as it was.
    MoveEnd {
        /// The file.
        ino: Ino,
        /// The move.
        moving: Sequence,
        /// Whether the layout changes.
        commit: bool,
    },
    /// Asks for the changes of an object since the last round; answered [`Reply::Changes`]. Round 0 begins to note
    /// changes. Each later round is asked for once (or again, with the same answer), and [`ROUND_LAST`] ends it.
    /// ESTALE: the server does not (any longer) note changes for `tracking`, as after a restart.
    ObjectChanges {
        /// Right to write the file.
        capability: Capability,
        /// The target of the object.
        target: TargetId,
        /// A random number of the asking mover.
        tracking: u64,
        /// The round.
        round: u32,
    },

    /// Targets of the file answered ENOSPC. The home lays the bytes behind the file's end on other targets, where the
    /// layout leaves that to the store. Answered [`Reply::Layout`]; ENOSPC: the request for the layout, or the room
    /// that is left, leaves no other place. Bytes beyond every acknowledged size are cut off. Without targets nothing else
    /// happens: so a client takes back the bytes of a write that failed in part.
    Detour {
        /// Right to write the file.
        capability: Capability,
        /// The epoch of the layout that the client wrote by; where there is a later one, that is the answer.
        layout_epoch: u64,
        /// The full ones, at most [`crate::limits::STRIPES`].
        full: Vec<TargetId>,
    },

    /// A mount holds pages of `ino` in the kernel: writes by others wait for it to drop them.
    Watch {
        /// Right to read or write the file.
        capability: Capability,
    },
    /// The mount holds none any more.
    Unwatch {
        /// The file.
        ino: Ino,
    },
    /// Whether a process of the mount believes the kernel's size of a description's file, as each does at first; else it asks the home.
    Follow {
        /// The file.
        ino: Ino,
        /// The description.
        handle: HandleId,
        /// Whether one does.
        is_followed: bool,
    },
    /// Long poll of a mount: confirms invalidation `done`, answered when there is a next one. From its first poll on, a mount is told
    /// the sizes of the files that it has open.
    Invalidations {
        /// The last one that was carried out; 0 at first.
        done: Sequence,
    },

    /// Keeps the append turn for another [`crate::limits::TURN_LEASE_SECONDS`]; EBADF says that it was lost.
    AppendRenew {
        /// Right to write the file.
        capability: Capability,
        /// The turn.
        turn: Sequence,
    },

    /// A message of another server.
    Peer(PeerRequest),
}

impl Request {
    /// The places that the request names by inode and path.
    pub fn places(&self) -> impl Iterator<Item = &At> {
        let (first, second) = match self {
            Request::Attributes { at, .. }
            | Request::Access { at, .. }
            | Request::Change { at, .. }
            | Request::Open { at, .. }
            | Request::Make { at, .. }
            | Request::Symlink { at, .. }
            | Request::ReadLink { at }
            | Request::Unlink { at, .. }
            | Request::XattrGet { at, .. }
            | Request::XattrSet { at, .. }
            | Request::XattrList { at, .. }
            | Request::XattrRemove { at, .. }
            | Request::SyncMetadata { at }
            | Request::Layout { at }
            | Request::MoveBegin { at, .. } => (Some(at), None),
            Request::Link { from, to, .. } | Request::Rename { from, to, .. } => (Some(from), Some(to)),
            Request::Hello { .. }
            | Request::Prove { .. }
            | Request::Identify { .. }
            | Request::Ping
            | Request::Fence
            | Request::Cluster
            | Request::Close { .. }
            | Request::Reclaim { .. }
            | Request::List { .. }
            | Request::Statistics
            | Request::Lock { .. }
            | Request::TestLock { .. }
            | Request::CancelLock { .. }
            | Request::ReleaseLocks { .. }
            | Request::Publish { .. }
            | Request::Append { .. }
            | Request::AppendBegin { .. }
            | Request::AppendEnd { .. }
            | Request::Read { .. }
            | Request::Write { .. }
            | Request::Reserve { .. }
            | Request::ObjectSeek { .. }
            | Request::SyncObject { .. }
            | Request::MoveFreeze { .. }
            | Request::MoveEnd { .. }
            | Request::ObjectChanges { .. }
            | Request::AppendRenew { .. }
            | Request::Detour { .. }
            | Request::Watch { .. }
            | Request::Unwatch { .. }
            | Request::Follow { .. }
            | Request::Invalidations { .. }
            | Request::Peer(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}
