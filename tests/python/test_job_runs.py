"""Jobs with storage of their own: from a schema or a plan to the end, and through everything that ends them early."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import disks
import pytest
import sites
from job_runs import Job, schema
from seeds import seeded
from store import Store, kill
from waits import PATIENCE_SECONDS, wait_until
from weir.provisioning.deployments import Server
from weir.provisioning.errors import ProvisioningError
from weir.provisioning.lifecycle import environment, movement, setup, suspension, teardown, validation
from weir.provisioning.lifecycle.record import JobFolder, Phase, changed
from weir.provisioning.schema_file import read_schema
from weir.staging.errors import StagingError

ROOT = Path(__file__).resolve().parents[2]
PLACE = "cd ${WEIR_MOUNT:-$WEIR_PREFIX}"
RESULTS = f"{PLACE} && mkdir -p results && cat input/data > results/copy"


@pytest.fixture
def job(store: Store) -> Iterator[Job]:
    """A job on two devices."""
    made = Job(store, devices=2)
    yield made
    clean(made)


@pytest.fixture
def memory_job(store: Store) -> Iterator[Job]:
    """A job in memory."""
    made = Job(store)
    yield made
    clean(made)


def clean(job: Job) -> None:
    """End whatever a failed test left."""
    if job.storage.exists():
        with contextlib.suppress(ProvisioningError):
            job.store.weir("job", "end", "job", "--discard", "--yes", code=None)


def ended(child: "subprocess.Popen[str]") -> tuple[int, str]:
    words = child.communicate(timeout=PATIENCE_SECONDS)
    return child.returncode, "".join(words)


def killed(child: "subprocess.Popen[str]") -> None:
    """Kill a command; its program may hold the pipes open."""
    child.kill()
    child.wait()
    for pipe in (child.stdout, child.stderr):
        assert pipe is not None
        pipe.close()


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_from_its_input_to_its_results(job: Job, code: int) -> None:
    answer = job.run(f"{RESULTS} && echo words && exit {code}", code=code)
    assert "words" in answer.stdout
    assert (job.out / "copy").read_bytes() == b"12345"
    job.assert_nothing_is_left()
    assert job.store.json("job", "list") == []


def test_a_job_that_is_planned_from_a_log(store: Store) -> None:
    job = Job(store)
    arguments = [word for word in job.arguments(RESULTS) if word not in ("--schema", str(job.folder / "schema.json"))]
    moves = ("--stage-in", f"{job.folder}/input:input", "--stage-out", f"results:{job.out}")
    log = ("--trace", ROOT / "examples/run.darshan", "--local", job.folder, "--size", "64MiB")
    store.weir(*arguments, *moves, *log)
    assert (job.out / "copy").read_bytes() == b"12345"
    job.assert_nothing_is_left()


def test_a_size_is_enough_for_a_job_that_tells_of_its_steps(store: Store) -> None:
    job = Job(store)
    script = job.folder / "job.sh"
    moves = f"stage_in={job.folder}/input:input stage_out=results:{job.out}"
    script.write_text(f"#!/bin/sh\n  # indented\n#WEIR size=64MiB {moves}\n{RESULTS}\necho words\n")
    answer = store.weir("job", "run", script, "--name", "job", "--local", job.folder)
    assert (job.out / "copy").read_bytes() == b"12345"
    assert answer.stdout == "words\n"
    plan = r"job: 64\.0 MiB, \d+ servers? of \w+ on \S+, policy cost"
    steps = ("the storage is up", f"{job.folder}/input is staged in", "the program has ended", "results is staged out",
             "the storage has ended")  # fmt: skip
    told = [plan, *(rf"{re.escape(step)}: \d+\.\d s" for step in steps)]
    assert re.search(".*".join(told), answer.stderr, re.DOTALL), answer.stderr
    job.assert_nothing_is_left()


def test_a_job_of_which_nothing_is_known_is_refused(store: Store) -> None:
    job = Job(store)
    script = job.folder / "job.sh"
    script.write_text("#!/bin/sh\n#WEIR durable=true\ntrue\n")
    answer = store.weir("job", "run", script, "--name", "job", "--local", job.folder, code=2)
    assert "nothing is known of this job" in answer.stderr and "--size" in answer.stderr
    script.write_text("#!/bin/sh\n#\n#WEIR size=1GB stage_out=results:/out#7\ntrue\n")
    answer = store.weir("job", "run", script, "--name", "job", "--local", job.folder, code=1)
    assert f"{script}:3: sbatch cuts `stage_out=results:/out#7` at `#`" in answer.stderr
    job.assert_nothing_is_left()


def test_a_batch_script_is_run_as_a_whole(job: Job) -> None:
    job.arguments("true")
    script = job.folder / "script"
    script.write_text(f"#!/bin/sh\n#SBATCH --nodes 1\n{RESULTS}\necho $0 > results/name\n")
    job.store.weir("job", "run", script, "--schema", job.folder / "schema.json")
    assert (job.out / "name").read_text().strip() == str(script)
    job.assert_nothing_is_left()


def test_a_program_that_failed_need_not_have_results(job: Job) -> None:
    answer = job.run("exit 5", code=5)
    assert "has not made results" in answer.stderr
    job.assert_nothing_is_left()


def test_results_that_a_good_program_did_not_make_are_an_error(job: Job) -> None:
    answer = job.run("true", code=1)
    assert "No such file" in answer.stderr
    assert job.phase() == "staging-out"
    job.store.weir("job", "end", "job", "--discard", "--yes")
    job.assert_nothing_is_left()


def test_what_a_program_leaves_running_ends_with_the_job(job: Job) -> None:
    """Children of its session, and those that begin one of their own."""
    marks = f"{job.store.root}/orphan"
    job.run(f"{RESULTS}; sh -c 'sleep 1000; : {marks}' & setsid sh -c 'sleep 1000; : {marks}' & sleep 0.1")
    job.assert_nothing_is_left()


@pytest.mark.parametrize(("kind", "number"), [("job", signal.SIGTERM), ("memory_job", signal.SIGINT)])
def test_a_signal_ends_a_job_and_keeps_its_results(
    request: pytest.FixtureRequest, kind: str, number: signal.Signals
) -> None:
    job: Job = request.getfixturevalue(kind)
    child = job.start(f"{RESULTS} && touch {job.folder}/ready && exec sleep 1000")
    wait_until("the program runs", (job.folder / "ready").exists)
    child.send_signal(number)
    code, words = ended(child)
    assert code == 128 + number, words
    assert "its results are kept in" in words
    assert "weir job resume job" in words
    assert job.processes() == []
    assert not job.out.exists()
    assert job.phase() == "running"
    assert "not staged out" in job.store.weir("job", "end", "job", code=1).stderr
    job.store.weir("job", "resume", "job", code=128 + number)
    assert (job.out / "copy").read_bytes() == b"12345"
    job.assert_nothing_is_left()


def test_a_job_that_was_ended_early_runs_again(job: Job) -> None:
    child = job.start(f"{RESULTS} && [ -e {job.folder}/ready ] || {{ touch {job.folder}/ready; exec sleep 1000; }}")
    wait_until("the program runs", (job.folder / "ready").exists)
    child.terminate()
    ended(child)
    job.store.weir("job", "resume", "job", "--rerun")
    assert (job.out / "copy").exists()
    job.assert_nothing_is_left()


def test_a_killed_command_is_taken_up(job: Job) -> None:
    """SIGKILL leaves storage and program running; both are found again."""
    child = job.start(f"{RESULTS} && touch {job.folder}/ready && exec sleep 1000")
    wait_until("the program runs", (job.folder / "ready").exists)
    killed(child)
    refused = job.store.weir("job", "resume", "job", code=1).stderr
    assert "still runs (process " in refused
    assert "still runs" in job.store.weir("job", "end", "job", "--discard", "--yes", code=1).stderr
    kill(int(refused.partition("(process ")[2].partition(")")[0]))
    job.store.weir("job", "resume", "job")
    assert (job.out / "copy").read_bytes() == b"12345"
    job.assert_nothing_is_left()


def test_a_command_that_is_killed_at_any_moment_is_taken_up(job: Job) -> None:
    """Whatever phase it had come to, the same results are there in the end."""
    dice = seeded()
    (job.folder / "input/large").write_bytes(dice.randbytes(16 << 20))
    child = job.start(f"{PLACE} && mkdir -p results && cp input/* results")
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(dice.uniform(0.2, 3))
    killed(child)
    for _ in range(20):
        if not job.storage.exists():
            break
        answer = job.store.weir("job", "resume", "job", "--rerun", code=None)
        if "still runs" not in answer.stderr:
            assert answer.returncode == 0, answer.stderr
    if job.out.exists():
        assert (job.out / "large").read_bytes() == (job.folder / "input/large").read_bytes()
    job.assert_nothing_is_left()


@pytest.mark.parametrize("devices", [0, 1])
@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_store_that_came_up_for_a_killed_command_is_taken_up(store: Store, devices: int, is_mounted: bool) -> None:
    """The command was killed before it wrote that the store is up: the next one said that it is "already up"."""
    job = Job(store, devices=devices)
    folder = JobFolder(store.root / "steps")
    folder.create(read_schema(written(job)))
    begun = setup.setup(folder, print)
    if not is_mounted and begun.mount is not None:
        Store(folder.root, {"WEIR_HOME": str(folder.home.root)}).weir("umount", begun.mount)
    with folder.locked():
        folder.write(changed(folder.state(), phase=Phase.STARTING, servers=(), mount=None))
    assert setup.setup(folder, print).phase is Phase.READY
    movement.stage_in(folder)
    assert (environment.place_of(folder) / "input/data").read_bytes() == b"12345"
    assert teardown.teardown(folder, discard=True).phase is Phase.ENDED
    job.assert_nothing_is_left()


@pytest.mark.parametrize("kind", ["job", "memory_job"])
def test_a_full_destination_keeps_the_results(request: pytest.FixtureRequest, root_only: None, kind: str) -> None:
    job: Job = request.getfixturevalue(kind)
    with disks.small(job.folder, "tmpfs") as disk:
        job.schema["stage_out"][0]["destination"] = str(disk.path / "out")
        disk.fill()
        answer = job.run(f"{PLACE} && mkdir results && head -c 3000000 /dev/urandom > results/a", code=1)
        assert "full" in answer.stderr or "No space" in answer.stderr
        assert "are kept in" in answer.stderr
        assert job.processes() == []
        disk.free()
        job.store.weir("job", "resume", "job")
        assert (disk.path / "out/a").stat().st_size == 3_000_000
    job.assert_nothing_is_left()


def test_a_signal_in_the_midst_of_staging(job: Job) -> None:
    """The input is no result, so nothing is kept."""
    os.truncate(job.folder / "input/data", 5 << 20)
    (job.folder / "input/data").write_bytes(os.urandom(20 << 20))
    child = job.start(f"touch {job.folder}/ready")
    wait_until("the storage is up", lambda: (job.storage / "state.json").exists() and "staging" in job.phase())
    child.terminate()
    code, words = ended(child)
    if not (job.folder / "ready").exists():
        assert code == 128 + signal.SIGTERM, words
        assert "nothing runs" in words
        job.assert_nothing_is_left()


def test_one_bad_server_is_left_out_or_replaced_or_planned_around(store: Store) -> None:
    job = Job(store, devices=2)
    job.devices[1].rmdir()
    job.devices[1].write_text("no folder")
    answer = job.run(RESULTS)
    assert "the server on node-1 cannot be started" in answer.stderr
    assert "continue without it" in answer.stderr
    assert (job.out / "copy").exists()
    job.devices.pop()
    job.assert_nothing_is_left()

    # Later jobs would join room that is not there.
    job.schema["shareable"] = True
    answer = job.run(RESULTS, code=1)
    assert "its 1 servers have" in answer.stderr
    job.assert_nothing_is_left()
    job.schema["shareable"] = False

    job.schema["size_bytes"] = 128 << 20
    answer = job.run(RESULTS, code=1)
    assert "its 1 servers have" in answer.stderr
    job.assert_nothing_is_left()

    job.schema["servers"][1]["devices"] = [str(job.folder / "device-1")]
    folder = JobFolder(store.root / "spare")
    folder.create(read_schema(written(job)))
    told: list[str] = []
    spare = Server(node="spare", devices=(str(job.devices[0]),), target_bytes=64 << 20)
    state = setup.setup(folder, lambda notice: told.append(notice.words), spares=[spare])
    assert [server.node for server in state.servers] == ["node-0", "spare"]
    assert "spare takes its place" in told[0]
    teardown.teardown(folder)
    assert list(job.devices[0].iterdir()) == []


def written(job: Job) -> Path:
    job.arguments("true")
    return job.folder / "schema.json"


def test_an_infeasible_plan_is_made_again(store: Store) -> None:
    """The first node's device is no folder, which only the start finds out."""
    job = Job(store)
    (job.folder / "bad").write_text("no folder")
    (job.folder / "good").mkdir()
    nodes = [
        sites.node(name, job.folder / name, kind="nvme", capacity_bytes=1 << 30, rate=rate)
        for name, rate in (("bad", 9e9), ("good", 1e9))
    ]
    (job.folder / "resources.toml").write_text('version = 1\nsource = "test"\n' + "".join(nodes))
    arguments = [word for word in job.arguments(RESULTS) if word not in ("--schema", str(job.folder / "schema.json"))]
    moves = ("--stage-in", f"{job.folder}/input:input", "--stage-out", f"results:{job.out}", "--size", "64MiB")
    log = ("--trace", ROOT / "examples/run.darshan", "--resources", job.folder / "resources.toml")
    answer = store.weir(*arguments, *moves, *log, "--replans", "0", code=None)
    assert answer.returncode == 1 or "continue without it" in answer.stderr
    job.assert_nothing_is_left()
    answer = store.weir(*arguments, *moves, *log)
    assert "planned again" in answer.stderr or "continue without it" in answer.stderr
    assert (job.out / "copy").exists()
    job.assert_nothing_is_left()


