//! Reads: clipped at the size, in parallel from all targets, straight into the caller's memory.

use crate::exchange::{call, Call, Message};
use crate::plan::{parts, scatter, single, window_bytes, Part, Room};
use crate::pool::Lane;
use crate::session::Environment;
use crate::several::call_all;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Counters, File, Result};
use std::io::IoSliceMut;
use weir_placement::Layout;
use weir_session::{Attempts, Size};
use weir_wire::{limits, Extent, Reply};

/// The outcome of reading one window.
enum Outcome {
    /// The bytes read from the window's start. They are fewer than wanted only at a failure or at the end of the file.
    Bytes(u64),
    /// The file was shortened: the caller asks for the size and begins again.
    Stale,
}

/// The outcome of a read that may pass the end of the file.
enum AtEnd {
    /// The read is done, or has to begin again.
    Read(Outcome),
    /// The file has grown to this size, and the read goes on within the size.
    Grown(Size),
}

impl File {
    /// Reads at `offset` into `buffers`. Answers the number of bytes read, 0 at the end of the file.
    ///
    /// # Errors
    /// The errors of `preadv(2)`, where nothing was read.
    pub fn read_at(&self, caller: &Caller, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        if !self.capability().rights.read {
            return Err(ClientError::number(libc::EBADF));
        }
        if offset > limits::FILE_BYTES {
            return Err(ClientError::number(libc::EINVAL));
        }
        let environment = self.environment()?;
        let wanted = buffers.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        let wanted = wanted.min(limits::FILE_BYTES - offset);
        let counters = environment.counters();
        Counters::add(&counters.read_calls, 1);
        if wanted == 0 {
            return Ok(0);
        }
        let mut attempts = Attempts::new(environment.silence());
        loop {
            let outcome = self.try_read(environment, caller, buffers, offset, wanted)?;
            if let Outcome::Bytes(bytes) = outcome {
                Counters::add(&counters.read_bytes, bytes);
                return Ok(bytes as usize);
            }
            environment.again(&mut attempts)?;
            self.refresh(environment, caller)?;
        }
    }

    fn try_read(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
        wanted: u64,
    ) -> Result<Outcome> {
        let mut size = self.known_or_fresh(environment, caller)?;
        if offset + wanted > size.bytes {
            // One round trip is enough where the object's server is the home, which tells the size in its reply. The
            // request asks only for bytes that are known to be there, because the target's time counts to the job.
            let inside = wanted.min(size.bytes.saturating_sub(offset));
            let whole = single(self.layout(), offset, inside).filter(|part| part.length > 0);
            let whole = whole.filter(|part| self.is_home(part.target));
            if let Some(part) = whole.filter(|part| part.length <= limits::PAYLOAD_BYTES as u64) {
                match self.read_to_the_end(environment, caller, buffers, part, size)? {
                    AtEnd::Read(outcome) => return Ok(outcome),
                    AtEnd::Grown(grown) => size = grown,
                }
            } else {
                size = self.refresh(environment, caller)?;
            }
        }
        let length = wanted.min(size.bytes.saturating_sub(offset));
        self.read_within(environment, caller, buffers, offset, length, size.epoch)
    }

    /// Reads a part whose end may lie beyond the file's end.
    ///
    /// Bytes beyond the size known before are not taken. The server may have read them just before a writer put them there,
    /// and looked at the size just after.
    fn read_to_the_end(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        buffers: &mut [IoSliceMut<'_>],
        part: Part,
        known: Size,
    ) -> Result<AtEnd> {
        let sink = Sink::Slices(buffers);
        match self.read_part(environment, caller, part, known.epoch, sink)? {
            Reply::StaleEpoch { .. } => Ok(AtEnd::Read(Outcome::Stale)),
            Reply::Data { size: Some((bytes, epoch)) } if epoch == known.epoch => {
                let size = Size { bytes, epoch };
                self.known.learn(size);
                if bytes > known.bytes && bytes > part.file_offset {
                    return Ok(AtEnd::Grown(size));
                }
                Ok(AtEnd::Read(Outcome::Bytes(part.length.min(bytes.saturating_sub(part.file_offset)))))
            }
            // The file is being cut, or was cut meanwhile.
            _ => Ok(AtEnd::Read(Outcome::Stale)),
        }
    }

    /// Reads `length` bytes that lie inside the file.
    fn read_within(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
        length: u64,
        epoch: u64,
    ) -> Result<Outcome> {
        if length == 0 {
            return Ok(Outcome::Bytes(0));
        }
        let layout = self.layout();
        let whole = single(layout, offset, length);
        if let Some(part) = whole.filter(|part| part.length <= limits::PAYLOAD_BYTES as u64) {
            let sink = Sink::Slices(buffers);
            return match self.read_part(environment, caller, part, epoch, sink)? {
                Reply::StaleEpoch { .. } => Ok(Outcome::Stale),
                _ => Ok(Outcome::Bytes(length)),
            };
        }
        let mut room = Room::new(buffers);
        let mut done = 0;
        while done < length {
            let step = window_bytes(layout, offset + done).min(length - done);
            match self.read_window(environment, caller, (layout, epoch), &mut room, offset + done, step) {
                Ok(Outcome::Bytes(bytes)) => done += bytes,
                Ok(Outcome::Stale) => return Ok(Outcome::Stale),
                // The bytes before the failure were read.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Outcome::Bytes(done))
    }

    fn read_window(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        (layout, epoch): (&Layout, u64),
        room: &mut Room<'_, '_>,
        offset: u64,
        length: u64,
    ) -> Result<Outcome> {
        let planned = parts(layout, offset, length);
        let mut scattered = scatter(layout, &planned, room, offset, length);
        let mut calls: Vec<Call<'_, '_>> = planned
            .iter()
            .zip(&mut scattered)
            .map(|(part, slices)| self.read_call(*part, epoch, Sink::Slices(slices)))
            .collect();
        for ((reply, bytes), part) in call_all(environment, caller, &mut calls)
            .into_iter()
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .zip(&planned)
        {
            match reply {
                Reply::StaleEpoch { .. } => return Ok(Outcome::Stale),
                Reply::Data { .. } if bytes as u64 == part.length => {}
                _ => return Err(self.unexpected("Read")),
            }
        }
        Ok(Outcome::Bytes(length))
    }

    fn read_part(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        part: Part,
        epoch: u64,
        sink: Sink<'_, '_>,
    ) -> Result<Reply> {
        match call(environment, caller, self.read_call(part, epoch, sink))? {
            (reply @ Reply::Data { .. }, bytes) if bytes as u64 == part.length => Ok(reply),
            (reply @ Reply::StaleEpoch { .. }, _) => Ok(reply),
            _ => Err(self.unexpected("Read")),
        }
    }

    fn read_call<'a, 'u>(&self, part: Part, epoch: u64, sink: Sink<'a, 'u>) -> Call<'a, 'u> {
        let target = part.target;
        let extent = Extent { offset: part.object_offset, length: part.length as u32 };
        Call {
            server: target.server,
            lane: Lane::of_payload(part.length as usize),
            message: Message::Read { capability: self.capability(), target, epoch, extent },
            payload: &[],
            sink,
        }
    }
}
