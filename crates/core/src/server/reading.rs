//! The way from a frame to a request in hand.

use super::Server;
use crate::links::clients::Introduction;
use crate::links::connection::Frame;
use crate::links::link::{LinkKey, Standing};
use crate::links::memory::SMALL_BYTES;
use crate::links::Reading;
use crate::locks::WAITING_BYTES;
use crate::namespace::errno;
use crate::requests::objects::{total_bytes, COPY_BYTES_MAX};
use crate::requests::request::{InHand, Sender};
use crate::storage::Target;
use std::rc::Rc;
use weir_placement::TargetId;
use weir_wire::{decode_body, limits, IdentityId, Reply, Request};

/// Frames taken from a link before another has its turn.
const FRAMES_PER_VISIT: usize = 16;
/// Memory of a request in hand beside its body and payload.
const REQUEST_BYTES: usize = size_of::<InHand>() + 256;

/// The answer to a client with a credential that expired while it was connected.
const EXPIRED: &str =
    "the credential has expired: renew its file (weir grant), or start the program again (weir run)";

impl Server {
    /// Takes and handles frames of a link, until it has none, enough requests in hand, or had its turn.
    pub(super) fn read_link(&mut self, index: usize) {
        for _ in 0..FRAMES_PER_VISIT {
            let handled = match self.links.next_frame(index) {
                Reading::Frame { frame, is_admitted } => self.handle_frame(index, frame, is_admitted),
                end => Err(end),
            };
            match handled {
                Ok(()) => _ = self.take_on_woken(),
                Err(Reading::Closed) => return self.close_link(index),
                Err(Reading::Refused(reason)) => return self.links.refuse(index, &reason),
                Err(Reading::Unproved(reason)) => return self.refuse_channel(index, &reason),
                Err(Reading::Frame { .. } | Reading::Blocked | Reading::HeldBack) => return,
            }
        }
        self.links.make_ready(index);
    }

    /// Handles a frame.
    ///
    /// # Errors
    /// The end of reading: the link is closed or refused, or the frame waits for memory and is the next one again.
    fn handle_frame(&mut self, index: usize, frame: Frame, is_admitted: bool) -> Result<(), Reading> {
        let request = match decode_body::<Request>(&frame.body, "request") {
            Ok(request) => request,
            Err(error) => {
                self.links.count_malformed();
                return Err(Reading::Refused(error.to_string()));
            }
        };
        let (bytes, now) = (self.memory_of(&request, &frame), self.clock.moment().seconds as u64);
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        if !is_admitted && bytes > REQUEST_BYTES + SMALL_BYTES {
            link.connection().put_back(&frame);
            return Err(self.links.hold_back(index));
        }
        if link.session().is_some_and(|session| session.own.expires_seconds < now) {
            self.links.count_refusal();
            return Err(Reading::Refused(EXPIRED.into()));
        }
        let refused = |reason: &str| Err(Reading::Refused(reason.into()));
        let (id, serial) = (frame.header.request, link.serial());
        match (link.standing(), request) {
            (Standing::Fresh, Request::Hello { client, slot, claims, nonce, has_mount, is_new })
                if frame.header.payload_bytes == 0 =>
            {
                self.challenge(index, id, Introduction { client, slot, has_mount, is_new }, claims, nonce)
            }
            (Standing::Challenged(_), Request::Prove { proof }) if frame.header.payload_bytes == 0 => {
                self.welcome(index, id, &proof)
            }
            (Standing::Ready(_), Request::Hello { .. } | Request::Prove { .. }) => {
                refused("this connection is already proved")
            }
            (Standing::Ready(_), Request::Identify { identity, who, names, job })
                if frame.detached_bytes == 0 =>
            {
                let reply = match self.identify(index, identity, who, (names, job)) {
                    Ok(()) => Reply::Done,
                    Err(errno) => Reply::Failed(errno),
                };
                self.links.answer(index, id, &reply);
                Ok(())
            }
            (Standing::Ready(session), request) => {
                let acting = match frame.header.identity {
                    IdentityId(0) => Some(Rc::clone(&session.own)),
                    identity => session.identities.get(&identity).cloned(),
                };
                let sender = acting.map(|acting| Sender {
                    link: LinkKey { index, serial },
                    client: session.client,
                    acting,
                    session_job: session.own.job,
                });
                self.take_request(sender, index, (frame, bytes), request, now)
            }
            _ => refused("a connection begins with Hello and Prove"),
        }
    }

    /// Takes a request in hand, where its sender is known and its identity has not expired.
    fn take_request(
        &mut self,
        sender: Option<Sender>,
        index: usize,
        (frame, bytes): (Frame, usize),
        request: Request,
        now: u64,
    ) -> Result<(), Reading> {
        let has_expired = |sender: &Sender| sender.acting.expires_seconds < now;
        let is_detached = frame.detached_bytes > 0;
        let (errno, reason) = match sender {
            Some(sender) if !has_expired(&sender) => {
                self.note_sign_of_life(&sender);
                // Servers ask each other in order, over one connection, and number their requests anew after a start.
                if !matches!(request, Request::Peer(_)) {
                    let header = &frame.header;
                    self.links.clients().note_request(sender.client, header.request, header.acknowledged);
                }
                self.links.hold_memory(index, sender.session_job, bytes);
                let request = InHand::new(sender, bytes, frame, request, self.clock.now());
                let token = self.requests.insert(request);
                if let Some(link) = self.links.get_mut(index) {
                    link.begin_request(token.number(), is_detached);
                }
                self.route(token);
                return Ok(());
            }
            Some(_) => (errno::EKEYEXPIRED, "the credential of the caller has expired"),
            None => (errno::EACCES, "unknown identity"),
        };
        if is_detached {
            return Err(Reading::Refused(reason.into()));
        }
        self.links.answer(index, frame.header.request, &Reply::Failed(errno));
        Ok(())
    }

    fn note_sign_of_life(&mut self, sender: &Sender) {
        if let Some(account) = &sender.acting.account {
            self.accounts.jobs().meet_again(account, self.clock.now());
        }
    }

    /// Memory that a request takes until its reply is sent.
    fn memory_of(&self, request: &Request, frame: &Frame) -> usize {
        let target = |target: &TargetId| self.targets.get(target.number());
        let is_directory = |named: &TargetId| target(named).and_then(Target::directory).is_some();
        let more = match request {
            Request::Read { target, extents, .. } => {
                let bytes = total_bytes(extents).min(limits::PAYLOAD_BYTES as u64);
                // Bytes that stay in the pages of a target until they are sent take none.
                if is_directory(target) {
                    bytes
                } else {
                    bytes.min(COPY_BYTES_MAX)
                }
            }
            Request::Write { target, .. } if is_directory(target) => frame.detached_bytes as u64,
            Request::Peer(_) => frame.detached_bytes as u64,
            Request::List { bytes, .. } => u64::from(*bytes).min(limits::PAYLOAD_BYTES as u64),
            Request::Lock { wait: true, .. } => WAITING_BYTES as u64,
            Request::XattrGet { .. } | Request::XattrList { .. } => limits::XATTR_VALUE_BYTES as u64,
            _ => 0,
        };
        REQUEST_BYTES + frame.body.len() + frame.payload.len() + more as usize
    }
}
