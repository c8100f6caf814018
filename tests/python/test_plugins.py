"""Algorithms of one's own: every door takes those of `examples/plugins`, and a faulty one is named and ends the run."""

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import documentation
import numpy as np
import plugin_doors
import pytest
import windows
from plugin_doors import DOORS, SCENARIO, Reader
from weir.adaptive import own_codec
from weir.adaptive.array import restore
from weir.adaptive.containers import refactor
from weir.adaptive.errors import AdaptiveError
from weir.adaptive.tiers import Tier
from weir.interference.evaluation import evaluate
from weir.plugins import ALLOCATOR, CODEC, FORECASTER, KINDS, SCHEDULER, Plugin, PluginError, given, named
from weir.plugins.allocator import CheckedAllocator, Demand, Target
from weir.plugins.scheduler import CheckedScheduler, WaitingJob
from weir.prediction.bandwidth import make
from weir.simulation.errors import ScenarioError
from weir.simulation.runs import run
from weir.simulation.scenario import parse_scenario
from weir.simulation.sweeps.execution import check
from weir.simulation.sweeps.plan import read_plan

ROOT = Path(__file__).resolve().parents[2]
TARGETS = [Target(f"0.{index}", 0, 1.0, 0.0, 1 << 30, float("inf"), 0.0) for index in range(3)]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the package of examples is installed."""
    folder = tmp_path_factory.mktemp("plugins") / "package"
    plugin_doors.install(folder)
    return folder


@pytest.fixture
def user(tmp_path: Path, package: Path) -> Reader:
    return Reader(tmp_path, package)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Makes a plug-in of a class, and returns its place."""
    module = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)

    def made(kind: type) -> str:
        kind.__module__ = "mine"
        setattr(module, kind.__name__, kind)
        return f"mine:{kind.__name__}"

    yield made


def simulated(keys: str) -> Any:
    return run(parse_scenario(SCENARIO.format(keys), origin="scenario", folder=Path()))


# The doors.


SLOW = (plugin_doors.forecaster_beside_ours,)
"""Doors that take many seconds."""


@pytest.mark.parametrize(
    "door",
    [
        pytest.param(door, id=door.__name__, marks=[pytest.mark.slow] if door in SLOW else [])
        for doors in DOORS.values()
        for door in doors
    ],
)
def test_a_door_takes_the_plugin_of_its_kind(user: Reader, door: Callable[[Reader], None]) -> None:
    door(user)


def test_every_kind_has_doors_a_page_and_an_example(user: Reader) -> None:
    assert DOORS.keys() == KINDS.keys()
    listed = user.document("plugins")
    assert {line["kind"] for line in listed} == KINDS.keys()
    assert all(line["state"] == "loads" and line["summary"] and line["package"] for line in listed), listed
    for kind in KINDS.values():
        text = (ROOT / kind.page).read_text()
        assert all(f"`{method}(" in text for method in kind.methods), kind.page


def test_the_example_of_the_page_of_models_runs(mine: Callable[..., str]) -> None:
    """The other pages run as they are printed (test_documentation.py); this one needs windows."""
    (block,) = [
        block for block in documentation.blocks(ROOT / "docs/extend/interference-model.md") if "file" in block.marks
    ]
    scope: dict[str, Any] = {}
    exec(block.body, scope)
    found = evaluate(windows.made(1), names=(mine(scope["Nearest"]), "majority"))
    f1 = {(score.split, score.estimator): score.f1 for score in found.scores}
    assert f1["other runs", "mine:Nearest"] > f1["other runs", "majority"]


def test_a_scenario_has_one_outcome(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(package))
    keys = 'scheduler = "lottery"\nallocator = "two-choices"\nseed = {}'
    first, again, other = (simulated(keys.format(seed)) for seed in (1, 1, 2))
    assert [job.ended_seconds for job in first.jobs] == [job.ended_seconds for job in again.jobs]
    assert [job.ended_seconds for job in first.jobs] != [job.ended_seconds for job in other.jobs]


# Names.


