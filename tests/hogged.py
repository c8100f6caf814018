"""A victim and a hog on a store: a job of small writes with pauses, and a job of large ones without any."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

import weir.store

SPEED = 'speed = { read = "64MB/s", write = "64MB/s", fixed = "1ms" }'
WINDOW_SECONDS = 0.25
HOGS = 6
"""Processes of the hog, each with a write of 1 MiB under way."""
_VICTIM = """
import os, time
file = os.open("/weir/victim", os.O_RDWR | os.O_CREAT)
turn = 0
while True:
    begun = time.monotonic()
    os.pwrite(file, b"x" * 65536, turn % 64 * 65536)
    print(time.monotonic(), time.monotonic() - begun, flush=True)
    turn += 1
    time.sleep(0.004)
"""
_HOG = """
import os, sys
file = os.open("/weir/hog-" + sys.argv[1], os.O_RDWR | os.O_CREAT)
turn = 0
while True:
    os.pwrite(file, b"x" * (1 << 20), turn % 8 << 20)
    turn += 1
"""


def configuration(policy: str) -> str:
    """A cluster.toml of one server with one emulated target.

    Args:
        policy: Its policy.

    Returns:
        The text.
    """
    target = f'[[server.target]]\nbackend = "ram"\ncapacity = "256MiB"\n{SPEED}\n'
    return f'version = 1\npolicy = "{policy}"\nwindow = "{WINDOW_SECONDS}s"\n[[server]]\n{target}'


@dataclass
class Victim:
    """The victim at work."""

    process: "subprocess.Popen[bytes]"
    _output: IO[str]

    def writes(self) -> list[tuple[float, float]]:
        """End the victim.

        Returns:
            The moment and the time of each write, in seconds of the monotonic clock.
        """
        self.process.kill()
        self.process.wait()
        self._output.seek(0)
        # A kill may cut the last line.
        pairs = [line.split() for line in self._output]
        return [(float(pair[0]), float(pair[1])) for pair in pairs[:-1] if len(pair) == 2]


@contextmanager
def victim_at_work(store: weir.store.Store) -> Iterator[Victim]:
    """Run the victim.

    Args:
        store: The store.

    Yields:
        The victim.
    """
    # A pipe that nobody reads would stop the victim once it is full.
    with store.job(job="victim", user="ada") as environment, tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, "-c", _VICTIM], env=environment, stdout=output)
        try:
            yield Victim(process, output)
        finally:
            process.kill()
            process.wait()


@contextmanager
def hog_at_work(store: weir.store.Store) -> Iterator[None]:
    """Run the hog.

    Args:
        store: The store.

    Yields:
        Nothing.
    """
    with ExitStack() as ends, store.job(job="hog", user="bob") as environment:
        for number in range(HOGS):
            process = subprocess.Popen([sys.executable, "-c", _HOG, str(number)], env=environment)
            ends.callback(process.wait)
            ends.callback(process.kill)
        yield
