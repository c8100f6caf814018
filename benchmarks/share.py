"""Sharing beside its limits and rivals: what the policy owes, a first-in-first-out store, other schedulers.

make bench-share        every figure; the last line is one JSON object
.venv/bin/python benchmarks/share.py shares schedulers unequal synchronous conserving decision exchange metadata creates
                                     homes applications

Shares come from the targets' own busy time and from the jobs' byte counts, never from what a scheduler charged.
"""

import itertools
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from _applications import applications
from _harness import ROOT, WAIT_SECONDS, WEIR, Loads, announce, compiled, finish, run_weir, together
from weir.experiments import windows
from weir.experiments.figures import TOLERANCE, Options, rows_of, run, sized
from weir.experiments.jobs import Job, run_jobs
from weir.experiments.store import PREFIX, Store
from weir.experiments.windows import Summary

SPEED = "32MB/s"
WINDOW_SECONDS = 1.0
SECONDS = 12.0
REPEATS = 3
POLICIES: dict[str, list[Job]] = {
    "size-fair": [Job("a", 16, SECONDS, nodes=4), Job("b", 4, SECONDS, nodes=1)],
    "job-fair": [Job("a", 16, SECONDS), Job("b", 4, SECONDS)],
    "user-fair": [
        Job("a", 6, SECONDS, user="one"),
        Job("b", 6, SECONDS, user="one"),
        Job("c", 6, SECONDS, user="two"),
    ],
    "user-then-size-fair": [
        Job(name, 5, SECONDS, nodes=nodes, user=user)
        for name, nodes, user in (("a", 1, "one"), ("b", 2, "one"), ("c", 4, "two"), ("d", 6, "two"))
    ],
    "group-then-user-then-size-fair": [
        Job(name, 3, SECONDS, nodes=nodes, user=user, group="one" if user == "first" else "two")
        for name, nodes, user in zip(
            "abcdefgh",
            (1, 2, 3, 2, 3, 2, 1, 2),
            ("first", *["second"] * 3, *["third"] * 2, *["fourth"] * 2),
            strict=True,
        )
    ],
}
"""The cases of the policies, every job backlogged throughout."""
RIVALS = ("statistical-token", "gift", "tbf")
SERVICE_TIMES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Milliseconds of the emulated target for each request of a synchronous process."""
LONG = 10.0
"""Ratio of service time to the client's turnaround from which one process gets its half beside three."""
HOME_SHIFT = 48
SMALL_FILE_BYTES = 16 << 20
LOAD_SECONDS = 3.0
SETTLING_SECONDS = 1.0
HOMES, FILES_OF_TREE = 4, 64
LAMBDA_MILLISECONDS, FORGOTTEN_SECONDS = 20, 0.4
"""In 20 exchanges two thirds of what is expected of a tree are forgotten."""
_MAKE_TREES = """
import os, sys, time
for tree in sys.argv[2:]:
    os.mkdir(tree)
    time.sleep(float(sys.argv[1]))
"""


def shares(_: Path) -> dict[str, float]:
    """Every policy with each job backlogged, at an emulated speed and at full speed."""
    figures: dict[str, float] = {}
    for name, speed in (("", SPEED), ("_full_speed", None)):
        worst, within, counted = 0.0, 0, 0
        for policy, jobs in POLICIES.items():
            summaries = _measured(policy, jobs, speed=speed)
            errors = [row for row in summaries if row.share_error_max is not None]
            error = max(row.share_error_max or 0.0 for row in errors)
            good = sum(row.windows_within or 0 for row in errors)
            total = sum(row.windows for row in errors)
            worst, within, counted = max(worst, error), within + good, counted + total
            where = "emulated" if speed else "full speed"
            announce(
                f"{policy}, {where}",
                f"off by {100 * error:.2f} points",
                f"{good} of {total} windows within 2",
                error / 0.02,
            )
        figures[f"share_error_max{name}"] = worst
        figures[f"share_windows_within{name}"] = within / counted
    return figures


