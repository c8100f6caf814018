//! The files below some paths, and where their objects are.

use crate::error::MoverError;
use crate::events::{tell, Event};
use crate::stop::Stop;
use std::collections::HashSet;
use weir_client::wire::{Attributes, FileKind, Ino, OpenFlags};
use weir_client::{Caller, ClientError, Place, Store};
use weir_placement::rebalance::FileObjects;
use weir_placement::{ServerId, TargetId};

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

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) found: Vec<Found>,
    /// Files and trees that were left out, as their home does not answer.
    pub(crate) left: usize,
    seen: HashSet<Ino>,
}

/// Every file below `paths` with an object on one of `givers`, each once. A file whose home is one of the `silent`
/// servers is left out without a question, because each question would wait for the bound on silence.
///
/// # Errors
///
/// [`MoverError::Look`] where a named path cannot be looked at, [`MoverError::Silent`] where its home does not answer.
/// Files below it that are gone are left out.
pub(crate) fn files(
    store: &Store,
    paths: &[Vec<u8>],
    givers: &[TargetId],
    silent: &HashSet<ServerId>,
    stop: &Stop,
) -> Result<Search, MoverError> {
    let mut search = Search::default();
    let look_at = Look { store, givers };
    for path in paths {
        let shown = String::from_utf8_lossy(path).into_owned();
        if silent.contains(&Ino::ROOT.home()) {
            return Err(MoverError::Silent { path: shown, server: Ino::ROOT.home() });
        }
        let look = |source| MoverError::Look { path: shown.clone(), source };
        let attributes = store.attributes(&Caller::own(), Place::root(path), true).map_err(look)?;
        let mut waiting = vec![(attributes.ino, attributes.kind, shown.clone())];
        while let Some((ino, kind, path)) = waiting.pop() {
            if stop.is_asked() {
                return Ok(search);
            }
            let server = ino.home();
            if silent.contains(&server) {
                if path == shown {
                    return Err(MoverError::Silent { path, server });
                }
                search.left += 1;
                tell(&Event::Left { path, error: format!("its home, server {server}, does not answer") });
                continue;
            }
            let looked = match kind {
                FileKind::Directory => look_at.directory(ino, &path, &mut waiting),
                FileKind::Regular => look_at.file(ino, &path, &mut search),
                _ => Ok(()),
            };
            match looked {
                Err(error) if path == shown => return Err(look(error)),
                // The file was removed during the search, or is not this user's.
                Err(error) if [ENOENT, ESTALE, EACCES].contains(&error.errno()) => {}
                Err(source) => return Err(MoverError::Look { path, source }),
                Ok(()) => {}
            }
        }
    }
    Ok(search)
}

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ESTALE: i32 = 116;

struct Look<'s> {
    store: &'s Store,
    givers: &'s [TargetId],
}

impl Look<'_> {
    fn directory(
        &self,
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

    fn file(&self, ino: Ino, path: &str, search: &mut Search) -> Result<(), ClientError> {
        if !search.seen.insert(ino) {
            return Ok(());
        }
        let (layout, size_bytes) = self.store.layout_of(&Caller::own(), ino)?;
        if layout.targets().iter().any(|target| self.givers.contains(target)) {
            let objects = layout.targets().iter().enumerate();
            let objects =
                objects.map(|(object, &target)| (target, layout.object_bytes(object, size_bytes))).collect();
            search.found.push(Found { ino, path: path.to_owned(), objects: FileObjects { objects } });
        }
        Ok(())
    }
}
