"""Targets of a store, in lines of tables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weir.cli.common.output import Quantity, size

if TYPE_CHECKING:
    from weir.store.answers import Status, Target


@dataclass(frozen=True)
class Line:
    """One target, with the number of stripes that all servers placed on it."""

    server: int
    target: "Target"
    stripes_placed: int

    def document(self) -> dict[str, Any]:
        """Describe the line.

        Returns:
            Values for JSON.
        """
        from weir.store.decoding import encode

        return {"server": self.server, **encode(self.target), "stripes_placed": self.stripes_placed}


def target_lines(answers: "list[Status]") -> list[Line]:
    """List the targets of servers, with the stripes that all servers placed on each.

    Args:
        answers: States of the servers.

    Returns:
        One line for each target.
    """
    placed: dict[str, int] = {}
    for answer in answers:
        add(placed, answer.placements.targets)
    return [
        Line(answer.server, target, placed.get(target.target, 0)) for answer in answers for target in answer.targets
    ]


def since(moment: float | None) -> str:
    """Write a moment.

    Args:
        moment: Unix time in seconds; None where there is none.

    Returns:
        The local date and time, or a dash.
    """
    if moment is None:
        return "-"
    from datetime import datetime

    return datetime.fromtimestamp(moment).isoformat(sep=" ", timespec="seconds")


def rate(bytes_per_second: float | None) -> object:
    """Write a rate.

    Args:
        bytes_per_second: The rate; None where it is not known.

    Returns:
        A size a second, or a dash.
    """
    return Quantity("-") if bytes_per_second is None else size(bytes_per_second)


def add(sums: dict[str, int], counts: dict[str, int]) -> None:
    """Add counts to sums, key by key."""
    for key, count in counts.items():
        sums[key] = sums.get(key, 0) + count
