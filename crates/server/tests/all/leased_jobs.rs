//! Jobs in a lease: one user's job of a name, and not that of another user.

use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use weir_placement::ServerId;
use weir_testing::{claims, key, server_toml, wait_until, Cluster, Line, Stop, Transport, READ_WRITE};
use weir_wire::{At, AttributeChange, Claims, Credential, Ino, OpenFlags, Reply, Request};

/// The longest lease, so that none ends while a busy machine stalls a test.
const SECONDS: f64 = 60.0;
/// The users, each with a job of one name.
const ADA: u32 = 1000;
const EVE: u32 = 1001;
const JOB: &str = "run";
/// Connections of a user: so many that a job still has requests queued where a busy machine wakes its threads late.
const CONNECTIONS: usize = 12;
const EXCLUSIVE: OpenFlags = OpenFlags { exclusive: true, ..READ_WRITE };

fn job_of(uid: u32) -> Credential {
    key().mint(Claims { job: JOB.into(), ..claims(uid) })
}

/// Sets a lease on one server.
fn set(cluster: &Cluster, server: usize, jobs: &Value, seconds: f64) {
    let lease = json!({"jobs": jobs, "seconds": seconds}).to_string();
    let answer = cluster.put(server, "/v1/lease", &lease);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// The share of target 0.0 that each user's job is owed now.
fn owed(cluster: &Cluster) -> [f64; 2] {
    let jobs = cluster.show(0, "/v1/jobs");
    let jobs = jobs["jobs"].as_array().expect("jobs");
    let owed = |uid: u32| {
        let entry = jobs.iter().find(|entry| entry["job"] == JOB && entry["uid"] == uid)?;
        let device = entry["devices"].as_array()?.iter().find(|device| device["device"] == "0.0")?;
        device["share_owed"].as_f64()
    };
    [ADA, EVE].map(|uid| owed(uid).unwrap_or(0.0))
}

fn everybody_may_write(root: &mut Line, ino: Ino) {
    let change = AttributeChange { permissions: Some(0o777), ..Default::default() };
    root.reply(&Request::Change { at: At::inode(ino), follow: false, change });
}

#[test]
fn a_weight_and_a_limit_are_for_the_job_of_one_user_and_not_for_another_of_its_name() {
    let target = "backend = \"ram\"\ncapacity = \"64MiB\"\nspeed = { fixed = \"2ms\" }";
    let cluster = Cluster::start(&format!("policy = \"job-fair\"\n{}", server_toml(1, target)));
    let mut root = cluster.root(0);
    let mut file = root.open("file", READ_WRITE).expect("opened");
    everybody_may_write(&mut root, file.ino);
    root.write(&mut file, 0, &[1; 4096]).expect("written");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopping = Stop::at_end(&stop);
        for uid in [ADA, EVE].into_iter().flat_map(|uid| [uid; CONNECTIONS]) {
            let mut line = cluster.line(0, Transport::Unix, &job_of(uid));
            let stop = &stop;
            scope.spawn(move || {
                let file = line.open("file", READ_WRITE).expect("opened");
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(line.read(&file, 0, 4096).expect("read"), [1; 4096]);
                }
            });
        }
        let both = |what: &str, expected: [f64; 2]| {
            let is_near = |[one, other]: [f64; 2]| {
                (one - expected[0]).abs() < 1e-6 && (other - expected[1]).abs() < 1e-6
            };
            wait_until(what, || is_near(owed(&cluster)));
        };
        both("the jobs share alike", [0.5, 0.5]);
        set(&cluster, 0, &json!([{"job": JOB, "uid": EVE, "limit": 0.2}]), SECONDS);
        both("the job of one user is limited", [0.8, 0.2]);
        set(&cluster, 0, &json!([{"job": JOB, "uid": ADA, "weight": 3.0}]), SECONDS);
        both("the job of the other one is raised", [0.75, 0.25]);
        set(&cluster, 0, &json!([]), 0.0);
        both("nothing is left", [0.5, 0.5]);
    });
}

/// Two servers with two targets each, and a directory of each home.
struct Store {
    cluster: Cluster,
    directories: [Ino; 2],
    made: usize,
}