def test_what_is_no_plugin_is_named(mine: Callable[..., str]) -> None:
    class Idle:
        """It has no method."""

    for name, words in (
        ("oracle", "unknown allocator `oracle`: expected one of balanced, or `module:attribute`"),
        ("balancd", r"did you mean `balanced`\?"),
        ("no_such_module:It", "`no_such_module:It`.* failed in its import.*ModuleNotFoundError"),
        ("mine:It", "`mine:It` is not there: mine has no It"),
        (mine(Idle), "`mine:Idle` has no method `allocate`"),
    ):
        with pytest.raises(PluginError, match=words) as raised:
            named(ALLOCATOR, name, ("balanced",)).load()
        assert raised.value.plugin == name
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_names_of_each_door_are_checked_before_anything_is_done(user: Reader) -> None:
    user.write("scenario.toml", SCENARIO.format('scheduler = "oracle"'))
    user.write("mode.toml", SCENARIO.format('scheduler = "lottery"').replace('"request"', '"flow"'))
    user.write("jobs.toml", SCENARIO.format("").replace('"ior"', '"oracle"'))
    for words, told in (
        (("simulate", "run", "scenario.toml"), "scenario.toml: line 4: scheduler: unknown scheduler `oracle`"),
        (("simulate", "run", "mode.toml"), 'set mode = "request"'),
        (("simulate", "run", "jobs.toml"), "unknown workload `oracle`"),
        (("bench", "figure-12", "--scheduler", "oracle"), "unknown scheduler `oracle`"),
        (("bench", "figure-12", "--scheduler", "mine:Oracle"), "No module named 'mine'"),
        (("adapt", "steps", "fast", "--forecaster", "oracle"), "unknown forecaster `oracle`"),
        (("adapt", "refactor", "x.npy", "--tier", "fast", "--codec", "mine:It"), "is named by its place"),
        (("interference", "evaluate", "x", "--estimator", "oracle"), "unknown interference model `oracle`"),
        (("place", "--creations", __file__, "--allocator", "oracle"), "unknown allocator `oracle`"),
        (("place", "--from", __file__, "--forecaster", "oracle"), "unknown forecaster `oracle`"),
    ):
        assert told in user.weir(*words, code=2).replace("\n", " "), words


def test_a_package_that_does_not_load_is_listed_so(user: Reader) -> None:
    folder = user.folder / "broken-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(
        "[weir.codecs]\ngone = no_such_module:It\nplanes = no_such_module:It\nbit-rounding = no_such_module:It\n"
    )
    # The present folder stands on the path of `python -m`.
    answer = user.weir("plugins", "--kind", "codec", code=1)
    assert "does not load" in answer and "No module named" in answer
    assert "hidden by Weir's own of that name" in answer
    words = ("adapt", "refactor", "x.npy", "--tier", "fast", "--codec", "bit-rounding")
    assert "is declared by broken 1 and weir-plugin-examples 0.1.0" in user.weir(*words, code=2)


def test_a_given_class_is_a_plugin() -> None:
    class Constant:
        """Always seven."""

        def fit(self, times: Any, values: Any) -> Callable[[float], float]:
            return lambda time: 7.0

    forecaster = make(Constant)
    forecaster.observe(0.0, 1.0)
    assert forecaster.forecast(1.0).value == 7.0
    assert Tier("memory://x", forecaster=Constant).forecaster is Constant
    with pytest.raises(PluginError, match="is no class, and no function that makes one"):
        given(FORECASTER, 7)


# Faults.


def test_an_exception_of_a_scheduler_names_it_and_ends_the_run(mine: Callable[..., str]) -> None:
    class Failing:
        """It fails at its tenth choice."""

        def __init__(self, seed: int) -> None:
            self.left = 10

        def choose(self, waiting: Any, now_seconds: float) -> Any:
            self.left -= 1
            return waiting[0 if self.left else len(waiting)]

    place = mine(Failing)
    with pytest.raises(PluginError, match=r"`mine:Failing` failed in choose, at .*test_plugins.py:\d+") as raised:
        simulated(f'scheduler = "{place}"')
    assert isinstance(raised.value.__cause__, IndexError)


def test_an_exception_of_an_allocator_names_it_and_ends_the_run(mine: Callable[..., str]) -> None:
    class Unmade:
        """It cannot be made."""

        def __init__(self, seed: int) -> None:
            raise SystemExit(3)

        def allocate(self, targets: Any, demands: Any) -> Any:
            return []

    for mode in ("flow", "request"):
        with pytest.raises(PluginError, match=r"allocator `mine:Unmade` failed in its making.*SystemExit: 3"):
            text = SCENARIO.format(f'allocator = "{mine(Unmade)}"').replace('"request"', f'"{mode}"')
            run(parse_scenario(text, origin="scenario", folder=Path()))


