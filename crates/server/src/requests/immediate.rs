//! Requests that never wait behind others: signs of life, locks, turns, closes, synchronisation, watches.

use crate::locks::{Answer as LockAnswer, LockRequest, Outcome as LockOutcome};
use crate::namespace::{errno, AppendGrant, TurnReply};
use crate::requests::service::{Outcome, Stage};
use crate::server::Server;
use weir_wire::{Cluster, Errno, LockKind, LockType, PeerRequest, Reply, Request, StoreStatistics};

impl Server {
    /// Serves a request outside every queue.
    pub(crate) fn serve_at_once(&mut self, token: usize) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        pending.stage = Stage::Elsewhere;
        let client = pending.client;
        let request = pending.request.clone();
        let done = |server: &mut Server, reply: Reply| server.finish(token, Outcome::of(reply));
        match request {
            Request::Ping => done(self, Reply::Done),
            Request::Cluster => {
                let mut servers: Vec<_> = self.addresses.values().cloned().collect();
                servers.sort_by_key(|address| address.server);
                done(self, Reply::Cluster(Cluster { servers }));
            }
            Request::Statistics => {
                let statistics = self.statistics();
                done(self, Reply::Statistics(statistics));
            }
            Request::Lock { .. } => self.lock(token),
            Request::TestLock { .. } => {
                let reply = match self.lock_request(token).and_then(|asked| self.locks.test(&asked)) {
                    Ok(conflict) => Reply::Conflict(conflict),
                    Err(errno) => Reply::Failed(errno),
                };
                done(self, reply);
            }
            Request::CancelLock { waiting, .. } => {
                if let Some(waiter) = self.waiting_request(client, waiting) {
                    self.locks.cancel(client, waiting);
                    self.waiting.remove(&(client, waiting));
                    self.finish(waiter, Outcome::failed(errno::EINTR));
                }
                done(self, Reply::Done);
            }
            Request::ReleaseLocks { ino, owner } => {
                let answers = self.locks.release_owner(ino, client, owner);
                done(self, Reply::Done);
                self.answer_locks(answers);
            }
            Request::Close { ino, handle } => {
                if self.namespace.ends_with(client, ino, handle) {
                    let answers = self.locks.close(ino, handle);
                    self.answer_locks(answers);
                }
                self.execute_namespace(token);
            }
            Request::Reclaim { handles } => {
                let reply = self.reclaim(token, &handles);
                done(self, reply);
            }
            Request::SyncMetadata { .. } => self.sync_metadata(token),
            Request::SyncObject { capability, target } => self.sync_object(token, capability, target),
            Request::Publish { .. }
            | Request::AppendEnd { .. }
            | Request::MoveFreeze { .. }
            | Request::MoveEnd { .. } => self.execute_namespace(token),
            Request::ObjectChanges { capability, target, tracking, round } => {
                let reply = self.object_changes(&capability, target, tracking, round);
                done(self, reply);
            }
            Request::AppendBegin { .. } => self.begin_append(token),
            Request::AppendRenew { capability, turn } => {
                let reply = self.renew_turn(token, &capability, turn);
                done(self, reply);
            }
            Request::Watch { capability } => {
                let Some(acting) = self.pending.get(token).map(|pending| &pending.acting) else { return };
                let user = (!acting.trusted).then_some(acting.who.uid);
                let is_watched = self.watches.watch(client, user, capability.ino);
                done(self, if is_watched { Reply::Done } else { Reply::Failed(errno::ENFILE) });
            }
            Request::Unwatch { ino } => {
                self.watches.unwatch(client, ino);
                done(self, Reply::Done);
            }
            Request::Invalidations { done } => self.poll_invalidations(token, done),
            Request::Peer(request) => self.serve_peer(token, &request),
            _ => done(self, Reply::Failed(errno::EOPNOTSUPP)),
        }
    }

    fn statistics(&self) -> StoreStatistics {
        let fills = self.targets.iter().map(crate::storage::Target::fill);
        let (capacity_bytes, used_bytes) =
            fills.fold((0, 0), |(capacity, used), (bytes, in_use)| (capacity + bytes, used + in_use));
        StoreStatistics {
            capacity_bytes,
            free_bytes: capacity_bytes.saturating_sub(used_bytes),
            ..self.namespace.statistics()
        }
    }

    /// The lock call of a request, through a description that its client holds and that allows it.
    fn lock_request(&self, token: usize) -> Result<LockRequest, Errno> {
        let pending = self.pending.get(token).ok_or(errno::EINVAL)?;
        let (client, request, uid) = (pending.client, pending.header.request, pending.acting.who.uid);
        // A test of a lock is a lock call that never waits, for a process that nobody is told of.
        let (description, what, (pid, wait, reclaim)) = match pending.request {
            Request::Lock { ino, handle, owner, pid, kind, lock, range, wait, reclaim } => {
                ((ino, handle, owner), (kind, lock, range), (pid, wait, reclaim))
            }
            Request::TestLock { ino, handle, owner, kind, lock, range } => {
                ((ino, handle, owner), (kind, lock, range), (0, false, false))
            }
            _ => return Err(errno::EINVAL),
        };
        let ((ino, handle, owner), (kind, lock, range)) = (description, what);
        let asked =
            LockRequest { client, uid, request, ino, handle, owner, pid, kind, lock, range, wait, reclaim };
        let rights = self.namespace.held(client, asked.ino, asked.handle).ok_or(errno::EBADF)?;
        // fcntl(2) asks for an open mode; flock(2) takes any descriptor.
        let allowed = match (asked.kind, asked.lock) {
            _ if matches!(pending.request, Request::TestLock { .. }) => true,
            (LockKind::Flock, _) | (_, LockType::Unlock) => true,
            (_, LockType::Read) => rights.read,
            (_, LockType::Write) => rights.write,
        };
        allowed.then_some(asked).ok_or(errno::EBADF)
    }

    fn lock(&mut self, token: usize) {
        let asked = match self.lock_request(token) {
            Ok(asked) => asked,
            Err(errno) => return self.finish(token, Outcome::failed(errno)),
        };
        let (outcome, answers) = self.locks.acquire(&asked);
        match outcome {
            LockOutcome::Granted => self.finish(token, Outcome::of(Reply::Done)),
            LockOutcome::Failed(errno) => self.finish(token, Outcome::failed(errno)),
            LockOutcome::Waiting => {
                // A resend of a request that waits takes its place.
                if let Some(earlier) = self.waiting.insert((asked.client, asked.request), token) {
                    self.finish(earlier, Outcome::failed(errno::EAGAIN));
                }
            }
        }
        self.answer_locks(answers);
    }

    /// Answers lock requests that waited.
    pub(crate) fn answer_locks(&mut self, answers: Vec<LockAnswer>) {
        for answer in answers {
            if let Some(token) = self.waiting.remove(&(answer.client, answer.request)) {
                let reply = answer.result.map_or_else(Reply::Failed, |()| Reply::Done);
                self.finish(token, Outcome::of(reply));
            }
        }
    }

    fn begin_append(&mut self, token: usize) {
        let Some(pending) = self.pending.get(token) else { return };
        let Request::AppendBegin { capability } = &pending.request else { return };
        let capability = *capability;
        let key = (pending.client, pending.header.request);
        let caller = crate::requests::metadata::caller(pending);
        match self.namespace.append_begin(&caller, &capability) {
            Ok(TurnReply::Now(reply)) => self.finish(token, Outcome::of(reply)),
            Ok(TurnReply::Later) => {
                // A resend of a request that waits takes its place.
                if let Some(earlier) = self.waiting.insert(key, token) {
                    self.finish(earlier, Outcome::failed(errno::EAGAIN));
                }
            }
            Ok(TurnReply::Wait(intent)) => {
                self.continue_after(intent, crate::requests::metadata::Continued::AtOnce(token))
            }
            Err(errno) => self.finish(token, Outcome::failed(errno)),
        }
    }

    /// Answers an `AppendBegin` whose turn came.
    pub(crate) fn grant_turn(&mut self, grant: Option<AppendGrant>) {
        let Some(AppendGrant { appender, reply }) = grant else { return };
        if let Some(token) = self.waiting.remove(&(appender.client, appender.request)) {
            self.finish(token, Outcome::of(reply));
        }
    }

    fn serve_peer(&mut self, token: usize, request: &PeerRequest) {
        let Some(link) = self.pending.get(token).map(|pending| pending.link) else { return };
        let Some(from) = self.peer_of(link) else {
            return self.finish(token, Outcome::failed(errno::EPERM));
        };
        match request {
            PeerRequest::Exchange => self.serve_exchange(token),
            PeerRequest::Room => self.serve_room_question(token, from),
            PeerRequest::TruncateObject { ino, .. }
            | PeerRequest::FenceObject { ino, .. }
            | PeerRequest::RemoveObject { ino, .. } => match ino.home() == from {
                true => self.serve_object_effect(token, request),
                false => self.finish(token, Outcome::failed(errno::EPERM)),
            },
            _ => self.serve_directory_request(token, request),
        }
    }
}
