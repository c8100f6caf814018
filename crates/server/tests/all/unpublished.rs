//! Bytes that a client writes and never publishes: each way to write them is charged to the user, refused above the quota, shown,
//! and gone after the session.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_placement::TargetId;
use weir_testing::{
    administrator, claims, get_as, key, random_client, servers, wait_until, Choices, Cluster, File, Line,
    Transport, READ_WRITE,
};
use weir_wire::{Errno, Extent, Fence, Publication, Reply, Request};

const ALICE: u32 = 1000;
const BOB: u32 = 1001;
const MIB: u64 = 1 << 20;
const QUOTA: u64 = MIB;
/// The bytes of one write.
const PIECE: u64 = 256 << 10;
/// Writes that each way tries: 16 times as many bytes as the quota.
const TRIES: u64 = 64;
const EDQUOT: Errno = Errno(122);
const ENOSPC: Errno = Errno(28);
const PAGE: u64 = 4096;
const BACKENDS: [&str; 2] = ["ram", "dir"];

/// A user's client with a connection to each server.
struct Client {
    lines: Vec<Line>,
}

/// A way to write bytes that no publication covers: try number `number`, in a file of its own where the way wants one.
type Way = fn(&mut Client, &mut Vec<File>, u64) -> Reply;

impl Client {
    fn new(cluster: &Cluster, uid: u32) -> Client {
        let (credential, client) = (key().mint(claims(uid)), random_client());
        let line = |server| cluster.line_of(server, Transport::Unix, &credential, client);
        Client { lines: (0..cluster.count()).map(line).collect() }
    }

    fn open(&mut self, name: &str) -> File {
        self.lines[0].open(name, READ_WRITE).expect("opened")
    }

    /// Makes a file on `server` alone.
    fn make_on(&mut self, name: &str, server: u16) -> File {
        let mut made = None;
        wait_until("the server is known", || {
            let laid_out =
                self.lines[0].open_laid_out(name, READ_WRITE, Some(&format!("-c 1 -o {server}.0")));
            made = laid_out.ok();
            made.is_some()
        });
        made.expect("made")
    }

    fn write(
        &mut self,
        file: &File,
        target: TargetId,
        offset: u64,
        publication: Option<Publication>,
    ) -> Reply {
        let extent = Extent { offset, length: PIECE as u32 };
        self.write_extents(file, target, vec![extent], publication)
    }

    fn write_extents(
        &mut self,
        file: &File,
        target: TargetId,
        extents: Vec<Extent>,
        publication: Option<Publication>,
    ) -> Reply {
        let bytes: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
        let request = Request::Write {
            capability: file.capability,
            target,
            epoch: file.epoch,
            fence: Fence::NONE,
            extents,
            publication,
        };
        self.lines[usize::from(target.server.0)].call(&request, &vec![7; bytes as usize]).0
    }

    fn publish(&mut self, file: &File, end: u64) -> Reply {
        let publication = Publication { end, written_bytes: end, epoch: file.epoch, reserved_end: 0 };
        self.lines[0].reply(&Request::Publish { capability: file.capability, publication })
    }
}

fn target_of(file: &File) -> TargetId {
    file.layout.targets()[0]
}

/// The file of a way that needs one alone.
fn only(client: &mut Client, files: &mut Vec<File>, server: u16) -> File {
    if files.is_empty() {
        files.push(client.make_on("file", server));
    }
    files[0].clone()
}

