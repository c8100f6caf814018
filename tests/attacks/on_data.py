"""Attacks on the doors of data: between clients and servers, and between servers."""

import contextlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from doors import ALTERER, FLOODER, RELAY, REPLAYER, SQUATTER, THIEF, TRUNCATER
from seeds import seeded
from waits import wait_until
from weir import _core

from attacks import attack
from attacks.program import MANNERS
from attacks.world import (
    ANSWER_BYTES,
    ROUNDS,
    SECRET_NAME,
    SILENCE_SECONDS,
    WORDS,
    WORDS_COUNT,
    World,
    check_flights,
    check_refused,
)


@attack("data over TCP", RELAY)
def relay_data(attacked: World) -> None:
    """Whoever holds a dead server's port passes everything on to a living one, as it is and with its number in it."""
    for manner in ("passes", "rewrites"):
        with (
            attacked.dead_server(1) as dead,
            attacked.adversary("listen", manner, dead["tcp"], attacked.addresses[0]["tcp"]) as relay,
        ):
            assert relay.at
            assert attacked.gives_up(1, "tcp", attacked.led(1))
            wait_until("the relay has heard a flight", lambda: bool(relay.heard()))
            check_flights(relay.heard())


@attack("data over TCP", SQUATTER)
def squat_data(attacked: World) -> None:
    """The other server tells the honest user where the server is, or the user gives up."""
    with attacked.squatters() as squatters:

        def work(manner: str) -> str:
            return attacked.work(1, "tcp", attacked.led(1, tcp=squatters[manner].at), SILENCE_SECONDS)

        with ThreadPoolExecutor() as pool:
            assert set(pool.map(work, squatters)) <= {"whole", "EIO"}
        attacked.empty(1)
        for squatter in squatters.values():
            assert squatter.heard()
            check_flights(squatter.heard())


def steal_data(attacked: World, transport: str) -> None:
    """Forged credentials, in Weir's own client: the thief makes no folder and reads no secret."""
    code = (
        "import os, sys\n"
        "for call in (lambda: os.mkdir('/weir/stolen'), lambda: print('read', open(sys.argv[1]).read())):\n"
        "    try:\n        call()\n    except OSError as error:\n        print(error.errno)\n"
    )

    def show(kind: str, credential: str) -> None:
        path = attacked.credential(f"{transport}-{kind.replace(' ', '-')}", credential)
        environment = attacked.environment(transport, attacked.led(0), path, SILENCE_SECONDS)
        said = attacked.run(code, f"/weir/{SECRET_NAME}/page", environment=environment, uid=attacked.uid)
        assert said.startswith("error: permission denied: ") or set(said.split()) <= {"5", "13"}, (kind, said)

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda item: show(*item), attacked.forged().items()))
    made = attacked.run("import os; print(os.path.exists('/weir/stolen'))", environment={})
    assert made == "False"


@attack("data over TCP", THIEF)
def steal_data_over_tcp(attacked: World) -> None:
    steal_data(attacked, "tcp")
    forged = attacked.forged()
    # The bearer of a credential that has expired knows its key, and gets no session.
    del forged["one that has expired"]
    words = [_core.SealedChannel(1, credential).flight for credential in forged.values()]
    for answer in attacked.answers(attacked.addresses[1]["tcp"], *words):
        check_refused(answer)


@attack("data over TCP", REPLAYER)
def replay_data(attacked: World) -> None:
    place = attacked.addresses[1]["tcp"]
    with attacked.adversary("listen", "passes", "127.0.0.1:0", place) as relay:
        assert attacked.work(1, "tcp", attacked.led(1, tcp=relay.at)) == "whole"
        attacked.empty(1)
        heard = relay.heard()
        assert any(len(each) > len(WORDS) * WORDS_COUNT for each in heard), "the relay has heard the bytes"
    for answer in attacked.answers(place, *heard):
        assert len(answer) in (0, ANSWER_BYTES), "the second half of a handshake, and no more"
    assert attacked.names(1) == []


def disturb_data(attacked: World, manner: str, word: str) -> None:
    """Work over one in the middle who does harm: each call ends, and what a call said it wrote is there."""
    dice = seeded()
    done = 0
    while done < ROUNDS:
        relay = ("listen", manner, "127.0.0.1:0", attacked.addresses[1]["tcp"], str(dice.randrange(1 << 30)))
        with attacked.adversary(*relay) as middle:
            answer = attacked.work(1, "tcp", attacked.led(1, tcp=middle.at), SILENCE_SECONDS)
            assert answer in ("whole", "EIO"), "neither altered bytes nor an error of another kind"
            done += middle.count(word)
            wait_until("connections end with the harm", lambda: middle.ended() >= bool(middle.count(word)))


@attack("data over TCP", TRUNCATER)
def cut_data(attacked: World) -> None:
    disturb_data(attacked, "cuts", "cut")


@attack("data over TCP", ALTERER)
def alter_data(attacked: World) -> None:
    disturb_data(attacked, "alters", "altered")


