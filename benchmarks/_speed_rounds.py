"""Rounds of the benchmark of speed: each place takes its turn at each work, so that what disturbs one disturbs all."""

import select
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from _harness import announce
from _speed_places import Place

END_SECONDS = 30.0
TURN_SECONDS_MAX = 300.0
PROCESSES = (1, 4)

Rates = dict[tuple[str, str, int], list[float]]
"""Operations a second of each round, by place, work and number of processes."""
Figures = dict[str, float | None]


@dataclass(frozen=True)
class Effort:
    """The amount of work of a run."""

    rounds: int
    seconds: float
    """Least length of a turn of calls that change nothing."""
    blocks: int
    """Size of the file of each process, in MiB."""
    files: int
    """Number of small files of each process."""
    fresh_blocks: int
    """MiB that are written into fresh memory."""
    program_rounds: int
    tree_files: int
    """Number of files that `ls -lR` lists."""
    sources: int
    """Number of C files that `make` compiles."""
    samples: int
    """Number of files that the data loader reads."""


FULL = Effort(
    rounds=5,
    seconds=0.5,
    blocks=128,
    files=2000,
    fresh_blocks=1024,
    program_rounds=3,
    tree_files=20_000,
    sources=48,
    samples=4000,
)
QUICK = Effort(
    rounds=2,
    seconds=0.1,
    blocks=32,
    files=300,
    fresh_blocks=256,
    program_rounds=1,
    tree_files=2000,
    sources=8,
    samples=800,
)


@dataclass(frozen=True)
class Work:
    """A kind of work of `speed_load`."""

    name: str
    """Its name in the figures."""
    verb: str
    amount: int
    seconds: float = 0.0


class Turns:
    """A program at a place that does a turn for each line that it gets, and answers with a line."""

    def __init__(self, place: Place, *command: str | Path) -> None:
        self.name = place.name
        self._process = subprocess.Popen(
            [*place.command, *map(str, command)],
            env=place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._answer("ready")

    def take(self, turn: str) -> str:
        """Let the program do a turn.

        Raises:
            SystemExit: It ended, or did not answer within `TURN_SECONDS_MAX`.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{turn}\n")
        return self._answer(turn)

    def _answer(self, turn: str) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], TURN_SECONDS_MAX)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            why = f"no answer within {TURN_SECONDS_MAX:.0f} s" if not ready else "the program ended"
            sys.exit(f"error: {turn!r} at {self.name}: {why}")
        return line.strip()

    def close(self) -> None:
        """End the program, whose input ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=END_SECONDS)
        self._process.stdout.close()


@contextmanager
def taking_turns(places: Sequence[Place], program: Sequence[str | Path], *arguments: str) -> Iterator[dict[str, Turns]]:
    """A program, with the place's folder and further arguments, at each place; by the places' names."""
    with ExitStack() as ends:
        turns = {}
        for place in places:
            turns[place.name] = Turns(place, *program, place.folder, *arguments)
            ends.callback(turns[place.name].close)
        yield turns


def rotated(places: Sequence[str], number: int) -> list[str]:
    """The places in the order of a round: the first of each round is another."""
    first = number % len(places)
    return [*places[first:], *places[:first]]


def measured(
    load: Path,
    places: Sequence[Place],
    works: Sequence[Work],
    rounds: int,
    processes: Sequence[int] = PROCESSES,
) -> Rates:
    """The rates of works at places.

    A first round, which is not counted, leaves memory and caches as later rounds find them.
    """
    rates: Rates = {}
    for count in processes:
        with taking_turns(places, (load,), str(count)) as turns:
            for number in range(-1, rounds):
                for work in works:
                    for name in rotated(list(turns), number):
                        rate = rate_of(turns[name], work if number >= 0 else Work(work.name, work.verb, work.amount))
                        if number >= 0:
                            rates.setdefault((name, work.name, count), []).append(rate)
    return rates


def rate_of(turns: Turns, work: Work) -> float:
    """Operations a second of one turn of `speed_load`."""
    operations, seconds = turns.take(f"{work.verb} {work.amount} {work.seconds}").split()
    return int(operations) / float(seconds)


def rate_figures(rates: Rates) -> Figures:
    """The median rate of each place, work and number of processes."""
    return {
        f"{place}_{work}_x{count}_per_second": statistics.median(each) for (place, work, count), each in rates.items()
    }


def compared(rates: Rates, figure: str, work: str, ours: str, theirs: str) -> Figures:
    """The ratio of two places' rates of a work: medians over rounds, with the least and the greatest of a round.

    Returns:
        `figure`, the lowest median of all numbers of processes, and `figure_xN` with `_min` and `_max` for each
        number; None where one of the places was not measured.
    """
    counts = sorted({count for place, name, count in rates if (place, name) == (ours, work)})
    figures: Figures = {figure: None}
    medians = []
    for count in counts:
        own, rival = rates[ours, work, count], rates.get((theirs, work, count))
        if rival is None:
            return figures
        figures |= spread(f"{figure}_x{count}", [one / other for one, other in zip(own, rival, strict=True)])
        median = figures[f"{figure}_x{count}"]
        assert median is not None
        medians.append(median)
        announce(
            f"{work} x{count}",
            f"{ours} {statistics.median(own):.0f} a second",
            f"{theirs} {statistics.median(rival):.0f} a second",
            median,
        )
    if medians:
        figures[figure] = min(medians)
    return figures


def spread(figure: str, ratios: Sequence[float]) -> Figures:
    """The median of the rounds, and the least and the greatest round."""
    return {figure: statistics.median(ratios), f"{figure}_min": min(ratios), f"{figure}_max": max(ratios)}


def worst(figures: Mapping[str, float | None], names: Sequence[str]) -> float | None:
    """The worst of several figures; None where one was not measured."""
    found = [figures[name] for name in names]
    told = [each for each in found if each is not None]
    return min(told) if told and len(told) == len(found) else None
