"""Batch scripts of every shape, and what sbatch and Weir read in them.

`python tests/sbatch_scripts.py SEED COUNT` prints a table of scripts with the readings of the sbatch on its path.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.provisioning.errors import ProvisioningError
from weir.provisioning.jobs.batch_script import Header, decoded, read_header
from weir.provisioning.jobs.job import Job, of_header

TABLE = Path(__file__).parent / "data" / "slurm" / "22.05-scripts.json"
"""Scripts and the readings of Debian 12's sbatch."""
_REACHED = b"Connection refused"
"""The message of an sbatch that has read a script, and finds no controller."""
_SECONDS_MAX = 60.0
"""Longest time of an sbatch, on a busy machine."""
_BLANKS = ("", " ", "\t", "\f", "\v ", "\r")
_COMMENTS = ("#", "# x", "  # y", "\t#z", "#!x", "# a\fb", "# \N{LINE SEPARATOR}#WEIR y", "#\x85 é", "## SBATCH -N9",
             "##SBATCH -N9", "#sbatch -N9", "# SBATCH -N9", "\f#SBATCH -N9", "  #SBATCH -N9", "#\N{BOM}x")  # fmt: skip
_COMMANDS = ("true", "echo # x", " date", "\x1fx", ":", "\N{BOM}# x", "\x85", "\N{NO-BREAK SPACE}# x")
_GAPS = (" ", " ", " ", "  ", "\t", "\v", "\f", " \r ")
_OPTIONS = (
    "-N4", "-N 2", "--nodes=3", "--nodes 5", "--node=2", "--nodes=2-8", "-N1k", "-N 2K-3k", "-N-4", "-N0", "-N+3",
    "-N4-", "--nodes=many", "-N8-2", "-N1m", "-n7", "-n 9", "--ntasks=12", "--ntasks 3", "--ntas=3", "--ntasks=1k",
    "-n0", "-n+5", "--ntasks-per-node=3", "--ntasks-per-n=2", "--tasks-per-node=4", "--n=3", "--nod=3", "-HN6",
    "-sHn8", "-k", "-t5", "-t 90", "--time=0", "--time=1:30:00", "--time=1-2", "--time=1-", "--time=5:30",
    "--time=UNLIMITED", "--time=infinite", "--time=-1", "--time=10m", "--time=5:", "--tim=3", "--time=0:0:0",
    "--time=2-0:0:1", "--exclusive", "--exclusive=user", "--hold", "-J name", "--job-name=a=b", "--comment=c",
    "--comment -N7", "--requeue", "--no-requeue", "--wait=3", "--contiguous", "--comment=", "-o out.%j",
    "--nosuchoption", "--nosuch=1", "-Z", "word", "-", "--", "hetjob", "packjob", "HetJob", "hetjobs", ":", ":x",
    "x:y", '""', "''", "-J", "--nice", "--nice=5", "-vN3", "--parsable", "--mem=1G", "-c2", "--uid=0",
)  # fmt: skip
_DIRECTIVES = (
    "size=1GB", "policy=performance", "stage_out=results:/out", "stage_out=results:/out#7", "stage_in=/a:b",
    "trace=/x y", "size=200MB#", "#comment", "# size=3GB", "durable=true", ":x", '""', "stage_out=é:/ö", "size",
    "name=a\\b", "stage_out=r:/o\x85", "lease=30m", "\\", "stage_in=/a\\ b:c", "window='2h'",
)  # fmt: skip
_QUOTED = re.compile(r"""^(-+[a-z-]+=?)?(.+)$""", re.IGNORECASE | re.DOTALL)
UNCHECKED = re.compile(
    # Weir reads the values of four options alone.
    r"Invalid (--(?!time )|numeric value .* for --(?!ntasks))"
)
"""Refusals of sbatch where Weir reads on."""
EXPLAINED = re.compile(
    # What sbatch drops without a word, and directives must not lose.
    r"sbatch (cuts|drops)|differently|with a backslash|no line of directives"
    r"|which nobody sees|is not UTF-8|is no directive"
    # Numbers that sbatch takes, and slurmctld refuses.
    r"|from 1$"
)
"""Refusals of Weir where sbatch reads on."""


@dataclass(frozen=True)
class Reading:
    """What a reader found in a script."""

    refusal: str = ""
    words: tuple[tuple[str, ...], ...] = ()
    """Words by component."""
    nodes: int | None = None
    tasks: int | None = None
    minutes: int | None = None


