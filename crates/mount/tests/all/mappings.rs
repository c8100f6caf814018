//! Shared mappings: one mount sees the stores of another, and mapped pages show the bytes that calls wrote.

use std::fs;
use std::os::unix::fs::FileExt;
use weir_testing::{can_mount, python, ram, servers, shell, wait_until, Cluster};

/// Two processes that obey a driver, each with the file mapped by another mount.
const DRIVER: &str = r#"
import mmap, os, subprocess, sys
AGENT = '''
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
mapped = mmap.mmap(fd, os.fstat(fd).st_size)
for line in sys.stdin:
    command, *words = line.split()
    if command == 'store':
        mapped[int(words[0]):int(words[0]) + len(words[1])] = words[1].encode()
        answer = 'stored'
    elif command == 'flush':
        mapped.flush()
        answer = 'flushed'
    elif command == 'load':
        answer = bytes(mapped[int(words[0]):int(words[0]) + int(words[1])]).decode()
    elif command == 'write':
        answer = str(os.pwrite(fd, words[1].encode(), int(words[0])))
    elif command == 'read':
        answer = os.pread(fd, int(words[1]), int(words[0])).decode()
    elif command == 'remap':
        mapped.close()
        mapped = mmap.mmap(fd, os.fstat(fd).st_size)
        answer = str(len(mapped))
    print(answer, flush=True)
'''
class Agent:
    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, '-c', AGENT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def __call__(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip('\n')
    def end(self):
        self.process.stdin.close()
        assert self.process.wait(100) == 0
def expect(actual, expected):
    assert actual == expected, (actual, expected)
"#;

#[test]
fn two_mounts_see_each_others_stores_and_writes() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, _second) = (cluster.mount("m1"), cluster.mount("m2"));
    fs::write(first.path().join("f"), vec![b'.'; 3 << 20]).expect("written");
    let script = r#"
one, two = Agent('m1/f'), Agent('m2/f')
for offset in [0, 4090, (1 << 20) - 3, (2 << 20) + 100]:
    expect(one('load', offset, 6), '......')
    expect(two('load', offset, 6), '......')
    # A write call by one mount shows in the other's mapped pages at once, and in its own.
    expect(one('write', offset, 'abcdef'), '6')
    expect(two('load', offset, 6), 'abcdef')
    expect(one('load', offset, 6), 'abcdef')
    expect(two('read', offset, 6), 'abcdef')
    # A store shows elsewhere after msync.
    expect(two('store', offset, 'ABC'), 'stored')
    expect(two('load', offset, 6), 'ABCdef')
    expect(two('flush'), 'flushed')
    expect(one('load', offset, 6), 'ABCdef')
    expect(one('read', offset, 6), 'ABCdef')
for turn in range(100):
    writer, reader = (one, two) if turn % 2 else (two, one)
    text = f'turn{turn:04}'
    expect(writer('write', 8000 + turn, text), '8')
    expect(reader('load', 8000 + turn, 8), text)
    expect(reader('store', 20000 + turn, text), 'stored')
    expect(reader('flush'), 'flushed')
    expect(writer('load', 20000 + turn, 8), text)
one.end()
two.end()
"#;
    python(cluster.folder(), &format!("{DRIVER}\n{script}"));
}

#[test]
fn a_file_that_grew_elsewhere_is_mapped_whole() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    fs::write(first.path().join("f"), b"12345678").expect("written");
    let script = r#"
one = Agent('m1/f')
expect(one('load', 0, 8), '12345678')
with open('m2/f', 'ab') as file:
    file.write(b'x' * 20000 + b'the end')
expect(one('remap'), str(8 + 20000 + 7))
expect(one('load', 20008, 7), 'the end')
# A store at the end does not make the file longer when its page is written back.
expect(one('store', 20012, 'END'), 'stored')
expect(one('flush'), 'flushed')
assert os.stat('m2/f').st_size == 20015
with open('m2/f', 'rb') as file:
    assert file.read()[-7:] == b'the END'
