"""Steps written onto real tiers and read again: whole, in part, late, damaged, by threads and by tasks."""

import asyncio
import contextlib
import json
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy
import numpy.typing as npt
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from places import Gated
from waits import PATIENCE_SECONDS
from weir import adaptive
from weir.adaptive import lanes
from weir.adaptive.manifest import manifest_name

Array = npt.NDArray[Any]
FIELD = Path(__file__).resolve().parents[1] / "data" / "fields" / "echam_t_17x96x192.npy"


@pytest.fixture(scope="module")
def field() -> Array:
    array: Array = numpy.load(FIELD)
    return array


@pytest.fixture
def tiers(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "fast"), str(tmp_path / "shared")]


def written(tiers: Any, field: Array, *, steps: int = 3, **options: Any) -> list[Array]:
    arrays = [field + numpy.float32(step) for step in range(steps)]
    options.setdefault("chunk_bytes", 1 << 16)
    assert adaptive.write(tiers, arrays, **options) == steps
    return arrays


def part_of(tier: Path | str, number: int, index: int) -> Path:
    """The file of a step on a tier."""
    (path,) = Path(tier).glob(f"{number:08d}.{index}.*.weir")
    return path


def error_of(step: adaptive.Step, array: Array) -> float:
    return float(numpy.abs(step.data.astype(float) - array).max())


@pytest.mark.parametrize("codec", ["planes", "decimate"])
def test_what_is_written_comes_back(tiers: list[str], field: Array, codec: str) -> None:
    arrays = written(tiers, field, codec=codec, exact=True)
    steps = list(adaptive.open(tiers))
    assert [step.number for step in steps] == [0, 1, 2]
    for step, array in zip(steps, arrays, strict=True):
        assert numpy.array_equal(step.data, array)
        assert step.augmentation == 1.0
        assert step.max_error == 0.0
        assert not step.late


def test_the_base_alone_touches_no_other_tier(tiers: list[str], field: Array) -> None:
    arrays = written(tiers, field)
    for path in Path(tiers[1]).iterdir():
        path.unlink()
    Path(tiers[1]).rmdir()
    for step, array in zip(adaptive.open(tiers, policy="isolation"), arrays, strict=True):
        assert step.augmentation == 0.0
        assert 0.0 < error_of(step, array) <= step.max_error
        assert step.tiers[1].read_bytes == 0


def test_three_tiers_hold_each_their_share_and_the_first_tells_of_the_others(tmp_path: Path, field: Array) -> None:
    memory = f"memory://{tmp_path.name}"
    tiers: list[adaptive.Tier | str] = [
        str(tmp_path / "node"),
        adaptive.Tier(memory, share=0.5),
        f"best-effort={tmp_path / 'archive'}",
    ]
    arrays = written(tiers, field, steps=1)
    manifest = json.loads((tmp_path / "node" / manifest_name(0)).read_text())
    lengths = [part["length"] for part in manifest["parts"]]
    assert lengths[0] == manifest["base_end"]
    assert lengths[1] == pytest.approx(lengths[2], rel=0.5)

    opened = list(adaptive.open(tmp_path.joinpath("node").as_posix()))
    assert [tier.read_bytes for tier in opened[0].tiers] == lengths
    # What is best effort is read where the accuracy that is asked for lies there.
    dynamic = adaptive.Plot(1.0, 2.0)
    some = next(adaptive.open(tiers, policy=dynamic))
    assert [tier.read_bytes for tier in some.tiers] == [*lengths[:2], 0]
    asked = adaptive.Accuracy(max_error=opened[0].max_error)
    whole = next(adaptive.open(tiers, policy=dynamic, accuracy=asked))
    assert whole.tiers[2].read_bytes > 0
    assert error_of(whole, arrays[0]) <= whole.max_error <= opened[0].max_error
    MemoryFileSystem.store.clear()


@pytest.mark.parametrize("relative", [0.05, 0.01, 0.001])
def test_an_accuracy_is_reached_with_no_more_bytes_than_it_needs(
    tiers: list[str], field: Array, relative: float
) -> None:
    (array,) = written(tiers, field, steps=1)
    step = next(adaptive.open(tiers, accuracy=adaptive.Accuracy(relative=relative)))
    assert error_of(step, array) <= step.max_error
    assert step.max_error <= relative * float(numpy.ptp(array))
    assert step.augmentation < 1.0