def test_a_fault_ends_a_command_with_its_words(user: Reader) -> None:
    user.write("mine.py", "class Wrong:\n    def __init__(self, seed): pass\n    def choose(self, *_): return None\n")
    user.write("sweep.toml", SCENARIO.format("") + '\n[sweep]\nscheduler = ["virtual-time", "mine:Wrong"]\n')
    answer = user.weir("simulate", "sweep", "sweep.toml", code=1)
    assert "error: the scheduler `mine:Wrong` gave a wrong answer in choose: None is none of the jobs" in answer
    assert "see docs/extend/scheduler.md" in answer
    assert "Traceback" not in answer


def test_an_interruption_in_a_plugin_is_the_users(mine: Callable[..., str]) -> None:
    class Interrupted:
        """Ctrl-C comes while it chooses."""

        def __init__(self, seed: int) -> None:
            pass

        def choose(self, waiting: Any, now_seconds: float) -> Any:
            raise KeyboardInterrupt

    assert simulated(f'scheduler = "{mine(Interrupted)}"').is_interrupted


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None is none of the jobs that wait, and no time"),
        ("job", "'job' is none of the jobs"),
        (True, "True is none of the jobs"),
        (1.0, "it waits until 1 s, and it is 1 s already"),
        (float("nan"), "it waits until nan s"),
        (float("inf"), "it waits until inf s"),
    ],
)
def test_choices_that_cannot_be_made(answer: Any, words: str) -> None:
    class Choosing:
        def __init__(self, seed: int) -> None:
            pass

        def choose(self, waiting: Any, now_seconds: float) -> Any:
            return answer

    scheduler = CheckedScheduler(given(SCHEDULER, Choosing), [WaitingJob("a", "u", "g", 1, 1)], 0)
    with pytest.raises(PluginError, match=words):
        scheduler.choose([(0, 1, 1.0, 0.1, 0.0, 0.0)], 1.0)


