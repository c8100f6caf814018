//! Files and names on a mounted store, by the programs that everybody uses.

use rustix::fs::{open, AtFlags, Mode, OFlags};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use weir_testing::{as_nobody, can_mount, checked, python, ram, shell, shell_by, Cluster};

#[test]
fn coreutils_find_a_file_system() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    shell(
        mount.path(),
        r#"
        mkdir -p a/b/c && cd a
        echo one > b/f && echo two >> b/f && test "$(cat b/f)" = "$(printf 'one\ntwo')"
        seq 1 200000 > numbers && test "$(tail -n 1 numbers)" = 200000 && wc -l < numbers | grep -qx 200000
        cp -a numbers copy && cmp numbers copy && test "$(stat -c %Y numbers)" = "$(stat -c %Y copy)"
        chmod 640 copy && test "$(stat -c %a copy)" = 640
        touch -d '2001-02-03 04:05:06.789 UTC' copy && test "$(stat -c %Y copy)" = 981173106
        ln copy hard && test "$(stat -c %h copy)" = 2 && test "$(stat -c %i copy)" = "$(stat -c %i hard)"
        ln -s copy soft && test "$(readlink soft)" = copy && cmp soft numbers
        mv hard b/c/moved && test ! -e hard && cmp b/c/moved numbers
        truncate -s 10 copy && test "$(stat -c %s copy)" = 10
        dd if=numbers of=part bs=4k skip=3 count=2 status=none && test "$(stat -c %s part)" = 8192
        rm copy && test -L soft && test ! -e soft
        refused rmdir b
        refused mkdir b
        refused cat missing
        find . -type f | sort | tr '\n' ' ' | grep -qx './b/c/moved ./b/f ./numbers ./part '
        rm -rf b && test ! -e b
        test "$(stat -f -c %T . )" = fuseblk -o "$(stat -f -c %T . )" = fuse
        df . >/dev/null
        "#,
    );
    shell(mount.path(), "cp /bin/ls run-me && ./run-me -l / > listing && test -s listing");
    shell(
        mount.path(),
        r#"mkdir src && for i in $(seq 50); do echo "file $i" > src/$i; done
        tar cf t.tar src && mkdir out && tar xf t.tar -C out && diff -r src out/src"#,
    );
}

#[test]
fn git_works_on_the_store() {
    if !can_mount() {
        return;
    }
    if std::process::Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: git is not installed");
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    shell(
        mount.path(),
        r#"
        export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q repo && cd repo
        for i in $(seq 30); do echo "$i" > f$i; done
        git add . && git commit -qm first && git gc -q
        cd .. && git clone -q repo clone && diff -r -x .git repo clone && git -C clone fsck --strict 2>/dev/null
        "#,
    );
}

#[test]
fn open_files_outlive_their_names() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    let path = mount.path().join("gone");
    let mut file =
        fs::File::options().read(true).write(true).create(true).truncate(false).open(&path).expect("made");
    file.write_all(b"still here").expect("written");
    fs::remove_file(&path).expect("removed");
    assert!(!path.exists());
    assert_eq!(file.metadata().expect("open").nlink(), 0);
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(&bytes, b"still here");
    file.write_all_at(b"HERE", 6).expect("written");
    file.set_len(8).expect("cut");
    let mut text = String::new();
    file.seek_to_start_and_read(&mut text);
    assert_eq!(text, "still HE");
}

trait ReadAgain {
    fn seek_to_start_and_read(&mut self, text: &mut String);
}

impl ReadAgain for fs::File {
    fn seek_to_start_and_read(&mut self, text: &mut String) {
        std::io::Seek::rewind(self).expect("seekable");
        self.read_to_string(text).expect("text");
    }
}

