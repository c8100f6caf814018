"""Generators: the volumes, files and orders of the benchmarks and applications that they stand for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from weir.simulation.workload import Kind, Steps, Work
from weir.simulation.workloads.jobs import GENERATORS, generator_class
from weir.simulation.workloads.parameters import STEPS_MAX


def made(name: str, *, seed: int = 1, **parameters: Any) -> Work:
    kind: Any = generator_class(name)
    work: Work = kind(**parameters).work(np.random.default_rng(seed))
    return work


def of_stream(work: Work, stream: int) -> list[tuple[Kind, int, int, int]]:
    """Kind, file, offset and bytes of a stream's steps, in their order."""
    steps = work.steps
    own = steps.stream == stream
    columns = (steps.kind[own], steps.file[own], steps.offset[own], steps.bytes[own])
    return [
        (Kind(kind), int(file), int(offset), int(count)) for kind, file, offset, count in zip(*columns, strict=True)
    ]


def check_whole(work: Work) -> None:
    """Every step names a stream and a file that are there, and barriers are met by all streams."""
    steps = work.steps
    assert steps.stream.max() < len(work.stream_nodes) and work.stream_nodes.max() < work.nodes
    touches = ~np.isin(steps.kind, (Kind.COMPUTE, Kind.BARRIER))
    assert not touches.any() or steps.file[touches].max() < len(work.file_bytes)
    barriers = np.bincount(steps.stream[steps.kind == Kind.BARRIER], minlength=len(work.stream_nodes))
    assert (barriers == barriers[0]).all()
    assert (steps.after_seconds >= 0).all()


def test_ior_with_a_file_for_each_process() -> None:
    work = made("ior", processes=4, processes_per_node=2, block=8 << 20, segments=2, read=True)
    check_whole(work)
    assert (work.nodes, work.stream_nodes.tolist()) == (2, [0, 0, 1, 1])
    assert work.written_bytes == work.read_bytes == 4 * 16 << 20
    assert of_stream(work, 3) == [
        (Kind.CREATE, 3, 0, 0),
        (Kind.BARRIER, 0, 0, 0),
        (Kind.WRITE, 3, 0, 16 << 20),
        (Kind.BARRIER, 0, 0, 0),
        (Kind.READ, 3, 0, 16 << 20),
        (Kind.BARRIER, 0, 0, 0),
    ]


def test_ior_on_one_file_places_the_blocks_of_a_segment_side_by_side() -> None:
    work = made("ior", processes=3, mode="shared", block=4 << 20, segments=2)
    check_whole(work)
    assert work.file_bytes.tolist() == [0]
    offsets = [entry[2] >> 20 for entry in of_stream(work, 1) if entry[0] == Kind.WRITE]
    assert offsets == [4, 16]
    written = sorted(
        (entry[2], entry[3]) for rank in range(3) for entry in of_stream(work, rank) if entry[0] == Kind.WRITE
    )
    assert [offset for offset, _ in written] == [place * (4 << 20) for place in range(6)], (
        "nothing is missing or doubled"
    )
    assert [Kind.CREATE in dict.fromkeys(entry[0] for entry in of_stream(work, rank)) for rank in range(3)] == [
        True,
        False,
        False,
    ]


def test_ior_reads_what_was_there_or_what_another_node_wrote() -> None:
    reads = made("ior", processes=4, processes_per_node=2, block=1 << 20, write=False, read=True)
    assert reads.file_bytes.tolist() == [1 << 20] * 4 and reads.written_bytes == 0
    moved = made("ior", processes=4, processes_per_node=2, block=1 << 20, read=True, reorder=True)
    assert [file for kind, file, _, _ in of_stream(moved, 0) if kind == Kind.READ] == [2]


@pytest.mark.parametrize(("processes", "particles", "gigabytes"), [(8, 50_000_000, 14.3), (16, 20_000_000, 11.7)])
def test_hacc_io_writes_the_volumes_of_the_paper(processes: int, particles: int, gigabytes: float) -> None:
    """Tarazu, section 7.2.2."""
    for mode in ("file-per-process", "shared"):
        work = made("hacc-io", processes=processes, particles=particles, mode=mode)
        check_whole(work)
        own = work.written_bytes / 2**30
        if mode == "file-per-process":
            assert own == pytest.approx(gigabytes, abs=0.05)
        ends = work.steps.offset + work.steps.bytes
        in_files = np.zeros(len(work.file_bytes), np.uint64)
        np.maximum.at(in_files, work.steps.file, np.where(work.steps.kind == Kind.WRITE, ends, 0))
        assert in_files.sum() == work.written_bytes == work.read_bytes, "variables lie one after the other"


def test_mdtest_makes_asks_and_removes_every_file() -> None:
    work = made("mdtest", processes=3, items=5, bytes=100, read=True, iterations=2)
    check_whole(work)
    kinds = np.bincount(work.steps.kind, minlength=len(Kind))
    assert len(work.file_bytes) == 15
    assert (kinds[[Kind.CREATE, Kind.WRITE, Kind.METADATA, Kind.READ, Kind.REMOVE]] == 30).all()
    assert kinds[Kind.BARRIER] == 3 * 5 * 2


