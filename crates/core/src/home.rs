//! The folders of a server, as the server sees them: its own files, its journal, its targets, and the list of the host.

use crate::config::{ClusterConfig, Place, TargetConfig};
use crate::error::ServerError;
use crate::identity::{Consent, IdentityStatus};
use crate::journal::{JournalError, Storage};
use crate::storage::{Look, Reserve, Target};
use std::io;
use std::path::Path;
use std::sync::Arc;
use weir_placement::ServerId;

/// Everything of a server that outlives its process, opened and locked.
#[derive(Default)]
pub struct Opened {
    /// None where nothing outlives the server.
    pub journal: Option<Arc<dyn Storage>>,
    /// Room for removals and for a start, where the store is durable.
    pub reserve: Option<Reserve>,
    /// The targets by their numbers.
    pub targets: Vec<Target>,
    /// The last change that any stamp knows to have been on stable storage.
    pub witnessed: u64,
    /// The journal is an older copy, which its owner brought back: the records of objects that it does not know may lie elsewhere.
    pub is_restored: bool,
}

/// The place of a target that joins. Its calls block.
pub trait Joining: Send {
    /// Looks whether a new target may lie in a folder.
    ///
    /// # Errors
    /// The fault of the folder, in words.
    fn check_new(&self, folder: &Path) -> Result<(), String>;

    /// Opens the target.
    ///
    /// # Errors
    /// As [`Home::open`].
    fn open(self: Box<Self>) -> Result<Joined, ServerError>;
}

/// The folder for names that go to another host.
pub trait LeavingNames: Send {
    /// Empties the folder; the call blocks.
    ///
    /// # Errors
    /// The file system's errors.
    fn empty(self: Box<Self>) -> Result<Arc<dyn Storage>, JournalError>;
}

/// A target that joined.
pub struct Joined {
    /// The target.
    pub target: Target,
    /// It lies on another device than the journal.
    pub is_apart: bool,
}

/// Looks at the places of a server.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Why the journal's folder is gone; none while it is there.
    pub journal_gone: Option<String>,
    /// The targets in directories, by their numbers.
    pub targets: Vec<(usize, Look)>,
}

/// The folders of one server.
pub trait Home {
    /// The server's own files beside its journal.
    fn own(&self) -> Arc<dyn Storage>;

    /// The folder of these files, for words.
    fn path(&self) -> &Path;

    /// Looks whether all places are the right ones, and changes nothing.
    ///
    /// # Errors
    /// [`ServerError::Identity`] of the first one that is not; the file system's errors.
    fn check(&self, config: &ClusterConfig, consent: Consent) -> Result<(), ServerError>;

    /// Opens all places of a server that starts. Nothing is written beside a place that is not the right one.
    ///
    /// # Errors
    /// As [`Home::check`]; a place is in use.
    fn open(&mut self, config: &ClusterConfig, consent: Consent) -> Result<Opened, ServerError>;

    /// The journal was opened, and its last change on stable storage is `durable`.
    ///
    /// # Errors
    /// The file system's errors.
    fn settle(&self, durable: u64) -> Result<(), ServerError>;

    /// Has the opened places looked after.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn watch(&mut self, targets: &[Target]) -> Result<(), ServerError>;

    /// Notes the last change on stable storage, for the stamps. Reports what was seen of the places last.
    fn look(&self, durable: Option<u64>) -> Looks;

    /// The journal was closed with this last change on stable storage.
    fn close(&mut self, durable: Option<u64>);

    /// The identity that the places carry; none where nothing outlives the server.
    fn identity(&self) -> Option<IdentityStatus>;

    /// The place of a target that joins, which has this number. A worker opens it.
    fn joining(&self, config: &ClusterConfig, target: (usize, &TargetConfig)) -> Box<dyn Joining>;

    /// Has a target looked after that joined, which has this number.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn watch_joined(&mut self, number: usize, target: &Target) -> Result<(), ServerError>;

    /// Whether a target lies on another device than the journal.
    fn is_apart(&self, target: &Target) -> bool;

    /// The folder for names that go to another host. A worker empties it.
    fn leaving_names(&self) -> Box<dyn LeavingNames>;

    /// The folder of names that came from another host; none where none came.
    ///
    /// # Errors
    /// The file system's errors.
    fn arrived_names(&self) -> Result<Option<Arc<dyn Storage>>, JournalError>;

    /// Removes the names that came here, which are read, and those that did not leave.
    fn forget_names(&self);

    /// Has the list of the host name the place of a server. The first call begins to write the list.
    ///
    /// # Errors
    /// The system refuses a thread.
    fn publish(&mut self, server: ServerId, place: Place) -> io::Result<()>;
}
