//! A lease changes the sharing of one server for some seconds, and leaves nothing behind.

use serde_json::{json, Value};
use weir_testing::{administrator, claims, get, get_as, key, put, server_toml, wait_until, Caller, Cluster};

/// The longest lease, so that none ends while a busy machine stalls a test.
const SECONDS: f64 = 60.0;

fn cluster(policy: &str) -> Cluster {
    let server = server_toml(1, "backend = \"ram\"\ncapacity = \"64MiB\"");
    Cluster::start(&format!("policy = \"{policy}\"\n{server}"))
}

/// Sets a lease; answers the status and the document.
fn set(cluster: &Cluster, lease: &Value) -> (u16, Value) {
    let answer = cluster.put(0, "/v1/lease", &lease.to_string());
    (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
}

/// The policy that the decided one and a lease of no change make, which is in force.
fn in_force(cluster: &Cluster) -> (Value, Value) {
    let (status, told) = set(cluster, &json!({"seconds": SECONDS, "jobs": []}));
    assert_eq!(status, 200, "{told}");
    (told["policy"].clone(), told["scheduler"].clone())
}

#[test]
fn a_lease_is_in_force_until_it_is_not_renewed() {
    let cluster = cluster("fifo");
    let jobs = json!([{"job": "hog", "uid": 7, "limit": 0.5}]);
    let lease = |seconds: f64| json!({"policy": "size-fair", "seconds": seconds, "jobs": jobs});
    for _ in 0..2 {
        let (status, told) = set(&cluster, &lease(SECONDS));
        assert_eq!(status, 200, "{told}");
        assert_eq!((&told["policy"], &told["scheduler"]), (&json!("size-fair"), &json!("virtual-time")));
        let job = json!({"job": "hog", "uid": 7, "weight": null, "limit": 0.5, "avoid": []});
        assert_eq!(told["jobs"], json!([job]));
        let left = told["seconds"].as_f64().expect("a number");
        assert!(left > 0.0 && left <= SECONDS, "{told}");
    }
    assert_eq!(cluster.show(0, "/v1/policy")["policy"], "fifo", "the decided policy stays");
    let begun = cluster.log(0).matches("a lease of the sharing began").count();
    assert_eq!(begun, 1, "a renewal is no new lease");
    assert_eq!(set(&cluster, &lease(1.0)).0, 200);
    wait_until("the lease ends", || cluster.log(0).contains("the lease of the sharing was not renewed"));
    assert_eq!(in_force(&cluster), (json!("fifo"), json!("fifo")));
}

#[test]
fn a_lease_that_a_later_decision_contradicts_ends() {
    let cluster = cluster("size-fair");
    let lease = json!({"seconds": SECONDS, "jobs": [{"job": "hog", "uid": 7, "limit": 0.5}]});
    let (status, told) = set(&cluster, &lease);
    assert_eq!((status, &told["is_leased"]), (200, &json!(true)), "{told}");
    let answer = cluster.put(0, "/v1/policy", r#"{"policy":"fifo"}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let shown: Value =
        serde_json::from_str(&get_as(&cluster.address(0), "/v1/lease", &administrator()).body).expect("JSON");
    assert_eq!((&shown["policy"], &shown["is_leased"]), (&json!("fifo"), &json!(false)), "{shown}");
    assert!(cluster.log(0).contains("the decided one contradicts it"), "{}", cluster.log(0));
    assert_eq!(set(&cluster, &lease).0, 400, "it is no lease of that policy");
}

#[test]
fn a_lease_has_room_for_the_longest_names_for_the_holder_of_the_key_alone() {
    let cluster = cluster("size-fair");
    let name = |number: usize| format!("{number:0>128}");
    let escaped = |text: &str| text.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<String>();
    let avoid = [r#""65535.1023""#; 64].join(",");
    let job = |number| {
        let job = escaped(&name(number));
        format!(r#"{{"job":"{job}","uid":4294967295,"weight":2,"limit":0.5,"avoid":[{avoid}]}}"#)
    };
    let jobs: Vec<String> = (0..64).map(job).collect();
    let lease = format!(r#"{{"seconds":{SECONDS},"jobs":[{}]}}"#, jobs.join(","));
    let answer = cluster.put(0, "/v1/lease", &lease);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(told["jobs"][63]["job"], name(63));
    assert_eq!(told["jobs"][63]["avoid"], json!([]), "the store has no such target");
    let long = "x".repeat(4200);
    let user = key().mint(claims(1));
    for caller in [Caller::Nobody, Caller::Token("0000"), Caller::Sealed(&user)] {
        assert_eq!(put(&cluster.address(0), "/v1/lease", &long, caller).status, 413, "{caller:?}");
    }
}

#[test]
fn a_lease_that_is_given_back_ends_at_once_and_a_decision_counts_beneath_it() {
    let cluster = cluster("fifo");
    set(&cluster, &json!({"policy": "size-fair", "seconds": 60, "jobs": []}));
    let decision = r#"{"policy":"user-fair"}"#;
    let answer = cluster.put(0, "/v1/policy", decision);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let (status, told) = set(&cluster, &json!({"seconds": 0, "jobs": []}));
    assert_eq!((status, &told["policy"], &told["is_leased"]), (200, &json!("user-fair"), &json!(false)));
}

#[test]
fn a_lease_is_for_the_site_alone_and_a_wrong_one_changes_nothing() {
    let cluster = cluster("fifo");
    let control = cluster.address(0).control;
    let lease = r#"{"policy":"size-fair","seconds":5,"jobs":[]}"#;
    for caller in [Caller::Nobody, Caller::Token("0000")] {
        assert_eq!(put(&cluster.address(0), "/v1/lease", lease, caller).status, 401);
    }
    assert_eq!(get(&control, "/v1/lease").status, 401);
    let crowd: Vec<Value> = (0..65).map(|number| json!({"job": number.to_string(), "uid": 7})).collect();
    let twice = json!([{"job": "hog", "uid": 7, "limit": 0.5}, {"job": "hog", "uid": 7, "avoid": ["0.0"]}]);
    let many: Vec<String> = (0..65).map(|number| format!("0.{number}")).collect();
    let job = |job: Value| json!({"policy": "job-fair", "seconds": 5, "jobs": [job]});
    for (wrong, expected) in [
        (json!({"seconds": 61, "jobs": []}), "0 to 60 seconds"),
        (json!({"seconds": -1, "jobs": []}), "0 to 60 seconds"),
        (json!({"seconds": 5, "jobs": crowd}), "at most 64 jobs"),
        (json!({"policy": "fastest", "seconds": 5}), "unknown policy"),
        (json!({"seconds": 5, "jobs": twice}), "job hog of user 7 is named twice"),
        (
            json!({"seconds": 5, "jobs": [{"job": "hog", "uid": 7, "limit": 0.5}]}),
            "keeps no reservations and limits",
        ),
        (job(json!({"job": "hog", "uid": 7, "weight": 0})), "job hog of user 7: weight 0 is not"),
        (job(json!({"job": "hog", "uid": 7, "limit": 2})), "job hog of user 7: limit 2 is not"),
        (job(json!({"job": "hog", "limit": 0.5})), "missing field `uid`"),
        (job(json!({"user": "hog", "uid": 7, "limit": 0.5})), "not a lease"),
        (job(json!({"job": "hog", "uid": 7, "avoid": ["first"]})), "`first` is not a target"),
        (job(json!({"job": "hog", "uid": 7, "avoid": ["0.0"]})), "job hog of user 7 avoids all targets"),
        (job(json!({"job": "hog", "uid": 7, "avoid": many})), "avoids more than 64 targets"),
        (json!({"jobs": []}), "not a lease"),
    ] {
        let (status, told) = set(&cluster, &wrong);
        assert_eq!(status, 400, "{wrong}: {told}");
        assert!(told["error"].as_str().expect("a text").contains(expected), "{wrong}: {told}");
    }
    assert_eq!(in_force(&cluster), (json!("fifo"), json!("fifo")));
}