/// Every way, by its name and the servers of the store.
const WAYS: [(&str, usize, Way); 13] = [
    ("behind the end, at the home", 1, |client, files, number| {
        let file = only(client, files, 0);
        client.write(&file, target_of(&file), number * PIECE, None)
    }),
    ("behind the end, at another server", 2, |client, files, number| {
        let file = only(client, files, 1);
        client.write(&file, target_of(&file), number * PIECE, None)
    }),
    ("many files, at the home", 1, |client, files, number| {
        files.push(client.make_on(&format!("file-{number}"), 0));
        client.write(&files[number as usize].clone(), target_of(&files[number as usize]), 0, None)
    }),
    ("many files, at another server", 2, |client, files, number| {
        files.push(client.make_on(&format!("file-{number}"), 1));
        client.write(&files[number as usize].clone(), target_of(&files[number as usize]), 0, None)
    }),
    ("with a publication of less", 1, |client, files, number| {
        let file = only(client, files, 0);
        let publication = Publication { end: 1, written_bytes: 1, epoch: file.epoch, reserved_end: 0 };
        client.write(&file, target_of(&file), number * PIECE, Some(publication))
    }),
    ("one byte of each page, far apart", 1, |client, files, number| {
        let file = only(client, files, 0);
        let extent = |page: u64| Extent { offset: (number * 64 + page) << 20, length: 1 };
        client.write_extents(&file, target_of(&file), (0..64).map(extent).collect(), None)
    }),
    ("one byte of each page, far apart, at another server", 2, |client, files, number| {
        let file = only(client, files, 1);
        let extent = |page: u64| Extent { offset: (number * 64 + page) << 20, length: 1 };
        client.write_extents(&file, target_of(&file), (0..64).map(extent).collect(), None)
    }),
    ("in places that the file does not have", 2, |client, files, number| {
        let file = only(client, files, 1);
        let target = target_of(&file).in_slot(1 + (number % 3) as u16);
        client.write(&file, target, number * PIECE, None)
    }),
    ("after the removal", 2, |client, files, number| {
        if files.is_empty() {
            only(client, files, 1);
            assert_eq!(client.lines[0].unlink("file", false), Reply::Done);
        }
        client.write(&files[0].clone(), target_of(&files[0]), number * PIECE, None)
    }),
    ("after a cut", 2, |client, files, number| {
        if files.is_empty() {
            let mut file = only(client, files, 1);
            client.write(&file, target_of(&file), 0, None);
            client.publish(&file, PIECE);
            client.lines[0].truncate(&mut file, 1);
            files[0] = file;
        }
        client.write(&files[0].clone(), target_of(&files[0]), number * PIECE, None)
    }),
    ("in an append turn that never ends", 2, |client, files, number| {
        let file = only(client, files, 1);
        if number == 0 {
            client.lines[0].reply(&Request::AppendBegin { capability: file.capability });
        }
        client.write(&file, target_of(&file), number * PIECE, None)
    }),
    ("reserved, at the home", 1, |client, files, number| reserve(client, files, (0, number))),
    ("reserved, at another server", 2, |client, files, number| reserve(client, files, (1, number))),
];

fn reserve(client: &mut Client, files: &mut Vec<File>, (server, number): (u16, u64)) -> Reply {
    let file = only(client, files, server);
    let request = Request::Reserve {
        capability: file.capability,
        target: target_of(&file),
        epoch: file.epoch,
        fence: Fence::NONE,
        offset: number * PIECE,
        length: PIECE,
        punch: false,
    };
    client.lines[usize::from(server)].reply(&request)
}

fn store(count: usize, backend: &str) -> Cluster {
    let cluster = Cluster::start(&servers(count, 1, backend, "256MiB"));
    if count > 1 {
        for server in 0..count {
            wait_until("the servers know of each other", || {
                let peers = cluster.status(server)["peers"].clone();
                peers.as_array().is_some_and(|peers| peers.iter().all(|peer| peer["age_seconds"].is_number()))
            });
        }
    }
    cluster
}