#[test]
fn renames_exchange_and_refuse_to_replace() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    let folder = fs::File::open(mount.path()).expect("the root");
    let write = |name: &str, text: &str| fs::write(mount.path().join(name), text).expect("written");
    let read = |name: &str| fs::read_to_string(mount.path().join(name)).expect("read");
    write("a", "first");
    write("b", "second");
    let rename = |flags| rustix::fs::renameat_with(&folder, "a", &folder, "b", flags);
    rename(rustix::fs::RenameFlags::EXCHANGE).expect("exchanged");
    assert_eq!((read("a").as_str(), read("b").as_str()), ("second", "first"));
    assert_eq!(rename(rustix::fs::RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    assert_eq!(rename(rustix::fs::RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
    rename(rustix::fs::RenameFlags::empty()).expect("replaced");
    assert_eq!(read("b"), "second");
    assert!(!mount.path().join("a").exists());
}

#[test]
fn an_unnamed_file_gets_a_name() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    let unnamed =
        open(mount.path(), OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600)).expect("unnamed");
    let file = fs::File::from(unnamed);
    file.write_all_at(b"named later", 0).expect("written");
    assert_eq!(fs::read_dir(mount.path()).expect("listed").count(), 0);
    let source = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let target = mount.path().join("named");
    rustix::fs::linkat(rustix::fs::CWD, source, rustix::fs::CWD, &target, AtFlags::SYMLINK_FOLLOW)
        .expect("linked");
    assert_eq!(fs::read_to_string(&target).expect("read"), "named later");
    assert_eq!(file.metadata().expect("open").nlink(), 1);
}

#[test]
fn special_files_are_the_kernels() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    shell(
        mount.path(),
        r#"mkfifo pipe && (echo through > pipe &) && test "$(timeout 100 cat pipe)" = through
        test "$(stat -c %F pipe)" = fifo
        mknod device c 259 70000 && test "$(stat -c '%F %t %T' device)" = "character special file 103 11170""#,
    );
    let socket = mount.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let sender = std::thread::spawn(move || {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("connected");
        stream.write_all(b"x").expect("sent");
    });
    let mut byte = [0];
    listener.accept().expect("accepted").0.read_exact(&mut byte).expect("received");
    sender.join().expect("no panic");
}

#[test]
fn extended_attributes_are_kept() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    python(
        mount.path(),
        r#"
import os, errno
open('f', 'w').close()
os.setxattr('f', 'user.colour', b'blue')
assert os.getxattr('f', 'user.colour') == b'blue'
assert 'user.colour' in os.listxattr('f')
big = os.urandom(40000)
os.setxattr('f', 'user.big', big)
assert os.getxattr('f', 'user.big') == big
for call, expected in [
    (lambda: os.setxattr('f', 'user.colour', b'x', os.XATTR_CREATE), errno.EEXIST),
    (lambda: os.setxattr('f', 'user.none', b'x', os.XATTR_REPLACE), errno.ENODATA),
    (lambda: os.getxattr('f', 'user.none'), errno.ENODATA),
]:
    try:
        call()
    except OSError as error:
        assert error.errno == expected, error
    else:
        raise AssertionError(expected)
os.removexattr('f', 'user.colour')
assert 'user.colour' not in os.listxattr('f')
"#,
    );
}

#[test]
fn sparse_files_have_holes() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    python(
        mount.path(),
        r#"
import os, ctypes, errno
MIB = 1 << 20
fd = os.open('sparse', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 64 * MIB)
os.pwrite(fd, b'x' * MIB, 32 * MIB)
assert os.lseek(fd, 0, os.SEEK_DATA) == 32 * MIB
assert os.lseek(fd, 32 * MIB, os.SEEK_HOLE) == 33 * MIB
assert os.stat('sparse').st_blocks * 512 < 8 * MIB
assert os.pread(fd, 4096, 5 * MIB) == bytes(4096)
try:
    os.lseek(fd, 33 * MIB, os.SEEK_DATA)
except OSError as error:
    assert error.errno == errno.ENXIO
else:
    raise AssertionError
libc = ctypes.CDLL(None, use_errno=True)
def fallocate(mode, offset, length):
    result = libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length))
    return ctypes.get_errno() if result else 0
