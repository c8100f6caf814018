"""A store in the hands of a Python program: brought up, used, and taken down."""

import contextlib
import os
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from weir.store.errors import SettingsError, StoreError
from weir.store.notices import Notice

if TYPE_CHECKING:
    import subprocess

    _File = int | IO[Any] | None

    from weir.store.client import FileSystem
    from weir.store.control import Server
    from weir.store.home import Home
    from weir.store.identity import Identity
    from weir.store.job_table import JobTable
    from weir.store.job_windows import JobWindows
    from weir.store.lifecycle import Ended, Running
    from weir.store.run import Run

PREFIX = Path("/weir")
"""Path at which programs see a store that is not mounted, unless another is given."""


class Store:
    """A store that is up; `weir.store.up` makes it.

    Attributes:
        home: The directory that holds the store's state: keys, logs, and the files of `dir` targets.
        cluster: The file that tells clients the addresses of the store's servers.
        mount: The mount point; None where the store is not mounted.
        notices: Notices from the start of the store, such as the reason why it is not mounted.
    """

    def __init__(
        self,
        home: "Home",
        running: "Running",
        *,
        notices: Sequence[Notice] = (),
        temporary: Path | None = None,
        keeper: "subprocess.Popen[bytes] | None" = None,
    ) -> None:
        """Take a store that is up into hand.

        Args:
            running: The state of the store.
            notices: Notices from the start of the store.
            temporary: A folder that is removed with the store, at the latest when this program ends.
            keeper: The process that removes a temporary store if this program is killed.
        """
        self._home = home
        self._temporary = temporary
        self._keeper = keeper
        self._finalizer = (
            None
            if temporary is None or keeper is None
            else weakref.finalize(self, _remove, temporary, os.getpid(), keeper)
        )
        self.home = home.root
        self.cluster = home.cluster
        self.mount = running.mount
        self.notices = tuple(notices)

    def __enter__(self) -> "Store":
        """Use the store in a block, whose end takes the store down."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the store down, also where a program still uses its mount."""
        self.down(force=True)

    def down(self, *, force: bool = False, discard: bool = False) -> "Ended":
        """Unmount the store and stop its servers. A second call changes nothing.

        Args:
            force: Whether to unmount also where a program uses the mount.
            discard: Whether to remove the store's files in its home, too. A temporary store is always removed.

        Returns:
            The servers and mounts that were ended.

        Raises:
            StoreError: A program uses the mount, and `force` is not given.
        """
        from weir.store import lifecycle

        if not self._home.exists():
            self.mount = None
            return lifecycle.Ended(0, (), 0, ())
        ended = lifecycle.take_down(self._home, force=force, discard=discard or self._temporary is not None)
        if self._finalizer is not None and self._temporary is not None:
            self._finalizer.detach()
            shutil.rmtree(self._temporary, ignore_errors=True)
            _end(self._keeper)
        self.mount = None
        return ended

    @property
    def servers(self) -> "list[Server]":
        """The servers, by number. Their methods ask for their state and jobs, and change their settings.

        Raises `StoreError` where the store is down.
        """
        from weir.store.access import servers_at

        return servers_at(self._home)

    def jobs(self) -> "JobTable":
        """Ask all servers for the jobs that use the store, or have used it since it is up.

        Raises:
            StoreError: The store is down, or a server does not answer.
        """
        from weir.store.job_table import JobTable

        return JobTable([server.jobs() for server in self.servers])

    def windows(self, job: str, *, user: str | None = None) -> "JobWindows":
        """Ask all servers for the last windows of a job: what it received, and for whom it waited.

        Args:
            job: Name of the job.
            user: Name of the job's user; None for any.

        Returns:
            The windows that have ended, at most the last 60 of each server; without work for a job that no server
            knows.

        Raises:
            StoreError: The store is down, or a server does not answer.
        """
        from weir.store.job_windows import joined

        return joined([server.windows(0) for server in self.servers], job, user)

    def __repr__(self) -> str:
        """The store's home and mount point."""
        return f"<store in {self.home}, {'not mounted' if self.mount is None else f'mounted at {self.mount}'}>"

    def _repr_html_(self) -> str:
        """The store's targets as a table of HTML; its servers are asked for them."""
        from weir.store.store_table import store_html

        return store_html(self.home, self.cluster, self.mount)

    def connect(self, **options: Any) -> "FileSystem":
        """Use the store from this process, without a mount.

        Args:
            options: Those of `weir.store.connect`, such as `job` and `nodes`.

        Raises:
            SettingsError, StoreError, OSError: As for `weir.store.connect`.
        """
        from weir.store.client_address import connect

        return connect(self, **options)

    @contextlib.contextmanager
    def job(
        self,
        program: str = "python",
        *,
        prefix: str | Path | None = None,
        is_preloaded: bool = True,
        job: str | None = None,
        user: str | None = None,
        group: str | None = None,
        nodes: int | None = None,
        priority: int | None = None,
    ) -> Iterator[dict[str, str]]:
        """Make an environment in which programs are one job of the store, for the length of a block.

        Args:
            program: Begin of the job's name, where `job` gives none.
            prefix: An absolute path below which the programs see the store, without a mount. None is the mount, or
                `/weir` where there is no mount.
            is_preloaded: Whether programs take the fast path; without it they need the mount.
            job: Name of the job.
            user: Name of the user that the job is accounted under; None is yours.
            group: Name of the job's group; None is yours.
            nodes: Compute nodes of the job; None is 1.
            priority: Priority of the job; None is 1.

        Yields:
            Variables by their names: those of this program, without any other store, and with this one. They name a
            credential that is removed at the end of the block.

        Raises:
            SettingsError: The prefix is not an absolute path below `/`.
            StoreError: The store is down, a claim of the job is outside of its limits, or the programs have no way to
                the store.
        """
        claims: dict[str, str | int | None] = {
            "job": job,
            "user": user,
            "group": group,
            "nodes": nodes,
            "priority": priority,
        }
        with self._job(program, prefix, claims, is_preloaded=is_preloaded) as (variables, _):
            yield variables

    @contextlib.contextmanager
    def _job(
        self, program: str, prefix: str | Path | None, claims: Mapping[str, str | int | None], *, is_preloaded: bool
    ) -> "Iterator[tuple[dict[str, str], Identity]]":
        """The environment of `job`, and the identity of the job."""
        from weir.store import launch, step_journal
        from weir.store.environment import without_store

        if not self.cluster.is_file():
            raise StoreError(f"the store in {self.home} is down", hint="bring one up with weir.store.up")
        if prefix is not None and not launch.is_prefix(str(prefix)):
            raise SettingsError(f"the prefix {prefix} is not an absolute path below /")
        is_mounted = prefix is None and self.mount is not None
        if not is_preloaded and not is_mounted:
            raise StoreError(
                "without the fast path and without a mount, programs have no way to the store",
                hint="mount it, or leave `is_preloaded` as it is",
            )
        place = self.mount if is_mounted and self.mount is not None else Path(prefix or PREFIX)
        variables = launch.environment(
            without_store(os.environ), self.cluster, place, is_mounted=is_mounted, is_preloaded=is_preloaded
        )
        variables |= step_journal.variables(self._home, variables)
        identity = launch.run_job(program, **claims)
        with launch.minted(self._home, identity) as credential:
            yield {**variables, "WEIR_CREDENTIAL": str(credential)}, identity

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        prefix: str | Path | None = None,
        is_preloaded: bool = True,
        job: str | None = None,
        user: str | None = None,
        group: str | None = None,
        nodes: int | None = None,
        priority: int | None = None,
        check: bool = False,
        capture_output: bool = False,
        text: bool | None = None,
        timeout: float | None = None,
        input: str | bytes | None = None,  # noqa: A002
        stdin: "_File" = None,
        stdout: "_File" = None,
        stderr: "_File" = None,
        cwd: str | Path | None = None,
    ) -> "Run":
        """Run a program as a job of its own, and wait for its end. Further arguments are those of `job`, and those of
        `subprocess.run`.

        Args:
            command: The program and its arguments.
            environment: Variables to add to those of `job`.
            check: Whether an exit code other than 0 is an error.
            timeout: Longest time of the program in seconds; None has no bound.
            cwd: Working directory of the program.

        Returns:
            The program's exit code, its output where that was captured, and the name of its job.

        Raises:
            SettingsError, StoreError: As for `job`.
            OSError: The program cannot be executed.
            subprocess.SubprocessError: The program failed and `check` was given, or it took longer than the `timeout`.
        """
        import subprocess
        import time

        from weir.store.run import Run

        claims: dict[str, str | int | None] = {
            "job": job,
            "user": user,
            "group": group,
            "nodes": nodes,
            "priority": priority,
        }
        with self._job(str(command[0]), prefix, claims, is_preloaded=is_preloaded) as (variables, identity):
            fed: dict[str, Any] = {"stdin": stdin} if input is None else {"input": input}
            begun = time.monotonic()
            ended = subprocess.run(
                command,
                env={**variables, **(environment or {})},
                check=check,
                capture_output=capture_output,
                text=text,
                timeout=timeout,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                **fed,
            )
            seconds = time.monotonic() - begun
        return Run(command, ended.returncode, ended.stdout, ended.stderr, job=identity.job, seconds=seconds)


