"""The resident planner's speed over its socket: unknown and known jobs, a thousand plans in flight, and quick answers.

A part of `make bench-plan`. The same round trip without work, a `ping`, is the limit in the same run.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from _harness import ROOT, WAIT_SECONDS, announce
from weir.planner import protocol
from weir.planner.client import Client
from weir.planner.errors import PlannerError
from weir.provisioning.resources.model import Device, Node, Resources

LOGS = Path(os.environ.get("WEIR_DARSHAN_LOGS", ROOT.parent / "shared/data/darshan"))
"""Folder of the logs; those of the tests where it does not exist."""
UNKNOWN_MS, KNOWN_MS, QUICK_MS = 20.0, 2.0, 100.0
"""The limits: of the issue for plans, and of slurmctld for quick answers."""
PAPER_UNKNOWN_MS, PAPER_KNOWN_MS = 93.40, 22.82
ROUNDS = 3
IN_FLIGHT = 1000
NODES = 64
START_SECONDS = 60.0


def service_speed(directory: Path) -> dict[str, float]:
    """Measure the planner.

    Args:
        directory: An empty folder with a short path.

    Returns:
        Milliseconds at the median over the logs: `service_unknown_ms` with the log's parse, `service_replanned_ms` for
        a known job under new conditions, `service_known_ms` for one whose plan holds, `service_ping_ms`; and
        `service_quick_ms_p99` beside a thousand plans in flight, their `service_in_flight_seconds` and
        `service_in_flight_mib`, the memory that the planner's process took meanwhile.
    """
    with _planner(directory) as process, Client(directory / "socket") as client:
        logs = list(_readable(client))
        figures = {"service_logs": float(len(logs)), **_plans(client, logs), **_ping(client)}
        figures |= _in_flight(directory / "socket", process, logs[0])
    for key, limit, beside in (
        ("service_unknown_ms", UNKNOWN_MS, f"paper {PAPER_UNKNOWN_MS} ms"),
        ("service_replanned_ms", KNOWN_MS, f"paper {PAPER_KNOWN_MS} ms"),
        ("service_known_ms", KNOWN_MS, f"ping {figures['service_ping_ms']:.2f} ms"),
        ("service_quick_ms_p99", QUICK_MS, f"{IN_FLIGHT} plans in flight"),
    ):
        announce(key, f"{figures[key]:.2f} ms", f"limit {limit:.0f} ms, {beside}", figures[key] / limit)
    return figures


@contextmanager
def _planner(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    (directory / "resources.json").write_bytes(msgspec.json.encode(_cluster()))
    arguments = {"socket": "socket", "state": "state", "resources": "resources.json"}
    words = [word for name, place in arguments.items() for word in (f"--{name}", str(directory / place))]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "weir.cli", "planner", *words], stdout=log, stderr=log)
    end = time.monotonic() + START_SECONDS
    while not (directory / "socket").exists():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError((directory / "log").read_text())
        time.sleep(0.05)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_SECONDS)


def _cluster() -> Resources:
    tera = 10**12
    devices = (
        Device(path="/nvme", kind="nvme", capacity_bytes=2 * tera),
        Device(path="/ssd", kind="ssd", capacity_bytes=tera),
        Device(path="/disk", kind="hdd", capacity_bytes=8 * tera),
    )
    nodes = (Node(name=f"node{number}", devices=devices, network_bytes_per_second=12.5e9) for number in range(NODES))
    return Resources(source="benchmark", nodes=tuple(nodes))


def _script(log: Path, size: str = "") -> str:
    """A job of its own for each log: its path is the argument."""
    return f"#!/bin/bash\n#SBATCH --nodes=4\n#WEIR policy=performance{size}\nsrun model {log}\n"


def _readable(client: Client) -> Iterator[Path]:
    for log in sorted(LOGS.rglob("*.darshan")) or sorted((ROOT / "tests/data/darshan").glob("*.darshan")):
        try:
            client.ask(protocol.Plan(script=_script(log), log=str(log)), protocol.Planned)
        except PlannerError as error:
            print(f"left out: {error.message}", file=sys.stderr)
        else:
            yield log


def _timed(client: Client, request: Any, kind: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = client.ask(request, kind)
    return (time.perf_counter() - begin) * 1e3, found


def _plans(client: Client, logs: list[Path]) -> dict[str, float]:
    spent: dict[str, list[float]] = {"unknown": [], "replanned": [], "known": [], "parse": [], "plan": []}
    for log in logs:
        rounds: dict[str, list[float]] = {name: [] for name in spent}
        for number in range(ROUNDS):
            text = _script(log)
            taken, planned = _timed(client, protocol.Plan(script=text, log=str(log)), protocol.Planned)
            rounds["unknown"].append(taken)
            rounds["parse"].append(planned.times.parse_ms)
            taken, planned = _timed(
                client, protocol.Plan(script=_script(log, f" size={number + 1}GB")), protocol.Planned
            )
            assert planned.known and planned.times.parse_ms == 0
            rounds["replanned"].append(taken)
            rounds["plan"].append(planned.times.plan_ms)
            taken, planned = _timed(
                client, protocol.Plan(script=_script(log, f" size={number + 1}GB")), protocol.Planned
            )
            assert planned.known and planned.times.plan_ms == 0
            rounds["known"].append(taken)
        for name, found in rounds.items():
            spent[name].append(median(found))
    return {f"service_{name}_ms": median(found) for name, found in spent.items()}


def _ping(client: Client) -> dict[str, float]:
    return {"service_ping_ms": median(_timed(client, protocol.Ping(), protocol.Hello)[0] for _ in range(200))}


def _in_flight(place: Path, process: subprocess.Popen[bytes], log: Path) -> dict[str, float]:
    """A client sends a thousand plans before it reads an answer; another asks for validity meanwhile."""
    before = _resident(process)
    quick: list[float] = []
    over = threading.Event()

    def ask_quickly() -> None:
        with Client(place) as other:
            while not over.is_set():
                quick.append(_timed(other, protocol.Validate(script=_script(log)), protocol.Valid)[0])
                quick.append(_timed(other, protocol.Pools(), protocol.PoolList)[0])

    asker = threading.Thread(target=ask_quickly)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place))
        asker.start()
        begin = time.perf_counter()
        for number in range(IN_FLIGHT):
            # Each is under conditions of its own, so that all are planned.
            plan = {"request": "plan", "id": number, "script": _script(log, f" size={number + 1}MB")}
            connection.sendall(json.dumps(plan).encode() + b"\n")
        answers = connection.makefile("rb")
        for number in range(IN_FLIGHT):
            answer = json.loads(answers.readline())
            assert answer["id"] == number and "result" in answer, answer
        seconds = time.perf_counter() - begin
    over.set()
    asker.join(WAIT_SECONDS)
    quick.sort()
    return {
        "service_in_flight_seconds": seconds,
        "service_in_flight_mib": (_resident(process) - before) / (1 << 20),
        "service_quick_ms_p99": quick[int(len(quick) * 0.99)],
    }


def _resident(process: subprocess.Popen[bytes]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) << 10


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        print(json.dumps(service_speed(Path(folder))))
