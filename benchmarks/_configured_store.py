"""A real store of emulated devices, whose files processes write and read by one configuration after the other.

    python _configured_store.py PROCESSES BYTES    the processes of a job; each line of input is `write`, `read` or
                                                   `remove` and a folder, and is answered by seconds

Each process has a file of its own. The processes live as long as the store, so a phase starts none.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import weir
from _harness import WAIT_SECONDS, run_weir
from weir.experiments.ranks import Phases, Ranks
from weir.provisioning.objectives.device_classes import DeviceClass

WAYS = ("write", "read")
PREFIX = "/weir"
CALL_BYTES = 4 << 20
BYTES = 16 << 20
"""Bytes of each process: four calls, so that a phase takes seconds on slow devices."""


def processes(servers: int) -> int:
    """Processes that use a store of so many servers: not a multiple, so that files do not fall evenly on targets."""
    return max(2, servers * 3 // 2)


@dataclass(frozen=True)
class Measured:
    """One phase of all processes."""

    seconds: float
    """From the begin to the end of the last process."""
    device_seconds: float
    """Emulated time that the fullest target worked: nothing that the machine does besides moves this time."""


class ConfiguredStore:
    """A store of servers with one emulated device each, and the processes of a job on it."""

    def __init__(self, home: Path, device: DeviceClass, servers: int) -> None:
        self._home, self._device, self._servers = home, device, servers
        self._ends = ExitStack()
        self._places: dict[tuple[tuple[str, str], ...], str] = {}
        self._variables: dict[str, str] = {}

    def __enter__(self) -> "ConfiguredStore":
        device = self._device
        with ExitStack() as ends:
            self._store = ends.enter_context(
                weir.store.up(
                    home=self._home,
                    servers=self._servers,
                    targets=1,
                    capacity="1GiB",
                    mount=False,
                    read_speed=f"{device.read_bytes_per_second:.0f}B/s",
                    write_speed=f"{device.write_bytes_per_second:.0f}B/s",
                    fixed_time=f"{device.read_fixed_seconds * 1e6:.0f}us",
                )
            )
            self._variables = {**os.environ, **ends.enter_context(self._store.job("figure8", prefix=PREFIX))}
            command = [sys.executable, __file__, str(processes(self._servers)), str(BYTES)]
            self._job = subprocess.Popen(
                command, env=self._variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            ends.callback(self._end)
            if self._answer() != "ready":
                sys.exit("the processes did not start")
            self._ends = ends.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def measured(self, settings: Mapping[str, str]) -> dict[str, Measured]:
        """Let all processes write new files by a configuration, and read them; the files are removed."""
        place = self._place(settings)
        found = {way: self._phase(way, place) for way in WAYS}
        self._phase("remove", place)
        return found

    def _place(self, settings: Mapping[str, str]) -> str:
        """The folder of a configuration."""
        key = tuple(sorted(settings.items()))
        if key not in self._places:
            place = self._places[key] = f"{PREFIX}/{len(self._places)}"
            program = f"import os; os.mkdir({place!r})"
            subprocess.run([sys.executable, "-c", program], env=self._variables, check=True, timeout=WAIT_SECONDS)
            layout = ("-c", settings["stripe_count"].replace("0", "-1"), "-S", settings["stripe_size"])
            run_weir(self._variables, "layout", "set", *layout, place)
        return self._places[key]

    def _phase(self, way: str, place: str) -> Measured:
        before = self._worked()
        assert self._job.stdin is not None
        self._job.stdin.write(f"{way} {place}\n")
        self._job.stdin.flush()
        seconds = float(self._answer())
        worked = max(after - then for after, then in zip(self._worked(), before, strict=True))
        return Measured(seconds, worked)

    def _worked(self) -> list[float]:
        """Seconds that each target has worked."""
        return [target.busy_seconds for server in self._store.servers for target in server.status().targets]

    def _answer(self) -> str:
        assert self._job.stdout is not None
        if not select.select([self._job.stdout], [], [], WAIT_SECONDS)[0]:
            sys.exit(f"the processes did not answer within {WAIT_SECONDS} s")
        line = self._job.stdout.readline()
        if not line:
            sys.exit("the processes failed")
        return line.strip()

    def _end(self) -> None:
        assert self._job.stdin is not None
        self._job.stdin.close()
        try:
            self._job.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._job.kill()
            self._job.wait()


def run_processes(count: int, size: int) -> int:
    """Run the phases that the input names."""

    def work(number: int, phases: Phases) -> None:
        payload = os.urandom(CALL_BYTES)
        phases.done()
        while (word := phases.next()) is not None:
            way, place = word.split()
            _one_phase(way, f"{place}/{number}", payload, size)
            phases.done()

    ranks = Ranks(count, work)
    # The end of the input ends ranks that hang.
    lifeline = sys.stdin.fileno()
    is_whole = ranks.all_done(lifeline)
    print("ready", flush=True)
    while is_whole and (line := sys.stdin.readline()):
        begin = time.perf_counter()
        ranks.begin(line.strip())
        is_whole = ranks.all_done(lifeline)
        if is_whole:
            print(time.perf_counter() - begin, flush=True)
    return min(1, ranks.end(is_killed=not is_whole))


def _one_phase(way: str, path: str, payload: bytes, size: int) -> None:
    if way == "remove":
        Path(path).unlink()
        return
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    for place in range(0, size, len(payload)):
        if way == "write":
            if os.pwrite(file, payload, place) != len(payload):
                raise OSError(f"a write to {path} was short")
        elif os.pread(file, len(payload), place) != payload:
            raise OSError(f"{path} is not what was written")
    os.close(file)


if __name__ == "__main__":
    sys.exit(run_processes(int(sys.argv[1]), int(sys.argv[2])))
