//! Writes and appends: in parallel to all targets, published before the call returns.

use crate::exchange::{call, Call, Message};
use crate::plan::{gather, parts, single, slice_of, window_bytes, Part};
use crate::pool::Lane;
use crate::session::Environment;
use crate::several::call_all;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, File, Result};
use std::io::IoSlice;
use weir_placement::Layout;
use weir_session::{Appended, Attempts, Detours, Failure, Size, Turn, Wrote};
use weir_wire::{limits, Extent, Publication, Reply, Request};

/// One range of a file that a caller writes.
#[derive(Clone, Copy)]
struct Writing<'a> {
    environment: Environment<'a>,
    caller: &'a Caller,
    /// The bytes of the range. Further bytes follow where the largest file ends within the buffers.
    buffers: &'a [IoSlice<'a>],
    offset: u64,
    length: u64,
}

/// The outcome of writing a range, before its publication.
struct Written {
    /// The bytes from the start of the range that are on their targets, without a gap.
    bytes: u64,
    /// The reason why the write stopped there.
    failure: Option<Failure>,
    /// Whether every request so far carried its publication.
    is_published: bool,
}

/// The way in which a write tells the home.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    /// The request carries the publication where one request does it all. Else the publication follows.
    Publish,
    /// The end of the append turn carries the publication.
    ByTurn,
}

/// An attempt, or the news that the file was shortened meanwhile.
enum Attempt<T> {
    Done(T),
    Stale,
}

impl File {
    /// Writes at `offset`, also where the file was opened with `O_APPEND`. Answers the number of bytes that were written and
    /// published: all bytes, or those before a failure.
    ///
    /// # Errors
    /// The errors of `pwritev(2)`, where nothing was written.
    pub fn write_at(&self, caller: &Caller, buffers: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        let length = self.check_write(buffers, offset)?;
        let environment = self.environment()?;
        Counters::add(&environment.counters().write_calls, 1);
        if length == 0 {
            return Ok(0);
        }
        let mut done = 0;
        let outcome = self.write_all(Writing { environment, caller, buffers, offset, length }, &mut done);
        Counters::add(&environment.counters().write_bytes, done);
        match outcome {
            // The caller writes all of it through its mount: the part that arrived is the same, and no write is short.
            Err(ClientError::PagesHeld) => Err(ClientError::PagesHeld),
            Err(error) if done == 0 => Err(error),
            _ => Ok(done as usize),
        }
    }

    /// Writes until all bytes are written and published. Begins anew where the file was shortened meanwhile, and goes on to
    /// other targets where a target is full. `done` is the number of bytes published so far.
    fn write_all(&self, whole: Writing<'_>, done: &mut u64) -> Result<()> {
        let Writing { environment, caller, buffers, offset, length } = whole;
        let mut attempts = Attempts::new(environment.silence());
        let mut detours = Detours::default();
        let mut rest;
        let mut left = whole;
        loop {
            let size = self.known_or_fresh(environment, caller)?;
            match self.try_write(left, size)? {
                Attempt::Done(Written { bytes, failure: None, .. }) => {
                    *done += bytes;
                    return Ok(());
                }
                Attempt::Done(Written { bytes, failure: Some(failure), .. }) => {
                    *done += bytes;
                    let has_leftovers = failure.has_leftovers();
                    if let Err(error) = self.take_detour(environment, caller, &mut detours, failure) {
                        if has_leftovers {
                            self.cut_off(environment, caller);
                        }
                        return Err(error);
                    }
                    environment.again(&mut attempts)?;
                    rest = slice_of(buffers, *done, length - *done);
                    left =
                        Writing { buffers: &rest, offset: offset + *done, length: length - *done, ..whole };
                }
                Attempt::Stale => {
                    environment.again(&mut attempts)?;
                    self.refresh(environment, caller)?;
                }
            }
        }
    }

