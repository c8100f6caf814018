"""Folders of windows whose names are taken: programs run, their user is told, and counts go elsewhere or are off."""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from counting_stores import cluster
from store import Store
from waits import wait_until
from weir.store import client_windows, window_folders

VICTIM, SQUATTER = 54873, 54874
"""Users without accounts, who run nothing in other tests: their windows are of the host."""
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the host's shared memory."""
    monkeypatch.setattr(window_folders, "_SHARED_MEMORY", tmp_path)
    monkeypatch.delenv("WEIR_WINDOWS", raising=False)
    return tmp_path


def chosen(**present: str) -> Path:
    return Path(window_folders.variables(present)["WEIR_WINDOWS"])


def told(folder: Path) -> str | None:
    return window_folders.problem({"WEIR_WINDOWS": str(folder)})


def test_the_usual_folder_is_made_for_its_user_alone(memory: Path) -> None:
    folder = chosen()
    assert folder == memory / f"weir-{os.geteuid()}" and chosen() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and told(folder) is None
    assert window_folders.readable() == ([(folder, os.geteuid())], None)


@pytest.mark.parametrize("taken", ["file", "link", "open", "squatted"])
def test_a_name_that_is_taken_has_another_one_in_its_place(memory: Path, taken: str) -> None:
    usual = memory / f"weir-{os.geteuid()}"
    match taken:
        case "file":
            usual.write_text("")
        case "link":
            (memory / "elsewhere").mkdir(mode=0o700)
            usual.symlink_to("elsewhere")
        case "open":
            usual.mkdir()
            usual.chmod(0o711)
        case _ if os.geteuid():
            pytest.skip("only root makes folders of others")
        case _:
            usual.mkdir(mode=0o700)
            os.chown(usual, SQUATTER, SQUATTER)
    folder = chosen()
    assert folder.name.startswith(f"{usual.name}.") and stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert chosen() == folder, "all programs of the user count in one folder"
    words = told(folder)
    assert words is not None and f"counted in {folder}: {usual} is not used" in words
    assert window_folders.readable() == ([(folder, os.geteuid())], None)
    usual.rename(memory / "gone")
    assert chosen(WEIR_WINDOWS=str(folder)) == usual and told(usual) is None
    assert {path for path, _ in window_folders.readable()[0]} == {usual, folder}, "programs that still run are read"


def test_a_user_who_takes_many_names_holds_nobody_up(memory: Path, root_only: None) -> None:
    usual = memory / f"weir-{os.geteuid()}"
    for name in (usual, *(Path(f"{usual}.{number:08}") for number in range(50))):
        name.mkdir(mode=0o700)
        os.chown(name, SQUATTER, SQUATTER)
    for number in range(50):
        own = memory / f"weir-{SQUATTER}.{number:08}"
        own.mkdir(mode=0o700)
        os.chown(own, SQUATTER, SQUATTER)
    folder = chosen()
    assert folder.stat().st_uid == os.geteuid() and chosen() == folder
    found = dict(window_folders.readable()[0])
    assert found[folder] == os.geteuid() and list(found.values()).count(SQUATTER) == 5


def test_folders_beyond_the_entries_that_are_looked_at_are_told(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_folders, "_ENTRIES_MAX", 8)
    for number in range(9):
        (memory / str(number)).touch()
    _, problem = window_folders.readable()
    assert problem is not None and "over 8 entries" in problem


def test_nothing_is_counted_where_no_folder_can_be_made(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = memory / f"weir-{os.geteuid()}"
    usual.write_text("")

    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    assert chosen() == usual
    words = told(usual)
    assert words is not None and words.startswith("operations are not counted") and "it is no folder" in words


def test_a_folder_that_the_user_chose_is_left_as_it_is(memory: Path) -> None:
    assert chosen(WEIR_WINDOWS="off") == Path("off") and told(Path("off")) is None
    own = memory / "own"
    assert chosen(WEIR_WINDOWS=str(own)) == own and not own.exists() and told(own) is None
    own.mkdir()
    own.chmod(0o755)
    assert "others may use it" in (told(own) or "")


def test_a_program_of_another_user_takes_its_own_folder(memory: Path) -> None:
    """Under `sudo -E` the superuser once made the folder of the user, who could not count any more."""
    theirs = memory / f"weir-{os.geteuid() + 1}"
    assert chosen(WEIR_WINDOWS=str(theirs)) == memory / f"weir-{os.geteuid()}" and not theirs.exists()


@pytest.mark.parametrize("owner", [0, SQUATTER])
def test_a_program_runs_and_is_counted_where_another_user_has_taken_its_name(
    root_only: None, store: Store, squatted: Path, owner: int
) -> None:
    os.chown(squatted, owner, owner)
    file = store.root / "cluster.toml"
    file.write_text(cluster(servers=1))
    store.up(file, mount=False)
    granted = store.grant(VICTIM, "--job", "victim")
    command = ("dd", "if=/dev/zero", "of=/weir/file", "bs=5000", "count=3")
    answer = store.weir("run", "--prefix", "/weir", "--", *command, uid=VICTIM, environment=granted)
    assert f"{squatted} is not used for windows, because it belongs to another user" in answer.stderr
    assert not list(squatted.iterdir())
    (folder,) = SHARED_MEMORY.glob(f"{squatted.name}.*")
    (windows,) = folder.iterdir()
    assert windows.stat().st_uid == VICTIM and stat.S_IMODE(windows.stat().st_mode) == 0o600
    document = json.loads((store.home / "cluster.json").read_text())
    wait_until("the superuser reads the window", lambda: written(client_windows.look(document, 0).lines) == 15_000)
    shown = store.weir("interference", "clients", "--output", "json", uid=VICTIM, environment=granted)
    assert sum(line["written_bytes"] for line in json.loads(shown.stdout)["lines"]) == 15_000


def written(lines: tuple[client_windows.ClientLine, ...]) -> int:
    return sum(line.written_bytes for line in lines if line.uid == VICTIM)


@pytest.fixture
def squatted() -> Iterator[Path]:
    """The usual folder of the victim, made by another user."""
    usual = SHARED_MEMORY / f"weir-{VICTIM}"

    def remove() -> None:
        for folder in SHARED_MEMORY.glob(f"{usual.name}*"):
            shutil.rmtree(folder)

    # A run that was killed left its folders.
    remove()
    usual.mkdir(mode=0o700)
    yield usual
    remove()
