"""Windows of simulated runs: beside those of real ones, and as additional training data."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import windows as synthetic
from click.testing import CliRunner
from weir import cli
from weir.interference import agreement, collection, estimators, evaluation, plan
from weir.interference import windows as files
from weir.interference.errors import InterferenceError
from weir.interference.estimators import Prepared
from weir.interference.evaluation import OWN_ADDITIONAL, STRANGERS, evaluate
from weir.interference.splits import SPLITS
from weir.interference.windows import CLIENT, Windows

REAL = Path(__file__).parents[1] / "data/interference/windows.parquet"
CAMPAIGN = Path(__file__).parents[2] / "benchmarks/interference"
KERNELS = ("ior-easy-write", "ior-hard-read", "mdtest-hard-write", "amrex", "dlio-bert")
"""The programs of the windows that are kept."""
INSTANCES = {
    "bulk-writers": ("ior-easy-write", 3),
    "bulk-readers": ("ior-easy-read", 4),
    "small-files": ("mdtest-hard-write", 5),
}


def write_plan(folder: Path, targets: tuple[str, ...] = KERNELS, seconds: float = 4) -> Path:
    """A part of the campaign whose real windows are kept."""
    (folder / "store.toml").write_text((CAMPAIGN / "store.toml").read_text())
    lines = ["version = 1", 'store = "store.toml"']
    for name in targets:
        lines += ["[[target]]", f'name = "{name}"', f'kernel = "{name}"', "rounds = 1000", f"seconds = {seconds}"]
    for name, (kernel, instances) in INSTANCES.items():
        lines += ["[[interferer]]", f'name = "{name}"', f'kernel = "{kernel}"', f"instances = [{instances}]"]
    path = folder / "plan.toml"
    path.write_text("\n".join(lines))
    return path


def collected(folder: Path, seed: int = 0, **options: Any) -> tuple[list[collection.Run], Path]:
    folder.mkdir()
    loaded = plan.simulated(plan.read(write_plan(folder, **options)), seed)
    return collection.collect(loaded, folder / "data", lambda _: None), folder / "data"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[collection.Run], Path]:
    return collected(tmp_path_factory.mktemp("simulated") / "one")


def means(windows: Windows, run: str) -> tuple[np.ndarray, float, float]:
    """The mean counts, I/O time and label of a run's windows. The first and the last are not whole, and left out."""
    chosen = np.flatnonzero(windows.runs == run)
    of_run = windows.take(chosen[np.argsort(windows.numbers[chosen])][1:-1])
    return of_run.client.sum(1).mean(0), float(of_run.io_seconds.mean()), float(of_run.slowdowns.mean())


@pytest.mark.parametrize("kernel", KERNELS)
def test_simulated_windows_count_what_real_ones_count(
    kernel: str, simulated: tuple[list[collection.Run], Path]
) -> None:
    real, made = files.read([REAL]), files.read([simulated[1] / "windows"])
    counts, io_seconds, label = means(made, f"{kernel}.quiet.0")
    real_counts, real_seconds, real_label = means(real, f"{kernel}.quiet.0")
    # The real run wrote the kernel's files in its first window.
    has_some = real_counts > 0.2
    assert np.allclose(counts[has_some], real_counts[has_some], rtol=0.15), dict(zip(CLIENT, counts, strict=True))
    assert io_seconds == pytest.approx(real_seconds, rel=0.1)
    assert label == pytest.approx(1.0, abs=0.02) and real_label == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("kernel", ["ior-easy-write", "amrex", "mdtest-hard-write"])
def test_simulated_programs_are_slowed_about_as_real_ones(
    kernel: str, simulated: tuple[list[collection.Run], Path]
) -> None:
    real, made = files.read([REAL]), files.read([simulated[1] / "windows"])
    run = f"{kernel}.bulk-writers.3.0"
    assert means(made, run)[2] == pytest.approx(means(real, run)[2], rel=0.25)


def test_a_label_is_the_truth_of_the_simulated_store(simulated: tuple[list[collection.Run], Path]) -> None:
    quality = collection.quality(*simulated)
    found = quality.truth
    assert found is not None and found.correlation is not None
    assert found.correlation > 0.95 and found.same_class() > 0.9
    assert agreement.quiet_part(quality.quiet) == 1.0
    assert {run.target for run in simulated[0]} == set(KERNELS)
    slowed = [run for run in simulated[0] if run.interferer == "small-files" and run.target.startswith("mdtest")]
    assert slowed[0].slowdown is not None and slowed[0].slowdown > 2
    with (simulated[1] / "runs/amrex.bulk-writers.3.0/labels.csv").open(newline="") as text:
        waits = [json.loads(row["waited_for"]) for row in csv.DictReader(text)]
    assert {name for each in waits for name in each} == {f"bulk-writers-{number}" for number in range(3)}


def test_one_seed_has_one_data_set(tmp_path: Path) -> None:
    made = {}
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        _, folder = collected(tmp_path / name, seed, targets=("amrex",), seconds=2)
        made[name] = files.read([folder / "windows"])
        assert f"--simulated --seed {seed}" in (folder / "README.md").read_text()
    for field in Windows.__dataclass_fields__:
        one, again = getattr(made["one"], field), getattr(made["again"], field)
        assert np.array_equal(one, again, equal_nan=field in ("slowdowns", "times")), field
    assert not np.array_equal(made["one"].io_seconds, made["other"].io_seconds)


