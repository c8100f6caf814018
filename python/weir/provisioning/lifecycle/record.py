"""The durable record of one job's storage: its deployment, and the step that it has come to."""

import contextlib
import enum
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from weir.provisioning import documents
from weir.provisioning.deployments import Deployment, Server
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.schema_file import read_schema
from weir.store.files import make_folder
from weir.store.home import Home
from weir.store.ownership import check_own
from weir.ways import check_closed, write_whole

_HINT = "keep the folder, which tells where results are, and see `weir job list`"
_LOCK_SECONDS = 10.0
"""Longest wait for a short change by another process; one that holds the folder for a whole step is told at once."""


class Phase(enum.StrEnum):
    """The step of its life that a job's storage has come to, in this order."""

    PLANNED = "planned"
    STARTING = "starting"
    READY = "ready"
    STAGING_IN = "staging-in"
    STAGED_IN = "staged-in"
    RUNNING = "running"
    RAN = "ran"
    STAGING_OUT = "staging-out"
    STAGED_OUT = "staged-out"
    ENDING = "ending"
    ENDED = "ended"

    def is_before(self, other: "Phase") -> bool:
        """Decide whether this phase comes before another.

        Returns:
            Whether it does.
        """
        order = list(Phase)
        return order.index(self) < order.index(other)


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of a job's storage."""

    version: int = 1
    """Version of this document."""
    phase: Phase = Phase.PLANNED
    servers: tuple[Server, ...] = ()
    """Servers as they were started: without those that were left out."""
    left_out: tuple[Server, ...] = ()
    """Servers that could not be started."""
    token: str = ""
    """Secret mark of the job's folders on devices, which other users may write to: nobody can make them before the job
    does, and only what carries it is removed at the job's end."""
    home: str = ""
    """Home of the store; that of the joined deployment where the job shares one."""
    mount: str | None = None
    """Mount point; None where the store is not mounted."""
    staged_in: int = 0
    """Transfers of `stage_in` that are done, verified and durable."""
    staged_out: int = 0
    """Transfers of `stage_out` that are done, verified and durable."""
    kept: dict[str, str] = {}
    """Places outside of the store of results that were saved from memory, by the number of their transfer."""
    absent: tuple[str, ...] = ()
    """Results that a program did not make that failed."""
    suspended: bool = False
    """Whether the job was ended early: its store runs for the jobs that share it alone, and stops with the last."""
    command: tuple[str, ...] = ()
    """The job's program and its arguments."""
    working_directory: str = ""
    """Folder that the job runs in."""
    process: str = ""
    """The program's process: its number, its start and the boot."""
    exit_code: int | None = None
    """Exit code of the job, as a shell gives it; None before its end."""
    fault: str = ""
    """The reason why the last step failed; empty where it did not."""


@dataclass(frozen=True)
class JobFolder:
    """The folder of one job's storage, which this user alone may change."""

    root: Path

    @property
    def home(self) -> Home:
        """Home of the job's own store."""
        return Home(self.root / "home")

    @property
    def credential(self) -> Path:
        """The job's credential file."""
        return self.root / "credential.json"

    @property
    def kept(self) -> Path:
        """The folder of results that were saved from memory."""
        return self.root / "kept"

    def create(self, deployment: Deployment) -> None:
        """Make the folder and write the deployment down; a folder with the same deployment stays as it is.

        Args:
            deployment: The deployment, which `validate` accepted.

        Raises:
            ProvisioningError: The folder has another deployment.
            WayError: Another user could make the way lead elsewhere.
            StoreError: Another user could change the folder.
            OSError: The folder cannot be written.
        """
        check_closed(self.root)
        make_folder(self.root, Home(self.root).passage)
        check_own(self.root)
        file = self.root / "deployment.json"
        if file.exists():
            if self.deployment() != deployment:
                raise ProvisioningError(
                    f"{self.root} has another deployment", hint="end it with `weir job end`, or choose another name"
                )
            return
        write_whole(file, msgspec.json.format(msgspec.json.encode(deployment)).decode() + "\n")

    def exists(self) -> bool:
        """Decide whether a deployment lies here.

        Returns:
            Whether it does.
        """
        return (self.root / "deployment.json").is_file()

    def deployment(self) -> Deployment:
        """Read the deployment.

        Raises:
            ProvisioningError: There is none, or it is damaged.
        """
        return read_schema(self.root / "deployment.json")

    def state(self) -> State:
        """Read the state.

        Returns:
            The state; that of a planned deployment where no step was begun.

        Raises:
            ProvisioningError: The state is damaged.
        """
        file = self.root / "state.json"
        return documents.read(file, State, "state of a job", _HINT) if file.exists() else State()

    def write(self, state: State) -> State:
        """Write the state down, durably.

        Returns:
            The same state.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(self.root / "state.json", msgspec.json.encode(state).decode() + "\n")
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return state

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for the length of a step.

        Yields:
            Nothing.

        Raises:
            ProvisioningError: There is no deployment, or another process is in the midst of a step.
        """
        if not self.exists():
            raise ProvisioningError(f"there is no deployment in {self.root}", hint="`weir job list` shows them")
        check_own(self.root)
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ProvisioningError(
                            f"another process is working on {self.root}", hint="wait for it to end, or end it"
                        ) from None
                    time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)


def changed(state: State, **changes: object) -> State:
    """Make a state that differs from another.

    Args:
        state: The other state.
        changes: Fields by their names.

    Returns:
        The state; the fault of an earlier failure is gone unless the changes have one.
    """
    return msgspec.structs.replace(state, **{"fault": "", **changes})
