"""Which predicted times are worth telling: those whose 90 % interval is narrow, by runs that were held out.

The interval of a class comes from the errors on the runs of that class alone, each predicted by models that did not
see it (conformal prediction by groups: Vovk, Lindsay, Nouretdinov and Gammerman 2003). Where the site's own models
tell a time to no use, the classes that come with Weir may; where they do not either, the time is not told.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from weir.provisioning.behaviour.classes import ClassTime
from weir.provisioning.learning.intervals import COVERAGE_TOLERANCE, LEVEL, PROGRAMS_ENOUGH

FACTOR_MAX = 3.0
"""Usual greatest ratio between the end of an interval and its prediction: a disk, an SSD and an NVMe device are about
three times apart, so a wider interval does not tell one from the next."""
RUNS_ENOUGH = PROGRAMS_ENOUGH
"""Fewest runs of a class whose worst error is not the interval by itself."""
FACTOR_TOLD_MAX = 1e6
"""Greatest ratio that is told."""


class Width(msgspec.Struct, frozen=True):
    """The interval of one model for the runs of one class."""

    runs: int
    """Runs of the class whose time was predicted without them."""
    half_width: float
    """Half width, in logarithms of seconds; at most that of `FACTOR_TOLD_MAX`, as JSON has no infinite numbers."""


def refusal(width: Width, factor_max: float) -> str:
    """Tell why the predictions for a class are of no use.

    Args:
        factor_max: Greatest ratio between the end of an interval and its prediction.

    Returns:
        The reason; empty where they are useful.
    """
    if width.runs < RUNS_ENOUGH:
        runs = "run" if width.runs == 1 else "runs"
        return f"{width.runs} {runs} with such a time, and {RUNS_ENOUGH} would do"
    factor = math.exp(width.half_width)
    if factor > factor_max:
        told = f"x{factor:.3g}" if factor < FACTOR_TOLD_MAX else f"more than x{FACTOR_TOLD_MAX:.0e}"
        return f"intervals of {told}, and x{factor_max:g} would do"
    return ""


def chosen(
    site: tuple[float, Width] | None, shipped: tuple[float, Width], factor_max: float
) -> "tuple[ClassTime | None, str]":
    """Choose the predictions for a class: the site's, else those of the classes that come with Weir, else none.

    Args:
        site: Seconds for a unit of work by the best model of the site's runs, and its interval; None where no model of
            the site was better than the classes that come with Weir.
        shipped: The same by the classes that come with Weir.
        factor_max: Greatest ratio between the end of an interval and its prediction.

    Returns:
        The prediction, or None and the reason.
    """
    reasons = []
    tried: tuple[tuple[Literal["site", "shipped"], tuple[float, Width] | None], ...]
    tried = (("site", site), ("shipped", shipped))
    for source, told in tried:
        if told is None:
            continue
        cost, width = told
        reason = refusal(width, factor_max)
        if not reason:
            factor = math.exp(width.half_width)
            return ClassTime(seconds_per_unit=cost, factor=factor, runs=width.runs, source=source), ""
        if width.runs < RUNS_ENOUGH:
            return None, reason
        reasons.append(reason if source == "site" else f"the classes that come with Weir: {reason}")
    return None, "; ".join(reasons)


def split_refusal(coverage: float, factor: float, groups: int, factor_max: float, what: str) -> str:
    """Tell why the predictions of a split are of no use.

    Args:
        coverage: Part of the held-out runs whose time lay in its interval.
        factor: Median ratio between the upper end of the interval and the prediction.
        groups: Held-out runs, or programs where each program is held out as a whole.
        factor_max: Greatest ratio.
        what: `run` or `program`.

    Returns:
        The reason; empty where they are useful.
    """
    if groups < RUNS_ENOUGH:
        counted = f"{groups} {what}s were" if groups != 1 else f"1 {what} was"
        return f"{counted} held out, and {RUNS_ENOUGH} would do"
    if coverage < LEVEL - COVERAGE_TOLERANCE:
        return f"intervals hold {coverage:.0%} of the runs, and {LEVEL:.0%} is asked"
    return refusal(Width(RUNS_ENOUGH, math.log(factor)), factor_max)


def summary(names: Sequence[str], refused: Sequence[str]) -> str:
    """Put the verdicts of all classes on one time into a sentence.

    Args:
        names: The sources of the useful predictions.
        refused: The reasons of the others.
    """
    count = len(names) + len(refused)
    shipped = sum(each == "shipped" for each in names)
    by = f" ({shipped} by the classes that come with Weir)" if shipped else ""
    rest = f"; of no use for the others: {refused[0]}" if refused else ""
    more = f", and {len(set(refused)) - 1} more reasons (see the report)" if len(set(refused)) > 1 else ""
    return f"useful for {len(names)} of {count} classes{by}{rest}{more}"
