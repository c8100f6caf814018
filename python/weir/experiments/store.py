"""A store for one experiment: in a folder of its own, with targets of an emulated speed."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import weir
from weir.errors import WeirError
from weir.store.answers import WantedSpeed
from weir.store.control import Server

if TYPE_CHECKING:
    from weir.store import Store as Running

PREFIX = "/weir"
"""Path at which jobs see the store: by preload alone, so that no mount is needed."""


class ExperimentError(WeirError):
    """An experiment that cannot go on."""


class Store:
    """A store of this experiment alone: up inside a `with` block, and removed behind it."""

    def __init__(
        self,
        *,
        policy: str,
        scheduler: str | None = None,
        servers: int | None = 1,
        targets: int | None = 1,
        speed: str | None = None,
        fixed_time: str | None = None,
        metadata_time: str | None = None,
        capacity: str | None = None,
        allocator: str | None = None,
        lambda_milliseconds: int | None = None,
        tables: str = "",
    ) -> None:
        """Describe the store.

        Args:
            policy: Division of its time.
            scheduler: Algorithm that enforces the policy; None is the default.
            servers: Number of servers; None where `tables` has them.
            targets: Number of targets of each server, in memory; None where `tables` has them.
            speed: Bytes a second of each target in both directions, such as `32MB/s`; None emulates no speed.
            fixed_time: Time of each request beside that of its bytes, such as `100us`.
            metadata_time: Time of each metadata operation, such as `50us`.
            capacity: Capacity of each target, such as `64MiB`; None is the default.
            allocator: Algorithm that chooses the targets of files; None is the default.
            lambda_milliseconds: Interval of the exchange between servers; None is the default.
            tables: Further text of cluster.toml, such as `[[share]]` tables.
        """
        self.policy = policy
        self.scheduler = scheduler
        self._settings: dict[str, Any] = {
            "servers": servers,
            "targets": targets,
            "read_speed": speed,
            "write_speed": speed,
            "fixed_time": fixed_time,
            "metadata_time": metadata_time,
            "capacity": capacity,
            "allocator": allocator,
            "lambda_milliseconds": lambda_milliseconds,
        }
        self._tables = tables
        self._root = Path()
        self._ends = contextlib.ExitStack()
        self._running: Running | None = None
        self._servers: list[Server] = []

    def __enter__(self) -> "Store":
        """Bring the store up.

        Raises:
            SettingsError: There is no such policy, scheduler or speed.
            StoreError: The store does not come up; nothing of it is left.
        """
        self._root = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, self._root, ignore_errors=True)
            file = self._root / "cluster.toml"
            file.write_text(f"version = 1\n{self._tables}")
            self._running = weir.store.up(
                file,
                home=self._root / "home",
                mount=False,
                policy=self.policy,
                scheduler=self.scheduler,
                **self._settings,
            )
            ends.callback(self._running.down, force=True, discard=True)
            self._servers = self._running.servers
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the servers and remove the folder."""
        self._ends.close()

    @property
    def folder(self) -> Path:
        """A folder of this experiment, which is removed with the store."""
        return self._root

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands on the store: this process's, without any other store."""
        from weir.store.environment import without_store

        return {**without_store(os.environ, kept=("WEIR_PROGRAMS",)), "WEIR_HOME": str(self._root / "home")}

    @property
    def servers(self) -> list[Server]:
        """The servers, by number."""
        return self._servers

    @contextlib.contextmanager
    def job(self, name: str, *, user: str, group: str, nodes: int, priority: int) -> Iterator[dict[str, str]]:
        """Make the environment of a job's processes, which see the store at `PREFIX`, for the length of a block.

        Args:
            nodes: Compute nodes of the job.

        Yields:
            Variables by their names.

        Raises:
            ExperimentError: The store is not up.
            StoreError: A claim is outside of its limits.
        """
        claims: dict[str, Any] = {"job": name, "user": user, "group": group, "nodes": nodes, "priority": priority}
        with self._up().job(prefix=PREFIX, **claims) as variables:
            yield variables

    def emulate(self, speed: WantedSpeed) -> None:
        """Emulate a speed on all targets from now on.

        Args:
            speed: The speed; one without any part ends the emulation.

        Raises:
            ExperimentError: The store is not up.
            StoreError: A server does not answer, or refuses.
        """
        for server in self._servers:
            for target in server.status().targets:
                server.set_speed(target.target, speed)

    def device_rates(self) -> list[float]:
        """Ask for the emulated speeds.

        Returns:
            Bytes a second of each target that has an emulated speed, of the slower direction.

        Raises:
            StoreError: A server does not answer.
        """
        speeds = [target.speed for server in self._servers for target in server.status().targets if target.speed]
        pairs = [(speed.read_bytes_per_second, speed.write_bytes_per_second) for speed in speeds]
        return [float(min(rate for rate in pair if rate)) for pair in pairs if any(pair)]

    def _up(self) -> "Running":
        if self._running is None:
            raise ExperimentError("the experiment's store is not up", hint="use it in a `with` block")
        return self._running
