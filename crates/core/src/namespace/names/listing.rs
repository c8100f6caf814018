//! Listings of directories.

use super::Names;
use crate::namespace::decision::{Decision, Step};
use crate::namespace::draft::Draft;
use crate::namespace::errno::{EBADF, EINVAL, ENOENT, ENOTDIR};
use crate::namespace::files::permission::{self, READ};
use crate::namespace::files::{COOKIE_DOT, COOKIE_DOT_DOT};
use weir_wire::{encode_body, limits, At, Attributes, DirectoryEntry, FileKind, HandleId, Ino, Reply};

/// The most bytes of the count before the entries in postcard's encoding: enough for the entries of a full payload.
const COUNT_BYTES_MAX: usize = 4;

impl Names {
    /// The entries of a directory after a cookie, as many as fit.
    pub(crate) fn list(
        &self,
        draft: Draft<'_>,
        ino: Ino,
        handle: HandleId,
        (cookie, bytes, attributes): (u64, u32, bool),
    ) -> Step<Decision> {
        let inode = self.files.inode(ino)?;
        let directory = inode.directory().ok_or(ENOTDIR)?;
        match self.files.open().held(draft.caller.client, ino, handle) {
            Some(description) if description.rights.read => {}
            Some(_) => return Err(EBADF.into()),
            // The description ended with an earlier start of the server: its rights are checked anew.
            None => {
                self.may_name(draft.caller, &At::inode(ino), draft.now)?;
                permission::check(draft.who(), inode, READ)?;
            }
        }
        if inode.names == 0 {
            return Err(ENOENT.into());
        }
        let room = (bytes as usize).min(limits::PAYLOAD_BYTES).saturating_sub(COUNT_BYTES_MAX);
        let dots = [(COOKIE_DOT, b".".as_slice(), ino), (COOKIE_DOT_DOT, b"..", directory.parent)];
        let dots = dots.into_iter().map(|(cookie, name, ino)| (name, cookie, ino, FileKind::Directory));
        let named =
            directory.listed_from(cookie).map(|(name, entry)| (name, entry.cookie, entry.ino, entry.kind));
        let entries =
            dots.filter(|&(_, at, ..)| at > cookie).chain(named).map(|(name, cookie, ino, kind)| {
                let attributes = if attributes { self.listed_attributes(ino) } else { None };
                DirectoryEntry { name: name.to_vec(), ino, kind, cookie, attributes }
            });
        let (payload, end) = encoded(entries, room).ok_or(EINVAL)?;
        Ok(draft.reply_with(Reply::Listing { end }, payload))
    }

    /// The attributes of an inode for a listing; none if they are on another server or about to change.
    fn listed_attributes(&self, ino: Ino) -> Option<Attributes> {
        let attributes = self.files.attributes(ino).ok();
        attributes.filter(|_| self.files.cut_of(ino).is_none())
    }
}

/// The entries that fit into `room` bytes as one postcard sequence, and whether these were all. `None` if not even the first
/// entry fits.
fn encoded(entries: impl Iterator<Item = DirectoryEntry>, room: usize) -> Option<(Vec<u8>, bool)> {
    let mut body = Vec::with_capacity(room.min(limits::INLINE_PAYLOAD_BYTES));
    let mut count = 0u32;
    let mut end = true;
    for entry in entries {
        let length = body.len();
        encode_body(&entry, &mut body);
        if body.len() > room {
            body.truncate(length);
            end = false;
            break;
        }
        count += 1;
    }
    if count == 0 && !end {
        return None;
    }
    let mut payload = Vec::with_capacity(body.len() + COUNT_BYTES_MAX);
    // A postcard sequence begins with its length as a variable-length integer, like any other integer.
    encode_body(&count, &mut payload);
    payload.append(&mut body);
    Some((payload, end))
}
