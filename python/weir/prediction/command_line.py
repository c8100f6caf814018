"""A command as a user types it: the program in it, its arguments, and the ranks that its launcher is told."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from weir.prediction.context import identity
from weir.tracing.records import Run

_RANKS = re.compile(r"(?:-n|-np|--np|--n|--ntasks|--nprocs)(?:=(\d+))?|-n(\d+)|-np(\d+)")
"""Options that tell launchers the number of ranks: mpiexec, mpirun, srun, flux run, aprun, prun."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command, as far as past runs explain it."""

    program: str
    """Name of the executable, as it was recorded."""
    arguments: tuple[str, ...]
    ranks: int | None
    """Ranks of the launcher; None where there is none."""
    like: Run | None
    """The latest run of this program; None where none was recorded."""


def understand(words: Sequence[str], runs: Sequence[Run]) -> CommandLine:
    """Find the program in the words of a command.

    The first word is the program, or else the first word that names a recorded program or script: what stands before
    is a launcher (`mpiexec -n 8 ./model`) or a wrapper (`env`, `numactl`, `nice`).

    Args:
        runs: Past runs, oldest first.

    Returns:
        The program, its arguments, the launcher's ranks, and the latest run like it.
    """
    for at, word in enumerate(words):
        found = _recorded(word, words[at + 1 :], runs)
        if found is not None:
            return CommandLine(found[0], found[1], _ranks(words[:at]), _latest(*found, runs))
    first, *rest = words or [""]
    return CommandLine(PurePath(first).name, tuple(rest), None, None)


def _recorded(word: str, rest: Sequence[str], runs: Sequence[Run]) -> tuple[str, tuple[str, ...]] | None:
    """The recorded name of a program, and its arguments; None for a word that is no recorded program."""
    name = PurePath(word).name
    known = [run.program for run in reversed(runs)]
    if name in known:
        return name, tuple(rest)
    # For `python3` the recorded name is the one behind the link, such as `python3.11`.
    bare = name.rstrip("0123456789.")
    for program in known:
        if bare and program.rstrip("0123456789.") == bare:
            return program, tuple(rest)
    # A script that names its interpreter in its first line was recorded as the interpreter's argument.
    for run in reversed(runs):
        if identity(run.program, run.arguments)[1:] == (name,):
            return run.program, (word, *rest)
    return None


def _latest(program: str, arguments: Sequence[str], runs: Sequence[Run]) -> Run | None:
    wanted = identity(program, arguments)
    return next((run for run in reversed(runs) if identity(run.program, run.arguments) == wanted), None)


def _ranks(words: Sequence[str]) -> int | None:
    """The number of ranks in the words of a launcher; the last one counts."""
    ranks = None
    for at, word in enumerate(words):
        match = _RANKS.fullmatch(word)
        if match is None:
            continue
        text = match[1] or match[2] or match[3] or "".join(words[at + 1 : at + 2])
        if text.isdecimal() and int(text) > 0:
            ranks = int(text)
    return ranks
