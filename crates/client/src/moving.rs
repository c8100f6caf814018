//! Moves of a file's objects to other targets while others read and write the file (docs/design/rebalancing.md).
//!
//! The bytes go through this client as its own reads and writes, so that the policy counts them to the client's job.

use crate::exchange::{call, Call, Message};
use crate::operations::plain;
use crate::paths::Load;
use crate::place::Final;
use crate::pool::Lane;
use crate::session::fill_random;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Place, Result, Store};
use std::io::{IoSlice, IoSliceMut};
use weir_placement::{Layout, TargetId};
use weir_wire::{
    limits, At, Capability, Extent, Fence, Ino, ObjectMove, Reply, Request, Seek, Sequence, ROUND_LAST,
};

/// Bytes of one read and write: few enough to keep a rate, and to hold up nobody.
const CHUNK_BYTES: u64 = 1024 * 1024;
/// Bytes that may be left to copy while others wait: the copy takes a fraction of the freeze.
const LEFT_BYTES: u64 = 4 * 1024 * 1024;
/// Rounds after which the move ends with more bytes than that left, because writers are as fast as the copying.
const ROUNDS_MAX: u32 = 8;
/// Attempts at a move whose file is cut, or whose server restarts.
const ATTEMPTS_MAX: u32 = 4;

/// A function that is asked before bytes are copied, with their number. It waits as long as a rate wants, and answers `false`
/// to end the move.
pub type Pace<'p> = dyn FnMut(u64) -> bool + 'p;

/// The outcome of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Objects that have moved.
    pub objects: usize,
    /// Copied bytes. Bytes that changed meanwhile count once for each copy.
    pub copied_bytes: u64,
}

/// A move under way. The move ends with [`Moving::commit`] or [`Moving::abandon`], or with the session of its store.
#[derive(Debug)]
pub struct Moving {
    store: Store,
    caller: Caller,
    ino: Ino,
    moving: Sequence,
    capability: Capability,
    epoch: u64,
    moves: Vec<ObjectMove>,
    tracking: u64,
    round: u32,
    copied_bytes: u64,
    buffer: Vec<u8>,
}

impl Store {
    /// The layout of a file now, and the file's size in bytes.
    ///
    /// # Errors
    /// `ENOENT` for an inode that is gone, `EINVAL` for a node that is not a regular file.
    pub fn layout_of(&self, caller: &Caller, ino: Ino) -> Result<(Layout, u64)> {
        match self.ask_server(caller, ino.home(), &Request::Layout { at: At::inode(ino) })? {
            Reply::Layout { layout, size_bytes, .. } => Ok((layout, size_bytes)),
            _ => Err(ClientError::UnexpectedReply { server: ino.home(), request: "Layout" }),
        }
    }

    /// Moves objects of a file, and begins anew where the file was cut meanwhile. The file's owner and root may do so.
    ///
    /// # Errors
    /// `EPERM`; `EBUSY` while another client moves the file; `EINVAL` where an object would not be alone on its target;
    /// `ENOSPC`; `EINTR` where `pace` ended the move; `ESTALE` where the file was cut again and again. After an error the
    /// file is as it was before.
    pub fn move_objects(
        &self,
        caller: &Caller,
        place: Place<'_>,
        moves: &[ObjectMove],
        pace: &mut Pace<'_>,
    ) -> Result<Moved> {
        let mut copied_bytes = 0;
        for attempt in 1.. {
            let mut moving = self.begin_move(caller, place, moves)?;
            match moving.carry_through(pace) {
                Ok(()) => return Ok(moving.moved(copied_bytes)),
                Err(error) => {
                    copied_bytes += moving.copied_bytes;
                    moving.abandon();
                    if error.errno() != libc::ESTALE || attempt >= ATTEMPTS_MAX {
                        return Err(error);
                    }
                }
            }
        }
        Err(ClientError::number(libc::ESTALE))
    }

