"""The places that the benchmark of speed compares: ways into stores of this version and the one before, and tmpfs.

`WEIR_BEFORE=DIR` names a checkout that is built and stands for the one before; without it, the commit `BEFORE` is
checked out below `target/` and built once.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from _harness import ROOT, TEST_SECONDS, WAIT_SECONDS, WEIR
from weir.store.environment import without_store

BEFORE = "e1dac573"
"""The last commit before calls were made faster."""
PREFIX = "/weir"


def plain_environment() -> dict[str, str]:
    """The environment of programs that are no clients of a store."""
    return without_store(os.environ)


@dataclass(frozen=True)
class Place:
    """A directory, and the way on which a program reaches it."""

    name: str
    folder: Path
    command: Sequence[str] = ()
    """Words before the program."""
    environment: Mapping[str, str] = field(default_factory=plain_environment)


@dataclass(frozen=True)
class Checkout:
    """A built version of Weir."""

    suffix: str
    """The end of the names of its places."""
    weir: Path
    """Its command."""

    def environment(self) -> dict[str, str]:
        """The environment of its programs."""
        return {**plain_environment(), **self.programs()}

    def programs(self) -> dict[str, str]:
        """`WEIR_PROGRAMS`, which names the programs of this checkout alone."""
        given = os.environ.get("WEIR_PROGRAMS")
        return {"WEIR_PROGRAMS": given} if given and not self.suffix else {}

    def up(self, home: Path, *options: str) -> None:
        """Bring a store up, with the settings that `weir up` has by itself."""
        self._run(home, "up", *options)

    def down(self, home: Path) -> None:
        """Take a store down with all its files."""
        self._run(home, "down", "--force", "--discard", "--yes")

    def _run(self, home: Path, *words: str) -> None:
        command: list[str | Path] = [self.weir, "--home", home, *words]
        answer = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
        )
        if answer.returncode != 0:
            sys.exit(
                f"error: {self.weir} {words[0]} of {home} gave {answer.returncode}:\n{answer.stdout}{answer.stderr}"
            )

    def places(self, home: Path, ways: Sequence[str]) -> Iterator[Place]:
        """The ways `run`, `prefix` and `mount` into a store that is up and mounted, each with a folder of its own."""
        base = [str(self.weir), "--home", str(home), "run"]
        for way in ways:
            folder = home / "mnt" / way
            folder.mkdir()
            if way == "prefix":
                folder = Path(PREFIX) / way
            command = {"run": [*base, "--"], "prefix": [*base, "--prefix", PREFIX, "--"], "mount": []}[way]
            yield Place(f"{way}{self.suffix}", folder, command, self.environment())


NOW = Checkout("", WEIR)


@contextmanager
def store(checkout: Checkout, directory: Path, ways: Sequence[str]) -> Iterator[list[Place]]:
    """A store in memory, brought up for the length of a block."""
    home = directory / f"store{checkout.suffix}"
    checkout.up(home)
    try:
        yield list(checkout.places(home, ways))
    finally:
        checkout.down(home)


@contextmanager
def tmpfs(directory: Path) -> Iterator[Place]:
    """A tmpfs that was just mounted.

    Raises:
        SystemExit: This user may not mount.
    """
    folder = directory / "tmpfs"
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    if answer.returncode != 0:
        sys.exit(f"error: no tmpfs can be mounted at {folder}: {answer.stderr.strip()}\nhint: run this as root")
    try:
        yield Place("tmpfs", folder)
    finally:
        subprocess.run(["umount", folder], timeout=WAIT_SECONDS, check=True)


def before() -> Checkout:
    """The version to compare with; it is built if it is not there.

    Raises:
        SystemExit: It is not built where `WEIR_BEFORE` says, or cannot be checked out or built.
    """
    given = os.environ.get("WEIR_BEFORE")
    folder = Path(given) if given else ROOT / f"target/before-{BEFORE}"
    checkout = Checkout("_before", folder.resolve() / ".venv/bin/weir")
    if given and not checkout.weir.is_file():
        sys.exit(f"error: WEIR_BEFORE={given} has no {checkout.weir}\nhint: run `make setup` there")
    if not checkout.weir.is_file():
        _build(folder)
    return checkout


def _build(folder: Path) -> None:
    if not folder.is_dir():
        command: list[str | Path] = ["git", "-C", ROOT, "worktree", "add", "--detach", folder, BEFORE]
        if subprocess.run(command, timeout=WAIT_SECONDS, check=False).returncode != 0:
            sys.exit(f"error: {BEFORE} cannot be checked out\nhint: a full clone has it; or set WEIR_BEFORE")
    print(f"building {BEFORE} in {folder}", flush=True)
    build: list[str | Path] = ["make", "-C", folder, ".venv/installed"]
    if subprocess.run(build, timeout=TEST_SECONDS, check=False).returncode != 0:
        sys.exit(f"error: `make -C {folder} .venv/installed` failed\nhint: build it by hand, or set WEIR_BEFORE")
