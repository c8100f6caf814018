"""Every request of the control API, by every kind of caller: each is answered as its row says."""

import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import control_api
import pytest
import weir
from waits import PATIENCE_SECONDS
from weir import _core
from weir.store.access import Access, by_credential, by_key
from weir.store.connections import Connection
from weir.store.control import REQUESTS, Server
from weir.store.identity import Identity

CONTROL = Path(__file__).resolve().parents[2] / "crates/server/src/control"
ANYBODY, USER, ADMINISTRATOR = "anybody", "user", "administrator"

ROWS = {
    "GET /metrics": ANYBODY,
    "GET /v1/status": ANYBODY,
    "GET /v1/jobs": ANYBODY,
    "GET /v1/policy": ANYBODY,
    "PUT /v1/policy": ADMINISTRATOR,
    "GET /v1/lease": ADMINISTRATOR,
    "PUT /v1/lease": ADMINISTRATOR,
    "GET /v1/allocator": ANYBODY,
    "PUT /v1/allocator": ADMINISTRATOR,
    "GET /v1/quotas": ADMINISTRATOR,
    "PUT /v1/quotas": ADMINISTRATOR,
    "GET /v1/inventory/{part}": ADMINISTRATOR,
    "GET /v1/places/{inos}": ADMINISTRATOR,
    "GET /v1/tree/{part}": ADMINISTRATOR,
    "GET /v1/directories/{inos}": ADMINISTRATOR,
    "GET /v1/entries/{entries}": ADMINISTRATOR,
    "GET /v1/sums": ADMINISTRATOR,
    "PUT /v1/mend": ADMINISTRATOR,
    "GET /v1/windows/{after}": USER,
    "GET /v1/interference": USER,
    "PUT /v1/interference": ADMINISTRATOR,
    "PUT /v1/targets/{target}/speed": ADMINISTRATOR,
    "PUT /v1/servers/{server}": ADMINISTRATOR,
    "PUT /v1/servers/{server}/names": ADMINISTRATOR,
    "PUT /v1/servers/{server}/state": ADMINISTRATOR,
    "PUT /v1/targets/{target}": ADMINISTRATOR,
    "PUT /v1/targets/{target}/state": ADMINISTRATOR,
    "GET /v1/audit/{after}": ADMINISTRATOR,
    "PUT /v1/audit": ADMINISTRATOR,
}
"""The least caller that each request is answered to."""


@dataclass(frozen=True)
class Asked:
    """A request as bytes of HTTP."""

    row: str
    content: bytes


@pytest.fixture(scope="module")
def store() -> Iterator[weir.store.Store]:
    with weir.store.up(servers=2, backend="dir", mount=False) as store:
        yield store
        store.down(discard=True)


@pytest.fixture(scope="module")
def server(store: weir.store.Store) -> Server:
    return store.servers[0]


@pytest.fixture(scope="module")
def key(store: weir.store.Store) -> str:
    return (store.home / "site.key").read_text()


def requests() -> list[Asked]:
    """Every request, each of which a server takes as often as it comes."""
    found = [Asked("GET /metrics", b"GET /metrics HTTP/1.1\r\n\r\n")]
    for request, path, body in control_api.examples():
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{request.method} {path} HTTP/1.1\r\nContent-Length: {len(text)}\r\n\r\n".encode()
        found.append(Asked(f"{request.method} {request.path}", head + text))
    return found


def test_every_request_has_a_row() -> None:
    assert {f"{request.method} {request.path}": request.caller for request in REQUESTS} == {
        row: caller for row, caller in ROWS.items() if row != "GET /metrics"
    }
    # The server's own source: each path that it compares with, and each part below a server and a target.
    source = "".join(path.read_text().partition("#[cfg(test)]")[0] for path in CONTROL.glob("*.rs"))
    paths = set(re.findall(r'= "(/v1/[a-z]+/?)"|"(?:GET|PUT)", "(/[a-z0-9/]+)"', source))
    known = {row.split(" ")[1] for row in ROWS}
    for path in (found or other for found, other in paths):
        assert any(each == path or (path.endswith("/") and each.startswith(path)) for each in known), path
    for part in re.findall(r'Some\("([a-z]+)"\)(?: =>|$)', source):
        assert any(each.endswith(f"/{part}") for each in known), part


def status_of(answer: bytes) -> int:
    """The status of an answer of HTTP; 0 where there is none."""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0


def connected(server: Server) -> socket.socket:
    host, _, port = server.control.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_SECONDS)