    /// Begins a move: the copies are empty, and the servers note changes of the originals.
    ///
    /// # Errors
    /// The errors of [`Store::move_objects`].
    pub fn begin_move(&self, caller: &Caller, place: Place<'_>, moves: &[ObjectMove]) -> Result<Moving> {
        let mut tracking = [0; 8];
        fill_random(&mut tracking)?;
        let walk = self.walk(caller)?;
        let request = |at| Request::MoveBegin { at, moves: moves.to_vec() };
        let Reply::Moving { ino, moving, capability, epoch } =
            walk.ask(place, Final::Node, Load::none(), request)?
        else {
            return Err(walk.unexpected(place, "MoveBegin"));
        };
        let mut begun = Moving {
            store: self.clone(),
            caller: caller.clone(),
            ino,
            moving,
            capability,
            epoch,
            moves: moves.to_vec(),
            tracking: u64::from_le_bytes(tracking),
            round: 0,
            copied_bytes: 0,
            buffer: vec![0; CHUNK_BYTES as usize],
        };
        // The copies' targets note changes as well. A restart, which may have lost bytes, shows by lost notes.
        let targets = moves.iter().flat_map(|one| [one.from, one.to]);
        match targets.map(|target| begun.changes(target, 0)).collect::<Result<Vec<_>>>() {
            Ok(_) => Ok(begun),
            Err(error) => {
                begun.abandon_silently();
                Err(error)
            }
        }
    }
}

impl Moving {
    /// Carries the move out, from the first byte to the new layout.
    fn carry_through(&mut self, pace: &mut Pace<'_>) -> Result<()> {
        self.copy(pace)?;
        while self.catch_up(pace)? > LEFT_BYTES && self.round < ROUNDS_MAX {}
        self.freeze()?;
        self.catch_up(&mut |_| true)?;
        self.settle()
    }

    /// Copies the objects. [`Moving::catch_up`] copies the bytes that change behind the copy.
    ///
    /// # Errors
    /// `ESTALE` where the move has to begin anew, `EINTR` where `pace` ended the move, a full or lost target.
    pub fn copy(&mut self, pace: &mut Pace<'_>) -> Result<()> {
        for one in self.moves.clone() {
            // The copy goes to the end of the object. The file may have grown between its known size and the first notes.
            self.copy_range(one, 0, limits::FILE_BYTES, false, pace)?;
        }
        Ok(())
    }

    /// Copies the bytes that changed since their last copy. Answers their number.
    ///
    /// # Errors
    /// The errors of [`Moving::copy`].
    pub fn catch_up(&mut self, pace: &mut Pace<'_>) -> Result<u64> {
        let before = self.copied_bytes;
        self.round += 1;
        for one in self.moves.clone() {
            for (begin, end) in self.changes(one.from, self.round)? {
                self.copy_range(one, begin, end, true, pace)?;
            }
        }
        Ok(self.copied_bytes - before)
    }

    /// Keeps everyone else from the objects, for some seconds at most. The caller then copies the last changes.
    ///
    /// # Errors
    /// `ESTALE` where the move has to begin anew.
    pub fn freeze(&mut self) -> Result<()> {
        let request = Request::MoveFreeze { ino: self.ino, moving: self.moving };
        match self.ask(self.ino.home(), &request)? {
            Reply::Frozen { epoch } => {
                self.epoch = epoch;
                Ok(())
            }
            _ => Err(self.unexpected("MoveFreeze")),
        }
    }

    /// Makes the copies durable, and gives the file its new layout. All changes until the freeze must have been copied.
    ///
    /// # Errors
    /// `ESTALE` where the move has to begin anew. No object has moved then.
    pub fn commit(mut self) -> Result<Moved> {
        match self.settle() {
            Ok(()) => Ok(self.moved(0)),
            Err(error) => {
                self.abandon_silently();
                Err(error)
            }
        }
    }

    /// Ends the move. The file keeps its layout.
    pub fn abandon(mut self) {
        self.abandon_silently();
    }

    fn settle(&mut self) -> Result<()> {
        for one in self.moves.clone() {
            let request = Request::SyncObject { capability: self.capability, target: one.to };
            self.ask(one.to.server, &request)?;
        }
        for one in self.moves.clone() {
            self.changes(one.to, 1)?;
        }
        self.ask(self.ino.home(), &self.end(true))?;
        self.stop_noting();
        Ok(())
    }

    /// Ends the move as far as servers answer. The servers end the rest with the session, and the file is whole in any case.
    fn abandon_silently(&mut self) {
        let _ = self.ask(self.ino.home(), &self.end(false));
        self.stop_noting();
    }

    fn stop_noting(&mut self) {
        for one in self.moves.clone() {
            for target in [one.from, one.to] {
                let _ = self.changes(target, ROUND_LAST);
            }
        }
    }

