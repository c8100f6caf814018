"""The time of processors that a command or each test takes, with all processes that it starts.

    python tests/costs.py cargo clippy --workspace      # the command's words, then its seconds
    PYTHONPATH=tests pytest -p costs tests/posix        # the seconds of each file and of the dearest tests, at the end

A control group counts them, so servers that outlive their starters count, and other work of the machine does not. It
needs root. Each worker of `--numprocesses` has a group of its own, and tells its seconds at its end.
"""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path("/sys/fs/cgroup")
DEAREST = 40
"""Tests that are shown."""


class Group:
    """A control group of this process and of all that it starts from now on."""

    def __init__(self) -> None:
        # Version 1 has a hierarchy for each resource.
        parent = _ROOT / "cpuacct" if (_ROOT / "cpuacct").is_dir() else _ROOT
        self._folder = parent / f"costs-{os.getpid()}"
        self._folder.mkdir()
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        """Time of processors so far, user's and system's."""
        usage = self._folder / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        (line, *_) = (self._folder / "cpu.stat").read_text().splitlines()
        return int(line.removeprefix("usage_usec ")) / 1e6

    def leave(self) -> None:
        """Go back; the group goes unless processes that were started are still there."""
        (self._folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        if not (self._folder / "cgroup.procs").read_text():
            self._folder.rmdir()


class Summary:
    """The hooks of the process that starts workers: it shows what they spent, and counts nothing itself."""

    def __init__(self) -> None:
        self._spent: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for name, seconds in node.workeroutput.get("costs", {}).items():
            self._spent[name] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._spent.items():
            files[test.partition("::")[0]] += seconds
        terminalreporter.section(f"{sum(files.values()):.0f} s of processors")
        for kind, shown in ((files, len(files)), (self._spent, DEAREST)):
            dearest = sorted(kind, key=kind.__getitem__, reverse=True)[:shown]
            terminalreporter.write("\n" + "".join(f"{kind[name]:8.1f} s  {name}\n" for name in dearest))


class Costs(Summary):
    """The hooks where tests run: whatever is spent between the ends of two steps of tests belongs to the later one."""

    def __init__(self) -> None:
        super().__init__()
        self._group = Group()
        self._last = self._group.seconds()

    def pytest_collection_finish(self) -> None:
        self._spend("collection")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spend(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._spend("the end")
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["costs"] = dict(self._spent)

    def pytest_unconfigure(self) -> None:
        self._group.leave()

    def _spend(self, name: str) -> None:
        now = self._group.seconds()
        self._spent[name] += now - self._last
        self._last = now


def pytest_configure(config: pytest.Config) -> None:
    has_workers = bool(getattr(config.option, "numprocesses", None))
    config.pluginmanager.register(Summary() if has_workers else Costs(), "costs of tests")


def main(command: list[str]) -> int:
    """Run a command; its exit code."""
    group = Group()
    code = subprocess.run(command, check=False).returncode
    print(f"{group.seconds():.1f} s of processors", file=sys.stderr)
    group.leave()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
