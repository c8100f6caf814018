"""Plans of data collection: which programs are slowed by which others, on which store."""

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from weir.interference.errors import InterferenceError
from weir.interference.kernels import KERNELS
from weir.interference.labels import NOISE_SECONDS, Weighting

VERSION = 1
"""Version of plans."""
CASES_MAX = 10_000
"""Most runs of a plan."""
PARALLEL_MAX = 64
"""Most runs at the same time: each has a store, a target and its interferers."""
STORE = """\
version = 1
policy = "fifo"

[[server]]
metadata_speed = { fixed = "2ms" }

[[server.target]]
backend = "ram"
capacity = "512MiB"
speed = { read = "64MB/s", write = "64MB/s", fixed = "2ms" }

[[server.target]]
backend = "ram"
capacity = "512MiB"
speed = { read = "64MB/s", write = "64MB/s", fixed = "2ms" }
"""
"""The store of a plan that names none: two targets of an emulated speed, which is the same in each run."""

_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class Program(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A kernel, or a command in whose arguments `{folder}` stands for its folder on the store."""

    name: _Name
    kernel: str | None = None
    command: tuple[str, ...] = ()
    rounds: _Count = 20
    pause_seconds: _Seconds = 0.0
    seconds: _Seconds = 0.0
    """Time after which a kernel that is a target ends, also before its rounds do; 0 sets none. A run among others then
    takes as long as one alone, and has fewer operations."""


class Interferer(Program, frozen=True, kw_only=True):
    """A program that slows others: as many instances as one of the numbers says are active all the time."""

    instances: tuple[_Count, ...] = (1,)


class Plan(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A plan."""

    version: int
    target: Annotated[tuple[Program, ...], msgspec.Meta(min_length=1)]
    interferer: tuple[Interferer, ...] = ()
    store: str | None = None
    """A cluster.toml, from the plan's folder; None is `STORE`."""
    repeats: _Count = 1
    """Runs of each target with each number of instances of each interferer."""
    references: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    """Runs of each target alone with which the others are compared: the median of them is an operation's time alone."""
    parallel: Annotated[int, msgspec.Meta(ge=1, le=PARALLEL_MAX)] = 1
    """Runs at the same time, each on a store of its own."""
    quiet_repeats: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """Further runs of each target alone, whose labels are close to 1."""
    label: Weighting = "time"
    """Weight of an operation's slowdown in the label of its window."""
    noise_seconds: _Seconds = NOISE_SECONDS
    """Operations that are shorter than this in both runs are in no label."""
    noise_max: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.05
    """Windows in which processors were waited for longer than this part of the time alone are dropped: the machine was
    busy with other things."""
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 600.0
    """Longest time of a run."""


class Case(msgspec.Struct, frozen=True):
    """One run."""

    name: str
    target: Program
    interferer: Interferer | None
    instances: int
    is_reference: bool


class Loaded(msgspec.Struct, frozen=True):
    """A plan that was read."""

    plan: Plan
    store: str
    """Text of the store's cluster.toml."""
    digest: str
    """Digest of the plan and the store."""
    policy: str | None = None
    """Policy in place of the store's."""
    seed: int | None = None
    """Seed of simulated runs; None for runs on real stores."""


def read(path: Path) -> Loaded:
    """Read a plan.

    Args:
        path: A TOML file.

    Raises:
        InterferenceError: The file cannot be read, or is no plan.
    """
    try:
        text = path.read_text()
        plan = msgspec.convert(tomllib.loads(text), Plan, strict=True)
        store = STORE if plan.store is None else (path.parent / plan.store).read_text()
    except (OSError, ValueError, msgspec.ValidationError, RecursionError) as error:
        raise InterferenceError(f"{path} is no plan: {error}", hint="see docs/guides/interference.md") from error
    _check(path, plan)
    return Loaded(plan, store, hashlib.sha256(f"{text}\0{store}".encode()).hexdigest())


def _check(path: Path, plan: Plan) -> None:
    if plan.version != VERSION:
        raise InterferenceError(f"{path} is of version {plan.version}, and version {VERSION} is known")
    for kind, programs in (("target", plan.target), ("interferer", plan.interferer)):
        names = [program.name for program in programs]
        if len(set(names)) != len(names):
            raise InterferenceError(f"{path} has two programs of one name as {kind}")
    for program in (*plan.target, *plan.interferer):
        if (program.kernel is None) == (not program.command):
            raise InterferenceError(f"{path}: {program.name} needs either a kernel or a command")
        if program.kernel is not None and program.kernel not in KERNELS:
            raise InterferenceError(
                f"{path}: {program.name} has no kernel {program.kernel!r}", hint=f"there are {', '.join(KERNELS)}"
            )
    if len(cases(plan)) > CASES_MAX:
        raise InterferenceError(f"{path} asks for more than {CASES_MAX:,} runs")


def under(loaded: Loaded, policy: str) -> Loaded:
    """The same plan under another policy.

    Args:
        policy: A policy, as in cluster.toml.
    """
    digest = hashlib.sha256(f"{loaded.digest}\0{policy}".encode()).hexdigest()
    return msgspec.structs.replace(loaded, policy=policy, digest=digest)


def simulated(loaded: Loaded, seed: int) -> Loaded:
    """The same plan for simulated stores.

    Args:
        seed: Seed of all dice.

    Raises:
        InterferenceError: A program of the plan is a command.
    """
    for program in (*loaded.plan.target, *loaded.plan.interferer):
        if program.kernel is None:
            raise InterferenceError(
                f"{program.name} is a command, and its operations are not known before it runs",
                hint="give a kernel in its place, or collect on real stores",
            )
    digest = hashlib.sha256(f"{loaded.digest}\0simulated {seed}".encode()).hexdigest()
    return msgspec.structs.replace(loaded, seed=seed, digest=digest)


def references(plan: Plan, target: Program) -> list[str]:
    """Name the runs alone with which those of a target are compared."""
    return [f"{target.name}.alone", *(f"{target.name}.alone.{number}" for number in range(1, plan.references))]


def cases(plan: Plan) -> list[Case]:
    """List the runs of a plan.

    Returns:
        The runs, each target's references first.
    """
    found: list[Case] = []
    for target in plan.target:
        for name in references(plan, target):
            found.append(Case(name, target, None, 0, is_reference=True))
        for number in range(plan.quiet_repeats):
            found.append(Case(f"{target.name}.quiet.{number}", target, None, 0, is_reference=False))
        for other in plan.interferer:
            for instances in other.instances:
                name = f"{target.name}.{other.name}.{instances}"
                repeats = range(plan.repeats)
                found += [Case(f"{name}.{number}", target, other, instances, is_reference=False) for number in repeats]
    return found
