//! The doors of a server: the clients that may come in, their number, and the first to go when there is no room.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use weir_testing::{claims, dir, get, key, ram, wait_until, Cluster, File, Line, Stop, Transport, PATIENCE};
use weir_wire::{Claims, Reply, Request};

/// Callers that the control API serves at once.
const CALLERS: usize = 64;

/// Callers that sent half a request once took every place of the control API for five seconds, again and again.
#[test]
fn half_requests_do_not_keep_out_a_whole_one() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let control = cluster.address(0).control;
    let half = || {
        let mut stream = TcpStream::connect(&control).expect("it listens");
        stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost:").expect("sent");
        stream
    };
    let mut halves: Vec<TcpStream> = (0..3 * CALLERS).map(|_| half()).collect();
    for _ in 0..3 * CALLERS {
        halves.push(half());
        assert_eq!(get(&control, "/v1/status").status, 200);
    }
    for stream in &mut halves[..CALLERS] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let ended = stream.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0) | Err(_)), "one that was there first has been turned away: {ended:?}");
    }
}

/// Callers that took nothing of their answers kept a place each for half a minute.
#[test]
fn callers_that_take_no_answer_do_not_keep_out_one_that_does() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    meet_jobs(&cluster, 300);
    let control = cluster.address(0).control;
    let deaf = || {
        let mut stream = TcpStream::connect(&control).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
        stream
    };
    let deaf: Vec<TcpStream> = (0..2 * CALLERS).map(|_| deaf()).collect();
    for _ in 0..20 {
        assert_eq!(get(&control, "/v1/status").status, 200);
    }
    drop(deaf);
}

/// Jobs that a server knows of, each by a connection that has ended.
fn meet_jobs(cluster: &Cluster, count: usize) {
    for number in 0..count {
        let job = Claims { job: format!("job-{number}"), ..claims(1000) };
        cluster.line(0, Transport::Unix, &key().mint(job));
    }
}

/// Each reader of the job table once had it copied anew in one turn of the loop: beside four readers and 1,500 jobs a
/// ping got no answer in a minute.
#[test]
fn readers_of_the_job_table_share_what_the_loop_copies() {
    const JOBS: usize = 1_500;
    let cluster = Cluster::start(&ram(1, "64MiB"));
    meet_jobs(&cluster, JOBS);
    let control = cluster.address(0).control;
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut line = cluster.root(0);
    std::thread::scope(|scope| {
        let _stop = Stop::at_end(&stop);
        for path in ["/metrics", "/v1/jobs", "/metrics", "/v1/jobs"].repeat(4) {
            let (control, stop, answers) = (&control, &stop, &answers);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = get(control, path);
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (began, mut pings) = (Instant::now(), 0);
        while answers.load(Ordering::Relaxed) < 100 {
            assert!(began.elapsed() < PATIENCE, "{pings} pings and {answers:?} answers");
            assert_eq!(line.reply(&Request::Ping), Reply::Done);
            pings += 1;
        }
        // A loop that copied the table for each answer would have answered hardly a ping between two of them.
        assert!(pings > 1_000, "{pings} pings beside {answers:?} answers");
    });
    let jobs = cluster.show(0, "/v1/jobs");
    let names: BTreeSet<&str> = jobs["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["job"].as_str().expect("a name"))
        .collect();
    assert_eq!(names.len(), JOBS + 1, "every job once, and root's");
}

/// The answer contains everything that its caller did before it asked, however young the last snapshot is.
#[test]
fn an_answer_shows_what_was_done_before_the_question() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let mut line: Line = cluster.root(0);
    for round in 1..=10 {
        assert!(line.open(&format!("file-{round}"), weir_testing::READ_WRITE).is_ok());
        let jobs = cluster.show(0, "/v1/jobs");
        let before = jobs["jobs"][0]["operations"].as_u64().expect("a count");
        assert!(line.attributes(&format!("file-{round}")).is_ok());
        let jobs = cluster.show(0, "/v1/jobs");
        assert_eq!(jobs["jobs"][0]["operations"].as_u64(), Some(before + 1), "{jobs}");
        assert_eq!(cluster.figure(0, "inodes"), round + 1);
    }
    wait_until("the connection is counted", || cluster.figure(0, "connections") == 1);
}

/// As many connections of `user` as the server takes, and the fate of the last one.
fn fill(cluster: &Cluster, user: u32, most: usize) -> Vec<Line> {
    let credential = key().mint(claims(user));
    let line = |_| {
        Line::prove(cluster.connection(0, Transport::Unix), &credential, weir_testing::random_client()).ok()
    };
    (0..most).map_while(line).collect()
}

/// Connections that said nothing once took every place, and kept it for ten seconds.
#[test]
fn silent_connections_of_another_user_keep_nobody_out() {
    let cluster = Cluster::start_within(&ram(1, "64MiB"), "-n 128");
    let (address, socket) = (cluster.address(0).tcp, cluster.address(0).unix.expect("a socket"));
    open_to_all(&socket);
    let began = std::time::Instant::now();
    let stop = AtomicBool::new(false);
    let opened = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stop = Stop::at_end(&stop);
        for by_tcp in [true, false] {
            let (stop, opened, address, socket) = (&stop, &opened, &address, &socket);
            scope.spawn(move || {
                become_nobody();
                let mut silent = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    silent.push_back(match by_tcp {
                        true => TcpStream::connect(address).map(std::os::fd::OwnedFd::from),
                        false => std::os::unix::net::UnixStream::connect(socket).map(Into::into),
                    });
                    if silent.len() == 200 {
                        silent.pop_front();
                    }
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_until("the flood runs", || opened.load(Ordering::Relaxed) > 1_000);
        let credential = key().mint(claims(0));
        for _ in 0..200 {
            let mut line = cluster.line(0, Transport::Unix, &credential);
            assert_eq!(line.reply(&Request::Ping), Reply::Done);
        }
    });
    // The server logs twenty lines in ten seconds, and the number of the others.
    let tens = (began.elapsed().as_secs() / 10) as usize;
    assert!(cluster.log(0).len() < (16 + 4 * tens) << 10, "{} bytes of log", cluster.log(0).len());
}

/// Lets other users reach the socket, which lies in a private folder of this test.
fn open_to_all(socket: &str) {
    use std::os::unix::fs::PermissionsExt;
    for folder in std::path::Path::new(socket).ancestors().skip(1).take(3) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711)).expect("own folder");
    }
}

