"""The store beside its limits: a bare socket pump, Redis, tmpfs; the victim beside its neighbour.

make bench-store        every figure; the last line is one JSON object
.venv/bin/python benchmarks/store.py throughput small metadata idle memory victim
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _harness import ROOT, Store, announce, compiled, finish, together

BLOCKS = 1024
REPEATS = 5
SMALL_PROCESSES = 16
SMALL_SECONDS = 3.0
SMALL_FILE_BYTES = 64 << 20
METADATA_PROCESSES = 4
METADATA_FILES = 4_000
IDLE_SECONDS = 10


def throughput(directory: Path) -> dict[str, float]:
    """1 MiB blocks on the fast path, beside a pump over a Unix socket, fresh pages at the receiving end."""
    load = compiled("load", directory)
    ratios: dict[str, list[float]] = {"write": [], "read": []}
    rates: dict[str, list[float]] = {"write": [], "read": [], "pump": []}
    with Store(directory, servers=1, targets=1, capacity="8GiB") as store:
        file = store.mount / "file"
        for _ in range(REPEATS):
            pump = _pump(load, directory)
            rates["pump"].append(pump)
            for verb in ("write", "read"):
                (result,) = together([store.run([load, verb, file, BLOCKS])])
                rates[verb].append(result.rate)
                ratios[verb].append(result.rate / pump)
            file.unlink()
    median = {name: statistics.median(values) for name, values in rates.items()}
    for verb in ("write", "read"):
        ratio = statistics.median(ratios[verb])
        announce(f"{verb} 1 MiB", f"{median[verb]:.0f} MiB/s", f"bare socket pump {median['pump']:.0f} MiB/s", ratio)
    return {
        "write_vs_socket": statistics.median(ratios["write"]),
        "read_vs_socket": statistics.median(ratios["read"]),
        "write_mib_per_second": median["write"],
        "read_mib_per_second": median["read"],
        "socket_mib_per_second": median["pump"],
    }


def _pump(load: Path, directory: Path) -> float:
    socket = directory / "pump"
    socket.unlink(missing_ok=True)
    sender, receiver = together([[load, "pump-send", socket, BLOCKS], [load, "pump-receive", socket, BLOCKS]])
    return min(sender.rate, receiver.rate)


def small(directory: Path) -> dict[str, float]:
    """4 KiB random reads from 16 processes, beside as many clients of Redis over a Unix socket."""
    load = compiled("load", directory)
    reads, gets, ratios = [], [], []
    with Store(directory, servers=1, targets=1) as store, Redis(directory) as socket:
        file = store.mount / "file"
        file.write_bytes(os.urandom(SMALL_FILE_BYTES))
        reader = store.run([load, "random", file, SMALL_FILE_BYTES, SMALL_SECONDS])
        for _ in range(REPEATS):
            gets.append(_redis_gets(socket))
            reads.append(sum(result.rate for result in together([reader] * SMALL_PROCESSES)))
            ratios.append(reads[-1] / gets[-1])
    ratio = statistics.median(ratios)
    announce(
        "read 4 KiB", f"{statistics.median(reads):.0f} a second", f"redis {statistics.median(gets):.0f} a second", ratio
    )
    return {
        "read_4k_vs_redis": ratio,
        "read_4k_per_second": statistics.median(reads),
        "redis_get_per_second": statistics.median(gets),
    }


class Redis:
    """A Redis server on a Unix socket, with the key that its benchmark reads."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "redis"

    def __enter__(self) -> Path:
        options = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        self.server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self.socket.exists():
            if time.monotonic() > deadline:
                sys.exit("redis-server did not start within 10 s")
            time.sleep(0.05)
        subprocess.run(_redis_benchmark(self.socket, "set", 1_000), check=True, stdout=subprocess.DEVNULL)
        return self.socket

    def __exit__(self, *_: object) -> None:
        self.server.terminate()
        self.server.wait(timeout=10)


def _redis_benchmark(socket: Path, test: str, requests: int) -> list[str]:
    return ["redis-benchmark", "-s", str(socket), "-c", "1", "-t", test, "-d", "4096", "-n", str(requests), "--csv"]


