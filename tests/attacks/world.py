"""A store of two servers with a planner, an honest user who works on it, and an adversary at its doors."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import resident
from store import Store, kept_for, kill
from waits import PATIENCE_SECONDS, wait_until
from ways import has_fuse
from weir import _core
from weir.store.access import by_key
from weir.store.control import Server

from attacks.program import MANNERS

PROGRAM = Path(__file__).with_name("program.py").read_text()
SILENCE_SECONDS = 1.0
"""WEIR_TIMEOUT_SECONDS of calls that an adversary answers in a server's place."""
WORDS = b"the words of an honest user, which nobody else has "
WORDS_COUNT = 4000
"""Repetitions of these words in a file."""
SECRET_NAME = "diary-of-root"
ROUNDS = 6
"""Harms that a truncater and an alterer do at a door, at least."""
ANSWER_BYTES = _core.SealedChannel.ANSWER_BYTES
REFUSAL = 3
"""The kind of a frame that says why a connection ends."""
HEAD_BYTES = 10
"""Bytes of a flight before its claims: the magic, the server's number and the length of the claims."""
MESSAGE_BYTES = 48
"""Bytes of the first message of a handshake."""

_WORK = """
import os, sys, errno
name, words, count, *folders = sys.argv[1:]
content = words.encode() * int(count)
for folder in folders:
    try:
        with open(folder + "/" + name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with open(folder + "/" + name, "rb") as file:
            print("whole" if file.read() == content else "lost")
        os.mkdir(folder + "/made-" + name)
        os.rmdir(folder + "/made-" + name)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
"""The honest user's work in folders: a file is written and read back, and a folder comes and goes."""
_DIARY = """
import os, sys
at = sys.argv[1]
if not os.path.exists(at):
    os.mkdir(at, 0o700)
    with open(at + "/page", "w") as file:
        file.write("nobody reads this")
    os.chmod(at + "/page", 0o600)
for path in (at, at + "/page"):
    found = os.stat(path)
    print(oct(found.st_mode), found.st_uid, found.st_gid, found.st_nlink)
print(open(at + "/page").read(), sorted(name for name in os.listdir(at)))
"""
_HOMES = """
import os, sys
for number in range(int(sys.argv[1])):
    os.makedirs(f"/weir/work-{number}", exist_ok=True)
    os.chmod(f"/weir/work-{number}", 0o777)
    print(os.stat(f"/weir/work-{number}").st_ino >> 48)
"""


