"""The layouts of the next run's files, before their allocation: the paper's configuration manager (Tarazu, section
5.5.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from weir.errors import WeirError
from weir.placement.database import END_OF_FILE, Component
from weir.tracing.records import Creation

ALIGNMENT_BYTES = 128 << 10
"""Unit of stripe sizes: an even multiple of Lustre's 64 KiB (equations 2 and 3)."""
LUSTRE_STRIPE_BYTES_MAX = (4 << 30) - ALIGNMENT_BYTES
"""Largest stripe of Lustre, whose layouts keep the stripe size in 32 bits."""


class LayoutError(WeirError):
    """A layout that cannot be used."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A layout, and the files that get it."""

    pattern: str
    """A path, a directory that holds the file at any depth, or a pattern of names in the form of `fnmatch`."""
    layout: str
    """Layout in the spelling of `lfs setstripe`."""

    def matches(self, path: str) -> bool:
        """Decide whether a file gets the layout.

        Returns:
            Whether the pattern fits the path.
        """
        own = PurePosixPath(path)
        return (
            self.pattern in ("*", path) or PurePosixPath(self.pattern) in own.parents or fnmatchcase(path, self.pattern)
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """A site's choices for the files of a run."""

    rules: tuple[Rule, ...] = ()
    """Rules; the first one that matches a file counts."""
    stripe_count: int = 1
    """Stripes of a file without a rule and without a known past layout; -1 is one stripe on every target."""
    stripe_bytes: int | None = None
    """Stripe size where a layout names none; None makes stripes contiguous, one part of the file on each target."""
    stripe_bytes_max: int | None = None
    """Largest stripe size of the file system; None has no limit."""


def rule(text: str) -> Rule:
    """Read a rule from `[PATTERN=]LAYOUT`.

    Args:
        text: The rule; LAYOUT is the name of an .ini file of the paper, or has the spelling of `lfs setstripe`.

    Raises:
        LayoutError: LAYOUT is neither, or the .ini file cannot be read.
    """
    from weir import _core

    pattern, equals, layout = text.partition("=")
    if not equals or not pattern.startswith(("/", "*", "?", "[")):
        pattern, layout = "*", text
    try:
        if layout.endswith(".ini"):
            return Rule(pattern.rstrip("/") or "/", _core.layout_from_ini(Path(layout).read_text()))
        _core.parse_layout(layout)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LayoutError(
            f"`{layout}` is no layout: {reason}",
            hint="write it as `lfs setstripe` has it, such as '-E 1G -c 1 -E -1 -c 8', or name an .ini file",
        ) from error
    return Rule(pattern.rstrip("/") or "/", layout)


def lay_out(creations: Sequence[Creation], choices: Choices, *, targets: int) -> list[Component]:
    """Choose the components of each file, before allocation.

    Args:
        creations: Files of the next run; of several with one path the first counts.
        choices: The site's choices.
        targets: Number of targets that can take stripes: no component has more stripes.

    Returns:
        The components, in the order of the creations.

    Raises:
        LayoutError: A layout asks for more stripes than there are targets.
    """
    components: list[Component] = []
    seen: set[str] = set()
    for creation in creations:
        if creation.path not in seen:
            seen.add(creation.path)
            components += _components(creation, choices, targets)
    return components


def _components(creation: Creation, choices: Choices, targets: int) -> list[Component]:
    from weir import _core

    chosen = next((rule.layout for rule in choices.rules if rule.matches(creation.path)), None)
    layout = chosen or _past_layout(creation) or f"-c {choices.stripe_count}"
    parts = _core.parse_layout(layout)
    counts = [len(part["targets"]) or _count(part["stripes"], choices.stripe_count, targets) for part in parts]
    if max(counts) > targets:
        raise LayoutError(
            f"{creation.path}: `{layout}` asks for {max(counts)} stripes, and there are {targets} targets",
            hint="name a layout that fits with `layout`, such as `-c -1` for one on every target",
        )
    ends = [END_OF_FILE if part["end"] is None else part["end"] for part in parts]
    stripe_bytes = [part["stripe_bytes"] or choices.stripe_bytes for part in parts]
    shares = _contiguous(ends, counts, creation.size_bytes, choices.stripe_bytes_max)
    return [
        Component(
            creation.path,
            number,
            part["start"],
            end,
            own or share,
            count,
            creation.size_bytes,
            creation.rank,
            tuple(part["targets"]),
        )
        for number, (part, end, count, own, share) in enumerate(
            zip(parts, ends, counts, stripe_bytes, shares, strict=True), start=1
        )
    ]


def _past_layout(creation: Creation) -> str | None:
    """The stripe counts of the file's past layout, without its targets and stripe sizes, which are chosen anew."""
    from weir import _core

    if creation.layout is None:
        return None
    try:
        parts = _core.parse_layout(creation.layout)
    except ValueError:
        return None
    counts = [len(part["targets"]) or part["stripes"] or 1 for part in parts]
    return _spelled([END_OF_FILE if part["end"] is None else part["end"] for part in parts], counts)


def _spelled(ends: Sequence[int], counts: Sequence[int]) -> str:
    if len(ends) == 1:
        return f"-c {counts[0]}"
    return " ".join(f"-E {end} -c {count}" for end, count in zip(ends, counts, strict=True))


def _count(asked: int | None, default: int, targets: int) -> int:
    """Stripes of a component; -1 is one stripe on every target, and None is the default."""
    count = default if asked is None else asked
    return targets if count == -1 else count


def _contiguous(ends: Sequence[int], counts: Sequence[int], size_bytes: int, most: int | None) -> list[int]:
    """Stripe sizes that give each target one part of each component; several parts where a part exceeds `most`."""
    from weir import _core

    parts = _core.parse_layout(_core.contiguous_layout(_spelled(ends, counts), size_bytes, ALIGNMENT_BYTES))
    shares = [part["stripe_bytes"] or ALIGNMENT_BYTES for part in parts]
    return shares if most is None else [min(share, most) for share in shares]
