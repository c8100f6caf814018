//! The state of a description in a placeholder's page, as bytes.

use weir_client::wire::{decode_body, encode_body, Capability, HandleId, Ino};
use weir_client::{HandleState, HANDLE_STATE_BYTES};

/// Largest encoded state: a handle's state and a path of 4,096 bytes fit.
pub(crate) const STATE_BYTES: usize = HANDLE_STATE_BYTES + 4096 + 64;

/// The part of a description that never changes.
#[derive(Clone)]
pub(crate) struct State {
    /// The inode.
    pub(crate) ino: Ino,
    /// The path below the prefix under which the node was opened, for `getcwd` and paths that climb out.
    pub(crate) path: Vec<u8>,
    /// The kind of the open node.
    pub(crate) kind: Kind,
}

/// The kind of an open node.
#[derive(Clone)]
pub(crate) enum Kind {
    /// A regular file.
    Regular(Box<HandleState>),
    /// A directory.
    Directory(HandleId, Capability),
    /// A place in the tree alone (`O_PATH`).
    Path,
}

const REGULAR: u8 = 0;
const DIRECTORY: u8 = 1;
const PATH: u8 = 2;

impl State {
    /// The state as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        encode_body(&(self.ino, &self.path), &mut bytes);
        let head = bytes.len() as u16;
        let mut whole = head.to_le_bytes().to_vec();
        whole.append(&mut bytes);
        match &self.kind {
            Kind::Regular(handle) => {
                whole.push(REGULAR);
                whole.append(&mut handle.encode().unwrap_or_default());
            }
            Kind::Directory(handle, capability) => {
                whole.push(DIRECTORY);
                encode_body(&(handle, capability), &mut bytes);
                whole.append(&mut bytes);
            }
            Kind::Path => whole.push(PATH),
        }
        whole
    }

    /// Decodes a state. `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<State> {
        let head = usize::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?));
        let (ino, path) = decode_body(bytes.get(2..2 + head)?, "description").ok()?;
        let rest = bytes.get(2 + head..)?;
        let (tag, body) = rest.split_first()?;
        let kind = match *tag {
            REGULAR => Kind::Regular(Box::new(HandleState::decode(body).ok()?)),
            DIRECTORY => {
                let (handle, capability) = decode_body(body, "directory").ok()?;
                Kind::Directory(handle, capability)
            }
            PATH => Kind::Path,
            _ => return None,
        };
        Some(State { ino, path, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_encoding() {
        let state = State { ino: Ino(7), path: b"a/b".to_vec(), kind: Kind::Path };
        let decoded = State::decode(&state.encode()).expect("own encoding");
        assert_eq!((decoded.ino, decoded.path.as_slice()), (Ino(7), b"a/b".as_slice()));
        assert!(matches!(decoded.kind, Kind::Path));
    }

    #[test]
    fn cut_or_foreign_bytes_are_refused() {
        let whole = State { ino: Ino(7), path: b"a/b".to_vec(), kind: Kind::Path }.encode();
        for length in 0..whole.len() {
            assert!(State::decode(&whole[..length]).is_none());
        }
        assert!(State::decode(&[0xff; 64]).is_none());
    }
}
