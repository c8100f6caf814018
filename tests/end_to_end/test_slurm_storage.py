"""Storage of jobs under Slurm: asked for by `#WEIR` lines, set up, filled, used, emptied and ended by real daemons."""

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import slurm
import slurm_storage
from slurm_storage import Site
from waits import wait_until
from weir import _core
from weir.planner import protocol

pytestmark = pytest.mark.skipif(bool(slurm_storage.missing()), reason=slurm_storage.missing())

ENDED = ("COMPLETED", "FAILED", "CANCELLED")
SHOUT = 'mkdir "$WEIR_MOUNT/results"; tr a-z A-Z <"$WEIR_MOUNT/input/words" >"$WEIR_MOUNT/results/words"'


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with slurm_storage.site() as site:
        yield site
        assert "Fatal" not in (site.root / "planner.log").read_text()


@pytest.fixture
def project(site: Site) -> Path:
    """The user's folder, with input for a job."""
    shutil.rmtree(site.project / "results", ignore_errors=True)
    (site.project / "input").mkdir(exist_ok=True)
    (site.project / "input" / "words").write_text("the quick brown fox\n")
    return site.project


def directives(site: Site, *further: str) -> list[str]:
    return [
        f"#WEIR size=64MiB trace={site.project}/past.darshan",
        f"#WEIR stage_in={site.project}/input:input",
        *(f"#WEIR {each}" for each in further),
    ]


def left_of(site: Site, number: str) -> list[str]:
    """Processes and mounts of a job's deployment."""
    name = f"{site.root}/state/users/{site.uid}/slurm-{number}/"
    found = [line for line in Path("/proc/mounts").read_text().splitlines() if name in line]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if name in command:
            found.append(command)
    return found


def await_end(site: Site, number: str) -> None:
    """Wait until nothing of a job's storage is left."""
    site.await_planner(number, "ended")
    assert left_of(site, number) == []


def begin_storage(site: Site, number: str, job: str, lines: list[str]) -> None:
    """Have the planner set storage up as the plugin does, until the job could run."""
    name, script = f"slurm-{number}", "\n".join(["#!/bin/bash", *lines, "true", ""])
    site.ask(protocol.Plan(uid=site.uid, name=name, job=job, script=script), protocol.Planned)
    site.ask(protocol.GetEnvironment(uid=site.uid, name=name), protocol.Variables)
    site.await_planner(number, "running")


def hold(site: Site, file: Path) -> str:
    """Submit a job that takes the node until a file is there."""
    number = site.submit(f"until [ -e {file} ]; do sleep 0.1; done", options=("--exclusive", "--time=10"))
    site.await_state(number, "RUNNING")
    return number


def test_a_job_has_a_store_with_its_input_and_leaves_its_output(site: Site, project: Path) -> None:
    number = site.submit(
        *directives(site, f"stage_out=results:{project}/results"),
        "set -e",
        SHOUT,
        'stat --file-system --format=%T "$WEIR_MOUNT"',
        'cat "$WEIR_CREDENTIAL"',
        # A name can hold whatever Slurm's own words for a user and a number of nodes look like.
        options=("--job-name=x UserId=root(0) NumNodes=4",),
    )
    job = site.await_state(number, *ENDED)
    assert job["JobState"] == "COMPLETED", job["text"] + site.output(number)
    assert (project / "results" / "words").read_text() == "THE QUICK BROWN FOX\n"
    assert (project / "results" / "words").stat().st_uid == site.uid
    mounted, credential = site.output(number).split("\n", 1)
    assert mounted == "fuseblk"
    claims = _core.claims_of_credential(credential)
    assert (claims["uid"], claims["nodes"], claims["job"]) == (site.uid, 1, number)
    await_end(site, number)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#WEIR size=5GB", "4.7 GiB are more than this site has of any class of devices: ssd has the most, 4.0 GiB"),
        ("#WEIR size=1GB replicas=2", "no storage of this site has 2 copies of each byte"),
        ("#WEIR durable=true", "nothing is known of this job"),
        ("#WEIR size=1GB stage_out=results:/out#7", "sbatch cuts `stage_out=results:/out#7` at `#`"),
        ("  #WEIR size=1GB", "no line of directives"),
        ("\N{BOM}#WEIR size=1GB", "below which it reads no options"),
        ("#WEIR polcy=performance", "did you mean `policy`?"),
        ("#WEIR size=lots", "size=lots"),
        ("#WEIR capacity=1GB", "Burst Buffer request invalid"),
        ("#WEIR uid=0 size=1GB", "no directive `uid`"),
        ("#WEIR nodes=4000 size=1GB", "no directive `nodes`"),
        ("#WEIR stage_in=input:input", "no absolute path"),
    ],
)
def test_a_bad_line_is_refused_at_submission(site: Site, project: Path, line: str, words: str) -> None:
    refusal = site.submit(line, "true", code=1)
    assert words in refusal, refusal


