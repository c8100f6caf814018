//! Getting the store into the tree of files, and out again.

use crate::device::{Device, PATH};
use crate::error::MountError;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    recvmsg, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::ffi::CString;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Program that mounts for users.
const HELPER: &str = "fusermount3";

/// A mounted store.
#[derive(Debug)]
pub(crate) struct MountedAt {
    path: PathBuf,
    by_helper: bool,
}

/// The outcome of an unmount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unmounted {
    /// The mount is gone.
    Clean,
    /// The mount was in use and is only detached: it goes when the last program leaves it.
    Detached,
    /// The mount was gone before.
    Already,
}

/// Mounts on `path`, listed as `source`; `for_everyone` lets other users in, which only root may ask for.
///
/// # Errors
/// [`MountError`] with a hint: no device, no helper, an unusable mount point.
pub(crate) fn mount(
    path: &Path,
    source: &str,
    for_everyone: bool,
) -> Result<(Device, MountedAt), MountError> {
    let path = usable(path)?;
    let by_helper = !rustix::process::geteuid().is_root();
    let descriptor =
        if by_helper { mount_by_helper(&path, source)? } else { mount_as_root(&path, source, for_everyone)? };
    Ok((Device::new(descriptor), MountedAt { path, by_helper }))
}

fn usable(path: &Path) -> Result<PathBuf, MountError> {
    let fail = |source: io::Error| {
        let hint = match source.raw_os_error() {
            Some(libc::ENOTCONN) => {
                "a mount that died is still there: run `fusermount3 -u` or `umount` on it first"
            }
            Some(libc::ENOTDIR) => "name a directory",
            _ => "make the directory first",
        };
        MountError::MountPoint { path: path.to_owned(), source, hint }
    };
    let absolute = path.canonicalize().map_err(fail)?;
    if !absolute.metadata().map_err(fail)?.is_dir() {
        return Err(fail(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    Ok(absolute)
}

fn mount_as_root(path: &Path, source: &str, for_everyone: bool) -> Result<OwnedFd, MountError> {
    use rustix::fs::{open, Mode, OFlags};
    let device = open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| MountError::NoDevice(error.into()))?;
    let mut options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    if for_everyone {
        options += ",allow_other";
    }
    let options = CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(source, path, "fuse.weir", flags, options.as_c_str()).map_err(|error| {
        let hint = "mounting needs the capability CAP_SYS_ADMIN, which containers often lack: weir run --prefix /weir works without";
        MountError::MountPoint { path: path.to_owned(), source: error.into(), hint }
    })?;
    Ok(device)
}

/// The helper opens the device, mounts, and passes the descriptor over the socket that `_FUSE_COMMFD` names.
fn mount_by_helper(path: &Path, source: &str) -> Result<OwnedFd, MountError> {
    if !Path::new(PATH).exists() {
        return Err(MountError::NoDevice(io::ErrorKind::NotFound.into()));
    }
    let socket = |error: Errno| MountError::system("cannot make a socket for fusermount3", error);
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(socket)?;
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).map_err(socket)?;
    let mut child = Command::new(HELPER)
        .args(["-o", &format!("fsname={source},subtype=weir,nosuid,nodev"), "--"])
        .arg(path)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoHelper)?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let mut message = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // The helper's words are for the error message alone, so their loss changes nothing.
        let _ = stderr.read_to_string(&mut message);
    }
    let status = child.wait().map_err(MountError::NoHelper)?;
    match received {
        Ok(Some(descriptor)) if status.success() => Ok(descriptor),
        _ => {
            let message = message.trim().lines().last().unwrap_or("no reason given").to_owned();
            Err(MountError::Refused { path: path.to_owned(), message })
        }
    }
}

fn receive_descriptor(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut vectors = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut vectors, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptor)
}

impl MountedAt {
    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it out of the tree; when programs use it, it is detached instead.
    ///
    /// # Errors
    /// The system's error when it stays where it is.
    pub(crate) fn unmount(&self) -> io::Result<Unmounted> {
        if self.by_helper {
            return self.unmount_by_helper();
        }
        match rustix::mount::unmount(&self.path, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(Unmounted::Clean),
            Err(Errno::INVAL | Errno::NOENT) => Ok(Unmounted::Already),
            Err(Errno::BUSY) => {
                rustix::mount::unmount(&self.path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
                Ok(Unmounted::Detached)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn unmount_by_helper(&self) -> io::Result<Unmounted> {
        let run = |option: &str| {
            Command::new(HELPER).arg(option).arg("--").arg(&self.path).stderr(Stdio::piped()).output()
        };
        if run("-u")?.status.success() {
            return Ok(Unmounted::Clean);
        }
        let lazily = run("-uz")?;
        if lazily.status.success() {
            return Ok(Unmounted::Detached);
        }
        let message = String::from_utf8_lossy(&lazily.stderr).trim().to_owned();
        if message.contains("not found") || message.contains("not mounted") {
            return Ok(Unmounted::Already);
        }
        Err(io::Error::other(message))
    }
}
