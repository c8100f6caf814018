//! Bytes of open files.

use crate::abi::{flags, CopyFileRangeIn, CopyFileRangeOut, FallocateIn, Fixed, FsyncIn};
use crate::abi::{IoctlIn, IoctlOut, LseekIn, LseekOut, ReadIn, WriteIn, WriteOut};
use crate::call::{Answer, Call, Failure, Reply};
use crate::device::WRITE_BYTES_MAX;
use crate::filesystem::Filesystem;
use crate::handles::OpenFile;
use crate::sizes::follow_mapped;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use weir_client::wire::{limits, Errno, Seek};
use weir_client::ClientError;

/// Most bytes copied for one request: the caller goes on with the rest, and can be interrupted in between.
const COPY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The fate of cached pages after a call changed their range beside them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    /// The kernel drops the pages, and reads them again before a program stores to them.
    Dropped,
    /// The kernel keeps a page of which a part was changed, with zeros in that part.
    Kept,
}

/// The modes of `fallocate(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allocation {
    Reserve { keep_size: bool },
    Punch,
    Zero { keep_size: bool },
}

fn allocation(mode: u32) -> Option<Allocation> {
    match mode as i32 {
        0 => Some(Allocation::Reserve { keep_size: false }),
        libc::FALLOC_FL_KEEP_SIZE => Some(Allocation::Reserve { keep_size: true }),
        mode if mode == libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE => Some(Allocation::Punch),
        libc::FALLOC_FL_ZERO_RANGE => Some(Allocation::Zero { keep_size: false }),
        mode if mode == libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE => {
            Some(Allocation::Zero { keep_size: true })
        }
        _ => None,
    }
}

fn seek_for(whence: u32) -> Option<Seek> {
    match whence as i32 {
        libc::SEEK_DATA => Some(Seek::Data),
        libc::SEEK_HOLE => Some(Seek::Hole),
        _ => None,
    }
}

impl Filesystem {
    pub(crate) fn read(&self, call: &mut Call<'_>) -> Answer {
        let asked: ReadIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        if asked.size > WRITE_BYTES_MAX {
            return Err(Failure(libc::EINVAL));
        }
        let is_for_pages = asked.read_flags & flags::READ_LOCK_OWNER == 0;
        loop {
            if is_for_pages {
                follow_mapped(&open)?;
                self.pages.hold(&open)?;
                self.overwrites.read(open.ino, &extent(asked.offset, u64::from(asked.size)));
            }
            let room = call.room(asked.size as usize);
            let length = open.file.read_at(&open.opener, &mut [IoSliceMut::new(room)], asked.offset)?;
            // Each further round is due to one more move of the file.
            if !is_for_pages || !self.pages.is_outdated(&open) {
                return Ok(Reply::Scratch(length));
            }
        }
    }

    pub(crate) fn write(&self, call: &mut Call<'_>) -> Answer {
        let asked: WriteIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let bytes = call.bytes(asked.size)?;
        let length = if asked.write_flags & flags::WRITE_CACHE != 0 {
            self.write_back(&open, bytes, asked.offset)?
        } else {
            let appends = asked.flags & libc::O_APPEND as u32 != 0;
            let buffers = [IoSlice::new(bytes)];
            self.overwriting(&open, extent(asked.offset, bytes.len() as u64), Afterwards::Dropped, || {
                let (start, length) = if appends {
                    let (start, length) = open.file.append(&open.opener, &buffers)?;
                    if start > asked.offset {
                        // Another appended after the kernel had looked at the size. The kernel's offset is lost, the size is not.
                        self.sizes.grew(open.ino, start + length as u64);
                    }
                    (start, length)
                } else {
                    (asked.offset, open.file.write_at(&open.opener, &buffers, asked.offset)?)
                };
                Ok((length, extent(start, length as u64)))
            })?
        };
        Reply::of(&WriteOut { size: length as u32, padding: 0 })
    }

    /// Runs `write`, which puts bytes into `range` beside the pages that the kernel may have of it, and answers its
    /// result with the range that it really wrote.
    fn overwriting<T>(
        &self,
        open: &OpenFile,
        range: Range<u64>,
        pages: Afterwards,
        write: impl FnOnce() -> Result<(T, Range<u64>), Failure>,
    ) -> Result<T, Failure> {
        // Where files go through the page cache, its pages have the new bytes.
        let are_dropped = self.features.direct_io() && pages == Afterwards::Dropped;
        self.overwrites.during(open.ino, range, || are_dropped && self.pages.may_be_held(open.ino), write)
    }

    /// Writes pages of a shared mapping back, again while a lost server may come back. The kernel gives up pages that were not
    /// written, so the file's mappings fail from then on.
    fn write_back(&self, open: &OpenFile, bytes: &[u8], offset: u64) -> Result<usize, Failure> {
        let mut patience = self.pages.patience();
        loop {
            match self.try_write_back(open, bytes, offset) {
                Ok(()) => return Ok(bytes.len()),
                Err(error) if patience.allows(&error) => {}
                Err(error) => {
                    self.pages.lose(open.ino, &error);
                    return Err(error.into());
                }
            }
        }
    }

