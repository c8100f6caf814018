//! Where real servers put the stripes of new files: evenly, and not on slow, full or dead targets.

use serde_json::Value;
use std::collections::BTreeMap;
use weir_placement::{ServerId, TargetId};
use weir_testing::{
    administrator, claims, dir, get, key, put, server_toml, wait_until, Caller, Cluster, File, Line,
    Transport, READ_WRITE,
};
use weir_wire::{
    decode_body, encode_body, At, Claims, Errno, Ino, MachineLoad, OpenFlags, PeerReply, PeerRequest, Reply,
    Request, Role, ServerReport, StoreSettings, TargetReport, TargetRoom,
};

const ENXIO: Errno = Errno(6);
const ENOSPC: Errno = Errno(28);
const EHOSTDOWN: Errno = Errno(112);
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..READ_WRITE };

fn make(line: &mut Line, path: &str, layout: &str) -> Result<File, Errno> {
    line.open_laid_out(path, EXCLUSIVE, Some(layout))
}

/// Makes a file and removes it again: its load goes with it.
fn probe(line: &mut Line, path: &str, layout: &str) -> Result<(), Errno> {
    let file = make(line, path, layout)?;
    line.close(&file);
    assert_eq!(line.unlink(path, false), Reply::Done);
    Ok(())
}

fn targets_of(file: &File) -> Vec<String> {
    file.layout.targets().iter().map(TargetId::to_string).collect()
}

fn counts(files: &[File]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for target in files.iter().flat_map(targets_of) {
        *counts.entry(target).or_default() += 1;
    }
    counts
}

fn explanation(line: &mut Line, path: &str) -> Result<Value, Errno> {
    let at = At::new(Ino::ROOT, path);
    let request = Request::XattrGet { at, follow: true, name: b"weir.placement".to_vec() };
    match line.call(&request, &[]) {
        (Reply::Value, text) => Ok(serde_json::from_slice(&text).expect("JSON")),
        (Reply::Failed(errno), _) => Err(errno),
        other => panic!("{other:?}"),
    }
}

fn set_speed(cluster: &Cluster, server: usize, target: &str, body: &str) -> u16 {
    let path = format!("/v1/targets/{target}/speed");
    cluster.put(server, &path, body).status
}

fn target(cluster: &Cluster, server: usize, index: usize) -> Value {
    cluster.status(server)["targets"][index].clone()
}

/// Waits until server 0 heard of all others.
fn await_all(cluster: &Cluster) {
    let is_heard = |peer: &Value| peer["age_seconds"].is_number();
    let peers = || cluster.status(0)["peers"].as_array().expect("peers").clone();
    wait_until("all servers report", || peers().iter().all(is_heard));
}

#[test]
fn files_of_eight_stripes_are_even_on_thirty_five_targets_in_one_burst() {
    wait_until("two bursts met no server that a busy machine kept silent", || {
        let cluster = Cluster::start(&server_toml(5, "backend = \"ram\"\ncapacity = \"16MiB\"").repeat(7));
        await_all(&cluster);
        let mut line = cluster.root(0);
        let is_whole = (0..2).all(|burst| burst_is_whole(&mut line, burst));
        if is_whole {
            let placements = &cluster.status(0)["placements"];
            assert_eq!(placements["stripes"]["balanced"], 2 * 128);
            assert_eq!(placements["targets"].as_object().map(serde_json::Map::len), Some(35));
        }
        is_whole
    });
}

