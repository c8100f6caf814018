//! The names that a plain request may give as `Host`.
//!
//! A page of a foreign site can have its name resolved to the address of a server (DNS rebinding), and read the answers in
//! the browser of a user who may reach that address. Its requests name the foreign site, and so they are refused.

use std::net::{IpAddr, SocketAddr};

/// The name of this machine.
const NODE_NAME: &str = "/proc/sys/kernel/hostname";

/// The names of a server's control API, in lower case.
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The names of this machine, the host of the configured address, and further ones of the site.
    pub(crate) fn new(control: &str, of_site: &[String]) -> Hosts {
        // Without a name of its own, a machine is reached by its address.
        let node = std::fs::read_to_string(NODE_NAME).unwrap_or_default().trim().to_string();
        let short = node.split('.').next().unwrap_or_default().to_string();
        let mut names = vec![node, short, name_of(control).to_string()];
        names.extend(of_site.iter().map(|name| name_of(name).to_string()));
        names.retain(|name| !name.is_empty());
        names.iter_mut().for_each(|name| name.make_ascii_lowercase());
        Hosts(names)
    }

    /// Whether a request that came to the address `here` may name `host`. Every browser names one, and some scripts do not.
    pub(crate) fn admits(&self, host: Option<&str>, here: SocketAddr) -> bool {
        let Some(host) = host else { return true };
        let name = name_of(host).trim_end_matches('.').to_ascii_lowercase();
        if self.0.contains(&name) {
            return true;
        }
        let own = here.ip().to_canonical();
        match name.parse::<IpAddr>() {
            Ok(address) => {
                let address = address.to_canonical();
                address == own || (address.is_loopback() && own.is_loopback())
            }
            Err(_) => own.is_loopback() && name == "localhost",
        }
    }
}

/// A host without its port, and an IPv6 address without its brackets.
fn name_of(host: &str) -> &str {
    if let Some(bracketed) = host.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_this_server_or_is_refused() {
        let hosts =
            Hosts::new("storage.example.org:9100", &["Metrics.example.org".into(), "203.0.113.7".into()]);
        let node = std::fs::read_to_string(NODE_NAME).unwrap();
        let (near, far): (SocketAddr, SocketAddr) =
            ("127.0.0.1:9100".parse().unwrap(), "[::ffff:192.0.2.1]:9100".parse().unwrap());
        for (host, is_near, is_far) in [
            (None, true, true),
            (Some("127.0.0.1:9100"), true, false),
            (Some("127.9.9.9"), true, false),
            (Some("[::1]:9100"), true, false),
            (Some("::1"), true, false),
            (Some("LOCALHOST"), true, false),
            (Some("localhost.:80"), true, false),
            (Some("192.0.2.1:9100"), false, true),
            (Some("192.0.2.2"), false, false),
            (Some("storage.example.org:1"), true, true),
            (Some("metrics.EXAMPLE.org."), true, true),
            (Some("203.0.113.7:80"), true, true),
            (Some(node.trim()), true, true),
            (Some(""), false, false),
            (Some("evil.example.com"), false, false),
            (Some("127.0.0.1.evil.example.com"), false, false),
            (Some("localhost.evil.example.com"), false, false),
            (Some("evil.example.com:127.0.0.1"), false, false),
            (Some("127.0.0.1@evil.example.com"), false, false),
        ] {
            assert_eq!(hosts.admits(host, near), is_near, "{host:?} at loopback");
            assert_eq!(hosts.admits(host, far), is_far, "{host:?} at an address of a network");
        }
    }
}
