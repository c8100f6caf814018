//! Reads and writes of objects: checked, planned, carried out on memory here or on a directory by a worker.

use crate::events::{Event, WorkOutput, Worked};
use crate::links::connection::Tail;
use crate::namespace::{errno, Caller, Change, InlineAppend, Verdict};
use crate::notices::notice;
use crate::peers::confirmations::object_capability;
use crate::requests::durability::Deferred;
use crate::requests::metadata::{caller, Continued};
use crate::requests::service::{total_bytes, Outcome, Pending, Sink, Stage};
use crate::server::Server;
use crate::storage::{Dir, Ram, Segment, Target, TargetFailure};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weir_device::{Device, Work};
use weir_fairshare::{Direction, Dispatch, Nanos, Policy, Sharing};
use weir_placement::TargetId;
use weir_wire::{limits, Capability, Errno, Extent, Ino, Publication, Reply, Request, Seek};

/// Reads up to this size are copied into the reply: cheaper than keeping their pages in place.
pub(crate) const COPY_BYTES_MAX: u64 = 16 * 1024;

/// The price of a synchronisation is learned.
const SYNC: Work = Work { direction: Direction::Write, bytes: 0 };

/// Synchronisations of objects. They never wait behind data, but for each other: all together have some of the workers,
/// and these are divided by the policy.
pub(crate) struct Syncs {
    pub(crate) device: Device,
    waiting: HashMap<usize, (Arc<Dir>, Ino)>,
}

impl Syncs {
    pub(crate) fn new(policy: &Policy) -> Syncs {
        Syncs { device: Device::new(&Sharing::of(policy.clone()), None, 0), waiting: HashMap::new() }
    }

    fn wait(&mut self, token: usize, dir: Arc<Dir>, ino: Ino) {
        self.waiting.insert(token, (dir, ino));
    }
}