@pytest.mark.parametrize("before", ["  # indented", "\f", "# a\fb", " \t", "# \x85 \N{LINE SEPARATOR}", "# \N{BOM}"])
def test_directives_are_found_where_sbatch_finds_options(site: Site, project: Path, before: str) -> None:
    """Slurm's own reader of directives stops at some of these lines. A size is all that a job needs."""
    lines = [before, f"#WEIR size=200MB stage_out=results:{project}/results", 'mkdir "$WEIR_MOUNT/results"']
    number = site.submit(*lines, 'df --output=size -BM "$WEIR_MOUNT" | tail -1')
    job = site.await_state(number, *ENDED)
    assert job["JobState"] == "COMPLETED", job["text"]
    assert site.output(number).strip() == "191M"
    assert (project / "results").is_dir()
    await_end(site, number)


def test_a_setup_that_slurm_begins_again_finds_its_own_storage(site: Site, project: Path) -> None:
    """A slurmctld that was killed sets up again. The storage is most of the site, so a second plan could not be made."""
    go = site.root / "go-again"
    hold(site, go)
    number = site.submit(f"#WEIR size=3GB stage_in={project}/input:input", "true", options=("--time=5",))
    site.await_planner(number, "running")
    script = f"{site.root}/slurm/state/hash.{int(number) % 10}/job.{number}/script"
    for _ in range(2):
        code, words = site.plugin("slurm_bb_setup", number, str(site.uid), str(site.uid), "", "0", script)
        assert (code, words.split()[0]) == ("0", "running")
        assert site.plugin("slurm_bb_data_in", number, script)[0] == "0"
    go.touch()
    assert site.await_state(number, *ENDED)["JobState"] == "COMPLETED"
    await_end(site, number)


def test_a_job_whose_slurmctld_was_killed_has_its_storage_set_up() -> None:
    """The planner is held until Slurm has written down that the storage is being filled."""
    with slurm_storage.site() as site:
        saved = site.root / "slurm" / "state" / "burst_buffer_lua_state"
        (site.project / "words").write_text("the quick brown fox\n")
        number = site.submit(f"#WEIR size=3GB stage_in={site.project}/words:words", 'cat "$WEIR_MOUNT/words"')
        with ExitStack() as held, ExitStack() as ends:
            held.enter_context(site.held_planner())
            name = number.encode() + b"\0"
            wait_until("Slurm has saved its state", lambda: saved.exists() and name in saved.read_bytes())
            variables = {**site.environment, "WEIR_PLANNER": str(site.socket)}
            ends.enter_context(slurm.restarted(site.root / "slurm", variables))
            held.close()
            job = site.await_state(number, *ENDED)
            assert job["JobState"] == "COMPLETED", job["text"]
            assert site.output(number) == "the quick brown fox\n"
            await_end(site, number)


def test_a_job_without_directives_is_no_concern_of_the_planner(site: Site, project: Path) -> None:
    number = site.submit("true")
    assert site.await_state(number, *ENDED)["JobState"] == "COMPLETED"
    assert site.deployment(number)["state"] == "none"


