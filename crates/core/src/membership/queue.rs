//! Changes of the store's settings, servers and targets that wait, and the one under way.

use crate::config::{ServerConfig, TargetConfig};
use crate::control::question::NotChanged;
use crate::home::Joined;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use weir_fairshare::{Algorithm, Policy, Sharing};
use weir_placement::{AllocatorName, ServerId, TargetId};
use weir_wire::{QuotaLimits, QuotaOwner, StoreSettings, TargetState};

/// Changes that may wait for the one under way: more than people ask for, and each takes the time of a small file.
const WAITING_MAX: usize = 64;

/// A change of what the servers of the store agree on.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The policy, and the scheduler where one is named.
    Sharing(Policy, Option<Algorithm>),
    /// The allocator.
    Allocator(AllocatorName),
    /// The limits of a user or a group; none takes them away.
    Quota(QuotaOwner, Option<QuotaLimits>),
    /// A server joins, and runs.
    Server(ServerId, Box<ServerConfig>),
    /// The state of this server, and with it that of its targets.
    ServerState(ServerId, TargetState),
    /// A target joins this server.
    Target(TargetId, Box<TargetConfig>),
    /// The state of a target here.
    TargetState(TargetId, TargetState),
    /// Another server knows of later decisions.
    Told(Box<StoreSettings>),
    /// Other servers know that a target joined here; the decision of it was lost.
    Lost(TargetId, Box<TargetConfig>),
    /// This server is where its configuration says.
    OwnPlace,
}

/// Whoever waits for the end of a change.
pub(crate) enum Asker {
    /// Nobody does.
    Nobody,
    /// It learns whether the change is in force.
    Of(SyncSender<Result<(), NotChanged>>),
    /// It learns the sharing, too.
    OfSharing(SyncSender<Result<Sharing, NotChanged>>),
}

impl Asker {
    /// Answers; whoever asked may have given up.
    pub(super) fn answer(self, outcome: Result<(), NotChanged>, sharing: &Sharing) {
        match self {
            Asker::Nobody => {}
            Asker::Of(sender) => _ = sender.try_send(outcome),
            Asker::OfSharing(sender) => _ = sender.try_send(outcome.map(|()| sharing.clone())),
        }
    }
}

/// A change and its asker.
pub(super) struct Change {
    pub(super) wanted: Wanted,
    pub(super) asker: Asker,
}

impl Change {
    pub(super) fn own_place() -> Change {
        Change { wanted: Wanted::OwnPlace, asker: Asker::Nobody }
    }
}

/// The outside work that the change under way waits for.
pub(super) enum Stage {
    /// Its target is being opened.
    Opening,
    /// These settings are brought to stable storage; a target that joins is open.
    Keeping(Box<StoreSettings>, Option<Box<Joined>>),
}

/// The changes, of which one is under way at a time.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Change>,
    under_way: Option<(Change, Stage)>,
}

impl Queue {
    /// Has a change wait.
    ///
    /// # Errors
    /// Too many wait: the asker comes back.
    pub(super) fn ask(&mut self, wanted: Wanted, asker: Asker) -> Result<(), (Asker, NotChanged)> {
        if self.waiting.len() >= WAITING_MAX {
            let what = format!("{WAITING_MAX} changes of the store wait for a slow disk");
            return Err((asker, NotChanged::NotYet(what)));
        }
        self.waiting.push_back(Change { wanted, asker });
        Ok(())
    }

    /// Has a change of this server's own wait, of which there is one of a kind at a time.
    pub(super) fn add_own(&mut self, wanted: Wanted) {
        self.waiting.push_back(Change { wanted, asker: Asker::Nobody });
    }

    /// Whether such a change waits or is under way.
    pub(super) fn has(&self, is_such: impl Fn(&Wanted) -> bool) -> bool {
        let under_way = self.under_way.iter().map(|(change, _)| change);
        under_way.chain(&self.waiting).any(|change| is_such(&change.wanted))
    }

    /// Whether a change waits, and none is under way.
    pub(super) fn is_to_begin(&self) -> bool {
        self.under_way.is_none() && !self.waiting.is_empty()
    }

    /// The first change that waits, while none is under way.
    pub(super) fn take_first(&mut self) -> Option<Change> {
        match self.under_way {
            Some(_) => None,
            None => self.waiting.pop_front(),
        }
    }

    /// A change waits for outside work from now on.
    pub(super) fn begin(&mut self, change: Change, stage: Stage) {
        self.under_way = Some((change, stage));
    }

    /// The change under way, whose outside work ended.
    pub(super) fn end(&mut self) -> Option<(Change, Stage)> {
        self.under_way.take()
    }
}
