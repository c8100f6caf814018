//! The state of an open file for another process: the answer of the mount's `WEIR_IOC_HANDLE`.

use crate::{ClientError, Result};
use serde::{Deserialize, Serialize};
use weir_placement::Layout;
use weir_wire::{Capability, HandleId, Ino};

/// Largest encoded [`HandleState`]: an ioctl moves 4,096 bytes, two of which carry the length.
pub const HANDLE_STATE_BYTES: usize = 4094;

/// An open regular file, as one process hands it to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleState {
    /// The file.
    pub ino: Ino,
    /// The open description at the home server. The description belongs to the process that opened it.
    pub handle: HandleId,
    /// The right to the file's bytes.
    pub capability: Capability,
    /// The layout of the bytes.
    pub layout: Layout,
    /// The epoch since which the layout holds.
    pub layout_epoch: u64,
    /// Whether the description was opened with `O_APPEND`.
    pub append: bool,
    /// The size in bytes when the state was made.
    pub size_bytes: u64,
    /// The epoch of that size.
    pub epoch: u64,
}

impl HandleState {
    /// Encodes the state.
    ///
    /// # Errors
    /// `EOVERFLOW` for a state above [`HANDLE_STATE_BYTES`]. A layout within the protocol's limits is never so long.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256);
        weir_wire::encode_body(self, &mut bytes);
        if bytes.len() > HANDLE_STATE_BYTES {
            return Err(ClientError::number(libc::EOVERFLOW));
        }
        Ok(bytes)
    }

    /// Decodes a state. Bytes behind the state are refused.
    ///
    /// # Errors
    /// `EPROTO` for bytes that are not a state.
    pub fn decode(bytes: &[u8]) -> Result<HandleState> {
        let state = weir_wire::decode_body::<HandleState>(bytes, "handle state");
        let state = state.map_err(|_| ClientError::number(libc::EPROTO))?;
        if state.layout.stripes() > weir_wire::limits::STRIPES {
            return Err(ClientError::number(libc::EPROTO));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_placement::{Component, ServerId, TargetId, END_OF_FILE};
    use weir_wire::{limits, Description, Rights, SiteKey};

    /// A state with the longest numbers, and with the most components and stripes.
    fn longest() -> HandleState {
        let target = |index| TargetId { server: ServerId(u16::MAX), index: u16::MAX - index as u16 };
        let components = (0..limits::COMPONENTS).map(|number| Component {
            end: END_OF_FILE - (limits::COMPONENTS - 1 - number) as u64,
            stripe_bytes: limits::STRIPE_BYTES_MAX,
            targets: (0..limits::STRIPES / limits::COMPONENTS).map(target).collect(),
        });
        HandleState {
            ino: Ino(u64::MAX),
            handle: HandleId(u64::MAX),
            capability: SiteKey::new([1; 32]).capability(
                Description { ino: Ino(u64::MAX), handle: HandleId(u64::MAX), uid: u32::MAX },
                Rights { read: true, write: true },
                u64::MAX,
            ),
            layout: Layout::new(components.collect()).expect("well formed"),
            layout_epoch: u64::MAX,
            append: true,
            size_bytes: u64::MAX,
            epoch: u64::MAX,
        }
    }

    #[test]
    fn the_longest_state_fits_the_ioctl() {
        let longest = longest();
        let bytes = longest.encode().expect("the limits of the protocol keep it short");
        assert_eq!(HandleState::decode(&bytes).expect("own encoding"), longest);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HandleState::decode(&bytes);
        }
    }
}