def test_what_cannot_be_staged_in_holds_the_job_and_leaves_nothing(site: Site, project: Path) -> None:
    number = site.submit(*directives(site, f"stage_in={project}/absent:absent"), "true")
    wait_until("the job is held", lambda: "data_in" in site.job(number)["text"])
    assert f"{project}/absent" in site.job(number)["text"]
    await_end(site, number)
    # The job goes on once its user has mended it.
    (project / "absent").mkdir()
    wait_until("its storage is gone for Slurm, too", lambda: "BurstBufferState=complete" in site.job(number)["text"])
    assert "denied" in site.run("scontrol", "release", number, as_user=True, code=None).stderr
    release = ("job", "release", number, "--socket", str(site.socket))
    # What an administrator holds stays held.
    site.run("scontrol", "hold", number)
    assert "JobHeldAdmin" in site.weir(*release, code=1).stderr
    (project / "absent").rmdir()
    site.run("scontrol", "release", number)
    wait_until("the job is held again", lambda: site.job(number)["Priority"] == "0")
    (project / "absent").mkdir()
    assert "is released" in site.weir(*release).stderr
    assert site.await_state(number, *ENDED)["JobState"] == "COMPLETED"
    await_end(site, number)
    assert "there is no job" in site.weir("job", "release", "999999", "--socket", str(site.socket), code=1).stderr


def test_a_planner_that_is_killed_loses_no_deployment(site: Site, project: Path) -> None:
    """It is killed twice: in the midst of a stage-in, and before the job starts, which then runs without it."""
    for index in range(300):
        (project / "input" / f"file-{index}").write_text("x" * 1000)
    go = site.root / "go"
    hold(site, go)
    number = site.submit(*directives(site, f"stage_out=results:{project}/results"), SHOUT, options=("--time=5",))
    site.await_planner(number, "starting", "started", "staging-in", "ready", "running")
    site.kill_planner()
    site.start_planner()
    site.await_planner(number, "running")
    wait_until("Slurm knows, too", lambda: "BurstBufferState=staged-in" in site.job(number)["text"])
    site.kill_planner()
    go.touch()
    wait_until("the job has run", lambda: site.job(number)["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING"))
    site.start_planner()
    job = site.await_state(number, *ENDED)
    assert job["JobState"] == "COMPLETED", job["text"]
    assert (project / "results" / "words").read_text() == "THE QUICK BROWN FOX\n"
    await_end(site, number)


def test_a_job_that_is_cancelled_in_the_queue_is_torn_down(site: Site, project: Path) -> None:
    go = site.root / "go-too"
    hold(site, go)
    number = site.submit(*directives(site), "true", options=("--time=5",))
    site.await_planner(number, "running")
    site.run("scancel", number, as_user=True)
    site.await_state(number, "CANCELLED")
    await_end(site, number)
    go.touch()


def test_storage_whose_job_is_over_ends_without_slurm(site: Site, project: Path) -> None:
    """Slurm can lose the teardown of a job. It knows nothing of the jobs of two stores, and of a third that it waits."""
    go = site.root / "go-on"
    hold(site, go)
    waiting = site.submit(*directives(site), "true", options=("--time=5",))
    site.await_planner(waiting, "running")
    lost, kept, own = "99999999", "99999998", "of-mine"
    begin_storage(site, lost, lost, directives(site))
    begin_storage(site, kept, kept, directives(site, f"stage_out=results:{project}/results"))
    begin_storage(site, own, "", directives(site))
    site.end_planner()
    site.start_planner("--orphan=1s")
    await_end(site, lost)
    stays = f"slurm-{kept} of user {site.uid} stays"
    wait_until("output is kept", lambda: stays in (site.root / "planner.log").read_text())
    assert [site.deployment(each)["state"] for each in (kept, own, waiting)] == ["running"] * 3
    for each in (kept, own):
        end = protocol.End(uid=site.uid, name=f"slurm-{each}", discard=True)
        site.ask(end, protocol.Summary)
        await_end(site, each)
    go.touch()
    assert site.await_state(waiting, *ENDED)["JobState"] == "COMPLETED"
    await_end(site, waiting)
    site.end_planner()
    site.start_planner()


