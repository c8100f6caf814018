//! The port of a listener: the one that its address names, a free one where that is taken or none is named, or the one of a
//! socket that the system passed.
//!
//! A server that died must find its port free when it starts again, because its clients know that port. So its port lies outside of
//! the range from which the system serves every other program, and every outgoing connection (ip(7), `ip_local_port_range`).
//! Any user can take it all the same, and keeps no server down by it.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::AsFd;
use weir_core::config::{Ports, TakenPort};

/// The first and last port that the system gives to programs that name none.
const SYSTEM_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Least port that is taken without being named: well-known services lie below it.
const LEAST: u16 = 10_000;
/// Fewest ports that make a range of their own: with fewer, two stores of a host meet too easily.
const FEWEST: u16 = 1_000;

/// A listener of a server.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    /// The `host:port` at which others find it.
    pub(crate) address: String,
    /// The named port that was taken.
    pub(crate) taken: Option<TakenPort>,
}

/// Listens for `name` on a socket that the system passed, else on `host:port`. Port 0 is any of `ports`, or of the host's where
/// there are none; so is a port that another program has.
///
/// # Errors
/// The errors of the resolver and of bind(2); no port is named, and none of the range is free.
pub(crate) fn listen(
    name: &'static str,
    (address, ports): (&str, Option<&Ports>),
    passed: Option<TcpListener>,
) -> Result<Listening> {
    if let Some(listener) = passed {
        let at = listener.local_addr()?;
        let is_named = at.ip().is_unspecified() || resolve(address).is_ok_and(|named| named == at);
        let address = if is_named { at_port(address, &listener)? } else { at.to_string() };
        return Ok(Listening { listener, address, taken: None });
    }
    let named = resolve(address)?;
    if named.port() == 0 {
        let listener = listen_anywhere(named, ports)?;
        let address = at_port(address, &listener)?;
        return Ok(Listening { listener, address, taken: None });
    }
    match TcpListener::bind(named) {
        Ok(listener) => Ok(Listening { listener, address: address.to_string(), taken: None }),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let holder = holder(named);
            // A user may have taken all ports of the range, too.
            let any = SocketAddr::new(named.ip(), 0);
            let listener = listen_anywhere(any, ports).or_else(|_| TcpListener::bind(any))?;
            let wanted = address.to_string();
            let address = at_port(address, &listener)?;
            let taken = TakenPort { name, wanted, address: address.clone(), holder };
            Ok(Listening { listener, address, taken: Some(taken) })
        }
        Err(error) => Err(error),
    }
}

/// The ports below the system's own range; none where that range leaves too few.
fn ports_of_host() -> Option<Ports> {
    let text = std::fs::read_to_string(SYSTEM_RANGE).ok()?;
    ports_below(text.split_whitespace().next()?.parse().ok()?)
}

fn ports_below(first_of_system: u16) -> Option<Ports> {
    let last = first_of_system.checked_sub(1)?;
    (last >= LEAST + (FEWEST - 1)).then(|| Ports::new(LEAST..=last))
}

/// Listens on a free port of the range. The search begins anywhere, so that stores of one host seldom try the same ports.
fn listen_in(ports: &Ports, address: SocketAddr) -> Result<TcpListener> {
    let (first, last) = ports.range().into_inner();
    let count = u32::from(last - first) + 1;
    let start = anywhere()? % count;
    for step in 0..count {
        let port = first + ((start + step) % count) as u16;
        match TcpListener::bind(SocketAddr::new(address.ip(), port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, format!("every port of {ports} is in use")))
}

fn listen_anywhere(address: SocketAddr, ports: Option<&Ports>) -> Result<TcpListener> {
    match ports.cloned().or_else(ports_of_host) {
        Some(ports) => listen_in(&ports, address),
        None => TcpListener::bind(address),
    }
}

/// The address with the listener's port: other hosts may know the host by its name alone.
fn at_port(address: &str, listener: &TcpListener) -> Result<String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Ok(format!("{host}:{}", listener.local_addr()?.port()))
}

/// The user whose program listens at an address, as far as the system tells.
fn holder(address: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let lines = BufReader::new(File::open(table).ok()?).lines();
        lines.map_while(Result::ok).find_map(|line| listener_user(&line, address))
    })
}

/// The user of a line of `/proc/net/tcp` or `/proc/net/tcp6` (proc_net(5)), where the line is of a listener that keeps others from
/// `address`.
fn listener_user(line: &str, address: SocketAddr) -> Option<u32> {
    const LISTENS: &str = "0A";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (ip, port) = fields.next()?.split_once(':')?;
    if u16::from_str_radix(port, 16).ok()? != address.port() || fields.nth(1)? != LISTENS {
        return None;
    }
    let listens_at = table_ip(ip)?;
    let is_in_the_way =
        listens_at.is_unspecified() || address.ip().is_unspecified() || listens_at == address.ip();
    is_in_the_way.then(|| fields.nth(3)?.parse().ok())?
}

