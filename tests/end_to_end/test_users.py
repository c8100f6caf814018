"""Two users on one store: each has what the permissions give and no more, by each way in; users need no root."""

import json
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from store import Store
from waits import PATIENCE_SECONDS
from ways import MOUNT, PREFIX, PRELOAD, Way, make_way, user_way

ALICE, BOB = 54321, 54322
TEAM = 54400
"""A group that both are in."""

pytestmark = pytest.mark.usefixtures("root_only")

PROBE = """
import json, os, sys
folder = sys.argv[1]
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error.errno
    return 0
def read(path): os.close(os.open(path, os.O_RDONLY))
def write(path): os.close(os.open(path, os.O_WRONLY))
def create(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(path)
results = {}
for mode in os.listdir(folder + "/files"):
    path = f"{folder}/files/{mode}"
    results["file " + mode] = [attempt(read, path), attempt(write, path), attempt(os.access, path, os.X_OK) or int(not os.access(path, os.X_OK))]
for mode in os.listdir(folder + "/folders"):
    path = f"{folder}/folders/{mode}"
    results["folder " + mode] = [attempt(os.listdir, path), attempt(os.stat, path + "/inside"), attempt(create, path + "/new")]
other = f"{folder}/files/0777"
results["owner's"] = [attempt(os.chmod, other, 0o777), attempt(os.chown, other, os.getuid(), -1),
    attempt(os.utime, other, (1, 1)), attempt(os.utime, other), attempt(os.setxattr, other, "user.x", b"1")]
sticky = f"{folder}/sticky"
results["sticky"] = [attempt(os.unlink, sticky + "/theirs"), attempt(os.rename, sticky + "/theirs", sticky + "/mine"), attempt(create, sticky + "/new")]
print(json.dumps(results, sort_keys=True))
"""
"""What a user may do in a folder of another one; prints error numbers, 0 for what works."""

FILES = """
umask 0
mkdir "$1" "$1"/files "$1"/folders "$1"/sticky && chmod 1777 "$1"/sticky && echo x > "$1"/sticky/theirs
for mode in 0000 0400 0200 0040 0020 0060 0010 0004 0002 0006 0001 0777; do
    echo x > "$1"/files/$mode && chgrp 54400 "$1"/files/$mode && chmod $mode "$1"/files/$mode
    mkdir "$1"/folders/$mode && echo x > "$1"/folders/$mode/inside && chgrp 54400 "$1"/folders/$mode && chmod $mode "$1"/folders/$mode
done
"""
"""Run by alice: files and folders of every mode, in the group that both are in."""


