//! Reads and writes of objects: carried out on memory here or on a directory by a worker, then published.

use super::answering::change_of;
use super::Server;
use crate::durability::Deferred;
use crate::errands::Errand;
use crate::links::executed::Left;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::{errno, Caller, Change, InlineAppend, Verdict};
use crate::requests::arrival::Sink;
use crate::requests::continuation::{Continued, Woken};
use crate::requests::devices::ObjectSync;
use crate::requests::objects::{changed_bytes, object_fence, object_of, run_in_memory, write_inline};
use crate::requests::order::{Access, Begun, Place};
use crate::requests::ranges::{changed_ranges, reached_ranges};
use crate::requests::request::{Outcome, Step, Token};
use crate::storage::{Directory, Target, TargetFailure, TargetOutput, TargetWork};
use crate::unpublished::{Part, Reach};
use std::rc::Rc;
use weir_fairshare::{Dispatch, Nanos};
use weir_placement::TargetId;
use weir_wire::{Capability, Extent, Fence, Ino, Publication, Reply, Request};

impl Server {
    /// Carries a request out on a target of this server.
    pub(super) fn execute_on_target(&mut self, token: Token, index: usize) -> Step {
        let Some(target) = self.targets.get_mut(index) else {
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        };
        if let Some(ram) = target.memory() {
            return match run_in_memory(ram, index, &mut self.requests[&token]) {
                Err(TargetFailure::Full) => self.found_no_room(token),
                outcome => self.data_done(token, outcome),
            };
        }
        if let Some(account) = &mut self.requests[&token].account {
            account.hand_to_worker();
        }
        let Some((place, access)) = self.access_of(&token, index) else {
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        };
        match self.errands.begin(place, access, token) {
            Some((begun, token)) => self.hand_to_worker(token, begun),
            None => Step::Away,
        }
    }

    /// The object of a request on a target, and what the request does to the object. Its turn goes by the present fence of its file's
    /// home: this server knows the fence of its own files, and of others only requests that show it come this far.
    fn access_of(&mut self, token: &Token, index: usize) -> Option<(Place, Access)> {
        let request = &self.requests[token].request;
        let (shown, changed) = (object_fence(request), changed_bytes(request));
        let object = object_of(request)?;
        let is_own = shown != Fence::NONE && object.home() == self.site.id;
        let fence = if is_own { self.locks.fence() } else { shown };
        let turn = self.errands.turn(object.home(), fence);
        Some(((index, object), Access { changed, turn }))
    }

    /// Has a worker carry a request out below the directory of its target.
    pub(super) fn hand_to_worker(&mut self, token: Token, begun: Begun) -> Step {
        let given = self.requests.room().given();
        let request = &mut self.requests[&token];
        let target = request.device().and_then(|index| self.targets.get(index));
        if target.and_then(Target::directory).is_none() {
            self.leave_object(begun);
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        }
        let bytes = match request.arrival.take() {
            Sink::Buffer { bytes, .. } => bytes,
            _ => std::mem::take(&mut request.payload),
        };
        let message = request.request.clone();
        request.note_try(given);
        let left = match self.begin_change(&token, &begun) {
            Left::Everything => None,
            Left::Bytes(left) => Some(left),
            Left::Unknown => {
                self.leave_object(begun);
                return Step::Done(token, Outcome::failed(errno::EIO));
            }
        };
        let work =
            self.targets[begun.place().0].begin(begun.place(), TargetWork::Request(message, bytes, left));
        self.errands.submit_begun(Errand::Request(token), Some(begun), work);
        Step::Away
    }

    /// Notes that a request is about to change bytes that outlive this process; answers the part of them that it is to change. A killed
    /// server does not know how much of it was done.
    fn begin_change(&mut self, token: &Token, begun: &Begun) -> Left {
        let Some(reach) = begun.changed().filter(|_| self.durability.is_durable()) else {
            return Left::Everything;
        };
        let request = &self.requests[token];
        let (link, of, place) = (request.sender.link, request.key(), begun.place());
        let left = self.links.left(place, of);
        if left != Left::Unknown {
            self.links.note_begun(link, of, (place, Some(reach)));
        }
        left
    }

