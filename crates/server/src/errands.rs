//! Errands: pieces of blocking work on the worker pool, each with the purpose that its end serves.

use crate::clock::Time;
use crate::durability::{SliceEnd, SnapshotEnd, Synced};
use crate::error::ServerError;
use crate::events::{Event, Events, Worked};
use crate::namespace::Effect;
use crate::requests::request::Token;
use crate::storage::TargetFailure;
use crate::workers::{WorkOutput, Workers};
use slab::Slab;
use std::sync::Arc;
use weir_fairshare::Dispatch;
use weir_wire::Ino;

/// The purpose of a piece of blocking work.
pub(crate) enum Errand {
    /// It carries out a client's request.
    Request(Token),
    /// It synchronises an object, which had this turn.
    ObjectSync(Token, Dispatch),
    /// It carries out an effect of the namespace.
    Effect(Box<Effect>),
    /// It removes the object of a file that is gone.
    Stray(Ino),
    /// It lists the objects of a target, by its number.
    Listing(usize),
    /// It changes an object here for another server.
    PeerObject(Token),
    /// It writes a slice of a snapshot of the namespace.
    Slice(SliceEnd),
    /// It puts a snapshot of the namespace in force.
    Snapshot(SnapshotEnd),
    /// It brings the journal to stable storage.
    Sync(Synced),
    /// It removes an object that was set aside.
    Discard,
    /// It brings the durable mark to stable storage.
    Mark,
    /// It puts the snapshot in force with which the journal begins anew.
    Renewal(SnapshotEnd),
}

/// The errands that are under way.
pub(crate) struct Errands {
    pool: Workers,
    under_way: Slab<Errand>,
    events: Events,
    time: Arc<dyn Time>,
}

impl Errands {
    /// Starts the worker pool.
    ///
    /// # Errors
    /// As [`Workers::start`].
    pub(crate) fn start(events: Events, time: Arc<dyn Time>) -> Result<Errands, ServerError> {
        Ok(Errands { pool: Workers::start()?, under_way: Slab::new(), events, time })
    }

    /// Runs blocking work on the pool; its end comes back as an event for `errand`.
    pub(crate) fn submit(
        &mut self,
        errand: Errand,
        work: impl FnOnce() -> Result<WorkOutput, TargetFailure> + Send + 'static,
    ) {
        let number = self.under_way.insert(errand) as u64;
        let (events, time) = (self.events.clone(), Arc::clone(&self.time));
        self.pool.submit(Box::new(move || {
            let started = time.elapsed();
            let outcome = work();
            let service = time.elapsed().saturating_since(started);
            events.send(Event::Worked(Worked { number, outcome, service }));
        }));
    }

    /// The errand of a piece of work that has ended.
    pub(crate) fn end(&mut self, number: u64) -> Option<Errand> {
        self.pool.drain();
        self.under_way.try_remove(number as usize)
    }

    /// The errands that are under way.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Errand> {
        self.under_way.iter().map(|(_, errand)| errand)
    }
}
