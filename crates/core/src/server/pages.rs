//! Kernels of mounts: requests wait until pages are dropped or written back, and moved directories looked up.

use super::Server;
#[cfg(any(test, feature = "world"))]
use crate::mutants::{self, Mutant};
use crate::namespace::LeaseKind;
use crate::namespace::{errno, Change};
use crate::requests::objects::{growing_capability, overwritten};
use crate::requests::pages::Then;
use crate::requests::request::{Drops, InHand, Outcome, Step, Token};
use weir_wire::{ClientId, FileChange, Ino, Reply, Request, Sequence};

impl Server {
    /// Keeps a request that is about to change bytes of `ino` until every watcher has written back and dropped its pages, or
    /// its time is over: a page that is written back later would cover the new bytes with old ones.
    pub(super) fn hold_for_write_back(&mut self, token: Token, client: ClientId, ino: Ino) {
        let drops = self.recall_pages(client, ino);
        self.requests.hold_for_pages(token, Then::Route, drops, self.clock.now());
    }

    /// The drops that the reply to a request waits for: mounts look up the places of directories that it moved, and learn the sizes of
    /// files that it made longer.
    pub(super) fn tell_of_changes(&mut self, token: &Token, changes: &[Change]) -> Drops {
        let sender = &self.requests[token].sender;
        let (client, uid) = (sender.client, sender.acting.who.uid);
        let paths = self.namespace.names().moved_directories(changes);
        let used = growing_capability(&self.requests[token].request).map(|used| (used.ino, used.handle));
        let grown = self.namespace.files_mut().grown_files(changes, client, used);
        let recalls = self.requests.pages().recalls();
        let mut drops = Drops::new();
        drops.extend(paths.iter().flat_map(|path| recalls.moved((client, uid), path)));
        for (ino, size_bytes, mounts) in grown {
            drops.extend(recalls.tell(FileChange { ino, pages: false, grown_to: Some(size_bytes) }, &mounts));
        }
        drops
    }

    /// The drops that the reply to `writer` waits for, which changed bytes of `ino`. The kernel of a mount drops its own pages.
    pub(super) fn recall_pages(&mut self, writer: ClientId, ino: Ino) -> Drops {
        let holders = self.namespace.files().leases().of_pages(ino);
        let others: Vec<ClientId> = holders.filter(|&client| client != writer).collect();
        self.requests.pages().recalls().tell(FileChange { ino, pages: true, grown_to: None }, &others)
    }

    /// The drops that the answer to a change of a file waits for, whichever request told of them. A change that was carried out and is sent
    /// again tells nobody, while its first answer may still wait.
    pub(super) fn owed_drops(&self, token: &Token, reply: &Reply) -> Drops {
        #[cfg(any(test, feature = "world"))]
        if mutants::is(Mutant::ResendsUnawaited) {
            return Drops::new();
        }
        let InHand { request, sender, .. } = &self.requests[token];
        let changed = match (request, reply) {
            (Request::Change { change, .. }, Reply::Attributes(attributes)) => {
                change.size_bytes.map(|_| attributes.ino)
            }
            (Request::Open { flags, .. }, Reply::Opened { attributes, .. }) => {
                flags.truncate.then_some(attributes.ino)
            }
            (
                Request::Publish { capability, .. } | Request::AppendEnd { capability, .. },
                Reply::Written { .. },
            ) => Some(capability.ino),
            (request, Reply::Written { .. } | Reply::Appended { .. } | Reply::Done) => overwritten(request),
            // Whoever is refused has changed nothing.
            _ => None,
        };
        let Some(ino) = changed else { return Drops::new() };
        let holders = self.namespace.files().leases().of_file(ino);
        self.requests.pages_here().owed(ino, holders.filter(|&holder| holder != sender.client))
    }

    /// Whether others have to write back pages of `ino` before `client` changes the file.
    pub(super) fn others_hold_pages(&self, client: ClientId, ino: Ino) -> bool {
        let holders: Vec<ClientId> = self.namespace.files().leases().of_pages(ino).collect();
        self.requests.pages_here().others_hold(client, &holders)
    }

    /// Serves a request of a mount about the files and pages that its kernel has.
    pub(super) fn serve_kernel(&mut self, token: Token) -> Step {
        let in_hand = &self.requests[&token];
        let (client, acting) = (in_hand.sender.client, &in_hand.sender.acting);
        let user = (!acting.trusted).then_some(acting.who.uid);
        let reply = match in_hand.request {
            Request::Watch { capability } => {
                self.meet_mount(client, user);
                match self.namespace.files_mut().leases_mut().give(client, capability.ino, LeaseKind::Pages) {
                    true => Reply::Done,
                    false => Reply::Failed(errno::ENFILE),
                }
            }
            Request::Unwatch { ino } => {
                self.namespace.files_mut().leases_mut().end(client, ino, LeaseKind::Pages);
                Reply::Done
            }
            Request::Follow { ino, handle, is_followed } => {
                self.namespace.files_mut().open_mut().set_followed(client, (ino, handle), is_followed);
                Reply::Done
            }
            Request::Invalidations { done } => return self.poll_invalidations(token, (client, user), done),
            _ => Reply::Failed(errno::EOPNOTSUPP),
        };
        Step::Done(token, Outcome::of(reply))
    }

    /// A client is a mount. It is told all sizes of files that it had open before this server knew.
    fn meet_mount(&mut self, client: ClientId, user: Option<u32>) {
        self.requests.pages().recalls().meet(client, user);
        for (ino, size_bytes) in self.namespace.files_mut().meet_mount(client, user) {
            let change = FileChange { ino, pages: false, grown_to: Some(size_bytes) };
            self.requests.pages().recalls().tell(change, &[client]);
        }
    }

    /// The long poll of a mount: confirms the pages that were dropped, and is answered when there are more to drop.
    fn poll_invalidations(
        &mut self,
        token: Token,
        (client, user): (ClientId, Option<u32>),
        done: Sequence,
    ) -> Step {
        self.meet_mount(client, user);
        self.requests.pages().confirm(client, done);
        self.requests.release_pages(self.clock.now());
        if let Some(earlier) = self.requests.pages().poll(client, token) {
            self.requests.wake_done(earlier, Outcome::of(Reply::Done));
        }
        if let Some((poll, outcome)) = self.requests.pages().answer_poll(client) {
            self.requests.wake_done(poll, outcome);
        }
        Step::Away
    }
}
