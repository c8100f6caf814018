"""The main job: two jobs of real programs share a store of two servers, under one policy after the other.

The victim (4 nodes) writes and reads a checkpoint, unpacks a source tree and queries a database; the neighbour (1 node)
floods the servers. The targets work at an emulated speed, so that storage is what is shared. Both jobs work in one
directory whose files lie on every target, so they meet at each target in each run. In each round the victim runs alone,
then beside the neighbour under `fifo`, then under `size-fair`; every byte is compared with what was written.

Two more runs say what to expect. A policy of a store does not divide the processors: so the victim also runs while the
neighbour floods another store, as fast as `size-fair` lets it flood this one. And a fair share is worth a store of its
own: so the victim also runs alone on a store that has its share of the speed.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WEIR = Path(sys.executable).with_name("weir")
PROCESSES = 48
NODES = {"victim": 4, "neighbour": 1}
SPEED_MB, FIXED_US = 20, 100
"""Speed of a target, and what it takes for each request."""
MEETING_PLACE = "shared"
"""The directory of both jobs: a directory has one home server, where the names of its files are."""
LAYOUT = ["-o", "0.0,0.1,1.0,1.1", "-S", "64K"]
"""The files of that directory lie on these targets, in this order, so the jobs meet at each target: small files of both
lie on the first one, and large files on all."""
POLICIES = ("fifo", "size-fair")
PROCESSORS_MAX = 1.1
"""Slowdown by shared processors alone beyond which seconds tell little of the storage."""
WAIT_SECONDS = 600
ROUND_OVER_ALONE = 7
"""Time of a round over that of the victim alone."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def weir(*words: str) -> str:
    """Runs `weir`; its words go to the terminal, its data comes back."""
    return subprocess.run([WEIR, *words], check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS).stdout


def at(home: str) -> list[str]:
    """The words that name the folder of a store; none for the usual one."""
    return ["--home", home] if home else []


def job(name: str, script: str, argument: str, home: str = "") -> list[str]:
    """The command that runs a script of this directory as a job, in the directory where the jobs meet."""
    nodes = str(NODES[name.split("-")[0]])
    words = ["run", "--nodes", nodes, "--job", name, "--", sys.executable, str(HERE / script), argument, MEETING_PLACE]
    return [str(WEIR), *at(home), *words]


@contextlib.contextmanager
def store(share: float = 1.0, home: str = "") -> Iterator[None]:
    """Keeps a store up whose targets have this share of the speed, with the directory where the jobs meet."""
    speed, fixed = f"{SPEED_MB * share:.0f}MB/s", f"{FIXED_US / share:.0f}us"
    words = ["--servers", "2", "--targets", "2", "--backend", "ram", "--policy", "fifo"]
    weir(*at(home), "up", *words, "--read-speed", speed, "--write-speed", speed, "--fixed-time", fixed)
    try:
        (mount,) = json.loads(weir(*at(home), "status", "--output", "json"))["mounts"]
        directory = Path(mount["point"], MEETING_PLACE)
        directory.mkdir()
        weir(*at(home), "layout", "set", *LAYOUT, str(directory))
        yield
    finally:
        weir(*at(home), "down", "--yes")


def owed(name: str) -> float:
    """The part of the device time that `size-fair` owes the victim or the neighbour while both want more."""
    return NODES[name] / sum(NODES.values())


def victim(name: str, tarball: Path) -> dict[str, float]:
    """Runs the victim and returns the seconds of its parts."""
    command = job(name, "victim.py", str(tarball))
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS).stdout
    seconds: dict[str, float] = json.loads(output)
    return seconds


@contextlib.contextmanager
def neighbour(name: str, home: str = "") -> Iterator[None]:
    """Floods the store, or the one in another home, for the duration of the block."""
    command = job(name, "neighbour.py", str(PROCESSES), home=home)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as flood:
        assert flood.stdout is not None
        if flood.stdout.readline() != "flooding\n":
            sys.exit("the neighbour did not start")
        try:
            yield
        finally:
            flood.send_signal(signal.SIGTERM)
            code = flood.wait(timeout=60)
        if code != 0:
            sys.exit(f"the neighbour failed with exit code {code}")


