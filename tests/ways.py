"""The ways into a store, as a test sees them: the mount alone, the fast path beside a mount, the fast path alone."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from store import Store, program, search_path
from waits import PATIENCE_SECONDS

MOUNT = "mount"
"""`weir run --no-preload`: the kernel's calls alone."""
PRELOAD = "preload"
"""`weir run`: the fast path, with a mount beside it."""
PREFIX = "prefix"
"""`weir run --prefix`: the fast path alone."""
ALL = (MOUNT, PRELOAD, PREFIX)
MOUNTED = (MOUNT, PRELOAD)
FAST = (PRELOAD, PREFIX)

KERNEL_WITH_MOUNT = frozenset({"list", "lock", "map", "seek", "sync", "truncate", "xattr"})
"""Kinds of calls that the preload library leaves to the kernel where there is a mount."""

PREFIX_PATH = "/weir"

_CALL = """
import importlib.util, pathlib, sys, json
class Decorator:
    def __getattr__(self, name):
        return self
    def __call__(self, *arguments, **options):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self
class Late:
    __spec__ = None
    mark = fixture = param = Decorator()
    def __getattr__(self, name):
        sys.modules.pop("pytest", None)
        return getattr(importlib.import_module("pytest"), name)
sys.modules["pytest"] = Late()
file, function, folder, arguments = sys.argv[1:]
sys.path.insert(0, {tests!r})
spec = importlib.util.spec_from_file_location("called", file)
module = importlib.util.module_from_spec(spec)
sys.modules["called"] = module
spec.loader.exec_module(module)
getattr(module, function)(pathlib.Path(folder), *json.loads(arguments))
"""
"""Runs a function of a test file without pytest, whose import takes five times as long as all the rest. Decorators do
nothing there, and a function that asks for anything else of pytest has it imported."""


@dataclass
class Way:
    """One way into a store, and a fresh directory there."""

    name: str
    store: Store
    folder: Path
    """The directory, as a program that goes this way sees it."""
    options: tuple[str, ...] = ()
    """More options of `weir run`."""
    environment: dict[str, str] = field(default_factory=dict)
    uid: int | None = None
    """The user, where it is not the test's own; in `groups` and no other."""
    groups: tuple[int, ...] = ()
    counters: Path = field(init=False)
    """The folder of the fast path's counters; it goes with the store."""

    def __post_init__(self) -> None:
        self.counters = Path(tempfile.mkdtemp(prefix="counters-", dir=self.store.root))
        self.counters.chmod(0o1777)

    @property
    def is_fast(self) -> bool:
        """Whether the preload library is in."""
        return self.name in FAST

    @property
    def command(self) -> list[str]:
        """`weir run` for this way, up to the program."""
        option = {MOUNT: ["--no-preload"], PRELOAD: [], PREFIX: ["--prefix", PREFIX_PATH]}[self.name]
        return [*program(self.uid), "run", *option, *self.options, "--"]

    def variables(self) -> dict[str, str]:
        """The environment of `weir run`."""
        own = search_path() if self.uid is not None else {}
        return {**self.store.variables(WEIR_COUNTERS=str(self.counters), **self.environment), **own}

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start a program and do not wait for it; its standard streams are pipes."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if self.uid is not None:
            options |= {"user": self.uid, "group": self.uid, "extra_groups": self.groups, "cwd": "/"}
        return subprocess.Popen(
            [*self.command, *map(str, command)], env=self.variables(), text=True, **{**pipes, **options}
        )

    def run(
        self,
        *command: str | Path,
        code: int | None = 0,
        served: Collection[str] = (),
        text: str | None = None,
        seconds: float = PATIENCE_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and check its exit code, unless `code` is None.

        `served` names the kinds of calls that the fast path must have served, where it is in.
        """
        before = self.served() if served else Counter()
        stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
        with self.start(*command, stdin=stdin, errors="backslashreplace", start_new_session=True) as child:
            try:
                out, err = child.communicate(text, timeout=seconds)
            except subprocess.TimeoutExpired:
                # `weir run` and all that the program has started.
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                pytest.fail(f"{self.name}: not done after {seconds:.0f} s: {command}\n{out[-4000:]}\n{err[-4000:]}")
        answer = subprocess.CompletedProcess(child.args, child.returncode, out, err)
        words = f"{answer.stdout[-4000:]}\n{answer.stderr[-8000:]}"
        assert code is None or answer.returncode == code, f"{self.name}: exit code {answer.returncode}\n{words}"
        if served:
            self.check_served(served, before)
        return answer

    def shell(self, script: str, *arguments: str | Path, **options: Any) -> str:
        """Run a script of bash in the directory, which ends at the first failure; returns its output."""
        head = 'set -euo pipefail; refused() { if "$@" 2>/dev/null; then echo "not refused: $*" >&2; exit 1; fi; }\n'
        answer = self.run("bash", "-c", f'{head}cd "$1"; shift\n{script}', "bash", self.folder, *arguments, **options)
        return answer.stdout

    def python(self, function: Callable[..., None], *arguments: Any) -> list[str]:
        """The command that runs a function of a test file, with the directory and `arguments`."""
        file = function.__globals__["__file__"]
        code = _CALL.format(tests=str(Path(__file__).parent))
        return [sys.executable, "-c", code, file, function.__name__, str(self.folder), json.dumps(arguments)]

    def call(self, function: Callable[..., None], *arguments: Any, **options: Any) -> str:
        """Run a function of a test file in a Python of its own, with the directory and `arguments`."""
        return self.run(*self.python(function, *arguments), **options).stdout

    def sibling(self, name: str) -> Path:
        """The directory as it is seen by another way."""
        return (self.store.mount if name in MOUNTED else Path(PREFIX_PATH)) / self.folder.name

    def served(self) -> Counter[str]:
        """Calls that the fast path has served so far, by kind, and the bytes it moved."""
        total: Counter[str] = Counter()
        for file in self.counters.iterdir():
            document: Mapping[str, Any] = json.loads(file.read_text())
            total.update(document["calls"])
            total.update({name: count for name, count in document.items() if name != "calls"})
        return total

    def check_served(self, kinds: Collection[str], before: Mapping[str, int] | None = None) -> None:
        """Check that the fast path has served calls of each of these kinds since `before`; without it, none at all."""
        now = self.served()
        if not self.is_fast:
            assert not now, f"the mount alone was to serve {now}"
            return
        kinds = set(kinds) - (KERNEL_WITH_MOUNT if self.name == PRELOAD else frozenset())
        assert kinds, "no kind is left that could prove anything"
        missing = [kind for kind in kinds if now[kind] <= (before or {}).get(kind, 0)]
        assert not missing, f"{self.name}: the fast path served no {missing}, only {now}"


def make_way(name: str, store: Store, folder: str, **options: Any) -> Way:
    """Make a fresh directory in the root of a store that is up, and go this way into it."""
    path = (store.mount if name in MOUNTED else Path(PREFIX_PATH)) / folder
    way = Way(name, store, path, **options)
    if store.mount.is_mount():
        (store.mount / folder).mkdir()
    else:
        way.run("mkdir", path)
    return way


def has_fuse() -> bool:
    """Whether stores can be mounted here."""
    return os.access("/dev/fuse", os.R_OK | os.W_OK)


def user_way(name: str, store: Store, folder: str, uid: int, *groups: int) -> Way:
    """A way for a user who holds a grant and nothing else of the store."""
    environment = store.grant(uid, "--groups", ",".join(map(str, groups)))
    root = store.mount if name != PREFIX else Path(PREFIX_PATH)
    return Way(name, store, root / folder, environment=environment, uid=uid, groups=groups)
