"""Forecasts of bandwidth: what each method learns, what none may do, and how soon the online choice recovers."""

import math
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from waits import PATIENCE_SECONDS
from weir.plugins import PluginError
from weir.prediction.bandwidth import NAMES, Background, Forecast, Forecaster, NothingObservedError, Outlook, make
from weir.prediction.bandwidth.inverse import inverse_of

SEED = 5
CADENCE = 25.0
CAPACITY = 100.0
Disturbed = Callable[[float], float]
Series = Sequence[tuple[float, float | None]]


def shared(*pulses: tuple[float, float, float]) -> Disturbed:
    """The share of one reader beside others; each is busy (period, begin, length), in seconds."""
    return lambda time: CAPACITY / (1 + sum((time - begin) % period < length for period, begin, length in pulses))


def even(count: int, bandwidth: Disturbed, *, noise: float = 0.0, begin: float = 0.0) -> list[tuple[float, float]]:
    draw = np.random.default_rng(SEED)
    times = [begin + step * CADENCE for step in range(count)]
    return [(time, bandwidth(time) * (1 + noise * float(draw.standard_normal()))) for time in times]


def uneven(count: int, bandwidth: Disturbed) -> list[tuple[float, float]]:
    draw = np.random.default_rng(SEED)
    times = [step * CADENCE + float(draw.uniform(0, 0.6 * CADENCE)) for step in range(count)]
    return [(time, bandwidth(time)) for time in times]


def errors(name: str, series: Series, **options: float) -> list[float]:
    """Of each step but the first, and of those without I/O none."""
    forecaster = make(name, **options)  # type: ignore[arg-type]
    found = []
    for step, (time, value) in enumerate(series):
        if step and value is not None:
            found.append(abs(forecaster.forecast(time).value - value) / value)
        forecaster.observe(time, value)
    return found


def after(name: str, series: Series) -> Forecast:
    """The forecast for one usual step after the series."""
    forecaster = make(name)
    for time, value in series:
        forecaster.observe(time, value)
    return forecaster.forecast(series[-1][0] + CADENCE)


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_bandwidth_is_forecast_as_it_is(name: str) -> None:
    for count in (1, 2, 3, 5, 30):
        said = after(name, even(count, lambda _: 37.5))
        assert said.value == pytest.approx(37.5, rel=1e-6)
        assert said.low <= 37.5 * (1 + 1e-6)
        assert said.high >= 37.5 * (1 - 1e-6)
        assert said.warning is None


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_forecast_from_nothing(name: str) -> None:
    forecaster = make(name)
    with pytest.raises(NothingObservedError, match="no bandwidth was observed yet"):
        forecaster.forecast(0.0)
    forecaster.observe(0.0, None)
    with pytest.raises(NothingObservedError):
        forecaster.forecast(25.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_bandwidth_that_is_none_is_refused_and_leaves_nothing_behind(name: str, value: float) -> None:
    forecaster = make(name)
    forecaster.observe(0.0, 10.0)
    with pytest.raises(ValueError, match=r"the bandwidth of the step at 25\.0 s"):
        forecaster.observe(25.0, value)
    assert forecaster.forecast(25.0).value == pytest.approx(10.0)


@pytest.mark.parametrize("name", NAMES)
def test_steps_come_in_their_order(name: str) -> None:
    forecaster = make(name)
    forecaster.observe(25.0, 10.0)
    for time in (25.0, 0.0, math.nan):
        with pytest.raises(ValueError, match="step at"):
            forecaster.observe(time, 10.0)
        with pytest.raises(ValueError, match="step at"):
            forecaster.forecast(time)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 3}, "window of 3 steps"),
        ({"threshold": 2.0}, "threshold 2.0"),
        ({"coverage": 1.0}, "coverage 1.0"),
        ({"period_seconds": 0.0}, "period of 0.0 s"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)  # type: ignore[arg-type]