def test_more_accuracy_than_was_stored_is_all_there_is_with_a_warning(tiers: list[str], field: Array) -> None:
    written(tiers, field, steps=2, tolerance=0.5)
    reader = adaptive.open(tiers, accuracy=adaptive.Accuracy(max_error=1e-9))
    with pytest.warns(adaptive.AdaptiveWarning, match="not as accurate"):
        step = next(reader)
    assert step.augmentation == 1.0
    assert 1e-9 < step.max_error <= 0.5
    assert next(reader).augmentation == 1.0, "it is said once"


def test_a_region_of_a_large_array_needs_a_part_of_its_bytes(tiers: list[str], field: Array) -> None:
    array = numpy.tile(field, (1, 3, 3))
    written(tiers, array, steps=1, tolerance=1e-3)
    whole = next(adaptive.open(tiers))
    corner = next(adaptive.open(tiers, region=(slice(0, 17), slice(0, 20), slice(0, 20))))
    assert corner.bytes_read < whole.bytes_read / 2
    assert numpy.array_equal(corner.data, whole.data[:, :20, :20])
    assert corner.max_error <= 1e-3
    assert corner.augmentation == 1.0


def test_so_many_bytes_are_read_and_no_more(tiers: list[str], field: Array) -> None:
    (array,) = written(tiers, field, steps=1)
    errors = []
    for count in (100_000, 200_000, 300_000):
        step = next(adaptive.open(tiers, accuracy=adaptive.Accuracy(bytes_max=count)))
        assert step.bytes_read == count
        assert error_of(step, array) <= step.max_error
        errors.append(step.rmse)
    assert errors == sorted(errors, reverse=True)


def test_a_region_is_the_same_part_of_the_array(tiers: list[str], field: Array) -> None:
    (array,) = written(tiers, field, steps=1, exact=True)
    region = (slice(2, 5), slice(None), slice(-10, None))
    step = next(adaptive.open(tiers, region=region))
    assert numpy.array_equal(step.data, array[region])
    assert step.augmentation == 1.0
    row = next(adaptive.open(tiers, region=(2, slice(0, 9), -1)))
    assert numpy.array_equal(row.data, array[2:3, 0:9, -1:])
    strided = next(adaptive.open(tiers, region=(slice(-1, None, -3), ..., slice(0, 100, 7))))
    assert numpy.array_equal(strided.data, array[::-3, :, :100:7])
    every = slice(None)
    wrong: Any
    for wrong in (17, (every,) * 4, (every, slice(5, 5), every), (..., ...), (17, every, every), "abc", (True,)):
        with pytest.raises(adaptive.AdaptiveError, match=r"region|there is no place 17"):
            adaptive.open(tiers, region=wrong)


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8"])
@pytest.mark.parametrize("shape", [(5000,), (60, 70), (3, 4, 5, 6)])
def test_other_types_and_shapes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (numpy.arange(numpy.prod(shape)) % 101).astype(dtype).reshape(shape)
    adaptive.write(str(tmp_path), [array], exact=True)
    step = next(adaptive.open(str(tmp_path)))
    assert step.data.dtype == array.dtype
    assert numpy.array_equal(step.data, array)


def test_a_budget_learns_to_read_more(tiers: list[str], field: Array) -> None:
    written(tiers, numpy.tile(field, (2, 2, 1)), steps=4, exact=True)
    # A quarter of an hour for some megabytes: only the first step, before anything is known, is a probe.
    steps = list(adaptive.open(tiers, policy=adaptive.Budget(seconds=900.0)))
    assert steps[0].augmentation < 1.0
    assert steps[-1].augmentation == 1.0
    assert steps[0].tiers[1].forecast is None
    assert steps[-1].tiers[1].forecast is not None


