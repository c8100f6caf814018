"""Interference factors by the outcomes of jobs that shared a store.

A run beside others is compared with the runs of the same job alone on such storage: without any, nothing tells whether
the storage or the neighbours were slow. The table's factor is what is expected before a run.
"""

import math
from collections.abc import Sequence

import msgspec

from weir.provisioning.outcomes.estimates import MixedModel
from weir.provisioning.outcomes.outcome import KINDS, Outcome, measured_rate, silence
from weir.provisioning.planning.corrections import Corrections
from weir.provisioning.planning.needs import rate
from weir.provisioning.sharing.interference_factors import Factor, FactorTable, Neighbour, pair_slowdown

_Pair = tuple[str, str]
"""The class that is slowed down, and the one beside it."""
SLOWDOWN_MIN = 0.5
"""A run beside others that took less than this part of its time alone was no run of the same work: it says nothing."""


def learned_factors(table: FactorTable, outcomes: Sequence[Outcome], corrections: Corrections) -> FactorTable:
    """Correct factors by the runs of jobs that shared a store.

    Args:
        table: Factors that hold before any run.
        outcomes: The outcomes, the latest last.
        corrections: Corrections by the same outcomes.

    Returns:
        The table. `slowdown` of a pair that was met is the median that is expected now, and `slowdown_max` the end of
        the interval in which four in five further runs lie.
    """
    found: dict[_Pair, list[float]] = {}
    for each in outcomes:
        for pair, slowdown in _slowdowns(each, corrections):
            found.setdefault(pair, []).append(math.log(slowdown))
    if not found:
        return table

    def expected(pair: _Pair) -> float:
        known = [each.slowdown for each in table.factors if (each.one, each.other) == pair]
        worst = pair_slowdown(Neighbour(behaviour_class=pair[0]), Neighbour(behaviour_class=pair[1]), table)
        return math.log(max(known) if known else worst if math.isfinite(worst) else 2.0)

    model = MixedModel(found, prior=expected)
    changed = {pair: model.of(pair) for pair in found}
    kept = tuple(each for each in table.factors if (each.one, each.other) not in changed)
    made = tuple(
        Factor(
            one=one,
            other=other,
            same_node=True,
            processes=1,
            slowdown=max(1.0, estimate.ratio),
            runs=estimate.runs,
            slowdown_max=max(1.0, estimate.high),
        )
        for (one, other), estimate in sorted(changed.items())
    )
    return msgspec.structs.replace(table, factors=(*kept, *made))


def _slowdowns(outcome: Outcome, corrections: Corrections) -> Sequence[tuple[_Pair, float]]:
    """The slowdown of a job beside each of its neighbours; the excess is divided equally among them."""
    classes = [each.behaviour_class for each in outcome.neighbours]
    if silence(outcome) or not outcome.behaviour_class or not classes or not all(classes):
        return ()
    alone = seconds = 0.0
    for kind in KINDS:
        if measured_rate(outcome, kind) is None:
            continue
        solo = rate(corrections.alone(outcome), kind)
        if solo is None:
            return ()
        calls = outcome.calls[kind]
        alone += (calls.operations if kind == "metadata" else calls.bytes) / solo
        seconds += calls.seconds
    if alone <= 0 or seconds < SLOWDOWN_MIN * alone:
        return ()
    excess = (seconds / alone - 1.0) / len(classes)
    return [((outcome.behaviour_class, each), max(1.0, 1.0 + excess)) for each in classes]