def test_a_forecaster_that_there_is_not_is_refused() -> None:
    with pytest.raises(PluginError, match="unknown forecaster `oracle`: expected one of last-value, mean"):
        make("oracle")


def test_simple_methods_say_what_their_names_say() -> None:
    series = [(0.0, 1.0), (1.0, 2.0), (2.0, 9.0), (3.0, None)]
    assert after("last-value", series).value == 9.0
    assert after("mean", series).value == 4.0
    assert after("median", series).value == 2.0


def test_the_papers_transform_repeats_a_window_of_whole_periods() -> None:
    season = [10.0, 30.0, 20.0, 50.0, 40.0, 90.0]
    series = even(96, lambda time: season[round(time / CADENCE) % 6])
    forecaster = make("paper-dft", threshold=0.0)
    for time, value in series:
        forecaster.observe(time, value)
    for ahead in range(1, 8):
        assert forecaster.forecast((95 + ahead) * CADENCE).value == pytest.approx(season[(95 + ahead) % 6])


def test_the_papers_transform_leaves_small_amplitudes_out() -> None:
    def both(time: float) -> float:
        angle = 2 * math.pi * time / (CADENCE * 48)
        return 50 + 20 * math.cos(4 * angle) + 4 * math.cos(9 * angle)

    said = after("paper-dft", even(48, both)).value
    assert said == pytest.approx(50 + 20)
    assert errors("paper-dft", even(49, both), threshold=0.1)[-1] < 1e-9


def test_the_papers_transform_fills_steps_without_io_with_its_forecasts() -> None:
    season = [10.0, 30.0, 20.0, 50.0]

    def bandwidth(time: float) -> float:
        return season[round(time / CADENCE) % 4]

    series = [(t, None if step >= 48 and step % 5 < 2 else y) for step, (t, y) in enumerate(even(120, bandwidth))]
    assert max(errors("paper-dft", series)[47:]) < 1e-9


