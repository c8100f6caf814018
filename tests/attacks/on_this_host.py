"""Attacks on the doors of one host: the planner, the keeper and the agent of a deployment, the mount."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from doors import FLOODER, RELAY, SQUATTER, THIEF, TRUNCATER
from resident import script
from store import program, search_path
from waits import PATIENCE_SECONDS, wait_until
from weir.deployment.agent import NAMES
from weir.planner import protocol
from weir.planner.client import Client
from weir.planner.errors import PlannerError
from weir.planner.places import reserved

from attacks import attack
from attacks.world import SECRET_NAME, World

EACCES = {"errno": 13}
DEPLOYED = "of-root"
"""A deployment of the planner's owner."""
THREADS = 40
_CALLS = """
import os, sys, threading
def ask():
    while True:
        try:
            os.stat(sys.argv[1]), os.listdir(sys.argv[1])
            open(sys.argv[2]).close()
        except OSError:
            pass
for _ in range(int(sys.argv[3])):
    threading.Thread(target=ask).start()
print("asking", flush=True)
"""
"""Calls of a user without end, in many threads."""


def deployed(attacked: World) -> str:
    """The state of a deployment of the planner's owner, which is planned first."""
    listed = attacked.planner.ask(protocol.List(), protocol.Listed).deployments
    if not any(each.name == DEPLOYED for each in listed):
        attacked.planner.plan(DEPLOYED)
    return attacked.planner.state(DEPLOYED)


def requests() -> list[bytes]:
    """What a thief asks of the planner in another's name."""
    own: dict[str, dict[str, object]] = {
        **{kind: {} for kind in ("show", "environment", "paths", "stage_in", "stage_out", "teardown")},
        "setup": {"nodes": ["n1", "n2"]},
        "end": {"discard": True},
    }
    asked = [{"request": kind, "name": DEPLOYED, "uid": 0, **fields} for kind, fields in own.items()]
    asked += [
        {"request": "quarantine", "node": "n1", "seconds": 60},
        {"request": "list", "all_users": True, "uid": 0},
        {"request": "plan", "name": "thief", "uid": 0, "script": script()},
    ]
    return [json.dumps(each).encode() + b"\n" for each in asked]


@attack("planner", THIEF)
def steal_plans(attacked: World) -> None:
    attacked.needs_another_user()
    state = deployed(attacked)
    for asked, answer in zip(requests(), attacked.answers(str(attacked.planner.socket), *requests()), strict=True):
        assert "error" in json.loads(answer), (asked, answer)
    assert deployed(attacked) == state
    assert not attacked.planner.ask(protocol.Pools(), protocol.PoolList).quarantined


@attack("planner", RELAY)
def relay_plans(attacked: World) -> None:
    """Root is led to a user's socket: what the planner does then, it does for the user."""
    attacked.needs_another_user()
    state = deployed(attacked)
    place = str(attacked.folder / "planner")
    with (
        attacked.adversary("listen", "passes", place, str(attacked.planner.socket)) as relay,
        Client(Path(relay.at)) as client,
    ):
        for request in (
            protocol.Quarantine(node="n1", seconds=60),
            protocol.End(name=DEPLOYED, discard=True, uid=0),
            protocol.Teardown(name=DEPLOYED),
        ):
            with pytest.raises(PlannerError):
                client.ask(request, protocol.Hello)
    assert deployed(attacked) == state


@attack("planner", SQUATTER)
def squat_planner(attacked: World) -> None:
    attacked.needs_another_user()
    assert attacked.told("take", str(attacked.planner.socket)) == [{"worked": []}]
    assert attacked.planner.ask(protocol.Ping(), protocol.Hello)


