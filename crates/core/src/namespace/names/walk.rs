//! Path resolution: from a directory inode along a relative path, to the borders of this server's own tree.

use super::Names;
use crate::namespace::decision::{Step, Stop};
use crate::namespace::errno::{EINVAL, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ESTALE};
use crate::namespace::files::permission::{self, EXECUTE};
use crate::namespace::files::{Directory, Entry, Inode, Node};
use std::borrow::Cow;
use weir_wire::{limits, At, Errno, FileKind, Identity, Ino, Reply};

/// The treatment of a symbolic link that the last component names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// The walk follows the link.
    Follow,
    /// The walk ends at the link itself, unless a slash stands behind the name.
    Keep,
    /// The walk ends at the name, which is about to be made, removed or moved.
    Name,
    /// The walk is for opening a file, which is made if it is missing. It never follows a name with a slash behind it, whatever
    /// the goal of the link.
    Make { follow: bool },
}

impl Last {
    /// Whether the last symbolic link is followed, as most calls say it.
    pub(crate) fn following(follow: bool) -> Last {
        if follow {
            Last::Follow
        } else {
            Last::Keep
        }
    }
}

/// The end of a walk.
#[derive(Clone, Debug)]
pub(crate) enum Walked {
    /// An inode without a name: the path was empty or ended in `.` or `..`.
    Node(Ino, Ending),
    /// A name in a directory.
    Name(Place),
}

/// The end of a path that does not end in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Empty,
    Dot,
    DotDot,
}

/// A name in a directory of this server, whether or not it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) parent: Ino,
    pub(crate) name: Vec<u8>,
    pub(crate) entry: Option<Entry>,
    /// A slash stands behind the name.
    pub(crate) slash: bool,
    hops: u8,
}

/// One component of a path, and the rest of the path.
struct Component<'a> {
    name: &'a [u8],
    rest: &'a [u8],
    slash: bool,
}

impl Place {
    /// Checks the length of a name. Each operation has its own moment for this check.
    pub(crate) fn check_name(&self) -> Result<(), Errno> {
        if self.name.len() > limits::NAME_BYTES {
            return Err(ENAMETOOLONG);
        }
        Ok(())
    }

    /// The entry, which must be there.
    pub(crate) fn taken(&self) -> Result<Entry, Errno> {
        self.check_name()?;
        self.entry.ok_or(ENOENT)
    }
}

impl Names {
    /// The inode that `at` leads to.
    pub(crate) fn node(&self, who: &Identity, at: &At, last: Last) -> Step<Ino> {
        match self.walk(who, at, last)? {
            Walked::Node(ino, _) => Ok(ino),
            Walked::Name(place) => self.named(&place),
        }
    }

    /// The inode at a place.
    pub(crate) fn named(&self, place: &Place) -> Step<Ino> {
        let entry = place.entry.ok_or(ENOENT)?;
        if place.slash && entry.kind != FileKind::Directory {
            return Err(ENOTDIR.into());
        }
        if entry.ino.home() != self.files.server() {
            return Err(self.redirect(entry.ino, (place.parent, &place.name), &[], place.hops));
        }
        Ok(entry.ino)
    }

    /// Walks along the path of `at`.
    pub(crate) fn walk(&self, who: &Identity, at: &At, last: Last) -> Step<Walked> {
        self.check_start(at)?;
        if at.path.is_empty() {
            return Ok(Walked::Node(at.ino, Ending::Empty));
        }
        let mut directory = at.ino;
        let mut path = Cow::Borrowed(at.path.as_slice());
        let mut position = 0;
        let mut hops = at.hops;
        loop {
            let here = self.searchable(who, directory)?;
            let component = split(&path[position..]);
            let is_last = component.rest.is_empty();
            let next = path.len() - component.rest.len();
            match component.name {
                b"" | b"." if is_last => return Ok(Walked::Node(directory, Ending::Dot)),
                b"" | b"." => position = next,
                b".." if is_last && last == Last::Name => {
                    return Ok(Walked::Node(directory, Ending::DotDot));
                }
                b".." => {
                    directory = self.above(directory, here, component.rest, hops)?;
                    if is_last {
                        return Ok(Walked::Node(directory, Ending::DotDot));
                    }
                    position = next;
                }
                name if name.len() > limits::NAME_BYTES && !(is_last && last == Last::Name) => {
                    return Err(ENAMETOOLONG.into());
                }
                name => {
                    let entry = here.find(name);
                    let slash = component.slash && is_last;
                    let follows = match last {
                        _ if !is_last => true,
                        Last::Follow => true,
                        Last::Keep => slash,
                        Last::Make { follow } => follow && !slash,
                        Last::Name => false,
                    };
                    match entry {
                        Some(entry) if entry.kind == FileKind::Symlink && follows => {
                            hops += 1;
                            path = Cow::Owned(self.follow(entry.ino, &component, hops)?);
                            position = 0;
                        }
                        _ if is_last => {
                            let name = name.to_vec();
                            return Ok(Walked::Name(Place { parent: directory, name, entry, slash, hops }));
                        }
                        None => return Err(ENOENT.into()),
                        Some(entry) if entry.kind != FileKind::Directory => return Err(ENOTDIR.into()),
                        Some(entry) if entry.ino.home() != self.files.server() => {
                            return Err(self.redirect(entry.ino, (directory, name), component.rest, hops));
                        }
                        Some(entry) => {
                            directory = entry.ino;
                            position = next;
                        }
                    }
                }
            }
        }
    }

