//! The records of the journal: every change of the namespace's state.
//!
//! A new record stands at the end of the enum, and no record is moved or altered: postcard numbers variants by position.

use super::files::{Birth, Inode};
use super::intents::{Bytes, Intent, IntentId};
use super::moves::MoveRecord;
use serde::{Deserialize, Serialize};
use weir_placement::{Layout, LayoutRequest, LayoutSpecification, ServerId};
use weir_wire::{ClientId, FileKind, HandleId, Ino, Moment, ObjectMove, RequestId, Rights};

/// One change of the namespace. Applying the same changes in the same order gives the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The server started; unlinked files and reply records of earlier starts are kept for the grace period.
    Started {
        /// The number of the start, which grows with every start: the upper half of this start's handles.
        number: u32,
        /// The moment of the change.
        at: Moment,
        /// The journal is older than the objects, which may have epochs that it does not know: those of all files are greater from now on.
        is_older: bool,
    },
    /// The next numbers (written when the journal is compacted).
    Counted {
        /// The next sequence number of an inode.
        next_sequence: u64,
        /// The next intent.
        next_intent: u64,
        /// The last start.
        starts: u32,
    },
    /// An inode without its entries (written when the journal is compacted).
    Kept {
        /// The number of the inode.
        ino: Ino,
        /// The inode.
        inode: Box<Inode>,
    },
    /// An entry under its cookie (written when the journal is compacted).
    EntryKept {
        /// The directory.
        directory: Ino,
        /// The entry's cookie.
        cookie: u64,
        /// The entry's name.
        name: Bytes,
        /// The entry's inode.
        ino: Ino,
        /// The inode's kind.
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
        /// The new inode.
        birth: Birth,
        /// The moment of the change.
        at: Moment,
    },
    /// A regular file was made without a name (O_TMPFILE).
    CreatedUnnamed {
        /// The file.
        ino: Ino,
        /// The new inode.
        birth: Birth,
        /// Whether the file may get a name later.
        linkable: bool,
        /// The moment of the change.
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
        /// The node's kind.
        kind: FileKind,
        /// The moment of the change.
        at: Moment,
    },
    /// A name was removed; the link count of its inode dropped.
    Unlinked {
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The moment of the change.
        at: Moment,
    },
    /// A name was moved, over an existing name if there was one.
    Moved {
        /// Directory of the entry.
        from: Ino,
        /// Name of the entry.
        from_name: Bytes,
        /// New directory of the entry.
        to: Ino,
        /// New name of the entry.
        to_name: Bytes,
        /// Whether the two entries changed places.
        exchange: bool,
        /// Intents that tell the homes of the directories behind `from` and `to` that their entries moved.
        reparents: [Option<IntentId>; 2],
        /// The moment of the change.
        at: Moment,
    },
    /// An inode without names and open descriptions is gone; an intent removes its objects.
    Disposed {
        /// The inode.
        ino: Ino,
        /// The intent; absent if the inode has no objects.
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
        /// The moment of the change.
        at: Moment,
    },
    /// A file was shortened or lengthened. With an intent, the size holds once its objects have been cut.
    Resized {
        /// The file.
        ino: Ino,
        /// New size.
        size_bytes: u64,
        /// The permissions without set-id bits, if these went.
        permissions: Option<u16>,
        /// The intent that cuts the objects; absent if no byte was ever written.
        cut: Option<IntentId>,
        /// The moment of the change.
        at: Moment,
    },
    /// Bytes were written.
    Published {
        /// The file.
        ino: Ino,
        /// Size after the write.
        size_bytes: u64,
        /// Bytes that hold data.
        allocated_bytes: u64,
        /// A range may have been freed.
        punched: bool,
        /// The permissions without set-id bits, if these went.
        permissions: Option<u16>,
        /// The moment of the change.
        at: Moment,
    },
    /// Objects of the file may exist although nothing was published.
    Touched {
        /// The file.
        ino: Ino,
    },
    /// An extended attribute was set, or removed if the record has no value.
    XattrSet {
        /// The inode.
        ino: Ino,
        /// Name.
        name: Bytes,
        /// Value.
        value: Option<Bytes>,
        /// The moment of the change.
        at: Moment,
    },
    /// A directory got defaults for layouts.
    LayoutRequested {
        /// The directory.
        ino: Ino,
        /// The defaults.
        request: LayoutRequest,
        /// The moment of the change.
        at: Moment,
    },
    /// An intent began.
    Intended {
        /// The intent's number.
        id: IntentId,
        /// The user for whom the server keeps the intent.
        uid: u32,
        /// The intent.
        intent: Intent,
    },
    /// An intent was carried out or given up.
    Settled {
        /// The intent's number.
        id: IntentId,
    },
    /// A directory was made here for an entry on another server.
    MadeForPeer {
        /// The other server.
        from: ServerId,
        /// The other server's intent.
        intent: IntentId,
        /// The other server's intents below this one are settled.
        settled: IntentId,
        /// Directory of the entry.
        parent: Ino,
        /// Name of the entry.
        name: Bytes,
        /// The directory.
        ino: Ino,
        /// The new inode.
        birth: Birth,
        /// The moment of the change.
        at: Moment,
    },
    /// A directory that was made for another server (written when the journal is compacted).
    MadeKept {
        /// The other server.
        from: ServerId,
        /// The other server's intent.
        intent: IntentId,
        /// The directory.
        ino: Ino,
    },
    /// The directory that was made for an intent of another server is not wanted.
    ForgottenForPeer {
        /// The other server.
        from: ServerId,
        /// The other server's intent.
        intent: IntentId,
    },
    /// An empty directory whose entry is on another server lost its only name.
    DirectoryRemoved {
        /// The directory.
        ino: Ino,
        /// The moment of the change.
        at: Moment,
    },
    /// The entry of a directory moved on another server.
    Reparented {
        /// The directory.
        ino: Ino,
        /// The other server's intent; older intents change nothing.
        intent: IntentId,
        /// The directory's parent.
        parent: Ino,
        /// The directory's name.
        name: Bytes,
    },
    /// The reply of a request, for a resend.
    Remembered {
        /// The client.
        client: ClientId,
        /// The client's request.
        request: RequestId,
        /// The client never sends requests below this one again.
        acknowledged: RequestId,
        /// The answer.
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
        /// The client that moves the objects.
        client: ClientId,
        /// The objects and their new places.
        moves: Vec<ObjectMove>,
        /// The intent that empties the objects at the new places, and the number of the move.
        prepare: IntentId,
    },
    /// The objects of a move are kept from everyone but the mover.
    MoveFrozen {
        /// The file.
        ino: Ino,
        /// The intent that is pending during the freeze.
        freeze: IntentId,
        /// The intent that raises the epochs of the objects.
        fence: IntentId,
        /// The moment of the change.
        at: Moment,
    },
    /// The objects were copied: the file's layout names their new places.
    Relaid {
        /// The file.
        ino: Ino,
        /// The intent that raises the epochs of the copies, which shuts the mover out.
        seal: IntentId,
        /// The intent that empties the objects that were copied.
        vacate: IntentId,
    },
    /// A move was given up: the layout stays.
    MoveAbandoned {
        /// The file.
        ino: Ino,
        /// The intent that empties the copies.
        vacate: IntentId,
    },
    /// A move (written when the journal is compacted).
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
        /// The file's layout.
        layout: Layout,
        /// The request for the layout.
        asked: Box<LayoutSpecification>,
        /// The moment of the change.
        at: Moment,
    },
    /// Targets are full: from its end on the file goes to other targets.
    Detoured {
        /// The file.
        ino: Ino,
        /// The file's layout, the same as before as far as the file has bytes.
        layout: Layout,
        /// The intent that raises the epochs of the objects, and cuts off bytes that nobody published.
        seal: IntentId,
        /// The intent that empties the places of the layout before which the file has no more; none if there are no such places.
        vacate: Option<IntentId>,
        /// The moment of the change.
        at: Moment,
    },
    /// The descriptions and locks of a silent client were released.
    ClientReleased {
        /// The client.
        client: ClientId,
    },
    /// A client that was released has claimed what is left of its holdings.
    ClientReturned {
        /// The client.
        client: ClientId,
    },
    /// A repair counted the names of an inode.
    NamesCounted {
        /// The inode.
        ino: Ino,
        /// The number of its names.
        names: u32,
    },
    /// A repair summed the use of all owners up anew.
    UseCounted,
}

/// The answer to a resend of a request. Attributes are those at the moment of the resend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reply.
    pub kind: OutcomeKind,
    /// Intents that must be settled before the reply.
    pub wait: Vec<IntentId>,
}

/// The kinds of replies that are remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutcomeKind {
    /// `Reply::Done`.
    Done,
    /// `Reply::Attributes` of this inode.
    Attributes(Ino),
    /// `Reply::Attributes` of a new directory of another server.
    Made(Box<weir_wire::Attributes>),
    /// `Reply::Opened`.
    Opened {
        /// The file.
        ino: Ino,
        /// The description.
        handle: HandleId,
        /// The description's rights.
        rights: Rights,
        /// Whether the call made the file.
        created: bool,
    },
    /// `Reply::Written` of a published append.
    Written {
        /// Size after the append.
        size_bytes: u64,
        /// Epoch of that size.
        epoch: u64,
    },
    /// `Reply::Appended`.
    Appended {
        /// Offset of the append.
        offset: u64,
        /// Size after the append.
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
