"""The client's types are those of the servers: a field that one of them renames fails here, and not at a user's."""

import dataclasses
import http.client
import http.server
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import control_api
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir.store import StoreError
from weir.store.access import by_credential, by_key
from weir.store.answers import (
    Inventory,
    Jobs,
    Lease,
    LeasedJob,
    Places,
    Quotas,
    Refusal,
    Sharing,
    Status,
    WaitedFor,
    WantedSpeed,
)
from weir.store.audits import Audit
from weir.store.connections import Connection
from weir.store.control import REQUESTS, Server
from weir.store.decoding import DecodingError, decode, encode
from weir.store.identity import Identity
from weir.store.observations import Windows
from weir.store.predictions import JobPrediction, PredictedDriver, PredictedHorizon, Predictions
from weir.store.trees import Directories, Entries, Sums, Tree

SPEED = 'speed = { read = "1MB/s", write = "1MB/s", fixed = "1ms" }'
CONFIGURED_SPEED = {"read": "1MB/s", "write": "1MB/s", "fixed": "1ms"}
SERVER = f'[[server]]\n[[server.target]]\nbackend = "dir"\n{SPEED}\n'
"""Of a store that keeps files, which has journals, and whose devices are slow enough to be waited for."""
WRITER = "exec dd if=/dev/zero of=/weir/$0 bs=64k status=none"
"""It writes without a pause until it is killed. Programs that start again and again hardly meet on a busy machine."""


def raw(server: Server, method: str, path: str, body: object = None) -> Any:
    """What a server answers, as it is."""
    connection = Connection(server.number, server.control, PATIENCE_SECONDS, server.access)
    with closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body))
        return json.loads(connection.getresponse().read())