@dataclass
class Adversary:
    """A running adversary, and what it told."""

    process: "subprocess.Popen[str]"
    told: Path

    def lines(self) -> list[dict[str, Any]]:
        """All whole lines so far."""
        return [json.loads(line) for line in self.told.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def at(self) -> str:
        """The place where it listens."""
        wait_until("the adversary listens", lambda: any("at" in line for line in self.lines()) or self._has_ended())
        return str(next(line["at"] for line in self.lines() if "at" in line))

    def heard(self) -> list[bytes]:
        """The bytes of each connection."""
        connections: dict[int, bytes] = {}
        for line in self.lines():
            if "heard" in line:
                number = line["connection"]
                connections[number] = connections.get(number, b"") + bytes.fromhex(line["heard"])
        return [heard for heard in connections.values() if heard]

    def ended(self) -> int:
        """Connections that came to their end."""
        return len({line["ended"] for line in self.lines() if "ended" in line})

    def count(self, word: str) -> int:
        """Lines about something."""
        return sum(word in line for line in self.lines())

    def _has_ended(self) -> bool:
        assert self.process.poll() is None, self.told.read_text()
        return False


@dataclass
class World:
    """The store and its surroundings."""

    store: Store
    planner: resident.Planner
    folder: Path
    """A folder in which the adversary may write."""
    uid: int | None
    """The adversary, where the tests run as root; None is the test's own user."""
    python: str
    folders: Mapping[int, str] = field(default_factory=dict)
    """A folder of the store by the number of its home server."""
    count: int = 0
    before: object = None
    """What nobody but the owner may change, as it was at the beginning."""

    @property
    def key(self) -> str:
        """The site's key."""
        return (self.store.home / "site.key").read_text().strip()

    @property
    def addresses(self) -> list[dict[str, Any]]:
        """The servers of cluster.json, by number."""
        document = json.loads((self.store.home / "cluster.json").read_text())
        return sorted(document["servers"], key=lambda server: int(server["server"]))

    def needs_another_user(self) -> None:
        """Skip where the adversary is the owner of the store."""
        if self.uid is None:
            pytest.skip("the tests run as the store's owner, who may do all of this: run them as root")

    def identity(self) -> dict[str, Any]:
        """Arguments of a process of the adversary."""
        return {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}

    @contextlib.contextmanager
    def adversary(self, *arguments: str) -> Iterator[Adversary]:
        """A process of the adversary's that works until the end of the block."""
        self.count += 1
        told = self.store.root / f"told-{self.count}"
        command = [self.python, "-c", PROGRAM, *arguments]
        with told.open("w") as output:
            process = subprocess.Popen(command, stdout=output, text=True, cwd="/", **self.identity())
        try:
            yield Adversary(process, told)
            assert process.poll() is None, f"the adversary ended: {told.read_text()}"
        finally:
            process.kill()
            process.wait()
            self.check_secrets(told.read_text())

    @contextlib.contextmanager
    def squatters(self, place: str = "127.0.0.1:0") -> Iterator[dict[str, Adversary]]:
        """A squatter of each manner; a place without a port, or a path, gets the manner's number behind it."""
        with contextlib.ExitStack() as ends:
            yield {
                manner: ends.enter_context(
                    self.adversary("listen", manner, f"{place}{number}" if "/" in place else place)
                )
                for number, manner in enumerate(MANNERS)
            }

    def told(self, *arguments: str, said: str = "") -> list[dict[str, Any]]:
        """The lines of an adversary that ends by itself."""
        answer = subprocess.run(
            [self.python, "-c", PROGRAM, *arguments], input=said, capture_output=True, text=True, cwd="/",
            timeout=PATIENCE_SECONDS, check=True, **self.identity(),
        )  # fmt: skip
        self.check_secrets(answer.stdout)
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def said(self, place: str, *words: bytes) -> list[dict[str, Any]]:
        """The outcome of each of some words of the adversary's."""
        return self.told("say", place, said="".join(f"{word.hex()}\n" for word in words))

    def answers(self, place: str, *words: bytes) -> list[bytes]:
        """The answer to each of some words of the adversary's; empty where it was not even connected."""
        return [bytes.fromhex(line.get("answer", "")) for line in self.said(place, *words)]

    def check_secrets(self, told: str) -> None:
        """Check that an adversary told none of the store's secrets, which it tells in hexadecimal digits."""
        tags = [json.loads(path.read_text())["tag"] for path in (self.store.home / "credentials").glob("*.json")]
        for secret in (self.key, *tags):
            assert secret not in told, "a secret left"
            assert secret.encode().hex() not in told, "a secret left"
        assert WORDS[:16].hex() not in told, "an honest user's bytes left"

    def led(self, number: int, **address: str | int | None) -> Path:
        """A cluster.json in which a server has other addresses, as a forged name service or network gives them."""
        self.count += 1
        document = json.loads((self.store.home / "cluster.json").read_text())
        for server in document["servers"]:
            if server["server"] == number:
                server.update(address)
        path = self.store.root / f"led-{self.count}.json"
        path.write_text(json.dumps(document))
        return path

    def environment(
        self,
        transport: str,
        cluster: Path | None = None,
        credential: Path | None = None,
        seconds: float = PATIENCE_SECONDS,
    ) -> dict[str, str]:
        """The environment of a client, which waits so long for a silent server."""
        made = {"WEIR_TRANSPORT": transport, "WEIR_TIMEOUT_SECONDS": f"{seconds:g}"}
        if cluster is not None:
            own = credential or next((self.store.home / "credentials").glob("uid-*.json"))
            home = self.store.root / "none"
            made |= {"WEIR_CLUSTER": str(cluster), "WEIR_CREDENTIAL": str(own), "WEIR_HOME": str(home)}
        return made

    def work(self, number: int, transport: str, cluster: Path | None = None, seconds: float = PATIENCE_SECONDS) -> str:
        """The honest user's work on a server: `whole`, or the name of its error."""
        (answer,) = self.work_of((number,), self.environment(transport, cluster, seconds=seconds))
        assert answer in ("whole", "EIO"), answer
        return answer

    def gives_up(self, number: int, transport: str, cluster: Path) -> bool:
        """Whether the honest user's work ends with EIO once its server has been silent for the bound of its calls."""
        return self.work(number, transport, cluster, SILENCE_SECONDS) == "EIO"

    def work_of(self, numbers: Sequence[int], environment: Mapping[str, str]) -> list[str]:
        """The honest user's work on servers, in one process."""
        self.count += 1
        folders = [self.folders[number] for number in numbers]
        arguments = [f"file-{self.count}", WORDS.decode(), str(WORDS_COUNT), *folders]
        return self.run(_WORK, *arguments, environment=environment).splitlines()

    def run(self, code: str, *arguments: str, environment: Mapping[str, str], uid: int | None = None) -> str:
        """The output of a Python program on the store, without a mount."""
        answer = self.store.weir(
            "run", "--prefix", "/weir", "--", "/usr/bin/python3" if uid is not None else sys.executable, "-c", code,
            *arguments, environment=environment, uid=uid, code=None,
        )  # fmt: skip
        return answer.stdout.strip() or answer.stderr

    def server(self, number: int, control: str | None = None, seconds: float = PATIENCE_SECONDS) -> Server:
        """A server of the control API for the administrator; it may be led elsewhere."""
        return Server(number, control or self.addresses[number]["control"], seconds, by_key(self.key))

    def standing(self) -> object:
        """What nobody but the owner may change."""
        servers = [self.server(number) for number in (0, 1)]
        shown = [
            (
                server.sharing(),
                server.allocator(),
                server.lease(),
                {(each.kind, each.id, each.bytes_max, each.inodes_max) for each in server.quotas() if each.is_set},
            )
            for server in servers
        ]
        return shown, self.run(_DIARY, f"/weir/{SECRET_NAME}", environment={})

    def check_whole(self) -> None:
        """Check that nothing was carried out with rights, and that the honest user's work goes on by each way."""
        with ThreadPoolExecutor() as pool:
            standing = pool.submit(self.standing)
            works = (self.environment(transport) for transport in ("unix", "tcp"))
            answers = list(pool.map(lambda work: self.work_of((0, 1), work), works))
        assert standing.result() == self.before
        assert answers == [["whole", "whole"]] * 2
        for number in (0, 1):
            assert not any("thief" in job.job for job in self.server(number).jobs())
        assert len(self.store.server_pids()) == 2

    @contextlib.contextmanager
    def dead_server(self, number: int) -> Iterator[dict[str, Any]]:
        """The addresses of a server that is dead within the block, and is up again at its end."""
        address = self.addresses[number]
        kill(self.store.server_pids()[number])
        try:
            yield address
        finally:
            self.store.weir("up", "--no-mount", code=None)
            wait_until("it is up", lambda: self.store.weir("status", code=None).returncode == 0)

    def credential(self, name: str, content: str) -> Path:
        """A file of the adversary's with a credential."""
        path = self.folder / f"credential-{name}"
        path.unlink(missing_ok=True)
        path.write_text(content)
        path.chmod(0o600)
        if self.uid is not None:
            os.chown(path, self.uid, self.uid)
        return path

    def names(self, number: int) -> list[str]:
        """The names in the folder of a server."""
        found: list[str] = json.loads(
            self.run(f"import os, json; print(json.dumps(os.listdir({self.folders[number]!r})))", environment={})
        )
        return found

    def empty(self, number: int) -> None:
        """Remove the honest user's files in the folder of a server."""
        code = "import os, sys\nfor name in os.listdir(sys.argv[1]):\n    os.remove(sys.argv[1] + '/' + name)"
        assert self.run(code, self.folders[number], environment={}) == ""
        assert self.names(number) == []

    def forged(self) -> dict[str, str]:
        """Credentials that a thief makes without the key, each by its kind."""
        uid = os.getuid() if self.uid is None else self.uid
        own = self.minted(self.key, uid=uid)
        return {
            "another's user": altered(own, uid=0, user="root"),
            "a mount's": altered(own, role="mount"),
            "a server's": altered(own, role="server", job="server-1"),
            "an administrator's": altered(own, role="administrator"),
            "one that lasts": altered(self.minted(self.key, uid=uid, expires=1), expires_seconds=1 << 40),
            "one that has expired": self.minted(self.key, uid=uid, expires=1),
            "another site's": self.minted("0" * 64, uid=0, role="mount"),
        }

    @staticmethod
    def minted(key: str, *, uid: int, job: str = "thief", role: str = "user", expires: int = 1 << 40) -> str:
        """A credential of a job, of a thief's where it is not said."""
        return _core.mint_credential(
            key, job=job, user="user", group="group", uid=uid, gid=uid, groups=[uid], nodes=1, priority=1,
            role=role, issued_seconds=0, expires_seconds=expires,
        )  # fmt: skip


def altered(credential: str, **claims: object) -> str:
    """A credential with other claims than those that it was minted for."""
    document = json.loads(credential)
    return json.dumps({**document, "claims": {**document["claims"], **claims}})


def check_refused(answer: bytes) -> None:
    """Check that a server did not prove itself: it said nothing, or why it refuses."""
    assert not answer or answer[3] == REFUSAL, answer


def check_flights(heard: list[bytes]) -> None:
    """Check that each connection brought one flight and no byte more: claims that everybody may know."""
    magic = _core.SealedChannel(0, World.minted("0" * 64, uid=1)).flight[:6]
    for each in heard:
        assert each.startswith(magic)
        claims = int.from_bytes(each[HEAD_BYTES - 2 : HEAD_BYTES], "little")
        assert len(each) == HEAD_BYTES + claims + MESSAGE_BYTES, "a flight, and not a byte more"


@contextlib.contextmanager
def world() -> Iterator[World]:
    """A store and a planner; the store has a mount where there can be one."""
    is_root = os.geteuid() == 0
    root = Path(tempfile.mkdtemp(prefix="weir-adversary-"))
    root.chmod(0o755)
    try:
        uid = resident.nobody() if is_root else None
        python = resident.interpreter(uid) if uid is not None else sys.executable
        folder = root / "a"
        folder.mkdir()
        if uid is not None:
            os.chown(folder, uid, uid)
        with kept_for(root) as store, resident.planner(root / "p", program=python) as planner:
            store.up(servers=2, targets=1, backend="dir", mount=is_root and has_fuse())
            planner.start()
            made = World(store, planner, folder, uid, python)
            homes = made.run(_HOMES, "12", environment={}).split()
            made.folders = {int(home): f"/weir/work-{number}" for number, home in enumerate(homes)}
            assert set(made.folders) == {0, 1}
            made.before = made.standing()
            yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)
