"""A plan in words: class, fitness, coverage, satisfaction, runner-up, and the ground of each choice."""

from collections.abc import Iterator

from weir.amounts import rate_text, size_text
from weir.provisioning.deployments import capacity_bytes
from weir.provisioning.objectives.sslos import System
from weir.provisioning.planning.mapping import ALIKE, Mapping, Path
from weir.provisioning.planning.needs import KINDS, Kind, rate, weights
from weir.provisioning.planning.performance import Basis
from weir.provisioning.planning.planner import Plan
from weir.provisioning.planning.purposes import purposes
from weir.provisioning.planning.selection import Rival

_PART_MIN = 0.005
"""Least part of the time that is named."""
_BASES: dict[Basis, str] = {
    "measured": "measurements of such systems",
    "simulated": "simulated runs of such systems",
    "another system": "measurements of another product on such devices",
    "devices": "the rates of the devices in the resource model",
    "assumed": "usual rates of such devices, because neither the resource model nor a table has any",
}

_NAMES_SHOWN = 5
_WORK = {"read": "reads", "write": "writes", "metadata": "metadata operations"}
_WORK_TOLD = 0.1
"""Part by which a job's work has to differ from that of its log to be told."""


def explanation(plan: Plan) -> Iterator[str]:
    """Tell the way from a job to its storage.

    Yields:
        Lines of text.
    """
    yield from _class(plan)
    yield from _objective(plan)
    yield from _deployment(plan)
    yield from _measured(plan)


def left_out(mapping: Mapping) -> str:
    """Tell which objectives a job's semantics left out.

    Returns:
        A sentence without its end; empty where none was left out.
    """
    if not mapping.left_out:
        return ""
    lacks = sorted({missing for each in mapping.left_out.values() for missing in each})
    names = list(mapping.left_out)
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:_NAMES_SHOWN])}{more} {verb} left out: the job needs {', '.join(lacks)}"


def _class(plan: Plan) -> Iterator[str]:
    mapping = plan.mapping
    nearest = mapping.fitnesses[0]
    apart = f"; it differs most in {', '.join(nearest.furthest)}" if nearest.furthest else ""
    yield f"The job's I/O identity is {plan.identity.name}."
    yield f"The nearest class is {nearest.name}, with a fitness of {nearest.fitness:.3f} (0 to 1){apart}."
    if mapping.is_new_class:
        yield "That is too far, so the job is a class of its own."
    yield from _times(plan)
    parts = sorted(purposes(plan.identity).items(), key=lambda each: -each[1])
    if parts:
        shares = ", ".join(f"{part:.0%} {name}" for name, part in parts if part >= _PART_MIN)
        yield f"By the time on one server with an NVMe device, its I/O is {shares}."
    yield f"Its I/O may take {mapping.allowed_seconds:.3g} s: a twentieth of its time, or 1 s."


def _times(plan: Plan) -> Iterator[str]:
    """The times that the class predicts: those of the runs that it was made from, on the storage that they used."""
    for each in plan.times:
        by = "runs of the class" if each.source == "site" else "runs of the class, by the classes that come with Weir"
        yield (
            f"On the storage of those runs, its {_WORK[each.name]} would take {each.seconds:.3g} s in all processes "
            f"together ({each.low_seconds:.3g} to {each.high_seconds:.3g} s for 90 % of {each.runs} {by})."
        )
    for name, reason in plan.times_refused.items():
        yield f"The class's prediction of the {name} time is of no use: {reason}."


def _objective(plan: Plan) -> Iterator[str]:
    mapping, best = plan.mapping, plan.mapping.best
    if mapping.left_out:
        yield f"{left_out(mapping)}."
    if mapping.is_default:
        yield (
            f"No objective is near: the best satisfaction is {best.satisfaction:.3f}, so {mapping.sslo.name} is used, "
            "the default."
        )
    else:
        by = "the job's own record" if best.behaviour_class == plan.identity.name else best.behaviour_class
        yield (
            f"The objective is {mapping.sslo.name}, by {by}: coverage {best.coverage:.3f} (1 where it does the I/O in "
            "the time allowed, 0 where it takes 10,000 times as long), "
            f"satisfaction {best.satisfaction:.3f} (fitness times coverage)."
        )
        yield (
            f"On such a system the job's I/O takes {best.io_seconds:.3g} s, so that it gives "
            f"{mapping.own_coverage:.3f} of what the job itself needs."
        )
    if mapping.runner_up is not None:
        yield _runner_up(mapping.runner_up, best)


def _runner_up(other: Path, best: Path) -> str:
    words = (
        f"The runner-up is {other.sslo}: satisfaction {other.satisfaction:.3f}, {other.io_seconds:.3g} s of I/O, "
        f"{other.cost:.3g} node-hours an hour beside {best.cost:.3g}"
    )
    if best.satisfaction - other.satisfaction > ALIKE:
        return f"{words}; it satisfies less."
    if other.cost > best.cost:
        return f"{words}; both satisfy, and the cheaper one was chosen."
    if other.purpose_part == best.purpose_part:
        return f"{words}; both satisfy and cost alike, and the faster one was chosen."
    return (
        f"{words}; both satisfy and cost alike, and it is meant for {other.purpose_part:.0%} of the I/O time, the "
        f"chosen one for {best.purpose_part:.0%}."
    )


