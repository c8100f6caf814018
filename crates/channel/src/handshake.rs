//! The handshake: one flight of the client, one answer of the server.
//!
//! The flight is [`MAGIC`], the server's number (2 bytes), the length of the claims (2 bytes), the claims, and the first message of
//! Noise. Everything before the message is the handshake's prologue. The answer is [`MAGIC`] and the second message.

use crate::limits::CLAIMS_BYTES;
use crate::{ChannelError, Seal};
use std::fmt;
use weir_placement::ServerId;
use weir_wire::{decode_body, encode_body, ChannelKey, Claims, Credential, SiteKey};

/// The first bytes of both sides: neither a frame of the protocol nor HTTP begins so. The last byte is the version.
pub const MAGIC: [u8; 6] = *b"WeirS\x02";
/// Bytes of an ephemeral public key and a tag: a message of Noise without content.
const MESSAGE_BYTES: usize = 48;
/// Bytes of the server's answer.
pub const ANSWER_BYTES: usize = MAGIC.len() + MESSAGE_BYTES;
/// Bytes before the claims.
const HEAD_BYTES: usize = MAGIC.len() + 4;
/// Neither side has a static key: the credential is the key of both. AES-256-GCM and SHA-256 are those of the processor.
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// The client's side of a handshake.
pub struct Initiator {
    state: snow::HandshakeState,
}

/// The server's side of a handshake that the client has begun: the claims are the client's once a first record opens.
#[derive(Debug)]
pub struct Responder {
    /// The claims that the key was derived from.
    pub claims: Claims,
    /// The bytes to send.
    pub answer: Vec<u8>,
    /// The ciphers of the connection.
    pub seal: Seal,
}

impl Initiator {
    /// Begins a handshake with `server`. Answers the flight to send beside the handshake.
    ///
    /// # Errors
    /// [`ChannelError::Randomness`]; [`ChannelError::Claims`] for claims that no server takes.
    pub fn begin(server: ServerId, credential: &Credential) -> Result<(Initiator, Vec<u8>), ChannelError> {
        let mut claims = Vec::new();
        encode_body(&credential.claims, &mut claims);
        if claims.len() > CLAIMS_BYTES {
            return Err(ChannelError::Claims);
        }
        let mut flight = MAGIC.to_vec();
        flight.extend_from_slice(&server.0.to_le_bytes());
        flight.extend_from_slice(&(claims.len() as u16).to_le_bytes());
        flight.append(&mut claims);
        let mut state = builder(&credential.channel_key(), &flight)?
            .build_initiator()
            .map_err(|_| ChannelError::Randomness)?;
        let mut message = [0; MESSAGE_BYTES];
        state.write_message(&[], &mut message).map_err(|_| ChannelError::Randomness)?;
        flight.extend_from_slice(&message);
        Ok((Initiator { state }, flight))
    }

    /// Ends the handshake by the server's answer, which proves that the server knows the key and is the one that was meant.
    ///
    /// # Errors
    /// [`ChannelError::Foreign`] for other bytes; [`ChannelError::Unproved`].
    pub fn finish(mut self, answer: &[u8; ANSWER_BYTES]) -> Result<Seal, ChannelError> {
        let message = answer.strip_prefix(&MAGIC).ok_or(ChannelError::Foreign)?;
        self.state.read_message(message, &mut []).map_err(|_| ChannelError::Unproved)?;
        Seal::new(self.state)
    }
}

impl Responder {
    /// The length of the flight that `received` begins; none while too little of it is there.
    ///
    /// # Errors
    /// [`ChannelError::Foreign`] as soon as a byte is wrong; [`ChannelError::Claims`].
    pub fn flight_bytes(received: &[u8]) -> Result<Option<usize>, ChannelError> {
        let known = received.len().min(MAGIC.len());
        if received[..known] != MAGIC[..known] {
            return Err(ChannelError::Foreign);
        }
        let Some(head) = received.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let claims_bytes = usize::from(u16::from_le_bytes([head[HEAD_BYTES - 2], head[HEAD_BYTES - 1]]));
        if claims_bytes > CLAIMS_BYTES {
            return Err(ChannelError::Claims);
        }
        Ok(Some(HEAD_BYTES + claims_bytes + MESSAGE_BYTES))
    }

    /// Answers a whole flight for server `here`.
    ///
    /// # Errors
    /// [`ChannelError::OtherServer`], [`ChannelError::Claims`], [`ChannelError::Unproved`] where the flight was not made with the
    /// credential of its claims under `key`.
    pub fn answer(flight: &[u8], here: ServerId, key: &SiteKey) -> Result<Responder, ChannelError> {
        let whole = Self::flight_bytes(flight)? == Some(flight.len());
        let (prologue, message) = flight.split_at(flight.len().saturating_sub(MESSAGE_BYTES));
        let claims = prologue.get(HEAD_BYTES..).filter(|_| whole).ok_or(ChannelError::Foreign)?;
        let meant = u16::from_le_bytes([prologue[MAGIC.len()], prologue[MAGIC.len() + 1]]);
        if meant != here.0 {
            return Err(ChannelError::OtherServer { meant, here: here.0 });
        }
        let claims: Claims = decode_body(claims, "claims").map_err(|_| ChannelError::Claims)?;
        if !claims.is_well_formed() {
            return Err(ChannelError::Claims);
        }
        let mut state = builder(&key.channel_key(&claims), prologue)?
            .build_responder()
            .map_err(|_| ChannelError::Randomness)?;
        state.read_message(message, &mut []).map_err(|_| ChannelError::Unproved)?;
        let mut answer = MAGIC.to_vec();
        answer.resize(ANSWER_BYTES, 0);
        state.write_message(&[], &mut answer[MAGIC.len()..]).map_err(|_| ChannelError::Randomness)?;
        Ok(Responder { claims, answer, seal: Seal::new(state)? })
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Initiator(..)")
    }
}

fn builder<'a>(key: &'a ChannelKey, prologue: &'a [u8]) -> Result<snow::Builder<'a>, ChannelError> {
    let pattern = PATTERN.parse().map_err(|_| ChannelError::Foreign)?;
    snow::Builder::new(pattern)
        .psk(0, key)
        .and_then(|builder| builder.prologue(prologue))
        .map_err(|_| ChannelError::Foreign)
}
