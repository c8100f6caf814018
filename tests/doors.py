"""The doors of Weir: every place where a program of it takes bytes of others while it runs, found in the sources.

A *place* is a function that begins to listen. Each stands in the table below, with those who may speak at the door and
the proof that is asked of them. `tests/end_to_end/test_adversary.py` plays every role at every door: a row needs an
attack in `tests/attacks` for each role, the name of a test elsewhere, or the reason why the role makes no sense there.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rust_sources import FUNCTION, blanked, end_of_item, without_tests

ROOT = Path(__file__).resolve().parents[1]

RELAY, SQUATTER, THIEF, REPLAYER, TRUNCATER, ALTERER, FLOODER = ROLES = (
    "relay",
    "squatter",
    "thief",
    "replayer",
    "truncater",
    "alterer",
    "flooder",
)
"""The adversary's roles.

A relay passes bytes on to another end than the one that is meant. A squatter sits where a server was. A thief shows
proofs that are another's, or that it made itself. A replayer sends again what it has heard. A truncater and an alterer
stand in the middle: they cut a connection, and turn single bits. A flooder takes many connections, and talks slowly.
"""


@dataclass(frozen=True)
class Door:
    """A door of one kind."""

    address: str
    """Kind of its address."""
    speakers: str
    """Those who may speak there."""
    proof: str
    """The proof that is asked of them, and the one that they get."""
    places: tuple[str, ...]
    """`FILE FUNCTION` of each listener in the sources."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Roles that make no sense here, with the reason."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Roles that a test of another file plays: `FILE FUNCTION`."""

    @property
    def attacked(self) -> tuple[str, ...]:
        """Roles that `test_adversary.py` plays."""
        return tuple(role for role in ROLES if role not in self.left and role not in self.elsewhere)


_OVER_TCP = tuple(f"crates/server/src/ports.rs {function}" for function in ("listen", "listen_anywhere", "listen_in"))
_DATA = (*_OVER_TCP, "crates/server/src/event_loop.rs open_doors", "packaging/systemd/weir-server-data@.socket")
_CONTROL = (*_OVER_TCP, "packaging/systemd/weir-server-control@.socket")
_NO_MIDDLE = "the kernel joins the two ends of a Unix socket, and nobody stands between them"
_CLOSED = "nobody else can open a connection, which the thief tries: nothing to {}"
_ON_HOSTS = "tests/end_to_end/test_adversary_on_hosts.py "

DOORS: Mapping[str, Door] = {
    "data over TCP": Door(
        "TCP, of each server",
        "clients, mounts and movers, each with a credential",
        "a Noise handshake keyed by the credential, then proofs of both sides that are bound to it",
        _DATA,
    ),
    "data over Unix": Door(
        "Unix socket in the folder of each server, open to every user of the host",
        "clients, mounts and movers of the host, each with a credential",
        "the kernel names the listener, and proofs of both sides to fresh challenges",
        ("crates/server/src/event_loop.rs open_doors",),
        left={TRUNCATER: _NO_MIDDLE, ALTERER: _NO_MIDDLE},
    ),
    "peers": Door(
        "the data port or socket of another server",
        "servers of the store",
        "as for data, with a credential of the role server",
        _DATA,
        left={FLOODER: "the doors are those of data; who listens in a peer's place and drips is the squatter"},
        elsewhere={
            TRUNCATER: _ON_HOSTS + "test_a_middle_host_that_cuts_connections",
            ALTERER: _ON_HOSTS + "test_a_middle_host_that_alters_bits",
        },
    ),
    "control": Door(
        "TCP, of each server; HTTP",
        "everybody in the clear for what everybody may see; users and administrators sealed",
        "the handshake of data, before anything of a request is sent",
        _CONTROL,
    ),
    "metrics": Door(
        "the control port, GET /metrics in the clear",
        "scrapers",
        "none, or a token that the site chose and that opens nothing else",
        _CONTROL,
        left={
            RELAY: "an answer is figures, which nothing of Weir believes",
            SQUATTER: "a scraper shows its token to whoever listens, so the token opens /metrics alone",
            REPLAYER: "a request changes nothing",
            ALTERER: "an answer is figures, which nothing of Weir believes",
        },
    ),
    "planner": Door(
        "Unix socket, open to every user of the host",
        "users, each for the own deployments",
        "the kernel names the user",
        ("python/weir/planner/server.py listen",),
        left={
            TRUNCATER: _NO_MIDDLE,
            ALTERER: _NO_MIDDLE,
            REPLAYER: "the kernel names the speaker of each connection, so a recorded request is one of the sender",
        },
    ),
    "planner, reserved": Door(
        "Unix socket of mode 0600",
        "root and the scheduler's user",
        "the kernel lets nobody else connect",
        ("python/weir/planner/server.py listen",),
        left={
            TRUNCATER: _NO_MIDDLE,
            ALTERER: _NO_MIDDLE,
            REPLAYER: _CLOSED.format("send again"),
            RELAY: _CLOSED.format("pass on"),
            FLOODER: _CLOSED.format("fill"),
        },
    ),
    "keeper": Door(
        "Unix socket of mode 0600 in a home",
        "the owner of the home",
        "the kernel lets nobody else connect",
        ("python/weir/deployment/keeper.py keep",),
        left={
            TRUNCATER: _NO_MIDDLE,
            ALTERER: _NO_MIDDLE,
            REPLAYER: _CLOSED.format("send again"),
            RELAY: _CLOSED.format("pass on"),
            FLOODER: _CLOSED.format("fill"),
        },
    ),
    "agent": Door(
        "standard input of `weir agent`, which ssh or a launcher starts",
        "whoever may log in as the user who deploys",
        "that of ssh; the process has the rights of its user",
        (),
        left={
            RELAY: "ssh knows the keys of its hosts",
            ALTERER: "ssh ends at an altered byte",
            REPLAYER: "ssh ends at a byte of another session",
            FLOODER: "a process is its user's own",
        },
        elsewhere={
            SQUATTER: "tests/end_to_end/test_openssh.py test_a_stranger_in_the_place_of_a_host_is_told_nothing",
        },
    ),
    "mount": Door(
        "/dev/fuse; a mount point",
        "processes of the host",
        "the kernel names the caller; a job's credential is opened with the caller's rights",
        ("crates/mount/src/mounting.rs mount_as_root", "crates/mount/src/device.rs clone_descriptor"),
        left={
            RELAY: "the kernel alone speaks to a mount",
            TRUNCATER: "the kernel alone speaks to a mount",
            ALTERER: "the kernel alone speaks to a mount",
            REPLAYER: "the kernel alone speaks to a mount",
        },
    ),
    "windows of devices": Door(
        "TCP, where `weir stats windows --listen` says so; HTTP, GET /metrics",
        "scrapers",
        "a token of a file that only its owner reads",
        ("python/weir/interference/export.py _Server",),
        left={
            RELAY: "an answer is figures, which nothing of Weir believes",
            SQUATTER: "a scraper shows its token to whoever listens, so the token opens these figures alone",
            REPLAYER: "a request changes nothing",
            ALTERER: "an answer is figures, which nothing of Weir believes",
        },
    ),
    "control room": Door(
        "TCP on loopback, or a Unix socket, where `weir room` runs; HTTP",
        "browsers of the host, and a reverse proxy of the site over the Unix socket",
        "a token that is made anew at each start, for a session; over the Unix socket the kernel names the user",
        ("python/weir/room/web.py _listen_tcp", "python/weir/room/web.py _listen_unix"),
        left={
            RELAY: "the room listens on its host alone, and a proxy in front of it has a channel of its own",
            SQUATTER: "the token of a room that has ended opens nothing at the next one",
            TRUNCATER: "nobody stands between processes of one host",
            ALTERER: "nobody stands between processes of one host",
            FLOODER: "whoever fills the room keeps pages from others, and the store does not notice",
        },
        elsewhere={
            THIEF: "tests/python/test_room.py test_nobody_comes_in_without_the_token",
            REPLAYER: "tests/python/test_room.py test_a_confirmation_holds_once_and_for_what_was_shown",
        },
    ),
    "statistics": Door(
        "ZeroMQ, of each server of Lustre, at an address of the management network",
        "whoever reaches the address",
        "none: statistics lead placements and open nothing",
        ("python/weir/lustre/publisher.py Publisher.run",),
        left={
            RELAY: "a message says which server and which start it is of, and gives no right",
            SQUATTER: "the administrator names the addresses, and a forged reading moves no byte that was placed",
            THIEF: "there is no proof to steal",
            TRUNCATER: "a message is whole or is none",
            FLOODER: "ZeroMQ drops what a subscriber does not take, beyond QUEUED_MAX messages",
        },
        elsewhere={
            ALTERER: "tests/python/test_statistics_live.py test_bad_messages_are_counted_and_kill_nobody",
            REPLAYER: "tests/python/test_statistics_messages.py "
            "test_a_reading_that_is_sent_again_keeps_its_age_and_counts_once",
        },
    ),
    "workers of a sweep": Door(
        "TCP, the scheduler of Dask that `weir simulate --dask slurm` starts",
        "the workers that Slurm starts for the sweep",
        "TLS with a key of this sweep on both sides, which Dask makes",
        ("python/weir/simulation/sweeps/cluster.py _slurm_client",),
        left=dict.fromkeys(ROLES, "the door is Dask's own, which Weir opens with security=True alone"),
    ),
}
"""Every door. A new one is a row, and an attack for each role that is not left."""

PROBES: Mapping[str, str] = {
    "python/weir/store/machine.py _bound": "asks the kernel whether a socket can have this path, and closes it",
    "python/weir/deployment/member.py _check_ports": "asks the kernel whether a port is free, and closes it",
}
"""Functions that listen and take no connection, each with its purpose."""

_RUST = re.compile(
    r"\b(?:TcpListener|UnixListener|UnixDatagram|UdpSocket|TcpSocket|UnixSocket)\s*::\s*(?:bind|new|from_std)\w*"
    r"|\b(?:net|libc|socket)\s*::\s*(?:bind|listen)\w*\s*\(|\bdevice\s*::\s*PATH\b|\bopen\s*\(\s*PATH\b"
)
_METHODS = {"bind", "listen", "create_server", "start_server", "create_unix_server", "start_unix_server", "run_app"}
_CLASSES = re.compile(r"(?:\w*(?:HTTP|TCP|UDP|Unix\w+|XMLRPC)Server|(?:TCP|Unix)Site|\w+Cluster|Listener|\w*Manager)$")
"""Classes of libraries that listen."""


def rust_places() -> Iterator[str]:
    """Each place of the crates, outside of their tests."""
    root = ROOT / "crates"
    for path in sorted(root.glob("*/src/**/*.rs")):
        if "tests" in (path.stem, path.parent.name) or path.is_relative_to(root / "testing"):
            continue
        text = path.read_text()
        if not _RUST.search(text):
            continue
        code = without_tests(blanked(text))
        functions = [
            (found.start(), end_of_item(code, found.end()), found["name"]) for found in FUNCTION.finditer(code)
        ]
        for use in _RUST.finditer(code):
            around = [name for start, end, name in functions if start < use.start() < end]
            yield f"{path.relative_to(ROOT)} {around[-1] if around else ''}".rstrip()


def python_places(root: Path = ROOT / "python") -> Iterator[str]:
    """Each place of the Python package."""
    for path in sorted(root.rglob("*.py")):
        for node, name in _named(ast.parse(path.read_text())):
            if _listens(node):
                yield f"{path.relative_to(root.parent)} {name}"


def _named(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Each node, with the names of the classes and functions around it."""
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, names = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        yield node, ".".join(names)
        waiting.extend((child, names) for child in ast.iter_child_nodes(node))


def _listens(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(_CLASSES.match(ast.unparse(base).rpartition(".")[2]) for base in node.bases)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return bool(_CLASSES.match(node.func.id))
    if not isinstance(node.func, ast.Attribute):
        return False
    # An event of SQLAlchemy is listened to with three arguments, a socket with one at most.
    return (node.func.attr in _METHODS and len(node.args) < 3) or bool(_CLASSES.match(node.func.attr))


def unit_places() -> Iterator[str]:
    """Each socket on which systemd listens for Weir."""
    for path in sorted((ROOT / "packaging").rglob("*.socket")):
        yield str(path.relative_to(ROOT))
