"""A store of its own in a fresh home, and the program `weir` for it: for every test that uses real servers."""

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import weir
from waits import PATIENCE_SECONDS

_PACKAGES = Path(weir.__file__).resolve().parents[1]
_PORTS = 500
"""Ports of one worker of pytest, above those that the system gives away: more than its stores have at once."""
_FIRST_PORT = 61_000


@dataclass
class Store:
    """A home for a store, and the program `weir` in it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """The WEIR_HOME."""
        return self.root / "home"

    @property
    def mount(self) -> Path:
        """Where the store is mounted unless the test says otherwise."""
        return self.home / "mnt"

    def variables(self, **extra: str) -> dict[str, str]:
        """The environment of the test, without its own store, with that of this one."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("WEIR_") or name == "WEIR_PROGRAMS"
        }
        inherited.pop("LD_PRELOAD", None)
        own = {"NO_COLOR": "1", "WEIR_HOME": str(self.home), "WEIR_PORTS": ports()}
        return {**inherited, **own, **self.environment, **extra}

    def weir(
        self,
        *arguments: str | Path,
        code: int | None = 0,
        uid: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `weir` and check its exit code, unless `code` is None; with `uid`, as that user and in no group else."""
        command = [*program(uid), *map(str, arguments)]
        variables = self.variables(**(environment or {}))
        identity: dict[str, Any] = {}
        if uid is not None:
            identity = {"user": uid, "group": uid, "extra_groups": []}
            variables.update(search_path())
        answer = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, **identity
        )
        if code is not None:
            assert answer.returncode == code, f"{command} gave {answer.returncode}\n{answer.stdout}{answer.stderr}"
        return answer

    def json(self, *arguments: str | Path, code: int | None = 0) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.weir(*arguments, "--output", "json", code=code).stdout)

    def grant(self, uid: int, *options: str) -> dict[str, str]:
        """Mint a credential for a user whose group has the same number; returns the environment that this user has.

        The environment names the store and the credential, and a home that is not there.
        """
        document = self.json("grant", "--uid", str(uid), "--gid", str(uid), *options)
        return {
            "WEIR_CLUSTER": document["cluster"],
            "WEIR_CREDENTIAL": document["credential"],
            "WEIR_HOME": str(self.root / "none"),
        }

    def up(self, file: Path | None = None, **settings: Any) -> None:
        """Bring the store up, for a test of something else than `weir up`; its settings are those of `weir.store.up`.

        The environment of this store has no effect on it.
        """
        assert not self.environment, "servers and mounts get the environment of the test's own process"
        weir.store.up(file, home=self.home, **{"ports": ports(), **settings})

    def server_pids(self) -> dict[int, int]:
        """The process of each server."""
        records = sorted((self.home / "servers").glob("*/pid"))
        return {int(record.parent.name): int(record.read_text().split()[0]) for record in records}


@contextmanager
def kept_for(root: Path) -> Iterator[Store]:
    """A store whose home lies in `root`; everything that was brought up there is taken down at the end."""
    store = Store(root)
    try:
        yield store
    finally:
        if store.home.is_dir():
            store.weir("down", "--force", "--discard", "--yes", code=None)


@contextmanager
def fresh(prefix: str = "weir-test-") -> Iterator[Store]:
    """A store with a root of its own, which goes at the end."""
    # Not below pytest's private folder: other users must be able to pass.
    root = Path(tempfile.mkdtemp(prefix=prefix))
    root.chmod(0o755)
    try:
        with kept_for(root) as store:
            yield store
    finally:
        shutil.rmtree(root, ignore_errors=True)


def ports() -> str:
    """The ports of this worker of pytest: a killed server finds its port free when it starts again."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST_PORT + worker % ((65_536 - _FIRST_PORT) // _PORTS) * _PORTS
    return f"{first}-{first + _PORTS - 1}"


def kill(pid: int) -> None:
    """Kill a process and wait until it has ended, also where it is in the midst of a call that no signal ends."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert poller.poll(PATIENCE_SECONDS * 1000), f"process {pid} outlives SIGKILL"
    finally:
        os.close(descriptor)


def program(uid: int | None = None) -> list[str]:
    """The installed program `weir`, as another user may execute it."""
    if uid is None:
        return [str(Path(sysconfig.get_path("scripts")) / "weir")]
    # An interpreter below a private home (as pyenv's of root) is closed to others; the system's will do, because the
    # extension module speaks the stable interface.
    for interpreter in (sys.executable, "/usr/bin/python3"):
        if can_execute(interpreter, uid):
            return [interpreter, "-m", "weir.cli"]
    pytest.skip(f"no Python 3.11 that uid {uid} may execute")


def write_program(folder: Path, uid: int) -> Path:
    """Write a program `weir` into a folder, which is made: the installed one, as a user may execute it anywhere."""
    programs = os.environ.get("WEIR_PROGRAMS")
    variables = {"PYTHONPATH": search_path()["PYTHONPATH"], **({"WEIR_PROGRAMS": programs} if programs else {})}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    folder.mkdir(exist_ok=True)
    path = folder / "weir"
    path.write_text(f'#!/bin/sh\n{exports}exec {shlex.join(program(uid))} "$@"\n')
    path.chmod(0o755)
    return path


def search_path() -> dict[str, str]:
    """The variables with which another user's Python finds this package; they name nothing of the home closed to it."""
    return {"HOME": "/nonexistent", "PYTHONPATH": f"{_PACKAGES}:{sysconfig.get_path('platlib')}"}


def can_execute(interpreter: str, uid: int) -> bool:
    """Whether a user may execute a Python that is new enough."""
    question = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        answer = subprocess.run(
            [interpreter, "-c", question],
            user=uid,
            group=uid,
            extra_groups=[],
            timeout=PATIENCE_SECONDS,
            check=False,
            cwd="/",
        )
    except OSError:
        return False
    return answer.returncode == 0