    /// A change of bytes is done: what an earlier start left half done is not done again over these bytes.
    fn take_from_doubts(&mut self, token: &Token, place: Place) {
        if self.links.executed().has_doubts() {
            let request = &self.requests[token];
            let (of, ranges) = (request.key(), changed_ranges(&request.request));
            self.links.executed().take_from_doubts(of, place, &ranges);
        }
    }

    /// Work on an object has ended: what waited for its end goes on.
    pub(super) fn leave_object(&mut self, begun: Begun) {
        for (begun, token) in self.errands.leave(begun, &mut self.targets) {
            self.requests.wake(Woken::OnObject(token, begun));
        }
    }

    /// A worker has carried a request out.
    pub(super) fn request_worked(
        &mut self,
        token: Token,
        outcome: Result<TargetOutput, TargetFailure>,
        service: Nanos,
    ) -> Step {
        let request = &mut self.requests[&token];
        if let Some(account) = &mut request.account {
            account.spend(service);
        }
        let is_done = !matches!(outcome, Err(_) | Ok(TargetOutput::NoRoom(_)));
        let (link, of) = (request.sender.link, request.key());
        let changed = object_of(&request.request).filter(|_| change_of(&request.request).is_some());
        let changed = request.device().zip(changed);
        if let Some(place) = changed {
            if let Some(target) = self.targets.get_mut(place.0) {
                target.note_changes(place.1, || reached_ranges(&request.request));
            }
            match is_done {
                true => self.take_from_doubts(&token, place),
                false if matches!(outcome, Err(TargetFailure::Stale(_))) => {}
                false => self.remove_unwritten(place),
            }
        }
        let request = &mut self.requests[&token];
        let outcome = match outcome {
            Ok(TargetOutput::NoRoom(bytes)) => {
                let filled = bytes.len();
                request.arrival.open(Sink::Buffer { bytes, filled });
                return self.found_no_room(token);
            }
            Ok(TargetOutput::Bytes(bytes)) => Ok(Outcome::of_bytes(bytes)),
            Ok(TargetOutput::Position(position)) => Ok(Outcome::of(Reply::Position(position))),
            Ok(_) => Ok(Outcome::of(match &request.request {
                Request::Write { .. } => Reply::Written { size: None },
                _ => Reply::Done,
            })),
            Err(failure) => Err(failure),
        };
        let step = self.data_done(token, outcome);
        if let (Step::Away, true, Some(place)) = (&step, is_done && self.durability.is_durable(), changed) {
            // Its bytes are done, and its publication is not.
            self.links.note_begun(link, of, (place, None));
        }
        step
    }

    /// A call that a target refused may have made an object, which goes unless another call has written to it.
    fn remove_unwritten(&mut self, place: Place) {
        let work = TargetWork::RemoveUnwritten;
        self.errands.submit_alone(Errand::Stray(place.1), place, work, &mut self.targets);
    }

    /// The target had no room: the request tries again where some is about to be free.
    fn found_no_room(&mut self, token: Token) -> Step {
        if let Some(index) = self.requests[&token].device() {
            self.refill_target(index);
        }
        match self.wait_for_room(token) {
            Some(token) => self.data_done(token, Err(TargetFailure::Full)),
            None => Step::Away,
        }
    }