@attack("planner", FLOODER)
def flood_planner(attacked: World) -> None:
    """Connections that begin a request and go on slowly, then a process that is stopped in their midst."""
    place = str(attacked.planner.socket)
    with attacked.adversary("flood", place, b'{"request":"validate","script":"'.hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            assert attacked.planner.ask(protocol.Validate(script=script()), protocol.Valid).nodes == 2
            if attacked.uid is not None:
                assert b"result" in said_by("daemon", attacked, place)
            flood.process.send_signal(number)


def said_by(user: str, attacked: World, place: str) -> bytes:
    """The planner's answer to another user."""
    code = (
        "import socket, sys\nline = socket.socket(socket.AF_UNIX)\nline.connect(sys.argv[1])\n"
        'line.sendall(b\'{"request":"ping"}\\n\')\nprint(line.makefile().readline())'
    )
    answer = subprocess.run(
        [attacked.python, "-c", code, place], user=user, extra_groups=[], cwd="/", capture_output=True,
        timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    return answer.stdout


@attack("planner, reserved", SQUATTER, THIEF)
def take_reserved(attacked: World) -> None:
    attacked.needs_another_user()
    place = str(reserved(attacked.planner.socket))
    assert attacked.told("take", place) == [{"worked": []}]
    assert attacked.said(place, b'{"request":"ping"}\n') == [EACCES]


@contextlib.contextmanager
def keeper(attacked: World) -> Iterator[Path]:
    """The socket of a keeper."""
    home = attacked.store.root / "kept"
    variables = attacked.store.variables(WEIR_HOME=str(home))
    process = subprocess.Popen([*program(), "agent", "keep"], env=variables, stdin=subprocess.DEVNULL)
    try:
        wait_until("the keeper listens", lambda: (home / "keeper").is_socket())
        yield home / "keeper"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@attack("keeper", SQUATTER, THIEF)
def take_keeper(attacked: World) -> None:
    attacked.needs_another_user()
    with keeper(attacked) as place:
        assert attacked.told("take", str(place)) == [{"worked": []}]
        words = json.dumps({"operation": "end", "request": {}}).encode()
        assert attacked.said(str(place), words) == [EACCES]


def agent(attacked: World, operation: str, document: str, uid: int | None) -> subprocess.CompletedProcess[str]:
    """`weir agent` on the store's home, by a user."""
    identity = {} if uid is None else attacked.identity()
    variables = attacked.store.variables(**({} if uid is None else search_path()))
    return subprocess.run(
        [*program(uid), "agent", operation], input=document, env=variables, capture_output=True, text=True, cwd="/",
        timeout=PATIENCE_SECONDS, check=False, **identity,
    )  # fmt: skip


@attack("agent", THIEF)
def steal_agent(attacked: World) -> None:
    """Another user's agent has that user's rights, and the home of the store is closed to it."""
    attacked.needs_another_user()
    pids = attacked.store.server_pids()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda name: agent(attacked, name, "{}", attacked.uid), NAMES))
    for name, answer in zip(NAMES, answers, strict=True):
        assert answer.returncode != 0 or "error" in json.loads(answer.stdout.splitlines()[-1]), (name, answer)
        attacked.check_secrets(answer.stdout + answer.stderr)
    assert attacked.store.server_pids() == pids


@attack("agent", TRUNCATER)
def cut_agent(attacked: World) -> None:
    """A request that was cut is none, whatever is left of it."""
    pids = attacked.store.server_pids()
    whole = json.dumps({"discard": True, "force": True, "servers": [0, 1]})
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        answer = agent(attacked, "end", whole[:length], None)
        assert answer.returncode == 2 and "no JSON document" in answer.stderr, answer
    assert attacked.store.server_pids() == pids


def mounted(attacked: World) -> Path:
    """The store's mount; skips where there is none."""
    attacked.needs_another_user()
    if not attacked.store.mount.is_mount():
        pytest.skip("there is no /dev/fuse")
    return attacked.store.mount


def by_mount(attacked: World, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program of the adversary's."""
    return subprocess.run(
        [*map(str, command)], env={**os.environ, **variables}, cwd="/", capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False, **attacked.identity(),
    )  # fmt: skip


@attack("mount", THIEF)
def steal_by_mount(attacked: World) -> None:
    """A credential of root's, named by another user, and one that the user made."""
    mount = mounted(attacked)
    paths = [*(attacked.store.home / "credentials").glob("*.json")]
    paths += [
        attacked.credential(f"mount-{number}", content) for number, content in enumerate(attacked.forged().values())
    ]
    for path in paths:
        answer = by_mount(attacked, "cat", mount / SECRET_NAME / "page", WEIR_CREDENTIAL=str(path))
        assert answer.returncode != 0 and answer.stdout == "", (path, answer)


@attack("mount", SQUATTER)
def squat_mount(attacked: World) -> None:
    mount = mounted(attacked)
    assert attacked.told("take", str(mount)) == [{"worked": []}]
    for command in (("umount",), ("fusermount3", "-u"), ("fusermount3", "-u", "-z")):
        assert by_mount(attacked, *command, mount).returncode != 0
    assert mount.is_mount()


@attack("mount", FLOODER)
def flood_mount(attacked: World) -> None:
    mount = mounted(attacked)
    command = [attacked.python, "-c", _CALLS, str(mount), str(mount / SECRET_NAME / "page"), str(THREADS)]
    flood = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/", **attacked.identity())
    try:
        assert flood.stdout is not None and flood.stdout.readline() == "asking\n"
        file = mount / "of-root"
        for number in (signal.SIGSTOP, signal.SIGCONT):
            file.write_text("words")
            assert file.read_text() == "words"
            flood.send_signal(number)
        file.unlink()
        assert flood.poll() is None
    finally:
        flood.kill()
        flood.communicate()
