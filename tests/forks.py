"""`weir` without its imports: a process that has imported the commands forks one for each start.

A start of the program takes some 100 ms of a processor, nearly all of them for imports. What a test sees of a forked
process is the same: its own number, descriptors, environment, folder and exit code. What only a start has takes a
start: `suits` tells the two apart.
"""

import atexit
import contextlib
import ctypes
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
_ORDINARY: dict[str, Any] = {
    **{"executable": None, "preexec_fn": None, "close_fds": True, "pass_fds": (), "shell": False, "umask": -1},
    **{"restore_signals": True, "gid": None, "gids": None, "uid": None, "process_group": -1},
}
"""A fork has these values of what else can be asked of a start."""
_NUMBER_BYTES = 8
_COMMAND_BYTES = 1 << 15
"""Room for the words of a fork in the list of processes."""
_PR_SET_MM, _PR_SET_MM_ARG_END = 35, 9
_MESSAGE_BYTES_MAX = 1 << 20
_LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
_EXECUTED = signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class Start(subprocess.Popen[Any]):
    """A process that was started; `weir` is forked in place of that where nobody can tell the difference."""

    _told: socket.socket | None = None
    """The line that tells the status of a fork, which keeps its number until the status was taken, as a child does."""

    def _execute_child(self, *arguments: Any) -> None:
        asked = _EXECUTED.bind(self, *arguments).arguments
        if not suits(asked):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        streams = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        request = {
            "words": [PROGRAM, *(_words(asked["args"]) or ())],
            "environment": dict(asked["env"] or os.environ),
            "folder": os.fsdecode(asked["cwd"] or Path.cwd()),
            "leads": asked["start_new_session"],
            "starter": os.getpid(),
        }
        self._told = _source().fork(request, [own if own != -1 else number for number, own in enumerate(streams)])
        self.pid = _read(self._told.fileno())
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in _ENDS))  # type: ignore[attr-defined]

    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:
        if self._told is None:
            return super()._internal_poll(*arguments, **options)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._told is None:
            return super()._try_wait(flags)  # type: ignore[misc, no-any-return]
        if flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        with self._told:
            status = _read(self._told.fileno())
            self._told.send(b"+")
            self._told.recv(1)
        return self.pid, status


class _Source:
    """The process that forks, for the one that wants forks."""

    def __init__(self) -> None:
        self._requests, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end:
            # In a session of its own: a key that interrupts the tests is not for it.
            command = [sys.executable, __file__, str(end.fileno()), "-" * _COMMAND_BYTES]
            self._process = subprocess.Popen(command, pass_fds=[end.fileno()], start_new_session=True)
        atexit.register(self._end)

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> socket.socket:
        """Ask for a process; from the line come its number and, at its end, its status."""
        told, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        document = os.memfd_create("request")
        try:
            os.write(document, json.dumps(request).encode())
            socket.send_fds(self._requests, [b"+"], [document, tells.fileno(), *streams])
        finally:
            os.close(document)
            tells.close()
        return told

    def _end(self) -> None:
        self._requests.close()
        self._process.wait()


@cache
def _source() -> _Source:
    return _Source()


def _words(command: Any) -> list[str] | None:
    """The words of a command behind the program; None where it is not `weir`."""
    if isinstance(command, str | bytes | os.PathLike):
        return None
    words = [os.fsdecode(word) for word in command]
    for program in ([PROGRAM], [sys.executable, "-m", "weir.cli"]):
        if words[: len(program)] == program:
            return words[len(program) :]
    return None


def suits(asked: Mapping[str, Any]) -> bool:
    """Whether a fork is the same as a start: of `weir`, with the user and variables of libraries of the test."""
    if _words(asked["args"]) is None or any(asked[name] != value for name, value in _ORDINARY.items()):
        return False
    environment = os.environ if asked["env"] is None else asked["env"]
    names = [name for name in environment.keys() | os.environ.keys() if name.startswith(_AT_START)]
    return all(environment.get(name) == os.environ.get(name) for name in names)


class _Forker:
    """The process that forks."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._imports, self._tells_imports = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._running: dict[int, tuple[int, int]] = {}
        self._ended: dict[int, int] = {}
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
                elif descriptor in self._ended:
                    self._give_up_number(descriptor)
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
        """Tell the status of a process that ended. Its number stays its own until that was taken."""
        pid, tells = self._running.pop(ended)
        self._poller.unregister(ended)
        os.close(ended)
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert end is not None
        status = end.si_status << 8 if end.si_code == os.CLD_EXITED else end.si_status
        with contextlib.suppress(BrokenPipeError):
            os.write(tells, status.to_bytes(_NUMBER_BYTES, "little"))
        self._ended[tells] = pid
        self._poller.register(tells, select.POLLIN)

    def _give_up_number(self, tells: int) -> None:
        with contextlib.suppress(OSError):
            os.read(tells, _NUMBER_BYTES)
        os.waitpid(self._ended.pop(tells), 0)
        self._poller.unregister(tells)
        os.close(tells)

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
    _show([sys.executable, *sys.argv])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    known = set(sys.modules)
    code = _run_to_end()
    new = [name for name, module in sys.modules.items() if name not in known and module.__spec__ is not None]
    with contextlib.suppress(OSError):
        tells_imports.send(json.dumps(new).encode())
    os._exit(code)


def _show(command: Sequence[str]) -> None:
    """Show a command in the list of processes: by its words tests find what is left of it."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    words = b"".join(os.fsencode(word) + b"\0" for word in command)[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, words, len(words))
    # Root alone may move the end; for others zeros follow.
    ctypes.CDLL(None).prctl(_PR_SET_MM, _PR_SET_MM_ARG_END, ctypes.c_ulong(start + len(words)), 0, 0)


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
