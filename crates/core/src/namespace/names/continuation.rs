//! The rest of a request while another server is asked.

use crate::namespace::files::Birth;
use crate::namespace::intents::{Bytes, IntentId};
use weir_placement::ServerId;
use weir_wire::{At, ClientId, Identity, Ino, JobId, Moment, RenameMode, RequestId};

/// The rest of a request while another server is asked.
#[derive(Clone, Debug)]
pub struct Continuation {
    pub(crate) client: ClientId,
    pub(crate) request: RequestId,
    pub(crate) acknowledged: RequestId,
    pub(crate) who: Identity,
    pub(crate) job: JobId,
    pub(crate) trusted: bool,
    pub(crate) work: Work,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Make { id: IntentId, server: ServerId, parent: Ino, name: Bytes, birth: Birth, at: Moment },
    Remove { id: IntentId, parent: Ino, name: Bytes, ino: Ino },
    Move { ino: Ino, rename: Rename },
    Replace { id: IntentId, parent: Ino, name: Bytes, ino: Ino, rename: Rename },
}

/// A rename and the grants to it.
#[derive(Clone, Debug)]
pub(crate) struct Rename {
    pub(crate) from: At,
    pub(crate) to: At,
    pub(crate) mode: RenameMode,
    pub(crate) grants: Grants,
}

/// The grants of other servers to a rename.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grants {
    /// Directories whose entries the caller may move.
    pub(crate) moves: Vec<Ino>,
    /// The directory that stood at the target and is gone.
    pub(crate) removed: Option<Ino>,
}

impl Rename {
    pub(crate) fn new((from, to, mode): (&At, &At, RenameMode), grants: &Grants) -> Rename {
        Rename { from: from.clone(), to: to.clone(), mode, grants: grants.clone() }
    }

    pub(crate) fn paths(&self) -> (&At, &At, RenameMode) {
        (&self.from, &self.to, self.mode)
    }
}
