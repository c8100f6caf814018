"""The demand of recorded jobs: every request is asked for again, at its device and with its size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weir.history.demand import ROUNDS, Place, work_of
from weir.history.reading import Cell
from weir.simulation.workload import Kind
from weir.store.observations import JobKey

PLACES = {"0.0": Place("-o 0.0 -c 1", 0), "1.2": Place("-o 1.0 -c 1", 1), "0.metadata": Place(None, 0)}
TARGETS = ("0.0", "1.2")
SECOND = 1000


def cell(
    begin: int, device: str, *, requests: int = 0, size: int = 1, seconds: float = 0.0, under_way: int = 0
) -> Cell:
    """Writes to a target, or operations of a metadata service, in a window of a second."""
    is_target = device in TARGETS
    return Cell(
        begin=begin * SECOND,
        width=SECOND,
        job=JobKey("job", 1),
        device=device,
        reads=0,
        writes=requests if is_target else 0,
        read_bytes=0,
        written_bytes=requests * size if is_target else 0,
        metadata=0 if is_target else requests,
        under_way=under_way,
        request_seconds=seconds,
        device_seconds=0.0,
        waited_seconds=0.0,
    )


cells = st.lists(
    st.builds(
        cell,
        st.integers(0, 30),
        st.sampled_from([*PLACES, "9.9"]),
        requests=st.integers(0, 3000),
        size=st.integers(1, 1 << 22),
        seconds=st.floats(0, 20),
        under_way=st.integers(0, 64),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(cells, st.sampled_from(ROUNDS))
def test_every_request_is_asked_for_once(recorded: list[Cell], rounds: int) -> None:
    recorded = sorted({(each.begin, each.device): each for each in recorded}.values(), key=lambda each: each.begin)
    work = work_of(recorded, PLACES, 0, rounds)
    known = [each for each in recorded if each.device in PLACES]
    steps = work.steps
    asked = dict.fromkeys(PLACES, 0)
    for step in range(len(steps)):
        layout, home = work.layouts[steps.file[step]], work.homes[steps.file[step]]
        name = next((name for name, place in PLACES.items() if (place.layout, place.home) == (layout, home)), None)
        if steps.kind[step] in (Kind.COMPUTE, Kind.BARRIER):
            continue
        assert name is not None
        is_operations = steps.kind[step] == Kind.METADATA
        asked[name] += int(steps.bytes[step] if is_operations else steps.bytes[step] // steps.request_bytes[step])
    assert asked == {name: sum(each.writes + each.metadata for each in known if each.device == name) for name in PLACES}
    assert work.written_bytes == sum(each.written_bytes for each in known)
    assert len(work.stream_nodes) >= max((each.under_way for each in known if each.writes + each.metadata), default=1)
    # Files hold what their steps write, and the replay needs no room beyond that.
    assert work.kept_bytes <= int(work.file_bytes.sum())


def test_a_job_with_fewer_requests_than_it_has_at_most_pauses_between_them() -> None:
    recorded = [cell(second, "0.0", requests=100, seconds=1.0, under_way=4) for second in range(10)]
    work = work_of(recorded, PLACES, 0, 4)
    assert len(work.stream_nodes) == 4
    # One request under way, of four: each stream pauses for three quarters of ten seconds.
    pauses = np.bincount(work.steps.stream, weights=work.steps.after_seconds)
    assert pauses == pytest.approx([7.5] * 4)


def test_idle_times_stay_as_long_as_they_were() -> None:
    recorded = [cell(second, "0.0", requests=10, seconds=1.0, under_way=1) for second in (2, 3, 9)]
    work = work_of(recorded, PLACES, 0, 4)
    first, *_ = work.steps.after_seconds
    assert first == pytest.approx(2.0)
    assert work.steps.after_seconds.sum() == pytest.approx(2.0 + 5.0)