def schedulers(_: Path) -> dict[str, float]:
    """Standard deviation of the 1 s shares of a pair of jobs under job-fair, beside other schedulers; A B B A."""
    jobs = POLICIES["job-fair"]
    deviations: dict[str, list[float]] = {name: [] for name in ("virtual-time", *RIVALS)}
    order = [*deviations, *reversed(deviations)]
    for scheduler in order * (REPEATS // 2 or 1):
        summaries = _measured("job-fair", jobs, speed=SPEED, scheduler=scheduler)
        deviations[scheduler] += [summary.share_deviation or 0.0 for summary in summaries]
    own = statistics.median(deviations["virtual-time"])
    figures = {"share_deviation": own}
    for rival in RIVALS:
        theirs = statistics.median(deviations[rival])
        ratio = own / theirs
        announce(f"deviation, {rival}", f"{100 * own:.3f} points", f"{rival} {100 * theirs:.3f} points", ratio)
        figures[f"deviation_vs_{rival.replace('-', '_')}"] = ratio
    return figures


def unequal(_: Path) -> dict[str, float]:
    """64 KiB writers beside 2 MiB writers: the ratio of their device time under job-fair."""
    jobs = [
        Job("small", 8, SECONDS, request_bytes=64 << 10, requests_per_file=64),
        Job("large", 4, SECONDS, request_bytes=2 << 20, requests_per_file=4),
    ]
    summaries = _measured("job-fair", jobs, speed="200MB/s", is_sized=False)
    small, large = (_share(summaries, job.name) for job in jobs)
    announce("64 KiB against 2 MiB", f"{small / large:.3f} of its device time", "equal, within 5 %", small / large)
    return {"unequal_request_ratio": small / large}


def synchronous(_: Path) -> dict[str, float]:
    """One synchronous process beside three under job-fair, by the target's time for a request."""
    curve = []
    for milliseconds in SERVICE_TIMES:
        one = Job("one", 1, 4.0, request_bytes=4096)
        three = replace(one, name="three", processes=3)
        with Store(policy="job-fair", speed="1GB/s", fixed_time=f"{milliseconds * 1000:.0f}us") as store:
            alone = run_jobs(store, [replace(one, name="alone")])
            both = run_jobs(store, [one, three])
        # Alone, the process takes the service and its own turnaround for each request.
        rows = rows_of(alone, "job-fair", outstanding_min=0.0)
        requests = statistics.fmean(row.requests for row in rows[1:])
        busy = statistics.fmean(row.device_ratio for row in rows[1:])
        turnaround = (1.0 - busy) / requests
        ratio = milliseconds / 1000 / turnaround
        rows = rows_of(both, "job-fair", outstanding_min=0.0)[2:]
        share = statistics.fmean(row.share_device or 0.0 for row in rows if row.job == "one")
        curve.append((ratio, share))
        announce("one against three", f"{100 * share:.1f} %", f"half; service {ratio:.1f} x turnaround", share / 0.5)
    long = [share for ratio, share in curve if ratio >= LONG]
    figures = {
        f"one_vs_three_share_at_{milliseconds:g}ms": share
        for milliseconds, (_, share) in zip(SERVICE_TIMES, curve, strict=True)
    }
    return {"one_vs_three_share": min(long), **figures}


def conserving(directory: Path) -> dict[str, float]:
    """Throughput of a job alone, and of two that share, beside the same under `fifo`, at full speed; A B B A."""
    load = compiled("load", directory)
    rates: dict[tuple[str, str], list[float]] = {}
    with Store(policy="fifo", targets=1) as store:
        file = f"{PREFIX}/file"
        _make(store, sys.executable, "-c", f"open({file!r}, 'wb').write(bytes({SMALL_FILE_BYTES}))")
        reader: list[object] = [load, "random", file, SMALL_FILE_BYTES, LOAD_SECONDS]
        for policy in ("fifo", "size-fair", "size-fair", "fifo") * REPEATS:
            run_weir(store.environment, "policy", "set", policy)
            for case, jobs in (("alone", ["a"] * 4), ("total", ["a", "a", "b", "b"])):
                results = together([_job(job, reader) for job in jobs], store.environment)
                rates.setdefault((case, policy), []).append(sum(result.rate for result in results))
    figures = {}
    for case, name in (("alone", "alone_vs_fifo"), ("total", "total_vs_fifo")):
        fair, fifo = rates[case, "size-fair"], rates[case, "fifo"]
        ratios = [ours / theirs for ours, theirs in zip(fair, fifo, strict=True)]
        figures[name] = statistics.median(ratios)
        announce(
            f"{case}, size-fair",
            f"{statistics.median(fair):.0f} reads a second",
            f"fifo {statistics.median(fifo):.0f} ({min(ratios):.2f}-{max(ratios):.2f})",
            figures[name],
        )
    return figures


def decision(_: Path) -> dict[str, float]:
    """One decision among 10,000 jobs in a tree of three levels, beside the same rule on binary heaps, flat."""
    three, heaps = "dispatch/group-then-user-then-size-fair/10000", "binary-heaps/size-fair/10000"
    times: dict[str, list[float]] = {three: [], heaps: []}
    for _repeat in range(REPEATS):
        for name in times:
            times[name].append(_criterion(name))
    own, theirs = (statistics.median(each) for each in times.values())
    announce("decision, 3 levels", f"{own:.0f} ns", f"binary heaps, flat: {theirs:.0f} ns", own / theirs)
    return {"decision_ns": own, "decision_vs_binary_heaps": own / theirs}


def _criterion(name: str) -> float:
    """Nanoseconds of a benchmark of the scheduler."""
    command = [
        "cargo",
        "bench",
        "--quiet",
        "-p",
        "weir-fairshare",
        "--bench",
        "decision",
        "--",
        "--noplot",
        f"^{name}$",
    ]
    output = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"time:\s+\[\S+ \S+ (\S+) (\S+)", output)
    if found is None:
        sys.exit(f"the benchmark {name} printed no time")
    return float(found[1]) * {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6}[found[2]]


