"""Windows as metrics of Prometheus, served by HTTP while a collector runs.

The numbers are shown to a caller that knows a token alone: loopback is open to every user of a host, who may read
neither others' jobs nor all counters of a storage server (Lustre's lie in debugfs, which is the superuser's). The token
lies in a file that only its owner reads, where Prometheus finds it (`authorization: credentials_file`).
"""

import hmac
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import TYPE_CHECKING, Any

from weir.interference.errors import InterferenceError
from weir.interference.windows import CLIENT, SERVER
from weir.plain_text import plain
from weir.ways import open_believed, write_whole

if TYPE_CHECKING:
    from prometheus_client import Metric

SERIES_MAX = 20_000
"""Most pairs of a job and a target: those that were idle longest are left out beyond it."""
_CALLERS_MAX = 32
"""Callers at once, two threads each: a Prometheus asks one question at a time, and whoever does not ask gives way."""
_BACKLOG = 128
"""Connections that the kernel keeps until they are accepted."""
_SECONDS_MAX = 10.0
"""Longest time that a caller may take for the question and the answer."""
_TOKEN_BYTES = 32
_TOKEN_FILE_BYTES_MAX = 4096
_LEVEL = "in_progress"

Key = tuple[tuple[str, int], str]
"""A job, by its name and the number of its user, at a target."""


class Board:
    """The windows so far, as metrics. Threads may share a board."""

    def __init__(self) -> None:
        """Begin without windows."""
        self._lock = threading.Lock()
        self._last = 0
        self._client: dict[Key, list[float]] = {}
        self._server: dict[str, list[float]] = {}
        self._statistics: dict[str, Mapping[str, float]] = {}
        self._left_out = 0

    def add(self, number: int, job: tuple[str, int] | None, rows: Iterable[Mapping[str, Any]]) -> None:
        """Count a window.

        Args:
            job: Name of the job, and the number of its user; None for windows of servers alone.
            rows: Rows of a data set, one for each server.
        """
        with self._lock:
            is_first = number > self._last
            if is_first:
                self._statistics = {}
            self._last = max(self._last, number)
            for row in rows:
                server = str(row["server"])
                if job is not None:
                    # Names that look alike are one series: two with the same labels would spoil the exposition.
                    self._count((plain(job[0]), job[1]), server, row)
                # Every job's rows repeat the servers' counters, which count once.
                if server not in self._statistics:
                    self._statistics[server] = {name: float(row.get(name) or 0.0) for name in _statistic_columns()}
                    sums = self._server.setdefault(server, [0.0] * len(SERVER))
                    for place, name in enumerate(SERVER):
                        sums[place] += float(row.get(f"server_{name}_sum") or 0.0)

    def _count(self, job: tuple[str, int], server: str, row: Mapping[str, Any]) -> None:
        added = [float(row.get(f"client_{name}") or 0.0) for name in CLIENT]
        if not any(added):
            return
        # A pair moves to the end when it works, so that the first pair is the one that was idle longest.
        before = self._client.pop((job, server), [0.0] * len(CLIENT))
        self._client[job, server] = [each + more for each, more in zip(before, added, strict=True)]
        while len(self._client) > SERIES_MAX:
            del self._client[next(iter(self._client))]
            self._left_out += 1

    def collect(self) -> "Iterator[Metric]":
        """The metrics now, in the form that prometheus_client asks of a collector.

        Yields:
            The metrics.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            yield GaugeMetricFamily("weir_window_number", "Number of the last whole window since 1970", self._last)
            yield CounterMetricFamily("weir_window_series_left_out", "Pairs of job and target left out", self._left_out)
            for place, name in enumerate(CLIENT):
                counter = CounterMetricFamily(
                    f"weir_window_client_{name}",
                    f"A job's {_words(name)} at a target",
                    labels=["job_name", "uid", "target"],
                )
                for ((job, uid), target), counts in self._client.items():
                    counter.add_metric([job, str(uid), target], counts[place])
                yield counter
            for place, name in enumerate(SERVER):
                if name != _LEVEL:
                    total = CounterMetricFamily(
                        f"weir_window_server_{name}", f"{_words(name)} of a target", labels=["target"]
                    )
                    for target, sums in self._server.items():
                        total.add_metric([target], sums[place])
                    yield total
                yield self._reduced(name)

    def _reduced(self, name: str) -> "Metric":
        from prometheus_client.core import GaugeMetricFamily

        gauge = GaugeMetricFamily(
            f"weir_window_server_{name}_sample",
            f"{_words(name)} of a target in a sample of the last window",
            labels=["target", "statistic"],
        )
        for target, values in self._statistics.items():
            for statistic in ("mean", "deviation"):
                gauge.add_metric([target, statistic], values[f"server_{name}_{statistic}"])
        return gauge


def _statistic_columns() -> Iterator[str]:
    return (f"server_{name}_{statistic}" for name in SERVER for statistic in ("mean", "deviation"))


def _words(name: str) -> str:
    return name.replace("_", " ")


def token_of(file: Path) -> str:
    """Read a token, or make one in a new file that only its owner reads.

    Raises:
        InterferenceError: The file cannot be read or made, or holds no token.
        WayError: Others may read or write the file, or change the way to it.
    """
    try:
        try:
            with open_believed(file, secret=True, hint="give a file of yours") as given:
                token = given.read(_TOKEN_FILE_BYTES_MAX).decode().strip()
        except FileNotFoundError:
            token = secrets.token_hex(_TOKEN_BYTES)
            write_whole(file, token, closed=True)
            return token
    except (OSError, ValueError) as error:
        raise InterferenceError(f"cannot use the token in {file}: {error}", hint="give a file of yours") from error
    if not token or not token.isascii() or not token.isprintable():
        raise InterferenceError(f"{file} holds no token", hint="remove the file: a new token is made")
    return token


class _Server(ThreadingHTTPServer):
    """A server of a bounded number of callers, of whom the one that has been silent longest gives way to a new one.

    Otherwise a few callers that never ask would hold all places.
    """

    daemon_threads = True
    request_queue_size = _BACKLOG

    def __init__(self, address: tuple[str, int], board: Board, token: str, seconds_max: float) -> None:
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        self.board = board
        self.token = token
        self.seconds_max = seconds_max
        self._lock = threading.Lock()
        self._silent: dict[socket, None] = {}
        """Callers whose question has not come yet, the one that came first at the front."""
        self._heard: set[socket] = set()
        """Callers that have asked."""
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._silent) + len(self._heard) >= _CALLERS_MAX and self._silent:
                longest = next(iter(self._silent))
                del self._silent[longest]
                _cut(longest)
            has_place = len(self._heard) < _CALLERS_MAX
            if has_place:
                self._silent[request] = None
        if has_place:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._silent.pop(request, None)
                self._heard.discard(request)

    def hear(self, request: socket) -> None:
        """Note that a caller has asked: it keeps its place until it has its answer, or its time is over."""
        with self._lock:
            if request in self._silent:
                del self._silent[request]
                self._heard.add(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that goes away harms nobody."""


