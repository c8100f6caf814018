"""The planner's messages, its socket, and the states of deployments, each against laws."""

import asyncio
import contextlib
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import jsonschema
import msgspec
import pytest
import schemas
from resident import DEPLOYMENT, IDENTITY, record
from seeds import seeded
from weir.planner import protocol, server
from weir.planner.errors import PlannerError
from weir.planner.protocol import AnyRequest, AnyResult
from weir.planner.records import (
    ORDER,
    Record,
    asked_for,
    begun,
    broken,
    check_output,
    next_step,
    replanned,
    succeeded,
    summary,
)
from weir.planner.turns import Peer
from weir.provisioning.deployments import Transfer

REQUESTS: tuple[AnyRequest, ...] = (
    protocol.Plan(script="#!/bin/sh\n", identity=IDENTITY, nodes=3, job="7", name="job-7", policy="utilization"),
    protocol.Validate(id="one", script="x"),
    protocol.Setup(name="a", nodes=("n1",), wait_seconds=5),
    protocol.StageIn(name="a", uid=1000),
    protocol.GetEnvironment(name="a"),
    protocol.StageOut(name="a"),
    protocol.Teardown(name="a", discard=True),
    protocol.End(name="a"),
    protocol.Show(name="a"),
    protocol.Paths(name="a"),
    protocol.List(all_users=True, after="1/a", limit=3),
    protocol.Pools(),
    protocol.Quarantine(node="n1", seconds=60, reason="its fan"),
    protocol.Release(job="4711"),
    protocol.Ping(),
)


def test_requests_keep_to_their_schema_and_come_back() -> None:
    schema = schemas.schema("request")
    for request in REQUESTS:
        line = msgspec.json.encode(request)
        jsonschema.validate(json.loads(line), schema)
        assert protocol.decode(line) == request
    assert {type(request) for request in REQUESTS} == set(AnyRequest.__args__)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"request": "ping", "moon": 1}, schema)


