//! Identities: the claims that a credential proves, the claims that a mount may make for others, and refusals in the log.

use weir_placement::{ServerId, TargetId};
use weir_testing::{claims, key, ram, random_client, unix_seconds, Cluster, Line, Transport, READ_WRITE};
use weir_wire::{
    AccountNames, At, AttributeChange, Claims, ClientId, Credential, DelegatedJob, Errno, Extent, Fence,
    Identity, IdentityId, Ino, NodeKind, PeerRequest, Publication, Reply, Request, RequestId, Rights, Role,
    SiteKey,
};

const EPERM: Errno = Errno(1);
const EBADF: Errno = Errno(9);
const EACCES: Errno = Errno(13);
const EINVAL: Errno = Errno(22);

fn one_server() -> Cluster {
    Cluster::start(&ram(1, "64MiB"))
}

/// A credential with claims that were changed after it was minted.
fn altered(change: impl FnOnce(&mut Claims)) -> Credential {
    let mut credential = key().mint(claims(1000));
    change(&mut credential.claims);
    credential
}

/// The credential is refused with a reason over a transport, and the refusal is logged. `answer` is what its bearer hears.
fn is_refused_over(
    (cluster, transport): (&Cluster, Transport),
    credential: &Credential,
    (logged, answer): (&str, Option<Reply>),
) {
    let count = || cluster.log(0).matches(logged).count();
    let before = count();
    let refused = Line::prove(cluster.connection(0, transport), credential, random_client()).err();
    assert_eq!(refused, Some(answer), "{logged}");
    assert_eq!(count(), before + 1, "the log lacks {logged:?}: {}", cluster.log(0));
}

/// The tag is not that of the claims: on a Unix socket the proof is wrong, and over TCP no channel is sealed.
fn is_forged(cluster: &Cluster, credential: &Credential) {
    let Claims { job, uid, .. } = &credential.claims;
    let logged = format!("credential of job {job:?} of uid {uid} refused: it was forged, altered");
    let answer = Some(Reply::Failed(EACCES));
    is_refused_over((cluster, Transport::Unix), credential, (&logged, answer));
    let logged = "a connection refused: the other side does not know the key of the credential";
    is_refused_over((cluster, Transport::Tcp), credential, (logged, None));
}

/// The site minted the credential, which does not hold.
fn is_refused(cluster: &Cluster, credential: &Credential, reason: &str) {
    let Claims { job, uid, .. } = &credential.claims;
    let logged = format!("credential of job {job:?} of uid {uid} refused: {reason}");
    for transport in Transport::BOTH {
        is_refused_over((cluster, transport), credential, (&logged, Some(Reply::Failed(EACCES))));
    }
}

#[test]
fn a_forged_or_altered_credential_is_refused() {
    let cluster = one_server();
    is_forged(&cluster, &SiteKey::new([8; 32]).mint(claims(1000)));
    is_forged(&cluster, &altered(|claims| claims.uid = 0));
    is_forged(&cluster, &altered(|claims| claims.gid = 0));
    is_forged(&cluster, &altered(|claims| claims.groups.push(0)));
    is_forged(&cluster, &altered(|claims| claims.nodes = 400));
    is_forged(&cluster, &altered(|claims| claims.priority = 100));
    is_forged(&cluster, &altered(|claims| claims.role = Role::Mount));
    is_forged(&cluster, &altered(|claims| claims.role = Role::Server));
    is_forged(&cluster, &altered(|claims| claims.user = "other".into()));
    is_forged(&cluster, &altered(|claims| claims.expires_seconds += 1));
    let jobs = cluster.show(0, "/v1/jobs");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(0), "a refused job is not entered: {jobs}");
    assert!(cluster.root(0).open("file", READ_WRITE).is_ok(), "a good one is welcome");
}

