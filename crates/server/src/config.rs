//! `cluster.toml` as a file, and the addresses in it.

use crate::ports::resolve;
use std::path::Path;
use weir_core::config::{ClusterConfig, ServerConfig};
use weir_core::error::ServerError;

/// Reads and checks a file.
///
/// # Errors
/// [`ServerError::Configuration`] with the line that is wrong and a hint.
pub fn read(path: &Path) -> Result<ClusterConfig, ServerError> {
    let text = std::fs::read_to_string(path).map_err(|source| ServerError::Io {
        what: "read the configuration",
        path: path.to_path_buf(),
        source,
    })?;
    let wrong = |what: String| ServerError::Configuration { path: path.to_path_buf(), what };
    let config = ClusterConfig::parse(&text).map_err(wrong)?;
    for (number, server) in config.servers.iter().enumerate() {
        check_addresses(server).map_err(|what| wrong(format!("server {number}: {what}")))?;
    }
    Ok(config)
}

/// Whether this host knows the hosts of a server's addresses.
///
/// # Errors
/// The fault in words, with a hint.
pub(crate) fn check_addresses(server: &ServerConfig) -> Result<(), String> {
    let addresses = [("listen", &server.listen), ("control", &server.control)];
    addresses.into_iter().try_for_each(|(key, address)| {
        let resolved = resolve(address);
        resolved.map_err(|error| format!("{key} = \"{address}\": {error}; try \"127.0.0.1:0\""))?;
        Ok(())
    })
}
