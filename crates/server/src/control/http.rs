//! HTTP/1.1 for the control API, plain or sealed: one request a connection, and every length, wait and number of threads bounded.
//!
//! Any program that reaches the port may send anything, so nothing here trusts a length or waits without end.

use crate::control::callers::{Caller, Callers};
use crate::control::door::{Bearer, Door, Line, Proved};
use crate::machine_time::wall_seconds;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::time::Duration;

/// Longest request line and headers, as other servers take them.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers of one request: several times as many as browsers and scrapers send.
const HEADERS_MAX: usize = 64;
/// Longest body of most requests: a policy and its name.
pub(crate) const BODY_BYTES_MAX: usize = 4096;
/// How long a caller may take to send its request, and to say that it has the answer.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// How long a caller may take to read its answer: some megabytes, for thousands of jobs.
const RESPONSE_WAIT: Duration = Duration::from_secs(30);
/// Pause after a failed accept: without a free descriptor it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Begin of the names of headers by which a caller says what it is.
const CLAIM: &str = "weir-";
/// Shorter bodies go as they are: packed they save no packet.
const GZIP_BYTES_MIN: usize = 1024;
const STACK_BYTES: usize = 512 * 1024;
/// Priority of the threads that take callers, write and send: below that of the event loop, which serves the jobs.
const NICENESS: i32 = 10;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// `GET`, `HEAD`, `PUT`, in the caller's spelling.
    pub(crate) method: String,
    /// Path without the query.
    pub(crate) path: String,
    /// The rights of the caller.
    pub(crate) bearer: Bearer,
    /// The user of the credential that the caller proved.
    pub(crate) proved: Option<Proved>,
    /// The address of the caller's connection.
    pub(crate) address: Option<String>,
    /// Values of the headers that begin with `Weir-`: what the caller says of itself.
    pub(crate) claims: Vec<(String, String)>,
    /// Value of the `Host` header.
    pub(crate) host: Option<String>,
    /// Value of the `Authorization` header: a secret that everybody on the way may read.
    pub(crate) authorization: Option<String>,
    /// Value of the `Accept` header.
    pub(crate) accept: Option<String>,
    /// Whether the caller takes answers in gzip.
    pub(crate) takes_gzip: bool,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// An answer.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Arc<str>,
    /// The methods of the resource, where it does not have that of the request.
    pub(crate) allowed: &'static str,
}

/// The reason why there is no request.
#[derive(Debug)]
enum Refused {
    /// The caller is told this status.
    Status(u16),
    /// The connection is of no more use.
    Lost,
}

/// A service: the door, the longest body of a request by its head, and the answer.
struct Service<B, H> {
    door: Door,
    body_max: B,
    handler: H,
}

/// Serves `handler` to the callers of a listener from threads of its own.
/// `body_max` tells the longest body of a request from its head.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn serve(
    listener: TcpListener,
    connections_max: usize,
    door: Door,
    body_max: impl Fn(&Request) -> usize + Send + Sync + 'static,
    handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let service = Arc::new(Service { door, body_max, handler });
    let callers = Arc::new(Callers::new(connections_max));
    std::thread::Builder::new().name("control".into()).spawn(move || {
        yield_to_the_loop();
        take_callers(&listener, &callers, &service);
    })?;
    Ok(())
}

fn take_callers<B, H>(listener: &TcpListener, callers: &Arc<Callers>, service: &Arc<Service<B, H>>) -> !
where
    B: Fn(&Request) -> usize + Send + Sync + 'static,
    H: Fn(&Request) -> Response + Send + Sync + 'static,
{
    loop {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let caller = callers.admit(stream);
        let service = Arc::clone(service);
        let thread = std::thread::Builder::new().name("control-caller".into()).stack_size(STACK_BYTES);
        // Without a thread the caller is dropped, and tries again.
        let _ = thread.spawn(move || {
            // A caller that goes away before its answer loses only the answer.
            let _ = answer(&caller, &service.door, &service.body_max, &service.handler);
        });
    }
}

/// The threads that this one starts have its priority, too. A refusal leaves it as it is, which costs the loop some time
/// and nothing else.
fn yield_to_the_loop() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}

