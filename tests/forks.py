"""`weir` without its imports: a process that has imported the commands forks one for each start.

A start of the program takes some 100 ms of a processor, nearly all of them for imports. What a test sees of a forked
process is the same: its own number, descriptors, environment, folder and exit code. What only a start has takes a
start: `suits` tells the two apart.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import sysconfig
import threading
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "weir")
_AT_START = ("LANG", "LC_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "TZ")
"""Begins of variables that the loader, the interpreter and libraries read once, when they start."""
_OPTIONS = {"cwd", "encoding", "env", "errors", "start_new_session", "stderr", "stdin", "stdout", "text"}
"""What a fork can have of the options of `Popen`."""
_NUMBER_BYTES = 8
_MESSAGE_BYTES_MAX = 1 << 20
_LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
_EXECUTED = signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Forked(subprocess.Popen[Any]):
    """A process of `weir` that was forked in place of started, and otherwise a `Popen`."""

    def _execute_child(self, *arguments: Any) -> None:
        asked = _EXECUTED.bind(self, *arguments).arguments
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        request = {
            "words": list(map(str, asked["args"])),
            "environment": dict(asked["env"]),
            "folder": str(asked["cwd"] or Path.cwd()),
            "leads": asked["start_new_session"],
            "starter": os.getpid(),
        }
        self._told = _source().fork(request, [own if own != -1 else number for number, own in enumerate(streams)])
        self.pid = _read(self._told)
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in _ENDS))  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        status = _read(self._told)
        os.close(self._told)
        return self.pid, status


class _Source:
    """The process that forks, for the one that wants forks."""

    def __init__(self) -> None:
        self._requests, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end:
            # In a session of its own: a key that interrupts the tests is not for it.
            command = [sys.executable, __file__, str(end.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[end.fileno()], start_new_session=True)
        atexit.register(self._end)

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        """Ask for a process; from the descriptor come its number and, at its end, its status."""
        told, tells = os.pipe()
        document = os.memfd_create("request")
        try:
            os.write(document, json.dumps(request).encode())
            socket.send_fds(self._requests, [b"+"], [document, tells, *streams])
        finally:
            os.close(document)
            os.close(tells)
        return told

    def _end(self) -> None:
        self._requests.close()
        self._process.wait()


@cache
def _source() -> _Source:
    return _Source()


def suits(options: Mapping[str, Any]) -> bool:
    """Whether a fork is the same as a start: with the interpreter of the test, its user and variables of libraries."""
    environment = options.get("env")
    if environment is None or not options.keys() <= _OPTIONS:
        return False
    names = [name for name in environment.keys() | os.environ.keys() if name.startswith(_AT_START)]
    return all(environment.get(name) == os.environ.get(name) for name in names)


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a command as `Popen` does; where it is `weir` and a fork is the same, by a fork."""
    kind = Forked if command[0] == PROGRAM and suits(options) else subprocess.Popen
    return kind(command, **options)


class _Forker:
    """The process that forks."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._imports, self._tells_imports = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._running: dict[int, tuple[int, int]] = {}
        self._poller = select.poll()
        self._imported: Counter[str] = Counter()

    def serve(self) -> None:
        """Fork until nobody asks any more. A forked process does not return."""
        from weir import cli

        for place in cli._COMMANDS.values():
            importlib.import_module(place.partition(":")[0])
        for known in (self._requests, self._imports):
            self._poller.register(known, select.POLLIN)
        gc.freeze()
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._imports.fileno():
                    self._learn(json.loads(self._imports.recv(_MESSAGE_BYTES_MAX)))
                elif descriptor in self._running:
                    self._tell_end(descriptor)
                elif not self._fork():
                    return

    def _fork(self) -> bool:
        """Fork for a request; False where there are no more."""
        message, descriptors, _, _ = socket.recv_fds(self._requests, 1, 5)
        if not message:
            return False
        document, tells, *streams = descriptors
        if (pid := os.fork()) == 0:
            _become(document, streams, self._tells_imports)
        os.write(tells, pid.to_bytes(_NUMBER_BYTES, "little"))
        for descriptor in (document, *streams):
            os.close(descriptor)
        ended = os.pidfd_open(pid)
        self._running[ended] = pid, tells
        self._poller.register(ended, select.POLLIN)
        return True

    def _tell_end(self, ended: int) -> None:
        pid, tells = self._running.pop(ended)
        self._poller.unregister(ended)
        with contextlib.suppress(BrokenPipeError):
            os.write(tells, os.waitpid(pid, 0)[1].to_bytes(_NUMBER_BYTES, "little"))
        os.close(tells)
        os.close(ended)

    def _learn(self, names: Sequence[str]) -> None:
        """Import what two processes imported, so that the next one has it."""
        self._imported.update(names)
        for name in names:
            if self._imported[name] == 2 and name not in sys.modules:
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
        gc.freeze()


def _become(document: int, streams: Sequence[int], tells_imports: socket.socket) -> NoReturn:
    """Be the program `weir` that was asked for, to its end."""
    request = json.loads(os.pread(document, os.fstat(document).st_size, 0))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if descriptor > 2 and descriptor != tells_imports.fileno():
            with contextlib.suppress(OSError):
                os.close(descriptor)
    if request["leads"]:
        os.setsid()
    for limit in _LIMITS:
        resource.setrlimit(limit, resource.prlimit(request["starter"], limit))
    state = Path(f"/proc/{request['starter']}/status").read_text()
    os.umask(int(state.partition("Umask:")[2].split()[0], 8))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = request["words"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    known = set(sys.modules)
    code = _run_to_end()
    new = [name for name, module in sys.modules.items() if name not in known and module.__spec__ is not None]
    with contextlib.suppress(OSError):
        tells_imports.send(json.dumps(new).encode())
    os._exit(code)


def _run_to_end() -> int:
    """Run the program as the interpreter does; the exit code."""
    from weir.cli import main

    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return 120
    return code


def _read(told: int) -> int:
    """The next number of a process that was forked."""
    answer = os.read(told, _NUMBER_BYTES)
    if not answer:
        raise ChildProcessError("the process that forks has ended")
    return int.from_bytes(answer, "little")


if __name__ == "__main__":
    # Programs find here what they find beside `weir`, and no module of the tests.
    sys.path[0] = str(Path(PROGRAM).parent)
    _Forker(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)
