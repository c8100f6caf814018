//! The way to the servers, as the settings of a client spell it.

use std::str::FromStr;
use std::time::Duration;

/// The way to the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// The Unix socket where the server announced one on this host, else TCP.
    #[default]
    Automatic,
    /// The Unix socket.
    Unix,
    /// TCP.
    Tcp,
}

impl FromStr for TransportChoice {
    /// The values that are allowed, in words.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TransportChoice, &'static str> {
        match text {
            "unix" => Ok(TransportChoice::Unix),
            "tcp" => Ok(TransportChoice::Tcp),
            _ => Err("use `unix` or `tcp`"),
        }
    }
}

/// Reads the time for which a server may be silent, in seconds.
///
/// # Errors
/// The values that are allowed, in words.
pub fn parse_silence(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("use seconds from 0.1 to 86400"),
    }
}

/// Reads the interval of a mount's heartbeats, in seconds. A server that missed a release of a lock hears of it with the next one.
///
/// # Errors
/// The values that are allowed, in words.
pub fn parse_heartbeat(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("use seconds from 0.1 to 60"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_a_number_of_seconds_within_bounds() {
        assert_eq!(parse_silence("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0.1", "10", "86400"] {
            assert!(parse_silence(text).is_ok(), "{text}");
        }
        for text in ["", "abc", "10s", "0.05", "100000", "-1", "nan", "inf"] {
            assert!(parse_silence(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_heartbeat_is_a_number_of_seconds_within_bounds() {
        assert_eq!(parse_heartbeat("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0.1", "2", "60"] {
            assert!(parse_heartbeat(text).is_ok(), "{text}");
        }
        for text in ["", "abc", "2s", "0", "0.05", "61", "-1", "nan", "inf"] {
            assert!(parse_heartbeat(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_transport_is_one_of_two_words() {
        assert_eq!("unix".parse(), Ok(TransportChoice::Unix));
        assert_eq!("tcp".parse(), Ok(TransportChoice::Tcp));
        for text in ["", "tpc", "TCP", "rdma"] {
            assert!(text.parse::<TransportChoice>().is_err(), "{text}");
        }
    }
}