def account(name: str) -> dict[str, Any]:
    """The account of a job with the store."""
    jobs = json.loads(weir("jobs", "--all", "--output", "json"))
    (found,) = [entry for entry in jobs if entry["job"] == name]
    return dict(found)


def source_tree(directory: Path) -> Path:
    """A tarball of real sources: the standard library's packages of this Python, without what is compiled."""
    library = Path(os.__file__).parent
    tarball = directory / "sources.tar"
    packages = ["json", "email", "asyncio", "http", "logging", "unittest", "importlib", "xml", "concurrent", "html"]
    command = ["tar", "--exclude=__pycache__", "-C", str(library), "-cf", str(tarball), *packages]
    subprocess.run(command, check=True)
    return tarball


def measure(directory: Path, rounds: int) -> dict[str, Any]:
    tarball = source_tree(directory)
    say(f"starting two servers with two targets each, at {SPEED_MB} MB/s and {FIXED_US} us a request, emulated")
    with store():
        measured = [one_round(f"{number + 1} of {rounds}", tarball) for number in range(rounds)]
        processors = beside_another_store(directory, tarball)
    return {"rounds": measured, "processors": processors, "its share": with_its_share(tarball)}


def one_round(number: str, tarball: Path) -> dict[str, Any]:
    """Runs the victim alone, and beside the neighbour under each policy.

    Returns:
        For "alone" and each policy the "seconds" of the victim's parts, and the "victim" as `weir jobs` has it; for
        each policy the "neighbour", too.
    """
    say(f"round {number}: the victim alone")
    names = {job: f"{job}-alone-{number.split()[0]}" for job in NODES}
    alone = victim(names["victim"], tarball)
    measured: dict[str, Any] = {"alone": {"seconds": alone, "victim": account(names["victim"])}}
    say(f"that took {alone['total']:.0f} s; the round takes about {ROUND_OVER_ALONE * alone['total']:.0f} s")
    for policy in POLICIES:
        say(f"round {number}: the victim beside {PROCESSES} flooding processes, under {policy}")
        weir("policy", "set", policy)
        beside = {job: name.replace("alone", policy) for job, name in names.items()}
        with neighbour(beside["neighbour"]):
            seconds = victim(beside["victim"], tarball)
        measured[policy] = {"seconds": seconds} | {job: account(name) for job, name in beside.items()}
    return measured


def beside_another_store(directory: Path, tarball: Path) -> dict[str, float]:
    """Runs the victim while the neighbour floods another store: only the processors are shared."""
    home = str(directory / "other")
    say(f"the victim while {PROCESSES} processes flood another store, which shares the processors alone")
    with store(owed("neighbour"), home), neighbour("neighbour-elsewhere", home):
        return victim("victim-processors", tarball)


def with_its_share(tarball: Path) -> dict[str, float]:
    """Runs the victim alone on a store that has the share of the speed that `size-fair` owes the victim."""
    say(f"the victim alone on a store of {100 * owed('victim'):.0f} % of the speed, which is its share")
    with store(owed("victim")):
        return victim("victim-share", tarball)


def slowdowns(rounds: list[dict[str, Any]], policy: str, part: str = "total") -> list[float]:
    """The victim's time beside the neighbour over its time alone, of each round."""
    return [measured[policy]["seconds"][part] / measured["alone"]["seconds"][part] for measured in rounds]


def waits_ms(rounds: list[dict[str, Any]], run: str) -> list[float]:
    """The mean time for which the victim's requests were queued at the servers, in milliseconds, of each round."""
    jobs = [measured[run]["victim"] for measured in rounds]
    return [1e3 * job["queue_wait_seconds_total"] / job["operations"] for job in jobs]