def test_each_step_can_be_called_again(store: Store) -> None:
    job = Job(store, devices=1)
    folder = JobFolder(store.root / "steps")
    deployment = read_schema(written(job))
    validation.validate(deployment)
    for _ in range(2):
        folder.create(deployment)
        assert setup.setup(folder, print).phase is Phase.READY
    for _ in range(2):
        assert movement.stage_in(folder).phase is Phase.STAGED_IN
    for _ in range(2):
        variables = environment.environment(folder)
        subprocess.run(["sh", "-c", RESULTS], env=variables, check=True, timeout=PATIENCE_SECONDS)
    for _ in range(2):
        assert movement.stage_out(folder).phase is Phase.STAGED_OUT
    for _ in range(2):
        assert teardown.teardown(folder).phase is Phase.ENDED
    assert (job.out / "copy").read_bytes() == b"12345"
    with pytest.raises(ProvisioningError, match="has ended"):
        setup.setup(folder, print)
    teardown.forget(folder)
    job.assert_nothing_is_left()


def test_lost_memory_is_staged_in_again_and_lost_results_are_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mount of a store without servers answers its end only after this.
    monkeypatch.setenv("WEIR_TIMEOUT_SECONDS", "1")
    job = Job(store)
    folder = JobFolder(store.root / "steps")
    folder.create(read_schema(written(job)))
    setup.setup(folder, print)
    movement.stage_in(folder)
    kill_servers(folder)
    told: list[str] = []
    assert setup.setup(folder, lambda notice: told.append(notice.words)).phase is Phase.READY
    assert "staging in again" in told[0]
    movement.stage_in(folder)
    assert (environment.place_of(folder) / "input/data").read_bytes() == b"12345"
    with folder.locked():
        folder.write(changed(folder.state(), phase=Phase.RAN))
    kill_servers(folder)
    with pytest.raises(ProvisioningError, match="are lost"):
        setup.setup(folder, print)
    with pytest.raises(ProvisioningError, match="not staged out"):
        teardown.teardown(folder)
    teardown.teardown(folder, discard=True)
    job.assert_nothing_is_left()


