"""Folders of a store that are lost while it is down: a target's disk that is not mounted, and a journal that is gone.

Each is reproduced on a store of its own. Tests and benchmarks use both; the first needs root, and a kernel that lets
this process mount.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import disks
from store import Store, fresh

FILES = 4
FILE_BYTES = 5_000_000
PREFIX = ("run", "--prefix", "/weir", "--")


@dataclass(frozen=True)
class Outcome:
    """What came of the loss."""

    is_refused: bool
    """Whether the check and the start both refused the store."""
    zero_bytes: int
    """Bytes of the files that were read as zeros, which none of them has."""
    words: str
    """What `weir up` said."""


def store_on(store: Store, *targets: Path) -> Path:
    """Bring a store of one server up, on targets at paths, and write files on all of them.

    Args:
        store: The store, whose home is empty.
        targets: Folders of the targets.

    Returns:
        Its cluster.toml.
    """
    tables = "".join(f'[[server.target]]\nbackend = "dir"\npath = "{path}"\n' for path in targets)
    file = store.root / "cluster.toml"
    file.write_text(f"version = 1\n[[server]]\n{tables}")
    store.weir("up", file, "--no-mount")
    one = f"head -c {FILE_BYTES} /dev/zero | tr '\\0' $i > /weir/file-$i"
    store.weir(*PREFIX, "sh", "-c", f"for i in $(seq {FILES}); do {one}; done; sync /weir/file-*")
    return file


def zero_bytes(store: Store) -> int:
    """Count the bytes of the files that are read as zeros, where they are read at all."""
    script = f"for i in $(seq {FILES}); do cat /weir/file-$i; done | tr -dc '\\0' | wc -c"
    answer = store.weir(*PREFIX, "sh", "-c", script, code=None)
    return int(answer.stdout.split()[0]) if answer.stdout.strip() else 0


def unmounted_disk(store: Store) -> Outcome:
    """Bring a store up whose target's disk is not mounted.

    Args:
        store: A store with an empty home.

    Returns:
        The outcome.
    """
    with disks.small(store.root, "tmpfs") as disk:
        file = store_on(store, disk.path / "target", store.root / "other")
        store.weir("down")
        # Its bytes stay in a second place, as on a disk that is unplugged.
        with disks.over(disk.path):
            return _brought_up(store, file)


def lost_journal(store: Store) -> Outcome:
    """Bring a store up whose journal's folder is gone.

    Args:
        store: A store with an empty home.

    Returns:
        The outcome.
    """
    file = store_on(store, store.root / "one", store.root / "other")
    store.weir("down")
    shutil.rmtree(store.home / "servers/0/journal")
    return _brought_up(store, file)


@contextmanager
def moved_away(path: Path) -> Iterator[Path]:
    """Give a folder another name for a while; yields the name. Whatever came in its place meanwhile is removed."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    try:
        yield aside
    finally:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        aside.rename(path)


def _brought_up(store: Store, file: Path) -> Outcome:
    checked = store.weir("up", file, "--no-mount", "--check", code=None)
    started = store.weir("up", file, "--no-mount", code=None)
    is_refused = checked.returncode != 0 and started.returncode != 0
    read = zero_bytes(store) if started.returncode == 0 else 0
    # One that came up would keep the disk from being unmounted.
    store.weir("down", "--force", code=None)
    return Outcome(is_refused, read, started.stderr)


def main() -> None:
    """Print which losses are refused: no byte of a file may be read as zero either."""
    with fresh() as store:
        outcome = unmounted_disk(store)
        unmounted = outcome.is_refused and outcome.zero_bytes == 0
    with fresh() as store:
        lost = lost_journal(store).is_refused
    print(json.dumps({"unmounted_disk": unmounted, "lost_journal": lost}))


if __name__ == "__main__":
    main()
