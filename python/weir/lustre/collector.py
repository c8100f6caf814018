"""The latest statistics of all servers, as one document. Time comes in as an argument."""

from dataclasses import asdict, dataclass
from typing import Any

from weir.lustre.message import VERSION, Message, RejectedError, Statistics, decode
from weir.lustre.observer import OwnLoad, Thresholds, waits_for
from weir.lustre.speed import Speeds

KIND = "gathered-statistics"
"""`kind` of the document."""
MISSED_MAX = 3
"""Number of heartbeats or readings in a row after whose absence a server is silent."""
SLACK_SECONDS = 1.0
"""Additional time before a server is silent, for a busy host."""
INTERVAL_SECONDS_MAX = 3600.0
"""Longest interval that is believed of a server: a longer announced one counts as this."""
SERVERS_MAX = 10_000
"""Most servers: further names are refused, so that invented names cannot fill the memory."""
TARGETS_MAX = 100_000
"""Most targets of all servers together, for the same reason."""
FORGOTTEN_SECONDS = 86_400.0
"""Time of silence after which a server is forgotten."""
REASONS_MAX = 8
"""Number of latest refusals whose reasons stand in the document."""


@dataclass(slots=True)
class _Server:
    statistics: Statistics | None
    instance: str
    sequence: int
    heard_at: float
    read_at: float
    lost: int = 0


class Collector:
    """Collects messages, and tells the state of each server."""

    def __init__(self) -> None:
        """Begin without any server."""
        self._servers: dict[str, _Server] = {}
        self._speeds = Speeds()
        self._readings = 0
        self._targets = 0
        self.received = 0
        self.rejected = 0
        self.reasons: list[str] = []

    def take(self, content: bytes, now: float) -> bool:
        """Take a message in its encoded form; a wrong one is counted.

        Args:
            content: JSON of the message.
            now: Time of arrival on a monotonic clock, in seconds.

        Returns:
            Whether the message was accepted.
        """
        try:
            self.accept(decode(content), now)
        except RejectedError as error:
            self.reject(str(error))
            return False
        return True

    def reject(self, reason: str) -> None:
        """Count a refused message.

        Args:
            reason: Reason of the refusal, for the document.
        """
        self.rejected += 1
        self.reasons = [*self.reasons, reason][-REASONS_MAX:]

    def accept(self, message: Message, now: float) -> None:
        """Take a decoded message.

        Args:
            now: Time of arrival on a monotonic clock, in seconds.

        Raises:
            RejectedError: There are too many servers or targets.
        """
        server = self._servers.get(message.server)
        self._check_room(message, server)
        if server is None:
            server = _Server(None, message.instance, message.sequence, now, now)
            self._servers[message.server] = server
        elif server.instance != message.instance:
            server.instance = message.instance
        elif message.sequence > server.sequence:
            server.lost += message.sequence - server.sequence - 1
        self.received += 1
        server.sequence = message.sequence
        server.heard_at = now
        if isinstance(message, Statistics):
            before = server.statistics
            self._targets += len(message.targets) - (len(before.targets) if before else 0)
            server.statistics, server.read_at = message, now - message.age_seconds
            if before is None or before.time_seconds != message.time_seconds:
                self._readings += 1
                self._learn(message)

    def servers_heard(self) -> int:
        """Count the servers that sent statistics.

        Returns:
            Number of servers; a server that sent heartbeats alone does not count.
        """
        return sum(server.statistics is not None for server in self._servers.values())

    def readings(self) -> int:
        """Count the readings of all servers.

        Returns:
            Number of readings; a reading that was sent again counts once.
        """
        return self._readings

    def document(self, now: float, *, time_seconds: float, own: OwnLoad, thresholds: Thresholds) -> dict[str, Any]:
        """Tell everything that is known, as values for JSON.

        Args:
            now: Present time on a monotonic clock, in seconds.
            time_seconds: The same moment in Unix time.
            own: Load of this host.
            thresholds: Load of this host from which an allocation waits.

        Returns:
            The document; docs/reference/statistics.md describes its fields.
        """
        self._forget(now)
        waits = waits_for(own, thresholds)
        heard = sorted(self._servers.items())
        silent = {name for name, server in heard if self._is_silent(server, now)}
        return {
            "version": VERSION,
            "kind": KIND,
            "time_seconds": time_seconds,
            "own": {**asdict(own), **asdict(thresholds), "may_allocate": waits is None, "waits_for": waits},
            "servers": [
                {
                    "age_seconds": round(now - server.read_at, 3),
                    "heard_seconds": round(now - server.heard_at, 3),
                    "lost_messages": server.lost,
                    "statistics": {"version": VERSION, "kind": "statistics", **asdict(server.statistics)},
                }
                for name, server in heard
                if server.statistics is not None and name not in silent
            ],
            "silent": [
                {
                    "server": name,
                    "heard_seconds": round(now - server.heard_at, 3),
                    "targets": [each.target for each in server.statistics.targets] if server.statistics else [],
                }
                for name, server in heard
                if name in silent
            ],
            "speeds": self._speeds.relative(),
            "received_messages": self.received,
            "rejected_messages": self.rejected,
            "rejections": self.reasons,
        }

    def silent(self, now: float) -> frozenset[str]:
        """Find the servers that fell silent.

        Args:
            now: Present time on a monotonic clock, in seconds.

        Returns:
            Names of the servers.
        """
        return frozenset(name for name, server in self._servers.items() if self._is_silent(server, now))

    def _check_room(self, message: Message, server: _Server | None) -> None:
        if server is None and len(self._servers) >= SERVERS_MAX:
            raise RejectedError(f"more than {SERVERS_MAX} servers")
        if isinstance(message, Statistics):
            known = len(server.statistics.targets) if server and server.statistics else 0
            if self._targets + len(message.targets) - known > TARGETS_MAX:
                raise RejectedError(f"more than {TARGETS_MAX} targets")

    def _forget(self, now: float) -> None:
        gone = [name for name, server in self._servers.items() if now - server.heard_at > FORGOTTEN_SECONDS]
        for name in gone:
            said = self._servers.pop(name).statistics
            for target in said.targets if said else ():
                self._targets -= 1
                self._speeds.forget(target.target)

    def _is_silent(self, server: _Server, now: float) -> bool:
        said = server.statistics
        if said is None:
            return now - server.heard_at > INTERVAL_SECONDS_MAX
        heartbeat, interval = (
            min(each, INTERVAL_SECONDS_MAX) * MISSED_MAX + SLACK_SECONDS
            for each in (said.heartbeat_seconds, said.interval_seconds)
        )
        return now - server.heard_at > heartbeat or now - server.read_at > interval

    def _learn(self, message: Statistics) -> None:
        for target in message.targets:
            rates, period_seconds = target.rates, message.period_seconds
            if rates is None or period_seconds is None or rates.service_seconds_per_second is None:
                continue
            moved = (rates.read_bytes_per_second or 0.0) + (rates.write_bytes_per_second or 0.0)
            self._speeds.observe(
                target.target,
                moved_bytes=moved * period_seconds,
                service_seconds=rates.service_seconds_per_second * period_seconds,
                period_seconds=period_seconds,
            )