def kill_servers(folder: JobFolder) -> None:
    for record in (folder.home.root / "servers").glob("*/pid"):
        kill(int(record.read_text().split()[0]))


def test_a_store_is_shared_until_its_last_job(store: Store) -> None:
    job = Job(store, devices=1, shareable=True, stage_out=[])
    owner = JobFolder(store.root / "jobs/job")
    owner.create(read_schema(written(job)))
    setup.setup(owner, print)
    job.schema |= {"name": "second", "joins": "job", "servers": [], "shareable": False}
    second = JobFolder(store.root / "jobs/second")
    second.create(read_schema(written(job)))
    state = setup.setup(second, print)
    assert state.home == owner.state().home
    assert teardown.teardown(owner).phase is Phase.ENDING
    movement.stage_in(second)
    assert (environment.place_of(second) / "input/data").read_bytes() == b"12345"
    assert teardown.teardown(second).phase is Phase.ENDED
    assert owner.state().phase is Phase.ENDED
    assert job.processes() == []
    third = JobFolder(store.root / "jobs/third")
    job.schema["name"] = "third"
    third.create(read_schema(written(job)))
    with pytest.raises(ProvisioningError, match="cannot be joined"):
        setup.setup(third, print)
    teardown.teardown(third)


@pytest.mark.parametrize("devices", [0, 1])
def test_the_early_end_of_a_job_leaves_its_store_to_its_sharers(store: Store, devices: int) -> None:
    """The store was stopped once, and the results of the sharers went with its memory."""
    job = Job(store, devices=devices, shareable=True)
    owner = ran(job, "job")
    job.schema |= {"name": "second", "joins": "job", "servers": [], "shareable": False}
    job.schema |= {"stage_in": [], "stage_out": [{"source": "other", "destination": f"{job.folder}/other"}]}
    second = JobFolder(store.root / "jobs/second")
    second.create(read_schema(written(job)))
    setup.setup(second, print)
    (environment.place_of(second) / "other").write_bytes(b"of the sharer")
    with second.locked():
        second.write(changed(second.state(), phase=Phase.RAN))
    suspension.suspend(owner)
    job.schema["name"] = "third"
    third = JobFolder(store.root / "jobs/third")
    third.create(read_schema(written(job)))
    with pytest.raises(ProvisioningError, match="was ended early"):
        setup.setup(third, print)
    movement.stage_out(second)
    assert (job.folder / "other").read_bytes() == b"of the sharer"
    assert job.processes() != []
    assert teardown.teardown(second).phase is Phase.ENDED
    assert job.processes() == []
    if suspension.needs_store(owner):
        setup.setup(owner, print)
    movement.stage_out(owner)
    assert (job.out / "copy").read_bytes() == b"12345"
    assert teardown.teardown(owner).phase is Phase.ENDED
    assert job.processes() == []


