//! Targets join and leave a store by the control API: what every server makes of it, over restarts and silent servers.

use serde_json::Value;
use std::collections::BTreeMap;
use weir_testing::{
    administrator, dir, key, put, ram, servers, wait_until, Caller, Choices, Cluster, Transport, READ_WRITE,
};
use weir_wire::{limits, Extent, Fence, OpenFlags, Reply, Request, SiteKey};

const DIR: &str = "{\"backend\": \"dir\", \"capacity\": \"64MiB\"}";
const RAM: &str = "{\"backend\": \"ram\", \"capacity\": \"64MiB\"}";
const RETIRING: &str = "{\"state\": \"retiring\"}";
const RETIRED: &str = "{\"state\": \"retired\"}";
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..READ_WRITE };

/// The targets that a server shows, each with its state.
fn states(cluster: &Cluster, server: usize) -> Vec<(String, String)> {
    let targets = cluster.status(server)["targets"].as_array().expect("targets").clone();
    let text = |target: &Value, key: &str| target[key].as_str().expect("a text").to_string();
    targets.iter().map(|target| (text(target, "target"), text(target, "state"))).collect()
}

/// The targets of the stripes of new files, made at this server's tree.
fn stripes(cluster: &Cluster, server: usize, label: &str) -> BTreeMap<String, u64> {
    let mut line = cluster.root(server);
    let mut found = BTreeMap::new();
    for number in 0..24 {
        let file = line.open(&format!("{label}-{number}"), EXCLUSIVE).expect("made");
        for target in file.layout.targets() {
            *found.entry(target.to_string()).or_default() += 1;
        }
        line.close(&file);
    }
    found
}

#[test]
fn a_target_joins_at_once_and_stays_over_a_restart_without_a_word_in_the_file() {
    for (toml, body) in [(dir(2), DIR), (ram(2, "64MiB"), RAM)] {
        let mut cluster = Cluster::start(&toml);
        assert_eq!(cluster.change_target(1, "1.2", body).status, 200);
        assert_eq!(cluster.change_target(1, "1.2", body).status, 200, "a repeated request changes nothing");
        assert_eq!(cluster.status(1)["target_numbers"], 3);
        wait_until("the other home places files on it", || {
            let found = stripes(&cluster, 0, &random_label());
            found.get("1.2").is_some_and(|&count| count == 24) && found.len() == 5
        });
        for server in [1, 0] {
            cluster.kill_server(server);
            cluster.start_server(server);
        }
        assert_eq!(states(&cluster, 1).len(), 3, "the file has two");
        wait_until("its home and its server know it", || stripes(&cluster, 0, &random_label()).len() == 5);
    }
}

fn random_label() -> String {
    format!("label-{}", Choices::new().below(u64::MAX))
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let cluster = Cluster::start(&servers(1, 2, "dir", "64MiB"));
    let folder = cluster.folder().display().to_string();
    let before = (cluster.status(0)["target_numbers"].clone(), states(&cluster, 0));
    for (path, body, status, words) in [
        ("0.2", RAM.to_string(), 409, "keeps nothing over a restart"),
        ("0.3", DIR.into(), 409, "not the next target"),
        ("0.1", RAM.into(), 409, "was given to another target"),
        ("1.0", DIR.into(), 404, "not one of this server"),
        ("0.1+1", DIR.into(), 404, "not one of this server"),
        ("0.2", "{}".into(), 400, "missing field `backend`"),
        ("0.2", "{\"backend\": \"tape\"}".into(), 400, "unknown variant `tape`"),
        ("0.2", "{\"backend\": \"dir\", \"capacity\": 5}".into(), 400, "capacity is below 1 MiB"),
        ("0.2", "{\"backend\": \"dir\", \"state\": \"retired\"}".into(), 409, "a new target is open"),
        ("0.2", format!("{{\"backend\": \"dir\", \"path\": \"{folder}\"}}"), 409, "is not empty"),
        ("0.2", "{\"backend\": \"dir\", \"path\": \"here\"}".into(), 409, "is not a whole path"),
        ("0.2", "{\"backend\": \"dir\", \"path\": \"/proc/new\"}".into(), 409, "cannot"),
        ("0.x", DIR.into(), 400, "is not a target"),
        ("0.0/colour", DIR.into(), 404, "no such resource"),
        ("0.0/state", "{\"state\": \"gone\"}".into(), 400, "unknown variant `gone`"),
        ("0.7/state", RETIRING.into(), 404, "not one of this server"),
        ("0.0/state", RETIRED.into(), 409, "takes files"),
    ] {
        let answer = cluster.change_target(0, path, &body);
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
        assert!(answer.body.contains(words), "{path} {body}: {}", answer.body);
    }
    let foreign = SiteKey::new([8; 32]).mint(administrator().claims).to_json().replace('\n', "");
    for caller in [Caller::Nobody, Caller::Token("forged"), Caller::Token(&foreign)] {
        for (path, body) in [("0.2", DIR), ("0.0/state", RETIRING)] {
            let path = format!("/v1/targets/{path}");
            assert_eq!(put(&cluster.address(0), &path, body, caller).status, 401);
        }
    }
    assert_eq!((cluster.status(0)["target_numbers"].clone(), states(&cluster, 0)), before);
    assert_eq!(stripes(&cluster, 0, "after").len(), 2);
}