@attack("data over TCP", FLOODER)
def flood_data(attacked: World) -> None:
    flight = _core.SealedChannel(1, attacked.forged()["a mount's"]).flight
    with attacked.adversary("flood", attacked.addresses[1]["tcp"], flight.hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        for transport in ("tcp", "unix"):
            assert attacked.work(1, transport) == "whole"


@attack("data over Unix", RELAY)
def relay_data_over_unix(attacked: World) -> None:
    """A user's socket passes on to the server's, and root's client is led to it."""
    attacked.needs_another_user()
    place = str(attacked.folder / "relay")
    with attacked.adversary("listen", "passes", place, attacked.addresses[1]["unix"]) as relay:
        assert attacked.gives_up(1, "unix", attacked.led(1, unix=relay.at))
        assert relay.heard() == [], "the kernel names the listener before a word is said"


@attack("data over Unix", SQUATTER)
def squat_data_over_unix(attacked: World) -> None:
    attacked.needs_another_user()
    for server in attacked.addresses:
        assert attacked.told("take", server["unix"]) == [{"worked": []}]
    with attacked.dead_server(1) as dead:
        assert attacked.told("take", dead["unix"]) == [{"worked": []}]
        assert attacked.gives_up(1, "unix", attacked.led(1))
    with attacked.squatters(str(attacked.folder / "squatter-")) as squatters:

        def gives_up(manner: str) -> bool:
            return attacked.gives_up(1, "unix", attacked.led(1, unix=squatters[manner].at))

        with ThreadPoolExecutor() as pool:
            assert all(pool.map(gives_up, squatters))
        assert all(squatter.heard() == [] for squatter in squatters.values())


@attack("data over Unix", THIEF)
def steal_data_over_unix(attacked: World) -> None:
    steal_data(attacked, "unix")


def own_conversation(attacked: World) -> list[bytes]:
    """The adversary's own work, with a credential of its own, as a relay of the adversary's hears it."""
    uid = os.getuid() if attacked.uid is None else attacked.uid
    attacked.count += 1
    place = str(attacked.folder / f"own-{attacked.count}")
    with attacked.adversary("listen", "passes", place, attacked.addresses[1]["unix"]) as relay:
        cluster = attacked.led(1, unix=relay.at, owner=uid)
        credential = attacked.credential("own", attacked.minted(attacked.key, uid=uid, job="own"))
        at = f"{attacked.folders[1]}/own"
        code = f"import os; os.mkdir({at!r}); print('made'); os.rmdir({at!r})"
        said = attacked.run(code, environment=attacked.environment("unix", cluster, credential), uid=attacked.uid)
        assert said == "made"
        wait_until("the relay has heard it", lambda: bool(relay.heard()))
        return relay.heard()


@attack("data over Unix", REPLAYER)
def replay_data_over_unix(attacked: World) -> None:
    """A proof answers one challenge, so a recorded session makes no folder."""
    heard = own_conversation(attacked)
    attacked.answers(attacked.addresses[1]["unix"], *heard)
    assert "own" not in attacked.names(1)


@attack("data over Unix", FLOODER)
def flood_data_over_unix(attacked: World) -> None:
    (hello, *_) = own_conversation(attacked)
    with attacked.adversary("flood", attacked.addresses[1]["unix"], hello[:200].hex()) as flood:
        wait_until("the flood has come", lambda: flood.count("round") > 1)
        for transport in ("unix", "tcp"):
            assert attacked.work(1, transport) == "whole"


@contextlib.contextmanager
def peer_by_tcp(attacked: World, number: int) -> Iterator[str]:
    """A dead server that its peers look for at its port, as they do where it is on another host; its place."""
    with attacked.dead_server(number) as dead:
        announced = attacked.store.home / "servers" / str(number) / "address.json"
        document = json.loads(announced.read_text())
        announced.write_text(json.dumps({**document, "unix": None}))
        yield dead["tcp"]


@attack("peers", RELAY)
def relay_peers(attacked: World) -> None:
    with peer_by_tcp(attacked, 1) as place:
        for manner in ("passes", "rewrites"):
            with attacked.adversary("listen", manner, place, attacked.addresses[0]["tcp"]) as relay:
                wait_until("server 0 has come", lambda: len(relay.heard()) > 1)
                assert attacked.work(0, "unix") == "whole"
                check_flights(relay.heard())
    log = (attacked.store.home / "servers/0/log").read_text()
    assert "the connection was meant for server 1, and this is server 0" in log
    assert "the other side does not know the key" in log


@attack("peers", SQUATTER)
def squat_peers(attacked: World) -> None:
    with peer_by_tcp(attacked, 1) as place:
        for manner in MANNERS:
            with attacked.adversary("listen", manner, place) as squatter:
                wait_until("server 0 has come", lambda: bool(squatter.heard()))
                assert attacked.work(0, "tcp") == "whole"
                check_flights(squatter.heard())
    assert attacked.uid is None or attacked.told("take", attacked.addresses[1]["unix"]) == [{"worked": []}]


@attack("peers", REPLAYER)
def replay_peers(attacked: World) -> None:
    """Flights that server 0 sent to one in server 1's place open nothing, there and at server 0 itself."""
    with peer_by_tcp(attacked, 1) as place:
        with attacked.adversary("listen", "ends", place) as squatter:
            wait_until("server 0 has come twice", lambda: len(squatter.heard()) > 1)
            flights = squatter.heard()[:2]
        for answer in attacked.answers(attacked.addresses[0]["tcp"], *flights):
            check_refused(answer)
    for answer in attacked.answers(attacked.addresses[1]["tcp"], *flights):
        assert len(answer) in (0, ANSWER_BYTES), "the second half of a handshake, and no more"


@attack("peers", THIEF)
def steal_peers(attacked: World) -> None:
    forged = attacked.forged()
    for number, address in enumerate(attacked.addresses):
        words = [_core.SealedChannel(number, forged[kind]).flight for kind in ("a server's", "another site's")]
        for answer in attacked.answers(address["tcp"], *words):
            check_refused(answer)
