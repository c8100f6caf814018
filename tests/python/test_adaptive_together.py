"""One reader and many threads or tasks, a reader that is closed while it reads, and a writer that is killed."""

import asyncio
import signal
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from places import Gated
from waits import PATIENCE_SECONDS
from weir import adaptive

Array = NDArray[Any]
STEPS = 40


def field(step: int) -> Array:
    rows, columns = numpy.mgrid[0:64, 0:48]
    waves: Array = numpy.sin(rows / 7 + step) * numpy.cos(columns / 9)
    return waves.astype(numpy.float32)


@pytest.fixture
def tiers(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]


def written(tiers: list[str], steps: int = STEPS) -> None:
    adaptive.write(tiers, map(field, range(steps)), exact=True, chunk_bytes=1 << 11)


def joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@pytest.mark.usefixtures("gates")
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("policy", ["best-effort", adaptive.Budget(seconds=900.0)])
def test_each_of_eight_threads_gets_other_steps(tiers: list[str], policy: Any, prefetch: bool) -> None:
    written(tiers)
    reader = adaptive.open(tiers, policy=policy, prefetch=prefetch, deadline_seconds=PATIENCE_SECONDS)
    seen: list[adaptive.Step] = []
    threads = [threading.Thread(target=lambda: seen.extend(reader)) for _ in range(8)]
    for thread in threads:
        thread.start()
    joined(threads)
    assert sorted(step.number for step in seen) == list(range(STEPS))
    for step in seen:
        assert numpy.abs(step.data - field(step.number)).max() <= step.max_error


@pytest.mark.usefixtures("gates")
@pytest.mark.parametrize("prefetch", [False, True])
def test_each_of_eight_tasks_gets_other_steps(tiers: list[str], prefetch: bool) -> None:
    written(tiers)

    async def numbers(reader: adaptive.Reader) -> list[int]:
        return [step.number async for step in reader]

    async def together() -> list[list[int]]:
        async with adaptive.open(tiers, prefetch=prefetch) as reader:
            return await asyncio.gather(*(numbers(reader) for _ in range(8)))

    each = asyncio.run(asyncio.wait_for(together(), PATIENCE_SECONDS))
    assert sorted(chain.from_iterable(each)) == list(range(STEPS))


def test_closing_gives_up_what_is_read_ahead(tiers: list[str], gates: dict[str, threading.Event]) -> None:
    written(tiers, 3)
    reader = adaptive.open(tiers, prefetch=True)
    gate = gates["00000001.1"] = threading.Event()
    next(reader)
    with Gated.came:
        assert Gated.came.wait_for(lambda: any(name.startswith("00000001.1") for name in Gated.asked), PATIENCE_SECONDS)
    closing = threading.Thread(target=reader.close)
    closing.start()
    joined([closing])
    assert next(reader, None) is None
    gate.set()
    assert adaptive.open(tiers).step(1).augmentation == 1.0


def test_who_waits_for_a_step_when_it_is_closed_still_gets_it(
    tiers: list[str], gates: dict[str, threading.Event]
) -> None:
    written(tiers, 3)
    reader = adaptive.open(tiers)
    gate = gates["00000000.1"] = threading.Event()
    seen: list[adaptive.Step] = []
    waiting = threading.Thread(target=lambda: seen.extend(reader))
    waiting.start()
    with Gated.came:
        assert Gated.came.wait_for(lambda: any(name.startswith("00000000.1") for name in Gated.asked), PATIENCE_SECONDS)
    reader.close()
    gate.set()
    joined([waiting])
    assert [step.number for step in seen] == [0]
    assert numpy.array_equal(seen[0].data, field(0))


HALF = """
import sys, time
from pathlib import Path
import numpy
from weir import adaptive
from weir.adaptive.tiers import Place

fast, shared, halting = sys.argv[1:]
whole = Place.write

def write(self, name, data):
    if name.startswith(halting):
        Path(self.local_root).mkdir(exist_ok=True)
        Path(self.local_root, f"{name}.part").write_bytes(bytes(data[: len(data) // 2]))
        print("half", flush=True)
        time.sleep(600)
    whole(self, name, data)

Place.write = write
rows, columns = numpy.mgrid[0:64, 0:48]
with adaptive.Writer([fast, shared], exact=True, chunk_bytes=1 << 11) as writer:
    for step in range(4):
        writer.write((numpy.sin(rows / 7 + step) * numpy.cos(columns / 9)).astype("f4"))
"""


@pytest.mark.parametrize(
    ("halting", "whole"),
    [("stream.json", 0), ("00000000.0", 0), ("00000002.0", 2), ("00000002.1", 2), ("00000002.json", 2)],
)
def test_a_writer_that_is_killed_in_a_step_leaves_those_before_it(tmp_path: Path, halting: str, whole: int) -> None:
    tiers = [str(tmp_path / "fast"), str(tmp_path / "shared")]
    command = [sys.executable, "-c", HALF, *tiers, halting]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "half\n"
        killed.send_signal(signal.SIGKILL)
    if whole:
        assert [step.number for step in adaptive.open(tiers)] == list(range(whole))
    elif halting == "stream.json":
        with pytest.raises(adaptive.AdaptiveError, match="no stream"):
            adaptive.open(tiers)
    else:
        assert list(adaptive.open(tiers)) == []
    is_begun = halting != "stream.json"
    if is_begun:
        # Another writer may be at its first step.
        with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
            adaptive.write(tiers, [field(whole)], exact=True)
    adaptive.write(tiers, map(field, range(whole, 4)), exact=True, chunk_bytes=1 << 11, append=is_begun)
    steps = list(adaptive.open(tiers))
    assert [step.number for step in steps] == [0, 1, 2, 3]
    for step in steps:
        assert numpy.array_equal(step.data, field(step.number))
    # What was begun of a stream without a step is nobody's.
    assert not whole or not list(tmp_path.rglob("*.part"))
