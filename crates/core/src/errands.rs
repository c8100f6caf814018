//! Errands: pieces of blocking work that are under way, each with the purpose that its end serves.

use crate::durability::Waiting;
use crate::namespace::Effect;
use crate::requests::fences::Turn;
use crate::requests::request::Token;
use crate::work::Work;
use slab::Slab;
use weir_fairshare::Dispatch;
use weir_wire::Ino;

/// Whoever carries blocking work out. The end of each piece comes back as an event, in any order.
pub trait Workers {
    /// Takes on a piece of work, under its number; never blocks.
    fn submit(&mut self, number: u64, work: Work);

    /// Goes on with work that had to wait, after another piece ended.
    fn go_on(&mut self);
}

/// The purpose of a piece of blocking work.
pub(crate) enum Errand {
    /// It carries out a client's request, which has this turn.
    Request(Token, Turn),
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
    Slice,
    /// It puts a snapshot of the namespace in force.
    Snapshot,
    /// It brings the journal to stable storage.
    Sync(Waiting),
    /// It removes an object that was set aside.
    Discard,
    /// It brings the durable mark to stable storage.
    Mark,
    /// It keeps the settings that a change makes.
    Settings,
    /// It puts the snapshot in force with which the journal begins anew.
    Renewal,
}

/// The errands that are under way.
pub(crate) struct Errands {
    workers: Box<dyn Workers>,
    under_way: Slab<Errand>,
}

impl Errands {
    /// No errands yet.
    pub(crate) fn new(workers: Box<dyn Workers>) -> Errands {
        Errands { workers, under_way: Slab::new() }
    }

    /// Hands blocking work out; its end comes back as an event for `errand`.
    pub(crate) fn submit(&mut self, errand: Errand, work: Work) {
        let number = self.under_way.insert(errand) as u64;
        self.workers.submit(number, work);
    }

    /// The errand of a piece of work that has ended.
    pub(crate) fn end(&mut self, number: u64) -> Option<Errand> {
        self.workers.go_on();
        self.under_way.try_remove(number as usize)
    }

    /// The errands that are under way.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Errand> {
        self.under_way.iter().map(|(_, errand)| errand)
    }
}