def as_user(uid: int, groups: tuple[int, ...], *command: str) -> str:
    answer = subprocess.run(
        command, user=uid, group=uid, extra_groups=list(groups), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
        env={"PATH": os.environ["PATH"]}, cwd="/",
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def open_folder(prefix: str) -> Path:
    """A fresh directory of the host that every user may write."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o777)
    return folder


@pytest.fixture
def open_store(store: Store) -> Store:
    """A store whose root directory every user may write."""
    store.up(servers=2)
    way = Way(PREFIX, store, Path("/weir"))
    way.run("chmod", "1777", "/weir")
    return store


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", [MOUNT, PRELOAD, PREFIX])
@pytest.mark.parametrize("member", [True, False], ids=["in the group", "not in the group"])
def test_the_permission_matrix(open_store: Store, name: str, member: bool) -> None:
    """Every mode of files and folders gives another user what it gives on the machine's own disk."""
    local = open_folder("weir-matrix-")
    groups = (TEAM,) if member else ()
    try:
        as_user(ALICE, (TEAM,), "bash", "-euc", FILES, "bash", str(local / "matrix"))
        expected = as_user(BOB, groups, "/usr/bin/python3", "-c", PROBE, str(local / "matrix"))
    finally:
        shutil.rmtree(local)
    alice = user_way(name, open_store, "matrix", ALICE, TEAM)
    alice.run("bash", "-euc", FILES, "bash", alice.folder)
    bob = user_way(name, open_store, "matrix", BOB, *groups)
    found = bob.run("/usr/bin/python3", "-c", PROBE, bob.folder).stdout
    assert json.loads(found) == json.loads(expected)


SPECIAL = """
import os, socket, stat, sys
os.umask(0)
os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
for mode in sys.argv[2:]:
    os.mkfifo("pipe-" + mode)
    socket.socket(socket.AF_UNIX).bind("socket-" + mode)
    for name in ("pipe-", "socket-"):
        os.chmod(name + mode, int(mode, 8))
"""
"""Run by alice: pipes and sockets of each mode."""

SPECIAL_PROBE = """
import json, os, socket, sys
os.chdir(sys.argv[1])
def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return error.errno
    return 0
def opened(path, flags): os.close(os.open(path, flags | os.O_NONBLOCK))
def connected(path): socket.socket(socket.AF_UNIX).connect(path)
results = {}
for name in sorted(os.listdir(".")):
    results[name] = [attempt(os.stat, name), attempt(os.chmod, name, 0o777) if os.stat(name).st_uid != os.getuid() else 0]
    results[name].append(int(os.access(name, os.R_OK)))
    if name.startswith("pipe"):
        results[name] += [attempt(opened, name, flags) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR)]
    else:
        results[name].append(attempt(connected, name))
print(json.dumps(results, sort_keys=True))
"""
"""What a user may do with them; prints error numbers, 0 for what works."""


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", [MOUNT, PRELOAD])
@pytest.mark.parametrize("user", [ALICE, BOB], ids=["owner", "other"])
def test_pipes_and_sockets_keep_their_modes(open_store: Store, name: str, user: int) -> None:
    """The kernel opens them without asking a mount, so that once they were open to everyone whatever their mode."""
    modes = ("000", "200", "400", "600", "622", "644", "666", "077")
    local = open_folder("weir-special-")
    try:
        as_user(ALICE, (), "/usr/bin/python3", "-c", SPECIAL, str(local / "special"), *modes)
        expected = as_user(user, (), "/usr/bin/python3", "-c", SPECIAL_PROBE, str(local / "special"))
    finally:
        shutil.rmtree(local)
    alice = user_way(name, open_store, "special", ALICE)
    alice.run("/usr/bin/python3", "-c", SPECIAL, alice.folder, *modes)
    who = user_way(name, open_store, "special", user)
    found = who.run("/usr/bin/python3", "-c", SPECIAL_PROBE, who.folder).stdout
    assert json.loads(found) == json.loads(expected)


@pytest.mark.usefixtures("user_fuse")
def test_a_user_mounts_and_works_without_root(open_store: Store) -> None:
    """Through fusermount3, with the uid really dropped: what the user makes is the user's."""
    # fusermount3 wants an account.
    uid = pwd.getpwnam("nobody").pw_uid
    way = user_way(MOUNT, open_store, "", uid)
    point = open_store.root / "alices"
    point.mkdir()
    os.chown(point, uid, uid)
    state = open_store.root / "state"
    state.mkdir()
    os.chown(state, uid, uid)
    environment = {**way.environment, "WEIR_HOME": str(state)}
    open_store.weir("mount", point, uid=uid, environment=environment)
    try:
        script = 'id -u; cd "$WEIR_MOUNT" && mkdir mine && cp /bin/ls mine/ && ./mine/ls -ln mine && ! chown 0 mine/ls 2>/dev/null'
        answer = open_store.weir(
            "run",
            "--no-preload",
            "--",
            "bash",
            "-euc",
            script,
            uid=uid,
            environment={**environment, "WEIR_MOUNT": str(point)},
        )
        assert answer.stdout.startswith(f"{uid}\n")
        assert f" {uid} {uid} " in answer.stdout
        assert (open_store.mount / "mine" / "ls").stat().st_uid == uid
    finally:
        open_store.weir("umount", point, uid=uid, environment=environment)


@pytest.mark.parametrize("name", [PREFIX])
def test_a_user_works_without_a_mount_and_without_root(store: Store, name: str) -> None:
    store.up(mount=False)
    Way(PREFIX, store, Path("/weir")).run("chmod", "1777", "/weir")
    way = user_way(name, store, "mine", ALICE)
    script = 'test $(id -u) = 54321 && mkdir "$1" && cd "$1" && seq 1000 > file && cp file copy && cmp file copy && ls -ln && ! touch /weir/../weir/other/x 2>/dev/null'
    out = way.run("bash", "-euc", script, "bash", way.folder).stdout
    assert f" {ALICE} {ALICE} " in out
    way.check_served(["open", "write", "read", "make"], {})


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("name", [MOUNT, PRELOAD])
def test_set_id_bits_go_with_a_write(open_store: Store, name: str) -> None:
    """A file that runs as its owner must not do so after another user has changed it."""
    root = make_way(name, open_store, f"bits-{name}")
    root.shell("echo x > file && chmod 6777 file && chmod 777 .")
    bob = user_way(name, open_store, root.folder.name, BOB)
    bob.run("bash", "-euc", 'echo more >> "$1"/file', "bash", bob.folder)
    mode = (open_store.mount / root.folder.name / "file").stat().st_mode
    assert not mode & (stat.S_ISUID | stat.S_ISGID), oct(mode)


SENT = """
import array, os, socket, sys, time
path, address = sys.argv[1:]
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
assert os.write(file, b"0123456789") == 10
assert os.lseek(file, 2, os.SEEK_SET) == 2
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(address)
    os.chmod(address, 0o777)
    listener.listen(1)
    listener.settimeout(60)
    with listener.accept()[0] as other:
        other.settimeout(60)
        other.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
        assert other.recv(1) == b"x"
assert os.lseek(file, 0, os.SEEK_CUR) == 5, "both move one offset"
print(os.pread(file, 100, 0).decode())
"""
RECEIVED = """
import array, os, socket, sys
path, address = sys.argv[1:]
try:
    os.open(path, os.O_RDONLY)
except PermissionError:
    pass
else:
    sys.exit("the file is another user's")
with socket.socket(socket.AF_UNIX) as other:
    other.settimeout(60)
    other.connect(address)
    _, control, _, _ = other.recvmsg(1, socket.CMSG_SPACE(4))
    file = array.array("i", control[0][2])[0]
    assert os.pread(file, 4, 6) == b"6789"
    assert os.pwrite(file, b"AB", 8) == 2
    assert os.read(file, 3) == b"234"
    assert os.preadv(file, [bytearray(4)], 0) == 4
    assert os.fstat(file).st_size == 10
    assert os.lseek(file, 0, os.SEEK_CUR) == 5
    assert os.lseek(file, 0, os.SEEK_END) == 10 and os.lseek(file, 5, os.SEEK_SET) == 5
    os.ftruncate(file, 12)
    assert os.fstat(file).st_size == 12
    other.send(b"x")
"""


@pytest.mark.parametrize("name", [MOUNT, PRELOAD])
@pytest.mark.usefixtures("fuse")
def test_a_descriptor_that_another_user_sent_keeps_its_rights(open_store: Store, name: str) -> None:
    """The receiver's data calls were EACCES on the fast path, because the servers know the file as the sender's."""
    alice, bob = (user_way(name, open_store, "", uid) for uid in (ALICE, BOB))
    meeting = open_store.root / f"meeting-{name}"
    meeting.mkdir()
    meeting.chmod(0o1777)
    path, address = open_store.mount / "sent", meeting / "socket"
    sender = alice.start("python3", "-c", SENT, str(path), str(address))
    try:
        for _ in range(600):
            if address.exists() and address.stat().st_mode & 0o777 == 0o777:
                break
            time.sleep(0.1)
        bob.run("python3", "-c", RECEIVED, str(path), str(address))
        out, err = sender.communicate(timeout=PATIENCE_SECONDS)
    finally:
        sender.kill()
    assert sender.returncode == 0, err
    assert out == "01234567AB\0\0\n"


def test_a_program_in_a_namespace_of_processes_reaches_the_store(shared_store: Store) -> None:
    """There the kernel numbers no process of the host, as in containers: a server's socket has an owner and no process."""
    way = make_way(PREFIX, shared_store, "namespace")
    command = [*way.command, "sh", "-c", 'echo words > "$1"/file && cat "$1"/file', "sh", str(way.folder)]
    answer = subprocess.run(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command],
        env=way.variables(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stdout) == (0, "words\n"), answer.stderr
