"""The analyses of examples/adaptive on fields whose answer is known, on real ones, and on generated ones."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from adaptive import blobs, generated, meshes, pressure, quality, rendering
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from waits import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ROOT / "tests/data/fields"


def disks(*disks: tuple[float, float, float], size: int = 96) -> NDArray[np.float64]:
    """1 inside disks of (row, column, radius), 0 outside."""
    y, x = np.mgrid[:size, :size]
    inside = [np.hypot(y - row, x - column) <= radius for row, column, radius in disks]
    field: NDArray[np.float64] = np.any(inside, axis=0).astype(np.float64)
    return field


def test_psnr_is_that_of_its_definition() -> None:
    truth = np.linspace(0, 10, 101)
    assert quality.psnr(truth, truth + 0.1) == pytest.approx(40)
    assert quality.psnr(truth, truth) == math.inf
    with pytest.raises(ValueError, match=r"shape \(100,\)"):
        quality.psnr(truth, truth[:-1])


def test_blobs_have_the_areas_of_disks() -> None:
    found = blobs.detect(disks((20, 20, 8), (60, 70, 12)), threshold=0.5, pixel_length=0.5)
    assert found.count == 2
    assert found.area == pytest.approx(math.pi * (4**2 + 6**2), rel=0.03)
    assert found.diameter_mean == pytest.approx(10, rel=0.03)


def test_specks_and_missing_values_are_no_blobs() -> None:
    field = disks((20, 20, 8), (60, 70, 1))
    field[:5] = math.nan
    assert blobs.detect(field, threshold=0.5).count == 1


def test_blobs_compared_with_themselves_agree() -> None:
    found = blobs.detect(disks((20, 20, 8), (60, 70, 12)), threshold=0.5)
    assert blobs.compare(found, found) == blobs.Comparison(0, 0, 0, 1, 1)
    none = blobs.detect(np.zeros((96, 96)), threshold=0.5)
    assert blobs.compare(none, none) == blobs.Comparison(0, 0, 0, 1, 1)
    assert blobs.compare(found, none).f1 == 0
    with pytest.raises(ValueError, match=r"shape \(96, 95\)"):
        blobs.compare(found, blobs.detect(np.zeros((96, 95)), threshold=0.5))


def test_a_missed_and_an_invented_blob_lower_f1() -> None:
    truth = blobs.detect(disks((20, 20, 8), (60, 70, 12)), threshold=0.5)
    found = blobs.detect(disks((20, 21, 8), (80, 20, 9)), threshold=0.5)
    comparison = blobs.compare(truth, found)
    assert comparison.f1 == pytest.approx(0.5)
    assert comparison.count_error == 0
    assert 0.2 < comparison.overlap < 0.35


def test_blobs_that_grew_together_are_not_the_same() -> None:
    truth = blobs.detect(disks((30, 30, 8), (30, 50, 8)), threshold=0.5)
    found = blobs.detect(disks((30, 30, 11), (30, 50, 11)), threshold=0.5)
    assert found.count == 1
    comparison = blobs.compare(truth, found)
    assert comparison.f1 == 0
    assert comparison.overlap == 1


def test_pictures_alike_and_not() -> None:
    truth = disks((20, 20, 8), (60, 70, 12)) + np.random.default_rng(1).normal(0, 0.01, (96, 96))
    same = rendering.compare(truth, truth)
    assert same == rendering.Comparison(1, 1)
    noisy = rendering.compare(truth, truth + np.random.default_rng(2).normal(0, 0.2, truth.shape))
    moved = rendering.compare(truth, np.roll(truth, 40, axis=0))
    assert noisy.ssim < 0.9
    assert noisy.dice > 0.9
    assert moved.dice < 0.2


def test_a_picture_is_the_middle_of_a_volume() -> None:
    volume = np.arange(5 * 4 * 3).reshape(5, 4, 3)
    assert (rendering.plane(volume) == volume[2]).all()
    assert rendering.render(np.array([[-1, 0, 0.5, 2, math.nan]]), low=0, high=1).tolist() == [[0, 0, 128, 255, 0]]


@given(threshold=st.floats(-0.2, 2.2), cells=st.integers(1, 9))
def test_the_area_above_a_threshold_is_exact_on_a_plane(threshold: float, cells: int) -> None:
    """The pressure x + y over the unit square: the area and the integral are known."""
    mesh = meshes.grid((cells + 1, cells + 1), spacing=1 / cells)
    found = pressure.high_pressure(mesh, mesh.nodes.sum(axis=1), threshold=threshold)
    t = min(max(threshold, 0.0), 2.0)
    below = t**2 / 2 if t <= 1 else 1 - (2 - t) ** 2 / 2
    integral_below = t**3 / 3 if t <= 1 else 1 - ((2 - t) ** 2 / 2) * (2 - 2 * (2 - t) / 3)
    assert found.area == pytest.approx(1 - below, abs=1e-9)
    assert found.force == pytest.approx(1 - integral_below, abs=1e-9)


def test_the_force_on_a_closed_surface_at_one_pressure_vanishes() -> None:
    nodes = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    mesh = meshes.Mesh(nodes, np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], dtype=np.int32))
    found = pressure.high_pressure(mesh, np.ones(4), threshold=0.5)
    assert found.area == pytest.approx(1.5 + math.sqrt(3) / 2)
    assert found.force == pytest.approx(0, abs=1e-12)


def test_a_raster_repeats_a_linear_function() -> None:
    plane = generated.potential_plane(seed=3, nodes=20000)
    raster = meshes.Raster(plane.mesh, 200)
    image = raster.sample(plane.mesh.nodes @ (2.0, -3.0) + 1)
    low = plane.mesh.nodes.min(axis=0)
    row, column = np.argwhere(np.isfinite(image)).T
    x, y = low[0] + raster.pixel_length * column, low[1] + raster.pixel_length * row
    assert np.allclose(image[row, column], 2 * x - 3 * y + 1)
    # The annulus covers its part of the square, and its middle is a hole.
    assert len(row) / image.size == pytest.approx(math.pi * (1 - 0.3**2) / 4, rel=0.03)
    assert np.isnan(image[100, 100])


@pytest.mark.parametrize("step", [0, 7])
def test_generated_fields_are_those_of_their_seed(step: int) -> None:
    makers: tuple[Callable[[int], NDArray[np.float64]], ...] = (
        lambda seed: generated.potential_plane(seed=seed, nodes=3000).values(step),
        lambda seed: generated.collapse_velocity(seed=seed, shape=(24, 24, 24), step=step),
        lambda seed: generated.nose(seed=seed, nodes=3000).values(step),
    )
    for make in makers:
        assert np.isfinite(make(1)).all()
        assert (make(1) == make(1)).all()
        assert (make(1) != make(2)).any()


def test_generated_fields_have_what_is_looked_for() -> None:
    plane = generated.potential_plane(seed=1, nodes=20000)
    raster = meshes.Raster(plane.mesh, 256)
    found = [
        blobs.detect(raster.sample(plane.values(step)), threshold=plane.threshold, pixel_length=raster.pixel_length)
        for step in (0, 5)
    ]
    assert min(each.count for each in found) >= 5
    assert (found[0].labels != found[1].labels).any()

    nose = generated.nose(seed=1, nodes=20000)
    surface = float(np.linalg.norm(nose.mesh.normals(), axis=1).sum())
    high = pressure.high_pressure(nose.mesh, nose.values(0), threshold=nose.threshold)
    assert 0.02 * surface < high.area < 0.4 * surface

    velocity = generated.collapse_velocity(seed=1, shape=(96, 96))
    assert rendering.compare(velocity, velocity).dice == 1


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FIELDS.glob("*.npy")), ids=lambda path: path.stem)
def test_real_fields_lose_what_decimation_takes(path: Path) -> None:
    """Every second, then every fourth point repeated: each analysis finds the first closer to the original."""
    field = np.load(path)
    threshold = blobs.usual_threshold(field)
    truth = blobs.detect(field, threshold=threshold)
    assert truth.count >= 3
    plane = rendering.plane(field)
    mesh = meshes.grid(plane.shape)
    level = float(np.quantile(plane, 0.9))
    scores = []
    for ratio in (2, 4):
        coarse = field
        for axis in range(field.ndim):
            coarse = np.repeat(coarse.take(range(0, field.shape[axis], ratio), axis), ratio, axis)
        coarse = coarse[tuple(slice(0, length) for length in field.shape)]
        scores.append(
            (
                quality.psnr(field, coarse),
                blobs.compare(truth, blobs.detect(coarse, threshold=threshold)).f1,
                rendering.compare(plane, rendering.plane(coarse)).ssim,
            )
        )
        high = [
            pressure.high_pressure(mesh, each.ravel(), threshold=level) for each in (plane, rendering.plane(coarse))
        ]
        assert 0 < pressure.compare(*high).area_error < 0.5
    assert all(better >= worse for better, worse in zip(*scores, strict=True)), scores
    assert scores[0][1] < 1


def test_the_code_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs/guides/adaptive-analyses.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)), {})
    assert capsys.readouterr().out.count("Comparison(") == 3


@pytest.mark.slow
def test_the_example_finds_all_blobs_in_part_of_the_bytes() -> None:
    command = [sys.executable, str(ROOT / "examples/enough.py")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    _, *rows, last = answer.stdout.splitlines()
    asked, _, got, _, part, f1, _ = last.split()
    assert len(rows) == 4
    assert float(got) >= float(asked) == 80
    assert float(part.rstrip("%")) < 60
    assert float(f1) == 1
