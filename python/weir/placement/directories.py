"""Directories of the next run on Lustre's metadata targets: `lfs mkdir` commands by the files that are foreseen.

Lustre balances directories over MDTs by their free space, and only a user's layout balances their load (Tarazu, section
8.4).
"""

import posixpath
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from weir.placement.emit import shell_word

STRIPED_ENTRIES = 50_000
"""Entries of a directory from which stripes over MDTs pay, one more for each such number (Lustre Operations Manual,
"Creating a directory striped across multiple MDTs")."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory with its metadata targets."""

    path: str
    files: int
    """Number of files that are foreseen below the directory."""
    mdts: tuple[int, ...]
    """The MDT of the directory, or those over which its entries are striped."""


def spread(paths: Collection[str], mdts: int) -> list[Directory]:
    """Spread the trees of files over MDTs, so that each MDT gets as many creations as trees allow.

    Trees are the directories in the deepest directory that all files have in common, and this directory itself where it
    has no other, or is striped. What is made below a tree stays on the tree's MDT.

    Args:
        paths: Absolute paths of the files.
        mdts: Number of MDTs, which have the indices from 0.

    Returns:
        The directories, ordered by path.
    """
    if not paths:
        return []
    entries = Counter(map(posixpath.dirname, paths))
    common = posixpath.commonpath(entries)
    trees: Counter[str] = Counter()
    for folder, count in entries.items():
        first, _, _ = folder.removeprefix(common).strip("/").partition("/")
        trees[posixpath.join(common, first) if first else common] += count
    if len(trees) > 1 and entries[common] < STRIPED_ENTRIES:
        del trees[common]
    loads = [0.0] * mdts
    found = []
    for path, files in sorted(trees.items(), key=lambda each: (-each[1], each[0])):
        stripes = min(mdts, 1 + entries[path] // STRIPED_ENTRIES)
        chosen = sorted(range(mdts), key=lambda mdt: (loads[mdt], mdt))[:stripes]
        for mdt in chosen:
            loads[mdt] += files / stripes
        found.append(Directory(path, files, tuple(sorted(chosen))))
    return sorted(found, key=lambda each: each.path)


def lfs_mkdir(directory: Directory) -> str:
    """Write the command that makes a directory on its MDTs (lfs-setdirstripe(1)).

    Returns:
        The command, quoted for a shell.
    """
    count = len(directory.mdts)
    indices = ",".join(map(str, directory.mdts))
    striped = f"-c {count} " if count > 1 else ""
    return f"lfs mkdir {striped}-i {indices} {shell_word(directory.path)}"
