//! Records that many append to files, at once or in turns as the product's client does.

use super::super::client::Ticket;
use super::super::histories::records;
use super::super::session::Answered;
use super::super::task::{write, Open, Outcome, Task};
use super::shared_directory;
use std::time::Duration;
use weir_fairshare::Nanos;
use weir_session::{Appended, ClientError, Failure, Size, Turn, Wrote};
use weir_wire::{At, Errno, Extent, Ino, Reply, Request};

const OPERATIONS: u64 = 16;
const EIO: Errno = Errno(5);
const EBADF: Errno = Errno(9);
const ESTALE: Errno = Errno(116);
/// The longest record: it lies on several targets.
const RECORD_BYTES: u64 = 6 << 10;
/// A part of the records is at most this long: many fit in one stripe.
const SHORT_BYTES: u64 = 600;
/// The longest wait before the turn may be renewed.
const TICK: Nanos = Nanos::from_millis(500);

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
        let turn = match self.task.call(file.home(), Request::AppendBegin { capability }, &[]).await.0 {
            Reply::Turn { turn, offset, epoch } => {
                Turn::new(capability, turn, Size { bytes: offset, epoch }, Duration::from(self.task.now()))
            }
            other => return Err(format!("the append turn of {:?}: {other:?}", file.ino)),
        };
        self.task.stand_still(file.home()).await;
        if file.epoch != turn.size().epoch {
            self.task.refresh(file).await?;
        }
        let wrote = match file.epoch == turn.size().epoch {
            true => self.write_in_turn(file, &turn, bytes).await?,
            false => Wrote::Stale,
        };
        let fault = |error: ClientError| format!("the append turn of {:?}: {error}", file.ino);
        let ending = turn.end(Ok(wrote), false).map_err(fault)?;
        let answer = match self.task.call(file.home(), turn.end_request(&ending), &[]).await.0 {
            Reply::Failed(errno) => Err(ClientError::Failed(errno)),
            reply => Ok(reply),
        };
        match ending.told(answer).map_err(fault)? {
            Appended::At(..) => Ok(Some(turn.size().bytes)),
            Appended::Again | Appended::Failed(_) => Ok(None),
            Appended::Full(failure) => Err(fault(failure.error)),
        }
    }

    /// Writes under the epoch of the turn, which is renewed meanwhile. No record is appended in part.
    async fn write_in_turn(&self, file: &Open, turn: &Turn, bytes: &[u8]) -> Outcome<Wrote> {
        let Size { bytes: offset, epoch } = turn.size();
        let file = Open { epoch, ..file.clone() };
        let pieces: Vec<_> = file.layout.pieces(offset, bytes.len() as u64).collect();
        let mut calls = Vec::new();
        for piece in pieces {
            let target = file.layout.targets()[piece.object];
            let extent = Extent { offset: piece.object_offset, length: piece.length as u32 };
            let first = (piece.file_offset - offset) as usize;
            let part = &bytes[first..first + piece.length as usize];
            let request = write(&file, target, extent, None);
            calls.push((target, self.task.send(usize::from(target.server.0), request, part)));
        }
        let (mut is_stale, mut failure) = (false, None);
        for (target, call) in calls {
            match self.answer_in_turn(call, turn).await.0 {
                Reply::Written { .. } => {}
                Reply::StaleEpoch { .. } => is_stale = true,
                Reply::StaleFence => {
                    is_stale = true;
                    self.task.greet(file.home()).await;
                }
                Reply::Failed(errno @ (EIO | ESTALE)) => {
                    failure = Some(Failure::of(ClientError::Failed(errno), target, epoch));
                    self.task.greet(file.home()).await;
                }
                other => return Err(format!("an append to {:?}: {other:?}", file.ino)),
            }
        }
        Ok(match (is_stale, failure) {
            (true, _) => Wrote::Stale,
            (false, Some(failure)) => Wrote::Bytes(0, Some(failure)),
            (false, None) => Wrote::Bytes(bytes.len() as u64, None),
        })
    }

    /// Waits for the answer to a call, and renews the turn, once at a time.
    async fn answer_in_turn(&self, call: Ticket, turn: &Turn) -> Answered {
        let mut renewing = None;
        loop {
            if !renewing.is_some_and(|ticket| self.task.waits_for(ticket)) {
                let renewal = turn.renewal(Duration::from(self.task.now()));
                renewing = renewal.map(|renewal| self.task.send(usize::from(turn.home().0), renewal, &[]));
            }
            if let Some(answered) = self.task.answer_until(call, self.task.now() + TICK).await {
                return answered;
            }
        }
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
