//! The port of a listener whose address names none.
//!
//! A server that died must find its port free when it starts again, because its clients know that port. So its port lies outside of
//! the range from which the system serves every other program, and every outgoing connection (ip(7), `ip_local_port_range`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The first and last port that the system gives to programs that name none.
const SYSTEM_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Least port that is taken without being named: well-known services lie below it.
const LEAST: u16 = 10_000;
/// Fewest ports that make a range of their own: with fewer, two stores of a host meet too easily.
const FEWEST: u16 = 1_000;

/// Ports from which a server takes those that its addresses leave open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

impl Ports {
    /// The ports below the system's own range; none where that range leaves too few.
    fn of_host() -> Option<Ports> {
        let text = std::fs::read_to_string(SYSTEM_RANGE).ok()?;
        Ports::below(text.split_whitespace().next()?.parse().ok()?)
    }

    fn below(first_of_system: u16) -> Option<Ports> {
        let last = first_of_system.checked_sub(1)?;
        (last >= LEAST + (FEWEST - 1)).then_some(Ports(LEAST..=last))
    }

    /// Listens on a free port of the range. The search begins anywhere, so that stores of one host seldom try the same ports.
    fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        let (first, last) = (*self.0.start(), *self.0.end());
        let count = u32::from(last - first) + 1;
        let start = anywhere()? % count;
        for step in 0..count {
            let port = first + ((start + step) % count) as u16;
            match TcpListener::bind(SocketAddr::new(address.ip(), port)) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                outcome => return outcome,
            }
        }
        Err(Error::new(ErrorKind::AddrInUse, format!("every port of {self} is in use")))
    }
}

/// Listens on `host:port`. Port 0 is any of `ports`, or of the host's where there are none.
///
/// # Errors
/// The errors of the resolver and of bind(2); no port of the range is free.
pub(crate) fn listen(address: &str, ports: Option<&Ports>) -> Result<TcpListener> {
    let address = resolve(address)?;
    if address.port() != 0 {
        return TcpListener::bind(address);
    }
    match ports.cloned().or_else(Ports::of_host) {
        Some(ports) => ports.listen(address),
        None => TcpListener::bind(address),
    }
}

/// The first address of `host:port`.
///
/// # Errors
/// The errors of the resolver.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| ErrorKind::AddrNotAvailable.into())
}

fn anywhere() -> Result<u32> {
    let mut bytes = [0; 4];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Ports, String> {
        let range = text.split_once('-').and_then(|(first, last)| {
            let [first, last] = [first, last].map(|number| number.trim().parse::<u16>().ok());
            first.zip(last).filter(|&(first, last)| (1..=last).contains(&first))
        });
        range
            .map(|(first, last)| Ports(first..=last))
            .ok_or_else(|| format!("\"{text}\" is not a range of ports; try \"20000-29999\""))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.0.start(), self.0.end())
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Ports, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_read_or_refused() {
        assert_eq!("20000-29999".parse::<Ports>().unwrap().to_string(), "20000-29999");
        assert_eq!("7-7".parse::<Ports>().unwrap(), Ports(7..=7));
        for wrong in ["", "20000", "0-9", "9-8", "1-65536", "a-b", "1-2-3"] {
            wrong.parse::<Ports>().unwrap_err();
        }
    }

    #[test]
    fn a_port_that_nobody_named_is_none_that_the_system_gives_away() {
        assert_eq!(Ports::below(32_768), Some(Ports(10_000..=32_767)));
        assert_eq!(Ports::below(1_024), None);
        let Some(ports) = Ports::of_host() else { return };
        let port = listen("127.0.0.1:0", None).unwrap().local_addr().unwrap().port();
        assert!(ports.0.contains(&port), "{port} is outside of {ports}");
    }

    #[test]
    fn a_taken_port_is_passed_over_until_none_is_left() {
        let held = listen("127.0.0.1:0", None).unwrap();
        let port = held.local_addr().unwrap().port();
        let alone = Ports(port..=port);
        let error = listen("127.0.0.1:0", Some(&alone)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&alone.to_string()), "{error}");
    }
}
