//! Files: inodes with their attributes and bytes, and their open descriptions.
//!
//! [`Files`] holds the inodes with the entries of directories, in one table that is also the way of a snapshot; what is under way on the
//! objects of files (cuts and fences by their intents, moves); open descriptions with the leases of mounts; the placer of new files; and
//! the quotas, which it asks before anything grows.
//!
//! Promises: every change of an inode raises its version and adjusts the sums of its owners. An inode stays as long as it has a name,
//! a description, or work under way on its objects. The size and epoch of a file that is being cut are told to nobody. A
//! capability is worth as much as its description or its move. Files know no path: whoever asks for a file has walked to it.

pub(super) mod accounting;
mod admission;
mod apply;
mod attributes;
pub(super) mod capability;
mod detour;
mod freeing;
mod growth;
mod inode;
mod inodes;
mod inventory;
mod layout;
mod leases;
mod open;
mod paid;
pub(super) mod permission;
mod places;
mod publish;
mod recount;
mod relayout;
mod released;
mod relocation;
mod sessions;
mod settling;
#[cfg(test)]
pub(super) mod tests;
mod unpublished;
mod xattr;

pub(crate) use apply::changed_file;
pub use inode::{Birth, BirthNode, Inode};
pub(crate) use inode::{Directory, Entry, InoMap, Node, COOKIE_DOT, COOKIE_DOT_DOT};
pub use inventory::FileEntry;
pub(crate) use layout::placement;
pub(crate) use leases::{Kind as LeaseKind, Leases};
pub(crate) use open::Opening;
pub(crate) use places::Places;

use super::decision::{Decision, Step, Stop};
use super::draft::Draft;
use super::errno::ESTALE;
use super::intents::IntentId;
use super::moves::Moves;
use super::quotas::Quotas;
use inode::RegularFile;
use inodes::Inodes;
use open::OpenFiles;

use released::Released;
use std::collections::BTreeSet;
use weir_placement::ServerId;
use weir_wire::{Attributes, Errno, FileKind, HandleId, Ino, Reply, SiteKey};

/// The inodes of one server, and what is open and under way of them.
#[derive(Clone, Debug)]
pub struct Files {
    server: ServerId,
    key: SiteKey,
    starts: u32,
    /// The sequence number of the next inode.
    next_sequence: u64,
    inodes: Inodes,
    /// Inodes without a name.
    orphans: BTreeSet<Ino>,
    /// Files whose size, epoch or layout is about to change, each with the intent.
    cuts: InoMap<IntentId>,
    /// The numbers of pending fences of files.
    fences: InoMap<u32>,
    moves: Moves,
    open: OpenFiles,
    /// Whether descriptions of earlier starts can still be reclaimed.
    in_grace: bool,
    released: Released,
    places: Places,
    quotas: Quotas,
}

impl Files {
    /// No files, at `server`.
    pub(crate) fn new(server: ServerId, key: SiteKey, places: Places) -> Files {
        Files {
            server,
            key,
            starts: 0,
            next_sequence: 0,
            inodes: Inodes::default(),
            orphans: BTreeSet::new(),
            cuts: InoMap::default(),
            fences: InoMap::default(),
            moves: Moves::default(),
            open: OpenFiles::default(),
            in_grace: false,
            released: Released::default(),
            places,
            quotas: Quotas::default(),
        }
    }

    /// This server.
    pub(crate) fn server(&self) -> ServerId {
        self.server
    }

    /// The key of the site.
    pub(crate) fn key(&self) -> &SiteKey {
        &self.key
    }

    /// The number of the last start, 0 before the first.
    pub(crate) fn starts(&self) -> u32 {
        self.starts
    }

    /// The inodes, with the use of their owners.
    pub(crate) fn inodes(&self) -> &Inodes {
        &self.inodes
    }

    /// Open descriptions, and the leases of mounts.
    pub(crate) fn open(&self) -> &OpenFiles {
        &self.open
    }

    /// Open descriptions, and the leases of mounts, for their changes.
    pub(crate) fn open_mut(&mut self) -> &mut OpenFiles {
        &mut self.open
    }

