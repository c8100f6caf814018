//! Jobs share emulated devices by the policy in force, the policy changes under them, and the account is public.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weir_testing::{
    claims, get, key, put, server_toml, wait_until, Caller, Cluster, Line, Stop, Transport, READ_WRITE,
};
use weir_wire::{Claims, Credential};

/// Two jobs at work: "large" of 4 nodes with a third of the connections, "small" of 1 node with the others.
struct Scene {
    cluster: Cluster,
}

/// So many that a job still has requests queued where a busy machine wakes its threads late.
const CONNECTIONS: [(&str, u32, usize); 2] = [("large", 4, 12), ("small", 1, 24)];
/// The distance that a share may have from the share that is owed: requests in service when an interval ends.
const TOLERANCE: f64 = 0.05;
/// Requests that are served in one look at the shares, and looks until a share has to be right.
const REQUESTS: u64 = 1_000;
const LOOKS_MAX: usize = 8;

fn job(name: &str, nodes: u32) -> Credential {
    key().mint(Claims { job: name.into(), nodes, ..claims(1000 + nodes) })
}

/// One target of two milliseconds a request, so that the device and not the processor is shared.
fn slow_server(policy: &str) -> Cluster {
    let target = "backend = \"ram\"\ncapacity = \"256MiB\"\nspeed = { fixed = \"2ms\" }";
    let server = server_toml(1, target);
    let server = server.replacen("[[server]]", "[[server]]\nmetadata_speed = { fixed = \"20us\" }", 1);
    Cluster::start(&format!("policy = \"{policy}\"\n{server}"))
}

/// Sets a policy, and a scheduler where one is named.
fn set_sharing(cluster: &Cluster, policy: &str, scheduler: Option<&str>) {
    let scheduler = scheduler.map_or(String::new(), |name| format!(",\"scheduler\":\"{name}\""));
    let body = format!("{{\"policy\":\"{policy}\"{scheduler}}}");
    let answer = cluster.put(0, "/v1/policy", &body);
    assert_eq!(answer.status, 200, "{body}: {}", answer.body);
    let in_force = cluster.show(0, "/v1/policy");
    assert_eq!(serde_json::from_str::<Value>(&answer.body).expect("JSON"), in_force);
    assert_eq!(in_force["policy"], policy);
    assert_eq!(cluster.status(0)["scheduler"], in_force["scheduler"]);
}

