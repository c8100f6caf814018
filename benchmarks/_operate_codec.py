"""Told errors of refactored arrays that were made to break them, and the speed of decimation beside a plain copy.

A told error is a bound: each array is restored from random prefixes of its container, and neither the RMSE nor the
largest error may be above what the reader is told. True errors are computed in extended precision, relative to the
largest, so that no square overflows or gets lost.
"""

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _harness import announce
from io_variation import codec_quality
from numpy.typing import NDArray
from weir import _core

Array = NDArray[Any]

POINTS_ADVERSARIAL = 31_000
POINTS_SINES = 2_700
POINTS_WAVES = 5_000
_CUTS = 9
"""Prefixes of one container."""
_KINDS = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_SAMPLES = (2, 30_000)
_SAMPLES_LARGE = (60_000, 300_000)
_LARGE_PART = 0.03
"""Part of the arrays that are too large for an encoder to decode every prefix of them."""
_ASKED_OF_COPY = 1 / 12
_ROUNDS = 5


def codec(directory: Path) -> dict[str, float]:
    """Count the told errors that the truth exceeds, and measure decimation beside copies.

    Args:
        directory: Unused: nothing is written.

    Returns:
        `told_error_points`, `told_error_violations`, and the speeds of encoding by `decimate` and of restoring all of
        its container, as parts of a copy's: `decimate_encode_vs_copy`, `decimate_decode_100_vs_copy`.
    """
    seed = int(os.environ.get("WEIR_SEED", random.SystemRandom().randrange(2**32)))
    print(f"arrays of WEIR_SEED={seed}")
    generator = np.random.default_rng(seed)
    points = violations = 0
    for name, arrays, count in (
        ("adversarial arrays", _adversarial(generator), POINTS_ADVERSARIAL),
        ("fields of sines", _sines(generator), POINTS_SINES),
        ("large fields of waves", _waves(generator), POINTS_WAVES),
    ):
        judged, above = _count(arrays, count, generator)
        announce(f"told of {name}", f"{above} too low", f"{judged} prefixes", above / judged)
        points, violations = points + judged, violations + above
    return {"told_error_points": points, "told_error_violations": violations} | _speed()


def _count(arrays: Iterator[Array], points: int, generator: np.random.Generator) -> tuple[int, int]:
    """The number of prefixes that were judged, at least `points`, and of those whose told errors are too low."""
    judged = violations = 0
    while judged < points:
        array = next(arrays)
        kind = "planes" if generator.random() < 0.7 else "decimate"
        container = _core.refactor(array, codec=kind, exact=bool(generator.random() < 0.3), threads=2)
        header = _core.Refactored(container)
        for size in _sizes(generator, header.header_bytes, len(container)):
            found = header.restore([(0, memoryview(container)[:size])], threads=2)
            restored = np.frombuffer(found.data, array.dtype).reshape(array.shape)
            rmse, largest = true_errors(array, restored)
            judged += 1
            if rmse > found.rmse or largest > found.max_error:
                violations += 1
                print(
                    f"{kind} of {array.dtype} {array.shape}, {size} of {len(container)} bytes: told {found.rmse:.6g}, "
                    f"{found.max_error:.6g}, true {float(rmse):.6g}, {float(largest):.6g}",
                    flush=True,
                )
    return judged, violations