def seen_in(value: Any, kinds: set[type]) -> None:
    """Add the types of a dataclass and of all that is in it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kinds.add(type(value))
        for field in dataclasses.fields(value):
            seen_in(getattr(value, field.name), kinds)
    elif isinstance(value, tuple):
        for item in value:
            seen_in(item, kinds)


PREDICTIONS = Predictions(
    7,
    1.5,
    (1,),
    (
        JobPrediction(
            job="one",
            user="user",
            uid=4711,
            basis="trees",
            horizons=(PredictedHorizon(0, "from 2", 0.75, (0.25, 0.75)),),
            driven_by=(PredictedDriver("io_seconds", "0.0"), PredictedDriver("rank_rate", None)),
            device_seconds=0.5,
            waited_seconds=1.25,
            waited_ratio=2.5,
            responsible=(WaitedFor("other", "someone", 8, 1.25),),
        ),
    ),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[weir.store.Store]:
    """A store of which every part of an answer is there: journals, emulated speeds, peers, jobs that wait."""
    file = tmp_path_factory.mktemp("api") / "cluster.toml"
    file.write_text(f'version = 1\n{SERVER}[[server.target]]\nbackend = "dir"\n{SPEED}\n{SERVER}')
    with weir.store.up(file, mount=False) as store, ExitStack() as ends:
        for name in ("one", "other"):
            for number in range(2):
                environment = ends.enter_context(store.job(job=name, user=name))
                writer = subprocess.Popen(["sh", "-c", WRITER, f"{name}-{number}"], env=environment)
                ends.callback(writer.wait)
                ends.callback(writer.kill)
        yield store


def test_what_servers_answer_is_of_these_types_and_nothing_else(store: weir.store.Store) -> None:
    seen: set[type] = {weir.store.answers.Refusal}
    wanted = set(control_api.kinds()) - {request.body for request in REQUESTS}
    changed = {"Sharing", "Allocator", "Changed", "AddedServer", "QuotaLimits", "ToldPredictions"}
    # A store without a fault shows none, and what is mended is a matter of orders; nobody takes its ports.
    changed |= {"Fault", "SumFault", "SeenPlace", "Mended", "TakenPort"}
    store.servers[0].set_target_state("0.0", "retiring")
    store.servers[0].set_lease(
        "job-fair", (LeasedJob("one", 0, weight=2.0, avoid=("0.0",)), LeasedJob("other", 0, limit=0.9)), 60
    )
    limit = time.monotonic() + PATIENCE_SECONDS
    while not {kind for kind in wanted if kind.__name__ not in changed} <= seen:
        assert time.monotonic() < limit, f"no server answered {wanted - seen}"
        for server in store.servers:
            (directory,) = {entry.ino for entry in server.inventory(0, 1).files[:1]} or {1}
            shown: tuple[tuple[str, type], ...] = (
                ("/v1/quotas", Quotas),
                ("/v1/audit/0", Audit),
                ("/v1/inventory/0/1", Inventory),
                (f"/v1/places/{directory}", Places),
                ("/v1/tree/0/1", Tree),
                ("/v1/directories/1", Directories),
                (f"/v1/entries/1.6f6e65.{directory}.0", Entries),
                ("/v1/sums", Sums),
            )
            server.tell_interference(PREDICTIONS)
            shown = (*shown, ("/v1/windows/0", Windows), ("/v1/interference", Predictions), ("/v1/lease", Lease))
            for path, kind in (("/v1/status", Status), ("/v1/jobs", Jobs), *shown):
                document = raw(server, "GET", path)
                answer: Any = decode(kind, document, is_exact=True)
                assert json.dumps(encode(answer)) == json.dumps(document), "keys keep their order too"
                seen_in(answer, seen)
        time.sleep(0.1)
    store.servers[0].set_target_state("0.0", "open")
    store.servers[0].set_lease(None, (), 0)


def test_every_request_is_answered_as_it_says(store: weir.store.Store) -> None:
    server = store.servers[0]
    for request, path, body in control_api.examples():
        if request.path == "/v1/targets/{target}":
            body = {**(body or {}), "speed": CONFIGURED_SPEED}
        decode(request.answer, raw(server, request.method, path, body), is_exact=True)
        if request.caller != "anybody":
            stranger = replace(server, access=None)
            refused = decode(Refusal, raw(stranger, request.method, path, body), is_exact=True)
            assert refused.error == "not authorised"
    decode(Refusal, raw(server, "GET", "/v1/nothing"), is_exact=True)


def test_predictions_are_shown_to_the_job_s_user_and_the_holder_of_the_key(store: weir.store.Store) -> None:
    server, key = store.servers[0], (store.home / "site.key").read_text()
    server.tell_interference(PREDICTIONS)
    assert server.interference() == PREDICTIONS
    for uid, seen in ((4711, PREDICTIONS.jobs), (4712, ())):
        access = by_credential(Identity("one", "user", "group", uid, uid, [uid]).mint(key, 3600))
        own = replace(server, access=access)
        assert own.interference() == replace(PREDICTIONS, jobs=seen)
        with pytest.raises(StoreError, match="not authorised"):
            own.tell_interference(PREDICTIONS)
    foreign = replace(server, access=by_key("0" * 64))
    with pytest.raises(StoreError):
        foreign.interference()
    metrics = urllib.request.urlopen(f"http://{server.control}/metrics", timeout=PATIENCE_SECONDS).read().decode()
    assert 'weir_job_slowed_probability{job_name="one",user="user",uid="4711",ahead="0"} 0.75\n' in metrics
    assert 'weir_job_waited_ratio{job_name="one",user="user",uid="4711"} 2.5\n' in metrics
    many = replace(PREDICTIONS, jobs=PREDICTIONS.jobs * 1024)
    server.tell_interference(many)
    assert server.interference() == many, "as many jobs as a server takes"
    with pytest.raises(StoreError, match="outside of its limit"):
        server.tell_interference(replace(many, jobs=PREDICTIONS.jobs * 1025))
    # A caller without the key may not even send so much.
    with pytest.raises(StoreError):
        foreign.tell_interference(many)


def test_the_client_asks_and_sets(store: weir.store.Store) -> None:
    server = store.servers[0]
    assert server.set_sharing("user-fair", None) == Sharing("user-fair", "virtual-time") == server.sharing()
    assert server.set_allocator("random") == "random" == server.allocator()
    server.set_speed("0.1", WantedSpeed(read="10MB/s", fixed="1ms"))
    speed = server.status().targets[1].speed
    assert speed is not None
    assert (speed.read_bytes_per_second, speed.write_bytes_per_second) == (10_000_000, None)
    server.set_speed("0.1", WantedSpeed())
    assert server.status().targets[1].speed is None
    with pytest.raises(StoreError, match="needs the site key"):
        replace(server, access=None).set_allocator("random")
    with pytest.raises(StoreError, match="unknown"):
        server.set_sharing("szie-fair", None)


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize("key", sorted(answers.STATUS.keys() - {"clock_seconds"}))
def test_an_answer_without_a_field_is_refused(key: str) -> None:
    with pytest.raises(DecodingError, match=f"the answer has no {key}"):
        decode(Status, without(answers.STATUS, key))
    renamed = {**without(answers.STATUS, key), f"{key}_renamed": answers.STATUS[key]}
    with pytest.raises(DecodingError, match=f"has no {key}"):
        decode(Status, renamed)


def test_a_field_that_nobody_knows_is_refused_by_the_tests_alone() -> None:
    more = {**answers.JOB, "colour": "red"}
    assert decode(weir.store.answers.Job, more) == answers.job()
    with pytest.raises(DecodingError, match="has colour, which nobody knows"):
        decode(weir.store.answers.Job, more, is_exact=True)
    with pytest.raises(DecodingError, match=r"devices\[0\] has colour"):
        devices = [{**answers.JOB["devices"][0], "colour": 1}]
        decode(weir.store.answers.Job, {**answers.JOB, "devices": devices}, is_exact=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"nodes": True}, "the answer.nodes is bool and no int"),
        ({"nodes": 1.5}, "nodes is float and no int"),
        ({"active": 1}, "active is int and no bool"),
        ({"device_seconds": "1"}, "device_seconds is str and no float"),
        ({"job": None}, "job is null and no str"),
        ({"devices": {}}, "devices is dict and no list"),
        ({"waited_for": [{}]}, r"waited_for\[0\] has no job, user, uid, seconds"),
        ({"share_owed": []}, "share_owed is list and no float"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_place(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(DecodingError, match=words):
        answers.job(**changed)


class Foreign(http.server.BaseHTTPRequestHandler):
    """Answers what a test says, whatever is asked: no server of this version does so."""

    said = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.said)))
        self.end_headers()
        self.wfile.write(self.said)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"{}", "is not of this version: at /v1/status, the answer has no server"),
        (b"[]", "is not of this version: at /v1/status, the answer is list and no object"),
        (json.dumps(without(answers.STATUS, "boot")).encode(), "the answer has no boot"),
        (b"", "the answer is null and no object"),
        (b"words", "does not answer"),
        (b"[" * 100_000, "does not answer"),
        (b"\xff", "does not answer"),
    ],
)
def test_answers_of_something_else_are_told_of_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, said: bytes, words: str
) -> None:
    monkeypatch.setattr(Foreign, "said", said)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as foreign:
        thread = threading.Thread(target=foreign.serve_forever)
        thread.start()
        try:
            with pytest.raises(StoreError, match=words) as refused:
                Server(3, f"127.0.0.1:{foreign.server_address[1]}", timeout_seconds=PATIENCE_SECONDS).status()
        finally:
            foreign.shutdown()
            thread.join()
    assert refused.value.message.startswith("server 3 at 127.0.0.1:")
    assert refused.value.hint


@pytest.mark.parametrize("document", [None, [], "text", 7])
def test_what_is_no_object_is_no_answer(document: object) -> None:
    with pytest.raises(DecodingError, match="and no object"):
        decode(Status, document)


def test_numbers_without_a_fraction_are_numbers() -> None:
    assert answers.job(device_seconds=1, share_owed=0).device_seconds == 1.0


@pytest.mark.parametrize(
    ("path", "text"), [(control_api.PAGE, control_api.page), (control_api.SCHEMA, control_api.schema_text)]
)
def test_the_reference_is_printed_from_the_types(path: Path, text: Callable[[], str]) -> None:
    assert path.read_text() == text(), "print it again: python tests/control_api.py"
