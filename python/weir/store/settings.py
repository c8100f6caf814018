"""Every setting, defined once: its flag, its environment name, its key in cluster.toml and its default."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One setting. A flag beats the environment, the environment beats the file, the file beats the default."""

    name: str
    environment: str
    meaning: str
    default: str = ""
    flag: str | None = None
    key: str | None = None
    bounds: tuple[int, int] | None = None
    """The least and the greatest value of a number."""
    choices: tuple[str, ...] = ()
    """The values there are, where only some are."""
    is_file: bool = False
    """Whether the value is the path of a file that is there."""

    def allows(self, value: object) -> bool:
        """Whether a value lies within the bounds, or is one of the choices, if there are any."""
        if self.bounds is not None:
            return isinstance(value, int) and self.bounds[0] <= value <= self.bounds[1]
        return not self.choices or value in self.choices

    def allowed(self) -> str:
        """The values that are allowed, in words."""
        if self.bounds is not None:
            return f"a number from {self.bounds[0]} to {self.bounds[1]}"
        return " or ".join(self.choices) or "any value"


POLICY = Setting(
    name="policy",
    flag="--policy",
    environment="WEIR_POLICY",
    key="policy",
    default="size-fair",
    meaning="How the time of the storage is divided among jobs.",
)
SCHEDULER = Setting(
    name="scheduler",
    flag="--scheduler",
    environment="WEIR_SCHEDULER",
    key="scheduler",
    meaning="Who enforces the policy; none named: virtual-time, or fifo for the policy fifo.",
)
ALLOCATOR = Setting(
    name="allocator",
    flag="--allocator",
    environment="WEIR_ALLOCATOR",
    key="layout.allocator",
    default="balanced",
    meaning="Who chooses the targets of new files: balanced, lustre-standard or random.",
)
SERVERS = Setting(
    name="servers",
    flag="--servers",
    environment="WEIR_SERVERS",
    default="1",
    bounds=(1, 64),
    meaning="Servers to start, where the file lists none.",
)
TARGETS = Setting(
    name="targets",
    flag="--targets",
    environment="WEIR_TARGETS",
    default="2",
    bounds=(1, 64),
    meaning="Targets of each server, where the file lists none.",
)
BACKEND = Setting(
    name="backend",
    flag="--backend",
    environment="WEIR_BACKEND",
    key="server.target.backend",
    default="ram",
    choices=("ram", "dir"),
    meaning="Where targets keep bytes: memory, or a directory of a local file system.",
)
CAPACITY = Setting(
    name="capacity",
    flag="--capacity",
    environment="WEIR_CAPACITY",
    key="server.target.capacity",
    default="4GiB",
    meaning="Capacity of each target.",
)
READ_SPEED = Setting(
    name="read_speed",
    flag="--read-speed",
    environment="WEIR_READ_SPEED",
    key="server.target.speed.read",
    meaning="Emulate targets that read no faster, as 200MB/s.",
)
WRITE_SPEED = Setting(
    name="write_speed",
    flag="--write-speed",
    environment="WEIR_WRITE_SPEED",
    key="server.target.speed.write",
    meaning="Emulate targets that write no faster, as 200MB/s.",
)
FIXED_TIME = Setting(
    name="fixed_time",
    flag="--fixed-time",
    environment="WEIR_FIXED_TIME",
    key="server.target.speed.fixed",
    meaning="Emulate targets that spend this time on each request, as 100us.",
)
METADATA_TIME = Setting(
    name="metadata_time",
    flag="--metadata-time",
    environment="WEIR_METADATA_TIME",
    key="server.metadata_speed.fixed",
    meaning="Emulate servers that spend this time on each metadata operation, as 50us.",
)
HOME = Setting(
    name="home",
    flag="--home",
    environment="WEIR_HOME",
    default="$XDG_STATE_HOME/weir",
    meaning="State directory of the store.",
)
CLUSTER = Setting(
    name="cluster",
    environment="WEIR_CLUSTER",
    default="WEIR_HOME/cluster.json",
    meaning="Where the servers of the store are written down.",
)
CREDENTIAL = Setting(
    name="credential",
    flag="--credential",
    environment="WEIR_CREDENTIAL",
    default="WEIR_HOME/credentials/uid-UID.json",
    meaning="Credential file of the job.",
)
MOUNT = Setting(
    name="mount",
    environment="WEIR_MOUNT",
    default="WEIR_HOME/mnt",
    meaning="Mount point of the store.",
)
PREFIX = Setting(
    name="prefix",
    flag="--prefix",
    environment="WEIR_PREFIX",
    meaning="Absolute path under which the program sees the store, by preload alone and without a mount.",
)
PLACEMENT = Setting(
    name="placement",
    flag="--placement",
    environment="WEIR_PLACEMENT",
    is_file=True,
    meaning="Interaction database of `weir place`: files that it foresaw are made with its layouts.",
)
PLACEMENT_REPORT = Setting(
    name="placement_report",
    environment="WEIR_PLACEMENT_REPORT",
    default="the interaction database's name with .report",
    meaning="File to which each process adds how many of its files the interaction database foresaw.",
)
TRANSPORT = Setting(
    name="transport",
    environment="WEIR_TRANSPORT",
    default="unix where the socket is there",
    meaning="How clients reach servers: unix or tcp.",
)
TIMEOUT_SECONDS = Setting(
    name="timeout_seconds",
    environment="WEIR_TIMEOUT_SECONDS",
    default="10",
    meaning="Silence of a server after which a call gives EIO.",
)
COUNTERS = Setting(
    name="counters",
    environment="WEIR_COUNTERS",
    meaning="Directory to which each process on the fast path writes its counters at its end.",
)
TRACE = Setting(
    name="trace",
    flag="--trace",
    environment="WEIR_TRACE",
    meaning="Directory to which each process writes what files it makes, for `weir trace`.",
)
OBSERVE = Setting(
    name="observe",
    flag="--observe",
    environment="WEIR_OBSERVE",
    meaning="Record also files below this path, which need not be on the store; may be given again.",
)
PROGRAMS = Setting(
    name="programs",
    environment="WEIR_PROGRAMS",
    default="where the package was installed",
    meaning="Directory of weir-server, weir-mount and libweir_preload.so.",
)

STORE = (
    POLICY,
    SCHEDULER,
    ALLOCATOR,
    SERVERS,
    TARGETS,
    BACKEND,
    CAPACITY,
    READ_SPEED,
    WRITE_SPEED,
    FIXED_TIME,
    METADATA_TIME,
)
"""Settings of a store, given to `weir up`."""

CLIENT = (
    HOME,
    CLUSTER,
    CREDENTIAL,
    MOUNT,
    PREFIX,
    PLACEMENT,
    PLACEMENT_REPORT,
    TRANSPORT,
    TIMEOUT_SECONDS,
    COUNTERS,
    PROGRAMS,
)
"""Settings of programs that use a store."""
