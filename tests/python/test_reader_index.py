"""A reader as a sequence of steps: `len`, numbers from either end, strides, and regions of them by numpy's rules."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive.region import cut_of

Array = NDArray[Any]
STEPS = np.random.default_rng(3).integers(-1000, 1000, (5, 6, 7)).astype("i2")


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("index") / "fast"
    adaptive.write(folder, STEPS, exact=True)
    return folder


def test_a_reader_is_a_sequence(tier: Path) -> None:
    with adaptive.open(tier) as reader:
        assert len(reader) == 5
        assert np.array_equal(reader[-1].data, STEPS[-1])
        assert [step.number for step in reader[::-2]] == [4, 2, 0]
        assert [step.number for step in reader[...]] == [0, 1, 2, 3, 4]
        # What was read by numbers does not matter to who iterates.
        assert [step.number for step in reader] == [0, 1, 2, 3, 4]
        with pytest.raises(IndexError, match="there is no step 5: the stream has 5"):
            reader[5]
        assert reader[1:1] == []


@pytest.mark.parametrize(
    "key",
    [
        (0, ..., -1),
        (3, slice(None, None, -2)),
        (-2, slice(4, 1, -1), slice(1, None, 3)),
        (1, 2, 3),
        (2, ..., 0, slice(5)),
    ],
)
def test_a_region_of_a_step_is_numpys(tier: Path, key: tuple[Any, ...]) -> None:
    with adaptive.open(tier) as reader:
        assert np.array_equal(reader[key].data, STEPS[key])
        for step, whole in zip(reader[:, *key[1:]], STEPS, strict=True):
            assert np.array_equal(step.data, whole[key[1:]])


def test_a_region_that_is_none_is_refused(tier: Path) -> None:
    with adaptive.open(tier) as reader:
        for wrong in ((0, 6), (0, slice(3, 3)), (0, 1, 2, 3), (0, "a"), (0, ..., ...)):
            with pytest.raises(adaptive.AdaptiveError, match=r"region|place|ellipses"):
                reader[wrong]
    with adaptive.open(tier, region=(slice(2), ...)) as reader:
        assert reader[0].data.shape == (2, 7)
        with pytest.raises(adaptive.AdaptiveError, match="reads a region already"):
            reader[0, 1]


@given(shape=arrays.array_shapes(min_dims=1, max_dims=4, max_side=6), data=st.data())
@settings(deadline=None)
def test_a_cut_picks_what_numpy_picks(shape: tuple[int, ...], data: st.DataObject) -> None:
    whole = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(arrays.basic_indices(shape, allow_newaxis=False, allow_ellipsis=True))
    key = key if isinstance(key, tuple) else (key,)
    wanted = whole[key]
    if not np.size(wanted):
        with pytest.raises(adaptive.AdaptiveError, match="is empty"):
            cut_of(key, shape)
        return
    cut = cut_of(key, shape)
    box = whole[tuple(slice(*each) for each in cut.bounds)]
    assert np.array_equal(cut.squeezed(cut.pick(box)), wanted)
