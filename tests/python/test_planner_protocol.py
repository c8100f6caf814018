"""The planner's messages, its socket, and the states of deployments, each against laws."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import jsonschema
import msgspec
import pytest
from resident import DEPLOYMENT, IDENTITY, record
from seeds import seeded
from weir.planner import protocol, schemas, server
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
from weir.provisioning.deployments import Transfer

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "planner"
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


def test_the_published_schemas_are_those_of_the_types(tmp_path: Path) -> None:
    """`python -m weir.planner.schemas docs/reference/planner` writes them anew."""
    schemas.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in SCHEMAS.iterdir()}
    for path in tmp_path.iterdir():
        assert path.read_text() == (SCHEMAS / path.name).read_text(), path.name


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

    async def answer(self, peer: int, request: AnyRequest) -> AnyResult:
        await asyncio.sleep(0)
        if isinstance(request, protocol.Pools):
            raise RuntimeError("a fault of the planner's")
        return protocol.Hello(pid=peer)


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
