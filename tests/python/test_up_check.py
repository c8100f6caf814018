"""`weir up --check` and `weir up` agree on every configuration, and a refused one changes nothing."""

import socket
from pathlib import Path

import pytest
from store import Store

RAM = '[[server]]\n[[server.target]]\nbackend = "ram"\ncapacity = "64MiB"\n'
DIR = '[[server]]\n[[server.target]]\nbackend = "dir"\n'
FREE = "ADDRESS"
"""Stands for an address at which nobody listens."""

GOOD = {
    "nothing": "",
    "memory": RAM,
    "two servers on folders": DIR + 'path = "one"\n' + DIR + 'path = "two"\n',
    "a folder with files": DIR + 'path = "full"\n',
    "a capacity that no disk has": DIR + 'capacity = "900PiB"\n',
    "an old decision": "decided_milliseconds = -1\n" + RAM,
}
BAD = {
    "one folder twice": DIR + 'path = "data"\n[[server.target]]\nbackend = "dir"\npath = "data"\n',
    "one folder of two servers": DIR + 'path = "data"\n' + DIR + 'path = "data/."\n',
    "a folder in a folder": DIR + 'path = "data/in"\n' + DIR + 'path = "data"\n',
    "a file": DIR + 'path = "file"\n',
    "below a file": DIR + 'path = "file/x"\n',
    "a folder that cannot be made": DIR + 'path = "/proc/none"\n',
    "a name that is too long": DIR + f'path = "{300 * "x"}"\n',
    "a name that is none": DIR + 'path = "a\\u0000b"\n',
    "memory that no process has": RAM.replace("64MiB", "900TiB"),
    "an address twice": 2 * RAM.replace("]]\n[", f']]\nlisten = "{FREE}"\n[', 1),
    "a foreign address": RAM.replace("]]\n[", ']]\nlisten = "192.0.2.1:7000"\n[', 1),
    "no address": RAM.replace("]]\n[", ']]\nlisten = "nonsense"\n[', 1),
    "too few ports": 'ports = "20000-20000"\n' + RAM,
    "no ports": 'ports = "9-1"\n' + RAM,
    "no policy": 'policy = "size-fiar"\n' + RAM,
    "a scheduler that does not fit": 'policy = "fifo"\nscheduler = "gift"\n' + RAM,
    "a share twice": RAM + '[[share]]\nuser = "a"\nweight = 2.0\n[[share]]\nuser = "a"\nweight = 3.0\n',
    "an odd stripe": '[layout]\nstripe_size = "5"\n' + RAM,
    "no allocator": '[layout]\nallocator = "x"\n' + RAM,
    "no capacity": RAM.replace("64MiB", "0"),
    "no speed": RAM + 'speed = { read = "0" }\n',
    "no servers": "server = []\n",
    "no targets": "[[server]]\ntarget = []\n",
    "another version": "version = 7\n" + RAM,
    "no TOML": "version = \n",
}


@pytest.fixture
def folder(store: Store) -> Path:
    place = store.root / "site"
    (place / "full").mkdir(parents=True)
    (place / "full" / "a").touch()
    (place / "file").touch()
    return place


def written(folder: Path, text: str) -> Path:
    file = folder / "cluster.toml"
    file.write_text(text if "version" in text else f"version = 1\n{text}")
    return file


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_good_configuration_is_taken_by_both(store: Store, folder: Path, text: str) -> None:
    file = written(folder, text)
    checked = store.json("up", "--check", file)
    assert not store.home.exists()
    up = store.json("up", "--no-mount", file)
    assert len(up["servers"]) == checked["servers"]
    # A store that is up could be brought up.
    store.weir("up", "--check", file)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_configuration_is_refused_by_both_and_changes_nothing(store: Store, folder: Path, text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        free = f"127.0.0.1:{held.getsockname()[1]}"
    file = written(folder, text.replace(FREE, free))
    before = sorted(folder.rglob("*"))
    # The ports of the environment would beat those of the file.
    own = {"WEIR_PORTS": ""} if "ports" in text else {}
    ways = (("up", "--check"), ("up", "--no-mount"))
    answers = [store.weir(*words, file, code=None, environment=own) for words in ways]
    assert answers[0].returncode == answers[1].returncode != 0
    assert answers[0].stderr == answers[1].stderr
    error, hint = answers[0].stderr.splitlines()
    assert error.startswith("error: ") and hint.startswith("hint: ")
    assert sorted(folder.rglob("*")) == before


def test_a_place_that_cannot_be_mounted_on_is_refused_by_both(store: Store, folder: Path, fuse: None) -> None:
    """The check did not look at the place, and `weir up` started servers before it did."""
    for place in (folder / "file", folder / "full", folder / "file" / "below"):
        answers = [store.weir("up", *words, "--mount", place, code=1) for words in (["--check"], [])]
        assert answers[0].stderr == answers[1].stderr
        assert str(place) in answers[0].stderr and "hint: " in answers[0].stderr
    store.weir("up", "--check", "--mount", folder / "new" / "place")
    assert not (folder / "new").exists()
    store.weir("up", "--check", "--no-mount")


def test_a_store_of_another_shape_is_refused_by_both(store: Store) -> None:
    store.up(mount=False, servers=2, backend="dir")
    store.weir("down")
    for words in (["--check"], ["--no-mount"]):
        answer = store.weir("up", *words, "--servers", "3", "--backend", "dir", code=1)
        assert "other servers and targets" in answer.stderr
