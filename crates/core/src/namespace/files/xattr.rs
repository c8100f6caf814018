//! Extended attributes, as xattr(7) divides them.

use super::layout::{self, PLACEMENT};
use super::permission::{self, READ, STICKY, WRITE};
use super::{Files, Inode, Node};
use crate::namespace::change::{Change, OutcomeKind};
use crate::namespace::decision::{Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{
    of_refusal, E2BIG, EACCES, EEXIST, EINVAL, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ERANGE,
};
use crate::namespace::intents::Bytes;
use weir_placement::online::Record;
use weir_wire::{limits, Errno, FileKind, Identity, Ino, Reply, XattrMode};

/// The attribute with the layout of a file, or with the request of a directory for the layouts of its files.
const LAYOUT: &[u8] = b"weir.layout";
/// The attribute of every inode with the reader's own quotas.
const QUOTA: &[u8] = b"weir.quota";
/// The most bytes of all names and values of one inode: four values of the largest size. The limit bounds memory and journal.
const INODE_BYTES: u64 = 4 * limits::XATTR_VALUE_BYTES as u64;
/// The most bytes of all names of one inode with their zero bytes (XATTR_LIST_MAX of Linux).
const LIST_BYTES: u64 = 64 * 1024;

/// The class of an attribute, which decides over access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `user.*`: the permissions of the file.
    User,
    /// `trusted.*`: root.
    Trusted,
    /// `security.*`: read by all, written by root.
    Security,
    /// [`LAYOUT`].
    Layout,
    /// [`PLACEMENT`].
    Placement,
    /// [`QUOTA`].
    Quota,
    /// Any other name: the namespace has no such attribute.
    Unknown,
}

impl Files {
    pub(crate) fn xattr_get(&self, draft: Draft<'_>, ino: Ino, name: &[u8]) -> Step<Decision> {
        let inode = self.inode(ino)?;
        let class = classify(name)?;
        check_access(draft.who(), inode, class, READ)?;
        check_name(class, name)?;
        let value = match class {
            Class::Layout => self.layout_text(inode)?,
            Class::Placement => placement_text(inode)?,
            Class::Quota => self.quotas.text(self.inodes.usage(), draft.who()),
            _ => inode.xattrs.as_ref().and_then(|xattrs| xattrs.get(name)).ok_or(ENODATA)?.clone(),
        };
        Ok(draft.reply_with(Reply::Value, value))
    }

    pub(crate) fn xattr_set(
        &self,
        mut draft: Draft<'_>,
        ino: Ino,
        (name, mode, value): (&[u8], XattrMode, &[u8]),
    ) -> Step<Decision> {
        let inode = self.inode(ino)?;
        let class = classify(name)?;
        if value.len() > limits::XATTR_VALUE_BYTES {
            return Err(E2BIG.into());
        }
        check_access(draft.who(), inode, class, WRITE)?;
        check_name(class, name)?;
        if class == Class::Layout {
            return self.set_layout(draft, ino, value);
        }
        let existing = inode.xattrs.as_ref().and_then(|xattrs| xattrs.get(name));
        match (mode, existing) {
            (XattrMode::Create, Some(_)) => return Err(EEXIST.into()),
            (XattrMode::Replace, None) => return Err(ENODATA.into()),
            _ => check_room(inode, name, value)?,
        }
        let (name, value, at) = (Bytes::from(name), Some(Bytes::from(value)), draft.now);
        draft.push(Change::XattrSet { ino, name, value, at });
        Ok(draft.done(OutcomeKind::Done))
    }

    pub(crate) fn xattr_list(&self, draft: Draft<'_>, ino: Ino) -> Step<Decision> {
        let inode = self.inode(ino)?;
        let mut names = Vec::new();
        for name in inode.xattrs.iter().flat_map(|xattrs| xattrs.names()) {
            let hidden = classify(name) == Ok(Class::Trusted) && !permission::is_root(draft.who());
            if !hidden {
                names.extend_from_slice(name);
                names.push(0);
            }
        }
        Ok(draft.reply_with(Reply::Value, names))
    }

    pub(crate) fn xattr_remove(&self, mut draft: Draft<'_>, ino: Ino, name: &[u8]) -> Step<Decision> {
        let inode = self.inode(ino)?;
        let class = classify(name)?;
        check_access(draft.who(), inode, class, WRITE)?;
        check_name(class, name)?;
        let at = draft.now;
        if class == Class::Layout {
            let directory = inode.directory().ok_or(EOPNOTSUPP)?;
            check_layout_owner(draft.who(), inode)?;
            if directory.request != Default::default() {
                draft.push(Change::LayoutRequested { ino, request: Default::default(), at });
            }
            return Ok(draft.done(OutcomeKind::Done));
        }
        inode.xattrs.as_ref().and_then(|xattrs| xattrs.get(name)).ok_or(ENODATA)?;
        draft.push(Change::XattrSet { ino, name: Bytes::from(name), value: None, at });
        Ok(draft.done(OutcomeKind::Done))
    }

