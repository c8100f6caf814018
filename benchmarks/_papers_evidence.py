"""The evidence for the rows of the papers: tests and commands that are run, and figures that benchmarks measured."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from _harness import MEASURED, OUT, ROOT, WEIR, Store, commit
from _papers_rows import ASKED, Command, Evidence, Measured, Row
from _tests import outcomes

COMMAND_SECONDS = 300
TESTS_LOG = OUT / "papers-tests.log"
"""The output of pytest in the last run."""


class Run(msgspec.Struct, frozen=True):
    """A line of `measured.jsonl`: the figures of one run of a benchmark."""

    benchmark: str
    date: str
    commit: str
    figures: dict[str, float | None]


def collect(rows: Iterable[Row], evidence: Evidence) -> None:
    """Replaces the outcomes of these rows' tests and commands by new ones."""
    rows = list(rows)
    now = {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
    for name, passed in _tests(sorted({name for row in rows for name in row.tests})).items():
        evidence.tests[name] = Measured(float(passed), **now)
    for command, output in _commands(list({command.run: command for row in rows for command in row.commands}.values())):
        evidence.commands[command.run] = Measured(float(output is not None), **now)
        if command.tells and (told := re.search(rf'"{command.tells}": ?([-+.0-9e]+)', output or "")):
            evidence.figures[command.tells] = Measured(float(f"{float(told[1]):.4g}"), **now)


def take_figures(rows: Iterable[Row], evidence: Evidence, logs: Iterable[Path] = (MEASURED,)) -> None:
    """Takes the newest measurement of each figure, from the runs of benchmarks that `logs` keep."""
    wanted = {figure.key for row in rows for figure in row.figures} | set(ASKED)
    for run in _runs(logs):
        for name, value in run.figures.items():
            if value is not None:
                measured = Measured(value, run.date, run.commit)
                evidence.figures |= dict.fromkeys({f"{run.benchmark}.{name}", name} & wanted, measured)


def _runs(logs: Iterable[Path]) -> list[Run]:
    """The runs of benchmarks, the oldest first."""
    lines = [line for log in logs if log.exists() for line in log.read_bytes().splitlines()]
    return sorted((msgspec.json.decode(line, type=Run) for line in lines), key=lambda run: run.date)


def _tests(names: list[str]) -> dict[str, bool]:
    """Whether each test passed. A test with parameters passed where all of them did, and a skipped one did not."""
    if not names:
        return {}
    passed: dict[str, bool] = {}
    for name, is_passed in outcomes(names, TESTS_LOG).items():
        plain = name.partition("[")[0]
        passed[plain] = passed.get(plain, True) and is_passed
    for name in names:
        if name not in passed:
            print(f"{name}: not run", file=sys.stderr)
    return {name: passed.get(name, False) for name in names}


def _commands(commands: list[Command]) -> list[tuple[Command, str | None]]:
    """The output of each command; None if it did not give its exit code or did not say what it should."""
    outputs = [(each, _output(each, {})) for each in commands if not each.is_on_store]
    on_store = [each for each in commands if each.is_on_store]
    if on_store:
        with TemporaryDirectory(prefix="weir-papers-") as folder, Store(Path(folder), servers=2, targets=2) as store:
            environment = {"WEIR_HOME": str(store.home), "WEIR_MOUNT": str(store.mount)}
            outputs += [(each, _output(each, environment)) for each in on_store]
    return outputs


def _output(command: Command, environment: Mapping[str, str]) -> str | None:
    """Runs a command in an empty folder; what went wrong is printed."""
    with TemporaryDirectory(prefix="weir-papers-") as folder:
        given = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WEIR_")},
            **environment,
            "PATH": f"{WEIR.parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": folder,
            "DARSHAN": f"{ROOT}/tests/data/darshan",
            "SOURCES": str(ROOT),
        }
        try:
            answer = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command.run],
                cwd=folder,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"$ {command.run}\ndid not end in {COMMAND_SECONDS} s", file=sys.stderr)
            return None
    if answer.returncode == command.code and re.search(command.says, answer.stdout):
        return answer.stdout
    words = answer.stdout.strip().splitlines()[-3:]
    print(f"$ {command.run}\nexit code {answer.returncode}: {' / '.join(words)}", file=sys.stderr)
    return None


def unused(evidence: Evidence, rows: Iterable[Row]) -> None:
    """Removes the outcomes that no row has any more."""
    rows = list(rows)
    tests = {name for row in rows for name in row.tests}
    commands = {command.run for row in rows for command in row.commands}
    figures = {figure.key for row in rows for figure in row.figures} | set(ASKED)
    evidence.tests = {name: each for name, each in evidence.tests.items() if name in tests}
    evidence.commands = {line: each for line, each in evidence.commands.items() if line in commands}
    evidence.figures = {key: each for key, each in evidence.figures.items() if key in figures}
