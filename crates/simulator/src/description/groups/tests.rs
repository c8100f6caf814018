use super::*;

const TEXT: &str = r#"name = "small"
layout = "-E 8M -c 1 -E -1 -c 4"

[clients]
nodes = 2
link = { rate = "1.25GB/s", latency = "50us" }

[[routers]]
name = "io"
count = 4
side = "client"
link = { rate = 5e9 }

[[servers]]
count = 7
link = { rate = "1.25GB/s" }
processor = "3GB/s"
metadata = "200us"

[[servers.targets]]
count = 4
class = "disk"
capacity = "10GiB"
used = "1GiB"
read = "100MB/s"
write = { rate = 90000000, fixed = "1ms" }
seek_penalty = 0.25
seek_floor = 0.5
fullness = [{ used = "80%", rate = 1 }, { used = 1.0, rate = 0.5 }]

[[servers.targets]]
capacity = 1000
read = 5
write = 2.5
"#;

#[test]
fn groups_are_expanded() {
    let topology = parse_topology(TEXT).unwrap();
    assert_eq!((topology.name.as_str(), topology.clients.nodes), ("small", 2));
    assert_eq!(topology.layout.as_deref(), Some("-E 8M -c 1 -E -1 -c 4"));
    assert_eq!(topology.clients.link, Hop { bytes_per_second: 1.25e9, latency_seconds: 50e-6 });
    assert_eq!(topology.routers.len(), 1);
    assert_eq!((topology.routers[0].count, topology.routers[0].side), (4, Side::Client));
    assert_eq!(topology.servers.len(), 7);
    let server = &topology.servers[6];
    assert_eq!((server.processor_bytes_per_second, server.metadata_seconds), (Some(3e9), 2e-4));
    assert_eq!(server.targets.len(), 5);
    let expected = Target {
        class: "disk".into(),
        capacity_bytes: 10 << 30,
        used_bytes: 1 << 30,
        read: Transfer { bytes_per_second: 1e8, fixed_seconds: 0.0 },
        write: Transfer { bytes_per_second: 9e7, fixed_seconds: 1e-3 },
        seek_penalty: 0.25,
        seek_floor: 0.5,
        fullness: vec![Fullness { used: 0.8, rate: 1.0 }, Fullness { used: 1.0, rate: 0.5 }],
    };
    assert_eq!(server.targets[3], expected);
    assert_eq!(server.targets[4].write.bytes_per_second, 2.5);
    assert_eq!((server.targets[4].seek_penalty, server.targets[4].seek_floor), (0.0, 1.0));
}

/// The fault of the text with one part of it replaced.
fn fault(part: &str, by: &str) -> DescriptionError {
    assert!(TEXT.contains(part), "{part:?}");
    parse_topology(&TEXT.replacen(part, by, 1)).unwrap_err()
}

#[test]
fn a_fault_names_its_line_and_key_and_what_is_allowed() {
    for (part, by, line, key, message) in [
        ("-c 1 -E", "-c x -E", 2, Some("layout"), "`x` is not a stripe count"),
        ("nodes = 2", "nodes = 0", 5, Some("nodes"), "0 is not from 1 to"),
        ("\"1.25GB/s\", latency", "\"quick\", latency", 6, Some("rate"), "\"quick\" is not a rate"),
        ("rate = 5e9", "rate = -1", 12, Some("rate"), "-1 is not a rate above 0"),
        ("side = \"client\"", "side = \"left\"", 11, Some("side"), "expected `client` or `server`"),
        ("count = 7", "count = 70000", 15, Some("count"), "70000 is not from 1 to 65535"),
        ("metadata = \"200us\"", "metadata = \"long\"", 18, Some("metadata"), "\"long\" is not a time"),
        ("metadata", "meta", 18, None, "unknown field `meta`, expected one of"),
        ("used = \"1GiB\"", "used = \"11GiB\"", 24, Some("used"), "more is used than"),
        ("\"10GiB\"", "0", 23, Some("capacity"), "at least one byte"),
        ("read = \"100MB/s\"", "read = true", 25, Some("read"), "expected a rate such as"),
        ("fixed = \"1ms\"", "fixed = \"x\"", 26, Some("fixed"), "\"x\" is not a time"),
        ("seek_floor = 0.5", "seek_floor = 0.0", 28, Some("seek_floor"), "0 is not from"),
        ("used = \"80%\"", "used = 2", 29, Some("used"), "2 is not a fraction"),
        ("used = \"80%\"", "used = 1", 29, None, "in the order of `used`"),
        ("link = { rate = 5e9 }", "link = { }", 12, Some("link"), "missing field `rate`"),
        ("[[servers]]", "[[servers", 14, None, ""),
    ] {
        let found = fault(part, by);
        assert_eq!((found.line, found.key.as_deref()), (Some(line), key), "{by}: {found}");
        assert!(found.message.contains(message), "{by}: {found}");
        assert_eq!(found.to_string().lines().count(), 1);
    }
}

#[test]
fn a_topology_without_targets_is_refused() {
    let servers = TEXT.find("[[servers]]").unwrap();
    let found = parse_topology(&TEXT[..servers]).unwrap_err();
    assert!(found.to_string().starts_with("servers: the topology has no targets"), "{found}");
    let targets = TEXT.find("[[servers.targets]]").unwrap();
    let found = parse_topology(&TEXT[..targets]).unwrap_err();
    assert_eq!(found.line, Some(14));
    assert!(found.message.contains("no targets"));
}

#[test]
fn a_mistyped_count_takes_no_memory() {
    let many = TEXT.replace("count = 7", "count = 65535").replace("count = 4\nclass", "count = 250\nclass");
    let found = parse_topology(&many).unwrap_err();
    assert!(found.message.contains("at most 65535 servers and 1048576 targets"), "{found}");
}

#[test]
fn a_server_with_more_targets_than_reports_can_number_is_refused() {
    let found = parse_topology(&TEXT.replace("count = 4\nclass", "count = 254\nclass")).unwrap_err();
    assert!(found.line.is_some(), "{found}");
    assert_eq!(found.message, "a server has at most 254 targets; give more servers");
}
