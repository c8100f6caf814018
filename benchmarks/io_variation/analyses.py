"""The paper's three analyses (table VI) as the experiment runs them: their steps, and the scores of a restored step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import _examples  # noqa: F401 - makes the package of the next line known
import numpy as np
from adaptive import blobs, generated, meshes, pressure, rendering
from numpy.typing import NDArray

from io_variation.fields import Field

SCALE = 25.0
"""Factor by which the paper's times and sizes are scaled down: an analysis each second."""
VALUES = round(64e6 / np.dtype(np.float32).itemsize / SCALE)
"""Values of a step: the 64 MB of the paper's section II."""
STEPS = 4
"""Number of different steps; a stream repeats them."""
_PIXELS = 512
_SEED = 20


@dataclass(frozen=True)
class Analysis:
    """One of the three analyses."""

    name: str
    make: Callable[[], tuple[NDArray[np.float32], Callable[[Field, Field], dict[str, float]]]]
    """Makes the steps along the first axis, and a function of the original and an approximation that computes the
    scores."""

    def steps(self) -> NDArray[np.float32]:
        """The steps along the first axis, float32."""
        return _made(self)[0]

    def scores(self, truth: Field, found: Field) -> dict[str, float]:
        """The scores of the paper's figure 14: errors relative to the original, and likenesses up to 1."""
        return _made(self)[1](truth, found)


@cache
def _made(analysis: Analysis) -> tuple[NDArray[np.float32], Callable[[Field, Field], dict[str, float]]]:
    return analysis.make()


def _blobs() -> tuple[NDArray[np.float32], Callable[[Field, Field], dict[str, float]]]:
    plane = generated.potential_plane(seed=_SEED, nodes=VALUES)
    raster = meshes.Raster(plane.mesh, _PIXELS)

    def scores(truth: Field, found: Field) -> dict[str, float]:
        seen = [
            blobs.detect(raster.sample(values), threshold=plane.threshold, pixel_length=raster.pixel_length)
            for values in (truth, found)
        ]
        compared = blobs.compare(*seen)
        return {
            "blob_count_error": compared.count_error,
            "blob_diameter_error": compared.diameter_error,
            "blob_area_error": compared.area_error,
            "blob_overlap": compared.overlap,
            "blob_f1": compared.f1,
        }

    return _stacked([plane.values(step) for step in range(STEPS)]), scores


def _rendering() -> tuple[NDArray[np.float32], Callable[[Field, Field], dict[str, float]]]:
    side = round(VALUES**0.5)

    def scores(truth: Field, found: Field) -> dict[str, float]:
        compared = rendering.compare(truth, found)
        return {"ssim": compared.ssim, "dice": compared.dice}

    return _stacked(
        [generated.collapse_velocity(seed=_SEED, shape=(side, side), step=step) for step in range(STEPS)]
    ), scores


def _pressure() -> tuple[NDArray[np.float32], Callable[[Field, Field], dict[str, float]]]:
    nose = generated.nose(seed=_SEED, nodes=VALUES)

    def scores(truth: Field, found: Field) -> dict[str, float]:
        compared = pressure.compare(
            *(pressure.high_pressure(nose.mesh, values, threshold=nose.threshold) for values in (truth, found))
        )
        return {"area_error": compared.area_error, "force_error": compared.force_error}

    return _stacked([nose.values(step) for step in range(STEPS)]), scores


def _stacked(steps: Sequence[NDArray[np.float64]]) -> NDArray[np.float32]:
    return np.stack(steps).astype(np.float32)


ANALYSES = (Analysis("XGC", _blobs), Analysis("GenASiS", _rendering), Analysis("Jet", _pressure))
