"""The settings that a search may change: the progressive layout (Tarazu, section 8.6), and parameters of the policy.

A layout is a number of components, the exponent of the first component's end, the octaves from each end to the next,
and a number of stripes for each component, so every choice of numbers is a layout. All numbers are always drawn, also
those of components that a layout does not have: a search over fixed dimensions can learn how they go together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from weir import _core
from weir.simulation.tuning.errors import TuningError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from weir.simulation.scenario import Scenario

PARTS = ("layout", "scheduler", "lambda", "policy", "weights", "allocator")
"""The parts of the settings that can be searched."""
COMPONENTS_MAX = 4
"""Most components: the paper's layouts have three and four."""
_END_LOG2_MIN, _END_LOG2_MAX = 20, 36
"""The first component ends between 1 MiB and 64 GiB."""
_OCTAVES_MAX = 8
"""Each further component ends at most at 256 times the end of the one before."""
_STRIPE_LOG2_MIN, _STRIPE_LOG2_MAX = 16, 24
"""Stripes are of 64 KiB to 16 MiB."""
_LAMBDA_SECONDS = (0.01, 10.0)
_WEIGHT = (1 / 8, 8.0)
_WEIGHTED_MAX = 8
"""Most groups whose weights are searched: beyond, trials would have to be many more."""
_SCHEDULERS = ("virtual-time", "statistical-token", "gift", "tbf")


