"""The room on several targets together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weir import _core

if TYPE_CHECKING:
    from weir.store.answers import Target


def together(targets: "Sequence[Target]") -> tuple[int, int]:
    """Add the room of targets up. Those on one disk can hold no more than it has left, however much each may hold.

    Args:
        targets: The targets, of any servers.

    Returns:
        The bytes that they hold and can still take, and the latter alone.
    """
    return _core.room_together(
        [
            (
                target.capacity_bytes,
                target.used_bytes,
                None
                if target.disk is None or target.disk_free_bytes is None
                else (target.disk, target.disk_free_bytes),
            )
            for target in targets
        ]
    )