def ran(job: Job, name: str) -> JobFolder:
    """Set a job up and run its program."""
    folder = JobFolder(job.store.root / "jobs" / name)
    folder.create(read_schema(written(job)))
    setup.setup(folder, print)
    movement.stage_in(folder)
    subprocess.run(["sh", "-c", RESULTS], env=environment.environment(folder), check=True, timeout=PATIENCE_SECONDS)
    with folder.locked():
        folder.write(changed(folder.state(), phase=Phase.RAN))
    return folder


def test_suspended_results_in_memory_need_no_store(store: Store) -> None:
    job = Job(store)
    folder = JobFolder(store.root / "steps")
    folder.create(read_schema(written(job)))
    setup.setup(folder, print)
    movement.stage_in(folder)
    subprocess.run(["sh", "-c", RESULTS], env=environment.environment(folder), check=True, timeout=PATIENCE_SECONDS)
    with folder.locked():
        folder.write(changed(folder.state(), phase=Phase.RAN))
    # The copy out of the store is begun, and goes on from the place in which the results are kept.
    (job.out / "copy").mkdir(parents=True)
    with pytest.raises(StagingError, match="copy"):
        movement.stage_out(folder)
    (job.out / "copy").rmdir()
    state = suspension.suspend(folder)
    assert (Path(state.kept["0"]) / "copy").read_bytes() == b"12345"
    assert job.processes() == []
    assert not suspension.needs_store(folder)
    movement.stage_out(folder)
    assert (job.out / "copy").read_bytes() == b"12345"
    teardown.teardown(folder)
    job.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "../up"}, "is no name"),
        ({"system": {"kind": "lustre", "device": "hdd", "servers": 1}}, "which Weir does not start"),
        ({"semantics": {"replicas": 2}}, "needs 2 replicas"),
        ({"semantics": {"encrypted": True, "representation": "hdf5"}}, "encryption at rest and the representation"),
        ({"servers": []}, "has 0 servers"),
        ({"joins": "other"}, "and has servers of its own"),
        ({"size_bytes": 1 << 50}, "asks for"),
        ({"servers": [{"node": "n", "devices": ["relative"], "target_bytes": 1 << 30}]}, "no absolute path"),
        ({"servers": [{"node": "n", "devices": [], "target_bytes": 0}]}, "has 0 bytes"),
        ({"stage_in": [{"source": "relative", "destination": "input"}]}, "no absolute path"),
        ({"stage_in": [{"source": "/input", "destination": "a/../../b"}]}, "no path inside of the store"),
        ({"stage_in": [{"source": "/input", "destination": "."}]}, "no path inside of the store"),
        ({"stage_out": [{"source": "/abs", "destination": "/out"}]}, "no path inside of the store"),
        ({"system": {"device": "ssd", "servers": 1, "settings": {"servers": "7"}}}, "is no setting"),
    ],
)
def test_deployments_that_cannot_be(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({**schema(tmp_path), **changes}))
    with pytest.raises(ProvisioningError, match=words) as caught:
        deployment = read_schema(path)
        validation.validate(deployment)
        setup.configuration_of(deployment, deployment.servers, "token")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"system": {"device": "ssd", "servers": 1, "settings": {"stripe_size": "1"}}}, "stripe_size"),
        ({"size_bytes": 1 << 50}, "asks for"),
    ],
)
def test_nothing_is_left_of_deployments_that_cannot_be(store: Store, changes: dict[str, Any], words: str) -> None:
    job = Job(store, devices=1, **changes)
    answer = job.store.weir(*job.arguments("true"), code=None)
    assert answer.returncode in (1, 2)
    assert words in answer.stderr
    assert "hint:" in answer.stderr
    job.assert_nothing_is_left()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"name": 1}', "\0" * 100, '"x"' * 9])
def test_files_that_are_no_deployment(tmp_path: Path, text: str) -> None:
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(ProvisioningError, match="is no deployment"):
        read_schema(tmp_path / "schema.json")


def test_jobs_that_are_not_there(store: Store) -> None:
    for command in ("resume", "end"):
        assert "there is no job absent" in store.weir("job", command, "absent", code=1).stderr
        assert "is no name" in store.weir("job", command, "../home", code=2).stderr
    job = Job(store)
    arguments = job.arguments("true")
    assert "either --trace" in store.weir(*arguments, "--trace", "log", code=2).stderr
    assert "not two paths" in store.weir(*arguments, "--stage-in", "one", code=2).stderr
    state = {"version": 1, "phase": "flying"}
    folder = JobFolder(store.root / "home-jobs/job")
    folder.create(read_schema(written(job)))
    (folder.root / "state.json").write_text(json.dumps(state))
    assert "is no state" in store.weir("job", "resume", "job", code=1).stderr