def exchange(_: Path) -> dict[str, float]:
    """Exchanges until three jobs on two servers have the right weights everywhere, for every lambda."""
    figures: dict[str, float] = {}
    exchanges, errors = [], []
    for panel in itertools.chain.from_iterable(run("figure-14", Options(5.0), _quiet).panels for _ in range(REPEATS)):
        found = panel.convergence
        if found is None or found.exchanges is None or found.share_error_max is None:
            sys.exit(f"{panel.title}: the weights never became right")
        exchanges.append(found.exchanges)
        errors.append(found.share_error_max)
        announce(panel.title, f"right after {found.exchanges} exchanges", "at most 2", found.exchanges / 2)
        key = f"exchanges_to_fair_at_{found.lambda_milliseconds}ms"
        figures[key] = max(figures.get(key, 0), found.exchanges)
    return {"exchanges_to_fair_max": max(exchanges), "exchange_share_error_max": max(errors), **figures}


def _quiet(_: str) -> None:
    pass


def metadata(directory: Path) -> dict[str, float]:
    """A flood of stat calls beside another of a job four times as large, and beside a job that writes."""
    load = compiled("load", directory)
    flood: list[object] = [load, "stats", f"{PREFIX}/flooded", 64, LOAD_SECONDS + 2 * SETTLING_SECONDS]
    writer: list[object] = [load, "rewrite", f"{PREFIX}/data", 256, LOAD_SECONDS + 2 * SETTLING_SECONDS]
    with Store(policy="size-fair", speed=SPEED, metadata_time="300us") as store:
        _make(store, "mkdir", f"{PREFIX}/flooded")
        _make(store, load, "create", f"{PREFIX}/flooded", 64)
        pair = _device_seconds(store, {"four": [flood] * 4, "one": [flood] * 4}, {"four": 4, "one": 1})
        alone = _device_seconds(store, {"stat": [flood] * 4}, {})
        data = _device_seconds(store, {"write": [writer] * 4}, {})
        mixed = _device_seconds(store, {"stat": [flood] * 4, "write": [writer] * 4}, {})
    metadata_device, target = "0.metadata", "0.0"
    share = pair["four"][metadata_device] / (pair["four"][metadata_device] + pair["one"][metadata_device])
    # On devices of their own both jobs are owed all that they can use alone.
    stat = mixed["stat"][metadata_device] / alone["stat"][metadata_device]
    write = mixed["write"][target] / data["write"][target]
    announce("stat 4:1", f"{100 * share:.2f} % of metadata", "owed 80 %", share / 0.8)
    announce("stat beside data", f"{alone['stat'][metadata_device]:.3f} busy alone", "owed as much beside it", stat)
    announce("data beside stat", f"{data['write'][target]:.3f} busy alone", "owed as much beside it", write)
    errors = [abs(share - 0.8) / 0.8, abs(0.2 - (1 - share)) / 0.2, max(0.0, 1 - stat), max(0.0, 1 - write)]
    return {"metadata_share_error_max": max(errors)}