KEEP, PUNCH, COLLAPSE, ZERO = 1, 2, 8, 16
assert fallocate(PUNCH | KEEP, 32 * MIB, MIB // 2) == 0
assert os.pread(fd, 2, 32 * MIB + MIB // 2 - 1) == b'\0x'
assert fallocate(KEEP, 64 * MIB, MIB) == 0 and os.fstat(fd).st_size == 64 * MIB
assert fallocate(0, 64 * MIB, MIB) == 0 and os.fstat(fd).st_size == 65 * MIB
assert fallocate(ZERO, 32 * MIB, MIB) == 0 and os.pread(fd, 8, 33 * MIB - 8) == bytes(8)
assert fallocate(COLLAPSE, 0, MIB) == errno.EOPNOTSUPP
assert os.fstat(fd).st_size == 65 * MIB
source = os.open('source', os.O_RDWR | os.O_CREAT)
data = os.urandom(5 * MIB)
os.write(source, data)
copied = 0
while copied < len(data):
    copied += os.copy_file_range(source, fd, len(data) - copied, copied, copied + 3)
assert os.pread(fd, len(data), 3) == data
"#,
    );
}

#[test]
fn a_large_directory_is_listed_whole_while_it_shrinks() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(1, "256MiB"));
    let mount = cluster.mount("m");
    python(
        mount.path(),
        r#"
import os
COUNT = 10_000
os.mkdir('d')
for number in range(COUNT):
    os.mknod(f'd/{number:05}')
names = sorted(os.listdir('d'))
assert names == [f'{number:05}' for number in range(COUNT)], len(names)
seen = set()
with os.scandir('d') as entries:
    for entry in entries:
        assert entry.is_file(follow_symlinks=False)
        assert entry.name not in seen
        seen.add(entry.name)
        if int(entry.name) % 2 == 0:
            os.unlink(entry.path)
assert {name for name in seen if int(name) % 2} == {f'{number:05}' for number in range(1, COUNT, 2)}
assert len(os.listdir('d')) == COUNT // 2
"#,
    );
    let listed = shell(mount.path(), "ls -a d | head -n 2 | tr '\\n' ' '");
    assert_eq!(listed, ". .. ");
}

#[test]
fn permissions_are_the_callers_own() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let mount = cluster.mount("m");
    let folder = mount.path();
    shell(
        folder,
        r#"mkdir shared private && chmod 777 shared && chmod 700 private && echo s > private/secret
        echo r > shared/roots && chmod 600 shared/roots
        cp /bin/true shared/execute-only && chmod 711 shared/execute-only
        cp /bin/true shared/read-only && chmod 744 shared/read-only
        echo g > shared/group && chgrp 4321 shared/group && chmod 640 shared/group"#,
    );
    let by_nobody = |script: &str, groups: &[u32]| {
        shell_by(as_nobody(Path::new("sh"), groups), folder, script);
    };
    by_nobody(
        r#"echo mine > shared/mine && test "$(stat -c %u shared/mine)" = 65534
        refused cat private/secret
        refused ls private
        refused touch private/new
        refused cat shared/roots
        refused sh -c 'echo x >> shared/roots'
        refused chmod 777 shared/roots
        refused chown 65534 shared/roots
        refused mknod shared/device c 1 3
        refused test -r shared/roots
        refused mv private shared/mine-now
        ./shared/execute-only
        refused cat shared/execute-only
        refused ./shared/read-only
        refused cat shared/group"#,
        &[],
    );
    by_nobody("test \"$(cat shared/group)\" = g", &[4321]);
    fs::set_permissions(folder.join("shared/mine"), fs::Permissions::from_mode(0o4755)).expect("root may");
    by_nobody("echo more >> shared/mine && test \"$(stat -c %a shared/mine)\" = 755", &[]);
}

#[test]
fn appends_from_many_processes_lose_nothing() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::start(&ram(2, "256MiB"));
    let (first, second) = (cluster.mount("m1"), cluster.mount("m2"));
    let script = r#"
import os, sys
fd = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for number in range(200):
    os.write(fd, f'{sys.argv[1]} {number:05} {"x" * 100}\n'.encode())
"#;
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let folder = if writer % 2 == 0 { first.path() } else { second.path() }.to_owned();
            std::thread::spawn(move || {
                let mut command = std::process::Command::new("python3");
                command.args(["-c", script, &writer.to_string()]).current_dir(folder);
                checked(&mut command);
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("it wrote");
    }
    let text = fs::read_to_string(second.path().join("log")).expect("read");
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1200);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 1200);
}
