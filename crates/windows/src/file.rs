//! The file of windows of a user on a host: who may use it, and how it is made.
//!
//! The folder is the user's own and nobody else may enter it. It may lie in a folder where anyone makes files, so neither it nor
//! the file is followed where it is a link, and both are checked once they are open.

use crate::error::WindowsError;
use crate::format::{FILE_BYTES, WINDOW_MAX, WINDOW_MIN};
use rustix::fs::{
    fallocate, fstat, fstatfs, openat, FallocateFlags, FileType, Mode, OFlags, RawMode, Stat, CWD,
};
use rustix::io::Errno;
use rustix::process::{getrlimit, Resource};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File systems whose allocated bytes stay reachable (statfs(2)): tmpfs, ramfs, ext2 to ext4, xfs and overlayfs. The mapped memory
/// of a file on a remote file system, or on one that a program serves, may bring a signal that ends programs.
const FILE_SYSTEMS: [u32; 5] = [0x0102_1994, 0x8584_58f6, 0xef53, 0x5846_5342, 0x794c_7630];

/// Attempts to allocate a file between signals: a timer of the program may interrupt one after the other.
const GROW_ATTEMPTS: usize = 100;

/// A file that was checked.
pub(crate) struct Opened {
    pub(crate) descriptor: OwnedFd,
    /// The owner of the folder and the file.
    pub(crate) uid: u32,
    path: PathBuf,
}

impl Opened {
    /// The error of a system call.
    pub(crate) fn failed(&self, what: &'static str, source: Errno) -> WindowsError {
        WindowsError::System { what, path: self.path.clone(), source }
    }

    /// The error of a file that is another one.
    pub(crate) fn unfit(&self, why: &'static str) -> WindowsError {
        WindowsError::Unfit { path: self.path.clone(), why }
    }
}

/// The nanoseconds of a window.
///
/// # Errors
/// A length outside of its limits.
pub(crate) fn checked(window: Duration) -> Result<u64, WindowsError> {
    match (WINDOW_MIN..=WINDOW_MAX).contains(&window) {
        true => Ok(window.as_nanos() as u64),
        false => Err(WindowsError::Length),
    }
}

/// Opens the file for counting, as the user of this process. Folder and file are made where they are not there.
pub(crate) fn open(folder: &Path, window: Duration) -> Result<Opened, WindowsError> {
    let system = |what, source| WindowsError::System { what, path: folder.to_owned(), source };
    match rustix::fs::mkdir(folder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(source) => return Err(system("make", source)),
    }
    let uid = rustix::process::geteuid().as_raw();
    let directory = open_folder(folder, uid)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = folder.join(name_of(window));
    let descriptor = openat(&directory, name_of(window), flags, Mode::RUSR | Mode::WUSR)
        .map_err(|source| WindowsError::System { what: "open", path: path.clone(), source })?;
    let opened = Opened { descriptor, uid, path };
    let status = checked_status(&opened)?;
    if status.st_size < FILE_BYTES as i64 {
        grow(&opened)?;
    }
    Ok(opened)
}

/// Opens the file for reading, where `uid` owns it. The superuser's own counts are read by the superuser alone.
pub(crate) fn open_to_read(folder: &Path, window: Duration, uid: u32) -> Result<Opened, WindowsError> {
    let directory = open_folder(folder, uid)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let path = folder.join(name_of(window));
    let descriptor = openat(&directory, name_of(window), flags, Mode::empty())
        .map_err(|source| WindowsError::System { what: "open", path: path.clone(), source })?;
    let opened = Opened { descriptor, uid, path };
    checked_status(&opened)?;
    Ok(opened)
}

/// A random number other than 0.
pub(crate) fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    // Requests of up to 256 bytes are whole, and no signal interrupts them (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

fn name_of(window: Duration) -> String {
    format!("windows-{}ms", window.as_millis())
}

fn open_folder(folder: &Path, uid: u32) -> Result<OwnedFd, WindowsError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let system = |what, source| WindowsError::System { what, path: folder.to_owned(), source };
    let directory = openat(CWD, folder, flags, Mode::empty()).map_err(|source| system("open", source))?;
    let status = fstat(&directory).map_err(|source| system("look at", source))?;
    let why = match unfit(&status, uid) {
        None if FILE_SYSTEMS
            .contains(&file_system_of(&directory).map_err(|source| system("look at", source))?) =>
        {
            return Ok(directory);
        }
        None => "it is neither in memory nor on a local disk",
        Some(why) => why,
    };
    Err(WindowsError::Unfit { path: folder.to_owned(), why })
}

/// The number of a file system's kind.
fn file_system_of(descriptor: &OwnedFd) -> Result<u32, Errno> {
    // Numbers of kinds have 32 bits, whatever the width and the sign of the field.
    fstatfs(descriptor).map(|found| found.f_type as u32)
}

/// The status of a file that this crate may use.
fn checked_status(opened: &Opened) -> Result<Stat, WindowsError> {
    let status = fstat(&opened.descriptor).map_err(|source| opened.failed("look at", source))?;
    if FileType::from_raw_mode(status.st_mode as RawMode) != FileType::RegularFile {
        return Err(opened.unfit("it is no regular file"));
    }
    if let Some(why) = unfit(&status, opened.uid) {
        return Err(opened.unfit(why));
    }
    if status.st_size > FILE_BYTES as i64 {
        return Err(opened.unfit("it has another size"));
    }
    Ok(status)
}

fn unfit(status: &Stat, uid: u32) -> Option<&'static str> {
    if status.st_uid != uid {
        return Some("it belongs to another user");
    }
    (status.st_mode & 0o077 != 0).then_some("others may use it")
}

/// Gives a file all its bytes, so that no access to the mapped memory finds the file system full and gets a signal.
fn grow(opened: &Opened) -> Result<(), WindowsError> {
    // Beyond this limit the kernel sends a signal that ends the program (setrlimit(2)).
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < FILE_BYTES as u64) {
        return Err(opened.failed("make", Errno::FBIG));
    }
    for _ in 0..GROW_ATTEMPTS {
        match fallocate(&opened.descriptor, FallocateFlags::empty(), 0, FILE_BYTES as u64) {
            Err(Errno::INTR) => {}
            done => return done.map_err(|source| opened.failed("make", source)),
        }
    }
    Err(opened.failed("make", Errno::INTR))
}
