"""Differences from tmpfs that docs/reference/limits.md states. Nothing else is expected."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ways import MOUNT, MOUNTED, PREFIX

from random_calls.steps import Step


@dataclass(frozen=True)
class Expected:
    """A difference, and the row of the page that states it."""

    row: str
    """The beginning of the row."""
    ways: tuple[str, ...]
    is_one: Callable[[Step, str, str], bool]
    """Tells by the step, the answer on tmpfs and the one on the store."""


def _but_for_times(answer: str) -> str:
    return re.sub(r" modified=\S+", "", answer)


EXPECTED = (
    Expected(
        "directory that was removed while it is open",
        (*MOUNTED, PREFIX),
        lambda step, right, wrong: right == "ENOENT" and wrong == "ESTALE",
    ),
    Expected(
        "`copy_file_range` within a file through the mount after another client made it shorter",
        (MOUNT,),
        lambda step, right, wrong: step.command == "copy" and right == "0" and wrong == "EINVAL",
    ),
    Expected(
        "modification time of overwrites",
        (*MOUNTED, PREFIX),
        lambda step, right, wrong: "modified=now" in right + wrong and _but_for_times(right) == _but_for_times(wrong),
    ),
)


def is_expected(step: Step, way: str, right: str, wrong: str) -> bool:
    """Whether the table has this difference."""
    return any(way in entry.ways and entry.is_one(step, right, wrong) for entry in EXPECTED)
