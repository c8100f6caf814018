//! The way of a path: from home to home, through absolute links, and back to its start where a name of the root is stale.

use crate::{trim_start, ClientError, Place, Result};
use rustix::io::Errno as System;
use weir_wire::{limits, At, Ino, Reply};

/// Homes that one path may cross: twice the links that it may follow. A longer way goes round in circles.
const CROSSINGS: u32 = 2 * limits::SYMLINK_HOPS as u32;
/// Times that the home of a directory may call a name of the root stale: once for a name that this client kept, and again
/// for each rename during the walk. A home that lost its names knows none of those that the root has.
const STALES: u32 = 4;

/// A path on its way.
#[derive(Debug)]
pub struct Way<'w> {
    /// The path of the store's root on this host, if it has one.
    root: Option<&'w [u8]>,
    place: Place<'w>,
    at: At,
    crossings: u32,
    stales: u32,
}

impl<'w> Way<'w> {
    /// The way of `place`, whose first home is asked for `at`.
    pub fn new(root: Option<&'w [u8]>, place: Place<'w>, at: At) -> Way<'w> {
        Way { root, place, at, crossings: 0, stales: 0 }
    }

    /// The place for which the next home is asked.
    pub fn at(&self) -> &At {
        &self.at
    }

    /// The place under which the last home answered. All of that place's path lies at this home.
    pub fn into_at(self) -> At {
        self.at
    }

    /// Takes the reply of a home. Returns the reply of the last one, and nothing where another home is to be asked. `note` is told
    /// of a name of the root: its inode, or that the name is stale.
    ///
    /// # Errors
    /// [`ClientError::Outside`] for a path that leaves the store, `ELOOP` for one that crosses too many homes, `ESTALE` where
    /// the names of the root change all the time.
    pub fn take(&mut self, reply: Reply, mut note: impl FnMut(&[u8], Option<Ino>)) -> Result<Option<Reply>> {
        self.at = match reply {
            Reply::Redirect { at: next } => {
                if let Some(name) = &next.anchor {
                    note(name, Some(next.ino));
                }
                self.stay_inside(next)?
            }
            Reply::Escape { path, hops } => self.enter_again(path, hops)?,
            Reply::Stale => {
                self.stales += 1;
                match &self.at.anchor {
                    Some(name) if self.stales <= STALES => note(name, None),
                    _ => return Err(ClientError::number(System::STALE.raw_os_error())),
                }
                At::new(self.place.ino, trim_start(self.place.path))
            }
            reply => return Ok(Some(reply)),
        };
        self.crossings += 1;
        if self.crossings == CROSSINGS {
            return Err(ClientError::number(System::LOOP.raw_os_error()));
        }
        Ok(None)
    }

    /// Follows a path that climbs above the root directory: it goes on beside the store's root on the host. Where the store
    /// has no place on the host, the root is its own parent.
    fn stay_inside(&self, at: At) -> Result<At> {
        let rest = match at.path.strip_prefix(b"..") {
            Some(rest) if at.ino == Ino::ROOT && (rest.is_empty() || rest[0] == b'/') => rest,
            _ => return Ok(at),
        };
        match self.root {
            Some(root) => {
                let root = root.strip_suffix(b"/").unwrap_or(root);
                let parent = &root[..root.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
                let path = [parent, b"/", trim_start(rest)].concat();
                Err(ClientError::Outside { path, hops: at.hops })
            }
            None => Ok(At { path: trim_start(rest).to_vec(), ..at }),
        }
    }

    /// Follows an absolute link: below the root again, or out of the store.
    fn enter_again(&self, path: Vec<u8>, hops: u8) -> Result<At> {
        match self.root.and_then(|root| below(root, &path)) {
            Some(rest) => {
                let mut at = At::new(Ino::ROOT, rest);
                at.hops = hops;
                Ok(at)
            }
            None => Err(ClientError::Outside { path, hops }),
        }
    }
}

/// The part of `path` below `root`. Nothing where `path` lies elsewhere, or climbs out again by `..`.
fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let rest = path.strip_prefix(root)?;
    if !rest.is_empty() && rest[0] != b'/' {
        return None;
    }
    let mut depth = 0i64;
    for component in rest.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return None;
        }
    }
    Some(trim_start(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_link_leads_back_in_only_below_the_root() {
        assert_eq!(below(b"/weir", b"/weir/a/b"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/weir/", b"/weir"), Some(&b""[..]));
        assert_eq!(below(b"/weir", b"/weird/a"), None);
        assert_eq!(below(b"/weir", b"/etc/passwd"), None);
        assert_eq!(below(b"/weir", b"/weir/a/../../etc"), None);
        assert_eq!(below(b"/weir", b"/weir/a/../b"), Some(&b"a/../b"[..]));
    }
}
