import builtins
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, final, type_check_only

__all__ = [
    "Allocation",
    "Allocator",
    "Refactored",
    "Restored",
    "SealedChannel",
    "SlowdownPredictor",
    "StoreClient",
    "StoreFile",
    "allocator_names",
    "arrange",
    "claims_of_credential",
    "client_windows",
    "contiguous_layout",
    "decode_trace",
    "job_identifier",
    "layout_from_ini",
    "layout_to_ini",
    "layout_warning",
    "mesh_order_by_connectivity",
    "mesh_order_by_coordinates",
    "mint_credential",
    "owed_shares",
    "parse_fraction",
    "parse_heartbeat",
    "parse_layout",
    "parse_policy",
    "parse_rate",
    "parse_seconds",
    "parse_sharing",
    "parse_silence",
    "parse_size",
    "parse_topology",
    "parse_transport",
    "policy_levels",
    "policy_names",
    "refactor",
    "refactored_header_bytes",
    "room_together",
    "scheduler_names",
    "simulate",
    "space_factors",
    "speeds_and_loads",
    "step_columns",
    "step_kinds",
    "stripe_shares",
    "toml_lines",
    "trace_windows",
    "window_features",
]

_Attributes: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int]

@type_check_only
class Claims(TypedDict):
    job: str
    user: str
    group: str
    uid: int
    gid: int
    groups: list[int]
    nodes: int
    priority: int
    role: Literal["user", "mount", "administrator", "server"]
    issued_seconds: int
    expires_seconds: int

@type_check_only
class LayoutComponent(TypedDict):
    start: int
    end: int | None
    stripe_bytes: int | None
    stripes: int | None
    targets: list[str]

def mint_credential(
    site_key: str,
    *,
    job: str,
    user: str,
    group: str,
    uid: int,
    gid: int,
    groups: list[int],
    nodes: int,
    priority: int,
    role: str,
    issued_seconds: int,
    expires_seconds: int,
) -> str: ...
def claims_of_credential(text: str) -> Claims: ...
def job_identifier(text: str) -> str: ...
def parse_policy(text: str) -> str: ...
def parse_sharing(policy: str, scheduler: str | None = None) -> tuple[str, str]: ...
def owed_shares(
    policy: str, jobs: Sequence[tuple[str, str, str, int, int]], grants: str, weights: Sequence[float]
) -> list[float]: ...
def policy_levels(text: str) -> list[str]: ...
def policy_names() -> list[str]: ...
def scheduler_names() -> list[str]: ...
def parse_topology(text: str) -> str: ...
def toml_lines(text: str) -> dict[tuple[str | int, ...], int]: ...
def parse_size(text: str) -> int: ...
def parse_rate(text: str) -> float: ...
def parse_seconds(text: str) -> float: ...
def parse_fraction(text: str) -> float: ...
def parse_transport(text: str) -> str: ...
def parse_silence(text: str) -> float: ...
def parse_heartbeat(text: str) -> float: ...
def parse_layout(text: str) -> list[LayoutComponent]: ...
def layout_from_ini(text: str) -> str: ...
def layout_to_ini(text: str) -> str: ...
def layout_warning(text: str, targets: int) -> str | None: ...
def contiguous_layout(text: str, size_bytes: int, alignment_bytes: int) -> str: ...
def stripe_shares(text: str, size_bytes: int, *, stripe_bytes: int, stripes: int, targets: int) -> list[list[int]]: ...

@type_check_only
class TraceProcess(TypedDict):
    run: str
    node: str
    process: int
    parent: int
    is_first: bool
    program: str
    arguments: list[str]
    directory: str
    job: str
    rank: int | None
    ranks: int | None
    launcher: Literal["pmi", "openmpi", "mvapich", "pmix", "slurm"] | None
    started: float

@type_check_only
class TracePattern(TypedDict):
    sizes: list[int]
    bytes: int
    unaligned: int
    ahead: int
    consecutive: int

@type_check_only
class Trace(TypedDict):
    process: TraceProcess | None
    records: list[
        tuple[Literal["opened"], int, str, str, Literal["created", "truncated", "existing", "inherited"], float]
        | tuple[Literal["written"], int, int, int, bool, bool, float]
        | tuple[Literal["placed"], int, str]
        | tuple[Literal["renamed"], str, str, float]
        | tuple[Literal["unlinked"], str, float]
        | tuple[Literal["ended"], float, int]
        | tuple[Literal["accessed"], str, str, TracePattern, TracePattern, float]
    ]
    torn: tuple[int, int] | None

