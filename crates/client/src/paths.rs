//! Walks over paths, from home to home.

use crate::exchange::{call, Call, Message};
use crate::place::{Anchors, Final};
use crate::pool::Lane;
use crate::session::Environment;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Place, Result};
use std::io::IoSlice;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use weir_session::{trim_start, Way};
use weir_wire::{At, Attributes, Reply, Request};

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
        let root = self.root.map(|root| root.as_os_str().as_bytes());
        let mut way = Way::new(root, place, self.anchors.start(place, last)?);
        loop {
            let message = request(way.at().clone());
            let lane = Lane::of_payload(load.payload.iter().map(|slice| slice.len()).sum());
            let sink = match &mut load.received {
                Some(vector) => Sink::Vector(vector),
                None => Sink::None,
            };
            let call_at = Call {
                server: way.at().ino.home(),
                lane,
                message: Message::Plain(&message),
                payload: load.payload,
                sink,
            };
            let reply = call(self.environment, self.caller, call_at)?.0;
            let arrived = way.take(reply, |name, ino| match ino {
                Some(ino) => self.anchors.learn(name, ino),
                None => self.anchors.forget(name),
            })?;
            if let Some(reply) = arrived {
                return Ok((reply, way.into_at()));
            }
        }
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
}