fn limit(cluster: &Cluster, uid: u32, bytes: u64) {
    let body = format!(r#"{{"kind": "user", "id": {uid}, "limits": {{"bytes_max": {bytes}}}}}"#);
    for server in 0..cluster.count() {
        assert_eq!(cluster.put(server, "/v1/quotas", &body).status, 200);
    }
}

/// Bytes on the targets of all servers.
fn stored(cluster: &Cluster) -> u64 {
    (0..cluster.count()).map(|server| cluster.used_bytes(server)).sum()
}

/// Unpublished bytes on the targets of all servers, as they show them.
fn unpublished(cluster: &Cluster) -> u64 {
    (0..cluster.count()).map(|server| cluster.figure(server, "unpublished_bytes")).sum()
}

/// A figure of a user in the quotas of all servers.
fn charged(cluster: &Cluster, uid: u32, figure: &str) -> u64 {
    let of_server = |server| {
        let answer = get_as(&cluster.address(server), "/v1/quotas", &administrator());
        let quotas: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let owners = quotas["owners"].as_array().expect("a list").clone();
        let own = owners.iter().find(|owner| owner["kind"] == "user" && owner["id"] == uid);
        own.map_or(0, |own| own[figure].as_u64().expect("a number"))
    };
    (0..cluster.count()).map(of_server).sum()
}

/// Carries a way out as often as it goes; answers the most bytes that were stored.
fn flood(cluster: &Cluster, client: &mut Client, way: Way) -> (u64, Vec<Reply>) {
    let (mut files, mut most, mut replies) = (Vec::new(), 0, Vec::new());
    for number in 0..TRIES {
        replies.push(way(client, &mut files, number));
        if number % 4 == 3 {
            most = most.max(stored(cluster));
        }
    }
    (most, replies)
}

/// With a quota of 1 MiB a user stored 800 MiB, which no quota, no `find` and no check of the store knew of.
#[test]
fn unpublished_bytes_are_bounded_by_the_quota_and_shown_and_end_with_the_session() {
    let over = AtomicU64::new(0);
    for backend in BACKENDS {
        std::thread::scope(|threads| {
            for (name, count, way) in WAYS {
                let over = &over;
                threads.spawn(move || {
                    let most = check_way(&format!("{name}, {backend}"), count, backend, way);
                    over.fetch_max(most.saturating_sub(QUOTA), Ordering::Relaxed);
                });
            }
        });
    }
    println!("unpublished: {{\"unpublished_bytes_over_quota\": {}}}", over.into_inner());
}

/// Checks a way to write; answers the most bytes that were stored.
fn check_way(what: &str, count: usize, backend: &str, way: Way) -> u64 {
    let cluster = store(count, backend);
    limit(&cluster, ALICE, QUOTA);
    let mut client = Client::new(&cluster, ALICE);
    let (most, replies) = flood(&cluster, &mut client, way);
    // Two servers may both take as much as they believe to be free until they hear of each other.
    let bound = QUOTA * count as u64;
    assert!(most <= bound, "{what}: {most} bytes, and the quota is {QUOTA}: {replies:?}");
    let is_shown = || charged(&cluster, ALICE, "unpublished_bytes") > 0 && unpublished(&cluster) > 0;
    // Bytes of no file go at once.
    wait_until(&format!("{what}: the user is charged"), || is_shown() || stored(&cluster) <= PAGE);
    drop(client);
    // A publication of one byte keeps its page.
    wait_until(&format!("{what}: the bytes are gone"), || stored(&cluster) <= PAGE);
    wait_until(&format!("{what}: nothing is charged"), || {
        unpublished(&cluster) == 0 && charged(&cluster, ALICE, "unpublished_bytes") == 0
    });
    most
}

/// Without a quota, too, one user leaves room to others.
#[test]
fn a_user_without_a_quota_takes_half_of_the_targets() {
    let cluster = Cluster::start(&servers(1, 1, "ram", "16MiB"));
    let mut client = Client::new(&cluster, ALICE);
    let file = client.make_on("file", 0);
    let mut taken = 0;
    for number in 0..TRIES {
        match client.write(&file, target_of(&file), number * PIECE, None) {
            Reply::Written { .. } => taken += PIECE,
            refused => assert_eq!(refused, Reply::Failed(ENOSPC)),
        }
    }
    assert_eq!(taken, 8 * MIB);
    let mut other = Client::new(&cluster, BOB);
    let file = other.make_on("other", 0);
    assert_eq!(other.write(&file, target_of(&file), 0, None), Reply::Written { size: None });
}

/// Bytes of a file that others still have open go with the client that wrote them.
#[test]
fn bytes_of_a_lost_client_go_while_others_have_the_file_open() {
    for backend in BACKENDS {
        let cluster = store(2, backend);
        let (mut lost, mut other) = (Client::new(&cluster, ALICE), Client::new(&cluster, ALICE));
        let file = lost.make_on("file", 1);
        let mut seen = other.open("file");
        assert_eq!(other.write(&seen, target_of(&seen), 0, None), Reply::Written { size: None });
        assert!(matches!(other.publish(&seen, PIECE), Reply::Written { .. }));
        for number in 1..8 {
            assert_eq!(
                lost.write(&file, target_of(&file), number * PIECE, None),
                Reply::Written { size: None }
            );
        }
        drop(lost);
        wait_until("the bytes are gone", || stored(&cluster) == PIECE);
        // The writer that stays learns that the file was cut, and writes again.
        let stale = other.write(&seen, target_of(&seen), PIECE, None);
        assert!(matches!(stale, Reply::StaleEpoch { .. }), "{stale:?}");
        seen.epoch += 1;
        assert_eq!(other.write(&seen, target_of(&seen), PIECE, None), Reply::Written { size: None });
        assert!(matches!(other.publish(&seen, 2 * PIECE), Reply::Written { .. }));
        assert_eq!(other.lines[0].attributes("file").expect("it is there").size_bytes, 2 * PIECE);
    }
}

/// A killed server forgets who wrote the bytes, and finds them on its targets.
#[test]
fn bytes_that_a_killed_server_finds_behind_the_ends_of_files_are_cut_off() {
    for killed in [0, 1] {
        let mut cluster = store(2, "dir");
        let mut client = Client::new(&cluster, ALICE);
        for server in [0, 1] {
            let file = client.make_on(&format!("file-{server}"), server);
            for number in 0..4 {
                let written = client.write(&file, target_of(&file), number * PIECE, None);
                assert_eq!(written, Reply::Written { size: None });
            }
            assert!(matches!(client.publish(&file, PIECE), Reply::Written { .. }));
        }
        cluster.kill_server(killed);
        drop(client);
        cluster.start_server(killed);
        wait_until("only published bytes are left", || stored(&cluster) == 2 * PIECE);
        assert_eq!(Client::new(&cluster, ALICE).open("file-1").size_bytes, PIECE);
    }
}

/// A client near its limit was refused for bytes that had been published already, at a server that had not heard of that.
#[test]
fn a_client_that_publishes_has_all_of_its_quota() {
    for server in [0, 1] {
        let cluster = store(2, "ram");
        limit(&cluster, ALICE, 4 * MIB);
        let mut client = Client::new(&cluster, ALICE);
        let file = client.make_on("file", server);
        for number in 0..4 * MIB / PIECE {
            let written = client.write(&file, target_of(&file), number * PIECE, None);
            assert_eq!(written, Reply::Written { size: None }, "{server}: {number}");
            let published = client.publish(&file, (number + 1) * PIECE);
            assert!(matches!(published, Reply::Written { .. }), "{server}: {number}: {published:?}");
        }
        // What is there can be written again.
        assert_eq!(client.write(&file, target_of(&file), 0, None), Reply::Written { size: None });
        let refused = client.write(&file, target_of(&file), 4 * MIB, None);
        assert_eq!(refused, Reply::Failed(EDQUOT), "{server}");
        client.lines[0].close(&file);
        assert_eq!(client.lines[0].unlink("file", false), Reply::Done);
        wait_until("the quota is free again", || charged(&cluster, ALICE, "bytes") == 0);
    }
}

/// Random clients write, publish, cut, remove and leave. In the end the targets hold what the files' sizes allow, and no more.
#[test]
fn after_all_sessions_the_targets_hold_what_the_sizes_allow() {
    let mut choices = Choices::new();
    for backend in BACKENDS {
        let cluster = store(2, backend);
        for round in 0..6 {
            let mut client = Client::new(&cluster, ALICE);
            let mut files: Vec<(String, File)> = Vec::new();
            for _ in 0..40 {
                let name = format!("file-{}", choices.below(4));
                let opened = client.lines[0].open(&name, READ_WRITE).expect("opened");
                let offset = choices.below(8) * PIECE;
                match choices.below(6) {
                    0 => drop(client.lines[0].unlink(&name, false)),
                    1 => client.lines[0].truncate(&mut opened.clone(), offset),
                    2 => drop(client.publish(&opened, offset)),
                    3 => client.lines[0].close(&opened),
                    _ => {
                        let targets = opened.layout.targets();
                        let target = targets[choices.below(targets.len() as u64) as usize];
                        client.write(&opened, target, offset, None);
                    }
                }
                files.push((name, opened));
            }
            drop(client);
            let mut witness = Client::new(&cluster, BOB);
            let mut allowed = 0;
            for number in 0..4 {
                let attributes = witness.lines[0].attributes(&format!("file-{number}"));
                allowed += attributes.map_or(0, |attributes| attributes.size_bytes.next_multiple_of(4096));
            }
            wait_until(&format!("round {round}, {backend}: the bytes fit into the sizes"), || {
                stored(&cluster) <= allowed && unpublished(&cluster) == 0
            });
        }
    }
}