def decode_trace(bytes: bytes) -> Trace: ...  # noqa: A002

@type_check_only
class ClientLine(TypedDict):
    window: int
    job: str
    uid: int
    device: str
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    stats: int
    opens: int
    closes: int
    others: int
    read_seconds: float
    write_seconds: float
    metadata_seconds: float

@type_check_only
class TraceWindows(TypedDict):
    store: int
    job: str
    uid: int
    window_seconds: float
    lines: list[ClientLine]
    missed_windows: int
    missed_operations: int

def trace_windows(bytes: bytes) -> TraceWindows | None: ...  # noqa: A002
def client_windows(
    folder: str | PathLike[str], *, window_seconds: float, uid: int, store: str, after: int, now_seconds: float
) -> tuple[list[ClientLine], int, int] | None: ...

@final
class Allocator:
    def __new__(cls, name: str = "balanced", *, seed: int = 0) -> Allocator: ...
    @property
    def name(self) -> str: ...
    def allocate(
        self,
        targets: Sequence[str],
        stripes: Sequence[int],
        stripe_bytes: Sequence[int],
        *,
        servers: Sequence[str] | None = None,
        speeds: Sequence[float] | None = None,
        loads_bytes: Sequence[float] | None = None,
        free_bytes: Sequence[int] | None = None,
        server_speeds: dict[str, float] | None = None,
        server_loads_bytes: dict[str, float] | None = None,
        programs: Sequence[int] | None = None,
    ) -> Allocation: ...

@final
class Allocation:
    @property
    def targets(self) -> list[list[str]]: ...
    @property
    def flat(self) -> bytes: ...
    @property
    def loads_bytes(self) -> list[float]: ...
    @property
    def cost(self) -> float: ...
    @property
    def bound(self) -> float | None: ...
    @property
    def ratio(self) -> float | None: ...

def allocator_names() -> list[str]: ...
def arrange(
    targets: Sequence[Sequence[str]],
    *,
    files: Sequence[int],
    components: Sequence[int],
    stripes: Sequence[Sequence[tuple[int, int, int]]],
    limits_bytes: dict[str, int],
) -> list[list[str]]: ...
def room_together(targets: Sequence[tuple[int, int, tuple[str, int] | None]]) -> tuple[int, int]: ...
def space_factors(free_bytes: Sequence[int], total_bytes: Sequence[int]) -> list[float]: ...
def speeds_and_loads(
    servers: Sequence[str],
    *,
    expected_bytes_per_second: float,
    health: Sequence[float | None],
    traffic_bytes_per_second: Sequence[float],
    total_bytes: Sequence[int],
    free_bytes: Sequence[int],
    busy: dict[str, tuple[float | None, float | None, float | None]],
    horizon_seconds: float,
    backlog_seconds: Sequence[float] | None = None,
    backlog_usual_seconds: float = 0.0,
) -> tuple[list[float], list[float], dict[str, float], dict[str, float]]: ...
def simulate(
    scenario: str,
    steps: dict[str, Any] | None = None,
    progress: Callable[[float, int, int, int], object] | None = None,
    *,
    chooser: Any = None,
    allocator: Any = None,
) -> str: ...
def step_columns() -> list[tuple[str, str]]: ...
def step_kinds() -> list[str]: ...
def refactor(
    array: Any,
    *,
    codec: str = "planes",
    tolerance: float | None = None,
    exact: bool = False,
    chunk_bytes: int = 1048576,
    base_bytes: int | None = None,
    ratios: Sequence[int] | None = None,
    fill: Any = None,
    threads: int = 1,
) -> bytes: ...
def refactored_header_bytes(head: bytes) -> int: ...
def mesh_order_by_coordinates(coordinates: Any) -> tuple[bytearray, list[int]]: ...
def mesh_order_by_connectivity(cells: Any, count: int) -> tuple[bytearray, list[int]]: ...

