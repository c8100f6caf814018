//! What another process needs to use an open file: the answer of the mount's `WEIR_IOC_HANDLE`.

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
    /// The open description at the home server; it belongs to whoever opened it.
    pub handle: HandleId,
    /// Right to the file's bytes.
    pub capability: Capability,
    /// Where the bytes are.
    pub layout: Layout,
    /// Whether the description was opened with `O_APPEND`.
    pub append: bool,
    /// Size in bytes when the state was made.
    pub size_bytes: u64,
    /// Epoch of that size.
    pub epoch: u64,
}

impl HandleState {
    /// Encodes the state.
    ///
    /// # Errors
    /// `EOVERFLOW` when it is longer than [`HANDLE_STATE_BYTES`], which a layout within the protocol's limits is not.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256);
        weir_wire::encode_body(self, &mut bytes);
        if bytes.len() > HANDLE_STATE_BYTES {
            return Err(ClientError::number(libc::EOVERFLOW));
        }
        Ok(bytes)
    }

    /// Decodes a state; bytes left over are refused.
    ///
    /// # Errors
    /// `EPROTO` for bytes that are not a state.
    pub fn decode(bytes: &[u8]) -> Result<HandleState> {
        let state: HandleState =
            weir_wire::decode_body(bytes, "handle state").map_err(|_| ClientError::number(libc::EPROTO))?;
        if state.layout.targets.is_empty()
            || state.layout.targets.len() > weir_wire::limits::STRIPES
            || state.layout.stripe_bytes == 0
        {
            return Err(ClientError::number(libc::EPROTO));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_placement::{ServerId, TargetId};
    use weir_wire::{Rights, SiteKey};

    fn state(targets: usize) -> HandleState {
        let target = |index| TargetId { server: ServerId(u16::MAX), index: u16::MAX - index as u16 };
        HandleState {
            ino: Ino(u64::MAX),
            handle: HandleId(u64::MAX),
            capability: SiteKey::new([1; 32]).capability(Ino(u64::MAX), Rights { read: true, write: true }),
            layout: Layout { stripe_bytes: u32::MAX, targets: (0..targets).map(target).collect() },
            append: true,
            size_bytes: u64::MAX,
            epoch: u64::MAX,
        }
    }

    #[test]
    fn the_longest_state_fits_the_ioctl() {
        let longest = state(weir_wire::limits::STRIPES);
        let bytes = longest.encode().expect("the limits of the protocol keep it short");
        assert_eq!(HandleState::decode(&bytes).expect("own encoding"), longest);
    }

    #[test]
    fn a_state_without_targets_is_refused() {
        assert!(HandleState::decode(&state(0).encode().expect("short")).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HandleState::decode(&bytes);
        }
    }
}