def test_checkpoints_come_once_a_period_and_old_ones_go() -> None:
    work = made("checkpoints", processes=2, checkpoints=4, period=10.0, bytes=1 << 20, keep=2, restart=True)
    check_whole(work)
    assert work.steps.after_seconds[work.steps.kind == Kind.COMPUTE].tolist() == [10.0] * 8
    assert work.read_bytes == 2 << 20 and work.file_bytes[8:].tolist() == [1 << 20] * 2
    removed = [file for kind, file, _, _ in of_stream(work, 1) if kind == Kind.REMOVE]
    assert removed == [1, 3]
    shared = made("checkpoints", processes=2, checkpoints=4, period=10.0, bytes=1 << 20, keep=2, mode="shared")
    check_whole(shared)
    assert [file for kind, file, _, _ in of_stream(shared, 0) if kind == Kind.REMOVE] == [0, 1]


def test_jitter_is_drawn_within_its_bounds_and_again_by_the_same_seed() -> None:
    def periods(seed: int) -> list[float]:
        work = made("checkpoints", seed=seed, processes=2, checkpoints=50, period=10.0, bytes=1, jitter=0.2)
        of_first = (work.steps.stream == 0) & (work.steps.kind == Kind.COMPUTE)
        drawn: list[float] = work.steps.after_seconds[of_first].tolist()
        return drawn

    assert periods(1) == periods(1) != periods(2)
    assert 8.0 <= min(periods(1)) < 9.0 < 11.0 < max(periods(1)) <= 12.0


def test_training_reads_every_sample_once_an_epoch_in_another_order() -> None:
    work = made(
        "training", processes=3, samples=10, sample_bytes=100, samples_per_file=4, epochs=2, batch=2, compute=0.5
    )
    check_whole(work)
    assert work.file_bytes.tolist() == [400, 400, 200]
    reads = work.steps.kind == Kind.READ
    samples = work.steps.file[reads] * 4 + work.steps.offset[reads] // 100
    first, second = samples[:9].tolist(), samples[9:].tolist()
    assert len(set(first)) == len(set(second)) == 9, "three processes share nine of ten samples, as samplers do"
    assert first != second
    assert work.steps.after_seconds[reads][:3].tolist() == [0.5, 0.0, 0.5]
    straight = made("training", processes=1, samples=4, sample_bytes=100, shuffle=False)
    assert straight.steps.file.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("application", "nodes", "read", "written"),
    [("genomic-prediction", 128, 110.6, 80.2), ("e3sm", 256, 100.8, 150.3), ("cosmoflow", 64, 250.6, 52.4)],
)
def test_scalability_has_the_volumes_and_nodes_of_table_7(
    application: str, nodes: int, read: float, written: float
) -> None:
    work = made("scalability", application=application)
    check_whole(work)
    assert (work.nodes, len(work.stream_nodes)) == (nodes, nodes)
    assert work.read_bytes / 1e9 == pytest.approx(read)
    assert work.written_bytes / 1e9 == pytest.approx(written)
    assert work.file_bytes.sum() == work.read_bytes, "all that is read was there before"
    part = made("scalability", application=application, volume=0.1, write=False)
    assert part.read_bytes == pytest.approx(work.read_bytes / 10, rel=1e-6) and part.written_bytes == 0


def test_scalability_divides_files_as_assumed() -> None:
    sizes = {name: made("scalability", application=name).file_bytes for name in ("cosmoflow", "e3sm")}
    inputs = sizes["cosmoflow"][sizes["cosmoflow"] > 0]
    assert inputs.max() == pytest.approx(16 << 20, rel=0.01) and len(inputs) > 14_000
    assert sizes["e3sm"][0] == pytest.approx(15e9, rel=0.05)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("ior", {"block": 10, "transfer": 3}, "no multiple"),
        ("ior", {"write": False}, "neither writes nor reads"),
        ("hacc-io", {"write": False, "read": False}, "neither writes nor reads"),
        ("mdtest", {"iterations": 2, "remove": False}, "remove = true"),
        ("mdtest", {"items": STEPS_MAX}, "a job has at most"),
        ("training", {"samples": 3}, "fewer than 8 processes"),
        ("training", {"epochs": STEPS_MAX}, "a job has at most"),
        ("scalability", {"application": "e3sm", "volume": 0.0}, "neither reads nor writes"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        made(name, **parameters)


@settings(max_examples=30, deadline=None)
@given(
    some.sampled_from(sorted(set(GENERATORS) - {"scalability"})),
    some.integers(1, 9),
    some.integers(1, 4),
    some.sampled_from(["file-per-process", "shared"]),
)
def test_any_generator_makes_whole_work(name: str, processes: int, per_node: int, mode: str) -> None:
    kind: Any = generator_class(name)
    parameters: dict[str, Any] = {"processes": processes, "processes_per_node": per_node}
    if "mode" in kind.__dataclass_fields__:
        parameters["mode"] = mode
    if name == "checkpoints":
        parameters |= {"period": 1.0, "bytes": 1000, "keep": 1}
    if name == "training":
        parameters["samples"] = 20
    if name == "mdtest":
        parameters["items"] = 3
    check_whole(made(name, **parameters))


def test_steps_have_the_columns_of_the_simulator() -> None:
    steps = Steps.of(3, stream=[0, 1, 2], kind=Kind.READ, bytes=7)
    columns = steps.columns()
    assert {name: str(column.dtype) for name, column in columns.items()} == {
        "stream": "uint32",
        "kind": "uint8",
        "after_seconds": "float64",
        "not_before_seconds": "float64",
        "file": "uint32",
        "offset": "uint64",
        "bytes": "uint64",
        "request_bytes": "uint64",
        "depth": "uint32",
    }
    assert columns["bytes"].tolist() == [7, 7, 7] and len(Steps.joined([steps, steps])) == 6
    with pytest.raises(ValueError, match="no column colour"):
        Steps.of(1, colour=1)
