//! The sealed channel of every TCP connection.
//!
//! A client begins with one *flight*: the server that it means, its claims, and the first message of a Noise handshake (pattern
//! NNpsk0) whose key is derived from the tag of its credential. The server's answer is the second message. From then on both sides
//! send [records](limits): a length, then bytes, each encrypted and authenticated under keys of this connection alone, so that an
//! altered bit is noticed once the few bytes of its length or its record are there.
//! The server's number and the claims are part of the handshake, so a handshake that was passed on to another server, or whose claims
//! were altered, does not end. A flight that somebody sends once more opens nothing, because nobody else has its ephemeral key.
//!
//! The crate does no I/O: [`Initiator`], [`Responder`] and [`Channel`] take bytes and give bytes, and [`SealedStream`] puts them over
//! any blocking stream.
#![forbid(unsafe_code)]

mod channel;
mod error;
mod handshake;
pub mod limits;
mod seal;
mod stream;

pub use channel::{Channel, Interruption};
pub use error::ChannelError;
pub use handshake::{Initiator, Responder, ANSWER_BYTES, MAGIC};
pub use seal::Seal;
pub use stream::SealedStream;
