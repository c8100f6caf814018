//! The control API, asked in the clear or over a sealed channel.

use std::io::{Read, Write};
use std::net::TcpStream;
use weir_channel::SealedStream;
use weir_wire::{Credential, ServerAddress};

/// Status and body of an answer.
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// The text behind the head.
    pub body: String,
}

/// The proof that a caller shows.
#[derive(Clone, Copy, Debug)]
pub enum Caller<'a> {
    /// None: the connection is in the clear.
    Nobody,
    /// A word as a bearer token in the clear, which proves nothing.
    Token(&'a str),
    /// A credential: the connection is sealed.
    Sealed(&'a Credential),
}

/// `GET` of a path at `host:port`.
pub fn get(address: &str, path: &str) -> Answer {
    ask(connected(address), &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// `GET` by the holder of a credential.
pub fn get_as(server: &ServerAddress, path: &str, credential: &Credential) -> Answer {
    send(server, &format!("GET {path} HTTP/1.0\r\n"), "", Caller::Sealed(credential))
}

/// `PUT` of a JSON text.
pub fn put(server: &ServerAddress, path: &str, body: &str, caller: Caller<'_>) -> Answer {
    send(server, &format!("PUT {path} HTTP/1.0\r\nContent-Length: {}\r\n", body.len()), body, caller)
}

fn send(server: &ServerAddress, head: &str, body: &str, caller: Caller<'_>) -> Answer {
    let stream = connected(&server.control);
    match caller {
        Caller::Nobody => ask(stream, &format!("{head}\r\n{body}")),
        Caller::Token(token) => ask(stream, &format!("{head}Authorization: Bearer {token}\r\n\r\n{body}")),
        Caller::Sealed(credential) => {
            let sealed = SealedStream::open(stream, server.server, credential).expect("a proved server");
            ask(sealed, &format!("{head}\r\n{body}"))
        }
    }
}

fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the control API listens");
    stream.set_read_timeout(Some(crate::processes::PATIENCE)).expect("a timeout");
    stream
}

fn ask(mut stream: impl Read + Write, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, body: body.to_string() }
}
