"""The client of the control API: one method a request, with typed answers."""

import contextlib
import json
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from weir.store.answers import (
    AddedServer,
    Allocator,
    Changed,
    Inventory,
    Job,
    Jobs,
    Lease,
    LeasedJob,
    Place,
    Places,
    Quota,
    QuotaLimits,
    Quotas,
    Sharing,
    Status,
    WantedLease,
    WantedQuota,
    WantedServer,
    WantedSharing,
    WantedSpeed,
    WantedState,
    WantedTarget,
)
from weir.store.audits import Audit, AuditEntry, ToldEntry
from weir.store.decoding import DecodingError, decode, encode
from weir.store.errors import AnswerError, NotYetError, SilentServerError, StoreError
from weir.store.observations import Windows
from weir.store.predictions import Predictions, ToldPredictions
from weir.store.trees import AwayEntry, Directories, Entries, Mended, Position, Sums, Tree, WantedMend

if TYPE_CHECKING:
    from weir.store.access import Access

TIMEOUT_SECONDS = 5.0
"""Longest time until a server answers: its control API answers beside the data path."""
_ANSWER_BYTES_MAX = 1 << 28
"""Longest answer that is read: the table of a hundred thousand jobs has half as much."""
_INVENTORY_SECONDS = 60.0
"""Longest time until a server has read the directories of its targets."""
_ASKED_AT_ONCE = 64
"""Servers asked at the same time: servers that do not answer are waited for together, not one after the other."""