fn answer(
    caller: &Caller,
    door: &Door,
    body_max: &dyn Fn(&Request) -> usize,
    handler: &dyn Fn(&Request) -> Response,
) -> io::Result<()> {
    let line = Line::new(caller, REQUEST_WAIT);
    let mut entered = door.enter(&line, wall_seconds())?;
    let early = std::mem::take(&mut entered.early);
    let bearer = entered.bearer;
    let reply = match receive(&mut entered, early, bearer, body_max) {
        Ok(request) if !door.is_meant(request.host.as_deref(), &entered, &line) => {
            refusal(421).encoded(false, false)
        }
        Ok(mut request) => {
            request.proved = entered.proved.take();
            request.address = caller.stream().peer_addr().ok().map(|address| address.ip().to_string());
            caller.waits();
            let response = handler(&request);
            caller.is_waited_for();
            response.encoded(request.method == "HEAD", request.takes_gzip)
        }
        Err(Refused::Status(status)) => refusal(status).encoded(false, false),
        Err(Refused::Lost) => return Ok(()),
    };
    line.ends_in(RESPONSE_WAIT);
    entered.write_all(&reply)?;
    // Closing with bytes unread would reset the connection and could take the answer with it.
    caller.stream().shutdown(Shutdown::Write)?;
    line.ends_in(REQUEST_WAIT);
    let mut scratch = [0; 4096];
    for _ in 0..HEAD_BYTES_MAX / scratch.len() {
        if (&mut &line).read(&mut scratch)? == 0 {
            break;
        }
    }
    Ok(())
}

impl Request {
    /// What the caller says of itself under a name, without characters that a terminal would take for orders.
    pub(crate) fn claim(&self, name: &str) -> Option<String> {
        let (_, value) = self.claims.iter().find(|(known, _)| known == name)?;
        Some(value.chars().filter(|character| !character.is_control()).collect())
    }
}

impl Response {
    /// The bytes of the answer; one to a question for its head alone has no body.
    fn encoded(&self, is_head_alone: bool, takes_gzip: bool) -> Vec<u8> {
        let Response { status, content_type, body, allowed } = self;
        let packed = (takes_gzip && body.len() >= GZIP_BYTES_MIN).then(|| gzipped(body.as_bytes()));
        let content = packed.as_deref().unwrap_or(body.as_bytes());
        let mut head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n",
            reason(*status),
            content.len()
        );
        if packed.is_some() {
            head.push_str("Content-Encoding: gzip\r\n");
        }
        if !allowed.is_empty() {
            head.push_str(&format!("Allow: {allowed}\r\n"));
        }
        head.push_str("Vary: Accept, Accept-Encoding\r\nConnection: close\r\n\r\n");
        let mut bytes = head.into_bytes();
        if !is_head_alone {
            bytes.extend_from_slice(content);
        }
        bytes
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(bytes, flate2::Compression::fast());
    // Memory is read and written, which cannot fail.
    let _ = encoder.read_to_end(&mut packed);
    packed
}

/// Whether a value of `Accept-Encoding` names gzip, with a weight above 0 where it states one (RFC 9110, 12.5.3).
fn names_gzip(value: &str) -> bool {
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
        is_gzip && weight.unwrap_or(1.0) > 0.0
    })
}

/// The answer to a request that is not read, or not meant for this server.
fn refusal(status: u16) -> Response {
    let hint = match status {
        421 => "; the names of this server are its own and those of `control_hosts` in cluster.toml",
        _ => "",
    };
    let body = format!("{}{hint}\n", reason(status)).into();
    Response { status, content_type: "text/plain", body, allowed: "" }
}

/// Reads a request that begins with `bytes`.
fn receive(
    stream: &mut impl Read,
    mut bytes: Vec<u8>,
    bearer: Bearer,
    body_max: &dyn Fn(&Request) -> usize,
) -> Result<Request, Refused> {
    let (mut request, head_bytes, body_bytes) = loop {
        if let Some(parsed) = parse_head(&bytes, bearer, body_max).map_err(Refused::Status)? {
            break parsed;
        }
        if bytes.len() >= HEAD_BYTES_MAX {
            return Err(Refused::Status(431));
        }
        take_more(stream, &mut bytes)?;
    };
    let mut body = bytes.split_off(head_bytes);
    while body.len() < body_bytes {
        take_more(stream, &mut body)?;
    }
    body.truncate(body_bytes);
    request.body = body;
    Ok(request)
}

