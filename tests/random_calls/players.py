"""The processes that carry out steps: one for each client of a place, on tmpfs or on a store."""

import re
import select
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from store import Store
from waits import PATIENCE_SECONDS
from ways import MOUNT, MOUNTED, PREFIX, PREFIX_PATH, PRELOAD, Way

from random_calls.steps import UPWARD_MAX, Step

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
CLIENTS = ("mount", "second mount", "preload", "prefix")
ENDED = "ended"
HANGS = "hangs"
_INODE = re.compile(r"inode=(\d+)")


def build(folder: Path) -> Path:
    """Compile the program that carries out steps."""
    program = folder / "random_calls"
    sources = sorted(map(str, PROGRAMS.glob("random_calls*.c")))
    options = ["-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *options, "-o", str(program), *sources], check=True, timeout=PATIENCE_SECONDS)
    return program


class Player:
    """The process of one client. It is started again if it ended."""

    def __init__(self, name: str, start: Callable[[], "subprocess.Popen[str]"], folder: Path, way: str) -> None:
        """`folder` holds the roots of sequences, as this client sees them; `way` is one of `ways.ALL`."""
        self.name = name
        self.way = way
        self._start = start
        self._folder = folder
        self._root = folder
        self._process: subprocess.Popen[str] | None = None

    @property
    def can_map(self) -> bool:
        """Whether its shared mappings may be written."""
        return self.way in MOUNTED

    def begin(self, root: str) -> None:
        """Forget the last sequence, and go to the root of the next one."""
        self._root = self._folder / root
        deepest = "exit"
        while self._process and deepest not in ("stays", ENDED, HANGS):
            deepest = self._answer("exit")
        if self._process is None:
            self._process = self._start()
        answer = self._answer(f"reset {self._root}")
        if answer != "0":
            raise RuntimeError(f"{self.name}: no sequence begins in {self._root}: {answer}")

    def play(self, words: str) -> str:
        """The answer to a step; a process that ended or hangs is an answer, too."""
        if self._process is None:
            return ENDED
        return self._answer(words).replace(str(self._root), "%").replace(str(self._folder), "~")

    def end(self) -> None:
        """End the process, wherever it is."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=PATIENCE_SECONDS)
        self._process = None

    def _answer(self, words: str) -> str:
        assert self._process and self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(words + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.end()
            return ENDED
        if not select.select([self._process.stdout], [], [], PATIENCE_SECONDS)[0]:
            self.end()
            return HANGS
        line = self._process.stdout.readline()
        if not line:
            self.end()
            return ENDED
        return line.rstrip("\n")


class Place:
    """A directory in which sequences are played, and its clients."""

    def __init__(self, players: Sequence[Player], folder: Path) -> None:
        """`folder` is the directory as this process sees it."""
        self.players = players
        self._folder = folder
        self._count = 0
        self._inodes: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for player in self.players:
            player.end()

    def begin(self) -> None:
        """Make a fresh directory for the next sequence, and lead all clients there."""
        shutil.rmtree(self._folder / str(self._count), ignore_errors=True)
        self._count += 1
        self._inodes = {}
        root = "/".join([str(self._count), *["n"] * UPWARD_MAX])
        (self._folder / root).mkdir(parents=True)
        for player in self.players:
            player.begin(root)

    def play(self, step: Step) -> str:
        """The answer to a step, in which inodes are numbered as they are met."""
        answer = self.players[step.client].play(step.words)
        return _INODE.sub(lambda found: f"inode={self._inodes.setdefault(found[1], len(self._inodes))}", answer)


def limited(program: Path, file_bytes: int) -> list[str]:
    """The command of a program that may write no file beyond a size."""
    return ["prlimit", f"--fsize={file_bytes}", str(program)]


def on_tmpfs(program: Path | Sequence[str], folder: Path, clients: int) -> Place:
    """A place on tmpfs, where `folder` lies; `program` is the command of each client."""
    start = _starter([str(program)] if isinstance(program, Path) else list(program), None)
    return Place([Player(f"process {number}", start, folder, MOUNT) for number in range(clients)], folder)


def on_store(program: Path, store: Store, name: str, second_mount: Path, clients: Collection[str] = CLIENTS) -> Place:
    """A place on a store: a directory in its root, and a client by each of these ways."""
    (store.mount / name).mkdir()
    players = []
    for title, way, root in (
        ("mount", MOUNT, store.mount),
        ("second mount", MOUNT, second_mount),
        ("preload", PRELOAD, store.mount),
        ("prefix", PREFIX, Path(PREFIX_PATH)),
    ):
        if title not in clients:
            continue
        led = Way(way, store, root / name)
        players.append(Player(title, _starter([*led.command, str(program)], led.variables()), led.folder, way))
    return Place(players, store.mount / name)


def _starter(command: list[str], environment: Mapping[str, str] | None) -> Callable[[], "subprocess.Popen[str]"]:
    def start() -> "subprocess.Popen[str]":
        # A program that ends says why on stderr, which is the test's.
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    return start
