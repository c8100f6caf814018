"""Real runs of jobs, measured by their storage, and the plans behind them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_runs import JOB
from store import Store
from weir.planner import lifecycle
from weir.planner.step import Context
from weir.provisioning.behaviour.identity import assumed
from weir.provisioning.deployments import Deployment
from weir.provisioning.jobs.job import Job
from weir.provisioning.lifecycle.measurement import calls_of
from weir.provisioning.outcomes import archive
from weir.provisioning.outcomes.outcome import Outcome, Question, silence
from weir.provisioning.schema_file import read_schema
from weir.tracing.windows import TracedWindows

WRITES, CALL_BYTES, NAMES = 24, 1 << 20, 5
PROGRAM = f"""
import os
place = os.environ.get("WEIR_MOUNT") or os.environ["WEIR_PREFIX"]
file = os.open(place + "/data", os.O_RDWR | os.O_CREAT)
for number in range({WRITES}):
    assert os.pwrite(file, bytes({CALL_BYTES}), number * {CALL_BYTES}) == {CALL_BYTES}
assert len(os.pread(file, {CALL_BYTES}, 0)) == {CALL_BYTES}
os.close(file)
for number in range({NAMES}):
    os.mkdir(place + "/" + str(number))
"""
SLOW = {"write_speed": "40MB/s", "read_speed": "40MB/s"}


def objectives(folder: Path, believed: float) -> Path:
    """A table that believes a rate of a kind of devices that writes 40 MB/s."""
    system = {"device": "slow", "servers": 1, "settings": SLOW}
    rates = {"read_bytes_per_second": believed, "write_bytes_per_second": believed}
    sslo = {"name": "slow", "system": system, "guarantees": rates, "sensitivities": {}}
    file = folder / "sslos.json"
    file.write_text(json.dumps({"version": 1, "source": "test", "sslos": [sslo]}))
    return file


def resources(folder: Path) -> Path:
    """A site with one such device."""
    (folder / "device").mkdir(exist_ok=True)
    file = folder / "resources.toml"
    device = f'path = "{folder}/device", kind = "slow", capacity_bytes = 1000000000'
    file.write_text(f'source = "test"\n[[nodes]]\nname = "here"\ndevices = [{{ {device} }}]\n')
    return file


def run(store: Store, command: str, *, code: int = 0) -> str:
    """Run a shell command as a job on slow storage, of which the table believes ten times the rate."""
    spec = store.root / "job.yaml"
    spec.write_text(JOB.format(command=json.dumps(command)))
    words = ("--size", "128MiB", "--policy", "performance", "--resources", resources(store.root))
    return store.weir("job", "run", spec, *words, "--sslos", objectives(store.root, 400e6), code=code).stderr


def kept(store: Store) -> tuple[Outcome, ...]:
    return archive.read(store.root / "home-jobs" / archive.FILE)


def test_a_run_is_measured_and_the_next_plan_knows(store: Store) -> None:
    program = store.root / "program.py"
    program.write_text(PROGRAM)
    command = f"{sys.executable} {program}"
    run(store, command)
    (outcome,) = kept(store)
    assert not silence(outcome), silence(outcome)
    assert outcome.calls["write"].bytes == WRITES * CALL_BYTES
    assert outcome.calls["read"].bytes == CALL_BYTES
    assert outcome.calls["metadata"].operations >= NAMES
    assert outcome.done.written_bytes == WRITES * CALL_BYTES and outcome.covered == 1
    assert outcome.system.device == "slow" and outcome.owned and outcome.is_alone and not outcome.neighbours
    assert outcome.share_received == pytest.approx(1) and outcome.share_owed == pytest.approx(1)
    # The device alone takes so long, and the calls wait for it.
    assert outcome.calls["write"].seconds > 0.8 * WRITES * CALL_BYTES / 40e6
    assert outcome.device_seconds > 0.8 * WRITES * CALL_BYTES / 40e6
    run(store, command)
    first, second = kept(store)
    assert first == outcome and second.job == outcome.job
    believed, learned = (each.predicted.write_bytes_per_second for each in (first, second))
    assert believed == pytest.approx(400e6) and learned is not None and learned < 100e6
    told = store.json("plan", "learned", "--sslos", objectives(store.root, 400e6))
    (job,) = told["jobs"]
    assert (job["runs"], job["silent_runs"], job["device"]) == (2, 0, "slow") and job["ratio"] > 4
    rates = {each["kind"]: each for each in told["objectives"]}
    assert rates["write"]["low"] < rates["write"]["rate"] < rates["write"]["high"]
    # A single job moves what all may expect, though not as far as its own runs go.
    assert 40e6 < rates["write"]["rate"] < 200e6 < rates["write"]["believed"] == 400e6
    assert told["demand"]["slow"]["level"] == 1 and told["factors"] == []
    store.weir("plan", "learned", "--forget", "all", "--yes")
    assert kept(store) == ()


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("true", 0, "no account"),
        ("head -c 30M /dev/zero > ${WEIR_MOUNT:-$WEIR_PREFIX}/data; exit 3", 3, "failed with 3"),
        ("unset LD_PRELOAD; head -c 30M /dev/zero > $WEIR_MOUNT/data", 0, "no trace"),
        ("echo word > ${WEIR_MOUNT:-$WEIR_PREFIX}/data", 0, "noise decides"),
    ],
)
def test_a_run_that_says_nothing_is_kept_with_its_reason(store: Store, command: str, code: int, reason: str) -> None:
    if "$WEIR_MOUNT/" in command and not os.access("/dev/fuse", os.W_OK):
        pytest.skip("nothing can be mounted here")
    run(store, command, code=code)
    (outcome,) = kept(store)
    assert reason in silence(outcome)
    run(store, command, code=code)
    believed = [each.predicted.write_bytes_per_second for each in kept(store)]
    assert believed[0] == believed[1]


def test_the_work_of_a_run_is_the_servers_where_a_shell_redirects_a_part(store: Store) -> None:
    """A program does not see that a file which its shell has opened is the store's, so its calls go by the mount."""
    program = store.root / "program.py"
    program.write_text(PROGRAM)
    run(store, f"head -c 5M /dev/zero > ${{WEIR_MOUNT:-$WEIR_PREFIX}}/other; {sys.executable} {program}")
    (outcome,) = kept(store)
    assert not silence(outcome) and 0.5 < outcome.covered <= 1
    assert outcome.done.written_bytes == WRITES * CALL_BYTES + (5 << 20)


