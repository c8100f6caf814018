//! The rest of a request while another server is asked.

use super::inode::Birth;
use super::intent::{Bytes, IntentId};
use weir_placement::ServerId;
use weir_wire::{At, ClientId, Identity, Ino, JobId, Moment, RenameMode, RequestId};

/// The rest of a request while another server is asked.
#[derive(Clone, Debug)]
pub struct Continuation {
    pub(super) client: ClientId,
    pub(super) request: RequestId,
    pub(super) acknowledged: RequestId,
    pub(super) who: Identity,
    pub(super) job: JobId,
    pub(super) trusted: bool,
    pub(super) work: Work,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Make { id: IntentId, server: ServerId, parent: Ino, name: Bytes, birth: Birth, at: Moment },
    Remove { id: IntentId, parent: Ino, name: Bytes, ino: Ino },
    Move { ino: Ino, rename: Rename },
    Replace { id: IntentId, parent: Ino, name: Bytes, ino: Ino, rename: Rename },
}

/// A rename and the grants to it.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pub(super) from: At,
    pub(super) to: At,
    pub(super) mode: RenameMode,
    pub(super) grants: Grants,
}

/// The grants of other servers to a rename.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    /// Directories whose entries the caller may move.
    pub(super) moves: Vec<Ino>,
    /// The directory that stood at the target and is gone.
    pub(super) removed: Option<Ino>,
}

impl Rename {
    pub(super) fn new((from, to, mode): (&At, &At, RenameMode), grants: &Grants) -> Rename {
        Rename { from: from.clone(), to: to.clone(), mode, grants: grants.clone() }
    }

    pub(super) fn paths(&self) -> (&At, &At, RenameMode) {
        (&self.from, &self.to, self.mode)
    }
}
