"""A store for one experiment: in a folder of its own, with targets that work at an emulated speed."""

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
from weir.store.control import Server, servers_of

if TYPE_CHECKING:
    from weir.store import Store as Running

PREFIX = "/weir"
"""Where jobs see the store: by preload alone, so that no mount is needed."""


class ExperimentError(WeirError):
    """An experiment that cannot go on."""


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
        metadata_time: str | None = None,
        capacity: str | None = None,
        allocator: str | None = None,
        lambda_milliseconds: int | None = None,
        tables: str = "",
    ) -> None:
        """Describe it.

        Args:
            policy: How its time is divided.
            scheduler: By which algorithm; None is the default one.
            servers: Number of servers.
            targets: Targets of each server, in memory.
            speed: Bytes a second of each target in both directions, as `32MB/s`; None is as fast as it is.
            fixed_time: Time of each request beside that of its bytes, as `100us`.
            metadata_time: Time of each metadata operation, as `50us`.
            capacity: Of each target, as `64MiB`; None is the default.
            allocator: Who chooses the targets of files; None is the default one.
            lambda_milliseconds: How often servers exchange their jobs; None is the default.
            tables: More of cluster.toml, such as `[[share]]` tables.
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
        }
        self._lambda_milliseconds = lambda_milliseconds
        self._tables = tables
        self._root = Path()
        self._ends = contextlib.ExitStack()
        self._running: Running | None = None
        self._servers: list[Server] = []

    def __enter__(self) -> "Store":
        """Bring it up.

        Raises:
            SettingsError: There is no such policy, scheduler or speed.
            StoreError: It does not come up; nothing of it is left.
        """
        self._root = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, self._root, ignore_errors=True)
            file = self._root / "cluster.toml"
            chosen = self._lambda_milliseconds
            file.write_text(
                "version = 1\n" + (f"lambda_milliseconds = {chosen}\n" if chosen is not None else "") + self._tables
            )
            self._running = weir.store.up(
                file,
                home=self._root / "home",
                mount=False,
                policy=self.policy,
                scheduler=self.scheduler,
                **self._settings,
            )
            ends.callback(self._running.down, force=True, discard=True)
            self._servers = servers_of(self._running.cluster)
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End its servers and remove its folder."""
        self._ends.close()

    @property
    def folder(self) -> Path:
        """A folder of this experiment, gone with the store."""
        return self._root

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands on the store: this one's, without any other store."""
        from weir.store.environment import without_store

        return {**without_store(os.environ, kept=("WEIR_PROGRAMS",)), "WEIR_HOME": str(self._root / "home")}

    @property
    def servers(self) -> list[Server]:
        """The servers, by number, to be asked."""
        return self._servers

    @contextlib.contextmanager
    def job(self, name: str, *, user: str, group: str, nodes: int, priority: int) -> Iterator[dict[str, str]]:
        """Make the environment of a job's processes, which see the store at `PREFIX`.

        Args:
            name: Name of the job.
            user: Its user.
            group: Its group.
            nodes: Its compute nodes.
            priority: Its priority.

        Yields:
            Variables by their names, good until the end of the block.

        Raises:
            ExperimentError: The store is not up.
            StoreError: A claim is outside its limits.
        """
        if self._running is None:
            raise ExperimentError("the experiment's store is not up", hint="use it in a `with` block")
        claims: dict[str, Any] = {"job": name, "user": user, "group": group, "nodes": nodes, "priority": priority}
        with self._running.job(prefix=PREFIX, **claims) as variables:
            yield variables

    def device_rates(self) -> list[float]:
        """Bytes a second of each target that has an emulated speed, the slower direction.

        Raises:
            StoreError: A server does not answer.
        """
        speeds = [target.speed for server in self._servers for target in server.status().targets if target.speed]
        pairs = [(speed.read_bytes_per_second, speed.write_bytes_per_second) for speed in speeds]
        return [float(min(rate for rate in pair if rate)) for pair in pairs if any(pair)]
