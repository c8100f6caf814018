"""The kinds of work for which objectives are meant, and the part of a job's I/O time that each of them is."""

from collections.abc import Mapping

from weir.provisioning.behaviour.identity import Identity
from weir.provisioning.objectives.sslos import Purpose
from weir.provisioning.planning.needs import REFERENCE_RATES, SMALL_LEFT, small_part, work


def purposes(identity: Identity) -> Mapping[Purpose, float]:
    """Divide a job's I/O time by the kinds of its work, as one server with an NVMe device would take it.

    Bytes at random places count as `random`; of the others those of small calls as `small`, and those of large ones as
    `reads` or `writes`.

    Returns:
        Parts from 0 to 1 whose sum is 1; empty for a job without I/O.
    """
    moved = {way: work(identity, way) / REFERENCE_RATES[way] for way in ("read", "write")}
    small = small_part(identity)
    in_order = identity.sequential_fraction if identity.read_operations + identity.write_operations else 1.0
    large = max(1.0 - small, 0.0)
    seconds: dict[Purpose, float] = {
        "reads": moved["read"] * large * in_order,
        "writes": moved["write"] * large * in_order,
        "small": sum(moved.values()) * small / SMALL_LEFT * in_order,
        "random": sum(moved.values()) * (large + small / SMALL_LEFT) * (1.0 - in_order),
        "metadata": work(identity, "metadata") / REFERENCE_RATES["metadata"],
    }
    whole = sum(seconds.values())
    return {name: each / whole for name, each in seconds.items()} if whole > 0 else {}


def purpose_part(parts: Mapping[Purpose, float], purpose: Purpose) -> float:
    """The part of a job's I/O time for which an objective is meant.

    Returns:
        A part from 0 to 1; 1 for an objective that is meant for any work, or for little of any.
    """
    return 1.0 if purpose in ("", "light") else parts.get(purpose, 0.0)