    /// Checks the limits of every request, and that an anchor still holds.
    fn check_start(&self, at: &At) -> Step<()> {
        if at.path.len() > limits::PATH_BYTES {
            return Err(ENAMETOOLONG.into());
        }
        if !at.is_well_formed() {
            return Err(EINVAL.into());
        }
        if at.hops > limits::SYMLINK_HOPS {
            return Err(ELOOP.into());
        }
        let found = self.files.get(at.ino);
        let Some(anchor) = &at.anchor else {
            return if found.is_some() { Ok(()) } else { Err(ESTALE.into()) };
        };
        let holds = found.and_then(Inode::directory).is_some_and(|directory| {
            directory.parent == Ino::ROOT && directory.name.as_ref() == anchor.as_slice()
        });
        if holds && found.is_some_and(|inode| inode.names > 0) {
            Ok(())
        } else {
            Err(detour(Reply::Stale))
        }
    }

    fn searchable(&self, who: &Identity, ino: Ino) -> Result<&Directory, Errno> {
        let inode = self.files.inode(ino)?;
        let directory = inode.directory().ok_or(ENOTDIR)?;
        permission::check(who, inode, EXECUTE)?;
        Ok(directory)
    }

    /// The directory above. Above the root, the client knows the directory.
    fn above(&self, ino: Ino, directory: &Directory, rest: &[u8], hops: u8) -> Step<Ino> {
        if ino == Ino::ROOT {
            let path = [b"../", rest].concat();
            let at = At { hops: hops.saturating_add(1), ..At::new(ino, path) };
            return Err(detour(Reply::Redirect { at }));
        }
        if directory.parent.home() != self.files.server() {
            let at = At { hops, ..At::new(directory.parent, rest) };
            return Err(detour(Reply::Redirect { at }));
        }
        Ok(directory.parent)
    }

    /// The path from the goal of the symbolic link `ino` on.
    fn follow(&self, ino: Ino, component: &Component<'_>, hops: u8) -> Step<Vec<u8>> {
        if hops > limits::SYMLINK_HOPS {
            return Err(ELOOP.into());
        }
        let Node::Symlink(target) = &self.files.inode(ino)?.node else { return Err(ESTALE.into()) };
        let mut path = target.to_vec();
        if component.slash {
            path.push(b'/');
            path.extend_from_slice(component.rest);
        }
        if path.len() > limits::PATH_BYTES {
            return Err(ENAMETOOLONG.into());
        }
        if path.first() == Some(&b'/') {
            return Err(detour(Reply::Escape { path, hops }));
        }
        Ok(path)
    }

    /// Sends the client on to the home of the directory that `place` names. A name in the root becomes an anchor.
    fn redirect(&self, ino: Ino, place: (Ino, &[u8]), rest: &[u8], hops: u8) -> Stop {
        if let Some(&id) = self.moving.get(&ino) {
            // Until the home has heard of the move, it would call the new name stale.
            return Stop::Wait(id);
        }
        let anchor = (place.0 == Ino::ROOT).then(|| place.1.to_vec().into());
        detour(Reply::Redirect { at: At { anchor, hops, ..At::new(ino, rest) } })
    }
}

pub(crate) fn detour(reply: Reply) -> Stop {
    Stop::Detour(Box::new(reply))
}

/// Splits off the first component.
fn split(path: &[u8]) -> Component<'_> {
    let end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
    let behind = &path[end..];
    let slashes = behind.iter().take_while(|&&byte| byte == b'/').count();
    Component { name: &path[..end], rest: &behind[slashes..], slash: slashes > 0 }
}