def generated(choices: random.Random, magic: str = "#SBATCH") -> bytes:
    """Make a script.

    Args:
        choices: The source of all choices.
        magic: Begin of the lines whose words are compared; `#WEIR` for directives.

    Returns:
        The script, now and then one that sbatch does not take.
    """
    lines = ["#!/bin/bash"]
    for _ in range(choices.randrange(9)):
        kind = choices.random()
        if kind < 0.1:
            lines.append(choices.choice(_BLANKS))
        elif kind < 0.25:
            lines.append(choices.choice(_COMMENTS))
        elif kind < 0.29:
            lines.append(choices.choice(_COMMANDS))
        else:
            lines.append(_line(choices, magic))
    ending = "\r\n" if choices.random() < 0.02 else "\n"
    begin = choices.choice(("\N{BOM}", " ", "\n", "x")) if choices.random() < 0.02 else ""
    text = begin + ending.join(lines) + choices.choice(("", "\n", "\ntrue\n"))
    text = text if choices.random() < 0.99 else text + "\0"
    return text.encode("latin-1", "ignore") if choices.random() < 0.1 else text.encode()


def _line(choices: random.Random, magic: str) -> str:
    tokens = _OPTIONS if magic == "#SBATCH" else _DIRECTIVES
    words = [_decorated(choices, choices.choice(tokens)) for _ in range(choices.randrange(1, 4))]
    gaps = [choices.choice(_GAPS) for _ in words]
    if choices.random() < 0.05:
        gaps[0] = ""
    line = magic + "".join(gap + word for gap, word in zip(gaps, words, strict=True))
    if choices.random() < 0.1:
        line += choices.choice((" # more", " #", "#more", " ", "\t", " \\", "\\", " hetjob", "\r"))
    others = ("#SLURM", " #SBATCH") if magic == "#SBATCH" else (" #WEIR", "# weir", "#weir")
    return line if choices.random() < 0.97 else choices.choice(others) + line[len(magic) :]


def _decorated(choices: random.Random, word: str) -> str:
    """A word with quotation marks or backslashes in it."""
    kind = choices.random()
    found = _QUOTED.fullmatch(word)
    name, value = (found[1] or "", found[2]) if found else ("", word)
    if kind < 0.05:
        return f'"{word}"'
    if kind < 0.1:
        return f"{name}'{value}'"
    if kind < 0.13:
        return f'{name}"{value} "'
    if kind < 0.16:
        return f"{name}\\{value}"
    if kind < 0.18:
        return f"{name}'a\\'b#c\"'{value}"
    if kind < 0.2:
        return f'{name}"{value}'
    return word


def as_directives(script: bytes) -> bytes:
    """The script for sbatch whose words are to be those of the directives of another one."""
    return re.sub(rb"^#WEIR", b"#SBATCH", script, flags=re.MULTILINE)


def missing() -> str:
    """Why no script can be read by sbatch here; empty where one can."""
    return "" if shutil.which("sbatch") else "no sbatch: `make test-slurm` installs it"


class Sbatch:
    """The sbatch on the path, without a controller."""

    def __init__(self, folder: Path) -> None:
        """Write a configuration whose controller does not listen."""
        self._folder = folder
        (folder / "slurm.conf").write_text(
            "ClusterName=none\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\nAuthType=auth/munge\n"
            "NodeName=none NodeAddr=127.0.0.1\nPartitionName=none Nodes=none Default=YES\n"
        )

    def read(self, script: bytes) -> Reading:
        """Find what sbatch reads in a script."""
        path = self._folder / "script"
        path.write_bytes(script)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SBATCH", "SLURM"))}
        environment["SLURM_CONF"] = str(self._folder / "slurm.conf")
        command = ("sbatch", "-vvv", "--test-only", str(path))
        said = []
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                if _REACHED in line:
                    process.kill()
                    break
        return _said([line.decode(errors="replace").removeprefix("sbatch: ").rstrip("\n") for line in said])


def _said(lines: Sequence[str]) -> Reading:
    components: list[tuple[str, ...]] = []
    options: list[dict[str, str]] = []
    words: list[str] = []
    for line in lines:
        if found := re.fullmatch(r'debug2: Found in script, argument "(.*)"', line, re.DOTALL):
            words.append(found[1])
        elif line == "defined options":
            components.append(tuple(words))
            options.append({})
            words = []
        elif options and (found := re.fullmatch(r"([a-z-]+) +: (.*)", line)):
            options[-1][found[1]] = found[2]
    is_read = _REACHED.decode() in lines[-1] if lines else False
    if not is_read:
        refusal = next((line for line in reversed(lines) if "debug" not in line and "Try " not in line), "nothing")
        return Reading(refusal=refusal, words=(*components, *([tuple(words)] if words else [])))
    return _totals(components, options)


