"""A small write, which is one message to the server and back, beside a bare ping-pong of as many bytes."""

import statistics
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from _harness import announce, compiled
from _speed_places import NOW, Place, before, plain_environment, store
from _speed_rounds import END_SECONDS, Effort, Figures, Turns, Work, rate_of, rotated, spread, taking_turns

PROCESSES = (1, 4, 16)
BLOCKS = 8
"""MiB of the file of each process."""
SMALL = 4096
PING = "ping"


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The time of a 4 KiB write over that of a ping-pong, at 1, 4 and 16 processes."""
    load = compiled("speed_load", directory)
    write = Work("write", "random-write", BLOCKS, effort.seconds)
    ping = Work(PING, "ping", SMALL, effort.seconds)
    figures: Figures = {}
    with ExitStack() as ends:
        bare = ends.enter_context(_echo(load, directory))
        places = [bare]
        for checkout in (NOW, before()):
            places += ends.enter_context(store(checkout, directory, ("run", "prefix")))
        for count in PROCESSES:
            seconds: dict[str, list[float]] = {place.name: [] for place in places}
            with taking_turns(places, (load,), str(count)) as turns:
                _fill(turns)
                for number in range(effort.rounds):
                    for name in rotated(list(turns), number):
                        seconds[name].append(count / rate_of(turns[name], ping if name == PING else write))
            figures |= _told(seconds, count)
    told = [figures[f"round_trip_vs_pingpong_x{count}"] for count in PROCESSES]
    return {**figures, "round_trip_vs_pingpong": max(each for each in told if each is not None)}


def _fill(turns: Mapping[str, Turns]) -> None:
    for name, program in turns.items():
        if name != PING:
            program.take(f"write {BLOCKS} 0")


def _told(seconds: Mapping[str, list[float]], count: int) -> Figures:
    """The microseconds of each place, and the ratio of each to the ping-pong."""
    figures: Figures = {
        f"{name}_round_trip_x{count}_us": 1e6 * statistics.median(each) for name, each in seconds.items()
    }
    for name, own in seconds.items():
        if name != PING:
            ratios = [one / other for one, other in zip(own, seconds[PING], strict=True)]
            key = "round_trip" if name == "run" else f"{name}_round_trip"
            figures |= spread(f"{key}_vs_pingpong_x{count}", ratios)
            median, bare = (1e6 * statistics.median(each) for each in (own, seconds[PING]))
            announce(f"round trip x{count}", f"{name} {median:.1f} us", f"ping-pong {bare:.1f} us", median / bare)
    return figures


@contextmanager
def _echo(load: Path, directory: Path) -> Iterator[Place]:
    """The other end of the ping-pong: one thread, as a server has."""
    process = subprocess.Popen([load, directory, "serve"], env=plain_environment(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{load} does not listen in {directory}")
        yield Place(PING, directory)
    finally:
        process.terminate()
        process.wait(timeout=END_SECONDS)
        process.stdout.close()
