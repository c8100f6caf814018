//! The channel over a blocking stream.

use crate::{Channel, ChannelError, Initiator, Interruption, Responder, ANSWER_BYTES};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use weir_placement::ServerId;
use weir_wire::{ChannelBinding, Claims, Credential, SiteKey};

/// A blocking stream whose bytes are sealed. The time limits are those of the stream.
#[derive(Debug)]
pub struct SealedStream<S> {
    stream: S,
    channel: Channel,
}

impl<S: Read + Write> SealedStream<S> {
    /// Opens a channel to `server` over a fresh connection.
    ///
    /// # Errors
    /// The errors of the stream; a [`ChannelError`] as [`ErrorKind::PermissionDenied`].
    pub fn open(mut stream: S, server: ServerId, credential: &Credential) -> io::Result<SealedStream<S>> {
        let (initiator, flight) = Initiator::begin(server, credential).map_err(denied)?;
        stream.write_all(&flight)?;
        let mut answer = [0; ANSWER_BYTES];
        stream.read_exact(&mut answer)?;
        let seal = initiator.finish(&answer).map_err(denied)?;
        Ok(SealedStream { stream, channel: Channel::new(seal, &[]) })
    }

    /// Takes a channel in on server `here`. `received` are bytes that came already. Answers the claims of the client, which hold
    /// once a first byte was read.
    ///
    /// # Errors
    /// The errors of the stream; a [`ChannelError`] as [`ErrorKind::PermissionDenied`].
    pub fn accept(
        mut stream: S,
        mut received: Vec<u8>,
        here: ServerId,
        key: &SiteKey,
    ) -> io::Result<(SealedStream<S>, Claims)> {
        let flight_bytes = loop {
            let known = Responder::flight_bytes(&received).map_err(denied)?;
            if let Some(bytes) = known.filter(|bytes| received.len() >= *bytes) {
                break bytes;
            }
            let have = received.len();
            received.resize(known.unwrap_or(have + 1), 0);
            let count = stream.read(&mut received[have..])?;
            received.truncate(have + count);
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        };
        let responder = Responder::answer(&received[..flight_bytes], here, key).map_err(denied)?;
        stream.write_all(&responder.answer)?;
        let channel = Channel::new(responder.seal, &received[flight_bytes..]);
        Ok((SealedStream { stream, channel }, responder.claims))
    }

    /// The digest of the handshake.
    pub fn binding(&self) -> &ChannelBinding {
        self.channel.binding()
    }

    /// The stream below.
    pub fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: Read> Read for SealedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let SealedStream { stream, channel } = self;
        channel.receive(&mut [IoSliceMut::new(buffer)], |room| stream.read(room)).map_err(settled)
    }
}

impl<S: Write> Write for SealedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let SealedStream { stream, channel } = self;
        channel.send(&[IoSlice::new(bytes)], |record| stream.write(record)).map_err(settled)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn denied(error: ChannelError) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, error)
}

fn settled(interruption: Interruption<io::Error>) -> io::Error {
    match interruption {
        Interruption::Channel(error) => io::Error::new(ErrorKind::InvalidData, error),
        Interruption::Transport(error) => error,
    }
}
