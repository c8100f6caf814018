"""The commands of the documentation, run as they are printed, in the order of the page.

A page is read as a person reads it: its files are written, its Python is run, and then its commands are, all in one
shell and one folder, which has a copy of `examples` in it. A comment in front of a block, which no reader sees, says
what is special about it:

    <!-- needs: Lustre -->        the block is not run here, for the reason that follows
    <!-- file: week.toml -->      the block is a file of that name
    <!-- answers: 0 1 -->         each exit code that the commands may have
"""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted(path.name for path in (ROOT / "docs/guides").glob("*.md"))
EXTENSIONS = sorted(path.name for path in (ROOT / "docs/extend").glob("*.md"))
PAGES = (
    *("README.md", "docs/quick-start.md"),
    *(f"docs/guides/{name}" for name in GUIDES),
    *(f"docs/extend/{name}" for name in EXTENSIONS),
)
"""The pages whose commands are run."""
ELSEWHERE = {
    "make demo": "it takes minutes; benchmarks/_operate_first_hour.py runs it",
    "make test": "it runs these commands",
    "make setup": "it was run before",
    "export PATH=": "the environment has it",
    "pip install": "the package was installed before",
    "weir top": "it goes on until it is ended; it has a test of its own",
    "PYTHONPATH=examples python": "it is the begin of the page's Python",
}
"""Commands that are not run, by their begin, and why."""
_BLOCK = re.compile(r"((?:^[ ]*<!-- (?:needs|file|answers): [^\n]*-->\n+)*)^([ ]*)```(\w+)\n(.*?)^\2```", re.M | re.S)
_MARK = re.compile(r"<!-- (needs|file|answers): (.*?) -->")
_ORDER = {"toml": 0, "csv": 0, "python": 1, "console": 2, "sh": 2}
_PAGE_SECONDS = 900.0
"""Longest time of a page, on a busy machine."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a page."""

    kind: str
    body: str
    marks: Mapping[str, str]

    def commands(self) -> list[str]:
        """The commands of a console or shell block, without comments and outputs; continued lines are one command."""
        if self.kind == "console":
            lines = [line[2:] for line in self.body.splitlines() if line.startswith(("$ ", "# "))]
        elif self.kind == "sh":
            lines = self.body.replace("\\\n", " ").splitlines()
        else:
            return []
        return [command for line in lines if (command := re.sub(r"\s{2,}# .*", "", line).strip())]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One command, and its exit code; None where the command before it ended the page."""

    command: str
    code: int | None
    answers: Sequence[int] = (0,)

    @property
    def failed(self) -> bool:
        """Whether the command did not do what the page says."""
        return self.code not in self.answers


def blocks(page: Path) -> list[Block]:
    """The blocks of a page."""
    found = []
    for marks, indent, kind, body in _BLOCK.findall(page.read_text()):
        lines = [line.removeprefix(indent) for line in body.splitlines()]
        found.append(Block(kind, "\n".join(lines) + "\n", dict(_MARK.findall(marks))))
    return found


def runnable(page: Path) -> list[tuple[str, Sequence[int]]]:
    """The commands of a page that can be run here, each with the exit codes that it may have."""
    return [
        (command, [int(code) for code in block.marks.get("answers", "0").split()])
        for block in blocks(page)
        if "needs" not in block.marks
        for command in block.commands()
        if not command.startswith(tuple(ELSEWHERE))
    ]


def run(page: Path, folder: Path, environment: Mapping[str, str]) -> tuple[list[Outcome], str]:
    """Run a page in a folder, which is filled; return the outcomes of its Python and its commands, and their words."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    present = [block for block in blocks(page) if "needs" not in block.marks]
    for block in present:
        if "file" in block.marks:
            (folder / block.marks["file"]).write_text(block.body)
    words = []
    outcomes = []
    program = "\n".join(block.body for block in present if block.kind == "python" and "file" not in block.marks)
    if program:
        variables = {**environment, "PYTHONPATH": f"{ROOT / 'examples'}:{os.environ.get('PYTHONPATH', '')}"}
        code, told = _ended([sys.executable, "-c", program], folder, variables)
        outcomes.append(Outcome("the Python of the page", code))
        words.append(told)
    commands = runnable(page)
    if commands:
        codes = folder / ".codes"
        script = "".join(
            f"echo {_quoted('$ ' + command)} >&2\n{command}\necho $? >>{_quoted(str(codes))}\n"
            for command, _ in commands
        )
        told = _ended(["bash", "-c", f"set -o pipefail\n{script}"], folder, environment)[1]
        words.append(told)
        seen = [int(line) for line in codes.read_text().split()] if codes.exists() else []
        padded = [*seen, *[None] * (len(commands) - len(seen))]
        outcomes += [Outcome(text, code, answers) for (text, answers), code in zip(commands, padded, strict=True)]
    return outcomes, "\n".join(words)


def _ended(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program to its end, or end it and all that it started and did not detach."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            told = child.communicate(timeout=_PAGE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            told = child.communicate()[0] + f"\nended after {_PAGE_SECONDS:.0f} s"
    return child.returncode, told


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
