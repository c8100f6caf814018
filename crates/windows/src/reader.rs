//! The reading side: the windows of a user that have ended, each told once.
//!
//! The file is copied and never mapped, so that its owner cannot end the reader by shortening it.

use crate::contents::{Contents, Line};
use crate::error::WindowsError;
use crate::file;
use crate::format::{FILE_BYTES, GRACE};
use rustix::io::{pread, Errno};
use std::path::Path;
use std::time::Duration;

/// A file of windows of a user, as one look found it.
#[derive(Debug)]
pub struct Reader {
    contents: Contents,
    uid: u32,
}

impl Reader {
    /// Looks at the file in `folder` for windows of a length, where `uid` owns both.
    ///
    /// # Errors
    /// A folder or file that belongs to another user or that others may use, one of another form, and failures of the system.
    pub fn look(folder: &Path, window: Duration, uid: u32) -> Result<Reader, WindowsError> {
        file::checked(window)?;
        let opened = file::open_to_read(folder, window, uid)?;
        let mut bytes = vec![0; FILE_BYTES];
        let mut filled = 0;
        while filled < FILE_BYTES {
            match pread(&opened.descriptor, &mut bytes[filled..], filled as u64) {
                Ok(0) => return Err(opened.unfit("it has another size")),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(source) => return Err(opened.failed("read", source)),
            }
        }
        match Contents::decode(&bytes) {
            Some(contents) if contents.window() == window => Ok(Reader { contents, uid }),
            _ => Err(opened.unfit("it is of another version, or damaged")),
        }
    }

    /// The lines of the windows after a number that have ended at a Unix time, and the last of these windows.
    ///
    /// The file of a user tells of jobs of this user alone; that of the superuser, whose mount acts for others, of all.
    pub fn lines_after(&self, number: u64, now: Duration) -> (Vec<Line>, u64) {
        let ended = self.contents.ended(now, GRACE);
        let first = (*ended.start()).max(number.saturating_add(1));
        let windows = first..=*ended.end();
        let mut lines = self.contents.lines(&windows);
        lines.retain(|line| self.uid == 0 || line.uid == self.uid);
        (lines, number.max(*ended.end()))
    }

    /// Operations that were not counted, because the table was full.
    pub fn left_out(&self) -> u64 {
        self.contents.left_out()
    }
}
