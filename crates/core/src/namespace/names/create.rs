//! Creation and opening of nodes.

use super::walk::{Last, Place, Walked};
use super::Names;
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Decision, Step, Stop, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{
    of_refusal, EEXIST, EINVAL, EISDIR, ELOOP, EMLINK, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EOPNOTSUPP,
    EPERM, EXDEV,
};
use crate::namespace::files::permission::{self, ALL_BITS, EXECUTE, READ, SET_GID, SET_UID, WRITE};
use crate::namespace::files::placement;
use crate::namespace::files::{Birth, BirthNode, Inode, Node};
use crate::namespace::intents::Bytes;
use weir_placement::online::{Placed, Record, Refusal};
use weir_placement::{LayoutRequest, LayoutSpecification};
use weir_wire::{limits, At, Errno, FileKind, Identity, Ino, JobId, NodeKind, OpenFlags, Reply, Rights};

impl Names {
    /// The free name at the end of `at`. `slash` says whether a slash may stand behind the name.
    pub(crate) fn vacancy(&self, who: &Identity, at: &At, slash: bool) -> Step<Place> {
        match self.walk(who, at, Last::Name)? {
            Walked::Node(..) => Err(EEXIST.into()),
            Walked::Name(place) if place.entry.is_some() => Err(EEXIST.into()),
            Walked::Name(place) if place.check_name().is_err() => Err(ENAMETOOLONG.into()),
            Walked::Name(place) if place.slash && !slash => Err(ENOENT.into()),
            Walked::Name(place) => Ok(place),
        }
    }

    /// Whether `who` may enter names into the directory, and nobody else is about to enter this name.
    pub(crate) fn may_enter(&self, who: &Identity, parent: Ino, name: &[u8]) -> Step<&Inode> {
        let inode = self.files.inode(parent)?;
        if inode.names == 0 {
            return Err(ENOENT.into());
        }
        permission::check(who, inode, WRITE | EXECUTE)?;
        if !self.making.is_empty() {
            if let Some(&id) = self.making.get(&(parent, Bytes::from(name))) {
                return Err(Stop::Wait(id));
            }
        }
        Ok(inode)
    }

    /// Makes a node.
    pub(crate) fn make(
        &self,
        mut draft: Draft<'_>,
        at: &At,
        kind: NodeKind,
        permissions: u16,
    ) -> Step<Verdict> {
        let who = draft.who();
        let place = self.vacancy(who, at, kind.is_directory())?;
        let parent = self.may_enter(who, place.parent, &place.name)?;
        let node = match kind {
            NodeKind::Directory | NodeKind::Tree(_) => {
                let birth = self.directory_birth(who, parent, permissions);
                let foreseen = kind.foreseen_creations();
                if let Some(server) = self.elsewhere(place.parent, parent, &place.name, foreseen) {
                    return self.ask_to_make(draft, &place, server, birth);
                }
                birth.node
            }
            NodeKind::Regular => {
                let ino = self.enter_regular(&mut draft, &place, parent, (permissions, None))?;
                return Ok(Verdict::Done(draft.done(OutcomeKind::Attributes(ino))));
            }
            NodeKind::Fifo => BirthNode::Special { kind: FileKind::Fifo, device: 0 },
            NodeKind::Socket => BirthNode::Special { kind: FileKind::Socket, device: 0 },
            NodeKind::CharacterDevice(device) => device_node(who, FileKind::CharacterDevice, device)?,
            NodeKind::BlockDevice(device) => device_node(who, FileKind::BlockDevice, device)?,
        };
        let ino = self.enter(&mut draft, &place, node, permissions)?;
        Ok(Verdict::Done(draft.done(OutcomeKind::Attributes(ino))))
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&self, mut draft: Draft<'_>, at: &At, target: &[u8]) -> Step<Decision> {
        if target.is_empty() {
            return Err(ENOENT.into());
        }
        if target.len() >= limits::PATH_BYTES {
            return Err(ENAMETOOLONG.into());
        }
        let place = self.vacancy(draft.who(), at, false)?;
        self.may_enter(draft.who(), place.parent, &place.name)?;
        let node = BirthNode::Symlink { target: Bytes::from(target) };
        let ino = self.enter(&mut draft, &place, node, 0o777)?;
        Ok(draft.done(OutcomeKind::Attributes(ino)))
    }

    /// Makes a hard link. Both paths must lead to this server.
    pub(crate) fn link(&self, mut draft: Draft<'_>, from: &At, follow: bool, to: &At) -> Step<Decision> {
        let who = draft.who();
        let ino = self.one_home(from, |at| self.node(who, at, Last::following(follow)))?;
        let place = self.one_home(to, |at| self.vacancy(who, at, false))?;
        let inode = self.files.inode(ino)?;
        if !permission::may_link(who, inode) {
            return Err(EPERM.into());
        }
        self.may_enter(who, place.parent, &place.name)?;
        let revivable = inode.regular().is_some_and(|file| file.linkable);
        match inode.kind() {
            FileKind::Directory => return Err(EPERM.into()),
            _ if inode.names == 0 && !revivable => return Err(ENOENT.into()),
            _ if inode.names >= limits::LINKS => return Err(EMLINK.into()),
            _ => self.files.await_cut(ino)?,
        }
        let (kind, at) = (inode.kind(), draft.now);
        draft.push(Change::Linked { parent: place.parent, name: place.name.into(), ino, kind, at });
        Ok(draft.done(OutcomeKind::Attributes(ino)))
    }

