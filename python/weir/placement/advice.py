"""Advice on layouts that do not fit a program's use of its files: each with a figure and a remedy."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path

from weir import _core
from weir.amounts import size_text
from weir.placement.emit import shell_word
from weir.placement.tuning import spell
from weir.tracing.darshan import LoggedFile
from weir.tracing.records import SHARED, Creation

SHARED_SHARE_BYTES = 64 << 20
"""Bytes of a shared file that justify a target of their own: several ranks wait for each other's locks on one."""
OWN_SHARE_BYTES = 64 << 30
"""Bytes of a file of one process that justify a target of their own: one target is as fast as one process, but more
bytes fill a target alone."""
_STRIPE_BYTES_MIN = 1 << 20
_ALIGNMENT_BYTES = 64 << 10
"""Unit of Lustre's stripe sizes."""
_STRIPE_BYTES_MAX = 4 << 30
_STRADDLING_MIN = 0.5
"""Part of accesses on two stripes from which a change of the stripe size pays."""
_UNALIGNED_MIN = 0.5
"""Part of accesses that begin within a block from which an alignment pays."""
_ACCESSES_MIN = 64
"""Least number of accesses for advice: fewer cost too little."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of one file: its size, its ranks, its accesses and its layout."""

    path: str
    size_bytes: int
    processes: int
    """Number of ranks that used the file."""
    stripes: int
    """Number of targets that held the file."""
    stripe_bytes: int
    """Stripe size; 0 where it is not known."""
    transfer_bytes: int = 0
    """Size of the most common access; 0 where it is not known."""
    accesses: int = 0
    """Number of reads and writes."""
    unaligned: int = 0
    """Accesses whose offset is no multiple of the file system's block."""
    is_written: bool = True
    """Whether the run wrote the file; a file that the run only read exists already."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of the layout of files, and its remedy."""

    kind: str
    """`narrow`, `wide`, `own-wide`, `stripe-size` or `unaligned`."""
    place: str
    """The file, or the folder of several."""
    files: int
    bytes_max: int
    """Size of the largest file."""
    present: str
    """Present layout of the files."""
    reason: str
    layout: str | None
    """A fitting layout, in the spelling of `lfs setstripe`; None where no layout mends the fault."""
    lfs: str
    """The command on Lustre, or the change of the program where no layout mends the fault."""
    weir: str
    """The command on a Weir store; as `lfs` where no layout mends the fault."""


def usages_of_log(files: Iterable[LoggedFile]) -> list[Usage]:
    """Collect the files of a Darshan log whose layout and size it knows.

    Args:
        files: The log's records of files.

    Returns:
        The use of each such file.
    """
    usages = []
    for file in files:
        size = max(file.size_bytes, file.size_read_bytes)
        reached = [part for index, part in enumerate(file.components) if index == 0 or _begin(file, index) < size]
        if not reached or size == 0:
            continue
        usages.append(
            Usage(
                path=file.path,
                size_bytes=size,
                processes=file.processes,
                stripes=max(len(part.targets) for part in reached),
                stripe_bytes=reached[-1].stripe_bytes,
                transfer_bytes=file.transfer_bytes,
                accesses=file.reads + file.writes,
                unaligned=file.unaligned,
                is_written=file.writes > 0,
            )
        )
    return [usage for usage in usages if usage.stripes > 0]


def usages_of_creations(creations: Iterable[Creation], *, targets: int) -> list[Usage]:
    """Collect the files of a trace whose layout it knows.

    Args:
        creations: Files that the run made.
        targets: Number of targets of the system, for a layout over all of them.

    Returns:
        The use of each such file.
    """
    usages = []
    for creation in creations:
        if creation.layout is None or creation.size_bytes == 0:
            continue
        parts = [part for part in _core.parse_layout(creation.layout) if part["start"] < creation.size_bytes]
        counts = [1 if part["stripes"] is None else part["stripes"] for part in parts]
        usages.append(
            Usage(
                path=creation.path,
                size_bytes=creation.size_bytes,
                processes=creation.writers if creation.rank == SHARED else 1,
                stripes=max(targets if count < 0 else count for count in counts),
                stripe_bytes=parts[-1]["stripe_bytes"] or 0,
            )
        )
    return usages