# Nor when another mount cut the file before.
expect(one('store', 19999, 'gone'), 'stored')
os.truncate('m2/f', 10)
expect(one('flush'), 'flushed')
assert os.stat('m2/f').st_size == 10, os.stat('m2/f').st_size
one.end()
"#;
    python(cluster.folder(), &format!("{DRIVER}\n{script}"));
    assert_eq!(fs::metadata(second.path().join("f")).expect("there").len(), 10);
}

#[test]
fn pages_are_dropped_when_a_server_starts_anew() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::start(&servers(1, 2, "dir", "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    fs::write(first.path().join("f"), b"before").expect("written");
    fs::File::open(first.path().join("f")).expect("open").sync_all().expect("synced");
    let file = fs::File::open(first.path().join("f")).expect("open");
    let mapped = Mapped::of(&file, 6);
    assert_eq!(mapped.bytes(), b"before");
    cluster.kill_server(0);
    cluster.start_server(0);
    let writer = || fs::File::options().write(true).open(second.path().join("f"));
    wait_until("the store is back", || writer().is_ok_and(|file| file.write_all_at(b"after!", 0).is_ok()));
    // A server that started anew knows no watches: the write did not wait for the mount, which learns of it by itself.
    wait_until("the mount has dropped its pages", || mapped.bytes() == b"after!");
}

/// A shared mapping of the start of a file.
struct Mapped {
    address: *const u8,
    length: usize,
}

impl Mapped {
    fn of(file: &fs::File, length: usize) -> Mapped {
        use rustix::mm::{mmap, MapFlags, ProtFlags};
        // SAFETY: a fresh mapping at an address of the kernel's choice takes no memory from anyone.
        let address =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0) };
        Mapped { address: address.expect("mapped").cast(), length }
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: the range is mapped until drop; volatile, because others change it.
        (0..self.length).map(|at| unsafe { self.address.add(at).read_volatile() }).collect()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping any more.
        let _ = unsafe { rustix::mm::munmap(self.address.cast_mut().cast(), self.length) };
    }
}

#[test]
fn a_mapping_outlives_its_descriptor_and_its_name() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    python(
        mount.path(),
        r#"
import mmap, os
fd = os.open('f', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 100_000)
mapped = mmap.mmap(fd, 100_000)
mapped[50_000:50_004] = b'kept'
other = os.open('f', os.O_RDONLY)
os.close(fd)
os.unlink('f')
mapped.flush()
assert os.pread(other, 4, 50_000) == b'kept'
private = mmap.mmap(other, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
private[50_000:50_004] = b'mine'
assert os.pread(other, 4, 50_000) == b'kept' and mapped[50_000:50_004] == b'kept'
"#,
    );
}

#[test]
fn programs_run_from_the_store_and_can_be_replaced() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    shell(first.path(), "cp /bin/echo program && test \"$(./program one)\" = one");
    shell(
        second.path(),
        "test \"$(./program two)\" = two && cp /bin/true program.new && mv program.new program",
    );
    shell(first.path(), "test \"$(./program three)\" = ''");
}

#[test]
fn reads_and_writes_past_the_size_the_kernel_knows_are_right() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    let path = first.path().join("f");
    let one = fs::File::options().read(true).write(true).create_new(true).open(path).expect("made");
    let two = fs::File::options().read(true).write(true).open(second.path().join("f")).expect("open");
    for turn in 0..50u64 {
        let (writer, reader) = if turn % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let bytes = vec![turn as u8; 70_001];
        writer.write_all_at(&bytes, turn * 70_001).expect("written");
        let mut read = vec![0; 70_001];
        reader.read_exact_at(&mut read, turn * 70_001).expect("read");
        assert_eq!(read, bytes, "turn {turn}");
        assert_eq!(reader.metadata().expect("open").len(), (turn + 1) * 70_001);
    }
    one.set_len(5).expect("cut");
    assert_eq!(two.read_at(&mut [0; 100], 0).expect("read"), 5);
    assert_eq!(two.read_at(&mut [0; 100], 1000).expect("read"), 0);
}