/// Makes 16 files, which are even on all targets, and removes them; false where some targets were not considered.
fn burst_is_whole(line: &mut Line, burst: u32) -> bool {
    let name = |file: usize| format!("file-{burst}-{file}");
    let files: Vec<File> = (0..16).map(|file| make(line, &name(file), "-c 8").expect("made")).collect();
    let records: Vec<Value> = (0..16).map(|file| explanation(line, &name(file)).expect("kept")).collect();
    let is_whole = records.iter().all(|record| record["considered"] == 35);
    let counts = counts(&files);
    if is_whole {
        assert_eq!(counts.len(), 35, "{counts:?}");
        assert_eq!(counts.values().max(), Some(&4), "{counts:?} {records:?}");
    }
    for (file, open) in files.iter().enumerate() {
        line.close(open);
        assert_eq!(line.unlink(&name(file), false), Reply::Done);
    }
    is_whole
}

/// Every file is one write on its one target, as in a job that writes a file for each process.
fn write_files(line: &mut Line, prefix: &str, count: usize) -> Vec<File> {
    let bytes = vec![7; 64 << 10];
    (0..count)
        .map(|number| {
            let mut file = make(line, &format!("{prefix}-{number}"), "-c 1").expect("made");
            line.write(&mut file, 0, &bytes).expect("written");
            file
        })
        .collect()
}

#[test]
fn a_slow_target_is_avoided_after_the_first_files_shown_and_used_again_once_it_is_well() {
    let target_toml =
        "backend = \"ram\"\ncapacity = \"256MiB\"\nspeed = { write = \"100MB/s\", read = \"100MB/s\" }";
    let cluster = Cluster::start(&server_toml(6, target_toml));
    let mut line = cluster.root(0);
    assert_eq!(set_speed(&cluster, 0, "0.3", "{\"write\": \"2MB/s\", \"read\": \"2MB/s\"}"), 200);
    let before = counts(&write_files(&mut line, "before", 60));
    wait_until("the slow target is seen", || target(&cluster, 0, 3)["slow_since"].is_number());
    let slow = target(&cluster, 0, 3);
    let rate = |name: &str| slow[name].as_f64().expect("a rate");
    assert!(rate("achieved_bytes_per_second") < 0.1 * rate("expected_bytes_per_second"), "{slow}");
    assert!(before["0.3"] <= 60 / 6, "{before:?}");
    let after = counts(&write_files(&mut line, "after", 50));
    assert!(!after.contains_key("0.3") && after.len() == 5, "{after:?}");
    assert!(after.values().all(|count| (9..=11).contains(count)), "{after:?}");

    // Requests to files that lie there show that it is well again.
    assert_eq!(set_speed(&cluster, 0, "0.3", "{\"write\": \"100MB/s\", \"read\": \"100MB/s\"}"), 200);
    let mut file = make(&mut line, "there", "-o 0.3").expect("who names it gets it");
    wait_until("it is found well", || {
        line.write(&mut file, 0, &[7; 64 << 10]).expect("written");
        target(&cluster, 0, 3)["slow_since"].is_null()
    });
    let well = counts(&write_files(&mut line, "well", 60));
    assert!(well["0.3"] >= 8, "it gets its part again: {well:?}");
}

#[test]
fn the_speed_of_a_target_is_set_by_who_may_and_taken_away_again() {
    let cluster = Cluster::start(&server_toml(2, "backend = \"ram\"\ncapacity = \"16MiB\""));
    let path = "/v1/targets/0.1/speed";
    assert_eq!(put(&cluster.address(0), path, "{\"write\": \"2MB/s\"}", Caller::Nobody).status, 401);
    assert_eq!(target(&cluster, 0, 1)["speed"], Value::Null);
    assert_eq!(set_speed(&cluster, 0, "0.1", "{\"write\": \"2MB/s\", \"fixed\": \"1ms\"}"), 200);
    let emulated = &target(&cluster, 0, 1)["speed"];
    assert_eq!(
        (&emulated["write_bytes_per_second"], &emulated["fixed_seconds"]),
        (&2_000_000.into(), &0.001.into())
    );
    assert_eq!(set_speed(&cluster, 0, "0.1", "{}"), 200);
    assert_eq!(target(&cluster, 0, 1)["speed"], Value::Null);
    for (name, body, status) in [
        ("0.2", "{}", 404),
        ("1.0", "{}", 404),
        ("x", "{}", 400),
        ("0.1", "{\"write\": \"quick\"}", 400),
        ("0.1", "{\"writes\": \"1MB/s\"}", 400),
        ("0.1", "[", 400),
    ] {
        assert_eq!(set_speed(&cluster, 0, name, body), status, "{name} {body}");
    }
}

