"""How fast each target serves, against its peers: learned from bytes moved and the time that requests took.

A target whose requests take ten times as long for the same bytes gets a tenth. Time in service holds waiting for the
disk, so a target that is only busy looks slower too; requests of different sizes compare badly. Both fade with time.
"""

import statistics
from dataclasses import dataclass

HALF_LIFE_SECONDS = 900.0
"""Time after which what was seen counts half: some ten readings, so that one burst does not make a target slow."""
EVIDENCE_BYTES_MIN = 64 << 20
"""Below this a target has moved too little to say."""
PEERS_MIN = 3
"""A median of fewer tells nothing of which one is slow."""


@dataclass(slots=True)
class _Seen:
    bytes: float = 0.0
    service_seconds: float = 0.0


class Speeds:
    """Learns the targets' speeds."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._seen: dict[str, _Seen] = {}

    def observe(self, target: str, *, moved_bytes: float, service_seconds: float, period_seconds: float) -> None:
        """A target moved `moved_bytes` in requests that took `service_seconds` altogether, in a period."""
        if service_seconds <= 0.0 or moved_bytes <= 0.0:
            return
        seen = self._seen.setdefault(target, _Seen())
        kept = 0.5 ** (period_seconds / HALF_LIFE_SECONDS)
        seen.bytes = seen.bytes * kept + moved_bytes
        seen.service_seconds = seen.service_seconds * kept + service_seconds

    def forget(self, target: str) -> None:
        """Drop what was learned of a target that is gone."""
        self._seen.pop(target, None)

    def relative(self) -> dict[str, float]:
        """Speed of each target that moved enough, as a part of the median's; at most 1."""
        rates = {
            target: seen.bytes / seen.service_seconds
            for target, seen in self._seen.items()
            if seen.bytes >= EVIDENCE_BYTES_MIN
        }
        if len(rates) < PEERS_MIN:
            return {}
        median = statistics.median(rates.values())
        return {target: min(1.0, rate / median) for target, rate in rates.items()}