def spread(values: list[float], unit: str) -> str:
    """The median of some figures, and their least and greatest."""
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f}-{max(values):.2f})"


def table(figures: dict[str, Any]) -> list[str]:
    rounds = figures["rounds"]
    titles = [*POLICIES, "its share", "processors"]
    lines = [
        f"{'':12}{'alone':>20}" + "".join(f"{title:>22}" for title in titles),
        f"{'':12}{'seconds':>20}" + f"{'slowdown':>22}" * len(titles),
    ]
    for part in rounds[0]["alone"]["seconds"]:
        alone = [measured["alone"]["seconds"][part] for measured in rounds]
        cells = [spread(slowdowns(rounds, policy, part), "x") for policy in POLICIES]
        cells += [f"{figures[limit][part] / statistics.median(alone):.2f}x" for limit in ("its share", "processors")]
        lines.append(f"{part:12}{spread(alone, ''):>20}" + "".join(f"{cell:>22}" for cell in cells))
    waits = [spread(waits_ms(rounds, run), "") for run in ("alone", *POLICIES)]
    lines.append(f"{'wait, ms':12}{waits[0]:>20}" + "".join(f"{wait:>22}" for wait in waits[1:]))
    for title, name in (("share owed", "share_owed"), ("received", "share_received")):
        # The policy fifo owes nobody a share.
        lines.append(f"{title:12}{'':20}" + "".join(f"{percent(rounds, policy, name):>22}" for policy in POLICIES))
    met = [min(targets_met(measured[policy]) for measured in rounds) for policy in POLICIES]
    lines.append(f"{'targets met':12}{'':20}" + "".join(f"{count:>22}" for count in met))
    return lines


def percent(rounds: list[dict[str, Any]], policy: str, name: str) -> str:
    """The median of a share of the victim over the rounds."""
    shares = [measured[policy]["victim"][name] for measured in rounds]
    return "-" if None in shares else f"{100 * statistics.median(shares):.1f}%"


def targets_met(run: dict[str, Any]) -> int:
    """The number of targets that worked for both jobs; the rest of a job's devices are the metadata of servers."""
    worked = [
        {device["device"] for device in run[job]["devices"] if device["device_seconds"] > 0}
        for job in ("victim", "neighbour")
    ]
    return sum(not device.endswith("metadata") for device in set.intersection(*worked))


def conclusion(figures: dict[str, Any]) -> str:
    """The worth of the policy, in measured numbers alone."""
    rounds = figures["rounds"]
    alone = statistics.median(measured["alone"]["seconds"]["total"] for measured in rounds)
    fifo, fair = (spread(slowdowns(rounds, policy), " times") for policy in POLICIES)
    fifo_wait, fair_wait = (statistics.median(waits_ms(rounds, policy)) for policy in POLICIES)
    share, processors = (figures[limit]["total"] / alone for limit in ("its share", "processors"))
    limits = (
        f"on a store of its own with its share of the speed the job took {share:.2f} times its time alone, and "
        f"{processors:.2f} times beside a flood that shares nothing but the processors"
    )
    if processors > PROCESSORS_MAX:
        limits += "; they are busy, so compare the waits, which the store counts, rather than the seconds"
    return (
        f"{limits}\nbeside the flood your job took {fifo} its time alone first come, first served, and {fair} with "
        f"size-fair sharing; each of its requests waited {fifo_wait:.1f} ms, and {fair_wait:.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the three runs; %(default)s by default")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="weir-demo-"))
    os.environ["WEIR_HOME"] = str(directory / "home")
    try:
        figures = measure(directory, arguments.rounds)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if arguments.output == "json":
        print(json.dumps(figures))
        return
    print("\n".join(table(figures)))
    say("every byte that was read back was what had been written")
    say(conclusion(figures))


if __name__ == "__main__":
    main()
