//! Space inside files: allocation, holes, and copies of ranges.

use crate::exchange::Call;
use crate::operations::plain;
use crate::plan::parts;
use crate::session::Environment;
use crate::several::call_all;
use crate::{Caller, ClientError, Counters, File, Result};
use std::io::{IoSlice, IoSliceMut};
use weir_placement::ServerId;
use weir_session::{Attempts, Detours, Failure, Size};
use weir_wire::{limits, Fence, Publication, Reply, Request, Seek};

/// Bytes copied at once: one default stripe. So a copy does not wait for each page, and takes little memory.
const COPY_BYTES: u64 = 1024 * 1024;

/// Unit in which files hold bytes.
const PAGE_BYTES: u64 = 4096;

impl File {
    /// Allocates a range, and without `keep_size` grows the size.
    ///
    /// # Errors
    /// The errors of `fallocate(2)`.
    pub fn reserve(&self, caller: &Caller, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.change_space(caller, offset, length, &[false], keep_size)
    }

    /// Frees a range, which reads as zeros. The size stays.
    ///
    /// # Errors
    /// The errors of `fallocate(2)`.
    pub fn punch(&self, caller: &Caller, offset: u64, length: u64) -> Result<()> {
        self.change_space(caller, offset, length, &[true], true)
    }

    /// Makes a range read as zeros and allocates the range. Without `keep_size` grows the size.
    ///
    /// # Errors
    /// The errors of `fallocate(2)`.
    pub fn zero(&self, caller: &Caller, offset: u64, length: u64, keep_size: bool) -> Result<()> {
        self.change_space(caller, offset, length, &[true, false], keep_size)
    }