def advise(usages: Sequence[Usage], *, targets: int) -> list[Finding]:
    """Find the layouts that do not fit.

    Args:
        usages: Files of one run.
        targets: Number of targets of the system.

    Returns:
        One finding for each fault and family of names, those with most bytes first.
    """
    findings: dict[tuple[str, str, str, str | None], list[tuple[Usage, str]]] = {}
    crowds = _crowds(usages)
    for usage in usages:
        for kind, reason, layout in _faults(
            usage, targets, crowds.get(_family(usage.path), _Crowd(1, usage.size_bytes))
        ):
            findings.setdefault((kind, _family(usage.path), _present(usage), layout), []).append((usage, reason))
    told = [_finding(kind, layout, those) for (kind, _, _, layout), those in findings.items()]
    return sorted(told, key=lambda finding: (-finding.bytes_max * finding.files, finding.kind))


def _begin(file: LoggedFile, index: int) -> int:
    end = file.components[index - 1].end_bytes
    return file.size_bytes if end is None else end


@dataclass(frozen=True, slots=True)
class _Crowd:
    """A family of one-process files, whose names differ only in numbers: one command sets the layout of all."""

    files: int
    largest_bytes: int


def _crowds(usages: Sequence[Usage]) -> dict[str, _Crowd]:
    crowds: dict[str, _Crowd] = {}
    for usage in usages:
        if usage.processes == 1:
            family = _family(usage.path)
            before = crowds.get(family, _Crowd(0, 0))
            crowds[family] = _Crowd(before.files + 1, max(before.largest_bytes, usage.size_bytes))
    return crowds


def _family(path: str) -> str:
    return re.sub(r"\d+", "#", path)


def _present(usage: Usage) -> str:
    return f"-c {usage.stripes}" + (f" -S {spell(usage.stripe_bytes)}" if usage.stripe_bytes else "")


def _faults(usage: Usage, targets: int, crowd: _Crowd) -> Iterator[tuple[str, str, str | None]]:
    """Kind, reason and better layout of each fault of a file; at most one concerns the stripe count."""
    count_fault = _count_fault(usage, targets, crowd)
    if count_fault is not None:
        kind, reason, count = count_fault
        yield kind, reason, f"-c {count} -S {spell(_fitting_stripe(usage))}"
        return
    if usage.stripes > 1:
        wait, fitting = _stripe_size_fault(usage), _fitting_stripe(usage)
        if wait is not None and fitting != usage.stripe_bytes:
            yield "stripe-size", wait, f"-c {usage.stripes} -S {spell(fitting)}"
    if usage.processes > 1 and usage.accesses >= _ACCESSES_MIN and usage.unaligned >= _UNALIGNED_MIN * usage.accesses:
        part = usage.unaligned / usage.accesses
        yield (
            "unaligned",
            f"{part:.0%} of {usage.accesses} accesses by {usage.processes} ranks begin within a block of the file "
            "system, so that neighbours wait for each other's locks",
            None,
        )