def test_no_bandwidth_forecast_no_augmentation(tiers: list[str], field: Array) -> None:
    written(tiers, field, steps=5)
    plot = adaptive.Plot(1e17, 1e18)
    steps = list(adaptive.open(tiers, policy=plot, warm_up_steps=2))
    assert [step.augmentation for step in steps] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_an_analysis_too_slow_to_see_what_disturbs_it_is_told_once(tiers: list[str], field: Array) -> None:
    written(tiers, field, steps=8)
    shared = adaptive.Tier(tiers[1], period_seconds=1e-6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps = list(adaptive.open([tiers[0], shared], policy=adaptive.Budget(seconds=900.0)))
    assert len(steps) == 8
    assert [str(warning.message).startswith(f"tier {tiers[1]}: ") for warning in caught] == [True]


def test_a_step_past_its_deadline_is_what_has_arrived(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event]
) -> None:
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    arrays = written(tiers, field)
    # The gate is never opened: a reader that waits for the shared tier never returns.
    gates["shared"] = threading.Event()
    steps = list(adaptive.open(tiers, deadline_seconds=0.5))
    assert [step.number for step in steps] == [0, 1, 2]
    for step, array in zip(steps, arrays, strict=True):
        assert step.late
        assert step.augmentation == 0.0
        assert error_of(step, array) <= step.max_error
        assert step.tiers[1].read_bytes == 0


def test_reads_are_given_up_when_they_took_too_long(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event]
) -> None:
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    written(tiers, field)
    gates["shared"] = threading.Event()
    steps = list(adaptive.open(tiers, policy=adaptive.Budget(seconds=0.1, seconds_max=0.5)))
    assert [step.late for step in steps] == [True, True, False], "what hangs is left alone for some steps"
    assert [step.augmentation for step in steps] == [0.0, 0.0, 0.0]


@pytest.mark.slow
def test_a_place_that_is_well_again_is_read_although_earlier_reads_never_return(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "_PATIENCE_SECONDS", 0.2)
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    written(tiers, field[:4], steps=100)
    gate = gates["shared"] = threading.Event()
    reader = adaptive.open(tiers, deadline_seconds=0.1)
    for _ in range(12):
        # Ever so short deadlines may be over before the base is there.
        with contextlib.suppress(adaptive.DeadlineError):
            assert next(reader).augmentation == 0.0
    # Those that hang go on hanging.
    del gates["shared"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and adaptive_of(reader) < 1.0:
        pass
    assert time.monotonic() < deadline
    gate.set()


def adaptive_of(reader: adaptive.Reader) -> float:
    """How much of a step arrived."""
    try:
        return reader.step(50).augmentation
    except adaptive.DeadlineError:
        return 0.0


def test_threads_that_hang_are_few_and_serve_again(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event]
) -> None:
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    written(tiers, field[:4], steps=30)
    gates["shared"] = threading.Event()
    reader = adaptive.open(tiers, deadline_seconds=0.05)
    for _ in range(25):
        # Ever so short deadlines may be over before the base is there.
        try:
            next(reader)
        except adaptive.DeadlineError:
            continue
    hanging = [thread for thread in threading.enumerate() if f"{tmp_path}/shared" in thread.name]
    assert len(hanging) <= lanes.HANGING_READS_MAX + adaptive.Tier("x").connections
    gates["shared"].set()
    for thread in hanging:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    whole = adaptive.open(tiers).step(29)
    assert whole.augmentation == 1.0


@pytest.mark.parametrize("hanging", ["stream.json", "list "])
def test_a_place_that_hangs_is_not_waited_for(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event], hanging: str
) -> None:
    tiers = [f"gated://{tmp_path}/fast", str(tmp_path / "shared")]
    written(tiers, field[:2])
    gate = gates[hanging] = threading.Event()
    with pytest.raises(adaptive.NoAnswerError, match=r"tier gated://.*/fast does not answer: .* took more than 0\.2 s"):
        adaptive.open(tiers, open_seconds=0.2)
    gate.set()
    assert len(list(adaptive.open(tiers))) == 3


def test_a_stream_that_is_followed_onto_a_place_that_hangs_tells_so(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event]
) -> None:
    tiers = [f"gated://{tmp_path}/fast", str(tmp_path / "shared")]
    written(tiers, field[:2], steps=1)
    Path(tmp_path, "fast", "end.json").unlink()
    reader = adaptive.open(tiers, follow_seconds=PATIENCE_SECONDS, open_seconds=1.0)
    assert next(reader).number == 0
    gates["list "] = threading.Event()
    with pytest.raises(adaptive.NoAnswerError):
        next(reader)
    reader.close()
    assert next(reader, None) is None