def up(
    file: str | Path | None = None,
    *,
    home: str | Path | None = None,
    mount: bool | str | Path = True,
    policy: str | None = None,
    scheduler: str | None = None,
    allocator: str | None = None,
    servers: int | None = None,
    targets: int | None = None,
    backend: str | None = None,
    capacity: str | None = None,
    read_speed: str | None = None,
    write_speed: str | None = None,
    fixed_time: str | None = None,
    metadata_time: str | None = None,
    lambda_milliseconds: int | None = None,
    ports: str | None = None,
    accept_journal_loss: bool = False,
) -> Store:
    """Bring a store up on this machine: start its servers and mount it.

    A setting that is None has its value from the file, else from the store that lies in the home, else by default.
    Variables such as WEIR_POLICY have no effect here.

    Args:
        file: A cluster.toml.
        home: Directory for the store's state. None is a temporary directory, removed with the store at the program's
            end, also if the program is killed. A store in a given home stays up until somebody takes it down.
        mount: Whether to mount the store, or its mount point. True is `mnt` in its home; where nothing can be mounted,
            `Store.notices` has the reason.
        policy: Division of the storage's time among jobs, such as `size-fair`.
        scheduler: Algorithm that enforces the policy, such as `virtual-time`.
        allocator: Algorithm that chooses the targets of new files, such as `balanced`.
        servers: Number of servers, 1 to 64.
        targets: Number of targets of each server, 1 to 64.
        backend: `ram` or `dir`.
        capacity: Capacity of each target, such as `4GiB`.
        read_speed: Emulated speed of reads, such as `200MB/s`; `write_speed` of writes.
        fixed_time: Emulated time of each request, such as `100us`.
        metadata_time: Emulated time of each metadata operation.
        lambda_milliseconds: Interval in which servers tell each other their jobs and loads, 1 to 60,000.
        ports: Range of the servers' ports, such as `20000-29999`.
        accept_journal_loss: Whether to start also servers whose journals lost changes.

    Returns:
        The store, which is a context manager: the end of its block takes the store down.

    Raises:
        SettingsError: A setting or the file cannot be used.
        StoreError: The store does not come up, and nothing of it is left running; or it is up already.
        NotInstalledError: The programs of the store are missing.
        OSError: The home cannot be written.
    """
    given = {
        "policy": policy,
        "scheduler": scheduler,
        "allocator": allocator,
        "servers": servers,
        "targets": targets,
        "backend": backend,
        "capacity": capacity,
        "read_speed": read_speed,
        "write_speed": write_speed,
        "fixed_time": fixed_time,
        "metadata_time": metadata_time,
        "lambda_milliseconds": lambda_milliseconds,
        "ports": ports,
    }
    return _start(file, home, mount, given, accept_journal_loss=accept_journal_loss)


