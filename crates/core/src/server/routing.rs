//! The way of a request to its device: its capability is checked, and kernel pages of other mounts are written back before.

use super::charges::Admission;
use super::Server;
use crate::namespace::errno;
use crate::peers::confirmations::Standing;
use crate::requests::objects::{check, object_capability, overwritten, total_bytes};
use crate::requests::request::{InHand, Token};
use crate::storage::Target;
use weir_device::Work;
use weir_fairshare::Direction;
use weir_placement::TargetId;
use weir_wire::{Errno, Extent, PeerRequest, Reply, Request};

impl Server {
    /// Sends a request to the device that serves it, or answers it at once.
    pub(super) fn route(&mut self, token: Token) {
        if self.is_given_up(&token) {
            return self.fail_unserved(token, errno::EIO);
        }
        if let Some(outcome) = self.outcome_of_before(&token) {
            return self.answer_unserved(token, outcome.reply);
        }
        let request = &self.requests[&token];
        match &request.request {
            _ if request.arrival.is_complete() => {}
            Request::Write { .. } => {}
            Request::Peer(PeerRequest::Exchange) if self.links.peer_of(request.sender.link).is_some() => {
                return self.receive_report(token);
            }
            _ => return self.fail_unserved(token, errno::EINVAL),
        }
        if let Some(capability) = object_capability(&request.request).copied() {
            match self.standing(&token, &capability) {
                Standing::Holds => {}
                Standing::Refused(errno) => return self.fail_unserved(token, errno),
                Standing::Unknown => return self.confirm_first(token, &capability),
            }
        }
        if self.has_left(&self.requests[&token].request) {
            // The client asks the home for the layout, as it does where an object moved away.
            return self.answer_unserved(token, Reply::StaleEpoch { epoch: u64::MAX });
        }
        let request = &self.requests[&token];
        let (client, id) = request.key();
        let file = overwritten(&request.request);
        let file = file.filter(|ino| self.others_hold_pages(client, *ino));
        // Nobody writes pages back for a sender that has no right to change the file.
        let file = file.filter(|_| match &request.request {
            Request::Change { at, change, .. } => {
                self.namespace.names().may_resize(&request.caller(), at, change, self.clock.moment())
            }
            _ => true,
        });
        match file.filter(|_| !self.namespace.remembers(client, id)) {
            Some(_) if self.links.clients().has_mount(client) => {
                self.answer_unserved(token, Reply::PagesHeld);
            }
            Some(ino) => self.hold_for_write_back(token, client, ino),
            None => self.send_to_device(token),
        }
    }

    /// Whether a request for bytes names a target here that has retired.
    fn has_left(&self, request: &Request) -> bool {
        let (Request::Read { target, .. }
        | Request::Write { target, .. }
        | Request::Reserve { target, .. }
        | Request::ObjectSeek { target, .. }) = request
        else {
            return false;
        };
        target.server == self.site.id && self.targets.get(target.number()).is_some_and(Target::has_retired)
    }

    /// Queues a request at its device, or serves it at once.
    pub(super) fn send_to_device(&mut self, token: Token) {
        match self.device_of(&self.requests[&token]) {
            Ok(Some((device, work))) => match self.charge(&token) {
                Admission::Granted => {
                    let now = self.clock.now();
                    let next = self.requests.bring(token, (device, work), &mut self.links, now);
                    self.pursue(next);
                }
                Admission::Refused(errno) => self.fail_unserved(token, errno),
                Admission::Moved => self.answer_unserved(token, Reply::StaleEpoch { epoch: u64::MAX }),
                Admission::Unsettled(part) => self.settle_first(token, &part),
            },
            Ok(None) => {
                let step = self.serve_at_once(token);
                self.end_step(step);
            }
            Err(errno) => self.fail_unserved(token, errno),
        }
    }

    /// The device of a request and its work there; none for a request that never waits behind others.
    fn device_of(&self, request: &InHand) -> Result<Option<(usize, Work)>, Errno> {
        let metadata = self.requests.devices().metadata();
        let work = |direction, bytes| Work { direction, bytes };
        Ok(Some(match &request.request {
            Request::Read { target, extents, .. } => (
                self.check_data(request, *target, extents, false)?,
                work(Direction::Read, total_bytes(extents)),
            ),
            Request::Write { target, extents, capability, epoch, .. } => {
                let device = self.check_data(request, *target, extents, true)?;
                let end = extents.iter().map(|extent| extent.offset + u64::from(extent.length)).max();
                self.namespace.files().may_reach(capability, *target, *epoch, end.unwrap_or(0))?;
                (device, work(Direction::Write, total_bytes(extents)))
            }
            Request::Reserve { target, capability, epoch, offset, length, punch, .. } => {
                let device = self.check_data(request, *target, &[], true)?;
                let end = if *punch { 0 } else { offset + length };
                self.namespace.files().may_reach(capability, *target, *epoch, end)?;
                (device, work(Direction::Write, 0))
            }
            Request::ObjectSeek { target, .. } => {
                (self.check_data(request, *target, &[], false)?, work(Direction::Read, 0))
            }
            Request::Append { .. } => {
                let device = self.append_device(request).unwrap_or(metadata);
                (device, work(Direction::Write, request.payload.len() as u64))
            }
            Request::Attributes { .. }
            | Request::Layout { .. }
            | Request::Access { .. }
            | Request::ReadLink { .. }
            | Request::List { .. }
            | Request::XattrGet { .. }
            | Request::XattrList { .. } => (metadata, work(Direction::Read, 0)),
            Request::Change { .. }
            | Request::MoveBegin { .. }
            | Request::Detour { .. }
            | Request::Open { .. }
            | Request::Make { .. }
            | Request::Symlink { .. }
            | Request::Link { .. }
            | Request::Unlink { .. }
            | Request::Rename { .. }
            | Request::XattrSet { .. }
            | Request::XattrRemove { .. } => (metadata, work(Direction::Write, 0)),
            _ => return Ok(None),
        }))
    }

    /// The number of the target of a data request here, where the request is one that this server can take.
    fn check_data(
        &self,
        request: &InHand,
        target: TargetId,
        extents: &[Extent],
        is_write: bool,
    ) -> Result<usize, Errno> {
        let index = target.number();
        if target.server != self.site.id || index >= self.targets.len() {
            return Err(errno::EINVAL);
        }
        check(request, extents, is_write).map(|()| index)
    }

    /// The device of the target that takes an append, where it is one of this server.
    fn append_device(&self, request: &InHand) -> Option<usize> {
        let Request::Append { capability } = &request.request else { return None };
        let target = self.namespace.files().append_target(capability.ino, request.payload.len() as u64)?;
        let index = target.number();
        (target.server == self.site.id && index < self.targets.len()).then_some(index)
    }
}
