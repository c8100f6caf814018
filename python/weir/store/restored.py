"""What a restore cut off: inodes of servers whose names were younger than the backup, and names of younger inodes.

A backup holds the servers of one host at one moment, and the other servers went on. A restored server does not know the
names that it was given since, so what they led to on its peers cannot be reached; and its peers have names of
directories that it made since. The first `weir up` or `weir deploy` after the restore tells both.
"""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from weir.store.home import Home
from weir.store.notices import Notice
from weir.ways import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weir.store.tree_check import TreeFinding

_NAMED_MAX = 5
"""Most names of one server's directories and files that a notice has; `weir fsck` lists all."""


def remember(home: Home, servers: "Sequence[int]", taken_seconds: float) -> None:
    """Write down that servers were restored, until `tell` has looked at the store.

    Args:
        servers: Numbers of the servers.
        taken_seconds: Unix time of the backup.

    Raises:
        OSError: The file cannot be written.
    """
    write_whole(_mark(home), json.dumps({"servers": list(servers), "taken_seconds": taken_seconds}) + "\n")


def tell(home: Home, listener: "Callable[[Notice], None]") -> None:
    """Tell what cannot be reached since a restore; where none was, nothing is asked. A store that does not answer is
    asked again by the next command that brings it up.

    Args:
        listener: Called with a notice for each server that is concerned, and with one where a server is silent.

    Raises:
        StoreError: The store cannot be asked.
        OSError: The mark cannot be removed.
    """
    mark = _mark(home)
    try:
        restored = json.loads(mark.read_text())
        taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(restored["taken_seconds"])))
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, OverflowError):
        taken = "an unknown time"
    from weir.store.access import servers_at
    from weir.store.tree_check import DANGLING, UNREACHABLE
    from weir.store.tree_servers import check_running_tree

    checked = check_running_tree(servers_at(home))
    for kind, words in ((UNREACHABLE, "inodes without a name are left"), (DANGLING, "names lead to nothing")):
        for server in sorted({each.server for each in checked.findings if each.kind == kind}):
            found = [each for each in checked.findings if each.kind == kind and each.server == server]
            told = f"{len(found)} {words} at server {server}: {_named(found)}"
            listener(
                Notice(
                    f"since the backup of {taken} was restored, {told}",
                    hint="`weir fsck` lists them; `weir fsck --repair` gives names in /lost+found, and removes others",
                )
            )
    if checked.silent:
        silent = ", ".join(map(str, sorted(checked.silent)))
        listener(
            Notice(
                f"what the restore of the backup of {taken} cut off is not all known: no answer of server {silent}",
                hint="`weir up` or `weir deploy` asks again; `weir fsck` shows it",
            )
        )
    else:
        mark.unlink(missing_ok=True)


def _named(found: "Sequence[TreeFinding]") -> str:
    names = [each.path or f"inode {each.ino:016x}" for each in found[:_NAMED_MAX]]
    return ", ".join(names) + (", …" if len(found) > _NAMED_MAX else "")


def _mark(home: Home) -> Path:
    return home.root / "restored.json"
