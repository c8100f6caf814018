"""Measured waiting outranks a model: the shown class is never below what the store measured."""

import math
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from weir.interference.measured import STARVED_WINDOWS, outranking, slowdown_of
from weir.interference.predictor import GENERAL, class_names, load, predict, train
from weir.interference.windows import read
from weir.store.predictions import PredictedHorizon, least_of, likely_slowdown

WINDOWS = Path(__file__).parents[1] / "data" / "interference"
_BASES = st.sampled_from(["trees", "ratio trees", "above quiet", "not known"])
_TIMES = st.floats(0, 10)


def horizons_of(basis: str, names: list[str], places: list[int]) -> tuple[PredictedHorizon, ...]:
    """Predictions of these classes."""
    even = (1 / len(names),) * len(names)
    return tuple(
        PredictedHorizon(ahead, basis if basis == "not known" else names[place], 0.96, even)
        for ahead, place in enumerate(places)
    )


@pytest.mark.parametrize("ratio", [47.0, 79.0])
def test_a_model_that_says_below_2_is_outranked_by_a_wait_of_48_times(ratio: float) -> None:
    names = class_names((2.0,))
    basis, (now, *later) = outranking(
        (2.0,),
        names,
        "ratio trees",
        horizons_of("ratio trees", names, [0, 0, 0, 0]),
        slowdown_of(0.01, 0.01 * ratio, 1),
    )
    assert (basis, now.slowdown, now.probability) == ("measured", "from 2", 1.0)
    assert [each.slowdown for each in later] == ["not known"] * 3
    assert likely_slowdown((now, *later)) == 2.0


@given(
    bins=st.lists(st.floats(1.1, 100).map(lambda x: round(x, 2)), min_size=1, max_size=4, unique=True).map(sorted),
    basis=_BASES,
    data=st.data(),
    received=_TIMES,
    waited=_TIMES,
)
def test_no_shown_class_is_below_what_was_measured(
    bins: list[float], basis: str, data: st.DataObject, received: float, waited: float
) -> None:
    names = class_names(tuple(bins))
    places = data.draw(st.lists(st.integers(0, len(bins)), min_size=4, max_size=4))
    said = horizons_of(basis, names, places)
    measured = slowdown_of(received, waited, 1.0)
    shown_basis, shown = outranking(bins, names, basis, said, measured)
    if measured is None:
        assert (shown_basis, shown) == (basis, said)
        return
    place = names.index(shown[0].slowdown)
    assert place >= bisect_right(bins, measured)
    least = least_of(shown[0].slowdown)
    assert least is not None
    if shown_basis == "measured":
        assert least <= max(measured, 1.0)
        assert basis == "not known" or place > places[0]
        assert shown[0].probabilities[place] == shown[0].probability == 1.0
    else:
        assert (shown_basis, shown) == (basis, said)


def test_a_job_that_only_waited_is_slowed_beyond_any_bound() -> None:
    assert slowdown_of(0.0, STARVED_WINDOWS, 1.0) == math.inf
    assert slowdown_of(0.0, 0.9 * STARVED_WINDOWS, 1.0) is None
    assert slowdown_of(0.0, 0.0, 1.0) is None
    assert slowdown_of(0.5, 0.0, 1.0) == 1.0


def test_the_general_model_is_that_of_the_kept_windows() -> None:
    """Whoever changes features or windows trains the model that ships anew."""
    windows = read([WINDOWS])
    shipped, made = load(GENERAL), train(windows, is_general=True)
    assert (shipped.workloads, shipped.unfamiliar.by, shipped.windows) == ((), "above quiet", len(windows.labelled()))
    assert shipped.unfamiliar.above_quiet_f1 == pytest.approx(made.unfamiliar.above_quiet_f1, abs=0.02)
    assert (shipped.unfamiliar.above_quiet_f1 or 0) > 0.85
    assert GENERAL.stat().st_size < 100_000
    pairs = list(zip(predict(shipped, windows), predict(made, windows), strict=True))
    assert {one.by for one, _ in pairs} <= {"above quiet", "not known"}
    assert all(one.probabilities == pytest.approx(other.probabilities, abs=0.02) for one, other in pairs)