#[test]
fn the_last_target_and_one_whose_bytes_find_no_room_stay() {
    let cluster = Cluster::start(&servers(1, 2, "ram", "8MiB"));
    let mut line = cluster.root(0);
    let mut file = line.open("file", EXCLUSIVE).expect("made");
    line.write(&mut file, 0, &vec![7; 12 << 20]).expect("written");
    let answer = cluster.change_target(0, "0.0/state", RETIRING);
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("have room for"), "{}", answer.body);
    assert_eq!(line.unlink("file", false), Reply::Done);
    line.close(&file);
    wait_until("there is room", || cluster.change_target(0, "0.0/state", RETIRING).status == 200);
    let answer = cluster.change_target(0, "0.1/state", RETIRING);
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("is the last one that takes files"), "{}", answer.body);
    assert_eq!(stripes(&cluster, 0, "one").len(), 1);
    assert_eq!(cluster.change_target(0, "0.0/state", "{\"state\": \"open\"}").status, 200);
    wait_until("it takes files again", || stripes(&cluster, 0, &random_label()).len() == 2);
}

/// A home that is down has files there for all that anyone knows, and a home that comes back must not place files there.
#[test]
fn a_target_leaves_only_when_every_home_says_so_and_its_number_is_gone_for_good() {
    let mut cluster = Cluster::start(&dir(3));
    cluster.kill_server(2);
    assert_eq!(cluster.change_target(0, "0.1/state", RETIRING).status, 200);
    wait_until("the homes that are up know", || {
        [0, 1].iter().all(|&server| cluster.status(server)["leaving"][0]["objects"] == 0)
    });
    let answer = cluster.change_target(0, "0.1/state", RETIRED);
    assert_eq!(answer.status, 503, "{}", answer.body);
    cluster.kill_server(0);
    cluster.start_server(0);
    assert_eq!(states(&cluster, 0)[1], ("0.1".into(), "retiring".into()));
    cluster.start_server(2);
    wait_until("all homes are heard of", || cluster.objects_on("0.1") == Some(0));
    wait_until("it has left", || cluster.change_target(0, "0.1/state", RETIRED).status == 200);
    assert_eq!(
        cluster.change_target(0, "0.1/state", RETIRED).status,
        200,
        "a repeated request changes nothing"
    );
    for (path, body) in [("0.1", DIR), ("0.1/state", RETIRING), ("0.1/state", "{\"state\": \"open\"}")] {
        assert_eq!(cluster.change_target(0, path, body).status, 409, "{path} {body}");
    }
    assert_eq!(cluster.change_target(0, "0.2", DIR).status, 200, "the next number");
    for server in 0..3 {
        cluster.kill_server(server);
    }
    for server in 0..3 {
        cluster.start_server(server);
    }
    let names: Vec<String> = states(&cluster, 0).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["0.0", "0.2"]);
    for server in [0, 2] {
        // A home that has just started and heard of nobody must know it by itself.
        assert!(!stripes(&cluster, 0, &format!("later-{server}")).contains_key("0.1"));
    }
}

