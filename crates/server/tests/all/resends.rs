//! Writes whose answers did not arrive: sent again, they do not come over those of others.

use weir_testing::{claims, dir, key, ram, Cluster, File, Line, Transport, READ_WRITE};
use weir_wire::{ClientId, Extent, Fence, Publication, Reply, Request};

const USER: u32 = 1001;

fn line(cluster: &Cluster, server: usize) -> Line {
    cluster.line(server, Transport::Unix, &key().mint(claims(USER)))
}

fn again(cluster: &Cluster, server: usize, client: ClientId) -> Line {
    cluster.line_of(server, Transport::Unix, &key().mint(claims(USER)), client)
}

/// A write of one byte to the object of a file at a server, which is told the size where it is the home.
fn write(file: &File, server: usize) -> Request {
    let target = file.target_on(server as u16).expect("one there");
    let (capability, epoch) = (file.capability, file.epoch);
    let publication = Publication { end: 1, written_bytes: 1, epoch, reserved_end: 0 };
    let publication = (usize::from(file.ino.home().0) == server).then_some(publication);
    let extents = vec![Extent { offset: 0, length: 1 }];
    Request::Write { capability, target, epoch, fence: Fence::NONE, extents, publication }
}

fn read(line: &mut Line, file: &File, server: usize) -> Vec<u8> {
    let Request::Write { capability, target, epoch, extents, .. } = write(file, server) else {
        unreachable!("it is a write")
    };
    line.call(&Request::Read { capability, target, epoch, fence: Fence::NONE, extents }, &[]).1
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