def test_a_job_goes_on_where_its_run_cannot_be_remembered(store: Store) -> None:
    file = store.root / "home-jobs" / archive.FILE
    file.parent.mkdir(mode=0o700)
    file.write_bytes(b"no database" * 1000)
    words = run(store, "echo word > ${WEIR_MOUNT:-$WEIR_PREFIX}/data")
    assert "the archive of outcomes" in words and "the run is not remembered" in words


def deployment(store: Store, name: str, **changes: Any) -> Deployment:
    """A deployment on one slow target in memory, which others may join."""
    schema: dict[str, Any] = {
        "version": 1, "name": name, "identity": "i", "behaviour_class": f"class-{name}", "sslo": "slow",
        "policy": "interference", "system": {"device": "slow", "servers": 1, "settings": SLOW},
        "servers": [{"node": "here", "devices": [], "target_bytes": 192 << 20}],
        "shareable": True, "size_bytes": 64 << 20, "expected": {}, **changes,
    }  # fmt: skip
    file = store.root / f"{name}.json"
    file.write_text(json.dumps(schema))
    return read_schema(file)


def context(name: str) -> Context:
    return Context(job=name, reach="local", question=Question(job=name, identity=assumed(32 << 20, Job())))


def test_the_steps_of_the_planner_measure_a_run_between_them(store: Store) -> None:
    made, folder = deployment(store, "job", shareable=False), store.root / "deployments" / "job"
    lifecycle.setup(made, folder, context("4711"))
    try:
        variables = lifecycle.environment(made, folder, context("4711"))
        program = store.root / "program.py"
        program.write_text(PROGRAM)
        subprocess.run([sys.executable, program], env={**os.environ, **variables}, check=True, timeout=120)
        outcome = lifecycle.stage_out(made, folder, context("4711"))
        assert outcome is not None and not silence(outcome)
        assert outcome.calls["write"].bytes == WRITES * CALL_BYTES and outcome.job == "4711"
        assert outcome.exit_code is None and not outcome.neighbours
    finally:
        again = lifecycle.teardown(made, folder, Context(job="4711", reach="local", discard=True))
    assert again is None and not folder.exists()