LEARNERS = {
    "seasonal": shared((7 * CADENCE, 0, 2 * CADENCE)),
    "comb": shared((83.7, 5, 22), (61.9, 30, 18)),
    "autoregression": lambda time: 50 + 20 * math.cos(time / 40),
    "harmonics": lambda time: 50 + 20 * math.cos(time / 40) + 9 * math.sin(time / 23),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_periodic_bandwidth_is_learnt(name: str) -> None:
    series = even(180, LEARNERS[name])
    mine, constant = (np.mean(errors(each, series)[120:]) for each in (name, "median"))
    assert mine < 0.35 * constant


@pytest.mark.parametrize("name", ["comb", "harmonics"])
def test_uneven_steps_are_taken_as_they_are(name: str) -> None:
    series = uneven(180, LEARNERS[name])
    mine, constant = (np.mean(errors(each, series)[120:]) for each in (name, "median"))
    assert mine < 0.5 * constant


@pytest.mark.parametrize("name", ["seasonal", "comb", "harmonics", "online"])
def test_missing_steps_do_not_shift_what_was_learnt(name: str) -> None:
    draw = np.random.default_rng(SEED)
    bandwidth = LEARNERS["seasonal" if name == "online" else name]
    series = [(time, value if draw.random() > 0.2 else None) for time, value in even(180, bandwidth)]
    mine, constant = (np.mean(errors(each, series)[90:]) for each in (name, "median"))
    assert mine < 0.5 * constant


def test_the_origin_of_time_does_not_matter() -> None:
    near, far = (even(100, LEARNERS["comb"], begin=begin) for begin in (0.0, 83.7 * 61.9 * 320_000))
    same = [(time + far[0][0] - near[0][0], value) for time, value in near]
    for name in NAMES:
        assert after(name, same).value == pytest.approx(after(name, near).value, rel=1e-3)


@pytest.mark.slow
def test_the_online_choice_is_about_as_good_as_the_best_method() -> None:
    for name, bandwidth in LEARNERS.items():
        series = even(160, bandwidth, noise=0.03)
        each = {other: np.mean(errors(other, series)[100:]) for other in NAMES}
        assert each["online"] < 1.3 * min(each.values()), f"{name}: {each}"


def test_a_new_regime_is_learnt_before_the_papers_window_has_forgotten_the_old_one() -> None:
    old, new = shared((80, 3, 30), (100, 20, 25)), shared((80, 3, 30), (100, 20, 25), (75, 10, 35))
    change = 80
    series = even(change + 48, lambda time: (old if time < change * CADENCE else new)(time), noise=0.03)
    half = slice(change + 23, change + 47)
    online, paper = (np.mean(errors(name, series)[half]) for name in ("online", "paper-dft"))
    assert online < 0.5 * paper


@pytest.mark.slow
@pytest.mark.parametrize("coverage", [0.5, 0.8])
@pytest.mark.parametrize("name", ["last-value", "median", "online"])
def test_intervals_cover_what_they_say(name: str, coverage: float) -> None:
    series = even(300, shared((7 * CADENCE, 0, 2 * CADENCE)), noise=0.1)
    forecaster = make(name, coverage=coverage)
    inside = []
    for step, (time, value) in enumerate(series):
        if step >= 60:
            said = forecaster.forecast(time)
            inside.append(said.low <= value <= said.high)
        forecaster.observe(time, value)
    assert abs(np.mean(inside) - coverage) < 0.12


def test_a_forecast_changes_nothing() -> None:
    asked, silent = make(), make()
    for time, value in even(60, LEARNERS["comb"], noise=0.03):
        if time:
            asked.forecast(time)
            asked.forecast(time + 3 * CADENCE)
        asked.observe(time, value)
        silent.observe(time, value)
    assert asked.forecast(60 * CADENCE) == silent.forecast(60 * CADENCE)


def test_what_is_learnt_in_the_background_is_the_same() -> None:
    here, beside = make(), Background(make())
    for time, value in even(60, LEARNERS["comb"], noise=0.03):
        here.observe(time, value)
        beside.observe(time, value)
        assert beside.settle(PATIENCE_SECONDS)
    assert beside.forecast(60 * CADENCE) == here.forecast(60 * CADENCE)


class Slow(Forecaster):
    """The last value, which takes until `gate` is set to be learnt."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self._inner = make("last-value")

    @property
    def outlook(self) -> Outlook | None:
        return self._inner.outlook

    def observe(self, time: float, value: float | None) -> None:
        self.observe_all([(time, value)])

    def observe_all(self, steps: Sequence[tuple[float, float | None]]) -> None:
        assert self.gate.wait(PATIENCE_SECONDS)
        self._inner.observe_all(steps)

    def forecast(self, time: float) -> Forecast:
        return self._inner.forecast(time)


def test_no_forecast_waits_for_a_long_fit() -> None:
    slow = Slow()
    slow.gate.set()
    beside = Background(slow)
    beside.observe(0.0, 1.0)
    assert beside.settle(PATIENCE_SECONDS)
    slow.gate.clear()
    beside.observe(25.0, 2.0)
    assert beside.forecast(50.0).value == 1.0, "what was known before"
    assert not beside.settle(0.0)
    slow.gate.set()
    assert beside.settle(PATIENCE_SECONDS)
    assert beside.forecast(50.0).value == 2.0


def test_the_first_forecast_waits_for_the_first_fit() -> None:
    slow = Slow()
    beside = Background(slow)
    beside.observe(0.0, 1.0)
    opening = threading.Timer(0.1, slow.gate.set)
    opening.start()
    assert beside.forecast(25.0).value == 1.0
    opening.join()


@pytest.mark.parametrize("name", ["last-value", "online"])
def test_steps_may_be_learnt_together(name: str) -> None:
    series = even(100, LEARNERS["seasonal"], noise=0.03)
    each, together = make(name), make(name)
    for time, value in series:
        each.observe(time, value)
    for begin in range(0, 100, 5):
        together.observe_all(series[begin : begin + 5])
    one, other = (forecaster.forecast(100 * CADENCE).value for forecaster in (each, together))
    assert other == pytest.approx(one, rel=0.2)


def test_a_step_that_is_refused_in_the_background_is_told_once() -> None:
    beside = Background(make("last-value"))
    beside.observe(25.0, 1.0)
    beside.observe(0.0, 2.0)
    assert beside.settle(PATIENCE_SECONDS)
    with pytest.raises(ValueError, match="tell of steps in their order"):
        beside.forecast(50.0)
    assert beside.forecast(50.0).value == 1.0


def test_an_analysis_slower_than_a_known_period_is_warned() -> None:
    for period, is_warned in ((49.0, True), (51.0, False)):
        for name in NAMES:
            forecaster = make(name, period_seconds=period)
            for time, value in even(5, lambda _: 1.0):
                forecaster.observe(time, value)
            warning = forecaster.forecast(125.0).warning
            assert (warning is not None) == is_warned
            assert warning is None or "read at least every 24.5 s" in warning


def test_an_analysis_slower_than_an_unknown_period_is_warned() -> None:
    # Uneven steps still show it.
    said = after("online", uneven(150, shared((31.3, 0, 12))))
    assert said.warning is not None
    assert "cannot follow a disturbance every 31.3 s" in said.warning


def test_a_bandwidth_that_nothing_foresees_is_told() -> None:
    draw = np.random.default_rng(SEED)
    said = after("online", even(150, lambda _: CAPACITY / (1 + draw.integers(0, 4))))
    assert said.warning is not None
    assert "no period is seen" in said.warning
    assert after("online", even(150, LEARNERS["seasonal"], noise=0.03)).warning is None


STEPS = st.lists(
    st.tuples(
        st.one_of(st.just(CADENCE), st.floats(1e-3, 1e6)),
        st.one_of(st.none(), st.floats(0, 1e15), st.sampled_from([0.0, 1.0, 2.0])),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from(NAMES), st.floats(1e-3, 1e6))
@example([(25.0, 0.0)] * 8 + [(25.0, 179769314.0)], "paper-dft", 1.0)
@example([(25.0, 0.0)] + [(25.0, None)] * 3 + [(25.0, 4.5e-236)], "seasonal", 1.0)
@example(
    [(25.0, 0.0), (25.0, None), (25.0, 4.5e-236), *[(25.0, None)] * 4, (25.0, 1.0), *[(25.0, None)] * 3],
    "paper-dft",
    138.0,
)
def test_whatever_came_there_is_a_finite_forecast_within_its_interval(
    steps: list[tuple[float, float | None]], name: str, ahead: float
) -> None:
    forecaster = make(name, window=8)
    time = 0.0
    for gap, value in steps:
        time += gap
        forecaster.observe(time, value)
    if all(value is None for _, value in steps):
        with pytest.raises(NothingObservedError):
            forecaster.forecast(time + ahead)
        return
    said = forecaster.forecast(time + ahead)
    assert math.isfinite(said.high)
    assert 0 <= said.low <= said.value <= said.high


@given(st.integers(1, 130), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_an_inverse_by_halves_is_the_inverse(rows: int, seed: int) -> None:
    some = np.random.default_rng(seed).standard_normal((rows, rows))
    matrix = some @ some.T / rows + np.eye(rows)
    assert np.allclose(inverse_of(matrix) @ matrix, np.eye(rows), atol=1e-8)


@pytest.mark.slow
def test_noise_at_no_pace_warns_of_nothing() -> None:
    for seed in range(4):
        draw = np.random.default_rng(seed)
        gaps = 4 * (1 + 0.5 * np.abs(draw.standard_normal(150)))
        bandwidths = CAPACITY * np.exp(0.25 * draw.standard_normal(150))
        forecaster = make()
        for time, value in zip(np.cumsum(gaps).tolist(), bandwidths.tolist(), strict=True):
            forecaster.observe(time, value)
            assert forecaster.forecast(time + 4).warning is None, f"seed {seed}"