#[test]
fn a_credential_holds_from_its_issue_to_its_expiry() {
    let cluster = one_server();
    let mint = |change: fn(&mut Claims, u64)| {
        let mut claims = claims(1000);
        change(&mut claims, unix_seconds());
        key().mint(claims)
    };
    is_refused(&cluster, &mint(|claims, now| claims.expires_seconds = now - 1), "it has expired");
    is_refused(&cluster, &mint(|claims, now| claims.issued_seconds = now + 3600), "it is not valid yet");
    is_refused(
        &cluster,
        &mint(|claims, _| claims.role = Role::Administrator),
        "commands of the administrator use the control API",
    );
    for outside in [mint(|claims, _| claims.nodes = 0), mint(|claims, _| claims.job = "x".repeat(200))] {
        let answer = Some(Reply::Failed(EACCES));
        is_refused_over(
            (&cluster, Transport::Unix),
            &outside,
            ("refused: a claim is outside its limits", answer),
        );
        let logged = "a connection refused: the claims of the connection are outside of their limits";
        is_refused_over((&cluster, Transport::Tcp), &outside, (logged, None));
    }
    let good = mint(|claims, now| {
        (claims.issued_seconds, claims.expires_seconds) = (now, now + 60);
    });
    assert!(Line::prove(cluster.connection(0, Transport::Tcp), &good, random_client()).is_ok());
}

#[test]
fn an_overheard_proof_is_of_no_use() {
    let cluster = one_server();
    let credential = key().mint(claims(1000));
    let line = cluster.line(0, Transport::Unix, &credential);
    let proof = credential.prove(&line.session);
    let mut connection = cluster.connection(0, Transport::Unix);
    let hello = Request::Hello {
        client: line.client,
        slot: 0,
        claims: claims(1000),
        nonce: [1; 32],
        has_mount: false,
        is_new: false,
    };
    assert!(matches!(connection.ask(RequestId(0), &hello), Some(Reply::Challenge { .. })));
    assert_eq!(connection.ask(RequestId(0), &Request::Prove { proof }), Some(Reply::Failed(EACCES)));
    assert!(connection.receive_frame().is_none(), "the connection is closed");
}

#[test]
fn a_name_in_a_refused_credential_cannot_forge_a_line_of_the_log() {
    let cluster = one_server();
    let credential = altered(|claims| claims.job = "x\nweir-server: all is well \x1b[2J".into());
    let _ = Line::prove(cluster.connection(0, Transport::Unix), &credential, random_client());
    let log = cluster.log(0);
    assert!(log.contains(r"x\nweir-server") && !log.contains("\nweir-server: all is well"), "{log}");
    assert!(!log.contains('\x1b'), "{log:?}");
}

fn mount_line(cluster: &Cluster) -> Line {
    let role = Role::Mount;
    cluster.line(0, Transport::Unix, &key().mint(Claims { role, job: "mount".into(), ..claims(0) }))
}

fn identify(number: u32, uid: u32, job: Option<DelegatedJob>) -> Request {
    let who = Identity { uid, gid: uid, groups: vec![uid] };
    let names = AccountNames { user: format!("user-{uid}"), group: format!("group-{uid}") };
    Request::Identify { identity: IdentityId(number), who, names, job }
}

#[test]
fn only_a_mount_speaks_for_others() {
    let cluster = one_server();
    let mut user = cluster.line(0, Transport::Unix, &key().mint(claims(1000)));
    assert_eq!(user.reply(&identify(1, 0, None)), Reply::Failed(EPERM));
    user.identity = IdentityId(1);
    assert_eq!(
        user.reply(&Request::Attributes { at: At::inode(Ino::ROOT), follow: false }),
        Reply::Failed(EACCES)
    );

    let mut mount = mount_line(&cluster);
    assert_eq!(mount.reply(&identify(0, 1000, None)), Reply::Failed(EPERM), "0 is its own");
    assert_eq!(mount.reply(&identify(1, 1000, None)), Reply::Done);
    let at = At::new(Ino::ROOT, "of-1000");
    let change = AttributeChange { permissions: Some(0o777), ..Default::default() };
    let open_root = Request::Change { at: At::inode(Ino::ROOT), follow: false, change };
    assert!(matches!(mount.reply(&open_root), Reply::Attributes(_)));
    mount.identity = IdentityId(1);
    let make = Request::Make { at: at.clone(), kind: NodeKind::Regular, permissions: 0o600 };
    match mount.reply(&make) {
        Reply::Attributes(attributes) => assert_eq!((attributes.uid, attributes.gid), (1000, 1000)),
        other => panic!("{other:?}"),
    }
    mount.identity = IdentityId(2);
    assert_eq!(
        mount.reply(&Request::Attributes { at, follow: false }),
        Reply::Failed(EACCES),
        "not registered"
    );
}

