"""The subscriber, on the MDS or anywhere: it hears all servers and hands on their statistics again and again."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.lustre.collector import Collector
from weir.lustre.message import MESSAGE_BYTES_MAX, TOPIC
from weir.lustre.observer import Observer, Thresholds
from weir.lustre.signals import StopSignals

if TYPE_CHECKING:
    import zmq

QUEUED_MAX = 1000
"""Messages of a server that wait to be read; beyond that its publisher drops, and the gap is counted."""
BATCH_MAX = 10_000
"""Messages taken between two documents, so that a flood cannot keep the document from being written."""
DOCUMENT_SECONDS_MIN = 1.0
"""Documents are at least this far apart, however many messages come; the own load is measured over that long, too."""
_SILENCE_MILLISECONDS = 30_000
"""A connection without any sign of life for so long is made anew: the other host may be gone without a word."""
_RECONNECT_MILLISECONDS = (100, 5000)
"""First and longest pause between attempts to connect."""


class Subscriber:
    """Gathers the messages of publishers."""

    def __init__(self, *, endpoints: Sequence[str], root: Path, thresholds: Thresholds) -> None:
        """Hear the publishers at `endpoints`; the own load is read below `root`."""
        self._endpoints = endpoints
        self._thresholds = thresholds
        self._observer = Observer(root)
        self.collector = Collector()

    def run(
        self,
        hand_on: Callable[[dict[str, Any]], None],
        *,
        every_seconds: float,
        until_all_within_seconds: float | None = None,
    ) -> bool:
        """Hand on a document after each change and at least every `every_seconds`, until SIGTERM or SIGINT.

        With `until_all_within_seconds` it ends once as many servers as endpoints have sent a message, or after that
        time, and hands on one more document. It returns whether that many have sent one.

        Raises:
            zmq.ZMQError: where an endpoint is none.
        """
        import zmq

        with StopSignals() as ending, zmq.Context() as context, context.socket(zmq.SUB) as socket:
            self._connect(socket)
            poller = zmq.Poller()
            poller.register(ending.descriptor, zmq.POLLIN)
            poller.register(socket, zmq.POLLIN)
            self._observer.look()
            began = handed = time.monotonic()
            readings, silent = 0, frozenset[str]()
            while True:
                pause_seconds = max(0.0, min(DOCUMENT_SECONDS_MIN, handed + every_seconds - time.monotonic()))
                ready = {each for each, _ in poller.poll(math.ceil(pause_seconds * 1000))}
                if socket in ready:
                    self._take(socket)
                now = time.monotonic()
                may_hand = now >= handed + DOCUMENT_SECONDS_MIN
                complete = self.collector.servers_heard() >= len(self._endpoints)
                ends = ending.descriptor in ready
                if until_all_within_seconds is not None:
                    ends |= (complete and may_hand) or now >= began + until_all_within_seconds
                known = self.collector.readings(), self.collector.silent(now)
                if ends or (may_hand and known != (readings, silent)) or now >= handed + every_seconds:
                    hand_on(self._document(now))
                    handed, (readings, silent) = now, known
                if ends:
                    return complete

    def _connect(self, socket: "zmq.Socket[bytes]") -> None:
        import zmq

        first, longest = _RECONNECT_MILLISECONDS
        socket.setsockopt(zmq.RCVHWM, QUEUED_MAX)
        socket.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.HEARTBEAT_IVL, _SILENCE_MILLISECONDS // 3)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _SILENCE_MILLISECONDS)
        socket.setsockopt(zmq.RECONNECT_IVL, first)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, longest)
        socket.setsockopt(zmq.SUBSCRIBE, TOPIC)
        for endpoint in self._endpoints:
            socket.connect(endpoint)

    def _take(self, socket: "zmq.Socket[bytes]") -> None:
        """Take the waiting messages."""
        import zmq

        for _ in range(BATCH_MAX):
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) == 2:
                self.collector.take(frames[1], time.monotonic())
            else:
                self.collector.reject(f"{len(frames)} frames instead of 2")

    def _document(self, now: float) -> dict[str, Any]:
        return self.collector.document(
            now, time_seconds=time.time(), own=self._observer.look(), thresholds=self._thresholds
        )
