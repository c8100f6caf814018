//! Errands: pieces of blocking work that are under way, each with the purpose that its end serves.

use crate::durability::Waiting;
use crate::namespace::Effect;
use crate::requests::order::{Access, Begun, ObjectOrder, Place};
use crate::requests::request::Token;
use crate::storage::{FileWork, Target, TargetWork};
use crate::work::Work;
use slab::Slab;
use weir_fairshare::Dispatch;
use weir_placement::ServerId;
use weir_wire::{Fence, Ino};

/// Whoever carries blocking work out. The end of each piece comes back as an event, in any order.
pub trait Workers {
    /// Takes on a piece of work, under its number; never blocks.
    fn submit(&mut self, number: u64, work: Work);

    /// Goes on with work that had to wait, after another piece ended.
    fn go_on(&mut self);
}

/// The purpose of a piece of blocking work.
pub(crate) enum Errand {
    /// It carries out a client's request.
    Request(Token),
    /// It synchronises an object, which had this turn.
    ObjectSync(Token, Dispatch),
    /// It carries out an effect of the namespace.
    Effect(Box<Effect>),
    /// It removes an object that no file needs.
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
    /// It fills the reserve of the target of this number, or of the journal.
    Refill(Option<usize>),
    /// It brings the durable mark to stable storage.
    Mark,
    /// It keeps the settings that a change makes.
    Settings,
    /// It opens the target that joins by a change.
    Opening,
    /// It begins the journal of names that go to another host.
    Names,
    /// It puts the snapshot in force that has these names.
    Departure,
    /// It puts the snapshot in force with which the journal begins anew.
    Renewal,
}

/// Something that waits until it may begin on its object.
enum Held {
    /// A client's request.
    Request(Token),
    /// Work that is handed out as it is.
    Work(Box<(Errand, TargetWork)>),
}

/// The errands that are under way, and those that wait for others on the same object.
pub(crate) struct Errands {
    workers: Box<dyn Workers>,
    under_way: Slab<(Errand, Option<Begun>)>,
    order: ObjectOrder<Held>,
}

impl Errands {
    /// No errands yet.
    pub(crate) fn new(workers: Box<dyn Workers>) -> Errands {
        Errands { workers, under_way: Slab::new(), order: ObjectOrder::default() }
    }

    /// Hands blocking work out that is on no object; its end comes back as an event for `errand`.
    pub(crate) fn submit(&mut self, errand: Errand, work: Work) {
        self.hand_out(errand, None, work);
    }

    /// As [`Errands::submit`], with work on a target, whatever else is on the object.
    pub(crate) fn submit_beside(
        &mut self,
        errand: Errand,
        place: Place,
        work: TargetWork,
        targets: &mut [Target],
    ) {
        let work = begun_work(targets, place, work);
        self.hand_out(errand, None, Work::OnTarget(work));
    }

    /// As [`Errands::submit`], with work on an object that has begun.
    pub(crate) fn submit_begun(&mut self, errand: Errand, begun: Option<Begun>, work: FileWork) {
        self.hand_out(errand, begun, Work::OnTarget(work));
    }

    /// As [`Errands::submit`], with work that the target decides about once nothing else is on the object.
    pub(crate) fn submit_alone(
        &mut self,
        errand: Errand,
        place: Place,
        work: TargetWork,
        targets: &mut [Target],
    ) {
        let held = Held::Work(Box::new((errand, work)));
        if let Some((begun, held)) = self.order.begin(place, Access::ALONE, held) {
            _ = self.take_on(begun, held, targets);
        }
    }

    /// Gives a request back that may begin on its object now; [`Errands::leave`] gives any other.
    pub(crate) fn begin(&mut self, place: Place, access: Access, token: Token) -> Option<(Begun, Token)> {
        match self.order.begin(place, access, Held::Request(token))? {
            (begun, Held::Request(token)) => Some((begun, token)),
            (_, Held::Work(_)) => None,
        }
    }

    /// The turn of a request about a file of `home`, by the present fence of that.
    pub(crate) fn turn(&mut self, home: ServerId, fence: Fence) -> Option<u64> {
        self.order.turn(home, fence)
    }

    /// Work on an object has ended: other work on it is handed out, and the requests are given that may begin.
    pub(crate) fn leave(&mut self, begun: Begun, targets: &mut [Target]) -> Vec<(Begun, Token)> {
        let next = self.order.end(begun);
        next.into_iter().filter_map(|(begun, held)| self.take_on(begun, held, targets)).collect()
    }

    /// The errand of a piece of work that has ended, and its place on an object, which is to be left.
    pub(crate) fn end(&mut self, number: u64) -> Option<(Errand, Option<Begun>)> {
        self.workers.go_on();
        self.under_way.try_remove(number as usize)
    }

    /// The errands that are under way or wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Errand> {
        let waiting = self.order.waiting().filter_map(|held| match held {
            Held::Work(held) => Some(&held.0),
            Held::Request(_) => None,
        });
        self.under_way.iter().map(|(_, (errand, _))| errand).chain(waiting)
    }

    fn take_on(&mut self, begun: Begun, held: Held, targets: &mut [Target]) -> Option<(Begun, Token)> {
        match held {
            Held::Request(token) => Some((begun, token)),
            Held::Work(held) => {
                let (errand, work) = *held;
                let work = begun_work(targets, begun.place(), work);
                self.hand_out(errand, Some(begun), Work::OnTarget(work));
                None
            }
        }
    }

    fn hand_out(&mut self, errand: Errand, begun: Option<Begun>, work: Work) {
        let number = self.under_way.insert((errand, begun)) as u64;
        self.workers.submit(number, work);
    }
}

fn begun_work(targets: &mut [Target], place: Place, work: TargetWork) -> FileWork {
    match targets.get_mut(place.0) {
        Some(target) => target.begin(place, work),
        None => FileWork::none(place),
    }
}
