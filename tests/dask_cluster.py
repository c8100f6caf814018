"""A Dask cluster of real processes on loopback, for tests."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waits import PATIENCE_SECONDS, wait_until


@contextmanager
def dask_scheduler(folder: Path) -> Iterator[str]:
    """A Dask scheduler on loopback."""
    file = folder / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter", "--scheduler-file", str(file))
    with running("distributed.cli.dask_scheduler", *words, folder=folder, name="scheduler"):
        wait_until("the scheduler has started", lambda: file.exists() and file.read_text().endswith("}"))
        yield json.loads(file.read_text())["address"]


@contextmanager
def dask_worker(folder: Path, address: str, number: int) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one thread, without a nanny that would start it again."""
    place = (
        "--local-directory",
        str(folder / f"worker{number}"),
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    )
    words = (address, "--nthreads", "1", "--no-nanny", "--name", str(number), *place)
    with running("distributed.cli.dask_worker", *words, folder=folder, name=f"worker{number}") as process:
        yield process


@contextmanager
def running(module: str, *words: str, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", module, *words], cwd=folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_SECONDS)
