//! The turns of links: whose requests are read and whose replies are sent next.
//!
//! Reading a frame, carrying out what never waits behind a device, and sending a reply all take time of the loop. While
//! every link that has something to do can have its turn at once there is nothing to divide. What is left when a turn of
//! the loop has lasted long enough is taken up in the order of the policy, and each job is charged the time that was
//! really spent on its links: a job has its share of the loop with one connection as with a thousand, and with requests
//! that cost no device time as with others.

use crate::server::Server;
use weir_device::{Device, Work};
use weir_fairshare::{
    Direction, GroupId, JobAttributes, JobId, JobName, Nanos, Policy, Priority, Sharing, UserId,
};

/// Links are read for this long in one turn of the loop, and replies sent for as long: a turn stays near a millisecond,
/// so that one who comes new is seen soon.
const LINKS_TURN: Nanos = Nanos::from_micros(250);
/// Frames taken from a link before another has its turn.
pub(crate) const FRAMES_PER_VISIT: usize = 16;
/// Bytes sent to a link before another has its turn: as much as a socket takes at once.
const SENT_PER_VISIT: usize = 1 << 20;
/// The job of connections that are not proved: all of them together have the share of one job of one node.
const STRANGERS: JobAttributes = JobAttributes {
    job: JobId(0),
    name: JobName(0),
    user: UserId(0),
    group: GroupId(0),
    nodes: 1,
    priority: Priority(1),
};
/// The price of a turn is learned.
const TURN: Work = Work { direction: Direction::Read, bytes: 0 };

/// Links that wait for their turn.
pub(crate) struct Intake {
    /// The time of the loop, shared like that of a device.
    turns: Device,
}

impl Intake {
    pub(crate) fn new(policy: &Policy) -> Intake {
        Intake { turns: Device::new(&sharing(policy), None, 0) }
    }

    /// Continues under another policy.
    pub(crate) fn set_policy(&mut self, policy: &Policy) {
        self.turns.set_sharing(&sharing(policy));
    }

    /// Forgets a job that ended.
    pub(crate) fn remove_job(&mut self, job: JobId, now: Nanos) {
        self.turns.remove_job(job, now);
    }

    /// Whether every link has had its turn.
    pub(crate) fn is_calm(&self) -> bool {
        self.turns.queued() == 0
    }
}

/// Entitlements are to device time, of which a turn is none.
fn sharing(policy: &Policy) -> Sharing {
    Sharing::of(policy.clone())
}

impl Server {
    /// A link may have something to read: it is looked at when its turn comes.
    pub(crate) fn make_ready(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            if !std::mem::replace(&mut link.is_ready, true) {
                self.ready.push(index);
            }
        }
    }

    /// Reads links that are ready, until all are read or the time for it is over.
    pub(crate) fn read_links(&mut self) {
        let until = self.clock_now() + LINKS_TURN;
        let ready = std::mem::take(&mut self.ready);
        self.give_turns(ready, until, Server::read_ready);
    }

    /// Sends replies, until all are sent or the time for it is over.
    pub(crate) fn flush_links(&mut self) {
        let until = self.clock_now() + LINKS_TURN;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for &index in &dirty {
            if let Some(link) = self.links.get_mut(index) {
                link.is_dirty = true;
            }
        }
        self.give_turns(dirty, until, Server::flush_dirty);
    }

    /// Gives links their turns: in their own order while nobody is left over from earlier, else in that of the policy.
    fn give_turns(&mut self, links: Vec<usize>, until: Nanos, serve: fn(&mut Server, usize)) {
        let mut links = links.into_iter();
        while self.intake.is_calm() {
            let Some(index) = links.next() else { return };
            serve(self, index);
            if self.clock_now() >= until {
                break;
            }
        }
        for index in links {
            self.queue_link(index);
        }
        let mut before = self.clock_now();
        while before < until {
            let now = self.now();
            let Some(dispatch) = self.intake.turns.dispatch(now) else { return };
            let index = dispatch.token.0 as usize;
            self.serve_link(index);
            let after = self.clock_now();
            self.intake.turns.complete(&dispatch, TURN, (after.saturating_since(before), None), now);
            before = after;
        }
    }

    /// Another server is no job: what it asks is never queued.
    fn queue_link(&mut self, index: usize) {
        let now = self.now();
        let Some(link) = self.links.get_mut(index) else { return };
        if std::mem::replace(&mut link.is_queued, true) {
            return;
        }
        let attributes = match link.session() {
            Some(session) if session.is_peer() => return self.serve_link(index),
            Some(session) => session.attributes(),
            None => STRANGERS,
        };
        self.intake.turns.enqueue(attributes, index as u64, TURN, now);
    }

    fn serve_link(&mut self, index: usize) {
        if let Some(link) = self.links.get_mut(index) {
            link.is_queued = false;
        }
        self.flush_dirty(index);
        self.read_ready(index);
    }

    /// Reads a link that is ready.
    fn read_ready(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index).filter(|link| link.is_ready) else { return };
        link.is_ready = false;
        match link.receiving {
            Some(token) => self.receive_unqueued(token),
            None => self.read_link(index),
        }
    }

    /// Sends replies of a link that has some.
    fn flush_dirty(&mut self, index: usize) {
        let Some(link) = self.links.get_mut(index).filter(|link| link.is_dirty) else { return };
        link.is_dirty = false;
        self.flush_link(index, SENT_PER_VISIT);
    }
}
