//! The removal of everything that tasks shared, when all of them have ended.

use super::super::task::{Outcome, Task};
use super::super::SETTLED;
use std::collections::VecDeque;
use weir_fairshare::Nanos;
use weir_wire::{decode_body, At, DirectoryEntry, FileKind, Ino, OpenFlags, Reply, Request};

/// The time in which removals are carried out on all targets.
const CARRIED_OUT: Nanos = Nanos::from_millis(10_000);
/// Bytes of one answer: a directory of many entries takes several.
const LISTED_BYTES: u32 = 200;

/// Lists a directory.
///
/// # Errors
/// An answer that the store should not have given.
pub(super) async fn list(task: &Task, at: At) -> Outcome<Vec<DirectoryEntry>> {
    let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
    let what = format!("{at:?}");
    let open = |at| Request::Open { at, flags, permissions: 0, layout: None };
    let (ino, handle) = match task.at(at, open).await.0 {
        Reply::Opened { attributes, handle, capability, .. } => {
            task.client.borrow_mut().opened(handle, capability);
            (attributes.ino, handle)
        }
        other => return Err(format!("open {what}: {other:?}")),
    };
    let (mut entries, mut cookie): (Vec<DirectoryEntry>, u64) = (Vec::new(), 0);
    loop {
        let list = Request::List { ino, handle, cookie, bytes: LISTED_BYTES, attributes: false };
        let (reply, payload) = task.call(usize::from(ino.home().0), list, &[]).await;
        let Reply::Listing { end } = reply else {
            task.close(ino, handle).await;
            return Err(format!("list {what}: {reply:?}"));
        };
        let some: Vec<DirectoryEntry> =
            decode_body(&payload, "listing").map_err(|error| error.to_string())?;
        cookie = some.last().map_or(cookie, |entry| entry.cookie);
        entries.extend(some.into_iter().filter(|entry| entry.name != b"." && entry.name != b".."));
        if end {
            task.close(ino, handle).await;
            return Ok(entries);
        }
    }
}

/// Removes everything that is left in the tree.
///
/// # Errors
/// An error, for which there is no excuse any more.
pub(crate) async fn remove_all(task: Task) -> Outcome<()> {
    task.wait_until(SETTLED).await;
    let mut directories = VecDeque::from([(Vec::new(), Ino::ROOT)]);
    let mut found = Vec::new();
    while let Some((path, ino)) = directories.pop_front() {
        let prefix = if path.is_empty() { Vec::new() } else { [&path[..], b"/"].concat() };
        let at = if path.is_empty() { At::inode(ino) } else { At::new(Ino::ROOT, path) };
        for entry in list(&task, at).await? {
            let path = [&prefix[..], &entry.name[..]].concat();
            let is_directory = entry.kind == FileKind::Directory;
            if is_directory {
                directories.push_back((path.clone(), entry.ino));
            }
            found.push((path, is_directory));
        }
    }
    for (path, directory) in found.into_iter().rev() {
        let what = String::from_utf8_lossy(&path).into_owned();
        let reply = task.at(At::new(Ino::ROOT, path), |at| Request::Unlink { at, directory }).await.0;
        if matches!(reply, Reply::Failed(_)) {
            return Err(format!("remove {what} at the end: {reply:?}"));
        }
    }
    task.wait_until(task.now() + CARRIED_OUT).await;
    Ok(())
}
