"""Trees for tests of staging, and their comparison by other means than those of the copy."""

import hashlib
import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ODD = b"name \xff\xfe\n'\"\\"
"""A name that is no UTF-8, with a line end and quotes."""


def make_tree(root: Path, dice: random.Random, *, files: int = 60, large_bytes: int = 0) -> None:
    """A tree with everything that a copy has to keep; its times lie in the past."""
    root.mkdir()
    folders = [root]
    for number in range(files // 6):
        folder = dice.choice(folders) / f"folder-{number}"
        folder.mkdir()
        folder.chmod(dice.choice((0o700, 0o755, 0o2775)))
        folders.append(folder)
    for number in range(files):
        path = dice.choice(folders) / f"file-{number}"
        path.write_bytes(dice.randbytes(dice.choice((0, 1, 4095, 4096, 70_000, dice.randrange(300_000)))))
        path.chmod(dice.choice((0o600, 0o644, 0o755, 0o4711)))
    named = dice.choice(folders) / os.fsdecode(ODD)
    named.mkdir()
    (named / os.fsdecode(ODD)).write_bytes(b"odd")
    (named / "empty").mkdir(0o711)
    make_sparse(root / "sparse", 40 << 20, {0: b"begin", 3 << 20: b"x" * 5000, (31 << 20) + 77: b"y"})
    (root / "zeros").write_bytes(bytes(3 << 20))
    (root / "absolute").symlink_to("/etc/hostname")
    (root / "dangling").symlink_to(b"nowhere \xff".decode(errors="surrogateescape"))
    (root / "relative").symlink_to("sparse")
    (root / "one").write_bytes(b"several names")
    os.link(root / "one", root / "two")
    os.link(root / "one", folders[-1] / "three")
    os.mkfifo(root / "pipe", 0o640)
    if large_bytes:
        (root / "large").write_bytes(dice.randbytes(large_bytes))
    for path in (*sorted(root.rglob("*"), reverse=True), root):
        moment = dice.randrange(10**18, 17 * 10**17)
        os.utime(path, ns=(moment, moment + dice.randrange(10**9)), follow_symlinks=False)


def make_sparse(path: Path, size: int, data: Mapping[int, bytes]) -> None:
    """A file of `size` bytes with holes around the data."""
    with path.open("wb") as file:
        file.truncate(size)
        for offset, content in data.items():
            file.seek(offset)
            file.write(content)


def described(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that a copy keeps, by path. Several names of a file have the name that comes first."""
    found: dict[str, tuple[object, ...]] = {}
    names: dict[int, str] = {}
    for path in (root, *sorted(root.rglob("*"))):
        status = path.lstat()
        name = str(path.relative_to(root))
        content, first = "", ""
        if stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            first = names.setdefault(status.st_ino, name)
        elif stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        mode = None if stat.S_ISLNK(status.st_mode) else status.st_mode
        found[name] = (mode, status.st_uid, status.st_gid, status.st_mtime_ns, content, first)
    return found


def is_sparse(path: Path) -> bool:
    """Whether a file takes less than half of its size."""
    status = path.stat()
    return status.st_blocks * 512 < status.st_size // 2


def start(source: Path, target: Path, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """A copying process."""
    command = [sys.executable, "-m", "weir.staging", str(source), str(target)]
    return subprocess.Popen(
        command, env={**(environment or os.environ)}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def killed_at(child: "subprocess.Popen[str]", size: int) -> bool:
    """Kill a copying process once it has told of so many bytes; return whether it was still under way."""
    assert child.stdout is not None
    for line in child.stdout:
        told = json.loads(line)
        if "progress" in told and told["progress"]["size_bytes"] >= size:
            child.kill()
            break
        if "progress" not in told:
            break
    child.stdout.close()
    return child.wait() < 0
