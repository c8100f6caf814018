"""Outcome of a blob detection against the accuracy of its data.

Figure 10 of Qiao et al., "Taming I/O variation on QoS-less HPC storage" (IPDPS 2021): the degree of augmentation
varies, and the blobs that are found are compared with those of the original: number, mean diameter, area and overlap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weir.experiments.tidy import Observation, observed

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Field = NDArray[float64]

CODECS = ("planes", "decimate")
DEGREES = (0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""Parts of the bytes behind the base that are read."""
THRESHOLD = 0.4
"""Value above which a point of the generated field is part of a blob."""
_BLOBS = 40
_MODES = 96
_NOISE = 0.02
_DECIMATION = 1024
"""Values of the whole for each value of the base, as in the paper."""
_POINTS_MIN = 9
"""Least number of points of a blob."""
_MATCH_OVERLAP = 0.5
"""Part of the union of two blobs above which they are the same one."""


_UNITS = {
    "bytes_part": "1",
    "psnr": "dB",
    "blobs": "blobs",
    "blobs_true": "blobs",
    "diameter_ratio": "1",
    "area_ratio": "1",
    "overlap": "1",
    "f1": "1",
}


@dataclass(frozen=True)
class Outcome:
    """Blobs found in an approximation, beside those of the original."""

    codec: str
    degree: float
    """Part of the augmentation that was read, 0 to 1."""
    bytes_part: float
    """Part of the array's bytes that was read, with the base."""
    psnr: float | None
    """Peak signal-to-noise ratio in dB; None without an error."""
    blobs: int
    blobs_true: int
    diameter_ratio: float
    """Mean diameter over the true one."""
    area_ratio: float
    """Area of all blobs over the true one."""
    overlap: float
    """Part of the true blob area that is blob in the approximation, too."""
    f1: float
    """Harmonic mean of the parts of found blobs that are true, and of true blobs that are found."""


@dataclass(frozen=True)
class _Blobs:
    labels: Any
    areas: Any

    @property
    def diameter(self) -> float:
        import numpy

        return float(numpy.sqrt(4 * self.areas / numpy.pi).mean()) if len(self.areas) else 0.0


def potential(side: int, seed: int) -> "Field":
    """Generate a turbulent potential with blobs, as at the edge of a tokamak.

    Args:
        side: Number of points along each axis.
        seed: Start of all dice.

    Returns:
        The field, of shape (side, side), float64.
    """
    import numpy

    dice = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:side, 0:side] / side
    field = numpy.zeros((side, side))
    for wavelength in numpy.geomspace(0.5, 4 / side, _MODES):
        turn, phase = dice.uniform(0, 2 * numpy.pi, 2)
        along = numpy.cos(turn) * x + numpy.sin(turn) * y
        field += wavelength * numpy.cos(2 * numpy.pi * along / wavelength + phase)
    field *= 0.1 / field.std()
    for _ in range(_BLOBS):
        centre_y, centre_x, height, width = dice.uniform((0.05, 0.05, 0.6, 0.006), (0.95, 0.95, 1.4, 0.018))
        field += height * numpy.exp(-(((y - centre_y) ** 2 + (x - centre_x) ** 2) / (2 * width**2)))
    # Simulations by particles have the noise of these.
    return field + _NOISE * dice.standard_normal((side, side))


def measure(
    field: "Field", threshold: float, degrees: Sequence[float] = DEGREES, codecs: Sequence[str] = ()
) -> list[Outcome]:
    """Detect blobs at each degree of augmentation, by each codec.

    Args:
        field: An array of two dimensions.
        threshold: Value above which a point is part of a blob.
        codecs: Further codecs, which are plug-ins.

    Returns:
        The outcomes, by codec and then by degree.

    Raises:
        ValueError: The array does not have two dimensions, or no point of it is above the threshold.
        PluginError: A codec is a plug-in, and fails.
    """
    import numpy

    from weir.adaptive.array import native, restore
    from weir.adaptive.containers import opened, refactor

    if field.ndim != 2:
        raise ValueError(f"blobs are detected in arrays of two dimensions, and this one has {field.ndim}")
    exact = native(numpy.asarray(field, dtype=numpy.float32))
    truth = _detect(exact, threshold)
    if not len(truth.areas):
        raise ValueError(f"no blob is above the threshold {threshold:g}: values reach {exact.max():g}")
    found = []
    base = max(exact.nbytes // _DECIMATION, 1)
    for codec in (*CODECS, *codecs):
        # A plug-in chooses its base itself.
        container = refactor(exact, codec=codec, **({"base_bytes": base} if codec in CODECS else {}))
        header = opened(container)
        begin = header.header_bytes + header.base_bytes
        for degree in degrees:
            end = begin + round(degree * (len(container) - begin))
            values = restore(container[:end]).data
            found.append(_outcome(codec, degree, end / exact.nbytes, exact, values, truth, threshold))
    return found


def _outcome(
    codec: str, degree: float, part: float, exact: "Field", values: "Field", truth: _Blobs, threshold: float
) -> Outcome:
    import numpy

    blobs = _detect(values, threshold)
    error = float(((values - exact) ** 2).mean())
    both = (truth.labels > 0) & (blobs.labels > 0)
    return Outcome(
        codec=codec,
        degree=degree,
        bytes_part=part,
        psnr=10 * float(numpy.log10(numpy.ptp(exact) ** 2 / error)) if error else None,
        blobs=len(blobs.areas),
        blobs_true=len(truth.areas),
        diameter_ratio=blobs.diameter / truth.diameter,
        area_ratio=float(blobs.areas.sum() / truth.areas.sum()),
        overlap=float(both.sum() / (truth.labels > 0).sum()),
        f1=2 * _matches(truth, blobs, both) / (len(truth.areas) + len(blobs.areas)),
    )


def _detect(field: "Field", threshold: float) -> _Blobs:
    """Find the connected regions above a threshold."""
    import numpy
    from scipy import ndimage

    labels, count = ndimage.label(field > threshold)
    sizes = numpy.bincount(labels.ravel(), minlength=count + 1)
    kept = numpy.flatnonzero(sizes >= _POINTS_MIN)
    kept = kept[kept > 0]
    number_of = numpy.zeros(count + 1, dtype=numpy.int64)
    number_of[kept] = numpy.arange(1, len(kept) + 1)
    return _Blobs(number_of[labels], sizes[kept].astype(numpy.float64))


def _matches(truth: _Blobs, found: _Blobs, both: Any) -> int:
    import numpy

    pairs, shared = numpy.unique(numpy.stack([truth.labels[both], found.labels[both]]), axis=1, return_counts=True)
    union = truth.areas[pairs[0] - 1] + found.areas[pairs[1] - 1] - shared
    return int((shared > _MATCH_OVERLAP * union).sum())


def observations(found: Sequence[Outcome], threshold: float) -> Iterator[Observation]:
    """List the figures of each codec and degree of augmentation.

    Args:
        threshold: Value above which a point is part of a blob.

    Yields:
        The figures, outcome by outcome.
    """
    for each in found:
        yield from observed({"codec": each.codec, "degree": each.degree, "threshold": threshold}, _UNITS, each)


def document(found: Sequence[Outcome], threshold: float) -> dict[str, Any]:
    """Describe the results for JSON."""
    outcomes = [asdict(each) for each in found]
    return {"version": 1, "figure": "io-variation-figure-10", "threshold": threshold, "outcomes": outcomes}
