//! One entry of the audit.

use serde::{Deserialize, Serialize};

/// Longest text of a user's name, a host or an object.
const NAME_BYTES_MAX: usize = 128;
/// Longest command.
const COMMAND_BYTES_MAX: usize = 256;
/// Longest value before or after a change, and longest reason: the terms of a lease of some jobs.
const VALUE_BYTES_MAX: usize = 1024;

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The change is in force.
    Done,
    /// The caller had no right to it.
    Refused,
    /// The store did not take it.
    Failed,
    /// The server ended, or did not answer in time.
    Unknown,
}

/// Entries that push out entries of their own class alone, beyond a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Change,
    Refusal,
    Lease,
}

/// A request for a change: what the server knows of its caller, what the caller says of itself, and the change.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Asked {
    /// The right that the caller proved: `administrator`, `user`, `nobody`, or `expired`.
    pub role: String,
    /// The user of the credential; none where none was shown.
    pub uid: Option<u32>,
    /// The name of that user in the credential.
    pub user: Option<String>,
    /// The address of the caller's connection.
    pub address: Option<String>,
    /// A claim of the caller: its command.
    pub claimed_command: Option<String>,
    /// A claim of the caller: its host.
    pub claimed_host: Option<String>,
    /// A claim of the caller: the user on whose request it acts.
    pub claimed_request_of: Option<String>,
    /// Kind of the setting or object.
    pub kind: String,
    /// The object, where the kind has several.
    pub object: Option<String>,
    /// The value before.
    pub before: Option<String>,
    /// The value that was asked for.
    pub after: Option<String>,
    /// The whole entry was told by an administrator's command, about something that no server changes.
    pub is_told: bool,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Entry {
    /// Number of the entry at its server.
    pub number: u64,
    /// Unix time of the request, in seconds.
    pub at: f64,
    /// The request.
    #[serde(flatten)]
    pub asked: Asked,
    /// What came of it.
    pub outcome: Outcome,
    /// The reason, where it was not done.
    pub reason: Option<String>,
    /// Requests that the entry stands for: refusals of one caller that follow each other are one entry.
    pub times: u32,
}

impl Entry {
    pub(super) fn new(number: u64, at: f64, asked: Asked, outcome: Outcome, reason: Option<String>) -> Entry {
        let reason = bounded(reason, VALUE_BYTES_MAX);
        Entry { number, at, asked: asked.bounded(), outcome, reason, times: 1 }
    }

    pub(super) fn ended(&self, outcome: Outcome, reason: Option<String>) -> Entry {
        Entry { outcome, reason: bounded(reason, VALUE_BYTES_MAX), ..self.clone() }
    }

    pub(super) fn class(&self) -> Class {
        match (self.outcome, self.asked.kind.as_str()) {
            (Outcome::Refused, _) => Class::Refusal,
            (_, "lease") => Class::Lease,
            _ => Class::Change,
        }
    }

    /// Whether the entry is of an earlier refusal of this caller, about the same kind.
    pub(super) fn is_refusal_of(&self, asked: &Asked) -> bool {
        let known = &self.asked;
        let is_same_caller =
            (known.uid, &known.role, &known.address) == (asked.uid, &asked.role, &asked.address);
        self.outcome == Outcome::Refused && is_same_caller && known.kind == asked.kind
    }
}

impl Asked {
    /// The request with texts of bounded length.
    fn bounded(self) -> Asked {
        Asked {
            user: bounded(self.user, NAME_BYTES_MAX),
            claimed_command: bounded(self.claimed_command, COMMAND_BYTES_MAX),
            claimed_host: bounded(self.claimed_host, NAME_BYTES_MAX),
            claimed_request_of: bounded(self.claimed_request_of, NAME_BYTES_MAX),
            kind: bounded(Some(self.kind), NAME_BYTES_MAX).unwrap_or_default(),
            object: bounded(self.object, NAME_BYTES_MAX),
            before: bounded(self.before, VALUE_BYTES_MAX),
            after: bounded(self.after, VALUE_BYTES_MAX),
            ..self
        }
    }
}

/// A text up to a length; a longer one ends in `...`.
fn bounded(text: Option<String>, bytes_max: usize) -> Option<String> {
    let mut text = text?;
    if text.len() > bytes_max {
        let end = (0..=bytes_max - 3).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    Some(text)
}
