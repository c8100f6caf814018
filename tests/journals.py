"""Records in the journals of servers that are down, as damage leaves them; they are the servers' own types, as JSON."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from store import Store

ROOT = 1
"""Number of the root directory."""
_REPOSITORY = Path(__file__).resolve().parents[1]
_AT = {"seconds": 1_790_000_000, "nanoseconds": 0}

Record = dict[str, Any] | str


def write(store: Store, server: int, records: list[Record]) -> None:
    """Write records into the journal of a server that is down, as one group."""
    journal = store.home / "servers" / str(server) / "journal"
    subprocess.run([_program(), journal], input=json.dumps(records), text=True, check=True)


@cache
def _program() -> Path:
    """An example of the server's crate, which cargo builds where it did not before."""
    built = subprocess.run(
        ["cargo", "build", "--locked", "--workspace", "--example", "journal", "--message-format", "json"],
        cwd=_REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    messages = map(json.loads, built.stdout.splitlines())
    return Path(next(each["executable"] for each in messages if each.get("executable")))


def linked(parent: int, name: str, ino: int, kind: str) -> Record:
    """A name is given to an inode."""
    return {"Linked": {"parent": parent, "name": name, "ino": ino, "kind": kind, "at": _AT}}


def unlinked(parent: int, name: str) -> Record:
    """A name is removed, and the inode counts one less."""
    return {"Unlinked": {"parent": parent, "name": name, "at": _AT}}


def counted(ino: int, names: int) -> Record:
    """An inode counts so many names."""
    return {"NamesCounted": {"ino": ino, "names": names}}


def disposed(ino: int) -> Record:
    """An inode is gone."""
    return {"Disposed": {"ino": ino, "removal": None}}


def placed(ino: int, parent: int, name: str) -> Record:
    """A directory takes another place for its own."""
    return {"Reparented": {"ino": ino, "intent": 1, "parent": parent, "name": name}}