def _deployment(plan: Plan) -> Iterator[str]:
    selected = plan.selected
    candidate, deployment = selected.candidate, selected.candidate.deployment
    parts = weights(plan.identity)
    needed = [(kind, plan.needs.rate(kind)) for kind in KINDS if parts.get(kind, 0.0) >= _PART_MIN]
    wanted = [f"{kind} {_rate(kind, need)}" for kind, need in needed if need is not None]
    if wanted:
        yield f"The storage should reach: {', '.join(wanted)}."
    if selected.policy != plan.wishes.policy:
        yield f"The policy {plan.wishes.policy} found nothing, so {selected.policy} chose."
    for reason in selected.passed_over:
        yield f"The existing deployment {reason}."
    system = deployment.system
    if deployment.joins:
        yield f"The job joins {deployment.joins}, with a slowdown of {deployment.slowdown:.2f}."
    else:
        targets = f" with {system.targets_per_server} devices each" if system.targets_per_server > 1 else ""
        room = capacity_bytes(deployment) - deployment.size_bytes
        shared = (
            f"later jobs may share it, and find {size_text(room)} beside this job"
            if deployment.shareable
            else "no later job shares it"
        )
        yield (
            f"The policy {selected.policy} chose {system.servers} {_servers(system.servers)} of {system.kind} on "
            f"{system.device}{targets}, for {size_text(deployment.size_bytes)}; {shared}."
        )
    if system.settings and not deployment.joins:
        yield f"Its configuration is {', '.join(f'{name}={value}' for name, value in system.settings.items())}."
    reached = [f"{kind} {_rate(kind, got)}" for kind in KINDS if (got := rate(deployment.expected, kind)) is not None]
    yield (
        f"Expected for this job's calls: {', '.join(reached) or 'nothing known'}; its I/O takes "
        f"{candidate.io_seconds:.3g} s. The ground is {_BASES[candidate.basis]}."
    )
    if candidate.reached < 1:
        yield f"That is {candidate.reached:.0%} of the needed speed: more devices are not free, or bring nothing."
    yield from _waits(plan)
    yield f"The price is {deployment.price:.4g} node-hours."
    if selected.rival is not None:
        yield _trade(plan, selected.rival)


def _waits(plan: Plan) -> Iterator[str]:
    candidate = plan.selected.candidate
    if candidate.wait_seconds > 0:
        held = f": other jobs hold {', '.join(candidate.waits)}" if candidate.waits else ""
        yield f"The job waits {candidate.wait_seconds:.0f} s for it{held}."
        return
    later = [each for each in plan.alternatives if each.wait_seconds > 0 and each.io_seconds < candidate.io_seconds]
    for each in later[:1]:
        yield (
            f"In {each.wait_seconds:.0f} s there would be {_system(each.deployment.system)}, with "
            f"{each.io_seconds:.3g} s of I/O; a `window` lets the job wait for it."
        )


def _trade(plan: Plan, rival: Rival) -> str:
    """The price of the time between the cheapest storage that is enough and the fastest."""
    selected = plan.selected
    own = selected.candidate.io_seconds, selected.candidate.deployment.price
    other = rival.io_seconds, rival.price
    (slow, low), (fast, high) = (other, own) if rival.policy == "cost" else (own, other)
    wait = f", after {rival.wait_seconds:.0f} s" if rival.wait_seconds > 0 else ""
    computing = plan.identity.seconds * (1.0 - plan.identity.io_fraction)
    percent = 100.0 * (slow - fast) / (computing + slow) if computing + slow > 0 else 0.0
    words = f"The policy {rival.policy} would take {_system(rival.system)}{wait}: {rival.io_seconds:.3g} s of I/O for "
    words += f"{rival.price:.4g} node-hours. "
    if percent <= 0 or high <= low:
        return words + "Its price buys no time."
    times = f"{high / low:.3g} times the price" if low > 0 else f"{high:.4g} node-hours"
    each = f", {(high - low) / percent:.3g} node-hours for each percent"
    return words + f"The fastest storage saves {percent:.3g} % of the job's time for {times}{each}."


def _system(system: System) -> str:
    return f"{system.servers} {_servers(system.servers)} on {system.device}"


def _servers(count: int) -> str:
    return "server" if count == 1 else "servers"


def _rate(kind: Kind, rate: float) -> str:
    return f"{rate:.4g} operations/s" if kind == "metadata" else rate_text(rate)


def _measured(plan: Plan) -> Iterator[str]:
    """The results of earlier runs on the chosen storage."""
    learned, candidate = plan.learned, plan.selected.candidate
    if learned is None:
        return
    span = f"{learned.low:.2g} to {learned.high:.2g} of what was predicted"
    if learned.runs:
        yield f"Measured {_count(learned.runs)} here, {span} by the tables; the plan takes {learned.ratio:.2g} of it."
    elif learned.other_jobs:
        others = f"{learned.other_jobs} other {'job' if learned.other_jobs == 1 else 'jobs'}"
        device = candidate.deployment.system.device
        yield f"This job was not measured here; by {others} on {device}, its I/O takes {span}."
    if learned.silent_runs:
        yield f"{_runs(learned.silent_runs)} here told nothing: {learned.silent_reason}."
    for verb, part in (("reads", learned.read_work), ("writes", learned.write_work)):
        if abs(part - 1.0) > _WORK_TOLD:
            yield f"By its own runs, the job {verb} {part:.2g} times the bytes of its log."


def _count(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _runs(count: int) -> str:
    return "One run" if count == 1 else f"{count} runs"
