"""The kernel of a case of the loop: its phases on the store, one process, timed by its own clock.

python _loop_kernel.py PHASES CLOCK    phases as JSON; the seconds of all phases but computing go to the file CLOCK
"""

import json
import os
import sys
import time
from pathlib import Path


def run(phases: list[dict[str, object]], place: Path) -> float:
    """Make the calls of the phases, and return their seconds."""
    total = 0.0
    for phase in phases:
        verb, count, size = str(phase["verb"]), int(str(phase["count"])), int(str(phase["call_bytes"]))
        if verb == "compute":
            time.sleep(count / 1000)
            continue
        began = time.monotonic()
        if verb == "names":
            _names(place, count)
        else:
            _calls(place / "file", verb, count, size)
        total += time.monotonic() - began
    return total


def _names(place: Path, count: int) -> None:
    for number in range(count):
        path = place / f"name-{number}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        path.stat()
        path.unlink()


def _calls(path: Path, verb: str, count: int, size: int) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    payload = os.urandom(size)
    for number in range(count):
        place = number * size
        done = os.pwrite(file, payload, place) if verb == "write" else len(os.pread(file, size, place))
        if done != size:
            raise OSError(f"a {verb} of {path} was short")
    os.close(file)


if __name__ == "__main__":
    store = os.environ.get("WEIR_MOUNT") or os.environ["WEIR_PREFIX"]
    seconds = run(json.loads(sys.argv[1]), Path(store))
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(str(seconds))
