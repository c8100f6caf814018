"""Mounts of a store: started detached, recorded in the home, and found again by their record."""

import errno
import hashlib
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from weir import native
from weir.store import mount_points, processes
from weir.store.errors import StoreError
from weir.store.home import Home
from weir.store.processes import Process
from weir.ways import write_whole

ANNOUNCEMENT = "mount"
"""Name of the file with the store's mount point, beside a cluster.json that is announced to other users."""

_DEVICE = "/dev/fuse"
_DEVICE_NUMBER = os.makedev(10, 229)
"""Number of the FUSE device (Linux, Documentation/admin-guide/devices.txt)."""
_READY_SECONDS = 60.0
"""Longest time until a mount serves, on a busy machine: it connects to every server first."""
_UNMOUNT_SECONDS = 15.0
"""Longest time until the mount program ends once it is unmounted."""
_HELPER_SECONDS = 60.0
"""Longest time of umount, on a busy machine; the kernel does not ask the mount program anything."""


@dataclass(frozen=True)
class Mount:
    """One mount that the home knows.

    Attributes:
        point: The mount point.
        record: The record of the process that serves.
        log: The log of that process.
    """

    point: Path
    record: Path
    log: Path

    @property
    def description(self) -> Path:
        """The file with the mount point and the credential; it is there until the store is unmounted."""
        return self.record.with_suffix(".json")

    @property
    def marker(self) -> Path:
        """The file that tells that the folder of the mount was made for it."""
        return self.record.with_suffix(".made")

    def process(self) -> Process | None:
        """Find the process that serves.

        Returns:
            The process; None where it does not run.
        """
        process = Process.recorded(self.record)
        return process if process is not None and process.is_alive() else None

    def is_served(self) -> bool:
        """Decide whether the store is mounted and the mount's program runs.

        Returns:
            Whether both are so.
        """
        return self.process() is not None and is_mount_point(self.point)


