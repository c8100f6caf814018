//! The records of the journal: every way in which the state of the namespace changes.
//!
//! A record is appended to the enum, never reordered or altered: postcard numbers variants by position.

use serde::{Deserialize, Serialize};
use weir_placement::{Layout, LayoutRequest, LayoutSpecification, ServerId, TargetId};
use weir_wire::{limits, ClientId, FileKind, HandleId, Ino, Moment, ObjectMove, RequestId, Rights};

/// A name or value, without a copy per byte in the encoded record.
pub type Bytes = serde_bytes::ByteBuf;

/// Number of an intent: work on other servers or on targets that outlives the reply. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentId(pub u64);

/// One change of the namespace. Applying the same changes in the same order gives the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The server started; unlinked files and reply records of earlier starts are kept for the grace period.
    Started {
        /// Grows with every start; the upper half of this start's handles.
        number: u32,
        /// When.
        at: Moment,
    },
    /// Numbers that go on from here (written when the journal is compacted).
    Counted {
        /// Inodes made so far, as the next sequence number.
        next_sequence: u64,
        /// The next intent.
        next_intent: u64,
        /// The last start.
        starts: u32,
    },
    /// An inode without its entries, as it stands (written when the journal is compacted).
    Kept {
        /// The inode.
        ino: Ino,
        /// All of it.
        inode: Box<super::inode::Inode>,
    },
    /// An entry under its cookie, as it stands (written when the journal is compacted).
    EntryKept {
        /// The directory.
        directory: Ino,
        /// Its cookie.
        cookie: u64,
        /// Its name.
        name: Bytes,
        /// Inode.
        ino: Ino,
        /// Kind.
        kind: FileKind,
    },
    /// A node was made under a name.
    Created {
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The node.
        ino: Ino,
        /// What it is.
        birth: Birth,
        /// When.
        at: Moment,
    },
    /// A regular file was made without a name (O_TMPFILE).
    CreatedUnnamed {
        /// The file.
        ino: Ino,
        /// What it is.
        birth: Birth,
        /// Whether a name may be given to it later.
        linkable: bool,
        /// When.
        at: Moment,
    },
    /// A name was given to an inode of this server, or to a directory of another one.
    Linked {
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The node.
        ino: Ino,
        /// Its kind.
        kind: FileKind,
        /// When.
        at: Moment,
    },
    /// A name was removed; the link count of its inode dropped.
    Unlinked {
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// When.
        at: Moment,
    },
    /// A name was moved, over an existing one if there was one.
    Moved {
        /// Directory of the entry.
        from: Ino,
        /// Name of the entry.
        from_name: Bytes,
        /// Directory that receives it.
        to: Ino,
        /// Name that it receives.
        to_name: Bytes,
        /// Whether the two entries changed places.
        exchange: bool,
        /// Intents that tell the homes of directories that their entries moved: of `from`, of `to`.
        reparents: [Option<IntentId>; 2],
        /// When.
        at: Moment,
    },
    /// An inode without names and open descriptions is gone; its objects are removed under an intent.
    Disposed {
        /// The inode.
        ino: Ino,
        /// Absent when it has no objects.
        removal: Option<IntentId>,
    },
    /// Attributes were set.
    AttributesSet {
        /// The inode.
        ino: Ino,
        /// Permission bits.
        permissions: Option<u16>,
        /// Owner.
        uid: Option<u32>,
        /// Group.
        gid: Option<u32>,
        /// Access time.
        accessed: Option<Moment>,
        /// Modification time.
        modified: Option<Moment>,
        /// When.
        at: Moment,
    },
    /// A file was shortened or lengthened. With an intent, the size holds once its objects have been cut.
    Resized {
        /// The file.
        ino: Ino,
        /// New size.
        size_bytes: u64,
        /// Set-id bits may have gone.
        permissions: Option<u16>,
        /// Cuts the objects; absent when no byte was ever written.
        cut: Option<IntentId>,
        /// When.
        at: Moment,
    },
    /// Bytes were written.
    Published {
        /// The file.
        ino: Ino,
        /// Size after it.
        size_bytes: u64,
        /// Bytes that hold data.
        allocated_bytes: u64,
        /// Set-id bits may have gone.
        permissions: Option<u16>,
        /// When.
        at: Moment,
    },
    /// Objects of the file may exist although nothing was published.
    Touched {
        /// The file.
        ino: Ino,
    },
    /// An extended attribute was set, or removed when it has no value.
    XattrSet {
        /// The inode.
        ino: Ino,
        /// Name.
        name: Bytes,
        /// Value.
        value: Option<Bytes>,
        /// When.
        at: Moment,
    },
    /// A directory got defaults for layouts.
    LayoutRequested {
        /// The directory.
        ino: Ino,
        /// All of them.
        request: LayoutRequest,
        /// When.
        at: Moment,
    },
    /// Another server is being asked.
    Intended {
        /// Number.
        id: IntentId,
        /// What.
        intent: Intent,
    },
    /// An intent was carried out or given up.
    Settled {
        /// Number.
        id: IntentId,
    },
    /// A directory was made here for an entry on another server.
    MadeForPeer {
        /// The other server.
        from: ServerId,
        /// Its intent.
        intent: IntentId,
        /// Its intents below this one are settled.
        settled: IntentId,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The directory.
        ino: Ino,
        /// What it is.
        birth: Birth,
        /// When.
        at: Moment,
    },
    /// A directory that was made for another server (written when the journal is compacted).
    MadeKept {
        /// The other server.
        from: ServerId,
        /// Its intent.
        intent: IntentId,
        /// The directory.
        ino: Ino,
    },
    /// The directory made for an intent of another server is not wanted.
    ForgottenForPeer {
        /// The other server.
        from: ServerId,
        /// Its intent.
        intent: IntentId,
    },
    /// An empty directory whose entry is on another server lost its only name.
    DirectoryRemoved {
        /// The directory.
        ino: Ino,
        /// When.
        at: Moment,
    },
    /// The entry of a directory moved on another server.
    Reparented {
        /// The directory.
        ino: Ino,
        /// The other server's intent; older ones are ignored.
        intent: IntentId,
        /// Its parent.
        parent: Ino,
        /// Its name.
        name: Bytes,
    },
    /// The reply of a request, for a resend.
    Remembered {
        /// The client.
        client: ClientId,
        /// Its request.
        request: RequestId,
        /// Requests below this one are never sent again.
        acknowledged: RequestId,
        /// What was answered.
        outcome: Outcome,
    },
    /// A client is gone for good: its reply records go.
    ClientForgotten {
        /// The client.
        client: ClientId,
    },
    /// A client begins to copy objects of a file to other targets.
    MoveBegun {
        /// The file.
        ino: Ino,
        /// Who moves it.
        client: ClientId,
        /// What goes where.
        moves: Vec<ObjectMove>,
        /// Empties the objects there; the number of the move.
        prepare: IntentId,
    },
    /// The objects that move are kept from everyone else.
    MoveFrozen {
        /// The file.
        ino: Ino,
        /// Pending as long as they are.
        freeze: IntentId,
        /// Raises their epochs.
        fence: IntentId,
        /// When.
        at: Moment,
    },
    /// The objects were copied: the file's layout names their new places.
    Relaid {
        /// The file.
        ino: Ino,
        /// Raises the epochs of the copies, which shuts the one who made them out.
        seal: IntentId,
        /// Empties the objects that were copied.
        vacate: IntentId,
    },
    /// A move was given up: the layout stays.
    MoveAbandoned {
        /// The file.
        ino: Ino,
        /// Empties the copies.
        vacate: IntentId,
    },
    /// A move as it stands (written when the journal is compacted).
    MoveKept {
        /// The file.
        ino: Ino,
        /// The move.
        record: MoveRecord,
    },
    /// A file without bytes, open nowhere, got another layout.
    LaidOut {
        /// The file.
        ino: Ino,
        /// Its layout.
        layout: Layout,
        /// What was asked of it.
        asked: Box<LayoutSpecification>,
        /// When.
        at: Moment,
    },
    /// Targets are full: from its end on the file goes to others.
    Detoured {
        /// The file.
        ino: Ino,
        /// Its layout, the same as before as far as the file has bytes.
        layout: Layout,
        /// Raises the epochs of its objects, and cuts off what nobody published.
        seal: IntentId,
        /// When.
        at: Moment,
    },
}