def rest_of(connection: socket.socket) -> bytes:
    """Everything that comes until the other side ends."""
    found = b""
    while True:
        try:
            piece = connection.recv(1 << 16)
        except ConnectionResetError:
            return found
        if not piece:
            return found
        found += piece


def in_the_clear(server: Server, content: bytes) -> bytes:
    with closing(connected(server)) as connection:
        connection.sendall(content)
        return rest_of(connection)


def sealed(server: Server, content: bytes, credential: str) -> bytes:
    """The answer over a channel."""
    with closing(connected(server)) as connection:
        channel, answer = handshaken(connection, server.number, credential)
        channel.finish(answer)
        connection.sendall(channel.seal(content))
        return channel.open(rest_of(connection))


def handshaken(connection: socket.socket, number: int, credential: str) -> tuple[_core.SealedChannel, bytes]:
    channel = _core.SealedChannel(number, credential)
    connection.sendall(channel.flight)
    answer = b""
    while len(answer) < channel.ANSWER_BYTES and (piece := connection.recv(channel.ANSWER_BYTES - len(answer))):
        answer += piece
    return channel, answer


def credential_of(key: str, uid: int, role: str = "user", seconds: float = 3600) -> str:
    identity = replace(Identity("one", f"user-{uid}", "group", uid, uid, [uid]), role=role)  # type: ignore[arg-type]
    return identity.mint(key, seconds)


def altered(credential: str, **claims: object) -> str:
    """A credential with other claims than those that it was minted for."""
    document = json.loads(credential)
    return json.dumps({**document, "claims": {**document["claims"], **claims}})


def allowed(row: str, *callers: str) -> bool:
    return ROWS[row] in callers


@pytest.mark.parametrize("asked", requests(), ids=lambda asked: asked.row)
def test_each_caller_is_answered_as_the_row_says(server: Server, key: str, asked: Asked) -> None:
    nobody = 200 if allowed(asked.row, ANYBODY) else 401
    user = 200 if allowed(asked.row, ANYBODY, USER) else 403
    assert status_of(in_the_clear(server, asked.content)) == nobody
    for words in ("Bearer " + "0" * 64, f"Bearer {key.strip()}", f"Basic {key.strip()}", "Bearer"):
        forged = asked.content.replace(b"\r\n", f"\r\nAuthorization: {words}\r\n".encode(), 1)
        assert status_of(in_the_clear(server, forged)) == nobody, words
    for uid in (4711, 4712):
        assert status_of(sealed(server, asked.content, credential_of(key, uid))) == user
    assert status_of(sealed(server, asked.content, credential_of(key, 0, "mount"))) == user
    assert status_of(sealed(server, asked.content, credential_of(key, 0, "administrator"))) == 200
    for role in ("user", "administrator"):
        assert status_of(sealed(server, asked.content, credential_of(key, 0, role, -10))) == 401


@pytest.mark.parametrize("asked", requests(), ids=lambda asked: asked.row)
def test_a_handshake_that_proves_nothing_is_answered_nothing(server: Server, key: str, asked: Asked) -> None:
    administrator = credential_of(key, 0, "administrator")
    for number, credential in (
        (1, administrator),
        (0, credential_of("0" * 64, 0, "administrator")),
        (0, altered(credential_of(key, 0), role="administrator")),
        (0, altered(credential_of(key, 4711), uid=0)),
    ):
        with closing(connected(server)) as connection:
            channel, answer = handshaken(connection, number, credential)
            assert answer == b"", "nothing proves itself to a wrong flight"
            with pytest.raises(ValueError, match="cut short"):
                channel.finish(answer)
    # A recorded connection, sent again: the server answers with keys of its own, which open none of the records.
    with closing(connected(server)) as connection:
        channel, answer = handshaken(connection, 0, administrator)
        channel.finish(answer)
        record = channel.seal(asked.content)
    for spoilt in (record, record[:-1], record[:1], b"", asked.content):
        with closing(connected(server)) as connection:
            connection.sendall(channel.flight + spoilt)
            connection.shutdown(socket.SHUT_WR)
            assert len(rest_of(connection)) == channel.ANSWER_BYTES, "the second half of a handshake, and no more"


