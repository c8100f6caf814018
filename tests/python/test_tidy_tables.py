"""`weir bench --export`: a row for each figure, with its parameters and its origin, as CSV and as Parquet."""

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from waits import PATIENCE_SECONDS
from weir import cli
from weir.experiments import figures, provenance, records, tidy, viability
from weir.experiments.convergence import Convergence
from weir.experiments.jobs import Job
from weir.experiments.windows import Summary
from weir.simulation.scaling_study import study

ORIGIN = ["machine", "version", "commit", "seed", "date"]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_an_experiment_writes_its_figures(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    table = tmp_path / "blobs.csv"
    words = ["bench", "io-variation-figure-10", "--side", "64", "--seed", "7", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(cli.weir, [*words, "--export", str(table)])
    assert told.exit_code == 0, told.output
    found = rows(table)
    assert f"exported: {len(found)} figures to {table}" in told.output
    assert list(found[0]) == ["experiment", "codec", "degree", "threshold", "figure", "value", "unit", *ORIGIN]
    assert {row["experiment"] for row in found} == {"io-variation-figure-10"}
    assert {row["seed"] for row in found} == {"7"}
    document = json.loads((tmp_path / "out/io-variation-figure-10.json").read_text())
    for outcome in document["outcomes"]:
        of_outcome = {
            row["figure"]: float(row["value"])
            for row in found
            if (row["codec"], float(row["degree"])) == (outcome["codec"], outcome["degree"])
        }
        known = {
            name: value for name, value in outcome.items() if name not in ("codec", "degree") and value is not None
        }
        assert of_outcome == known, "each figure of the document is a row, and no other is"


def test_parquet_has_the_same_rows_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = [
        tidy.Observation({"job": "=a", "nodes": 4}, "share_device", 0.5, "1"),
        tidy.Observation({"policy": "fifo"}, "busy_ratio", 1.0, "1"),
    ]
    for name in ("t.csv", "t.parquet"):
        tidy.write(tmp_path / name, "figure-8", found)
    table = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [row["value"] for row in table] == [0.5, 1.0]
    assert table[0]["nodes"] == 4 and table[1]["nodes"] is None and table[0]["seed"] is None
    assert [list(row) for row in table] == [list(row) for row in rows(tmp_path / "t.csv")]
    assert table[0]["job"] == "=a" and rows(tmp_path / "t.csv")[0]["job"] == "'=a", "no spreadsheet computes a name"


def test_every_figure_of_a_run_and_of_its_jobs_is_listed() -> None:
    summary = Summary("a", 1, 2.0, 9.0, 7, 1e6, 1.1e6, None, 0.8, 0.79, 0.78, 0.01, 0.02, 7)
    run = figures.Panel(
        "size-fair", "size-fair", None, jobs=[Job("a", 1, 9.0, nodes=4)], summaries=[summary], busy_ratio=0.9
    )
    run.convergence = Convergence(50, 0.1, 0.02, 2, None)
    refused = figures.Panel("odd", "odd-fair", None, refused="unknown policy")
    found = list(records.observations(figures.Figure("figure-8", "Sharing", figures.Options(9.0), [run, refused])))
    values = {(each.parameters["run"], each.figure): each for each in found}
    median = values["size-fair", "bytes_per_second_median"]
    assert (median.value, median.unit, median.parameters["job"], median.parameters["nodes"]) == (1e6, "B/s", "a", 4)
    assert ("size-fair", "bytes_per_second_deviation") not in values, "what is not known is no figure"
    assert values["size-fair", "busy_ratio"].value == 0.9
    assert values["size-fair", "exchanges"].parameters["lambda_milliseconds"] == 50
    assert {each.figure for each in found if each.parameters["run"] == "odd"} == {"request_seconds"}


def test_the_other_experiments_list_their_figures() -> None:
    alone = study(seconds=1.0, speed=8e6, real=(), servers=(1, 2), say=lambda _: None)
    found = list(alone.observations())
    assert len(found) == 3 * sum(len(curve.points) for curve in alone.curves)
    first = next(each for each in found if each.figure == "efficiency" and each.parameters["servers"] == 2)
    assert first.value == alone.curves[0].efficiency(alone.curves[0].points[1])
    run = viability.Foretold("run 1", (1e6, 2e6, 2e6, 4e6), {"mean": (1e6, 1e6)})
    mean, error = viability.observations([run], steps=2, speed_megabytes=60.0)
    assert (mean.figure, mean.value, mean.unit) == ("bandwidth_mean", 2.25e6, "B/s")
    assert error.value == pytest.approx((0.5 + 0.75) / 2)


@pytest.mark.parametrize(("name", "words"), [("x.txt", "ends in .csv or .parquet"), ("no/x.csv", "there is no folder")])
def test_a_table_that_cannot_be_written_is_refused_before_the_experiment(name: str, words: str, tmp_path: Path) -> None:
    told = CliRunner().invoke(cli.weir, ["bench", "figure-8", "--export", str(tmp_path / name)])
    assert told.exit_code == 2
    assert words in told.output
    assert list(tmp_path.iterdir()) == []


def git(folder: Path, *words: str) -> Any:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", *identity, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


def test_the_commit_is_that_of_weirs_sources_alone(tmp_path: Path) -> None:
    """An environment of another project lies in that project's checkout."""
    for name, project in (("weir", "weir-hpc"), ("other", "other")):
        folder = tmp_path / name
        (folder / ".venv/lib/weir").mkdir(parents=True)
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{project}"\n')
        git(folder, "init", "-q")
        git(folder, "add", "pyproject.toml")
        git(folder, "commit", "-q", "-m", "first")
    wanted = git(tmp_path / "weir", "rev-parse", "HEAD").stdout.strip()
    found = provenance.commit(tmp_path / "weir/.venv/lib/weir")
    assert found and wanted.startswith(found)
    (tmp_path / "weir/pyproject.toml").write_text('[project]\nname = "weir-hpc"\n# changed\n')
    assert provenance.commit(tmp_path / "weir/.venv/lib/weir") == f"{found}-dirty"
    other = git(tmp_path / "other", "rev-parse", "HEAD").stdout.strip()
    told = provenance.commit(tmp_path / "other/.venv/lib/weir")
    assert not told or not other.startswith(told)
    assert "cores of" in provenance.machine()