def _redis_gets(socket: Path) -> float:
    """GETs a second of 16 processes, by the work and the time of all of them."""
    requests = 12_000
    command = _redis_benchmark(socket, "get", requests)
    start = time.monotonic()
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(SMALL_PROCESSES)]
    outputs = [client.communicate()[0] for client in clients]
    elapsed = time.monotonic() - start
    if any(client.returncode for client in clients) or not all('"GET"' in output for output in outputs):
        sys.exit("redis-benchmark failed")
    return SMALL_PROCESSES * requests / elapsed


def metadata(directory: Path) -> dict[str, float]:
    """Files made, looked at and removed by four processes, beside the same on tmpfs."""
    load = compiled("load", directory)
    figures: dict[str, float] = {}
    memory = Path(tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm"))
    try:
        with Store(directory, servers=1, targets=1) as store:
            for verb in ("create", "stat", "unlink"):
                rates = {}
                for name, place in (("weir", store.mount), ("tmpfs", memory)):
                    folders = [place / str(number) for number in range(METADATA_PROCESSES)]
                    for folder in folders:
                        folder.mkdir(exist_ok=True)
                    commands: list[list[object]] = [[load, verb, folder, METADATA_FILES] for folder in folders]
                    if name == "weir":
                        commands = [store.run(command) for command in commands]
                    rates[name] = sum(result.rate for result in together(commands))
                announce(
                    verb,
                    f"{rates['weir']:.0f} a second",
                    f"tmpfs {rates['tmpfs']:.0f} a second",
                    rates["weir"] / rates["tmpfs"],
                )
                figures[f"{verb}_per_second"] = rates["weir"]
                figures[f"{verb}_per_second_tmpfs"] = rates["tmpfs"]
    finally:
        shutil.rmtree(memory)
    return figures


def idle(directory: Path) -> dict[str, float]:
    """Processor time of a server that has nothing to do, with a mount and a peer connected."""
    with Store(directory, servers=2, targets=2) as store:
        time.sleep(2)
        before = [_processor_seconds(process) for process in store.servers()]
        time.sleep(IDLE_SECONDS)
        spent = [_processor_seconds(process) - start for process, start in zip(store.servers(), before, strict=True)]
    percent = 100 * max(spent) / IDLE_SECONDS
    announce("idle server", f"{percent:.2f} % of a core", "at most 1 %", percent)
    return {"idle_cpu_percent": percent}


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(_: Path) -> dict[str, float]:
    """Memory of a server with 1,000 connections and 10,000 requests outstanding."""
    command = ["cargo", "bench", "--quiet", "-p", "weir-server", "--bench", "outstanding"]
    output = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    mib = figures["memory_mib_at_10000_requests"]
    announce("10,000 requests", f"{mib:.0f} MiB", "640 MiB of payloads offered", mib / 640)
    return figures


def victim(_: Path) -> dict[str, float]:
    """The demo: the effect of each policy on a job whose neighbour floods the servers."""
    command = [sys.executable, str(ROOT / "examples/demo.py"), "--output", "json"]
    demo = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

    def slowdown(policy: str) -> float:
        totals: list[list[float]] = [
            [one[run]["seconds"]["total"] for one in demo["rounds"]] for run in (policy, "alone")
        ]
        return float(statistics.median(beside / alone for beside, alone in zip(*totals, strict=True)))

    fifo, fair = slowdown("fifo"), slowdown("size-fair")
    announce("victim, fifo", f"{fifo:.2f} times as long", "alone", fifo)
    announce("victim, size-fair", f"{fair:.2f} times as long", "bound of its share 1.25", fair / 1.25)
    return {"victim_slowdown_fifo": fifo, "victim_slowdown_fair": fair}


PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "throughput": throughput,
    "small": small,
    "metadata": metadata,
    "idle": idle,
    "memory": memory,
    "victim": victim,
}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    figures: dict[str, float] = {}
    for name in chosen:
        directory = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        try:
            figures |= PARTS[name](directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    finish("store", figures)


if __name__ == "__main__":
    main()
