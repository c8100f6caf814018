"""Told errors are bounds: arrays of every kind, shape and magnitude, cut anywhere."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from weir import _core
from weir.adaptive.array import restore

Array = NDArray[Any]
KINDS = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
CUTS = 14
"""Prefixes of a container whose errors are compared: each is decoded as a whole."""
FORMS = ["noise", "sine", "walk", "spikes", "step", "few", "steep"]


def true_errors(original: Array, restored: Array) -> tuple[Any, Any]:
    """RMSE and largest error, relative to the largest: no square overflows or gets lost."""
    if original.dtype.kind in "iu":
        higher, lower = (pick(original, restored).astype(np.uint64) for pick in (np.maximum, np.minimum))
        distances = (higher - lower).astype(np.longdouble)
    else:
        distances = np.abs(original.astype(np.longdouble) - restored.astype(np.longdouble))
    largest = distances.max(initial=np.longdouble(0))
    if largest == 0:
        return largest, largest
    mean = np.mean((distances / largest) ** 2) * (1 - 64 * np.finfo(np.longdouble).eps)
    return largest * np.sqrt(mean), largest


def check(original: Array, codec: str, parts: list[float], *, exact: bool = False) -> None:
    container = _core.refactor(original, codec=codec, exact=exact)
    header = _core.Refactored(container)
    span = len(container) - header.header_bytes
    for size in [header.header_bytes + round(part * span) for part in [0.0, *parts, 1.0]]:
        found = header.restore([(0, memoryview(container)[:size])])
        restored = np.frombuffer(found.data, original.dtype).reshape(original.shape)
        rmse, largest = true_errors(original, restored)
        assert largest <= found.max_error, (size, len(container))
        assert rmse <= found.rmse, (size, len(container))
    if exact or original.dtype.kind in "iu":
        assert found.max_error == 0
        assert np.array_equal(restored, original)


def made(form: str, kind: str, shape: list[int], seed: int, magnitude: float) -> Array:
    """An array of a form; a magnitude of 1 fills the range of its kind, and 0 is its smallest."""
    random = np.random.default_rng(seed)
    samples = int(np.prod(shape))
    match form:
        case "noise":
            values = random.uniform(-1, 1, samples)
        case "sine":
            values = np.sin(np.arange(samples) / random.uniform(1, 50))
        case "walk":
            values = np.tanh(random.standard_normal(samples).cumsum() / 40)
        case "spikes":
            values = np.where(random.random(samples) < 0.01, random.uniform(-1, 1, samples), 0)
        case "step":
            values = np.where(np.arange(samples) * 2 < samples, -1.0, 1.0)
        case "few":
            values = random.integers(-2, 3, samples) / 2
        case _:
            values = np.exp(random.uniform(-40, 0, samples)) * random.choice([-1, 1], samples)
    if kind[0] == "f":
        limits = np.finfo(kind)
        low, high = float(np.log10(limits.smallest_subnormal)) + 1, float(np.log10(limits.max)) - 0.1
        return np.asarray(values * 10.0 ** (low + magnitude * (high - low))).astype(kind).reshape(shape)
    whole = np.iinfo(kind)
    bits = np.longdouble(magnitude * (whole.bits - (whole.min < 0)))
    wide = np.floor((values if whole.min < 0 else (values + 1) / 2).astype(np.longdouble) * np.longdouble(2) ** bits)
    limited = np.clip(wide, np.longdouble(whole.min), np.longdouble(whole.max))
    return np.asarray(limited).astype(kind).reshape(shape)


@settings(max_examples=100, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(KINDS),
    shape=st.lists(st.integers(1, 14), min_size=1, max_size=4) | st.lists(st.integers(1, 130), min_size=1, max_size=2),
    seed=st.integers(0, 2**32),
    magnitude=st.floats(0, 1) | st.just(1.0),
    codec=st.sampled_from(["planes", "decimate"]),
    parts=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    exact=st.booleans(),
)
@example("noise", "i8", [40, 50], 1, 1.0, "planes", [0.1, 0.5, 0.8, 0.95], False)
@example("noise", "u8", [12, 12, 12], 2, 1.0, "planes", [0.1, 0.5, 0.8, 0.95], True)
@example("steep", "f8", [300], 3, 0.03, "decimate", [0.1, 0.5, 0.8, 0.95], False)
@example("sine", "f8", [30, 40], 4, 0.05, "planes", [0.1, 0.5, 0.8, 0.95], False)
def test_told_errors_bound_the_true_ones(
    form: str,
    kind: str,
    shape: list[int],
    seed: int,
    magnitude: float,
    codec: str,
    parts: list[float],
    exact: bool,
) -> None:
    check(made(form, kind, shape, seed, magnitude), codec, parts, exact=exact)


@settings(max_examples=15, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([[70_000], [330, 220], [40, 43, 41], [7, 20, 22, 23]]),
    seed=st.integers(0, 2**32),
    magnitude=st.just(1.0) | st.floats(0.5, 1),
    codec=st.sampled_from(["planes", "planes", "decimate"]),
    parts=st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_told_errors_bound_those_of_arrays_that_are_too_large_to_decode_each_prefix(
    form: str, kind: str, shape: list[int], seed: int, magnitude: float, codec: str, parts: list[float]
) -> None:
    check(made(form, kind, shape, seed, magnitude), codec, parts)


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_told_errors_of_smooth_fields_bound_the_true_ones(kind: str, scale: float) -> None:
    """Where few coefficients hold all, squares fall along no straight line: the RMSE was 7 % above the told one."""
    if kind == "f4" and scale != 1:
        scale = 1e-37 if scale < 1 else 1e37
    field = (np.sin(np.arange(31 * 33 * 35).reshape(31, 33, 35) / 9.7) * scale).astype(kind)
    container = _core.refactor(field)
    check(field, "planes", [float(part) for part in np.linspace(0.01, 0.99, CUTS)])
    header = _core.Refactored(container)
    found = header.restore([(0, memoryview(container)[:5250])])
    rmse, _ = true_errors(field, np.frombuffer(found.data, field.dtype).reshape(field.shape))
    assert rmse <= found.rmse <= 1.3 * rmse


@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
@pytest.mark.parametrize("slope", [0.0, 0.1], ids=["level", "summed"])
@pytest.mark.parametrize("edge", [222, 362, 526])
def test_told_errors_of_large_waves_bound_the_true_ones(edge: int, slope: float, kind: str) -> None:
    """Errors of few coefficients add up in the samples: the RMSE was up to 16 % above the told one. At the corners of a
    summed field filters add up too: there, the largest error was up to 44 % above the told one."""
    generator = np.random.default_rng(edge)
    rows, columns = np.mgrid[:edge, :edge]
    for _ in range(3):
        waves = generator.uniform([-2, 0, 0, 0], [2, 0.5, 0.5, 6], (generator.integers(1, 8), 4))
        field = sum(height * np.sin(row * rows + column * columns + phase) for height, row, column, phase in waves)
        field = field + generator.normal(size=field.shape) * 10 ** generator.uniform(-5, 0)
        field = slope * field.cumsum(0) if slope else field
        field = np.round(1000 * field) if kind == "i4" else field
        check(field.astype(kind), "planes", list(np.geomspace(0.003, 0.9, CUTS)))


@pytest.mark.parametrize("kind", ["u2", "i2", "i4", "f8"])
@pytest.mark.parametrize("shape", [(60, 60, 60), (20, 20, 20, 20)], ids=str)
def test_told_errors_of_waves_on_many_axes_bound_the_true_ones(shape: tuple[int, ...], kind: str) -> None:
    """The filters of integers are short, and add up along each axis: RMSE was up to 73 % above the told one."""
    generator = np.random.default_rng(len(shape))
    places = np.indices(shape)
    for fastest in (0.1, 1.5, 3.0):
        waves = generator.uniform(0.001, [fastest, 6], (len(shape), 2))
        field = sum(np.sin(wave * axis + phase) for (wave, phase), axis in zip(waves, places, strict=True))
        part = (field - field.min()) / np.ptp(field)
        limits = np.iinfo(kind) if kind != "f8" else np.iinfo("i4")
        field = (limits.min + part * (float(limits.max) - limits.min) * (1 - 1e-9)).astype(kind)
        check(field, "planes", list(np.geomspace(0.003, 0.9, CUTS)))


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_what_is_restored_of_the_largest_floats_is_finite_and_bounded(kind: str) -> None:
    """Estimates beyond the largest finite float were infinite, and a finite error was told."""
    values = np.random.default_rng(0).standard_normal(77_236)
    field = (values / np.abs(values).max() * np.finfo(kind).max * 0.999).astype(kind)
    check(field, "planes", list(np.linspace(0.05, 0.95, CUTS)))


@pytest.mark.parametrize("codec", ["planes", "decimate"])
def test_the_rmse_of_a_region_is_of_samples_that_are_no_fill_values(codec: str) -> None:
    """A region of many fill values was told the mean over all of its samples, although they have no error."""
    field = np.zeros((300, 400))
    field[100:130, 100:140] = np.nan
    lakes = np.arange(12)
    field[100 + 2 * lakes, 101 + 3 * lakes] = np.random.default_rng(0).uniform(-1, 1, 12)
    container = bytes(_core.refactor(field, tolerance=1e-6, codec=codec))
    within = field[100:130, 100:140]
    known = np.isfinite(within)
    for size in np.geomspace(600, len(container) - 1, 2 * CUTS).astype(int):
        restored = restore(container[:size], region=[(100, 130), (100, 140)])
        error = np.sqrt(np.mean(np.square(restored.data[known] - within[known])))
        assert error <= restored.rmse, size


@pytest.mark.parametrize("part", [0.002, 0.02, 0.2])
@pytest.mark.parametrize("shape", [(154, 17, 48), (400, 300), (70_000,)], ids=str)
@pytest.mark.parametrize("kind", ["u2", "i2", "i4"])
def test_told_errors_of_integers_of_two_values_bound_the_true_ones(
    kind: str, shape: tuple[int, ...], part: float
) -> None:
    """Among the last planes the transform's rounding is most of the error: RMSE was up to 67 % above the told one."""
    generator = np.random.default_rng(7)
    high = np.iinfo(kind).max // 3 * 2
    field = np.where(generator.random(shape) < part, high, high // 2).astype(kind)
    check(field, "planes", [float(cut) for cut in np.linspace(0.8, 0.999, CUTS)])


@pytest.mark.parametrize(("shape", "number"), [((17, 27, 30), 92), ((21, 26, 13), 114)], ids=str)
def test_told_errors_behind_the_last_plane_are_those_of_all_planes(shape: tuple[int, ...], number: int) -> None:
    """A part of an exact array's residual changes nothing, and the errors were told as those of the block before."""
    waves = np.random.default_rng(77).uniform(1, 60, (number + 1, 3))[number]
    axes = np.meshgrid(*(np.linspace(0, 1, edge) for edge in shape), indexing="ij")
    # The errors are last bits: the order of the sum decides them.
    field = np.sin(np.sum([axis * wave for axis, wave in zip(axes, waves, strict=True)], axis=0))
    check(field, "planes", [float(part) for part in np.linspace(0.75, 0.99, CUTS)], exact=True)


def test_told_errors_of_rare_tall_spikes_of_integers_bound_the_true_ones() -> None:
    """Errors around a lone spike add up in the samples: the RMSE was up to 36 % above the told one."""
    generator = np.random.default_rng(11)
    spikes = generator.choice(np.array([80e6, 12e6, 150e6, 40e6]), (200, 12, 84))
    field = np.where(generator.random(spikes.shape) < 0.0013, spikes, 0).astype(np.int32)
    check(field, "planes", [float(part) for part in np.linspace(0.02, 0.999, 2 * CUTS)])
