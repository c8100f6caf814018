"""The facts about a store from which findings are derived."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weir.store.errors import AnswerError, StoreError

if TYPE_CHECKING:
    from weir.deployment.operations import State
    from weir.store.answers import Job, Lease, Quota, Status
    from weir.store.control import Server


@dataclass
class ServerFacts:
    """What is known of one server. A question that was not answered in time has left no answer.

    Attributes:
        server: The server.
        host: Name of its host; None where the store is on one host, or was deployed from another.
        unit: The unit of systemd that keeps it; None without one, or where nobody knows.
        status: Its state; None where it is not known.
        error: The reason why its state is not known; None where no answer came in time.
        asked: Unix time of this host before and after the question for its state.
        jobs: Its jobs; None where they are not known.
        lease: The sharing in force; None where it is not known.
        quotas: Use and limits of owners; None where they are not known.
        is_running: Whether its process runs; None where it is a process of another host.
        refusal: Message and hint with which it would refuse its folders; None where it would start, or nobody knows.
        last_error: Message and hint of the last error in its log since it listened last; None without one.
    """

    server: "Server"
    host: str | None = None
    unit: str | None = None
    status: "Status | None" = None
    error: StoreError | None = None
    asked: tuple[float, float] = (0.0, 0.0)
    jobs: "tuple[Job, ...] | None" = None
    lease: "Lease | None" = None
    quotas: "tuple[Quota, ...] | None" = None
    is_running: bool | None = None
    refusal: tuple[str, str] | None = None
    last_error: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """The server in words."""
        return f"server {self.server.number}"

    @property
    def is_silent(self) -> bool:
        """Whether it gave no answer; one of another version gave one."""
        return self.status is None and not isinstance(self.error, AnswerError)


@dataclass(frozen=True)
class MountFacts:
    """One mount, on this host where no host is named."""

    point: str
    is_served: bool
    host: str | None = None


@dataclass(frozen=True)
class CredentialFacts:
    """A credential in the store's home."""

    path: Path
    uid: int
    job: str
    expires: float


@dataclass(frozen=True)
class PlannerFacts:
    """The planner that this user may ask: the failure to reach it, or the deployments that failed."""

    socket: Path
    silence: str | None
    failed: tuple[tuple[str, str, float], ...] = ()
    """Name, failure and Unix time of each."""


@dataclass(frozen=True)
class GuardFacts:
    """The last action of the store's guard that is not undone, where no guard runs."""

    words: str
    at: float


@dataclass(frozen=True)
class Facts:
    """All that is known of a store.

    Attributes:
        home: Its home, as this process knows it.
        now: Unix time of this host when the questions were asked.
        seconds: Longest time that was waited for answers.
        version: Version of this program.
        interval_seconds: Interval in which servers tell each other their state.
        is_deployed: Whether the store was deployed from this home.
        servers: The servers by number.
        mounts: The mounts that are known.
        hosts: What runs on each host of a deployed store, or why that is not known.
        credentials: Credentials in the home.
        planner: The planner; None where this machine has none.
        guard: A guard that died; None without one.
    """

    home: Path
    now: float
    seconds: float
    version: str
    interval_seconds: float
    is_deployed: bool
    servers: tuple[ServerFacts, ...]
    mounts: tuple[MountFacts, ...] = ()
    hosts: "Mapping[str, State | StoreError]" = field(default_factory=dict)
    credentials: tuple[CredentialFacts, ...] = ()
    planner: PlannerFacts | None = None
    guard: GuardFacts | None = None

    def answering(self) -> "list[Status]":
        """The states of the servers that answered."""
        return [each.status for each in self.servers if each.status is not None]

    def start_command(self, server: ServerFacts | None = None) -> str:
        """The command that starts again what ended.

        Args:
            server: A server; None for a mount.
        """
        if server is not None and server.unit is not None:
            return self.on_host(server, f"systemctl restart {server.unit}")
        return "weir deploy" if self.is_deployed else "weir up"

    def logs_command(self, server: ServerFacts) -> str:
        """The command that shows the last words of a server."""
        if server.unit is not None:
            return self.on_host(server, f"journalctl -u {server.unit}")
        return self.on_host(server, f"weir logs {server.server.number}")

    def on_host(self, server: ServerFacts, command: str) -> str:
        """A command as it is given here, where the server is on another host."""
        return command if server.host is None else f"ssh {server.host} {command}"