def test_results_keep_to_their_schemas() -> None:
    for name, found in (("summary", summary(record("a"))), ("hello", protocol.Hello(pid=1))):
        answer = protocol.result(5, found)
        jsonschema.validate(json.loads(protocol.encode(answer)), schemas.schema("answer"))
        jsonschema.validate(json.loads(protocol.encode(answer))["result"], schemas.schema(name))


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{}", b"[]", b"null", b'{"request":"moon"}', b'{"request":"ping","id":null}', b"[" * 10_000,
        b'{"request":"show","name":"../../etc"}', b'{"request":"show","name":""}', b'{"request":"show","name":"-a"}',
        b'{"request":"ping","uid":-1}', b'{"request":"ping","uid":4294967295}',
        b'{"request":"ping","id":"' + b"x" * 65 + b'"}',
        b'{"request":"setup","name":"a","wait_seconds":1e9}', b'{"request":"setup","name":"a","wait_seconds":-1}',
        b'{"request":"list","limit":0}', b'{"request":"list","limit":1000000}', b'{"request":"plan","log":"relative"}',
        b'{"request":"plan","log":"/a\\u0000b"}', b'{"request":"plan","nodes":0}', b"\xff\xfe",
        b'{"request":"setup","name":"a","nodes":[""]}',
        b'{"request":"setup","name":"a","nodes":["' + b"n" * 256 + b'"]}',
        b'{"request":"setup","name":"a","nodes":[' + b'"n",' * 4096 + b'"n"]}',
        *(b'{"request":"plan","identity":{"name":"a","processes":1,"%s":"%s"}}' % (field, b"x" * 256)
          for field in (b"program", b"interface")),
        b'{"request":"plan","identity":{"name":"%s","processes":1}}' % (b"x" * 256),
        b'{"request":"quarantine","node":"","seconds":1}', b'{"request":"quarantine","node":"a","seconds":1e300}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_one_line(line: bytes) -> None:
    with pytest.raises(PlannerError) as caught:
        protocol.decode(line)
    assert caught.value.code == "invalid" and "\n" not in caught.value.message
    assert protocol.encode(protocol.refusal(0, caught.value)).count(b"\n") == 1


class Answers:
    """A service that answers every request, after a turn of the loop, with the process that is asked for."""

    async def answer(self, peer: Peer, request: AnyRequest) -> AnyResult:
        await asyncio.sleep(0)
        if isinstance(request, protocol.Pools):
            raise RuntimeError("a fault of the planner's")
        return protocol.Hello(pid=peer.uid)


@contextlib.asynccontextmanager
async def connected(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    monkeypatch.setattr(server, "STALL_SECONDS_MAX", 0.3)
    monkeypatch.setattr(server, "IDLE_SECONDS_MAX", 0.6)
    place = folder / "s"
    made = server.Server(Answers(), None)  # type: ignore[arg-type]
    listener = server.listen(place)
    async with made.listening(listener):
        reader, writer = await asyncio.open_unix_connection(place)
        try:
            yield reader, writer
        finally:
            writer.close()


def test_garbage_and_faults_leave_the_connection_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse() -> None:
        async with connected(tmp_path, monkeypatch) as (reader, writer):
            lines = [b'{"request":"ping","id":1}', b"\0\xff", b"", b'{"request":"pools","id":2}', b'{"request":"ping"}']
            writer.write(b"\n".join(lines) + b"\n")
            answers = [json.loads(await reader.readline()) for _ in range(4)]
            codes = [each.get("error", {}).get("code", "") for each in answers]
            assert codes == ["", "invalid", "failed", ""] and answers[2]["id"] == 2

    asyncio.run(converse())


@pytest.mark.parametrize("sent", [b"", b'{"request":'])
def test_a_client_that_stalls_is_left(sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse() -> None:
        async with connected(tmp_path, monkeypatch) as (reader, writer):
            writer.write(sent)
            assert await reader.read() == b""

    asyncio.run(converse())


def test_a_request_that_is_too_long_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse() -> None:
        async with connected(tmp_path, monkeypatch) as (reader, writer):
            with contextlib.suppress(ConnectionError):
                for _ in range(40):
                    writer.write(b"x" * (1 << 16))
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                answer = json.loads(await reader.readline())
                assert answer["error"]["code"] == "invalid" and "longer" in answer["error"]["message"]
                assert await reader.read() == b""

    asyncio.run(converse())


def test_a_socket_is_taken_from_a_planner_that_is_gone_alone(tmp_path: Path) -> None:
    place = tmp_path / "s"
    first = server.listen(place)
    with pytest.raises(PlannerError, match="listens on"):
        server.listen(place)
    first.close()
    # As after a kill: the name stays.
    server.listen(place).close()
    place.unlink()
    place.write_text("somebody's file")
    with pytest.raises(PlannerError):
        server.listen(place)
    assert place.read_text() == "somebody's file"
    with pytest.raises(PlannerError, match="cannot be listened on"):
        server.listen(tmp_path / ("x" * 200))
    assert isinstance(first, socket.socket)


def test_every_walk_of_a_deployment_keeps_the_laws_of_its_states() -> None:
    """Whatever is asked for, and whatever fails: states are known, goals are reached, and no output is lost unasked."""
    dice = seeded()
    output = msgspec.structs.replace(DEPLOYMENT, stage_out=(Transfer(source="r", destination="/r"),))
    states = set()
    for _ in range(400):
        one = record("a", deployment=output)
        discarded = False
        for moment in range(60):
            before = one
            if dice.random() < 0.5:
                with contextlib.suppress(PlannerError):
                    step = dice.choice(ORDER)
                    discard = dice.random() < 0.1
                    if step == "teardown":
                        check_output(one, "/f", discard=discard)
                        discarded |= discard
                    one = asked_for(one, step, now=float(moment))
            elif (due := next_step(one)) is not None:
                one = begun(one, due, now=float(moment))
                # A planner that is killed here finds the same step again.
                assert next_step(one) == due
                if dice.random() < 0.2:
                    one = broken(one, due, "failed", "", now=float(moment))
                elif due == "setup" and dice.random() < 0.1:
                    one = replanned(one, output, ("n",), now=float(moment))
                else:
                    one = succeeded(one, due, now=float(moment))
            states.add(one.state)
            _check(one, before, discarded=discarded)
    assert states >= {"planned", "started", "ready", "running", "staged-out", "ended", "failed"}


def _check(one: Record, before: Record, *, discarded: bool) -> None:
    assert msgspec.json.decode(msgspec.json.encode(one), type=Record) == one
    if one.failed:
        assert one.step and not one.goal and next_step(one) is None
    if not before.is_live:
        assert not one.is_live
    if one.state == "ended" and one.ran and not discarded:
        assert one.staged_out
    # From any state the goal is at most as many steps away as there are.
    ahead = one
    for _ in ORDER:
        if (further := next_step(ahead)) is not None:
            ahead = succeeded(begun(ahead, further, now=0.0), further, now=0.0)
    assert next_step(ahead) is None


def as_user(uid: int, place: Path) -> socket.socket:
    """A connection of which the kernel tells the server that it is another user's."""
    connection = socket.socket(socket.AF_UNIX)
    os.seteuid(uid)
    try:
        connection.connect(str(place))
    finally:
        os.seteuid(0)
    connection.setblocking(False)
    return connection


async def _told(connection: socket.socket) -> str:
    """Code of the refusal that a connection gets; empty for an answer; `gone` where the planner closed it."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(BrokenPipeError):
        await loop.sock_sendall(connection, b'{"request":"ping"}\n')
    try:
        answer = await loop.sock_recv(connection, 1 << 16)
    except ConnectionResetError:
        answer = b""
    return str(json.loads(answer).get("error", {}).get("code", "")) if answer else "gone"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_users_share_the_connections_and_root_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections whose clients are silent, such as stopped ones, make way for those of users who have fewer."""
    monkeypatch.setattr(server, "CLIENTS_MAX", 8)
    monkeypatch.setattr(server, "CLIENTS_PER_USER_MAX", 6)
    monkeypatch.setattr(server, "PRIVILEGED_CLIENTS_MAX", 9)

    async def live(folder: Path) -> None:
        place = folder / "s"
        async with server.Server(Answers(), 40_000).listening(server.listen(place)):  # type: ignore[arg-type]
            first = [as_user(1000, place) for _ in range(7)]
            assert await _told(first[6]) == "busy" and await _told(first[5]) == ""
            second = [as_user(1001, place) for _ in range(4)]
            assert [await _told(each) for each in second] == ["", "", "", ""]
            # The two that were silent for longest are those of the user who had more.
            assert [await _told(each) for each in first[:2]] == ["gone", "gone"]
            assert [await _told(each) for each in first[2:6]] == [""] * 4
            second.append(as_user(1001, place))
            assert await _told(second[4]) == "busy"
            third = as_user(1002, place)
            assert await _told(third) == ""
            privileged = [as_user(uid, place) for uid in (0, 40_000) for _ in range(5)]
            assert [await _told(each) for each in privileged] == [""] * 9 + ["busy"]
            for each in (*first, *second, third, *privileged):
                each.close()

    # Other users do not come into the folders of pytest.
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(live(Path(folder)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_nobody_fills_the_queue_of_the_reserved_socket() -> None:
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        Path(folder).chmod(0o755)
        place, reserve = Path(folder) / "s", Path(folder) / "s.reserved"
        listeners = server.listen(place), server.listen(reserve, owner=40_000)
        # Nobody accepts: the kernel alone decides.
        waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(1000)]
        os.seteuid(1000)
        try:
            with pytest.raises(BlockingIOError):
                for each in waiting:
                    each.connect(str(place))
            with pytest.raises(PermissionError):
                waiting[-1].connect(str(reserve))
        finally:
            os.seteuid(0)
        for uid in (0, 40_000):
            as_user(uid, reserve).close()
        for closed in (*waiting, *listeners):
            closed.close()


def test_an_answer_has_a_page_of_a_list(tmp_path: Path) -> None:
    """Each of many connections may keep one answer that its client does not take."""
    from weir.planner.ledger import Ledger
    from weir.planner.service import Service
    from weir.planner.settings import Settings
    from weir.planner.stores import open_store

    async def live() -> None:
        ledger = Ledger(open_store(f"sqlite:///{tmp_path}/db"))
        for number in range(200):
            ledger._put(record(f"job-{number:03}", error="x" * 4096, hint="y" * 4096))
        settings = Settings(socket=tmp_path / "s", state=tmp_path, database="")
        service = Service(settings, ledger, *[None] * 4)  # type: ignore[arg-type]
        names: list[str] = []
        after = ""
        while not names or after:
            page = await service.answer(Peer(1000), protocol.List(after=after))
            assert isinstance(page, protocol.Listed) and len(msgspec.json.encode(page)) < 1 << 19
            names += [each.name for each in page.deployments]
            after = page.next
        assert names == [f"job-{number:03}" for number in range(200)]
        await ledger.close()

    asyncio.run(live())