    /// The placer of new files, and what it avoids.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The placer of new files, for news about the store.
    pub(crate) fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }

    /// The moves under way.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    /// The limits of owners, for news of other servers.
    pub(crate) fn quotas_mut(&mut self) -> &mut Quotas {
        &mut self.quotas
    }

    /// Clients that were released and may not know it.
    pub(crate) fn released(&self) -> &Released {
        &self.released
    }

    /// Whether descriptions of earlier starts can still be reclaimed.
    pub(crate) fn is_in_grace(&self) -> bool {
        self.in_grace
    }

    /// Ends the grace period after a start: nobody takes descriptions of before back any more.
    pub(crate) fn end_grace(&mut self) {
        self.in_grace = false;
    }

    /// The inode with this number, if it is here.
    pub(crate) fn get(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    /// The inode with this number. Only requests for an inode of the past or of another server miss it.
    pub(crate) fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.get(ino).ok_or(ESTALE)
    }

    /// Whether this server has the file, with a name or open without one.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.inodes.contains_key(&ino)
    }

    pub(crate) fn regular(&self, ino: Ino) -> Option<&RegularFile> {
        self.get(ino)?.regular()
    }

    pub(crate) fn directory(&self, ino: Ino) -> Option<&Directory> {
        self.get(ino)?.directory()
    }

    /// The attributes of an inode of this server.
    pub(crate) fn attributes(&self, ino: Ino) -> Result<Attributes, Errno> {
        self.inodes.attributes(ino).ok_or(ESTALE)
    }

    /// The user who owns an inode.
    pub(crate) fn owner_of(&self, ino: Ino) -> u32 {
        self.get(ino).map_or(0, |inode| inode.uid)
    }

    /// Whether the entry `name` of `parent` still names this inode.
    pub(crate) fn still_holds(&self, parent: Ino, name: &[u8], ino: Ino) -> bool {
        let entry = self.directory(parent).and_then(|directory| directory.find(name));
        entry.is_some_and(|entry| entry.ino == ino)
    }

    /// The number of the next inode.
    pub(crate) fn next_ino(&self) -> Ino {
        Ino::new(self.server, self.next_sequence)
    }

    /// Whether the kind of the entry is that of a directory held by another server.
    pub(crate) fn is_remote(&self, ino: Ino, kind: FileKind) -> bool {
        kind == FileKind::Directory && ino.home() != self.server
    }

    /// Whether objects of `ino` may exist while nobody has the file open.
    pub(crate) fn is_touched(&self, ino: Ino) -> bool {
        let file = self.regular(ino);
        file.is_some_and(|file| file.untouched_start != self.starts)
    }

    /// Whether this server knows of no write to the objects of a file.
    pub(crate) fn is_untouched(&self, ino: Ino) -> bool {
        let file = self.regular(ino);
        file.is_some_and(|file| file.untouched_start != 0)
    }

    /// Notes a write to the objects of a file, of which the journal need not know: a start takes all files of before for touched.
    pub(crate) fn note_touched(&mut self, ino: Ino) {
        self.change_file(ino, |file| file.untouched_start = 0);
    }

    /// Whether effects on objects of `ino` are under way: the file stays until they are done.
    pub(crate) fn is_settling(&self, ino: Ino) -> bool {
        self.cuts.contains_key(&ino) || self.moves.get(ino).is_some() || self.fences.contains_key(&ino)
    }

    /// The intent that is about to change the size, epoch or layout of a file.
    pub(crate) fn cut_of(&self, ino: Ino) -> Option<IntentId> {
        self.cuts.get(&ino).copied()
    }

    /// Waits if the size and epoch of a file are about to change. A client must not learn the new epoch before every object has
    /// it: a cut could remove bytes that the client wrote under that epoch.
    pub(crate) fn await_cut(&self, ino: Ino) -> Step<()> {
        self.cut_of(ino).map_or(Ok(()), |id| Err(Stop::Wait(id)))
    }

    /// Whether an inode without a name is kept by nothing.
    pub(crate) fn is_leftover(&self, ino: Ino, inode: &Inode) -> bool {
        inode.names == 0 && inode.holders.len() == 0 && !self.is_kept(ino)
    }

    /// Disposes of `ino`, which is about to lose a name, if it has no other name and nothing else keeps the inode.
    pub(crate) fn dispose_unless_open(&self, draft: &mut Draft<'_>, ino: Ino) -> Result<(), Errno> {
        let last = self.inode(ino)?.names <= 1;
        if last && !self.is_kept(ino) {
            draft.dispose(ino, self.is_touched(ino))?;
        }
        Ok(())
    }

    /// Ends a description. A description that is not open is closed already, so a resend is harmless.
    pub(crate) fn close(&self, mut draft: Draft<'_>, ino: Ino, handle: HandleId) -> Step<Decision> {
        if self.open.held(draft.caller.client, ino, handle).is_some() {
            draft.close(handle);
            let last = self.open.is_last(handle, draft.caller.client);
            let nameless = self.inode(ino).is_ok_and(|inode| inode.names == 0);
            if last && nameless && !self.in_grace && !self.is_settling(ino) {
                draft.dispose(ino, self.is_touched(ino))?;
            }
        }
        Ok(draft.reply(Reply::Done))
    }

    /// Whether something beside names keeps an inode.
    fn is_kept(&self, ino: Ino) -> bool {
        self.in_grace || self.open.is_open(ino) || self.is_settling(ino)
    }
}