impl Server {
    /// Whether a data request, whose capability holds, is one that this server can take: the number of its target here.
    pub(crate) fn check_data(
        &self,
        pending: &Pending,
        target: TargetId,
        extents: &[Extent],
        write: bool,
    ) -> Result<usize, Errno> {
        let index = usize::from(target.index);
        if target.server != self.id || index >= self.targets.len() {
            return Err(errno::EINVAL);
        }
        let Some(capability) = object_capability(&pending.request) else { return Err(errno::EINVAL) };
        let allowed = if write { capability.rights.write } else { capability.rights.read };
        if !allowed {
            return Err(errno::EBADF);
        }
        let is_outside =
            |offset: u64, length: u64| offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES);
        let outside = match pending.request {
            Request::Reserve { offset, length, .. } => is_outside(offset, length),
            Request::ObjectSeek { offset, .. } => is_outside(offset, 0),
            _ => extents.iter().any(|extent| is_outside(extent.offset, u64::from(extent.length))),
        };
        if outside {
            return Err(errno::EFBIG);
        }
        let bytes = total_bytes(extents);
        let expected = if matches!(pending.request, Request::Write { .. }) { bytes } else { 0 };
        if extents.len() > limits::EXTENTS
            || bytes > limits::PAYLOAD_BYTES as u64
            || expected != u64::from(pending.header.payload_bytes)
        {
            return Err(errno::EINVAL);
        }
        Ok(index)
    }

    /// Decides where the detached payload of a write goes.
    pub(crate) fn open_sink(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let Some((device, _)) = pending.device else { return };
        let Request::Write { capability, epoch, extents, .. } = &pending.request else { return };
        let left = pending.detached_bytes;
        pending.sink = match self.targets.get_mut(device) {
            Some(target) => match target.memory() {
                Some(ram) => match ram.begin_write(capability.ino, *epoch, extents) {
                    Ok(plan) => Sink::Arena { plan, region: 0, within: 0 },
                    Err(failure) => {
                        return self.open_sink_elsewhere(token, Outcome::from(failure).reply, left)
                    }
                },
                None => Sink::Buffer { bytes: vec![0; left], filled: 0 },
            },
            None => Sink::Discard { failure: Reply::Failed(errno::EINVAL), left },
        };
    }

    /// Decides where the payload goes of a write that a target in memory did not take: into a buffer, if it may wait for room.
    fn open_sink_elsewhere(&mut self, token: usize, failure: Reply, left: usize) {
        let may_wait = failure == Reply::Failed(errno::ENOSPC) && self.room_may_come();
        let Some(pending) = self.pending.get_mut(token) else { return };
        if !may_wait {
            pending.sink = Sink::Discard { failure, left };
            return;
        }
        pending.sink = Sink::Buffer { bytes: vec![0; left], filled: 0 };
        pending.held_bytes += left;
        let (link, job) = (pending.link, pending.session_job);
        self.hold_memory(link.index, job, left);
    }

    /// Carries out a request whose turn it is and whose payload is here.
    pub(crate) fn execute(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        if let Sink::Discard { failure, .. } = &pending.sink {
            let outcome = Outcome::of(failure.clone());
            return self.refuse(token, outcome);
        }
        let target = pending.device.and_then(|(device, _)| self.targets.get(device));
        match (target.map(Target::directory), &pending.request) {
            (_, Request::Append { .. }) => self.execute_append(token),
            (_, Request::Peer(_)) => self.serve_exchange(token),
            (Some(None), _) => {
                let before = self.clock_now();
                let outcome = self.execute_in_memory(token);
                let spent = self.clock_now().saturating_since(before);
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.service = pending.service + spent;
                }
                if matches!(outcome, Err(TargetFailure::Full)) && self.wait_for_room(token) {
                    return;
                }
                self.data_done(token, outcome);
            }
            (Some(Some(dir)), _) => {
                let dir = Arc::clone(dir);
                self.execute_on_worker(token, dir);
            }
            (None, _) => {
                let before = self.clock_now();
                self.execute_namespace(token);
                let spent = self.clock_now().saturating_since(before);
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.service = pending.service + spent;
                }
            }
        }
    }

    fn execute_in_memory(&mut self, token: usize) -> Result<Outcome, TargetFailure> {
        let Some(pending) = self.pending.get_mut(token) else { return Ok(Outcome::of(Reply::Done)) };
        let device = pending.device.map_or(0, |(device, _)| device);
        let Some(ram) = self.targets.get_mut(device).and_then(Target::memory) else {
            return Ok(Outcome::of(Reply::Done));
        };
        match &pending.request {
            Request::Read { capability, epoch, extents, .. } => {
                let plan = ram.begin_read(capability.ino, *epoch, extents)?;
                let mut outcome = Outcome::of(Reply::Data { size: None });
                if total_bytes(extents) <= COPY_BYTES_MAX {
                    outcome.payload = copied(ram, &plan.segments);
                    ram.finish_read(&plan);
                } else {
                    outcome.tail = Some(Tail::Arena { target: device, plan });
                }
                Ok(outcome)
            }
            Request::Write { capability, epoch, extents, .. } => {
                match std::mem::replace(&mut pending.sink, Sink::None) {
                    Sink::Arena { plan, .. } => ram.finish_write(plan)?,
                    Sink::Buffer { bytes, filled } => {
                        let written = write_inline(ram, capability.ino, *epoch, extents, &bytes);
                        pending.sink = Sink::Buffer { bytes, filled };
                        written?;
                    }
                    _ => write_inline(ram, capability.ino, *epoch, extents, &pending.payload)?,
                }
                Ok(Outcome::of(Reply::Written { size: None }))
            }
            Request::Reserve { capability, epoch, offset, length, punch, .. } => {
                if *punch {
                    ram.punch(capability.ino, *epoch, *offset, *length)?;
                } else {
                    ram.reserve(capability.ino, *epoch, *offset, *length)?;
                }
                Ok(Outcome::of(Reply::Done))
            }
            Request::ObjectSeek { capability, epoch, offset, seek, .. } => {
                let position = ram.seek(capability.ino, *epoch, *offset, *seek == Seek::Data)?;
                Ok(Outcome::of(Reply::Position(position)))
            }
            _ => Ok(Outcome::failed(errno::EINVAL)),
        }
    }

    fn execute_on_worker(&mut self, token: usize, dir: Arc<Dir>) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let bytes = match std::mem::replace(&mut pending.sink, Sink::None) {
            Sink::Buffer { bytes, .. } => bytes,
            _ => std::mem::take(&mut pending.payload),
        };
        let request = pending.request.clone();
        pending.stage = Stage::Elsewhere;
        self.submit(Errand::Request(token), move || match run_on_directory(&dir, &request, &bytes) {
            Err(TargetFailure::Full) => Ok(WorkOutput::NoRoom(bytes)),
            outcome => outcome,
        });
    }

    /// Runs blocking work on the pool; its end comes back as an event for `errand`.
    pub(crate) fn submit(
        &mut self,
        errand: Errand,
        work: impl FnOnce() -> Result<WorkOutput, TargetFailure> + Send + 'static,
    ) {
        let number = self.errands.insert(errand) as u64;
        let events = self.events.clone();
        self.workers.submit(Box::new(move || {
            let started = Instant::now();
            let outcome = work();
            events.send(Event::Worked(Worked { number, outcome, service: started.elapsed() }));
        }));
    }

    /// A worker is done.
    pub(crate) fn worked(&mut self, worked: Worked) {
        self.workers.drain();
        let Some(errand) = self.errands.try_remove(worked.number as usize) else { return };
        match errand {
            Errand::Request(token) => {
                if let Some(pending) = self.pending.get_mut(token) {
                    pending.service = pending.service + Nanos::from(worked.service);
                }
                if let Ok(WorkOutput::NoRoom(bytes)) = worked.outcome {
                    return self.found_no_room(token, bytes);
                }
                let outcome = worked.outcome.map(|output| match output {
                    WorkOutput::Done | WorkOutput::Cut(_) | WorkOutput::NoRoom(_) => {
                        Outcome::of(match self.pending.get(token).map(|pending| &pending.request) {
                            Some(Request::Write { .. }) => Reply::Written { size: None },
                            _ => Reply::Done,
                        })
                    }
                    WorkOutput::Bytes(bytes) => {
                        Outcome { tail: Some(Tail::Bytes(bytes)), ..Outcome::of(Reply::Data { size: None }) }
                    }
                    WorkOutput::Position(position) => Outcome::of(Reply::Position(position)),
                });
                self.data_done(token, outcome);
            }
            Errand::ObjectSync(token, dispatch) => self.object_synced(token, &dispatch, worked),
            Errand::Effect(effect) => self.effect_worked(*effect, worked.outcome),
            Errand::Stray(ino) => {
                if let Err(failure) = worked.outcome {
                    notice!("the object of removed file {ino} stays: errno {}", failure.errno().0);
                }
            }
            Errand::PeerObject(token) => self.object_effect_served(token, worked.outcome.map(|_| ())),
            Errand::Snapshot(end) => self.journal_compacted(&end),
            Errand::Sync(synced) => self.journal_synced(synced),
            Errand::Discard => self.discarded(worked.outcome),
            Errand::Mark => {}
            Errand::Renewal(end) => self.journal_renewed(&end),
        }
    }

    /// A worker found no room: it tries again where some is about to be free.
    fn found_no_room(&mut self, token: usize, bytes: Vec<u8>) {
        self.give_back_bytes(token, bytes);
        if !self.wait_for_room(token) {
            self.data_done(token, Err(TargetFailure::Full));
        }
    }

    /// The target is done with a data request: adds the size, publishes, and tells who holds pages.
    fn data_done(&mut self, token: usize, outcome: Result<Outcome, TargetFailure>) {
        let mut outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => return self.refuse(token, failure.into()),
        };
        let Some(pending) = self.pending.get(token) else { return };
        let client = pending.client;
        match &pending.request {
            Request::Read { capability, .. } => {
                outcome.reply = Reply::Data { size: self.namespace.size_and_epoch(capability.ino) };
            }
            Request::Write { capability, publication, .. } => {
                let (capability, publication) = (*capability, *publication);
                let device = pending.device;
                self.wrote(capability.ino, device, publication.is_some());
                outcome.drops = self.watches.changed(client, capability.ino);
                if let Some(publication) = publication.filter(|_| capability.ino.home() == self.id) {
                    return self.publish(token, capability, publication, outcome);
                }
            }
            Request::Reserve { capability, punch, .. } => {
                let (ino, punch, device) = (capability.ino, *punch, pending.device);
                if punch {
                    outcome.drops = self.watches.changed(client, ino);
                } else {
                    self.wrote(ino, device, false);
                }
            }
            _ => {}
        }
        self.finish(token, outcome);
    }

    /// Answers what a target did not do.
    fn refuse(&mut self, token: usize, outcome: Outcome) {
        let is_full = outcome.reply == Reply::Failed(errno::ENOSPC);
        self.finish(token, outcome);
        if is_full {
            self.tell_of_full();
        }
    }

    /// Writes the payload of an `Append` at the end of its file, where one object in memory here takes all of it.
    fn execute_append(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        let Request::Append { capability } = &pending.request else { return };
        let capability = *capability;
        let acting = Rc::clone(&pending.acting);
        let caller = Caller { who: &acting.who, ..caller(pending) };
        let length = pending.payload.len() as u64;
        let (turn, target, object_offset, offset, epoch) =
            match self.namespace.append_inline(&caller, &capability, length) {
                Ok(InlineAppend::Here { turn, target, object_offset, offset, epoch }) => {
                    (turn, target, object_offset, offset, epoch)
                }
                Ok(InlineAppend::Elsewhere) => {
                    return self.finish(token, Outcome::of(Reply::AppendElsewhere))
                }
                Ok(InlineAppend::Done(decision)) => {
                    return self.follow(token, Ok(Verdict::Done(*decision)), Outcome::of(Reply::Done));
                }
                Ok(InlineAppend::Wait(intent)) => {
                    return self.continue_after(intent, Continued::Execute(token))
                }
                Err(errno) => return self.finish(token, Outcome::failed(errno)),
            };
        let extent = Extent { offset: object_offset, length: length as u32 };
        let written = match self.targets.get_mut(usize::from(target.index)).and_then(Target::memory) {
            Some(ram) => {
                write_inline(ram, capability.ino, epoch, &[extent], &pending.payload).map_err(Outcome::from)
            }
            None => Err(Outcome::of(Reply::AppendElsewhere)),
        };
        match written {
            Ok(()) => {
                let publication = Publication { end: offset + length, written_bytes: length, epoch };
                let moment = self.moment();
                let verdict = self.namespace.append_written(&caller, &capability, turn, &publication, moment);
                let drops = self.watches.changed(caller.client, capability.ino);
                self.follow(token, verdict, Outcome { drops, ..Outcome::of(Reply::Done) });
            }
            Err(outcome) if outcome.reply == Reply::Failed(errno::ENOSPC) && self.wait_for_room(token) => {}
            Err(outcome) => self.refuse(token, outcome),
        }
        let grant = self.namespace.next_turn(&caller, capability.ino, turn);
        self.grant_turn(grant);
    }

    /// The device of the target that takes an append, when it is one of this server.
    pub(crate) fn append_device(&self, pending: &Pending) -> Option<usize> {
        let Request::Append { capability } = &pending.request else { return None };
        let target = self.namespace.append_target(capability.ino, pending.payload.len() as u64)?;
        let index = usize::from(target.index);
        (target.server == self.id && index < self.targets.len()).then_some(index)
    }

    /// Bytes of an object are there: nothing stays of a file that is gone, and the home of one that is not knows of them, so
    /// that they go with it.
    fn wrote(&mut self, ino: Ino, device: Option<(usize, Work)>, is_published: bool) {
        if ino.home() != self.id {
            return self.wrote_elsewhere(ino);
        }
        if !self.namespace.has(ino) {
            match device {
                Some((target, _)) if self.journal.is_some() => {
                    self.defer(Deferred::Stray { target, ino }, false)
                }
                Some((target, _)) => self.remove_stray(target, ino),
                None => {}
            }
        } else if !is_published && self.namespace.is_untouched(ino) {
            // Where the journal does not take it the file's next change, or the end of its writer, tells of it.
            let _ = self.record(&[Change::Touched { ino }]);
        }
    }

    /// Removes what late writers left of a file that is gone, on all targets of this server.
    pub(crate) fn remove_strays(&mut self, ino: Ino) {
        for index in 0..self.targets.len() {
            self.remove_stray(index, ino);
        }
    }

    pub(crate) fn remove_stray(&mut self, index: usize, ino: Ino) {
        let Some(target) = self.targets.get_mut(index) else { return };
        if let Some(ram) = target.memory() {
            ram.remove(ino);
        } else if let Some(dir) = target.directory().cloned() {
            self.submit(Errand::Stray(ino), move || dir.remove(ino).map(|()| WorkOutput::Done));
        }
    }

    /// Brings an object to stable storage.
    pub(crate) fn sync_object(&mut self, token: usize, capability: Capability, target: TargetId) {
        let index = usize::from(target.index);
        if target.server != self.id {
            return self.finish(token, Outcome::failed(errno::EINVAL));
        }
        match self.targets.get(index).map(Target::directory) {
            Some(None) => self.finish(token, Outcome::of(Reply::Done)),
            Some(Some(dir)) => {
                let dir = Arc::clone(dir);
                self.syncs.wait(token, dir, capability.ino);
                let (Some(pending), now) = (self.pending.get(token), self.now()) else { return };
                self.syncs.device.enqueue(pending.acting.attributes, token as u64, SYNC, now);
                self.start_object_syncs();
            }
            None => self.finish(token, Outcome::failed(errno::EINVAL)),
        }
    }

    /// Begins synchronisations whose turn it is.
    fn start_object_syncs(&mut self) {
        let now = self.now();
        while let Some(dispatch) = self.syncs.device.dispatch(now) {
            let token = dispatch.token.0 as usize;
            let Some((dir, ino)) = self.syncs.waiting.remove(&token) else { continue };
            let errand = Errand::ObjectSync(token, dispatch);
            self.submit(errand, move || dir.sync(ino).map(|()| WorkOutput::Done));
        }
    }

    /// A synchronisation ended.
    fn object_synced(&mut self, token: usize, dispatch: &Dispatch, worked: Worked) {
        let now = self.now();
        self.syncs.device.complete(dispatch, SYNC, (Nanos::from(worked.service), None), now);
        let outcome = worked.outcome.map(|_| Outcome::of(Reply::Done));
        self.data_done(token, outcome);
        self.start_object_syncs();
    }
}