def creates(directory: Path) -> dict[str, float]:
    """Files made a second on 1, 2 and 4 servers by eight processes, in directories of as many homes."""
    load = compiled("load", directory)
    figures: dict[str, float] = {}
    for what, metadata_time in (("", None), ("_emulated", "500us")):
        for servers in (1, 2, 4):
            with Store(policy="size-fair", servers=servers, metadata_time=metadata_time) as store:
                folders = _folders_on_every_server(store, 8)
                makers = [_job("makers", [load, "create", folder, 500 if what else 2_000]) for folder in folders]
                results = together(makers, store.environment)
            rate = sum(result.rate for result in results)
            figures[f"creates_per_second{what}_{servers}"] = rate
            announce(
                f"create, {servers} servers{what.replace('_', ', ')}",
                f"{rate:.0f} a second",
                f"1 server {figures[f'creates_per_second{what}_1']:.0f}",
                rate / figures[f"creates_per_second{what}_1"],
            )
    return figures


def homes(directory: Path) -> dict[str, float]:
    """Two jobs on four homes, each process in a tree of its own: homes by load, and by the hash of names alone."""
    load = compiled("load", directory)
    rates: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    for way, pause in (("load", 0.0), ("hash", FORGOTTEN_SECONDS)) * REPEATS:
        with Store(
            policy="size-fair", servers=HOMES, metadata_time="5ms", lambda_milliseconds=LAMBDA_MILLISECONDS
        ) as store:
            trees = [f"{PREFIX}/{way}-{number}" for number in range(8 * HOMES)]
            # Servers forget in each pause the demand that they expect of a tree: the hash decides between idle homes.
            _make(store, sys.executable, "-c", _MAKE_TREES, pause, *trees)
            of_job = {"four": trees[::2], "one": trees[1::2]}
            makers = [_job("makers", [load, "create", tree, FILES_OF_TREE]) for tree in trees]
            results = together(makers, store.environment)
            seconds = LOAD_SECONDS + 2 * SETTLING_SECONDS
            floods = {
                job: [[load, "stats", tree, FILES_OF_TREE, seconds] for tree in each] for job, each in of_job.items()
            }
            received = _device_seconds(store, floods, {"four": 4, "one": 1})
        worked = {job: sum(each.values()) for job, each in received.items()}
        rates.setdefault(way, []).append(len(trees) * FILES_OF_TREE / max(result.seconds for result in results))
        errors.setdefault(way, []).append(abs(worked["four"] / sum(worked.values()) - 0.8))
    rate, error = ({way: statistics.median(each) for way, each in found.items()} for found in (rates, errors))
    ratio = rate["load"] / rate["hash"]
    announce("creates, 4 homes", f"{rate['load']:.0f} a second", f"hash {rate['hash']:.0f}", ratio)
    announce(
        "stat 4:1, 4 homes",
        f"off by {100 * error['load']:.2f} points",
        f"hash {100 * error['hash']:.2f}",
        error["load"] / error["hash"],
    )
    return {
        "creates_per_second_homes": rate["load"],
        "creates_homes_vs_hash": ratio,
        "homes_share_error": error["load"],
        "homes_share_error_hash": error["hash"],
    }