@pytest.mark.parametrize("asked", requests(), ids=lambda asked: asked.row)
def test_a_record_that_is_altered_cut_or_out_of_order_is_no_request(server: Server, key: str, asked: Asked) -> None:
    def flipped(record: bytes) -> bytes:
        place = len(record) // 2
        return record[:place] + bytes([record[place] ^ 1]) + record[place + 1 :]

    def mixed(record: bytes) -> bytes:
        return record[:-1] + bytes([record[-1] ^ 1]) + record

    harms: tuple[Callable[[bytes], bytes], ...] = (flipped, mixed, lambda record: record[:-1], lambda record: b"\0\0")
    for harm in harms:
        with closing(connected(server)) as connection:
            channel, answer = handshaken(connection, 0, credential_of(key, 0, "administrator"))
            channel.finish(answer)
            connection.sendall(harm(channel.seal(asked.content)))
            connection.shutdown(socket.SHUT_WR)
            assert rest_of(connection) == b"", harm


def test_nothing_was_changed_by_those_who_may_not(server: Server, key: str) -> None:
    policy = server.sharing().policy
    wanted = {"policy": "fifo" if policy != "fifo" else "job-fair"}
    text = json.dumps(wanted).encode()
    content = f"PUT /v1/policy HTTP/1.1\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text
    assert status_of(in_the_clear(server, content)) == 401
    assert status_of(sealed(server, content, credential_of(key, 0))) == 403
    assert server.sharing().policy == policy
    assert status_of(sealed(server, content, credential_of(key, 0, "administrator"))) == 200
    assert server.sharing().policy == wanted["policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (None, 200),
        ("127.0.0.1", 200),
        ("localhost:{port}", 200),
        (socket.gethostname(), 200),
        ("evil.example.com", 421),
        ("127.0.0.1.evil.example.com:{port}", 421),
        ("192.0.2.1", 421),
        ("", 421),
    ],
)
def test_a_foreign_host_is_refused_in_the_clear(server: Server, key: str, host: str | None, status: int) -> None:
    line = "" if host is None else f"Host: {host.format(port=server.control.rpartition(':')[2])}\r\n"
    for path in ("/metrics", "/v1/status"):
        content = f"GET {path} HTTP/1.1\r\n{line}\r\n".encode()
        assert status_of(in_the_clear(server, content)) == status
        assert status_of(sealed(server, content, credential_of(key, 4711))) == 200, "a client that was proved"


def test_a_caller_that_says_little_or_nothing_of_a_handshake_does_not_keep_others_away(server: Server) -> None:
    magic = _core.SealedChannel(0, credential_of("0" * 64, 0)).flight
    held = [connected(server) for _ in range(80)]
    for number, connection in enumerate(held):
        connection.sendall(magic[: number % 60])
    begun = time.monotonic()
    assert server.status().server == 0
    assert time.monotonic() - begun < PATIENCE_SECONDS
    for connection in held:
        connection.close()


def test_a_site_may_ask_scrapers_for_a_token(tmp_path: Path) -> None:
    token, file = "t" * 32, tmp_path / "metrics.token"
    file.write_text(token + "\n")
    configuration = tmp_path / "cluster.toml"
    configuration.write_text(
        f'version = 1\nmetrics_token = "{file}"\ncontrol_hosts = ["storage.example.org"]\n'
        '[[server]]\n[[server.target]]\nbackend = "ram"\ncapacity = "16MiB"\n'
    )
    file.chmod(0o640)
    with pytest.raises(weir.store.StoreError, match=r"metrics\.token"):
        weir.store.up(configuration, home=tmp_path / "home", mount=False)
    file.chmod(0o600)
    with weir.store.up(configuration, home=tmp_path / "home", mount=False) as store:
        (server,) = store.servers

        def asked(*headers: str) -> int:
            lines = "".join(f"{header}\r\n" for header in headers)
            return status_of(in_the_clear(server, f"GET /metrics HTTP/1.1\r\n{lines}\r\n".encode()))

        assert asked() == 401
        assert asked(f"Authorization: Bearer {token[1:]}") == asked(f"Authorization: Basic {token}") == 401
        assert asked(f"Authorization: Bearer {token}") == 200
        assert asked(f"Authorization: Bearer {token}", "Host: storage.example.org") == 200
        assert asked(f"Authorization: Bearer {token}", "Host: evil.example.org") == 421
        key = (store.home / "site.key").read_text()
        for access, status in ((by_key(key), 200), (by_credential(credential_of(key, 4711)), 401)):
            assert metrics_status(server, access) == status
        store.down(discard=True)


def metrics_status(server: Server, access: Access) -> int:
    connection = Connection(server.number, server.control, PATIENCE_SECONDS, access)
    with closing(connection):
        connection.request("GET", "/metrics")
        answer: http.client.HTTPResponse = connection.getresponse()
        return answer.status
