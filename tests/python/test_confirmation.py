"""Files of a store are removed only by a user who says so, and servers restarted only where nothing is lost."""

from collections.abc import Callable
from pathlib import Path

from store import Store


def test_the_files_of_a_store_on_directories_go_only_with_yes(make_store: Callable[[], Store]) -> None:
    store = make_store()
    store.weir("up", "--backend", "dir", "--no-mount")
    store.weir("down")
    refused = store.weir("down", "--discard", code=1)
    assert "remove the files of the store" in refused.stderr
    assert "--yes" in refused.stderr
    assert (store.home / "servers/0").is_dir()
    said = store.weir("down", "--discard", "--yes")
    assert "files removed" in said.stdout
    assert not (store.home / "servers/0").exists()


def test_a_store_in_memory_has_no_files_to_ask_about(make_store: Callable[[], Store]) -> None:
    store = make_store()
    store.weir("up", "--no-mount")
    store.weir("down", "--discard")


def test_uninstall_leaves_nothing(make_store: Callable[[], Store]) -> None:
    store = make_store()
    outside = store.root / "outside"
    file = store.root / "cluster.toml"
    file.write_text(f'version = 1\n[[server]]\n[[server.target]]\nbackend = "dir"\npath = "{outside}"\n')
    store.weir("up", file, "--no-mount")
    assert "--yes" in store.weir("uninstall", code=1).stderr
    said = store.weir("uninstall", "--yes")
    assert str(outside) in said.stderr
    assert not store.home.exists()
    assert outside.is_dir()


def test_upgrade_restarts_the_servers_of_one_host_in_turn(make_store: Callable[[], Store], tmp_path: Path) -> None:
    store = make_store()
    store.weir("up", "--backend", "dir", "--servers", "2", "--no-mount")
    (tmp_path / "file").write_text("kept")
    store.weir("run", "--prefix", "/weir", "--", "cp", tmp_path / "file", "/weir/file")
    before = store.server_pids()
    document = store.json("upgrade")
    assert document == {"restarted": [0, 1]}
    after = store.server_pids()
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())
    assert store.weir("run", "--prefix", "/weir", "--", "cat", "/weir/file").stdout == "kept"
    store.weir("down", "--discard", "--yes")