def _sizes(generator: np.random.Generator, least: int, most: int) -> list[int]:
    """Lengths of prefixes, half of them even and half of them short; the last is the whole."""
    even = generator.integers(least, most + 1, _CUTS // 2)
    short = np.exp(generator.uniform(np.log(least), np.log(most + 1), _CUTS - 1 - _CUTS // 2)).astype(int)
    return sorted({*even.tolist(), *short.tolist(), most})


def true_errors(array: Array, restored: Array) -> tuple[np.longdouble, np.longdouble]:
    """RMSE and largest error, as exactly as extended precision has them."""
    if array.dtype.kind in "iu":
        higher = np.maximum(array, restored).astype(np.uint64, casting="unsafe")
        lower = np.minimum(array, restored).astype(np.uint64, casting="unsafe")
        # Modulo 2^64, which the difference is below.
        distances = (higher - lower).astype(np.longdouble)
    else:
        distances = np.abs(array.astype(np.longdouble) - restored.astype(np.longdouble))
    largest = distances.max(initial=np.longdouble(0))
    if largest == 0:
        return largest, largest
    # Less the rounding of these sums themselves.
    mean = np.mean((distances / largest) ** 2) * (1 - 64 * np.finfo(np.longdouble).eps)
    return largest * np.sqrt(mean), largest


def _adversarial(generator: np.random.Generator) -> Iterator[Array]:
    """Arrays of every kind, of one to four axes and any magnitude: noise, waves, steps, spikes and few values."""
    while True:
        bounds = _SAMPLES_LARGE if generator.random() < _LARGE_PART else _SAMPLES
        shape = _shape(generator, int(np.exp(generator.uniform(*np.log(bounds)))))
        values = _FORMS[generator.integers(len(_FORMS))](generator, int(np.prod(shape)))
        yield _scaled(generator, values, np.dtype(str(generator.choice(_KINDS)))).reshape(shape)


def _shape(generator: np.random.Generator, samples: int) -> tuple[int, ...]:
    shape = []
    for _ in range(generator.integers(4)):
        shape.append(max(1, int(samples ** generator.uniform(0.1, 0.8))))
        samples = max(1, samples // shape[-1])
    return (*shape, samples)


def _steep(generator: np.random.Generator, samples: int) -> NDArray[np.float64]:
    return np.asarray(np.exp(generator.uniform(-40, 0, samples)) * generator.choice([-1.0, 1.0], samples))


def _walk(generator: np.random.Generator, samples: int) -> NDArray[np.float64]:
    walk = generator.standard_normal(samples).cumsum()
    return np.asarray(walk / np.abs(walk).max(initial=1e-9))


_FORMS: tuple[Callable[[np.random.Generator, int], NDArray[np.float64]], ...] = (
    lambda generator, samples: generator.uniform(-1, 1, samples),
    lambda generator, samples: np.sin(np.arange(samples) / generator.uniform(1, 50)),
    _walk,
    lambda generator, samples: (generator.random(samples) < 0.02).astype(np.float64),
    lambda generator, samples: generator.choice([-1.0, 1.0], samples),
    lambda generator, samples: generator.integers(-3, 4, samples) / 3,
    lambda generator, samples: np.tanh(generator.standard_cauchy(samples) / 50),
    lambda generator, samples: np.where(np.arange(samples) < samples // 2, -1.0, 1.0),
    _steep,
    lambda generator, samples: (np.arange(samples) == generator.integers(samples)).astype(np.float64),
    lambda generator, samples: np.cos(np.arange(samples) ** 1.5 / samples),
    lambda generator, samples: np.arange(samples) % generator.integers(2, 9) / 8.0,
)
"""Samples between -1 and 1."""


def _scaled(generator: np.random.Generator, values: NDArray[np.float64], kind: np.dtype[Any]) -> Array:
    """Samples of a kind, often near its limits."""
    if kind.kind == "f":
        limits = np.finfo(kind)
        ordinary = generator.random() < 0.5
        # numpy's limits are of the kind itself: their logarithms are not.
        span = (-5.0, 5.0) if ordinary else (float(np.log10(limits.tiny)), float(np.log10(limits.max)) - 0.1)
        return np.asarray(values * 10.0 ** generator.uniform(*span)).astype(kind)
    whole = np.iinfo(kind)
    bits = float(whole.bits - (whole.min < 0))
    if generator.random() < 0.6:
        bits = generator.uniform(1, bits)
    positive = values if whole.min < 0 else (values + 1) / 2
    wide = np.floor(positive.astype(np.longdouble) * np.longdouble(2) ** np.longdouble(bits))
    return np.asarray(np.clip(wide, np.longdouble(whole.min), np.longdouble(whole.max))).astype(kind)


def _sines(generator: np.random.Generator) -> Iterator[Array]:
    """Sines along the samples in their order, and waves in space, of which few coefficients hold all."""
    while True:
        edges = generator.integers(8, 70 if generator.random() < 0.1 else 40, generator.integers(1, 4))
        if generator.random() < 0.5:
            values = np.sin(np.arange(np.prod(edges)) / generator.uniform(1, 60)).reshape(edges)
        else:
            axes = np.meshgrid(*(np.linspace(0, 1, edge) for edge in edges), indexing="ij")
            values = np.sin(np.sum([axis * generator.uniform(1, 60) for axis in axes], axis=0))
        yield values.astype(generator.choice(["f4", "f8"]))


_WAVE_EDGES = {2: (200, 600), 3: (40, 80), 4: (12, 25)}
"""Edges of fields of waves, by their axes."""


def _waves(generator: np.random.Generator) -> Iterator[Array]:
    """Waves and noise on two to four axes, or their sums along an axis, that are too large for every prefix to be
    decoded."""
    while True:
        axes = int(generator.integers(2, 5))
        shape = generator.integers(*_WAVE_EDGES[axes], axes).tolist()
        places = np.indices(shape)
        values = generator.normal(size=shape) * 10.0 ** generator.uniform(-9, 0)
        fastest = generator.choice([0.1, 0.5, 3.0])
        for wave in generator.uniform(0, fastest, (generator.integers(1, 8), axes)):
            values += generator.normal() * np.sin(np.tensordot(wave, places, 1) + generator.uniform(0, 2 * np.pi))
        if generator.random() < 0.3:
            values = values.cumsum(0) / 10
        if generator.random() < 0.5:
            kind = np.iinfo(generator.choice(["u2", "i2", "i4"]))
            part = (values - values.min()) / np.ptp(values) * 10.0 ** generator.uniform(-2, 0)
            yield (kind.min + part * (float(kind.max) - kind.min)).astype(kind.dtype)
        else:
            yield values.astype(generator.choice(["f4", "f8"]))


def _speed() -> dict[str, float]:
    """The speeds of decimation as parts of a copy's, all in turns: so they have the same machine."""
    field = codec_quality.large_field()
    container = _core.refactor(field, codec="decimate")
    target = np.empty_like(field)
    works: dict[str, Callable[[], object]] = {
        "copy": partial(np.copyto, target, field),
        "encode": partial(_core.refactor, field, codec="decimate"),
        "decode_100": partial(codec_quality.restored, container, len(container)),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_ROUNDS):
        for name, work in works.items():
            times[name].append(codec_quality.seconds_of(work))
    rates = {name: field.nbytes / 1e6 / min(seconds) for name, seconds in times.items()}
    figures = {}
    for name in ("encode", "decode_100"):
        part = rates[name] / rates["copy"]
        figures[f"decimate_{name}_vs_copy"] = part
        beside = f"a copy {rates['copy']:.0f} MB/s, {_ASKED_OF_COPY:.3f} asked"
        announce(f"decimate {name}", f"{rates[name]:.0f} MB/s", beside, part)
    return figures
