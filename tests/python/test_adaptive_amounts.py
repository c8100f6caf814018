"""How much is read: the augmentation-bandwidth plot, budgets, and how a step is divided over tiers."""

import json
import math
import random
from itertools import pairwise
from statistics import pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waits import PATIENCE_SECONDS
from weir.adaptive import Accuracy, AdaptiveError, Budget, Plot, Tier, Zone
from weir.adaptive.budget import Solver
from weir.adaptive.manifest import Manifest, ManifestError, Part, Stream, manifest_name, number_of
from weir.adaptive.policy import SILENT_STEPS_MAX, Fixed, Planner, Policy, plan_step, policy_of
from weir.adaptive.tiers import REQUEST_BYTES, divide, tiers_of
from weir.prediction.bandwidth import Forecast, background

MB = 1e6
_BANDWIDTHS = st.floats(0.0, 1e12)
_SIZES = st.integers(0, 1 << 40)


@pytest.fixture(autouse=True)
def _learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, a plan is from the step just before it.
    monkeypatch.setattr(background, "FIT_WAIT_SECONDS", PATIENCE_SECONDS)


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    low = draw(st.floats(0.0, 1e11))
    high = low + draw(st.floats(1.0, 1e11)) + low * 1e-6
    k = draw(st.none() | st.floats(0.0, 1.0))
    return Plot(low, high, k=k, b=draw(st.none() | st.floats(-10.0, 10.0)))


@st.composite
def forecasts(draw: st.DrawFn) -> Forecast:
    value = draw(st.floats(0.0, 1e11))
    return Forecast(value, value * draw(st.floats(0.0, 1.0)), value * draw(st.floats(1.0, 3.0)), "test")


def known(value: float, spread: float = 0.0) -> Forecast:
    return Forecast(value, value * (1 - spread), value * (1 + spread), "test")


def test_the_plot_is_the_papers() -> None:
    plot = Plot(60 * MB, 120 * MB)
    assert plot.degree(60 * MB) == 0.0
    assert plot.degree(90 * MB) == pytest.approx(0.5)
    assert plot.degree(120 * MB) == 1.0
    # A smaller k augments less at the same bandwidth (section IV-C), and the thresholds stand.
    gentle = Plot(60 * MB, 120 * MB, k=0.5 / (60 * MB))
    assert gentle.degree(90 * MB) == pytest.approx(0.25)
    assert gentle.degree(120 * MB) == 1.0
    assert Plot(60 * MB, 120 * MB, k=0.0, b=0.3).degree(61 * MB) == 0.3


@given(plots(), _BANDWIDTHS, _BANDWIDTHS)
def test_more_bandwidth_never_means_less(plot: Plot, one: float, other: float) -> None:
    less, more = sorted((plot.degree(min(one, other)), plot.degree(max(one, other))))
    assert (plot.degree(min(one, other)), plot.degree(max(one, other))) == (less, more)
    assert 0.0 <= less <= more <= 1.0
    assert plot.degree(plot.low) == 0.0
    assert plot.degree(plot.high) == 1.0


@pytest.mark.parametrize(
    ("low", "high", "k"), [(2.0, 1.0, None), (1.0, 1.0, None), (-1.0, 1.0, None), (1.0, 2.0, -1.0)]
)
def test_a_plot_that_falls_is_refused(low: float, high: float, k: float | None) -> None:
    with pytest.raises(AdaptiveError):
        Plot(low, high, k=k)


@given(st.floats(0.001, 1e3), st.floats(0.0, 1.0), forecasts(), _SIZES)
def test_a_time_budget_is_kept_where_the_forecast_holds(
    seconds: float, caution: float, forecast: Forecast, available: int
) -> None:
    solver = Solver(Budget(seconds=seconds, caution=caution))
    amount = solver.amount(forecast, available)
    assert 0 <= amount <= available
    assert amount <= seconds * forecast.value + 1
    if seconds * forecast.low >= available + 1:
        assert amount == available


def test_before_anything_is_known_a_probe_is_read() -> None:
    new = Planner(Tier("anywhere", zone=Zone.AUGMENTATION, request_bytes=1 << 16), Budget(seconds=1.0), warm_up_steps=0)
    assert new.plan(0.0, 1 << 30, accuracy_asked=False).wanted_bytes == 1 << 16
    assert new.plan(0.0, 1000, accuracy_asked=False).wanted_bytes == 1000