/// A client with an old layout is told to ask for the new one, whatever it wants of a target that has left.
#[test]
fn a_target_that_left_answers_as_one_that_an_object_moved_away_from() {
    let cluster = Cluster::start(&servers(1, 2, "ram", "64MiB"));
    let mut line = cluster.line(0, Transport::Unix, &key().mint(weir_testing::claims(0)));
    let file = line.open("file", EXCLUSIVE).expect("made");
    let gone = *file.layout.targets().iter().find(|target| target.index == 1).expect("on both");
    assert_eq!(line.unlink("file", false), Reply::Done);
    line.close(&file);
    let file = line.open("another", EXCLUSIVE).expect("made");
    assert_eq!(line.unlink("another", false), Reply::Done);
    assert_eq!(cluster.change_target(0, "0.1/state", RETIRING).status, 200);
    assert_eq!(cluster.objects_on("0.1"), Some(1), "a file without a name is a file");
    let answer = cluster.change_target(0, "0.1/state", RETIRED);
    assert_eq!(answer.status, 503, "{}", answer.body);
    line.close(&file);
    let open = line.open("open", EXCLUSIVE).expect("made");
    assert_eq!(open.layout.targets().len(), 1);
    wait_until("it has left", || cluster.change_target(0, "0.1/state", RETIRED).status == 200);
    let (capability, extents) = (open.capability, vec![Extent { offset: 0, length: 8 }]);
    let stale = Reply::StaleEpoch { epoch: u64::MAX };
    let read =
        Request::Read { fence: Fence::NONE, capability, target: gone, epoch: 9, extents: extents.clone() };
    assert_eq!(line.reply(&read), stale);
    for length in [8, limits::INLINE_PAYLOAD_BYTES + 1] {
        let extents = vec![Extent { offset: 0, length: length as u32 }];
        let write = Request::Write {
            fence: Fence::NONE,
            capability,
            target: gone,
            epoch: 9,
            extents,
            publication: None,
        };
        assert_eq!(line.call(&write, &vec![1; length]).0, stale);
    }
    let reserve = Request::Reserve {
        fence: Fence::NONE,
        capability,
        target: gone,
        epoch: 9,
        offset: 0,
        length: 9,
        punch: false,
    };
    assert_eq!(line.reply(&reserve), stale);
    assert_eq!(line.reply(&Request::SyncObject { capability, target: gone }), Reply::Done);
}

/// The homes of new directories of the root, made at server 0.
fn homes(cluster: &Cluster, label: &str) -> BTreeMap<u16, usize> {
    let mut line = cluster.root(0);
    let mut found = BTreeMap::new();
    for number in 0..32 {
        let reply = line.make_directory(&format!("{label}-{number}"));
        let Reply::Attributes(made) = reply else { panic!("{reply:?}") };
        *found.entry(made.ino.home().0).or_default() += 1;
    }
    found
}

#[test]
fn a_server_joins_under_load_and_every_server_keeps_that() {
    for (backend, capacity) in [("ram", "64MiB"), ("dir", "64MiB")] {
        let mut cluster = Cluster::start(&servers(2, 2, backend, capacity));
        assert_eq!(homes(&cluster, "before").len(), 2);
        let answer = cluster.join_server(2, backend, capacity);
        assert_eq!(answer.status, 200, "{}", answer.body);
        wait_until("all servers know it", || (0..3).all(|server| cluster.status(server)["servers"] == 3));
        wait_until("files lie there", || stripes(&cluster, 0, &random_label()).len() == 6);
        assert_eq!(homes(&cluster, "after").len(), 3, "directories have their homes there");
        if backend == "dir" {
            // The old servers start by a file without the new one.
            let path = cluster.folder().join("cluster.toml");
            let file = std::fs::read_to_string(&path).expect("a configuration");
            std::fs::write(&path, format!("version = 1\n{}", servers(2, 2, backend, capacity)))
                .expect("written");
            for server in 0..2 {
                cluster.kill_server(server);
                cluster.start_server(server);
            }
            std::fs::write(&path, file).expect("written");
            cluster.kill_server(2);
            cluster.start_server(2);
            assert_eq!(cluster.status(1)["servers"], 3);
            wait_until("files lie there again", || stripes(&cluster, 0, &random_label()).len() == 6);
            assert_eq!(homes(&cluster, "later").len(), 3);
        }
    }
}

#[test]
fn only_the_next_server_joins_and_only_by_who_knows_the_key() {
    let mut cluster = Cluster::start(&servers(1, 1, "dir", "64MiB"));
    let table = |backend: &str, more: &str| {
        format!(
            "{{\"listen\": \"127.0.0.1:1\", \"control\": \"127.0.0.1:2\", \
             \"target\": [{{\"backend\": \"{backend}\", \"capacity\": \"64MiB\"{more}}}]}}"
        )
    };
    for (path, body, status, words) in [
        ("2", table("dir", ""), 409, "not the next server"),
        ("0", table("dir", ""), 409, "was given to another server"),
        ("1", table("ram", ""), 409, "keeps nothing over a restart"),
        ("1", table("dir", ", \"state\": \"retired\""), 409, "are open"),
        ("1", "{}".into(), 400, "missing field"),
        ("1", "{\"listen\": \"nowhere\", \"target\": []}".into(), 400, "listen"),
        ("x", table("dir", ""), 400, "a server has a number"),
        ("70000", table("dir", ""), 400, "a server has a number"),
    ] {
        let answer = cluster.put(0, &format!("/v1/servers/{path}"), &body);
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
        assert!(answer.body.contains(words), "{path} {body}: {}", answer.body);
    }
    for caller in [Caller::Nobody, Caller::Token("forged")] {
        let answer = put(&cluster.address(0), "/v1/servers/1", &table("dir", ""), caller);
        assert_eq!(answer.status, 401);
    }
    assert_eq!(cluster.status(0)["servers"], 1);
    assert_eq!(cluster.join_server(1, "dir", "64MiB").status, 200);
    assert_eq!(cluster.status(0)["servers"], 2);
}

