//! Moves of objects to other targets while others use the files, as `weir-move` makes them.

use super::super::task::Task;
use super::removing::list;
use std::collections::VecDeque;
use weir_fairshare::Nanos;
use weir_placement::rebalance::{plan, FileObjects, Goal, PlannedMove, TargetFill};
use weir_placement::TargetId;
use weir_wire::{
    limits, At, Capability, Errno, Extent, Fence, FileKind, Ino, ObjectMove, Reply, Request, Seek, Sequence,
    ROUND_LAST,
};

const EBUSY: Errno = Errno(16);
const ESTALE: Errno = Errno(116);
/// Bytes of one read and write: an object takes several.
const CHUNK_BYTES: u64 = 5 << 10;
/// Rounds before a move is frozen.
const ROUNDS: u32 = 2;
/// Attempts at a move whose file is cut, or whose server restarts.
const ATTEMPTS_MAX: u32 = 4;
/// The time for which a file that another mover moves is tried again, and the pause between two attempts.
const BUSY_TIME: Nanos = Nanos::from_millis(15_000);
const BUSY_PAUSE: Nanos = Nanos::from_millis(100);

/// A file with its objects.
struct Found {
    ino: Ino,
    objects: FileObjects,
}

/// A move under way.
struct Moving<'t> {
    task: &'t Task,
    home: usize,
    ino: Ino,
    moving: Sequence,
    capability: Capability,
    epoch: u64,
    moves: Vec<ObjectMove>,
    tracking: u64,
    round: u32,
}

/// Moves objects towards a goal: one pass over all files that have names.
pub(super) async fn pass(task: &Task, fills: &[TargetFill], goal: &Goal) {
    let found = files(task).await;
    let objects: Vec<FileObjects> = found.iter().map(|file| file.objects.clone()).collect();
    let mut by_file: Vec<(usize, Vec<ObjectMove>)> = Vec::new();
    for PlannedMove { file, from, to, .. } in plan(fills, &objects, goal).moves {
        match by_file.iter_mut().find(|(known, _)| *known == file) {
            Some((_, moves)) => moves.push(ObjectMove { from, to }),
            None => by_file.push((file, vec![ObjectMove { from, to }])),
        }
    }
    for (file, moves) in by_file {
        let ino = found[file].ino;
        let moved = move_objects(task, ino, &moves).await;
        task.agenda.tell(|| format!("{moves:?} of {ino:?}: {moved:?}"));
    }
}

/// The files below the root with their objects. Those that are removed meanwhile are left out.
async fn files(task: &Task) -> Vec<Found> {
    let mut directories = VecDeque::from([Ino::ROOT]);
    let mut found: Vec<Found> = Vec::new();
    while let Some(directory) = directories.pop_front() {
        for entry in list(task, At::inode(directory)).await.unwrap_or_default() {
            match entry.kind {
                FileKind::Directory => directories.push_back(entry.ino),
                FileKind::Regular if found.iter().all(|known| known.ino != entry.ino) => {
                    let layout = Request::Layout { at: At::inode(entry.ino) };
                    let asked = task.call(usize::from(entry.ino.home().0), layout, &[]).await.0;
                    let Reply::Layout { layout, size_bytes, .. } = asked else { continue };
                    let objects = layout.targets().iter().enumerate();
                    let objects = objects.map(|(at, &target)| (target, layout.object_bytes(at, size_bytes)));
                    let objects = FileObjects { objects: objects.collect() };
                    found.push(Found { ino: entry.ino, objects });
                }
                _ => {}
            }
        }
    }
    found
}

/// Moves objects of a file, and begins anew where the file is cut meanwhile, or another mover moves it.
async fn move_objects(task: &Task, ino: Ino, moves: &[ObjectMove]) -> Result<(), Errno> {
    let begun = task.now();
    let mut attempts = 0;
    loop {
        match move_once(task, ino, moves).await {
            Err(EBUSY) if task.now() < begun + BUSY_TIME => task.wait_until(task.now() + BUSY_PAUSE).await,
            Err(ESTALE) if attempts < ATTEMPTS_MAX => attempts += 1,
            ended => return ended,
        }
    }
}

async fn move_once(task: &Task, ino: Ino, moves: &[ObjectMove]) -> Result<(), Errno> {
    let home = usize::from(ino.home().0);
    let begin = Request::MoveBegin { at: At::inode(ino), moves: moves.to_vec() };
    let (ino, moving, capability, epoch) = match task.call(home, begin, &[]).await.0 {
        Reply::Moving { ino, moving, capability, epoch } => (ino, moving, capability, epoch),
        Reply::Failed(errno) => return Err(errno),
        other => panic!("a move of {ino:?} begins: {other:?}"),
    };
    let tracking = 1 + task.agenda.below(u64::MAX - 1);
    let moves = moves.to_vec();
    let mut moving = Moving { task, home, ino, moving, capability, epoch, moves, tracking, round: 0 };
    let ended = moving.carry_through().await;
    if ended.is_err() {
        let _ = moving.ask(home, moving.end(false)).await;
    }
    moving.stop_noting().await;
    ended
}

