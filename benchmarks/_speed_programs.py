"""Whole programs on each place: their time over that on tmpfs, beside GlusterFS and JuiceFS.

Everything is made of what the machine has: this repository, the package numpy, and generated files.
"""

import itertools
import math
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from _harness import ROOT, WAIT_SECONDS, announce
from _speed_peers import peers
from _speed_places import NOW, before, store, tmpfs
from _speed_rounds import Effort, Figures, Turns, rotated, spread, taking_turns

WAYS = ("run", "mount")
WORKERS = 4
FOLDER_FILES = 100
SAMPLE_BYTES = 8192
_SHELL = """
cd "$1" && echo ready
while IFS= read -r line; do
    begin=$EPOCHREALTIME
    (eval "$line") >/dev/null
    code=$?
    end=$EPOCHREALTIME
    echo "$code ${begin/[.,]/} ${end/[.,]/}"
done
"""
"""Runs each line of its input in the place, and tells its exit code, and the microseconds when it began and ended."""
SHELL = ("bash", "-c", _SHELL, "speed")
_C_FILE = """
#include "common.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int work_{number}(const char *word) {{
    char copy[64];
    snprintf(copy, sizeof copy, "%s %d", word, {number});
    return (int)strlen(copy) + LIMIT;
}}
"""


@dataclass(frozen=True)
class Program:
    """A program, as lines of the shell in a folder of a place; `{inputs}` is the folder of the inputs."""

    timed: str
    once: str = ""
    """Line before the first round."""
    each: str = ""
    """Line before each round."""


def programs() -> dict[str, Program]:
    """The programs, by the name of their figures."""
    python = sys.executable
    return {
        "ls": Program("ls -lR tree", once="tar xf {inputs}/tree.tar"),
        "git_status": Program(
            "git -C clone status --porcelain",
            once="tar xf {inputs}/clone.tar && git -C clone status",
        ),
        "import": Program(
            f"PYTHONPATH=$PWD/site {python} -c 'import numpy; assert \"site/numpy\" in numpy.__file__'",
            once="tar xf {inputs}/site.tar",
        ),
        "make": Program("make -s -C project -j2", once="tar xf {inputs}/project.tar", each="make -s -C project clean"),
        "tar": Program("tar xf {inputs}/clone.tar -C out", each="rm -rf out && mkdir out"),
        "loader": Program(
            f"{python} {ROOT}/benchmarks/_speed_loader.py samples {WORKERS}", once="tar xf {inputs}/samples.tar"
        ),
    }


def measure(directory: Path, effort: Effort) -> Mapping[str, float | None]:
    """The seconds of each program at each place, and their ratios to those on tmpfs."""
    inputs = directory / "inputs"
    make_inputs(inputs, effort)
    seconds: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as ends:
        places = [
            ends.enter_context(tmpfs(directory)),
            *ends.enter_context(store(NOW, directory, WAYS)),
            *ends.enter_context(store(before(), directory, WAYS)),
            *peers(directory, ends),
        ]
        turns = ends.enter_context(taking_turns(places, SHELL))
        for name, program in programs().items():
            _run_program(turns, name, program, inputs, effort.program_rounds, seconds)
    return told(seconds)


def _run_program(
    turns: Mapping[str, Turns],
    name: str,
    program: Program,
    inputs: Path,
    rounds: int,
    seconds: dict[tuple[str, str], list[float]],
) -> None:
    """Time the rounds of a program; a first one is not counted, and finds its files where it has just put them."""
    for place in turns:
        if program.once:
            shell_seconds(turns[place], program.once.format(inputs=inputs))
    for number in range(-1, rounds):
        for place in rotated(list(turns), number):
            if program.each:
                shell_seconds(turns[place], program.each)
            taken = shell_seconds(turns[place], program.timed.format(inputs=inputs))
            if number >= 0:
                seconds.setdefault((name, place), []).append(taken)


