"""The tree of a store as its servers judge it, and orders to mend it: answers and bodies of the control API."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the tree that one server can find without the others."""

    kind: str
    """`unreachable`, `dangling`, `mistyped`, `links`, `parent`, `doubled`, `cycle` or `leftover`."""
    ino: int
    """Number of the inode, or of the one that the entry names."""
    parent: int | None
    """Directory of the entry at fault, or of the entry that the inode misses; null for a file without a name."""
    name: str | None
    """Name of that entry, in hexadecimal."""
    recorded: int | None
    """The number of names that the inode counts."""
    counted: int | None
    """The number of names that lead to the inode."""


@dataclass(frozen=True, slots=True)
class AwayEntry:
    """An entry of a directory whose home is another server."""

    parent: int
    """The directory that has the entry."""
    name: str
    """Name of the entry, in hexadecimal."""
    ino: int | None
    """The inode that the entry names; null if there is no such entry."""
    above: int
    """The last directory of this server on the way from `parent` up to the root."""
    is_changing: bool
    """Whether the server is making, moving or removing the directory."""


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a directory, by its own record."""

    ino: int
    """Number of the directory."""
    parent: int
    """The directory above."""
    name: str
    """Name of the entry there, in hexadecimal."""
    placed_by: int
    """The intent of the parent's server that told the place last."""
    is_entered: bool | None
    """Whether that entry leads to the directory; null where another server has it."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A part of the tree of one server."""

    inodes: int
    """The number of inodes that were judged."""
    faults: tuple[Fault, ...]
    """The faults that the server can find without the others."""
    away: tuple[AwayEntry, ...]
    """Entries of directories with other homes."""
    tops: tuple[Position, ...]
    """Directories with this home, and an entry on another server."""


@dataclass(frozen=True, slots=True)
class Directories:
    """Places of directories."""

    directories: tuple[Position, ...]
    """The requested directories that exist and have a name."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries that were asked for."""

    entries: tuple[AwayEntry, ...]
    """The entries, in the order of the question."""


@dataclass(frozen=True, slots=True)
class SumFault:
    """An owner whose accounted use is not that of its inodes."""

    kind: str
    """`user` or `group`."""
    id: int
    """Number of the owner."""
    bytes: int
    """The accounted bytes."""
    inodes: int
    """The accounted inodes."""
    bytes_counted: int
    """The bytes of its inodes."""
    inodes_counted: int
    """The number of its inodes."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one server that are wrong."""

    sums: tuple[SumFault, ...]
    """The owners; none where all sums are right."""


@dataclass(frozen=True, slots=True)
class SeenPlace:
    """The place of a directory by its own record, as it was seen."""

    parent: int
    """The directory above."""
    name: str
    """Name of the entry there, in hexadecimal."""
    placed_by: int
    """The intent that told the place last."""


@dataclass(frozen=True, slots=True)
class WantedMend:
    """One piece of a repair. The server looks whether the fault is there, and refuses where it is not."""

    mend: str
    """`shelter`, `shelter_here`, `enter_shelter`, `name`, `cut`, `unname`, `retype`, `place`, `count`, `dispose` or
    `sums`."""
    ino: int | None = None
    """The inode that is mended."""
    parent: int | None = None
    """Directory of the entry."""
    name: str | None = None
    """Name of the entry, in hexadecimal."""
    shelter: int | None = None
    """The folder that takes the inode: `lost+found`, or the server's own folder in it."""
    place: SeenPlace | None = None
    """For `name`: the place of a directory on another server where no entry leads to it."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A piece of a repair that was carried out."""

    ino: int
    """The inode that it is about."""
