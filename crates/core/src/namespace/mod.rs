//! The namespace: directories, inodes, open descriptions and append turns of one server, as a state machine without I/O.
//!
//! [`Namespace::decide`] turns a request into a [`Verdict`] and changes nothing. The event loop writes the decision's changes
//! to the journal. [`Namespace::commit`] then applies the changes and answers the effects for the event loop to carry out.
//! The reply goes out last. A replay applies the same changes.

mod accounting;
mod admission;
mod append;
mod apply;
mod attributes;
mod change;
mod check;
mod continuation;
mod core;
mod create;
mod decision;
mod detour;
mod draft;
mod effects;
pub mod errno;
mod estimates;
mod freeing;
mod holdings;
mod inode;
mod inodes;
mod intent;
mod intents;
mod inventory;
mod kept;
mod layout;
pub(crate) mod leases;
mod listing;
mod mend;
mod moves;
mod naming;
mod object_counts;
mod open;
mod outstanding;
mod paid;
mod passes;
mod peers;
mod pending;
mod permission;
mod publish;
mod questions;
mod quota;
mod recount;
mod relayout;
mod released;
mod remove;
mod rename;
mod replies;
mod requests;
mod resumption;
mod sessions;
mod state;
mod turns;
mod unpublished;
mod usage;
mod walk;
mod xattr;

#[cfg(test)]
mod tests;

pub use self::core::{Namespace, Settings};
pub use append::{AppendGrant, InlineAppend, NextTurn, TakenTurn, TurnReply};
pub use change::{Change, Outcome, OutcomeKind};
pub use check::{AwayEntry, EntryQuestion, Examined, Fault, FaultKind, Position};
pub use continuation::Continuation;
pub use decision::{Answer, Caller, Decision, Question, Verdict};
pub use inode::{Birth, BirthNode, Inode};
pub use intent::{Bytes, Frozen, Intent, IntentId, MoveRecord};
pub use inventory::{FileEntry, PlaceEntry};
pub use mend::{Order, Refusal};
pub use outstanding::{Effect, When};
pub use peers::PeerDecision;
pub use resumption::PeerFailure;
pub use sessions::Departure;
pub use turns::Appender;
pub use usage::{QuotaLine, UseFault};
