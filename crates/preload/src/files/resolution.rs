//! Walks along paths name by name, for `getcwd` and `openat2`: there the way counts, and not only its end.

use crate::files::tree;
use crate::store::session::{self, CALLER};
use libc::c_int;
use weir_client::wire::Ino;
use weir_client::{ClientError, Place, Store};

/// Symbolic links that a walk follows, as the kernel does.
pub(crate) const LINKS: u32 = 40;

/// The rules of a walk: `RESOLVE_*` of `openat2(2)`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    /// The walk passes no symbolic link: ELOOP.
    pub(crate) no_links: bool,
    /// The walk stays below its start, and takes no absolute path: EXDEV.
    pub(crate) beneath: bool,
    /// The start is the root of the walk.
    pub(crate) in_root: bool,
    /// The walk does not follow the last name, which need not exist.
    pub(crate) keeps_last: bool,
    /// The last name need not exist: an open makes it.
    pub(crate) makes_last: bool,
}

/// A walk through the store.
struct Walk<'a> {
    store: &'a Store,
    rules: Rules,
    /// The names passed, from the root of the store on.
    done: Vec<Vec<u8>>,
    /// The number of these names that are the start.
    start: usize,
    /// The names to come, with the next name last.
    rest: Vec<Vec<u8>>,
    links: u32,
}

/// The path below the prefix, without symbolic links and `..`, to which `path` leads from the directory `start`.
///
/// # Errors
/// The kernel's error numbers; EXDEV where the walk leaves the store.
pub(crate) fn resolve(store: &Store, start: &[u8], path: &[u8], rules: Rules) -> Result<Vec<u8>, c_int> {
    let done: Vec<Vec<u8>> = names(start).map(<[u8]>::to_vec).collect();
    let mut walk = Walk { store, rules, start: done.len(), done, rest: Vec::new(), links: 0 };
    walk.go_on(path)?;
    while let Some(name) = walk.rest.pop() {
        walk.step(name)?;
    }
    Ok(walk.done.join(&b'/'))
}

/// The directory below the prefix at which a walk along `path` starts. `None` where the walk starts at a directory of the
/// host. A bound walk (`is_bound`) starts at `directory`, also with an absolute `path`.
pub(crate) fn start_of(directory: c_int, path: &[u8], is_bound: bool) -> Option<Vec<u8>> {
    if path.first() == Some(&b'/') && !is_bound {
        return session::below_root(path).map(|_| Vec::new());
    }
    tree::path_of_directory(directory)
}

fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."))
}

impl Walk<'_> {
    /// Goes on along `path`, which is the caller's or a link's.
    fn go_on(&mut self, path: &[u8]) -> Result<(), c_int> {
        let mut below = path;
        if path.first() == Some(&b'/') {
            if self.rules.beneath {
                return Err(libc::EXDEV);
            }
            if self.rules.in_root {
                self.done.truncate(self.start);
            } else {
                below = session::below_root(path).ok_or(libc::EXDEV)?;
                self.done.clear();
            }
        }
        self.rest.extend(names(below).rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn step(&mut self, name: Vec<u8>) -> Result<(), c_int> {
        if name == b".." {
            if (self.rules.beneath || self.rules.in_root) && self.done.len() <= self.start {
                return if self.rules.in_root { Ok(()) } else { Err(libc::EXDEV) };
            }
            return self.done.pop().map(drop).ok_or(libc::EXDEV);
        }
        self.done.push(name);
        if self.rules.keeps_last && self.rest.is_empty() {
            return Ok(());
        }
        let path = self.done.join(&b'/');
        match self.store.read_link(&CALLER, Place { ino: Ino::ROOT, path: &path }) {
            Ok(target) => {
                self.links += 1;
                if self.rules.no_links || self.links > LINKS {
                    return Err(libc::ELOOP);
                }
                self.done.pop();
                self.go_on(&target)
            }
            Err(ClientError::Failed(number)) if c_int::from(number.0) == libc::EINVAL => Ok(()),
            Err(error) if self.rules.makes_last && self.rest.is_empty() && error.errno() == libc::ENOENT => {
                Ok(())
            }
            Err(error) => Err(error.errno()),
        }
    }
}