#[test]
fn a_mount_forwards_only_proved_jobs_of_the_same_user() {
    let cluster = one_server();
    let mut mount = mount_line(&cluster);
    let session = mount.session;
    let job = |credential: &Credential| {
        let proof = credential.prove(&session);
        Some(DelegatedJob { claims: credential.claims.clone(), proof })
    };
    let of_1000 = key().mint(Claims { nodes: 4, job: "big".into(), ..claims(1000) });
    assert_eq!(mount.reply(&identify(1, 1000, job(&of_1000))), Reply::Done);
    assert_eq!(mount.reply(&identify(2, 1001, job(&of_1000))), Reply::Failed(EACCES), "of another user");
    let grown = altered(|claims| claims.nodes = 64);
    assert_eq!(mount.reply(&identify(3, 1000, job(&grown))), Reply::Failed(EACCES), "altered");
    let expired = key().mint(Claims { expires_seconds: unix_seconds() - 1, ..claims(1000) });
    assert_eq!(mount.reply(&identify(4, 1000, job(&expired))), Reply::Failed(EACCES), "expired");
    let other = mount_line(&cluster).session;
    let elsewhere = Some(DelegatedJob { claims: of_1000.claims.clone(), proof: of_1000.prove(&other) });
    assert_eq!(mount.reply(&identify(5, 1000, elsewhere)), Reply::Failed(EACCES), "of another connection");

    mount.identity = IdentityId(1);
    assert!(matches!(mount.reply(&Request::ReadLink { at: At::inode(Ino::ROOT) }), Reply::Failed(EINVAL)));
    let jobs = cluster.show(0, "/v1/jobs");
    let big = jobs["jobs"].as_array().expect("jobs").iter().find(|job| job["job"] == "big");
    let big = big.unwrap_or_else(|| panic!("{jobs}"));
    assert_eq!((&big["nodes"], &big["uid"]), (&4.into(), &1000.into()));
    assert_eq!(big["operations"], 1, "what it did is accounted to it: {jobs}");
}

#[test]
fn a_user_is_no_server() {
    let cluster = one_server();
    let target = TargetId { server: ServerId(0), index: 0 };
    let remove = Request::Peer(PeerRequest::RemoveObject { ino: Ino(2), target });
    let exchange = Request::Peer(PeerRequest::Exchange);
    let named_like_one = Claims { job: "server-1".into(), ..claims(0) };
    for mut line in [
        cluster.line(0, Transport::Unix, &key().mint(claims(1000))),
        cluster.root(0),
        mount_line(&cluster),
        cluster.line(0, Transport::Unix, &key().mint(named_like_one)),
    ] {
        assert_eq!(line.reply(&remove), Reply::Failed(EPERM));
        assert_eq!(line.reply(&exchange), Reply::Failed(EPERM));
    }
}

