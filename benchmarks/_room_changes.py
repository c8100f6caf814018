"""Kinds of changes that the room refuses without a session, and with forged, used, foreign and too low rights."""

from pathlib import Path

from _harness import OUT, announce
from _tests import outcomes
from weir.room.changes.kinds import CHANGES

_TEST = "tests/python/test_room_changes.py::test_a_change_without_its_right_is_refused_and_audited"


def measure(_directory: Path) -> dict[str, float]:
    """Run the test of each kind."""
    refused = sum(outcomes([_TEST], OUT / "room-changes.log").values())
    announce("changes refused", f"{refused}", f"{len(CHANGES)} kinds of changes", refused / len(CHANGES))
    return {"actions": float(len(CHANGES)), "actions_without_right_refused": float(refused)}