def mounts_of(home: Home) -> list[Mount]:
    """Find every mount that a home knows.

    Returns:
        The mounts, the oldest first.

    Raises:
        StoreError: The description of a mount is damaged.
    """
    if not home.mounts.is_dir():
        return []
    found = sorted(home.mounts.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [_mount(home, Path(_described(path)["point"])) for path in found]


def lost(home: Home) -> list[Mount]:
    """Find the mounts that nobody unmounted, although their program has ended.

    Returns:
        The mounts, the oldest first.

    Raises:
        StoreError: The description of a mount is damaged.
    """
    return [mount for mount in mounts_of(home) if not mount.is_served()]


def start_again(home: Home, mount: Mount) -> None:
    """Mount the store again at the place and with the credential of a lost mount, whose rest is unmounted.

    Raises:
        StoreError: The store cannot be mounted there.
    """
    credential = Path(_described(mount.description).get("credential") or home.credentials / "mount.json")
    start(home, mount.point, cluster=home.cluster, credential=credential)


def device_problem() -> str | None:
    """Find the reason why this process cannot mount.

    Returns:
        The reason in words; None where the process can mount.
    """
    try:
        descriptor = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        # The set-uid helper of a user opens the device as that user, so it would fail, too.
        return f"{_DEVICE} cannot be opened ({error.strerror})"
    number = os.fstat(descriptor).st_rdev
    os.close(descriptor)
    if number != _DEVICE_NUMBER:
        return f"{_DEVICE} is not the FUSE device"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "fusermount3 is not installed (package fuse3)"
    return None


def check(home: Home, point: Path) -> None:
    """Decide whether a store that is not up could be mounted at a place, without changing anything.

    Args:
        home: The home; mounts that it has of an earlier life are unmounted first.
        point: The place.

    Raises:
        StoreError: The store cannot be mounted there.
    """
    _check_device()
    mount = _mount(home, point)
    if mount.description.exists() or mount.marker.exists():
        return
    if is_mount_point(point):
        raise _taken(point)
    try:
        if point.exists():
            busy = not point.is_dir() or any(point.iterdir())
        else:
            busy = os.path.lexists(point)
            above = next(folder for folder in point.parents if folder.exists())
            if not above.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(above, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unusable(point, error) from error
    if busy:
        raise _not_empty(point)


def start(home: Home, point: Path, *, cluster: Path, credential: Path) -> Mount:
    """Mount the store and wait until the mount serves.

    Args:
        home: The home that records the mount.
        point: The mount point; a missing folder is made.
        cluster: The store's cluster.json.
        credential: Credential file of the mount.

    Raises:
        StoreError: The store cannot be mounted there. Nothing is left running.
    """
    _check_device()
    program = native.mount_program()
    mount = _mount(home, point)
    if mount.is_served():
        raise StoreError(f"{point} is already mounted", hint="unmount it with `weir umount`, or name another place")
    stop(mount, force=True)
    folder = _make_point(mount)
    _describe(mount, credential)
    offset = processes.end_of(mount.log)
    command: list[str | Path] = [program, "--cluster", cluster, "--credential", credential, "--log", mount.log, point]
    child = processes.start(command, record=mount.record, log=mount.log, folder=Path("/"), read_output=True)
    try:
        _await_ready(child, mount, offset)
    except BaseException:
        if folder is not None:
            os.close(folder)
        stop(mount, force=True)
        child.wait()
        raise
    finally:
        if child.stdout:
            child.stdout.close()
    if folder is not None:
        mount_points.protect(folder)
    _announce(home, point)
    return mount


def reserved(home: Home, point: Path, *, credential: Path) -> Mount:
    """Describe a mount that this process is going to serve; the rest of one that died is unmounted.

    Args:
        home: The home that records the mount.
        credential: Credential file of the mount.

    Raises:
        StoreError: The store is mounted there already, or the place cannot be used.
    """
    mount = _mount(home, point)
    if mount.is_served():
        raise StoreError(f"{point} is already mounted", hint="unmount it with `weir umount`, or name another place")
    stop(mount, force=True)
    folder = _make_point(mount)
    if folder is not None:
        os.close(folder)
    _describe(mount, credential)
    _announce(home, point)
    return mount


def _announce(home: Home, point: Path) -> None:
    """Tell the mount point to other users, where these users cannot pass through the home to read it."""
    announcement = home.announcement()
    if announcement is not None and announcement.is_dir():
        write_whole(announcement / ANNOUNCEMENT, f"{point}\n", mode=0o644)


def _describe(mount: Mount, credential: Path) -> None:
    described = {"version": 1, "point": str(mount.point), "credential": str(credential)}
    write_whole(mount.description, json.dumps(described) + "\n", mode=0o644)


def stop(mount: Mount, *, force: bool) -> None:
    """Unmount, and end the program that served.

    Args:
        force: Whether to unmount also where a program uses the mount.

    Raises:
        StoreError: A program uses the mount, and `force` is not given.
    """
    if is_mount_point(mount.point):
        _unmount(mount.point, lazily=False, tolerate_busy=force)
        if is_mount_point(mount.point):
            _unmount(mount.point, lazily=True, tolerate_busy=False)
    process = Process.recorded(mount.record)
    if process is not None and not process.ends_within(0 if force else _UNMOUNT_SECONDS):
        process.stop()
    mount.description.unlink(missing_ok=True)
    mount.record.unlink(missing_ok=True)
    if mount.point.is_relative_to(mount.record.parent.parent) and not is_mount_point(mount.point):
        # Nobody looks for a store in a home whose store is not up, and a home can be removed like any folder.
        mount_points.release(mount.marker)


def is_mount_point(point: Path) -> bool:
    """Decide whether something is mounted at a place, without touching the place, which may be a dead mount.

    Args:
        point: The place, as an absolute path.

    Returns:
        Whether the kernel's table of mounts names it.
    """
    wanted = str(point)
    with Path("/proc/self/mountinfo").open() as table:
        return any(_unescaped(line.split(" ")[4]) == wanted for line in table)


def _described(description: Path) -> dict[str, str]:
    """Read the description of a mount.

    Raises:
        StoreError: The description is damaged.
    """
    try:
        described: dict[str, str] = json.loads(description.read_text())
        Path(described["point"])
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"cannot use {description}: {error}", hint="remove the file, and unmount its mount point with `umount`"
        ) from error
    return described


def _mount(home: Home, point: Path) -> Mount:
    name = hashlib.sha256(os.fsencode(point)).hexdigest()[:16]
    return Mount(point, home.mounts / f"{name}.pid", home.mounts / f"{name}.log")


def _make_point(mount: Mount) -> int | None:
    """Make the folder of a mount; return it open where it is to be protected."""
    point = mount.point
    if is_mount_point(point):
        raise _taken(point)
    try:
        folder = mount_points.prepare(point, mount.marker)
        busy = not point.is_dir() or any(point.iterdir())
    except OSError as error:
        raise _unusable(point, error) from error
    if not busy:
        return folder
    if folder is not None:
        os.close(folder)
    raise _not_empty(point)


def _check_device() -> None:
    problem = device_problem()
    if problem:
        raise StoreError(
            f"cannot mount: {problem}", hint="use the store without a mount: `weir run --prefix /weir -- CMD`"
        )


def _taken(point: Path) -> StoreError:
    return StoreError(f"something else is mounted at {point}", hint="name another place")


def _unusable(point: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot mount at {point}: {error.strerror}", hint="name another place")


def _not_empty(point: Path) -> StoreError:
    return StoreError(f"{point} is not an empty directory", hint="name another place: `weir mount PATH`")


def _await_ready(child: subprocess.Popen[str], mount: Mount, offset: int) -> None:
    """Wait for the line `ready`."""
    if child.stdout is None:
        raise ValueError("the mount program was started without a pipe")
    deadline = time.monotonic() + _READY_SECONDS
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN | select.POLLHUP)
    while (left := deadline - time.monotonic()) > 0:
        if not poller.poll(left * 1000):
            break
        line = child.stdout.readline()
        if line.strip() == "ready":
            return
        if not line:
            message, hint = processes.reason(mount.log, offset, "the mount program ended")
            raise StoreError(f"cannot mount at {mount.point}: {message}", hint=hint)
    raise StoreError(f"the mount is not ready after {_READY_SECONDS:.0f} s", hint=f"see {mount.log}")


def _unmount(point: Path, *, lazily: bool, tolerate_busy: bool) -> None:
    """Unmount by the system's own helper; for a user who is not root this is fusermount3."""
    if os.geteuid() == 0:
        command = ["umount", *(["--lazy"] if lazily else []), str(point)]
    else:
        command = ["fusermount3", "-u", *(["-z"] if lazily else []), str(point)]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_HELPER_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise StoreError(f"{command[0]} is not installed", hint="install the package fuse3") from error
    except subprocess.TimeoutExpired:
        raise StoreError(f"{command[0]} {point} did not end in {_HELPER_SECONDS:.0f} s") from None
    if answer.returncode == 0 or not is_mount_point(point):
        return
    if "busy" in answer.stderr or os.strerror(errno.EBUSY) in answer.stderr:
        if not tolerate_busy:
            raise StoreError(
                f"{point} is in use by a program",
                hint=f"end it (`fuser -vm {point}` lists it), or unmount by `force`, which takes effect when it ends",
            )
        return
    if not tolerate_busy:
        raise StoreError(f"cannot unmount {point}: {answer.stderr.strip()}")


def _unescaped(field: str) -> str:
    """Read a path of mountinfo, where blanks and backslashes are octal (proc(5))."""
    for code in ("\\040", "\\011", "\\012", "\\134"):
        field = field.replace(code, chr(int(code[1:], 8)))
    return field
