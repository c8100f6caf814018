"""Places to run a suite in: a fresh directory of tmpfs, or of a store by one of its ways."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store import Store, kept_for
from ways import MOUNT, MOUNTED, Way, make_way

from suites.comparison import Outcome

REFERENCE = "tmpfs"
"""The name of the place whose outcomes are the reference."""
ENDED_SECONDS = 30.0
"""A killed group of processes is gone by then, unless one of them hangs in the kernel."""
OUTPUT_BYTES_MAX = 32 << 20
"""More of a program's output is not read: a suite may print without end."""
LOGGED_CHARACTERS_MAX = 20_000
"""The end of each program's output that the log keeps."""

_ENTER = 'cd "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class Answer:
    """The result of a program."""

    code: int
    """The exit code; negative for a signal, as in `subprocess`."""
    output: str
    """The standard output and error together."""
    timed_out: bool

    @property
    def outcome(self) -> Outcome:
        """The outcome of a test that is one program: its exit code tells whether the test is ok."""
        if self.timed_out:
            return Outcome.TIMED_OUT
        # A shell reports the signal that ended its command as 128 and the signal.
        if self.code < 0 or 128 < self.code <= 128 + signal.SIGRTMAX:
            return Outcome.DIED
        return Outcome.OK if self.code == 0 else Outcome.FAILED


@dataclass
class Place:
    """A fresh directory, and the way of programs to it."""

    name: str
    folder: Path
    """The directory, as a program that is run here sees it."""
    scratch: Path
    """A directory of the host, for the files of a suite beside the file system under test."""
    log: Path
    """Every command and its output."""
    deadline: float
    """The moment of the monotonic clock at which the suite must be done."""
    way: Way | None = None
    uid: int | None = None
    """The user of the programs, where it is not the caller."""
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the suite has used up its time."""
        return time.monotonic() >= self.deadline

    def run(
        self,
        *command: str | Path,
        seconds: float,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        text: str | None = None,
    ) -> Answer:
        """Run a program in the directory, or in one below it, and give it this long."""
        seconds = min(seconds, max(0.0, self.deadline - time.monotonic()))
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as given:
            given.write((text or "").encode())
            given.seek(0)
            process = self.start(*command, environment=environment, folder=folder, stdin=given, output=output)
            try:
                timed_out = not _has_ended(process, seconds)
            finally:
                self.end(process)
            output.seek(0)
            words = output.read(OUTPUT_BYTES_MAX).decode(errors="backslashreplace")
        answer = Answer(process.returncode if process.returncode is not None else -signal.SIGKILL, words, timed_out)
        self._record(command, answer)
        return answer

    def start(
        self,
        *command: str | Path,
        output: Any,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        stdin: Any = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a program in the directory and do not wait for it; it leads a group of its own."""
        words = ["sh", "-c", _ENTER, "sh", str(folder or self.folder), *map(str, command)]
        identity: dict[str, Any] = {}
        if self.uid is not None:
            identity = {"user": self.uid, "group": self.uid, "extra_groups": []}
        # A program on a mount needs nothing of `weir run`.
        if self.way is None or self.name == MOUNT:
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
            variables = {**inherited, **(environment or {})}
        else:
            words = [*self.way.command, *words]
            variables = {**self.way.variables(), **(environment or {})}
        process = subprocess.Popen(
            words, env=variables, stdin=stdin, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd="/",
            **identity,
        )  # fmt: skip
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the rest of a program's group, and wait for the program.

        Its number is its own until it is waited for; later the number may be that of a stranger's group.
        """
        if process not in self._started:
            return
        self._started.remove(process)
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(timeout=ENDED_SECONDS)
        except subprocess.TimeoutExpired:
            self._record((str(process.pid),), Answer(-signal.SIGKILL, "cannot be killed: it hangs in the kernel", True))

    def end_all(self) -> None:
        """Kill the rest of every program that was started here."""
        for process in list(self._started):
            self.end(process)

    def make_folder(self, name: str) -> Path:
        """Make a directory below this one, and return it as a program sees it."""
        path = self.folder / name
        if self._is_seen_here:
            path.mkdir()
            if self.uid is not None:
                os.chown(path, self.uid, self.uid)
            return path
        answer = self.run("mkdir", "-p", path, seconds=ENDED_SECONDS)
        if answer.code != 0:
            raise OSError(f"cannot make {path} in {self.name}: {answer.output}")
        return path

    def remove_folder(self, path: Path) -> None:
        """Remove a directory with all that is in it, as far as that is possible."""
        if self._is_seen_here:
            shutil.rmtree(path, ignore_errors=True)
        else:
            self.run("rm", "-rf", path, seconds=ENDED_SECONDS)

    @property
    def _is_seen_here(self) -> bool:
        """Whether this process sees the directory under the same name, and need not start another for each folder."""
        return self.way is None or self.name in MOUNTED

    def _record(self, command: Sequence[str | Path], answer: Answer) -> None:
        with self.log.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n{answer.output[-LOGGED_CHARACTERS_MAX:]}")
            log.write(f"{'timed out' if answer.timed_out else f'exit code {answer.code}'}\n\n")


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a program without reaping it, so that its number stays its own."""
    ended = os.pidfd_open(process.pid)
    try:
        return bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)


