//! Writes whose answers did not arrive: sent again, they do not come over those of others.

use weir_placement::{ServerId, TargetId};
use weir_testing::{claims, dir, key, ram, wait_until, Cluster, File, Line, Transport, READ_WRITE};
use weir_wire::{At, ClientId, Extent, Fence, ObjectMove, Publication, Reply, Request};

const USER: u32 = 1001;
/// More than comes with its request: the payload stays in its socket until the request has a turn.
const LARGE: u32 = 256 * 1024;

fn line(cluster: &Cluster, server: usize) -> Line {
    cluster.line(server, Transport::Unix, &key().mint(claims(USER)))
}

fn again(cluster: &Cluster, server: usize, client: ClientId) -> Line {
    cluster.line_of(server, Transport::Unix, &key().mint(claims(USER)), client)
}

fn publication(bytes: u32, file: &File) -> Publication {
    let end = u64::from(bytes);
    Publication { end, written_bytes: end, epoch: file.epoch, reserved_end: 0 }
}

/// A write to the object of a file at a server, which is told the size where it is the home.
fn write_of(bytes: u32, file: &File, server: usize) -> Request {
    let target = file.target_on(server as u16).expect("one there");
    let (capability, epoch) = (file.capability, file.epoch);
    let publication = (usize::from(file.ino.home().0) == server).then(|| publication(bytes, file));
    let extents = vec![Extent { offset: 0, length: bytes }];
    Request::Write { capability, target, epoch, fence: Fence::NONE, extents, publication }
}

fn read_of(bytes: u32, line: &mut Line, file: &File, server: usize) -> Vec<u8> {
    let Request::Write { capability, target, epoch, extents, .. } = write_of(bytes, file, server) else {
        unreachable!("it is a write")
    };
    line.call(&Request::Read { capability, target, epoch, fence: Fence::NONE, extents }, &[]).1
}

/// A write of one byte.
fn write(file: &File, server: usize) -> Request {
    write_of(1, file, server)
}

fn read(line: &mut Line, file: &File, server: usize) -> Vec<u8> {
    read_of(1, line, file, server)
}

/// A host was cut off before the answer to its write came. Others wrote, and its write came again when the host was back.
#[test]
fn a_write_that_is_sent_again_is_carried_out_once() {
    for (servers, is_killed) in [(ram(2, "64MiB"), false), (dir(2), false), (dir(2), true)] {
        for server in [0, 1] {
            let mut cluster = Cluster::start(&servers);
            let mut home = line(&cluster, 0);
            let file = home.make_on("file", server as u16);
            let (mut sender, mut other) = (line(&cluster, server), line(&cluster, server));
            let client = sender.client;
            let request = sender.send(&write(&file, server), b"1");
            assert!(matches!(sender.receive().1, Reply::Written { .. }));
            assert!(matches!(other.call(&write(&file, server), b"2").0, Reply::Written { .. }));
            drop(sender);
            if is_killed {
                cluster.kill_server(server);
                cluster.start_server(server);
                other = line(&cluster, server);
                if server == 0 {
                    home = line(&cluster, 0);
                    home.reply(&Request::Reclaim { handles: vec![file.capability] });
                }
            }
            let mut sender = again(&cluster, server, client);
            sender.resend(request, &write(&file, server), b"1");
            assert!(matches!(sender.receive().1, Reply::Written { .. }));
            assert_eq!(read(&mut other, &file, server), b"2", "server {server}, killed {is_killed}");
            // A later write of the same client is one of its own.
            assert!(matches!(sender.call(&write(&file, server), b"3").0, Reply::Written { .. }));
            assert_eq!(read(&mut other, &file, server), b"3");
        }
    }
}

/// The bytes of a large payload lie where others read them before all of them are here, unless the server knows better.
#[test]
fn a_large_write_that_is_sent_again_is_carried_out_once() {
    for (servers, server) in [(ram(2, "64MiB"), 0), (ram(2, "64MiB"), 1), (dir(2), 1)] {
        let cluster = Cluster::start(&servers);
        let mut home = line(&cluster, 0);
        let file = home.make_on("file", server as u16);
        let (mut sender, mut other) = (line(&cluster, server), line(&cluster, server));
        let (client, large) = (sender.client, write_of(LARGE, &file, server));
        let request = sender.send(&large, &[1; LARGE as usize]);
        assert!(matches!(sender.receive().1, Reply::Written { .. }));
        assert!(matches!(other.call(&large, &[2; LARGE as usize]).0, Reply::Written { .. }));
        drop(sender);
        let mut sender = again(&cluster, server, client);
        sender.resend(request, &large, &[1; LARGE as usize]);
        assert!(matches!(sender.receive().1, Reply::Written { .. }));
        assert!(read_of(LARGE, &mut other, &file, server) == [2; LARGE as usize], "server {server}");
        // The connection goes on behind the payload that was thrown away.
        assert!(matches!(sender.call(&write(&file, server), b"3").0, Reply::Written { .. }));
    }
}

