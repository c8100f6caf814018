"""`weir health`: each code is provoked for real on a store, and goes when its cause is gone."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from lost_folders import moved_away
from resident import planner
from store import Store, kill, program
from waits import PATIENCE_SECONDS, wait_until
from weir import distribution
from weir.health import CODES, Finding, findings, gather, judge, upkeep
from weir.planner import protocol
from weir.planner.errors import PlannerError
from weir.store.access import servers_at
from weir.store.answers import LeasedJob
from weir.store.home import Home

PREFIX = ("run", "--prefix", "/weir", "--")
PATIENT = ("--within", "600")
"""A busy machine takes its time."""
WRITES = """
import itertools, pathlib
for number in itertools.count():
    try:
        pathlib.Path(f"/weir/{number % 64}").write_bytes(bytes(4096))
    except OSError:
        pass
"""
GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/health.md"


def known(store: Store) -> dict[tuple[str, str], Finding]:
    """The findings by code and object."""
    return {(each.code, each.object): each for each in findings(Home(store.home), seconds=PATIENCE_SECONDS)}


def await_finding(store: Store, code: str, subject: str) -> Finding:
    wait_until(f"{code} of {subject} is found", lambda: (code, subject) in known(store))
    return known(store)[code, subject]


def await_end(store: Store, code: str) -> None:
    wait_until(f"{code} is found no more", lambda: not any(found == code for found, _ in known(store)))


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def durable(store: Store, servers: int = 1) -> None:
    store.up(mount=False, servers=servers, targets=1, backend="dir")


def test_a_store_with_nothing_wrong(store: Store) -> None:
    durable(store)
    assert store.json("health", *PATIENT) == []
    assert store.weir("health", *PATIENT).stdout == "nothing is wrong\n"


def test_a_store_in_memory_is_a_notice(store: Store) -> None:
    store.up(mount=False, servers=1, targets=1, capacity="16MiB")
    [finding] = store.json("health", *PATIENT, code=0)
    assert (finding["code"], finding["level"], finding["object"]) == ("keeps-nothing", "notice", "store")


def test_a_server_that_was_killed(store: Store) -> None:
    durable(store, servers=2)
    wait_until(
        "server 0 knows server 1", lambda: servers_at(Home(store.home))[0].status().peers[0].age_seconds is not None
    )
    before = time.time()
    kill(store.server_pids()[1])
    [finding] = [each for each in store.json("health", *PATIENT, code=1) if each["code"] == "server-down"]
    assert finding["object"] == "server 1"
    assert "its process has ended" in finding["cause"]
    assert before - PATIENCE_SECONDS < finding["since"] <= time.time()
    assert finding["mend"] == "weir up"
    shown = store.weir("health", code=1).stdout
    assert shown.startswith("LEVEL")
    assert "\nserver-down: " in shown
    store.weir("up", "--no-mount")
    await_end(store, "server-down")


def test_servers_that_hang_are_told_within_the_bound(store: Store) -> None:
    durable(store, servers=3)
    with stopped(list(store.server_pids().values())[1:]):
        facts = gather(Home(store.home), 10.0)
        answer = store.weir("health", "--within", "10", code=1)
    silent = [each for each in judge(facts) if each.code == "server-silent"]
    assert [each.object for each in silent] == ["server 1", "server 2"]
    assert all("its process runs, and hangs" in each.cause for each in silent)
    assert all(each.mend == f"weir logs {number}" for number, each in enumerate(silent, start=1))
    assert "server-silent" in answer.stdout
    await_end(store, "server-silent")


def test_a_stranger_at_the_port_of_a_server(store: Store) -> None:
    durable(store)
    [server] = servers_at(Home(store.home))
    kill(store.server_pids()[0])
    host, _, port = server.control.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        command = [*program(), "health", *PATIENT, "--output", "json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=store.variables()) as asking:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + bytes(200))
                said = json.loads(asking.communicate(timeout=PATIENCE_SECONDS)[0])
        assert asking.returncode == 1
    [finding] = said
    assert (finding["code"], finding["mend"]) == ("server-unproven", f"ss -ltnp 'sport = :{port}'")
    [finding] = store.json("health", *PATIENT, code=1)
    assert finding["code"] == "server-down"
    assert "its process has ended" in finding["cause"]


def test_a_folder_that_is_refused(store: Store) -> None:
    durable(store, servers=2)
    kill(store.server_pids()[1])
    with moved_away(store.home / "servers/1/target-0"):
        store.weir("up", "--no-mount", code=1)
        finding = known(store)["identity-refused", "server 1"]
        assert "target 1.0 is refused: " in finding.cause
        assert ("server-down", "server 1") not in known(store)
    store.weir("up", "--no-mount")
    assert not known(store)


def test_a_target_whose_folder_is_gone(store: Store) -> None:
    store.up(mount=False, servers=1, targets=2, backend="dir")
    before = time.time()
    with moved_away(store.home / "servers/0/target-0"):
        finding = await_finding(store, "target-absent", "target 0.0")
        assert finding.since is not None
        assert before - 1 <= finding.since <= time.time()
        assert not any(code in ("target-full", "store-full") for code, _ in known(store))
    await_end(store, "target-absent")


def test_a_journal_that_is_gone(store: Store) -> None:
    durable(store)
    with moved_away(store.home / "servers/0/journal"):
        finding = await_finding(store, "journal-stopped", "server 0")
        assert "EROFS" in finding.cause
        assert finding.since is not None
    await_end(store, "journal-stopped")


def test_targets_that_fill_up(store: Store) -> None:
    store.up(mount=False, servers=1, targets=2, capacity="32MiB")
    store.weir(*PREFIX, "sh", "-c", "mkdir /weir/one && head -c 60M /dev/zero >/weir/one/file")
    first = await_finding(store, "target-filling", next(each.object for each in _filling(store)))
    assert "it holds 30.0 MiB of 32.0 MiB" in first.cause
    assert store.weir("health", code=3).stdout
    before = time.time()
    store.weir(*PREFIX, "sh", "-c", "head -c 64M /dev/zero >>/weir/one/file", code=1)
    finding = await_finding(store, "store-full", "store")
    assert "all 2 targets" in finding.cause
    assert finding.since is not None
    assert before - 1 <= finding.since <= time.time()
    assert ("target-full", first.object) in known(store)
    log = (store.home / "servers/0/log").read_text()
    assert all(log.count(f"target 0.{number} is full: ") == 1 for number in range(2)), log
    store.weir(*PREFIX, "rm", "/weir/one/file")
    await_end(store, "target-full")
    assert not any(code == "store-full" for code, _ in known(store))
    log = (store.home / "servers/0/log").read_text()
    assert all(f"target 0.{number} has room again" in log for number in range(2)), log


def _filling(store: Store) -> list[Finding]:
    found: list[Finding] = []

    def fills() -> bool:
        found[:] = [each for (code, _), each in known(store).items() if code == "target-filling"]
        return bool(found)

    wait_until("a target fills", fills)
    return found


def test_a_target_that_is_slow(store: Store) -> None:
    store.up(mount=False, targets=4, capacity="64MiB", write_speed="100MB/s")
    store.weir("targets", "set", "0.2", "--bandwidth", "2MB/s")
    write = "for i in $(seq 40); do head -c 65536 /dev/zero >/weir/folder/$i; done"
    store.weir(*PREFIX, "sh", "-c", f"mkdir /weir/folder && {write}")
    finding = await_finding(store, "target-slow", "target 0.2")
    assert finding.since is not None
    assert "it achieves " in finding.cause


def test_targets_and_servers_that_retire(store: Store) -> None:
    durable(store, servers=3)
    servers = servers_at(Home(store.home))
    servers[0].set_target_state("0.0", "retiring")
    finding = await_finding(store, "target-retiring", "target 0.0")
    assert (finding.level, finding.mend) == ("notice", "weir target retire 0.0")
    servers[1].set_state("retiring")
    await_finding(store, "server-retiring", "server 1")
    servers[0].set_target_state("0.0", "open")
    servers[1].set_state("open")
    await_end(store, "target-retiring")


def test_quotas_that_are_near_and_reached(store: Store) -> None:
    durable(store)
    store.weir("quota", "set", "--user", "54321", "--inodes", "10")
    make = (
        "sh",
        "-c",
        "mkdir /weir/own && for i in $(seq 9); do touch /weir/own/$i; done; chown -R 54321 /weir/own/[1-9]",
    )
    store.weir(*PREFIX, *make)
    finding = await_finding(store, "quota-near", "user 54321")
    assert finding.cause == "it has 9 of 10 inodes"
    assert finding.mend == "weir quota set --user 54321 --inodes 20"
    store.weir(*finding.mend.split()[1:])
    assert not known(store)
    store.weir("quota", "set", "--user", "54321", "--inodes", "9")
    assert ("quota-reached", "user 54321") in known(store)


def test_a_lease_in_force(store: Store) -> None:
    durable(store)
    [server] = servers_at(Home(store.home))
    server.set_lease("job-fair", [LeasedJob("writer", 1, weight=2.0)], 60.0)
    finding = known(store)["lease-in-force", "server 0"]
    assert "job-fair" in finding.cause
    assert "terms of 1 jobs" in finding.cause
    server.set_lease(None, [], 0.0)
    assert not known(store)


def test_a_credential_that_ends_soon(store: Store) -> None:
    durable(store)
    document = store.json("grant", "--uid", "54321", "--gid", "54321", "--job", "render", "--hours", "1")
    finding = known(store)["credential-ending", "credential uid-54321.json"]
    assert document["credential"] in finding.cause
    assert finding.mend == "weir grant --uid 54321 --job render"


def test_a_server_of_another_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    durable(store)
    monkeypatch.setattr(distribution, "version", lambda: "99.0")
    finding = known(store)["version-differs", "server 0"]
    assert "99.0" in finding.cause


def test_names_that_fill_their_memory(store: Store) -> None:
    file = store.root / "cluster.toml"
    file.write_text('version = 1\nnamespace_memory = "1MiB"\n[[server]]\n[[server.target]]\nbackend = "dir"\n')
    store.up(file, mount=False)
    store.weir(*PREFIX, "sh", "-c", "mkdir /weir/many && cd /weir/many && touch $(seq 20000)", code=None)
    finding = next(each for (code, _), each in known(store).items() if code.startswith("names-"))
    assert "of 1.0 MiB" in finding.cause


def test_a_mount_whose_program_ended(store: Store, fuse: None) -> None:
    store.up(servers=1, targets=1, backend="dir")
    [record] = (store.home / "mounts").glob("*.pid")
    kill(int(record.read_text().split()[0]))
    finding = known(store)["mount-lost", f"mount {store.mount}"]
    assert finding.mend == "weir up"
    store.weir("up")
    assert not known(store)


def test_a_job_that_waits_for_a_server_that_hangs(store: Store) -> None:
    durable(store, servers=2)
    command = [*program(), "run", "--job", "writer", *PREFIX[1:], "python3", "-c", WRITES]
    patient = store.variables(WEIR_TIMEOUT_SECONDS=str(PATIENCE_SECONDS))
    with subprocess.Popen(command, env=patient, start_new_session=True) as job:
        try:
            wait_until("the job writes", lambda: any(each["bytes_written"] for each in store.json("jobs")))
            with stopped([store.server_pids()[1]]):
                wait_until("the job is found", lambda: bool(blocked(store)))
                shown = store.weir("jobs", code=1)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert "FINDING" in shown.stdout
    assert "[server-silent]" in shown.stderr


def blocked(store: Store) -> list[Finding]:
    """The jobs that stand still beside a server that hangs."""
    found = [each for each in findings(Home(store.home), seconds=2.0) if each.code == "job-blocked"]
    assert all("server 1 does not answer" in each.cause for each in found)
    return [each for each in found if each.object.startswith("job writer of ")]


def test_a_planner_that_hangs_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took connections and gave no answer, and the look at the store ended without a word about it."""
    place = tmp_path / "planner.sock"
    monkeypatch.setenv("WEIR_PLANNER", str(place))
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(place))
        hanging.listen()
        facts = upkeep.planner(0.5)
    assert facts is not None
    assert facts.silence is not None
    assert "went away" in facts.silence