@contextmanager
def reference(out: Path, seconds: float, uid: int | None = None) -> Iterator[Place]:
    """A directory of a tmpfs that is mounted with the options of a store's mount, where this user may mount."""
    with _folders(out) as (root, log):
        folder = root / "tmpfs"
        folder.mkdir()
        mounted = os.geteuid() == 0
        if mounted:
            options = "mode=755,nosuid,nodev,size=4g"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True, timeout=ENDED_SECONDS)
        else:
            folder = Path(tempfile.mkdtemp(prefix="weir-suite-", dir="/dev/shm"))
        if uid is not None:
            os.chown(folder, uid, uid)
        place = Place(REFERENCE, folder, root, log, time.monotonic() + seconds, uid=uid)
        try:
            yield place
        finally:
            place.end_all()
            if mounted:
                subprocess.run(["umount", "-l", folder], check=True, timeout=ENDED_SECONDS)
            else:
                subprocess.run(["rm", "-rf", folder], check=False, timeout=ENDED_SECONDS)


@contextmanager
def in_store(name: str, out: Path, seconds: float, options: Sequence[str], uid: int | None = None) -> Iterator[Place]:
    """A directory of a fresh store, by the way of this name; the store is taken down at the end."""
    with _folders(out) as (root, log), kept_for(root) as store:
        store.json("up", *options, *([] if name in MOUNTED else ["--no-mount"]))
        way = make_way(name, store, "suite")
        if uid is not None:
            way = _as_user(way, uid)
        place = Place(name, way.folder, root, log, time.monotonic() + seconds, way=way, uid=uid)
        try:
            yield place
        finally:
            place.end_all()


def outcome_of_servers(store: Store, out: Path) -> Outcome:
    """Whether every server of a store answers. Where one does not, its words are kept beside the log of the suite."""
    answer = store.weir("status", code=None)
    if answer.returncode == 0:
        return Outcome.OK
    folder = out / store.root.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(store.home / "servers", folder, ignore=shutil.ignore_patterns("*.sock"))
    (folder / "status").write_text(answer.stdout + answer.stderr)
    return Outcome.DIED


def _as_user(way: Way, uid: int) -> Way:
    """The same directory for a user who holds a grant and owns the directory, and nothing else of the store."""
    way.run("chown", f"{uid}:{uid}", way.folder)
    return Way(way.name, way.store, way.folder, environment=way.store.grant(uid), uid=uid)


@contextmanager
def _folders(out: Path) -> Iterator[tuple[Path, Path]]:
    """A root below /tmp that other users may pass, and an empty log."""
    out.mkdir(parents=True, exist_ok=True)
    log = out / "log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="weir-suite-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        root.chmod(0o755)
        yield root, log