def _totals(components: Sequence[tuple[str, ...]], options: Sequence[dict[str, str]]) -> Reading:
    nodes = [int(each["nodes"].partition("-")[0]) if "nodes" in each else None for each in options]
    tasks: list[int | None] = []
    for least, each in zip(nodes, options, strict=True):
        per_node = each.get("ntasks-per-node")
        product = int(per_node) * least if per_node and least else None
        tasks.append(int(each["ntasks"]) if "ntasks" in each else product)
    times = [_minutes(each.get("time", "UNLIMITED")) for each in options]
    several = len(options) > 1
    return Reading(
        words=tuple(components),
        nodes=sum(each or 1 for each in nodes) if several else nodes[0],
        tasks=sum(own or least or 1 for own, least in zip(tasks, nodes, strict=True)) if several else tasks[0],
        minutes=max((each for each in times if each is not None), default=None) if None not in times else None,
    )


def _minutes(text: str) -> int | None:
    if text == "UNLIMITED":
        return None
    days, hours, minutes, seconds = map(int, re.split("[-:]", text if "-" in text else f"0-{text}"))
    assert seconds == 0
    return (24 * days + hours) * 60 + minutes


def read_by_weir(script: bytes, *, directives: bool = False) -> Reading:
    """Find what Weir reads in a script.

    Args:
        script: The script.
        directives: Whether the words of directives are wanted, and not those of options.

    Returns:
        The reading.
    """
    try:
        header = read_header("script", decoded(script))
        words = _words(header, directives=directives)
        job = Job() if directives else of_header(Path("script"), header)
    except ProvisioningError as error:
        assert error.hint, "each refusal has a hint"
        assert re.match(r"script(:[0-9]+)?: ", error.message), "each refusal has a place"
        return Reading(refusal=error.message)
    minutes = None if job.seconds is None else -int(-job.seconds // 60)
    return Reading(words=words, nodes=job.nodes, tasks=job.processes, minutes=minutes)


def _words(header: Header, *, directives: bool) -> tuple[tuple[str, ...], ...]:
    lines = header.directives if directives else header.options
    if directives:
        return (tuple(word for line in lines for word in line.words.words),)
    last = max((line.component for line in lines), default=0)
    return tuple(
        tuple(word for line in lines if line.component == component for word in line.words.words)
        for component in range(last + 1)
    )


def difference(script: bytes, sbatch: Reading, *, directives: bool = False) -> str:
    """Compare Weir's reading with sbatch's.

    Args:
        script: The script.
        sbatch: The reading of sbatch; of a script of directives, that of `as_directives`.
        directives: Whether the words of directives are compared.

    Returns:
        The difference; empty where there is none, or a refusal of Weir that sbatch leaves out and the guide explains.
    """
    own = read_by_weir(script, directives=directives)
    if own.refusal:
        is_explained = bool(sbatch.refusal) or EXPLAINED.search(own.refusal) is not None
        return "" if is_explained else f"Weir refuses what sbatch reads: {own.refusal}\n{script!r}"
    if directives:
        return _directives_difference(script, own, sbatch)
    if sbatch.refusal:
        return (
            "" if UNCHECKED.search(sbatch.refusal) else f"sbatch refuses what Weir reads: {sbatch.refusal}\n{script!r}"
        )
    return "" if own == sbatch else f"Weir reads {own}, sbatch {sbatch}\n{script!r}"


def _directives_difference(script: bytes, own: Reading, sbatch: Reading) -> str:
    words = tuple(word for component in sbatch.words for word in component)
    # `size=1GB` is no option of sbatch, which tells its words before it refuses them.
    is_refused = sbatch.refusal and "Invalid directive found" not in sbatch.refusal
    if is_refused and b"\\\n" not in script:
        return f"sbatch refuses what Weir reads: {sbatch.refusal}\n{script!r}"
    return "" if is_refused or own.words == (words,) else f"Weir reads {own.words}, sbatch {words}\n{script!r}"


def recorded() -> Iterator[tuple[bytes, Reading, bool]]:
    """Read the table of Debian 12's sbatch.

    Yields:
        Scripts, the readings of sbatch, and whether the words of directives are compared.
    """
    for row in json.loads(TABLE.read_text()):
        named = {name: row[name] for name in ("refusal", "nodes", "tasks", "minutes")}
        reading = Reading(words=tuple(map(tuple, row["words"])), **named)
        yield row["script"].encode("latin-1"), reading, row["directives"]


def table(seed: int, count: int) -> list[dict[str, Any]]:
    """Have scripts read by sbatch.

    Args:
        seed: Seed of the scripts.
        count: Number of scripts; every other one is of directives.

    Returns:
        The scripts, in Latin-1, and what sbatch read.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sbatch = Sbatch(Path(folder))
        for number in range(count):
            directives = bool(number % 2)
            script = generated(random.Random(f"{seed}/{number}"), "#WEIR" if directives else "#SBATCH")
            found = sbatch.read(as_directives(script) if directives else script)
            rows.append({"script": script.decode("latin-1"), "directives": directives, **found.__dict__})
    return rows


if __name__ == "__main__":
    rows = table(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