/// A move of objects of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveRecord {
    /// Its number.
    pub id: IntentId,
    /// Who copies.
    pub client: ClientId,
    /// What goes where.
    pub moves: Vec<ObjectMove>,
    /// While the objects are kept from others.
    pub freeze: Option<Frozen>,
}

/// The end of a move, in which its objects are kept from everyone else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// Pending as long as they are.
    pub intent: IntentId,
    /// Settled once no write of others is on its way to them.
    pub fence: IntentId,
    /// Since when.
    pub since: Moment,
}

/// A new inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Birth {
    /// Kind, with what only that kind has.
    pub node: BirthNode,
    /// Permission bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a new inode is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BirthNode {
    /// A regular file.
    Regular {
        /// Where its bytes go.
        layout: Layout,
        /// What was asked of that; absent where nothing was.
        asked: Option<Box<LayoutSpecification>>,
    },
    /// A directory.
    Directory {
        /// Defaults for the layouts of files made in it.
        request: LayoutRequest,
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Bytes,
    },
    /// A pipe, socket or device node.
    Special {
        /// Which.
        kind: FileKind,
        /// Device number; 0 for pipes and sockets.
        device: u64,
    },
}

/// Work on targets or other servers that is carried out again after a restart until it is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Intent {
    /// Objects of a file are being cut; then the size and epoch hold.
    Cut {
        /// The file.
        ino: Ino,
        /// Size that it gets.
        size_bytes: u64,
        /// Epoch that it gets.
        epoch: u64,
        /// Objects and the lengths that they get.
        objects: Vec<(TargetId, u64)>,
        /// Modification time that it gets.
        at: Moment,
    },
    /// Objects of a file that is gone.
    Remove {
        /// The file.
        ino: Ino,
        /// Its targets.
        targets: Vec<TargetId>,
    },
    /// Another server is making a directory; unless an entry follows it must forget it.
    MakeDirectory {
        /// The other server.
        server: ServerId,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
    },
    /// Another server must forget the directory of this intent.
    ForgetDirectory {
        /// The other server.
        server: ServerId,
        /// The intent under which it was made.
        made: IntentId,
    },
    /// Another server is removing a directory; then its entry goes.
    RemoveDirectory {
        /// The directory.
        ino: Ino,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// Only this user may.
        owner_only: Option<u32>,
        /// The request that it carries out, unless it is only a part of one: a resend finds its reply.
        request: Option<(ClientId, RequestId)>,
    },
    /// Another server must learn that the entry of its directory moved.
    Reparent {
        /// The directory.
        ino: Ino,
        /// Its parent.
        parent: Ino,
        /// Its name.
        name: Bytes,
    },
    /// Epochs of objects that nobody uses are being raised: of copies, and of objects whose copies took their place.
    /// Nobody waits for it.
    Fence {
        /// The file.
        ino: Ino,
        /// Epoch that they get.
        epoch: u64,
        /// Objects and the lengths that they get.
        objects: Vec<(TargetId, u64)>,
    },
    /// Objects are kept from everyone but the one who moves them.
    Freeze {
        /// The file.
        ino: Ino,
    },
    /// Copies get the epoch of the layout that names them; then the file is open to all again.
    Seal {
        /// The file.
        ino: Ino,
        /// Epoch that they get.
        epoch: u64,
        /// Objects and the lengths that they get.
        objects: Vec<(TargetId, u64)>,
    },
}

