"""The law of encodings: missing cells stay, others stay valid, and errors are told in the variable's units."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from weir import _core
from weir.adaptive.array import restore
from weir.adaptive.attributes import from_json, to_json
from weir.adaptive.datasets import container_of, variable_of
from weir.adaptive.named import Variable

Array = NDArray[Any]


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    """A walk of numbers with fill values, a range and packing, as a file would state them."""
    dtype: np.dtype[Any] = np.dtype(draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "f4", "f8"])))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from([(200,), (17, 30), (3, 20, 21)]))
    walk = random.standard_normal(int(np.prod(shape))).cumsum().reshape(shape) * draw(st.sampled_from([0.5, 3]))
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        walk = np.clip(np.round(walk + (limits.max - limits.min) // 2 + limits.min), limits.min, limits.max)
    values = walk.astype(dtype)
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["_FillValue"] = values.reshape(-1)[draw(st.integers(0, 199))]
    if draw(st.booleans()):
        attributes["missing_value"] = random.choice(values.reshape(-1), draw(st.integers(1, 3)))
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([np.float32(0.5), np.float64(0.01), np.float64(-3)]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([np.float32(280), np.float64(-7.25)]))
    if draw(st.booleans()):
        low, high = np.quantile(values, draw(st.sampled_from([(0, 0.9), (0.001, 1), (0.2, 0.8)])), method="nearest")
        attributes["valid_range"] = np.array([low, high], dtype=dtype)
    if dtype.kind == "i" and draw(st.booleans()):
        attributes["_Unsigned"] = "true"
    return Variable(("a", "b", "c")[: len(shape)], values, attributes)


def oracle(variable: Variable) -> tuple[Array, Array]:
    """The missing cells, and all values in units as doubles, written out apart from the package."""
    stored, attributes = variable.values, variable.attributes
    fills = [*np.ravel(attributes.get("_FillValue", ())), *np.ravel(attributes.get("missing_value", ()))]
    missing = np.isin(stored, np.array(fills, dtype=stored.dtype))
    numbers = stored
    if attributes.get("_Unsigned") == "true":
        numbers = stored.view(stored.dtype.str.replace("i", "u"))
    if "valid_range" in attributes:
        low, high = attributes["valid_range"].view(numbers.dtype)
        if low <= high:
            missing |= (numbers < low) | (numbers > high)
    scale, offset = float(attributes.get("scale_factor", 1)), float(attributes.get("add_offset", 0))
    return missing, numbers.astype("f8") * scale + offset


@given(
    variable=variables(),
    tolerance=st.sampled_from([None, 0.003, 0.4, 5.0, 60.0]),
    codec=st.sampled_from(["planes", "decimate"]),
)
@settings(max_examples=200, deadline=None)
def test_a_variable_comes_back_within_its_errors(variable: Variable, tolerance: float | None, codec: str) -> None:
    container, described = container_of(variable, tolerance=tolerance, codec=codec)
    header = _core.Refactored(container)
    missing, values = oracle(variable)
    offset, length, *_ = header.chunks[0]
    # More values outside the range than a container can state are kept with all others, and read with them.
    ends = (
        (len(container), offset + length)
        if header.fill or "valid_range" not in variable.attributes
        else (len(container),)
    )
    for end in ends:
        back = variable_of(described, restore(container[:end]), header)
        told = dict(back.attributes)
        max_error = told.pop("weir_max_error")
        assert told.pop("weir_rmse") <= max_error or max_error == 0
        again = Variable(back.dims, back.values, told)
        found_missing, found = oracle(again)
        assert np.array_equal(found_missing, missing)
        assert back.values[missing].tobytes() == variable.values[missing].tobytes()
        distance = float(np.abs(found - values)[~missing].max(initial=0.0))
        assert distance <= max_error
        if end == len(container):
            assert max_error <= (tolerance or 0.0)
            if tolerance is None:
                assert back.values.tobytes() == variable.values.tobytes()
    assert from_json(to_json(variable.attributes)).keys() == variable.attributes.keys()


NUMBERS = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=True).map(np.float64),
    st.floats(width=32).map(np.float32), st.lists(st.text(min_size=1), min_size=1), st.binary(),
    st.lists(st.integers(-128, 127), min_size=1).map(lambda values: np.array(values, "i1")),
)  # fmt: skip


@given(attributes=st.dictionaries(st.text(), NUMBERS))
def test_attributes_come_back_with_their_types(attributes: dict[str, Any]) -> None:
    import json

    again = from_json(json.loads(json.dumps(to_json(attributes))))
    assert again.keys() == attributes.keys()
    for name, value in attributes.items():
        assert type(again[name]) is type(value)
        assert np.array_equal(again[name], value, equal_nan=isinstance(value, np.floating))
