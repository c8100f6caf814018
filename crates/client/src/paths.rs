//! Walks over paths: redirects between homes, and absolute links.

use crate::exchange::{call, Call, Message};
use crate::place::{trim_start, Anchors, Final};
use crate::pool::Lane;
use crate::session::Environment;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Place, Result};
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use weir_wire::{limits, At, Attributes, Ino, Reply, Request};

/// Homes that one path may cross: twice the links that it may follow. A longer way goes round in circles.
const CROSSINGS: u32 = 2 * limits::SYMLINK_HOPS as u32;
/// Times that the home of a directory may call a name of the root stale: once for a name that this client kept, and again
/// for each rename during the walk. A home that lost its names knows none of those that the root has.
const STALES: u32 = 4;
/// A walk over a path.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) environment: Environment<'a>,
    pub(crate) anchors: &'a Anchors,
    pub(crate) root: Option<&'a Path>,
    pub(crate) caller: &'a Caller,
}

/// The payload of a request, and the place for the payload of its reply.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) payload: &'a [IoSlice<'a>],
    pub(crate) received: Option<&'a mut Vec<u8>>,
}

impl Load<'_> {
    /// No payload either way.
    pub(crate) const fn none() -> Load<'static> {
        Load { payload: &[], received: None }
    }
}

impl Walk<'_> {
    /// Asks the home of `place`, and each further home to which the path leads. `request` makes the request for each home.
    pub(crate) fn ask(
        &self,
        place: Place<'_>,
        last: Final,
        load: Load<'_>,
        request: impl Fn(At) -> Request,
    ) -> Result<Reply> {
        self.ask_where(place, last, load, request).map(|(reply, _)| reply)
    }

    /// Does the work of [`Walk::ask`], and answers also the place under which the last home answered. All of that place's path
    /// lies at this home.
    fn ask_where(
        &self,
        place: Place<'_>,
        last: Final,
        mut load: Load<'_>,
        request: impl Fn(At) -> Request,
    ) -> Result<(Reply, At)> {
        let mut at = self.anchors.start(place, last)?;
        let mut stales = 0;
        for _ in 0..CROSSINGS {
            let message = request(at.clone());
            let lane = Lane::of_payload(load.payload.iter().map(|slice| slice.len()).sum());
            let sink = match &mut load.received {
                Some(vector) => Sink::Vector(vector),
                None => Sink::None,
            };
            let call_at = Call {
                server: at.ino.home(),
                lane,
                message: Message::Plain(&message),
                payload: load.payload,
                sink,
            };
            match call(self.environment, self.caller, call_at)?.0 {
                Reply::Redirect { at: next } => {
                    if let Some(name) = &next.anchor {
                        self.anchors.learn(name, next.ino);
                    }
                    at = self.stay_inside(next)?;
                }
                Reply::Escape { path, hops } => at = self.enter_again(path, hops)?,
                Reply::Stale => {
                    stales += 1;
                    match &at.anchor {
                        Some(name) if stales <= STALES => self.anchors.forget(name),
                        _ => return Err(ClientError::number(libc::ESTALE)),
                    }
                    at = At::new(place.ino, trim_start(place.path));
                }
                reply => return Ok((reply, at)),
            }
        }
        Err(ClientError::number(libc::ELOOP))
    }

    /// The place where the home of the parent directory of `place` finds the last name of `place`, with the slashes behind
    /// the name. The caller may search the parent directory.
    pub(crate) fn entry(&self, place: Place<'_>) -> Result<At> {
        let (parent, name) = split_last(trim_start(place.path));
        if parent.is_empty() {
            return Ok(At::new(place.ino, name));
        }
        let searched = [parent, b"/."].concat();
        let (parent, mut at) = self.found(Place { ino: place.ino, path: &searched }, true)?;
        if parent.ino.home() != at.ino.home() {
            return Ok(At::new(parent.ino, name));
        }
        if !at.path.is_empty() {
            at.path.push(b'/');
        }
        at.path.extend_from_slice(name);
        Ok(at)
    }

    /// The attributes of a node.
    pub(crate) fn attributes(&self, place: Place<'_>, follow: bool) -> Result<Attributes> {
        self.found(place, follow).map(|(attributes, _)| attributes)
    }

    /// The attributes of a node, and the place where its home finds the node.
    pub(crate) fn found(&self, place: Place<'_>, follow: bool) -> Result<(Attributes, At)> {
        let request = |at| Request::Attributes { at, follow };
        match self.ask_where(place, Final::Node, Load::none(), request)? {
            (Reply::Attributes(attributes), at) => Ok((attributes, at)),
            _ => Err(self.unexpected(place, "Attributes")),
        }
    }

    /// The error of a reply that does not answer the request.
    pub(crate) fn unexpected(&self, place: Place<'_>, request: &'static str) -> ClientError {
        ClientError::UnexpectedReply { server: place.ino.home(), request }
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
                let parent = root.parent().unwrap_or(root).as_os_str().as_bytes();
                let parent = parent.strip_suffix(b"/").unwrap_or(parent);
                let path = [parent, b"/", trim_start(rest)].concat();
                Err(ClientError::Outside { path, hops: at.hops })
            }
            None => Ok(At { path: trim_start(rest).to_vec(), ..at }),
        }
    }

    /// Follows an absolute link: below the root again, or out of the store.
    fn enter_again(&self, path: Vec<u8>, hops: u8) -> Result<At> {
        match self.root.and_then(|root| below(root.as_os_str().as_bytes(), &path)) {
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

/// The path before the last component, and the last component with its trailing slashes.
fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    (&path[..start], &path[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_kernel_does() {
        assert_eq!(split_last(b"a/b/c//"), (&b"a/b/"[..], &b"c//"[..]));
        assert_eq!(split_last(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!(split_last(b""), (&b""[..], &b""[..]));
    }

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
