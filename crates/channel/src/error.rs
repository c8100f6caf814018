//! The reasons why a channel ends.

use thiserror::Error;

/// The reason why a channel ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The first bytes are those of no channel of this version.
    #[error("the other side does not speak the sealed channel of this version")]
    Foreign,
    /// The flight names another server.
    #[error("the connection was meant for server {meant}, and this is server {here}")]
    OtherServer {
        /// The number in the flight.
        meant: u16,
        /// The server's own number.
        here: u16,
    },
    /// The claims do not decode, or one is outside of its limits.
    #[error("the claims of the connection are outside of their limits")]
    Claims,
    /// The other side does not hold the key: it was minted by another site, or the handshake was altered on its way.
    #[error("the other side does not know the key of the credential")]
    Unproved,
    /// A record was altered, cut, repeated or put out of its order.
    #[error("a record was altered on its way")]
    Altered,
    /// The system gave no randomness.
    #[error("the system gives no randomness for a handshake")]
    Randomness,
}
