"""Attacks on the control API, and on doors with figures for scrapers."""

import contextlib
import itertools
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from doors import ALTERER, FLOODER, RELAY, REPLAYER, SQUATTER, THIEF, TRUNCATER
from seeds import seeded
from waits import PATIENCE_SECONDS, wait_until
from weir import _core
from weir.errors import WeirError
from weir.interference.export import Board, served
from weir.store.answers import QuotaLimits

from attacks import attack
from attacks.world import ANSWER_BYTES, ROUNDS, WORDS, World, check_flights

HARMED_SECONDS = 2.0
"""Bound of a request whose answer may never come."""
OWNER = 77_001
"""The user whose quota is set, and has no files."""


@attack("control", RELAY)
def relay_control(attacked: World) -> None:
    for manner in ("passes", "rewrites"):
        with attacked.adversary("listen", manner, "127.0.0.1:0", attacked.addresses[0]["control"]) as relay:
            with pytest.raises(WeirError, match="does not know the site's key"):
                attacked.server(1, relay.at).set_sharing("fifo", None)
            check_flights(relay.heard())


@attack("control", SQUATTER)
def squat_control(attacked: World) -> None:
    with (
        attacked.dead_server(1) as dead,
        attacked.adversary("listen", "goes on in the clear", dead["control"]) as squatter,
    ):
        assert squatter.at
        assert attacked.store.weir("quota", "show", code=None).returncode == 1
        check_flights(squatter.heard())
    with attacked.squatters() as squatters:

        def ask(manner: str) -> None:
            with pytest.raises(WeirError, match="does not know the site's key"):
                attacked.server(1, squatters[manner].at, HARMED_SECONDS).set_sharing("fifo", None)

        with ThreadPoolExecutor() as pool:
            list(pool.map(ask, squatters))
        for squatter in squatters.values():
            check_flights(squatter.heard())


@attack("control", THIEF)
def steal_control(attacked: World) -> None:
    words = [_core.SealedChannel(1, credential).flight for credential in attacked.forged().values()]
    place = attacked.addresses[1]["control"]
    expired = list(attacked.forged()).index("one that has expired")
    for number, answer in enumerate(attacked.answers(place, *words)):
        assert len(answer) == (ANSWER_BYTES if number == expired else 0), "a key proves itself to a key alone"
    body = b'{"policy":"fifo"}'
    clear = b"PUT /v1/policy HTTP/1.1\r\nContent-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n%s"
    for guess in (b"0" * 64, b"root", b""):
        (answer,) = attacked.answers(place, clear % (len(body), guess, body))
        assert answer.startswith(b"HTTP/1.1 401 ")


def set_quota(
    attacked: World, number: int, control: str | None, megabytes: int, seconds: float = PATIENCE_SECONDS
) -> bool:
    """Set the quota of a user by an administrator's request; whether it was answered."""
    limits = QuotaLimits(bytes_max=megabytes << 20)
    try:
        attacked.server(number, control, seconds).set_quota("user", OWNER, limits)
    except WeirError:
        return False
    return True


def unset_quota(attacked: World) -> None:
    """Take the limit back, and wait until both servers know."""
    for number in (0, 1):
        attacked.server(number).set_quota("user", OWNER, None)
    wait_until("nobody has a limit", lambda: {quota_of(attacked, 0), quota_of(attacked, 1)} == {None})


def quota_of(attacked: World, number: int) -> int | None:
    """The quota that a server has in force."""
    quotas = attacked.server(number).quotas()
    return next((quota.bytes_max for quota in quotas if quota.id == OWNER and quota.is_set), None)


@attack("control", REPLAYER)
def replay_control(attacked: World) -> None:
    place = attacked.addresses[1]["control"]
    with attacked.adversary("listen", "passes", "127.0.0.1:0", place) as relay:
        assert set_quota(attacked, 1, relay.at, 7)
        heard = relay.heard()
    assert quota_of(attacked, 1) == 7 << 20
    assert set_quota(attacked, 1, None, 9)
    for answer in attacked.answers(place, *heard):
        assert len(answer) == ANSWER_BYTES, "the second half of a handshake, and no more"
    assert quota_of(attacked, 1) == 9 << 20
    unset_quota(attacked)