/// The request without its body, and the lengths of head and body; none while the head is incomplete, or the status
/// that refuses it.
fn parse_head(
    bytes: &[u8],
    bearer: Bearer,
    body_max: &dyn Fn(&Request) -> usize,
) -> Result<Option<(Request, usize, usize)>, u16> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(431),
        Err(_) => return Err(400),
    };
    let path = head.path.unwrap_or_default().split('?').next().unwrap_or_default().to_string();
    let method = head.method.unwrap_or_default().to_string();
    let mut request = Request {
        method,
        path,
        bearer,
        proved: None,
        address: None,
        claims: Vec::new(),
        host: None,
        authorization: None,
        accept: None,
        takes_gzip: false,
        body: Vec::new(),
    };
    let mut body_bytes = None;
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| 400u16)?;
        if header.name.eq_ignore_ascii_case("authorization") {
            request.authorization = Some(value.to_string());
        } else if header.name.eq_ignore_ascii_case("host") {
            if request.host.replace(value.to_string()).is_some() {
                return Err(400);
            }
        } else if header.name.eq_ignore_ascii_case("accept") {
            request.accept = Some(value.to_string());
        } else if header.name.eq_ignore_ascii_case("accept-encoding") {
            request.takes_gzip |= names_gzip(value);
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|_| 400u16)?;
            if body_bytes.is_some_and(|earlier| earlier != length) {
                return Err(400);
            }
            body_bytes = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(501);
        } else if header.name.get(..CLAIM.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(CLAIM)) {
            let name = header.name[CLAIM.len()..].to_ascii_lowercase();
            request.claims.push((name, value.to_string()));
        }
    }
    match body_bytes.unwrap_or(0) {
        length if length > body_max(&request) => Err(413),
        length => Ok(Some((request, head_bytes, length))),
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "Service Unavailable",
    }
}

fn take_more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Result<(), Refused> {
    let mut scratch = [0; 4096];
    match stream.read(&mut scratch) {
        Ok(0) | Err(_) => Err(Refused::Lost),
        Ok(count) => {
            bytes.extend_from_slice(&scratch[..count]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that arrive in pieces, then the end.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let Some(first) = self.0.first_mut() else { return Ok(0) };
            let count = first.len().min(bytes.len());
            bytes[..count].copy_from_slice(&first[..count]);
            *first = &first[count..];
            self.0.retain(|piece| !piece.is_empty());
            Ok(count)
        }
    }

    fn received(bytes: &[u8], piece: usize) -> Result<Request, Refused> {
        let pieces = bytes.chunks(piece).collect();
        receive(&mut Pieces(pieces), Vec::new(), Bearer::Nobody, &|_| BODY_BYTES_MAX)
    }

    #[test]
    fn a_request_is_understood_however_it_arrives() {
        let bytes = b"PUT /v1/policy?x=1 HTTP/1.1\r\nhost: x\r\nWeir-Command: weir policy\r\nAUTHORIZATION: Bearer 12\r\nContent-Length: 4\r\n\r\nbodymore";
        let expected = Request {
            method: "PUT".into(),
            path: "/v1/policy".into(),
            bearer: Bearer::Nobody,
            proved: None,
            address: None,
            claims: vec![("command".into(), "weir policy".into())],
            host: Some("x".into()),
            authorization: Some("Bearer 12".into()),
            accept: None,
            takes_gzip: false,
            body: b"body".to_vec(),
        };
        for piece in 1..bytes.len() {
            assert_eq!(received(bytes, piece).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_wrong_has_a_status() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(2 * HEAD_BYTES_MAX));
        for (text, expected) in [
            ("GET / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", 413),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            (" / HTTP/1.1\r\n\r\n", 400),
            (&long, 431),
        ] {
            match received(text.as_bytes(), 1000) {
                Err(Refused::Status(status)) => assert_eq!(status, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(received(b"GET / HTTP/1.1\r\n", 100), Err(Refused::Lost)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
            if let Ok(request) = received(&bytes, piece) {
                prop_assert!(request.body.len() <= BODY_BYTES_MAX);
            }
        }

        #[test]
        fn any_head_is_parsed_or_refused(head in "(GET|PUT|x)? ?/?[a-z?]{0,5} HTTP/1.[012](\r\n[a-zA-Z-]{0,16}:? ?[ -~]{0,20}){0,4}\r\n\r\n") {
            if let Ok(Some((_, head_bytes, body_bytes))) = parse_head(head.as_bytes(), Bearer::Nobody, &|_| BODY_BYTES_MAX) {
                prop_assert!(body_bytes <= BODY_BYTES_MAX && head_bytes <= head.len());
            }
        }
    }
}
