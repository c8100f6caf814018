"""Types that no codec takes are split, or exact: what is restored is what was written, and it is said once."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive.forms import AXES_MAX, Form
from weir.adaptive.meaning import Meaning

Array = NDArray[Any]
DTYPES = ("?", "f2", "f4", "f8", ">f4", "c8", "c16", "i2", "u8", "M8[ns]", "m8[s]", "S3", "U2", "g")
SHAPES = arrays.array_shapes(min_dims=1, max_dims=6, max_side=4)


@given(dtype=st.sampled_from(DTYPES), shape=SHAPES, data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_form_gives_the_values_and_any_region_back(dtype: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    values = data.draw(arrays.arrays(np.dtype(dtype), shape))
    form = Form.of(values.dtype, values.shape)
    stored = form.stored(values)
    assert (stored.dtype, stored.shape) == (form.stored_dtype, form.stored_shape)
    assert stored.ndim <= AXES_MAX
    np.testing.assert_array_equal(form.values(stored), values)
    bounds = []
    for length in shape:
        begin = data.draw(st.integers(0, length - 1))
        bounds.append((begin, data.draw(st.integers(begin + 1, length))))
    part = stored[tuple(slice(*each) for each in form.stored_bounds(bounds))]
    np.testing.assert_array_equal(form.values_within(part, bounds), values[tuple(slice(*each) for each in bounds)])


@given(
    dtype=st.sampled_from(DTYPES),
    shape=SHAPES,
    attributes=st.fixed_dictionaries({}, optional={"scale_factor": st.floats(0.1, 9), "_FillValue": st.integers(0, 9)}),
)
@settings(deadline=None)
def test_a_meaning_comes_back_from_its_document(dtype: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    meaning = Meaning.of(np.dtype(dtype), shape, attributes)
    again = Meaning.from_document(meaning.to_document())
    assert (again.form, again.encoding.dtype) == (meaning.form, meaning.encoding.dtype)
    assert again.encoding.packs_as(meaning.encoding)


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="convert them"):
        Form.of(np.dtype(object), (3,))


def values_of(dtype: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(5)
    if dtype == "?":
        return random.random(shape) > 0.5
    if np.dtype(dtype).kind in "mM":
        return random.integers(0, 10**9, shape).astype("i8").view(dtype)
    smooth = 280 + np.cumsum(random.normal(0, 0.1, shape), axis=-1)
    return (smooth + 1j * smooth[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else smooth.astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "f2", "c8", "c16", "M8[ns]", "m8[s]", "f4"])
@pytest.mark.parametrize("shape", [(20, 30), (3, 2, 2, 10, 20)])
def test_a_stream_of_any_type(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """float16, bool, complex, times and more than 4 axes were refused."""
    values = values_of(dtype, shape)
    form = Form.of(values.dtype, shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adaptive.write([tmp_path / "fast", tmp_path / "shared"], [values, values[::-1]], tolerance=0.5)
    told = [str(each.message) for each in caught]
    assert told == ([] if form.is_plain else [f"{tmp_path / 'fast'}: {form.words}"])
    region = (slice(None, None, -2), ..., slice(3, 9))
    for policy in ("best-effort", "isolation"):
        with adaptive.open(tmp_path / "fast", policy=policy) as reader:
            for number, whole in enumerate((values, values[::-1])):
                step = reader.step(number)
                assert (step.data.dtype, step.data.shape) == (values.dtype, shape)
                part = reader[number, *region]
                assert isinstance(part, adaptive.Step)
                for found, wanted in ((step.data, whole), (part.data, whole[region])):
                    if form.is_exact:
                        assert np.array_equal(found, wanted)
                    else:
                        distance = np.abs(found.astype("c16") - wanted.astype("c16")).max()
                        assert distance <= step.max_error
                        assert policy == "isolation" or step.max_error <= 0.5


def test_half_floats_are_never_restored_as_a_fill_value(tmp_path: Path) -> None:
    """A float beside the fill value became the nearest half float, which was the fill value."""
    values = np.linspace(279, 281, 4000).astype("f2").reshape(40, 100)
    mask = np.random.default_rng(1).random(values.shape) < 0.2
    values[mask] = 280
    wanted = values == 280
    with pytest.warns(adaptive.AdaptiveWarning, match="single floats"):
        adaptive.write(tmp_path / "fast", [values], tolerance=0.5, fill=280)
    step = adaptive.open(tmp_path / "fast").step(0)
    assert np.array_equal(step.data == 280, wanted)
