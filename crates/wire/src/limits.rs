//! Every limit of the protocol, with its reason.

pub use weir_placement::limits::{COMPONENTS, STRIPES, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN};

/// Longest body: two paths of 4,096 bytes, a name of 255, groups and fixed fields fit with room.
pub const BODY_BYTES: usize = 16 * 1024;
/// Longest payload of one frame: four default stripes; longer transfers are split by the client.
pub const PAYLOAD_BYTES: usize = 4 * 1024 * 1024;
/// Longest payload that a server reads before the request is scheduled. It bounds the server's memory
/// (outstanding requests x this) and equals the largest extended attribute of Linux.
pub const INLINE_PAYLOAD_BYTES: usize = 64 * 1024;
/// Longest name of a directory entry (NAME_MAX of Linux).
pub const NAME_BYTES: usize = 255;
/// Longest path (PATH_MAX of Linux).
pub const PATH_BYTES: usize = 4096;
/// Longest name of an extended attribute (XATTR_NAME_MAX of Linux).
pub const XATTR_NAME_BYTES: usize = 255;
/// Longest value of an extended attribute (XATTR_SIZE_MAX of Linux).
pub const XATTR_VALUE_BYTES: usize = 64 * 1024;
/// Symbolic links followed in one resolution (MAXSYMLINKS of Linux).
pub const SYMLINK_HOPS: u8 = 40;
/// Supplementary groups carried for an identity: as many as NFS servers with extended groups carry.
pub const GROUPS: usize = 256;
/// Requests that one connection may have outstanding; a server stops reading the connection at the limit.
pub const OUTSTANDING_PER_CONNECTION: usize = 64;
/// Extents of one vectored read or write (as IOV_MAX / 4, so that the body bound holds).
pub const EXTENTS: usize = 256;
/// Identities that a mount may register on one connection; the oldest unused one is dropped by the mount.
pub const IDENTITIES_PER_CONNECTION: usize = 4096;
/// Hard links to one inode (as ext4).
pub const LINKS: u32 = 65_000;
/// Largest file: object offsets must fit `off_t` on every target.
pub const FILE_BYTES: u64 = i64::MAX as u64;
/// Ranges of changes that are told apart in one object; above it neighbours are joined. Twenty bytes each, they fit a body.
pub const CHANGES: usize = 512;
/// Longest time for which the end of a move keeps others from a file: at most half of the time that a request waits at
/// the home.
pub const FREEZE_SECONDS: u64 = 5;
/// Time for which a client may have a file's append turn without renewing it while others wait. Then the turn is taken,
/// and its client begins anew. The lease is far above the pauses of a process that runs, and half of the silence that
/// clients take for the loss of a server, so that no waiting client gives up.
pub const TURN_LEASE_SECONDS: u64 = 5;
/// Longest job, user or group name in a credential.
pub const CLAIM_NAME_BYTES: usize = 128;
/// Time for which a server takes the capability of a file of another home without asking that home whether the
/// description is still open. For so long a closed description may still reach bytes there, and so often an open one
/// costs a question.
pub const CAPABILITY_FRESH_SECONDS: u64 = 30;
/// Time for which a redirected client may name the inode that it was sent to: far above the time of a walk.
pub const PASS_SECONDS: u64 = 60;
/// Capabilities in one [`crate::PeerRequest::Confirm`]: with at most 52 bytes each they fit a body.
pub const CONFIRMATIONS: usize = 128;
/// Objects in one [`crate::PeerRequest::ObjectsHeld`]: with at most 52 bytes each they fit a body.
pub const OBJECTS_HELD: usize = 256;
/// Servers of one store: a lambda exchange of all pairs does not hold more, and the numbers of objects use the bits above.
pub const SERVERS: usize = 1024;
/// Moved directories in one reply to a mount: two of the longest paths fit a frame's body beside the files.
pub const MOVES: usize = 2;