/// The entry of a job in `/v1/jobs`.
fn entry(cluster: &Cluster, job: &str) -> Value {
    let jobs = cluster.show(0, "/v1/jobs");
    let found = jobs["jobs"].as_array().expect("jobs").iter().find(|entry| entry["job"] == job);
    found.unwrap_or_else(|| panic!("no job {job} in {jobs}")).clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

impl Scene {
    fn new(policy: &str) -> Scene {
        let cluster = slow_server(policy);
        let mut root = cluster.root(0);
        for (name, ..) in CONNECTIONS {
            let change = weir_wire::AttributeChange { permissions: Some(0o777), ..Default::default() };
            let mut file = root.open(name, READ_WRITE).expect("opened");
            let at = weir_wire::At::inode(file.ino);
            root.reply(&weir_wire::Request::Change { at, follow: false, change });
            root.write(&mut file, 0, &[1; 4096]).expect("written");
        }
        Scene { cluster }
    }

    /// Runs both jobs while `watch` looks on; answers how many requests each job sent and had answered.
    fn run(&self, watch: impl FnOnce()) -> [u64; 2] {
        let stop = AtomicBool::new(false);
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            let stopping = Stop::at_end(&stop);
            for ((name, nodes, connections), count) in CONNECTIONS.into_iter().zip(&counts) {
                for _ in 0..connections {
                    let mut line = self.cluster.line(0, Transport::Unix, &job(name, nodes));
                    let stop = &stop;
                    scope.spawn(move || keep_reading(&mut line, name, stop, count));
                }
            }
            wait_until("both jobs run", || counts.iter().all(|count| count.load(Ordering::Relaxed) > 50));
            watch();
            drop(stopping);
        });
        counts.map(AtomicU64::into_inner)
    }

    /// Share owed and received by each job while it was active between two moments, apart by `requests` served.
    fn shares(&self, requests: u64) -> BTreeMap<String, (f64, f64)> {
        let before = self.accounts();
        let served = |accounts: &BTreeMap<String, [f64; 4]>| accounts.values().map(|job| job[3]).sum::<f64>();
        let goal = served(&before) + requests as f64;
        wait_until("enough is served", || served(&self.accounts()) >= goal);
        let share = |(name, after): (String, [f64; 4])| {
            let before = before[&name];
            let contended = after[0] - before[0];
            (name, ((after[1] - before[1]) / contended, (after[2] - before[2]) / contended))
        };
        self.accounts().into_iter().map(share).collect()
    }

    /// As [`Scene::shares`], where `job` receives about `expected`; else those of the last of some looks. On a machine that is busy
    /// enough all threads of a job may be late at once, and what the job leaves then goes to the other.
    fn shares_near(&self, policy: &str, job: &str, expected: f64) -> BTreeMap<String, (f64, f64)> {
        let mut shares = BTreeMap::new();
        for _ in 0..LOOKS_MAX {
            shares = self.shares(REQUESTS);
            println!("{policy}: {shares:?}");
            if (shares[job].1 - expected).abs() < TOLERANCE {
                break;
            }
        }
        shares
    }

    /// Seconds contended, owed and received, and operations of each job.
    fn accounts(&self) -> BTreeMap<String, [f64; 4]> {
        let jobs = self.cluster.show(0, "/v1/jobs");
        let names = ["contended_seconds", "owed_seconds", "received_seconds", "operations"];
        let line = |job: &Value| {
            let figures = names.map(|name| job[name].as_f64().expect("a number"));
            (job["job"].as_str().expect("a name").to_string(), figures)
        };
        let jobs = jobs["jobs"].as_array().expect("jobs");
        jobs.iter().map(line).filter(|(name, _)| CONNECTIONS.iter().any(|(job, ..)| job == name)).collect()
    }

    fn set_policy(&self, policy: &str) {
        set_sharing(&self.cluster, policy, None);
        assert_eq!(self.cluster.status(0)["policy"], policy);
    }
}

