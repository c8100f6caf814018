//! The files below some paths, and where their objects are.

use crate::error::MoverError;
use crate::stop::Stop;
use std::collections::HashSet;
use weir_client::wire::{Attributes, FileKind, Ino, OpenFlags};
use weir_client::{Caller, ClientError, Place, Store};
use weir_placement::rebalance::FileObjects;
use weir_placement::TargetId;

/// Bytes of one part of a listing.
const LISTING_BYTES: u32 = 64 * 1024;

/// A file with objects that may be moved.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    /// In the store.
    pub(crate) path: String,
    pub(crate) objects: FileObjects,
}

/// Every file below `paths` with an object on one of `givers`, each once.
///
/// # Errors
/// [`MoverError::Look`] where a path that was named cannot be looked at; what is gone below it is left out.
pub(crate) fn files(
    store: &Store,
    paths: &[Vec<u8>],
    givers: &[TargetId],
    stop: &Stop,
) -> Result<Vec<Found>, MoverError> {
    let mut search = Search { store, givers, seen: HashSet::new(), found: Vec::new() };
    for path in paths {
        let shown = String::from_utf8_lossy(path).into_owned();
        let look = |source| MoverError::Look { path: shown.clone(), source };
        let attributes = store.attributes(&Caller::own(), Place::root(path), true).map_err(look)?;
        let mut waiting = vec![(attributes.ino, attributes.kind, shown.clone())];
        while let Some((ino, kind, path)) = waiting.pop() {
            if stop.is_asked() {
                return Ok(search.found);
            }
            let looked = match kind {
                FileKind::Directory => search.list(ino, &path, &mut waiting),
                FileKind::Regular => search.look(ino, &path),
                _ => Ok(()),
            };
            match looked {
                Err(error) if path == shown => return Err(look(error)),
                // It went while others were looked at, or is not this user's.
                Err(error) if [ENOENT, ESTALE, EACCES].contains(&error.errno()) => {}
                Err(source) => return Err(MoverError::Look { path, source }),
                Ok(()) => {}
            }
        }
    }
    Ok(search.found)
}

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ESTALE: i32 = 116;

struct Search<'s> {
    store: &'s Store,
    givers: &'s [TargetId],
    seen: HashSet<Ino>,
    found: Vec<Found>,
}

impl Search<'_> {
    fn list(
        &mut self,
        ino: Ino,
        path: &str,
        waiting: &mut Vec<(Ino, FileKind, String)>,
    ) -> Result<(), ClientError> {
        let caller = Caller::own();
        let flags = OpenFlags { read: true, directory: true, ..OpenFlags::default() };
        let opened = self.store.open(&caller, Place::inode(ino), flags, 0)?;
        let Attributes { ino, .. } = opened.attributes;
        let mut cookie = 0;
        let listed = loop {
            match self.store.list(&caller, ino, opened.handle, cookie, LISTING_BYTES, false) {
                Ok(listing) => {
                    for entry in listing.entries {
                        cookie = entry.cookie;
                        if entry.name != b"." && entry.name != b".." {
                            let name = String::from_utf8_lossy(&entry.name);
                            let path = format!("{}/{name}", path.trim_end_matches('/'));
                            waiting.push((entry.ino, entry.kind, path));
                        }
                    }
                    if listing.end {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.store.close(&caller, ino, opened.handle)?;
        listed
    }

    fn look(&mut self, ino: Ino, path: &str) -> Result<(), ClientError> {
        if !self.seen.insert(ino) {
            return Ok(());
        }
        let (layout, size_bytes) = self.store.layout_of(&Caller::own(), ino)?;
        if layout.targets().iter().any(|target| self.givers.contains(target)) {
            let objects = layout.targets().iter().enumerate();
            let objects =
                objects.map(|(object, &target)| (target, layout.object_bytes(object, size_bytes))).collect();
            self.found.push(Found { ino, path: path.to_owned(), objects: FileObjects { objects } });
        }
        Ok(())
    }
}
