"""The record of a run, the same for every tracer."""

from dataclasses import dataclass

SHARED = -1
"""Rank of a file that several ranks made or wrote."""


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