@pytest.mark.parametrize("policy", [Budget(seconds=1e-3), Plot(1e11, 1e12)])
def test_a_tier_once_found_slow_is_looked_at_again(policy: Policy) -> None:
    slow = planner(policy, bandwidth=1000.0)
    for step in range(SILENT_STEPS_MAX):
        plan = slow.plan(step + 1.0, 1 << 30, accuracy_asked=False)
        assert plan.wanted_bytes <= 1
        slow.record(plan, step + 1.0, 0, 0.0, None)
    plan = slow.plan(10.0, 1 << 30, accuracy_asked=False)
    assert plan.wanted_bytes == REQUEST_BYTES
    slow.record(plan, 10.0, REQUEST_BYTES, 1.0, 1000.0)
    assert slow.plan(11.0, 1 << 30, accuracy_asked=False).wanted_bytes <= 1


def test_a_tier_that_gives_nothing_is_left_alone_and_asked_for_less() -> None:
    barren = planner(Budget(seconds=1.0))
    read = []
    time = 1.0
    for _ in range(3 * SILENT_STEPS_MAX + 4):
        plan = barren.plan(time, 1 << 30, accuracy_asked=False)
        read.append(plan.wanted_bytes)
        if plan.wanted_bytes:
            barren.record(plan, time, 0, plan.seconds_max, None, begun_bytes=plan.wanted_bytes)
        else:
            barren.record(plan, time, 0, 0.0, None)
        barren.learn()
        time += 3.0
    asked = [step for step, amount in enumerate(read) if amount]
    assert asked == [0, 1, 6, 11]
    assert all(read[before] > read[after] for before, after in pairwise(asked))
    # One answer, and it is a tier like any other.
    plan = barren.plan(time, 1 << 30, accuracy_asked=False)
    barren.record(plan, time, REQUEST_BYTES, 1.0, 90 * MB)
    assert barren.plan(time + 3.0, 1 << 30, accuracy_asked=False).wanted_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize("accepted", [0.01, 0.1, 1.0])
def test_a_variance_is_kept_and_used(accepted: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    solver = Solver(Budget(variance=accepted))
    available = int(1e9)
    times = []
    for step in range(600):
        # A shared tier between 20 and 100 MB/s, foreseen to within about 15 %.
        real = (60 + 40 * math.sin(step)) * MB
        forecast = known(real * math.exp(chance.gauss(0, 0.15)), 0.2)
        amount = solver.amount(forecast, available)
        times.append(amount / real)
        solver.record(forecast, amount, amount / real)
    # Everything would take 10 to 50 s, with a variance of about 150.
    late = pvariance(times[100:])
    assert late < 2.5 * accepted
    assert late > accepted / 2.5, "a budget that is not used is accuracy lost"


def test_without_any_limit_everything_fits_a_variance() -> None:
    solver = Solver(Budget(variance=1e9))
    forecast = known(100 * MB, 0.1)
    for _ in range(6):
        solver.record(forecast, 1 << 20, (1 << 20) / (100 * MB))
    assert solver.amount(forecast, 1 << 30) == 1 << 30


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seconds": 1.0, "variance": 1.0},
        {"seconds": 0.0},
        {"variance": -1.0},
        {"seconds": 1, "caution": 2},
        {"seconds": 2.0, "seconds_max": 1.0},
        {"variance": 1.0, "seconds_max": 0.0},
    ],
)
def test_a_budget_that_says_nothing_or_two_things_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(AdaptiveError):
        Budget(**options)


def test_an_accuracy_is_one_thing() -> None:
    with pytest.raises(AdaptiveError):
        Accuracy()
    with pytest.raises(AdaptiveError):
        Accuracy(rmse=1.0, psnr=60.0)
    with pytest.raises(AdaptiveError):
        Accuracy(rmse=math.nan)


def planner(policy: Policy, zone: Zone = Zone.AUGMENTATION, bandwidth: float | None = 90 * MB) -> Planner:
    made = Planner(Tier("memory://x", zone=zone, forecaster="last-value"), policy, warm_up_steps=0)
    if bandwidth is not None:
        made.record(made.plan(0.0, 100, accuracy_asked=False), 0.0, 100, 1.0, bandwidth)
    return made