def disturb_control(attacked: World, manner: str, word: str) -> None:
    dice = seeded()
    said: set[int | None] = {None}
    done = 0
    for megabytes in itertools.count(1):
        relay = ("listen", manner, "127.0.0.1:0", attacked.addresses[1]["control"], str(dice.randrange(1 << 30)))
        with attacked.adversary(*relay) as middle:
            said.add(megabytes << 20)
            if set_quota(attacked, 1, middle.at, megabytes, HARMED_SECONDS):
                assert quota_of(attacked, 1) == megabytes << 20
            done += middle.count(word)
        assert quota_of(attacked, 1) in said, "a limit that nobody said"
        if done >= ROUNDS:
            break
    unset_quota(attacked)


@attack("control", TRUNCATER)
def cut_control(attacked: World) -> None:
    disturb_control(attacked, "cuts", "cut")


@attack("control", ALTERER)
def alter_control(attacked: World) -> None:
    disturb_control(attacked, "alters", "altered")


@attack("control", FLOODER)
def flood_control(attacked: World) -> None:
    flight = _core.SealedChannel(1, attacked.forged()["another site's"]).flight
    with attacked.adversary("flood", attacked.addresses[1]["control"], flight.hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        assert attacked.server(1).status().server == 1
        wait_until("a command is answered", lambda: attacked.store.weir("policy", "show", code=None).returncode == 0)


def scraped(place: str, *headers: str) -> bytes:
    """The whole answer of a door with figures."""
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
        lines = "".join(f"{header}\r\n" for header in headers)
        connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{lines}\r\n".encode())
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
        return answer


HALVES = (b"", b"G", b"GET /metrics HT", b"GET /metrics HTTP/1.1\r\nHost: ", b"\x16\x03\x01" * 40, b"\0" * 9000)
"""Requests that were cut, or never were any."""


@attack("metrics", THIEF)
def steal_metrics(attacked: World) -> None:
    place = attacked.addresses[1]["control"]
    for header in ("Authorization: Bearer 0", "X-Forwarded-For: 127.0.0.1", "Cookie: admin=1"):
        answer = scraped(place, header)
        assert answer.startswith(b"HTTP/1.1 200 ")
        attacked.check_secrets(answer.decode())
        assert WORDS not in answer
    foreign = b"GET /metrics HTTP/1.1\r\nHost: evil.example.org\r\n\r\n"
    assert attacked.answers(place, foreign)[0].startswith(b"HTTP/1.1 421 ")


@attack("metrics", TRUNCATER)
def cut_metrics(attacked: World) -> None:
    place = attacked.addresses[1]["control"]
    for answer in attacked.answers(place, *HALVES):
        assert not answer.startswith(b"HTTP/1.1 200 "), answer
    assert scraped(place).startswith(b"HTTP/1.1 200 ")


@attack("metrics", FLOODER)
def flood_metrics(attacked: World) -> None:
    place = attacked.addresses[1]["control"]
    with attacked.adversary("flood", place, b"GET /metrics HTTP/1.1\r\nX: ".hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        assert scraped(place).startswith(b"HTTP/1.1 200 ")


@contextlib.contextmanager
def figures() -> Iterator[str]:
    """The door of `weir stats windows --listen`, with the token `open`; no caller's time is over while a test waits."""
    with served(Board(), ("127.0.0.1", 0), "open", seconds_max=2 * PATIENCE_SECONDS) as (host, port, *_):
        yield f"{host}:{port}"


@attack("windows of devices", THIEF)
def steal_windows(attacked: World) -> None:
    with figures() as place:
        for guess in ("", "Bearer", "Bearer ope", "Bearer openn", "Basic open", "Bearer \xffopen"):
            request = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: {guess}\r\n\r\n".encode("latin-1")
            assert b" 401 " in attacked.answers(place, request)[0].partition(b"\r\n")[0], guess
        assert b" 200 " in scraped(place, "Authorization: Bearer open").partition(b"\r\n")[0]


@attack("windows of devices", TRUNCATER)
def cut_windows(attacked: World) -> None:
    with figures() as place:
        for answer in attacked.answers(place, *HALVES):
            assert b" 200 " not in answer.partition(b"\r\n")[0], answer
        assert b" 200 " in scraped(place, "Authorization: Bearer open").partition(b"\r\n")[0]


@attack("windows of devices", FLOODER)
def flood_windows(attacked: World) -> None:
    with figures() as place, attacked.adversary("flood", place, b"GET /metrics HTTP/1.1\r\nX: ".hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        wait_until("a scraper is answered", lambda: b" 200 " in scraped(place, "Authorization: Bearer open")[:20])