    /// Stores beyond the end of the file in its last page are no bytes of the file, and the kernel may believe the file longer
    /// than it is. So bytes beyond the end are dropped. Bytes that calls wrote beside the pages since those were read are left
    /// out, too.
    fn try_write_back(&self, open: &OpenFile, bytes: &[u8], offset: u64) -> weir_client::Result<()> {
        let inside = open.file.size(&open.opener)?.saturating_sub(offset).min(bytes.len() as u64);
        for part in self.overwrites.rest(open.ino, extent(offset, inside)) {
            let mut from = part.start;
            while from < part.end {
                let rest = IoSlice::new(&bytes[(from - offset) as usize..(part.end - offset) as usize]);
                match open.file.write_at(&open.opener, &[rest], from)? {
                    0 => return Err(ClientError::Failed(Errno(libc::EIO as u16))),
                    length => from += length as u64,
                }
            }
        }
        Ok(())
    }

    pub(crate) fn sync(&self, call: &mut Call<'_>) -> Answer {
        let asked: FsyncIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        open.file.sync(&open.opener, asked.flags & flags::FSYNC_DATA_ONLY != 0)?;
        self.pages.check(open.ino)?;
        Ok(Reply::Done)
    }

    pub(crate) fn allocate(&self, call: &mut Call<'_>) -> Answer {
        let asked: FallocateIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let allocation = allocation(asked.mode).ok_or(Failure(libc::EOPNOTSUPP))?;
        if asked.offset.checked_add(asked.length).is_none_or(|end| end > limits::FILE_BYTES) {
            return Err(Failure(libc::EFBIG));
        }
        let (file, caller) = (&open.file, &open.opener);
        let range = extent(asked.offset, asked.length);
        match allocation {
            Allocation::Reserve { keep_size } => {
                file.reserve(caller, asked.offset, asked.length, keep_size)?;
            }
            Allocation::Punch => self.overwriting(&open, range.clone(), Afterwards::Kept, || {
                Ok((file.punch(caller, asked.offset, asked.length)?, range))
            })?,
            Allocation::Zero { keep_size } => {
                self.overwriting(&open, range.clone(), Afterwards::Kept, || {
                    Ok((file.zero(caller, asked.offset, asked.length, keep_size)?, range))
                })?
            }
        }
        Ok(Reply::Done)
    }

    pub(crate) fn seek(&self, call: &mut Call<'_>) -> Answer {
        let asked: LseekIn = call.take()?;
        let open = self.handles.file(asked.handle)?;
        let seek = seek_for(asked.whence).ok_or(Failure(libc::EINVAL))?;
        let offset = open.file.seek(&open.opener, asked.offset, seek)?;
        Reply::of(&LseekOut { offset })
    }

    /// The long form answers 64 bits, else the two are the same.
    pub(crate) fn copy_range(&self, call: &mut Call<'_>, long: bool) -> Answer {
        let asked: CopyFileRangeIn = call.take()?;
        let from = self.handles.file(asked.handle_in)?;
        let to = self.handles.file(asked.handle_out)?;
        let length = asked.length.min(COPY_BYTES_MAX);
        let copied = self.overwriting(&to, extent(asked.offset_out, length), Afterwards::Dropped, || {
            let copied =
                from.file.copy_range(&from.opener, asked.offset_in, &to.file, asked.offset_out, length)?;
            Ok((copied, extent(asked.offset_out, copied)))
        })?;
        if long {
            return Reply::of(&CopyFileRangeOut { bytes: copied });
        }
        Reply::of(&WriteOut { size: copied as u32, padding: 0 })
    }

    /// Gives the client library of the calling process the means to reach the file's servers by itself, or takes its
    /// note that the process is about to map pages.
    pub(crate) fn ioctl(&self, call: &mut Call<'_>) -> Answer {
        let asked: IoctlIn = call.take()?;
        if asked.command == flags::IOCTL_MAP {
            let open = self.handles.file(asked.handle)?;
            follow_mapped(&open)?;
            self.pages.hold(&open)?;
            return Reply::of(&IoctlOut::default());
        }
        if asked.command != flags::IOCTL_HANDLE || asked.out_size as usize != flags::IOCTL_HANDLE_BYTES {
            return Err(Failure(libc::ENOTTY));
        }
        let open = self.handles.file(asked.handle)?;
        self.sizes.unfollow(&open);
        let state = open.file.state().encode()?;
        let mut bytes = IoctlOut::default().to_bytes();
        bytes.extend_from_slice(&(state.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&state);
        Ok(Reply::Bytes(bytes))
    }
}

/// `length` bytes from `offset` on.
fn extent(offset: u64, length: u64) -> Range<u64> {
    offset..offset.saturating_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_modes_are_known_or_refused() {
        let keep = libc::FALLOC_FL_KEEP_SIZE as u32;
        let punch = libc::FALLOC_FL_PUNCH_HOLE as u32;
        let zero = libc::FALLOC_FL_ZERO_RANGE as u32;
        assert_eq!(allocation(0), Some(Allocation::Reserve { keep_size: false }));
        assert_eq!(allocation(keep), Some(Allocation::Reserve { keep_size: true }));
        assert_eq!(allocation(punch | keep), Some(Allocation::Punch));
        assert_eq!(allocation(zero), Some(Allocation::Zero { keep_size: false }));
        assert_eq!(allocation(zero | keep), Some(Allocation::Zero { keep_size: true }));
        for refused in
            [punch, libc::FALLOC_FL_COLLAPSE_RANGE as u32, libc::FALLOC_FL_INSERT_RANGE as u32, 1 << 30]
        {
            assert_eq!(allocation(refused), None, "{refused:#x}");
        }
    }
}
