//! The control API, asked over a plain socket.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Status and body of an answer.
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// The text behind the head.
    pub body: String,
}

/// `GET` of a path at `host:port`.
pub fn get(address: &str, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

/// `GET` by the holder of a bearer token.
pub fn get_as(address: &str, path: &str, token: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

/// `PUT` of a JSON text, with a bearer token where one is given.
pub fn put(address: &str, path: &str, body: &str, token: Option<&str>) -> Answer {
    let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let length = body.len();
    ask(address, &format!("PUT {path} HTTP/1.0\r\n{authorization}Content-Length: {length}\r\n\r\n{body}"))
}

fn ask(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the control API listens");
    stream.set_read_timeout(Some(crate::processes::PATIENCE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, body: body.to_string() }
}