/// Makes this thread another user's, where the test may.
fn become_nobody() {
    let nobody = rustix::thread::Uid::from_raw(65_534);
    // Else they come from the same user, and the oldest of them goes first.
    let _ = rustix::thread::set_thread_res_uid(nobody, nobody, nobody);
}

/// One user's connections once filled the server.
#[test]
fn a_user_with_many_connections_leaves_room_for_others() {
    let cluster = Cluster::start_within(&ram(1, "64MiB"), "-n 160");
    let first = fill(&cluster, 1000, 400);
    assert!((20..100).contains(&first.len()), "{}", first.len());
    let second = fill(&cluster, 1001, 400);
    assert!((10..first.len()).contains(&second.len()), "{}", second.len());
    assert_eq!(cluster.root(0).reply(&Request::Ping), Reply::Done);
    drop(first);
    wait_until("what the first had is free", || !fill(&cluster, 1000, 1).is_empty());
}

/// Files that were kept open once took the last descriptor, and connections hung from then on.
#[test]
fn open_objects_leave_descriptors_for_connections() {
    let cluster = Cluster::start_within(&dir(1), "-n 96");
    let mut root = cluster.root(0);
    let files: Vec<File> = (0..200)
        .map(|number| {
            let mut file = root.open(&format!("file-{number}"), weir_testing::READ_WRITE).expect("opened");
            root.write(&mut file, 0, &[7; 100]).expect("written");
            file
        })
        .collect();
    let lines: Vec<Line> = (0..8).map(|_| cluster.root(0)).collect();
    for mut line in lines {
        for file in &files {
            assert_eq!(line.read(file, 0, 100).expect("read"), [7; 100]);
        }
    }
    assert_eq!(get(&cluster.address(0).control, "/v1/status").status, 200);
}

/// A credential with long names of control characters once left a line of 75 kB in the log, as often as it was shown.
#[test]
fn what_strangers_do_is_told_in_few_short_lines() {
    let cluster = Cluster::start(&ram(1, "64MiB"));
    let name = "\u{1b}[2Jx\n".repeat(2_000);
    let forged = Claims { job: name, ..claims(1000) };
    let credential = weir_wire::SiteKey::new([9; 32]).mint(forged);
    for _ in 0..500 {
        let connection = cluster.connection(0, Transport::Unix);
        assert!(Line::prove(connection, &credential, weir_testing::random_client()).is_err());
    }
    wait_until("it is told how many lines were withheld", || {
        cluster.log(0).contains("more refused credentials")
    });
    let log = cluster.log(0);
    assert!(log.len() < 32 << 10, "{} bytes of log", log.len());
    assert!(log.lines().all(|line| line.len() < 1_000 && !line.contains('\u{1b}')), "{log}");
}