/// Whose end an event of the worker pool is.
pub(crate) enum Errand {
    /// A client's request.
    Request(usize),
    /// The synchronisation of an object.
    ObjectSync(usize, Dispatch),
    /// An effect of the namespace.
    Effect(Box<crate::namespace::Effect>),
    /// The object of a file that is gone.
    Stray(Ino),
    /// What another server asked of an object here.
    PeerObject(usize),
    /// A snapshot of the namespace.
    Snapshot(crate::requests::metadata::SnapshotEnd),
    /// The journal is on stable storage.
    Sync(crate::requests::durability::Synced),
    /// An object that was set aside is removed.
    Discard,
    /// The durable mark.
    Mark,
    /// A snapshot with which the journal begins anew.
    Renewal(crate::requests::metadata::SnapshotEnd),
}

fn copied(ram: &Ram, segments: &[Segment]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(segments.iter().map(Segment::length).sum());
    for segment in segments {
        match *segment {
            Segment::Bytes(region) => bytes.extend_from_slice(ram.bytes(region)),
            Segment::Zeros(length) => bytes.resize(bytes.len() + length, 0),
        }
    }
    bytes
}

fn write_inline(
    ram: &mut Ram,
    ino: Ino,
    epoch: u64,
    extents: &[Extent],
    bytes: &[u8],
) -> Result<(), TargetFailure> {
    let plan = ram.begin_write(ino, epoch, extents)?;
    let mut rest = bytes;
    for region in plan.regions.clone() {
        let (part, after) = rest.split_at(region.length);
        ram.bytes_mut(region).copy_from_slice(part);
        rest = after;
    }
    Ok(ram.finish_write(plan)?)
}

fn run_on_directory(dir: &Dir, request: &Request, bytes: &[u8]) -> Result<WorkOutput, TargetFailure> {
    match request {
        Request::Read { capability, epoch, extents, .. } => {
            dir.read(capability.ino, *epoch, extents).map(WorkOutput::Bytes)
        }
        Request::Write { capability, epoch, extents, .. } => {
            dir.write(capability.ino, *epoch, extents, bytes).map(|()| WorkOutput::Done)
        }
        Request::Reserve { capability, epoch, offset, length, punch, .. } => {
            dir.reserve(capability.ino, *epoch, *offset, *length, *punch).map(|()| WorkOutput::Done)
        }
        Request::ObjectSeek { capability, epoch, offset, seek, .. } => {
            dir.seek(capability.ino, *epoch, *offset, *seek == Seek::Data).map(WorkOutput::Position)
        }
        _ => Err(TargetFailure::Device(i32::from(errno::EINVAL.0))),
    }
}
