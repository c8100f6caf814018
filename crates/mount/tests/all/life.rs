//! Beginning and end of a mount: users, bad arguments, lost servers, unmounting from inside and outside.

use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{chown, PermissionsExt};
use std::path::Path;
use std::process::Command;
use weir_client::wire::{Claims, Role};
use weir_testing::{
    as_nobody, can_mount, checked, claims, output, python, ram, server_toml, servers, shell, shell_by,
    wait_until, Cluster, Mount, NOBODY,
};

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("proc is there");
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

/// The mount program where every user can run it.
fn program_for_all(cluster: &Cluster) -> std::path::PathBuf {
    let program = cluster.folder().join("weir-mount");
    fs::copy(weir_testing::programs::mount(), &program).expect("copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("own file");
    program
}

#[test]
fn a_user_mounts_through_fusermount3() {
    if !can_mount() {
        return;
    }
    if Command::new("fusermount3").arg("--version").output().is_err() {
        eprintln!("skipped: fusermount3 is not installed");
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let everyone = cluster.mount("all");
    shell(everyone.path(), "mkdir open && chmod 777 open && echo s > secret && chmod 600 secret");
    let path = cluster.folder().join("mine");
    fs::create_dir(&path).expect("made");
    chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may");
    let credential = cluster.credential("own", claims(NOBODY));
    let mut mount =
        Mount::start(as_nobody(&program_for_all(&cluster), &[]), &cluster, &credential, path.clone());
    shell_by(
        as_nobody(Path::new("sh"), &[]),
        cluster.folder(),
        r#"cd mine/open && echo text > f && test "$(cat f)" = text && test "$(stat -c %u f)" = 65534
        mkdir d && mv f d/g && refused cat ../secret && seq 100000 > numbers && cp numbers copy && cmp numbers copy
        cp /bin/echo run && test "$(./run yes)" = yes && flock -n numbers true && refused chmod 777 ..
        python3 -c 'import mmap; f = open("numbers", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:1] = b"7"; m.flush()'
        test "$(head -n 1 numbers)" = 7"#,
    );
    assert!(fs::read_dir(&path).is_err(), "it is the user's own, also root stays outside");
    assert_eq!(fs::read_to_string(everyone.path().join("open/d/g")).expect("read"), "text\n");
    mount.signal(Signal::TERM);
    assert_eq!(mount.ended(), Some(0));
    assert!(!is_mounted(&path));
}

#[test]
fn it_ends_when_told_and_when_unmounted() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mut mount = cluster.mount("m");
    assert!(is_mounted(mount.path()));
    mount.signal(Signal::INT);
    assert_eq!(mount.ended(), Some(0));
    assert!(!is_mounted(mount.path()));

    let mut mount = cluster.mount("m");
    checked(Command::new("umount").arg(mount.path()));
    assert_eq!(mount.ended(), Some(0));

    let mut mount = cluster.mount("m");
    fs::write(mount.path().join("f"), "x").expect("written");
    let busy = fs::File::open(mount.path().join("f")).expect("open");
    mount.signal(Signal::TERM);
    assert_eq!(mount.ended(), Some(0));
    assert!(!is_mounted(mount.path()), "it is detached although it was in use");
    assert!(busy.metadata().is_err());
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::start(&ram(1, "256MiB"));
    let cluster_file = cluster.cluster_file();
    let credential = cluster.credential("mount", Claims { role: Role::Mount, ..claims(0) });
    let forged = cluster.folder().join("forged.json");
    let text = fs::read_to_string(&credential).expect("read");
    fs::write(&forged, text.replace("\"nodes\": 1", "\"nodes\": 64")).expect("written");
    let expired = cluster.folder().join("malformed.json");
    fs::write(&expired, "{}").expect("written");
    let point = cluster.folder().join("point");
    fs::create_dir(&point).expect("made");
    let run = |arguments: [&Path; 3]| {
        let mut command = Command::new(weir_testing::programs::mount());
        command.env("WEIR_TIMEOUT_SECONDS", "2");
        command.arg("--cluster").arg(arguments[0]).arg("--credential").arg(arguments[1]).arg(arguments[2]);
        let output = output(&mut command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let missing = Path::new("/nonexistent/file");
    let good = [cluster_file.as_path(), credential.as_path(), point.as_path()];
    for (arguments, named) in [
        ([missing, good[1], good[2]], "/nonexistent/file"),
        ([good[0], missing, good[2]], "/nonexistent/file"),
        ([good[0], expired.as_path(), good[2]], "malformed.json"),
        ([good[0], forged.as_path(), good[2]], "grant"),
        ([good[0], good[1], missing], "/nonexistent/file"),
        ([good[0], good[1], good[0]], "directory"),
    ] {
        let (code, words) = run(arguments);
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains(named) && words.contains("hint: "), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
    cluster.kill_server(0);
    let (code, words) = run(good);
    assert_eq!(code, Some(1));
    assert!(words.contains("weir up"), "{words}");
    assert!(!is_mounted(&point));
}

#[test]
fn a_lost_server_is_an_error_and_its_return_is_not() {
    if !can_mount() {
        return;
    }
    let mut cluster = Cluster::start(&servers(1, 2, "dir", "256MiB"));
    let mount = cluster.mount_with("m", &[("WEIR_TIMEOUT_SECONDS", "2")]);
    let path = mount.path().join("f");
    fs::write(&path, "before").expect("written");
    fs::File::open(&path).expect("open").sync_all().expect("synced");
    cluster.kill_server(0);
    let error = fs::read(&path).expect_err("nobody answers");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    cluster.start_server(0);
    cluster.write_addresses();
    wait_until("the store is back", || fs::read(&path).is_ok_and(|bytes| bytes == b"before"));
    fs::write(mount.path().join("g"), "after").expect("written");
}

#[test]
fn a_killed_mount_frees_its_locks() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mut first = cluster.mount("m1");
    let second = cluster.mount("m2");
    let locked = fs::File::create(first.path().join("f")).expect("made");
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let other = fs::File::open(second.path().join("f")).expect("open");
    let try_lock = || rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert_eq!(try_lock(), Err(rustix::io::Errno::AGAIN));
    first.signal(Signal::KILL);
    first.ended();
    wait_until("the lock is free", || try_lock().is_ok());
}

#[test]
fn the_job_comes_from_the_callers_environment() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    let credential = cluster.credential("checkpoint", Claims { job: "checkpoint".into(), ..claims(0) });
    let script = "dd if=/dev/zero of=f bs=1M count=4 status=none";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(mount.path()).env("WEIR_CREDENTIAL", &credential);
    checked(&mut command);
    let jobs = cluster.show(0, "/v1/jobs");
    let jobs = jobs["jobs"].as_array().expect("a list");
    let job = jobs.iter().find(|job| job["job"] == "checkpoint").expect("the job is known");
    assert_eq!(job["bytes_written"], 4 << 20, "{job}");
}

/// A regression: sixteen small requests of a job that its policy held back kept everybody else's in the mount.
#[test]
fn requests_that_are_held_back_leave_room_for_others() {
    if !can_mount() {
        return;
    }
    let slow = "backend = \"ram\"\ncapacity = \"64MiB\"\nspeed = { read = \"1GB/s\", write = \"1GB/s\", fixed = \"100ms\" }\n";
    let cluster = Cluster::start(&format!("policy = \"fifo\"\n{}", server_toml(2, slow)));
    let mount = cluster.mount("m");
    // Each other call would need a place that a held write gives up, where places are short.
    let script = r#"
import os, threading
CALLS = 50
fd = os.open('flooded', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 80 * 4096)
written = 0
ended = False
def flood(number):
    global written
    while not ended:
        os.pwrite(fd, bytes(4096), number * 4096)
        written += 1
threads = [threading.Thread(target=flood, args=(number,)) for number in range(80)]
for thread in threads:
    thread.start()
while written < 10:
    os.stat('flooded')
before = written
for number in range(CALLS):
    os.mkdir(f'd{number}')
    assert os.stat(f'd{number}').st_nlink >= 2
during = written - before
ended = True
for thread in threads:
    thread.join()
print(f'{during} writes during {2 * CALLS} other calls')
assert during < CALLS, during
"#;
    eprint!("{}", python(mount.path(), script));
}
