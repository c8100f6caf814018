"""`weir fsck` finds each damage of a tree that lies over several servers, mends it, and raises no alarm while names change."""

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import journals
import pytest
from journals import ROOT, Record
from seeds import seed
from store import Store
from waits import wait_until
from ways import PREFIX, Way

SERVERS = 3
MADE = """
import json, os, sys
os.chdir("/weir")
inos = {}
for number in range(32):
    top = f"top-{number}"
    os.makedirs(f"{top}/below/deep")
    os.mkdir(f"{top}-empty")
    for name in ("file", "below/deep/file"):
        with open(f"{top}/{name}", "w") as file:
            file.write(f"{top} {name}" * 1000)
    os.link(f"{top}/file", f"{top}/twin")
    os.symlink("file", f"{top}/link")
for folder, folders, files in os.walk("."):
    for name in (*folders, *files):
        path = os.path.join(folder, name)
        inos[path[2:]] = os.lstat(path).st_ino
print(json.dumps(inos))
"""
"""A tree in which each home has some of the directories of the root."""
READ = """
import json, os
seen = {}
for folder, folders, files in os.walk("/weir"):
    for name in (*folders, *files):
        path = os.path.join(folder, name)
        if name in folders:
            seen[path] = "folder"
        elif os.path.islink(path):
            seen[path] = os.readlink(path)
        else:
            seen[path] = open(path).read()
print(json.dumps(seen))
"""
CHURN = """
import itertools, os
os.chdir("/weir")
for turn in itertools.count():
    for number in range(4):
        name = f"turn-{number}"
        os.makedirs(f"{name}/inner")
        open(f"{name}/file", "w").close()
        os.rename(name, f"{name}-moved")
        os.link(f"{name}-moved/file", f"{name}-moved/twin")
        os.rename(f"{name}-moved", name)
        for path in ("file", "twin"):
            os.unlink(f"{name}/{path}")
        os.rmdir(f"{name}/inner")
        os.rmdir(name)
    if turn == 0:
        open("turned", "w").close()
"""
"""Directories of all homes that come, change their names and go, without a pause."""

Found = list[tuple[str, str | None]]
"""Kinds and paths of findings."""


@dataclass
class Site:
    """A store that is down, with a tree on three servers."""

    store: Store
    inos: dict[str, int]

    def top(self, home: int, turn: int = 0) -> str:
        """A directory of the root with this home."""
        tops = [path for path in self.inos if path.startswith("top-") and "/" not in path and "empty" not in path]
        return [path for path in sorted(tops) if self.inos[path] >> 48 == home][turn]

    def empty(self, home: int) -> str:
        """An empty directory of the root with this home."""
        return next(path for path in sorted(self.inos) if path.endswith("-empty") and self.inos[path] >> 48 == home)

    def read(self) -> dict[str, str]:
        """Everything in the store that is up."""
        seen: dict[str, str] = json.loads(Way(PREFIX, self.store, Path("/weir")).run("python3", "-c", READ).stdout)
        return seen

    def up(self) -> None:
        self.store.up(servers=SERVERS, targets=1, backend="dir", mount=False)

    def fsck(self, *options: str, code: int) -> Any:
        return self.store.json("fsck", *options, code=code)


Damage = Callable[[Site], tuple[dict[int, list[Record]], Found]]


def lost_entry(site: Site) -> tuple[dict[int, list[Record]], Found]:
    top = site.top(1)
    return {0: [journals.unlinked(ROOT, top)]}, [("unreachable", f"/{top}")]


def lost_directory(site: Site) -> tuple[dict[int, list[Record]], Found]:
    empty = site.empty(2)
    return {2: [journals.disposed(site.inos[empty])]}, [("dangling", f"/{empty}")]


def directory_of_no_server(site: Site) -> tuple[dict[int, list[Record]], Found]:
    return {0: [journals.linked(ROOT, "far", (9 << 48) + 5, "Directory")]}, [("dangling", "/far")]


def unknown_place(site: Site) -> tuple[dict[int, list[Record]], Found]:
    top = site.top(2, 1)
    return {2: [journals.placed(site.inos[top], ROOT, "elsewhere")]}, [("parent", f"/{top}")]


def second_entry(site: Site) -> tuple[dict[int, list[Record]], Found]:
    return {0: [journals.linked(ROOT, "second", site.inos[site.top(1, 1)], "Directory")]}, [("doubled", "/second")]


def ring_of_servers(site: Site) -> tuple[dict[int, list[Record]], Found]:
    one, two = site.top(1, 2), site.top(2, 2)
    first, second = site.inos[one], site.inos[two]
    records: dict[int, list[Record]] = {
        0: [journals.unlinked(ROOT, one), journals.unlinked(ROOT, two)],
        1: [journals.linked(first, "two", second, "Directory"), journals.placed(first, second, "one")],
        2: [journals.linked(second, "one", first, "Directory"), journals.placed(second, first, "two")],
    }
    return records, [("cycle", None)]


