"""The operations that a host does for a store on several hosts: the document that each takes, and its answer."""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True)
class Operation(Generic[Request, Answer]):
    """One operation of `weir agent`."""

    name: str
    request: type[Request]
    answer: type[Answer]
    seconds: float
    """Longest time until a host has done it, on a busy machine."""


@dataclass(frozen=True)
class Member:
    """A host's part of a store, as the host keeps it in its home."""

    deployment: str
    """Identity of the store."""
    host: str
    """Name by which the store knows the host."""
    address: str
    """Address at which its servers listen; empty for a host that only mounts."""
    servers: tuple[int, ...]
    """Numbers of its servers."""
    mount: str | None
    """Mount point; None where the host does not mount the store."""
    kept: bool
    """Whether a lasting step of an allocation keeps its servers and mount (`keeper.py`)."""
    token: str = ""
    """Mark of the folders of targets outside of the home that go with the store's files; empty where they stay."""


@dataclass(frozen=True)
class Address:
    """The addresses of one server, as in cluster.json."""

    server: int
    tcp: str
    control: str
    unix: str | None = None
    """Path of its socket, for clients of its own host alone."""
    owner: int = 0
    """The user whose process listens there; clients turn away from any other."""

    def from_elsewhere(self) -> "Address":
        """Leave out what only clients of the server's own host can use.

        Returns:
            The address, without a socket.
        """
        return replace(self, unix=None, owner=0)


@dataclass(frozen=True)
class Told:
    """One notice of a host."""

    words: str
    hint: str


@dataclass(frozen=True)
class Part:
    """A store's part on a host that is there already."""

    home: str
    """Path of the home on the host."""
    deployment: str
    """Identity of the store; a home of another store is left alone."""


@dataclass(frozen=True)
class ProbeRequest:
    """Describe the host, and check whether there is room for a store."""

    home: str


@dataclass(frozen=True)
class Probed:
    """The properties of a host."""

    hostname: str
    boot: str
    """Identity of the boot: with the host name it tells whether two names mean one host."""
    version: str
    now_seconds: float
    """Time of the host's clock, since the epoch."""
    addresses: tuple[str, ...]
    """Addresses of its network interfaces; none where they cannot be found out."""
    member: Member | None
    """The store that has a part in the home."""
    occupied: str
    """Reason why the home cannot take a part of a store; empty where it can."""
    fuse_problem: str
    """Reason why nothing can be mounted; empty where it can."""


@dataclass(frozen=True)
class InstallRequest:
    """Take a part of a store into your home."""

    home: str
    member: Member
    configuration: str
    """Text of the store's cluster.toml."""
    site_key: str
    ports: tuple[int, ...]
    """Ports that the host's servers will listen at: two for each of the part's servers, in their order."""


@dataclass(frozen=True)
class Installed:
    """The part lies in the home."""

    is_new: bool
    """Whether the home had no part of the store before."""


@dataclass(frozen=True)
class StartRequest:
    """Start those of your servers that do not run."""

    home: str
    deployment: str
    accept_journal_loss: bool


@dataclass(frozen=True)
class Started:
    """All servers of the host run."""

    addresses: tuple[Address, ...]
    started: tuple[int, ...]
    """Numbers of the servers that did not run before."""
    notices: tuple[Told, ...]


@dataclass(frozen=True)
class PublishRequest:
    """The whole store is up: tell its addresses to the users of your host, and mount it."""

    home: str
    deployment: str
    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class Published:
    """Users of the host can use the store."""

    mount: str | None
    """Mount point; None where the store is not mounted."""
    notices: tuple[Told, ...]


@dataclass(frozen=True)
class EndRequest:
    """Unmount the store and stop your servers."""

    home: str
    deployment: str
    force: bool
    discard: bool
    """Whether the files in the home go, too."""


@dataclass(frozen=True)
class EndedThere:
    """The host's part is down."""

    servers: int
    """Number of servers that ran."""
    mounts: tuple[str, ...]
    """Mount points that were unmounted."""
    lost_bytes: int
    """Bytes that were on targets in memory."""
    left: tuple[str, ...]
    """Folders of targets outside of the home, whose files are left."""


@dataclass(frozen=True)
class RestartRequest:
    """Stop one of your servers and start it again."""

    home: str
    deployment: str
    server: int


@dataclass(frozen=True)
class DropRequest:
    """Stop one of your servers, which never joined the store, and remove its files."""

    home: str
    deployment: str
    server: int