    fn set_layout(&self, mut draft: Draft<'_>, ino: Ino, value: &[u8]) -> Step<Decision> {
        let inode = self.inode(ino)?;
        check_layout_owner(draft.who(), inode)?;
        if inode.kind() == FileKind::Regular {
            return self.lay_out(draft, ino, value);
        }
        let directory = inode.directory().ok_or(EOPNOTSUPP)?;
        let asked = layout::parse(value)?;
        if let Some(layout) = &asked.layout {
            self.places.placer().check(layout).map_err(of_refusal)?;
        }
        let request = asked.or(&directory.request);
        draft.push(Change::LayoutRequested { ino, request, at: draft.now });
        Ok(draft.done(OutcomeKind::Done))
    }

    fn layout_text(&self, inode: &Inode) -> Result<Vec<u8>, Errno> {
        match &inode.node {
            Node::Regular(file) => Ok(file.layout.to_string().into_bytes()),
            Node::Directory(directory) => {
                Ok(layout::directory_text(&directory.request, self.places.defaults()).into_bytes())
            }
            Node::Symlink(_) | Node::Special { .. } => Err(ENODATA),
        }
    }
}

fn placement_text(inode: &Inode) -> Result<Vec<u8>, Errno> {
    let file = inode.regular().ok_or(ENODATA)?;
    let record = Record::decode(&file.placement).ok_or(ENODATA)?;
    Ok(record.told().into_bytes())
}

/// The classes by prefix.
const CLASSES: [(&[u8], Class); 3] =
    [(b"user.", Class::User), (b"trusted.", Class::Trusted), (b"security.", Class::Security)];

fn classify(name: &[u8]) -> Result<Class, Errno> {
    if name.is_empty() || name.len() > limits::XATTR_NAME_BYTES {
        return Err(ERANGE);
    }
    if name.contains(&0) {
        return Err(EINVAL);
    }
    match name {
        LAYOUT => return Ok(Class::Layout),
        PLACEMENT => return Ok(Class::Placement),
        QUOTA => return Ok(Class::Quota),
        _ => {}
    }
    let found = CLASSES.into_iter().find(|(prefix, _)| name.starts_with(prefix));
    Ok(found.map_or(Class::Unknown, |(_, class)| class))
}

/// Checks the name, once the caller may access the file.
fn check_name(class: Class, name: &[u8]) -> Result<(), Errno> {
    if class == Class::Unknown {
        return Err(EOPNOTSUPP);
    }
    if CLASSES.iter().any(|(prefix, _)| *prefix == name) {
        return Err(EINVAL);
    }
    Ok(())
}

/// The rules of `xattr_permission` in Linux.
fn check_access(who: &Identity, inode: &Inode, class: Class, access: u8) -> Result<(), Errno> {
    let refusal = if access == WRITE { EPERM } else { ENODATA };
    match class {
        Class::Trusted if !permission::is_root(who) => Err(refusal),
        Class::Security if access == WRITE && !permission::is_root(who) => Err(EPERM),
        Class::Trusted | Class::Security => Ok(()),
        Class::User => {
            if !matches!(inode.kind(), FileKind::Regular | FileKind::Directory) {
                return Err(refusal);
            }
            let sticky = inode.kind() == FileKind::Directory && inode.permissions & STICKY != 0;
            if sticky && access == WRITE && !permission::owns(who, inode) {
                return Err(EPERM);
            }
            permission::check(who, inode, access)
        }
        Class::Unknown => permission::check(who, inode, access),
        // Everyone who sees a file may see its layout. A change of the layout asks for the owner later.
        Class::Layout => Ok(()),
        Class::Placement | Class::Quota if access == WRITE => Err(EPERM),
        Class::Placement | Class::Quota => Ok(()),
    }
}

fn check_layout_owner(who: &Identity, inode: &Inode) -> Result<(), Errno> {
    if permission::owns(who, inode) {
        Ok(())
    } else {
        Err(EACCES)
    }
}

fn check_room(inode: &Inode, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    let xattrs = inode.xattrs.as_deref();
    let (count, names, values) =
        xattrs.map_or((0, 0, 0), |all| (all.len() as u64, all.names_bytes(), all.values_bytes()));
    let before = xattrs.and_then(|all| all.get(name)).map(Vec::len);
    let added = if before.is_none() { name.len() as u64 + 1 } else { 0 };
    let names = names + count + added;
    let values = values - before.unwrap_or(0) as u64 + value.len() as u64;
    if names > LIST_BYTES || names + values > INODE_BYTES {
        return Err(ENOSPC);
    }
    Ok(())
}
