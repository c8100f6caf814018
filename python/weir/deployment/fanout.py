"""One command on many hosts at once: `weir agent` with a document on its standard input, and a document for an answer.

ClusterShell starts and bounds the commands. `ssh` reaches hosts over its worker for ssh; `srun` and `flux exec` are
local programs that start the command on one host of the allocation that this process runs in.
"""

import json
import math
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from weir.distribution import install_command
from weir.store import values
from weir.store.errors import StoreError

if TYPE_CHECKING:
    from ClusterShell.Task import Task

Via = Literal["ssh", "srun", "flux"]
"""Program that reaches the hosts."""

AT_ONCE = 64
"""Hosts that are asked at the same time."""
CONNECT_SECONDS = 20
"""Longest time until ssh has connected to a host."""
_ANSWER_MARK = "weir-agent-answer "
"""Begin of the line that is the answer: what a host's profile prints stands before it."""
Told = Callable[[str, int, int], None]
"""Takes the name of an operation, the number of hosts that have ended it, and of all hosts."""
_told: ContextVar[Told] = ContextVar("told", default=lambda _operation, _done, _hosts: None)
_WORDS_MAX = 400
"""Most characters of a host's own words in an error."""


@dataclass(frozen=True)
class Reach:
    """The way to the hosts of a store.

    Attributes:
        via: Program that reaches them.
        program: Path of the program `weir` on the hosts.
        options: Further options of the program that reaches them, such as `-F ~/.ssh/cluster`.
        ranks: Rank of each host, where `flux exec` reaches them.
    """

    via: Via
    program: str
    options: str = ""
    ranks: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_allocation(self) -> bool:
        """Whether the hosts are those of an allocation, whose steps end what they started."""
        return self.via != "ssh"

    def command(self, host: str, arguments: Sequence[str]) -> str:
        """Write the command that runs on this host to run `weir` on another.

        Args:
            host: Name of the other host.
            arguments: Arguments of `weir`.

        Returns:
            The command for a shell. For ssh it is the remote half: ClusterShell adds `ssh`.
        """
        remote = shlex.join([self.program, *arguments])
        options = shlex.join(shlex.split(self.options))
        if self.via == "srun":
            return f"srun --overlap --quiet --nodes=1 --ntasks=1 --nodelist={shlex.quote(host)} {options} {remote}"
        if self.via == "flux":
            return f"flux exec --rank={self.ranks[host]} {options} {remote}"
        return remote


@contextmanager
def telling(told: Told) -> Iterator[None]:
    """Tell how far the hosts are with each operation that the block asks for."""
    before = _told.set(told)
    try:
        yield
    finally:
        _told.reset(before)


def ask(reach: Reach, operation: str, documents: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Have hosts do one operation at the same time.

    Args:
        reach: The way to the hosts.
        operation: Name of the operation of `weir agent`.
        documents: Document for each host, by the host's name.
        seconds: Longest time until a host has answered.

    Returns:
        The answer of each host, by the host's name: a document, or a `StoreError` whose message names the host.

    Raises:
        StoreError: ClusterShell or the program that reaches the hosts is missing, or a text is no name of a host.
    """
    try:
        for host in documents:
            values.host(host)
    except ValueError as error:
        raise StoreError(
            str(error), hint="restore the description of the store from a copy: every host has one"
        ) from error
    if shutil.which(reach.via) is None:
        raise StoreError(
            f"cannot reach {', '.join(documents)}: there is no program `{reach.via}` on this host",
            hint="install it, or name another program with `via`",
        )
    task = _task(reach, seconds)
    counter = _counter(operation, len(documents))
    workers = {}
    for host, document in documents.items():
        command = reach.command(host, ["agent", operation])
        worker = _schedule(task, reach, host, command, seconds, counter)
        worker.write(json.dumps(document).encode() + b"\n")
        worker.set_write_eof()
        workers[host] = worker
    task.resume()
    try:
        return {host: _answer(reach, host, worker, seconds) for host, worker in workers.items()}
    finally:
        task.abort()


def answer_line(document: Any) -> str:
    """Write the line by which an agent answers.

    Args:
        document: The answer.

    Returns:
        The line, without its end.
    """
    return _ANSWER_MARK + json.dumps(document)


def answer_in(text: str) -> Any:
    """Find the answer in the output of an agent.

    Args:
        text: The output.

    Returns:
        The answer; None where the output has none.
    """
    for line in reversed(text.splitlines()):
        if line.startswith(_ANSWER_MARK):
            try:
                return json.loads(line.removeprefix(_ANSWER_MARK))
            except ValueError:
                return None
    return None


def _task(reach: Reach, seconds: float) -> "Task":
    try:
        from ClusterShell.Task import task_self
    except ImportError as error:
        raise StoreError(
            "stores on several hosts need the package ClusterShell", hint=install_command("deployment")
        ) from error
    task = task_self()
    task.set_info("fanout", AT_ONCE)
    # ssh takes whole seconds.
    task.set_info("connect_timeout", min(CONNECT_SECONDS, math.ceil(seconds)))
    if reach.via == "ssh":
        task.set_info("ssh_options", f"-oBatchMode=yes {reach.options}".strip())
    task.set_default("stderr", True)
    return task


def _counter(operation: str, hosts: int) -> Any:
    """A handler of ClusterShell that counts the hosts whose commands have ended."""
    from ClusterShell.Event import EventHandler

    told, done = _told.get(), 0
    told(operation, done, hosts)

    class Counter(EventHandler):  # type: ignore[misc]
        def ev_close(self, _worker: Any, _timed_out: bool) -> None:
            nonlocal done
            done += 1
            told(operation, done, hosts)

    return Counter()


def _schedule(task: "Task", reach: Reach, host: str, command: str, seconds: float, handler: Any) -> Any:
    if reach.via == "ssh":
        return task.shell(command, nodes=host, timeout=seconds, handler=handler)
    from ClusterShell.Worker.Exec import ExecWorker

    worker = ExecWorker(nodes=host, handler=handler, timeout=seconds, command=command, stderr=True)
    task.schedule(worker)
    return worker


def _answer(reach: Reach, host: str, worker: Any, seconds: float) -> Any:
    """The document that a host answered, or the error."""
    told = answer_in(_text(worker.node_buffer(host)))
    if isinstance(told, dict) and "answer" in told:
        return told["answer"]
    if isinstance(told, dict) and "error" in told:
        return StoreError(f"{host}: {told['error']}", hint=str(told.get("hint", "")))
    if host in list(worker.iter_keys_timeout()):
        return StoreError(f"{host}: no answer within {seconds:.3g} s", hint="is the host up?")
    return _unreached(
        reach, host, _text(worker.node_error_buffer(host)) or _text(worker.node_buffer(host)), worker.node_retcode(host)
    )


def _unreached(reach: Reach, host: str, words: str, code: int | None) -> StoreError:
    """The error for a command that ended without an answer."""
    told = " ".join(words.split())[-_WORDS_MAX:]
    if code in (126, 127):
        return StoreError(
            f"{host}: {reach.program} cannot be executed there: {told or f'exit code {code}'}",
            hint="install Weir at the same path on every host, or name its path there with `program`",
        )
    if reach.via == "ssh" and code == 255:
        return StoreError(
            f"{host}: ssh failed: {told or 'it says nothing'}",
            hint=f"does `ssh {host} true` work without a password? `ssh_options` gives ssh further options",
        )
    return StoreError(f"{host}: `{reach.via}` ended with exit code {code}: {told or 'it says nothing'}")


def _text(buffer: bytes | None) -> str:
    return (buffer or b"").decode(errors="replace")