/// What a resend of a request is answered. Attributes are those of the moment of the resend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reply.
    pub kind: OutcomeKind,
    /// The reply waits until these intents are settled.
    pub wait: Vec<IntentId>,
}

/// The kinds of replies that are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeKind {
    /// `Reply::Done`.
    Done,
    /// `Reply::Attributes` of this inode.
    Attributes(Ino),
    /// `Reply::Attributes` of a directory of another server, as it was made.
    Made(Box<weir_wire::Attributes>),
    /// `Reply::Opened`.
    Opened {
        /// The file.
        ino: Ino,
        /// The description.
        handle: HandleId,
        /// What it may do.
        rights: Rights,
        /// Whether the call made the file.
        created: bool,
    },
    /// `Reply::Written` of a published append.
    Written {
        /// Size after it.
        size_bytes: u64,
        /// Epoch of that size.
        epoch: u64,
    },
    /// `Reply::Appended`.
    Appended {
        /// Where.
        offset: u64,
        /// Size after it.
        size_bytes: u64,
        /// Epoch of that size.
        epoch: u64,
    },
    /// `Reply::Moving`.
    Moving {
        /// The file.
        ino: Ino,
        /// The move.
        id: IntentId,
    },
    /// `Reply::Frozen`.
    Frozen {
        /// Epoch of the freeze.
        epoch: u64,
    },
    /// `Reply::Layout` of this file.
    Layout(Ino),
}

/// As the length of a fence: no byte goes.
pub(super) const NO_CUT: u64 = limits::FILE_BYTES;

impl Intent {
    /// Cuts every object of `file` to what both the old and the new size hold: also a file that is lengthened is
    /// cut at its old size, so that bytes that a dying writer left behind it never appear.
    pub(super) fn cut(ino: Ino, file: &super::inode::RegularFile, size_bytes: u64, at: Moment) -> Intent {
        let kept = size_bytes.min(file.size_bytes);
        let objects = file.layout.targets().iter().enumerate();
        let objects =
            objects.map(|(object, &target)| (target, file.layout.object_bytes(object, kept))).collect();
        Intent::Cut { ino, size_bytes, epoch: file.epoch + 1, objects, at }
    }
}
