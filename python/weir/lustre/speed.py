"""The speed of each target relative to its peers, learned from moved bytes and the time of requests.

A target whose requests take ten times as long for the same bytes has a tenth of the speed. Time in service includes
waits for the disk, so a target that is only busy looks slower, too. Requests of different sizes compare badly. Both
effects fade with time.
"""

import statistics
from dataclasses import dataclass

HALF_LIFE_SECONDS = 900.0
"""Time after which a reading counts half: some ten readings, so that one burst does not make a target slow."""
EVIDENCE_BYTES_MIN = 64 << 20
"""Least bytes that show a target's speed."""
PEERS_MIN = 3
"""Least number of targets: the median of fewer does not show the slow one."""


@dataclass(slots=True)
class _Seen:
    bytes: float = 0.0
    service_seconds: float = 0.0


class Speeds:
    """Learns the speeds of targets."""

    def __init__(self) -> None:
        """Begin without any target."""
        self._seen: dict[str, _Seen] = {}

    def observe(self, target: str, *, moved_bytes: float, service_seconds: float, period_seconds: float) -> None:
        """Learn from one period of a target.

        Args:
            target: Name of the target.
            service_seconds: Time of the requests that moved them, added up over all requests.
            period_seconds: Length of the period.
        """
        if service_seconds <= 0.0 or moved_bytes <= 0.0:
            return
        seen = self._seen.setdefault(target, _Seen())
        kept = 0.5 ** (period_seconds / HALF_LIFE_SECONDS)
        seen.bytes = seen.bytes * kept + moved_bytes
        seen.service_seconds = seen.service_seconds * kept + service_seconds

    def forget(self, target: str) -> None:
        """Forget a target that is gone.

        Args:
            target: Name of the target.
        """
        self._seen.pop(target, None)

    def relative(self) -> dict[str, float]:
        """Compare the targets that moved enough bytes.

        Returns:
            Speed of each target by its name, as a part of the median, at most 1; empty with fewer than `PEERS_MIN`
            targets.
        """
        rates = {
            target: seen.bytes / seen.service_seconds
            for target, seen in self._seen.items()
            if seen.bytes >= EVIDENCE_BYTES_MIN
        }
        if len(rates) < PEERS_MIN:
            return {}
        median = statistics.median(rates.values())
        return {target: min(1.0, rate / median) for target, rate in rates.items()}
