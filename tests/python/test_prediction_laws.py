"""Laws of counts and sizes, and forecasts of series."""

import math
import subprocess
import sys

import pytest
from waits import PATIENCE_SECONDS
from weir.prediction.arima import forecast
from weir.prediction.context import Context, context_of
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
