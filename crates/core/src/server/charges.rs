//! Charges for bytes behind the paid ends of objects: before a write, at its end, and as the homes of other files are told.

use super::Server;
use crate::namespace::errno;
use crate::peers::confirmations::Waiting;
use crate::peers::objects::PATIENCE;
use crate::peers::Asked;
use crate::requests::objects::{object_fence, unpublished_part};
use crate::requests::request::{InHand, Stage, Token};
use crate::storage::Target;
use crate::unpublished::{Charge, Part, Reach};
use weir_placement::{ServerId, TargetId};
use weir_wire::{Errno, Ino, PeerRequest, Request};

/// The word about a write that would lie behind the paid end of its object.
pub(super) enum Admission {
    Granted,
    Refused(Errno),
    /// The file has no object at this place: it may have moved since its client asked for the layout.
    Moved,
    /// The homes of the user's files may know of room for this part.
    Unsettled(Part),
}

impl Server {
    /// Charges a write for the bytes that it will have behind the paid end of its object.
    pub(super) fn charge(&mut self, token: &Token) -> Admission {
        let request = &self.requests[token];
        let Some((part, reach)) = unpublished_part(request).filter(|_| !request.is_charged()) else {
            return Admission::Granted;
        };
        let (gid, is_settled) = (request.sender.acting.who.gid, request.is_settled());
        match self.charge_part((part, gid), reach) {
            Ok(charge) => {
                self.requests[token].charge(charge);
                Admission::Granted
            }
            Err(errno::EDQUOT | errno::ENOSPC) if part.ino.home() != self.site.id && !is_settled => {
                Admission::Unsettled(part)
            }
            Err(errno::EINVAL) => Admission::Moved,
            Err(errno) => Admission::Refused(errno),
        }
    }

    fn charge_part(&mut self, (part, gid): (Part, u32), reach: Reach) -> Result<Option<Charge>, Errno> {
        if part.ino.home() == self.site.id {
            return self.namespace.files_mut().hold_bytes(part, gid, reach);
        }
        let objects = self.peers.objects();
        if reach.end <= objects.paid(part.ino, part.place) {
            return Ok(None);
        }
        let (untold, held) = (objects.untold_of(part.uid), objects.held_of(part.uid));
        let growth = objects.growth(&part, reach).ok_or(errno::EDQUOT)?;
        self.namespace.files().admit_held((part.uid, gid), (untold, held), growth)?;
        Ok(Some(self.peers.objects().hold(part, reach)))
    }

    /// Holds a request over its user's limit until the homes have said which of the user's bytes here are paid for.
    pub(super) fn settle_first(&mut self, token: Token, part: &Part) {
        let request = &mut self.requests[&token];
        request.note_settled();
        let (link, id, fence) = (request.sender.link, request.header.request, object_fence(&request.request));
        let waiting = Waiting { number: token.number(), link, request: id, fence };
        self.requests.park(token, Stage::Unconfirmed);
        self.peers.objects().wait(part, waiting, self.clock.now());
        self.tell_homes();
    }

    /// Notes the end of a write: bytes that no charge covers are charged now, and go if their file is gone.
    pub(super) fn note_written(&mut self, token: &Token) {
        let request = &mut self.requests[token];
        request.keep_charge();
        let Some((part, reach)) = unpublished_part(request) else { return };
        let charge = request.charged();
        if part.ino.home() != self.site.id {
            self.peers.objects().wrote(part, reach, charge.as_ref());
        }
    }

    /// Takes the charge of a request back that ended without a write.
    pub(super) fn take_back(&mut self, request: &InHand) {
        let Some(charge) = request.charge_to_take_back() else { return };
        match charge.ino().home() == self.site.id {
            true => self.namespace.files_mut().take_back(&charge),
            false => self.peers.objects().take_back(&charge),
        }
    }

    /// Tells homes of the bytes here, where there is something to tell.
    pub(super) fn tell_homes(&mut self) {
        for home in self.peers.objects().homes_to_tell() {
            self.tell_home(home);
        }
    }

    pub(super) fn tell_home(&mut self, home: ServerId) {
        let now = self.clock.now();
        let targets = &self.targets;
        let epoch = |ino: Ino, place: TargetId| epoch_of(targets, ino, place);
        let Some(news) = self.peers.objects().take_news(home, now, epoch) else { return };
        let request = PeerRequest::ObjectsHeld { objects: news.objects.clone() };
        self.ask_peer(home, request, PATIENCE, Asked::ObjectsHeld(home, Box::new(news)));
    }

    /// The home of an object here had it changed.
    pub(super) fn note_changed_object(&mut self, token: &Token) {
        match self.requests[token].request {
            Request::Peer(
                PeerRequest::TruncateObject { ino, target, length, .. }
                | PeerRequest::FenceObject { ino, target, length, .. },
            ) => self.peers.objects().cut(ino, target, length),
            Request::Peer(PeerRequest::RemoveObject { ino, target }) => {
                self.peers.objects().removed(ino, target)
            }
            _ => {}
        }
    }
}

/// The epoch of an object here.
pub(super) fn epoch_of(targets: &[Target], ino: Ino, place: TargetId) -> u64 {
    targets.get(place.number()).map_or(0, |target| target.epoch_of(ino.object_on(place)))
}
