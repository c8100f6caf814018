//! The kernel's table of mounts, which tells whether the servers resolve paths as the kernel does.
//!
//! The servers do not know of mounts inside the store or over it. So the servers are asked for a path only while the store
//! lies at its mount point with nothing mounted on any part of it. `poll` on one descriptor of `/proc/self/mountinfo` tells
//! whether the table has changed (proc_pid_mountinfo(5)): one system call for each path of the store.

use crate::files::working_directory;
use crate::host::kernel::{self, system_call};
use crate::host::patience;
use crate::store::session;
use libc::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Type of the store's mounts in the table.
const STORE_TYPE: &[u8] = b"fuse.weir";
/// Mounts of the store that are told apart, including binds of its directories. With more mounts the kernel resolves every
/// path. A host has one or two.
const STORE_MOUNTS: usize = 16;
/// Bytes of the first read of the table, which are enough for a usual host. Further reads take more.
const TABLE_BYTES: usize = 16 * 1024;
/// Largest table that is read: the kernel's default bound of 100,000 mounts makes about so many bytes. With a larger table
/// the kernel resolves every path.
const TABLE_BYTES_MAX: usize = 32 << 20;
/// An id that no mount has.
const NO_MOUNT: u64 = u64::MAX;

/// The lock that is held from a question for changes until all threads know them: the kernel tells of a change once.
static LOCK: AtomicBool = AtomicBool::new(false);
/// The descriptor of the table, -1 before the first look.
static TABLE: AtomicI32 = AtomicI32::new(-1);
static PLAIN: AtomicBool = AtomicBool::new(false);
static MOUNTS: [AtomicU64; STORE_MOUNTS] = [const { AtomicU64::new(NO_MOUNT) }; STORE_MOUNTS];

struct Locked;

impl Locked {
    fn take() -> Option<Locked> {
        patience::until(|| (!LOCK.swap(true, Ordering::Acquire)).then_some(()))?;
        Some(Locked)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        LOCK.store(false, Ordering::Release);
    }
}

/// The answer to a question for changes.
enum News {
    None,
    Changed,
    /// There is no descriptor of the table yet, or none any more.
    Blind,
}

/// Whether the servers resolve paths of the store as the kernel does: the store is at its mount point, and nothing is
/// mounted on any part of it. The caller is under the guard.
pub(crate) fn are_plain() -> bool {
    let Some(_locked) = Locked::take() else { return false };
    let table = TABLE.load(Ordering::Relaxed);
    let is_known = match news(table) {
        News::None => return PLAIN.load(Ordering::Relaxed),
        News::Changed => look(table),
        News::Blind => {
            forget();
            open().is_some_and(look)
        }
    };
    PLAIN.store(is_known, Ordering::Relaxed);
    is_known
}

/// Whether a directory that `statx` found was reached by one of the mounts that [`are_plain`] looked at. A mount of another
/// namespace may have mounts inside that this table does not show.
pub(crate) fn reach(found: &libc::statx) -> bool {
    // Kernels before 5.8 do not tell the mount.
    let is_seen = found.stx_mask & libc::STATX_MNT_ID == 0
        || MOUNTS.iter().any(|known| known.load(Ordering::Relaxed) == found.stx_mnt_id);
    is_seen && session::device() == Some(kernel::device_of(found))
}

/// Drops the descriptor in the child of `fork`. The child shares it with its parent, which would miss the changes that the
/// child is told of.
pub(crate) fn reset_in_child() {
    forget();
    LOCK.store(false, Ordering::Release);
}

fn forget() {
    let table = TABLE.swap(-1, Ordering::AcqRel);
    if table >= 0 {
        weir_client::release_descriptor(table);
        kernel::close(table);
    }
    PLAIN.store(false, Ordering::Relaxed);
}

fn open() -> Option<c_int> {
    // SAFETY: the path ends with a zero byte.
    let table = unsafe { kernel::open(c"/proc/self/mountinfo".as_ptr(), libc::O_RDONLY) }.ok()?;
    // SAFETY: the kernel has just made the descriptor, and no other code knows its number.
    let table = weir_client::keep_descriptor(unsafe { OwnedFd::from_raw_fd(table) }).ok()?;
    TABLE.store(table, Ordering::Release);
    Some(table)
}

fn news(table: c_int) -> News {
    if table < 0 {
        return News::Blind;
    }
    let mut asked = libc::pollfd { fd: table, events: libc::POLLPRI, revents: 0 };
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one element and the time live through the call.
    let told = unsafe {
        system_call!(libc::SYS_ppoll, &raw mut asked, 1, &raw const at_once, std::ptr::null::<u8>(), 0)
    };
    match told {
        Ok(0) => News::None,
        Ok(_) if asked.revents & libc::POLLNVAL != 0 => News::Blind,
        Ok(_) => News::Changed,
        Err(_) => News::Blind,
    }
}

