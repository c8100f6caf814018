"""One user who takes the ports of a server that is down: the server listens elsewhere, all who know the key learn it, and
nobody believes the user.

The ports stand in the world-readable cluster.json, and any user may bind them once the server has ended. `weir up` failed
then for as long as the user liked.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_ports, on_named_ports
from squatter import MODES, OTHER, addresses_of, squatting
from store import Store, kept_for, kill, program
from waits import PATIENCE_SECONDS, wait_until
from ways import PREFIX_PATH
from weir import native
from weir.store.access import servers_at
from weir.store.control import servers_of
from weir.store.errors import StoreError
from weir.store.home import Home

SECRET = b"nobody else reads these words. " * 4096
_LONGEST_SOCKET = 107
"""A path above it is none of a Unix socket (unix(7)): all connections of a store in such a home go over TCP."""

COPY = f"""
import pathlib, sys
folder = pathlib.Path({PREFIX_PATH!r}) / sys.argv[1]
words = [path.read_bytes() for path in sorted(folder.rglob("file"))]
for number, content in enumerate(words):
    (folder / f"copy-{{number}}").write_bytes(content)
print(len(words))
"""


@pytest.fixture
def far(store: Store, root_only: None) -> Iterator[Store]:
    """A store whose sockets would have too long a path."""
    folder = store.root / ("far-" * 30)
    folder.mkdir()
    with kept_for(folder) as kept:
        kept.environment |= {"WEIR_TIMEOUT_SECONDS": str(PATIENCE_SECONDS)}
        yield kept


def environment(store: Store, cluster: Path) -> dict[str, str]:
    """The environment of a program that was started by this cluster.json."""
    home = Home(store.home)
    known = {
        "WEIR_CLUSTER": str(cluster),
        "WEIR_CREDENTIAL": str(home.credentials / f"uid-{os.getuid()}.json"),
        "WEIR_PREFIX": PREFIX_PATH,
        "LD_PRELOAD": str(native.preload_library()),
    }
    return store.variables(**known)


def run(store: Store, cluster: Path, folder: str) -> int:
    """Copies the files of a folder by the fast path over TCP; returns their number."""
    answer = subprocess.run(
        [sys.executable, "-c", COPY, folder],
        env=environment(store, cluster),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout)


def write(store: Store, folders: int) -> Path:
    """Writes a file into each of some folders, whose homes are on all servers."""
    for number in range(folders):
        folder = store.mount / "all" / str(number)
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(SECRET)
    return store.mount / "all"


def metric(store: Store, number: int) -> float:
    import urllib.request

    control = addresses_of(store.home / "cluster.json", number)[1]
    with urllib.request.urlopen(f"http://{control}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [float(line.split()[-1]) for line in lines if line.startswith("weir_taken_ports ")]
    return value


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("servers", [1, 2])
def test_a_user_who_takes_both_ports_keeps_no_server_down(far: Store, fuse: None, servers: int, mode: str) -> None:
    store, number = far, servers - 1
    cluster = store.home / "cluster.json"
    store.json("up", "--backend", "dir", "--servers", str(servers))
    assert all(entry["unix"] is None for entry in json.loads(cluster.read_text())["servers"])
    folder = write(store, 4)
    old = store.root / "old.json"
    old.write_text(cluster.read_text())
    before = addresses_of(cluster, number)
    held = servers_at(Home(store.home))[number]
    # This program waits while the server is down, and goes on.
    reading = ["cat", *map(str, sorted(folder.rglob("file")))]
    kill(store.server_pids()[number])
    with (
        squatting(mode, cluster, number, before, store.root / "heard") as squatter,
        subprocess.Popen(reading, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader,
    ):
        answer = store.weir("up")
        for name, address in zip(("data", "control"), before, strict=True):
            told = f"a program of user {OTHER} (nobody) has the {name} port {address} of server {number}"
            assert told in answer.stderr, answer.stderr
        after = addresses_of(cluster, number)
        assert not set(after) & set(before)
        content, words = reader.communicate(timeout=2 * PATIENCE_SECONDS)
        assert (reader.returncode, content == 4 * SECRET) == (0, True), words
        (folder / "0" / "after").write_bytes(SECRET)
        assert run(store, cluster, "all") == 4
        # A command that began before the server moved asks it where it is now.
        assert held.status().server == number
        state = store.weir("status")
        assert f"listens at {after[0]} instead" in state.stderr
        assert state.stderr.count("[port-taken]") == 2
        assert metric(store, number) == 2
        listed = store.json("status")["servers"][number]["taken_ports"]
        assert [(each["name"], each["wanted"], each["address"], each["holder"]) for each in listed] == [
            ("data", before[0], after[0], OTHER),
            ("control", before[1], after[1], OTHER),
        ]
        if servers > 1:
            # Another host's copy of cluster.json is old: a living server tells where the other one is.
            assert run(store, old, "all/1") == 1
        for heard in squatter.heard():
            assert SECRET[:64] not in heard
            assert b"Authorization" not in heard
    for copy in [folder / f"copy-{index}" for index in range(4)] + [folder / "0" / "after"]:
        assert copy.read_bytes() == SECRET
    # The mount reads the new address still, and the server keeps it as long as it runs.
    assert store.weir("status").returncode == 0
    assert addresses_of(cluster, number) == after
    store.weir("down")
    answer = store.weir("up")
    assert "port" not in answer.stderr
    assert len([path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == SECRET]) >= 9


def test_a_store_of_named_ports_comes_up_beside_their_holder(far: Store, fuse: None) -> None:
    """The recorded ports are those of the configuration; a restart by `weir upgrade`, and one after a boot, take others."""
    store = far
    ports = free_ports(4)
    file = store.root / "cluster.toml"
    file.write_text(on_named_ports(ports))
    cluster = store.home / "cluster.json"
    store.weir("up", file)
    folder = write(store, 4)
    named = addresses_of(cluster, 1)
    store.weir("down")
    with squatting("loud", cluster, 1, named, store.root / "heard"):
        assert "(nobody) has the data port" in store.weir("up").stderr
        displaced = addresses_of(cluster, 1)
        assert not set(displaced) & set(named)
        assert (folder / "1" / "file").read_bytes() == SECRET
        # The program that has the second address, too, when the server is restarted, gains nothing either.
        store.weir("upgrade", "--yes")
        assert addresses_of(cluster, 1) == displaced
        kill(store.server_pids()[1])
        with squatting("loud", cluster, 1, displaced, store.root / "again"):
            store.weir("up")
            assert not set(addresses_of(cluster, 1)) & {*named, *displaced}
            assert (folder / "2" / "file").read_bytes() == SECRET
            assert run(store, cluster, "all") == 4
    store.weir("down")
    store.weir("up")
    # Nobody holds the named ports now, so the server is there again, and the other one knows it.
    assert addresses_of(cluster, 1) == named
    assert run(store, cluster, "all/3") == 1


def test_a_server_that_nobody_watches_mends_the_addresses_of_its_host(far: Store) -> None:
    """A unit of systemd starts a server anew without `weir up`."""
    store = far
    ports = free_ports(2)
    file = store.root / "cluster.toml"
    file.write_text(
        f'version = 1\n[[server]]\nlisten = "127.0.0.1:{ports[0]}"\ncontrol = "127.0.0.1:{ports[1]}"\n'
        '[[server.target]]\nbackend = "dir"\n'
    )
    store.weir("up", file, "--no-mount")
    cluster = store.home / "cluster.json"
    named = addresses_of(cluster, 0)
    kill(store.server_pids()[0])

    def is_elsewhere() -> bool:
        return not set(addresses_of(cluster, 0)) & set(named)

    def answers() -> bool:
        try:
            return bool(servers_of(cluster, None)[0].status().taken_ports)
        except StoreError:
            return False

    with squatting("silent", cluster, 0, named, store.root / "heard"):
        command = [*program(), "serve", "server", "0"]
        with subprocess.Popen(command, env=store.variables(), stdin=subprocess.DEVNULL) as served:
            try:
                wait_until("cluster.json names the server where it is", is_elsewhere)
                wait_until("the server answers there", answers)
                assert run(store, cluster, ".") == 0
            finally:
                served.kill()
    with subprocess.Popen(command, env=store.variables(), stdin=subprocess.DEVNULL) as served:
        try:
            wait_until("cluster.json names the server where it was", lambda: addresses_of(cluster, 0) == named)
        finally:
            served.kill()