def test_a_scheduler_that_never_serves_ends(monkeypatch: pytest.MonkeyPatch, mine: Callable[..., str]) -> None:
    class Never:
        """It always waits for a later moment."""

        def __init__(self, seed: int) -> None:
            pass

        def choose(self, waiting: Any, now_seconds: float) -> float:
            return now_seconds + 1e-3

    monkeypatch.setattr("weir.plugins.scheduler.HOLDS_MAX", 100)
    with pytest.raises(PluginError, match="it served nobody 100 times in a row"):
        simulated(f'scheduler = "{mine(Never)}"')


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "None is no list of lists of places"),
        ([[0.5, 1]], "is no list of lists of places"),
        ([], "it has targets for 0 demands, and there are 1"),
        ([[0]], "demand 0 has 1 targets for 2 stripes"),
        ([[1, 1]], "demand 0 has a target twice"),
        ([[0, 3]], r"demand 0 has \[0, 3\], and places are 0 to 2"),
        ([[-1, 0]], "places are 0 to 2"),
    ],
)
def test_targets_that_cannot_be_given(answer: Any, words: str) -> None:
    class Placing:
        def __init__(self, seed: int) -> None:
            pass

        def allocate(self, targets: Any, demands: Any) -> Any:
            return answer

    with pytest.raises(PluginError, match=words):
        CheckedAllocator(given(ALLOCATOR, Placing), 0).allocate(TARGETS, [Demand(2, 1 << 20, 0)])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (7.0, "7.0 is no function of a time"),
        (lambda time: None, "None at 1 s is no finite number"),
        (lambda time: float("nan"), "nan at 1 s is no finite number"),
        (lambda time: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_forecasts_that_are_none(answer: Any, words: str) -> None:
    class Forecasting:
        def fit(self, times: Any, values: Any) -> Any:
            return answer

    forecaster = make(Forecasting)
    with pytest.raises(PluginError, match=words):
        forecaster.observe(0.0, 1.0)
        forecaster.forecast(1.0)


def test_a_fault_of_a_forecaster_ends_the_reading(tmp_path: Path) -> None:
    from weir import adaptive

    class Failing:
        """It fails."""

        def fit(self, times: Any, values: Any) -> Any:
            raise RuntimeError("no idea")

    tiers: list[str | Tier] = [str(tmp_path / "fast"), Tier(str(tmp_path / "shared"), forecaster=Failing)]
    adaptive.write(tiers, np.random.default_rng(1).normal(size=(6, 64, 64)))
    with (
        adaptive.open(tiers, policy=adaptive.Plot(1.0, 2.0), tolerant=True) as reader,
        pytest.raises(PluginError, match=r"Failing` failed in fit, at .*RuntimeError: no idea"),
    ):
        for _ in reader:
            pass


class Parts:
    """A codec whose answers are given."""

    def __init__(self, parts: Any, array: Any) -> None:
        self.parts, self.array = parts, array

    def encode(self, values: Any, tolerance: Any) -> Any:
        return self.parts

    def decode(self, parts: Any, shape: Any, dtype: Any) -> Any:
        return self.array


@pytest.mark.parametrize(
    ("parts", "array", "words"),
    [
        (7, None, "it is no list of bytes"),
        ([1.5], None, "it is no list of bytes"),
        ([], None, "0 parts are not 1 to 4096"),
        ([b"x"], None, r"NoneType is no array of float64 \(2, 2\)"),
        ([b"x"], np.zeros(4), r"float64 \(4,\) is no array of float64 \(2, 2\)"),
        ([b"x"], np.zeros((2, 2), "f4"), r"float32 \(2, 2\) is no array"),
        ([b"x"], np.full((2, 2), np.nan), "values that are not finite"),
        ([b"x"], np.ones((2, 2)), "all parts leave an error of 1, and 0.5 was asked"),
    ],
)
def test_parts_that_are_none(parts: Any, array: Any, words: str) -> None:
    plugin = given(CODEC, lambda: Parts(parts, array))
    with pytest.raises(PluginError, match=words):
        own_codec.refactor(np.zeros((2, 2)), plugin, tolerance=0.5, exact=False, fill=None)


@pytest.mark.parametrize(
    ("probabilities", "words"),
    [
        ("many", "str is no array of numbers"),
        (np.zeros((3, 2)), r"its shape is \(3, 2\)"),
        (lambda count: np.zeros((count, 2)), "add up to 0"),
        (lambda count: np.full((count, 2), np.nan), "is not from 0 to 1"),
        (lambda count: np.tile([1.5, -0.5], (count, 1)), "is not from 0 to 1"),
    ],
)
def test_probabilities_that_are_none(probabilities: Any, words: str, mine: Callable[..., str]) -> None:
    class Guessing:
        """It guesses."""

        def __init__(self, seed: int) -> None:
            pass

        def fit(self, windows: Any, classes: Any, count: int) -> None:
            pass

        def probabilities(self, windows: Any) -> Any:
            return probabilities(len(windows.pooled)) if callable(probabilities) else probabilities

    with pytest.raises(PluginError, match=words):
        evaluate(windows.made(1), names=(mine(Guessing),))


def test_work_that_cannot_be_run(mine: Callable[..., str]) -> None:
    from dataclasses import dataclass

    from weir.simulation.workload import Steps, Work
    from weir.simulation.workloads.parameters import whole

    ones, files = np.zeros(1, np.uint32), np.zeros(1, np.uint64)

    def work(**columns: Any) -> Work:
        return Work(1, ones, files, Steps.of(1, **columns))

    found: list[Any] = []

    @dataclass(frozen=True)
    class Working:
        """Its work is given."""

        processes: int = whole(1, "processes")

        def work(self, random: Any) -> Any:
            return found[0]

    place = mine(Working)
    for each, words in (
        (None, "NoneType is no weir.simulation.workload.Work"),
        (work(stream=1), "a step is of stream 1, and there are 1"),
        (work(kind=9), "a step is of kind 9, and kinds are 0 to 6"),
        (work(kind=4, file=1), "a step is of file 1, and there are 1"),
        (work(after_seconds=-1.0), "a pause of a step is no time"),
        (Work(0, ones, files, Steps.of(1)), "a stream is on a node that is none of its 0"),
        (Work(1, ones, files, Steps.of(1), layouts=(None, None)), "it has 2 layouts for 1 files"),
    ):
        found[:] = [each]
        with pytest.raises(PluginError, match=f"`mine:Working` gave a wrong answer in work: {words}"):
            parse_scenario(f'topology = "1x1"\n[[jobs]]\ngenerator = "{place}"', origin="s", folder=Path())

    @dataclass(frozen=True)
    class Undeclared:
        """A parameter without a kind."""

        processes: int = 1

        def work(self, random: Any) -> Any:
            return None

    with pytest.raises(ScenarioError, match=r"parameter processes of the workload `mine:Undeclared` is not declared"):
        parse_scenario(f'topology = "1x1"\n[[jobs]]\ngenerator = "{mine(Undeclared)}"', origin="s", folder=Path())


# Codecs of streams.


class Bytes:
    """The values' bytes, the most significant half first."""

    def encode(self, values: Any, tolerance: Any) -> list[bytes]:
        raw = values.view(np.uint32)
        return [(raw >> 16).astype(np.uint16).tobytes(), (raw & 0xFFFF).astype(np.uint16).tobytes()]

    def decode(self, parts: Any, shape: Any, dtype: Any) -> Any:
        raw = np.frombuffer(parts[0], np.uint16).astype(np.uint32) << 16
        if len(parts) > 1:
            raw |= np.frombuffer(parts[1], np.uint16)
        return raw.view(dtype).reshape(shape)


def test_a_container_states_its_errors_and_keeps_missing_cells(mine: Callable[..., str]) -> None:
    values = np.random.default_rng(1).normal(size=(16, 16)).astype("f4")
    values[0, 0], values[1, 1], values[2, 2] = np.nan, np.inf, -9999
    container = refactor(values, codec=mine(Bytes), exact=True, fill=np.array([-9999], "f4"))
    assert np.array_equal(restore(container).data, values, equal_nan=True)
    base = own_codec.OwnContainer(container).table[0][0]
    half = restore(container[:base])
    assert np.isnan(half.data[0, 0]) and half.data[1, 1] == np.inf and half.data[2, 2] == -9999
    ordinary = np.isfinite(values) & (values != -9999)
    errors = np.abs(half.data[ordinary].astype("f8") - values[ordinary])
    assert half.max_error == pytest.approx(errors.max()) and half.rmse == pytest.approx(np.sqrt((errors**2).mean()))
    assert restore(container, region=[(3, 5), (0, 16)]).data.shape == (2, 16)


def test_a_damaged_container_is_told(mine: Callable[..., str]) -> None:
    container = bytearray(refactor(np.ones((8, 8), "f4"), codec=mine(Bytes)))
    header = own_codec.OwnContainer(bytes(container))
    container[header.table[0][0]] ^= 1
    restored = restore(bytes(container))
    assert len(restored.damaged) == 1 and restored.max_error == header.table[0][2]
    container[header.header_bytes] ^= 1
    with pytest.raises(ValueError, match="the base is missing or damaged"):
        restore(bytes(container))
    for place in (0, 9, 13, 40):
        broken = bytearray(container)
        broken[place] ^= 0x55
        with pytest.raises(ValueError):
            restore(bytes(broken))
    for end in (0, 4, 20, header.header_bytes - 1):
        with pytest.raises(ValueError):
            restore(bytes(container[:end]))


def test_data_never_import_a_place(mine: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    container = refactor(np.ones((8, 8), "f4"), codec=mine(Bytes))
    monkeypatch.setattr(own_codec, "_CHOSEN", {})
    with pytest.raises(PluginError, match="written by the codec `mine:Bytes`, which no installed package declares"):
        restore(container)
    with pytest.raises(AdaptiveError, match="is named by its place"):
        from weir.adaptive.writer import Writer

        Writer("memory://places", codec="mine:Bytes")


# Sweeps.


def test_a_changed_plugin_makes_other_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "class Mine:\n    def __init__(self, seed): pass\n    def choose(self, waiting, now): return waiting[{}]\n"
    plan = tmp_path / "sweep.toml"
    plan.write_text(SCENARIO.format("") + '\n[sweep]\nscheduler = ["virtual-time", "swept:Mine"]\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = []
    for place in ("0", "-1"):
        (tmp_path / "swept.py").write_text(text.format(place))
        sys.modules.pop("swept", None)
        import importlib
        import linecache

        importlib.invalidate_caches()
        linecache.clearcache()
        keys.append([point.key for point in check(read_plan(plan), has_slowdowns=False).points])
    sys.modules.pop("swept", None)
    assert keys[0][0] == keys[1][0] and keys[0][1] != keys[1][1]


def test_a_plugin_travels_by_its_name() -> None:
    plugin = Plugin(SCHEDULER, "lottery", "weir_plugin_examples.lottery:Lottery", "weir-plugin-examples 0.1.0")
    assert pickle.loads(pickle.dumps(plugin)) == plugin