    /// Appends atomically. Answers the offset at which the bytes stand, and their number.
    ///
    /// # Errors
    /// The errors of `write(2)`, where nothing was written.
    pub fn append(&self, caller: &Caller, buffers: &[IoSlice<'_>]) -> Result<(u64, usize)> {
        let length = self.check_write(buffers, 0)?;
        let environment = self.environment()?;
        Counters::add(&environment.counters().write_calls, 1);
        if length == 0 {
            return Ok((self.known_or_fresh(environment, caller)?.bytes, 0));
        }
        let size = self.known_or_fresh(environment, caller)?;
        let (layout, layout_epoch) = self.dated_layout();
        let guess = single(layout, size.bytes, length).filter(|part| self.is_home(part.target));
        let mut detours = Detours::default();
        // A longer payload would stay in the socket while its offset, which depends on others, is not yet known.
        if let Some(part) = guess.filter(|part| part.length <= limits::INLINE_PAYLOAD_BYTES as u64) {
            match self.append_at_once(environment, caller, buffers) {
                Ok(Some(offset)) => {
                    Counters::add(&environment.counters().write_bytes, length);
                    return Ok((offset, length as usize));
                }
                Ok(None) => {}
                Err(error) => {
                    let failure = Failure::of(error, part.target, layout_epoch);
                    self.take_detour(environment, caller, &mut detours, failure)?;
                }
            }
        }
        // The append turn tells the end of the file.
        let writing = Writing { environment, caller, buffers, offset: size.bytes, length };
        let (offset, bytes) = self.append_anywhere(writing, detours)?;
        Counters::add(&environment.counters().write_bytes, bytes);
        Ok((offset, bytes as usize))
    }

    /// Appends in turns until one turn takes all bytes. Where no target has room for the rest, a part is appended.
    fn append_anywhere(&self, writing: Writing<'_>, mut detours: Detours) -> Result<(u64, u64)> {
        let Writing { environment, caller, .. } = writing;
        let mut attempts = Attempts::new(environment.silence());
        let mut takes_part = false;
        loop {
            match self.append_in_turn(writing, takes_part)? {
                Appended::At(Publication { end, written_bytes, .. }, ..) => {
                    return Ok((end - written_bytes, written_bytes));
                }
                Appended::Failed(failure) => return Err(failure.error),
                Appended::Full(failure) => {
                    // Without other targets, the next turn appends as much as fits, as on any full disk.
                    takes_part = self.take_detour(environment, caller, &mut detours, failure).is_err();
                }
                Appended::Again => {}
            }
            environment.again(&mut attempts)?;
        }
    }

    /// The number of bytes to write, within the largest file.
    fn check_write(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<u64> {
        if !self.capability().rights.write {
            return Err(ClientError::number(libc::EBADF));
        }
        let length = buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        let room = limits::FILE_BYTES.saturating_sub(offset);
        if room == 0 && length > 0 {
            return Err(ClientError::number(libc::EFBIG));
        }
        Ok(length.min(room))
    }

    fn try_write(&self, writing: Writing<'_>, size: Size) -> Result<Attempt<Written>> {
        let Writing { environment, caller, offset, .. } = writing;
        let written = match self.write_range(writing, size, Telling::Publish)? {
            Attempt::Done(written) => written,
            Attempt::Stale => return Ok(Attempt::Stale),
        };
        if written.is_published || written.bytes == 0 {
            return Ok(Attempt::Done(written));
        }
        let publication = Publication {
            end: offset + written.bytes,
            written_bytes: written.bytes,
            epoch: size.epoch,
            reserved_end: 0,
        };
        let is_told = if publication.end > size.bytes {
            self.publish(environment, caller, publication)?
        } else {
            let now = environment.session().milliseconds();
            let is_due = self.pending.note(publication.written_bytes, publication.epoch, now);
            match is_due.then(|| self.pending.take(now)).flatten() {
                Some(due) => self.publish(environment, caller, due)?,
                None => true,
            }
        };
        Ok(if is_told { Attempt::Done(written) } else { Attempt::Stale })
    }

    /// Writes a range window by window and stops at the first failure.
    fn write_range(&self, writing: Writing<'_>, size: Size, telling: Telling) -> Result<Attempt<Written>> {
        let Writing { offset, length, .. } = writing;
        let dated @ (layout, layout_epoch) = self.dated_layout();
        if let Some(part) =
            single(layout, offset, length).filter(|part| part.length <= limits::PAYLOAD_BYTES as u64)
        {
            return self.write_whole(writing, (part, layout_epoch), size, telling);
        }
        let mut written = Written { bytes: 0, failure: None, is_published: false };
        while written.bytes < length && written.failure.is_none() {
            let from = offset + written.bytes;
            let step = window_bytes(layout, from).min(length - written.bytes);
            match self.write_window(writing, dated, (from, step), size)? {
                Attempt::Done((bytes, failure)) => {
                    written.bytes += bytes;
                    written.failure = failure;
                }
                Attempt::Stale => return Ok(Attempt::Stale),
            }
        }
        Ok(Attempt::Done(written))
    }

    /// Writes a part that one request carries, with its publication where the target's server is the home.
    fn write_whole(
        &self,
        writing: Writing<'_>,
        (part, layout_epoch): (Part, u64),
        size: Size,
        telling: Telling,
    ) -> Result<Attempt<Written>> {
        let Writing { environment, caller, buffers, .. } = writing;
        let publication = (telling == Telling::Publish && self.is_home(part.target)).then(|| Publication {
            end: part.file_offset + part.length,
            written_bytes: part.length,
            epoch: size.epoch,
            reserved_end: 0,
        });
        let total = buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        let clipped;
        let payload = if total == part.length {
            buffers
        } else {
            clipped = slice_of(buffers, 0, part.length);
            &clipped
        };
        let write = self.write_call(part, size.epoch, publication, payload);
        let reply = match call(environment, caller, write) {
            Ok((reply, _)) => reply,
            Err(error) => {
                let failure = Some(Failure::of(error, part.target, layout_epoch));
                return Ok(Attempt::Done(Written { bytes: 0, failure, is_published: false }));
            }
        };
        match reply {
            Reply::StaleEpoch { .. } => Ok(Attempt::Stale),
            Reply::Written { size: told } => {
                if let Some(publication) = publication {
                    self.published(environment, publication, told);
                }
                let is_published = publication.is_some();
                Ok(Attempt::Done(Written { bytes: part.length, failure: None, is_published }))
            }
            _ => Err(self.unexpected("Write")),
        }
    }

    /// Writes the window `[offset, offset + length)` to its targets at once. Answers the number of bytes before the first
    /// failure, and the failure.
    fn write_window(
        &self,
        writing: Writing<'_>,
        (layout, layout_epoch): (&Layout, u64),
        (offset, length): (u64, u64),
        size: Size,
    ) -> Result<Attempt<(u64, Option<Failure>)>> {
        let Writing { environment, caller, buffers, offset: base, .. } = writing;
        let planned = parts(layout, offset, length);
        let gathered = gather(layout, &planned, buffers, base, offset, length);
        let mut calls: Vec<Call<'_, '_>> = planned
            .iter()
            .zip(&gathered)
            .map(|(part, slices)| self.write_call(*part, size.epoch, None, slices))
            .collect();
        let answers = call_all(environment, caller, &mut calls);
        let mut failure: Option<(u64, Failure)> = None;
        let mut arrived = Vec::new();
        let mut stale_from = None;
        for (answer, part) in answers.into_iter().zip(&planned) {
            let error = match answer {
                Ok((Reply::Written { .. }, _)) => {
                    arrived.push(*part);
                    continue;
                }
                Ok((Reply::StaleEpoch { .. }, _)) => {
                    stale_from.get_or_insert(part.file_offset - offset);
                    continue;
                }
                Ok(_) => self.unexpected("Write"),
                Err(error) => error,
            };
            // Parts come in the order of their first bytes, so the first failure is the earliest.
            match &mut failure {
                Some((_, earliest)) => earliest.add(&error, part.target),
                None => {
                    let first = Failure::of(error, part.target, layout_epoch);
                    failure = Some((part.file_offset - offset, first));
                }
            }
        }
        let Some((bytes, mut failure)) = failure else {
            return Ok(if stale_from.is_some() { Attempt::Stale } else { Attempt::Done((length, None)) });
        };
        if !arrived.is_empty() {
            // A home that knows of no data leaves the objects alone when the file goes.
            let nothing = Publication { end: 0, written_bytes: 0, epoch: size.epoch, reserved_end: 0 };
            let _ = self.publish(environment, caller, nothing);
            let covered = |part: &Part| layout.object_bytes(part.object, size.bytes.max(offset + bytes));
            let is_beyond = |part: &Part| covered(part) < part.object_offset + part.length;
            failure.note_leftovers(arrived.iter().any(is_beyond));
        }
        match stale_from {
            // The failure may be that of a target which the file has left. So all is written anew by the present layout.
            Some(_) if !failure.is_open() => Ok(Attempt::Stale),
            // The part that a target may carry out late is the caller's to hear of.
            Some(stale_from) => Ok(Attempt::Done((bytes.min(stale_from), Some(failure)))),
            None => Ok(Attempt::Done((bytes, Some(failure)))),
        }
    }

    /// As [`File::cut_off`], if the failure left bytes.
    fn cut_off_leftovers(&self, environment: Environment<'_>, caller: &Caller, failure: Option<&Failure>) {
        if failure.is_some_and(Failure::has_leftovers) {
            self.cut_off(environment, caller);
        }
    }

    /// Has the home cut off the bytes that arrived behind a failure and beyond the size, so that no later hole shows them. The home
    /// alone knows the size: other clients may have written there, and published their bytes. A failure of this is ignored,
    /// because the file's size does not cover the bytes.
    fn cut_off(&self, environment: Environment<'_>, caller: &Caller) {
        let layout_epoch = self.dated_layout().1;
        let request = Request::Detour { capability: self.capability(), layout_epoch, full: Vec::new() };
        if let Ok(Reply::Layout { layout, layout_epoch, size_bytes, epoch }) =
            self.ask_home(environment, caller, Lane::Small, &request)
        {
            self.learn_layout(layout, layout_epoch, Size { bytes: size_bytes, epoch });
        }
    }

    fn write_call<'a, 'u>(
        &self,
        part: Part,
        epoch: u64,
        publication: Option<Publication>,
        payload: &'a [IoSlice<'a>],
    ) -> Call<'a, 'u> {
        let target = part.target;
        let extent = Extent { offset: part.object_offset, length: part.length as u32 };
        Call {
            server: target.server,
            lane: Lane::of_payload(part.length as usize),
            message: Message::Write { capability: self.capability(), target, epoch, extent, publication },
            payload,
            sink: Sink::None,
        }
    }

    /// Appends in one round trip. Answers nothing where the bytes do not fit into one object of the home.
    fn append_at_once(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        buffers: &[IoSlice<'_>],
    ) -> Result<Option<u64>> {
        let request = Request::Append { capability: self.capability() };
        let append = Call { payload: buffers, ..self.home_call(Lane::Small, &request, Sink::None) };
        match call(environment, caller, append)?.0 {
            Reply::Appended { offset, size_bytes, epoch } => {
                self.known.learn(Size { bytes: size_bytes, epoch });
                self.pending.published(environment.session().milliseconds());
                Ok(Some(offset))
            }
            Reply::AppendElsewhere => Ok(None),
            _ => Err(self.unexpected("Append")),
        }
    }

    /// Writes at the end of the file, which belongs to this client for its turn.
    fn write_in_turn(&self, writing: Writing<'_>, size: Size) -> Result<Attempt<Written>> {
        let Writing { environment, caller, length, .. } = writing;
        let known = self.known_or_fresh(environment, caller)?;
        // An epoch may be used once the layout that goes with the epoch is known.
        let is_current = known.epoch == size.epoch || self.refresh(environment, caller)?.epoch == size.epoch;
        self.known.learn(size);
        let length = length.min(limits::FILE_BYTES.saturating_sub(size.bytes));
        if length == 0 {
            return Err(ClientError::number(libc::EFBIG));
        }
        if !is_current {
            return Ok(Attempt::Stale);
        }
        self.write_range(Writing { offset: size.bytes, length, ..writing }, size, Telling::ByTurn)
    }

    /// Takes the file's append turn, writes, and ends the turn unless it is left to its lease. Where a target is full, a part is
    /// appended only with `takes_part`.
    fn append_in_turn(&self, writing: Writing<'_>, takes_part: bool) -> Result<Appended> {
        let Writing { environment, caller, .. } = writing;
        let capability = self.capability();
        // Others may have the turn, so the request waits in the lane where it holds up no small request.
        let begin = Request::AppendBegin { capability };
        let Reply::Turn { turn, offset, epoch } =
            self.ask_home(environment, caller, Lane::Waiting, &begin)?
        else {
            return Err(self.unexpected("AppendBegin"));
        };
        let turn = Turn::new(capability, turn, Size { bytes: offset, epoch }, environment.now());
        let writing = Writing { environment: environment.in_turn(&turn), ..writing };
        let wrote = self.write_in_turn(writing, turn.size()).map(|attempt| match attempt {
            Attempt::Done(written) => Wrote::Bytes(written.bytes, written.failure),
            Attempt::Stale => Wrote::Stale,
        });
        let ending = turn.end(wrote, takes_part)?;
        let answer = self.ask_home(environment, caller, Lane::Small, &turn.end_request(&ending));
        let appended = ending.told(answer)?;
        match &appended {
            Appended::At(publication, size, failure) => {
                self.published(environment, *publication, *size);
                self.cut_off_leftovers(environment, caller, failure.as_ref());
            }
            Appended::Failed(failure) => self.cut_off_leftovers(environment, caller, Some(failure)),
            Appended::Again | Appended::Full(_) => {}
        }
        Ok(appended)
    }
}
