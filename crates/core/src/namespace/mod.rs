//! The namespace: directories, inodes, open descriptions and append turns of one server, as a state machine without I/O.
//!
//! [`Namespace::decide`] turns a request into a [`Verdict`] and changes nothing. The event loop writes the decision's changes
//! to the journal. [`Namespace::commit`] then applies the changes and answers the effects for the event loop to carry out.
//! The reply goes out last. A replay applies the same changes.

mod appends;
mod apply;
mod change;
mod core;
mod decision;
mod draft;
pub mod errno;
mod files;
mod intents;
mod moves;
mod names;
mod quotas;
mod replies;
mod requests;
mod sessions;
mod state;

#[cfg(test)]
mod tests;

pub use self::core::{Namespace, Settings};
pub use appends::append::{AppendGrant, InlineAppend, NextTurn, TakenTurn, TurnReply};
pub use appends::turns::Appender;
pub use change::{Change, Outcome, OutcomeKind};
pub use decision::{Answer, Caller, Decision, Question, Verdict};
pub use files::inode::{Birth, BirthNode, Inode};
pub use files::inventory::{FileEntry, PlaceEntry};
pub(crate) use files::leases;
pub use intents::intent::{Bytes, Frozen, Intent, IntentId, MoveRecord};
pub use intents::outstanding::{Effect, When};
pub use names::check::{AwayEntry, EntryQuestion, Examined, Fault, FaultKind, Position};
pub use names::continuation::Continuation;
pub use names::mend::{Order, Refusal};
pub use names::peers::PeerDecision;
pub use names::resumption::PeerFailure;
pub use quotas::usage::{QuotaLine, UseFault};
pub use sessions::Departure;