class _Handler(BaseHTTPRequestHandler):
    """Answers `GET /metrics`."""

    server: _Server
    server_version = "weir"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        # The time limit of a socket is that of one call: a caller that sends a byte each second would hold a place.
        self._watch = threading.Timer(self.server.seconds_max, _cut, [self.connection])
        self._watch.daemon = True
        self._watch.start()

    def finish(self) -> None:
        self._watch.cancel()
        super().finish()

    def do_GET(self) -> None:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        self.server.hear(self.connection)
        token = self.server.token
        given = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            self._answer(401, "text/plain", b"the token is missing or wrong\n", {"WWW-Authenticate": "Bearer"})
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(404, "text/plain", b"metrics are at /metrics\n", {})
        else:
            registry = CollectorRegistry()
            registry.register(self.server.board)
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry), {})

    def _answer(self, status: int, kind: str, body: bytes, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Questions are not logged."""

    def log_error(self, *_: Any) -> None:
        """Neither are those that nobody can read."""


def _cut(connection: socket) -> None:
    try:
        connection.shutdown(SHUT_RDWR)
    except OSError:
        # The caller is gone already.
        return


@contextmanager
def served(
    board: Board, address: tuple[str, int], token: str, *, seconds_max: float = _SECONDS_MAX
) -> Iterator[Sequence[Any]]:
    """Serve a board within the block.

    Args:
        address: Host and port to listen on; port 0 takes a free one.
        token: Token that a caller has to show.
        seconds_max: Longest time that a caller may take for the question and the answer.

    Yields:
        Host and port.

    Raises:
        InterferenceError: The address cannot be listened on.
    """
    try:
        server = _Server(address, board, token, seconds_max)
    except OSError as error:
        raise InterferenceError(
            f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}", hint="choose another `listen`"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="weir-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_SECONDS_MAX)