def _count_fault(usage: Usage, targets: int, crowd: _Crowd) -> tuple[str, str, int] | None:
    """Kind, reason and better stripe count; None where the count fits."""
    if usage.processes > 1:
        return _shared_count_fault(usage, targets)
    size, stripes = crowd.largest_bytes, usage.stripes
    for_capacity = min(-(-size // OWN_SHARE_BYTES), targets)
    if 2 * stripes <= for_capacity:
        return (
            "narrow",
            (
                f"{size_text(size)} on {_targets(stripes)} of {targets} make the targets uneven; "
                f"{for_capacity} would hold {size_text(size / for_capacity)} each"
            ),
            for_capacity,
        )
    wanted = max(min(targets // crowd.files, -(-size // SHARED_SHARE_BYTES)), for_capacity, 1)
    if wanted >= stripes:
        return None
    if _reached(size, usage) < stripes:
        return "wide", _too_wide(size, usage), wanted
    if crowd.files * stripes >= 2 * max(targets, crowd.files):
        return (
            "own-wide",
            (
                f"{crowd.files} files of one process each x {stripes} stripes are {crowd.files * stripes} objects on "
                f"{_targets(targets)}; {crowd.files * wanted} spread them as well"
            ),
            wanted,
        )
    return None


def _shared_count_fault(usage: Usage, targets: int) -> tuple[str, str, int] | None:
    size, stripes = usage.size_bytes, usage.stripes
    wanted = min(max(-(-size // SHARED_SHARE_BYTES), 1), targets)
    if 2 * stripes <= wanted:
        return (
            "narrow",
            (
                f"{usage.processes} ranks share {size_text(size)} on {_targets(stripes)} of {targets}: "
                f"{size_text(size / stripes)} through each, where {wanted} would take {size_text(size / wanted)}"
            ),
            wanted,
        )
    if wanted < stripes and _reached(size, usage) < stripes:
        return "wide", _too_wide(size, usage), wanted
    return None


def _reached(size: int, usage: Usage) -> int:
    """Number of stripes that hold bytes of a file of this size."""
    return min(-(-size // usage.stripe_bytes), usage.stripes) if usage.stripe_bytes else usage.stripes


def _too_wide(size: int, usage: Usage) -> str:
    reached = _reached(size, usage)
    return (
        f"{size_text(size)} reach {reached} of {usage.stripes} stripes of {spell(usage.stripe_bytes)}; "
        f"{usage.stripes - reached} objects are made, opened and removed for nothing"
    )


def _stripe_size_fault(usage: Usage) -> str | None:
    """The fault of accesses that need several targets each, or lie across the edge of two stripes; None where there is
    none.
    """
    transfer, stripe = usage.transfer_bytes, usage.stripe_bytes
    if transfer == 0 or stripe == 0 or usage.accesses < _ACCESSES_MIN or usage.processes == 1:
        return None
    if transfer > stripe:
        spread = min(-(-transfer // stripe), usage.stripes)
        return (
            f"each access of {size_text(transfer)} is cut into stripes of {size_text(stripe)} and waits for "
            f"{_targets(spread)}, and every rank talks to all of them"
        )
    # Accesses follow each other: within a period all but the last access of each stripe lie whole in the stripe.
    period = stripe // gcd(transfer, stripe)
    straddling = (transfer - gcd(transfer, stripe)) / stripe
    if period > 1 and straddling >= _STRADDLING_MIN:
        return (
            f"{straddling:.0%} of the accesses of {size_text(transfer)} lie across two stripes of {size_text(stripe)}"
        )
    return None


def _fitting_stripe(usage: Usage) -> int:
    """A stripe size that holds accesses whole: the present size if it does, else the smallest of Lustre's sizes."""
    transfer, present = usage.transfer_bytes, usage.stripe_bytes
    if transfer == 0 or usage.processes == 1:
        return present or _STRIPE_BYTES_MIN
    if present and present % transfer == 0:
        return present
    unit = transfer // gcd(transfer, _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    if unit > max(16 * transfer, _STRIPE_BYTES_MIN):
        unit = -(-transfer // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return min(-(-_STRIPE_BYTES_MIN // unit) * unit, _STRIPE_BYTES_MAX)


def _finding(kind: str, layout: str | None, those: Sequence[tuple[Usage, str]]) -> Finding:
    largest, reason = max(those, key=lambda one: one[0].size_bytes)
    place = largest.path if len(those) == 1 else os.path.commonpath([Path(one.path).parent for one, _ in those])
    quoted = shell_word(place)
    if layout is None:
        mend = "align the program's accesses: H5Pset_alignment for HDF5, whole blocks of 4 KiB elsewhere"
        return Finding(kind, place, len(those), largest.size_bytes, _present(largest), reason, None, mend, mend)
    return Finding(
        kind=kind,
        place=place,
        files=len(those),
        bytes_max=largest.size_bytes,
        present=_present(largest),
        reason=reason,
        layout=layout,
        lfs=f"{_lfs([one for one, _ in those])} {layout} {quoted}",
        weir=f"weir layout set {layout} {quoted}",
    )


def _lfs(those: Sequence[Usage]) -> str:
    """The program that sets the layout of files that a run will write, or that moves files which it only reads."""
    if any(usage.is_written for usage in those):
        return "lfs setstripe"
    return "lfs migrate" if len(those) == 1 else "lfs_migrate -y"


def _targets(count: int) -> str:
    return "1 target" if count == 1 else f"{count} targets"
