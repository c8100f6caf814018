"""Streams that got into each other's way, and files that are not what they were: an error or a warning, never a lie."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray
from weir import adaptive
from weir.adaptive.manifest import END, STREAM, end_object, manifest_name
from weir.errors import WeirError

Array = NDArray[Any]


def waves(seed: int) -> Array:
    rows, columns = numpy.mgrid[0:96, 0:64]
    noise = numpy.random.default_rng(seed).normal(size=(96, 64))
    field: Array = numpy.sin(rows / 7 + seed) * numpy.cos(columns / 9) + 0.01 * noise
    return field.astype(numpy.float32)


@pytest.fixture
def tiers(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "fast"), str(tmp_path / "shared")]


def write(tiers: list[str], seeds: range, **options: Any) -> None:
    adaptive.write(tiers, [waves(seed) for seed in seeds], exact=True, chunk_bytes=1 << 12, **options)


def numbers(tiers: list[str]) -> list[int]:
    return [step.number for step in adaptive.open(tiers)]


def part_of(tier: str, number: int) -> Path:
    (path,) = Path(tier).glob(f"{number:08d}.*.weir")
    return path


def test_streams_may_share_a_folder(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    streams = [[str(tmp_path / name), shared] for name in ("one", "other")]
    for seed, tiers in enumerate(streams):
        write(tiers, range(seed, seed + 1))
    for seed, tiers in enumerate(streams):
        assert numpy.array_equal(next(adaptive.open(tiers)).data, waves(seed))


def test_a_step_in_place_of_another_is_found_out(tiers: list[str]) -> None:
    write(tiers, range(4))
    own = part_of(tiers[0], 3)
    foreign = Path(part_of(tiers[0], 1)).read_bytes()
    # As long as its own, or it would be truncated.
    Path(own).write_bytes(foreign[: Path(own).stat().st_size].ljust(Path(own).stat().st_size, b"\0"))
    reader = adaptive.open(tiers)
    for number in range(3):
        assert numpy.array_equal(next(reader).data, waves(number))
    with pytest.raises(adaptive.StepError, match=r"step 3: .*/fast/00000003.* holds another array"):
        next(reader)


@pytest.mark.parametrize("dtype", ["int32", "nonsense"])
def test_a_manifest_that_lies_is_found_out(tiers: list[str], dtype: str) -> None:
    write(tiers, range(1))
    for name in (STREAM, manifest_name(0)):
        path = Path(tiers[0]) / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": dtype}))
    found = rf"float32 of 96 x 64, .* than its manifest describes \({dtype}|stream\.json is damaged: .*'{dtype}'"
    with pytest.raises(adaptive.AdaptiveError, match=found):
        next(adaptive.open(tiers))


def test_a_manifest_of_another_stream_is_found_out(tiers: list[str], tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    write(tiers, range(2))
    write([other, tiers[1]], range(2))
    shutil.copy(Path(other) / manifest_name(1), tiers[0])
    shutil.copy(part_of(other, 1), tiers[0])
    reader = adaptive.open(tiers)
    next(reader)
    with pytest.raises(adaptive.StepError, match=r"step 1: .*/fast/00000001.json: it belongs to another stream"):
        next(reader)


@pytest.mark.parametrize("gone", [1, 3])
def test_a_manifest_that_is_gone_is_a_step_that_is_missed(tiers: list[str], gone: int) -> None:
    write(tiers, range(4))
    (Path(tiers[0]) / manifest_name(gone)).unlink()
    read, missed = [], []
    reader = adaptive.open(tiers)
    for number in range(4):
        try:
            read.append(next(reader).number)
        except adaptive.StepError as error:
            assert "it is gone" in str(error)
            missed.append(number)
    assert missed == [gone]
    assert len(read) == 3


@pytest.mark.parametrize("steps", [10**6, 2**62])
def test_a_count_of_steps_that_lies_costs_nothing(tiers: list[str], steps: int) -> None:
    """45 bytes that told of a billion steps once took 2.4 GB of memory before anything else was looked at."""
    write(tiers, range(2))
    (Path(tiers[0]) / END).write_bytes(end_object(steps))
    with pytest.raises(adaptive.AdaptiveError, match=rf"it lists {steps} steps, and holds 2") as caught:
        adaptive.open(tiers)
    assert END in caught.value.hint
    (Path(tiers[0]) / END).unlink()
    shutil.copy(Path(tiers[0]) / manifest_name(1), Path(tiers[0]) / manifest_name(steps))
    with pytest.raises(adaptive.AdaptiveError, match=rf"it lists {steps + 1} steps, and holds 3"):
        adaptive.open(tiers)


@pytest.mark.parametrize("kept_bytes", [0, 20])
def test_an_end_that_was_cut_costs_no_step(tiers: list[str], kept_bytes: int) -> None:
    """A loss of power left it empty. Every step was whole, and none could be read."""
    write(tiers, range(3))
    end = Path(tiers[0]) / END
    end.write_bytes(end.read_bytes()[:kept_bytes])
    for append in (False, True):
        with pytest.raises(adaptive.AdaptiveError, match=r"end\.json cannot be used") as caught:
            adaptive.Writer(tiers, append=True) if append else adaptive.open(tiers)
        assert "remove it" in caught.value.hint
    with pytest.warns(adaptive.AdaptiveWarning, match=r"end\.json cannot be used: .*; the stream counts as not ended"):
        reader = adaptive.open(tiers, tolerant=True)
    assert [step.number for step in reader] == [0, 1, 2]
    end.unlink()
    assert numbers(tiers) == [0, 1, 2]


def test_of_two_writers_the_later_one_goes_on(tiers: list[str]) -> None:
    first = adaptive.Writer(tiers)
    first.write(waves(0))
    second = adaptive.Writer(tiers, append=True)
    with pytest.raises(adaptive.StepError, match=r"stream\.json: another program has begun to write here"):
        first.write(waves(1))
    with pytest.raises(adaptive.StepError, match="another program"):
        first.end()
    second.write(waves(2))
    second.end()
    assert numbers(tiers) == [0, 1]


def test_of_two_that_begin_at_once_one_goes_on(tiers: list[str]) -> None:
    first, second = adaptive.Writer(tiers), adaptive.Writer(tiers, exact=True)
    second.write(waves(0))
    with pytest.raises(adaptive.AdaptiveError, match="holds a stream already"):
        first.write(waves(1))
    second.write(waves(2))
    second.end()
    assert [step.data[0, 0] for step in adaptive.open(tiers)] == [waves(0)[0, 0], waves(2)[0, 0]]


def test_a_stream_that_goes_on_has_no_end(tiers: list[str]) -> None:
    write(tiers, range(2))
    writer = adaptive.Writer(tiers, append=True, exact=True)
    assert not (Path(tiers[0]) / END).exists()
    writer.write(waves(2))
    writer.end()
    assert numbers(tiers) == [0, 1, 2]


def test_a_stream_goes_on_where_it_was_begun(tiers: list[str], tmp_path: Path) -> None:
    write(tiers, range(1))
    with pytest.raises(adaptive.AdaptiveError, match=r"lies on .*/fast, .*/shared, not on .*/fast, .*/elsewhere"):
        adaptive.Writer([tiers[0], str(tmp_path / "elsewhere")], append=True)


@pytest.mark.parametrize(
    "wrong", [numpy.array(["a", None], dtype=object), numpy.zeros(4, "V0"), numpy.array(3.0), [[1.0], [2.0, 3.0]]]
)
def test_a_first_array_that_is_refused_leaves_nothing(tiers: list[str], wrong: Any) -> None:
    with pytest.raises(adaptive.StepError, match=r"step 0: .*cannot be refactored"):
        adaptive.write(tiers, [wrong])
    write(tiers, range(1))
    assert numbers(tiers) == [0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"tolerance": "much"}, "refactored so"),
        ({"codec": "zip"}, "zip"),
        ({"chunk_bytes": 0}, "chunk_bytes = 0"),
        ({"base_bytes": -5}, "base_bytes = -5"),
        ({"threads": -1}, "threads = -1"),
        ({"codec": "decimate", "ratios": [3, 5]}, "ratios"),
        ({"ratios": [2, 4]}, "has no ratios"),
    ],
)
def test_options_are_refused_before_anything_is_written(tiers: list[str], options: dict[str, Any], words: str) -> None:
    with pytest.raises(WeirError, match=words):
        adaptive.Writer(tiers, **options)
    assert not Path(tiers[0]).exists()


def test_arrays_as_files_hold_them(tiers: list[str]) -> None:
    masked = numpy.ma.masked_array(waves(0), mask=waves(0) > 0.9, fill_value=1e20)
    adaptive.write(tiers, [masked, waves(1).astype(">f4"), numpy.asfortranarray(waves(2))], exact=True)
    steps = [step.data for step in adaptive.open(tiers)]
    assert numpy.array_equal(numpy.isnan(steps[0]), masked.mask)
    assert numpy.array_equal(steps[0][~masked.mask], waves(0)[~masked.mask])
    assert numpy.array_equal(steps[1], waves(1))
    assert numpy.array_equal(steps[2], waves(2))


def test_masked_integers_have_no_value(tiers: list[str]) -> None:
    with pytest.raises(adaptive.StepError, match="masked cells of int32, which has no NaN; state the fill value"):
        adaptive.write(tiers, [numpy.ma.masked_equal(numpy.arange(12, dtype=numpy.int32), 3)])


def test_steps_that_are_appended_are_like_the_others(tiers: list[str]) -> None:
    write(tiers, range(1))
    with pytest.raises(adaptive.AdaptiveError, match=r"exact=True, not codec=planes, tolerance=0\.1, exact=False"):
        adaptive.Writer(tiers, append=True, tolerance=0.1)
    write(tiers, range(1, 2), append=True)
    assert numbers(tiers) == [0, 1]


def test_paths_are_tiers(tiers: list[str]) -> None:
    adaptive.write([Path(tier) for tier in tiers], [waves(0)], exact=True)
    assert numpy.array_equal(next(adaptive.open(Path(tiers[0]))).data, waves(0))
    with pytest.raises(adaptive.AdaptiveError, match="5 is no tier"):
        adaptive.open([5])  # type: ignore[list-item]


def test_threads_share_a_writer(tiers: list[str]) -> None:
    writer = adaptive.Writer(tiers, exact=True)
    with ThreadPoolExecutor(4) as pool:
        manifests = list(pool.map(lambda seed: writer.write(waves(seed)), range(12)))
    writer.end()
    steps = [step.data for step in adaptive.open(tiers)]
    assert len(steps) == 12
    for seed, manifest in enumerate(manifests):
        assert numpy.array_equal(steps[manifest.number], waves(seed))


def test_nothing_is_written_behind_the_end(tiers: list[str]) -> None:
    with adaptive.Writer(tiers) as writer:
        writer.write(waves(0))
    with pytest.raises(adaptive.StepError, match=r"step 1: .* the stream was ended"):
        writer.write(waves(1))
    assert numbers(tiers) == [0]
