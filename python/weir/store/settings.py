"""Every setting, defined once: its flag, its environment name, its key in cluster.toml and its default.

A setting is one named value of a store, or of programs that use one; a configuration is the document of a cluster.toml.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from weir.store import values
from weir.store.errors import SettingsError


@dataclass(frozen=True)
class Setting:
    """One setting. A flag beats the environment, the environment beats the file, the file beats the default."""

    name: str
    meaning: str
    default: str = ""
    has_flag: bool = False
    key: str | None = None
    bounds: tuple[int, int] | None = None
    """Least and greatest value of a number; None where the setting is no number."""
    choices: tuple[str, ...] = ()
    """Allowed values; empty where all are."""
    is_file: bool = False
    """Whether the value is the path of an existing file."""
    read: Callable[[str], object] | None = None
    """Reader of the value, which raises ValueError where no store can use it; None where every text is a value."""

    @property
    def environment(self) -> str:
        """Name of its variable."""
        return f"WEIR_{self.name.upper()}"

    @property
    def flag(self) -> str | None:
        """Flag of commands; None where no command has one."""
        return f"--{self.name.replace('_', '-')}" if self.has_flag else None

    def allows(self, value: object) -> bool:
        """Decide whether a value is allowed.

        Returns:
            Whether it lies within the bounds, or is one of the choices; any value of other settings is allowed.
        """
        if self.bounds is not None:
            return isinstance(value, int) and self.bounds[0] <= value <= self.bounds[1]
        return not self.choices or value in self.choices

    def allowed(self) -> str:
        """Describe the allowed values.

        Returns:
            The values, in words.
        """
        if self.bounds is not None:
            return f"a number from {self.bounds[0]} to {self.bounds[1]}"
        return " or ".join(self.choices) or "any value"


POLICY = Setting(
    name="policy",
    has_flag=True,
    key="policy",
    default="size-fair",
    meaning="Division of the storage's time among jobs.",
    read=values.policy,
)
SCHEDULER = Setting(
    name="scheduler",
    has_flag=True,
    key="scheduler",
    meaning="Algorithm that enforces the policy. Without a name it is fifo for the policy fifo, else virtual-time.",
    read=values.scheduler,
)
ALLOCATOR = Setting(
    name="allocator",
    has_flag=True,
    key="layout.allocator",
    default="balanced",
    meaning="Algorithm that chooses the targets of new files: balanced, lustre-standard or random.",
    read=values.allocator,
)
SERVERS = Setting(
    name="servers",
    has_flag=True,
    default="1",
    bounds=(1, 64),
    meaning="Number of servers to start if the file lists none.",
)
TARGETS = Setting(
    name="targets",
    has_flag=True,
    default="2",
    bounds=(1, 64),
    meaning="Number of targets of each server if the file lists none.",
)
BACKEND = Setting(
    name="backend",
    has_flag=True,
    key="server.target.backend",
    default="ram",
    choices=("ram", "dir"),
    meaning="Place of the targets' bytes: memory, or a directory of a local file system.",
)
CAPACITY = Setting(
    name="capacity",
    has_flag=True,
    key="server.target.capacity",
    default="4GiB",
    meaning="Capacity of each target.",
    read=values.size,
)
READ_SPEED = Setting(
    name="read_speed",
    has_flag=True,
    key="server.target.speed.read",
    meaning="Emulated speed of reads, such as 200MB/s.",
    read=values.rate,
)
WRITE_SPEED = Setting(
    name="write_speed",
    has_flag=True,
    key="server.target.speed.write",
    meaning="Emulated speed of writes, such as 200MB/s.",
    read=values.rate,
)
FIXED_TIME = Setting(
    name="fixed_time",
    has_flag=True,
    key="server.target.speed.fixed",
    meaning="Emulated time of each request, such as 100us.",
    read=values.duration,
)
METADATA_TIME = Setting(
    name="metadata_time",
    has_flag=True,
    key="server.metadata_speed.fixed",
    meaning="Emulated time of each metadata operation, such as 50us.",
    read=values.duration,
)
LAMBDA_MILLISECONDS = Setting(
    name="lambda_milliseconds",
    has_flag=True,
    key="lambda_milliseconds",
    default="100",
    bounds=(1, 60_000),
    meaning="Interval at which servers exchange their jobs and loads.",
)
PORTS = Setting(
    name="ports",
    has_flag=True,
    key="ports",
    meaning="Ports for servers whose address names none, such as 20000-29999. By default, free ports below the"
    " system's range for outgoing connections.",
    read=values.ports,
)
HOME = Setting(
    name="home",
    has_flag=True,
    default="$XDG_STATE_HOME/weir",
    meaning="State directory of the store.",
)
CLUSTER = Setting(
    name="cluster",
    default="WEIR_HOME/cluster.json",
    meaning="File with the addresses of the store's servers.",
)
CREDENTIAL = Setting(
    name="credential",
    has_flag=True,
    default="WEIR_HOME/credentials/uid-UID.json",
    meaning="Credential file of the job.",
)
MOUNT = Setting(
    name="mount",
    default="WEIR_HOME/mnt",
    meaning="Mount point of the store.",
)
PREFIX = Setting(
    name="prefix",
    has_flag=True,
    meaning="Absolute path at which the preload library shows the store to the program, without a mount.",
    read=values.prefix,
)
PLACEMENT = Setting(
    name="placement",
    has_flag=True,
    is_file=True,
    meaning="Interaction database of `weir place`, whose layouts new files get.",
)
PLACEMENT_REPORT = Setting(
    name="placement_report",
    default="the interaction database's name with .report",
    meaning="File to which each process adds the counts of its look-ups in the interaction database.",
)
TRANSPORT = Setting(
    name="transport",
    default="unix where the server has a socket on this host, else tcp",
    meaning="Way from clients to servers: unix or tcp.",
    read=values.transport,
)
TIMEOUT_SECONDS = Setting(
    name="timeout_seconds",
    default="10",
    meaning="Time of a server's silence after which a call answers EIO, from 0.1 to 86400.",
    read=values.silence,
)
HEARTBEAT_SECONDS = Setting(
    name="heartbeat_seconds",
    default="2",
    meaning="Interval in which a mount tells the servers that it lives, from 0.1 to 60.",
    read=values.heartbeat,
)
COUNTERS = Setting(
    name="counters",
    meaning="Directory to which each process on the fast path writes its counters at its end.",
)
WINDOWS = Setting(
    name="windows",
    default="/dev/shm/weir-UID",
    meaning="Folder of the windows in which a user's programs count their operations, for `weir interference`; `off` "
    "counts none.",
)
ADAPTIVE_JOURNAL = Setting(
    name="adaptive_journal",
    default="WEIR_HOME/adaptive where the store's owner starts a job",
    meaning="Folder in which programs note the steps that they read of adaptive streams, for `weir room`; `off` notes "
    "none.",
)
TRACE = Setting(
    name="trace",
    has_flag=True,
    meaning="Directory for a trace of each process, which records the files that the process makes, for `weir trace`.",
)
OBSERVE = Setting(
    name="observe",
    has_flag=True,
    meaning="Path below which files are recorded, too. It need not be on the store, and may be given again.",
)
PROGRAMS = Setting(
    name="programs",
    default="the place where the package was installed",
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
    LAMBDA_MILLISECONDS,
    PORTS,
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
    HEARTBEAT_SECONDS,
    COUNTERS,
    WINDOWS,
    ADAPTIVE_JOURNAL,
    PROGRAMS,
)
"""Settings of programs that use a store."""

_BETWEEN_PROGRAMS = ("WEIR_TRACE_RUN", "WEIR_TRACE_PARENT", "WEIR_CWD", "WEIR_HANDOVER", "WEIR_OBSERVATION")
"""Variables by which Weir's own programs tell each other something."""
_ALIKE = 0.7
"""Likeness from which a variable is taken for a mistyped setting: a site may have variables of its own."""


