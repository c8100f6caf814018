"""A home that another user prepared, or could change, is refused: who knows its key is every user of its store."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from store import Store
from weir.errors import WeirError
from weir.store.errors import StoreError
from weir.store.ownership import check_own
from weir.store.processes import Process
from weir.ways import check_closed

OTHER = 4000001
"""A user that no host has."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


@pytest.mark.parametrize("mode", [0o777, 0o772])
def test_a_folder_on_the_way_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    way = tmp_path / "open" / "home"
    way.mkdir(parents=True)
    check_closed(way)
    way.parent.chmod(mode)
    with pytest.raises(WeirError, match="can be changed by other users"):
        check_closed(way)
    way.parent.chmod(mode | 0o1000)
    check_closed(way)


@as_root
def test_a_folder_or_link_of_another_on_the_way_is_refused(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    (folder / "home").mkdir(parents=True)
    link.symlink_to(folder)
    check_closed(link / "home")
    os.lchown(link, OTHER, OTHER)
    with pytest.raises(WeirError, match="is a link of"):
        check_closed(link / "home")
    os.lchown(link, 0, 0)
    os.chown(folder, OTHER, OTHER)
    for way in (folder / "home", link / "home", folder / "not yet there"):
        with pytest.raises(WeirError, match="could put another folder"):
            check_closed(way)


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(WeirError, match="too many symbolic links"):
        check_closed(tmp_path / "one" / "home")


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    key = tmp_path / "site.key"
    check_own(key, secret=True)
    key.touch(mode=0o600)
    check_own(key, secret=True)
    key.chmod(mode)
    with pytest.raises(StoreError, match="can be read or changed by other users"):
        check_own(key, secret=True)


def _key(home: Path) -> None:
    (home / "site.key").write_text("0" * 64)
    (home / "site.key").chmod(0o600)
    os.chown(home / "site.key", OTHER, OTHER)


def _readable_key(home: Path) -> None:
    (home / "site.key").write_text("0" * 64)
    (home / "site.key").chmod(0o644)


def _linked_key(home: Path) -> None:
    (home / "lock").touch()
    (home / "site.key").symlink_to("/etc/hostname")


def _servers(home: Path) -> None:
    (home / "lock").touch()
    elsewhere = home.parent / "elsewhere"
    elsewhere.mkdir()
    os.chown(elsewhere, OTHER, OTHER)
    (home / "servers").symlink_to(elsewhere)


def _open_servers(home: Path) -> None:
    (home / "lock").touch()
    (home / "servers").mkdir()
    (home / "servers").chmod(0o777)


def _whole(home: Path) -> None:
    (home / "lock").touch()
    os.chown(home, OTHER, OTHER)


@as_root
@pytest.mark.parametrize("prepare", [_key, _readable_key, _linked_key, _servers, _open_servers, _whole])
def test_a_home_that_another_user_prepared_is_not_brought_up(store: Store, prepare: Callable[[Path], None]) -> None:
    store.home.mkdir()
    prepare(store.home)
    refused = store.weir("up", "--no-mount", code=1)
    assert str(store.home) in refused.stderr, refused.stderr
    assert "hint:" in refused.stderr
    assert not (store.home / "cluster.json").exists()


def test_what_lies_below_a_home_is_the_servers_alone(store: Store) -> None:
    """As another user `cat` once printed a file of mode 0600 from its objects, which every user could read."""
    store.up(mount=False, backend="dir")
    program = ["dd", "if=/dev/zero", "of=/weir/secret", "bs=64k", "count=4", "status=none"]
    store.weir("run", "--prefix", "/weir", "--", *program)
    store.weir("down")
    target = store.home / "servers/0/target-0"
    objects = [path for path in target.rglob("*") if path.is_file()]
    assert objects
    # A home of before was open.
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (store.home / "servers/0").chmod(0o755)
    store.up(mount=False)
    # The folders that lead to the sockets of root's store can be passed through, and nothing else is for others.
    passage = 0o711 if os.geteuid() == 0 else 0o700
    passed = {store.home, *(store.home / name for name in ("servers", "credentials", "servers/0"))}
    shown = {store.home / name for name in ("mounts", "cluster.json", "servers/0/socket", "servers/0/pid")}
    for path in (store.home, *store.home.rglob("*")):
        if path in shown:
            continue
        allowed = passage if path in passed else 0o700
        assert path.stat().st_mode & 0o777 & ~allowed == 0, f"{path} has mode {path.stat().st_mode:o}"


@as_root
def test_root_ends_no_process_that_another_user_wrote_down(store: Store) -> None:
    """`weir down` ends the processes of a home's records, whose numbers anyone can see."""
    store.up(mount=False)
    store.weir("down")
    with subprocess.Popen(["sleep", "600"]) as victim:
        try:
            ticks = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19]
            (store.home / "servers/0/pid").write_text(f"{victim.pid} {ticks} {Process.current().boot}\n")
            (store.home / "cluster.json").write_text('{"servers": []}')
            os.chown(store.home, OTHER, OTHER)
            for command in (
                ("down",),
                ("down", "--discard", "--yes"),
                ("uninstall", "--yes"),
                ("up", "--no-mount"),
                ("guard",),
            ):
                assert str(OTHER) in store.weir(*command, code=1).stderr
            assert victim.poll() is None
        finally:
            os.chown(store.home, 0, 0)
            victim.kill()


@as_root
def test_nothing_below_another_users_target_is_touched(store: Store, tmp_path: Path) -> None:
    """A server once filled the `reserve` in a folder before it asked whose the folder is."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "reserve").write_text("words")
    (target / "reserve").chmod(0o644)
    os.chown(target, OTHER, OTHER)
    file = tmp_path / "cluster.toml"
    file.write_text(f'version = 1\n[[server]]\n[[server.target]]\nbackend = "dir"\npath = "{target}"\n')
    assert f"it is uid {OTHER}'s" in store.weir("up", file, "--no-mount", code=1).stderr
    assert (target / "reserve").read_text() == "words"
    assert (target / "reserve").stat().st_mode & 0o777 == 0o644
