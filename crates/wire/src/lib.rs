//! The protocol of Weir: messages, framing, credentials and their limits.
//!
//! A connection carries frames: a 32-byte [`Header`], a body (one [`Request`] or [`Reply`], encoded by
//! postcard) and an opaque payload of file bytes. Frames of one connection are read in order; a payload above
//! [`limits::INLINE_PAYLOAD_BYTES`] stays in the socket until its request is scheduled, so a client keeps small
//! requests and bulk data on different connections. Replies may come in any order and are matched by request id.
#![forbid(unsafe_code)]

mod agreement;
mod credential;
mod decision;
mod error;
mod frame;
mod identifiers;
pub mod limits;
mod message;
mod metadata;
mod parameters;
mod peer;
pub mod quota;
mod reply;
mod room;
mod way;

pub use agreement::{ServerRecord, SharingNames, StoreSettings, TargetRecord, TargetState};
pub use credential::{
    job_attributes, job_number, name_number, same_secret, Capability, ChannelBinding, ChannelKey, Claims,
    Credential, Description, Nonce, Proof, Rights, Role, SessionBinding, SiteKey, UNSEALED,
};
pub use decision::{Decided, Stamp};
pub use error::WireError;
pub use frame::{decode_body, encode_body, Header, Kind, HEADER_BYTES, VERSION};
pub use identifiers::{ClientId, Fence, HandleId, IdentityId, Ino, LockOwner, RequestId, Sequence};
pub use message::{Request, ROUND_LAST};
pub use metadata::{At, Attributes, DirectoryEntry, FileChange, FileKind, ObjectMove, RoomReport};
pub use parameters::{
    AccountNames, AttributeChange, Cluster, DelegatedJob, Errno, Extent, Identity, LockKind, LockRange,
    LockType, Moment, NodeKind, OpenFlags, Publication, RenameMode, Seek, ServerAddress, XattrMode,
};
pub use peer::{
    DeviceUse, HeldObject, JobReport, LeavingReport, MachineLoad, PaidObject, PeerReply, PeerRequest,
    PlacedReport, ServerReport, TargetReport,
};
pub use quota::{QuotaLimits, QuotaOwner, QuotaReport, QuotaTable, QuotaUse};
pub use reply::Reply;
pub use room::{Disk, DiskId, Room, TargetRoom};
pub use way::{parse_heartbeat, parse_silence, TransportChoice};
pub use weir_fairshare::JobId;
