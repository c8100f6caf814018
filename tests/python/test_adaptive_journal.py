"""The journals of readers of adaptive streams: what they note, their bounds, and that they harm no step."""

import json
import os
import stat
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy
import pytest
from store import Store
from weir import adaptive
from weir.adaptive import journal
from weir.adaptive.errors import AdaptiveWarning
from weir.store import line_journal
from weir.store.line_journal import LineJournal
from weir.store.step_journal import JOURNAL, StepEntry, TierEntry

NAME = "WEIR_ADAPTIVE_JOURNAL"
AGES = 1e11
"""A time that lies behind all steps."""
ENTRY = StepEntry(
    at=1000.0,
    job="run.sh-7",
    user="ada",
    host="node",
    pid=7,
    stream="/local/run",
    step=3,
    rmse=1e-4,
    max_error=1e-3,
    read_bytes=600,
    whole_bytes=1000,
    augmentation=0.5,
    seconds=0.2,
    waited_seconds=0.1,
    deadline_seconds=None,
    is_late=False,
    tiers=(TierEntry("/scratch/run", 1e8, 8e7, 2e8, 9e7),),
)


@pytest.fixture
def tiers(tmp_path: Path) -> list[str]:
    """A stream of five steps."""
    folders = [str(tmp_path / "fast"), str(tmp_path / "shared")]
    field = numpy.random.default_rng(5).normal(size=(40, 50, 60)).astype("f4")
    adaptive.write(folders, [field + step for step in range(5)], exact=True)
    return folders


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of journals that the environment names."""
    chosen = tmp_path / "journals"
    monkeypatch.setenv(NAME, str(chosen))
    monkeypatch.delenv("WEIR_CREDENTIAL", raising=False)
    return chosen


def test_each_step_is_noted_with_its_accuracy_and_its_forecasts(tiers: list[str], folder: Path) -> None:
    begun = time.time()
    steps = list(adaptive.open(tiers, policy=adaptive.Budget(seconds=60.0), warm_up_steps=2, deadline_seconds=600.0))
    entries = JOURNAL.read(folder, begun, time.time())
    assert [(each.step, each.max_error, each.read_bytes, each.is_late) for each in entries] == [
        (each.number, each.max_error, each.bytes_read, each.late) for each in steps
    ]
    assert {(each.stream, each.job, each.pid, each.deadline_seconds) for each in entries} == {
        (tiers[0], "", os.getpid(), 600.0)
    }
    assert all(0 < each.read_bytes <= each.whole_bytes for each in entries)
    shared = [each.tiers[1] for each in entries]
    assert [each.bandwidth for each in shared] == [each.tiers[1].bandwidth for each in steps]
    assert shared[0].forecast is None, "nothing was known"
    for each in shared[1:]:
        assert each.low is not None
        assert each.forecast is not None
        assert each.high is not None
        assert 0 <= each.low <= each.forecast <= each.high
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_noted_unless_a_folder_is_named(
    tiers: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("off", ""):
        monkeypatch.setenv(NAME, value)
        assert len(list(adaptive.open(tiers))) == 5
    assert not folder.exists()
    assert JOURNAL.read(folder, 0, AGES) == []


def test_journals_are_bounded_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_journal, "BYTES_MAX", 4096)
    monkeypatch.setattr(line_journal, "FILES_MAX", 4)
    folder = tmp_path / "journals"
    for number in range(50):
        JOURNAL.add(folder, replace(ENTRY, step=number))
    sizes = [path.stat().st_size for path in folder.iterdir()]
    assert len(sizes) <= 2
    assert max(sizes) < 4096 + 1024
    found = [each.step for each in JOURNAL.read(folder, 0, AGES)]
    assert found == list(range(found[0], 50)), "the last ones, without a gap"
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    for pid in range(10, 30):
        JOURNAL.add(folder, replace(ENTRY, pid=pid))
        # The clock of a file system may not tell two files apart.
        os.utime(folder / f"node-{pid}.steps", (pid, pid))
    assert sorted(path.name for path in folder.iterdir()) == [f"node-{pid}.steps" for pid in range(26, 30)]
    assert len(JOURNAL.read(folder, 0, AGES)) == 4
    monkeypatch.setattr(line_journal, "ENTRIES_MAX", 3)
    assert len(JOURNAL.read(folder, 0, AGES)) == 3


def test_what_is_no_entry_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "journals"
    JOURNAL.add(folder, ENTRY)
    sound = asdict(ENTRY)
    hostile = [
        {**sound, "at": "now"},
        {**sound, "max_error": float("inf")},
        {**sound, "rmse": 10**400},
        {**sound, "read_bytes": -1},
        {**sound, "step": 1 << 64},
        {**sound, "job": None},
        {**sound, "stream": "x" * 10_000},
        {**sound, "tiers": [{"name": "a"}]},
        {**sound, "tiers": sound["tiers"] * 1000},
        {key: value for key, value in sound.items() if key != "pid"},
        [sound],
    ]
    lines = [json.dumps(each).encode() for each in hostile]
    lines += [b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b'{"at":1e400}', b"{", b"", json.dumps(sound).encode()[:-9]]
    with (folder / "node-7.steps").open("ab") as file:
        file.write(b"\n".join([*lines, json.dumps({**sound, "step": 4}).encode(), b""]))
    os.mkfifo(folder / "pipe.steps")
    (folder / "folder.steps").mkdir()
    (folder / "link.steps").symlink_to(folder / "node-7.steps")
    assert [each.step for each in JOURNAL.read(folder, 0, AGES)] == [3, 4]
    assert JOURNAL.read(folder, 0, 1000) == []
    assert JOURNAL.read(folder, 1001, AGES) == []


def test_a_folder_that_cannot_be_written_harms_no_step(
    tiers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path / "fast" / "stream.json", tmp_path / "gone" / "journals"):
        monkeypatch.setenv(NAME, str(place))
        with pytest.warns(AdaptiveWarning, match="steps are not noted") as told:
            assert [each.number for each in adaptive.open(tiers)] == [0, 1, 2, 3, 4]
        assert len(told) == 1
        assert told[0].filename == __file__
    assert not (tmp_path / "gone").exists()


def test_a_folder_that_hangs_is_waited_for_once(
    tiers: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), []

    def hang(own: LineJournal[StepEntry], place: Path, entry: StepEntry) -> None:
        asked.append(entry.step)
        answers.wait()

    monkeypatch.setattr(LineJournal, "add", hang)
    monkeypatch.setattr(journal, "WAIT_SECONDS_MAX", 0.05)
    try:
        with pytest.warns(AdaptiveWarning, match="it does not answer"):
            assert len(list(adaptive.open(tiers))) == 5
        assert asked == [0]
    finally:
        answers.set()


def test_names_of_tiers_have_no_secrets() -> None:
    assert journal.shown("s3://key:secret@bucket/run@2?token=1") == "s3://bucket/run@2"
    assert journal.shown("/scratch/a?b@c") == "/scratch/a?b@c"
    assert journal.shown("/" + "x" * 999) == "x" * 256


def test_programs_of_the_stores_owner_note_their_steps(store: Store, tiers: list[str], tmp_path: Path) -> None:
    store.up(mount=False)
    program = (
        "import os, sys\nfrom weir import adaptive\nsteps = [step.number for step in adaptive.open(sys.argv[1])]\n"
        f"print(os.environ[{NAME!r}], steps)"
    )
    command = (sys.executable, "-c", program, tiers[0])
    own = store.home / "adaptive"
    run = ("run", "--prefix", "/weir", "--job", "reads", "--user", "eve", "--", *command)
    assert store.weir(*run).stdout.split()[0] == str(own)
    entries = JOURNAL.read(own, 0, AGES)
    assert [each.step for each in entries] == [0, 1, 2, 3, 4]
    assert {(each.job, each.user) for each in entries} == {("reads", "eve")}
    elsewhere = tmp_path / "elsewhere"
    store.weir(*run, environment={NAME: str(elsewhere)})
    assert len(JOURNAL.read(elsewhere, 0, AGES)) == 5
    assert len(JOURNAL.read(own, 0, AGES)) == 5