def shell_seconds(turns: Turns, line: str) -> float:
    """The seconds of a line of the shell.

    Raises:
        SystemExit: It failed.
    """
    code, begin, end = turns.take(line).split()
    if code != "0":
        sys.exit(f"error: {line!r} at {turns.name} gave {code}")
    return (int(end) - int(begin)) / 1e6


def told(seconds: Mapping[tuple[str, str], list[float]]) -> Figures:
    """The figures: seconds, ratios to tmpfs of every place, and ratios of ours to the peers."""
    figures: Figures = {f"{name}_{place}_seconds": statistics.median(each) for (name, place), each in seconds.items()}
    for (name, place), own in seconds.items():
        if place != "tmpfs":
            ratios = [one / other for one, other in zip(own, seconds[name, "tmpfs"], strict=True)]
            figures |= spread(f"{name}_{place}_vs_tmpfs", ratios)
            median, bare = statistics.median(own), statistics.median(seconds[name, "tmpfs"])
            announce(name, f"{place} {median:.3f} s", f"tmpfs {bare:.3f} s", statistics.median(ratios))
    names = sorted({name for name, _ in seconds})
    ours = [f"{name}_{way}" for name in names for way in WAYS]
    figures["programs_vs_tmpfs_max"] = max(figures[f"{each}_vs_tmpfs"] or math.inf for each in ours)
    for rival in ("before", "glusterfs", "juicefs"):
        figures[f"programs_vs_{rival}_max"] = _longest(figures, names, rival)
    return figures


def _longest(figures: Mapping[str, float | None], names: Sequence[str], rival: str) -> float | None:
    """The greatest ratio of a way's time to that of a rival; None where the rival was not measured."""
    ratios = []
    for name, way in itertools.product(names, WAYS):
        own = figures[f"{name}_{way}_seconds"]
        other = figures.get(f"{name}_{way}_before_seconds" if rival == "before" else f"{name}_{rival}_seconds")
        if own is not None and other is not None:
            ratios.append(own / other)
    return max(ratios, default=None)


def make_inputs(folder: Path, effort: Effort) -> None:
    """Make the archives that the programs unpack."""
    folder.mkdir()
    spec = find_spec("numpy")
    assert spec is not None and spec.origin is not None, "numpy is a dependency of the package"
    packages = Path(spec.origin).parents[1]
    site = folder / "site"
    site.mkdir()
    for name in ("numpy", "numpy.libs"):
        if (packages / name).is_dir():
            shutil.copytree(packages / name, site / name)
    for number in range(effort.tree_files):
        path = folder / f"tree/{number // FOLDER_FILES}/{number % FOLDER_FILES}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for number in range(effort.samples):
        path = folder / f"samples/{number // FOLDER_FILES}/{number % FOLDER_FILES}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(8, "little") * (SAMPLE_BYTES // 8))
    _make_project(folder / "project", effort.sources)
    _run("git", "clone", "-q", "--depth=1", f"file://{ROOT}", folder / "clone")
    for name in ("tree", "samples", "site", "project", "clone"):
        _run("tar", "cf", folder / f"{name}.tar", "-C", folder, name)


def _make_project(folder: Path, sources: int) -> None:
    folder.mkdir()
    for number in range(sources):
        (folder / f"work_{number}.c").write_text(_C_FILE.format(number=number))
    calls = " + ".join(f'work_{number}("word")' for number in range(sources))
    declared = "".join(f"int work_{number}(const char *word);\n" for number in range(sources))
    (folder / "common.h").write_text(f"#define LIMIT 7\n{declared}")
    (folder / "main.c").write_text(f'#include "common.h"\nint main(void) {{ return ({calls}) == 0; }}\n')
    (folder / "Makefile").write_text(
        "objects := $(patsubst %.c,%.o,$(wildcard *.c))\n"
        "program: $(objects)\n\tcc -o $@ $^\n"
        "%.o: %.c common.h\n\tcc -O1 -c -o $@ $<\n"
        "clean:\n\trm -f program *.o\n"
    )


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, timeout=WAIT_SECONDS)