def test_not_even_a_base_is_an_error_and_the_next_step_is_read(
    tmp_path: Path, field: Array, gates: dict[str, threading.Event]
) -> None:
    tiers = [f"gated://{tmp_path}/fast", str(tmp_path / "shared")]
    written(tiers, field)
    gates[part_of(tmp_path / "fast", 1, 0).name] = threading.Event()
    reader = adaptive.open(tiers, deadline_seconds=2.0)
    assert next(reader).number == 0
    with pytest.raises(adaptive.DeadlineError, match="step 1"):
        next(reader)
    assert next(reader).number == 2


def test_the_next_step_is_read_ahead(tmp_path: Path, field: Array, gates: dict[str, threading.Event]) -> None:
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    written(tiers, field)
    second, third = (part_of(tmp_path / "shared", number, 1).name for number in (1, 2))
    reader = adaptive.open(tiers, prefetch=True)
    next(reader)
    # Nobody has asked for step 1 yet.
    with Gated.came:
        assert Gated.came.wait_for(lambda: second in Gated.asked, PATIENCE_SECONDS)
        assert third not in Gated.asked
    assert [step.number for step in reader] == [1, 2]
    assert len([name for name in Gated.asked if name == second]) == 1


def test_threads_share_a_reader(tiers: list[str], field: Array) -> None:
    arrays = written(tiers, field, steps=12)
    reader = adaptive.open(tiers, prefetch=True)
    seen: list[adaptive.Step] = []
    threads = [threading.Thread(target=lambda: seen.extend(reader)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert sorted(step.number for step in seen) == list(range(12))
    for step in seen:
        assert error_of(step, arrays[step.number]) <= step.max_error


def test_tasks_go_on_while_a_step_is_read(tmp_path: Path, field: Array, gates: dict[str, threading.Event]) -> None:
    tiers = [str(tmp_path / "fast"), f"gated://{tmp_path}/shared"]
    written(tiers, field)
    gate = gates["shared"] = threading.Event()

    async def opens_the_gate() -> None:
        # While the step is waited for, only another task can let it arrive.
        while part_of(tmp_path / "shared", 0, 1).name not in Gated.asked:
            await asyncio.sleep(0)
        gate.set()

    async def reads() -> list[int]:
        task = asyncio.create_task(opens_the_gate())
        numbers = [step.number async for step in adaptive.open(tiers)]
        await task
        return numbers

    assert asyncio.run(asyncio.wait_for(reads(), PATIENCE_SECONDS)) == [0, 1, 2]


def test_a_stream_is_read_while_it_is_written(tiers: list[str], field: Array) -> None:
    writer = adaptive.Writer(tiers, chunk_bytes=1 << 16)
    writer.write(field)
    read: list[int] = []
    reader = adaptive.open(tiers, follow_seconds=PATIENCE_SECONDS)
    first = threading.Event()

    def follow() -> None:
        for step in reader:
            read.append(step.number)
            first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert first.wait(PATIENCE_SECONDS)
    writer.write(field)
    writer.write(field)
    writer.end()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the end of the stream ends the reading at once"
    assert read == [0, 1, 2]


def test_a_step_that_is_not_whole_is_not_seen(tmp_path: Path, field: Array) -> None:
    shared = tmp_path / "shared"
    tiers = [str(tmp_path / "fast"), str(shared)]
    writer = adaptive.Writer(tiers, chunk_bytes=1 << 16)
    writer.write(field)
    for path in shared.iterdir():
        path.unlink()
    shared.rmdir()
    shared.write_text("a file where the tier's folder was")
    with pytest.raises(adaptive.StepError, match=r"step 1: .*shared/00000001\.1\.\w+\.weir: cannot be written"):
        writer.write(field)
    assert [step.number for step in adaptive.open(tiers, policy="isolation")] == [0]
    assert not [path for path in Path(tiers[0]).iterdir() if path.suffix == ".part"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (numpy.zeros((3, 4), "f4"), r"step 1: .*the array is float32 of 3 x 4.* holds float32 of 17 x 96 x 192"),
        (numpy.zeros((17, 96, 192), "f8"), r"step 1: .*the array is float64 of 17 x 96 x 192"),
    ],
)
def test_steps_that_differ_are_refused(tiers: list[str], field: Array, wrong: Array, words: str) -> None:
    with pytest.raises(adaptive.StepError, match=words) as caught:
        adaptive.write(tiers, [field, wrong])
    assert caught.value.number == 1
    assert [step.number for step in adaptive.open(tiers)] == [0], "what came before is read"


def test_a_stream_is_not_overwritten_but_goes_on(tiers: list[str], field: Array) -> None:
    written(tiers, field, steps=2)
    with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
        adaptive.write(tiers, [field])
    with pytest.raises(adaptive.StepError, match="step 2"):
        adaptive.write(tiers, [field[0]], append=True)
    assert adaptive.write(tiers, [field], append=True) == 1
    assert [step.number for step in adaptive.open(tiers)] == [0, 1, 2]


def damage(tiers: list[str], how: str) -> str:
    """Damage step 1, and what an error has to name."""
    base, shared = (part_of(tier, 1, index) for index, tier in enumerate(tiers))
    manifest = Path(tiers[0]) / manifest_name(1)
    if how == "gone":
        shared.unlink()
        return str(shared)
    if how == "truncated":
        shared.write_bytes(shared.read_bytes()[:-1000])
        return str(shared)
    if how == "no tier":
        for path in shared.parent.iterdir():
            path.unlink()
        shared.parent.rmdir()
        return tiers[1]
    if how == "base gone":
        base.unlink()
        return str(base)
    if how == "base truncated":
        base.write_bytes(base.read_bytes()[:100])
        return str(base)
    if how == "header":
        base.write_bytes(b"\0" * 64 + base.read_bytes()[64:])
        return str(base)
    if how == "manifest":
        manifest.write_text("{")
        return str(manifest)
    document = json.loads(manifest.read_text())
    document["dtype"] = "float64"
    manifest.write_text(json.dumps(document))
    return str(base)


@pytest.mark.parametrize("how", ["gone", "truncated", "no tier"])
def test_augmentation_that_is_lost_is_one_clear_error_and_the_base_still_reads(
    tiers: list[str], field: Array, how: str
) -> None:
    arrays = written(tiers, field)
    named = damage(tiers, how)
    if how == "no tier":
        with pytest.raises(adaptive.StepError, match="step 0"):
            next(adaptive.open(tiers))
    reader = adaptive.open(tiers)
    if how != "no tier":
        assert next(reader).number == 0
    else:
        with pytest.raises(adaptive.StepError):
            next(reader)
    with pytest.raises(adaptive.StepError) as caught:
        next(reader)
    assert caught.value.number == 1
    assert "step 1" in str(caught.value)
    assert named in str(caught.value)
    assert [step.number for step in adaptive.open(tiers, policy="isolation")] == [0, 1, 2]
    with pytest.warns(adaptive.AdaptiveWarning, match="step 1"):
        step = adaptive.open(tiers, tolerant=True).step(1)
    assert step.problems
    assert error_of(step, arrays[1]) <= step.max_error


@pytest.mark.slow
@pytest.mark.parametrize("how", ["base gone", "base truncated", "header", "manifest", "other type"])
def test_a_step_without_its_base_is_one_clear_error_and_the_others_are_read(
    tiers: list[str], field: Array, how: str
) -> None:
    written(tiers, field)
    named = damage(tiers, how)
    for tolerant in (False, True):
        reader = adaptive.open(tiers, tolerant=tolerant)
        assert next(reader).number == 0
        with pytest.raises(adaptive.StepError) as caught:
            next(reader)
        assert "step 1" in str(caught.value)
        assert named in str(caught.value)
        assert next(reader).number == 2


def test_a_damaged_block_lowers_the_accuracy_with_a_warning(tiers: list[str], field: Array) -> None:
    arrays = written(tiers, field)
    shared = part_of(tiers[1], 1, 1)
    data = bytearray(shared.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shared.write_bytes(data)
    whole = adaptive.open(tiers).step(0)
    with pytest.warns(adaptive.AdaptiveWarning, match="step 1"):
        step = adaptive.open(tiers).step(1)
    assert step.max_error > whole.max_error
    assert error_of(step, arrays[1]) <= step.max_error


def test_a_damaged_block_is_told_with_the_file_that_it_lies_in(tiers: list[str], field: Array) -> None:
    written(tiers, field, steps=1)
    shared = part_of(tiers[1], 0, 1)
    data = bytearray(shared.read_bytes())
    data[-100] ^= 0xFF
    shared.write_bytes(data)
    with pytest.warns(adaptive.AdaptiveWarning) as caught:
        adaptive.open(tiers).step(0)
    words = str(caught[0].message)
    assert str(shared) in words
    offset = int(words.partition(" byte ")[2].split()[0])
    assert len(data) - (1 << 17) < offset <= len(data) - 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deadline_seconds": float("nan")}, "deadline_seconds = nan"),
        ({"deadline_seconds": 0.0}, "deadline_seconds"),
        ({"open_seconds": -1.0}, "open_seconds"),
        ({"follow_seconds": -1.0}, "follow_seconds"),
        ({"warm_up_steps": -1}, "warm_up_steps"),
        ({"threads": 0}, "threads"),
        ({"accuracy": 60}, "60 is no accuracy"),
        ({"policy": "greedy"}, "greedy"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tiers: list[str], field: Array, options: dict[str, Any], words: str
) -> None:
    written(tiers, field[:1], steps=1)
    with pytest.raises(adaptive.AdaptiveError, match=words):
        adaptive.open(tiers, **options)


def test_no_deadline_is_as_good_as_an_endless_one(tiers: list[str], field: Array) -> None:
    written(tiers, field[:1], steps=1)
    for seconds in (float("inf"), 1e10, None):
        assert not next(adaptive.open(tiers, deadline_seconds=seconds)).late


def test_a_step_that_was_never_written_is_told_with_those_that_were(tiers: list[str], field: Array) -> None:
    written(tiers, field[:1])
    reader = adaptive.open(tiers)
    for number in (-1, 3, 99):
        with pytest.raises(adaptive.StepError, match=f"step {number}: .*there is no such step") as caught:
            reader.step(number)
        assert "up to 2" in caught.value.hint
        assert "up to 2" in caught.value.__notes__[0]
    with pytest.raises(adaptive.AdaptiveError, match="'a' is no step"):
        reader.step("a")  # type: ignore[arg-type]


def test_an_analysis_may_start_before_the_simulation(tiers: list[str], field: Array) -> None:
    read: list[int] = []
    opened = threading.Event()

    def follow() -> None:
        opened.set()
        read.extend(step.number for step in adaptive.open(tiers, follow_seconds=PATIENCE_SECONDS))

    thread = threading.Thread(target=follow)
    thread.start()
    assert opened.wait(PATIENCE_SECONDS)
    written(tiers, field[:1], steps=2)
    thread.join(PATIENCE_SECONDS)
    assert read == [0, 1]


def test_closing_wakes_who_waits_for_a_step(tiers: list[str], field: Array) -> None:
    writer = adaptive.Writer(tiers)
    writer.write(field[:1])
    reader = adaptive.open(tiers, follow_seconds=1e6)
    first = threading.Event()

    def follow() -> None:
        for _ in reader:
            first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert first.wait(PATIENCE_SECONDS)
    reader.close()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_restoring_is_part_of_a_steps_time(tiers: list[str], field: Array) -> None:
    written(tiers, numpy.tile(field, (2, 2, 2)), steps=2)
    # Shorter than any restoring.
    reader = adaptive.open([tiers[0], tiers[1]], policy="isolation", deadline_seconds=1e-3)
    for number in (0, 1):
        try:
            step = next(reader)
        except adaptive.DeadlineError as error:
            assert error.number == number
            assert error.place.startswith(tiers[0] + "/")
        else:
            assert step.late
            assert step.restore_seconds > 0.0


def test_a_place_without_a_stream_says_so(tmp_path: Path) -> None:
    for wrong in (str(tmp_path), str(tmp_path / "nothing"), "memory://nothing"):
        with pytest.raises(adaptive.AdaptiveError, match="no stream"):
            adaptive.open(wrong)
    with pytest.raises(adaptive.AdaptiveError, match="nonsense"):
        adaptive.open("nonsense://x")