def _folders_on_every_server(store: Store, count: int) -> list[str]:
    """New directories in the root, as many on each server; the upper bits of an inode number are its server's."""
    candidates = [f"{PREFIX}/{number}" for number in range(8 * count)]
    _make(store, "mkdir", *candidates)
    numbers = _make(store, "stat", "-c", "%i", *candidates).split()
    homes = [int(number) >> HOME_SHIFT for number in numbers]
    of_server = [
        [path for path, home in zip(candidates, homes, strict=True) if home == server.number]
        for server in store.servers
    ]
    return [path for paths in of_server for path in paths[: count // len(of_server)]]


def _measured(
    policy: str, jobs: Sequence[Job], *, speed: str | None, scheduler: str | None = None, is_sized: bool = True
) -> list[Summary]:
    """Jobs that are backlogged throughout on one target: the share of each in windows of a second."""
    with Store(policy=policy, scheduler=scheduler, speed=speed) as store:
        jobs = sized(jobs, store, WINDOW_SECONDS) if is_sized else jobs
        run = run_jobs(store, jobs, window_seconds=WINDOW_SECONDS)
        rates = store.device_rates()
    request_seconds = max(job.request_bytes for job in jobs) / min(rates) if rates else 0.0
    tolerance = max(TOLERANCE, request_seconds / WINDOW_SECONDS)
    return windows.summaries(rows_of(run, policy), WINDOW_SECONDS, tolerance=tolerance)


def _share(summaries: Sequence[Summary], job: str) -> float:
    return statistics.fmean(summary.share_device for summary in summaries if summary.job == job)


def _device_seconds(
    store: Store, loads: dict[str, list[list[object]]], nodes: dict[str, int]
) -> dict[str, dict[str, float]]:
    """Seconds that each device worked for each job in a second, while all loads run."""
    commands = [_job(job, command, nodes.get(job, 1)) for job, each in loads.items() for command in each]
    running = Loads(commands, store.environment)
    running.go()
    time.sleep(SETTLING_SECONDS)
    begin, before = time.monotonic(), _accounts(store)
    time.sleep(LOAD_SECONDS)
    elapsed, after = time.monotonic() - begin, _accounts(store)
    running.results()
    return {
        job: {
            device: (seconds - before.get(job, {}).get(device, 0.0)) / elapsed for device, seconds in after[job].items()
        }
        for job in loads
    }


def _accounts(store: Store) -> dict[str, dict[str, float]]:
    """Seconds that each device of each server worked for each job."""
    found: dict[str, dict[str, float]] = {}
    for server in store.servers:
        for job in server.jobs():
            found.setdefault(job.job, {}).update({each.device: each.device_seconds for each in job.devices})
    return found


def _job(name: str, command: Sequence[object], nodes: int = 1) -> list[object]:
    """`command` as a part of job `name`."""
    return [WEIR, "run", "--job", name, "--nodes", nodes, "--prefix", PREFIX, "--", *command]


def _make(store: Store, *command: object) -> str:
    """Runs a command on the store before a measurement, and returns its output."""
    words = [str(word) for word in _job("maker", command)]
    environment, streams = store.environment, subprocess.PIPE
    return subprocess.run(words, check=True, env=environment, stdout=streams, text=True, timeout=WAIT_SECONDS).stdout


PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "shares": shares,
    "schedulers": schedulers,
    "unequal": unequal,
    "synchronous": synchronous,
    "conserving": conserving,
    "decision": decision,
    "exchange": exchange,
    "metadata": metadata,
    "creates": creates,
    "homes": homes,
    "applications": applications,
}


def main() -> None:
    figures: dict[str, float] = {}
    for name in sys.argv[1:] or list(PARTS):
        with TemporaryDirectory(prefix="weir-bench-") as directory:
            figures |= PARTS[name](Path(directory))
    finish("share", figures)


if __name__ == "__main__":
    main()
