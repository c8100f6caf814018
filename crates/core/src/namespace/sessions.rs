//! Sessions of clients: their return and their end.

use super::appends::NextTurn;
use super::core::Namespace;
use super::decision::{Answer, Caller, Decision};
use super::intents::Intent;
use weir_wire::{Capability, ClientId, Errno, HandleId, Ino, Moment, Reply};

/// The legacy of a client that is gone.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The decision to journal and commit: files that only the client kept alive go.
    pub decision: Decision,
    /// Append turns that pass on to others. The owner takes the client's own turns before ([`Namespace::take_turn`]), because
    /// bytes of the client may still be on their way to a target: those left here are of files that are being cut, or moved and then cut.
    pub turns: Vec<NextTurn>,
    /// Descriptions without any holder: their locks go.
    pub closed: Vec<(Ino, HandleId)>,
}

impl Namespace {
    /// Takes back descriptions after a lost connection or a restart. ESTALE says that one of them could not be taken back: its
    /// file is gone, as after the restart of a server that keeps nothing, or the grace period is over. All others are taken
    /// back.
    pub fn reclaim(&mut self, caller: &Caller<'_>, handles: &[Capability]) -> Result<(), Errno> {
        let mut failed = None;
        for capability in handles {
            let kept = self.kept_memory();
            let taken = self.names.may_reclaim(caller, capability);
            let taken = taken.and_then(|()| self.files_mut().take_back_open(kept, caller, capability));
            failed = failed.or(taken.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends a client's session: its descriptions, append turns and places in queues go.
    pub fn drop_client(&mut self, client: ClientId) -> Departure {
        self.recent.forget(client);
        let next = self.intents.next();
        let (changes, closed) = self.files_mut().drop_client(client, next);
        let cuts = |intent| matches!(self.intents.get(intent), Some(Intent::Cut { .. }));
        let turns = self.appends.drop_client(self.names.files(), client, cuts);
        Departure { decision: Decision::of(changes, Answer::Now(Reply::Done, Vec::new())), turns, closed }
    }

    /// Ends the description that a decision opened whose request failed since: its client never hears of the description. Returns the next
    /// decision to journal and commit, where the file goes with the description.
    pub fn close_failed(&mut self, failed: &Decision) -> Option<Decision> {
        let next = self.intents.next();
        let changes = self.files_mut().close_failed(failed.opened?, next);
        let decision = Decision::of(changes, Answer::Now(Reply::Done, Vec::new()));
        (!decision.changes.is_empty()).then_some(decision)
    }

    /// Files without a name that nobody has open go, some with each decision, until none is left. In the grace period all stay.
    pub fn dispose_orphans(&self) -> Option<Decision> {
        self.files().dispose_orphans(self.intents.next())
    }

    /// Gives up moves with a freeze that lasted too long, and moves of files that have no name and no description; `None` if there
    /// are no such moves.
    pub fn expire_moves(&self, now: Moment) -> Option<Decision> {
        self.files().expire_moves(now, self.intents.next())
    }

    /// Gives up every move, as their clients begin anew after a start; `None` if there are no moves.
    pub fn abandon_moves(&self) -> Option<Decision> {
        self.files().abandon_moves(|_, _| true, self.intents.next())
    }
}
