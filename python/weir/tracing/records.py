"""The record of a run, the same for every tracer."""

from dataclasses import dataclass

SHARED = -1
"""Rank of a file that several ranks made or wrote."""
ANY = -1
"""The rank, and the turn, of a temporary name that stands for one file."""


@dataclass(frozen=True, slots=True)
class Creation:
    """One file that a run made."""

    path: str
    """Absolute path, as the program named it."""
    rank: int
    """Rank that made the file, or `SHARED`."""
    order: int
    """Position among the creations of its rank, from 0."""
    size_bytes: int
    """One past the last byte written."""
    written_bytes: int
    """Bytes written; a byte written twice counts twice."""
    writers: int
    """Number of ranks that wrote the file."""
    layout: str | None
    """Layout in the spelling of `lfs setstripe`; None where it is not known."""
    was_there: bool = False
    """Whether the file was there before the run, which dropped its bytes (or, in `Run.overwritten`, kept them)."""
    renamed: str | None = None
    """The file's last name, where it differs from its first."""

    @property
    def name(self) -> str:
        """The file's last name, by which it is predicted: the name at its creation may be a random one."""
        return self.renamed or self.path


@dataclass(frozen=True, slots=True)
class Making:
    """One making of a file. A file that is written anew under another name, and renamed each time, has several."""

    path: str
    """Name under which the file was made."""
    name: str
    """Last name of the file."""
    rank: int
    """Rank of the process that made it."""
    process: int
    """Number of that process within the run."""


@dataclass(frozen=True, slots=True)
class Place:
    """The path below which a run saw its store."""

    path: str
    is_mount: bool
    """Whether it was a mount point; else it was the prefix of a run without a mount."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program, all its ranks together."""

    program: str
    """Name of the executable without its folder."""
    arguments: tuple[str, ...]
    """Arguments after the program's name."""
    ranks: int
    """Size of the communicator; 1 without MPI."""
    started: float
    """Unix time of the start, in seconds."""
    ended: float
    """Unix time of the end in seconds, or of the last record where the end was not recorded."""
    creations: tuple[Creation, ...]
    """Creations in their order."""
    source: str
    """Tracer of the run: `weir` or `darshan`."""
    overwritten: tuple[Creation, ...] = ()
    """Files that were there before and kept their bytes when the run wrote to them."""
    makings: tuple[Making, ...] = ()
    """All makings in their order; empty where no file has another name in the end, and where the tracer tells none."""
    process_numbers: frozenset[int] = frozenset()
    """Numbers that the system gave the run's processes; empty where the tracer tells none."""
    place: Place | None = None
    """The place of the store; None where the run used none, or the tracer tells none."""


@dataclass(frozen=True, slots=True)
class TemporaryName:
    """A name under which a coming run makes a file before it gets its last name."""

    name: str
    """The name; `?` stands for one random letter, and `#` for a number without a rule."""
    rank: int
    """Rank that makes the file, or `ANY`."""
    turn: int
    """Number of the making among those of the process under this name, from 0, or `ANY`."""
    path: str
    """Last name of the file; empty for the turn of a file that is not predicted."""