impl Moving<'_> {
    async fn carry_through(&mut self) -> Result<(), Errno> {
        // The copies' targets note changes as well: a restart, which may have lost bytes, shows by lost notes.
        for target in self.moves.clone().into_iter().flat_map(|one| [one.from, one.to]) {
            self.changes(target, 0).await?;
        }
        for one in self.moves.clone() {
            self.copy_range(one, 0, limits::FILE_BYTES, false).await?;
        }
        for _ in 0..self.task.agenda.below(u64::from(ROUNDS)) {
            self.catch_up().await?;
        }
        let freeze = Request::MoveFreeze { ino: self.ino, moving: self.moving };
        match self.ask(self.home, freeze).await? {
            Reply::Frozen { epoch } => self.epoch = epoch,
            other => panic!("a freeze of {:?}: {other:?}", self.ino),
        }
        self.catch_up().await?;
        for one in self.moves.clone() {
            let sync = Request::SyncObject { capability: self.capability, target: one.to };
            self.ask(usize::from(one.to.server.0), sync).await?;
        }
        for one in self.moves.clone() {
            self.changes(one.to, 1).await?;
        }
        self.ask(self.home, self.end(true)).await.map(|_| ())
    }

    /// Copies the bytes that changed since their last copy.
    async fn catch_up(&mut self) -> Result<(), Errno> {
        self.round += 1;
        for one in self.moves.clone() {
            for (begin, end) in self.changes(one.from, self.round).await? {
                self.copy_range(one, begin, end, true).await?;
            }
        }
        Ok(())
    }

    /// Ends the notes of changes, wherever there are some.
    async fn stop_noting(&self) {
        for one in &self.moves {
            for target in [one.from, one.to] {
                let _ = self.changes(target, ROUND_LAST).await;
            }
        }
    }

    fn end(&self, commit: bool) -> Request {
        Request::MoveEnd { ino: self.ino, moving: self.moving, commit }
    }

    async fn changes(&self, target: TargetId, round: u32) -> Result<Vec<(u64, u64)>, Errno> {
        let (capability, tracking) = (self.capability, self.tracking);
        let changes = Request::ObjectChanges { capability, target, tracking, round };
        match self.ask(usize::from(target.server.0), changes).await? {
            Reply::Changes(ranges) => Ok(ranges),
            other => panic!("changes on {target}: {other:?}"),
        }
    }

    /// Copies the bytes of a range of an object, and with `punches` the range's holes.
    async fn copy_range(&self, one: ObjectMove, begin: u64, end: u64, punches: bool) -> Result<(), Errno> {
        let (mut position, epoch, capability) = (begin, self.epoch, self.capability);
        while position < end {
            let data = self.find(one.from, position, Seek::Data).await?.unwrap_or(end).min(end);
            if punches && data > position {
                let (target, fence, length) = (one.to, Fence::NONE, data - position);
                let offset = position;
                let free = Request::Reserve { fence, capability, target, epoch, offset, length, punch: true };
                self.of_bytes(target, free, &[]).await?;
            }
            let hole = match data < end {
                true => self.find(one.from, data, Seek::Hole).await?.unwrap_or(end).min(end),
                false => end,
            };
            position = data;
            while position < hole {
                let length = CHUNK_BYTES.min(hole - position);
                self.copy_chunk(one, Extent { offset: position, length: length as u32 }).await?;
                position += length;
            }
        }
        Ok(())
    }

    async fn find(&self, target: TargetId, offset: u64, seek: Seek) -> Result<Option<u64>, Errno> {
        let (capability, epoch) = (self.capability, self.epoch);
        let request = Request::ObjectSeek { capability, target, epoch, offset, seek };
        match self.ask(usize::from(target.server.0), request).await? {
            Reply::Position(position) => Ok(position),
            other => panic!("a seek on {target}: {other:?}"),
        }
    }

    async fn copy_chunk(&self, one: ObjectMove, extent: Extent) -> Result<(), Errno> {
        let (fence, capability, epoch, extents) = (Fence::NONE, self.capability, self.epoch, vec![extent]);
        let read = Request::Read { fence, capability, target: one.from, epoch, extents: extents.clone() };
        let bytes = self.of_bytes(one.from, read, &[]).await?;
        let (target, publication) = (one.to, None);
        let write = Request::Write { fence, capability, target, epoch, extents, publication };
        self.of_bytes(one.to, write, &bytes).await.map(|_| ())
    }

    /// A request for bytes, over the fences that it meets.
    async fn of_bytes(&self, target: TargetId, request: Request, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let server = usize::from(target.server.0);
        match self.task.course(server, self.home, payload, || request.clone()).await {
            Some((Reply::Failed(errno), _)) => Err(errno),
            Some((Reply::StaleEpoch { .. }, _)) | None => Err(ESTALE),
            Some((_, received)) => Ok(received),
        }
    }

    async fn ask(&self, server: usize, request: Request) -> Result<Reply, Errno> {
        match self.task.call(server, request, &[]).await.0 {
            Reply::Failed(errno) => Err(errno),
            Reply::StaleEpoch { .. } => Err(ESTALE),
            reply => Ok(reply),
        }
    }
}
