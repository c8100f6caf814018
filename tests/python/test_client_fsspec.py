"""`weir://`: fsspec's own tests of a file system, and what they leave out."""

import asyncio
import json
import multiprocessing
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from client_workers import cat
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from fsspec.tests import abstract
from store import Store
from waits import PATIENCE_SECONDS
from weir.store.client_fsspec import WeirFileSystem


@pytest.fixture(scope="session")
def shared_options(shared_store: Store) -> dict[str, Any]:
    return {"store": str(shared_store.home)}


@pytest.fixture
def system(shared_options: dict[str, Any]) -> WeirFileSystem:
    found: WeirFileSystem = fsspec.filesystem("weir", **shared_options)
    return found


@pytest.fixture
def folder(system: WeirFileSystem, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "/" + re.sub(r"\W+", "-", request.node.name)
    system.mkdir(name)
    yield name
    system.rm(name, recursive=True)


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, system: WeirFileSystem) -> WeirFileSystem:
        return system

    @pytest.fixture
    def fs_path(self, folder: str) -> str:
        return folder

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore[misc]
    """Copies within the store."""


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore[misc]
    """Copies out of the store."""


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore[misc]
    """Copies into the store."""


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore[misc]
    """Modes of an open."""


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore[misc]
    """Files that are written in one call."""


def test_a_url_finds_the_store_by_the_entry_point(shared_options: dict[str, Any], folder: str) -> None:
    with fsspec.open(f"weir:/{folder}/deep/er/file.txt", "w", **shared_options) as file:
        file.write("words")
    for url in (f"weir://{folder}/deep/er/file.txt", f"weir:/{folder}/deep/er/file.txt"):
        with fsspec.open(url, "r", **shared_options) as file:
            assert file.read() == "words"
    system, path = fsspec.url_to_fs(f"weir:/{folder}/deep", **shared_options)
    assert (type(system), path) == (WeirFileSystem, f"{folder}/deep")
    assert system.unstrip_protocol(path) == f"weir://{folder}/deep"
    with fsspec.open(f"weir:/{folder}/packed.gz", "wt", compression="infer", **shared_options) as file:
        file.write("words" * 1000)
    assert system.size(f"{folder}/packed.gz") < 1000
    with fsspec.open(f"weir:/{folder}/packed.gz", "rt", compression="infer", **shared_options) as file:
        assert file.read() == "words" * 1000


def test_directories_above_a_new_file_are_made_unless_that_is_not_wanted(
    system: WeirFileSystem, folder: str, shared_options: dict[str, Any]
) -> None:
    system.pipe_file(f"{folder}/a/b/c", b"1")
    strict = fsspec.filesystem("weir", auto_mkdir=False, **shared_options)
    with pytest.raises(FileNotFoundError):
        strict.pipe_file(f"{folder}/d/e", b"1")
    assert not system.exists(f"{folder}/d")
    for call in (system.mv, system.cp_file):
        with pytest.raises(FileNotFoundError):
            call(f"{folder}/none", f"{folder}/e/f")
    with pytest.raises(FileNotFoundError):
        system.open(f"{folder}/e/f")
    assert not system.exists(f"{folder}/e")


def test_files_of_one_new_directory_are_made_at_once(system: WeirFileSystem, folder: str) -> None:
    """A thread that came just after another one had made the directory took it for no reason to try again."""
    for turn in range(20):
        system.pipe({f"{folder}/{turn}/a/b/{number}": b"1" for number in range(8)})
    assert len(system.find(folder)) == 160


def test_trees_are_listed_found_and_removed(system: WeirFileSystem, folder: str) -> None:
    system.pipe({f"{folder}/x/{number}.dat": bytes(number) for number in range(20)})
    system.makedirs(f"{folder}/x/empty")
    assert len(system.glob(f"{folder}/x/1*.dat")) == 11
    assert system.du(f"{folder}/x") == sum(range(20))
    assert sorted(system.cat(f"{folder}/x/*.dat")) == sorted(f"{folder}/x/{number}.dat" for number in range(20))
    read = system.cat_ranges([f"{folder}/x/{number}.dat" for number in (5, 6, 99)], 0, 3)
    assert read[:2] == [bytes(3)] * 2
    assert isinstance(read[2], FileNotFoundError)
    system.mv(f"{folder}/x", f"{folder}/y/z")
    assert system.find(folder, withdirs=True)[:3] == [folder, f"{folder}/y", f"{folder}/y/z"]
    with pytest.raises(IsADirectoryError):
        system.rm(f"{folder}/y")
    system.rm(f"{folder}/y", recursive=True)
    assert system.ls(folder) == []
    system.touch(f"{folder}/new")
    before = system.modified(f"{folder}/new")
    system.touch(f"{folder}/new", truncate=False)
    assert system.modified(f"{folder}/new") >= before
    assert system.created(f"{folder}/new") <= system.modified(f"{folder}/new")


def test_a_file_of_a_transaction_is_seen_when_it_is_whole(system: WeirFileSystem, folder: str) -> None:
    system.pipe_file(f"{folder}/file", b"old")
    with system.transaction, system.open(f"{folder}/file", "wb") as file:
        file.write(b"new")
        file.flush()
        assert system.cat_file(f"{folder}/file") == b"old"
    assert system.cat_file(f"{folder}/file") == b"new"

    def fail() -> None:
        with system.transaction:
            with system.open(f"{folder}/file", "wb") as file:
                file.write(b"half")
            system.pipe_file(f"{folder}/other", b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert system.cat_file(f"{folder}/file") == b"new"
    assert system.ls(folder, detail=False) == [f"{folder}/file"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_kind_are_the_same_job(system: WeirFileSystem, folder: str, method: str) -> None:
    system.pipe_file(f"{folder}/file", b"words")
    with multiprocessing.get_context(method).Pool(2) as pool:
        answers = pool.starmap_async(cat, [(system, f"{folder}/file")] * 4).get(PATIENCE_SECONDS)
    assert answers == [(system.files.job, b"words")] * 4
    assert pickle.loads(pickle.dumps(system)).files.address == system.files.address
    assert json.loads(system.to_json())["protocol"] == "weir"


def test_coroutines_read_and_write(system: WeirFileSystem, folder: str) -> None:
    wrapped = AsyncFileSystemWrapper(system, asynchronous=True)

    async def work() -> list[bytes]:
        await asyncio.gather(*(wrapped._pipe_file(f"{folder}/{number}", bytes([number])) for number in range(10)))
        return list(await asyncio.gather(*(wrapped._cat_file(f"{folder}/{number}") for number in range(10))))

    assert asyncio.run(work()) == [bytes([number]) for number in range(10)]


def test_a_lost_server_is_no_missing_file(store: Store) -> None:
    store.up(servers=1, targets=1, mount=False)
    system = fsspec.filesystem("weir", store=str(store.home), timeout_seconds=0.5, skip_instance_cache=True)
    system.pipe_file("/file", b"words")
    assert (system.exists("/file"), system.exists("/none"), system.lexists("/none")) == (True, False, False)
    store.weir("down", "--yes")
    for ask in (system.exists, system.isfile, system.isdir):
        with pytest.raises(OSError, match="silent"):
            ask("/file")