/// An address of these tables: words of 32 bits in the machine's order of bytes.
fn table_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    if text.len() == 8 {
        return word(0).map(IpAddr::from);
    }
    let mut bytes = [0; 16];
    for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
        chunk.copy_from_slice(&word(index * 8)?);
    }
    Some(Ipv6Addr::from(bytes).to_canonical())
}

/// The first address of `host:port`.
///
/// # Errors
/// The errors of the resolver.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into())
}

/// The user at the other end of a Unix socket. A process of another namespace has no number here, which rustix's type cannot say.
///
/// # Errors
/// The system's error.
pub(crate) fn peer_user(socket: &impl AsFd) -> Result<u32> {
    let credentials = nix::sys::socket::getsockopt(socket, nix::sys::socket::sockopt::PeerCredentials)?;
    Ok(credentials.uid())
}

fn anywhere() -> Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_nobody_named_is_none_that_the_system_gives_away() {
        assert_eq!(ports_below(32_768), Some(Ports::new(10_000..=32_767)));
        assert_eq!(ports_below(1_024), None);
        let Some(ports) = ports_of_host() else { return };
        let listening = listen("data", ("127.0.0.1:0", None), None).unwrap();
        let port = listening.listener.local_addr().unwrap().port();
        assert!(ports.range().contains(&port), "{port} is outside of {ports}");
        assert_eq!(listening.address, format!("127.0.0.1:{port}"));
    }

    #[test]
    fn an_unnamed_port_is_one_of_the_range_or_none() {
        let held = listen("data", ("127.0.0.1:0", None), None).unwrap();
        let port = held.listener.local_addr().unwrap().port();
        let alone = Ports::new(port..=port);
        let error = listen("data", ("127.0.0.1:0", Some(&alone)), None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&alone.to_string()), "{error}");
    }

    #[test]
    fn a_named_port_that_is_taken_is_left_to_its_holder() {
        let user = rustix::process::geteuid().as_raw();
        // Holders that listen at the address itself, and at all addresses of either family.
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let held = TcpListener::bind(at).unwrap();
            let port = held.local_addr().unwrap().port();
            let named = format!("127.0.0.1:{port}");
            let alone = Ports::new(port..=port);
            // No range helps a server out, not even one that the holder has as a whole.
            for ports in [None, Some(&alone)] {
                let listening = listen("control", (&named, ports), None).unwrap();
                let taken = listening.taken.unwrap();
                let now = listening.listener.local_addr().unwrap();
                assert_ne!(now.port(), port, "{at}");
                assert_eq!(listening.address, now.to_string());
                let told = (taken.name, taken.wanted, taken.address, taken.holder);
                assert_eq!(told, ("control", named.clone(), now.to_string(), Some(user)), "{at}");
            }
            drop(held);
            let again = listen("control", (&named, None), None).unwrap();
            assert_eq!((again.address, again.taken), (named, None));
        }
    }

    #[test]
    fn a_passed_socket_counts_before_the_address() {
        let passed = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = passed.local_addr().unwrap();
        for named in ["127.0.0.1:1", "localhost:1", "nowhere.invalid:1"] {
            let listening = listen("data", (named, None), Some(passed.try_clone().unwrap())).unwrap();
            assert_eq!((listening.address, listening.taken), (at.to_string(), None), "{named}");
        }
        let named = at.to_string();
        assert_eq!(listen("data", (&named, None), Some(passed)).unwrap().address, named);
        // One of all interfaces is found at the host that is named.
        let passed = TcpListener::bind("[::]:0").unwrap();
        let port = passed.local_addr().unwrap().port();
        let listening = listen("data", ("node4:1", None), Some(passed)).unwrap();
        assert_eq!(listening.address, format!("node4:{port}"));
    }

    #[test]
    fn a_listener_of_the_tables_is_in_the_way_or_not() {
        let line = |ip: &str, port: &str, state: &str| {
            format!(
                "  0: {ip}:{port} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 65534 0 7 1"
            )
        };
        let native = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let here = native([127, 0, 0, 1]);
        let zeros = "0".repeat(24);
        let mapped = format!("{}{}{here}", "0".repeat(16), native([0, 0, 0xff, 0xff]));
        let address: SocketAddr = "127.0.0.1:7001".parse().unwrap();
        for (entry, is_in_the_way) in [
            (line(&here, "1B59", "0A"), true),
            (line(&mapped, "1B59", "0A"), true),
            (line("00000000", "1B59", "0A"), true),
            (line(&format!("{zeros}00000000"), "1B59", "0A"), true),
            (line(&here, "1B59", "01"), false),
            (line(&here, "1B5A", "0A"), false),
            (line(&native([127, 0, 0, 2]), "1B59", "0A"), false),
            (line("0000", "1B59", "0A"), false),
            (line(&format!("{zeros}0000000x"), "1B59", "0A"), false),
            ("  sl  local_address rem_address   st tx_queue rx_queue".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(listener_user(&entry, address), is_in_the_way.then_some(65_534), "{entry}");
        }
    }
}