#[test]
fn a_capability_is_good_for_what_it_says_and_nothing_else() {
    let cluster = one_server();
    let mut line = cluster.root(0);
    let mut file = line.open("file", READ_WRITE).expect("opened");
    line.write(&mut file, 0, b"secret").expect("written");
    let target = file.layout.targets()[0];
    let extents = vec![Extent { offset: 0, length: 6 }];
    let read = |capability| Request::Read {
        fence: Fence::NONE,
        capability,
        target,
        epoch: 0,
        extents: extents.clone(),
    };
    let publication = Publication { end: 6, written_bytes: 6, epoch: 0, reserved_end: 0 };
    let write = |capability| {
        let (extents, publication) = (extents.clone(), Some(publication));
        Request::Write { fence: Fence::NONE, capability, target, epoch: 0, extents, publication }
    };

    let mut stranger = cluster.line(0, Transport::Tcp, &key().mint(claims(1000)));
    assert_eq!(stranger.reply(&read(file.capability)), Reply::Failed(EACCES), "it is another user's");
    assert_eq!(stranger.call(&write(file.capability), b"broken").0, Reply::Failed(EACCES));
    let mut moved = file.capability;
    moved.ino = Ino(file.ino.0 + 1);
    assert_eq!(stranger.reply(&read(moved)), Reply::Failed(EACCES));
    let forged = SiteKey::new([8; 32]).capability(
        file.description(1000),
        Rights { read: true, write: true },
        unix_seconds(),
    );
    assert_eq!(stranger.reply(&read(forged)), Reply::Failed(EACCES));
    assert_eq!(stranger.call(&write(forged), b"broken").0, Reply::Failed(EACCES));
    assert_eq!(stranger.reply(&Request::SyncObject { capability: forged, target }), Reply::Failed(EACCES));
    for request in [
        Request::Append { capability: forged },
        Request::AppendBegin { capability: forged },
        Request::Publish { capability: forged, publication },
        Request::Reserve {
            fence: Fence::NONE,
            capability: forged,
            target,
            epoch: 0,
            offset: 0,
            length: 6,
            punch: true,
        },
    ] {
        assert_eq!(stranger.reply(&request), Reply::Failed(EACCES), "{request:?}");
    }

    let read_only = file.with_rights(Rights { read: true, write: false });
    let mut widened = read_only;
    widened.rights.write = true;
    assert_eq!(line.call(&write(read_only), b"broken").0, Reply::Failed(EBADF));
    assert_eq!(line.call(&write(widened), b"broken").0, Reply::Failed(EACCES));
    let write_only = file.with_rights(Rights { read: false, write: true });
    assert_eq!(line.reply(&read(write_only)), Reply::Failed(EBADF));
    assert_eq!(line.read(&file, 0, 6).expect("read"), b"secret");
}

/// A fresh capability is minted by the home and checked by every target, without a word between the two.
#[test]
fn a_capability_of_one_server_is_good_at_another_for_its_user() {
    let cluster = Cluster::start(&ram(2, "64MiB"));
    let file = cluster.root(0).open("file", READ_WRITE).expect("opened");
    let target = file.target_on(1).expect("a target there");
    let mut other = cluster.line(1, Transport::Tcp, &key().mint(claims(0)));
    let mut stranger = cluster.line(1, Transport::Tcp, &key().mint(claims(1000)));
    let extents = vec![Extent { offset: 0, length: 3 }];
    let (capability, epoch) = (file.capability, file.epoch);
    let write = Request::Write {
        fence: Fence::NONE,
        capability,
        target,
        epoch,
        extents: extents.clone(),
        publication: None,
    };
    assert_eq!(stranger.call(&write, b"abc").0, Reply::Failed(EACCES));
    assert_eq!(other.call(&write, b"abc").0, Reply::Written { size: None });
    let (reply, bytes) =
        other.call(&Request::Read { fence: Fence::NONE, capability, target, epoch, extents }, &[]);
    assert_eq!((reply, bytes.as_slice()), (Reply::Data { size: None }, b"abc".as_slice()));
}

#[test]
fn a_second_greeting_and_an_unknown_client_are_refused() {
    let cluster = one_server();
    let mut connection = cluster.connection(0, Transport::Unix);
    connection.send_bytes(&weir_testing::frame(RequestId(1), IdentityId(0), &Request::Ping, &[]));
    let (refusals, _) = connection.drain();
    assert_eq!(refusals, ["a connection begins with Hello and Prove"]);
    let mut line = cluster.root(0);
    let hello = Request::Hello {
        client: ClientId(1),
        slot: 0,
        claims: claims(0),
        nonce: [0; 32],
        has_mount: false,
        is_new: true,
    };
    line.send(&hello, &[]);
    assert_eq!(line.connection.drain().0, ["this connection is already proved"]);
}