def test_a_planner_that_died_and_a_deployment_that_failed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    durable(store)
    folder = Path("/tmp") / f"weir-health-{os.getpid()}"
    with planner(folder, "--steps", "planner_steps", "--replans", "0", nodes=("n1",)) as made:
        made.start()
        monkeypatch.setenv("WEIR_PLANNER", str(made.socket))
        made.plan("job")
        made.hold("bad-n1")
        with pytest.raises(PlannerError):
            made.ask(protocol.Setup(name="job", wait_seconds=600), protocol.Summary)
        finding = known(store)["deployment-failed", "deployment job"]
        assert "n1 does not answer" in finding.cause
        assert finding.mend == "weir deployments show job"
        made.kill()
        assert ("planner-silent", "planner") in known(store)


def test_no_store_is_up(store: Store) -> None:
    answer = store.weir("health", code=1)
    assert "no store is up" in answer.stderr


def test_the_guide_has_every_code() -> None:
    rows = [line.strip("|").split("|") for line in GUIDE.read_text().splitlines() if line.startswith("| `")]
    listed = {cells[0].strip().strip("`"): [cell.strip() for cell in cells[1:]] for cells in rows}
    wanted = {name: [code.level, code.meaning, code.risk, f"`{code.mend}`"] for name, code in CODES.items()}
    assert {name: cells for name, cells in listed.items() if name in wanted} == wanted