/// Reads the table anew. Answers whether the servers resolve paths as the kernel does.
fn look(table: c_int) -> bool {
    session::forget_device();
    working_directory::forget();
    let Some(device) = session::device() else { return false };
    let Some(text) = read(table) else { return false };
    let Some(mounts) = mounts_of(&text, (libc::major(device), libc::minor(device))) else { return false };
    if mounts.is_empty() || mounts.len() > STORE_MOUNTS {
        return false;
    }
    let all = mounts.into_iter().chain(std::iter::repeat(NO_MOUNT));
    MOUNTS.iter().zip(all).for_each(|(known, id)| known.store(id, Ordering::Relaxed));
    true
}

fn read(table: c_int) -> Option<Vec<u8>> {
    kernel::seek(table, 0, libc::SEEK_SET).ok()?;
    kernel::read_to_end(table, TABLE_BYTES, TABLE_BYTES_MAX)
}

/// The used parts of one line of the table.
struct Mount<'a> {
    id: u64,
    parent: u64,
    device: (u32, u32),
    kind: &'a [u8],
    /// Whether the mount refuses changes, of which the servers do not know.
    is_read_only: bool,
}

/// The mounts of the store on `device`. `None` where something is mounted on a part of the store, where a mount is read-only, or
/// where a line has another form.
fn mounts_of(table: &[u8], device: (u32, u32)) -> Option<Vec<u64>> {
    let lines = table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let all = lines.map(line).collect::<Option<Vec<_>>>()?;
    let is_store = |mount: &&Mount<'_>| mount.device == device && mount.kind == STORE_TYPE;
    if all.iter().filter(is_store).any(|mount| mount.is_read_only) {
        return None;
    }
    let stores: Vec<u64> = all.iter().filter(is_store).map(|mount| mount.id).collect();
    (!all.iter().any(|mount| stores.contains(&mount.parent))).then_some(stores)
}

/// `36 35 98:0 /root /mount/point options [tag:value]… - type source options`.
fn line(text: &[u8]) -> Option<Mount<'_>> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let mut words = text.split(|byte| *byte == b' ');
    let (id, parent) = (number(words.next()?)?, number(words.next()?)?);
    let device = words.next()?;
    let colon = device.iter().position(|byte| *byte == b':')?;
    let device = (number(&device[..colon])? as u32, number(&device[colon + 1..])? as u32);
    let is_read_only = words.nth(2)?.split(|byte| *byte == b',').any(|option| option == b"ro");
    // A single dash ends the tags before the type, and no tag is a dash.
    let kind = words.skip_while(|word| *word != b"-").nth(1)?;
    Some(Mount { id, parent, device, kind, is_read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
        36 22 0:50 / /home/mnt rw,nosuid,nodev - fuse.weir weir rw,user_id=0,group_id=0,allow_other\n\
        40 22 0:51 / /tmp\\040with\\040- rw shared:2 master:3 - tmpfs - rw\n";

    fn found(more: &str) -> Option<Vec<u64>> {
        mounts_of(format!("{HOST}{more}").as_bytes(), (0, 50))
    }

    #[test]
    fn the_store_alone_is_plain() {
        assert_eq!(found(""), Some(vec![36]));
        assert_eq!(found("41 22 0:50 /sub /elsewhere rw - fuse.weir weir rw\n"), Some(vec![36, 41]));
        assert_eq!(
            mounts_of(HOST.as_bytes(), (0, 51)),
            Some(Vec::new()),
            "a tmpfs over the store is not the store"
        );
    }

    #[test]
    fn whatever_is_mounted_on_a_part_of_it_is_seen() {
        for inner in [
            "50 36 0:60 / /home/mnt/d rw - tmpfs tmpfs rw\n",
            "50 36 0:60 / /home/mnt rw - tmpfs tmpfs rw\n",
            "50 36 0:50 /a /home/mnt/b rw - fuse.weir weir rw\n",
            "50 36 254:1 /etc/hosts /home/mnt/file rw - ext4 /dev/root rw\n",
            "41 22 0:50 /sub /elsewhere rw - fuse.weir weir rw\n50 41 0:60 / /elsewhere/d rw - tmpfs tmpfs rw\n",
        ] {
            assert_eq!(found(inner), None, "{inner}");
        }
        assert_eq!(found("50 40 0:60 / /tmp/d rw - tmpfs tmpfs rw\n"), Some(vec![36]));
    }

    #[test]
    fn a_mount_that_refuses_changes_is_the_kernels() {
        assert_eq!(found("41 22 0:50 /sub /elsewhere ro,nosuid - fuse.weir weir rw\n"), None);
        assert_eq!(found("41 22 254:2 / /cdrom ro - iso9660 /dev/sr0 ro\n"), Some(vec![36]));
    }

    #[test]
    fn what_is_not_understood_is_the_kernels() {
        for odd in ["x", "50 36", "50 22 0:60 / /a rw", "50 22 60 / /a rw - tmpfs tmpfs rw"] {
            assert_eq!(found(odd), None, "{odd}");
        }
    }
}
