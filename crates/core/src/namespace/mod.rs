//! The namespace: directories, inodes, open descriptions and append turns of one server, as a state machine without I/O.
//!
//! [`Namespace::decide`] turns a request into a [`Verdict`] and changes nothing. The event loop writes the decision's changes
//! to the journal. [`Namespace::commit`] then applies the changes and answers the effects for the event loop to carry out.
//! The reply goes out last. A replay applies the same changes.
//!
//! The state stands in six folders, each with one struct whose fields are private. Names own the files, and files own moves and
//! quotas: whoever owns a part calls it. A folder uses those below it in this list, never one above it or beside it:
//!
//! | folder | what it holds |
//! |---|---|
//! | `names`, `appends` | the tree of directories; the turns of appenders |
//! | `files` | inodes, open descriptions, and what is under way on the objects of files |
//! | `moves` | objects on their way to other targets, and the objects on each target |
//! | `intents` | work on targets and other servers that outlives a reply, and its effects |
//! | `quotas` | limits, the use of all owners, and bytes that nobody published |
//!
//! All share the values in `change`, `decision`, `draft` and `errno`. [`Namespace`] stands above them. It gives each request to the
//! part that decides it, carries out each change on the parts that it is about, begins the intents that a change names, and keeps the
//! replies for resends.

mod appending;
mod appends;
mod change;
mod core;
mod decision;
mod draft;
mod effects;
pub mod errno;
mod files;
mod intents;
mod moves;
mod names;
mod quotas;
mod replies;
mod requests;
mod sessions;

#[cfg(test)]
mod tests;

pub use self::core::{Namespace, Settings};
pub use appends::{AppendGrant, Appender, InlineAppend, NextTurn, TakenTurn, TurnReply};
pub use change::{Change, Outcome, OutcomeKind};
pub use decision::{Answer, Caller, Decision, Question, Verdict};
pub(crate) use files::LeaseKind;
pub use files::{Birth, BirthNode, FileEntry, Files, Inode};
pub use intents::{Bytes, Effect, Intent, IntentId, When};
pub use moves::{Frozen, MoveRecord};
pub use names::{
    AwayEntry, Continuation, EntryQuestion, Examined, Fault, FaultKind, Names, Order, PeerDecision,
    PeerFailure, PlaceEntry, Position, Refusal,
};
pub use quotas::{QuotaLine, UseFault};
pub use sessions::Departure;
