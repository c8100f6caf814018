//! Files on disk are the server's alone: bytes of files have their permissions in the namespace, and nowhere else.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;
/// Longest key file that is read; a key is 64 digits.
const KEY_BYTES: u64 = 4096;

/// Makes a folder that only this user may look into, or closes the one that is there to others.
///
/// # Errors
/// It is no folder of this user, or the file system's errors.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = open_folder(path)?;
    check_owner(&found)?;
    close_to_others(&found)
}

/// Opens a folder itself. A link in its place may be another user's, who wants this user's rights over the folder behind it.
///
/// # Errors
/// It is a link or no folder, or the file system's errors.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let what = "it is a link or no folder; hint: name the folder itself";
            Err(Error::new(ErrorKind::NotADirectory, what))
        }
        opened => Ok(File::from(opened?)),
    }
}

/// Closes a file that is there to others.
///
/// # Errors
/// As `chmod(2)`.
pub(crate) fn close_to_others(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    match mode & OTHERS {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(mode & 0o7777 & !OTHERS)),
    }
}

/// The text of a file that only this user can have written, and that nobody else can read.
///
/// # Errors
/// It is a link, another user's, or open to others; or the file system's errors.
pub(crate) fn read_secret(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check_owner(&file)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.mode() & OTHERS != 0 {
        let what = "others may read or write it: `chmod 600` it, and make a new one if it was open for long";
        return Err(Error::new(ErrorKind::PermissionDenied, what));
    }
    let mut text = String::new();
    file.take(KEY_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Refuses a file or folder of another user.
///
/// # Errors
/// It is another user's, or the file system's errors.
pub(crate) fn check_owner(file: &File) -> io::Result<()> {
    let (owner, own) = (file.metadata()?.uid(), rustix::process::geteuid().as_raw());
    if owner == own {
        return Ok(());
    }
    let what =
        format!("it is uid {owner}'s, and the server runs as uid {own}: whoever owns it could use the store");
    Err(Error::new(ErrorKind::PermissionDenied, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_before_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("above/target");
        private_folder(&path).expect("made");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("own folder");
        private_folder(&path).expect("there");
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_is_no_private_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let (behind, link) = (folder.path().join("behind"), folder.path().join("link"));
        std::fs::create_dir(&behind).expect("made");
        std::fs::set_permissions(&behind, Permissions::from_mode(0o755)).expect("own folder");
        std::os::unix::fs::symlink(&behind, &link).expect("a link");
        assert_eq!(private_folder(&link).expect_err("a link").kind(), ErrorKind::NotADirectory);
        assert_eq!(behind.metadata().expect("there").mode() & 0o777, 0o755, "it stays as it was");
    }

    #[test]
    fn a_key_that_others_may_read_or_that_is_a_link_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("key"), folder.path().join("link"));
        std::fs::write(&path, "secret").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let set = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own file");
        set(0o600);
        assert_eq!(read_secret(&path).expect("private"), "secret");
        assert!(read_secret(&link).is_err());
        for open in [0o640, 0o604, 0o602] {
            set(open);
            assert_eq!(read_secret(&path).expect_err("open").kind(), ErrorKind::PermissionDenied);
        }
    }
}
