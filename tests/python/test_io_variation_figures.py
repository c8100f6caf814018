"""Figures 9 and 10 of the paper on I/O variation: forecasts from a window, and blobs by accuracy."""

import json
import math
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner
from weir import cli
from weir.experiments import blobs, viability


def test_the_second_half_of_a_periodic_series_is_foretold_from_the_first() -> None:
    def bandwidth(step: int) -> float:
        angle = 2 * math.pi * step / 48
        return 50e6 + 20e6 * math.cos(4 * angle) + 10e6 * math.cos(9 * angle)

    series = [bandwidth(step) for step in range(96)]
    found = viability.Foretold("run", tuple(series), viability.foretell(series, (0.25, 0.75)))
    assert found.errors["DFT, threshold 25 %"] < 1e-9
    assert 0.01 < found.errors["DFT, threshold 75 %"] < found.errors["mean"]
    assert all(len(forecasts) == 48 for forecasts in found.forecasts.values())


def test_bandwidths_are_measured_beside_noise_on_a_store_and_drawn(tmp_path: Path) -> None:
    words = ["bench", "io-variation-figure-9", "--runs", "1", "--steps", "8", "--threshold", "0.5"]
    answer = CliRunner().invoke(cli.weir, [*words, "--out", str(tmp_path), "--output", "json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    (run,) = json.loads(answer.stdout)["runs"]
    assert len(run["bandwidths"]) == 16
    assert min(run["bandwidths"]) > 0 and max(run["bandwidths"]) < 120e6, "the target moves 60 MB/s"
    assert run["errors"].keys() == run["forecasts"].keys() == {"DFT, threshold 50 %", "online", "mean"}
    assert (tmp_path / "io-variation-figure-9.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "io-variation-figure-9.json").read_text())["runs"] == [run]


def test_blobs_are_those_of_the_original_once_everything_is_read() -> None:
    field = blobs.potential(256, 3)
    found = blobs.measure(field, blobs.THRESHOLD, (0.0, 0.05, 1.0))
    for codec in blobs.CODECS:
        nothing, some, everything = (each for each in found if each.codec == codec)
        assert (everything.blobs, everything.overlap, everything.f1) == (everything.blobs_true, 1.0, 1.0)
        assert nothing.overlap <= some.overlap <= 1.0
        assert nothing.bytes_part < some.bytes_part < everything.bytes_part
    finer = blobs.measure(field.repeat(2, axis=0).repeat(2, axis=1), blobs.THRESHOLD, (1.0,))
    assert finer[0].blobs_true >= found[0].blobs_true, "a finer grid loses no blob"
    with pytest.raises(ValueError, match="no blob is above"):
        blobs.measure(field, 100.0)
    with pytest.raises(ValueError, match="two dimensions"):
        blobs.measure(field.ravel(), 0.4)


def test_the_blobs_of_an_own_field_are_shown(tmp_path: Path) -> None:
    numpy.save(tmp_path / "field.npy", blobs.potential(128, 5))
    runner, words = CliRunner(), ["bench", "io-variation-figure-10", "--out", str(tmp_path)]
    own = [*words, "--field", str(tmp_path / "field.npy")]
    answer = runner.invoke(cli.weir, [*own, "--threshold", "0.4", "--output", "json"], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    outcomes = json.loads(answer.stdout)["outcomes"]
    assert {(each["codec"], each["degree"]) for each in outcomes} == {
        (codec, degree) for codec in blobs.CODECS for degree in blobs.DEGREES
    }
    assert (tmp_path / "io-variation-figure-10.png").stat().st_size > 10_000
    assert runner.invoke(cli.weir, own).exit_code == 2, "a field without a threshold"