impl Store {
    fn new() -> Store {
        let server = server_toml(2, "backend = \"ram\"\ncapacity = \"64MiB\"");
        let cluster = Cluster::start(&format!("[layout]\nstripe_count = 1\n{server}{server}"));
        let mut root = cluster.root(0);
        let directory = |home: u16| {
            let of_home = (0..64).find_map(|number| {
                let Reply::Attributes(attributes) = root.make_directory(&format!("{home}-{number}")) else {
                    panic!("no directory was made");
                };
                (attributes.ino.home() == ServerId(home)).then_some(attributes.ino)
            });
            of_home.expect("64 directories are on both servers")
        };
        let directories = [0, 1].map(directory);
        for (server, ino) in directories.into_iter().enumerate() {
            everybody_may_write(&mut cluster.root(server), ino);
        }
        Store { cluster, directories, made: 0 }
    }

    /// The targets of new files of a user at a home: of twelve files with the request `layout` for each.
    fn make(&mut self, home: usize, uid: u32, layout: Option<&str>) -> Vec<String> {
        let mut line = self.cluster.line(home, Transport::Unix, &job_of(uid));
        let mut targets = Vec::new();
        for _ in 0..12 {
            self.made += 1;
            let at = At::new(self.directories[home], format!("file-{}", self.made));
            let layout = layout.map(|text| text.parse().expect("a layout"));
            let request = Request::Open { at, flags: EXCLUSIVE, permissions: 0o644, layout };
            match line.reply(&request) {
                Reply::Opened { layout: Some(layout), .. } => {
                    targets.extend(layout.targets().iter().map(ToString::to_string));
                }
                other => panic!("{other:?}"),
            }
        }
        targets
    }

    /// The reasons for the place of the newest file, at its home.
    fn reason(&self, home: usize) -> Value {
        let at = At::new(self.directories[home], format!("file-{}", self.made));
        let request = Request::XattrGet { at, follow: true, name: b"weir.placement".to_vec() };
        match self.cluster.root(home).call(&request, &[]) {
            (Reply::Value, text) => serde_json::from_slice(&text).expect("JSON"),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn new_files_of_a_job_avoid_targets_at_every_home_until_the_lease_ends() {
    let mut store = Store::new();
    let jobs = json!([{"job": JOB, "uid": ADA, "avoid": ["0.0", "1.1"]}]);
    for server in 0..2 {
        set(&store.cluster, server, &jobs, SECONDS);
    }
    let is_avoided = |target: &String| target == "0.0" || target == "1.1";
    for home in 0..2 {
        let own = store.make(home, ADA, None);
        assert!(!own.iter().any(is_avoided), "home {home}: {own:?}");
        let predicted = store.make(home, ADA, Some("-o 0.0"));
        assert!(!predicted.iter().any(is_avoided), "a prediction knows of no lease: {predicted:?}");
        let others = store.make(home, EVE, None);
        assert!(others.iter().any(is_avoided), "another user's job of the name avoids nothing: {others:?}");
    }
    for server in 0..2 {
        set(&store.cluster, server, &json!([]), 0.0);
    }
    for home in 0..2 {
        // They are the targets with the least load by now.
        let own = store.make(home, ADA, None);
        assert!(own.iter().any(is_avoided), "home {home}: {own:?}");
    }
}

#[test]
fn avoided_targets_are_used_where_nothing_else_is_left_and_the_lease_holds_on() {
    let mut store = Store::new();
    let jobs = json!([{"job": JOB, "uid": ADA, "avoid": ["0.0", "0.1", "1.0"]}]);
    for server in 0..2 {
        set(&store.cluster, server, &jobs, SECONDS);
    }
    // A busy machine may hold server 1 up, whose targets are then dead for the other home.
    wait_until("new files are on the target that is left", || {
        store.make(0, ADA, None).iter().all(|target| target == "1.1")
    });
    let answer = store.cluster.change_target(1, "1.1/state", r#"{"state":"retiring"}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    wait_until("no new file is on the target that retires", || {
        !store.make(0, ADA, None).contains(&"1.1".to_owned())
    });
    set(&store.cluster, 0, &jobs, SECONDS);
    let reason = store.reason(0);
    assert_eq!((&reason["avoided"]["count"], &reason["taken"]), (&json!(0), &json!(1)), "{reason}");
    let answer = store.cluster.change_target(1, "1.1/state", r#"{"state":"open"}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    wait_until("new files are on the target that is open again", || {
        store.make(0, ADA, None).iter().all(|target| target == "1.1")
    });
    let reason = store.reason(0);
    assert_eq!((&reason["avoided"]["count"], &reason["taken"]), (&json!(3), &json!(0)), "{reason}");
}
