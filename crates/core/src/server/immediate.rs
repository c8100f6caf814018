//! Requests that never wait behind others: signs of life, locks, turns, closes, synchronisation, watches.

use super::Server;
use crate::namespace::errno;
use crate::requests::request::{Outcome, Step, Token};
use crate::storage::Target;
use weir_placement::TargetId;
use weir_wire::{Capability, Cluster, PeerReply, PeerRequest, Reply, Request, RoomReport};

impl Server {
    /// Serves a request outside every queue.
    pub(super) fn serve_at_once(&mut self, token: Token) -> Step {
        let in_hand = &self.requests[&token];
        let client = in_hand.sender.client;
        let reply = match in_hand.request.clone() {
            Request::Ping => Reply::Done,
            Request::Fence => self.held_now(),
            Request::Cluster => Reply::Cluster(Cluster { servers: self.peers.addresses() }),
            Request::Statistics => Reply::Statistics(self.statistics()),
            Request::Lock { .. } => return self.lock(token),
            Request::TestLock { .. } => return self.test_lock(token),
            Request::CancelLock { waiting, .. } => return self.cancel_lock(token, waiting),
            Request::ReleaseLocks { ino, owner } => {
                let answers = self.locks.release_owner(ino, client, owner);
                self.answer_locks(answers);
                Reply::Done
            }
            Request::Close { ino, handle } => {
                if self.namespace.files().ends_with(client, ino, handle) {
                    let answers = self.locks.close(ino, handle);
                    self.answer_locks(answers);
                }
                let (job, metadata) =
                    (self.requests[&token].sender.acting.job, self.requests.devices().metadata());
                if let Some(job) = self.accounts.jobs().job_mut(job) {
                    job.count_close(metadata);
                }
                return self.execute_namespace(token);
            }
            Request::Reclaim { handles } => {
                let link = self.requests[&token].sender.link;
                if self.links.claims_late(link, client) && !handles.is_empty() {
                    return Step::Done(token, Outcome::of(self.held_now()));
                }
                if handles.is_empty() {
                    self.links.end_claims(link, client);
                    if let Some(back) = self.namespace.files().return_of(client) {
                        // Where the journal does not take it, the client's locks are refused at the next start.
                        let _ = self.record(&[back]);
                    }
                }
                let in_hand = &self.requests[&token];
                match self.namespace.reclaim(&in_hand.caller(), &handles) {
                    Ok(()) => self.held_now(),
                    Err(errno) => Reply::Failed(errno),
                }
            }
            Request::SyncMetadata { .. } => return self.sync_metadata(token),
            Request::SyncObject { capability, target } => return self.sync_object(token, capability, target),
            Request::Publish { .. }
            | Request::AppendEnd { .. }
            | Request::MoveFreeze { .. }
            | Request::MoveEnd { .. } => return self.execute_namespace(token),
            Request::ObjectChanges { capability, target, tracking, round } => {
                self.object_changes(&capability, target, tracking, round)
            }
            Request::AppendBegin { capability } => return self.begin_append(token, &capability),
            Request::AppendRenew { capability, turn } => self.renew_turn(&token, &capability, turn),
            Request::Watch { .. }
            | Request::Unwatch { .. }
            | Request::Follow { .. }
            | Request::Invalidations { .. } => return self.serve_kernel(token),
            Request::Peer(request) => return self.serve_peer(token, &request),
            _ => Reply::Failed(errno::EOPNOTSUPP),
        };
        Step::Done(token, Outcome::of(reply))
    }

    fn statistics(&self) -> RoomReport {
        RoomReport { targets: self.targets.iter().map(Target::room).collect(), ..self.namespace.statistics() }
    }

    /// The changes of an object since the last round of a move, for a capability that holds.
    fn object_changes(
        &mut self,
        capability: &Capability,
        target: TargetId,
        tracking: u64,
        round: u32,
    ) -> Reply {
        if target.server != self.site.id {
            return Reply::Failed(errno::EINVAL);
        }
        if !capability.rights.write {
            return Reply::Failed(errno::EBADF);
        }
        let changes = match self.targets.get_mut(target.number()) {
            Some(here) => here.changes(capability.ino.object_on(target), tracking, round),
            None => return Reply::Failed(errno::EINVAL),
        };
        changes.map_or(Reply::Failed(errno::ESTALE), Reply::Changes)
    }

    /// Serves a request of another server.
    fn serve_peer(&mut self, token: Token, request: &PeerRequest) -> Step {
        let Some(from) = self.links.peer_of(self.requests[&token].sender.link) else {
            return Step::Done(token, Outcome::failed(errno::EPERM));
        };
        match request {
            PeerRequest::Exchange => self.serve_exchange(token),
            PeerRequest::Room => self.serve_room_question(token, from),
            PeerRequest::Vacancy => self.serve_vacancy_question(token),
            PeerRequest::ObjectsHeld { objects } => self.serve_held(token, from, objects),
            PeerRequest::Confirm { capabilities } => {
                let (holds, fence) = (self.namespace.files().hold(capabilities), self.locks.fence());
                Step::Done(token, Outcome::of(Reply::Peer(PeerReply::Confirmed { holds, fence })))
            }
            PeerRequest::TruncateObject { ino, .. }
            | PeerRequest::FenceObject { ino, .. }
            | PeerRequest::RemoveObject { ino, .. } => match ino.home() == from {
                true => self.serve_object_effect(token, request),
                false => Step::Done(token, Outcome::failed(errno::EPERM)),
            },
            _ => self.serve_directory_request(token, from, request),
        }
    }
}