    /// Carries out `steps` on every target of the range, then tells the home. A step that is `true` punches, another one
    /// allocates.
    fn change_space(
        &self,
        caller: &Caller,
        offset: u64,
        length: u64,
        steps: &[bool],
        keep_size: bool,
    ) -> Result<()> {
        if !self.capability().rights.write {
            return Err(ClientError::number(libc::EBADF));
        }
        if length == 0 {
            return Err(ClientError::number(libc::EINVAL));
        }
        let end = offset.checked_add(length).filter(|end| *end <= limits::FILE_BYTES);
        let end = end.ok_or(ClientError::number(libc::EFBIG))?;
        let environment = self.environment()?;
        Counters::add(&environment.counters().space_calls, 1);
        let mut attempts = Attempts::new(environment.silence());
        let mut detours = Detours::default();
        'again: loop {
            let size = self.known_or_fresh(environment, caller)?;
            let mut is_current = true;
            let (size_end, reserved_end) = if keep_size { (0, end) } else { (end, 0) };
            let reserved_end = if steps.contains(&false) { reserved_end } else { 0 };
            // A range that was allocated has whole pages, as if it were written.
            let pages = end.next_multiple_of(PAGE_BYTES) - offset / PAGE_BYTES * PAGE_BYTES;
            let written_bytes = if steps.contains(&false) { pages } else { 0 };
            let publication = Publication { end: size_end, written_bytes, epoch: size.epoch, reserved_end };
            for punch in steps {
                match self.change_objects(environment, caller, offset, length, size, *punch) {
                    Ok(is_done) => is_current &= is_done,
                    Err(failure) => {
                        // A home that knows of no data leaves the objects alone when the file goes. A failure of this
                        // request is ignored: the caller hears of the first failure.
                        let _ = self.publish(
                            environment,
                            caller,
                            Publication { end: 0, written_bytes: 0, reserved_end: 0, ..publication },
                        );
                        self.take_detour(environment, caller, &mut detours, failure)?;
                        environment.again(&mut attempts)?;
                        continue 'again;
                    }
                }
            }
            if is_current && self.publish(environment, caller, publication)? {
                return Ok(());
            }
            environment.again(&mut attempts)?;
            self.refresh(environment, caller)?;
        }
    }

    /// Carries out one step on all objects. Answers `false` where the file was shortened meanwhile.
    fn change_objects(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        offset: u64,
        length: u64,
        size: Size,
        punch: bool,
    ) -> std::result::Result<bool, Failure> {
        let (layout, layout_epoch) = self.dated_layout();
        let planned = parts(layout, offset, length);
        let requests: Vec<(ServerId, Request)> = planned
            .iter()
            .map(|part| {
                let target = part.target;
                let request = Request::Reserve {
                    capability: self.capability(),
                    fence: Fence::NONE,
                    target,
                    epoch: size.epoch,
                    offset: part.object_offset,
                    length: part.length,
                    punch,
                };
                (target.server, request)
            })
            .collect();
        let mut calls: Vec<Call<'_, '_>> =
            requests.iter().map(|(server, request)| plain(*server, request)).collect();
        let mut is_current = true;
        let mut failure: Option<Failure> = None;
        for (answer, part) in call_all(environment, caller, &mut calls).into_iter().zip(&planned) {
            match (answer, &mut failure) {
                (Ok((reply, _)), _) => is_current &= !matches!(reply, Reply::StaleEpoch { .. }),
                (Err(error), Some(earlier)) => earlier.add(&error, part.target),
                (Err(error), none) => *none = Some(Failure::of(error, part.target, layout_epoch)),
            }
        }
        failure.map_or(Ok(is_current), Err)
    }

    /// The offset of the next data or hole at or after `offset`.
    ///
    /// # Errors
    /// `ENXIO` for an offset beyond the end, or where no data follows.
    pub fn seek(&self, caller: &Caller, offset: u64, seek: Seek) -> Result<u64> {
        let environment = self.environment()?;
        Counters::add(&environment.counters().space_calls, 1);
        let mut attempts = Attempts::new(environment.silence());
        loop {
            if let Some(position) = self.try_seek(environment, caller, offset, seek)? {
                return Ok(position);
            }
            environment.again(&mut attempts)?;
        }
    }

    /// Makes one attempt. Answers nothing where the file was shortened or moved meanwhile.
    fn try_seek(
        &self,
        environment: Environment<'_>,
        caller: &Caller,
        offset: u64,
        seek: Seek,
    ) -> Result<Option<u64>> {
        let Size { bytes: size, epoch } = self.refresh(environment, caller)?;
        if offset >= size {
            return Err(ClientError::number(libc::ENXIO));
        }
        let layout = self.layout();
        let planned = parts(layout, offset, size - offset);
        let requests: Vec<(ServerId, Request)> = planned
            .iter()
            .map(|part| {
                let target = part.target;
                let capability = self.capability();
                let offset = part.object_offset;
                let request = Request::ObjectSeek { capability, target, epoch, offset, seek };
                (target.server, request)
            })
            .collect();
        let mut calls: Vec<Call<'_, '_>> =
            requests.iter().map(|(server, request)| plain(*server, request)).collect();
        // The size ends every file with a hole.
        let mut nearest = size;
        for (answer, part) in call_all(environment, caller, &mut calls).into_iter().zip(&planned) {
            let position = match answer?.0 {
                Reply::Position(position) => position,
                Reply::StaleEpoch { .. } => return Ok(None),
                _ => return Err(self.unexpected("ObjectSeek")),
            };
            let end = part.object_offset + part.length;
            if let Some(position) = position.filter(|position| *position < end) {
                nearest = nearest.min(layout.file_offset(part.object, position.max(part.object_offset)));
            }
        }
        match seek {
            Seek::Data if nearest >= size => Err(ClientError::number(libc::ENXIO)),
            Seek::Data | Seek::Hole => Ok(Some(nearest.max(offset))),
        }
    }

    /// Copies up to `length` bytes into `target`, another file or this one. Answers the number of copied bytes. The caller knows
    /// whether the target's descriptor appends now, which no copy may do.
    ///
    /// # Errors
    /// The errors of `copy_file_range(2)`, where nothing was copied.
    pub fn copy_range(
        &self,
        caller: &Caller,
        offset: u64,
        target: &File,
        target_offset: u64,
        length: u64,
    ) -> Result<u64> {
        if !self.capability().rights.read || !target.capability().rights.write {
            return Err(ClientError::number(libc::EBADF));
        }
        // As the kernel does: what lies behind the end at the begin is not copied, nor does it overlap.
        let length = length.min(self.size(caller)?.saturating_sub(offset));
        let (end, target_end) = (offset.saturating_add(length), target_offset.saturating_add(length));
        if self.ino() == target.ino() && offset < target_end && target_offset < end {
            return Err(ClientError::number(libc::EINVAL));
        }
        if length > 0 && target_offset >= limits::FILE_BYTES {
            return Err(ClientError::number(libc::EFBIG));
        }
        let mut buffer = vec![0; length.min(COPY_BYTES) as usize];
        let mut copied = 0;
        while copied < length {
            let step = (length - copied).min(COPY_BYTES) as usize;
            let mut slices = [IoSliceMut::new(&mut buffer[..step])];
            let moved = self.read_at(caller, &mut slices, offset + copied).and_then(|read| match read {
                0 => Ok(0),
                read => target.write_at(caller, &[IoSlice::new(&buffer[..read])], target_offset + copied),
            });
            match moved {
                Ok(0) => break,
                Ok(written) => copied += written as u64,
                Err(_) if copied > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }
}