def check_names(environment: Iterable[str]) -> None:
    """Refuse variables that look like a mistyped setting or a part of one, which would be ignored without a word.

    Args:
        environment: Names of variables.

    Raises:
        SettingsError: The name of a variable is nearly that of a setting.
    """
    known = [setting.environment for setting in (*STORE, *CLIENT, TRACE, OBSERVE)]
    strange = [
        name for name in environment if name.startswith("WEIR_") and name not in known and name not in _BETWEEN_PROGRAMS
    ]
    if not strange:
        return
    from difflib import get_close_matches

    stems = [name.removeprefix("WEIR_") for name in known]
    for name in strange:
        word = name.removeprefix("WEIR_")
        near = [stem for stem in stems if word in stem] or get_close_matches(word, stems, n=1, cutoff=_ALIKE)
        if near:
            raise SettingsError(
                f"the environment has {name}, which is no setting",
                hint=f"write WEIR_{near[0]}, or unset {name}; `weir config reference` lists the settings",
            )


def check_values(environment: Mapping[str, str], *, with_flags: bool = False) -> None:
    """Refuse values that the programs of a store cannot use: those programs would leave the store out without a word.

    Args:
        environment: Variables by their names. An empty one is not set.
        with_flags: Whether also settings that have a flag are checked. A command with the flag checks the value itself.

    Raises:
        SettingsError: A variable of a program that uses a store has a value that the program cannot use.
    """
    for setting in CLIENT:
        value = environment.get(setting.environment)
        if not value or setting.read is None or (setting.flag is not None and not with_flags):
            continue
        try:
            setting.read(value)
        except ValueError as error:
            raise SettingsError(
                f"the environment has {setting.environment}={value}, which no program can use",
                hint=f"{error}, or unset {setting.environment}",
            ) from error