    /// Reads a symbolic link.
    pub(crate) fn read_link(&self, draft: Draft<'_>, at: &At) -> Step<Decision> {
        let ino = self.node(draft.who(), at, Last::Keep)?;
        match &self.files.inode(ino)?.node {
            Node::Symlink(target) => Ok(draft.reply(Reply::Link { target: target.to_vec() })),
            _ => Err(EINVAL.into()),
        }
    }

    /// Opens a node, and makes a missing one if the flags say so.
    pub(crate) fn open(
        &self,
        draft: Draft<'_>,
        at: &At,
        flags: OpenFlags,
        permissions: u16,
        layout: Option<&LayoutSpecification>,
    ) -> Step<Decision> {
        if flags.unnamed {
            return self.open_unnamed(draft, at, flags, permissions, layout);
        }
        if flags.create && flags.directory {
            return Err(EINVAL.into());
        }
        let keep = flags.no_follow || (flags.create && flags.exclusive);
        let last = match (flags.create, keep) {
            (true, _) => Last::Make { follow: !keep },
            (false, keep) => Last::following(!keep),
        };
        let ino = match self.walk(draft.who(), at, last)? {
            Walked::Node(..) if flags.create && flags.exclusive => return Err(EEXIST.into()),
            Walked::Node(ino, _) => ino,
            Walked::Name(place) => {
                if flags.create && place.slash {
                    return Err(EISDIR.into());
                }
                match place.entry {
                    Some(_) if flags.create && flags.exclusive => return Err(EEXIST.into()),
                    Some(entry) if flags.create && entry.kind == FileKind::Directory => {
                        return Err(EISDIR.into());
                    }
                    None if flags.create => return self.open_new(draft, &place, flags, permissions, layout),
                    _ => {
                        let ino = self.named(&place)?;
                        if flags.create {
                            let parent = self.files.inode(place.parent)?;
                            permission::check_made(draft.who(), parent, self.files.inode(ino)?)?;
                        }
                        ino
                    }
                }
            }
        };
        self.open_existing(draft, ino, flags)
    }

    fn open_new(
        &self,
        mut draft: Draft<'_>,
        place: &Place,
        flags: OpenFlags,
        permissions: u16,
        layout: Option<&LayoutSpecification>,
    ) -> Step<Decision> {
        let parent = self.may_enter(draft.who(), place.parent, &place.name)?;
        let ino = self.enter_regular(&mut draft, place, parent, (permissions, layout))?;
        self.files.hold_open(draft, ino, rights(flags), true)
    }

    fn open_unnamed(
        &self,
        mut draft: Draft<'_>,
        at: &At,
        flags: OpenFlags,
        permissions: u16,
        layout: Option<&LayoutSpecification>,
    ) -> Step<Decision> {
        let who = draft.who();
        let parent = self.files.inode(self.node(who, at, Last::following(!flags.no_follow))?)?;
        parent.directory().ok_or(ENOTDIR)?;
        if !flags.write {
            return Err(EINVAL.into());
        }
        if parent.names == 0 {
            return Err(ENOENT.into());
        }
        permission::check(who, parent, WRITE | EXECUTE)?;
        let ino = self.files.next_ino();
        let (node, why) = self.regular(draft.caller.job, parent, layout)?;
        let birth = birth(who, parent, node, permissions);
        self.files.admit_inode(who.uid, birth.uid, birth.gid)?;
        let (linkable, at) = (!flags.exclusive, draft.now);
        draft.push(Change::CreatedUnnamed { ino, birth, linkable, at });
        draft.push(placement(ino, &why, at));
        self.files.hold_open(draft, ino, rights(flags), true)
    }

    fn open_existing(&self, mut draft: Draft<'_>, ino: Ino, flags: OpenFlags) -> Step<Decision> {
        let inode = self.files.inode(ino)?;
        let kind = inode.kind();
        let moves_data = flags.read || flags.write || flags.truncate;
        if flags.directory && kind != FileKind::Directory {
            return Err(ENOTDIR.into());
        }
        match kind {
            FileKind::Directory if flags.write || flags.truncate || flags.create => {
                return Err(EISDIR.into());
            }
            FileKind::Symlink if moves_data || flags.create => return Err(ELOOP.into()),
            _ => {}
        }
        let mask = u8::from(flags.read) * READ + u8::from(flags.write || flags.truncate) * WRITE;
        permission::check(draft.who(), inode, mask)?;
        match kind {
            FileKind::Socket if moves_data => return Err(ENXIO.into()),
            FileKind::Fifo | FileKind::CharacterDevice | FileKind::BlockDevice if moves_data => {
                return Err(EOPNOTSUPP.into());
            }
            FileKind::Regular => self.files.await_cut(ino)?,
            _ => {}
        }
        if flags.truncate && kind == FileKind::Regular {
            self.files.decide_size(&mut draft, ino, 0)?;
        }
        self.files.hold_open(draft, ino, rights(flags), false)
    }

