//! The memory that the namespace of a server may take, where the configuration says nothing: a half of what the machine, the
//! control group and the limits of the process leave it.

use rustix::process::{getrlimit, Resource};
use std::fs;
use std::path::{Path, PathBuf};
use weir_core::accounts::machine::meminfo_bytes;
use weir_core::config::{BackendKind, ClusterConfig, ServerConfig};
use weir_placement::ServerId;

/// Memory that a server needs beside its namespace: requests and replies (`links/memory.rs`), and the program itself.
const OTHER_BYTES: u64 = 192 << 20;
/// Addresses that threads reserve for their stacks and heaps, and hardly use: a limit of addresses counts them.
const RESERVED_BYTES: u64 = 1 << 30;
/// A server with less memory keeps this much: some tens of thousands of files.
const BYTES_MIN: u64 = 64 << 20;
/// The folder of control groups, and the files with their bounds in versions 2 and 1 (cgroups(7)).
const GROUPS: &str = "/sys/fs/cgroup";
const GROUP_BOUNDS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// The bound for server `id`: the configured one, or one that fits this machine.
pub(crate) fn bytes_max(config: &ClusterConfig, id: ServerId) -> u64 {
    config.namespace_memory.unwrap_or_else(|| {
        let own = &config.servers[usize::from(id.0)];
        let here = config.servers.iter().filter(|other| host_of(other) == host_of(own));
        let here: Vec<u64> = here.map(memory_of_targets).collect();
        let machine = machine_bytes().min(group_bytes());
        let of_machine = left(machine, here.iter().sum()) / here.len().max(1) as u64;
        let of_process = left(process_bytes(), memory_of_targets(own));
        of_machine.min(of_process).saturating_sub(OTHER_BYTES).max(2 * BYTES_MIN) / 2
    })
}

/// Bytes beside targets in memory. These seldom fill up, and may be larger than the memory.
fn left(bytes: u64, targets: u64) -> u64 {
    bytes.saturating_sub(targets).max(bytes / 4)
}

fn host_of(server: &ServerConfig) -> &str {
    server.listen.rsplit_once(':').map_or(&*server.listen, |(host, _)| host)
}

fn memory_of_targets(server: &ServerConfig) -> u64 {
    let in_memory = server.targets.iter().filter(|target| target.backend == BackendKind::Ram);
    in_memory.filter_map(|target| target.capacity).fold(0, u64::saturating_add)
}

fn machine_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    meminfo_bytes(&text, "MemTotal").unwrap_or(u64::MAX)
}

/// The least bound of the control group of this process and of all groups around it.
fn group_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_of(&text).iter().flat_map(|group| group.ancestors()).filter_map(bound_of).min().unwrap_or(u64::MAX)
}

/// The folders of the groups in the text of `/proc/self/cgroup` that bound memory.
fn groups_of(text: &str) -> Vec<PathBuf> {
    let group = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let folder = match controllers {
            "" => PathBuf::from(GROUPS),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                Path::new(GROUPS).join("memory")
            }
            _ => return None,
        };
        Some(folder.join(path.trim_start_matches('/')))
    };
    text.lines().filter_map(group).collect()
}

fn bound_of(group: &Path) -> Option<u64> {
    let bounds = GROUP_BOUNDS.iter().filter_map(|name| fs::read_to_string(group.join(name)).ok());
    // `max` is no bound.
    bounds.filter_map(|text| text.trim().parse().ok()).min()
}

/// The limits of this process, as `ulimit -v` and `ulimit -d` set them.
fn process_bytes() -> u64 {
    let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    limit(Resource::As).saturating_sub(RESERVED_BYTES).min(limit(Resource::Data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_with_all_around_them() {
        let text = "12:pids:/user.slice\n5:cpu,memory:/user.slice/a\n0::/system.slice/weir.service\n";
        let groups = groups_of(text);
        assert_eq!(
            groups,
            [
                Path::new("/sys/fs/cgroup/memory/user.slice/a"),
                Path::new("/sys/fs/cgroup/system.slice/weir.service")
            ]
        );
        assert!(groups_of("0::/\n")[0].starts_with(GROUPS));
        assert!(groups_of("nonsense").is_empty());
    }

    #[test]
    fn a_store_larger_than_the_memory_has_a_namespace_all_the_same() {
        assert_eq!(left(1 << 30, 1 << 40), 1 << 28);
        assert_eq!(left(1 << 30, 1 << 20), (1 << 30) - (1 << 20));
    }
}
