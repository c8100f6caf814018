"""The publisher on each OSS (Tarazu, section 5.6): a reading every interval, and a heartbeat in between."""

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.lustre.message import NAME_CHARACTERS_MAX, TOPIC, Heartbeat, Message, Statistics, TargetStatistics, encode
from weir.lustre.rates import Rates, rates
from weir.lustre.signals import StopSignals
from weir.lustre.tree import Reading, TargetReading, read_tree

if TYPE_CHECKING:
    import zmq

QUEUED_MAX = 16
"""Most messages kept for a subscriber that does not read. Further messages are dropped for it, and it sees the gap."""
LINGER_MILLISECONDS = 1000
"""Time that the end waits until the last message has left."""
UNREAD_MAX = 32
"""Most unreadable files that a message names."""
GREETING_SECONDS_MIN = 1.0
"""Least time between two repetitions of the last reading, however many new subscribers come."""


class Publisher:
    """Publishes the statistics of one server."""

    def __init__(
        self,
        *,
        root: Path,
        server: str,
        interval_seconds: float,
        heartbeat_seconds: float,
        tell: Callable[[str], None],
    ) -> None:
        """Prepare to publish.

        Args:
            root: Folder that holds `proc` and `sys`: `/` of a live server, or a copy.
            server: Name of the server.
            interval_seconds: Time between two readings.
            heartbeat_seconds: Longest time between two messages; at most `interval_seconds` counts.
            tell: Called with the trouble of each unreadable file, once for each.
        """
        self._root = root
        self._server = server
        self._interval_seconds = interval_seconds
        self._heartbeat_seconds = min(heartbeat_seconds, interval_seconds)
        self._instance = secrets.token_hex(8)
        self._sequence = 0
        self._before: Reading | None = None
        self._tell = tell
        self._told: set[str] = set()

    def run(self, endpoint: str, *, bound: Callable[[str], None]) -> None:
        """Publish until SIGTERM or SIGINT.

        Args:
            endpoint: ZeroMQ address to publish at.
            bound: Called once with the real address, as soon as the publisher listens there.

        Raises:
            zmq.ZMQError: The publisher cannot listen at `endpoint`.
        """
        import zmq

        with StopSignals() as ending, zmq.Context() as context, context.socket(zmq.XPUB) as socket:
            socket.setsockopt(zmq.SNDHWM, QUEUED_MAX)
            socket.setsockopt(zmq.LINGER, LINGER_MILLISECONDS)
            socket.setsockopt(zmq.XPUB_VERBOSE, 1)
            socket.bind(endpoint)
            bound(socket.getsockopt_string(zmq.LAST_ENDPOINT))
            poller = zmq.Poller()
            poller.register(ending.descriptor, zmq.POLLIN)
            poller.register(socket, zmq.POLLIN)
            self._publish(socket, poller, ending)

    def statistics(self) -> Statistics:
        """Read the server.

        Returns:
            The statistics now; the rates are those since the last call, so the first call has none.
        """
        reading = read_tree(self._root)
        for trouble in reading.unread:
            if trouble not in self._told and len(self._told) < UNREAD_MAX:
                self._told.add(trouble)
                self._tell(trouble)
        since = rates(self._before, reading) if self._before is not None else None
        self._before = reading
        memory = reading.memory
        return Statistics(
            **self._envelope(),
            time_seconds=reading.time_seconds,
            age_seconds=0.0,
            period_seconds=since.period_seconds if since else None,
            load_average=reading.load.one_minute if reading.load else None,
            processors=reading.processors.count if reading.processors else None,
            cpu_fraction=since.cpu_fraction if since else None,
            memory_total_bytes=memory.total_bytes if memory else None,
            memory_fraction=memory.used_fraction if memory else None,
            network=since.network if since else None,
            targets=tuple(_target(name, target, since) for name, target in reading.targets.items()),
            unread=tuple(each[:NAME_CHARACTERS_MAX] for each in reading.unread[:UNREAD_MAX]),
        )

    def _publish(self, socket: "zmq.Socket[bytes]", poller: "zmq.Poller", ending: StopSignals) -> None:
        last = self.statistics()
        read_at = greeted_at = time.monotonic()
        message: Message | None = last
        greet = False
        while True:
            if message is not None:
                socket.send_multipart([TOPIC, encode(message)])
            now = time.monotonic()
            greeting_seconds = max(0.0, greeted_at + GREETING_SECONDS_MIN - now) if greet else self._heartbeat_seconds
            due = read_at + self._interval_seconds
            wait_seconds = min(self._heartbeat_seconds, greeting_seconds, max(0.0, due - now))
            ready = {each for each, _ in poller.poll(math.ceil(wait_seconds * 1000))}
            if ending.descriptor in ready:
                return
            greet |= socket in ready and _subscribed(socket)
            now = time.monotonic()
            if now >= due:
                message = last = self.statistics()
                # Readings lie on a grid, without a burst after the host slept.
                read_at = due if now < due + self._interval_seconds else now
            elif greet and now >= greeted_at + GREETING_SECONDS_MIN:
                message = replace(last, **self._envelope(), age_seconds=max(0.0, now - read_at))
                greet, greeted_at = False, now
            elif socket in ready or greet:
                message = None
            else:
                message = Heartbeat(**self._envelope())

    def _envelope(self) -> dict[str, Any]:
        self._sequence += 1
        return {
            "server": self._server,
            "instance": self._instance,
            "sequence": self._sequence - 1,
            "interval_seconds": self._interval_seconds,
            "heartbeat_seconds": self._heartbeat_seconds,
        }


def _subscribed(socket: "zmq.Socket[bytes]") -> bool:
    """Take the waiting messages of subscribers, a bounded number at a time; tell whether a new subscriber came."""
    import zmq

    came = False
    for _ in range(QUEUED_MAX):
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            break
        came |= frames[0][:1] == b"\x01"
    return came


def _target(name: str, target: TargetReading, since: Rates | None) -> TargetStatistics:
    return TargetStatistics(
        target=name,
        total_bytes=target.total_bytes,
        free_bytes=target.free_bytes,
        available_bytes=target.available_bytes,
        degraded=target.degraded,
        rates=since.targets.get(name) if since else None,
    )
