"""Agents: processes that go one way into a store and carry out the calls that a test names."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waits import PATIENCE_SECONDS
from ways import Way

TwoWays = Callable[[Callable[[Path], None], str, str], "list[Remote]"]
"""Starts an agent by each of two ways into one directory: the fixture `two_ways`."""


class Agent:
    """The process: it carries out calls, one line of JSON each, until its input ends.

    A subclass has a method `do_NAME` for the call NAME.
    """

    def __init__(self, folder: Path) -> None:
        os.chdir(folder)
        self.files: dict[str, int] = {}

    def serve(self) -> None:
        for line in sys.stdin:
            name, arguments = json.loads(line)
            try:
                answer = {"value": getattr(self, f"do_{name}")(*arguments)}
            except OSError as error:
                answer = {"errno": error.errno}
            print(json.dumps(answer), flush=True)

    def do_close(self, handle: str) -> None:
        os.close(self.files.pop(handle))

    def do_ftruncate(self, handle: str, size: int) -> None:
        os.ftruncate(self.files[handle], size)

    def do_punch(self, handle: str, offset: int, length: int) -> None:
        import libc

        libc.fallocate(self.files[handle], libc.PUNCH_HOLE | libc.KEEP_SIZE, offset, length)


class Remote:
    """The test's end of an agent: a call of this object is a call of the agent."""

    def __init__(self, way: Way, serve: Callable[[Path], None]) -> None:
        """Start `serve`, a function of a test file that serves an agent in the way's directory."""
        self.way = way
        self.process = way.start(*way.python(serve))
        self.log: list[str] = []

    def __call__(self, name: str, *arguments: Any) -> Any:
        """The result of a call.

        Raises:
            OSError: The call failed.
        """
        self.log.append(f"{self.way.name}: {name} {str(arguments)[:200]}")
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            err = self.process.communicate(timeout=PATIENCE_SECONDS)[1]
            raise AssertionError(f"{self.way.name}: ended with {self.process.returncode} in {self.log[-1]}\n{err}")
        answer = json.loads(line)
        if "errno" in answer:
            raise OSError(answer["errno"], f"{self.log[-1]}: {os.strerror(answer['errno'])}")
        return answer["value"]

    def end(self) -> None:
        """End the agent in order, and check that it did."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            self.process.kill()
        assert self.process.returncode == 0, f"{out}{err}"

    def kill(self) -> None:
        """End the agent wherever it is."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)
