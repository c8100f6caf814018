//! Many connections with many requests outstanding on a slow device, every reply checked.

use crate::{claims, key, server_toml, Cluster, File, Line, Transport, READ_WRITE};
use std::sync::Barrier;
use std::time::Instant;
use weir_wire::{limits, Claims, Credential, Extent, Fence, Reply, Request};

/// Bytes of each write and read: the longest payload that is not left in the socket.
const BYTES: usize = limits::INLINE_PAYLOAD_BYTES;
/// Blocks that are written and read, over and over, so that the target itself stays small.
const BLOCKS: u64 = 16;
const STACK_BYTES: usize = 128 * 1024;

/// The figures of a flood.
pub struct Flood {
    /// Most requests that the server had received and not answered.
    pub outstanding_max: u64,
    /// Growth of the server's resident memory at its peak, in KiB.
    pub growth_kib: u64,
    /// Time from the first request to the last reply.
    pub seconds: f64,
}

/// A server with one target of this speed in each direction.
pub fn slow_server(rate: &str) -> Cluster {
    let target = format!(
        "backend = \"ram\"\ncapacity = \"256MiB\"\nspeed = {{ read = \"{rate}\", write = \"{rate}\", fixed = \"10us\" }}"
    );
    Cluster::start(&server_toml(1, &target))
}

/// The block that request `number` of any connection writes or reads; each block always has the same bytes.
fn block(number: usize) -> (u64, u8) {
    let block = number as u64 % BLOCKS;
    (block * BYTES as u64, block as u8 + 1)
}

/// A job of the user whose file it is.
pub fn flooder() -> Credential {
    key().mint(Claims { job: "flood".into(), ..claims(0) })
}

/// A file of the flooder with every block written, and the connection that holds it open: its right ends with that.
pub fn prepare(cluster: &Cluster) -> (Line, File) {
    let mut root = cluster.root(0);
    let mut file = root.open("flooded", READ_WRITE).expect("opened");
    for number in 0..BLOCKS as usize {
        let (offset, byte) = block(number);
        root.write(&mut file, offset, &[byte; BYTES]).expect("written");
    }
    (root, file)
}

/// The write or read of request `number`.
pub fn request(file: &File, number: usize) -> (Request, Vec<u8>) {
    let (offset, byte) = block(number);
    let (capability, target, epoch) = (file.capability, file.layout.targets()[0], file.epoch);
    let extents = vec![Extent { offset, length: BYTES as u32 }];
    if number.is_multiple_of(2) {
        (
            Request::Write { fence: Fence::NONE, capability, target, epoch, extents, publication: None },
            vec![byte; BYTES],
        )
    } else {
        (Request::Read { fence: Fence::NONE, capability, target, epoch, extents }, Vec::new())
    }
}

/// `connections` connections, each with `outstanding` requests sent before the first reply is taken.
pub fn run(cluster: &Cluster, connections: usize, outstanding: usize) -> Flood {
    let (_holder, file) = prepare(cluster);
    let resident_before = cluster.memory_kib(0, "VmRSS");
    let lines: Vec<Line> = (0..connections).map(|_| cluster.line(0, Transport::Unix, &flooder())).collect();
    let begun = Instant::now();
    let together = Barrier::new(connections);
    let outstanding_max = std::thread::scope(|scope| {
        let workers: Vec<_> = lines
            .into_iter()
            .map(|line| {
                let (file, together) = (&file, &together);
                let work = move || keep_outstanding(line, file, outstanding, together);
                let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
                builder.spawn_scoped(scope, work).expect("a thread")
            })
            .collect();
        let mut outstanding_max = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            outstanding_max = outstanding_max.max(cluster.figure(0, "outstanding"));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        outstanding_max
    });
    Flood {
        outstanding_max,
        growth_kib: cluster.memory_kib(0, "VmHWM").saturating_sub(resident_before),
        seconds: begun.elapsed().as_secs_f64(),
    }
}

fn keep_outstanding(mut line: Line, file: &File, outstanding: usize, together: &Barrier) {
    together.wait();
    let first = line.send(&Request::Ping, &[]).0 as usize + 1;
    for number in 0..outstanding {
        let (request, payload) = request(file, number);
        line.send(&request, &payload);
    }
    let mut answered = vec![false; outstanding];
    for _ in 0..=outstanding {
        let (id, reply, payload) = line.receive();
        let Some(number) = (id.0 as usize).checked_sub(first) else { continue };
        assert!(!std::mem::replace(&mut answered[number], true), "answered twice");
        match reply {
            Reply::Written { .. } => assert_eq!(number % 2, 0),
            Reply::Data { .. } => assert!(payload == [block(number).1; BYTES], "other bytes"),
            other => panic!("{other:?}"),
        }
    }
}
