//! The sealed channel from a client of the control API to a server, without its socket: bytes come in and go out.

use crate::parse_credential;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{IoSlice, IoSliceMut};
use weir_channel::{Channel, Initiator, Interruption, ANSWER_BYTES};
use weir_placement::ServerId;

/// Bytes of content that are opened at once.
const OPENED_BYTES: usize = 64 * 1024;

/// The client's side of a sealed connection. Its methods are called in this order: `flight`, `finish`, then `seal` and `open`.
#[pyclass]
pub(crate) struct SealedChannel {
    flight: Vec<u8>,
    side: Side,
}

enum Side {
    Waits(Box<Initiator>),
    Open(Box<Channel>),
    Ended,
}

#[pymethods]
impl SealedChannel {
    /// Bytes of the server's answer to the flight.
    #[classattr]
    const ANSWER_BYTES: usize = ANSWER_BYTES;

    /// Begins a handshake with a server, by the text of a credential file.
    ///
    /// Raises ValueError where the text is no credential.
    #[new]
    fn new(server: u16, credential: &str) -> PyResult<SealedChannel> {
        let begun = Initiator::begin(ServerId(server), &parse_credential(credential)?);
        let (initiator, flight) = begun.map_err(wrong)?;
        Ok(SealedChannel { flight, side: Side::Waits(Box::new(initiator)) })
    }

    /// The bytes to send first. They prove nothing to a peer without the key, and nobody can use them again.
    #[getter]
    fn flight<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.flight)
    }

    /// Ends the handshake by the server's answer, which proves the server.
    ///
    /// Raises ValueError where the peer does not know the key, or is another server.
    fn finish(&mut self, answer: &[u8]) -> PyResult<()> {
        let Side::Waits(initiator) = std::mem::replace(&mut self.side, Side::Ended) else {
            return Err(PyValueError::new_err("the handshake has ended already"));
        };
        let answer = answer.try_into().map_err(|_| PyValueError::new_err("the answer is cut short"))?;
        let seal = initiator.finish(answer).map_err(wrong)?;
        self.side = Side::Open(Box::new(Channel::new(seal, &[])));
        Ok(())
    }

    /// The records that carry bytes.
    ///
    /// Raises ValueError before the handshake has ended.
    fn seal<'py>(&mut self, py: Python<'py>, mut content: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let channel = self.channel()?;
        let mut records = Vec::new();
        while !content.is_empty() {
            let push = |record: &[u8]| {
                records.extend_from_slice(record);
                Ok(record.len())
            };
            let sent = channel.send::<()>(&[IoSlice::new(content)], push);
            content = &content[sent.map_err(altered)?..];
        }
        Ok(PyBytes::new(py, &records))
    }

    /// The content of the records that are whole by these further bytes; the rest is kept.
    ///
    /// Raises ValueError where a record is not what the server sent, and before the handshake has ended.
    fn open<'py>(&mut self, py: Python<'py>, mut received: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let channel = self.channel()?;
        let mut content = Vec::new();
        let mut room = vec![0; OPENED_BYTES];
        loop {
            let pull = |room: &mut [u8]| {
                let count = room.len().min(received.len());
                let (taken, left) = received.split_at(count);
                room[..count].copy_from_slice(taken);
                received = left;
                // Nothing more is there now, which is no end.
                if count == 0 {
                    Err(())
                } else {
                    Ok(count)
                }
            };
            match channel.receive(&mut [IoSliceMut::new(&mut room)], pull) {
                Ok(count) => content.extend_from_slice(&room[..count]),
                Err(Interruption::Transport(())) => return Ok(PyBytes::new(py, &content)),
                Err(interruption) => {
                    self.side = Side::Ended;
                    return Err(altered(interruption));
                }
            }
        }
    }
}

impl SealedChannel {
    fn channel(&mut self) -> PyResult<&mut Channel> {
        match &mut self.side {
            Side::Open(channel) => Ok(channel),
            Side::Waits(_) | Side::Ended => Err(PyValueError::new_err("the channel is not open")),
        }
    }
}

fn wrong(error: weir_channel::ChannelError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn altered(interruption: Interruption<()>) -> PyErr {
    match interruption {
        Interruption::Channel(error) => wrong(error),
        Interruption::Transport(()) => PyValueError::new_err("the record was not taken"),
    }
}