    fn moved(&self, before: u64) -> Moved {
        Moved { objects: self.moves.len(), copied_bytes: before + self.copied_bytes }
    }

    fn end(&self, commit: bool) -> Request {
        Request::MoveEnd { ino: self.ino, moving: self.moving, commit }
    }

    fn changes(&self, target: TargetId, round: u32) -> Result<Vec<(u64, u64)>> {
        let (capability, tracking) = (self.capability, self.tracking);
        match self.ask(target.server, &Request::ObjectChanges { capability, target, tracking, round })? {
            Reply::Changes(ranges) => Ok(ranges),
            _ => Err(self.unexpected("ObjectChanges")),
        }
    }

    /// Copies the bytes of a range of an object, and with `punch` the range's holes.
    fn copy_range(
        &mut self,
        one: ObjectMove,
        begin: u64,
        end: u64,
        punch: bool,
        pace: &mut Pace<'_>,
    ) -> Result<()> {
        let mut position = begin;
        while position < end {
            let data = self.find(one.from, position, Seek::Data)?.unwrap_or(end).min(end);
            if punch && data > position {
                self.free(one.to, position, data - position)?;
            }
            let hole = match data < end {
                true => self.find(one.from, data, Seek::Hole)?.unwrap_or(end).min(end),
                false => end,
            };
            position = data;
            while position < hole {
                let length = CHUNK_BYTES.min(hole - position);
                if !pace(length) {
                    return Err(ClientError::number(libc::EINTR));
                }
                self.copy_chunk(one, Extent { offset: position, length: length as u32 })?;
                position += length;
            }
        }
        Ok(())
    }

    fn find(&self, target: TargetId, offset: u64, seek: Seek) -> Result<Option<u64>> {
        let (capability, epoch) = (self.capability, self.epoch);
        let request = Request::ObjectSeek { capability, target, epoch, offset, seek };
        match self.ask(target.server, &request)? {
            Reply::Position(position) => Ok(position),
            reply => Err(self.stale_or_unexpected(&reply, "ObjectSeek")),
        }
    }

    fn free(&self, target: TargetId, offset: u64, length: u64) -> Result<()> {
        let (capability, epoch) = (self.capability, self.epoch);
        let request =
            Request::Reserve { fence: Fence::NONE, capability, target, epoch, offset, length, punch: true };
        match self.ask(target.server, &request)? {
            Reply::Done => Ok(()),
            reply => Err(self.stale_or_unexpected(&reply, "Reserve")),
        }
    }

    fn copy_chunk(&mut self, one: ObjectMove, extent: Extent) -> Result<()> {
        let environment = self.store.environment()?;
        let (capability, epoch, length) = (self.capability, self.epoch, extent.length as usize);
        let lane = Lane::of_payload(length);
        let mut room = [IoSliceMut::new(&mut self.buffer[..length])];
        let read = Call {
            server: one.from.server,
            lane,
            message: Message::Read { capability, target: one.from, epoch, extent },
            payload: &[],
            sink: Sink::Slices(&mut room),
        };
        match call(environment, &self.caller, read)? {
            (Reply::Data { .. }, bytes) if bytes == length => {}
            (reply, _) => return Err(self.stale_or_unexpected(&reply, "Read")),
        }
        let payload = [IoSlice::new(&self.buffer[..length])];
        let write = Call {
            server: one.to.server,
            lane,
            message: Message::Write { capability, target: one.to, epoch, extent, publication: None },
            payload: &payload,
            sink: Sink::None,
        };
        match call(environment, &self.caller, write)?.0 {
            Reply::Written { .. } => {
                self.copied_bytes += length as u64;
                Ok(())
            }
            reply => Err(self.stale_or_unexpected(&reply, "Write")),
        }
    }

    fn ask(&self, server: weir_placement::ServerId, request: &Request) -> Result<Reply> {
        Ok(call(self.store.environment()?, &self.caller, plain(server, request))?.0)
    }

    fn stale_or_unexpected(&self, reply: &Reply, request: &'static str) -> ClientError {
        match reply {
            Reply::StaleEpoch { .. } => ClientError::number(libc::ESTALE),
            _ => self.unexpected(request),
        }
    }

    fn unexpected(&self, request: &'static str) -> ClientError {
        ClientError::UnexpectedReply { server: self.ino.home(), request }
    }
}