#[test]
fn a_dead_server_gets_nothing_until_it_is_back() {
    let mut cluster = Cluster::start(&server_toml(2, "backend = \"ram\"\ncapacity = \"16MiB\"").repeat(3));
    await_all(&cluster);
    let mut line = cluster.root(0);
    let all = make(&mut line, "all", "-c -1").expect("made");
    assert_eq!(all.layout.targets().len(), 6);
    cluster.kill_server(1);
    let mut tries = 0;
    wait_until("server 1 is known to be dead", || {
        tries += 1;
        let refusal = probe(&mut line, &format!("try-{tries}"), "-o 1.0").err();
        assert!(matches!(refusal, None | Some(EHOSTDOWN)), "{refusal:?}");
        refusal.is_some()
    });
    assert_eq!(line.attributes(&format!("try-{tries}")), Err(Errno(2)), "nothing is made half");
    let files: Vec<File> =
        (0..20).map(|file| make(&mut line, &format!("dead-{file}"), "-c 2").expect("made")).collect();
    let found = counts(&files);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["0.0", "0.1", "2.0", "2.1"]);
    assert!(found.values().all(|&count| count == 10), "{found:?}");
    let fewer = make(&mut line, "fewer", "-c 6").expect("as many as there are");
    assert_eq!(fewer.layout.targets().len(), 4);
    assert_eq!(
        explanation(&mut line, "fewer").expect("a record")["dead"]["targets"],
        serde_json::json!(["1.0", "1.1"])
    );

    cluster.start_server(1);
    wait_until("server 1 is back", || {
        tries += 1;
        probe(&mut line, &format!("back-{tries}"), "-o 1.0").is_ok()
    });
    let files: Vec<File> =
        (0..30).map(|file| make(&mut line, &format!("alive-{file}"), "-c 2").expect("made")).collect();
    let found = counts(&files);
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(found.values().all(|count| (5..=15).contains(count)), "no rush to who comes back: {found:?}");
}

/// A report of a server with two idle targets, which has this part of its processors in use.
fn report(server: ServerId, sequence: u64, processors: f32) -> ServerReport {
    let room = TargetRoom { capacity_bytes: 16 << 20, ..TargetRoom::default() };
    let target = |index| TargetReport::idle(TargetId { server, index }, room);
    ServerReport {
        server,
        boot: 1,
        started: u64::MAX,
        sequence,
        load: MachineLoad { processors: Some(processors), memory: Some(0.1), network: None },
        jobs: Vec::new(),
        targets: (0..2).map(target).collect(),
        placed: Vec::new(),
        settings: StoreSettings::default(),
        leaving: Vec::new(),
        quotas: Default::default(),
    }
}