@dataclass(frozen=True)
class Dropped:
    """The server is gone."""

    ran: bool
    """Whether it ran."""


@dataclass(frozen=True)
class FileState:
    """One file of a server that goes to another host."""

    name: str
    size: int
    digest: str
    """SHA-256 of the file; empty while its server runs."""


@dataclass(frozen=True)
class FilePart:
    """A part of a file."""

    name: str
    offset: int
    data: str
    """The bytes, in base64."""


@dataclass(frozen=True)
class FetchRequest:
    """Give parts of the files of one of your servers, which goes to another host."""

    home: str
    deployment: str
    server: int
    have: dict[str, int]
    """Bytes of each file that the other host has."""
    bytes_max: int
    seals: bool
    """Whether the server ends before, and never starts from these files again."""


@dataclass(frozen=True)
class Fetched:
    """Files, and parts of them."""

    files: tuple[FileState, ...]
    parts: tuple[FilePart, ...]
    is_sealed: bool
    """Whether the files change no more."""


@dataclass(frozen=True)
class StoreRequest:
    """Take parts of the files of a server that comes to you."""

    home: str
    deployment: str
    server: int
    fetched: Fetched


@dataclass(frozen=True)
class Stored:
    """The files of a server that comes, as far as they are here."""

    have: dict[str, int]
    """Bytes of each file."""
    is_whole: bool
    """Whether the server can start here, or did so."""


@dataclass(frozen=True)
class ForgetRequest:
    """Remove the files of a server that went elsewhere, or of one that did not come."""

    home: str
    deployment: str
    server: int


@dataclass(frozen=True)
class Forgotten:
    """The files are gone."""


@dataclass(frozen=True)
class LogsRequest:
    """Show the last lines of logs."""

    home: str
    deployment: str
    servers: tuple[int, ...]
    """Numbers of those of your servers whose logs are wanted."""
    mounts: bool
    """Whether the logs of the mounts are wanted, too."""
    lines: int
    """Most lines of each log."""


@dataclass(frozen=True)
class LogEnd:
    """The last lines of one log."""

    name: str
    """Program that writes it."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Logs:
    """The ends of logs."""

    logs: tuple[LogEnd, ...]


@dataclass(frozen=True)
class BackupRequest:
    """Give a part of a backup of your servers' metadata."""

    home: str
    deployment: str
    token: str
    """Name of the backup, of small letters and digits."""
    offset: int
    """Bytes that are there already; at 0 the backup is taken."""
    bytes_max: int
    ends: bool
    """Whether the backup is removed, and no part of it is wanted."""


@dataclass(frozen=True)
class BackupPart:
    """A part of a backup."""

    servers: tuple[int, ...]
    """Numbers of the servers whose metadata it has."""
    size: int
    """Bytes of the whole backup."""
    digest: str
    """SHA-256 of the whole backup."""
    taken_seconds: float
    """Unix time at which it was taken."""
    data: str
    """The bytes from the offset on, in base64."""


@dataclass(frozen=True)
class MountState:
    """One mount of a host."""

    point: str
    served: bool


@dataclass(frozen=True)
class State:
    """The servers and mounts that run on a host."""

    running: tuple[int, ...]
    """Numbers of its servers that run."""
    mounts: tuple[MountState, ...]
    units: tuple[int, ...] = ()
    """Numbers of its servers that units of systemd keep; empty where the host's program reports none."""


PROBE = Operation("probe", ProbeRequest, Probed, 180.0)
INSTALL = Operation("install", InstallRequest, Installed, 180.0)
START = Operation("start", StartRequest, Started, 300.0)
PUBLISH = Operation("publish", PublishRequest, Published, 300.0)
END = Operation("end", EndRequest, EndedThere, 300.0)
RESTART = Operation("restart", RestartRequest, Started, 300.0)
STATE = Operation("state", Part, State, 180.0)
FETCH = Operation("fetch", FetchRequest, Fetched, 300.0)
STORE = Operation("store", StoreRequest, Stored, 300.0)
FORGET = Operation("forget", ForgetRequest, Forgotten, 300.0)
LOGS = Operation("logs", LogsRequest, Logs, 180.0)
BACKUP = Operation("backup", BackupRequest, BackupPart, 300.0)
DROP = Operation("drop", DropRequest, Dropped, 300.0)
REMOVE = Operation("remove", Part, EndedThere, 300.0)