_PORT_MAX = 65535
_NOT_NOW = 503
"""Status of an answer to a request that may be repeated later."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Request(Generic[Answer]):
    """One kind of request."""

    method: Literal["GET", "PUT"]
    path: str
    """Path of the request. `{target}` stands for the name of a target, `{server}` for the number of a server, `{part}`
    for `PART/PARTS`, `{inos}` for `INO,...`, `{entries}` for `PARENT.NAME.INO.INTENT,...`, and `{after}` for the number
    of a window or an entry."""
    answer: type[Answer]
    meaning: str
    body: type | None = None
    """Type of the body; none where the request has no body."""
    caller: Literal["anybody", "user", "administrator"] = "administrator"
    """The least caller that is answered: anybody; the holder of a credential, who sees the own jobs; or the holder of
    the site key."""


STATUS = Request("GET", "/v1/status", Status, "Shows the server, its targets and its peers.", caller="anybody")
JOBS = Request("GET", "/v1/jobs", Jobs, "Shows the jobs that the server knows.", caller="anybody")
POLICY = Request("GET", "/v1/policy", Sharing, "Shows the policy in force, and its scheduler.", caller="anybody")
SET_POLICY = Request(
    "PUT", "/v1/policy", Sharing, "Sets the policy, and the scheduler where one is named.", WantedSharing
)
LEASE = Request("GET", "/v1/lease", Lease, "Shows the sharing in force, and its lease.")
SET_LEASE = Request(
    "PUT",
    "/v1/lease",
    Lease,
    "Puts another sharing into force on this server, for some seconds. No other server hears of it.",
    WantedLease,
)
ALLOCATOR = Request(
    "GET",
    "/v1/allocator",
    Allocator,
    "Shows the algorithm that chooses the targets of new files.",
    caller="anybody",
)
SET_ALLOCATOR = Request(
    "PUT", "/v1/allocator", Allocator, "Sets the algorithm that chooses the targets of new files.", Allocator
)
SET_SPEED = Request(
    "PUT",
    "/v1/targets/{target}/speed",
    Changed,
    "Emulates a speed on a target of the server, until the server is started again.",
    WantedSpeed,
)
ADD_TARGET = Request(
    "PUT",
    "/v1/targets/{target}",
    Changed,
    "Opens one more target of the server, whose name has the next number. Sent again, it changes nothing.",
    WantedTarget,
)
ADD_SERVER = Request(
    "PUT",
    "/v1/servers/{server}",
    AddedServer,
    "Takes in a server that runs, with the store's next number; the others follow. Sent again, it changes nothing.",
    WantedServer,
)
KEEP_NAMES = Request(
    "PUT",
    "/v1/servers/{server}/names",
    AddedServer,
    "Lets the server, which has this number, keep its names in files, too, before it goes to another host.",
)
SET_SERVER_STATE = Request(
    "PUT",
    "/v1/servers/{server}/state",
    AddedServer,
    "Lets the server, which has this number, retire with all of its targets, or have retired once these have left.",
    WantedState,
)
SET_STATE = Request(
    "PUT",
    "/v1/targets/{target}/state",
    Changed,
    "Lets a target of the server retire, or leave once no home has an object there.",
    WantedState,
)
QUOTAS = Request("GET", "/v1/quotas", Quotas, "Shows the use and the limits of users and groups.")
SET_QUOTA = Request("PUT", "/v1/quotas", WantedQuota, "Sets the limits of a user or a group.", WantedQuota)
INVENTORY = Request(
    "GET",
    "/v1/inventory/{part}",
    Inventory,
    "Shows the objects and files of one part of the inodes.",
)
PLACES = Request("GET", "/v1/places/{inos}", Places, "Shows the paths of inodes.")
TREE = Request(
    "GET",
    "/v1/tree/{part}",
    Tree,
    "Judges the names and inodes of one part, and shows the directories that are a matter of two servers.",
)
DIRECTORIES = Request(
    "GET", "/v1/directories/{inos}", Directories, "Shows the places of directories, by their records."
)
ENTRIES = Request("GET", "/v1/entries/{entries}", Entries, "Shows entries of directories.")
SUMS = Request("GET", "/v1/sums", Sums, "Compares the accounted use of owners with that of their inodes.")
MEND = Request("PUT", "/v1/mend", Mended, "Mends one fault of the tree, if it is there.", WantedMend)
WINDOWS = Request(
    "GET",
    "/v1/windows/{after}",
    Windows,
    "Shows the work of devices and jobs in the windows that ended last.",
    caller="user",
)
INTERFERENCE = Request(
    "GET",
    "/v1/interference",
    Predictions,
    "Shows how much jobs are predicted to be slowed, and by whom.",
    caller="user",
)
TELL_INTERFERENCE = Request(
    "PUT", "/v1/interference", ToldPredictions, "Tells the predictions of a window, in place of the last.", Predictions
)
AUDIT = Request("GET", "/v1/audit/{after}", Audit, "Shows who asked the server for which change, and what came of it.")
TELL_AUDIT = Request("PUT", "/v1/audit", ToldEntry, "Tells of a change that no server makes, for the audit.", ToldEntry)
REQUESTS: tuple[Request[Any], ...] = (
    STATUS,
    JOBS,
    POLICY,
    SET_POLICY,
    LEASE,
    SET_LEASE,
    ALLOCATOR,
    SET_ALLOCATOR,
    QUOTAS,
    SET_QUOTA,
    INVENTORY,
    PLACES,
    TREE,
    DIRECTORIES,
    ENTRIES,
    SUMS,
    MEND,
    WINDOWS,
    INTERFERENCE,
    TELL_INTERFERENCE,
    SET_SPEED,
    ADD_SERVER,
    KEEP_NAMES,
    SET_SERVER_STATE,
    ADD_TARGET,
    SET_STATE,
    AUDIT,
    TELL_AUDIT,
)
"""All requests."""


@dataclass(frozen=True)
class Server:
    """One server of a cluster.json.

    Each method sends one request. It raises `AnswerError` where the answer is not that of a server of this version, and
    `StoreError` where the server does not answer or refuses.

    Attributes:
        number: Number of the server.
        control: Address of the server's control API, `HOST:PORT`.
        timeout_seconds: Longest time until the server answers.
        access: The right to ask for more than everybody sees; None is none.
        cluster: The cluster.json that named the server; None is none.
    """

    number: int
    control: str
    """The address of its control API, `HOST:PORT`."""
    timeout_seconds: float = TIMEOUT_SECONDS
    access: "Access | None" = field(default=None, repr=False, compare=False)
    cluster: Path | None = field(default=None, repr=False, compare=False)

    def status(self) -> Status:
        """Ask for the state of the server.

        Returns:
            The state, without the server's jobs.
        """
        return self.ask(STATUS)

    def jobs(self) -> tuple[Job, ...]:
        """Ask for the jobs that the server knows.

        Returns:
            The job table, by name and user.
        """
        return self.ask(JOBS).jobs

    def sharing(self) -> Sharing:
        """Ask for the policy in force.

        Returns:
            The policy and its scheduler.
        """
        return self.ask(POLICY)

    def set_sharing(self, policy: str, scheduler: str | None) -> Sharing:
        """Set the policy.

        Args:
            policy: Name of the policy, such as `size-fair`.
            scheduler: Name of the scheduler, such as `virtual-time`; None is the present one if that can enforce the
                policy, else the policy's own.

        Returns:
            The policy and the scheduler that are in force now.
        """
        return self.ask(SET_POLICY, body=WantedSharing(policy, scheduler))

    def lease(self) -> Lease:
        """Ask for the sharing that is in force, which may be leased.

        Returns:
            The sharing, and the lease where there is one.
        """
        return self.ask(LEASE)

    def set_lease(self, policy: str | None, jobs: Sequence[LeasedJob], seconds: float) -> Lease:
        """Put another sharing into force on this server for some seconds.

        Args:
            policy: Name of a policy; None is the decided one.
            jobs: Weights and limits of jobs.
            seconds: Time after which the decided sharing returns; 0 ends the lease now.

        Returns:
            The sharing that is in force now.
        """
        return self.ask(SET_LEASE, body=WantedLease(seconds, tuple(jobs), policy))

    def allocator(self) -> str:
        """Ask for the algorithm that chooses the targets of new files.

        Returns:
            Name of the algorithm.
        """
        return self.ask(ALLOCATOR).allocator

    def set_allocator(self, name: str) -> str:
        """Set the algorithm that chooses the targets of new files.

        Args:
            name: Name of the algorithm, such as `balanced`.

        Returns:
            Name of the algorithm in force now.
        """
        return self.ask(SET_ALLOCATOR, body=Allocator(name)).allocator

    def quotas(self) -> tuple[Quota, ...]:
        """Ask for the use and the limits of users and groups.

        Returns:
            Every owner with inodes on the server or with limits.
        """
        return self.ask(QUOTAS).owners

    def set_quota(self, kind: str, number: int | None, limits: QuotaLimits | None) -> None:
        """Set the limits of a user or a group.

        Args:
            kind: `user` or `group`.
            number: Number of the user or group; None is every owner of the kind without limits of its own.
            limits: The limits; None leaves the owner to the limits of every owner of the kind.
        """
        self.ask(SET_QUOTA, body=WantedQuota(kind, number, limits))

    def inventory(self, part: int, parts: int) -> Inventory:
        """Ask for the objects and files of the inodes whose number leaves a remainder.

        Args:
            part: The remainder.
            parts: The divisor.

        Returns:
            The objects on the server's targets, then the files with this home.
        """
        return self._patient().ask(INVENTORY, target=f"{part}/{parts}")

    def places(self, inos: Sequence[int]) -> tuple[Place, ...]:
        """Ask for the paths of inodes.

        Args:
            inos: Numbers of the inodes, at most 512.

        Returns:
            The places of those that have names on the server.
        """
        return self.ask(PLACES, target=",".join(map(str, inos))).places

    def tree(self, part: int, parts: int) -> Tree:
        """Have the server judge the inodes whose number leaves a remainder.

        Args:
            part: The remainder.
            parts: The divisor.

        Returns:
            The faults, and the directories that are a matter of two servers.
        """
        return self._patient().ask(TREE, target=f"{part}/{parts}")

    def directories(self, inos: Sequence[int]) -> tuple[Position, ...]:
        """Ask for the places of directories with this home.

        Args:
            inos: The directories, at most 256.

        Returns:
            The places of those that are there and have a name.
        """
        return self.ask(DIRECTORIES, target=",".join(map(str, inos))).directories

    def entries(self, wanted: Sequence[tuple[int, str, int, int]]) -> tuple[AwayEntry, ...]:
        """Ask for entries of directories with this home.

        Args:
            wanted: Directory, name in hexadecimal, inode that is expected there, and the intent that placed that; at
                most 8.

        Returns:
            The entries, in the same order.
        """
        question = ",".join(".".join(map(str, each)) for each in wanted)
        return self.ask(ENTRIES, target=question).entries

    def sums(self) -> Sums:
        """Have the server compare the accounted use of owners with that of their inodes.

        Returns:
            The owners with wrong sums.
        """
        return self._patient().ask(SUMS)

    def mend(self, wanted: WantedMend) -> int:
        """Mend one fault of the tree.

        Args:
            wanted: What is to be done.

        Returns:
            The inode that it is about.
        """
        return self.ask(MEND, body=wanted).ino

    def windows(self, after: int) -> Windows:
        """Ask for the windows that ended last.

        Args:
            after: Number of a window; those up to it are left out.

        Returns:
            The windows that the server still has.
        """
        return self.ask(WINDOWS, target=str(after))

    def interference(self) -> Predictions:
        """Ask how much jobs are predicted to be slowed, and by whom.

        Returns:
            The predictions of the last window.
        """
        return self.ask(INTERFERENCE)

    def tell_interference(self, predictions: Predictions) -> None:
        """Tell the server the predictions of a window, which it shows in place of the last.

        Args:
            predictions: The predictions of all jobs.
        """
        self.ask(TELL_INTERFERENCE, body=predictions)

    def audit(self, after: int = 0) -> tuple[AuditEntry, ...]:
        """Ask who asked the server for which change, and what came of it.

        Args:
            after: Number of an entry; those up to it are left out.

        Returns:
            The entries that the server still has, oldest first.
        """
        return self.ask(AUDIT, target=str(after)).entries

    def tell_audit(self, entry: ToldEntry) -> None:
        """Tell the server of a change that no server makes, for the audit."""
        self.ask(TELL_AUDIT, body=entry)

    def set_speed(self, target: str, speed: WantedSpeed) -> None:
        """Emulate a speed on a target, until the server is started again.

        Args:
            target: One of this server's targets, such as `0.1`.
            speed: The speed; one without any part ends the emulation.
        """
        self.ask(SET_SPEED, target=target, body=speed)

    def add_target(self, target: str, wanted: WantedTarget) -> None:
        """Open one more target of the server.

        Args:
            target: Its name, with the server's next number.
        """
        self.ask(ADD_TARGET, target=target, body=wanted)

    def add_server(self, number: int, wanted: WantedServer) -> None:
        """Have a server that runs join the store.

        Args:
            number: Its number, the next one of the store.
        """
        self.ask(ADD_SERVER, server=number, body=wanted)

    def set_state(self, state: str) -> None:
        """Change the state of the server, and with it that of its targets.

        Args:
            state: The wanted state, as in `WantedState`.
        """
        self.ask(SET_SERVER_STATE, server=self.number, body=WantedState(state))

    def keep_names(self) -> None:
        """Have the server keep its names in files, too, before it goes to another host."""
        self.ask(KEEP_NAMES, server=self.number)

    def set_target_state(self, target: str, state: str) -> None:
        """Change the state of a target of the server.

        Args:
            target: Name of the target.
            state: The wanted state, as in `WantedState`.
        """
        self.ask(SET_STATE, target=target, body=WantedState(state))

    def ask(
        self,
        request: Request[Answer],
        *,
        target: str = "",
        server: int = 0,
        body: object = None,
    ) -> Answer:
        """Send one request.

        Args:
            request: Kind of the request.
            target: Name of the target, part, inodes or window in the request's path, if the path has one of them.
            server: Number of the server in the request's path, if the path has one.
            body: Body of the request, of the request's type.

        Returns:
            The answer, of the request's type.

        Raises:
            AnswerError: The answer is not of the request's type.
            NotYetError: The server cannot do it now.
            SilentServerError: The server does not answer.
            StoreError: The server refuses.
        """
        words = dict.fromkeys(("target", "part", "inos", "entries", "after"), target)
        path = request.path.format(server=server, **words)
        if request.caller != "anybody" and self.access is None:
            raise StoreError(
                f"permission denied: {request.method} {path} of server {self.number} needs the site key"
                + (" or a credential" if request.caller == "user" else ""),
                hint="run as the user who ran `weir up`, or ask the holder of the site key: `weir grant`",
            )
        is_sealed = self.access is not None and (self.access.is_administrator or request.caller != "anybody")
        access = self.access if is_sealed else None
        try:
            document = self._send(request.method, path, body, access)
        except SilentServerError:
            now = self._elsewhere()
            if now is None:
                raise
            document = now._send(request.method, path, body, access)
        try:
            return decode(request.answer, document)
        except DecodingError as error:
            raise AnswerError(
                f"server {self.number} at {self.control} is not of this version: at {path}, {error}",
                hint="use the `weir` that was installed with the server, or start it again with `weir up`",
            ) from error

    def _elsewhere(self) -> "Server | None":
        """The server at the address that cluster.json names now, where that is another one: its port may be taken."""
        if self.cluster is None:
            return None
        with contextlib.suppress(StoreError):
            for known in servers_of(self.cluster, self.access, timeout_seconds=self.timeout_seconds):
                if known.number == self.number and known.control != self.control:
                    return known
        return None

    def _patient(self) -> "Server":
        """The server, for a question about all that it has."""
        return replace(self, timeout_seconds=max(self.timeout_seconds, _INVENTORY_SECONDS))

    def _send(self, method: str, path: str, body: object, access: "Access | None") -> Any:
        import http.client

        from weir.store.claims import claims
        from weir.store.connections import Connection

        headers = {"Content-Type": "application/json"} | (claims() if method == "PUT" else {})
        connection = Connection(self.number, self.control, self.timeout_seconds, access)
        try:
            with contextlib.closing(connection):
                connection.request(method, path, _text(body), headers)
                answer = connection.getresponse()
                text = answer.read(_ANSWER_BYTES_MAX + 1)
                if len(text) > _ANSWER_BYTES_MAX:
                    raise ValueError(f"its answer is longer than {_ANSWER_BYTES_MAX} bytes")
                document = json.loads(text or b"null")
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            raise SilentServerError(
                f"server {self.number} at {self.control} does not answer: {error}",
                hint="see `weir status` and the server's log",
            ) from error
        if answer.status >= 400:
            said = document if isinstance(document, dict) else {}
            message = said.get("error") or f"{answer.status} {answer.reason}"
            kind = NotYetError if answer.status == _NOT_NOW else StoreError
            raise kind(f"server {self.number}: {message}", hint=str(said.get("hint") or ""))
        return document


def ask_all(servers: Sequence[Server], question: Callable[[Server], Answer]) -> list[Answer | StoreError]:
    """Ask servers at the same time.

    However many servers do not answer, all of them together take as long as one, up to the first `_ASKED_AT_ONCE`.

    Args:
        question: Method of a server, such as `Server.status`.

    Returns:
        The answers, in the order of the servers; an error in the place of an answer that did not come.
    """
    from concurrent.futures import ThreadPoolExecutor

    def ask(server: Server, context: Context) -> Answer | StoreError:
        try:
            return context.run(question, server)
        except StoreError as error:
            return error

    contexts = [copy_context() for _ in servers]
    with ThreadPoolExecutor(min(len(servers), _ASKED_AT_ONCE) or 1) as threads:
        return list(threads.map(ask, servers, contexts))


def servers_of(cluster: Path, access: "Access | None", *, timeout_seconds: float = TIMEOUT_SECONDS) -> list[Server]:
    """Read the servers of a store.

    Args:
        cluster: A cluster.json.
        access: The right of this process to ask them for more than everybody sees.
        timeout_seconds: Longest time until each of them answers.

    Returns:
        The servers, which were not asked.

    Raises:
        StoreError: The file cannot be read.
    """
    try:
        document = json.loads(cluster.read_text())
        return [
            Server(int(entry["server"]), _address(entry["control"]), timeout_seconds, access, cluster)
            for entry in document["servers"]
        ]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StoreError(f"cannot use {cluster}: {error}", hint="is the store up? see `weir status`") from error


def _text(body: object) -> str | None:
    """A body as JSON, without its keys that are None."""
    if body is None:
        return None
    return json.dumps(_without_none(encode(body)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def _address(text: object) -> str:
    """Check an address `HOST:PORT` before anything is sent there."""
    host, _, port = str(text).rpartition(":")
    if not host.isprintable() or " " in host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ValueError(f"{text!r} is no address of a control API")
    return str(text)
