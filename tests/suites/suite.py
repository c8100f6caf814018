"""The protocol of a suite, and where a suite's programs are looked for."""

import os
import shutil
from pathlib import Path
from typing import Protocol

from suites.comparison import Results
from suites.place import Place

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "target/tools/bin"
"""Where `make suites-packages` puts programs that are crates."""
BUILDS = "WEIR_SUITES"
"""The variable that names the folder of the user's own builds."""


class Suite(Protocol):
    """Programs of others that test a file system."""

    @property
    def name(self) -> str:
        """The name of the suite and of its table."""

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways into a store that the suite can go."""

    @property
    def store_options(self) -> tuple[str, ...]:
        """Options of `weir up` for the store that the suite runs on."""

    @property
    def seconds_max(self) -> float:
        """The time for one run in one place. Tests that were not begun by then are absent."""

    @property
    def uid(self) -> int | None:
        """The user to run as, for programs that refuse to run as root."""

    @property
    def has_reference(self) -> bool:
        """Whether outcomes on tmpfs say what is right; else every test that applies is to be ok."""

    def missing(self) -> str | None:
        """What is not on this machine, and what to do about it; None where the suite can run."""

    def run(self, place: Place, *, is_short: bool) -> Results:
        """Run every test, or those that take a few seconds together, and say how each ended."""


def program(name: str, *folders: Path) -> Path | None:
    """The path of a program, in these folders first, then in the search path and where administrators' programs lie."""
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    return None if found is None else Path(found).absolute()


def missing_packages(*programs: str, folders: tuple[Path, ...] = ()) -> str | None:
    """The line for packaged programs that are not installed."""
    absent = [name for name in programs if program(name, *folders) is None]
    return f"{', '.join(absent)} not installed; `make suites-packages` does it" if absent else None


def build(name: str) -> Path | None:
    """The folder of the user's own build of a suite that no package holds."""
    folder = os.environ.get(BUILDS)
    path = Path(folder or "/nonexistent") / name
    return path.resolve() if path.is_dir() else None


def missing_build(name: str, *files: str) -> str | None:
    """The line for a suite that no package holds and the user has not built; one of `files` shows that it is built."""
    folder = build(name)
    if folder is None:
        return f"not packaged; build it and name its parent folder: {BUILDS}=DIR with DIR/{name}"
    if not any((folder / file).exists() for file in files):
        return f"{folder} has no {' or '.join(files)}; build it there"
    return None


def need(name: str, *folders: Path) -> Path:
    """The path of a program that `missing` has found."""
    path = program(name, *folders)
    assert path is not None, f"{name} was there a moment ago"
    return path
