"""The main job: two jobs of real programs share a store of two servers, under one policy after the other.

The victim (4 nodes) writes and reads a checkpoint, unpacks a source tree and queries a database; the neighbour (1 node)
floods the servers. The targets work at an emulated speed, so that storage is what is shared. The victim runs alone,
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
WAIT_SECONDS = 600
REST_OVER_ALONE = 8
"""Time of the other four runs, and of their starts, over that of the victim alone."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def weir(*words: str) -> str:
    """Runs `weir`; its words go to the terminal, its data comes back."""
    return subprocess.run([WEIR, *words], check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS).stdout


def at(home: str) -> list[str]:
    """The words that name the folder of a store; none for the usual one."""
    return ["--home", home] if home else []


def job(name: str, *command: str, home: str = "") -> list[str]:
    nodes = str(NODES[name.split("-")[0]])
    return [
        str(WEIR),
        *at(home),
        "run",
        "--nodes",
        nodes,
        "--job",
        name,
        "--",
        sys.executable,
        *command,
    ]


def up(share: float = 1.0, home: str = "") -> None:
    """Starts a store whose targets have this share of the speed."""
    speed, fixed = f"{SPEED_MB * share:.0f}MB/s", f"{FIXED_US / share:.0f}us"
    store = ["--servers", "2", "--targets", "2", "--backend", "ram", "--policy", "fifo"]
    speeds = ["--read-speed", speed, "--write-speed", speed, "--fixed-time", fixed]
    weir(*at(home), "up", *store, *speeds)


def owed(name: str) -> float:
    """The part of the device time that `size-fair` owes the victim or the neighbour while both want more."""
    return NODES[name] / sum(NODES.values())


def victim(name: str, tarball: Path) -> dict[str, float]:
    """Runs the victim and returns the seconds of its parts."""
    command = job(name, str(HERE / "victim.py"), str(tarball))
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=WAIT_SECONDS).stdout
    seconds: dict[str, float] = json.loads(output)
    return seconds


@contextlib.contextmanager
def neighbour(name: str, home: str = "") -> Iterator[None]:
    """Floods the store, or the one in another home, for the duration of the block."""
    command = job(name, str(HERE / "neighbour.py"), str(PROCESSES), home=home)
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


def shares(name: str) -> dict[str, Any]:
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


def measure(directory: Path) -> dict[str, Any]:
    tarball = source_tree(directory)
    say(f"starting two servers with two targets each, at {SPEED_MB} MB/s and {FIXED_US} us a request, emulated")
    up()
    try:
        say("the victim alone")
        alone = victim("victim-alone", tarball)
        took = alone["total"]
        say(f"that took {took:.0f} s; four more runs take about {REST_OVER_ALONE * took:.0f} s")
        runs = {}
        for policy in ("fifo", "size-fair"):
            say(f"the victim beside {PROCESSES} flooding processes, under {policy}")
            weir("policy", "set", policy)
            with neighbour(f"neighbour-{policy}"):
                seconds = victim(f"victim-{policy}", tarball)
            runs[policy] = {"seconds": seconds, "job": shares(f"victim-{policy}")}
        processors = beside_another_store(directory, tarball)
    finally:
        weir("down")
    return {"alone": alone, "runs": runs, "processors": processors, "its share": with_its_share(tarball)}


def beside_another_store(directory: Path, tarball: Path) -> dict[str, float]:
    """Runs the victim while the neighbour floods another store: only the processors are shared."""
    home = str(directory / "other")
    say(f"the victim while {PROCESSES} processes flood another store, which shares the processors alone")
    up(owed("neighbour"), home)
    try:
        with neighbour("neighbour-elsewhere", home):
            return victim("victim-processors", tarball)
    finally:
        weir("--home", home, "down")


def with_its_share(tarball: Path) -> dict[str, float]:
    """Runs the victim alone on a store that has the share of the speed that `size-fair` owes the victim."""
    say(f"the victim alone on a store of {100 * owed('victim'):.0f} % of the speed, which is its share")
    up(owed("victim"))
    try:
        return victim("victim-share", tarball)
    finally:
        weir("down")


def table(figures: dict[str, Any]) -> list[str]:
    alone, runs = figures["alone"], figures["runs"]
    columns = {policy: runs[policy]["seconds"] for policy in ("fifo", "size-fair")}
    columns |= {limit: figures[limit] for limit in ("its share", "processors")}
    lines = [
        f"{'':12}{'alone':>10}" + "".join(f"{name:>14}" for name in columns),
        f"{'':12}{'seconds':>10}" + f"{'slowdown':>14}" * len(columns),
    ]
    for part, seconds in alone.items():
        slowdowns = [column[part] / seconds for column in columns.values()]
        lines.append(f"{part:12}{seconds:10.2f}" + "".join(f"{slowdown:13.2f}x" for slowdown in slowdowns))
    for title, name in (("share owed", "share_owed"), ("received", "share_received")):
        # The policy fifo owes nobody a share.
        cells = [runs[policy]["job"][name] for policy in ("fifo", "size-fair")]
        shown = ["-" if cell is None else f"{100 * cell:.1f}%" for cell in cells]
        lines.append(f"{title:12}{'':10}" + "".join(f"{cell:>14}" for cell in shown))
    return lines


def conclusion(figures: dict[str, Any]) -> str:
    alone = figures["alone"]["total"]
    fifo, fair = (figures["runs"][policy]["seconds"]["total"] / alone for policy in ("fifo", "size-fair"))
    share, processors = (figures[limit]["total"] / alone for limit in ("its share", "processors"))
    return (
        f"the flood slowed your job {fifo:.1f} times; with size-fair sharing {fair:.1f} times "
        f"({share:.1f} times on a store of its own with its share of the speed; "
        f"{processors:.1f} times where only the processors are shared)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="weir-demo-"))
    os.environ["WEIR_HOME"] = str(directory / "home")
    try:
        figures = measure(directory)
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
