//! Locks between processes and between mounts: fcntl, open file description and flock locks, and waits that end.

use std::path::Path;
use std::process::Command;
use weir_testing::{can_mount, checked, python, ram, Cluster};

/// Helpers of all scripts: locks as the C library makes them, and a child process that waits for orders.
const PRELUDE: &str = r#"
import contextlib, errno, fcntl, os, signal, struct, subprocess, sys, threading, time
F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
FORMAT = 'hhqqi4x'
def lock(fd, command, kind, start=0, length=0):
    return struct.unpack(FORMAT, fcntl.fcntl(fd, command, struct.pack(FORMAT, kind, os.SEEK_SET, start, length, 0)))
def fails(number, call):
    try:
        call()
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError(f'expected {errno.errorcode[number]}')
def in_child(body):
    """Runs body in a child with its own descriptors; answers its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    return pid
def succeeded(pid):
    assert os.waitpid(pid, 0)[1] == 0
def opened(name='f'):
    return os.open(name, os.O_RDWR | os.O_CREAT)
def wait_until(done):
    end = time.monotonic() + 100
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)
def sleeps_in_a_lock_call(pid):
    with open(f'/proc/{pid}/syscall') as file:
        return file.read().startswith(('72 ', '73 '))
signal.alarm(110)
"#;

fn run(folder: &Path, script: &str) {
    python(folder, &format!("{PRELUDE}\n{script}"));
}

#[test]
fn process_locks_exclude_other_processes() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    run(
        mount.path(),
        r#"
fd = opened()
lock(fd, fcntl.F_SETLK, fcntl.F_WRLCK, 10, 10)
lock(fd, fcntl.F_SETLK, fcntl.F_RDLCK, 100, 10)
parent = os.getpid()
def other():
    mine = opened()
    fails(errno.EAGAIN, lambda: lock(mine, fcntl.F_SETLK, fcntl.F_RDLCK, 15, 1))
    lock(mine, fcntl.F_SETLK, fcntl.F_RDLCK, 100, 5)
    fails(errno.EAGAIN, lambda: lock(mine, fcntl.F_SETLK, fcntl.F_WRLCK, 105, 1))
    kind, _, start, length, pid = lock(mine, fcntl.F_GETLK, fcntl.F_WRLCK, 0, 50)
    assert (kind, start, length, pid) == (fcntl.F_WRLCK, 10, 10, parent), (kind, start, length, pid)
    assert lock(mine, fcntl.F_GETLK, fcntl.F_WRLCK, 20, 50)[0] == fcntl.F_UNLCK
    lock(mine, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 10)
succeeded(in_child(other))
# Closing any descriptor of the file releases them all.
os.close(opened())
def after():
    lock(opened(), fcntl.F_SETLK, fcntl.F_WRLCK)
succeeded(in_child(after))
# The end of a process releases its locks.
lock(fd, fcntl.F_SETLK, fcntl.F_WRLCK)
"#,
    );
}

#[test]
fn a_waiting_process_gets_the_lock_when_it_is_free() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    let script = format!(
        "{PRELUDE}\n{}",
        r#"
fd = opened('counter')
for _ in range(40):
    lock(fd, fcntl.F_SETLKW, fcntl.F_WRLCK)
    text = os.pread(fd, 100, 0)
    os.pwrite(fd, str(int(text or b'0') + 1).encode(), 0)
    lock(fd, fcntl.F_SETLK, fcntl.F_UNLCK)
"#
    );
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let folder = if worker % 2 == 0 { first.path() } else { second.path() }.to_owned();
            let script = script.clone();
            std::thread::spawn(move || python(&folder, &script))
        })
        .collect();
    for worker in workers {
        worker.join().expect("it counted");
    }
    assert_eq!(std::fs::read_to_string(first.path().join("counter")).expect("read"), "160");
}

#[test]
fn description_locks_belong_to_descriptions() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    run(
        mount.path(),
        r#"
first, second = opened(), opened()
lock(first, F_OFD_SETLK, fcntl.F_WRLCK, 0, 10)
fails(errno.EAGAIN, lambda: lock(second, F_OFD_SETLK, fcntl.F_WRLCK, 5, 1))
assert lock(second, F_OFD_GETLK, fcntl.F_WRLCK, 5, 1)[0] == fcntl.F_WRLCK
# They and process locks exclude each other.
fails(errno.EAGAIN, lambda: lock(second, fcntl.F_SETLK, fcntl.F_WRLCK, 5, 1))
lock(second, F_OFD_SETLK, fcntl.F_WRLCK, 10, 10)
# Closing another descriptor of the file keeps them, closing a copy too.
os.close(opened())
copy = os.dup(first)
os.close(first)
fails(errno.EAGAIN, lambda: lock(second, F_OFD_SETLK, fcntl.F_WRLCK, 5, 1))
# A child shares them, and its end changes nothing.
succeeded(in_child(lambda: lock(copy, F_OFD_SETLK, fcntl.F_WRLCK, 0, 5)))
fails(errno.EAGAIN, lambda: lock(second, F_OFD_SETLK, fcntl.F_WRLCK, 5, 1))
os.close(copy)
lock(second, F_OFD_SETLK, fcntl.F_WRLCK, 0, 10)
# Two descriptions that wait for each other are no deadlock for the kernel: one thread waits until the other lets go.
third = opened()
lock(third, F_OFD_SETLK, fcntl.F_WRLCK, 20, 10)
waiter = threading.Thread(target=lambda: lock(second, F_OFD_SETLKW, fcntl.F_WRLCK, 20, 10))
waiter.start()
fails(errno.EAGAIN, lambda: lock(third, F_OFD_SETLK, fcntl.F_WRLCK, 0, 10))
lock(third, F_OFD_SETLK, fcntl.F_UNLCK, 20, 10)
waiter.join(40)
assert not waiter.is_alive()
"#,
    );
}

#[test]
fn flock_is_a_lock_of_its_own() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    run(
        first.path(),
        r#"
first, second = opened(), opened()
fcntl.flock(first, fcntl.LOCK_SH)
fcntl.flock(second, fcntl.LOCK_SH)
fails(errno.EAGAIN, lambda: fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB))
fcntl.flock(second, fcntl.LOCK_UN)
fcntl.flock(first, fcntl.LOCK_EX)
lock(second, fcntl.F_SETLK, fcntl.F_WRLCK)
for _ in range(100):
    descriptor = opened('g')
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
"#,
    );
    let script = "exec 9>f; flock -n 9 || exit 3; exec 8>f; flock -n 8 && exit 4; flock -n ../m2/f true && exit 5; exit 0";
    let mut command = Command::new("sh");
    checked(command.args(["-c", script]).current_dir(first.path()));
    checked(Command::new("flock").args(["-n", "f", "true"]).current_dir(second.path()));
}

#[test]
fn a_signal_ends_a_wait() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    run(
        mount.path(),
        r#"
fd = opened()
lock(fd, fcntl.F_SETLK, fcntl.F_WRLCK)
class Interrupted(Exception):
    pass
def interrupted(*_):
    raise Interrupted
def waits(call):
    def body():
        signal.signal(signal.SIGUSR1, interrupted)
        mine = opened()
        try:
            call(mine)
        except Interrupted:
            return
        raise AssertionError('the lock was granted')
    return body
for call in [
    lambda mine: lock(mine, fcntl.F_SETLKW, fcntl.F_WRLCK),
    lambda mine: lock(mine, F_OFD_SETLKW, fcntl.F_RDLCK),
]:
    child = in_child(waits(call))
    wait_until(lambda: sleeps_in_a_lock_call(child))
    time.sleep(0.05)
    os.kill(child, signal.SIGUSR1)
    succeeded(child)
# A killed waiter leaves nothing behind.
child = in_child(lambda: lock(opened(), fcntl.F_SETLKW, fcntl.F_WRLCK))
wait_until(lambda: sleeps_in_a_lock_call(child))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
lock(fd, fcntl.F_SETLK, fcntl.F_UNLCK)
succeeded(in_child(lambda: lock(opened(), fcntl.F_SETLK, fcntl.F_WRLCK)))
"#,
    );
}

#[test]
fn processes_that_wait_for_each_other_are_told() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    run(
        mount.path(),
        r#"
fd = opened()
lock(fd, fcntl.F_SETLK, fcntl.F_WRLCK, 0, 1)
def other():
    mine = opened()
    lock(mine, fcntl.F_SETLK, fcntl.F_WRLCK, 1, 1)
    lock(mine, fcntl.F_SETLKW, fcntl.F_WRLCK, 0, 1)
child = in_child(other)
wait_until(lambda: lock(fd, fcntl.F_GETLK, fcntl.F_WRLCK, 1, 1)[0] == fcntl.F_WRLCK)
wait_until(lambda: sleeps_in_a_lock_call(child))
time.sleep(0.1)
fails(errno.EDEADLK, lambda: lock(fd, fcntl.F_SETLKW, fcntl.F_WRLCK, 1, 1))
lock(fd, fcntl.F_SETLK, fcntl.F_UNLCK, 0, 1)
succeeded(child)
"#,
    );
}

#[test]
fn many_waiters_leave_room_for_other_requests() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    run(
        mount.path(),
        r#"
fd = opened()
lock(fd, fcntl.F_SETLK, fcntl.F_WRLCK)
children = [in_child(lambda: lock(opened(), fcntl.F_SETLKW, fcntl.F_RDLCK)) for _ in range(300)]
for child in children:
    wait_until(lambda: sleeps_in_a_lock_call(child))
with open('beside', 'w') as file:
    file.write('served')
assert open('beside').read() == 'served'
lock(fd, fcntl.F_SETLK, fcntl.F_UNLCK)
for child in children:
    succeeded(child)
"#,
    );
}