def test_zones_are_the_papers() -> None:
    plot = Plot(60 * MB, 120 * MB)

    def wanted(policy: Policy, zone: Zone, *, asked: bool = False) -> int:
        return planner(policy, zone).plan(1.0, 1000, accuracy_asked=asked).wanted_bytes

    assert wanted(plot, Zone.ISOLATION) == 1000
    assert wanted(plot, Zone.AUGMENTATION) == 500
    assert wanted(plot, Zone.BEST_EFFORT) == 0
    assert wanted(plot, Zone.BEST_EFFORT, asked=True) == 1000
    for zone in Zone:
        assert wanted(Fixed.BEST_EFFORT, zone) == 1000
        assert wanted(Fixed.ISOLATION, zone) == (1000 if zone is Zone.ISOLATION else 0)


def test_a_tier_is_read_only_behind_tiers_that_are_read_whole() -> None:
    plot = Plot(60 * MB, 120 * MB)
    plans = plan_step([planner(plot), planner(plot)], [1000, 1000], 1.0, accuracy_asked=False)
    assert [plan.wanted_bytes for plan in plans] == [500, 0]
    plans = plan_step([planner(plot, bandwidth=1e9), planner(plot)], [1000, 1000], 1.0, accuracy_asked=False)
    assert [plan.wanted_bytes for plan in plans] == [1000, 500]


def test_a_plot_without_a_past_reads_everything() -> None:
    plot = Plot(60 * MB, 120 * MB)
    assert planner(plot, bandwidth=None).plan(0.0, 1000, accuracy_asked=False).wanted_bytes == 1000


def test_a_tiers_own_plot_beats_the_policys() -> None:
    own = Tier("memory://x", zone=Zone.AUGMENTATION, plot=Plot(1.0, 2.0), forecaster="last-value")
    made = Planner(own, Plot(60 * MB, 120 * MB), warm_up_steps=0)
    made.record(made.plan(0.0, 100, accuracy_asked=False), 0.0, 100, 1.0, 10.0)
    assert made.plan(1.0, 1000, accuracy_asked=False).wanted_bytes == 1000


def test_a_policy_has_a_name_that_is_known() -> None:
    assert policy_of("best-effort") is Fixed.BEST_EFFORT
    with pytest.raises(AdaptiveError, match="greedy"):
        policy_of("greedy")


def test_a_forecaster_has_a_name_that_is_known() -> None:
    with pytest.raises(AdaptiveError, match="memory://x: unknown forecaster `oracle`"):
        Tier("memory://x", forecaster="oracle")
    with pytest.raises(AdaptiveError, match="memory://x"):
        Planner(Tier("memory://x", period_seconds=-1.0), Fixed.BEST_EFFORT, warm_up_steps=0)


def test_a_threshold_is_that_of_the_tiers_fourier_transform() -> None:
    def expected(threshold: float | None) -> float:
        tier = Tier("memory://x", zone=Zone.AUGMENTATION, forecaster="paper-dft", threshold=threshold)
        made = Planner(tier, Plot(1.0, 2.0), warm_up_steps=0)
        for step in range(48):
            angle = 2 * math.pi * step / 48
            bandwidth = 50 + 20 * math.cos(4 * angle) + 10 * math.cos(9 * angle)
            made.record(made.plan(float(step), 100, accuracy_asked=False), float(step), 100, 1.0, bandwidth)
        forecast = made.plan(48.0, 100, accuracy_asked=False).forecast
        assert forecast is not None
        return forecast.value

    assert expected(None) == pytest.approx(80)
    assert expected(0.25) == pytest.approx(80)
    assert expected(0.75) == pytest.approx(70)
    with pytest.raises(AdaptiveError, match="a threshold of 1"):
        Tier("memory://x", threshold=1.5)