def unnamed_file(site: Site) -> tuple[dict[int, list[Record]], Found]:
    folder = site.top(2, 0)
    records = [journals.linked(site.inos[folder], "link", site.inos[f"{folder}/file"], "Regular")]
    return {2: records}, [("unreachable", None)]


def wrong_count(site: Site) -> tuple[dict[int, list[Record]], Found]:
    return {1: [journals.counted(site.inos[f"{site.top(1, 3)}/file"], 7)]}, [("links", None)]


def wrong_kind(site: Site) -> tuple[dict[int, list[Record]], Found]:
    folder = site.top(1, 0)
    parent, file = site.inos[folder], site.inos[f"{folder}/file"]
    records = [journals.unlinked(parent, "twin"), journals.linked(parent, "twin", file, "Fifo")]
    return {1: records}, [("mistyped", f"/{folder}/twin")]


DAMAGES: list[Damage] = [
    lost_entry,
    lost_directory,
    directory_of_no_server,
    unknown_place,
    second_entry,
    ring_of_servers,
    unnamed_file,
    wrong_count,
    wrong_kind,
]
"""Every kind of finding of two servers, and some of one server in a store of several."""


@pytest.fixture
def site(store: Store) -> Site:
    store.up(servers=SERVERS, targets=1, backend="dir", mount=False)
    made = Way(PREFIX, store, Path("/weir")).run("python3", "-c", MADE)
    return Site(store, json.loads(made.stdout))


def found(document: Any) -> Found:
    return sorted(((each["kind"], each["path"]) for each in document["tree"]), key=str)


def damage(site: Site, *damages: Damage) -> Found:
    """Write the records of damages into the journals of a store that is down; returns what is to be found."""
    wanted: Found = []
    for make in damages:
        records, expected = make(site)
        wanted += expected
        for server, of_server in records.items():
            journals.write(site.store, server, of_server)
    return sorted(wanted, key=str)


def repaired(site: Site, wanted: Found, before: dict[str, str]) -> None:
    """Check the damaged store, mend it, and check it again. What the damage did not touch reads as before."""
    assert found(site.fsck("--offline", code=1)) == wanted
    site.up()
    assert found(site.fsck(code=1)) == wanted
    document = site.fsck("--repair", code=0)
    assert document["mended"] and not document["left"], document
    again = site.fsck(code=0)
    assert again["tree"] == [] and again["findings"] == [], again
    after = site.read()
    sheltered = {path for path in after if path.startswith("/weir/lost+found")}
    missing = {path: text for path, text in before.items() if after.get(path) != text}
    kept = sorted(text for path, text in after.items() if path in sheltered)
    for path, text in missing.items():
        is_found = text in kept or text == "folder"
        assert is_found or path.endswith(("link", "-empty")), (path, text, after.get(path))
    site.store.weir("down")
    assert site.fsck("--offline", code=0)["tree"] == []


@pytest.mark.parametrize("make", DAMAGES, ids=lambda make: make.__name__)
def test_each_damage_is_found_alone_and_mended(site: Site, make: Damage) -> None:
    assert site.fsck(code=0)["tree"] == []
    before = site.read()
    site.store.weir("down")
    repaired(site, damage(site, make), before)


def test_several_damages_are_found_together_and_mended(site: Site) -> None:
    before = site.read()
    site.store.weir("down")
    chosen = random.Random(seed()).sample(DAMAGES, 4)
    print("damages:", [make.__name__ for make in chosen])
    repaired(site, damage(site, *chosen), before)


def test_a_tree_that_changes_all_the_time_is_clean(site: Site) -> None:
    way = Way(PREFIX, site.store, Path("/weir"))
    with way.start("python3", "-c", CHURN, start_new_session=True) as child:
        try:
            wait_until("names change", lambda: way.run("test", "-e", "/weir/turned", code=None).returncode == 0)
            for _ in range(4):
                document = site.fsck("--repair", code=0)
                assert document["tree"] == [] and document["mended"] == [], document
        finally:
            # `weir run` and the program that it started.
            os.killpg(child.pid, signal.SIGKILL)


def test_a_name_of_another_user_takes_nothing_in(site: Site) -> None:
    """Everyone makes names in the root: another user's `lost+found` would show that user what stood in closed directories."""
    way = Way(PREFIX, site.store, Path("/weir"))
    way.run("sh", "-c", "mkdir -m 755 /weir/lost+found")
    site.store.weir("down")
    damage(site, lost_entry)
    site.up()
    document = site.fsck("--repair", code=1)
    (left,) = document["left"]
    assert "another name" in left["why"] and document["mended"] == []
    way.run("mv", "/weir/lost+found", "/weir/mine")
    assert len(site.fsck("--repair", code=0)["mended"]) == 1
    listed = way.run("stat", "-c", "%a %u", "/weir/lost+found").stdout.split()
    assert listed == ["700", "0"]


def test_nobody_but_the_holder_of_the_key_checks_or_repairs(site: Site) -> None:
    environment = site.store.grant(4711)
    for options in ((), ("--repair",)):
        refused = site.store.weir("fsck", *options, uid=4711, environment=environment, code=1)
        assert "permission denied" in refused.stderr
