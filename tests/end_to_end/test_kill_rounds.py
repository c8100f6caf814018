"""The rounds of kills of `make bench-trust`, in short, and the model that looks for lost bytes."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from store import Store
from waits import PATIENCE_SECONDS, wait_until

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ROUNDS = 3
SEED = 20_000
STEPS = 300


@pytest.fixture(scope="module")
def model() -> Iterator[ModuleType]:
    """The module `_kill_model`, which is no package's."""
    spec = importlib.util.spec_from_file_location("_kill_model", BENCHMARKS / "_kill_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_nothing_is_lost_by_kills(fuse: None, store: Store) -> None:
    """Servers, the mount and clients are killed under load; the environment is that of no other store."""
    answer = subprocess.run(
        [sys.executable, BENCHMARKS / "_kills.py", "--rounds", str(ROUNDS)],
        env=store.variables(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, f"{answer.stdout}{answer.stderr}"
    figures = json.loads(answer.stdout.splitlines()[-1])
    assert figures["kill_rounds"] == ROUNDS
    assert figures["kill_operations"] > 0
    assert (figures["kill_lost_bytes"], figures["kill_doubled_records"]) == (0, 0), answer.stdout


def test_no_step_is_done_where_nothing_is_mounted(tmp_path: Path) -> None:
    """A bare mount point has none of the names: that is no answer of the store."""
    ledger = tmp_path / "ledger"
    words = ["--client", 0, "--seed", SEED, "--first", 0, "--root", tmp_path / "bare", "--ledger", ledger]
    streams = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, BENCHMARKS / "_kills.py", *map(str, words)], stdin=streams, stdout=streams, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        worker.stdin.write("go\n")
        worker.stdin.flush()
        wait_until("a step has ended", lambda: ledger.read_bytes().count(b"\n") > 1)
        worker.stdin.close()
        assert worker.wait(PATIENCE_SECONDS) == 0
    assert [json.loads(line)["says"] for line in ledger.read_text().splitlines()] == ["begin", "ENOENT"]


def files_after(model: ModuleType, steps: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for number in range(steps):
        files = model.apply(files, model.Step.draw(SEED, number), SEED)
    return files


def test_the_model_finds_every_kind_of_loss(model: ModuleType) -> None:
    """A byte that became zero, a cut file, a name that is gone, and one that came back."""
    files = files_after(model, STEPS)
    assert model.lost_bytes(files, dict(files), None, SEED) == 0
    name, data = max(files.items(), key=lambda item: len(item[1]))
    place = next(index for index, byte in enumerate(data) if byte)
    zeroed = data[:place] + b"\0" + data[place + 1 :]
    assert model.lost_bytes(files, {**files, name: zeroed}, None, SEED) == 1
    assert model.lost_bytes(files, {**files, name: data[:-7]}, None, SEED) == 7
    assert model.lost_bytes(files, {key: files[key] for key in files if key != name}, None, SEED) == len(data)
    assert model.lost_bytes(files, {**files, "sub/again": b"12345"}, None, SEED) == 5


def test_a_step_in_doubt_may_have_happened_or_not(model: ModuleType) -> None:
    """Either state is right, and for a write each byte of either; what the step does not touch must be as before."""
    checked = set()
    for number in range(20, STEPS):
        step = model.Step.draw(SEED, number)
        before = files_after(model, number)
        after = model.apply(before, step, SEED)
        if before == after:
            continue
        checked.add(step.verb)
        assert model.lost_bytes(before, before, step, SEED) == 0
        assert model.lost_bytes(before, after, step, SEED) == 0
        assert model.lost_bytes(before, after, None, SEED) > 0, step
        if step.verb == "write" and len(before.get(step.name, b"")) > step.offset + step.length:
            middle = step.offset + step.length // 2
            torn = after[step.name][:middle] + before[step.name][middle:]
            assert model.lost_bytes(before, {**after, step.name: torn}, step, SEED) == 0
            wrong = torn[: step.offset - 1] + b"\0" + torn[step.offset :] if step.offset else torn
            if before[step.name][step.offset - 1]:
                assert model.lost_bytes(before, {**after, step.name: wrong}, step, SEED) == 1
        if len(checked) == 6:
            break
    assert {"write", "append", "truncate", "replace", "rename", "unlink"} <= checked


def test_records_are_missed_and_counted_twice(model: ModuleType) -> None:
    client = model.Client(7, SEED, records={3, 4}, doubtful_records={5})
    three, four, five, six = (model.Step.draw(SEED, number).record(7) for number in (3, 4, 5, 6))
    assert model.judge_records(three + four, [client]) == (0, 0)
    assert model.judge_records(four + five + three, [client]) == (0, 0)
    assert model.judge_records(three + five, [client]) == (100, 0)
    assert model.judge_records(three + four + three, [client]) == (0, 1)
    assert model.judge_records(three + four + six, [client]) == (0, 1)
