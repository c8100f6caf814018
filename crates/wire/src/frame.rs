//! Frames: a fixed header, a postcard body, an opaque payload.

use crate::{limits, IdentityId, RequestId, WireError};
use serde::{de::DeserializeOwned, Serialize};

/// Version of the protocol; both sides must speak the same one.
pub const VERSION: u8 = 14;
/// Length of an encoded [`Header`].
pub const HEADER_BYTES: usize = 32;
/// "WR", little-endian.
const MAGIC: u16 = u16::from_le_bytes(*b"WR");

/// The kind of a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A [`crate::Request`].
    Request,
    /// A [`crate::Reply`].
    Reply,
    /// Plain UTF-8: why the connection is being closed. Readable by every version.
    Refusal,
}

/// The fixed part of a frame.
///
/// Encoded little-endian as magic u16, version u8, kind u8, body bytes u32, payload bytes u32, identity u32,
/// request id u64, acknowledged u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the body.
    pub kind: Kind,
    /// Length of the body, at most [`limits::BODY_BYTES`].
    pub body_bytes: u32,
    /// Length of the payload, at most [`limits::PAYLOAD_BYTES`].
    pub payload_bytes: u32,
    /// The identity for which the request acts; 0 is the connection's own identity.
    pub identity: IdentityId,
    /// The request, or the request that is answered.
    pub request: RequestId,
    /// Requests below this id will never be sent again, so their recorded replies may be forgotten.
    pub acknowledged: RequestId,
}

impl Header {
    /// The encoded header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2] = VERSION;
        bytes[3] = match self.kind {
            Kind::Request => 1,
            Kind::Reply => 2,
            Kind::Refusal => 3,
        };
        bytes[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.identity.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.request.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.acknowledged.0.to_le_bytes());
        bytes
    }

    /// Reads a header and checks every length against its limit.
    ///
    /// # Errors
    /// [`WireError`] for bytes that are not a header of this version. A refusal is read in any version.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | (u64::from(word(at + 4)) << 32);
        let magic = u16::from_le_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(WireError::Magic(magic));
        }
        let kind = match bytes[3] {
            1 => Kind::Request,
            2 => Kind::Reply,
            3 => Kind::Refusal,
            _ if bytes[2] != VERSION => return Err(WireError::Version { theirs: bytes[2], ours: VERSION }),
            other => return Err(WireError::Kind(other)),
        };
        if bytes[2] != VERSION && kind != Kind::Refusal {
            return Err(WireError::Version { theirs: bytes[2], ours: VERSION });
        }
        let header = Header {
            kind,
            body_bytes: word(4),
            payload_bytes: word(8),
            identity: IdentityId(word(12)),
            request: RequestId(long(16)),
            acknowledged: RequestId(long(24)),
        };
        within("a body", header.body_bytes, limits::BODY_BYTES)?;
        within("a payload", header.payload_bytes, limits::PAYLOAD_BYTES)?;
        Ok(header)
    }
}

fn within(what: &'static str, bytes: u32, limit: usize) -> Result<(), WireError> {
    if bytes as usize > limit {
        return Err(WireError::TooLong { what, bytes: u64::from(bytes), limit: limit as u64 });
    }
    Ok(())
}

/// Appends the encoded `message` to `buffer` and returns its length in bytes.
pub fn encode_body<T: Serialize>(message: &T, buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    let appended = postcard::to_io(message, &mut *buffer).map(|_| ());
    debug_assert!(appended.is_ok(), "messages hold only types that postcard encodes");
    buffer.len() - start
}

/// Decodes a body that must fill `bytes` exactly; `what` names it in the error.
///
/// # Errors
/// [`WireError::Malformed`] when it does not decode or bytes are left over.
pub fn decode_body<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(WireError::Malformed(what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{At, Reply, Request};
    use proptest::prelude::*;

    fn any_kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Request), Just(Kind::Reply), Just(Kind::Refusal)]
    }

    proptest! {
        #[test]
        fn a_header_survives_the_wire(
            kind in any_kind(), body in 0..=limits::BODY_BYTES as u32, payload in 0..=limits::PAYLOAD_BYTES as u32,
            identity: u32, request: u64, acknowledged: u64,
        ) {
            let header = Header {
                kind, body_bytes: body, payload_bytes: payload, identity: IdentityId(identity),
                request: RequestId(request), acknowledged: RequestId(acknowledged),
            };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn any_header_bytes_decode_or_are_refused(bytes: [u8; HEADER_BYTES]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert!(header.body_bytes as usize <= limits::BODY_BYTES);
                prop_assert!(header.payload_bytes as usize <= limits::PAYLOAD_BYTES);
            }
        }

        #[test]
        fn any_body_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode_body::<Request>(&bytes, "request");
            let _ = decode_body::<Reply>(&bytes, "reply");
        }

        #[test]
        fn a_damaged_request_decodes_or_is_refused(path in proptest::collection::vec(any::<u8>(), 0..64), at in 0usize..80, bit in 0u8..8) {
            let request = Request::Unlink { at: At::new(crate::Ino::ROOT, path), directory: false };
            let mut bytes = Vec::new();
            encode_body(&request, &mut bytes);
            let decoded = decode_body::<Request>(&bytes, "request");
            prop_assert_eq!(decoded, Ok(request));
            let position = at % bytes.len();
            bytes[position] ^= 1 << bit;
            let _ = decode_body::<Request>(&bytes, "request");
        }
    }

    #[test]
    fn another_version_is_named() {
        let header = Header {
            kind: Kind::Request,
            body_bytes: 0,
            payload_bytes: 0,
            identity: IdentityId(0),
            request: RequestId(1),
            acknowledged: RequestId(0),
        };
        let mut bytes = header.encode();
        bytes[2] = VERSION + 1;
        assert_eq!(Header::decode(&bytes), Err(WireError::Version { theirs: VERSION + 1, ours: VERSION }));
    }

    #[test]
    fn bytes_left_over_are_malformed() {
        let mut bytes = Vec::new();
        encode_body(&Request::Ping, &mut bytes);
        bytes.push(0);
        assert_eq!(decode_body::<Request>(&bytes, "request"), Err(WireError::Malformed("request")));
    }
}