def test_tiers_are_spelled_with_their_zone() -> None:
    tiers = tiers_of(["isolation=/a=b", "s3://c/zone=d", "best-effort=memory://e"])
    assert [(tier.url, tier.zone) for tier in tiers] == [
        ("/a=b", Zone.ISOLATION),
        ("s3://c/zone=d", Zone.AUGMENTATION),
        ("memory://e", Zone.BEST_EFFORT),
    ]
    assert tiers_of("/alone")[0].zone is Zone.AUGMENTATION
    for wrong in ([], ["/a", "/a"], [""]):
        with pytest.raises(AdaptiveError):
            tiers_of(wrong)


@given(
    st.lists(st.none() | st.floats(0.0, 0.2), min_size=1, max_size=5),
    st.integers(1, 1000),
    st.integers(0, 100_000),
)
def test_a_step_is_divided_by_shares(shares: list[float | None], base_end: int, rest: int) -> None:
    tiers = [Tier(f"memory://{index}", share=share) for index, share in enumerate(shares)]
    parts = divide(tiers, base_end=base_end, total=base_end + rest)
    assert len(parts) == len(tiers)
    assert parts[0][0] == 0
    assert parts[0][1] >= base_end
    for (offset, length), (begin, _) in pairwise(parts):
        assert offset + length == begin
    assert sum(parts[-1]) == base_end + rest
    for share, (_, length) in list(zip(shares, parts, strict=True))[1:-1]:
        assert share is None or abs(length - share * rest) <= 1


def test_shares_are_parts_of_one_whole() -> None:
    with pytest.raises(AdaptiveError, match=r"1\.2"):
        divide([Tier("a"), Tier("b", share=0.6), Tier("c", share=0.6)], base_end=1, total=2)
    # By default the first has the base alone, and each that follows four times what the one before it has.
    assert divide([Tier("a"), Tier("b"), Tier("c")], base_end=10, total=110) == [
        (0, 10),
        (10, 20),
        (30, 80),
    ]


def test_a_manifest_comes_back() -> None:
    manifest = Manifest(7, "ab12", "float32", (3, 4), "planes", 9, 10, (Part("a", 0, 12), Part("b", 12, 5)))
    assert Manifest.decode(manifest.encode()) == manifest
    assert manifest.total_bytes == 17
    stream = Stream(
        "ab12", "cd34", "float32", (3, 4), (("/a", "isolation"), ("/b", "augmentation")), "planes", 0.5, False
    )
    assert Stream.decode(stream.encode()) == stream


@given(st.integers(0, 10**15))
def test_a_manifests_name_says_its_step(number: int) -> None:
    assert number_of(manifest_name(number)) == number


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["weir_adaptive_step", "weir_adaptive_stream", "step", "shape", "parts", "name", "tiers"]),
            inner,
        )
    ),
    max_leaves=20,
)


@given(st.binary() | _JSON.map(lambda document: json.dumps(document).encode()))
def test_any_bytes_are_a_manifest_or_an_error(data: bytes) -> None:
    for kind in (Manifest, Stream):
        try:
            kind.decode(data)
        except ManifestError:
            continue


@given(st.data())
def test_a_manifest_with_one_field_changed_still_fits_together(data: st.DataObject) -> None:
    manifest = Manifest(7, "ab12", "float32", (3, 4), "planes", 9, 10, (Part("a", 0, 12), Part("b", 12, 5)))
    document = json.loads(manifest.encode())
    at = data.draw(st.sampled_from([document, *document["parts"]]))
    at[data.draw(st.sampled_from(sorted(at)))] = data.draw(_JSON)
    try:
        read = Manifest.decode(json.dumps(document).encode())
    except ManifestError:
        return
    assert 0 < read.base_end <= read.parts[0].end
    assert read.total_bytes == sum(part.length for part in read.parts)


def test_a_zone_that_there_is_not_is_no_folder() -> None:
    """`isolatoin=/fast` was a folder of that name below the present one."""
    for text in ("isolatoin=/fast", "foo=x2", "=x", "Isolation=s3://bucket/run"):
        with pytest.raises(AdaptiveError, match="there is no zone") as caught:
            Tier.parse(text)
        assert f"./{text}" in caught.value.hint
    for text in ("/data/day=3", "./day=3", "s3://bucket/day=3", "~/day=3", "run/day=3"):
        assert (Tier.parse(text).url, Tier.parse(text).zone) == (text, None)
    assert Tier.parse("isolation=/data/day=3").url == "/data/day=3"
