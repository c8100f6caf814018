"""The subscriber, on the MDS or elsewhere: it hears all servers, and hands their statistics on again and again."""

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
"""Most messages of a server that wait to be read. Beyond it the server's publisher drops messages; the gap is counted.
"""
BATCH_MAX = 10_000
"""Most messages taken between two documents, so that a flood of messages does not delay the document."""
DOCUMENT_SECONDS_MIN = 1.0
"""Least time between two documents, however many messages come; this host's load is measured over it, too."""
_SILENCE_MILLISECONDS = 30_000
"""Time without any sign of life after which a connection is made anew: the other host may have gone without a word."""
_RECONNECT_MILLISECONDS = (100, 5000)
"""First and longest pause between attempts to connect."""


class Subscriber:
    """Hears publishers, and collects their messages."""

    def __init__(self, *, endpoints: Sequence[str], root: Path, thresholds: Thresholds) -> None:
        """Prepare to hear publishers.

        Args:
            endpoints: ZeroMQ addresses of the publishers.
            root: Folder that holds `proc` and `sys` of this host, for its load.
            thresholds: Loads of this host from which an allocation waits.
        """
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

        Args:
            hand_on: Called with each document.
            every_seconds: Longest time between two documents.
            until_all_within_seconds: Longest time to run; the run ends earlier once as many servers as endpoints sent
                statistics, with one more document. None runs until a signal comes.

        Returns:
            Whether as many servers as endpoints have sent statistics.

        Raises:
            zmq.ZMQError: An endpoint is no address.
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