def _start(
    file: str | Path | None,
    home: str | Path | None,
    mount: bool | str | Path,
    given: Mapping[str, object],
    *,
    accept_journal_loss: bool,
) -> Store:
    """Bring a store up as `up` does, with settings by their names."""
    import tempfile

    from weir.store import keeper, lifecycle, temporary
    from weir.store.home import Home

    _check(given)
    mounting = lifecycle.Mounting(bool(mount), None if isinstance(mount, bool) else Path(mount))
    notices: list[Notice] = []
    folder = Path(tempfile.mkdtemp(prefix="weir-")) if home is None else None
    kept = None
    chosen = Home.at(str(home)) if folder is None else temporary.home_in(folder)
    try:
        kept = None if folder is None else keeper.start(folder)
        wanted = lifecycle.plan(chosen, None if file is None else Path(file), given, lambda _: "argument")
        running = lifecycle.bring_up(chosen, wanted, mounting, notices.append, accept_journal_loss=accept_journal_loss)
    except BaseException:
        if folder is not None:
            _remove(folder, os.getpid(), kept)
        raise
    return Store(chosen, running, notices=notices, temporary=folder, keeper=kept)


def _check(given: Mapping[str, object]) -> None:
    """Refuse values that no store has, before anything is made.

    Raises:
        SettingsError: A value is not allowed.
    """
    from weir.store.settings import STORE

    for setting in STORE:
        value = given[setting.name]
        if value is not None and not setting.allows(value):
            raise SettingsError(f"{setting.name} cannot be {value!r}", hint=f"give {setting.allowed()}")


def _remove(folder: Path, process: int, keeper: "subprocess.Popen[bytes] | None") -> None:
    """Remove a temporary store as far as possible; a fork of the process that made the store does nothing."""
    from weir.store import temporary

    if os.getpid() == process:
        temporary.remove(folder)
        _end(keeper)


def _end(keeper: "subprocess.Popen[bytes] | None") -> None:
    """End the process that waited for the end of this one."""
    if keeper is not None:
        keeper.kill()
        keeper.wait()