    /// Writes a new node under a name.
    fn enter(&self, draft: &mut Draft<'_>, place: &Place, node: BirthNode, permissions: u16) -> Step<Ino> {
        let parent = self.files.inode(place.parent)?;
        let birth = match node {
            BirthNode::Directory { .. } => self.directory_birth(draft.who(), parent, permissions),
            other => birth(draft.who(), parent, other, permissions),
        };
        self.files.admit_inode(draft.who().uid, birth.uid, birth.gid)?;
        let ino = self.files.next_ino();
        let (parent, name, at) = (place.parent, Bytes::from(place.name.as_slice()), draft.now);
        draft.push(Change::Created { parent, name, ino, birth, at });
        Ok(ino)
    }

    /// Writes a new regular file under a name, with the reasons of its placement.
    fn enter_regular(
        &self,
        draft: &mut Draft<'_>,
        place: &Place,
        parent: &Inode,
        (permissions, layout): (u16, Option<&LayoutSpecification>),
    ) -> Step<Ino> {
        let (node, why) = self.regular(draft.caller.job, parent, layout)?;
        let ino = self.enter(draft, place, node, permissions)?;
        draft.push(placement(ino, &why, draft.now));
        Ok(ino)
    }

    fn regular(
        &self,
        job: JobId,
        parent: &Inode,
        given: Option<&LayoutSpecification>,
    ) -> Step<(BirthNode, Record)> {
        let directory = parent.directory().ok_or(ENOTDIR)?;
        let avoided = self.files.places().avoided_by(job);
        // The layout in the call is a prediction, which knows of no lease.
        let given = given.filter(|given| !given.names_any(avoided));
        let specification = given.or(directory.request.layout.as_ref());
        let sequence = self.files.next_ino().sequence();
        let placed = self.files.places().placer().place_avoiding(sequence, specification, avoided);
        let Placed { layout, record } = placed.map_err(|refusal| match refusal {
            // The client asks again at once without a predicted layout that was refused.
            Refusal::Full if given.is_none() => Stop::Full,
            refusal => Stop::Failed(of_refusal(refusal)),
        })?;
        // A prediction binds nobody once its targets are full.
        let asked = specification.filter(|_| given.is_none()).cloned().map(Box::new);
        Ok((BirthNode::Regular { layout, asked }, record))
    }

    fn directory_birth(&self, who: &Identity, parent: &Inode, permissions: u16) -> Birth {
        // Spreading is for the subdirectories of one directory: each of their trees stays in one piece.
        let inherited = parent.directory().map(|directory| directory.request.clone()).unwrap_or_default();
        let node = BirthNode::Directory { request: LayoutRequest { spread: None, ..inherited } };
        birth(who, parent, node, permissions & !(SET_UID | SET_GID))
    }

    /// The other server that is to hold a new directory of this name, for which `foreseen` creations are expected.
    fn elsewhere(
        &self,
        ino: Ino,
        parent: &Inode,
        name: &[u8],
        foreseen: Option<u32>,
    ) -> Option<weir_placement::ServerId> {
        let spread = parent.directory().is_some_and(|directory| directory.request.spread == Some(true));
        if !spread && ino != Ino::ROOT {
            return None;
        }
        let server = self.homes.give_out(ino.0, name, foreseen)?;
        (server != self.files.server()).then_some(server)
    }

    /// Resolves one of the two paths of an operation that must have both of its directories here. A detour goes to the client as
    /// it is: the client then resolves both paths itself and asks again.
    pub(crate) fn one_home<T>(&self, at: &At, resolve: impl FnOnce(&At) -> Step<T>) -> Step<T> {
        if at.ino.home() != self.files.server() {
            return Err(EXDEV.into());
        }
        resolve(at)
    }
}

fn birth(who: &Identity, parent: &Inode, node: BirthNode, permissions: u16) -> Birth {
    let kind = match node {
        BirthNode::Directory { .. } => FileKind::Directory,
        _ => FileKind::Regular,
    };
    let (gid, permissions) = permission::at_birth(who, parent, kind, permissions & ALL_BITS);
    Birth { node, permissions, uid: who.uid, gid }
}

fn device_node(who: &Identity, kind: FileKind, device: u64) -> Result<BirthNode, Errno> {
    if permission::is_root(who) {
        Ok(BirthNode::Special { kind, device })
    } else {
        Err(EPERM)
    }
}

fn rights(flags: OpenFlags) -> Rights {
    Rights { read: flags.read, write: flags.write }
}
