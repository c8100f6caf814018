//! One request of the kernel while it is served: its decoded front, its body, and its answer.

use crate::abi::{self, Fixed, InHeader};
use weir_client::wire::Ino;
use weir_client::ClientError;

/// The error number of Linux with which a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) i32);

/// The result of a request.
pub(crate) type Answer = Result<Reply, Failure>;

/// A successful answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Nothing is sent: the kernel does not wait.
    Silent,
    /// Success and no more.
    Done,
    /// Bytes of its own.
    Bytes(Vec<u8>),
    /// The first bytes of the scratch buffer, by their number.
    Scratch(usize),
}

/// A request that is being served.
pub(crate) struct Call<'a> {
    pub(crate) header: InHeader,
    body: &'a [u8],
    /// Holds the bytes of a long answer; kept by the worker from one request to the next.
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure(error.errno())
    }
}

impl Reply {
    /// The structure `value` as an answer.
    pub(crate) fn of(value: &impl Fixed) -> Answer {
        Ok(Reply::Bytes(value.to_bytes()))
    }
}

impl<'a> Call<'a> {
    /// The request in `bytes`; `None` when they are none.
    pub(crate) fn parse(mut bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Call<'a>> {
        let header = InHeader::take(&mut bytes)?;
        let extensions = usize::from(header.extension_words) * 8;
        let body = bytes.get(..bytes.len().checked_sub(extensions)?)?;
        Some(Call { header, body, scratch })
    }

    /// The inode that the request is about.
    pub(crate) fn node(&self) -> Ino {
        Ino(self.header.node)
    }

    /// Takes a structure from the front of the body.
    ///
    /// # Errors
    /// `EIO` when the body is too short, which a kernel of a known version never sends.
    pub(crate) fn take<T: Fixed>(&mut self) -> Result<T, Failure> {
        T::take(&mut self.body).ok_or(Failure(libc::EIO))
    }

    /// Takes a name from the front of the body.
    ///
    /// # Errors
    /// As [`Call::take`].
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Failure> {
        abi::take_name(&mut self.body).ok_or(Failure(libc::EIO))
    }

    /// The next `length` bytes of the body.
    ///
    /// # Errors
    /// As [`Call::take`].
    pub(crate) fn bytes(&mut self, length: u32) -> Result<&'a [u8], Failure> {
        let (front, rest) = self.body.split_at_checked(length as usize).ok_or(Failure(libc::EIO))?;
        self.body = rest;
        Ok(front)
    }

    /// The first `length` bytes of the scratch buffer, with whatever they held.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        if self.scratch.len() < length {
            self.scratch.resize(length, 0);
        }
        &mut self.scratch[..length]
    }
}