/// A client took its connection for broken and sent its write again. The network brings the rest of the first one then.
#[test]
fn what_is_left_of_an_earlier_connection_is_not_carried_out() {
    for (servers, bytes) in [(ram(1, "64MiB"), LARGE), (ram(1, "64MiB"), 1), (dir(1), LARGE), (dir(1), 1)] {
        let cluster = Cluster::start(&servers);
        let (mut sender, mut other) = (line(&cluster, 0), line(&cluster, 0));
        let file = sender.open("file", READ_WRITE).expect("opened");
        let message = write_of(bytes, &file, 0);
        let payload = |byte: u8| vec![byte; bytes as usize];
        assert!(matches!(sender.call(&message, &payload(1)).0, Reply::Written { .. }));
        let (request, rest) = sender.send_but(bytes.div_ceil(2) as usize, &message, &payload(2));
        let mut again = again(&cluster, 0, sender.client);
        again.resend(request, &message, &payload(2));
        assert!(matches!(again.receive().1, Reply::Written { .. }));
        assert!(matches!(other.call(&message, &payload(3)).0, Reply::Written { .. }));
        sender.connection.send_bytes(&rest);
        assert!(sender.try_receive().is_none(), "the first connection is over");
        assert!(read_of(bytes, &mut other, &file, 0) == payload(3), "{bytes} bytes");
        // What the client holds is held through its other connection.
        assert!(matches!(again.call(&message, &payload(4)).0, Reply::Written { .. }));
    }
}

/// Moves the only object of a file to the first target of another server.
fn move_object(cluster: &Cluster, file: &File, (from, to): (usize, usize)) {
    let mut home = line(cluster, 0);
    let target = |server: usize| TargetId { server: ServerId(server as u16), index: 0 };
    let place = ObjectMove { from: target(from), to: target(to) };
    let begun = home.reply(&Request::MoveBegin { at: At::inode(file.ino), moves: vec![place] });
    let Reply::Moving { ino, moving, capability, epoch } = begun else { panic!("{begun:?}") };
    let Reply::Frozen { epoch: frozen } = home.reply(&Request::MoveFreeze { ino, moving }) else {
        panic!("it does not freeze")
    };
    let extents = vec![Extent { offset: 0, length: 1 }];
    let (fence, target, publication) = (Fence::NONE, place.from, None);
    let read = Request::Read { capability, target, epoch: frozen, fence, extents: extents.clone() };
    let (reply, bytes) = line(cluster, from).call(&read, &[]);
    assert!(matches!(reply, Reply::Data { .. }), "{reply:?}");
    let write = Request::Write { capability, target: place.to, epoch, fence, extents, publication };
    let reply = line(cluster, to).call(&write, &bytes).0;
    assert!(matches!(reply, Reply::Written { .. }), "{reply:?}");
    assert_eq!(home.reply(&Request::MoveEnd { ino, moving, commit: true }), Reply::Done);
}

/// The object moved while the answer to a write was on its way: the server that carried the write out answers it.
#[test]
fn a_write_that_is_sent_again_after_its_object_moved_is_carried_out_once() {
    for is_killed in [false, true] {
        let mut cluster = Cluster::start(&dir(2));
        let mut home = line(&cluster, 0);
        let mut made = || home.open_laid_out("file", READ_WRITE, Some("-c 1 -o 1.0"));
        wait_until("the server is known", || made().is_ok());
        let file = made().expect("opened");
        let (mut sender, mut other) = (line(&cluster, 1), line(&cluster, 1));
        let client = sender.client;
        let request = sender.send(&write(&file, 1), b"1");
        assert!(matches!(sender.receive().1, Reply::Written { .. }));
        assert!(matches!(other.call(&write(&file, 1), b"2").0, Reply::Written { .. }));
        drop(sender);
        let (capability, publication) = (file.capability, publication(1, &file));
        let told = home.reply(&Request::Publish { capability, publication });
        assert!(matches!(told, Reply::Written { .. }), "{told:?}");
        move_object(&cluster, &file, (1, 0));
        if is_killed {
            cluster.kill_server(1);
            cluster.start_server(1);
        }
        let mut sender = again(&cluster, 1, client);
        sender.resend(request, &write(&file, 1), b"1");
        assert!(matches!(sender.receive().1, Reply::Written { .. }), "killed {is_killed}");
        let moved = line(&cluster, 0).open("file", READ_WRITE).expect("opened");
        assert_eq!(read(&mut line(&cluster, 0), &moved, 0), b"2");
        // A write that the server did not carry out is told to go where the object is.
        assert!(matches!(sender.call(&write(&file, 1), b"3").0, Reply::StaleEpoch { .. }));
    }
}

/// A write that a killed server did not carry out is carried out when it comes again.
#[test]
fn a_write_that_was_not_carried_out_is_when_it_is_sent_again() {
    let mut cluster = Cluster::start(&dir(1));
    let mut sender = line(&cluster, 0);
    let file = sender.open("file", READ_WRITE).expect("opened");
    let (client, capability) = (sender.client, file.capability);
    assert!(matches!(sender.call(&write(&file, 0), b"1").0, Reply::Written { .. }));
    let missed = sender.send(&Request::Ping, &[]);
    cluster.kill_server(0);
    cluster.start_server(0);
    let mut sender = again(&cluster, 0, client);
    sender.reply(&Request::Reclaim { handles: vec![capability] });
    sender.resend(missed, &write(&file, 0), b"2");
    assert!(matches!(sender.receive().1, Reply::Written { .. }));
    assert_eq!(read(&mut sender, &file, 0), b"2");
}