def test_jobs_that_share_a_store_are_measured_as_neighbours(store: Store) -> None:
    made = {"one": deployment(store, "one"), "two": deployment(store, "two", joins="one", servers=[])}
    folders = {name: store.root / "deployments" / name for name in made}
    program = store.root / "program.py"
    program.write_text(
        PROGRAM.replace('"/data"', '"/data-" + os.environ["NAME"]').replace("mkdir(place", "getenv(place")
    )
    found = {}
    try:
        for name, each in made.items():
            lifecycle.setup(each, folders[name], context(name))
        variables = {name: lifecycle.environment(each, folders[name], context(name)) for name, each in made.items()}
        running = [
            subprocess.Popen([sys.executable, program], env={**os.environ, **variables[name], "NAME": name})
            for name in made
        ]
        assert [each.wait(timeout=120) for each in running] == [0, 0]
        for name in ("two", "one"):
            found[name] = lifecycle.stage_out(made[name], folders[name], context(name))
    finally:
        for name in ("two", "one"):
            lifecycle.teardown(made[name], folders[name], Context(job=name, reach="local", discard=True))
    for name, other in (("one", "two"), ("two", "one")):
        outcome = found[name]
        assert outcome is not None and not silence(outcome) and not outcome.is_alone
        (neighbour,) = outcome.neighbours
        assert neighbour.behaviour_class == f"class-{other}" and neighbour.waited_seconds > 0
        assert outcome.share_received is not None and 0.2 < outcome.share_received < 0.8
        assert outcome.owned == (name == "one")


def traced(*windows: tuple[int, float, float]) -> TracedWindows:
    """The windows of a process: number, and seconds of reads and of writes."""
    zero = dict.fromkeys(("reads", "writes", "read_bytes", "written_bytes", "stats", "opens", "closes", "others"), 0)
    lines: Any = tuple(
        {**zero, "window": number, "device": "0.0", "reads": 1, "writes": 1, "read_seconds": read,
         "write_seconds": written, "metadata_seconds": 0.0}
        for number, read, written in windows
    )  # fmt: skip
    return TracedWindows(1, "job", 0, 1.0, lines, 0, 0)


def test_the_time_of_calls_is_the_mean_of_the_processes_that_made_some() -> None:
    one = calls_of([traced((1, 0.2, 0.4), (2, 0.0, 0.5))])
    assert one["read"].seconds == pytest.approx(0.2) and one["write"].seconds == pytest.approx(0.9)
    two = calls_of([traced((1, 0.2, 0.4)), traced((1, 0.4, 0.0), (2, 0.0, 0.5))])
    assert two["read"].seconds == pytest.approx(0.3) and two["write"].seconds == pytest.approx(0.7)
    # Calls that go to several targets at once count at each of them: a window is never longer than it is.
    wide = calls_of([traced((1, 1.0, 3.0))])
    assert wide["read"].seconds == pytest.approx(0.25) and wide["write"].seconds == pytest.approx(0.75)
    assert calls_of([]) == {}