fn keep_reading(line: &mut Line, name: &str, stop: &AtomicBool, count: &AtomicU64) {
    let file = line.open(name, READ_WRITE).expect("opened");
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(line.read(&file, 0, 4096).expect("read"), [1; 4096]);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_near(what: &str, value: f64, expected: f64) {
    assert!((value - expected).abs() < TOLERANCE, "{what} is {value:.3}, expected {expected:.3}");
}

#[test]
fn each_policy_divides_a_device_as_it_says_and_a_switch_loses_nothing() {
    let scene = Scene::new("size-fair");
    let answered = scene.run(|| {
        let owed = [("size-fair", [0.8, 0.2]), ("job-fair", [0.5, 0.5]), ("size-fair", [0.8, 0.2])];
        for (policy, expected) in owed {
            scene.set_policy(policy);
            let shares = scene.shares_near(policy, "large", expected[0]);
            for ((name, ..), expected) in CONNECTIONS.into_iter().zip(expected) {
                let (owed, received) = shares[name];
                is_near(&format!("what {policy} owes {name}"), owed, expected);
                is_near(&format!("what {name} receives under {policy}"), received, expected);
            }
        }
        scene.set_policy("fifo");
        let shares = scene.shares_near("fifo", "large", 1.0 / 3.0);
        is_near("what large receives with a third of the connections", shares["large"].1, 1.0 / 3.0);
    });
    let operations = scene.accounts();
    for ((name, ..), answered) in CONNECTIONS.into_iter().zip(answered) {
        let opens =
            CONNECTIONS.iter().find(|(job, ..)| *job == name).map_or(0, |(_, _, count)| *count as u64);
        assert_eq!(
            operations[name][3],
            (answered + opens) as f64,
            "every request of {name} is accounted once"
        );
    }
    scene.cluster.await_figure(0, "outstanding", 0);
}

/// The law of `crates/simulator/tests/all/beside_a_flood.rs` on a real store. The store's own account counts the device time
/// that the flood received while the job waited, so a busy machine, which slows both, does not count.
#[test]
fn a_job_of_one_request_at_a_time_waits_no_longer_by_its_share_than_in_the_order_of_arrival() {
    const REQUESTS: u32 = 60;
    const REQUEST_SECONDS: f64 = 0.002;
    let scene = Scene::new("fifo");
    let wait_seconds = |policy: &str| {
        scene.set_policy(policy);
        let name = format!("one-by-one-under-{policy}");
        let mut line = scene.cluster.line(0, Transport::Unix, &job(&name, 4));
        let file = line.open("large", READ_WRITE).expect("opened");
        (0..REQUESTS).for_each(|_| assert_eq!(line.read(&file, 0, 4096).expect("read"), [1; 4096]));
        wait_until("its requests are accounted", || {
            let jobs = scene.cluster.show(0, "/v1/jobs");
            let is_done = |entry: &Value| entry["job"] == *name && entry["operations"] == REQUESTS + 1;
            jobs["jobs"].as_array().expect("jobs").iter().any(is_done)
        });
        let entry = entry(&scene.cluster, &name);
        let others =
            entry["waited_for"].as_array().expect("a list").iter().map(|other| number(&other["seconds"]));
        (others.sum::<f64>() + number(&entry["waited_for_others_seconds"])) / f64::from(REQUESTS)
    };
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let waits = std::thread::scope(|scope| {
        let _stopping = Stop::at_end(&stop);
        let (name, nodes, connections) = CONNECTIONS[1];
        for _ in 0..connections {
            let mut line = scene.cluster.line(0, Transport::Unix, &job(name, nodes));
            let (stop, count) = (&stop, &count);
            scope.spawn(move || keep_reading(&mut line, name, stop, count));
        }
        wait_until("the flood runs", || count.load(Ordering::Relaxed) > 50);
        ["fifo", "size-fair"].map(wait_seconds)
    });
    println!("seconds of a wait under fifo, and under size-fair: {waits:?}");
    assert!(waits[1] <= waits[0] + REQUEST_SECONDS, "{waits:?}");
}

#[test]
fn a_policy_that_changes_all_the_time_loses_no_request() {
    let scene = Scene::new("fifo");
    scene.run(|| {
        for round in 0..60 {
            scene.set_policy(["size-fair", "fifo", "job-fair"][round % 3]);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    scene.cluster.await_figure(0, "outstanding", 0);
    assert_eq!(scene.cluster.log(0).matches("weir-server: policy ").count(), 60, "each change is logged");
}

#[test]
fn the_account_says_what_was_charged_where_and_who_waited_for_whom() {
    let scene = Scene::new("size-fair");
    let owed_on_target = |job: &str| {
        let entry = entry(&scene.cluster, job);
        let devices = entry["devices"].as_array().expect("devices");
        let target = devices.iter().find(|device| device["device"] == "0.0").expect("the target");
        number(&target["share_owed"])
    };
    let mut metrics = BTreeMap::new();
    scene.run(|| {
        scene.shares(500);
        wait_until("both are owed their shares of the target at once", || {
            (owed_on_target("large"), owed_on_target("small")) == (0.8, 0.2)
        });
        metrics = parse(&get(&scene.cluster.address(0).control, "/metrics").body).1;
    });
    scene.cluster.await_figure(0, "outstanding", 0);
    wait_until("an idle job is owed nothing", || owed_on_target("large") == 0.0);

    let waits = &metrics["weir_job_waited_for_seconds_total"];
    for (name, other) in [("large", "small"), ("small", "large")] {
        let waited =
            waits.iter().find(|(labels, _)| [&labels["job_name"], &labels["for_job_name"]] == [name, other]);
        let (labels, seconds) =
            waited.unwrap_or_else(|| panic!("{name} does not wait for {other}: {waits:?}"));
        assert!(*seconds > 0.0, "{waits:?}");
        let names: Vec<&str> = labels.keys().map(String::as_str).collect();
        assert_eq!(names, ["for_job_name", "for_uid", "for_user", "group", "job_name", "uid", "user"]);
        let (entry, other_entry) = (entry(&scene.cluster, name), entry(&scene.cluster, other));
        let spent = number(&entry["device_seconds"]);
        assert!((number(&entry["charged_seconds"]) - spent).abs() < 1e-9, "the speeds are known: {entry}");
        let devices = entry["devices"].as_array().expect("devices");
        let names: Vec<&str> = devices.iter().filter_map(|device| device["device"].as_str()).collect();
        assert_eq!(names, ["0.0", "0.metadata"]);
        let sum: f64 = devices.iter().map(|device| number(&device["device_seconds"])).sum();
        assert!((sum - spent).abs() < 1e-9, "{entry}");

        let waits =
            ["median", "p90", "p99", "max"].map(|name| number(&entry[format!("queue_wait_seconds_{name}")]));
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{entry}");
        let total = number(&entry["queue_wait_seconds_total"]);
        assert!(total > 0.0 && total <= waits[3] * number(&entry["operations"]), "{entry}");

        let waited_for = entry["waited_for"].as_array().expect("a list");
        assert!(waited_for.iter().all(|waited| waited["job"] != name), "nobody waits for itself: {entry}");
        let first = &waited_for[0];
        assert_eq!(first["job"], other, "{entry}");
        assert_eq!(first["user"], other_entry["user"]);
        let waited = number(&first["seconds"]);
        assert!(
            waited > 0.0 && waited <= number(&other_entry["device_seconds"]) + 1e-9,
            "{entry}\n{other_entry}"
        );
    }
}

/// Requests that end within the call that carries them out were accounted no time, so metadata and appends were free.
#[test]
fn metadata_and_appends_take_device_time() {
    let cluster = Cluster::start(&server_toml(1, "backend = \"ram\"\ncapacity = \"64MiB\""));
    let mut line = cluster.root(0);
    let file = line.open("log", READ_WRITE).expect("opened");
    for _ in 0..200 {
        line.attributes("log").expect("it is there");
        let append = weir_wire::Request::Append { capability: file.capability };
        let (reply, _) = line.call(&append, &[1; 4096]);
        assert!(matches!(reply, weir_wire::Reply::Appended { .. }), "{reply:?}");
    }
    let devices = entry(&cluster, "job-of-0")["devices"].clone();
    for device in devices.as_array().expect("devices") {
        // Even a fast processor needs more than 100 ns for each.
        assert!(number(&device["device_seconds"]) > 2e-5, "{devices}");
    }
    assert_eq!(devices.as_array().map(Vec::len), Some(2), "{devices}");
}

#[test]
fn the_cost_of_each_device_is_told_as_it_is_known_or_learned() {
    let speed = "speed = { read = \"200MB/s\", write = \"100MB/s\", fixed = \"300us\" }";
    let target =
        |speed: &str| format!("[[server.target]]\nbackend = \"ram\"\ncapacity = \"64MiB\"\n{speed}\n");
    let layout = "[layout]\nstripe_count = 2\nstripe_size = \"64k\"\n";
    let cluster = Cluster::start(&format!("{layout}[[server]]\n{}{}", target(speed), target("")));
    let before = cluster.status(0);
    let mut line = cluster.root(0);
    let mut file = line.open("file", READ_WRITE).expect("opened");
    for _ in 0..50 {
        line.write(&mut file, 0, &[1; 2 << 16]).expect("written");
        line.attributes("file").expect("it is there");
    }
    let after = cluster.status(0);
    let known = serde_json::json!({
        "read": {"fixed_seconds": 3e-4, "bytes_per_second": 200_000_000},
        "write": {"fixed_seconds": 3e-4, "bytes_per_second": 100_000_000},
    });
    assert_eq!(after["targets"][0]["cost"], known, "emulated");
    let (learned, prior) = (&after["targets"][1]["cost"], &before["targets"][1]["cost"]);
    assert_ne!(learned["write"], prior["write"], "written");
    assert_eq!(learned["read"], prior["read"], "not read");
    assert_ne!(after["metadata"]["cost"]["read"], before["metadata"]["cost"]["read"]);
    for cost in [learned, &after["metadata"]["cost"]] {
        for direction in ["read", "write"] {
            assert!(number(&cost[direction]["fixed_seconds"]) >= 0.0, "{cost}");
        }
    }
    let (_, samples) = parse(&get(&cluster.address(0).control, "/metrics").body);
    let fixed = &samples["weir_device_cost_fixed_seconds"];
    let of = |device: &str| fixed.iter().filter(|(labels, _)| labels["device"] == device).count();
    assert_eq!([of("0.0"), of("0.1"), of("0.metadata")], [2, 2, 2], "{fixed:?}");
    let rates = &samples["weir_device_cost_bytes_per_second"];
    let written =
        |labels: &BTreeMap<String, String>| labels["device"] == "0.0" && labels["direction"] == "write";
    assert!(rates.iter().any(|(labels, rate)| written(labels) && *rate == 1e8), "{rates:?}");
}

const FLOOD_CONNECTIONS: usize = 3;
const FLOOD_BYTES: usize = 16 * 1024;

/// The bytes that connection `number` writes in `round`.
fn pattern(number: usize, round: u64) -> Vec<u8> {
    let first = (number as u64 * 1_000_003 + round) * 2_654_435_761;
    (0..FLOOD_BYTES as u64).map(|at| ((first + at * 97) >> 7) as u8).collect()
}

/// Writes other bytes to a file of its own and reads them back, again and again; answers the last round.
fn keep_verifying(mut line: Line, number: usize, stop: &AtomicBool, count: &AtomicU64) -> u64 {
    let mut file = line.open(&format!("flood-{number}"), READ_WRITE).expect("opened");
    let mut round = 0;
    loop {
        let bytes = pattern(number, round);
        line.write(&mut file, 0, &bytes).expect("written");
        assert!(
            line.read(&file, 0, FLOOD_BYTES).expect("read") == bytes,
            "connection {number}, round {round}"
        );
        count.fetch_add(2, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            return round;
        }
        round += 1;
    }
}

#[test]
fn a_flood_keeps_every_byte_under_every_scheduler_and_while_it_changes() {
    let cluster = slow_server("size-fair");
    let mut root = cluster.root(0);
    let change = weir_wire::AttributeChange { permissions: Some(0o777), ..Default::default() };
    let at = weir_wire::At::inode(weir_wire::Ino::ROOT);
    root.reply(&weir_wire::Request::Change { at, follow: false, change });

    let jobs = [("large", 4), ("middle", 2), ("small", 1)];
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let rounds: Vec<u64> = std::thread::scope(|scope| {
        let stopping = Stop::at_end(&stop);
        let connections = (0..jobs.len() * FLOOD_CONNECTIONS).map(|number| {
            let (name, nodes) = jobs[number % jobs.len()];
            let line = cluster.line(0, Transport::Unix, &job(name, nodes));
            let (stop, count) = (&stop, &count);
            scope.spawn(move || keep_verifying(line, number, stop, count))
        });
        let connections: Vec<_> = connections.collect();
        for _ in 0..2 {
            for scheduler in weir_fairshare::Algorithm::NAMES {
                let policy = if scheduler == "fifo" { "fifo" } else { "user-then-size-fair" };
                set_sharing(&cluster, policy, Some(scheduler));
                assert_eq!(cluster.status(0)["scheduler"], scheduler);
                let goal = count.load(Ordering::Relaxed) + 150;
                wait_until(&format!("{scheduler} serves"), || count.load(Ordering::Relaxed) >= goal);
            }
            set_sharing(&cluster, "user-fair", None);
        }
        drop(stopping);
        connections.into_iter().map(|connection| connection.join().expect("every byte is right")).collect()
    });
    cluster.await_figure(0, "outstanding", 0);
    for (number, round) in rounds.into_iter().enumerate() {
        let file = root.open(&format!("flood-{number}"), READ_WRITE).expect("opened");
        assert!(root.read(&file, 0, FLOOD_BYTES).expect("read") == pattern(number, round), "{number}");
    }
}

#[test]
fn the_policy_is_changed_by_the_site_alone_and_by_a_name_that_exists() {
    let cluster = slow_server("size-fair");
    let control = cluster.address(0).control;
    let body = r#"{"policy":"fifo"}"#;
    for caller in [Caller::Nobody, Caller::Token("0000"), Caller::Token("")] {
        let answer = put(&cluster.address(0), "/v1/policy", body, caller);
        assert_eq!(answer.status, 401, "{}", answer.body);
    }
    let unknown = cluster.put(0, "/v1/policy", r#"{"policy":"fastest"}"#);
    assert_eq!(unknown.status, 400);
    for policy in weir_fairshare::Policy::NAMES {
        assert!(unknown.body.contains(policy), "{} does not name {policy}", unknown.body);
    }
    let unknown_scheduler = r#"{"policy":"job-fair","scheduler":"lottery"}"#;
    let unknown_scheduler = cluster.put(0, "/v1/policy", unknown_scheduler);
    assert_eq!(unknown_scheduler.status, 400);
    for scheduler in weir_fairshare::Algorithm::NAMES {
        assert!(unknown_scheduler.body.contains(scheduler), "{}", unknown_scheduler.body);
    }
    for unfit in [r#"{"policy":"fifo","scheduler":"tbf"}"#, r#"{"policy":"job-fair","scheduler":"fifo"}"#] {
        let answer = cluster.put(0, "/v1/policy", unfit);
        assert!(answer.status == 400 && answer.body.contains("cannot enforce"), "{}", answer.body);
    }
    for wrong in ["", "{}", "[1", r#"{"policy":3}"#, r#"{"policy":"fifo","speed":1}"#] {
        assert_eq!(cluster.put(0, "/v1/policy", wrong).status, 400, "{wrong}");
    }
    let failure: Value = serde_json::from_str(&unknown.body).expect("JSON");
    assert!(failure["error"].is_string() && failure["hint"].is_string(), "{failure}");
    assert_eq!(get(&control, "/v1/nothing").status, 404);
    let in_force = cluster.show(0, "/v1/policy");
    assert_eq!((&in_force["policy"], &in_force["scheduler"]), (&"size-fair".into(), &"virtual-time".into()));
}

#[test]
fn a_scheduler_that_keeps_no_limits_is_refused_where_the_site_has_some() {
    let server = server_toml(1, "backend = \"ram\"\ncapacity = \"64MiB\"");
    let cluster = Cluster::start(&format!("[[share]]\nuser = \"user-1\"\nlimit = \"50%\"\n{server}"));
    for body in [r#"{"policy":"job-fair","scheduler":"gift"}"#, r#"{"policy":"fifo"}"#] {
        let answer = cluster.put(0, "/v1/policy", body);
        assert!(
            answer.status == 400 && answer.body.contains("no reservations and limits"),
            "{}",
            answer.body
        );
    }
    set_sharing(&cluster, "job-fair", Some("virtual-time"));
}

/// A caller that announced a body and sent none once took the control API away from everyone, and a large number
/// ended the server.
#[test]
fn a_caller_that_sends_no_body_harms_nobody() {
    let mut cluster = slow_server("fifo");
    let control = cluster.address(0).control;
    let mut stalled = Vec::new();
    for length in ["100", "4000", "1000000", "99999999999999", "99999999999999999999999"] {
        let mut stream = std::net::TcpStream::connect(&control).expect("it listens");
        let request = format!("PUT /v1/policy HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{");
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
        stalled.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(cluster.show(0, "/v1/policy")["policy"], "fifo");
    }
    drop(stalled);
    cluster.assert_running(0);
}

/// One sample of an exposition: its labels and value.
type Sample = (BTreeMap<String, String>, f64);

/// Reads an exposition in the text format, checking its grammar: types before samples, names, labels, values.
fn parse(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, Vec<Sample>>) {
    let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::<String, Vec<Sample>>::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').expect("a word");
            let (name, value) = rest.split_once(' ').expect("a name");
            if word == "TYPE" {
                assert!(types.insert(name.to_string(), value.to_string()).is_none(), "{name} twice");
            }
            continue;
        }
        let (name, labels, value) = match line.split_once('{') {
            Some((name, rest)) => {
                let (labels, value) = rest.rsplit_once("} ").expect("closed labels");
                (name, labels, value)
            }
            None => {
                let (name, value) = line.split_once(' ').expect("a value");
                (name, "", value)
            }
        };
        let pairs = labels.split(',').filter(|pair| !pair.is_empty());
        let labels = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').expect("a label");
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("quotes");
            (key.to_string(), value.to_string())
        });
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        samples.entry(name.to_string()).or_default().push((labels.collect(), value));
    }
    (types, samples)
}

#[test]
fn metrics_are_what_is_declared() {
    let cluster = slow_server("size-fair");
    let mut line = cluster.line(0, Transport::Unix, &job("metered", 4));
    let mut root = cluster.root(0);
    let change = weir_wire::AttributeChange { permissions: Some(0o777), ..Default::default() };
    let at = weir_wire::At::inode(weir_wire::Ino::ROOT);
    root.reply(&weir_wire::Request::Change { at, follow: false, change });
    let mut file = line.open("file", READ_WRITE).expect("opened");
    line.write(&mut file, 0, &[5; 10_000]).expect("written");
    line.read(&file, 0, 3_000).expect("read");
    let text = get(&cluster.address(0).control, "/metrics").body;
    let (types, samples) = parse(&text);

    let job_labels = ["group", "job_name", "uid", "user"];
    let user_labels = ["group", "uid", "user"];
    for (name, kind, labels) in [
        ("weir_user_operations", "counter", &user_labels[..]),
        ("weir_user_read_bytes", "counter", &user_labels),
        ("weir_user_written_bytes", "counter", &user_labels),
        ("weir_user_charged_seconds", "counter", &user_labels),
        ("weir_user_device_seconds", "counter", &user_labels),
        ("weir_jobs_left_out", "gauge", &[]),
        ("weir_job_operations", "counter", &job_labels[..]),
        ("weir_job_read_bytes", "counter", &job_labels),
        ("weir_job_written_bytes", "counter", &job_labels),
        ("weir_job_charged_seconds", "counter", &job_labels),
        ("weir_job_device_seconds", "counter", &job_labels),
        ("weir_job_share_owed_ratio", "gauge", &job_labels),
        ("weir_job_share_received_ratio", "gauge", &job_labels),
        ("weir_job_active", "gauge", &job_labels),
        ("weir_job_queue_wait_seconds", "histogram", &job_labels),
        ("weir_target_capacity_bytes", "gauge", &["backend", "target"]),
        ("weir_target_used_bytes", "gauge", &["backend", "target"]),
        ("weir_target_spare_bytes", "gauge", &["backend", "target"]),
        ("weir_target_load_ratio", "gauge", &["backend", "target"]),
        ("weir_target_queued_requests", "gauge", &["backend", "target"]),
        ("weir_target_latency_seconds", "gauge", &["backend", "target"]),
        ("weir_device_operations", "counter", &["device", "direction"]),
        ("weir_device_bytes", "counter", &["device", "direction"]),
        ("weir_device_request_seconds", "histogram", &["device", "direction"]),
        ("weir_device_cost_fixed_seconds", "gauge", &["device", "direction"]),
        ("weir_target_speed_ratio", "gauge", &["class", "target"]),
        ("weir_target_slow", "gauge", &["class", "target"]),
        ("weir_placement_stripes", "counter", &["allocator"]),
        ("weir_placement_target_stripes", "counter", &["target"]),
        ("weir_quota_used_ratio_max", "gauge", &["of"]),
        ("weir_quota_owners_near", "gauge", &["of"]),
        ("weir_server_info", "gauge", &["server", "version"]),
        ("weir_connections", "gauge", &[]),
        ("weir_requests_outstanding", "gauge", &[]),
        ("weir_held_bytes", "gauge", &[]),
        ("weir_kept_bytes", "gauge", &[]),
        ("weir_kept_bytes_max", "gauge", &[]),
        ("weir_inodes", "gauge", &[]),
        ("weir_taken_ports", "gauge", &[]),
        ("weir_unpublished_bytes", "gauge", &[]),
        ("weir_metadata_load_ratio", "gauge", &[]),
        ("weir_machine_memory_ratio", "gauge", &[]),
        ("weir_uptime_seconds", "gauge", &[]),
        ("weir_credentials_refused", "counter", &[]),
        ("weir_frames_malformed", "counter", &[]),
    ] {
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_string() };
        assert_eq!(types.get(&name).map(String::as_str), Some(kind), "{name}");
        let suffix = if kind == "histogram" { "_count" } else { "" };
        let found = samples.get(&format!("{name}{suffix}")).unwrap_or_else(|| panic!("no sample of {name}"));
        for (found, _) in found {
            assert_eq!(found.keys().collect::<Vec<_>>(), labels, "{name}");
        }
    }
    // These have samples only of jobs that waited, devices where bytes cost something or that answered an error,
    // refusals, targets that served more than one request of a size, stores with another server, and machines that
    // were watched for long enough.
    assert_eq!(types.get("weir_job_waited_for_seconds_total").map(String::as_str), Some("counter"));
    assert_eq!(types.get("weir_device_cost_bytes_per_second").map(String::as_str), Some("gauge"));
    assert_eq!(types.get("weir_placement_refused_total").map(String::as_str), Some("counter"));
    assert_eq!(types.get("weir_device_errors_total").map(String::as_str), Some("counter"));
    assert_eq!(types.get("weir_peer_report_age_seconds_max").map(String::as_str), Some("gauge"));
    for name in ["weir_target_achieved_bytes_per_second", "weir_target_expected_bytes_per_second"] {
        assert_eq!(types.get(name).map(String::as_str), Some("gauge"));
    }
    for name in ["weir_machine_processors_ratio", "weir_machine_network_ratio"] {
        assert_eq!(types.get(name).map(String::as_str), Some("gauge"));
    }
    assert_eq!(types.len(), 56, "every metric is in the list above");

    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).expect("the reference page");
    for name in types.keys() {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/reference/metrics.md");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
    }

    let of_job = |name: &str| {
        let samples = samples[name].iter();
        let found: Vec<&Sample> = samples.filter(|(labels, _)| labels["job_name"] == "metered").collect();
        found.iter().map(|(labels, value)| (labels.get("le").cloned(), *value)).collect::<Vec<_>>()
    };
    assert_eq!(of_job("weir_job_written_bytes_total"), [(None, 10_000.0)]);
    assert_eq!(of_job("weir_job_read_bytes_total"), [(None, 3_000.0)]);
    assert_eq!(of_job("weir_job_operations_total"), [(None, 3.0)]);
    let buckets = of_job("weir_job_queue_wait_seconds_bucket");
    assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "buckets add up: {buckets:?}");
    assert_eq!(buckets.last(), Some(&(Some("+Inf".into()), 3.0)));
    assert_eq!(of_job("weir_job_queue_wait_seconds_count"), [(None, 3.0)]);
}
