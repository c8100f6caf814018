"""A store for one experiment: in a folder of its own, with targets that work at an emulated speed."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

WEIR = (sys.executable, "-m", "weir.cli")
"""The program `weir` of this installation."""
PREFIX = "/weir"
"""Where jobs see the store: by preload alone, so that no mount is needed."""
_USAGE = 2
"""Exit code of a command that was called with what it does not know."""
_COMMAND_SECONDS = 60.0
"""How long a command may take to bring the store up or down."""
_ANSWER_SECONDS = 10.0
"""How long a server may take to answer; its control API answers beside the data path."""


class ExperimentError(Exception):
    """An experiment that cannot go on: what happened, and a hint what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Say `message` and `hint`."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class RefusedError(ExperimentError):
    """The store knows no such policy, scheduler or option."""


class Store:
    """A store of this experiment alone; up inside a `with` block, and gone behind it."""

    def __init__(
        self,
        *,
        policy: str,
        scheduler: str | None = None,
        servers: int = 1,
        targets: int = 1,
        speed: str | None = None,
        fixed_time: str | None = None,
        lambda_milliseconds: int | None = None,
        tables: str = "",
        options: Sequence[str] = (),
    ) -> None:
        """Describe it.

        Args:
            policy: How its time is divided.
            scheduler: By which algorithm; None is the default one.
            servers: Number of servers.
            targets: Targets of each server, in memory.
            speed: Bytes a second of each target in both directions, as `32MB/s`; None is as fast as it is.
            fixed_time: Time of each request beside that of its bytes, as `100us`.
            lambda_milliseconds: How often servers exchange their jobs; None is the default.
            tables: More of cluster.toml, such as `[[share]]` tables.
            options: More options of `weir up`.
        """
        self.policy = policy
        self.scheduler = scheduler
        self._options = [
            *("--policy", policy, "--servers", str(servers), "--targets", str(targets)),
            *(("--scheduler", scheduler) if scheduler else ()),
            *(("--read-speed", speed, "--write-speed", speed) if speed else ()),
            *(("--fixed-time", fixed_time) if fixed_time else ()),
            *options,
        ]
        self._lambda_milliseconds = lambda_milliseconds
        self._tables = tables
        self._root = Path()
        self._controls: list[str] = []

    def __enter__(self) -> "Store":
        """Bring it up.

        Raises:
            ExperimentError: It does not come up; nothing of it is left.
        """
        self._root = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        try:
            file = self._root / "cluster.toml"
            chosen = self._lambda_milliseconds
            file.write_text(
                "version = 1\n" + (f"lambda_milliseconds = {chosen}\n" if chosen is not None else "") + self._tables
            )
            up = json.loads(self.weir("up", str(file), "--no-mount", *self._options, "--output", "json"))
            self._controls = [server["control"] for server in up["servers"]]
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its servers and remove its folder."""
        self._remove()

    @property
    def folder(self) -> Path:
        """A folder of this experiment, gone with the store."""
        return self._root

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands and jobs: this one's, without any other store."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("WEIR_") or name == "WEIR_PROGRAMS"
        }
        inherited.pop("LD_PRELOAD", None)
        return {**inherited, "WEIR_HOME": str(self._root / "home")}

    @property
    def servers(self) -> range:
        """Numbers of the servers."""
        return range(len(self._controls))

    def weir(self, *words: str) -> str:
        """Run a command of `weir` on the store, and return its data.

        Raises:
            ExperimentError: It failed, or did not end in time.
        """
        name = f"weir {words[0]}"
        try:
            answer = subprocess.run(
                [*WEIR, *words],
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ExperimentError(
                f"{name} did not end in {_COMMAND_SECONDS:.0f} s", hint="is the machine busy?"
            ) from None
        if answer.returncode != 0:
            raise failure(name, answer.returncode, answer.stderr)
        return answer.stdout

    def ask(self, server: int, path: str) -> Any:
        """The answer of one server's control API.

        Raises:
            ExperimentError: It does not answer.
        """
        import http.client

        host, _, port = self._controls[server].rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_ANSWER_SECONDS)
        try:
            with contextlib.closing(connection):
                connection.request("GET", path)
                return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ExperimentError(
                f"server {server} of the experiment's store does not answer {path}: {error}",
                hint=f"its log was {self._root}/home/servers/{server}/log",
            ) from error

    def device_rates(self) -> list[float]:
        """Bytes a second of each target that has an emulated speed, the slower direction."""
        rates = []
        for server in self.servers:
            for target in self.ask(server, "/v1/status")["targets"]:
                speed: Mapping[str, float | None] = target["speed"] or {}
                each = [speed.get(f"{direction}_bytes_per_second") for direction in ("read", "write")]
                rates += [min(float(rate) for rate in each if rate)] if any(each) else []
        return rates

    def _remove(self) -> None:
        with contextlib.suppress(ExperimentError):
            if (self._root / "home").is_dir():
                self.weir("down", "--force", "--discard")
        shutil.rmtree(self._root, ignore_errors=True)


def failure(what: str, code: int, words: str) -> ExperimentError:
    """What a program that ended with `code` said last on standard error."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = [line.removeprefix("error:").strip() for line in lines if line.startswith("error:")]
    hints = [line.removeprefix("hint:").strip() for line in lines if line.startswith("hint:")]
    message = (said or lines or ["it said nothing"])[-1]
    hint = (hints or [""])[-1]
    if code == _USAGE:
        return RefusedError(message, hint=hint)
    return ExperimentError(f"{what} ended with code {code}: {message}", hint=hint)
