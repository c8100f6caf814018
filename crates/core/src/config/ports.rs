//! The ports of a server: the range from which it takes those that nobody names, and those that other programs had.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Ports from which a server takes those that its addresses leave open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(RangeInclusive<u16>);

impl Ports {
    /// The ports of a range.
    pub fn new(range: RangeInclusive<u16>) -> Ports {
        Ports(range)
    }

    /// The range.
    pub fn range(&self) -> RangeInclusive<u16> {
        self.0.clone()
    }
}

/// A port of a server that another program had when the server started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenPort {
    /// `data` or `control`.
    pub name: &'static str,
    /// The address that is taken.
    pub wanted: String,
    /// The address at which the server listens instead.
    pub address: String,
    /// The user whose program listens there; absent where the system does not tell.
    pub holder: Option<u32>,
}

impl fmt::Display for TakenPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TakenPort { name, wanted, address, holder } = self;
        let port = wanted.rsplit_once(':').map_or("", |(_, port)| port);
        match holder {
            Some(user) => write!(formatter, "a program of user {user} has the {name} port {wanted}")?,
            None => write!(formatter, "another program has the {name} port {wanted}")?,
        }
        write!(
            formatter,
            "; this server listens on {address} instead, and tells the other servers and cluster.json; hint: `ss -ltnp 'sport = :{port}'` \
             shows the program: end it, and give the port to a socket unit of systemd, which nobody can take"
        )
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
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
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ports, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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
}