@dataclass(frozen=True)
class Space:
    """The settings of one search."""

    parts: tuple[str, ...]
    """Searched parts, of `PARTS`."""
    counts: tuple[int, ...]
    """Numbers of stripes that a component may have; the last is all targets."""
    policies: tuple[str, ...]
    """Policies to choose from; empty where the policy is not searched."""
    holders: tuple[str, ...]
    """Groups or users whose weights are searched."""
    holder_kind: str
    """`group` or `user`."""
    shares: tuple[dict[str, Any], ...]
    """The scenario's own `[[share]]` tables, which stay beside the searched weights."""

    def distributions(self) -> "dict[str, BaseDistribution]":
        """Describe the dimensions of the space.

        Returns:
            The dimensions by their names.
        """
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        found: dict[str, BaseDistribution] = {}
        if "layout" in self.parts:
            found["components"] = IntDistribution(1, COMPONENTS_MAX)
            found["end_log2"] = IntDistribution(_END_LOG2_MIN, _END_LOG2_MAX)
            for place in range(1, COMPONENTS_MAX - 1):
                found[f"octaves_{place}"] = IntDistribution(1, _OCTAVES_MAX)
            for place in range(COMPONENTS_MAX):
                found[f"count_{place}"] = IntDistribution(0, len(self.counts) - 1)
            found["stripe_log2"] = IntDistribution(_STRIPE_LOG2_MIN, _STRIPE_LOG2_MAX)
        if "scheduler" in self.parts:
            found["scheduler"] = CategoricalDistribution(_SCHEDULERS)
        if "lambda" in self.parts:
            found["lambda_seconds"] = FloatDistribution(*_LAMBDA_SECONDS, log=True)
        if self.policies:
            found["policy"] = CategoricalDistribution(self.policies)
        if "allocator" in self.parts:
            found["allocator"] = CategoricalDistribution(tuple(_core.allocator_names()))
        for holder in self.holders:
            found[f"weight_{holder}"] = FloatDistribution(*_WEIGHT, log=True)
        return found

    def changes(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a point of the space into changes of a scenario.

        Args:
            numbers: A value for each dimension.

        Returns:
            New values by the scenario's keys.
        """
        changes: dict[str, Any] = {}
        if "layout" in self.parts:
            changes |= layout_changes(self._layout(numbers))
        for key in ("scheduler", "policy", "allocator"):
            if key in numbers:
                changes[key] = numbers[key]
        if changes.get("policy") == "fifo":
            # The policy is its own scheduler.
            changes["scheduler"] = "fifo"
        if "lambda_seconds" in numbers:
            changes["lambda"] = f"{round(numbers['lambda_seconds'] * 1000)}ms"
        if self.holders:
            changes["share"] = [*self.shares, *self._weights(numbers)]
        return changes

    def numbers_of_layout(
        self, components: Sequence[tuple[int | None, int]], stripe_bytes: int
    ) -> dict[str, int] | None:
        """Find a layout in the space.

        Args:
            components: End in bytes (None: the end of the file) and stripes (-1: all targets) of each component.

        Returns:
            The values of the layout's dimensions; None where the space does not have the layout.
        """
        ends = [end for end, _ in components if end is not None]
        logs = [end.bit_length() - 1 for end in ends]
        counts = [self.counts[-1] if count == -1 else count for _, count in components]
        numbers = {
            "components": len(components),
            "end_log2": logs[0] if logs else _END_LOG2_MIN,
            **{f"octaves_{place}": 1 for place in range(1, COMPONENTS_MAX - 1)},
            **{f"octaves_{place}": logs[place] - logs[place - 1] for place in range(1, len(logs))},
            **{f"count_{place}": 0 for place in range(COMPONENTS_MAX)},
            "stripe_log2": stripe_bytes.bit_length() - 1,
        }
        if len(components) > COMPONENTS_MAX or any(count not in self.counts for count in counts):
            return None
        numbers |= {f"count_{place}": self.counts.index(count) for place, count in enumerate(counts)}
        is_exact = all(1 << log == end for log, end in zip(logs, ends, strict=True))
        is_within = all(
            dimension._contains(numbers[name]) for name, dimension in self.distributions().items() if name in numbers
        )
        return numbers if is_exact and is_within and 1 << numbers["stripe_log2"] == stripe_bytes else None

    def _layout(self, numbers: Mapping[str, Any]) -> tuple[tuple[tuple[int | None, int], ...], int]:
        components = numbers["components"]
        ends: list[int | None] = []
        log2 = numbers["end_log2"]
        for place in range(components - 1):
            log2 += numbers[f"octaves_{place}"] if place else 0
            ends.append(1 << log2)
        ends.append(None)
        counts = [self.counts[numbers[f"count_{place}"]] for place in range(components)]
        return tuple(zip(ends, counts, strict=True)), 1 << numbers["stripe_log2"]

    def _weights(self, numbers: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {self.holder_kind: holder, "weight": float(f"{numbers[f'weight_{holder}']:.3g}")} for holder in self.holders
        ]


def space_of(scenario: "Scenario", parts: Sequence[str], *, policies: Sequence[str], shares: Sequence[Any]) -> Space:
    """Make the space of a search.

    Args:
        scenario: The scenario whose settings are the default.
        parts: Parts to search, of `PARTS`.
        policies: Policies to choose from beside the orders of the default's levels.
        shares: The scenario's `[[share]]` tables.

    Raises:
        TuningError: A part is unknown, or there is nothing to choose from.
    """
    for part in parts:
        if part not in PARTS:
            raise TuningError(f"no part of the settings is called {part}", hint=f"there are {', '.join(PARTS)}")
    if not parts:
        raise TuningError("there is nothing to search", hint=f"name parts of {', '.join(PARTS)}")
    holders, kind = _holders(scenario) if "weights" in parts else ((), "group")
    return Space(
        parts=tuple(part for part in PARTS if part in parts),
        counts=_counts(scenario.topology.targets),
        policies=_policies(scenario.policy, policies) if "policy" in parts else (),
        holders=holders,
        holder_kind=kind,
        shares=tuple(share for share in shares if not ("weight" in share and share.get(kind) in holders)),
    )


def layout_changes(layout: tuple[Sequence[tuple[int | None, int]], int]) -> dict[str, Any]:
    """Spell a layout as changes of a scenario.

    Args:
        layout: Components as for `Space.numbers_of_layout`, and the bytes of a stripe.

    Returns:
        New values by the scenario's keys; the layout's numbers of stripes beat the scenario's own.
    """
    components, stripe_bytes = layout
    return {"layout.components": spelling(components, stripe_bytes), "layout.stripe_size": stripe_bytes}


def spelling(components: Sequence[tuple[int | None, int]], stripe_bytes: int) -> str:
    """Spell a layout as `lfs setstripe` does.

    Args:
        components: Components as for `Space.numbers_of_layout`.

    Returns:
        The text.
    """
    from weir.placement.tuning import spell

    size = spell(stripe_bytes)
    if len(components) == 1:
        return f"-c {components[0][1]} -S {size}"
    return " ".join(f"-E {'-1' if end is None else spell(end)} -c {count} -S {size}" for end, count in components)


def _counts(targets: int) -> tuple[int, ...]:
    """Powers of two and their halves in between (1, 2, 3, 4, 6, 8, 12, ...) below the number of targets, and that."""
    found = {targets}
    power = 1
    while power < targets:
        found |= {count for count in (power, power * 3 // 2) if count < targets}
        power *= 2
    return tuple(sorted(found))


def _policies(default: str, more: Sequence[str]) -> tuple[str, ...]:
    """The orders of a policy's levels that are policies, and others by name."""
    levels = _core.policy_levels(default)
    orders = ["-".join(order) + "-fair" for order in permutations(levels)] if levels else []
    found: dict[str, None] = {default: None}
    for name in (*orders, *more):
        try:
            found[_core.parse_sharing(name, None)[0]] = None
        except ValueError as error:
            if name in more:
                raise TuningError(f"{name} is no policy: {error}", hint="see `weir policy set --help`") from error
    if len(found) < 2:
        raise TuningError(
            f"the policy {default} has one order of levels, so there is nothing to choose from",
            hint="name other `policies`",
        )
    return tuple(found)


def _holders(scenario: "Scenario") -> tuple[tuple[str, ...], str]:
    """The groups of the jobs, or their users where all are of one group."""
    for kind in ("group", "user"):
        names = tuple(sorted({getattr(job, kind) for job in scenario.workload.jobs}))
        if len(names) > _WEIGHTED_MAX:
            raise TuningError(
                f"the jobs are of {len(names)} {kind}s, and weights are searched for {_WEIGHTED_MAX} at most",
                hint="leave weights out of the search",
            )
        if len(names) > 1:
            # The weight of the first stays 1: weights count by their ratios.
            return names[1:], kind
    raise TuningError("all jobs are of one group and one user, so no weight changes anything", hint="leave weights out")
