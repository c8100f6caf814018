//! Texts of `cluster.toml`. Addresses are left to the servers, which choose free ports of loopback.

/// One `[[server]]` with `targets` targets; `target` holds the lines of each.
pub fn server_toml(targets: usize, target: &str) -> String {
    format!("[[server]]\n{}", format!("[[server.target]]\n{target}\n").repeat(targets))
}

/// `count` servers of `targets` targets each; `backend` is `ram` or `dir`.
pub fn servers(count: usize, targets: usize, backend: &str, capacity: &str) -> String {
    server_toml(targets, &format!("backend = \"{backend}\"\ncapacity = \"{capacity}\"")).repeat(count)
}

/// Servers of two `ram` targets.
pub fn ram(count: usize, capacity: &str) -> String {
    servers(count, 2, "ram", capacity)
}

/// Servers of two `dir` targets.
pub fn dir(count: usize) -> String {
    servers(count, 2, "dir", "1GiB")
}

/// The number of servers in a configuration.
pub(crate) fn server_count(toml: &str) -> usize {
    toml.matches("[[server]]").count()
}