fn change_server(cluster: &Cluster, server: usize, state: &str) -> weir_testing::Answer {
    cluster.put(server, &format!("/v1/servers/{server}/state"), state)
}

/// One decision closes a server and its targets, and one opens them; a kill in between changes nothing.
#[test]
fn a_server_retires_keeps_its_trees_and_gets_no_new_ones() {
    let mut cluster = Cluster::start(&servers(3, 2, "dir", "64MiB"));
    assert_eq!(homes(&cluster, "before").len(), 3);
    let other = cluster.put(0, "/v1/servers/2/state", RETIRING);
    assert_eq!(other.status, 409);
    assert!(other.body.contains("another one"), "{}", other.body);
    assert_eq!(change_server(&cluster, 2, RETIRED).status, 409, "its targets take files");
    assert_eq!(change_server(&cluster, 2, "{\"state\": \"gone\"}").status, 400);
    assert_eq!(cluster.put(2, "/v1/servers/2/colour", RETIRING).status, 404);
    for caller in [Caller::Nobody, Caller::Token("forged")] {
        assert_eq!(put(&cluster.address(2), "/v1/servers/2/state", RETIRING, caller).status, 401);
    }
    assert_eq!(change_server(&cluster, 2, RETIRING).status, 200);
    assert_eq!(change_server(&cluster, 2, RETIRING).status, 200, "a repeated request changes nothing");
    cluster.kill_server(2);
    cluster.start_server(2);
    assert_eq!(cluster.status(2)["state"], "retiring");
    let states_of = |cluster: &Cluster| -> Vec<String> {
        states(cluster, 2).into_iter().map(|(_, state)| state).collect()
    };
    assert_eq!(states_of(&cluster), ["retiring", "retiring"]);
    wait_until("no new tree has its home there", || homes(&cluster, &random_label()).len() == 2);
    let mut labels = Vec::new();
    wait_until("no new file lies there", || {
        labels.push(random_label());
        stripes(&cluster, 0, labels.last().expect("one")).len() == 4
    });
    assert_eq!(change_server(&cluster, 2, "{\"state\": \"open\"}").status, 200);
    assert_eq!(states_of(&cluster), ["open", "open"]);
    wait_until("new trees have their homes there again", || homes(&cluster, &random_label()).len() == 3);
    assert_eq!(change_server(&cluster, 2, RETIRING).status, 200);
    assert_eq!(change_server(&cluster, 2, RETIRED).status, 503, "its targets are there");
    // Files that were placed there until the homes knew go.
    let mut line = cluster.root(0);
    for label in labels {
        (0..24).for_each(|number| assert_eq!(line.unlink(&format!("{label}-{number}"), false), Reply::Done));
    }
    for target in ["2.0", "2.1"] {
        wait_until("it has left", || {
            cluster.change_target(2, &format!("{target}/state"), RETIRED).status == 200
        });
    }
    assert_eq!(change_server(&cluster, 2, RETIRED).status, 200);
    for state in [RETIRING, "{\"state\": \"open\"}"] {
        assert_eq!(change_server(&cluster, 2, state).status, 409);
    }
    let answer = cluster.change_target(2, "2.2", DIR);
    assert!(answer.status == 409 && answer.body.contains("takes no new files"), "{}", answer.body);
    for server in 0..3 {
        cluster.kill_server(server);
        cluster.start_server(server);
    }
    assert_eq!(cluster.status(2)["state"], "retired");
    wait_until("the homes of new trees are as before", || homes(&cluster, &random_label()).len() == 2);
    assert_eq!(change_server(&cluster, 1, RETIRING).status, 200);
    let answer = change_server(&cluster, 0, RETIRING);
    assert_eq!(answer.status, 409);
    assert!(answer.body.contains("is the last one that takes files"), "{}", answer.body);
    assert_eq!(cluster.status(0)["state"], "open");
}
