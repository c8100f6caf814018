"""The machine's own noise in labels: waits for processors are counted, and windows with too many are dropped."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waits import wait_until
from weir.interference import collection, labels, plan, processor_waits, real_time
from weir.interference.labels import Operation
from weir.interference.processor_waits import OwnWaits, ProcessWaits, Sampling

PLAN = """
version = 1
noise_max = 0.0

[[target]]
name = "enzo"
kernel = "enzo"
rounds = 8
"""


def test_waits_between_samples_grow_evenly_and_the_longest_of_several_processes_counts() -> None:
    waits = ProcessWaits([[(10.0, 1.0), (12.0, 2.0), (13.0, 2.0)], [(10.0, 0.0), (13.0, 0.3)]])
    assert waits.between(10.0, 12.0) == pytest.approx(1.0)
    assert waits.between(11.0, 12.5) == pytest.approx(0.5)
    assert waits.between(12.0, 13.0) == pytest.approx(0.1)
    assert waits.between(0.0, 5.0) == waits.between(20.0, 30.0) == 0.0
    assert ProcessWaits([[(10.0, 1.0), (10.1, 9.0)]]).between(10.0, 10.1) == pytest.approx(0.1), (
        "no longer than it took"
    )
    assert ProcessWaits().between(1.0, 2.0) == 0.0
    assert processor_waits.waited_seconds(b"5 2000000000 7\n") == 2.0
    with pytest.raises(ValueError, match="schedstat"):
        processor_waits.waited_seconds(b"5 2")


@contextmanager
def crowded(count: int) -> Iterator[list[int]]:
    """Processes that compute on one processor."""
    processor = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_processes_that_share_a_processor_are_seen_to_wait() -> None:
    assert OwnWaits().seconds() >= 0.0
    with crowded(2) as pids, Sampling(pids[:1]).running() as sampling:
        wait_until("the process has waited", lambda: sampling.waits().between(0.0, 1e11) > 0.01)


def test_the_noise_of_a_label_is_the_time_waited_for_processors_over_the_time_alone() -> None:
    def run(seconds: float, waited: float) -> list[Operation]:
        return [Operation("write", f"file@{number}", 10.0 + number / 10, seconds, waited) for number in range(4)]

    (label,) = labels.label([run(0.1, 0.01)], run(0.3, 0.02), 1.0).labels
    assert label.slowdown("time") == pytest.approx(3.0)
    assert label.noise == pytest.approx(0.3)
    (still,) = labels.label([run(0.1, 0.0)], run(0.3, 0.0), 1.0).labels
    assert still.noise == 0.0


def test_operations_are_read_as_they_were_written_also_those_without_waits(tmp_path: Path) -> None:
    operations = [Operation("read", "a@0", 10.5, 0.25, 0.125), Operation("stat", "a@0", 11.0, 0.5)]
    labels.write_operations(operations, tmp_path / "operations.csv")
    assert labels.read_operations(tmp_path / "operations.csv") == operations
    (tmp_path / "old.csv").write_text("read,a@0,10.5,0.25\n")
    assert labels.read_operations(tmp_path / "old.csv") == [Operation("read", "a@0", 10.5, 0.25)]


def test_windows_that_the_machine_disturbed_are_dropped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    reference, quiet = collection.collect(plan.read(tmp_path / "plan.toml"), tmp_path / "data", lambda _line: None)
    assert reference.windows and not reference.noisy, "the measure of the others is kept"
    assert quiet.noise is not None and quiet.noise > 0, "no process has a processor at once each time"
    assert quiet.noisy and not quiet.windows
    card = (tmp_path / "data" / "README.md").read_text()
    assert f"{quiet.noisy} of {quiet.noisy} windows in which this was more than 0 % were dropped" in card
    assert quiet.is_real_time == real_time.is_allowed()


def test_only_programs_of_emulated_devices_have_a_real_time_priority() -> None:
    assert real_time.sleeps(plan.STORE)
    assert not real_time.sleeps('version = 1\n[[server]]\n[[server.target]]\nbackend = "ram"\n')
    assert not real_time.sleeps("version = 1\n")
    with crowded(1) as (pid,):
        real_time.give(pid)
        expected = os.SCHED_RR if real_time.is_allowed() else os.SCHED_OTHER
        assert os.sched_getscheduler(pid) == expected
    real_time.give(pid)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
