"""Laws of counts and sizes, and forecasts of series."""

import math
import subprocess
import sys

import pytest
from waits import PATIENCE_SECONDS
from weir.prediction.arima import forecast
from weir.prediction.context import Context, context_of
from weir.prediction.forecasters import Regression
from weir.prediction.laws import Observation, law_of


def seen(value: float, *arguments: str, ranks: int = 8) -> Observation:
    return Observation(context_of(arguments, ranks=ranks), value)


def expected(observations: list[Observation], *arguments: str, ranks: int = 8) -> float | None:
    coming: Context = context_of(arguments, ranks=ranks)
    law = law_of(observations, coming)
    return None if law is None else law.of(coming)


def test_strong_scaling() -> None:
    past = [seen((1 << 30) / ranks, ranks=ranks) for ranks in (8, 16)]
    assert expected(past, ranks=64) == pytest.approx((1 << 30) / 64)


def test_weak_scaling() -> None:
    assert expected([seen(5000, ranks=8), seen(5000, ranks=16)], ranks=64) == 5000


def test_a_header_and_a_body() -> None:
    past = [seen(4096 + 38 * particles, "-p", str(particles)) for particles in (1000, 2000, 5000)]
    assert expected(past, "-p", "40000") == 4096 + 38 * 40000


def test_a_header_and_a_body_of_each_rank() -> None:
    past = [
        seen(ranks * (4096 + 38 * particles), "-p", str(particles), ranks=ranks)
        for ranks, particles in ((8, 1000), (4, 5000), (16, 5000), (8, 9000))
    ]
    assert expected(past, "-p", "20000", ranks=64) == 64 * (4096 + 38 * 20000)


def test_a_header_of_the_file_and_a_body_of_each_rank() -> None:
    """Two different scales determine both factors, and no run is left to test them: whole factors are bytes."""
    past = [seen(496 + 1293 * ranks, ranks=ranks) for ranks in (2, 4, 4)]
    assert expected(past, ranks=8) == 10840
    assert expected(past[:2], ranks=8) == 10840


def test_of_two_scales_only_whole_factors_count() -> None:
    past = [seen(1000, ranks=2), seen(1777, ranks=6), seen(1777, ranks=6)]
    assert expected(past, ranks=8) is None
    assert expected([seen(1000, ranks=2), seen(1777, ranks=4), seen(1778, ranks=4)], ranks=8) is None


def test_a_number_that_is_no_size_is_on_no_line() -> None:
    past = [seen(4711, ranks=2), seen(9123, ranks=4)]
    coming = context_of([], ranks=8)
    assert law_of(past, coming) is not None
    assert law_of(past, coming, is_tested=True) is None
    assert Regression().first(past, [4712, 9124], coming) is None


def test_a_quotient_and_one_more() -> None:
    past, coming = [seen(26, "--steps", "100", "--every", "4")], context_of(["--steps", "400", "--every", "4"], ranks=8)
    law = law_of(past, coming, is_count=True)
    assert law is not None
    assert law.of(coming) == 101
    assert expected(past, "--steps", "400", "--every", "4") == 26, "a size or a stride has not one more"
    assert expected([seen(25, "--steps", "100", "--every", "4")], "--steps", "400", "--every", "8") == 50


def test_an_argument_explains_before_the_ranks_do() -> None:
    past = [seen(100 * scale, "-x", str(scale), ranks=ranks) for ranks, scale in ((2, 100), (4, 200))]
    assert expected(past, "-x", "300", ranks=4) == 30_000
    assert law_of(past, context_of(["-x", "300"], ranks=4), grows_with_ranks=True) is not None


def test_a_cube_divided_among_ranks() -> None:
    past = [
        seen(8 * edge**3 / ranks, "--edge", str(edge), ranks=ranks) for edge, ranks in ((64, 8), (128, 8), (128, 16))
    ]
    assert expected(past, "--edge", "256", ranks=64) == pytest.approx(8 * 256**3 / 64)


def test_a_product_of_arguments_is_known_from_one_run() -> None:
    past = [seen((1 << 20) * 4 * 8, "-b", "1m", "-s", "4", ranks=8)]
    assert expected(past, "-b", "2m", "-s", "3", ranks=16) == (2 << 20) * 3 * 16


def test_a_seed_is_no_size() -> None:
    past = [seen(1 << 20, "-b", "1m", "-u", "1")]
    assert expected(past, "-b", "1m", "-u", "2") == 1 << 20
    past = [seen(1 << 20, "-b", "1m", "-u", str(seed)) for seed in (1, 2, 3)]
    assert expected(past, "-b", "1m", "-u", "4") == 1 << 20


def test_noise_within_what_a_prediction_may_miss() -> None:
    past = [seen(38_000 * (1 + 0.004 * math.sin(run)), "-u", str(run)) for run in (1, 2, 3, 4)]
    answer = expected(past, "-u", "5")
    assert answer is not None and answer == pytest.approx(38_000, rel=0.005)


def test_what_follows_nothing_has_no_law() -> None:
    past = [seen(value, "-u", str(run)) for run, value in enumerate((17, 9000, 3, 550, 12), start=1)]
    assert law_of(past, context_of(["-u", "6"], ranks=8)) is None


@pytest.mark.parametrize(
    ("series", "following"),
    [
        ([7], [7, 7, 7]),
        ([5, 5, 5], [5, 5, 5]),
        ([0, 10, 20], [30, 40, 50]),
        ([1, 4, 9, 16, 25], [36, 49, 64]),
        ([1, 100, 1, 100], [1, 100, 1]),
        ([3, 8], [8, 8, 8]),
    ],
)
def test_series_without_noise(series: list[float], following: list[float]) -> None:
    assert forecast(series, 3) == following


def test_a_noisy_trend_is_followed() -> None:
    series = [1000 + 50 * step + 5 * math.sin(7 * step) for step in range(40)]
    answer = forecast(series, 10)
    assert answer == pytest.approx([1000 + 50 * step for step in range(40, 50)], rel=0.02)


def test_a_series_that_returns_to_its_mean() -> None:
    series = [100.0]
    for step in range(60):
        series.append(100 + 0.6 * (series[-1] - 100) + 3 * math.sin(11 * step))
    assert forecast(series, 20)[-1] == pytest.approx(100, rel=0.05)


def test_statsmodels_is_imported_only_to_fit() -> None:
    script = (
        "import sys\n"
        "from weir.prediction.creations import predict\n"
        "from weir.prediction.arima import forecast\n"
        "forecast([1, 2, 3, 4, 5, 6, 7, 8, 9], 2)\n"
        "assert 'statsmodels' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE_SECONDS)
