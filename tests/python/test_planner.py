"""The resident planner: deployments are led through their lives, and outlive every end of the planner."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from resident import GIB, IDENTITY, LOGS, Planner, interpreter, nobody, planner, python_path, script, write_site
from waits import PATIENCE_SECONDS, wait_until
from weir.planner import protocol
from weir.planner.client import Client
from weir.planner.errors import PlannerError
from weir.planner.protocol import Listed, Planned, PoolList, Summary, Variables
from weir.provisioning.deployments import capacity_bytes

_NUMBERS = count()


@pytest.fixture
def folder() -> Path:
    return Path("/tmp") / f"weir-planner-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture(scope="module")
def lasting() -> Iterator[Planner]:
    with planner(Path("/tmp") / f"weir-planner-{os.getpid()}-shared") as made:
        yield made


@pytest.fixture
def running(lasting: Planner) -> Iterator[Planner]:
    """A planner without deployments and faults; tests share its process."""
    if lasting.process is None:
        lasting.start()
    yield lasting
    if lasting.process is not None:
        lasting.clean()


def refusal(made: Planner, request: protocol.AnyRequest, kind: type[protocol.AnyResult] = Summary) -> PlannerError:
    with pytest.raises(PlannerError) as caught:
        made.ask(request, kind)
    return caught.value


def test_a_job_goes_through_its_life(running: Planner) -> None:
    source, target = running.control / "input", running.control / "result"
    source.write_text("42")
    directives = f" stage_in={source}:input stage_out=result:{target}"
    assert running.plan("job-1", directives, job="17").state == "planned"
    assert running.ask(protocol.Setup(name="job-1", wait_seconds=600), Summary).state == "started"
    assert running.ask(protocol.StageIn(name="job-1", wait_seconds=600), Summary).state == "ready"
    assert running.ask(protocol.Paths(name="job-1"), Variables).environment == {}
    found = running.ask(protocol.GetEnvironment(name="job-1", wait_seconds=600), Variables)
    assert found.state == "running"
    assert found.environment["JOB"] == "17" and found.environment["NODES"] == "2"
    assert running.ask(protocol.Paths(name="job-1"), Variables) == found
    store = Path(found.environment["STORE"])
    (store / "result").write_text((store / "input").read_text() * 2)
    assert running.ask(protocol.StageOut(name="job-1", wait_seconds=600), Summary).state == "staged-out"
    assert target.read_text() == "4242"
    assert running.ask(protocol.Teardown(name="job-1", wait_seconds=600), Summary).state == "ended"
    assert not store.parent.exists()
    # Each step ran once, and asking again for the end changes nothing.
    assert running.ask(protocol.Teardown(name="job-1", wait_seconds=600), Summary).state == "ended"
    begun = [line.split()[0] for line in running.steps("job-1") if line.endswith("begun")]
    assert begun == ["setup", "stage_in", "environment", "stage_out", "teardown"]


def test_steps_that_come_before_are_done_too(running: Planner) -> None:
    running.plan("all")
    found = running.ask(protocol.GetEnvironment(name="all", wait_seconds=600), Variables)
    assert found.state == "running" and Path(found.environment["STORE"]).is_dir()
    # A fresh credential for a job that runs already.
    assert running.ask(protocol.GetEnvironment(name="all", wait_seconds=600), Variables) == found
    refused = refusal(running, protocol.Setup(name="nothing"))
    assert refused.code == "missing" and refused.hint


def test_output_is_not_lost(running: Planner) -> None:
    running.plan("precious", f" stage_out=result:{running.control / 'gone' / 'result'}")
    store = Path(
        running.ask(protocol.GetEnvironment(name="precious", wait_seconds=600), Variables).environment["STORE"]
    )
    (store / "result").write_text("a week of work")
    refused = refusal(running, protocol.Teardown(name="precious", wait_seconds=600))
    assert refused.code == "conflict" and str(store.parent) in refused.message
    running.hold("full")
    failed = refusal(running, protocol.StageOut(name="precious", wait_seconds=600))
    assert failed.code == "failed" and str(store) in failed.message
    summary = running.summary("precious")
    assert (summary.state, summary.step) == ("failed", "stage_out") and summary.error == failed.message
    assert (store / "result").exists()
    assert refusal(running, protocol.End(name="precious")).code == "conflict"
    running.release("full")
    (running.control / "gone").mkdir()
    assert running.ask(protocol.StageOut(name="precious", wait_seconds=600), Summary).state == "staged-out"
    assert running.ask(protocol.End(name="precious", wait_seconds=600), Summary).state == "ended"


def test_discarded_output_and_a_step_that_is_broken_off(running: Planner) -> None:
    running.plan("left", f" stage_out=result:{running.control}/r")
    running.ask(protocol.GetEnvironment(name="left", wait_seconds=600), Variables)
    assert running.ask(protocol.End(name="left", discard=True, wait_seconds=600), Summary).state == "ended"
    running.hold("hold-stage_in")
    running.plan("stuck")
    running.ask(protocol.StageIn(name="stuck"), Summary)
    running.until("stuck", "staging-in")
    wait_until("the step runs", lambda: "stage_in begun" in running.steps("stuck"))
    # The step itself would wait for ever.
    assert running.ask(protocol.End(name="stuck", wait_seconds=600), Summary).state == "ended"
    assert "stage_in ended" not in running.steps("stuck")


def test_the_words_of_steps_and_scripts_have_bounds(running: Planner) -> None:
    running.plan("wordy")
    running.hold("wordy")
    failed = refusal(running, protocol.StageIn(name="wordy", wait_seconds=600))
    shown = running.summary("wordy")
    assert (failed.message, failed.hint) == (shown.error, shown.hint) == ("x" * 4096, "y" * 4096)
    running.release("wordy")
    running.ask(protocol.StageIn(name="wordy", wait_seconds=600), Summary)
    running.hold("wordy")
    failed = refusal(running, protocol.GetEnvironment(name="wordy", wait_seconds=600), Variables)
    assert "more than 65536 characters" in failed.message
    paths = "".join(f"\n#WEIR stage_out={'x' * 2000}:/{'y' * 2000}{number}" for number in range(20))
    refused = refusal(running, protocol.Validate(script=script(paths)), protocol.Valid)
    assert refused.code == "invalid" and "65536 bytes" in refused.message


STATES = {
    "setup": ("starting", protocol.Setup),
    "stage_in": ("staging-in", protocol.StageIn),
    "environment": ("ready", protocol.GetEnvironment),
    "stage_out": ("staging-out", protocol.StageOut),
    "teardown": ("ending", protocol.Teardown),
}


def test_a_planner_that_is_killed_in_any_step_loses_nothing(folder: Path) -> None:
    source, target = folder / "control" / "input", folder / "control" / "result"
    with planner(folder) as made:
        made.start()
        source.write_text("42")
        made.plan("job", f" stage_in={source}:input stage_out=input:{target}")
        before = "planned"
        for step, (state, request) in STATES.items():
            assert made.state("job") == before
            made.kill()
            # Between two steps.
            made.start()
            assert made.state("job") == before
            made.hold(f"hold-{step}")
            made.ask(request(name="job"), Variables if step == "environment" else Summary)
            wait_until("the step runs", lambda step=step: f"{step} begun" in made.steps("job"))  # type: ignore[misc]
            made.kill()
            made.start()
            # The new planner begins the step again by itself.
            wait_until("the step runs again", lambda step=step: made.steps("job").count(f"{step} begun") == 2)  # type: ignore[misc]
            assert made.state("job") == state
            assert made.steps("job").count(f"{step} ended") == 0
            made.release(f"hold-{step}")
            kind = Variables if step == "environment" else Summary
            before = made.ask(request(name="job", wait_seconds=600), kind).state
        assert before == "ended" and target.read_text() == "42"
        made.stop()
        made.start()
        assert made.state("job") == "ended"


def test_kept_failed_and_waiting_deployments_outlive_a_kill(folder: Path) -> None:
    with planner(folder) as made:
        made.start()
        made.plan("kept", " policy=interference lease=1h")
        made.ask(protocol.GetEnvironment(name="kept", wait_seconds=600), Variables)
        assert made.ask(protocol.Teardown(name="kept", wait_seconds=600), Summary).state == "kept"
        until = made.summary("kept").lease_until
        assert until is not None
        assert made.plan("waiting", " policy=utilization window=1h size=4GiB").state == "waiting"
        for node in ("n1", "n2"):
            made.hold(f"bad-{node}")
        made.plan("failed")
        assert refusal(made, protocol.Setup(name="failed", wait_seconds=600)).code == "failed"
        for node in ("n1", "n2"):
            made.ask(protocol.Quarantine(node=node, seconds=0), protocol.Hello)
            made.release(f"bad-{node}")
        made.kill()
        made.start()
        assert made.state("waiting") == "waiting"
        assert made.summary("kept").lease_until == until and made.state("failed") == "failed"
        # The waiting one would take all devices as soon as the store is gone.
        assert made.ask(protocol.Setup(name="failed", wait_seconds=600), Summary).state == "started"
        # Who ends the store himself wants no lease.
        assert made.ask(protocol.End(name="kept", wait_seconds=600), Summary).state == "ended"
        made.ask(protocol.End(name="failed", wait_seconds=600), Summary)
        made.until("waiting", "planned")
        # The step was done well at last and the deployment has ended: what failed is told all the same.
        shown = made.ask(protocol.Show(name="failed"), protocol.Shown)
        assert shown.summary.state == "ended" and not shown.summary.error
        assert shown.failures and {each.step for each in shown.failures} == {"setup"}
        assert all("does not answer" in each.message for each in shown.failures)


def test_a_lease_that_ran_out_while_no_planner_ran_ends_the_store(folder: Path) -> None:
    with planner(folder) as made:
        made.start()
        made.plan("short", " policy=interference lease=1s")
        made.ask(protocol.Setup(name="short", wait_seconds=600), Summary)
        made.ask(protocol.Teardown(name="short", wait_seconds=600), Summary)
        made.kill()
        made.start()
        made.until("short", "ended")


def test_a_shared_store_outlives_its_owner_for_its_sharers(running: Planner) -> None:
    running.plan("owner", " policy=interference lease=1h")
    running.ask(protocol.GetEnvironment(name="owner", wait_seconds=600), Variables)
    running.ask(protocol.Teardown(name="owner", wait_seconds=600), Summary)
    running.until("owner", "kept")
    planned = running.plan("guest", " policy=interference")
    assert planned.deployment.joins == "owner" and not planned.deployment.servers
    wait_until("the lease is over", lambda: running.summary("owner").lease_until is None)
    running.ask(protocol.GetEnvironment(name="guest", wait_seconds=600), Variables)
    shown = running.ask(protocol.Show(name="owner"), protocol.Shown)
    assert shown.sharers == ("guest",)
    # The end of the owner waits for the guest.
    assert running.ask(protocol.End(name="owner", wait_seconds=600), Summary).state == "kept"
    assert running.ask(protocol.Teardown(name="guest", wait_seconds=600), Summary).state == "ended"
    running.until("owner", "ended")


def test_a_job_joins_a_store_while_its_owner_runs(running: Planner) -> None:
    write_site(running.folder, ("n1",))
    owner = running.plan("owner", " policy=interference slowdown=9 size=1GiB").deployment
    # The half of the room that the owner's job leaves on the device is for jobs that join.
    assert capacity_bytes(owner) == GIB + GIB // 2 and owner.size_bytes == GIB
    running.ask(protocol.Setup(name="owner", wait_seconds=600), Summary)
    guest = running.plan("guest", " policy=utilization slowdown=9 size=256MiB").deployment
    other = running.plan("other", " policy=interference slowdown=9 size=256MiB").deployment
    assert (guest.joins, other.joins) == ("owner", "owner")
    shown = running.ask(protocol.Show(name="owner"), protocol.Shown)
    assert running.summary("owner").state == "started" and shown.sharers == ("guest", "other")
    # The store has no room beside its three jobs, so the next job has a store of its own.
    late = running.plan("late", " policy=interference slowdown=9 size=256MiB").deployment
    assert not late.joins and late.servers
    # A store has room for no job that comes later where the room of its device is used up.
    assert capacity_bytes(late) < 2 * late.size_bytes


def test_an_administrator_sets_the_room_for_jobs_that_join(folder: Path) -> None:
    with planner(folder, "--steps", "planner_steps", "--sharers-room", "0") as made:
        made.start()
        owner = made.plan("owner", " policy=interference slowdown=9 size=1GiB").deployment
        assert capacity_bytes(owner) == owner.size_bytes == GIB
        made.ask(protocol.Setup(name="owner", wait_seconds=600), Summary)
        assert not made.plan("guest", " policy=interference slowdown=9 size=256MiB").deployment.joins


def test_a_job_with_a_window_waits_for_storage(running: Planner) -> None:
    write_site(running.folder, ("n1",))
    running.plan("owner", " policy=interference lease=1h size=2GiB")
    assert running.plan("patient", " policy=utilization window=1h").state == "waiting"
    assert running.plan("hasty", " policy=utilization window=1s").state == "waiting"
    refused = refusal(
        running, protocol.Plan(name="x", script=script(" policy=utilization"), identity=IDENTITY), Planned
    )
    assert refused.code == "infeasible"
    # A job that asks for more than the whole site waits in vain, and is told at once.
    large = script(" size=9GiB policy=utilization window=1h")
    assert refusal(running, protocol.Plan(name="x", script=large, identity=IDENTITY), Planned).code == "infeasible"
    running.until("hasty", "failed")
    assert running.summary("hasty").error
    running.ask(protocol.Setup(name="owner", wait_seconds=600), Summary)
    running.ask(protocol.Teardown(name="owner", wait_seconds=600), Summary)
    running.until("patient", "planned")
    assert running.summary("patient").joins == "owner"


def test_a_bad_node_is_left_out_and_the_job_planned_again(running: Planner) -> None:
    first = running.plan("job").deployment.servers[0].node
    running.hold(f"bad-{first}")
    summary = running.ask(protocol.Setup(name="job", wait_seconds=600), Summary)
    assert summary.state == "started" and summary.replans == 1
    assert first not in summary.nodes
    shown = running.ask(protocol.Show(name="job"), protocol.Shown)
    assert shown.left_out == (first,)
    (failure,) = shown.failures
    assert failure.step == "setup" and f"{first} does not answer" in failure.message
    assert f"job of user {os.getuid()} failed in setup: {failure.message}" in running.log
    # The node's fault holds for this user's later jobs, and not for everybody.
    assert first not in running.ask(protocol.Pools(), PoolList).quarantined
    other = running.plan("next", " size=1GiB")
    assert first not in [server.node for server in other.deployment.servers]


def test_a_job_without_another_node_is_told_what_failed_on_the_bad_one(folder: Path) -> None:
    """The second plan fails for want of nodes, which is no news to whoever must mend the first one."""
    with planner(folder, "--steps", "planner_steps", nodes=("n1",)) as made:
        made.start()
        made.plan("job")
        made.hold("bad-n1")
        failed = refusal(made, protocol.Setup(name="job", wait_seconds=600), Summary)
        assert "n1 does not answer" in failed.message and "no usable node" in failed.message, failed.message


def test_storage_that_nobody_sets_up_is_for_others_after_a_while(folder: Path) -> None:
    with planner(folder, "--steps", "planner_steps", "--hold", "0.1s", "--replans", "0", nodes=("n1",)) as made:
        made.start()
        made.plan("late", " size=2GiB")
        free = "the storage is free again"
        wait_until(free, lambda: made.ask(protocol.Pools(), PoolList).pools[0].free_bytes == 2 * GIB)
        assert made.state("late") == "planned"
        made.plan("quick", " size=2GiB")
        assert made.ask(protocol.Setup(name="quick", wait_seconds=600), Summary).state == "started"
        refused = refusal(made, protocol.Setup(name="late", wait_seconds=600))
        assert refused.code == "failed" and made.summary("late").error
        made.ask(protocol.End(name="quick", wait_seconds=600), Summary)
        assert made.ask(protocol.Setup(name="late", wait_seconds=600), Summary).state == "started"
        assert made.ask(protocol.Pools(), PoolList).pools[0].free_bytes == 0


def test_a_user_holds_a_share_of_the_site(folder: Path) -> None:
    with planner(folder, "--steps", "planner_steps", "--share-max", "50") as made:
        made.start()
        made.plan("one", " size=1GiB")
        made.plan("two", " size=1GiB")
        request = protocol.Plan(name="three", script=script(" size=1GiB"), identity=IDENTITY)
        refused = refusal(made, request, Planned)
        assert refused.code == "infeasible" and "of class ssd" in refused.message and refused.hint
        made.ask(protocol.End(name="one", wait_seconds=600), Summary)
        assert made.ask(request, Planned).state == "planned"
        made.ask(protocol.End(name="two", wait_seconds=600), Summary)
        # Room for jobs that join would be beyond the user's share, and the job itself is not.
        shared = made.plan("shared", " policy=interference size=1GiB").deployment
        assert shared.shareable and capacity_bytes(shared) == GIB


def test_plans_are_made_again_so_often_and_no_more(folder: Path) -> None:
    nodes = ("n1", "n2", "n3", "n4")
    with planner(folder, "--steps", "planner_steps", "--replans", "2", nodes=nodes) as made:
        made.start()
        for node in nodes:
            made.hold(f"bad-{node}")
        made.plan("job")
        failed = refusal(made, protocol.Setup(name="job", wait_seconds=600))
        assert failed.code == "failed" and "does not answer" in failed.message
        assert made.summary("job").replans == 2
        assert made.steps("job").count("setup begun") == 3


def test_a_plan_that_cannot_be_any_more_is_made_again(running: Planner) -> None:
    first = running.plan("job").deployment.servers[0].node
    (other,) = {"n1", "n2"} - {first}
    # The scheduler granted the other node alone.
    summary = running.ask(protocol.Setup(name="job", nodes=(other,), wait_seconds=600), Summary)
    assert (summary.state, summary.nodes, summary.replans) == ("started", (other,), 1)
    node = running.plan("late").deployment.servers[0].node
    write_site(running.folder, ("n3",))
    summary = running.ask(protocol.Setup(name="late", wait_seconds=600), Summary)
    assert summary.nodes == ("n3",) and node != "n3"
    write_site(running.folder, ())
    running.ask(protocol.End(name="late", wait_seconds=600), Summary)
    refused = refusal(running, protocol.Plan(script=script(), identity=IDENTITY), Planned)
    assert refused.code == "infeasible" and refused.hint
    # A model that cannot be read leaves the one before it.
    (running.folder / "site.toml").write_text("nodes = 3")
    assert refusal(running, protocol.Plan(script=script(), identity=IDENTITY), Planned).code == "infeasible"


def test_storage_that_is_promised_is_not_promised_again(running: Planner) -> None:
    free = running.ask(protocol.Pools(), PoolList).pools[0].free_bytes
    nodes = [running.plan(f"job-{number}", " size=2GiB").deployment.servers[0].node for number in range(2)]
    assert sorted(nodes) == ["n1", "n2"]
    assert running.ask(protocol.Pools(), PoolList).pools[0].free_bytes == free - 4 * GIB
    refused = refusal(running, protocol.Plan(name="more", script=script(), identity=IDENTITY), Planned)
    assert refused.code == "infeasible"
    assert refusal(running, protocol.Plan(name="job-0", script=script(), identity=IDENTITY), Planned)
    running.ask(protocol.End(name="job-0", wait_seconds=600), Summary)
    assert running.plan("job-0").state == "planned"


def test_a_known_job_is_planned_without_its_log(folder: Path) -> None:
    log = next(LOGS.glob("sample-goodost*.darshan"))
    text = script()
    with planner(folder) as made:
        made.start()
        unknown = refusal(made, protocol.Plan(script="#!/bin/sh\nsrun model\n"), Planned)
        assert unknown.code == "missing" and "trace" in unknown.hint and "size" in unknown.hint
        # A plan from the size alone is not remembered.
        assert not made.ask(protocol.Plan(script=text), Planned).known
        first = made.ask(protocol.Plan(script=text, log=str(log)), Planned)
        assert not first.known and first.times.parse_ms > 0
        again = made.ask(protocol.Plan(script=text), Planned)
        assert again.known and again.times.plan_ms == 0 and again.deployment == first.deployment
        # Other conditions need another plan, but not the log.
        made.ask(protocol.Quarantine(node=first.deployment.servers[0].node, seconds=3600), protocol.Hello)
        moved = made.ask(protocol.Plan(script=text), Planned)
        assert moved.known and moved.times.parse_ms == 0 and moved.deployment.servers != first.deployment.servers
        made.stop()
        made.start()
        assert made.ask(protocol.Plan(script=text), Planned).deployment == moved.deployment
        damaged = folder / "control" / "damaged.darshan"
        damaged.write_bytes(log.read_bytes()[:1000])
        refused = refusal(made, protocol.Plan(script=text, log=str(damaged)), Planned)
        assert refused.code == "invalid" and str(damaged) in refused.message
        assert "trce" in refusal(made, protocol.Validate(script="#!/bin/sh\n#WEIR trce=/x\n"), protocol.Valid).message


def test_storage_of_a_size_needs_nothing_else(running: Planner) -> None:
    for size, expected in (("200MB", 200 * 10**6), ("3GiB", 3 << 30), ("200MB", 200 * 10**6)):
        made = running.ask(protocol.Plan(script=f"#!/bin/sh\n#WEIR size={size}\nsrun other\n"), Planned)
        assert made.deployment.size_bytes == expected and not made.known
        assert capacity_bytes(made.deployment) >= expected


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ("#WEIR size=5GB", "infeasible", "4.7 GiB are more than this site has of any class of devices: ssd has"),
        ("#WEIR size=1GB replicas=2", "infeasible", "2 copies of each byte"),
        ("#WEIR size=1GB encrypted=true representation=object", "infeasible", "encryption at rest and data as object"),
        ("#WEIR durable=true", "missing", "nothing is known"),
        ("#WEIR size=4GB", None, ""),
        ("#WEIR size=1GB representation=hdf5 durable=yes", None, ""),
        ("#WEIR trace=/logs/run.darshan", None, ""),
    ],
)
def test_what_can_never_be_had_is_no_valid_job(running: Planner, lines: str, code: str | None, words: str) -> None:
    """The whole site counts, whatever is held of it now."""
    running.plan("holder", " size=3GB")
    running.ask(protocol.Quarantine(node="n1", seconds=3600), protocol.Hello)
    asked = protocol.Validate(script=f"#!/bin/sh\n{lines}\nsrun model-{words[:3]}\n", uid=os.geteuid(), nodes=1)
    if code is None:
        running.ask(asked, protocol.Valid)
        return
    refused = refusal(running, asked, protocol.Valid)
    assert refused.code == code and words in refused.message and refused.hint


def test_a_share_of_the_site_bounds_what_can_ever_be_had(folder: Path) -> None:
    with planner(folder, "--steps", "planner_steps", "--share-max", "50") as made:
        made.start()
        made.ask(protocol.Validate(script="#!/bin/sh\n#WEIR size=2GB\n"), protocol.Valid)
        refused = refusal(made, protocol.Validate(script="#!/bin/sh\n#WEIR size=3GB\n"), protocol.Valid)
        assert "for one user, 50% of it, 2.0 GiB" in refused.message


def test_a_job_finds_its_own_booking_before_a_second_plan_is_made(running: Planner) -> None:
    """The booking holds most of the site, so a second plan could not be made."""
    text = "#!/bin/sh\n#WEIR size=3GB\nsrun model\n"
    running.ask(protocol.Plan(name="own", script=text), Planned)
    assert refusal(running, protocol.Plan(name="other", script=text), Planned).code == "infeasible"
    assert refusal(running, protocol.Plan(name="own", script=text), Planned).code == "conflict"
    assert running.ask(protocol.Setup(name="own", wait_seconds=600), Summary).state == "started"


def test_a_thousand_plans_in_flight_are_answered_in_order(running: Planner) -> None:
    requests = 1000
    plan = {"request": "plan", "script": script(), "identity": json.loads(_json(IDENTITY))}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.socket))
        # Nothing is read until everything is sent.
        for number in range(requests):
            connection.sendall(json.dumps({**plan, "id": number}).encode() + b"\n")
        answers = connection.makefile("rb")
        for number in range(requests):
            answer = json.loads(answers.readline())
            assert answer["id"] == number and answer["result"]["deployment"]["size_bytes"] == GIB


def test_a_client_that_takes_no_answers_does_not_fill_the_planner(running: Planner) -> None:
    assert running.process is not None
    status = Path(f"/proc/{running.process.pid}/status")
    line = json.dumps({"request": "validate", "script": "#!/bin/sh\n#WEIR " + " " * 3000 + "size=1GB\n"}).encode()

    def resident() -> int:
        return int(next(each for each in status.read_text().splitlines() if each.startswith("VmRSS")).split()[1]) << 10

    running.plan()
    before = resident()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.socket))
        connection.setblocking(False)
        sent = 0
        # The planner stops reading, long before a fifth of a gigabyte is sent.
        while sent < 200 << 20 and select.select([], [connection], [], 1.0)[1]:
            sent += connection.send(line + b"\n")
        assert 1 << 20 < sent < 200 << 20
        running.ask(protocol.Ping(), protocol.Hello)
    assert resident() - before < 100 << 20


def test_quick_requests_are_answered_while_a_step_goes_on(running: Planner) -> None:
    running.hold("hold-stage_in")
    running.plan("slow")
    done = threading.Event()

    def wait() -> None:
        running.ask(protocol.StageIn(name="slow", wait_seconds=600), Summary)
        done.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    running.until("slow", "staging-in")
    with Client(running.socket) as client:
        client.ask(protocol.Validate(script=script()), protocol.Valid)
        assert client.ask(protocol.Pools(), PoolList).pools
        assert client.ask(protocol.List(), Listed).deployments[0].state == "staging-in"
        assert client.ask(protocol.Paths(name="slow"), Variables).environment == {}
        # The same step again joins it.
        assert client.ask(protocol.StageIn(name="slow"), Summary).state == "staging-in"
    assert not done.is_set()
    running.release("hold-stage_in")
    waiting.join(PATIENCE_SECONDS)
    assert done.is_set() and running.steps("slow").count("stage_in begun") == 1


def test_lists_have_pages(running: Planner) -> None:
    write_site(running.folder, ("n1",), 64 * GIB)
    for number in range(5):
        running.plan(f"job-{number}")
    first = running.ask(protocol.List(limit=3), Listed)
    rest = running.ask(protocol.List(limit=3, after=first.next), Listed)
    assert [each.name for each in (*first.deployments, *rest.deployments)] == [f"job-{n}" for n in range(5)]
    assert first.next and not rest.next
    assert refusal(running, protocol.List(after="x/../y"), Listed).code == "invalid"


def test_users_see_and_end_their_own_deployments_alone(folder: Path) -> None:
    uid = nobody()
    with planner(folder, "--steps", "planner_steps", "--scheduler-user", "daemon", program=interpreter(uid)) as made:
        write_site(folder, ("n1", "n2"), 64 * GIB)
        made.start()
        made.plan("mine")
        made.plan("theirs", uid=uid, job="9")
        own = "import sys; from weir.planner.client import Client; from weir.planner import protocol as p\n"
        assert "theirs" not in [each.name for each in made.ask(protocol.List(), Listed).deployments]
        every = made.ask(protocol.List(all_users=True), Listed).deployments
        assert [(each.uid, each.name) for each in every] == [(0, "mine"), (uid, "theirs")]

        def as_user(number: int, request: str, kind: str = "Listed") -> str:
            question = own + f"print(Client().ask({request}, p.{kind}))"
            answer = subprocess.run(
                [made.program, "-c", question], user=number, group=number, extra_groups=(), text=True, cwd="/",
                env={"PYTHONPATH": python_path(), "WEIR_PLANNER": str(made.socket)}, capture_output=True, check=False,
            )  # fmt: skip
            return answer.stdout if answer.returncode == 0 else answer.stderr.split("PlannerError: ")[-1]

        shown = as_user(uid, "p.List()")
        assert "'theirs'" in shown and "'mine'" not in shown
        assert "no deployment mine" in as_user(uid, "p.End(name='mine')", "Summary")
        assert "may not act" in as_user(uid, "p.List(uid=0)")
        assert "alone" in as_user(uid, "p.List(all_users=True)")
        assert "alone" in as_user(uid, "p.Quarantine(node='n1', seconds=9)", "Hello")
        # The scheduler's user acts for others, as Slurm's controller does.
        assert "'theirs'" in as_user(1, f"p.List(uid={uid})")
        # Steps run as the user, and so does the reader of logs.
        source = made.control / "secret"
        source.write_text("root's")
        source.chmod(0o600)
        assert made.ask(protocol.Setup(name="theirs", uid=uid, wait_seconds=600), Summary).state == "started"
        assert (made.folder / "state" / "users" / str(uid) / "theirs" / "store").stat().st_uid == uid
        made.ask(protocol.End(name="theirs", uid=uid, wait_seconds=600), Summary)
        made.plan("copy", f" stage_in={source}:x", uid=uid)
        failed = refusal(made, protocol.StageIn(name="copy", uid=uid, wait_seconds=600))
        assert "Permission denied" in failed.message
        log = made.control / "private.darshan"
        log.write_bytes(next(LOGS.glob("sample-goodost*.darshan")).read_bytes())
        log.chmod(0o600)
        refused = refusal(made, protocol.Plan(uid=uid, script=script(), log=str(log)), Planned)
        assert refused.code == "invalid" and str(log) in refused.message
        log.chmod(0o644)
        assert made.ask(protocol.Plan(uid=uid, script=script(), log=str(log)), Planned).deployment
        # A second user's trouble with a node makes it everybody's.
        for number, name in ((0, "a"), (uid, "b")):
            made.hold("bad-n1")
            made.ask(protocol.Plan(uid=number, name=name, script=script(), identity=IDENTITY), Planned)
            made.ask(protocol.Setup(uid=number, name=name, nodes=("n1",)), Summary)
            made.until(name, "failed", uid=number)
        assert "n1" in made.ask(protocol.Pools(), PoolList).quarantined


def test_nobody_keeps_others_out(running: Planner) -> None:
    uid = nobody()
    program = interpreter(uid)
    question = (
        "import socket, sys\nopen_ = []\nwhile True:\n"
        "    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(60)\n"
        '    s.sendall(b\'{"request":"ping"}\\n\'); line = s.recv(4096)\n'
        "    if b'busy' in line: print(len(open_)); sys.exit()\n"
        "    open_.append(s)\n"
    )
    answer = subprocess.run(
        [program, "-c", question, str(running.socket)], user=uid, group=uid, extra_groups=(), text=True, cwd="/",
        capture_output=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    assert int(answer.stdout) == 64
    running.ask(protocol.Ping(), protocol.Hello)


def test_one_planner_a_state_and_a_socket(running: Planner) -> None:
    assert "another planner uses" in Planner(running.folder, running.options).refused()
    other = ("--steps", "planner_steps", "--database", f"sqlite:///{running.folder}/other.db")
    assert "listens on" in Planner(running.folder, other).refused()
    running.ask(protocol.Ping(), protocol.Hello)


def test_bad_choices_are_refused_before_anything_starts(folder: Path) -> None:
    with planner(folder, "--steps", "no_such_module") as made:
        assert "no_such_module" in made.refused()
        (folder / "site.toml").write_text("nodes = 3")
        assert "no resource model" in Planner(folder, ("--steps", "planner_steps")).refused()
        (folder / "state").chmod(0o777)
        assert "can be changed by other users" in Planner(folder, ("--steps", "planner_steps")).refused()
        assert not made.socket.exists()


def test_a_store_of_weir_lives_through_the_planner(folder: Path) -> None:
    """The real steps: servers, a mount, verified copies, and a planner that is killed while they stay."""
    with planner(folder, "--reach", "local") as made:
        made.start()
        source, target = made.control / "input", made.control / "output"
        source.mkdir()
        (source / "data").write_bytes(os.urandom(100_000))
        made.plan("weir-job", f" stage_in={source}:in stage_out=out:{target}", job="4")
        made.ask(protocol.StageIn(name="weir-job", wait_seconds=600), Summary)
        made.kill()
        made.start()
        found = made.ask(protocol.GetEnvironment(name="weir-job", wait_seconds=600), Variables)
        point = found.environment["WEIR_MOUNT"]
        command = f"mkdir {point}/out && cp {point}/in/data {point}/out/copy"
        subprocess.run(["sh", "-c", command], env={**os.environ, **found.environment}, timeout=600, check=True)
        assert "not staged out" in refusal(made, protocol.Teardown(name="weir-job")).message
        made.ask(protocol.StageOut(name="weir-job", wait_seconds=600), Summary)
        assert (target / "copy").read_bytes() == (source / "data").read_bytes()
        made.ask(protocol.Teardown(name="weir-job", wait_seconds=600), Summary)
        assert made.state("weir-job") == "ended"
        assert not list((folder / "devices").glob("*/*"))


def test_commands_list_show_and_end_deployments(running: Planner) -> None:
    running.plan("job-1", job="12")

    def weir(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weir.cli", "deployments", "--socket", str(running.socket), *arguments]
        environment = {**os.environ, "PYTHONPATH": python_path()}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)

    assert "job-1" in weir("list").stdout
    (listed,) = json.loads(weir("list", "--output", "json").stdout)
    assert listed["state"] == "planned" and listed["job"] == "12"
    shown = json.loads(weir("show", "job-1", "--output", "json").stdout)
    assert shown["deployment"]["name"] == "job-1"
    assert "planned" in weir("show", "job-1").stdout
    assert "ended" in weir("end", "job-1").stdout
    missing = weir("show", "no-such")
    assert missing.returncode == 1 and "hint:" in missing.stderr
    running.stop()
    assert "no planner answers" in weir("list").stderr


def _json(of: object) -> bytes:
    import msgspec

    return msgspec.json.encode(of)