def test_a_job_that_is_cancelled_while_it_runs_leaves_its_output(site: Site, project: Path) -> None:
    number = site.submit(
        *directives(site, f"stage_out=results:{project}/results"),
        SHOUT,
        f"touch {project}/ran-$SLURM_JOB_ID",
        "sleep 600",
    )
    wait_until("it has written", (project / f"ran-{number}").exists)
    site.run("scancel", number, as_user=True)
    site.await_state(number, "CANCELLED")
    assert (project / "results" / "words").read_text() == "THE QUICK BROWN FOX\n"
    await_end(site, number)


def test_a_job_that_is_cancelled_in_a_hurry_leaves_nothing(site: Site, project: Path) -> None:
    number = site.submit(
        *directives(site, f"stage_out=results:{project}/results"), f"touch {project}/ran-$SLURM_JOB_ID", "sleep 600"
    )
    wait_until("it runs", (project / f"ran-{number}").exists)
    site.run("scancel", "--hurry", number, as_user=True)
    site.await_state(number, "CANCELLED")
    await_end(site, number)


def test_output_that_cannot_be_staged_out_is_kept_and_its_place_told(site: Site, project: Path) -> None:
    closed = site.root / "closed"
    closed.mkdir()
    number = site.submit(*directives(site, f"stage_out=results:{closed}/results"), SHOUT)
    job = site.await_state(number, *ENDED)
    site.await_planner(number, "failed")
    place = site.root / "state" / "users" / str(site.uid) / f"slurm-{number}"
    assert "Permission denied" in job["text"]
    assert f"the output is kept in {place}/home/mnt" in job["text"], job["text"]
    kept = site.run("cat", f"{place}/home/mnt/results/words", as_user=True)
    assert kept.stdout == "THE QUICK BROWN FOX\n"
    # Slurm's teardown, as often as it likes, loses nothing.
    for _ in range(2):
        code, words = site.plugin("slurm_bb_job_teardown", number, f"{site.root}/slurm/state/none", "false")
        assert code == "0"
        assert f"slurm-{number}" in words
    assert site.run("cat", f"{place}/home/mnt/results/words", as_user=True).stdout == kept.stdout
    # The user mends the place, and the output comes out.
    closed.chmod(0o1777)
    code, words = site.plugin("slurm_bb_data_out", number, f"{site.root}/slurm/state/none")
    assert code == "0", words
    assert (closed / "results" / "words").read_text() == kept.stdout
    for _ in range(2):
        assert site.plugin("slurm_bb_job_teardown", number, f"{site.root}/slurm/state/none", "false")[0] == "0"
    await_end(site, number)


def test_a_teardown_of_nothing_is_done(site: Site, project: Path) -> None:
    number = site.submit("true")
    site.await_state(number, *ENDED)
    for hurry in ("true", "false"):
        assert site.plugin("slurm_bb_job_teardown", number, f"{site.root}/slurm/state/none", hurry)[0] == "0"


def test_slurm_goes_on_where_the_planner_does_not_answer(site: Site, project: Path) -> None:
    """A planner that hangs holds nobody: jobs with directives are refused in words, and others run."""
    site.end_planner()
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(site.socket))
        hung.listen()
        try:
            refusal = site.submit("#WEIR size=1GB", "true", code=1)
            assert "does not answer" in refusal, refusal
            assert site.await_state(site.submit("true"), *ENDED)["JobState"] == "COMPLETED"
        finally:
            site.socket.unlink()
            site.start_planner()


def test_pools_are_shown(site: Site) -> None:
    code, words = site.plugin("slurm_bb_pools")
    assert code == "0"
    assert [pool["id"] for pool in json.loads(words)["pools"]] == ["ssd"]
    assert "ssd" in site.run("scontrol", "show", "bbstat").stdout
    # Slurm asks for the pools each half minute.
    shown = "PoolName[0]=ssd Granularity=1MiB TotalSpace=4GiB"
    wait_until("Slurm shows the pools", lambda: shown in site.run("scontrol", "show", "burst").stdout)