@final
class SealedChannel:
    ANSWER_BYTES: int
    def __new__(cls, server: int, credential: str) -> SealedChannel: ...
    @property
    def flight(self) -> bytes: ...
    def finish(self, answer: bytes) -> None: ...
    def seal(self, content: bytes) -> bytes: ...
    def open(self, received: bytes) -> bytes: ...

@final
class SlowdownPredictor:
    def __new__(cls, model: bytes) -> SlowdownPredictor: ...
    @property
    def bins(self) -> list[float]: ...
    def predict(
        self, workload: str, servers: int, columns: tuple[Any, Any, Any, Any, Any], *, first: int = 0
    ) -> list[
        tuple[
            int,
            int,
            Literal["trees", "ratio trees", "above quiet", "not known"],
            int,
            list[float],
            list[tuple[str, int | None]],
            list[float] | None,
        ]
    ]: ...

def window_features(
    servers: int, columns: tuple[Any, Any, Any, Any, Any], costs: tuple[Sequence[float], float]
) -> tuple[
    tuple[list[str], list[list[float]]],
    tuple[list[str], list[list[float]]],
    tuple[list[str], list[list[float]]],
]: ...

@final
class StoreClient:
    def __new__(cls, variables: dict[str, str]) -> StoreClient: ...
    def after_fork_in_child(self) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def open(self, path: str, flags: int, permissions: int) -> StoreFile: ...
    def read_file(self, path: str, start: int = 0, end: int | None = None) -> bytes: ...
    def write_file(self, path: str, data: Any, flags: int, permissions: int) -> None: ...
    def copy_file(self, source: str, target: str, permissions: int) -> int: ...
    def attributes(self, path: str, follow: bool) -> _Attributes: ...
    def list(self, path: str) -> list[tuple[str, int, _Attributes | None]]: ...
    def make_directory(self, path: str, permissions: int) -> None: ...
    def make_link(self, target: str, path: str) -> None: ...
    def link_target(self, path: str) -> str: ...
    def remove(self, path: str, directory: bool) -> None: ...
    def move_name(self, source: str, target: str, replace: bool) -> None: ...
    def change(
        self,
        path: str,
        *,
        permissions: int | None = None,
        size_bytes: int | None = None,
        accessed: int | None = None,
        modified: int | None = None,
    ) -> None: ...
    def xattr(self, path: str, name: str) -> bytes: ...
    def set_xattr(self, path: str, name: str, value: bytes) -> None: ...
    def xattr_names(self, path: str) -> builtins.list[str]: ...
    def remove_xattr(self, path: str, name: str) -> None: ...
    def room(self) -> tuple[int, int]: ...

@final
class StoreFile:
    def read_at(self, size: int, offset: int) -> bytes: ...
    def read_into(self, buffer: Any, offset: int) -> int: ...
    def write_at(self, data: Any, offset: int) -> int: ...
    def append(self, data: Any) -> tuple[int, int]: ...
    def size(self) -> int: ...
    def attributes(self) -> _Attributes: ...
    def truncate(self, size_bytes: int) -> None: ...
    def sync(self, data_only: bool) -> None: ...
    def close(self) -> None: ...

@final
class Refactored:
    def __new__(cls, head: bytes) -> Refactored: ...
    @property
    def version(self) -> int: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def codec(self) -> str: ...
    @property
    def header_bytes(self) -> int: ...
    @property
    def base_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def range(self) -> tuple[float, float]: ...
    @property
    def fill(self) -> list[float]: ...
    @property
    def chunks(self) -> list[tuple[int, int, float, float]]: ...
    @property
    def table(self) -> list[tuple[int, float, float, bool]]: ...
    def restore(
        self,
        parts: Sequence[tuple[int, Any]],
        *,
        region: Sequence[tuple[int, int]] | None = None,
        threads: int = 1,
    ) -> Restored: ...
    def bytes_for(
        self,
        *,
        rmse: float | None = None,
        max_error: float | None = None,
        psnr: float | None = None,
        relative: float | None = None,
    ) -> int: ...
    def ranges(
        self, region: Sequence[tuple[int, int]] | None = None, *, chunks: int | None = None
    ) -> list[tuple[int, int]]: ...

@final
class Restored:
    @property
    def data(self) -> bytearray: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def rmse(self) -> float: ...
    @property
    def max_error(self) -> float: ...
    @property
    def damaged(self) -> list[int]: ...
