"""Other file systems that the benchmark of speed stands beside: GlusterFS and JuiceFS, each on memory on this machine.

Their programs are looked for in `bin` and `sbin` of `WEIR_PEERS=DIR` first, and then on the path. Debian's package
`glusterfs-server` has the one; the other is a single program that its project releases. A peer that cannot run is left
out, with a line that says why.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from _speed_places import Place, plain_environment, tmpfs

START_SECONDS = 120.0
_ADDRESS = "10.78.0.1"
"""An address in a network namespace of its own: GlusterFS takes no loopback address."""
_GLUSTERFS = """
set -e
folder=$1 address=$2
ip link set lo up
ip address add "$address/32" dev lo
mount --bind "$folder/run" /run
mount --bind "$folder/lib" /var/lib/glusterd
mount --bind "$folder/log" /var/log/glusterfs
printf 'volume management\n type mgmt/glusterd\n option working-directory /var/lib/glusterd\n%s\nend-volume\n' \
    ' option transport-type socket' >"$folder/glusterd.vol"
glusterd --no-daemon --volfile="$folder/glusterd.vol" &
for attempt in $(seq 100); do gluster --mode=script pool list && break; sleep 0.2; done
gluster --mode=script volume create speed "$address:$folder/tmpfs/brick" force
gluster --mode=script volume start speed
: >"$folder/ready"
wait
"""
"""The servers, with the settings that a new volume has. Their namespaces keep their files and
ports from this machine's; the end of the first process ends them all."""


class UnavailableError(Exception):
    """The reason for which a peer cannot run here."""


def peers(directory: Path, ends: ExitStack) -> list[Place]:
    """The peers that run here, until `ends` is closed."""
    made: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {"glusterfs": glusterfs, "juicefs": juicefs}
    found = []
    for name, peer in made.items():
        folder = directory / name
        folder.mkdir()
        try:
            found.append(ends.enter_context(peer(folder)))
        except (UnavailableError, subprocess.SubprocessError) as reason:
            print(f"{name} is not measured: {reason}", flush=True)
    return found


def environment() -> dict[str, str]:
    """The environment in which the peers' programs are found."""
    given = os.environ.get("WEIR_PEERS")
    folders = [f"{given}/bin", f"{given}/sbin"] if given else []
    own = plain_environment()
    return {**own, "PATH": ":".join([*folders, own.get("PATH", ""), "/usr/sbin", "/sbin"])}


def need(*names: str) -> None:
    """Checks that programs are there.

    Raises:
        UnavailableError: One is not.
    """
    path = environment()["PATH"]
    missing = [name for name in names if shutil.which(name, path=path) is None]
    if missing:
        raise UnavailableError(f"there is no {', '.join(missing)} on the path or below WEIR_PEERS")


@contextmanager
def glusterfs(directory: Path) -> Iterator[Place]:
    """A volume of one brick in memory, mounted."""
    need("glusterd", "gluster", "glusterfs", "unshare", "nsenter", "ip")
    for name in ("run", "lib", "log", "mnt"):
        (directory / name).mkdir()
    with ExitStack() as ends:
        ends.enter_context(tmpfs(directory))
        kinds = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
        words = ["unshare", *kinds, "bash", "-c", _GLUSTERFS, "glusterfs", str(directory), _ADDRESS]
        servers = ends.enter_context(_running(words, directory / "servers.log"))
        _await((directory / "ready").exists, "the servers of GlusterFS did not start", directory / "servers.log")
        first = Path(f"/proc/{servers.pid}/task/{servers.pid}/children").read_text().split()[0]
        mount = directory / "mnt"
        log = f"--log-file={directory}/client.log"
        client = ["glusterfs", f"--volfile-server={_ADDRESS}", "--volfile-id=speed", log, str(mount)]
        _run(["nsenter", f"--target={first}", "--net", *client])
        ends.callback(_run, ["umount", "--lazy", str(mount)])
        _await(mount.is_mount, "GlusterFS was not mounted", directory / "client.log")
        yield Place("glusterfs", mount)


@contextmanager
def juicefs(directory: Path) -> Iterator[Place]:
    """A volume with metadata in Redis and objects in memory, mounted."""
    need("juicefs", "redis-server")
    socket, mount = directory / "redis", directory / "mnt"
    with ExitStack() as ends:
        objects = ends.enter_context(tmpfs(directory)).folder
        listening = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
        log = directory / "servers.log"
        ends.enter_context(_running(["redis-server", *listening], log))
        _await(socket.exists, "redis-server did not start", log)
        metadata = f"unix://{socket}?db=1"
        _run(
            [
                "juicefs",
                "format",
                "--storage",
                "file",
                "--bucket",
                f"{objects}/",
                "--trash-days",
                "0",
                metadata,
                "speed",
            ]
        )
        cache = ["--cache-dir", str(directory / "tmpfs/cache"), "--log", str(directory / "client.log")]
        _run(["juicefs", "mount", "-d", "--no-usage-report", *cache, metadata, str(mount)])
        ends.callback(_run, ["juicefs", "umount", str(mount)])
        _await(mount.is_mount, "JuiceFS was not mounted", directory / "client.log")
        yield Place("juicefs", mount)


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as words:
        process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=words, stderr=words)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=START_SECONDS)


def _run(command: list[str]) -> None:
    answer = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    if answer.returncode != 0:
        raise UnavailableError(
            f"{' '.join(command)} gave {answer.returncode}: {(answer.stderr or answer.stdout).strip()}"
        )


def _await(is_so: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-1000:] if log.exists() else ""
            raise UnavailableError(f"{what} within {START_SECONDS:.0f} s: {tail}")
        time.sleep(0.1)