/// Servers 1 and 2 are this test: a machine cannot be made busy at will.
#[test]
fn a_server_whose_machine_is_busy_gets_little() {
    let mut cluster = Cluster::start(&server_toml(2, "backend = \"ram\"\ncapacity = \"16MiB\"").repeat(3));
    let role = Role::Server;
    let mut peers: Vec<(ServerId, Line, f32)> = [(1, 0.95), (2, 0.05)]
        .into_iter()
        .map(|(server, processors)| {
            cluster.kill_server(server);
            let credential = key().mint(Claims { job: format!("server-{server}"), role, ..claims(0) });
            (ServerId(server as u16), cluster.line(0, Transport::Unix, &credential), processors)
        })
        .collect();
    let mut line = cluster.root(0);
    let mut sequence = 0;
    let mut make_one = |name: &str| {
        sequence += 1;
        for (server, peer, processors) in &mut peers {
            let mut payload = Vec::new();
            encode_body(&report(*server, sequence, *processors), &mut payload);
            let (reply, payload) = peer.call(&Request::Peer(PeerRequest::Exchange), &payload);
            assert_eq!(reply, Reply::Peer(PeerReply::Report));
            let told: ServerReport = decode_body(&payload, "report").expect("a report");
            assert!(told.load.memory.is_some_and(|part| (0.0..=1.0).contains(&part)), "{:?}", told.load);
        }
        make(&mut line, name, "-c 1")
    };
    // The report counts from the next exchange on.
    let mut tries = 0;
    wait_until("both servers are known as they are", || {
        tries += 1;
        let name = format!("try-{tries}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        make_one(&name).is_ok() && tries > 10
    });
    let files: Vec<File> = (0..120).map(|file| make_one(&format!("file-{file}")).expect("made")).collect();
    let found = counts(&files);
    let of_server = |server: &str| -> usize {
        found.iter().filter(|(target, _)| target.starts_with(server)).map(|(_, count)| count).sum()
    };
    assert!(of_server("1.") * 5 < of_server("2."), "{found:?}");
    assert!(of_server("2.") >= 40, "{found:?}");
}

#[test]
fn a_server_tells_how_busy_its_machine_is() {
    let cluster = Cluster::start(&server_toml(1, "backend = \"ram\"\ncapacity = \"16MiB\""));
    let is_part = |part: &Value| part.as_f64().is_some_and(|part| (0.0..=1.0).contains(&part));
    wait_until("its memory is known", || is_part(&cluster.status(0)["load"]["memory"]));
    wait_until("its processors were watched for ten seconds", || {
        is_part(&cluster.status(0)["load"]["processors"])
    });
    let metrics = get(&cluster.address(0).control, "/metrics").body;
    let network = cluster.status(0)["load"]["network"].clone();
    assert!(network.is_null() || is_part(&network), "{network}");
    for (name, is_known) in [("processors", true), ("memory", true), ("network", !network.is_null())] {
        let name = format!("\nweir_machine_{name}_ratio ");
        assert_eq!(metrics.contains(&name), is_known, "{name}: {metrics}");
    }
}

#[test]
fn a_full_target_gets_nothing_and_is_refused_by_name() {
    let targets = "[[server]]\n[[server.target]]\nbackend = \"ram\"\ncapacity = \"4MiB\"\n".to_string()
        + &"[[server.target]]\nbackend = \"ram\"\ncapacity = \"64MiB\"\n".repeat(3);
    let cluster = Cluster::start(&targets);
    let mut line = cluster.root(0);
    let mut large = make(&mut line, "large", "-o 0.0").expect("made");
    let mut filled = 0;
    while line.write(&mut large, filled, &[1; 64 << 10]).is_ok() {
        filled += 64 << 10;
    }
    let mut tries = 0;
    wait_until("the target is known to be full", || {
        tries += 1;
        make(&mut line, &format!("try-{tries}"), "-o 0.0").err() == Some(ENOSPC)
    });
    assert_eq!(line.attributes(&format!("try-{tries}")), Err(Errno(2)), "nothing is made half");
    let files: Vec<File> =
        (0..12).map(|file| make(&mut line, &format!("file-{file}"), "-c 2").expect("made")).collect();
    assert_eq!(counts(&files).keys().collect::<Vec<_>>(), ["0.1", "0.2", "0.3"]);
    assert_eq!(make(&mut line, "nowhere", "-o 0.9").unwrap_err(), ENXIO);
    assert_eq!(make(&mut line, "nowhere", "-E 1M -c 1 -E -1 -o 7.0").unwrap_err(), ENXIO);
    assert_eq!(line.attributes("nowhere"), Err(Errno(2)));
    let refused = &cluster.status(0)["placements"]["refused"];
    assert!(refused["full"].as_u64() >= Some(1) && refused["unknown"] == 2, "{refused}");
    assert_eq!(line.unlink("large", false), Reply::Done);
    line.close(&large);
    wait_until("it has room again", || {
        tries += 1;
        make(&mut line, &format!("try-{tries}"), "-o 0.0").is_ok()
    });
}

#[test]
fn layouts_and_their_reasons_outlive_the_server() {
    let mut cluster = Cluster::start(&dir(1));
    let mut line = cluster.root(0);
    let mut known = BTreeMap::new();
    for (name, layout) in
        [("one", "-c 1"), ("two", "-c 2"), ("named", "-o 0.1"), ("many", "-E 1M -c 1 -E -1 -c 2")]
    {
        let file = make(&mut line, name, layout).expect("made");
        known.insert(name, (file.layout.clone(), explanation(&mut line, name).expect("a record")));
    }
    assert_eq!(known["one"].1["by"], "balanced");
    assert_eq!(known["named"].1["by"], "explicit");
    assert_eq!(known["named"].1["chosen"][0]["target"], "0.1");
    assert_eq!(known["two"].1["considered"], 2);
    assert_eq!(known["many"].1["chosen"].as_array().map(Vec::len), Some(3), "of each stripe");
    cluster.kill_server(0);
    cluster.start_server(0);
    let mut line = cluster.root(0);
    for (name, (layout, why)) in known {
        let file = line.open(name, OpenFlags { create: false, ..READ_WRITE }).expect("it is there");
        assert_eq!(file.layout, layout, "{name}");
        assert_eq!(explanation(&mut line, name), Ok(why), "{name}");
    }
    let mut set = |name: &[u8]| {
        let at = At::new(Ino::ROOT, "one");
        let mode = weir_wire::XattrMode::Set;
        line.call(&Request::XattrSet { at, follow: true, name: name.to_vec(), mode }, b"x").0
    };
    assert_eq!(set(b"weir.placement"), Reply::Failed(Errno(1)), "nobody sets it");
    assert_eq!(explanation(&mut line, ""), Err(Errno(61)), "a directory lies nowhere");
}

#[test]
fn the_allocator_is_changed_while_the_server_runs() {
    let layout = "[layout]\nallocator = \"random\"\nstripe_count = 1\n";
    let target = "backend = \"ram\"\ncapacity = \"16MiB\"";
    let cluster = Cluster::start(&format!("{layout}{}", server_toml(4, target)));
    let address = cluster.address(0);
    let holder = administrator();
    let mut line = cluster.root(0);
    make(&mut line, "random", "-c 1").expect("made");
    let set = |name: &str, caller| {
        put(&address, "/v1/allocator", &format!("{{\"allocator\": \"{name}\"}}"), caller)
    };
    assert_eq!(set("lustre-standard", Caller::Nobody).status, 401);
    let wrong = set("best", Caller::Sealed(&holder));
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("balanced, lustre-standard, random"), "{}", wrong.body);
    assert_eq!(set("lustre-standard", Caller::Sealed(&holder)).status, 200);
    assert_eq!(cluster.show(0, "/v1/allocator")["allocator"], "lustre-standard");
    let files: Vec<File> =
        (0..40).map(|file| make(&mut line, &format!("file-{file}"), "-c 1").expect("made")).collect();
    let counts = counts(&files);
    assert!(counts.len() == 4 && counts.values().all(|&count| count == 10), "in turn: {counts:?}");
    assert_eq!(explanation(&mut line, "random").expect("a record")["by"], "random");
    assert_eq!(explanation(&mut line, "file-0").expect("a record")["by"], "lustre-standard");
    let stripes = &cluster.status(0)["placements"]["stripes"];
    assert_eq!(stripes, &serde_json::json!({"lustre-standard": 40, "random": 1}));
}