def test_a_target_without_a_time_is_simulated_to_its_end(tmp_path: Path) -> None:
    path = write_plan(tmp_path, targets=("enzo",))
    path.write_text(path.read_text().replace("rounds = 1000\nseconds = 4", "rounds = 3"))
    loaded = plan.simulated(plan.read(path), 0)
    collection.collect(loaded, tmp_path / "data", lambda _: None)
    written = files.read([tmp_path / "data/windows"])
    for run in ("enzo.quiet.0", "enzo.bulk-writers.3.0"):
        removed = written.client[written.runs == run][:, :, CLIENT.index("written_bytes")].sum()
        assert removed == 3 * 4 * 192 * 1024, run


def test_a_plan_that_cannot_be_simulated_is_refused(tmp_path: Path) -> None:
    path = write_plan(tmp_path, targets=("amrex",))
    text = path.read_text()
    path.write_text(text.replace('kernel = "ior-easy-read"', 'command = ["dd"]'))
    error = refusal(path, "--simulated", tmp_path / "a")
    assert isinstance(error, InterferenceError) and "bulk-readers is a command" in error.message and error.hint
    path.write_text(text)
    target = '[[server.target]]\nbackend = "ram"\ncapacity = "1GiB"\n'
    (tmp_path / "store.toml").write_text(f"version = 1\n[[server]]\n{target}")
    error = refusal(path, "--simulated", tmp_path / "b")
    assert isinstance(error, InterferenceError) and "the target has no speed" in error.message
    assert "--from-store" not in error.hint and "a speed" in error.hint
    (tmp_path / "store.toml").write_text((CAMPAIGN / "store.toml").read_text().replace("512MiB", "4MiB"))
    error = refusal(path, "--simulated", tmp_path / "d")
    assert isinstance(error, InterferenceError) and "amrex.alone" in error.message and "larger targets" in error.hint
    answer = CliRunner().invoke(
        cli.weir, ["interference", "collect", str(path), "--seed", "1", "--to", str(tmp_path / "c")]
    )
    assert answer.exit_code == 2 and "--seed needs --simulated" in answer.stderr


def refusal(path: Path, option: str, folder: Path) -> BaseException | None:
    """The error of a collection."""
    return CliRunner().invoke(cli.weir, ["interference", "collect", str(path), option, "--to", str(folder)]).exception


def test_simulated_windows_are_marked_and_mixed_with_no_others(tmp_path: Path) -> None:
    made = synthetic.made(2)
    files.write(made, tmp_path / "simulated.parquet", is_simulated=True)
    files.write(made, tmp_path / "real.parquet")
    assert files.is_simulated(tmp_path / "simulated.parquet") and not files.is_simulated(tmp_path / "real.parquet")
    assert not files.is_simulated(REAL)
    with pytest.raises(InterferenceError, match="some of the windows are simulated"):
        files.read([tmp_path])
    assert len(files.read([tmp_path / "simulated.parquet"])) == len(made)


def renamed(windows: Windows) -> Windows:
    """The same windows in runs that no other windows have."""
    parts = {name: getattr(windows, name) for name in Windows.__dataclass_fields__}
    return Windows(**{**parts, "runs": np.char.add("more.", windows.runs)})


def test_additional_windows_are_for_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[tuple[set[str], bool]] = []
    tests: list[set[str]] = []

    class Recorder:
        def fit(self, data: Prepared, classes: np.ndarray, count: int) -> None:
            is_more = np.char.startswith(data.windows.runs, "more.")
            fits.append((set(data.windows.workloads[is_more].tolist()), bool(is_more.any())))

        def probabilities(self, data: Prepared) -> np.ndarray:
            assert not np.char.startswith(data.windows.runs, "more.").any()
            tests.append(set(data.windows.workloads.tolist()))
            return np.eye(2)[np.zeros(len(data.windows), int)]

    def makers(_bins: object) -> dict[str, type[Recorder]]:
        return {"recorder": Recorder}

    for module in (estimators, evaluation):
        monkeypatch.setattr(module, "estimators", makers)
    windows = synthetic.made(3)
    found = evaluate(windows, (2.0,), (), renamed(windows))
    workloads = set(windows.workloads.tolist())
    assert found.additional_windows == len(windows.labelled())
    assert [score.split for score in found.with_additional] == [
        *(score.split for score in found.scores),
        OWN_ADDITIONAL,
    ]
    assert STRANGERS in {score.split for score in found.scores}
    # Workloads are kept aside last, each: without, with windows of others, with its own.
    kept_aside = list(zip(fits, tests, strict=True))[-3 * len(workloads) :]
    assert list(SPLITS)[-1] == STRANGERS and [len(tested) for _, tested in kept_aside] == [1] * len(kept_aside)
    for place in range(0, len(kept_aside), 3):
        (alone, tested), (others, _), (own, _) = kept_aside[place : place + 3]
        assert alone == (set(), False)
        assert others == (workloads - tested, True)
        assert own == (workloads, True)


def test_the_command_tells_f1_with_and_without(tmp_path: Path, simulated: tuple[list[collection.Run], Path]) -> None:
    words = ["interference", "evaluate", str(REAL), "--additional", str(simulated[1] / "windows")]
    words += ["--estimator", "above quiet", "--estimator", "majority"]
    answer = CliRunner().invoke(cli.weir, words)
    assert answer.exit_code == 0, answer.output
    heading, *rows = answer.stdout.splitlines()
    assert "F1 WITH" in heading and "OVERALL WITH" in heading
    assert [row.split("  ")[0] for row in rows if "above quiet" in row][-1] == OWN_ADDITIONAL
    document = json.loads(CliRunner().invoke(cli.weir, [*words, "--output", "json"]).stdout)
    assert document["windows"] == 1025 and document["additional_windows"] > 300
    assert len(document["with_additional"]) == len(document["scores"]) + 2
