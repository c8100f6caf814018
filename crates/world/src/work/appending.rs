//! Records that many append to files, at once or in turns as the product's client does.

use super::super::histories::records;
use super::super::task::{write, Open, Outcome, Task};
use super::shared_directory;
use weir_wire::{At, Errno, Extent, Ino, Publication, Reply, Request};

const OPERATIONS: u64 = 16;
const EIO: Errno = Errno(5);
const EBADF: Errno = Errno(9);
const ESTALE: Errno = Errno(116);
/// The longest record: it lies on several targets.
const RECORD_BYTES: u64 = 6 << 10;
/// A part of the records is at most this long: many fit in one stripe.
const SHORT_BYTES: u64 = 600;

/// A task that appends.
pub(crate) struct Appending {
    task: Task,
    records: u64,
}

impl Appending {
    pub(crate) fn new(task: Task) -> Appending {
        Appending { task, records: 0 }
    }

    /// # Errors
    /// An answer that the store should not have given.
    pub(crate) async fn work(mut self) -> Outcome<()> {
        for _ in 0..OPERATIONS {
            let directory = shared_directory(&self.task).await?;
            let mut file = self.task.open_or_make(At::new(Ino::ROOT, format!("{directory}/records"))).await?;
            match self.task.agenda.below(4) {
                0 => self.look(&mut file).await?,
                _ => self.append(&mut file).await?,
            }
            self.task.close(file.ino, file.handle).await;
        }
        Ok(())
    }

    async fn append(&mut self, file: &mut Open) -> Outcome<()> {
        self.records += 1;
        let number = (self.task.number as u64 + 1) << 32 | self.records;
        let longest = if self.task.agenda.by_chance(60) { SHORT_BYTES } else { RECORD_BYTES };
        let bytes = records::record(number, self.task.agenda.below(longest) as usize);
        let offset = match self.append_at_once(file, &bytes).await? {
            Some(offset) => offset,
            None => loop {
                if let Some(offset) = self.append_in_turn(file, &bytes).await? {
                    break offset;
                }
            },
        };
        let mut histories = self.task.histories.borrow_mut();
        histories.records.entry(file.ino).or_default().appended(number, offset)
    }

    /// Appends in one request; nothing where the home does not take all bytes itself.
    async fn append_at_once(&self, file: &Open, bytes: &[u8]) -> Outcome<Option<u64>> {
        loop {
            let request = Request::Append { capability: file.capability };
            match self.task.call(file.home(), request, bytes).await.0 {
                Reply::Appended { offset, .. } => return Ok(Some(offset)),
                Reply::AppendElsewhere => return Ok(None),
                // The file was cut, or the turn of the request went with its client's session: nothing was appended.
                Reply::StaleEpoch { .. } | Reply::Failed(EBADF) => {}
                other => return Err(format!("append to {:?}: {other:?}", file.ino)),
            }
        }
    }

    /// Takes the append turn, writes and ends the turn; nothing where the turn was lost.
    async fn append_in_turn(&self, file: &mut Open, bytes: &[u8]) -> Outcome<Option<u64>> {
        let capability = file.capability;
        let (turn, offset, epoch) =
            match self.task.call(file.home(), Request::AppendBegin { capability }, &[]).await.0 {
                Reply::Turn { turn, offset, epoch } => (turn, offset, epoch),
                other => return Err(format!("the append turn of {:?}: {other:?}", file.ino)),
            };
        if file.epoch != epoch {
            self.task.refresh(file).await?;
        }
        let is_written = file.epoch == epoch && self.write_in_turn(file, (offset, epoch), bytes).await?;
        let publication = is_written.then(|| Publication {
            end: offset + bytes.len() as u64,
            written_bytes: bytes.len() as u64,
            epoch,
            reserved_end: 0,
        });
        let end = Request::AppendEnd { capability, turn, publication };
        match self.task.call(file.home(), end, &[]).await.0 {
            Reply::Written { .. } => Ok(is_written.then_some(offset)),
            Reply::StaleEpoch { .. } | Reply::Failed(EBADF) => Ok(None),
            other => Err(format!("the end of the append turn of {:?}: {other:?}", file.ino)),
        }
    }

    /// Writes under the epoch of the turn; false where the file was cut meanwhile, or a server did not reach the file's home.
    async fn write_in_turn(&self, file: &Open, (offset, epoch): (u64, u64), bytes: &[u8]) -> Outcome<bool> {
        let file = Open { epoch, ..file.clone() };
        let pieces: Vec<_> = file.layout.pieces(offset, bytes.len() as u64).collect();
        let mut calls = Vec::new();
        for piece in pieces {
            let target = file.layout.targets()[piece.object];
            let extent = Extent { offset: piece.object_offset, length: piece.length as u32 };
            let first = (piece.file_offset - offset) as usize;
            let part = &bytes[first..first + piece.length as usize];
            let request = write(&file, target, extent, None);
            calls.push(self.task.send(usize::from(target.server.0), request, part));
        }
        let mut is_whole = true;
        for call in calls {
            match self.task.answer(call).await.0 {
                Reply::Written { .. } => {}
                Reply::StaleEpoch { .. } | Reply::Failed(EIO) => is_whole = false,
                Reply::StaleFence | Reply::Failed(ESTALE) => {
                    is_whole = false;
                    self.task.greet(file.home()).await;
                }
                other => return Err(format!("an append to {:?}: {other:?}", file.ino)),
            }
        }
        Ok(is_whole)
    }

    /// Reads the whole file.
    async fn look(&self, file: &mut Open) -> Outcome<()> {
        let known = self.task.histories.borrow_mut().records.entry(file.ino).or_default().known();
        self.task.refresh(file).await?;
        let size_bytes = file.size_bytes;
        let bytes = self.task.read_bytes(file, size_bytes).await?;
        records::check(&bytes, &known)
    }
}