    /// The target is done with a data request: adds the size, publishes, and tells the mounts that hold pages.
    fn data_done(&mut self, token: Token, outcome: Result<Outcome, TargetFailure>) -> Step {
        if self.may_have_written(&token, &outcome) {
            self.note_written(&token);
        }
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => return self.refused(token, failure.into()),
        };
        let request = &self.requests[&token];
        let client = request.sender.client;
        match &request.request {
            Request::Read { capability, .. } => {
                outcome.reply = Reply::Data { size: self.namespace.files().size_and_epoch(capability.ino) };
            }
            Request::Write { capability, target, publication, .. } => {
                let (capability, target, publication) = (*capability, *target, *publication);
                self.wrote(capability.ino, target, publication.is_some());
                outcome.drops = self.recall_pages(client, capability.ino);
                if let Some(publication) = publication.filter(|_| capability.ino.home() == self.site.id) {
                    return self.publish(token, capability, publication, outcome);
                }
            }
            Request::Reserve { capability, target, punch, .. } => {
                let (ino, target, punch) = (capability.ino, *target, *punch);
                if punch {
                    outcome.drops = self.recall_pages(client, ino);
                } else {
                    self.wrote(ino, target, false);
                }
            }
            _ => {}
        }
        Step::Done(token, outcome)
    }

    /// Whether a request may have left bytes on its target. A directory may have taken a part of a write that failed.
    fn may_have_written(&self, token: &Token, outcome: &Result<Outcome, TargetFailure>) -> bool {
        let target = self.requests[token].device().and_then(|device| self.targets.get(device));
        match outcome {
            Ok(_) => true,
            Err(TargetFailure::Stale(_)) => false,
            Err(_) => target.is_some_and(|target| target.directory().is_some()),
        }
    }

    /// Answers a request that a target did not do.
    pub(super) fn refused(&mut self, token: Token, outcome: Outcome) -> Step {
        if outcome.is_full() {
            if let Some(device) = self.requests[&token].device() {
                self.accounts.note_refusal(device);
            }
            self.tell_of_full();
        }
        Step::Done(token, outcome)
    }

    /// Publishes a write after its intent was settled.
    pub(super) fn publish_write(&mut self, token: Token, outcome: Outcome) -> Step {
        match &self.requests[&token].request {
            Request::Write { capability, publication: Some(publication), .. } => {
                let (capability, publication) = (*capability, *publication);
                self.publish(token, capability, publication, outcome)
            }
            _ => Step::Done(token, outcome),
        }
    }

    /// Writes the payload of an `Append` at the end of its file, where one object in memory here takes all of it.
    pub(super) fn execute_append(&mut self, token: Token, capability: &Capability) -> Step {
        if let Err(errno) = self.end_earlier_turn(&token, capability) {
            return Step::Done(token, Outcome::failed(errno));
        }
        let request = &self.requests[&token];
        let acting = Rc::clone(&request.sender.acting);
        let caller = Caller { who: &acting.who, ..request.caller() };
        let length = request.payload.len() as u64;
        let (turn, target, object_offset, offset, epoch) =
            match self.namespace.append_inline(&caller, capability, length) {
                Ok(InlineAppend::Here { turn, target, object_offset, offset, epoch }) => {
                    (turn, target, object_offset, offset, epoch)
                }
                Ok(InlineAppend::Elsewhere) => {
                    return Step::Done(token, Outcome::of(Reply::AppendElsewhere));
                }
                Ok(InlineAppend::Done(decision)) => {
                    return self.follow(token, Ok(Verdict::Done(*decision)), Outcome::of(Reply::Done));
                }
                Ok(InlineAppend::Wait(intent)) => {
                    return self.away_until(intent, Continued::Execute(token));
                }
                Err(errno) => return Step::Done(token, Outcome::failed(errno)),
            };
        let extent = Extent { offset: object_offset, length: length as u32 };
        let memory = self.targets.get_mut(target.number()).and_then(Target::memory);
        let payload = &self.requests[&token].payload;
        let written =
            memory.map(|ram| write_inline(ram, capability.ino.object_on(target), epoch, &[extent], payload));
        let step = match written {
            None => Step::Done(token, Outcome::of(Reply::AppendElsewhere)),
            Some(Ok(())) => {
                let publication =
                    Publication { end: offset + length, written_bytes: length, epoch, reserved_end: 0 };
                let moment = self.clock.moment();
                let verdict = self.namespace.append_written(&caller, capability, turn, &publication, moment);
                let drops = self.recall_pages(caller.client, capability.ino);
                let (ino, uid, client) = (capability.ino, capability.uid, caller.client);
                let step = self.follow(token, verdict, Outcome { drops, ..Outcome::of(Reply::Done) });
                self.namespace
                    .files_mut()
                    .note_held(Part { ino, place: target, uid, client }, Reach::of_extents(&[extent]));
                step
            }
            Some(Err(TargetFailure::Full)) => match self.wait_for_room(token) {
                Some(token) => self.refused(token, TargetFailure::Full.into()),
                None => Step::Away,
            },
            Some(Err(failure)) => Step::Done(token, failure.into()),
        };
        let next = self.namespace.next_turn(&caller, capability.ino, turn);
        self.pass_turn(next);
        step
    }

    /// Bytes of an object are there: nothing stays of a file that is gone, and the home of a file that is there knows of the
    /// bytes, so that they go with the file.
    fn wrote(&mut self, ino: Ino, place: TargetId, is_published: bool) {
        if ino.home() != self.site.id {
            return;
        }
        if !self.namespace.files().has(ino) {
            let (target, object) = (place.number(), ino.object_on(place));
            match self.durability.is_durable() {
                true => self.defer(Deferred::Stray { target, object }, false),
                false => self.remove_stray(target, object),
            }
        } else if self.namespace.files().is_untouched(ino) {
            #[cfg(any(test, feature = "world"))]
            if is_published && mutants::is(Mutant::UnpublishedUntold) {
                return;
            }
            // Where the journal takes neither this nor the publication, the objects go with the file all the same.
            if is_published || self.record(&[Change::Touched { ino }]).is_err() {
                self.namespace.files_mut().note_touched(ino);
            }
        }
    }

    /// Brings an object to stable storage.
    pub(super) fn sync_object(&mut self, token: Token, capability: Capability, place: TargetId) -> Step {
        let here = Some(place.number()).filter(|_| place.server == self.site.id);
        let object = capability.ino.object_on(place);
        let Some(target) = here.and_then(|index| self.targets.get(index)) else {
            return Step::Done(token, Outcome::failed(errno::EINVAL));
        };
        if target.directory().is_none() {
            return Step::Done(token, Outcome::of(Reply::Done));
        }
        let attributes = self.requests[&token].sender.acting.attributes;
        let sync = ObjectSync { token, place: (place.number(), object) };
        self.requests.devices_mut().queue_sync(sync, attributes, self.clock.now());
        self.start_object_syncs();
        Step::Away
    }

    /// Begins the synchronisations that have their turns.
    fn start_object_syncs(&mut self) {
        while let Some((dispatch, sync)) = self.requests.devices_mut().take_sync(self.clock.now()) {
            let errand = Errand::ObjectSync(sync.token, dispatch);
            self.errands.submit_beside(errand, sync.place, TargetWork::Sync, &mut self.targets);
        }
    }

    /// A synchronisation ended.
    pub(super) fn object_synced(
        &mut self,
        token: Token,
        dispatch: &Dispatch,
        outcome: Result<TargetOutput, TargetFailure>,
        service: Nanos,
    ) -> Step {
        self.requests.devices_mut().end_sync(dispatch, service, self.clock.now());
        self.start_object_syncs();
        let outcome = self.outcome_of_sync(&token, outcome.map(|_| Outcome::of(Reply::Done)));
        self.data_done(token, outcome)
    }

    /// The outcome of a sync for its description, which is told of an earlier failure as well. A target that is gone lost no bytes.
    fn outcome_of_sync(
        &mut self,
        token: &Token,
        outcome: Result<Outcome, TargetFailure>,
    ) -> Result<Outcome, TargetFailure> {
        let Request::SyncObject { capability, target } = &self.requests[token].request else {
            return outcome;
        };
        let (capability, place) = (*capability, (target.number(), capability.ino.object_on(*target)));
        let now = self.clock.moment().seconds as u64;
        let is_gone = self.targets.get(place.0).and_then(Target::directory).is_none_or(Directory::is_gone);
        let failed = self.requests.failed_syncs();
        match outcome {
            Ok(_) if failed.tell(place, &capability) => Err(TargetFailure::Device(i32::from(errno::EIO.0))),
            Err(failure) if !is_gone => {
                failed.note(place, &capability, now);
                Err(failure)
            }
            outcome => outcome,
        }
    }
}
